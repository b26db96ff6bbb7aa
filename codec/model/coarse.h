/* Every step-th value of each dimension of a chunk, without the rest of it. The
 * finest levels of a spline's domain are left out: what the others fill is the
 * lattice of some stride, a power of two, in C order. That lattice is a chunk
 * whose levels are the ones that are not left out, one number lower for each
 * that is; so whatever decodes a chunk decodes it too. */
#pragma once

#include "codec/format/frame.h"
#include "codec/format/layout.h"

TERP_C_BEGIN

/* What is decoded, and which of that is wanted. */
struct terp_coarse {
    int nskipped;             /* the domain's finest levels */
    struct terp_chunk domain; /* what the others fill */
    uint64_t nvalues;         /* of that */
    /* It is an array of such dims, slowest first, of which every stride[i]-th
     * value is wanted, `count` of them. */
    int rank;
    uint64_t dims[TERP_MAX_RANK], stride[TERP_MAX_RANK], count[TERP_MAX_RANK];
    bool is_all; /* every value is wanted */
};

static inline bool
terp_step_is_valid(uint64_t step)
{
    return step != 0 && (step & (step - 1)) == 0;
}

/* The chunk of every step-th value. */
struct terp_chunk
terp_coarse_chunk_of(const struct terp_chunk *chunk, uint64_t step);

/* `step` is a power of two. */
void
terp_coarse_make(const struct terp_frame *frame, uint64_t step,
                 struct terp_coarse *coarse_ret);

/* ---- prefixes ---- */

/* Whether a stream's first bytes tell coarse values, so that its frame may have
 * a table of prefixes: it has levels, of more than one tile. */
bool
terp_may_have_prefixes(const struct terp_frame *frame);

/* Tiles that prefix i of such a stream has, of every value of the domain's
 * lattice whose stride is 2 << i. */
uint64_t
terp_prefix_ntiles(const struct terp_frame *frame, int i);

/* Which prefix tells every step-th value, a step above 1. */
static inline int
terp_prefix_number(uint64_t step)
{
    return step < 4 ? 0 : step < 8 ? 1 : 2;
}

/* The prefix that tells every step-th value, which has levels of its own; NULL:
 * it takes the whole stream. */
static inline const struct terp_prefix *
terp_prefix_of(const struct terp_frame *frame, uint64_t step)
{
    return frame->has_prefixes && step > 1
               ? &frame->prefix[terp_prefix_number(step)]
               : NULL;
}

/* Where a row of the lattice that is left, whose coordinates are `at`, begins
 * in the C order of all; its points are 2^nskipped apart. */
static inline TERP_HOST_DEVICE uint64_t
terp_coarse_row_begin(const struct terp_layout *whole, int nskipped,
                      uint64_t brick, const uint64_t at[TERP_NDIMS])
{
    uint64_t begin = brick;

    for (int d = TERP_NDIMS - 1; d > 0; d--)
        begin = begin * whole->dims[d] + (at[d] << nskipped);
    return begin * whole->dims[0];
}

/* Where value `i` of that lattice stands in the C order of all. */
static inline TERP_HOST_DEVICE uint64_t
terp_coarse_place(const struct terp_layout *whole,
                  const struct terp_layout *lattice, int nskipped, uint64_t i)
{
    uint64_t at[TERP_NDIMS];

    for (int d = 0; d < TERP_NDIMS; d++) {
        at[d] = i % lattice->dims[d];
        i /= lattice->dims[d];
    }
    return terp_coarse_row_begin(whole, nskipped, i, at) + (at[0] << nskipped);
}

/* How many values of the lattice stand before place `at` of that order. */
static inline TERP_HOST_DEVICE uint64_t
terp_coarse_nbefore(const struct terp_layout *whole,
                    const struct terp_layout *lattice, int nskipped,
                    uint64_t at)
{
    const uint64_t step = UINT64_C(1) << nskipped;
    uint64_t of_dim[TERP_NDIMS];
    bool is_on = true; /* by the slower dims the place is on the lattice */

    for (int d = 0; d < TERP_NDIMS; d++) {
        of_dim[d] = at % whole->dims[d];
        at /= whole->dims[d];
    }
    for (int d = TERP_NDIMS - 1; d >= 0; d--) {
        at = at * lattice->dims[d] + (is_on ? div_up(of_dim[d], step) : 0);
        is_on &= of_dim[d] % step == 0;
    }
    return at;
}

TERP_C_END

/* Decodes every step-th value of each dimension, without the rest of the chunk.
 * The decoder leaves out the finest levels of a spline's domain. The other
 * levels fill a lattice whose stride is a power of two, and give it in C order.
 * The lattice is itself a chunk: when k levels are left out, its level l is
 * level l + k of the domain. Code that decodes a chunk therefore decodes the
 * lattice. */
#pragma once

#include "codec/format/frame.h"
#include "codec/format/layout.h"

TERP_C_BEGIN

/* The decoded lattice, and the wanted values in it. */
struct terp_coarse {
    int nskipped;             /* number of the domain's finest levels left
                                 out */
    struct terp_chunk domain; /* the lattice that the other levels fill */
    uint64_t nvalues;         /* values of the lattice */
    /* The lattice as an array, slowest dim first. Along dimension i, `count[i]`
     * values are wanted, stride[i] apart. */
    int rank;
    uint64_t dims[TERP_MAX_RANK], stride[TERP_MAX_RANK], count[TERP_MAX_RANK];
    bool is_all; /* every value of the lattice is wanted */
};

static inline bool
terp_step_is_valid(uint64_t step)
{
    return step != 0 && (step & (step - 1)) == 0;
}

/* The chunk that every step-th value makes. */
struct terp_chunk
terp_coarse_chunk_of(const struct terp_chunk *chunk, uint64_t step);

/* `step` must be a power of two. */
void
terp_coarse_make(const struct terp_frame *frame, uint64_t step,
                 struct terp_coarse *coarse_ret);

/* ---- prefixes ---- */

/* Whether a prefix of a stream suffices to decode a coarse lattice, so that its
 * frame may have a table of prefixes: the stream must have levels, and more
 * than one tile. */
bool
terp_may_have_prefixes(const struct terp_frame *frame);

/* The number of tiles of prefix i, which holds the domain's lattice of stride 2
 * << i. */
uint64_t
terp_prefix_ntiles(const struct terp_frame *frame, int i);

/* The number of the prefix for a step above 1. */
static inline int
terp_prefix_number(uint64_t step)
{
    return step < 4 ? 0 : step < 8 ? 1 : 2;
}

/* The prefix that suffices for every step-th value; NULL: the whole stream is
 * needed. */
static inline const struct terp_prefix *
terp_prefix_of(const struct terp_frame *frame, uint64_t step)
{
    return frame->has_prefixes && step > 1
               ? &frame->prefix[terp_prefix_number(step)]
               : NULL;
}

/* The index, in the C order of the whole domain, at which a row of the lattice
 * begins. `at` are the row's coordinates in the lattice. Points of the row are
 * 2^nskipped apart. */
static inline TERP_HOST_DEVICE uint64_t
terp_coarse_row_begin(const struct terp_layout *whole, int nskipped,
                      uint64_t brick, const uint64_t at[TERP_NDIMS])
{
    uint64_t begin = brick;

    for (int d = TERP_NDIMS - 1; d > 0; d--)
        begin = begin * whole->dims[d] + (at[d] << nskipped);
    return begin * whole->dims[0];
}

/* The index of value `i` of the lattice in the C order of the whole domain. */
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

/* The number of values of the lattice before index `at` of that order. */
static inline TERP_HOST_DEVICE uint64_t
terp_coarse_nbefore(const struct terp_layout *whole,
                    const struct terp_layout *lattice, int nskipped,
                    uint64_t at)
{
    const uint64_t step = UINT64_C(1) << nskipped;
    uint64_t of_dim[TERP_NDIMS];
    bool is_on = true; /* the coordinates of slower dims are on the lattice */

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

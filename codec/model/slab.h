/* A part of a chunk on which a trial of a lossless stream is tried first, and
 * the rule that compares its size. doc/design/06-lossless.md, "Under bounds
 * above 0". */
#pragma once

#include "codec/model/bound.h"

TERP_C_BEGIN

/* Smaller chunks are not tried: a slab of them tells little. */
#define TERP_SLAB_MIN_NVALUES (1 << 16)

/* A slab holds at most this part of a chunk's values. */
#define TERP_SLAB_PART 32

/* Integers under a bound are tried where their stream takes at least so many
 * bits a value; smaller ones are hardly larger than lossless ones. Floats have
 * tests of their own (tight.h), and a slab would take a tenth of their time or
 * more. They are tried where no stream is smaller than the chunk. */
#define TERP_SLAB_MIN_NBITS 4

/* A slab of a chunk: whole slices along its first dimension. */
struct terp_slab {
    struct terp_chunk chunk;
    uint64_t at; /* index of its first value */
};

/* The slab in the middle of a chunk of at least TERP_SLAB_MIN_NVALUES. */
static inline struct terp_slab
terp_slab_of(const struct terp_chunk *chunk, uint64_t nvalues)
{
    struct terp_slab slab = {*chunk, 0};
    uint64_t inner = nvalues, count = 0;
    int d = 0;

    for (; count == 0; d++) {
        inner /= chunk->dims[d];
        count = min_u64(chunk->dims[d], nvalues / TERP_SLAB_PART / inner);
        slab.at += inner * ((chunk->dims[d] - count) / 2);
    }
    slab.chunk.stack = chunk->stack && d == 1 && count > 1;
    slab.chunk.rank = chunk->rank - d + 1;
    for (int i = 1; i < slab.chunk.rank; i++)
        slab.chunk.dims[i] = chunk->dims[d - 1 + i];
    for (int i = slab.chunk.rank; i < TERP_MAX_RANK; i++)
        slab.chunk.dims[i] = 0;
    slab.chunk.dims[0] = count;
    return slab;
}

/* Whether a slab is tried of a chunk whose stream under a bound takes `nbytes`;
 * 0: no stream is smaller than the chunk. */
static inline bool
terp_slab_is_worth(enum terp_type type, uint64_t nvalues, uint64_t nbytes)
{
    return nbytes == 0 || (terp_type_is_integer(type) &&
                           8 * nbytes >= nvalues * TERP_SLAB_MIN_NBITS);
}

/* Whether the lossless stream of a slab promises a smaller stream of all
 * values. */
static inline bool
terp_slab_is_smaller(uint64_t slab_nbytes, uint64_t slab_nvalues,
                     uint64_t nbytes, uint64_t nvalues)
{
    return slab_nbytes > 0 && slab_nbytes * (nvalues / slab_nvalues) < nbytes;
}

TERP_C_END

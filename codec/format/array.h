/* An array in host or device memory, and the chunks that it is divided into. */
#pragma once

#include "codec/format/base.h"

#define TERP_ARRAY_MAX_RANK 32

/* Chunks are numbered in C order. A chunk at the array's end may reach beyond
 * the array; positions beyond it hold `pad`. `value_nbytes`, the bytes of a
 * value, is a power of two up to 16, and `pad` is one value as memory holds it.
 * No dim is 0. Along dimension d, neighbouring values are `stride[d]` values
 * apart; the stride of the last dimension is 1. */
struct terp_array {
    int rank;
    uint32_t value_nbytes;
    uint64_t dims[TERP_ARRAY_MAX_RANK];
    uint64_t stride[TERP_ARRAY_MAX_RANK];
    uint64_t chunk[TERP_ARRAY_MAX_RANK];
    uint8_t pad[16];
};

/* Sets the strides of an array without gaps. */
static inline void
terp_array_make_dense(struct terp_array *array)
{
    uint64_t stride = 1;

    for (int d = array->rank - 1; d >= 0; d--) {
        array->stride[d] = stride;
        stride *= array->dims[d];
    }
}

/* Row `row` of chunk `chunk`: returns how many of its values lie in the array,
 * and sets *at_ret to the index of the first one. */
static inline TERP_HOST_DEVICE uint64_t
terp_array_row(const struct terp_array *array, uint64_t chunk, uint64_t row,
               uint64_t *at_ret)
{
    const int last = array->rank - 1;
    uint64_t at = 0, nvalues = 0;

    for (int d = last; d >= 0; d--) {
        uint64_t nchunks = div_up(array->dims[d], array->chunk[d]);
        uint64_t coordinate = chunk % nchunks * array->chunk[d];
        chunk /= nchunks;
        if (d == last) {
            nvalues = min_u64(array->chunk[d], array->dims[d] - coordinate);
        } else {
            coordinate += row % array->chunk[d];
            row /= array->chunk[d];
            if (coordinate >= array->dims[d])
                nvalues = 0;
        }
        at += coordinate * array->stride[d];
    }
    *at_ret = at;
    return nvalues;
}

static inline TERP_HOST_DEVICE uint64_t
terp_array_nchunks(const struct terp_array *array)
{
    uint64_t nchunks = 1;

    for (int d = 0; d < array->rank; d++)
        nchunks *= div_up(array->dims[d], array->chunk[d]);
    return nchunks;
}

/* Values of a chunk, including padding. */
static inline TERP_HOST_DEVICE uint64_t
terp_array_chunk_nvalues(const struct terp_array *array)
{
    uint64_t nvalues = 1;

    for (int d = 0; d < array->rank; d++)
        nvalues *= array->chunk[d];
    return nvalues;
}

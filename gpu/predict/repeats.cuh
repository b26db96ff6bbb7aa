/* Restores the values that streams leave out: values that refer to other
 * values, and copies. */
#pragma once

#include "codec/format/frame.h"
#include "gpu/block/warp.cuh"

/* Values in which a block counts markers: 256 threads of 8 values. */
#define CUDA_FOLLOW_NVALUES 2048

/* A chunk whose references are replaced by values. */
struct cuda_follow {
    const void *values; /* little-endian; a marker in place of each reference */
    const uint32_t *distances;
    const uint64_t *differences;
    void *dst;
    uint64_t marker, nreferences;
    uint64_t *nbefore; /* scratch: a number per CUDA_FOLLOW_NVALUES values */
    /* Starts as 0. Set if the numbers of markers and references differ, or a
     * reference has no source. */
    uint64_t is_bad;
};

/* The type of the values of all such chunks. */
struct cuda_follow_kind {
    uint64_t nvalues;
    int value_nbytes;
    bool is_float, big_endian; /* byte order of dst */
};

cudaError_t
cuda_references_follow(struct cuda_follow *d_follow, uint64_t n,
                       const struct cuda_follow_kind *kind,
                       cudaStream_t stream);

/* Addresses of values that are spread to a chunk with copies. Neighbours in a
 * row are `stride` apart in `from`. */
struct cuda_spread {
    const void *from;
    void *to;
};

/* dims: extents of the chunk, fastest first. stride: values between two
 * neighbours along each dimension in `from`; 0 where the chunk has copies. */
struct cuda_spread_shape {
    int value_nbytes;
    uint64_t dims[TERP_MAX_RANK], stride[TERP_MAX_RANK];
};

/* Values of a row that a warp copies at a time. */
#define CUDA_SPREAD_NVALUES 128

/* Calls copy(to, from) for each value of a shape: its number in C order, and
 * its number in `from`. All blocks of NWARPS warps of a grid's row call it
 * together. A warp takes pieces of rows in turns, a lane every 32nd value. */
template <unsigned NWARPS, typename Copy>
static __device__ __forceinline__ void
for_spread(const struct cuda_spread_shape &shape, Copy copy)
{
    const uint64_t row_npieces = div_up(shape.dims[0], CUDA_SPREAD_NVALUES);
    uint64_t npieces = row_npieces;

    for (int d = 1; d < TERP_MAX_RANK; d++)
        npieces *= shape.dims[d];
    for (uint64_t piece = warp_of_chunk<NWARPS>(); piece < npieces;
         piece += warps_of_chunk<NWARPS>()) {
        const uint64_t row = piece / row_npieces;
        const uint64_t begin = piece % row_npieces * CUDA_SPREAD_NVALUES;
        const uint64_t end =
            min_u64(begin + CUDA_SPREAD_NVALUES, shape.dims[0]);
        uint64_t left = row, at = 0;
        for (int d = 1; d < TERP_MAX_RANK; d++) {
            at += left % shape.dims[d] * shape.stride[d];
            left /= shape.dims[d];
        }
        for (uint64_t x = begin + threadIdx.x % 32; x < end; x += 32)
            copy(row * shape.dims[0] + x, at + x * shape.stride[0]);
    }
}

cudaError_t
cuda_copies_spread(const struct cuda_spread *d_spread, uint64_t n,
                   const struct cuda_spread_shape *shape, cudaStream_t stream);

/* Sets a bit of *d_differs for each dimension along which some value has other
 * bits than the value before it. Strides of the shape are not used. */
cudaError_t
cuda_copies_find(const void *values, const struct cuda_spread_shape *shape,
                 unsigned *d_differs, cudaStream_t stream);

/* Puts back what streams leave out: values that refer to others, and copies. */
#pragma once

#include "codec/format/frame.h"
#include "gpu/engine/platform.cuh"

/* Values of which a block counts those that refer. */
#define CUDA_FOLLOW_NVALUES 2048

/* A chunk whose references are to be followed. */
struct cuda_follow {
    const void *values; /* little-endian, and markers */
    const uint32_t *distances;
    const uint64_t *differences;
    void *dst;
    uint64_t marker, nreferences;
    uint64_t *ranks; /* scratch: of every CUDA_FOLLOW_NVALUES values one */
    uint64_t is_bad; /* starts with 0: markers are not as many as references,
                        or one has no source */
};

/* What values of such chunks are. */
struct cuda_follow_kind {
    uint64_t nvalues;
    int value_nbytes;
    bool is_float, big_endian; /* dst */
};

cudaError_t
cuda_references_follow(struct cuda_follow *d_follow, uint64_t n,
                       const struct cuda_follow_kind *kind,
                       cudaStream_t stream);

/* Values to be spread: those of every row come from places `stride` apart. */
struct cuda_spread {
    const void *from;
    void *to;
};

/* Dims of what they become, fastest first, and how far a step along each of
 * them leads: nowhere, where there are copies. */
struct cuda_spread_shape {
    int value_nbytes;
    uint64_t dims[TERP_MAX_RANK], stride[TERP_MAX_RANK];
};

cudaError_t
cuda_copies_spread(const struct cuda_spread *d_spread, uint64_t n,
                   const struct cuda_spread_shape *shape, cudaStream_t stream);

/* Sets a bit of *d_differs for each dimension along which some value has other
 * bits than the one before it. Of the shape strides do not matter. */
cudaError_t
cuda_copies_find(const void *values, const struct cuda_spread_shape *shape,
                 unsigned *d_differs, cudaStream_t stream);

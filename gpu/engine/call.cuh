/* A call of the engine: batches of chunks, one after another. */
#pragma once

#include "codec/engine.h"
#include "codec/model/domain.h"
#include "gpu/engine/context.cuh"

/* What an encoder's kernels say of a chunk's domain. */
struct cuda_found_domain {
    enum terp_domain_verdict verdict;
    struct terp_chunk domain;
    bool is_constant;
    bool asks_for_huffman; /* terp_asks_for_huffman */
    /* A flat chunk may have rows: what the search for them needs. */
    bool is_periodic;
    double min, max, step;
    uint64_t fills[TERP_NFILLS]; /* of what carries the chunk's values */
    enum cuda_form form;         /* the chunk asks for it */
    struct terp_pointwise how;   /* where that is another than its values */
    struct terp_carrier_head carrier; /* of integers */
    bool may_be_copies; /* along some dimension: cuda_copies_encode finds out */
    bool may_repeat;    /* cuda_references_encode finds out */
    bool may_be_lossless; /* in fewer bytes */
    double bound;         /* absolute */
    uint64_t nspecials;   /* of the values themselves */
};

/* What is to be done. */
struct cuda_call {
    const struct terp_chunk *chunk;
    const struct terp_chunk *domain;  /* NULL: the chunk */
    const struct terp_params *params; /* NULL: decode */
    /* Encode: before it became one of what carries the values, as `params`. */
    double caller_bound;
    /* As of cuda_batch. Unless chunks have their own bounds, those that are
     * given, or were found. */
    bool is_part;
    /* encode: no stream that holds others, and none without a loss where the
     * bound is above 0 */
    bool is_plain;
    enum cuda_bounds bounds_are;
    double *bounds;
    enum cuda_form form; /* chunks and streams of other ones are left */
    uint64_t nchunks;
    const void *const *src;
    const uint64_t *src_nbytes; /* decode */
    void *const *dst;
    uint64_t *dst_nbytes;            /* encode */
    struct cuda_found_domain *found; /* encode; NULL: not to be looked for */
    enum terp_status *status;        /* decode */
    uint64_t step;                   /* decode: as of terp_cuda_call */
    /* decode: all levels, though not all values are wanted: streams whose
     * predictions have no levels are refused otherwise */
    bool decodes_all;
    bool host;
    const struct terp_allocator *allocator; /* encode: as of terp_cuda_call */
    uint64_t batch_nchunks; /* at most; later, what there was memory for */
};

/* Codes all chunks, in as many batches as memory asks for. What it returns is
 * what the engine's calls do (codec/engine.h). */
enum terp_status
cuda_call_do(struct terp_cuda_device *device,
             const struct terp_cuda_call *where, struct cuda_call *call);

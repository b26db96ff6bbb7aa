/* Codes the chunks of one call, batch by batch. */
#pragma once

#include "codec/engine.h"
#include "codec/model/domain.h"
#include "gpu/engine/session.cuh"

/* Facts about a chunk from which the host chooses further attempts to encode
 * the chunk: other domains, codings or forms. */
struct cuda_found_domain {
    enum terp_domain_verdict verdict;
    struct terp_chunk domain;
    bool is_constant;
    bool is_raw;                    /* the chunk is stored */
    bool huffman_may_be_smaller;    /* see terp_huffman_may_be_smaller */
    bool lorenzo_may_be_smaller;    /* see terp_lorenzo_may_be_smaller */
    bool splines_may_be_smaller;    /* see terp_splines_may_be_smaller */
    struct cuda_chunk_facts device; /* as the device has found them */
    /* The search for the length of a row, in a chunk of one dimension, needs
     * the members up to `carrier`. */
    double min, max, step;
    uint64_t fills[TERP_NFILLS];         /* of the carrier */
    enum cuda_form form;                 /* the form that the chunk needs */
    struct terp_pointwise how;           /* of pointwise forms */
    struct terp_carrier_head carrier;    /* of integers */
    double bound;                        /* absolute */
    struct terp_bound_range bound_range; /* of valid values */
};

/* The chunks to code and how. Arrays have an item for each chunk. */
struct cuda_call {
    const struct terp_chunk *chunk;
    const struct terp_chunk *domain;  /* NULL: the chunk's own shape */
    const struct terp_params *params; /* NULL: decode */
    /* encode: the caller's bound; `params` has the carrier's. */
    double caller_bound;
    bool is_part;     /* inner streams, see cuda_batch */
    bool has_markers; /* encode: terp_source.has_markers */
    /* encode: one per chunk, see cuda_chunk.bound; NULL: the bound of `params`
     * applies to all */
    const double *bounds;
    enum cuda_form form; /* chunks and streams of other forms are left out */
    uint64_t nchunks;
    const void *const *src;
    const uint64_t *src_nbytes; /* decode */
    void *const *dst;
    uint64_t *dst_nbytes;            /* encode */
    struct cuda_found_domain *found; /* encode; NULL: not needed */
    enum terp_status *status;        /* decode */
    uint64_t step;                   /* decode: see terp_cuda_call */
    /* decode, with step: decode all levels and gather the wanted values. If
     * false, streams whose prediction has no levels are left out. */
    bool decodes_all;
    bool src_on_host, dst_on_host;
    bool host;     /* set by cuda_call_do: values, streams or both are */
    bool measures; /* encode: find the ranges only */
    uint64_t batch_nchunks; /* most chunks of a batch; memory may lower it */
};

/* Codes all chunks, in batches as large as memory allows, and waits. Returns
 * the status of a call of the engine (codec/engine.h). */
enum terp_status
cuda_call_do(struct terp_session *session, struct cuda_call *call);

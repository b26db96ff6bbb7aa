/* Codes one chunk of a call: to a stream and back, or where values are coded by
 * member, to a container and back. Functions are safe for threads. */
#pragma once

#include "codec/format/frame.h"
#include "filter/container.h"
#include "filter/plugin/call.h"

/* The cd_values that HDF5 passes with a chunk. */
struct terp_words {
    size_t n;
    const unsigned *at;
};

/* Encodes the chunk `values` as `cd` says. *coded_ret is memory of the host
 * that the caller releases; NULL on an error. Where the chunk was decoded
 * recently and only some of its values have changed since, the unchanged values
 * stay as they were decoded; *is_rewrite_ret then is true. */
enum terp_status
terp_coding_encode(const struct terp_call *call, const struct terp_words *words,
                   const struct terp_cd *cd, const void *values,
                   void **coded_ret, uint64_t *nbytes_ret, bool *is_rewrite_ret,
                   struct terp_run_result *result);

/* Replaces what terp_coding_encode made by the longest stream of the chunk,
 * which holds its values uncompressed. */
void
terp_coding_store_raw(const struct terp_chunk *chunk, const void *values,
                      void *coded, uint64_t *nbytes_ret);

/* A chunk as it is stored, whose head was read. */
struct terp_coded {
    const void *src;
    uint64_t nbytes;
    bool is_container;
    struct terp_read_frame frame;    /* of a stream */
    struct terp_container container; /* else */
    struct terp_chunk
        chunk; /* as the head describes it; a container: TERP_BYTES */
    uint64_t chunk_nbytes;
};

/* Reads the head. Fails as terp_decode does. */
enum terp_status
terp_coding_read(const void *src, uint64_t nbytes,
                 struct terp_coded *coded_ret);

/* Decodes to memory of the host of `buffer_nbytes`, at least
 * coded->chunk_nbytes; the rest is 0. `cd`: the cd_values, or NULL if they are
 * not known. The caller releases *values_ret, which is NULL on an error. */
enum terp_status
terp_coding_decode(const struct terp_call *call, const struct terp_coded *coded,
                   const struct terp_cd *cd, uint64_t buffer_nbytes,
                   void **values_ret, struct terp_run_result *result);

/* Remembers a stream and the values that were decoded from it, if the stream
 * may be lossy: the program may change some of the values and write them. */
void
terp_coding_remember(const struct terp_words *words, const struct terp_cd *cd,
                     const struct terp_coded *coded, const void *values);

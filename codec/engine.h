/* What an engine is. The codec chooses one; engines never see each other. */
#ifndef TERP_ENGINE_H
#define TERP_ENGINE_H

#include "frame.h"

struct terp_engine {
    const char *name;

    /* Encodes a chunk of floats into a sealed stream at `dst`, whose
     * capacity is terp_encode_bound. TERP_ERR_CAPACITY: the stream would
     * not be smaller than a raw one; the caller stores the chunk. */
    enum terp_status (*encode)(const struct terp_params *params,
                               const struct terp_chunk *chunk, const void *src,
                               uint8_t *dst, uint64_t *dst_nbytes_ret,
                               int nthreads);

    /* Decodes the body of a verified stream whose frame was read. `dst`
     * holds terp_chunk_nbytes(&frame->chunk) bytes. */
    enum terp_status (*decode)(const struct terp_frame *frame,
                               const uint8_t *body, uint64_t body_nbytes,
                               void *dst, int nthreads);
};

/* Fills in the counts of a stream with a body: escapes, specials, tiles. */
enum terp_status
terp_cpu_inspect(const struct terp_frame *frame, const uint8_t *body,
                 uint64_t body_nbytes, struct terp_info *info);

extern const struct terp_engine terp_cpu_engine;

#endif

/* Placeholder while the stages are written: constant chunks only. */
#include "base.h"
#include "engine.h"

static enum terp_status
encode(const struct terp_params *params, const struct terp_chunk *chunk,
       const void *src, uint8_t *dst, uint64_t *dst_nbytes_ret, int nthreads)
{
    (void)params, (void)chunk, (void)src, (void)dst, (void)dst_nbytes_ret,
        (void)nthreads;
    return TERP_ERR_CAPACITY;
}

static enum terp_status
decode(const struct terp_frame *frame, const uint8_t *body,
       uint64_t body_nbytes, void *dst, int nthreads)
{
    (void)frame, (void)body, (void)body_nbytes, (void)dst, (void)nthreads;
    return TERP_ERR_CORRUPT;
}

const struct terp_engine terp_cpu_engine = {"cpu", encode, decode};

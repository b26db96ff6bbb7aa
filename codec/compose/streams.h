/* Streams that a device decodes: it reads frames itself. */
#pragma once

#include "codec/compose/coder.h"

TERP_C_BEGIN

/* Decodes every step-th value of each dimension of streams of `chunk`, which
 * were not verified; dst[k] holds the chunk of these. status_ret[k] is
 * TERP_ERR_DEVICE for a stream that is left to the CPU: the device does not
 * decode it, or the CPU says best what is wrong. */
enum terp_status
terp_streams_decode(const struct terp_coder *coder,
                    const struct terp_chunk *chunk, uint64_t step, uint64_t n,
                    const void *const *src, const uint64_t *nbytes,
                    void *const *dst, enum terp_status *status_ret);

TERP_C_END

/* Decodes streams whose frames a device reads. */
#pragma once

#include "codec/compose/coder.h"

TERP_C_BEGIN

/* Decodes every step-th value of each dimension of n streams of shape `chunk`,
 * which the caller has not verified; dst[k] holds the chunk of these values.
 * status_ret[k] is TERP_ERR_DEVICE for a stream that is left to the CPU: the
 * device cannot decode it, or the CPU finds the exact error. */
enum terp_status
terp_streams_decode(const struct terp_coder *coder,
                    const struct terp_chunk *chunk, uint64_t step, uint64_t n,
                    const void *const *src, const uint64_t *nbytes,
                    void *const *dst, enum terp_status *status_ret);

TERP_C_END

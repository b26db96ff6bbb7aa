/* Values that repeat earlier ones, in streams of their own. */
#pragma once

#include "codec/engine.h"
#include "codec/model/reference_search.h"

/* Makes the stream at `dst`, of `nbytes`, shorter by references where that is
 * possible; `nbytes` is that of a stored chunk where there is none. */
enum terp_status
terp_cpu_references_encode(const struct terp_cpu_call *call,
                           const struct terp_params *params,
                           const struct terp_chunk *chunk,
                           struct terp_reference_bound bound, const void *src,
                           uint8_t *dst, uint64_t *nbytes_ret);

/* As terp_cpu_decode, of all values. */
enum terp_status
terp_cpu_references_decode(const struct terp_cpu_call *call,
                           const struct terp_chunk *chunk, const uint8_t *body,
                           uint64_t body_nbytes, void *dst);

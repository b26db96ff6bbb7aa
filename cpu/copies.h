/* Chunks that do not change along some dimensions. */
#pragma once

#include "codec/engine.h"

/* Along which dimensions, as a bit mask, all values have the bits of the first
 * one. */
unsigned
terp_cpu_copies_find(const struct terp_chunk *chunk, const void *src);

/* Makes the stream at `dst`, of `nbytes`, shorter by leaving copies out, where
 * that is possible; `nbytes` is that of a stored chunk where there is none. */
enum terp_status
terp_cpu_copies_encode(const struct terp_cpu_call *call,
                       const struct terp_params *params,
                       const struct terp_chunk *chunk, unsigned dims,
                       const void *src, uint8_t *dst, uint64_t *nbytes);

/* As terp_cpu_decode, of all values. */
enum terp_status
terp_cpu_copies_decode(const struct terp_cpu_call *call,
                       const struct terp_chunk *chunk, const uint8_t *body,
                       uint64_t body_nbytes, void *dst);

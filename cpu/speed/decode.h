/* Decodes streams of coding SPEED. */
#pragma once

#include "codec/model/coarse.h"
#include "cpu/pool/pool.h"

/* Decodes every step-th value, as `coarse` says, of a verified stream. */
enum terp_status
terp_cpu_speed_decode(struct cpu_pool *pool,
                      const struct terp_open_stream *stream,
                      const struct terp_coarse *coarse, void *dst);

/* Counts the tiles of a stream. */
enum terp_status
terp_cpu_speed_inspect(const struct terp_frame *frame, const uint8_t *body,
                       uint64_t body_nbytes, struct terp_info *info);

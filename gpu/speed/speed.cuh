/* Functions of the engine's table for streams of coding SPEED. */
#pragma once

#include "gpu/engine/session.cuh"

table_function<decltype(terp_engine::encode_speed)> cuda_speed_encode;

/* Decodes those of n streams that have coding SPEED and that status_ret[k] says
 * are left, TERP_ERR_DEVICE. Streams may have any bytes; with `is_part` they
 * have frames, but no checksums. Such streams for which this is not possible
 * stay left. *any_ret: whether one was decoded. */
enum terp_status
cuda_speed_decode(struct terp_session *session, const struct terp_chunk *chunk,
                  bool is_part, uint64_t n, const void *const *src,
                  const uint64_t *nbytes, void *const *dst,
                  enum terp_status *status_ret, bool *any_ret);

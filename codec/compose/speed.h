/* Streams of coding SPEED. */
#pragma once

#include "codec/compose/coder.h"

/* Whether the chunks of a batch become streams of coding SPEED. */
bool
terp_batch_has_speed(const struct terp_batch *batch);

/* Encodes the chunks of such a batch. */
enum terp_status
terp_speed_encode(const struct terp_coder *coder,
                  const struct terp_batch *batch);

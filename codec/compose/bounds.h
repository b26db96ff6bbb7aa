/* Encodes chunks under any kind of bound. */
#pragma once

#include "codec/compose/coder.h"

TERP_C_BEGIN

enum terp_status
terp_bounded_encode(const struct terp_coder *coder,
                    const struct terp_batch *batch);

TERP_C_END

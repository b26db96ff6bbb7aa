/* Complex values: the real and the imaginary parts are coded separately, each
 * as a chunk of real values. */
#pragma once

#include "codec/compose/coder.h"

/* Encodes chunks of a complex type, like terp_values_encode. */
enum terp_status
terp_complex_encode(const struct terp_coder *coder,
                    const struct terp_batch *batch);

/* Complex values: their real and imaginary parts are coded apart, each as a
 * chunk of its own. */
#pragma once

#include "codec/compose/coder.h"

/* As terp_values_encode, of a complex type. */
enum terp_status
terp_complex_encode(const struct terp_coder *coder,
                    const struct terp_batch *batch);

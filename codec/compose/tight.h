/* Chunks under tight bounds that may take fewer bytes without a loss. */
#pragma once

#include "codec/compose/coder.h"

/* Looks at a sample of each chunk that has an absolute bound above 0 and whose
 * stream is large. Sets may_be_lossless in the facts of chunks whose sample
 * suggests a lossless trial. */
enum terp_status
terp_tight_choose(const struct terp_coder *coder,
                  const struct terp_batch *batch, struct terp_facts *facts);

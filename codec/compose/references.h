/* Values that repeat earlier ones: what they refer to, how they differ from
 * that, and all other values, are streams of their own. */
#pragma once

#include "codec/compose/coder.h"

/* Has a shorter stream of chunk i of a batch, with references, where there is
 * one. */
enum terp_status
terp_references_encode(const struct terp_coder *coder,
                       const struct terp_batch *batch, uint64_t i,
                       struct terp_reference_bound bound);

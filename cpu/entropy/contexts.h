/* Symbols from level order to context order and back. doc/format.md,
 * "Context order": at the finest levels, points whose coarser neighbours had
 * large codes stand apart from those whose neighbours had none, so that tiles
 * hold codes of one distribution. */
#pragma once

#include "codec/api/terp_status.h"
#include "codec/format/layout.h"
#include "cpu/pool/pool.h"

/* Symbols are a predictor's, of codes that are `wide`, but for those
 * of the chunk's finest `nskipped` levels, which the layout does not have
 * (codec/model/coarse.h). `mask` names
 * the special points (C order, bit i % 64 of word i / 64), whose symbols are 0
 * codes; NULL if there are none. `scratch` has room for a byte a symbol.
 * Nothing overlaps. */
enum terp_status
terp_cpu_order_contexts(struct cpu_pool *pool, const struct terp_layout *layout,
                        const uint64_t *mask, const uint16_t *from, int wide,
                        int nskipped, uint8_t *scratch, uint16_t *to,
                        bool into_contexts);

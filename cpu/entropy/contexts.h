/* Moves symbols between level order and context order. doc/format.md, "Context
 * order": at the finest levels, points whose coarser neighbours have large
 * codes are separated from points whose neighbours have none, so that a tile
 * holds codes of one distribution. */
#pragma once

#include "codec/api/terp_status.h"
#include "codec/format/layout.h"
#include "cpu/pool/pool.h"

/* Symbols are in the predictor's order; `wide` is that of their codes. The
 * chunk's finest `nskipped` levels, which the layout lacks, have no symbols
 * (codec/model/coarse.h). `mask` has the special points (C order, bit i % 64 of
 * word i / 64), whose symbols are 0; NULL: none. `scratch` holds a byte per
 * symbol. No arguments overlap. */
enum terp_status
terp_cpu_order_contexts(struct cpu_pool *pool, const struct terp_layout *layout,
                        const uint64_t *mask, const uint16_t *from, int wide,
                        int nskipped, uint8_t *scratch, uint16_t *to,
                        bool into_contexts);

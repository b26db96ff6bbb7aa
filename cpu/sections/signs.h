/* The section of signs, where a chunk's logarithms are coded. doc/format.md,
 * "Signs". */
#pragma once

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "codec/format/layout.h"
#include "cpu/pool/pool.h"

/* Bit i % 64 of word i / 64: value i is negative. Bits behind the last value
 * are 0. */
enum terp_status
terp_cpu_signs_write(struct cpu_pool *pool, const struct terp_layout *layout,
                     const uint64_t *signs, struct writer *writer);

/* Reads such a section to its end; the signs are for the caller to free. They
 * are passed over where they are not asked for (NULL). */
enum terp_status
terp_cpu_signs_read(struct cpu_pool *pool, const struct terp_layout *layout,
                    struct reader *reader, uint64_t **signs_ret);

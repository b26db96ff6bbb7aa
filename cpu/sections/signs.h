/* The section of signs, for chunks whose logarithms are coded. doc/format.md,
 * "Signs". */
#pragma once

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "codec/format/layout.h"
#include "cpu/pool/pool.h"

/* Writes the section. Bit i % 64 of word i / 64 is set if value i is negative.
 * Bits after the last value are 0. */
enum terp_status
terp_cpu_signs_write(struct cpu_pool *pool, const struct terp_layout *layout,
                     const uint64_t *signs, struct writer *writer);

/* Reads the section to its end; the caller frees the signs. With a NULL
 * argument the signs are skipped. */
enum terp_status
terp_cpu_signs_read(struct cpu_pool *pool, const struct terp_layout *layout,
                    struct reader *reader, uint64_t **signs_ret);

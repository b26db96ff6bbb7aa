/* The section of low bits: what of wide codes is below the symbols of tiles.
 * doc/format.md, "Low bits". */
#ifndef TERP_CPU_SECTIONS_LOW_BITS_H
#define TERP_CPU_SECTIONS_LOW_BITS_H

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "cpu/pool/pool.h"

/* Where a stream has its low bits. */
struct cpu_low_bits_section {
    const uint8_t *widths; /* a bit field array */
    const uint8_t *at;
};

/* Where each group of numbers begins among the bytes of all, by their widths.
 * Returns the bytes of all. */
uint64_t
terp_cpu_place_groups(const uint8_t *widths, uint64_t nnumbers,
                      uint64_t *begin_ret);

/* Splits a predictor's symbols of codes with `low_nbits` low bits, in the order
 * of tiles: writes the low bits, and leaves symbols as tiles have them.
 * TERP_ERR_CAPACITY where these do not fit, and symbols are as they were;
 * TERP_ERR_MEMORY, or TERP_OK. */
enum terp_status
terp_cpu_low_bits_split(struct cpu_pool *pool, int low_nbits, uint64_t nsymbols,
                        uint16_t *symbols, struct writer *writer);

/* Passes over the section. TERP_ERR_CORRUPT unless the stream has one. */
enum terp_status
terp_cpu_low_bits_read(struct reader *reader, int low_nbits, uint64_t nsymbols,
                       struct cpu_low_bits_section *section_ret);

/* The other way. TERP_ERR_MEMORY, or TERP_OK. */
enum terp_status
terp_cpu_low_bits_join(struct cpu_pool *pool, int low_nbits, uint64_t nsymbols,
                       const struct cpu_low_bits_section *section,
                       uint16_t *symbols);

#endif

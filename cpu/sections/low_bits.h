/* The section of low bits: the bits of wide codes that symbols do not hold.
 * doc/format.md, "Low bits". */
#pragma once

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "cpu/pool/pool.h"

/* Where a stream holds its low bits. */
struct cpu_low_bits_section {
    const uint8_t *kinds; /* a bit field array */
    const uint8_t *records;
    const uint8_t *at; /* the bytes after all records */
};

/* Computes where each group of numbers begins in the bytes of all groups, from
 * the widths of groups. Returns the number of bytes. */
uint64_t
terp_cpu_place_groups(const uint8_t *widths, uint64_t nnumbers,
                      uint64_t *begin_ret);

/* Splits wide codes: writes the section, and leaves symbols, in tile order, of
 * at most `max_high`. TERP_ERR_CAPACITY if the section does not fit; symbols
 * are then unchanged. TERP_ERR_MEMORY, or TERP_OK. */
enum terp_status
terp_cpu_low_bits_split(struct cpu_pool *pool, uint64_t nsymbols,
                        uint16_t *symbols, struct writer *writer);

/* Skips the section. TERP_ERR_CORRUPT if it is not valid. */
enum terp_status
terp_cpu_low_bits_read(struct reader *reader, uint64_t nsymbols,
                       struct cpu_low_bits_section *section_ret);

/* Joins low bits to the first `nwanted` of `nsymbols` symbols; all symbols of
 * their last tile must be present. TERP_ERR_MEMORY, TERP_ERR_CORRUPT, or
 * TERP_OK. */
enum terp_status
terp_cpu_low_bits_join(struct cpu_pool *pool, uint64_t nsymbols,
                       uint64_t nwanted,
                       const struct cpu_low_bits_section *section,
                       uint16_t *symbols);

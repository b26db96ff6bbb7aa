/* The section of low bits: what of wide codes is not in the symbols of tiles.
 * doc/format.md, "Low bits". */
#pragma once

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "cpu/pool/pool.h"

/* Where a stream has its section. */
struct cpu_low_bits_section {
    const uint8_t *kinds; /* a bit field array */
    const uint8_t *records;
    const uint8_t *at; /* what stands behind all records */
};

/* Where each group of numbers begins among the bytes of all, by their widths.
 * Returns the bytes of all. */
uint64_t
terp_cpu_place_groups(const uint8_t *widths, uint64_t nnumbers,
                      uint64_t *begin_ret);

/* Splits a predictor's symbols of wide codes, in the order of tiles, whose
 * symbols go up to `max_high`: writes the section, and leaves symbols as tiles
 * have them. TERP_ERR_CAPACITY where it does not fit, and symbols are as they
 * were; TERP_ERR_MEMORY, or TERP_OK. */
enum terp_status
terp_cpu_low_bits_split(struct cpu_pool *pool, uint64_t nsymbols,
                        uint16_t *symbols, struct writer *writer);

/* Passes over the section. TERP_ERR_CORRUPT unless the stream has one. */
enum terp_status
terp_cpu_low_bits_read(struct reader *reader, uint64_t nsymbols,
                       struct cpu_low_bits_section *section_ret);

/* The other way, of the first `nwanted` symbols of `nsymbols`; those of their
 * last tile are all there. TERP_ERR_MEMORY, TERP_ERR_CORRUPT, or TERP_OK. */
enum terp_status
terp_cpu_low_bits_join(struct cpu_pool *pool, uint64_t nsymbols,
                       uint64_t nwanted,
                       const struct cpu_low_bits_section *section,
                       uint16_t *symbols);

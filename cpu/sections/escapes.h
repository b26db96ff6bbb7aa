/* The section of escapes: what a chunk's codes cannot say. doc/format.md,
 * "Escapes". */
#ifndef TERP_CPU_SECTIONS_ESCAPES_H
#define TERP_CPU_SECTIONS_ESCAPES_H

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "cpu/pool/pool.h"
#include "cpu/predict/stages.h"

/* A chunk's symbols, and for each that is an escape the raw value: of splines
 * a value, which is on the grid of steps if it can be, of lorenzo a
 * difference. */
struct cpu_escapes {
    struct cpu_pool *pool;
    const struct cpu_stages *stages;
    const struct cpu_quantizer *quantizer; /* NULL: differences */
    const uint16_t *symbols;
    uint64_t nvalues;
    void *raw;
};

/* Where a stream has its escapes. */
struct cpu_escape_section {
    uint64_t nescapes;
    int number_nbytes; /* 0: they are raw values */
    const uint8_t *at;
};

void
terp_cpu_escapes_write(const struct cpu_escapes *escapes,
                       struct writer *writer);

/* Reads the section's head and passes over its escapes. TERP_ERR_CORRUPT
 * unless the stream has such a section. */
enum terp_status
terp_cpu_escapes_read(struct reader *reader, uint64_t nvalues, int value_nbytes,
                      struct cpu_escape_section *section_ret);

/* Puts the section's escapes into `raw`. TERP_ERR_CORRUPT unless there are as
 * many escapes among the symbols. */
enum terp_status
terp_cpu_escapes_place(const struct cpu_escapes *escapes,
                       const struct cpu_escape_section *section);

#endif

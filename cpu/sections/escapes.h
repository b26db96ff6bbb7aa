/* The section of escapes, doc/format.md. */
#ifndef TERP_CPU_SECTIONS_ESCAPES_H
#define TERP_CPU_SECTIONS_ESCAPES_H

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "cpu/pool/pool.h"
#include "cpu/predict/stages.h"

/* A chunk's symbols, and beside each that is an escape its word: a value that
 * is on the grid if it can be, or lorenzo's difference. */
struct cpu_escapes {
    struct cpu_pool *team;
    const struct cpu_stages *stages;
    const struct cpu_quantizer *quantizer; /* NULL: differences */
    const uint16_t *symbols;
    uint64_t nvalues;
    void *words;
};

/* Where a stream has them. */
struct cpu_escape_section {
    uint64_t nescapes;
    int number_nbytes; /* 0: they are words, not numbers */
    const uint8_t *at;
};

void
terp_cpu_escapes_write(const struct cpu_escapes *escapes,
                       struct writer *writer);

/* TERP_ERR_CORRUPT unless the stream has that section. */
enum terp_status
terp_cpu_escapes_read(struct reader *reader, uint64_t nvalues, int value_nbytes,
                      struct cpu_escape_section *section_ret);

/* To the words; TERP_ERR_CORRUPT unless there are as many escapes. */
enum terp_status
terp_cpu_escapes_place(const struct cpu_escapes *escapes,
                       const struct cpu_escape_section *section);

#endif

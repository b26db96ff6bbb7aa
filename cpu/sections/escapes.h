/* The section of escapes: what a chunk's codes cannot say. doc/format.md,
 * "Escapes". */
#pragma once

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "cpu/predict/predictor.h"

/* Where a stream has its escapes. */
struct cpu_escape_section {
    uint64_t nescapes;
    int number_nbytes; /* 0: they are raw values */
    const uint8_t *at;
    bool goes_on; /* there are symbols behind those that are decoded */
};

/* For each symbol that is an escape, `work` has the raw value: one that is on
 * the grid of steps if it can be, or else, not `on_grid`, an integer. */
void
terp_cpu_escapes_write(const struct cpu_prediction *prediction, bool on_grid,
                       struct writer *writer);

/* Reads the section's head and passes over its escapes. TERP_ERR_CORRUPT
 * unless the stream has such a section. */
enum terp_status
terp_cpu_escapes_read(struct reader *reader, uint64_t nvalues, int value_nbytes,
                      struct cpu_escape_section *section_ret);

/* Puts the section's escapes into `work`. TERP_ERR_CORRUPT unless there are as
 * many escapes among the symbols, or no more where the section goes on. */
enum terp_status
terp_cpu_escapes_place(const struct cpu_prediction *prediction, bool on_grid,
                       const struct cpu_escape_section *section);

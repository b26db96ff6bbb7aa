/* The section of escapes: values that codes cannot express. doc/format.md,
 * "Escapes". */
#pragma once

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "cpu/predict/predictor.h"

/* Where a stream holds its escapes. */
struct cpu_escape_section {
    uint64_t nescapes;
    int number_nbytes; /* 0: escapes are raw values */
    const uint8_t *at;
    bool goes_on; /* symbols that are not decoded may have further escapes */
};

/* Writes the escapes. For each symbol that is an escape, `work` has the value:
 * on the grid of steps if it can be or, if not `on_grid`, an integer. */
void
terp_cpu_escapes_write(const struct cpu_prediction *prediction, bool on_grid,
                       struct writer *writer);

/* Reads the section's head and skips its escapes. TERP_ERR_CORRUPT if the
 * section is not valid. */
enum terp_status
terp_cpu_escapes_read(struct reader *reader, uint64_t nvalues, int value_nbytes,
                      struct cpu_escape_section *section_ret);

/* Puts the section's escapes into `work`. TERP_ERR_CORRUPT unless there are
 * as many escapes as among the symbols; if the section goes on, it may have
 * more. */
enum terp_status
terp_cpu_escapes_place(const struct cpu_prediction *prediction, bool on_grid,
                       const struct cpu_escape_section *section);

/* Floor 3: the exact values of masked points. doc/format.md, "Specials". */
#ifndef TERP_CPU_SPECIALS_H
#define TERP_CPU_SPECIALS_H

#include "bytes.h"
#include "status.h"

/* Writes which of `nvalues` values the mask names (bit i % 64 of word i / 64)
 * and their bits. */
enum terp_status
cpu_specials_write(struct writer *writer, const uint64_t *mask,
                   const void *values, uint64_t nvalues, int value_nbytes);

/* Puts the values back where they belong. */
enum terp_status
cpu_specials_read(struct reader *reader, void *values, uint64_t nvalues,
                  int value_nbytes, uint64_t *nspecials_ret);

#endif

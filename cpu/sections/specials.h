/* The section of special values: which these are, and their bits.
 * doc/format.md, "Specials". */
#pragma once

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "codec/format/layout.h"

/* Writes which values the mask names (bit i % 64 of word i / 64 is value i's)
 * and the bits of these. */
enum terp_status
terp_cpu_specials_write(struct writer *writer, const uint64_t *mask,
                        const void *values, const struct terp_layout *layout,
                        int value_nbytes);

/* Reads such a section to its end: the mask, for the caller to free, and the
 * number of values in it. No mask is returned where it is not asked for
 * (NULL), or on failure. */
enum terp_status
terp_cpu_specials_read(struct reader *reader, const struct terp_layout *layout,
                       int value_nbytes, uint64_t **mask_ret,
                       uint64_t *nspecials_ret);

/* Puts the values back where the mask says, out of a section that has been
 * read before: `reader` is at its begin. */
void
terp_cpu_specials_place(struct reader *reader, const struct terp_layout *layout,
                        int value_nbytes, const uint64_t *mask, void *values);

/* The same of the values on a lattice of the chunk's (codec/model/coarse.h),
 * which has a mask of its own. */
void
terp_cpu_specials_place_coarse(struct reader *reader,
                               const struct terp_layout *whole,
                               const struct terp_layout *lattice, int nskipped,
                               int value_nbytes, const uint64_t *mask,
                               const uint64_t *lattice_mask, void *values);

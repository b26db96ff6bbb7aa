/* The section of special values: their places and their bits. doc/format.md,
 * "Specials". */
#pragma once

#include "codec/api/terp_status.h"
#include "codec/format/bytes.h"
#include "codec/format/layout.h"

/* Writes the section: the places that the mask has (bit i % 64 of word i / 64
 * is value i's), and the bits of these values. */
enum terp_status
terp_cpu_specials_write(struct writer *writer, const uint64_t *mask,
                        const void *values, const struct terp_layout *layout,
                        int value_nbytes);

/* Reads the section to its end: the mask, which the caller frees, and its
 * number of set bits. With a NULL argument, and on failure, no mask is
 * returned. */
enum terp_status
terp_cpu_specials_read(struct reader *reader, const struct terp_layout *layout,
                       int value_nbytes, uint64_t **mask_ret,
                       uint64_t *nspecials_ret);

/* The different values of a section that was read before, at most
 * TERP_SPECIALS_MAX_NCOLORS, and their number; 0 if the section lists all
 * special values instead. `reader` is at the section's begin. */
int
terp_cpu_specials_colors(struct reader *reader,
                         const struct terp_layout *layout, int value_nbytes,
                         uint64_t *colors_ret);

/* Restores the special values of a section that was read before; `reader` is at
 * the section's begin. */
void
terp_cpu_specials_place(struct reader *reader, const struct terp_layout *layout,
                        int value_nbytes, const uint64_t *mask, void *values);

/* Restores the special values on a lattice of the chunk (codec/model/coarse.h),
 * which has a mask of its own. */
void
terp_cpu_specials_place_coarse(struct reader *reader,
                               const struct terp_layout *whole,
                               const struct terp_layout *lattice, int nskipped,
                               int value_nbytes, const uint64_t *mask,
                               const uint64_t *lattice_mask, void *values);

/* Values that equal others: copies along dimensions of a chunk, and
 * references. */
#pragma once

#include "codec/format/frame.h"

/* A bit mask of the dimensions along which all values have the bits of the
 * first. */
unsigned
terp_cpu_copies_find(const struct terp_chunk *chunk, const void *src);

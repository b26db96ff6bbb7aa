/* Values that are those of others: copies along dimensions of a chunk, and
 * references. */
#pragma once

#include "codec/format/frame.h"

/* Along which dimensions, as a bit mask, all values have the bits of the first
 * one. */
unsigned
terp_cpu_copies_find(const struct terp_chunk *chunk, const void *src);

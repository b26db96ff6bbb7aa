/* Values and bits of the lattice that a coarse decode fills
 * (codec/model/coarse.h), out of those of all. */
#pragma once

#include "codec/model/coarse.h"

/* Copies those values of `src` that are wanted. */
void
terp_cpu_coarse_values(const struct terp_coarse *coarse, int value_nbytes,
                       const void *src, void *dst);

/* The bits (bit i % 64 of word i / 64) of the values on the lattice, for the
 * caller to free; NULL: there is no memory. */
uint64_t *
terp_cpu_coarse_bits(const struct terp_layout *whole,
                     const struct terp_layout *lattice, int nskipped,
                     const uint64_t *bits);

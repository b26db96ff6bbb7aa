/* Gathers the values and the bits of the lattice that a coarse decode fills
 * (codec/model/coarse.h). */
#pragma once

#include "codec/model/coarse.h"

/* Copies the values of `src` that the lattice has. */
void
terp_cpu_coarse_values(const struct terp_coarse *coarse, int value_nbytes,
                       const void *src, void *dst);

/* Returns the bits (bit i % 64 of word i / 64) of the lattice's values, which
 * the caller frees; NULL if memory is short. */
uint64_t *
terp_cpu_coarse_bits(const struct terp_layout *whole,
                     const struct terp_layout *lattice, int nskipped,
                     const uint64_t *bits);

/* The samples of a chunk, in the region `samples`, while the kernels find
 * whether other values repeat them. */
#pragma once

#include "codec/model/reference_samples.h"

/* Bits for first words: 64 for each sample. */
#define REPEAT_FIRST_NBITS 16
#define REPEAT_NFIRST (1u << REPEAT_FIRST_NBITS)

struct cuda_repeat_samples {
    unsigned long long nusable;
    int near_nbits;
    bool lone;
    uint64_t window_nvalues; /* values in a row that must repeat */
    uint64_t key[TERP_REFERENCE_NSAMPLES];
    /* Last sample of each slot, plus 1; 0: none. */
    uint16_t sample[TERP_REFERENCE_NSLOTS];
    uint32_t is_repeated[TERP_REFERENCE_NSLOTS / 32];
    /* Bits of the first words of samples. Most points have the word of none. */
    uint32_t is_first[REPEAT_NFIRST / 32];
};

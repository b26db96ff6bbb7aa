/* What is known of a chunk's samples while it is asked whether other values are
 * like them, in the region `samples`. */
#pragma once

#include "codec/model/reference_samples.h"

struct cuda_repeat_samples {
    unsigned long long nusable;
    int near_nbits;
    bool lone;
    uint64_t window_nvalues; /* that have to be alike for a search */
    uint64_t key[TERP_REFERENCE_NSAMPLES];
    /* Of a slot the last sample, plus one; 0: there is none. */
    uint16_t sample[TERP_REFERENCE_NSLOTS];
    uint32_t is_repeated[TERP_REFERENCE_NSLOTS / 32];
};

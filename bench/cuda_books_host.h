/* Times the CPU's choice of codebooks. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Median seconds of one thread, given the histograms of the tiles of `symbols`:
 * to select entries of the dictionary, and to build a code. */
struct books_times {
    double select_s, build_s;
};

struct books_times
books_time_host(const uint16_t *symbols, uint64_t nsymbols);

#ifdef __cplusplus
}
#endif

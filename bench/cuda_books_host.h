/* The CPU's choice of codebooks, timed. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Median seconds of one thread, from the histograms of the tiles of `symbols`
 * on: to select entries of the dictionary, and to build a code. */
struct books_times {
    double select_s, build_s;
};

struct books_times
books_time_host(const uint16_t *symbols, uint64_t nsymbols);

#ifdef __cplusplus
}
#endif

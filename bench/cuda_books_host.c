#include "bench/cuda_books_host.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codec/format/huffman.h"
#include "cpu/entropy/codebooks.h"

static struct terp_huffman_work work;

#define NREPS 21

/* Histograms of the non-zero tiles, one per tile and one of all. */
struct histograms {
    struct cpu_tile_index index;
    uint32_t (*counts)[TERP_NSYMBOLS];
    uint64_t frequency[TERP_NSYMBOLS];
    uint32_t (*costs)[TERP_NENTRIES];
};

static double
now(void)
{
    struct timespec time;

    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void
select_entries(struct histograms *h)
{
    for (uint64_t tile = 0; tile < h->index.ntiles; tile++)
        if (bit_at(h->index.nonzero, tile))
            h->index.entry[tile] = terp_cpu_entry_costs(
                TERP_CODING_HUFFMAN, h->counts[tile], h->costs[tile]);
    terp_cpu_entries_select(&h->index,
                            (const uint32_t(*)[TERP_NENTRIES])h->costs);
}

static void
build_code(struct histograms *h)
{
    uint8_t nbits[TERP_NSYMBOLS];
    uint16_t words[TERP_NSYMBOLS];

    terp_huffman_lengths(h->frequency, &work, nbits);
    (void)terp_huffman_codewords(nbits, words);
}

static double
median_of(void (*function)(struct histograms *), struct histograms *h)
{
    double s[NREPS];

    for (int i = 0; i < NREPS; i++) {
        double begin = now();
        function(h);
        s[i] = now() - begin;
    }
    qsort(s, NREPS, sizeof *s, compare_doubles);
    return s[NREPS / 2];
}

static void
count(const uint16_t *symbols, struct histograms *h)
{
    for (uint64_t i = 0; i < h->index.nsymbols; i++) {
        uint64_t tile = i / TERP_TILE_NSYMBOLS;
        h->counts[tile][symbols[i]]++;
        if (symbols[i] != TERP_RADIUS)
            h->index.nonzero[tile / 8] |= (uint8_t)(1 << tile % 8);
    }
    for (uint64_t tile = 0; tile < h->index.ntiles; tile++)
        for (int s = 0; bit_at(h->index.nonzero, tile) && s < TERP_NSYMBOLS;
             s++)
            h->frequency[s] += h->counts[tile][s];
}

struct books_times
books_time_host(const uint16_t *symbols, uint64_t nsymbols)
{
    struct books_times times = {0, 0};
    struct histograms h = {.counts = NULL};

    if (terp_cpu_tile_index_make(nsymbols, &h.index) != TERP_OK)
        return times;
    h.counts = calloc(h.index.ntiles, sizeof *h.counts);
    h.costs = calloc(h.index.ntiles, sizeof *h.costs);
    if (h.counts != NULL && h.costs != NULL) {
        count(symbols, &h);
        times.select_s = median_of(select_entries, &h);
        times.build_s = median_of(build_code, &h);
    }
    free(h.counts);
    free(h.costs);
    terp_cpu_tile_index_free(&h.index);
    return times;
}

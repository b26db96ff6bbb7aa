/* Compares context order on the device with the CPU engine: symbols in both
 * directions, and the counts of escapes. */
#include "gpu/entropy/contexts.cuh"
#include "gpu/sections/escapes.cuh"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "cpu/entropy/contexts.h"
#include "cpu/entropy/order.h"
#include "cpu/predict/deinterleave.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A batch: chunks of both predictors, one that has failed before, and one
 * without context order. */
enum {
    SPLINE,
    LORENZO,
    FAILED,
    OTHER,
    NCHUNKS
};
#define NSORTED (LORENZO + 1)
#define UNTOUCHED 0x5C

/* Chunks of one shape, with buffers for both engines. */
struct bench {
    struct terp_layout layout;
    uint64_t nvalues;
    /* The CPU's symbols of a predictor: in level order, tile order and context
     * order. */
    uint16_t *symbols[NSORTED], *tiled[NSORTED], *sorted[NSORTED];
    uint64_t nescapes[NSORTED];
    uint64_t *mask;
    bool has_specials;
    int wide;        /* codes */
    uint8_t *values; /* specials are NaN */
    struct cuda_batch batch;
    struct cuda_chunk *state;
};

static uint64_t
place_region(uint64_t *end, uint64_t nbytes)
{
    uint64_t at = *end;
    *end += (nbytes + 255) / 256 * 256;
    return at;
}

static void
make_bench(struct bench *b, const struct terp_chunk *chunk)
{
    struct cuda_batch *batch = &b->batch;
    uint64_t end = 0;
    void *memory;

    memset(b, 0, sizeof *b);
    terp_layout_make(chunk, &b->layout);
    b->nvalues = b->layout.nvalues;
    for (int i = 0; i < NSORTED; i++) {
        b->symbols[i] = (uint16_t *)terp_case_alloc(2 * b->nvalues);
        b->tiled[i] = (uint16_t *)terp_case_alloc(2 * b->nvalues);
        b->sorted[i] = (uint16_t *)terp_case_alloc(2 * b->nvalues);
    }
    b->mask = (uint64_t *)terp_case_alloc(8 * div_up(b->nvalues, 64));
    b->values = (uint8_t *)terp_case_alloc(8 * b->nvalues);
    batch->nchunks = NCHUNKS;
    batch->chunk = *chunk;
    batch->coding = TERP_CODING_RATIO;
    batch->value_nbytes = chunk->type == TERP_FLOAT32 ? 4 : 8;
    batch->nvalues = b->nvalues;
    batch->ntiles = div_up(b->nvalues, TERP_TILE_NSYMBOLS);
    batch->nranges = div_up(b->nvalues, CUDA_RANGE_NVALUES);
    batch->h_layout = batch->d_layout = &b->layout;
    batch->at.ranges = place_region(&end, 8 * (batch->nranges + 1));
    batch->at.context_counts =
        place_region(&end, cuda_context_counts_nbytes(batch->ntiles));
    batch->at.zeroed_nbytes = end;
    batch->at.symbols = place_region(&end, 2 * b->nvalues);
    batch->at.coded = place_region(&end, 2 * b->nvalues);
    batch->at.contexts = place_region(&end, b->nvalues);
    batch->at.mask = place_region(&end, 8 * div_up(b->nvalues, 64));
    batch->at.staging = place_region(&end, 2 * b->nvalues);
    batch->at.tune = place_region(&end, 8 * CUDA_MAX_NLISTED);
    batch->at.stride = end;
    assert_int_equal(cudaMalloc(&memory, end * NCHUNKS), cudaSuccess);
    batch->d_scratch = (uint8_t *)memory;
    assert_int_equal(cudaMalloc(&memory, sizeof *b->state * NCHUNKS),
                     cudaSuccess);
    batch->d_chunks = b->state = (struct cuda_chunk *)memory;
}

static void
free_bench(struct bench *b)
{
    for (int i = 0; i < NSORTED; i++) {
        free(b->symbols[i]);
        free(b->tiled[i]);
        free(b->sorted[i]);
    }
    free(b->mask);
    free(b->values);
    cudaFree(b->batch.d_scratch);
    cudaFree(b->state);
}

static uint8_t *
region_of(const struct bench *b, int chunk, uint64_t at)
{
    return b->batch.d_scratch + (uint64_t)chunk * b->batch.at.stride + at;
}

/* Codes that are larger in some places than in others, with low bits, and about
 * one escape in 2^rarity codes. */
static void
make_symbols(struct bench *b, uint64_t seed, int rarity)
{
    for (int i = 0; i < NSORTED; i++) {
        b->nescapes[i] = 0;
        for (uint64_t k = 0; k < b->nvalues; k++) {
            uint64_t r = terp_field_mix((2 * seed + (unsigned)i) << 32 | k);
            uint64_t where = terp_field_mix(seed ^ (k / 97)) % 6;
            int most = where < 2 ? 0 : where < 5 ? 1 << (2 * where - 4) : 511;
            int code = (int)(r % (unsigned)(2 * most + 1)) - most;
            code = code * (1 << terp_unit_nbits(b->wide)) +
                   (int)(r >> 20 & ((1u << terp_unit_nbits(b->wide)) - 1));
            const int radius = terp_radius_of(b->wide);
            code = code < -radius + 1  ? -radius + 1
                   : code > radius - 1 ? radius - 1
                                       : code;
            b->symbols[i][k] = (uint16_t)(code + radius);
            if (r >> 32 << (32 + 32 - rarity) == 0)
                b->symbols[i][k] = TERP_ESCAPE;
            b->nescapes[i] += b->symbols[i][k] == TERP_ESCAPE;
        }
        terp_cpu_order_tiles(NULL, &b->layout,
                             i == SPLINE ? TERP_PREDICTION_SPLINE
                                         : TERP_PREDICTION_LORENZO,
                             b->symbols[i], b->tiled[i], true);
    }
}

/* Runs of some length, and single points. */
static void
make_specials(struct bench *b, uint64_t seed)
{
    const uint32_t nan32 = 0x7FC00000, one32 = 0x3F800000;
    const uint64_t nan64 = UINT64_C(0x7FF8) << 48;
    const uint64_t one64 = UINT64_C(0x3FF) << 52;

    b->has_specials = seed % 2 != 0;
    memset(b->mask, 0, 8 * div_up(b->nvalues, 64));
    for (uint64_t i = 0; i < b->nvalues; i++) {
        bool special =
            b->has_specials && (terp_field_mix(seed << 32 | i / 31) % 3 == 0 ||
                                terp_field_mix(seed << 40 | i) % 9 == 0);
        b->mask[i / 64] |= (uint64_t)special << (i % 64);
        if (b->batch.value_nbytes == 4)
            memcpy(b->values + 4 * i, special ? &nan32 : &one32, 4);
        else
            memcpy(b->values + 8 * i, special ? &nan64 : &one64, 8);
    }
}

/* The CPU's results. */
static void
sort_symbols(struct bench *b)
{
    uint8_t *scratch = (uint8_t *)terp_case_alloc(b->nvalues);
    uint16_t *dealt = (uint16_t *)terp_case_alloc(2 * b->nvalues);

    terp_cpu_order_levels(NULL, &b->layout, b->symbols[LORENZO], dealt, true);
    for (int i = 0; i < NSORTED; i++)
        assert_int_equal(terp_cpu_order_contexts(
                             NULL, &b->layout, b->has_specials ? b->mask : NULL,
                             i == SPLINE ? b->symbols[i] : dealt, b->wide, 0,
                             scratch, b->sorted[i], true),
                         TERP_OK);
    free(scratch);
    free(dealt);
}

/* The state after earlier stages: `from` holds these symbols. */
static void
begin_call(struct bench *b, uint64_t from, uint16_t *const *symbols)
{
    memset(b->batch.d_scratch, UNTOUCHED, b->batch.at.stride * NCHUNKS);
    memset(b->state, 0, sizeof *b->state * NCHUNKS);
    for (int i = 0; i < NCHUNKS; i++) {
        struct cuda_chunk *state = &b->state[i];
        int like = i == LORENZO ? LORENZO : SPLINE;
        memset(region_of(b, i, 0), 0, b->batch.at.zeroed_nbytes);
        memcpy(region_of(b, i, from), symbols[like], 2 * b->nvalues);
        memcpy(region_of(b, i, b->batch.at.mask), b->mask,
               8 * div_up(b->nvalues, 64));
        state->src = b->values;
        state->status = i == FAILED ? TERP_ERR_CAPACITY : TERP_OK;
        state->coding = i == OTHER ? TERP_CODING_HUFFMAN : TERP_CODING_RATIO;
        state->prediction =
            i == LORENZO ? TERP_PREDICTION_LORENZO : TERP_PREDICTION_SPLINE;
        state->has_specials = b->has_specials;
        state->model.wide = b->wide;
        state->nescapes = b->nescapes[like];
        for (int k = 0; k < TERP_NFILLS; k++)
            state->fills[k] = UINT64_MAX;
    }
}

static void
fail_case(const struct bench *b, const char *what)
{
    const uint64_t *dims = b->layout.dims;
    char text[200];

    snprintf(text, sizeof text,
             "%s: %llu bricks of rank %d, %llux%llux%llux%llu", what,
             (unsigned long long)b->layout.nbricks, b->layout.rank,
             (unsigned long long)dims[3], (unsigned long long)dims[2],
             (unsigned long long)dims[1], (unsigned long long)dims[0]);
    fail_msg("%s", text);
}

/* Checks that the region has these symbols, except in chunks that the stage
 * skips. */
static void
check_symbols(const struct bench *b, uint64_t at, uint16_t *const *expected,
              const char *what)
{
    for (int i = 0; i < NCHUNKS; i++) {
        const uint16_t *symbols = (uint16_t *)region_of(b, i, at);
        for (uint64_t k = 0; k < b->nvalues; k++) {
            uint16_t symbol =
                i < NSORTED ? expected[i][k] : UNTOUCHED << 8 | UNTOUCHED;
            if (symbols[k] != symbol)
                fail_case(b, what);
        }
    }
}

static int
compare_positions(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* A list of positions in tile order, or counts in level order. */
static void
check_escapes(const struct bench *b, int chunk)
{
    const uint64_t *ranges =
        (uint64_t *)region_of(b, chunk, b->batch.at.ranges);
    uint64_t *list = (uint64_t *)region_of(b, chunk, b->batch.at.tune);
    uint64_t n = 0;

    if (escapes_are_listed(b->batch, b->state[chunk])) {
        unsigned nlisted = b->state[chunk].progress[CUDA_PROGRESS_LISTED];
        qsort(list, nlisted, sizeof *list, compare_positions);
        for (uint64_t i = 0; i < b->nvalues; i++)
            if (b->tiled[chunk][i] == TERP_ESCAPE &&
                (n >= nlisted || list[n++] != i))
                fail_case(b, "list of escapes");
        if (n != nlisted)
            fail_case(b, "length of the list of escapes");
        return;
    }
    for (uint64_t i = 0; i < b->nvalues; i++) {
        n += b->symbols[chunk][i] == TERP_ESCAPE;
        if ((i + 1) % CUDA_RANGE_NVALUES == 0 || i + 1 == b->nvalues) {
            if (ranges[i / CUDA_RANGE_NVALUES] != n)
                fail_case(b, "counts of escapes");
            n = 0;
        }
    }
}

static void
check_both_ways(struct bench *b, uint64_t seed, int rarity)
{
    const struct cuda_regions *at = &b->batch.at;

    b->wide = seed % 3 == 0 ? (int)(seed / 3) % TERP_WIDE_MAX + 1 : 0;
    make_symbols(b, seed, rarity);
    make_specials(b, seed);
    sort_symbols(b);
    begin_call(b, at->symbols, b->tiled);
    memset(region_of(b, SPLINE, at->mask), UNTOUCHED, 8); /* still empty */
    assert_int_equal(cuda_context_sort(&b->batch, NULL), cudaSuccess);
    check_symbols(b, at->coded, b->sorted, "sorted");
    begin_call(b, at->coded, b->sorted);
    assert_int_equal(cuda_context_restore(&b->batch, NULL), cudaSuccess);
    check_symbols(b, at->symbols, b->tiled, "restored");
    for (int i = 0; i < NSORTED; i++)
        check_escapes(b, i);
}

static void
check_shape(int rank, bool stack, const uint64_t *dims)
{
    static uint64_t seed;
    struct terp_chunk chunk = {};
    struct bench b;

    chunk.type = seed % 8 < 4 ? TERP_FLOAT32 : TERP_FLOAT64;
    chunk.rank = rank;
    chunk.stack = stack;
    memcpy(chunk.dims, dims, (size_t)rank * sizeof *dims);
    make_bench(&b, &chunk);
    check_both_ways(&b, ++seed, 12);
    check_both_ways(&b, ++seed, 3);
    check_both_ways(&b, ++seed, 7);
    seed++;
    free_bench(&b);
}

static const struct {
    int rank;
    bool stack;
    uint64_t dims[TERP_NDIMS];
} shapes[] = {
    {1, false, {1}},
    {1, false, {2}},
    {1, false, {3}},
    {1, false, {9}},
    {1, false, {4097}},
    {1, false, {70001}},
    {2, false, {1, 1}},
    {2, false, {1, 3000}},
    {2, false, {700, 1}},
    {2, false, {2, 3}},
    {2, false, {63, 65}},
    {2, false, {131, 257}},
    {2, false, {256, 256}},
    {3, false, {1, 1, 1}},
    {3, false, {3, 2, 5}},
    {3, false, {1, 64, 64}},
    {3, false, {17, 33, 40}},
    {3, false, {64, 64, 64}},
    {3, false, {67, 35, 71}},
    {3, false, {150, 3, 90}},
    {4, false, {1, 1, 1, 1}},
    {4, false, {1, 1, 90, 77}},
    {4, false, {9, 10, 11, 17}},
    {4, false, {16, 16, 16, 16}},
    {4, false, {3, 40, 5, 33}},
    {2, true, {5, 1}},
    {2, true, {3000, 2}},
    {2, true, {1001, 3}},
    {2, true, {7, 5000}},
    {3, true, {300, 4, 6}},
    {3, true, {3, 100, 70}},
    {4, true, {90, 5, 7, 9}},
    {4, true, {5, 33, 16, 40}},
};

static void
symbols_are_sorted_and_restored_as_the_cpu_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++)
        check_shape(shapes[i].rank, shapes[i].stack, shapes[i].dims);
}

/* All points have one context, and the largest weights. */
static void
symbols_that_are_all_alike_stay_where_they_are(void **state)
{
    static const uint16_t symbols[] = {TERP_RADIUS, 2 * TERP_RADIUS - 1,
                                       TERP_ESCAPE};
    struct terp_chunk chunk = {};
    struct bench b;

    (void)state;
    chunk.rank = 3;
    chunk.dims[0] = 33;
    chunk.dims[1] = chunk.dims[2] = 40;
    make_bench(&b, &chunk);
    for (size_t i = 0; i < COUNT(symbols); i++) {
        for (uint64_t k = 0; k < b.nvalues; k++)
            b.tiled[SPLINE][k] = b.tiled[LORENZO][k] = symbols[i];
        begin_call(&b, b.batch.at.symbols, b.tiled);
        assert_int_equal(cuda_context_sort(&b.batch, NULL), cudaSuccess);
        check_symbols(&b, b.batch.at.coded, b.tiled, "sorted");
    }
    free_bench(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_are_sorted_and_restored_as_the_cpu_does),
        cmocka_unit_test(symbols_that_are_all_alike_stay_where_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

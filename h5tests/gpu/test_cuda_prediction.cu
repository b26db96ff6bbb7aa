/* Compares prediction on the device with the CPU engine, stage by stage:
 * symbols in tile order, counts of escapes, their section, and values. */
#include "gpu/entropy/order.cuh"
#include "gpu/predict/lorenzo.cuh"
#include "gpu/sections/escapes.cuh"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "codec/format/bytes.h"
#include "cpu/entropy/order.h"
#include "cpu/predict/predictor.h"
#include "cpu/predict/spline.h"
#include "cpu/sections/escapes.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/exact_quants.h"
#include "h5tests/support/fields.h"
}

#define NCHUNKS 2 /* a batch; the last chunk has failed before */

/* One chunk with buffers for both engines. */
struct bench {
    struct terp_chunk chunk;
    struct terp_layout layout;
    const struct cpu_stages *stages;
    struct cpu_quantizer quantizer;
    struct cpu_fills fills;
    uint64_t nvalues, nbytes; /* of the chunk */
    uint8_t *values;
    uint16_t *symbols, *tiled; /* the CPU's results */
    uint64_t *mask;
    struct cuda_batch batch;
    struct cuda_chunk *state; /* for the chunks of the batch */
    uint8_t *dst;
    size_t shift; /* of values and dst, see misalign */
};

static uint64_t
place_region(uint64_t *end, uint64_t nbytes)
{
    uint64_t at = *end;
    *end += (nbytes + 255) / 256 * 256;
    return at;
}

static void *
device_memory(uint64_t nbytes)
{
    void *memory;
    assert_int_equal(cudaMalloc(&memory, nbytes), cudaSuccess);
    return memory;
}

static uint64_t
random_of(uint64_t *seed)
{
    return terp_field_mix(++*seed);
}

/* Fill values follow from the field. The bound is about a hundredth of the
 * field's range, and smaller for wider codes. */
static void
make_bench(struct bench *b, enum terp_type type, int rank, const uint64_t *dims,
           bool stack, enum terp_field field, double bound, int wide)
{
    memset(b, 0, sizeof *b);
    b->chunk.type = type;
    b->chunk.rank = rank;
    b->chunk.stack = stack;
    memcpy(b->chunk.dims, dims, (size_t)rank * sizeof *dims);
    terp_layout_make(&b->chunk, &b->layout);
    b->stages =
        type == TERP_FLOAT32 ? &terp_cpu_stages_f32 : &terp_cpu_stages_f64;
    b->nvalues = b->layout.nvalues;
    b->nbytes = b->nvalues * (uint64_t)b->stages->value_nbytes;
    b->values = (uint8_t *)terp_case_alloc(b->nbytes + sizeof(double));
    b->symbols = (uint16_t *)terp_case_alloc(2 * b->nvalues);
    b->tiled = (uint16_t *)terp_case_alloc(2 * b->nvalues);
    b->mask = (uint64_t *)calloc(b->nvalues / 64 + 1, 8);
    terp_field_make(field, &b->chunk, b->values);
    for (int i = 0; i < TERP_NFILLS; i++)
        b->fills.bits[i] = b->stages->negative_zero_bits;
    if (field == TERP_FIELD_COAST || field == TERP_FIELD_OUTLIERS) {
        double fill = 1e20;
        float narrow = 1e20F;
        memcpy(&b->fills.bits[1],
               type == TERP_FLOAT32 ? (void *)&narrow : &fill,
               (size_t)b->stages->value_nbytes);
    }
    struct cpu_stats stats;
    b->stages->scan(b->values, b->nvalues, &b->fills, &stats);
    bound /= 1 << terp_unit_nbits(wide);
    b->quantizer.step = b->quantizer.grid_step = terp_step_of(bound, 10);
    b->quantizer.bound = bound;
    b->quantizer.max_code = terp_max_code_of(wide);
    b->quantizer.wide = wide;
    b->quantizer.radius = terp_radius_of(wide);
    b->quantizer.has_specials = stats.nspecials > 0;
    b->quantizer.reference = 0.25;
    b->stages->mask(b->values, 0, b->nvalues, &b->fills, b->mask);

    struct cuda_batch *batch = &b->batch;
    batch->nchunks = NCHUNKS;
    batch->chunk = b->chunk;
    batch->value_nbytes = b->stages->value_nbytes;
    batch->raw_nbytes = b->nbytes + 64;
    batch->nvalues = b->nvalues;
    batch->ntiles = div_up(b->nvalues, TERP_TILE_NSYMBOLS);
    batch->npartitions = div_up(batch->ntiles, TERP_PARTITION_NTILES);
    batch->nranges = div_up(b->nvalues, CUDA_RANGE_NVALUES);
    batch->h_layout = batch->d_layout = &b->layout;
    uint64_t end = 0, value_nbytes = (uint64_t)b->stages->value_nbytes;
    batch->at.ranges = place_region(&end, 8 * (batch->nranges + 1));
    batch->at.zeroed_nbytes = end;
    batch->at.work = place_region(&end, b->nbytes);
    batch->at.lattice =
        place_region(&end, b->layout.nlattice * value_nbytes + 1);
    batch->at.symbols = place_region(&end, 2 * b->nvalues);
    batch->at.mask = place_region(&end, (b->nvalues / 64 + 1) * 8);
    batch->at.tune = place_region(&end, 8 * CUDA_MAX_NLISTED);
    batch->at.begin = place_region(&end, 8 * (batch->npartitions + 1));
    batch->at.staging =
        place_region(&end, batch->npartitions * CUDA_PARTITION_MAX_NBYTES);
    batch->at.stride = end;
    batch->d_scratch = (uint8_t *)device_memory(end * NCHUNKS);
    b->state = (struct cuda_chunk *)device_memory(sizeof *b->state * NCHUNKS);
    batch->d_chunks = b->state;
    b->dst = (uint8_t *)device_memory(batch->raw_nbytes * NCHUNKS);
    memset(b->state, 0, sizeof *b->state * NCHUNKS);
    const struct cpu_grid grid = b->stages->grid(&b->quantizer);
    for (int i = 0; i < NCHUNKS; i++) {
        struct cuda_chunk *state = &b->state[i];
        memset(batch->d_scratch + (uint64_t)i * end, 0,
               batch->at.zeroed_nbytes);
        state->status = i + 1 < NCHUNKS ? TERP_OK : TERP_ERR_CAPACITY;
        state->src = b->values;
        state->dst = b->dst + (uint64_t)i * batch->raw_nbytes;
        state->bound = bound;
        state->model.step = b->quantizer.step;
        state->model.wide = wide;
        state->model.reference = grid.reference;
        state->grid_step = grid.step;
        state->grid_inverse = grid.inverse;
        state->has_specials = stats.nspecials > 0;
        state->nspecials = stats.nspecials;
        memcpy(state->fills, b->fills.bits, sizeof state->fills);
        state->specials_end = 7;
    }
}

/* From now on, values are aligned to their own size only. */
static void
misalign(struct bench *b)
{
    b->shift = (size_t)b->stages->value_nbytes;
    memmove(b->values + b->shift, b->values, b->nbytes);
    b->values += b->shift;
    b->dst += b->shift;
    for (int i = 0; i < NCHUNKS; i++)
        b->state[i].dst = b->dst + (uint64_t)i * b->batch.raw_nbytes;
}

static void
free_bench(struct bench *b)
{
    free(b->values - b->shift);
    free(b->symbols);
    free(b->tiled);
    free(b->mask);
    cudaFree(b->batch.d_scratch);
    cudaFree(b->state);
    cudaFree(b->dst - b->shift);
}

static uint8_t *
device_region(const struct bench *b, uint64_t at)
{
    return b->batch.d_scratch + at;
}

/* The memory that is zero when a call begins. */
static void
begin_call(struct bench *b)
{
    memset(device_region(b, b->batch.at.ranges), 0, b->batch.at.zeroed_nbytes);
    memset(b->state[0].progress, 0, sizeof b->state[0].progress);
    b->state[0].numbers_nbytes = 0;
}

static void
fail_case(const struct bench *b, const char *what)
{
    char text[200];
    const uint64_t *dims = b->chunk.dims;
    snprintf(text, sizeof text, "%s: %s %s%d %llux%llux%llux%llu\n", what,
             b->chunk.type == TERP_FLOAT32 ? "float32" : "float64",
             b->chunk.stack ? "stack " : "", b->chunk.rank,
             (unsigned long long)dims[0],
             (unsigned long long)(b->chunk.rank > 1 ? dims[1] : 1),
             (unsigned long long)(b->chunk.rank > 2 ? dims[2] : 1),
             (unsigned long long)(b->chunk.rank > 3 ? dims[3] : 1));
    fail_msg("%s", text);
}

/* The CPU's symbols in level order, and their escapes. */
static void
check_symbols(struct bench *b, enum terp_prediction prediction)
{
    const struct cuda_regions *at = &b->batch.at;
    const uint64_t *ranges = (uint64_t *)device_region(b, at->ranges);
    uint64_t n = 0;

    terp_cpu_order_tiles(NULL, &b->layout, prediction, b->symbols, b->tiled,
                         true);
    if (memcmp(b->tiled, device_region(b, at->symbols), 2 * b->nvalues) != 0)
        fail_case(b, "symbols");
    for (uint64_t i = 0; i < b->nvalues; i++) {
        n += b->symbols[i] == TERP_ESCAPE;
        if ((i + 1) % CUDA_RANGE_NVALUES == 0 || i + 1 == b->nvalues) {
            if (ranges[i / CUDA_RANGE_NVALUES] != n)
                fail_case(b, "counts of escapes");
            n = 0;
        }
    }
}

/* As after decoding tiles, but in an unhelpful order. */
static void
list_escapes(struct bench *b)
{
    uint64_t *list = (uint64_t *)device_region(b, b->batch.at.tune);
    unsigned n = 0;

    for (uint64_t i = b->nvalues; i-- > 0;)
        if (b->tiled[i] == TERP_ESCAPE)
            list[n++] = i;
    b->state[0].progress[CUDA_PROGRESS_LISTED] = n;
}

/* The section that the CPU would write; then reads it back into `work`. */
static void
check_escapes(struct bench *b, void *words)
{
    struct cuda_chunk *state = &b->state[0];
    const size_t nbytes = (size_t)b->stages->value_nbytes;
    const uint64_t readable_nbytes = b->nbytes + 32;
    uint8_t *section = (uint8_t *)malloc(readable_nbytes);
    struct writer writer = {section, section + readable_nbytes, false};
    const bool lorenzo = state->prediction == TERP_PREDICTION_LORENZO;
    struct cpu_prediction cpu;
    uint64_t nescapes = 0;

    for (uint64_t i = 0; i < b->nvalues; i++)
        nescapes += b->symbols[i] == TERP_ESCAPE;
    memset(&cpu, 0, sizeof cpu);
    cpu.stages = b->stages;
    cpu.layout = &b->layout;
    cpu.quantizer = b->quantizer;
    cpu.work = words;
    cpu.symbols = b->symbols;
    terp_cpu_escapes_write(&cpu, !lorenzo, &writer);
    uint64_t section_nbytes = (uint64_t)(writer.at - section);
    memset(b->dst, 0xEE, b->batch.raw_nbytes);
    assert_int_equal(cuda_escapes_write(&b->batch, NULL), cudaSuccess);
    if (state->specials_end + section_nbytes >= b->batch.raw_nbytes) {
        if (state->status != TERP_ERR_CAPACITY)
            fail_case(b, "escapes beyond the capacity");
        state->status = TERP_OK;
        free(section);
        return;
    }
    if (state->status != TERP_OK || state->nescapes != nescapes ||
        state->escapes_end != state->specials_end + section_nbytes ||
        memcmp(b->dst + state->specials_end, section, section_nbytes) != 0 ||
        b->dst[state->specials_end - 1] != 0xEE ||
        (state->escapes_end < b->batch.raw_nbytes &&
         b->dst[state->escapes_end] != 0xEE))
        fail_case(b, "section of escapes");

    /* The state of decoding at this point. */
    const struct cuda_chunk before = *state;
    uint8_t *work = device_region(b, b->batch.at.work);
    uint64_t *ranges = (uint64_t *)device_region(b, b->batch.at.ranges);
    state->src = b->dst;
    state->src_nbytes = state->escapes_end;
    for (int wrong = 1; wrong >= 0; wrong--) {
        begin_call(b);
        memset(work, 0xA5, b->nbytes);
        state->nescapes = nescapes + (uint64_t)wrong;
        if (escapes_are_listed(b->batch, *state))
            list_escapes(b);
        else
            for (uint64_t i = 0; i < b->nvalues; i++)
                ranges[i / CUDA_RANGE_NVALUES] += b->symbols[i] == TERP_ESCAPE;
        assert_int_equal(cuda_escapes_place(&b->batch, NULL), cudaSuccess);
        if (state->status != (wrong ? TERP_ERR_CORRUPT : TERP_OK))
            fail_case(b, "number of escapes");
        state->status = TERP_OK;
    }
    for (uint64_t i = 0; i < b->nvalues; i++)
        if (b->symbols[i] == TERP_ESCAPE &&
            memcmp(work + i * nbytes, (const uint8_t *)words + i * nbytes,
                   nbytes) != 0)
            fail_case(b, "placed escapes");
    *state = before;
    free(section);
}

/* `dst` after decoding, at first with the length of the values and aligned. */
static void
check_values(struct bench *b, const void *values)
{
    if (memcmp(b->dst, values, b->nbytes) != 0)
        fail_case(b, "values");
}

/* A stream that ends with the words of escapes. */
static uint8_t *
gather_escapes(struct bench *b, const uint8_t *work)
{
    struct cuda_chunk *state = &b->state[0];
    size_t nbytes = (size_t)b->stages->value_nbytes;
    uint8_t *words = (uint8_t *)malloc(b->nbytes);

    state->nescapes = state->escapes_end = 0;
    state->number_nbytes = 0;
    for (uint64_t i = 0; i < b->nvalues; i++) {
        if (b->symbols[i] != TERP_ESCAPE)
            continue;
        memcpy(words + state->escapes_end, work + i * nbytes, nbytes);
        state->escapes_end += nbytes;
        state->nescapes++;
    }
    state->src = words;
    return words;
}

/* All points of a level. */
static uint64_t
fine_nvalues(const struct terp_layout *layout, int l)
{
    uint64_t nvalues = layout->nbricks;

    for (int d = 0; d < TERP_NDIMS; d++)
        nvalues *= layout->level[l].neven[d] + layout->level[l].nodd[d];
    return nvalues;
}

/* How many dimensions blending combines where it applies (1: none), or plans
 * whose finest level is predicted plane by plane. */
#define CHECK_MARCHES 4
#define CHECK_MARCHES_BLENDED 6
#define CHECK_MARCHES_LINEAR 8

static void
check_spline(struct bench *b, int blend, uint64_t *seed)
{
    struct cpu_prediction cpu;
    static const uint8_t marched[] = {TERP_SPLINE_CUBIC, TERP_SPLINE_NATURAL,
                                      TERP_SPLINE_LONG};
    /* all sequences of three dimensions */
    static const uint8_t sweeps[] = {0x06, 0x09, 0x12, 0x18, 0x21, 0x24};
    struct cuda_chunk *state = &b->state[0];
    uint8_t *values = (uint8_t *)malloc(b->nbytes);

    memset(&cpu, 0, sizeof cpu);
    cpu.stages = b->stages;
    cpu.layout = &b->layout;
    cpu.quantizer = b->quantizer;
    cpu.values = b->values;
    cpu.fills = b->quantizer.has_specials ? &b->fills : NULL;
    assert_int_equal(terp_cpu_prediction_make(&cpu), TERP_OK);
    cpu.symbols = b->symbols;
    for (int i = 0; i < NCHUNKS; i++)
        b->state[i].prediction = TERP_PREDICTION_SPLINE;
    for (int l = 1; l <= b->layout.nlevels; l++) {
        uint64_t r = random_of(seed);
        struct terp_level_plan plan = {
            (uint8_t)(r % 3 * (r >> 8 & 1)),
            (uint8_t)(r >> 16 & 1 ? r >> 24 : 0),
            (uint8_t)(r >> 40 & 1 ? TERP_BOUND_RATIO_ONE : 1 + (r >> 48) % 64)};
        const bool is_large =
            fine_nvalues(&b->layout, l) > TERP_BLEND_MIN_NVALUES;
        if (blend == CHECK_MARCHES_BLENDED && l == 1 && is_large)
            plan = {TERP_SPLINE_LONG, TERP_BLEND_FULL, plan.bound_ratio};
        else if (blend == CHECK_MARCHES && l == 1)
            plan = {marched[r % (is_large ? 3 : 2)],
                    (uint8_t)(r >> 16 & 1   ? 0x55
                              : r >> 17 & 1 ? r >> 24 & 0x3F
                                            : 0),
                    plan.bound_ratio};
        else if (blend == CHECK_MARCHES_LINEAR && l == 1)
            plan = {TERP_SPLINE_LINEAR, sweeps[r % 6], plan.bound_ratio};
        else if ((blend == 2 || blend == 3) && is_large)
            plan.priorities = blend == 2 ? TERP_BLEND_PAIRS : TERP_BLEND_FULL;
        else if (terp_blend_order(plan.priorities) > 1)
            plan.priorities = 0;
        if (is_large && (blend & 1) != 0 && (r >> 56 & 1) != 0)
            plan.spline = TERP_SPLINE_LONG;
        if (is_large && (r >> 57 & 3) == 0)
            plan = {TERP_SPLINE_MEAN, 0, plan.bound_ratio};
        cpu.plan[l] = plan;
        for (int i = 0; i < NCHUNKS; i++) {
            b->state[i].model.plan[l].spline = plan.spline;
            b->state[i].model.plan[l].priorities = plan.priorities;
            b->state[i].model.plan[l].bound_ratio = plan.bound_ratio;
        }
    }
    terp_cpu_spline_deinterleave(&cpu);
    terp_cpu_spline.quantize(&cpu);

    begin_call(b);
    state->src = b->values;
    b->batch.decodes = false;
    assert_int_equal(cuda_spline_begin(&b->batch, NULL), cudaSuccess);
    assert_int_equal(cuda_spline_quantize(&b->batch, NULL), cudaSuccess);
    assert_int_equal(state->status, TERP_OK);
    check_symbols(b, TERP_PREDICTION_SPLINE);
    check_escapes(b, cpu.work);

    terp_cpu_order_tiles(NULL, &b->layout, TERP_PREDICTION_SPLINE, b->tiled,
                         b->symbols, false);
    memcpy(device_region(b, b->batch.at.symbols), b->tiled, 2 * b->nvalues);
    memcpy(device_region(b, b->batch.at.work), cpu.work, b->nbytes);
    uint8_t *words = gather_escapes(b, (uint8_t *)cpu.work);
    terp_cpu_spline.reconstruct(&cpu, values);
    b->batch.decodes = true;
    assert_int_equal(cuda_spline_begin(&b->batch, NULL), cudaSuccess);
    assert_int_equal(cuda_spline_reconstruct(&b->batch, NULL), cudaSuccess);
    check_values(b, values);
    free(words);
    free(values);
    terp_cpu_prediction_free(&cpu);
}

static bool
is_masked(const struct bench *b, uint64_t i)
{
    return b->mask[i / 64] >> (i % 64) & 1;
}

static double
value_at(const struct bench *b, const uint8_t *values, uint64_t i)
{
    return b->chunk.type == TERP_FLOAT32 ? ((const float *)values)[i]
                                         : ((const double *)values)[i];
}

/* Whether values are within the bound. */
static bool
is_near(const struct bench *b, const uint8_t *values, uint64_t i)
{
    double difference = value_at(b, values, i) - value_at(b, b->values, i);
    return difference <= b->quantizer.bound &&
           -difference <= b->quantizer.bound;
}

/* Returns the dimensions that the stream would have. */
static unsigned
check_lorenzo(struct bench *b, unsigned dims)
{
    const uint64_t mask_nbytes = div_up(b->nvalues, 64) * 8;
    const size_t value_nbytes = (size_t)b->stages->value_nbytes;
    struct cpu_prediction cpu;
    struct cuda_chunk *state = &b->state[0];
    uint8_t *quants = (uint8_t *)malloc(b->nbytes);
    uint8_t *values = (uint8_t *)malloc(b->nbytes);

    memset(&cpu, 0, sizeof cpu);
    cpu.stages = b->stages;
    cpu.layout = &b->layout;
    cpu.quantizer = b->quantizer;
    cpu.values = b->values;
    cpu.mask = b->mask;
    cpu.nspecials = b->state[0].nspecials;
    cpu.work = quants;
    cpu.symbols = b->symbols;
    cpu.lorenzo_dims = dims;
    for (int i = 0; i < NCHUNKS; i++) {
        b->state[i].prediction = TERP_PREDICTION_LORENZO;
        b->state[i].model.lorenzo_dims = dims;
    }
    terp_cpu_lorenzo.quantize(&cpu);
    const uint64_t nspecials = cpu.nspecials;
    begin_call(b);
    state->src = b->values;
    assert_int_equal(cuda_lorenzo_quantize(&b->batch, NULL), cudaSuccess);
    assert_int_equal(state->status, TERP_OK);
    check_symbols(b, TERP_PREDICTION_LORENZO);
    if (state->nspecials != nspecials ||
        state->has_specials != (nspecials > 0) ||
        memcmp(b->mask, device_region(b, b->batch.at.mask), mask_nbytes) != 0)
        fail_case(b, "special values of lorenzo");
    if (coded_dims(*state) != cpu.lorenzo_dims)
        fail_case(b, "means");
    check_escapes(b, quants);
    state->model.lorenzo_dims = cpu.lorenzo_dims;
    state->differences_sum = state->means_sum = 0;

    /* The codes of special points do not matter. */
    for (uint64_t i = 0; i < b->nvalues; i++)
        if (is_masked(b, i))
            b->symbols[i] = (uint16_t)(1 + i % (2 * TERP_MAX_CODE));
    terp_cpu_order_tiles(NULL, &b->layout, TERP_PREDICTION_LORENZO, b->symbols,
                         b->tiled, true);
    memcpy(device_region(b, b->batch.at.symbols), b->tiled, 2 * b->nvalues);
    memcpy(device_region(b, b->batch.at.work), quants, b->nbytes);
    cpu.mask = nspecials > 0 ? b->mask : NULL;
    terp_cpu_lorenzo.reconstruct(&cpu, values);
    assert_int_equal(cuda_lorenzo_reconstruct(&b->batch, NULL), cudaSuccess);
    for (uint64_t i = 0; i < b->nvalues; i++)
        if (is_masked(b, i)) /* old contents are overwritten */
            memcpy(b->dst + i * value_nbytes, values + i * value_nbytes,
                   value_nbytes);
    check_values(b, values);
    for (uint64_t i = 0; i < b->nvalues; i++)
        if (!is_masked(b, i) && !is_near(b, values, i))
            fail_case(b, "bound");
    free(quants);
    free(values);
    return cpu.lorenzo_dims;
}

struct shape {
    int rank;
    bool stack;
    uint64_t dims[4];
};

/* Odd and even extents, extents of one at either end, rows longer than a block,
 * boxes cut in every dimension, stacks. */
static const struct shape shapes[] = {
    {1, false, {1}},
    {1, false, {2}},
    {1, false, {37}},
    {1, false, {8192}},
    {1, false, {20001}},
    {2, false, {1, 1}},
    {2, false, {1, 300}},
    {2, false, {300, 1}},
    {2, false, {3, 2}},
    {2, false, {129, 130}},
    {2, false, {12, 1301}},
    {2, false, {12, 1304}},
    {2, true, {7, 1}},
    {2, true, {1500, 3}},
    {2, true, {5, 700}},
    {3, false, {1, 1, 5}},
    {3, false, {5, 1, 1}},
    {3, false, {2, 3, 2}},
    {3, false, {33, 1, 34}},
    {3, false, {32, 32, 32}},
    {3, false, {29, 31, 35}},
    {3, false, {33, 34, 35}},
    {3, false, {12, 30, 101}},
    {3, false, {4, 6, 520}},
    {3, false, {5, 4, 1030}},
    {3, true, {3, 1, 40}},
    {3, true, {4, 65, 66}},
    {3, true, {30, 16, 17}},
    {4, false, {9, 10, 11, 12}},
    {4, false, {12, 16, 8, 16}},
    {4, false, {1, 17, 1, 18}},
    {4, false, {6, 1, 9, 1}},
    {4, true, {3, 13, 20, 18}},
    {4, true, {1, 24, 24, 24}},
};

/* `blend`: see check_spline; 0: lorenzo. */
static void
all_shapes(int blend)
{
    const bool lorenzo = blend == 0;
    static const struct {
        enum terp_field field;
        double bound;
    } contents[] = {{TERP_FIELD_SMOOTH, 1e-4}, {TERP_FIELD_ROUGH, 1e-5},
                    {TERP_FIELD_GAPS, 1e-3},   {TERP_FIELD_COAST, 1e-4},
                    {TERP_FIELD_NOISE, 3e-4},  {TERP_FIELD_HUGE, 1e30}};
    static const int wide_nbits[] = {0, 3, 0, 9};
    uint64_t seed = (uint64_t)blend;

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (!terp_case_taken(2))
            continue;
        const struct shape *shape = &shapes[i];
        for (int type = 0; type < 2; type++) {
            struct bench b;
            size_t which =
                random_of(&seed) % (sizeof contents / sizeof *contents);
            if (i < 3)
                which = i;
            make_bench(&b, type ? TERP_FLOAT64 : TERP_FLOAT32, shape->rank,
                       shape->dims, shape->stack, contents[which].field,
                       contents[which].bound, wide_nbits[i % 4]);
            if (lorenzo)
                check_lorenzo(&b, (unsigned)random_of(&seed) &
                                      ((1u << b.layout.rank) - 1));
            else
                check_spline(&b, blend, &seed);
            free_bench(&b);
        }
    }
}

static void
spline_equals_the_cpu_for_all_shapes(void **state)
{
    (void)state;
    all_shapes(1);
}

static void
blended_pairs_equal_the_cpu_for_all_shapes(void **state)
{
    (void)state;
    all_shapes(2);
}

static void
full_blending_equals_the_cpu_for_all_shapes(void **state)
{
    (void)state;
    all_shapes(3);
}

/* From less than a tile to several, cut by one or more cubes in every
 * dimension; cut segments, bricks and boxes. Then chunks for ragged tiles: odd
 * extents, rows of an odd number of cubes; some chunks are unaligned or have
 * special values. The last has bricks of odd extents, which are not marched
 * through. Each plan takes a third of the fields of a shape. */
static void
all_marched_shapes(int plan)
{
    static const struct shape marched[] = {
        {3, false, {4, 6, 8}},     {3, false, {6, 10, 12}},
        {3, false, {64, 64, 64}},  {3, false, {90, 36, 140}},
        {3, false, {42, 34, 132}}, {3, false, {6, 50, 264}},
        {3, false, {130, 4, 12}},  {4, true, {3, 44, 18, 68}},
        {3, false, {26, 12, 16}},  {3, false, {20, 90, 24}},
        {3, false, {63, 40, 64}},  {3, false, {40, 41, 64}},
        {3, false, {40, 40, 70}},  {3, false, {64, 64, 65}},
        {3, false, {67, 35, 131}}, {3, false, {5, 5, 5}},
        {3, false, {7, 6, 5}},     {3, false, {18, 135, 46}},
        {3, false, {37, 71, 139}}, {4, true, {3, 20, 19, 33}},
    };
    static const enum terp_field fields[] = {
        TERP_FIELD_SMOOTH, TERP_FIELD_ROUGH,    TERP_FIELD_NOISE,
        TERP_FIELD_GAPS,   TERP_FIELD_OUTLIERS, TERP_FIELD_SPIKES};
    uint64_t seed = 4000;
    unsigned ncases = 0;

    for (size_t i = 0; i < sizeof marched / sizeof *marched; i++)
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++, ncases++) {
            if (!terp_case_taken(2))
                continue;
            struct bench b;
            if ((i + f + (size_t)plan / 2) % 3 != 0)
                continue;
            make_bench(&b, ncases % 4 == 3 ? TERP_FLOAT64 : TERP_FLOAT32,
                       marched[i].rank, marched[i].dims, marched[i].stack,
                       fields[f], fields[f] == TERP_FIELD_NOISE ? 3e-4 : 1e-4,
                       f == 2 ? 4 : 0);
            if (ncases % 7 == 0)
                misalign(&b);
            check_spline(&b, plan, &seed);
            free_bench(&b);
        }
}

static void
marched_levels_equal_the_cpu(void **state)
{
    (void)state;
    all_marched_shapes(CHECK_MARCHES);
}

static void
marched_levels_that_blend_equal_the_cpu(void **state)
{
    (void)state;
    all_marched_shapes(CHECK_MARCHES_BLENDED);
}

static void
marched_linear_levels_equal_the_cpu(void **state)
{
    (void)state;
    all_marched_shapes(CHECK_MARCHES_LINEAR);
}

/* The CPU's results under a plan of the finest level: symbols in tile order,
 * and values. */
static void
predict_by_cpu(struct bench *b, const struct terp_level_plan &finest,
               uint8_t *values)
{
    struct cpu_prediction cpu;

    memset(&cpu, 0, sizeof cpu);
    cpu.stages = b->stages;
    cpu.layout = &b->layout;
    cpu.quantizer = b->quantizer;
    cpu.values = b->values;
    assert_int_equal(terp_cpu_prediction_make(&cpu), TERP_OK);
    cpu.symbols = b->symbols;
    for (int l = 1; l <= b->layout.nlevels; l++)
        cpu.plan[l] = {TERP_SPLINE_CUBIC, 0, TERP_BOUND_RATIO_ONE};
    cpu.plan[1] = finest;
    terp_cpu_spline_deinterleave(&cpu);
    terp_cpu_spline.quantize(&cpu);
    terp_cpu_order_tiles(NULL, &b->layout, TERP_PREDICTION_SPLINE, b->symbols,
                         b->tiled, true);
    for (uint64_t i = 0; i < b->nvalues; i++)
        assert_int_not_equal(b->symbols[i], TERP_ESCAPE);
    terp_cpu_spline.reconstruct(&cpu, values);
    terp_cpu_prediction_free(&cpu);
}

/* A chunk predicted plane by plane beside one that is not, and the other way
 * round. */
static void
chunks_of_a_batch_may_differ_in_their_plans(void **state)
{
    static const uint64_t dims[] = {40, 44, 64};
    static const struct terp_level_plan plans[] = {
        {TERP_SPLINE_CUBIC, 0, TERP_BOUND_RATIO_ONE},
        {TERP_SPLINE_LINEAR, 0, TERP_BOUND_RATIO_ONE},
        {TERP_SPLINE_LONG, 0, TERP_BOUND_RATIO_ONE},
        {TERP_SPLINE_CUBIC, TERP_BLEND_PAIRS, TERP_BOUND_RATIO_ONE},
        {TERP_SPLINE_LONG, TERP_BLEND_FULL, TERP_BOUND_RATIO_ONE},
        {TERP_SPLINE_LONG, 0x1B, TERP_BOUND_RATIO_ONE},
        {TERP_SPLINE_NATURAL, 0, TERP_BOUND_RATIO_ONE}};
    const size_t nplans = sizeof plans / sizeof *plans;

    (void)state;
    for (size_t p = 0; p < nplans; p++) {
        if (!terp_case_taken(2))
            continue;
        struct bench b;
        make_bench(&b, TERP_FLOAT32, 3, dims, false, TERP_FIELD_SMOOTH, 1e-2,
                   0);
        uint8_t *values = (uint8_t *)malloc(b.nbytes);
        for (size_t k = 0; k < NCHUNKS; k++) {
            struct cuda_chunk &chunk = b.state[k];
            chunk.status = TERP_OK;
            chunk.prediction = TERP_PREDICTION_SPLINE;
            for (int l = 1; l <= b.layout.nlevels; l++)
                chunk.model.plan[l] = {TERP_SPLINE_CUBIC, 0,
                                       TERP_BOUND_RATIO_ONE};
            chunk.model.plan[1] = plans[(p + k) % nplans];
        }
        b.batch.decodes = false;
        assert_int_equal(cuda_spline_begin(&b.batch, NULL), cudaSuccess);
        assert_int_equal(cuda_spline_quantize(&b.batch, NULL), cudaSuccess);
        for (size_t k = 0; k < NCHUNKS; k++) {
            predict_by_cpu(&b, plans[(p + k) % nplans], values);
            if (memcmp(b.tiled,
                       device_region(&b, b.batch.at.symbols +
                                             k * b.batch.at.stride),
                       2 * b.nvalues) != 0)
                fail_case(&b, "symbols of a batch");
        }
        b.batch.decodes = true;
        assert_int_equal(cuda_spline_begin(&b.batch, NULL), cudaSuccess);
        assert_int_equal(cuda_spline_reconstruct(&b.batch, NULL), cudaSuccess);
        for (size_t k = 0; k < NCHUNKS; k++) {
            predict_by_cpu(&b, plans[(p + k) % nplans], values);
            if (memcmp(b.dst + k * b.batch.raw_nbytes, values, b.nbytes) != 0)
                fail_case(&b, "values of a batch");
        }
        free(values);
        free_bench(&b);
    }
}

static void
lorenzo_equals_the_cpu_for_all_shapes(void **state)
{
    (void)state;
    all_shapes(0);
}

/* Also values that no quant reproduces. */
static void
exact_quants_equal_the_cpu_for_all_shapes(void **state)
{
    static const enum terp_field fields[] = {TERP_FIELD_ROUGH, TERP_FIELD_GAPS,
                                             TERP_FIELD_NOISE};
    unsigned ncases = 0;

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = 1; kind < EXACT_NKINDS; kind++, ncases++) {
            if (!terp_case_taken(2))
                continue;
            const struct shape *shape = &shapes[i];
            struct bench b;
            make_bench(&b, ncases % 2 ? TERP_FLOAT64 : TERP_FLOAT32,
                       shape->rank, shape->dims, shape->stack,
                       fields[ncases / 2 % 3], 1e-3, (int)(ncases % 5));
            b.quantizer.exact =
                exact_quants_of_kind((enum exact_kind)kind, b.quantizer.step,
                                     b.stages->value_nbytes);
            assert_true(b.quantizer.exact.significand > 0);
            for (int k = 0; k < NCHUNKS; k++)
                b.state[k].model.exact = b.quantizer.exact;
            check_lorenzo(&b, (1u << b.layout.rank) - 1);
            free_bench(&b);
        }
}

/* Lines that begin with, end with or consist of special points, in all
 * dimensions. */
static void
lorenzo_equals_the_cpu_around_special_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (!terp_case_taken(2))
            continue;
        const struct shape *shape = &shapes[i];
        for (int turn = 0; turn < 2; turn++) {
            struct bench b;
            make_bench(&b, (i + (size_t)turn) % 2 ? TERP_FLOAT64 : TERP_FLOAT32,
                       shape->rank, shape->dims, shape->stack,
                       turn ? TERP_FIELD_GAPS : TERP_FIELD_COAST, 1e-3,
                       (int)i % 2 * 4);
            check_lorenzo(&b, (1u << b.layout.rank) - 1);
            free_bench(&b);
        }
    }
}

/* Noise, for which means are the best prediction. The slowest dimension is
 * predicted, and rows have enough values. Bounds lead to codes, to escapes, and
 * to both. */
static void
means_of_noise_equal_the_cpu_for_all_shapes(void **state)
{
    const double bounds[] = {3e-2, 1e-6, 1.5e-3};
    unsigned n = 0, ntaken = 0;

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct shape *shape = &shapes[i];
        for (unsigned turn = 0; turn < 3; turn++) {
            struct bench b;
            make_bench(&b, n++ % 2 ? TERP_FLOAT64 : TERP_FLOAT32, shape->rank,
                       shape->dims, shape->stack, TERP_FIELD_NOISE,
                       bounds[turn], 0);
            const int d = terp_means_dim(&b.layout);
            const unsigned dims = turn == 0   ? (1u << b.layout.rank) - 1
                                  : turn == 1 ? 1u << d
                                              : 1u << d | 1;
            const unsigned told = check_lorenzo(&b, dims);
            if (d == 0 && told != dims)
                fail_case(&b, "means where none may be");
            ntaken += told > dims;
            free_bench(&b);
        }
    }
    assert_true(ntaken > 20);
}

/* Every content, both predictors, every set of dimensions. */
static void
contents_equal_the_cpu(void **state)
{
    const uint64_t dims[4] = {18, 21, 40};
    uint64_t seed = 1000;

    (void)state;
    for (int field = 0; field < TERP_NFIELDS; field++) {
        for (int type = 0; type < 2; type++) {
            if (!terp_case_taken(2))
                continue;
            struct bench b;
            double bound = field == TERP_FIELD_DENORMALS ? 1e-40
                           : field == TERP_FIELD_HUGE    ? 1e33
                                                         : 1e-3;
            make_bench(&b, type ? TERP_FLOAT64 : TERP_FLOAT32, 3, dims, false,
                       (enum terp_field)field, bound, 0);
            check_spline(&b, 1 + field % 3, &seed);
            free_bench(&b);
            make_bench(&b, type ? TERP_FLOAT64 : TERP_FLOAT32, 3, dims, false,
                       (enum terp_field)field, bound,
                       1 + field % TERP_LOW_MAX_NBITS);
            check_lorenzo(&b, (unsigned)field & 7);
            free_bench(&b);
        }
    }
}

static void
a_coarse_level_that_blends_is_left_to_the_cpu(void **state)
{
    const uint64_t dims[3] = {16, 16, 16};
    struct bench b;

    (void)state;
    make_bench(&b, TERP_FLOAT32, 3, dims, false, TERP_FIELD_SMOOTH, 1e-3, 0);
    for (int l = 1; l <= b.layout.nlevels; l++)
        b.state[0].model.plan[l].bound_ratio = TERP_BOUND_RATIO_ONE;
    b.state[0].model.plan[1].priorities = TERP_BLEND_PAIRS;
    b.state[0].prediction = TERP_PREDICTION_SPLINE;
    begin_call(&b);
    b.batch.decodes = false;
    assert_int_equal(cuda_spline_begin(&b.batch, NULL), cudaSuccess);
    assert_int_equal(cuda_spline_quantize(&b.batch, NULL), cudaSuccess);
    assert_int_equal(b.state[0].status, TERP_ERR_DEVICE);
    b.state[0].status = TERP_OK;
    b.state[0].model.plan[1].priorities = TERP_BLEND_FULL;
    assert_int_equal(cuda_spline_begin(&b.batch, NULL), cudaSuccess);
    assert_int_equal(b.state[0].status, TERP_ERR_DEVICE);
    free_bench(&b);
}

/* From a position to a symbol and back. */
static void
tile_order_equals_the_cpu(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (!terp_case_taken(2))
            continue;
        struct bench b;
        make_bench(&b, TERP_FLOAT32, shapes[i].rank, shapes[i].dims,
                   shapes[i].stack, TERP_FIELD_CONSTANT, 1, 0);
        assert_true(b.nvalues <= UINT16_MAX);
        for (uint64_t p = 0; p < b.nvalues; p++)
            b.symbols[p] = (uint16_t)p;
        terp_cpu_order_tiles(NULL, &b.layout, TERP_PREDICTION_SPLINE, b.symbols,
                             b.tiled, true);
        for (uint64_t p = 0; p < b.nvalues; p++)
            if (level_position_of_tiled(&b.layout, p) != b.tiled[p])
                fail_case(&b, "level_position_of_tiled");
        terp_cpu_order_tiles(NULL, &b.layout, TERP_PREDICTION_LORENZO,
                             b.symbols, b.tiled, true);
        for (uint64_t p = 0; p < b.nvalues; p++)
            if (raster_position_of_tiled(&b.layout, p) != b.tiled[p])
                fail_case(&b, "raster_position_of_tiled");
        free_bench(&b);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tile_order_equals_the_cpu),
        cmocka_unit_test(spline_equals_the_cpu_for_all_shapes),
        cmocka_unit_test(blended_pairs_equal_the_cpu_for_all_shapes),
        cmocka_unit_test(full_blending_equals_the_cpu_for_all_shapes),
        cmocka_unit_test(marched_levels_equal_the_cpu),
        cmocka_unit_test(marched_levels_that_blend_equal_the_cpu),
        cmocka_unit_test(marched_linear_levels_equal_the_cpu),
        cmocka_unit_test(chunks_of_a_batch_may_differ_in_their_plans),
        cmocka_unit_test(lorenzo_equals_the_cpu_for_all_shapes),
        cmocka_unit_test(exact_quants_equal_the_cpu_for_all_shapes),
        cmocka_unit_test(lorenzo_equals_the_cpu_around_special_values),
        cmocka_unit_test(means_of_noise_equal_the_cpu_for_all_shapes),
        cmocka_unit_test(contents_equal_the_cpu),
        cmocka_unit_test(a_coarse_level_that_blends_is_left_to_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Compares special values on the device with the CPU engine: the decisions of
 * the scan, the bytes of the section, and reading a valid or damaged
 * section. */
#include "gpu/engine/state.cuh"
#include "gpu/sections/specials.cuh"
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "cpu/predict/stages.h"
#include "cpu/sections/specials.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
}

#define NCHUNKS 2 /* a batch; the last chunk has failed before */
#define GUARD 0xEE

/* A batch of one shape. Values begin one value behind an aligned address,
 * streams one byte. */
struct bench {
    struct terp_chunk chunk;
    struct terp_layout layout;
    const struct cpu_stages *stages;
    uint64_t nvalues, nbytes, value_nbytes;
    uint8_t *memory, *values, *output, *stream;
    struct cuda_batch batch;
    struct cuda_chunk *state;
};

static uint64_t seed;

static uint64_t
random_below(uint64_t n)
{
    return terp_field_mix(++seed) % n;
}

/* Makes the random numbers of a case the same, whichever cases are drawn. */
static void
begin_case(int number)
{
    seed = (uint64_t)number << 32;
}

static uint64_t
place_region(uint64_t *end, uint64_t nbytes)
{
    uint64_t at = *end;
    *end += (nbytes + 255) / 256 * 256;
    return at;
}

static void
make_bench(struct bench *b, enum terp_type type, int rank, const uint64_t *dims,
           bool stack, bool big_endian)
{
    struct terp_frame frame = {};
    struct cuda_batch *batch = &b->batch;
    uint64_t end = 0;

    memset(b, 0, sizeof *b);
    b->chunk.type = type;
    b->chunk.rank = rank;
    b->chunk.stack = stack;
    b->chunk.big_endian = big_endian;
    memcpy(b->chunk.dims, dims, (size_t)rank * sizeof *dims);
    terp_layout_make(&b->chunk, &b->layout);
    b->stages =
        type == TERP_FLOAT32 ? &terp_cpu_stages_f32 : &terp_cpu_stages_f64;
    b->nvalues = b->layout.nvalues;
    b->value_nbytes = (uint64_t)b->stages->value_nbytes;
    b->nbytes = b->nvalues * b->value_nbytes;
    frame.chunk = b->chunk;
    batch->nchunks = NCHUNKS;
    batch->chunk = b->chunk;
    batch->value_nbytes = batch->carrier_nbytes = batch->own_nbytes =
        (int)b->value_nbytes;
    batch->raw_nbytes = (uint64_t)terp_frame_nbytes(&frame) + b->nbytes;
    frame.coding = TERP_CODING_HUFFMAN;
    batch->coding = TERP_CODING_HUFFMAN;
    batch->frame_nbytes = (uint64_t)terp_frame_write(&frame, batch->frame);
    batch->model_at = batch->frame_nbytes;
    batch->dims_end = batch->frame_nbytes - sizeof(double);
    batch->nvalues = b->nvalues;
    batch->ntiles = div_up(b->nvalues, TERP_TILE_NSYMBOLS);
    batch->npartitions = div_up(batch->ntiles, TERP_PARTITION_NTILES);
    batch->h_layout = batch->d_layout = &b->layout;
    batch->at.mask = place_region(&end, 8 * div_up(b->nvalues, 64));
    batch->at.runs = place_region(&end, 8 * div_up(b->nvalues, 64));
    batch->at.lattice =
        place_region(&end, batch->npartitions * CUDA_PARTITION_MAX_NBYTES);
    batch->at.swapped = place_region(&end, b->nbytes);
    batch->at.stride = end;
    uint64_t room = 16 * div_up(b->nbytes, 16) + 32;
    assert_int_equal(cudaMalloc((void **)&b->memory, 2 * room), 0);
    b->values = b->memory + b->value_nbytes;
    b->output = b->memory + room + b->value_nbytes;
    assert_int_equal(cudaMalloc((void **)&b->stream, batch->raw_nbytes + 2), 0);
    assert_int_equal(cudaMalloc((void **)&batch->d_scratch, end * NCHUNKS), 0);
    assert_int_equal(cudaMalloc((void **)&b->state, sizeof *b->state * NCHUNKS),
                     0);
    batch->d_chunks = batch->h_chunks = b->state;
}

static void
free_bench(struct bench *b)
{
    cudaFree(b->memory);
    cudaFree(b->stream);
    cudaFree(b->batch.d_scratch);
    cudaFree(b->state);
}

/* Starts a call. */
static void
begin_call(struct bench *b, bool decode)
{
    memset(b->state, 0, sizeof *b->state * NCHUNKS);
    for (int i = 0; i < NCHUNKS; i++) {
        struct cuda_chunk *state = &b->state[i];
        state->status = i == 0 ? TERP_OK : TERP_ERR_CAPACITY;
        state->original = b->values;
        state->src = decode ? b->stream + 1 : b->values;
        state->dst = decode ? b->output : b->stream + 1;
        state->values = decode ? state->dst : (void *)b->values;
    }
    if (!decode)
        memset(b->stream, GUARD, b->batch.raw_nbytes + 2);
}

static bool
all_are(const uint8_t *bytes, uint64_t nbytes, uint8_t byte)
{
    for (uint64_t i = 0; i < nbytes; i++)
        if (bytes[i] != byte)
            return false;
    return true;
}

/* The bits of a value of the chunk's type. */
static uint64_t
bits_of_double(const struct bench *b, double value)
{
    float narrow = (float)value;
    uint64_t bits = 0;
    if (b->value_nbytes == sizeof(narrow))
        memcpy(&bits, &narrow, sizeof(narrow));
    else
        memcpy(&bits, &value, sizeof(value));
    return bits;
}

static void
set_value(struct bench *b, uint64_t i, uint64_t bits)
{
    store_le(b->values + i * b->value_nbytes, bits, (int)b->value_nbytes);
}

/* ---- encode ---- */

/* The device writes the section `expected`, and nothing else. */
static void
check_section(struct bench *b, const uint8_t *expected, uint64_t nbytes)
{
    const struct cuda_chunk *state = &b->state[0];
    const uint8_t *dst = b->stream + 1;

    assert_int_equal(state->status, TERP_OK);
    assert_int_equal(state->specials_end - state->model_end, nbytes);
    assert_memory_equal(dst + state->model_end, expected, nbytes);
    assert_true(all_are(b->stream, state->model_end + 1, GUARD));
    assert_true(all_are(dst + state->specials_end,
                        b->batch.raw_nbytes + 1 - state->specials_end, GUARD));
}

/* Scans the values and compares with the CPU's stream, which is not raw where
 * the scan decides. Returns the coding. */
static enum terp_coding
scan_and_compare(struct bench *b, const struct terp_params *params)
{
    struct terp_frame frame;
    int frame_nbytes;
    uint64_t nbytes, cap = terp_encode_bound(&b->chunk);
    uint8_t *stream = (uint8_t *)malloc(cap);
    struct cuda_chunk *state = &b->state[0];

    assert_int_equal(
        terp_encode(params, &b->chunk, b->values, stream, cap, &nbytes, 1),
        TERP_OK);
    assert_int_equal(terp_frame_read(stream, nbytes, &frame, &frame_nbytes),
                     TERP_OK);
    begin_call(b, false);
    b->batch.encoding.params = *params;
    assert_int_equal(cuda_swap_src(&b->batch, 0), 0);
    assert_int_equal(cuda_scan(&b->batch, 0), 0);
    assert_int_equal(b->state[1].progress[0], 0);
    if (frame.coding == TERP_CODING_RAW) {
        if (state->coding == TERP_CODING_CONSTANT) {
            assert_int_equal(cuda_specials_write(&b->batch, 0), 0);
            assert_int_equal(state->status, TERP_ERR_CAPACITY);
        }
        free(stream);
        return frame.coding;
    }
    assert_int_equal(state->status, TERP_OK);
    assert_int_equal(state->coding, frame.coding);
    assert_int_equal(state->has_specials, frame.has_specials);
    const uint8_t *model = stream + frame_nbytes;
    struct reader reader = {model, stream + nbytes, false};
    if (frame.coding == TERP_CODING_CONSTANT) {
        assert_int_equal(state->prediction, TERP_PREDICTION_NONE);
        assert_true(state->constant_bits ==
                    read_le(&reader, (int)b->value_nbytes));
    } else {
        assert_true(double_bits(state->bound) == double_bits(frame.bound));
        assert_int_equal(state->model.step_slack_log2,
                         read_le(&reader, 1) & TERP_STEP_SLACK);
        assert_true(double_bits(state->model.step) ==
                    double_bits(terp_step_of(frame.bound,
                                             state->model.step_slack_log2)));
        assert_true(bits_of_double(b, state->model.reference) ==
                    read_le(&reader, (int)b->value_nbytes));
        reader.at += 2 * b->layout.nlevels;
        state->prediction = TERP_PREDICTION_SPLINE;
    }
    b->batch.encoding.prefixes_nbytes =
        frame.has_prefixes ? TERP_PREFIXES_NBYTES : 0;
    assert_int_equal(cuda_specials_write(&b->batch, 0), 0);
    assert_int_equal(state->model_end, reader.at - stream);
    const uint8_t *section = reader.at;
    uint64_t nspecials = 0;
    if (frame.has_specials)
        assert_int_equal(terp_cpu_specials_read(&reader, &b->layout,
                                                (int)b->value_nbytes, NULL,
                                                &nspecials),
                         TERP_OK);
    assert_int_equal(state->nspecials, nspecials);
    check_section(b, section, (uint64_t)(reader.at - section));
    free(stream);
    return frame.coding;
}

static struct terp_params
params_of(enum terp_bound_mode mode, double bound)
{
    struct terp_params params = {};

    params.effort = TERP_EFFORT_FAST; /* the domain is the chunk's shape */
    params.bound_mode = mode;
    params.bound = bound;
    params.pipeline = TERP_PIPELINE_HUFFMAN;
    params.predictor = TERP_PREDICTOR_SPLINE;
    return params;
}

static const struct shape {
    int rank;
    bool stack;
    uint64_t dims[TERP_MAX_RANK];
} shapes[] = {{1, false, {1}},
              {1, false, {5}},
              {1, false, {4099}},
              {2, true, {6, 100}},
              {3, false, {17, 33, 41}},
              {4, true, {3, 1, 29, 31}},
              {4, false, {9, 10, 11, 13}}};
#define NSHAPES (int)(sizeof shapes / sizeof *shapes)

static void
all_fields_are_scanned_as_by_the_cpu(void **state)
{
    struct bench b;
    int ncodings[5] = {0};

    (void)state;
    for (int i = 0; i < NSHAPES * 2; i++) {
        const struct shape *shape = &shapes[i / 2];
        enum terp_type type = i % 2 ? TERP_FLOAT64 : TERP_FLOAT32;
        for (int field = 0; field < TERP_NFIELDS; field++) {
            if (!terp_case_taken(2))
                continue;
            make_bench(&b, type, shape->rank, shape->dims, shape->stack,
                       field % 3 == 0);
            terp_field_make((enum terp_field)field, &b.chunk, b.values);
            struct terp_params params = params_of(TERP_BOUND_RELATIVE, 1e-3);
            ncodings[scan_and_compare(&b, &params)]++;
            params = params_of(TERP_BOUND_ABSOLUTE, 0.02);
            params.has_fill = true;
            params.fill_bits = bits_of_double(&b, 0.0);
            ncodings[scan_and_compare(&b, &params)]++;
            free_bench(&b);
        }
    }
    /* About 9 and 65 % of the drawn cases have these codings. */
    int ncalls = 0;
    for (int n : ncodings)
        ncalls += n;
    assert_true(50 * ncodings[TERP_CODING_CONSTANT] > ncalls);
    assert_true(4 * ncodings[TERP_CODING_HUFFMAN] > ncalls);
}

/* A few different values, at distances around the one that makes a fill value,
 * some of them rare: single values decide. */
static void
fill_values_are_found_as_by_the_cpu(void **state)
{
    const uint64_t dims[] = {17011};
    struct bench b;
    int nspecial = 0, ntried = 0;

    (void)state;
    for (int i = 0; i < 200; i++) {
        double alphabet[6];
        if (!terp_case_taken(2))
            continue;
        ntried++;
        make_bench(&b, i % 2 ? TERP_FLOAT64 : TERP_FLOAT32, 1, dims, false,
                   false);
        uint64_t nletters = 1 + random_below(6);
        for (uint64_t k = 0; k < nletters; k++)
            alphabet[k] = (double)(int)(random_below(4) + 1) *
                          (double)(1 << (3 * random_below(5))) *
                          (random_below(2) ? 1 : -1);
        uint64_t ncommon = 1 + random_below(nletters);
        for (uint64_t k = 0; k < b.nvalues; k++)
            set_value(&b, k,
                      bits_of_double(&b, alphabet[random_below(ncommon)]));
        for (uint64_t k = ncommon; k < nletters; k++)
            for (uint64_t n = 1 + random_below(2); n > 0; n--)
                set_value(&b, random_below(b.nvalues),
                          bits_of_double(&b, alphabet[k]));
        struct terp_params params =
            params_of(TERP_BOUND_ABSOLUTE, random_below(2) ? 0.25 : 100.0);
        scan_and_compare(&b, &params);
        nspecial += b.state[0].fills[1] != b.state[0].fills[2];
        free_bench(&b);
    }
    assert_in_range(nspecial, ntried / 10, ntried);
}

/* Extremes far from all other values, at `at`, at `other`, and exchanged. */
static void
check_single_values(double min, double max, double value, uint64_t at,
                    double other_value, uint64_t other)
{
    const uint64_t dims[] = {50000};
    struct terp_params params = params_of(TERP_BOUND_ABSOLUTE, 0.01);
    struct bench b;

    for (int i = 0; i < 4; i++) {
        make_bench(&b, i / 2 ? TERP_FLOAT64 : TERP_FLOAT32, 1, dims, false,
                   false);
        for (uint64_t k = 0; k < b.nvalues; k++)
            set_value(&b, k, bits_of_double(&b, k / 50 % 2 ? min : max));
        set_value(&b, i % 2 ? at : other, bits_of_double(&b, value));
        set_value(&b, i % 2 ? other : at, bits_of_double(&b, other_value));
        scan_and_compare(&b, &params);
        free_bench(&b);
    }
}

static void
fill_value_is_more_than_eight_times_as_far(void **state)
{
    (void)state;
    check_single_values(0, 9, 8, 17, 8.5, 40001);
    check_single_values(0, 9, 1, 17, 0.5, 40001);
    check_single_values(0, 8.9375, 8, 17, 8.5, 40001);
    check_single_values(0, 8.9375, 0.9375, 17, 0.5, 40001);
}

/* One extreme is among the first values that the scan tries. */
static void
values_in_different_blocks_rule_out_fill_values(void **state)
{
    (void)state;
    check_single_values(0, 100, 5, 0, 95, 49001);
    check_single_values(0, 100, 95, 0, 5, 49001);
    check_single_values(0, 100, 5, 101, 95, 49975);
    check_single_values(0, 100, 95, 101, 5, 49975);
}

static void
bound_of_zero_is_left_to_a_raw_stream(void **state)
{
    const uint64_t dims[] = {1000};
    struct bench b;

    (void)state;
    make_bench(&b, TERP_FLOAT64, 1, dims, false, false);
    terp_field_make(TERP_FIELD_DENORMALS, &b.chunk, b.values);
    struct terp_params params = params_of(TERP_BOUND_RELATIVE, 1e-300);
    assert_int_equal(scan_and_compare(&b, &params), TERP_CODING_RAW);
    assert_int_equal(b.state[0].status, TERP_ERR_CAPACITY);
    free_bench(&b);
}

/* Runs and gaps of up to `longest` values, of `ncolors` values. Returns the
 * number of special values. The device finds their mask in its buffer. */
static uint64_t
make_runs(struct bench *b, uint64_t longest, uint64_t ncolors)
{
    uint64_t *mask = (uint64_t *)(b->batch.d_scratch + b->batch.at.mask);
    uint64_t nspecials = 0, left = 0;
    bool special = random_below(2);

    memset(mask, 0, 8 * div_up(b->nvalues, 64));
    for (uint64_t i = 0; i < b->nvalues; i++) {
        if (left == 0) {
            special = !special;
            left = 1 + random_below(longest);
        }
        left--;
        if (left > 0 && i > 0 && random_below(8) != 0)
            memcpy(b->values + i * b->value_nbytes,
                   b->values + (i - 1) * b->value_nbytes, b->value_nbytes);
        else
            set_value(b, i, bits_of_double(b, (double)random_below(ncolors)));
        mask[i / 64] |= (uint64_t)special << i % 64;
        nspecials += special;
    }
    return nspecials;
}

/* Both engines write a section for the bench's mask. Returns the CPU's number
 * of bytes, or 0 if it does not fit. */
static uint64_t
write_and_compare(struct bench *b, uint64_t nspecials)
{
    const uint64_t *mask = (uint64_t *)(b->batch.d_scratch + b->batch.at.mask);
    uint8_t *bytes = (uint8_t *)malloc(b->batch.raw_nbytes);
    struct cuda_chunk *state = &b->state[0];

    begin_call(b, false);
    state->coding = TERP_CODING_HUFFMAN;
    state->prediction = TERP_PREDICTION_LORENZO;
    state->nspecials = nspecials;
    uint64_t begin = b->batch.frame_nbytes + 2;
    struct writer writer = {bytes, bytes + b->batch.raw_nbytes - 1, false};
    writer_take(&writer, begin);
    enum terp_status st = terp_cpu_specials_write(
        &writer, mask, b->values, &b->layout, (int)b->value_nbytes);
    uint64_t nbytes = st == TERP_OK ? (uint64_t)(writer.at - bytes) - begin : 0;
    assert_int_equal(cuda_specials_write(&b->batch, 0), 0);
    if (st == TERP_OK) {
        assert_int_equal(state->model_end, begin);
        check_section(b, bytes + begin, nbytes);
    } else {
        assert_int_equal(state->status, TERP_ERR_CAPACITY);
        assert_true(all_are(b->stream, b->batch.raw_nbytes + 2, GUARD));
    }
    free(bytes);
    return nbytes;
}

/* ---- decode ---- */

/* Grid: one block. */
static __global__ void
skip_section(const struct cuda_batch batch, uint64_t at, uint64_t end)
{
    struct cuda_chunk &chunk = batch.d_chunks[0];
    unsigned long long nspecials;
    uint64_t section_end;
    bool valid = specials_skip(
        (const uint8_t *)chunk.src, at, end, batch.d_layout, batch.value_nbytes,
        region<struct specials_batch>(batch, 0, batch.at.runs), &nspecials,
        &section_end);

    if (threadIdx.x != 0)
        return;
    chunk.status = valid ? TERP_OK : TERP_ERR_CORRUPT;
    chunk.model_end = at;
    chunk.nspecials = valid ? nspecials : 0;
    chunk.specials_end = valid ? section_end : 0;
}

/* Both engines read the section at `at` of the bench's stream of `end` bytes.
 * `constant`: the section follows a constant. Returns their common status. */
static enum terp_status
read_and_compare(struct bench *b, uint64_t at, uint64_t end, bool constant)
{
    uint8_t *expected = (uint8_t *)malloc(b->nbytes);
    struct reader reader = {b->stream + 1 + at, b->stream + 1 + end, false};
    struct reader section = reader;
    struct cuda_chunk *state = &b->state[0];
    uint64_t *mask = NULL, nspecials;

    memset(b->batch.d_scratch, 0xA5, b->batch.at.stride);
    begin_call(b, true);
    state->has_specials = true;
    state->coding = constant ? TERP_CODING_CONSTANT : TERP_CODING_HUFFMAN;
    state->constant_bits = bits_of_double(b, -3.5);
    assert_int_equal(
        launch(skip_section, 1, 256, 0, (cudaStream_t)0, b->batch, at, end), 0);
    memset(b->output, 0x77, b->nbytes);
    memcpy(expected, b->output, b->nbytes);
    for (uint64_t i = 0; constant && i < b->nvalues; i++)
        memcpy(expected + i * b->value_nbytes, &state->constant_bits,
               b->value_nbytes);
    enum terp_status st = terp_cpu_specials_read(
        &reader, &b->layout, (int)b->value_nbytes, &mask, &nspecials);
    assert_int_equal(state->status, st);
    assert_int_equal(cuda_specials_mask(&b->batch, 0), 0);
    assert_int_equal(cuda_specials_read(&b->batch, 0), 0);
    if (st == TERP_OK) {
        assert_memory_equal(b->batch.d_scratch + b->batch.at.mask, mask,
                            8 * div_up(b->nvalues, 64));
        assert_int_equal(state->specials_end, reader.at - (b->stream + 1));
        terp_cpu_specials_place(&section, &b->layout, (int)b->value_nbytes,
                                mask, expected);
        assert_memory_equal(b->output, expected, b->nbytes);
    } else {
        assert_true(all_are(b->output, b->nbytes, 0x77));
    }
    free(mask);
    free(expected);
    return st;
}

static const struct runs {
    uint64_t nvalues, longest, ncolors;
} runs[] = {
    {1, 1, 1},       {64, 1, 1},       {64, 9, 2},          {65, 64, 1},
    {4096, 40, 15},  {4096, 40, 16},   {9000, 3000, 3},     {20000, 20000, 2},
    {32768, 7, 1},   {66000, 12, 2},   {70001, 300, 15},    {70001, 300, 17},
    {600001, 12, 3}, {600001, 90, 16}, {540000, 400000, 1}, {530000, 70, 15}};
#define NRUNS (int)(sizeof runs / sizeof *runs)

static void
sections_are_written_and_read_as_by_the_cpu(void **state)
{
    struct bench b;
    int nwritten = 0, ntried = 0;

    (void)state;
    for (int i = 0; i < 2 * NRUNS; i++) {
        const struct runs *r = &runs[i / 2];
        if (!terp_case_taken(2))
            continue;
        ntried++;
        make_bench(&b, i % 2 ? TERP_FLOAT64 : TERP_FLOAT32, 1, &r->nvalues,
                   false, false);
        uint64_t nspecials = 0;
        while (nspecials == 0)
            nspecials = make_runs(&b, r->longest, r->ncolors);
        uint64_t nbytes = write_and_compare(&b, nspecials);
        nwritten += nbytes > 0;
        if (nbytes > 0) {
            uint64_t at = b.state[0].model_end;
            assert_int_equal(read_and_compare(&b, at, at + nbytes, false),
                             TERP_OK);
            assert_int_equal(read_and_compare(&b, at, b.batch.raw_nbytes, true),
                             TERP_OK);
        }
        free_bench(&b);
    }
    assert_in_range(nwritten, ntried / 4, ntried);
}

/* Makes the mask repeat at a distance, except for a few values. All special
 * values are equal. Returns their number. */
static uint64_t
repeat_mask(struct bench *b, uint64_t distance)
{
    uint64_t *mask = (uint64_t *)(b->batch.d_scratch + b->batch.at.mask);
    uint64_t nspecials = 0;

    for (uint64_t i = 0; i < b->nvalues; i++) {
        if (i >= distance && random_below(b->nvalues / 8) != 0) {
            uint64_t bit = mask[(i - distance) / 64] >> (i - distance) % 64 & 1;
            mask[i / 64] &= ~((uint64_t)1 << i % 64);
            mask[i / 64] |= bit << i % 64;
        }
        if (!(mask[i / 64] >> i % 64 & 1))
            continue;
        set_value(b, i, bits_of_double(b, 0.5));
        nspecials++;
    }
    return nspecials;
}

/* The mask repeats along dimension `d`. */
static const struct repeats {
    int rank;
    uint64_t dims[4];
    bool stack;
    int d;
} repeats[] = {
    {2, {30, 64}, false, 1},        {2, {300, 65}, false, 1},
    {2, {63, 100}, false, 1},       {2, {5, 4000}, false, 1},
    {2, {2000, 127}, false, 1},     {3, {9, 40, 50}, false, 1},
    {3, {12, 33, 31}, false, 2},    {3, {70, 64, 96}, false, 2},
    {4, {4, 5, 30, 70}, false, 1},  {4, {6, 5, 30, 70}, false, 2},
    {4, {60, 7, 11, 13}, false, 3}, {3, {25, 20, 40}, true, 4},
    {4, {100, 10, 3, 64}, true, 4}, {2, {3000, 70}, true, 4},
    {3, {21, 160, 170}, false, 2},  {2, {9000, 66}, false, 1},
};
#define NREPEATS (int)(sizeof repeats / sizeof *repeats)

static void
masks_that_repeat_are_told_by_differences(void **state)
{
    struct bench b;

    (void)state;
    for (int i = 0; i < 2 * NREPEATS; i++) {
        const struct repeats *r = &repeats[i / 2];
        if (!terp_case_taken(2))
            continue;
        begin_case(i);
        make_bench(&b, i % 2 ? TERP_FLOAT64 : TERP_FLOAT32, r->rank, r->dims,
                   r->stack, false);
        make_runs(&b, 25, 1);
        uint64_t nspecials =
            repeat_mask(&b, terp_mask_delta_distance(&b.layout, r->d));
        uint64_t nbytes = write_and_compare(&b, nspecials);
        assert_true(nbytes > 0);
        uint64_t at = b.state[0].model_end;
        struct reader reader = {b.stream + 1 + at, b.stream + 1 + at + nbytes,
                                false};
        read_uleb(&reader);
        uint64_t dim = read_le(&reader, 1) >> TERP_SPECIALS_DELTA_SHIFT;
        assert_true(terp_mask_delta_distance(&b.layout, (int)dim) ==
                    terp_mask_delta_distance(&b.layout, r->d));
        assert_int_equal(read_and_compare(&b, at, at + nbytes, i % 4 > 1),
                         TERP_OK);
        free_bench(&b);
    }
}

/* Every mask delta, for shapes where some distances are too short or too long,
 * and for sections with other numbers of colors. */
static void
mask_deltas_out_of_place_are_refused(void **state)
{
    static const uint64_t dims[] = {4, 5, 30, 40};
    struct bench b;

    (void)state;
    make_bench(&b, TERP_FLOAT32, 4, dims, false, false);
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t *dst = b.stream + 1;
        struct writer writer = {dst, dst + b.batch.raw_nbytes, false};
        memset(dst, 0, b.batch.raw_nbytes);
        write_uleb(&writer, 1); /* one run, of value 3 */
        write_le(&writer, byte, 1);
        write_le(&writer, 2, 1);
        write_le(&writer, 3, 1);
        uint64_t dim = byte >> TERP_SPECIALS_DELTA_SHIFT;
        bool valid = dim == 0 || (byte % 16 == 1 && dim >= 2 && dim <= 3);
        assert_int_equal(read_and_compare(&b, 0, b.batch.raw_nbytes, false),
                         valid ? TERP_OK : TERP_ERR_CORRUPT);
    }
    free_bench(&b);
}

/* Every other value: more runs than the device's lists hold. */
static void
too_many_runs_are_left_to_the_cpu(void **state)
{
    const uint64_t dims[] = {100000};
    struct bench b;

    (void)state;
    make_bench(&b, TERP_FLOAT32, 1, dims, false, false);
    make_runs(&b, 1, 3);
    uint64_t *mask = (uint64_t *)(b.batch.d_scratch + b.batch.at.mask);
    uint64_t nspecials = 0;
    for (uint64_t i = 0; i < div_up(b.nvalues, 64); i++)
        nspecials += (uint64_t)__builtin_popcountll(mask[i]);
    begin_call(&b, false);
    b.state[0].coding = TERP_CODING_HUFFMAN;
    b.state[0].prediction = TERP_PREDICTION_LORENZO;
    b.state[0].nspecials = nspecials;
    assert_int_equal(cuda_specials_write(&b.batch, 0), 0);
    assert_int_equal(b.state[0].status, TERP_ERR_DEVICE);
    assert_true(all_are(b.stream, b.batch.raw_nbytes + 2, GUARD));
    free_bench(&b);
}

static void
damaged_sections_are_refused_as_by_the_cpu(void **state)
{
    struct bench b;
    int nrefused = 0, ntried = 0;

    (void)state;
    for (int i = 0; i < 300; i++) {
        if (!terp_case_taken(2))
            continue;
        begin_case(i);
        ntried++;
        static const uint64_t dims[][2] = {
            {2, 20}, {3, 100}, {50, 100}, {100, 200}};
        static const uint64_t ncolors[] = {1, 2, 15, 40};
        uint64_t longest = 1 + random_below(60);
        make_bench(&b, i % 2 ? TERP_FLOAT64 : TERP_FLOAT32, 2, dims[i % 4],
                   i % 3 == 0, false);
        uint64_t nspecials = make_runs(&b, longest, ncolors[i / 4 % 4]);
        uint64_t distance = terp_mask_delta_distance(&b.layout, 1);
        if (i / 4 % 4 == 0 && distance > 0)
            nspecials = repeat_mask(&b, distance);
        uint64_t nbytes = nspecials > 0 ? write_and_compare(&b, nspecials) : 0;
        if (nbytes > 0) {
            uint64_t at = b.state[0].model_end, end = at + nbytes;
            uint8_t *section = b.stream + 1 + at;
            /* The important fields are near the beginning. */
            for (int n = 0; n < 2; n++)
                section[random_below(random_below(nbytes) + 1)] ^=
                    (uint8_t)(1 << random_below(8));
            if (i % 3 == 0)
                end = at + random_below(nbytes + 1);
            nrefused += read_and_compare(&b, at, end, false) != TERP_OK;
        }
        free_bench(&b);
    }
    assert_in_range(nrefused, ntried / 6, ntried * 19 / 20);
}

/* All numbers of a section at their limits. */
static void
sums_beyond_the_chunk_are_refused(void **state)
{
    const uint64_t dims[] = {5000};
    struct bench b;

    (void)state;
    make_bench(&b, TERP_FLOAT32, 1, dims, false, false);
    for (int width = 0; width <= 57; width++) {
        uint8_t *dst = b.stream + 1;
        struct writer writer = {dst, dst + b.batch.raw_nbytes, false};
        memset(dst, 0xFF, b.batch.raw_nbytes);
        write_uleb(&writer, 1030);
        write_le(&writer, 1, 1);
        for (int list = 0; list < 2; list++)
            for (int group = 0; group < 17; group++) {
                int own = list == group % 2 ? width : 0;
                write_le(&writer, (uint64_t)own, 1);
                writer_take(&writer, packed_nbytes(group < 16 ? 64 : 6, own));
            }
        write_le(&writer, 7, 4);
        uint64_t end = (uint64_t)(writer.at - dst);
        enum terp_status st = read_and_compare(&b, 0, end, false);
        assert_int_equal(st, width <= 2 ? TERP_OK : TERP_ERR_CORRUPT);
    }
    free_bench(&b);
}

static void
constant_without_specials_fills_the_chunk(void **state)
{
    const uint64_t dims[] = {40000};
    struct bench b;

    (void)state;
    for (int type = 0; type < 2; type++) {
        make_bench(&b, type ? TERP_FLOAT64 : TERP_FLOAT32, 1, dims, false,
                   true);
        begin_call(&b, true);
        b.state[0].coding = TERP_CODING_CONSTANT;
        b.state[0].constant_bits = bits_of_double(&b, 1.25);
        uint64_t word =
            type ? __builtin_bswap64(b.state[0].constant_bits)
                 : __builtin_bswap32((uint32_t)b.state[0].constant_bits);
        assert_int_equal(cuda_specials_read(&b.batch, 0), 0);
        assert_int_equal(cuda_swap_dst(&b.batch, 0), 0);
        for (uint64_t i = 0; i < b.nvalues; i++)
            assert_memory_equal(b.output + i * b.value_nbytes, &word,
                                b.value_nbytes);
        free_bench(&b);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_fields_are_scanned_as_by_the_cpu),
        cmocka_unit_test(fill_values_are_found_as_by_the_cpu),
        cmocka_unit_test(fill_value_is_more_than_eight_times_as_far),
        cmocka_unit_test(values_in_different_blocks_rule_out_fill_values),
        cmocka_unit_test(bound_of_zero_is_left_to_a_raw_stream),
        cmocka_unit_test(sections_are_written_and_read_as_by_the_cpu),
        cmocka_unit_test(masks_that_repeat_are_told_by_differences),
        cmocka_unit_test(mask_deltas_out_of_place_are_refused),
        cmocka_unit_test(too_many_runs_are_left_to_the_cpu),
        cmocka_unit_test(damaged_sections_are_refused_as_by_the_cpu),
        cmocka_unit_test(sums_beyond_the_chunk_are_refused),
        cmocka_unit_test(constant_without_specials_fills_the_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

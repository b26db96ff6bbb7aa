/* Batches: every stream and every value has the bits that the CPU gives for one
 * chunk at a time, in host and device memory, wherever the chunks lie. Programs
 * with h5tests/gpu/both_engines.c test the contents of single chunks. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "codec/format/frame.h"
#include "codec/model/bound.h"
#include "codec/model/coarse.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/cuda_buffer.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define MAX_NCHUNKS 150

/* Chunks of one shape and the CPU's streams of them. */
struct batch {
    struct terp_chunk chunk;
    uint64_t nchunks, chunk_nbytes;
    uint8_t *values[MAX_NCHUNKS];
    struct terp_stream streams[MAX_NCHUNKS];
};

/* The memory of a call's chunks. */
struct place {
    enum terp_memory memory;
    bool is_odd; /* with the least alignment that is allowed */
};

static const struct place places[] = {
    {TERP_MEMORY_HOST, false},
    {TERP_MEMORY_HOST, true},
    {TERP_MEMORY_DEVICE, false},
    {TERP_MEMORY_DEVICE, true},
};

/* Bounds that lead to different codings: logarithms of both types, values
 * without their last bits, multiples and logarithms; and others, the last of
 * which is lossless. */
static const struct {
    enum terp_bound_mode mode;
    double bound, floor;
} bounds[] = {
    {TERP_BOUND_RELATIVE, 1e-3, 0},     {TERP_BOUND_POINTWISE, 1e-2, 0},
    {TERP_BOUND_POINTWISE, 3e-5, 0},    {TERP_BOUND_POINTWISE, 1e-7, 0},
    {TERP_BOUND_POINTWISE, 1e-15, 0},   {TERP_BOUND_POINTWISE, 1e-2, 1e-3},
    {TERP_BOUND_POINTWISE, 1e-6, 1e-8}, {TERP_BOUND_POINTWISE, 0.1, 1e30},
    {TERP_BOUND_ABSOLUTE, 2.9, 0},      {TERP_BOUND_ABSOLUTE, 0, 0},
};
#define NBOUNDS ((int)COUNT(bounds))

static struct terp_params
params_of(int mode, int bound)
{
    return (struct terp_params){.bound_mode = bounds[bound].mode,
                                .bound = bounds[bound].bound,
                                .pipeline = terp_mode[mode].pipeline,
                                .predictor = terp_mode[mode].predictor,
                                .floor = bounds[bound].floor};
}

/* Chunk i holds field `first` + i. So a batch has chunks of all kinds:
 * constant, coded with and without special values, and raw. */
static struct batch *
make_batch(const struct terp_params *params, const struct terp_chunk *chunk,
           uint64_t nchunks, uint64_t first)
{
    struct batch *batch = terp_case_alloc(sizeof *batch);

    batch->chunk = *chunk;
    batch->nchunks = nchunks;
    batch->chunk_nbytes = terp_chunk_nbytes(chunk);
    for (uint64_t i = 0; i < nchunks; i++) {
        batch->values[i] = terp_case_alloc(batch->chunk_nbytes);
        terp_field_make((enum terp_field)((first + i) % TERP_NFIELDS), chunk,
                        batch->values[i]);
        batch->streams[i] =
            terp_case_encode(params, chunk, batch->values[i], 1);
    }
    return batch;
}

static void
free_batch(struct batch *batch)
{
    for (uint64_t i = 0; i < batch->nchunks; i++) {
        free(batch->values[i]);
        free(batch->streams[i].bytes);
    }
    free(batch);
}

static uint64_t
odd_offset(const struct place *place, uint64_t alignment)
{
    return place->is_odd ? alignment : 0;
}

/* Streams in device memory are aligned to 16 bytes. */
static uint64_t
stream_offset(const struct place *place)
{
    return odd_offset(place, place->memory == TERP_MEMORY_HOST ? 1 : 16);
}

static uint64_t
values_offset(const struct place *place, const struct terp_chunk *chunk)
{
    return odd_offset(place, (uint64_t)value_nbytes(chunk->type));
}

static void
check_use(const struct terp_run_result *result)
{
    if (result->used != TERP_ENGINE_CUDA)
        fail_msg("the device was not used: %s", result->reason);
}

static void
check_bytes(const char *what, uint64_t chunk, const uint8_t *bytes,
            const uint8_t *expected, uint64_t nbytes)
{
    uint64_t at = 0;

    while (at < nbytes && bytes[at] == expected[at])
        at++;
    if (at < nbytes)
        fail_msg("%s %" PRIu64 " differs from byte %" PRIu64 " of %" PRIu64,
                 what, chunk, at, nbytes);
}

static void
check_encode(const struct batch *batch, const struct terp_params *params,
             const struct place *place)
{
    const struct terp_run_options options = {.engine = TERP_ENGINE_CUDA,
                                             .memory = place->memory};
    struct terp_run_result result = {.size = sizeof result};
    struct cuda_buffer src[MAX_NCHUNKS], dst[MAX_NCHUNKS];
    const void *src_bytes[MAX_NCHUNKS];
    void *dst_bytes[MAX_NCHUNKS];
    uint64_t nbytes[MAX_NCHUNKS];

    for (uint64_t i = 0; i < batch->nchunks; i++) {
        src[i] = cuda_buffer_make(place->memory, batch->values[i],
                                  batch->chunk_nbytes,
                                  values_offset(place, &batch->chunk));
        dst[i] = cuda_buffer_make(place->memory, NULL,
                                  terp_encode_bound(&batch->chunk),
                                  stream_offset(place));
        src_bytes[i] = src[i].bytes;
        dst_bytes[i] = dst[i].bytes;
    }
    assert_int_equal(terp_encode_batch(&options, params, &batch->chunk,
                                       batch->nchunks, src_bytes, dst_bytes,
                                       nbytes, &result),
                     TERP_OK);
    check_use(&result);
    for (uint64_t i = 0; i < batch->nchunks; i++) {
        uint8_t *values = cuda_buffer_read(&src[i]);
        uint8_t *stream = cuda_buffer_read(&dst[i]);
        check_bytes("source", i, values, batch->values[i], batch->chunk_nbytes);
        assert_int_equal(nbytes[i], batch->streams[i].nbytes);
        check_bytes("stream", i, stream, batch->streams[i].bytes, nbytes[i]);
        free(values);
        free(stream);
        cuda_buffer_free(&src[i]);
        cuda_buffer_free(&dst[i]);
    }
}

/* For each stream of batch->chunk's type, the device returns what the CPU
 * returns. */
static void
check_coarse(const struct batch *batch, uint64_t step,
             const struct place *place)
{
    const struct terp_chunk wanted = terp_coarse_chunk_of(&batch->chunk, step);
    const uint64_t wanted_nbytes = terp_chunk_nbytes(&wanted);
    const struct terp_run_options options = {.engine = TERP_ENGINE_CUDA,
                                             .memory = place->memory};
    struct terp_run_result result = {.size = sizeof result};
    struct cuda_buffer src[MAX_NCHUNKS], dst[MAX_NCHUNKS];
    enum terp_status status[MAX_NCHUNKS], cpu_status;
    const void *src_bytes[MAX_NCHUNKS];
    void *dst_bytes[MAX_NCHUNKS];
    uint64_t src_nbytes[MAX_NCHUNKS];
    void *expected = terp_case_alloc(wanted_nbytes);
    enum terp_status first_bad = TERP_OK;

    for (uint64_t i = 0; i < batch->nchunks; i++) {
        src[i] =
            cuda_buffer_make(place->memory, batch->streams[i].bytes,
                             batch->streams[i].nbytes, stream_offset(place));
        dst[i] = cuda_buffer_make(place->memory, NULL, wanted_nbytes,
                                  values_offset(place, &batch->chunk));
        src_bytes[i] = src[i].bytes;
        src_nbytes[i] = src[i].nbytes;
        dst_bytes[i] = dst[i].bytes;
    }
    enum terp_status st = terp_decode_coarse_batch(
        &options, &batch->chunk, step, batch->nchunks, src_bytes, src_nbytes,
        dst_bytes, status, &result);
    check_use(&result);
    for (uint64_t i = 0; i < batch->nchunks; i++) {
        const void *stream = batch->streams[i].bytes;
        uint8_t *values = cuda_buffer_read(&dst[i]);
        (void)terp_decode_coarse_batch(NULL, &batch->chunk, step, 1, &stream,
                                       &src_nbytes[i], &expected, &cpu_status,
                                       NULL);
        if (status[i] != cpu_status)
            fail_msg("stream %" PRIu64 ": \"%s\", on the CPU \"%s\"", i,
                     terp_status_text(status[i]), terp_status_text(cpu_status));
        if (first_bad == TERP_OK)
            first_bad = cpu_status;
        if (cpu_status == TERP_OK)
            check_bytes("chunk", i, values, expected, wanted_nbytes);
        free(values);
        cuda_buffer_free(&src[i]);
        cuda_buffer_free(&dst[i]);
    }
    assert_int_equal(st, first_bad);
    free(expected);
}

static void
check_decode(const struct batch *batch, const struct place *place)
{
    check_coarse(batch, 1, place);
}

static const struct terp_chunk chunks[] = {
    {TERP_FLOAT32, false, false, 3, {13, 17, 11}},
    {TERP_FLOAT64, true, false, 3, {9, 16, 15}},
    {TERP_FLOAT32, true, false, 2, {33, 65}},
    {TERP_FLOAT64, false, false, 1, {1001}},
    {TERP_FLOAT32, false, true, 4, {3, 8, 8, 8}},
    {TERP_FLOAT32, false, false, 1, {1}},
    {TERP_FLOAT64, false, false, 4, {5, 4, 7, 6}},
    {TERP_FLOAT16, false, false, 3, {13, 17, 11}},
    {TERP_BFLOAT16, true, false, 2, {33, 65}},
    {TERP_INT16, true, false, 3, {13, 17, 11}},
    {TERP_UINT8, false, false, 2, {33, 65}},
    {TERP_INT64, false, false, 1, {1001}},
    {TERP_INT64, false, false, 2, {9, 20}},
    {TERP_UINT32, true, true, 3, {9, 16, 15}},
    {TERP_COMPLEX64, false, false, 3, {13, 17, 11}},
    {TERP_COMPLEX128, true, true, 3, {5, 16, 15}},
};

/* terp_case_taken, but one case in n with TERP_TEST_EVERY=n (at least 1), as in
 * both_engines.c, because the emulator is slow. */
static bool
is_taken(unsigned every)
{
    const char *n = getenv("TERP_TEST_EVERY");

    return terp_case_taken(n == NULL ? every
                                     : every * (unsigned)strtoul(n, NULL, 10));
}

/* The emulator runs one turn in two of a long loop, chosen by the date. */
static bool
turn_is_taken(uint64_t turn)
{
    return getenv("TERP_TEST_EVERY") == NULL || terp_case_is_drawn(turn, 2);
}

static void
batch_of_mixed_contents_equals_single_chunks(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (int mode = 0; mode < TERP_NMODES; mode++) {
            if (!is_taken(2))
                continue;
            struct terp_params params = params_of(mode, 0);
            struct batch *batch =
                make_batch(&params, &chunks[c], TERP_NFIELDS, (uint64_t)mode);
            const struct place *place = &places[(c + (size_t)mode) % 4];
            check_encode(batch, &params, place);
            check_decode(batch, place);
            free_batch(batch);
        }
}

static void
batch_under_each_bound_equals_single_chunks(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (int b = 1 + (int)c % 2; b < NBOUNDS; b += 2) {
            if (!is_taken(2))
                continue;
            const size_t turn = c + (size_t)b;
            struct terp_params params = params_of((int)turn % TERP_NMODES, b);
            params.has_fill = turn % 3 == 0;
            params.has_missing = turn % 2 == 0;
            params.missing_bits = value_to_bits(chunks[c].type, 1e20);
            struct batch *batch =
                make_batch(&params, &chunks[c], TERP_NFIELDS, turn);
            check_encode(batch, &params, &places[turn % 4]);
            check_decode(batch, &places[turn % 4]);
            free_batch(batch);
        }
}

static void
chunks_may_lie_anywhere_that_is_allowed(void **state)
{
    (void)state;
    for (size_t p = 0; p < COUNT(places); p++)
        for (size_t c = 0; c < 4; c++) {
            if (!turn_is_taken(4 * p + c))
                continue;
            struct terp_params params = params_of(0, (int)(p + c) % 3);
            struct batch *batch = make_batch(&params, &chunks[c], 5, 7);
            check_encode(batch, &params, &places[p]);
            check_decode(batch, &places[p]);
            free_batch(batch);
        }
}

/* The domain of chunk i varies: its own shape, stacks whose first one or two
 * dims count bricks, and so on. */
static struct batch *
make_batch_of_domains(const struct terp_params *params,
                      const struct terp_chunk *chunk, uint64_t nchunks)
{
    static const struct terp_chunk made[] = {
        {TERP_FLOAT32, false, false, 3, {24, 30, 36}},
        {TERP_FLOAT32, false, true, 3, {24, 30, 36}},
        {TERP_FLOAT32, false, true, 3, {12, 60, 36}},
        {TERP_FLOAT32, false, true, 2, {720, 36}},
    };
    struct batch *batch = make_batch(params, chunk, nchunks, 0);

    for (uint64_t i = 0; i < nchunks; i++) {
        struct terp_chunk shape = made[i % COUNT(made)];
        shape.type = chunk->type;
        shape.big_endian = chunk->big_endian;
        assert_true(terp_chunk_nbytes(&shape) == batch->chunk_nbytes);
        terp_field_make(i % 3 == 2 ? TERP_FIELD_ROUGH : TERP_FIELD_SMOOTH,
                        &shape, batch->values[i]);
        free(batch->streams[i].bytes);
        batch->streams[i] =
            terp_case_encode(params, chunk, batch->values[i], 1);
    }
    return batch;
}

static uint64_t
count_domains(const struct batch *batch)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < batch->nchunks; i++) {
        struct terp_info info = {.size = sizeof info};
        assert_int_equal(terp_inspect(batch->streams[i].bytes,
                                      batch->streams[i].nbytes, &info),
                         TERP_OK);
        n += !terp_shapes_are_equal(&info.chunk, &info.domain);
    }
    return n;
}

static void
chunks_of_a_batch_may_have_other_domains(void **state)
{
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 3, {24, 30, 36}},
        {TERP_FLOAT64, true, false, 3, {24, 30, 36}},
        {TERP_FLOAT32, true, false, 1, {24 * 30 * 36}},
        {TERP_FLOAT64, false, false, 1, {24 * 30 * 36}},
        {TERP_BFLOAT16, true, false, 1, {24 * 30 * 36}},
        {TERP_INT32, true, false, 1, {24 * 30 * 36}},
        {TERP_COMPLEX64, true, false, 1, {24 * 30 * 36}},
    };

    (void)state;
    for (size_t c = 0; c < COUNT(shapes); c++)
        for (int mode = 0; mode < 2; mode++) {
            if (!is_taken(3))
                continue;
            struct terp_params params =
                params_of(mode, (int)c % (c < 4 ? 3 : 4));
            struct batch *batch = make_batch_of_domains(&params, &shapes[c], 6);
            assert_true(count_domains(batch) >= 3);
            check_encode(batch, &params, &places[(c + (size_t)mode) % 4]);
            check_decode(batch, &places[(c + (size_t)mode) % 4]);
            check_encode(batch, &params, &places[(c + (size_t)mode + 2) % 4]);
            check_decode(batch, &places[(c + (size_t)mode + 2) % 4]);
            free_batch(batch);
        }
}

/* Every step-th value of chunks of each pipeline, in batches of all kinds: with
 * special values, lorenzo, escapes, codes of any width, logarithms. Some are
 * stacks, some are damaged. */
static void
every_nth_value_is_the_cpus(void **state)
{
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 3, {24, 30, 36}},
        {TERP_FLOAT64, true, false, 3, {9, 16, 15}},
        {TERP_FLOAT32, true, false, 2, {33, 165}},
        {TERP_FLOAT64, false, false, 1, {3001}},
        {TERP_FLOAT32, false, true, 4, {3, 8, 8, 8}},
        {TERP_FLOAT32, false, false, 4, {7, 9, 6, 10}},
        {TERP_BFLOAT16, true, false, 3, {13, 17, 11}},
        {TERP_COMPLEX64, true, false, 3, {13, 17, 11}},
        {TERP_COMPLEX128, false, true, 3, {3, 33, 65}},
    };
    static const struct terp_params asked[] = {
        {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3},
        {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-6},
        {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-2},
        {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-4, .floor = 1e-2},
    };

    (void)state;
    for (uint64_t turn = 0; turn < COUNT(shapes) * COUNT(asked); turn++) {
        if (!turn_is_taken(turn))
            continue;
        struct terp_params params = asked[turn % COUNT(asked)];
        const struct terp_mode *mode = &terp_mode[turn / 2 % TERP_NMODES];
        params.pipeline = mode->pipeline;
        params.predictor =
            turn % 8 == 7 ? mode->predictor : TERP_PREDICTOR_SPLINE;
        struct batch *batch =
            make_batch(&params, &shapes[turn % COUNT(shapes)], 6, 5 * turn);
        const struct place *place = &places[turn % COUNT(places)];
        check_coarse(batch, UINT64_C(2) << turn % 3, place);
        batch->streams[2].bytes[batch->streams[2].nbytes - 1] ^= 1;
        batch->streams[4].bytes[batch->streams[4].nbytes / 2] ^= 4;
        batch->streams[5].nbytes -= 3;
        check_coarse(batch, UINT64_C(2) << turn % 3, place);
        free_batch(batch);
    }
}

/* Cuts a stream after so many bytes, which the table then gives as the prefix
 * of a step. */
static void
cut_prefix(struct terp_stream *stream, uint64_t step, uint64_t nbytes)
{
    struct terp_frame frame;
    uint32_t lengths[TERP_NPREFIXES];
    int frame_nbytes;

    assert_int_equal(
        terp_frame_read(stream->bytes, stream->nbytes, &frame, &frame_nbytes),
        TERP_OK);
    for (int i = 0; i < TERP_NPREFIXES; i++)
        lengths[i] = (uint32_t)min_u64(frame.prefix[i].nbytes, nbytes);
    lengths[terp_prefix_number(step)] = (uint32_t)nbytes;
    terp_frame_seal_prefixes(stream->bytes, frame_nbytes, lengths);
    stream->nbytes = nbytes;
}

/* Cuts a longer stream at the prefix of a step; or before or behind it, with or
 * without a table that says so; or damages it. */
static void
harm_prefix(struct terp_stream *stream, uint64_t step, uint64_t kind,
            uint64_t random)
{
    uint64_t nbytes;

    if (terp_coarse_nbytes(stream->bytes, stream->nbytes, step, &nbytes) !=
            TERP_OK ||
        nbytes >= stream->nbytes - 1 || nbytes < 1024)
        return;
    switch (kind % 6) {
    case 0:
    case 1:
        stream->nbytes = nbytes;
        return;
    case 2:
        stream->bytes[nbytes - 1 - random % (nbytes - 128)] ^= 0x10;
        stream->nbytes = nbytes;
        return;
    case 3:
        stream->nbytes = nbytes - 1;
        return;
    case 4:
        cut_prefix(stream, step, nbytes + 1);
        return;
    default:
        cut_prefix(stream, step, nbytes - 1 - random % 500);
        return;
    }
}

/* Prefixes that are whole, damaged, too short, or wrong with a valid checksum,
 * without the bytes behind them. */
static void
prefixes_are_the_cpus(void **state)
{
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 3, {41, 30, 36}},
        {TERP_FLOAT64, true, false, 3, {20, 33, 35}},
        {TERP_INT16, false, true, 4, {2, 30, 31, 33}},
        {TERP_FLOAT32, false, false, 3, {70, 66, 68}},
    };
    static const struct terp_params asked[] = {
        {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3},
        {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-6},
        {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-2},
    };

    (void)state;
    for (uint64_t turn = 0; turn < COUNT(shapes) * COUNT(asked); turn++) {
        if (!turn_is_taken(turn))
            continue;
        const uint64_t step = UINT64_C(2) << turn % 4;
        struct terp_params params = asked[turn % COUNT(asked)];
        params.pipeline = terp_mode[2 * turn % TERP_NMODES].pipeline;
        params.predictor = TERP_PREDICTOR_SPLINE;
        struct batch *batch = make_batch(&params, &shapes[turn / COUNT(asked)],
                                         6, TERP_FIELD_ROUGH);
        for (uint64_t i = 0; i < batch->nchunks; i++)
            harm_prefix(&batch->streams[i], step, i + turn, 311 * (i + turn));
        check_coarse(batch, step, &places[turn % COUNT(places)]);
        free_batch(batch);
    }
}

/* Bounds from a search: batches of mixed contents, some without a range, some
 * for which no bound suffices. */
static void
batch_of_a_psnr_equals_single_chunks(void **state)
{
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 3, {13, 17, 31}},
        {TERP_FLOAT64, true, false, 3, {9, 16, 15}},
        {TERP_FLOAT32, true, false, 2, {33, 165}},
        {TERP_FLOAT64, false, false, 1, {4097}},
        {TERP_FLOAT32, false, true, 4, {3, 8, 8, 8}},
    };
    static const double asked[] = {20, 60, 120, 660};

    (void)state;
    for (uint64_t turn = 0; turn < COUNT(shapes) * COUNT(asked); turn++) {
        if (!turn_is_taken(turn))
            continue;
        const struct terp_chunk *shape = &shapes[turn % COUNT(shapes)];
        const struct terp_mode *mode = &terp_mode[turn % TERP_NMODES];
        const struct terp_params params = {.bound_mode = TERP_BOUND_PSNR,
                                           .bound = asked[turn / COUNT(shapes)],
                                           .pipeline = mode->pipeline,
                                           .predictor = mode->predictor,
                                           .has_fill = turn % 3 == 0};
        struct batch *batch = make_batch(&params, shape, 5, 5 * turn);
        if (params.bound <= TERP_MAX_PSNR)
            check_encode(batch, &params, &places[turn % COUNT(places)]);
        free_batch(batch);
    }
}

/* Streams whose payload is empty: all else precedes it. */
static void
prefixes_of_empty_payload_are_whole_streams(void **state)
{
    static const uint64_t dims[] = {80, 60, 70};
    const struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, dims);
    const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 2,
                                       .predictor = TERP_PREDICTOR_SPLINE,
                                       .has_fill = true};
    struct batch *batch = make_batch(&params, &chunk, 2, TERP_FIELD_SPIKES);
    const struct terp_stream *stream = &batch->streams[0];
    uint64_t nbytes;

    (void)state;
    assert_int_equal(
        terp_coarse_nbytes(stream->bytes, stream->nbytes, 8, &nbytes), TERP_OK);
    assert_int_equal(nbytes, stream->nbytes);
    check_encode(batch, &params, &places[0]);
    check_decode(batch, &places[0]);
    free_batch(batch);
}

/* Twice the bound is infinite, but the range still has many of the largest
 * steps, so codes are wide. */
static void
parts_of_a_huge_range_equal_single_chunks(void **state)
{
    static const uint64_t dims[] = {7, 32, 186};
    const struct terp_chunk chunk = terp_case_chunk(TERP_COMPLEX128, 3, dims);
    const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 0.5};
    struct batch *batch = make_batch(&params, &chunk, 1, TERP_FIELD_HUGE);

    (void)state;
    check_encode(batch, &params, &places[0]);
    check_decode(batch, &places[0]);
    free_batch(batch);
}

/* Clouds: values in boxes, one in 13 of all, and zeros elsewhere. */
static void
clear_sky(const struct terp_chunk *chunk, uint8_t *values)
{
    const size_t nbytes = (size_t)terp_value_nbytes(chunk->type);
    const uint64_t ny = chunk->dims[1], nx = chunk->dims[2];

    for (uint64_t i = 0; i < terp_chunk_nvalues(chunk); i++) {
        const uint64_t x = i % nx, y = i / nx % ny, z = i / nx / ny;
        if (x % 32 < 8 || x % 32 >= 20 || y < 4 || y >= ny / 2 || z % 2 > 0)
            memset(values + i * nbytes, 0, nbytes);
    }
}

/* The tuner samples more runs of sparse chunks, and each block takes several of
 * these runs. */
static void
sparse_chunks_equal_the_cpu(void **state)
{
    static const uint64_t dims[] = {40, 50, 64};
    static const enum terp_type types[] = {TERP_FLOAT32, TERP_FLOAT64};

    (void)state;
    for (uint64_t turn = 0; turn < COUNT(types); turn++) {
        const struct terp_chunk chunk =
            terp_case_chunk(types[turn], COUNT(dims), dims);
        const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};
        struct batch *batch = make_batch(&params, &chunk, 2, TERP_FIELD_ROUGH);
        for (uint64_t i = 0; i < batch->nchunks; i++) {
            struct terp_info info = {.size = sizeof info};
            clear_sky(&chunk, batch->values[i]);
            free(batch->streams[i].bytes);
            batch->streams[i] =
                terp_case_encode(&params, &chunk, batch->values[i], 1);
            assert_int_equal(terp_inspect(batch->streams[i].bytes,
                                          batch->streams[i].nbytes, &info),
                             TERP_OK);
            assert_true(info.nspecials >= terp_chunk_nvalues(&chunk) / 8 * 7);
        }
        check_encode(batch, &params, &places[turn % COUNT(places)]);
        free_batch(batch);
    }
}

/* The device may replay repeated sequences of kernels, with other contents,
 * numbers of chunks and addresses. */
static void
call_that_comes_again_does_its_own_work(void **state)
{
    static const uint64_t nchunks[] = {3, 3, 3, 3, 1, 3, 2, 2, 2};

    (void)state;
    for (int mode = 0; mode < TERP_NMODES; mode += 2) {
        struct terp_params params = params_of(mode, mode % NBOUNDS);
        for (size_t i = 0; i < COUNT(nchunks); i++) {
            const struct place *place = &places[i / 2 % COUNT(places)];
            struct batch *batch =
                make_batch(&params, &chunks[0], nchunks[i], 5 * i);
            check_encode(batch, &params, place);
            check_decode(batch, place);
            free_batch(batch);
        }
    }
}

static void
batch_of_hundreds_equals_single_chunks(void **state)
{
    static const uint64_t dims[] = {4, 5, 6};
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, dims);
    struct terp_params params = params_of(0, 1);
    struct batch *batch = make_batch(&params, &chunk, MAX_NCHUNKS, 0);

    (void)state;
    check_encode(batch, &params, &places[0]);
    check_decode(batch, &places[0]);
    free_batch(batch);
}

static void
replace_stream(struct terp_stream *stream, const struct terp_stream *other)
{
    free(stream->bytes);
    stream->bytes = terp_case_alloc(other->nbytes);
    stream->nbytes = other->nbytes;
    memcpy(stream->bytes, other->bytes, other->nbytes);
}

/* Damages a stream in one of six ways. All but the first two correct the
 * checksum. */
static void
harm(struct terp_stream *stream, uint64_t kind, uint64_t random,
     const struct terp_stream *others)
{
    uint64_t at = random % stream->nbytes;

    switch (kind % 6) {
    case 0: /* a changed bit */
        stream->bytes[at] ^= (uint8_t)(1 << random / 8 % 8);
        return;
    case 1: /* cut off */
        stream->nbytes = at;
        return;
    case 2: /* another shape */
        replace_stream(stream, &others[0]);
        return;
    case 3: /* another type */
        replace_stream(stream, &others[1]);
        return;
    case 4: /* cut off, with a corrected checksum */
        stream->nbytes = stream->nbytes - random % 8 - 1;
        break;
    default: /* a changed bit behind the version, with a corrected checksum */
        at = at < 5 ? 5 : at;
        stream->bytes[at] ^= (uint8_t)(1 << random / 8 % 8);
        break;
    }
    if (stream->nbytes >= TERP_FRAME_DIMS_AT)
        terp_frame_seal(stream->bytes, stream->nbytes);
}

static void
bad_streams_spoil_no_good_ones(void **state)
{
    static const uint64_t other_dims[] = {11, 17, 13};
    struct terp_chunk shape = terp_case_chunk(TERP_FLOAT32, 3, other_dims);
    struct terp_chunk type = chunks[0], half = chunks[0], complex = chunks[0];
    const struct terp_chunk *const kinds[] = {&chunks[0], &complex, &half,
                                              &chunks[0]};

    (void)state;
    type.type = TERP_FLOAT64;
    half.type = TERP_FLOAT16;
    complex.type = TERP_COMPLEX64;
    for (uint64_t turn = 0; turn < 4 * TERP_NMODES; turn++) {
        if (!turn_is_taken(turn))
            continue;
        struct terp_params params =
            params_of((int)(turn % TERP_NMODES), (int)(turn % (NBOUNDS - 1)));
        struct batch *batch =
            make_batch(&params, kinds[turn % COUNT(kinds)], 29, turn);
        struct batch *other = make_batch(&params, &shape, 1, 2);
        struct batch *wide = make_batch(&params, &type, 1, 2);
        struct terp_stream others[] = {other->streams[0], wide->streams[0]};
        for (uint64_t i = turn % 2; i < batch->nchunks; i += 2)
            harm(&batch->streams[i], i / 2 + turn,
                 terp_field_mix(turn << 32 | i), others);
        check_decode(batch, &places[turn / 2 % COUNT(places)]);
        free_batch(batch);
        free_batch(other);
        free_batch(wide);
    }
}

/* cmocka's checks work in the main thread only, so other threads count
 * errors. */
struct caller {
    pthread_t thread;
    struct terp_params params;
    struct batch *batch;
    int nturns;
    atomic_int *nwrong;
};

static bool
one_call_is_right(const struct caller *caller, void *stream, void *values)
{
    const struct batch *batch = caller->batch;
    const struct terp_run_options options = {.engine = TERP_ENGINE_CUDA};
    struct terp_run_result result = {.size = sizeof result};
    const struct terp_stream *expected = &batch->streams[0];
    const void *src = batch->values[0], *coded = stream;
    enum terp_status status;
    uint64_t nbytes;

    return terp_encode_batch(&options, &caller->params, &batch->chunk, 1, &src,
                             &stream, &nbytes, &result) == TERP_OK &&
           result.used == TERP_ENGINE_CUDA && nbytes == expected->nbytes &&
           memcmp(stream, expected->bytes, nbytes) == 0 &&
           terp_decode_batch(&options, &batch->chunk, 1, &coded, &nbytes,
                             &values, &status, &result) == TERP_OK &&
           result.used == TERP_ENGINE_CUDA;
}

static void *
call(void *arg)
{
    const struct caller *caller = arg;
    void *stream = malloc(terp_encode_bound(&caller->batch->chunk));
    void *values = malloc(caller->batch->chunk_nbytes);

    for (int i = 0; i < caller->nturns; i++)
        if (stream == NULL || values == NULL ||
            !one_call_is_right(caller, stream, values))
            (*caller->nwrong)++;
    free(stream);
    free(values);
    return NULL;
}

static void
calls_at_the_same_time_do_not_meet(void **state)
{
    struct caller callers[8];
    atomic_int nwrong = 0;

    (void)state;
    for (int i = 0; i < (int)COUNT(callers); i++) {
        callers[i] =
            (struct caller){.params = params_of(i % TERP_NMODES, i % NBOUNDS),
                            .nturns = 8,
                            .nwrong = &nwrong};
        callers[i].batch =
            make_batch(&callers[i].params, &chunks[(size_t)i % COUNT(chunks)],
                       1, TERP_FIELD_ROUGH + (uint64_t)i);
    }
    for (int i = 0; i < (int)COUNT(callers); i++)
        assert_int_equal(
            pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    for (int i = 0; i < (int)COUNT(callers); i++)
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    assert_int_equal(nwrong, 0);
    for (int i = 0; i < (int)COUNT(callers); i++)
        free_batch(callers[i].batch);
}

/* cuda_bytes [TESTS]: runs only the tests whose names match this pattern. */
int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_of_mixed_contents_equals_single_chunks),
        cmocka_unit_test(batch_under_each_bound_equals_single_chunks),
        cmocka_unit_test(chunks_may_lie_anywhere_that_is_allowed),
        cmocka_unit_test(chunks_of_a_batch_may_have_other_domains),
        cmocka_unit_test(every_nth_value_is_the_cpus),
        cmocka_unit_test(prefixes_are_the_cpus),
        cmocka_unit_test(batch_of_a_psnr_equals_single_chunks),
        cmocka_unit_test(prefixes_of_empty_payload_are_whole_streams),
        cmocka_unit_test(parts_of_a_huge_range_equal_single_chunks),
        cmocka_unit_test(sparse_chunks_equal_the_cpu),
        cmocka_unit_test(call_that_comes_again_does_its_own_work),
        cmocka_unit_test(batch_of_hundreds_equals_single_chunks),
        cmocka_unit_test(bad_streams_spoil_no_good_ones),
        cmocka_unit_test(calls_at_the_same_time_do_not_meet),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

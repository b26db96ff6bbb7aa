/* Every step-th value of a chunk has the same bits as in a full decode. If the
 * prediction has levels, fewer bytes of the stream suffice. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/frame.h"
#include "codec/format/types.h"
#include "codec/model/coarse.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Steps up to beyond any extent. */
static const uint64_t steps[] = {
    1, 2, 4, 8, 16, 32, 64, UINT64_C(1) << 20, UINT64_C(1) << 63};

/* The type of a case is chosen later. */
static const struct terp_chunk shapes[] = {
    {TERP_BYTES, false, false, 1, {1}},
    {TERP_BYTES, true, false, 1, {700}},
    {TERP_BYTES, false, false, 2, {1, 37}},
    {TERP_BYTES, false, false, 3, {17, 1, 65}},
    {TERP_BYTES, true, false, 2, {21, 33}},
    {TERP_BYTES, false, false, 3, {9, 10, 11}},
    {TERP_BYTES, false, false, 4, {5, 6, 7, 8}},
    {TERP_BYTES, true, false, 4, {1, 3, 1, 129}},
    {TERP_BYTES, false, true, 4, {3, 7, 6, 5}},
    {TERP_BYTES, false, true, 2, {9, 40}},
};

/* More than a partition of tiles. The last needed tile is cut. */
static const struct terp_chunk large_shapes[] = {
    {TERP_FLOAT32, false, false, 1, {100003}},
    {TERP_FLOAT32, false, false, 2, {301, 403}},
    {TERP_FLOAT64, true, false, 3, {65, 40, 71}},
    {TERP_FLOAT32, false, true, 3, {23, 75, 81}},
    {TERP_FLOAT64, false, false, 4, {19, 18, 17, 20}},
};

struct bound {
    enum terp_bound_mode mode;
    double bound, floor;
};

static const struct bound bounds[] = {
    {TERP_BOUND_RELATIVE, 1e-3, 0},     {TERP_BOUND_RELATIVE, 1e-7, 0},
    {TERP_BOUND_POINTWISE, 1e-2, 0},    {TERP_BOUND_POINTWISE, 1e-6, 0},
    {TERP_BOUND_POINTWISE, 1e-2, 1e-3}, {TERP_BOUND_ABSOLUTE, 0, 0},
    {TERP_BOUND_ABSOLUTE, 2, 0},        {TERP_BOUND_PSNR, 60, 0},
};

/* Decodes the whole stream. The caller frees the values. */
static uint8_t *
decode_all(const struct terp_stream *stream, const struct terp_chunk *chunk)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    uint8_t *decoded = terp_case_alloc(nbytes);
    uint64_t got;

    assert_int_equal(
        terp_decode(stream->bytes, stream->nbytes, decoded, nbytes, &got, 1),
        TERP_OK);
    return decoded;
}

static void
check(const struct terp_params *params, const struct terp_chunk *chunk,
      const uint8_t *values)
{
    char name[128];
    struct terp_stream stream = terp_case_encode(params, chunk, values, 1);
    uint8_t *decoded = decode_all(&stream, chunk);

    snprintf(name, sizeof name,
             "%s, rank %d, %" PRIu64 " first, pipeline %s, predictor %s, "
             "mode %d, bound %g",
             terp_type_name(chunk->type), chunk->rank, chunk->dims[0],
             terp_pipeline_name(params->pipeline),
             terp_predictor_name(params->predictor), (int)params->bound_mode,
             params->bound);
    for (size_t i = 0; i < COUNT(steps); i++)
        for (int nthreads = 1; nthreads <= 3; nthreads += 2)
            if (terp_case_taken(2))
                terp_case_check_coarse(name, &stream, decoded, steps[i],
                                       nthreads);
    free(decoded);
    free(stream.bytes);
}

static struct terp_params
params_of(const struct bound *bound, const struct terp_mode *mode)
{
    return (struct terp_params){.size = sizeof(struct terp_params),
                                .bound_mode = bound->mode,
                                .bound = bound->bound,
                                .floor = bound->floor,
                                .pipeline = mode->pipeline,
                                .predictor = mode->predictor};
}

static void
values_of_every_type_and_shape_are_those_of_a_full_decode(void **state)
{
    uint64_t which = 0;

    (void)state;
    for (int type = 0; type < TERP_NTYPES; type++)
        for (size_t s = 0; s < COUNT(shapes); s++)
            for (size_t b = 0; b < COUNT(bounds); b++, which++) {
                struct terp_chunk chunk = shapes[s];
                chunk.type = (enum terp_type)type;
                if (type == TERP_BYTES && (chunk.rank > 1 || chunk.big_endian))
                    continue;
                const struct terp_params params =
                    params_of(&bounds[b],
                              &terp_mode[terp_field_mix(which) % TERP_NMODES]);
                uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
                memset(values, 1, terp_chunk_nbytes(&chunk));
                if (type != TERP_BYTES)
                    terp_field_make((enum terp_field)(which % TERP_NFIELDS),
                                    &chunk, values);
                check(&params, &chunk, values);
                free(values);
            }
}

static void
values_of_every_mode_and_field_are_those_of_a_full_decode(void **state)
{
    uint64_t which = 0;

    (void)state;
    for (int mode = 0; mode < TERP_NMODES; mode++)
        for (int field = 0; field < TERP_NFIELDS; field++)
            for (size_t s = 1; s < COUNT(shapes); s += 2, which++) {
                struct terp_chunk chunk = shapes[s];
                chunk.type = which % 2 ? TERP_FLOAT32 : TERP_FLOAT64;
                struct terp_params params =
                    params_of(&bounds[which % COUNT(bounds)], &terp_mode[mode]);
                uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
                terp_field_make((enum terp_field)field, &chunk, values);
                params.has_fill = which % 3 == 0;
                params.fill_bits = value_bits(&chunk, values, 0);
                check(&params, &chunk, values);
                free(values);
            }
}

/* Skips partitions and tiles; with contexts, low bits and masks. */
static void
values_of_large_chunks_are_those_of_a_full_decode(void **state)
{
    static const enum terp_field fields[] = {
        TERP_FIELD_SMOOTH, TERP_FIELD_ROUGH, TERP_FIELD_COAST, TERP_FIELD_GAPS};
    uint64_t which = 0;

    (void)state;
    for (size_t s = 0; s < COUNT(large_shapes); s++)
        for (size_t f = 0; f < COUNT(fields); f++)
            for (int mode = 0; mode < TERP_NMODES; mode += 2, which++) {
                if (!terp_case_taken(1))
                    continue;
                const struct terp_chunk *chunk = &large_shapes[s];
                const struct terp_params params =
                    params_of(&bounds[which % 4], &terp_mode[mode]);
                uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
                terp_field_make(fields[f], chunk, values);
                check(&params, chunk, values);
                free(values);
            }
}

/* Many colors, or no colors: each special value may differ. */
static void
special_values_come_from_their_own_places(void **state)
{
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 1e-2,
                                       .predictor = TERP_PREDICTOR_SPLINE};
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {19, 22, 35}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    for (uint64_t ncolors = 1; ncolors <= 64; ncolors *= 4) {
        terp_field_make(TERP_FIELD_SMOOTH, &chunk, values);
        for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++)
            if (terp_field_mix(i / 3) % 4 == 0)
                value_put(&chunk, values, i,
                          0x7FC00000 + terp_field_mix(i) % ncolors);
        check(&params, &chunk, values);
    }
    free(values);
}

/* Domains that differ from the chunk's shape: bricks that an encoder has found,
 * and rows of a chunk of one dimension. */
static void
values_of_other_domains_are_those_of_a_full_decode(void **state)
{
    static const struct terp_chunk made[] = {
        {TERP_FLOAT32, false, true, 3, {12, 60, 64}},
        {TERP_FLOAT64, false, true, 2, {64, 100}},
        {TERP_FLOAT32, true, true, 4, {10, 12, 13, 16}},
    };

    (void)state;
    for (size_t m = 0; m < COUNT(made); m++)
        for (int flat = 0; flat < 2; flat++) {
            struct terp_params params = {.size = sizeof params,
                                         .bound_mode = TERP_BOUND_RELATIVE,
                                         .bound = 1e-3,
                                         .effort = TERP_EFFORT_BEST};
            struct terp_info info = {.size = sizeof info};
            struct terp_chunk chunk = made[m];
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
            terp_field_make(TERP_FIELD_SMOOTH, &chunk, values);
            chunk.stack = false;
            for (int i = 1; flat && i < made[m].rank; i++)
                chunk.dims[0] *= made[m].dims[i];
            chunk.rank = flat ? 1 : chunk.rank;
            struct terp_stream stream =
                terp_case_encode(&params, &chunk, values, 1);
            assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info),
                             TERP_OK);
            assert_false(terp_shapes_are_equal(&info.domain, &info.chunk));
            free(stream.bytes);
            check(&params, &chunk, values);
            free(values);
        }
}

/* In a smooth field's stream, the finer levels take most bytes. */
static void
coarser_values_need_fewer_bytes(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {64, 64, 64}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
    for (int pipeline = 1; pipeline < TERP_NPIPELINES; pipeline++) {
        if (terp_pipeline_name((enum terp_pipeline)pipeline) == NULL ||
            pipeline == TERP_PIPELINE_SPEED) /* has no prefixes */
            continue;
        const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                           .bound = 1e-3,
                                           .pipeline =
                                               (enum terp_pipeline)pipeline,
                                           .predictor = TERP_PREDICTOR_SPLINE};
        struct terp_stream stream =
            terp_case_encode(&params, &chunk, values, 1);
        uint64_t last = stream.nbytes / 2, needed = 0;
        struct terp_info info = {.size = sizeof info};
        assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info),
                         TERP_OK);
        assert_int_equal(terp_coarse_nbytes(
                             stream.bytes, TERP_STREAM_HEAD_NBYTES, 1, &needed),
                         TERP_OK);
        assert_true(needed == UINT64_MAX);
        for (int i = 0; i < TERP_NPREFIXES; i++) {
            assert_int_equal(terp_coarse_nbytes(stream.bytes,
                                                TERP_STREAM_HEAD_NBYTES,
                                                UINT64_C(2) << i, &needed),
                             TERP_OK);
            assert_int_equal(needed, info.prefix_nbytes[i]);
            /* The skipped bytes may end in the same partition. */
            assert_true(i < 2 ? needed < last : needed <= last);
            last = needed;
        }
        free(stream.bytes);
    }
    free(values);
}

static void
wrong_steps_and_small_destinations_are_refused(void **state)
{
    static const uint64_t wrong[] = {0, 3, 6, 12, 63, UINT64_MAX};
    const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 1e-3};
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {21, 33}};
    struct terp_chunk none = {.type = TERP_FLOAT32}, coarse;
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint64_t got;

    (void)state;
    terp_field_make(TERP_FIELD_SMOOTH, &chunk, values);
    struct terp_stream stream = terp_case_encode(&params, &chunk, values, 1);
    const uint64_t room = terp_chunk_nbytes(&chunk);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const void *src = stream.bytes;
        void *dst = values;
        enum terp_status st = TERP_OK;
        struct terp_run_result result = {.size = sizeof result};
        assert_int_equal(terp_coarse_chunk(&chunk, wrong[i], &coarse),
                         TERP_ERR_ARGUMENT);
        assert_int_equal(terp_decode_coarse(stream.bytes, stream.nbytes,
                                            wrong[i], values, room, &got, 1),
                         TERP_ERR_ARGUMENT);
        assert_int_equal(
            terp_coarse_nbytes(stream.bytes, stream.nbytes, wrong[i], &got),
            TERP_ERR_ARGUMENT);
        assert_int_equal(terp_decode_coarse_batch(NULL, &chunk, wrong[i], 1,
                                                  &src, &stream.nbytes, &dst,
                                                  &st, &result),
                         TERP_ERR_ARGUMENT);
        assert_int_equal(st, TERP_ERR_ARGUMENT);
        assert_string_equal(result.reason,
                            "the step must be a power of two, at least 1");
    }
    assert_int_equal(terp_coarse_chunk(&none, 2, &coarse), TERP_ERR_ARGUMENT);
    assert_int_equal(terp_decode_coarse(stream.bytes, stream.nbytes, 2, values,
                                        11 * 17 * 4 - 1, &got, 1),
                     TERP_ERR_CAPACITY);
    assert_int_equal(terp_decode_coarse(stream.bytes, stream.nbytes, 2, values,
                                        11 * 17 * 4, &got, 0),
                     TERP_ERR_ARGUMENT);
    assert_int_equal(terp_decode_coarse(stream.bytes, stream.nbytes, 2, values,
                                        11 * 17 * 4, &got, 1),
                     TERP_OK);
    assert_int_equal(got, 11 * 17 * 4);
    free(stream.bytes);
    free(values);
}

/* In a short stream the checksum covers all bytes, also the unneeded ones. */
static void
damaged_and_truncated_short_streams_are_refused(void **state)
{
    const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 1e-1};
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {20, 21, 22}};
    const uint64_t room = terp_chunk_nbytes(&chunk);
    uint8_t *values = terp_case_alloc(room);
    uint64_t got;

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
    struct terp_stream stream = terp_case_encode(&params, &chunk, values, 1);
    for (uint64_t i = 0; i < stream.nbytes; i += 7) {
        stream.bytes[i] ^= 0x10;
        assert_int_not_equal(terp_decode_coarse(stream.bytes, stream.nbytes, 4,
                                                values, room, &got, 1),
                             TERP_OK);
        stream.bytes[i] ^= 0x10;
        assert_int_not_equal(
            terp_decode_coarse(stream.bytes, i, 4, values, room, &got, 1),
            TERP_OK);
    }
    free(stream.bytes);
    free(values);
}

/* A longer stream has checksums for its prefixes. The bytes behind a prefix may
 * differ or be missing. */
static void
damaged_and_truncated_prefixes_are_refused(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {36, 37, 38}};
    const uint64_t room = terp_chunk_nbytes(&chunk), step = 4;
    uint8_t *values = terp_case_alloc(room), *expected = terp_case_alloc(room);
    uint64_t got, needed;

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
    for (int pipeline = 1; pipeline < TERP_NPIPELINES; pipeline++) {
        if (terp_pipeline_name((enum terp_pipeline)pipeline) == NULL ||
            pipeline == TERP_PIPELINE_SPEED) /* has no prefixes */
            continue;
        const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                           .bound = 1e-2,
                                           .pipeline =
                                               (enum terp_pipeline)pipeline,
                                           .predictor = TERP_PREDICTOR_SPLINE};
        struct terp_stream stream =
            terp_case_encode(&params, &chunk, values, 1);
        assert_int_equal(
            terp_coarse_nbytes(stream.bytes, stream.nbytes, step, &needed),
            TERP_OK);
        assert_true(needed < stream.nbytes / 2);
        assert_int_equal(terp_decode_coarse(stream.bytes, stream.nbytes, step,
                                            expected, room, &got, 1),
                         TERP_OK);
        for (uint64_t i = 0; i < stream.nbytes; i++) {
            const bool is_told = i < TERP_FRAME_CHECKSUM_AT ||
                                 (i >= TERP_FRAME_DIMS_AT && i < needed);
            stream.bytes[i] ^= 0x10;
            enum terp_status st = terp_decode_coarse(
                stream.bytes, stream.nbytes, step, values, room, &got, 1);
            /* A prefix does not depend on the table entries of other
             * prefixes. */
            if (st == TERP_OK)
                assert_memory_equal(values, expected, got);
            else
                assert_true(is_told);
            if (is_told &&
                (i < TERP_FRAME_DIMS_AT || i >= TERP_STREAM_HEAD_NBYTES))
                assert_int_not_equal(st, TERP_OK);
            stream.bytes[i] ^= 0x10;
            i += i < 2 * TERP_STREAM_HEAD_NBYTES ? 0 : 6;
        }
        for (uint64_t i = 0; i < stream.nbytes; i += 3) {
            enum terp_status st = terp_decode_coarse(stream.bytes, i, step,
                                                     values, room, &got, 1);
            assert_int_equal(st == TERP_OK, i >= needed);
        }
        terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
        free(stream.bytes);
    }
    free(expected);
    free(values);
}

/* A decoder checks only the table entry of the prefix that it reads. */
static void
prefixes_of_impossible_length_are_refused(void **state)
{
    static const struct {
        uint32_t nbytes;
        enum terp_status status;
    } cases[] = {{0, TERP_ERR_CORRUPT},
                 {TERP_PREFIX_MIN_NBYTES - 1, TERP_ERR_CORRUPT},
                 {TERP_PREFIX_MIN_NBYTES, TERP_ERR_CHECKSUM},
                 {UINT32_MAX, TERP_ERR_TRUNCATED}};
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {36, 37, 38}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 1e-2,
                                       .predictor = TERP_PREDICTOR_SPLINE};
    const uint64_t room = terp_chunk_nbytes(&chunk);
    uint8_t *values = terp_case_alloc(room), *expected = terp_case_alloc(room);
    struct terp_frame frame;
    int frame_nbytes;
    uint64_t got;

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
    struct terp_stream stream = terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(
        terp_frame_read(stream.bytes, stream.nbytes, &frame, &frame_nbytes),
        TERP_OK);
    assert_true(frame.has_prefixes);
    assert_int_equal(
        terp_decode(stream.bytes, stream.nbytes, expected, room, &got, 1),
        TERP_OK);
    for (int i = 0; i < TERP_NPREFIXES; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            uint8_t *at = stream.bytes + frame_nbytes - TERP_PREFIXES_NBYTES +
                          i * TERP_PREFIX_NBYTES;
            const uint64_t step = UINT64_C(2) << i;
            store_le(at, cases[c].nbytes, 4);
            terp_frame_seal(stream.bytes, stream.nbytes);
            assert_int_equal(terp_decode_coarse(stream.bytes, stream.nbytes,
                                                step, values, room, &got, 1),
                             cases[c].status);
            assert_int_equal(
                terp_decode(stream.bytes, stream.nbytes, values, room, &got, 1),
                TERP_OK);
            assert_memory_equal(values, expected, room);
            store_le(at, frame.prefix[i].nbytes, 4);
        }
    free(stream.bytes);
    free(expected);
    free(values);
}

/* The table of prefixes takes at most half a percent: a stream has one from
 * that size on. */
static void
only_streams_that_are_long_enough_have_prefixes(void **state)
{
    enum {
        NDIMS = 24
    };
    uint64_t longest_without = 0, shortest_with = UINT64_MAX, needed;

    (void)state;
    for (uint64_t n = 17; n < 17 + NDIMS; n++) {
        const struct terp_chunk chunk = {
            TERP_FLOAT64, false, false, 3, {n, 20, 21}};
        const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                           .bound = 2e-3,
                                           .predictor = TERP_PREDICTOR_SPLINE};
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
        terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
        struct terp_stream stream =
            terp_case_encode(&params, &chunk, values, 1);
        assert_int_equal(
            terp_coarse_nbytes(stream.bytes, stream.nbytes, 2, &needed),
            TERP_OK);
        struct terp_info info = {.size = sizeof info};
        assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info),
                         TERP_OK);
        assert_true((info.prefix_nbytes[0] == 0) == (needed == UINT64_MAX));
        if (needed == UINT64_MAX && stream.nbytes > longest_without)
            longest_without = stream.nbytes;
        if (needed != UINT64_MAX && stream.nbytes < shortest_with)
            shortest_with = stream.nbytes;
        free(stream.bytes);
        free(values);
    }
    assert_in_range(longest_without, 1, TERP_PREFIXES_MIN_STREAM_NBYTES - 1);
    assert_in_range(shortest_with,
                    TERP_PREFIXES_MIN_STREAM_NBYTES + TERP_PREFIXES_NBYTES,
                    2 * TERP_PREFIXES_MIN_STREAM_NBYTES);
}

/* The table has 32 bits for a length, too few for some chunks of 2 GiB. */
static void
chunks_of_2_gib_have_no_prefixes(void **state)
{
    struct terp_frame frame = {
        .chunk = {TERP_FLOAT32, false, false, 3, {1 << 9, 1 << 10, 1 << 10}},
        .coding = TERP_CODING_RATIO,
        .prediction = TERP_PREDICTION_SPLINE};

    (void)state;
    frame.domain = frame.chunk;
    assert_false(terp_may_have_prefixes(&frame));
    frame.chunk.dims[0]--;
    frame.domain = frame.chunk;
    assert_true(terp_may_have_prefixes(&frame));
}

static void
batch_gives_the_values_of_single_calls(void **state)
{
    enum {
        NCHUNKS = 5
    };
    const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 1e-3};
    struct terp_chunk chunk = {TERP_FLOAT32, false, false, 3, {33, 34, 35}};
    const struct terp_chunk other = {TERP_FLOAT32, false, false, 1, {60}};
    struct terp_stream stream[NCHUNKS];
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    const uint64_t nbytes = 9 * 9 * 9 * 4;
    uint8_t *expected = terp_case_alloc(nbytes);
    const void *src[NCHUNKS];
    uint64_t src_nbytes[NCHUNKS], got;
    void *dst[NCHUNKS];
    enum terp_status status[NCHUNKS];

    (void)state;
    for (int i = 0; i < NCHUNKS; i++) {
        const bool is_other = i == NCHUNKS - 1;
        terp_field_make((enum terp_field)(TERP_FIELD_SMOOTH + i),
                        is_other ? &other : &chunk, values);
        stream[i] =
            terp_case_encode(&params, is_other ? &other : &chunk, values, 1);
        src[i] = stream[i].bytes;
        src_nbytes[i] = stream[i].nbytes;
        dst[i] = terp_case_alloc(nbytes);
    }
    for (int nthreads = 1; nthreads <= 3; nthreads++) {
        const struct terp_run_options run = {.size = sizeof run,
                                             .nthreads = nthreads};
        struct terp_run_result result = {.size = sizeof result};
        assert_int_equal(terp_decode_coarse_batch(&run, &chunk, 4, NCHUNKS, src,
                                                  src_nbytes, dst, status,
                                                  &result),
                         TERP_ERR_ARGUMENT);
        assert_int_equal(result.used, TERP_ENGINE_CPU);
        assert_int_equal(status[NCHUNKS - 1], TERP_ERR_ARGUMENT);
        for (int i = 0; i < NCHUNKS - 1; i++) {
            assert_int_equal(status[i], TERP_OK);
            assert_int_equal(terp_decode_coarse(src[i], src_nbytes[i], 4,
                                                expected, nbytes, &got, 1),
                             TERP_OK);
            assert_int_equal(got, nbytes);
            assert_memory_equal(dst[i], expected, nbytes);
            memset(dst[i], 0xA5, nbytes);
        }
    }
    for (int i = 0; i < NCHUNKS; i++) {
        free(stream[i].bytes);
        free(dst[i]);
    }
    free(expected);
    free(values);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            values_of_every_type_and_shape_are_those_of_a_full_decode),
        cmocka_unit_test(
            values_of_every_mode_and_field_are_those_of_a_full_decode),
        cmocka_unit_test(values_of_large_chunks_are_those_of_a_full_decode),
        cmocka_unit_test(special_values_come_from_their_own_places),
        cmocka_unit_test(values_of_other_domains_are_those_of_a_full_decode),
        cmocka_unit_test(coarser_values_need_fewer_bytes),
        cmocka_unit_test(wrong_steps_and_small_destinations_are_refused),
        cmocka_unit_test(damaged_and_truncated_short_streams_are_refused),
        cmocka_unit_test(damaged_and_truncated_prefixes_are_refused),
        cmocka_unit_test(prefixes_of_impossible_length_are_refused),
        cmocka_unit_test(only_streams_that_are_long_enough_have_prefixes),
        cmocka_unit_test(chunks_of_2_gib_have_no_prefixes),
        cmocka_unit_test(batch_gives_the_values_of_single_calls)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Values that repeat others, and dimensions along which values do not change,
 * under bounds above 0. Streams become smaller, and every value keeps its
 * bound. doc/format.md, "References" and "Copies". */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/copies.h"
#include "codec/format/frame.h"
#include "codec/format/held.h"
#include "codec/format/references.h"
#include "codec/model/lag.h"
#include "codec/model/repeats.h"
#include "cpu/predict/repeats.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct terp_chunk chunks[] = {
    {TERP_FLOAT32, false, false, 3, {5, 200, 70}},
    {TERP_FLOAT32, true, false, 2, {300, 251}},
    {TERP_FLOAT64, false, false, 1, {70001}},
    {TERP_FLOAT64, true, false, 4, {3, 4, 60, 100}},
    {TERP_FLOAT16, false, false, 3, {5, 200, 70}},
    {TERP_BFLOAT16, true, false, 2, {300, 251}},
};

/* Copies the values `few`, which lack some dimensions, along them. */
static void
copy_along(const struct terp_chunk *chunk, unsigned dims, const uint8_t *few,
           uint8_t *values_ret)
{
    const uint64_t nbytes = chunk->type == TERP_FLOAT32 ? 4 : 8;

    for (uint64_t i = 0; i < terp_chunk_nbytes(chunk) / nbytes; i++) {
        uint64_t at = 0, left = i, stride = 1;
        for (int d = 0; d < chunk->rank; d++) {
            const uint64_t extent = terp_extent_of(chunk, d);
            if ((dims >> d & 1) == 0) {
                at += left % extent * stride;
                stride *= extent;
            }
            left /= extent;
        }
        memcpy(values_ret + i * nbytes, few + at * nbytes, nbytes);
    }
}

static struct terp_params
relative(double bound)
{
    return (struct terp_params){.bound_mode = TERP_BOUND_RELATIVE,
                                .bound = bound};
}

/* Encodes a field; all values keep the bound. Returns the stream's bytes, and
 * in *refers_ret whether it has references. */
static uint64_t
code(const struct terp_params *params, const struct terp_chunk *chunk,
     enum terp_field field, bool *refers_ret)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));

    terp_field_make(field, chunk, values);
    const uint64_t nbytes = terp_case_check("repeats", params, chunk, values);
    terp_case_check_threads(params, chunk, values);
    struct terp_stream stream = terp_case_encode(params, chunk, values, 1);
    *refers_ret = stream.bytes[TERP_FRAME_CODING_AT] == TERP_CODING_REFERENCES;
    free(stream.bytes);
    free(values);
    return nbytes;
}

/* The second half repeats the first with the other sign. Under the last bound
 * some values that differ in the last bits need more than the sign. */
static void
what_repeats_refers(void **state)
{
    static const double bounds[] = {1e-3, 1e-6, 1e-12};

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (size_t b = 0; b < COUNT(bounds); b++) {
            const struct terp_params params = relative(bounds[b]);
            bool refers, other_refers;
            if (!terp_case_taken(3) ||
                (chunks[c].type == TERP_FLOAT32 && bounds[b] < 1e-9) ||
                (terp_type_is_half(chunks[c].type) && bounds[b] < 1e-5))
                continue;
            const uint64_t nbytes =
                code(&params, &chunks[c], TERP_FIELD_MIRRORS, &refers);
            const uint64_t other_nbytes =
                code(&params, &chunks[c], TERP_FIELD_NOISE, &other_refers);
            assert_true(refers);
            assert_false(other_refers);
            assert_true(nbytes < other_nbytes * 8 / 10);
        }
}

/* Under pointwise bounds, with logarithms in both types. */
static void
what_repeats_refers_by_each_value(void **state)
{
    static const double bounds[] = {1e-2, 1e-4, 1e-7};

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (size_t b = 0; b < COUNT(bounds); b++) {
            const struct terp_params params = {
                .bound_mode = TERP_BOUND_POINTWISE, .bound = bounds[b]};
            const bool is_half = terp_type_is_half(chunks[c].type);
            bool refers, other_refers;
            if (!terp_case_taken(3) ||
                (chunks[c].type != TERP_FLOAT64 && bounds[b] < 1e-5) ||
                (is_half && bounds[b] < 1e-3))
                continue;
            const uint64_t nbytes =
                code(&params, &chunks[c], TERP_FIELD_MIRRORS, &refers);
            const uint64_t other_nbytes =
                code(&params, &chunks[c], TERP_FIELD_NOISE, &other_refers);
            assert_int_equal(refers, !is_half);
            assert_false(other_refers);
            assert_true(is_half || nbytes < other_nbytes * 8 / 10);
        }
}

/* Pairs of a row repeat the row before in reverse order, with the other sign of
 * the second number, like the coefficients of a real field's transform. */
static void
make_conjugates(const struct terp_chunk *chunk, uint8_t *values_ret)
{
    const uint64_t nvalues = terp_chunk_nbytes(chunk) / 8;
    const uint64_t row_nvalues = 140;

    terp_field_make(TERP_FIELD_NOISE, chunk, values_ret);
    for (uint64_t i = 0; i < nvalues; i++) {
        const uint64_t row = i / row_nvalues, x = i % row_nvalues;
        uint8_t *value = values_ret + i * 8;
        if (row % 2 == 0)
            continue;
        const uint64_t from =
            (row - 1) * row_nvalues + (row_nvalues - 2 - x / 2 * 2) + x % 2;
        memcpy(value, values_ret + from * 8, 8);
        value[7] = (uint8_t)(value[7] ^ (x % 2 << 7));
    }
}

static void
mirrored_pairs_refer(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT64, false, false, 2, {40000, 2}};
    const struct terp_params params[] = {
        {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-3},
        relative(1e-6),
        {.bound_mode = TERP_BOUND_ABSOLUTE}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint8_t *noise = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    make_conjugates(&chunk, values);
    terp_field_make(TERP_FIELD_NOISE, &chunk, noise);
    for (size_t i = 0; i < COUNT(params); i++) {
        const uint64_t nbytes =
            terp_case_check("mirrored pairs", &params[i], &chunk, values);
        struct terp_stream of_noise =
            terp_case_encode(&params[i], &chunk, noise, 1);
        terp_case_check_threads(&params[i], &chunk, values);
        assert_true(nbytes < of_noise.nbytes * 3 / 4);
        free(of_noise.bytes);
    }
    free(values);
    free(noise);
}

/* A few bytes describe the dimensions that are left out, whichever they are. */
static void
what_does_not_change_is_left_out(void **state)
{
    static const struct terp_chunk whole[] = {
        {TERP_FLOAT32, false, false, 3, {40, 30, 50}},
        {TERP_FLOAT64, true, false, 3, {40, 30, 50}},
        {TERP_FLOAT32, false, false, 4, {5, 40, 30, 2}},
        {TERP_FLOAT64, false, false, 2, {1200, 70}},
    };
    static const double bounds[] = {1e-2, 1e-4};

    (void)state;
    for (size_t c = 0; c < COUNT(whole); c++)
        for (unsigned dims = 1; dims < 1u << whole[c].rank; dims++) {
            struct terp_chunk left = terp_copies_chunk(&whole[c], dims);
            const int nleft = whole[c].rank - __builtin_popcount(dims);
            assert_int_equal(left.rank, nleft == 0 ? 1 : nleft);
            const struct terp_params params = relative(bounds[dims % 2]);
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&whole[c]));
            uint8_t *few = terp_case_alloc(terp_chunk_nbytes(&left));
            /* A chunk of few values is stored raw with its copies. */
            if (terp_chunk_nbytes(&left) < 256 || !terp_case_taken(3)) {
                free(values);
                free(few);
                continue;
            }
            terp_field_make(TERP_FIELD_GAPS, &left, few);
            copy_along(&whole[c], dims, few, values);
            assert_int_equal(terp_cpu_copies_find(&whole[c], values), dims);
            struct terp_stream of_few =
                terp_case_encode(&params, &left, few, 1);
            const uint64_t nbytes =
                terp_case_check("copies", &params, &whole[c], values);
            struct terp_stream stream =
                terp_case_encode(&params, &whole[c], values, 1);
            assert_int_equal(stream.bytes[TERP_FRAME_CODING_AT],
                             TERP_CODING_COPIES);
            assert_true(nbytes < of_few.nbytes + of_few.nbytes / 16 + 32);
            free(stream.bytes);
            free(of_few.bytes);
            free(values);
            free(few);
        }
}

/* Under a bound below the last bit, copies may be left out of a lossless
 * stream, which the encoder does not make a second time. */
static void
what_does_not_change_is_left_out_without_a_loss(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT64, false, false, 3, {12, 34, 21}};
    const struct terp_params params = relative(1e-17);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    terp_field_make(TERP_FIELD_PROFILE, &chunk, values);
    terp_case_check("copies of all bits", &params, &chunk, values);
    struct terp_stream stream = terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(stream.bytes[TERP_FRAME_CODING_AT], TERP_CODING_COPIES);
    free(stream.bytes);
    free(values);
}

/* The remaining chunk may be random bits that no stream makes smaller. Under
 * the bound 0 the encoder does not try to code them. */
static void
copies_of_any_bits_come_back(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {90, 70}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 1e-30};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    for (uint64_t i = 0; i < 90 * 70; i++) {
        uint32_t bits = (uint32_t)terp_field_mix(i / 70);
        if ((bits >> 23 & 0xFF) == 0xFF)
            bits ^= UINT32_C(1) << 30;
        store_le(values + 4 * i, bits, 4);
    }
    assert_int_equal(terp_cpu_copies_find(&chunk, values), 1);
    terp_case_check("copies of any bits", &params, &chunk, values);
    free(values);
}

/* One differing value is enough to prevent copies. */
static void
what_changes_once_is_not_left_out(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {12, 34, 21}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    const struct terp_params params = relative(1e-3);

    (void)state;
    terp_field_make(TERP_FIELD_PROFILE, &chunk, values);
    assert_int_equal(terp_cpu_copies_find(&chunk, values), 1);
    values[terp_chunk_nbytes(&chunk) - 3] ^= 1;
    assert_int_equal(terp_cpu_copies_find(&chunk, values), 0);
    terp_case_check("nearly copies", &params, &chunk, values);
    free(values);
}

/* A dimension of one value cannot be left out, and does not prevent copies
 * along others. */
static void
what_is_one_value_wide_may_be_copies(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {60, 1, 500}};
    const struct terp_params params = relative(1e-3);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    terp_field_make(TERP_FIELD_PROFILE, &chunk, values);
    terp_case_check("copies, one value wide", &params, &chunk, values);
    struct terp_stream stream = terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(stream.bytes[TERP_FRAME_CODING_AT], TERP_CODING_COPIES);
    free(stream.bytes);
    free(values);
}

/* Few steps, few values, and parameters of the caller. */
static void
other_chunks_are_coded_plainly(void **state)
{
    const struct terp_chunk small = {
        TERP_FLOAT64, false, false, 1, {TERP_REPEATS_MIN_NVALUES - 1}};
    struct terp_params params[] = {relative(1e-2), relative(1e-4),
                                   relative(1e-4), relative(1e-4),
                                   relative(1e-4)};
    bool refers;

    (void)state;
    params[1].predictor = TERP_PREDICTOR_LORENZO;
    params[2].effort = TERP_EFFORT_FAST;
    params[3].bound_mode = TERP_BOUND_POINTWISE;
    params[3].bound = 1e-15;
    for (size_t i = 0; i < COUNT(params); i++) {
        const bool is_small = i + 1 == COUNT(params);
        code(&params[i], is_small ? &small : &chunks[2], TERP_FIELD_MIRRORS,
             &refers);
        assert_false(refers);
    }
}

/* Whole numbers from a slow wave and noise, or their thirds, which have no
 * power of two in common. */
static uint8_t *
make_few(const struct terp_chunk *chunk, bool thirds)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));

    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const uint64_t at = i / 7 % 240;
        const uint64_t number =
            (at < 120 ? at : 240 - at) + terp_field_mix(i) % 9;
        value_put(
            chunk, values, i,
            value_to_bits(chunk->type, (double)number / (thirds ? 3.0 : 1.0)));
    }
    return values;
}

static uint64_t
nbytes_under(const struct terp_params *params, const struct terp_chunk *chunk,
             const uint8_t *values)
{
    return terp_case_check("few values", params, chunk, values);
}

/* A bound whose steps are no larger than the distances of values takes no more
 * than the lossless stream, whatever else it is, and no more than a tighter
 * bound. */
static void
few_far_values_take_no_more_than_without_a_loss(void **state)
{
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 2, {90, 110}},
        {TERP_FLOAT64, true, false, 3, {10, 30, 40}},
        {TERP_COMPLEX64, false, false, 1, {9000}}};
    static const double absolute[] = {0.15, 0.03, 1e-3};

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (int thirds = 0; thirds < 2; thirds++)
            for (int format = 0; format < 2; format++) {
                const struct terp_chunk *chunk = &shapes[s];
                struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                             .format = format};
                uint8_t *values = make_few(chunk, thirds);
                const uint64_t exact = nbytes_under(&params, chunk, values);
                uint64_t nbytes[COUNT(absolute)];
                for (size_t b = 0; b < COUNT(absolute); b++) {
                    params.bound = absolute[b];
                    nbytes[b] = nbytes_under(&params, chunk, values);
                    /* Ranks must save 2 %. */
                    assert_true(nbytes[b] <= exact + exact / 49);
                }
                assert_true(nbytes[0] <= nbytes[2] + nbytes[2] / 49);
                params.bound_mode = TERP_BOUND_POINTWISE;
                params.bound = 1e-4;
                assert_true(nbytes_under(&params, chunk, values) <=
                            exact + exact / 49);
                free(values);
            }
}

/* Values that a bound makes fewer: a lossless stream would be larger. */
static void
few_near_values_are_coded_under_the_bound(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {90, 110}};
    struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};
    uint8_t *values = make_few(&chunk, true);
    const uint64_t exact = nbytes_under(&params, &chunk, values);

    (void)state;
    params.bound = 2;
    assert_true(2 * nbytes_under(&params, &chunk, values) < exact);
    free(values);
}

/* What a lossless stream makes use of, and a stream under a bound does not. */
enum tight {
    TIGHT_SLICES, /* slices of whole steps, each from a value of its own */
    TIGHT_LAND,   /* one value between all others fills long runs */
    TIGHT_NEITHER
};

/* The last place of values from 1024 to 2047. */
static double
unit_of(enum terp_type type)
{
    return type == TERP_FLOAT64 ? 0x1p-42 : 0x1p-13;
}

/* Two waves in 9 slices, with noise of some hundred units in the last place. */
static uint8_t *
make_tight(const struct terp_chunk *chunk, enum tight tight)
{
    const double unit = unit_of(chunk->type);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
    const uint64_t n = chunk_nvalues(chunk);

    for (uint64_t i = 0; i < n; i++) {
        const uint64_t slice = i / (n / 9);
        const double wave =
            sin((double)(i % 61) / 10) + cos(3 * (double)i / (double)n);
        const double noise = (double)(terp_field_mix(i) % 601) * unit;
        double x = 1500 + 200 * wave + noise;
        if (tight == TIGHT_SLICES)
            x = floor(x / (64 * unit)) * 64 * unit +
                (double)(terp_field_mix(slice) % 4096) * unit;
        if (tight == TIGHT_LAND)
            x = i / 40 % 3 == 0 ? 0 : x - 1500;
        value_put(chunk, values, i, value_to_bits(chunk->type, x));
    }
    return values;
}

/* A step of some units in the last place: a lossless stream may be smaller. It
 * is larger where values have neither of these structures, except in float64,
 * whose codes have more bits than splines have. */
static void
tight_bounds_take_no_more_than_without_a_loss(void **state)
{
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 3, {9, 40, 61}},
        {TERP_FLOAT64, true, false, 2, {360, 61}},
        {TERP_COMPLEX64, false, false, 1, {9 * 2440}}};
    static const double nulps[] = {40, 2, 40};

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (enum tight tight = 0; tight <= TIGHT_NEITHER; tight++) {
            const struct terp_chunk *chunk = &shapes[s];
            struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};
            uint8_t *values = make_tight(chunk, tight);
            const uint64_t exact = nbytes_under(&params, chunk, values);
            params.bound = nulps[tight] / 2 * unit_of(chunk->type);
            const uint64_t nbytes = nbytes_under(&params, chunk, values);
            if (tight != TIGHT_NEITHER)
                assert_true(nbytes <= exact + exact / 49);
            else if (chunk->type != TERP_FLOAT64)
                assert_true(nbytes + nbytes / 8 < exact);
            free(values);
        }
}

/* A wave and noise that are mirrored along all dimensions, so that 7 of 8
 * values refer. */
static uint8_t *
make_folded(const struct terp_chunk *chunk)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));

    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        uint64_t left = i, root = 0, first = 0;
        for (int d = 0; d < chunk->rank; d++) {
            const uint64_t extent = terp_extent_of(chunk, d), c = left % extent;
            const uint64_t folded = min_u64(c, extent - 1 - c);
            root = root * extent + folded;
            first = d == 0 ? folded : first;
            left /= extent;
        }
        const double noise = (double)(terp_field_mix(root) % 65536) / 65536;
        value_put(chunk, values, i,
                  value_to_bits(chunk->type, cos((double)first / 5) +
                                                 0.02 * noise +
                                                 1e-7 * (double)(root % 97)));
    }
    return values;
}

/* Estimates are wrong where most values are markers. So both predictors are
 * tried, and the stream is hardly larger than with the effort `best`. */
static void
referring_values_take_the_better_predictor(void **state)
{
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT64, false, false, 3, {43, 47, 47}},
        {TERP_FLOAT64, true, false, 2, {301, 281}}};
    static const double bounds[] = {1e-5, 1e-6};

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (size_t b = 0; b < COUNT(bounds); b++) {
            struct terp_params params = relative(bounds[b]);
            uint8_t *values = make_folded(&shapes[s]);
            const uint64_t nbytes = nbytes_under(&params, &shapes[s], values);
            params.effort = TERP_EFFORT_BEST;
            const uint64_t best = nbytes_under(&params, &shapes[s], values);
            assert_true(nbytes <= best + best / 32);
            free(values);
        }
}

/* Rows of a matrix: every `period` values, exponents and the upper bits of
 * mantissas come again, with other signs. 0: they never do. */
static uint8_t *
make_sizes(const struct terp_chunk *chunk, uint64_t period)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));

    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const uint64_t noise = terp_field_mix(i);
        const uint64_t size = terp_field_mix(period > 0 ? i % period : ~i);
        const uint64_t exponent = 980 + size % 48, upper = size >> 52;
        value_put(chunk, values, i,
                  (noise >> 63) << 63 | exponent << 52 | upper << 40 |
                      (noise & ((UINT64_C(1) << 40) - 1)));
    }
    return values;
}

/* Values are told by their sizes only where these recur at a short distance. */
static void
sizes_that_recur_refer(void **state)
{
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT64, false, false, 2, {260, 261}},
        {TERP_FLOAT64, true, false, 1, {70001}},
        {TERP_FLOAT64, false, true, 3, {9, 90, 97}}};
    static const uint64_t periods[] = {0, 58, 256, 257};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (size_t p = 0; p < COUNT(periods); p++) {
            const bool recurs = periods[p] > 0 && periods[p] <= TERP_LAG_MAX;
            uint8_t *values = make_sizes(&shapes[s], periods[p]);
            const uint64_t nbytes = nbytes_under(&params, &shapes[s], values);
            struct terp_stream stream =
                terp_case_encode(&params, &shapes[s], values, 1);
            assert_int_equal(stream.bytes[TERP_FRAME_CODING_AT] ==
                                 TERP_CODING_REFERENCES,
                             recurs);
            /* 41 bits and some for the width, in place of 58 and more */
            assert_int_equal(nbytes < chunk_nvalues(&shapes[s]) * 46 / 8,
                             recurs);
            terp_case_check_threads(&params, &shapes[s], values);
            free(stream.bytes);
            free(values);
        }
}

/* Reads the head of the first inner stream. */
static enum terp_status
read_held(const struct terp_chunk *chunk, enum terp_coding coding,
          const uint8_t *body, uint64_t body_nbytes)
{
    const struct terp_frame frame = {
        .chunk = *chunk, .version = TERP_FORMAT_VERSION, .coding = coding};
    struct terp_held held;
    struct terp_part part;
    uint64_t nbytes;

    terp_held_begin(&frame, &held);
    return terp_held_read(&held, body, body_nbytes, &part, &nbytes);
}

/* Nothing follows the number of references: its error is found before the
 * missing bytes. */
static void
number_of_references_is_checked_first(void **state)
{
    static const struct {
        uint64_t n;
        enum terp_status st;
    } cases[] = {{0, TERP_ERR_CORRUPT},       {1, TERP_ERR_TRUNCATED},
                 {100, TERP_ERR_TRUNCATED},   {101, TERP_ERR_CORRUPT},
                 {1 << 30, TERP_ERR_CORRUPT}, {INT64_MAX, TERP_ERR_CORRUPT}};
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 1, {100}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t body[16];
        struct writer writer = {body, body + sizeof body, false};
        write_le(&writer, 0x7F812345, 4);
        write_uleb(&writer, cases[i].n);
        assert_int_equal(read_held(&chunk, TERP_CODING_REFERENCES, body,
                                   (uint64_t)(writer.at - body)),
                         cases[i].st);
    }
}

/* Bytes beyond the end would be read as dimensions. */
static void
copies_of_no_bytes_are_cut_short(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {10, 20}};
    const uint8_t body[64] = {1, TERP_CODING_CONSTANT};

    (void)state;
    assert_int_equal(read_held(&chunk, TERP_CODING_COPIES, body, 0),
                     TERP_ERR_TRUNCATED);
    assert_int_equal(read_held(&chunk, TERP_CODING_COPIES, body, 1),
                     TERP_ERR_TRUNCATED);
    assert_int_equal(read_held(&chunk, TERP_CODING_COPIES, body, 7), TERP_OK);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_repeats_refers),
        cmocka_unit_test(what_repeats_refers_by_each_value),
        cmocka_unit_test(mirrored_pairs_refer),
        cmocka_unit_test(what_does_not_change_is_left_out),
        cmocka_unit_test(what_does_not_change_is_left_out_without_a_loss),
        cmocka_unit_test(copies_of_any_bits_come_back),
        cmocka_unit_test(what_changes_once_is_not_left_out),
        cmocka_unit_test(what_is_one_value_wide_may_be_copies),
        cmocka_unit_test(other_chunks_are_coded_plainly),
        cmocka_unit_test(few_far_values_take_no_more_than_without_a_loss),
        cmocka_unit_test(few_near_values_are_coded_under_the_bound),
        cmocka_unit_test(tight_bounds_take_no_more_than_without_a_loss),
        cmocka_unit_test(referring_values_take_the_better_predictor),
        cmocka_unit_test(sizes_that_recur_refer),
        cmocka_unit_test(number_of_references_is_checked_first),
        cmocka_unit_test(copies_of_no_bytes_are_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

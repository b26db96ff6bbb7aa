/* The arithmetic of codec/model, in which every engine and every build must
 * agree. Through the codec, a slightly wrong estimate would change few streams.
 * Here each function runs over its possible arguments, and a digest checks that
 * its results have not changed. Promises of functions are checked
 * separately. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TERP_VALUE_NBYTES 4
#include "codec/format/tokens.h"
#include "codec/model/carrier.h"
#include "codec/model/contexts.h"
#include "codec/model/domain.h"
#include "codec/model/lossless.h"
#include "codec/model/low_bits.h"
#include "codec/model/plan.h"
#include "codec/model/pointwise.h"
#include "codec/model/quantizer.h"
#include "codec/model/repeats.h"
#include "codec/model/slab.h"
#include "codec/model/spline.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- digests ---- */

static uint64_t digest;

static void
add(uint64_t word)
{
    digest = terp_field_digest(digest, word);
}

static void
add_int(int64_t number)
{
    add((uint64_t)number);
}

/* No added number is NaN, because machines make NaN with different bits. */
static void
add_double(double value)
{
    assert_true(value == value);
    add(double_bits(value));
}

static const double bounds[] = {
    0,    0x1p-1074, 1e-300, 1e-30, 3e-9,  0x1p-23,  1e-6, 1e-3,
    0.01, 0.25,      0.3,    0.5,   0.999, 1,        1.5,  7,
    1e5,  0x1p40,    1e18,   1e30,  1e300, 0x1.8p-24};

static const struct {
    double min, max;
} ranges[] = {{0, 0},
              {-1, 1},
              {0, 1},
              {1, 1},
              {-0x1p-126, 0x1p-126},
              {3, 3.0000002384185791},
              {-5, -2},
              {-1e30, 2e30},
              {100, 1e5},
              {-250, 3.5},
              {1e-40, 2e-40},
              {-3e38, 3.25e38}};

/* Integers of a number of bits: around powers of two, and others. */
static uint64_t
integer(unsigned i, int nbits)
{
    const uint64_t word =
        i < 192 ? (UINT64_C(1) << i / 3) + i % 3 - 1 : terp_field_mix(i);

    return nbits == 64 ? word : word & ((UINT64_C(1) << nbits) - 1);
}

static void
range(void)
{
    for (size_t r = 0; r < COUNT(ranges); r++)
        for (int nbytes = 4; nbytes <= 8; nbytes += 4) {
            const double min = ranges[r].min, max = ranges[r].max;
            double value;
            add_int(terp_exponent_of_range(min, max));
            add_double(terp_middle_of(min, max, nbytes));
            add_double(terp_reference_of(2.5, false, min, max, nbytes));
            add_double(terp_reference_of(2.5, true, min, max, nbytes));
            for (int i = 0; i <= 16; i++) {
                value = min + (max - min) / 16 * i;
                add(terp_is_near_min(value, min, max));
                add(terp_is_near_max(value, min, max));
            }
            for (size_t b = 0; b < COUNT(bounds); b++) {
                add_double(terp_bound_of_range(bounds[b], min, max));
                add_double(terp_absolute_bound(TERP_BOUND_ABSOLUTE, bounds[b],
                                               min, max));
                add_double(terp_absolute_bound(TERP_BOUND_RELATIVE, bounds[b],
                                               min, max));
                if (bounds[b] > 1e-200)
                    add_double(terp_nsteps_of(min, max, bounds[b]));
                add_int(terp_step_slack_of(bounds[b], min, max, nbytes));
                for (int i = 0; i < 4; i++) {
                    add(terp_find_constant(min, max, i & 1, bounds[b],
                                           (i & 2) != 0, nbytes, &value));
                    add_double(value);
                }
            }
        }
}

static void
fills(void)
{
    static const uint64_t fill[] = {
        0, 1, 0x80000000, UINT64_C(1) << 63, 0x17F800000, UINT64_MAX};

    for (int has = 0; has < 4; has++)
        for (size_t i = 0; i < COUNT(fill); i++)
            for (int nbytes = 4; nbytes <= 8; nbytes += 4) {
                const struct terp_params params = {
                    .has_fill = has & 1,
                    .fill_bits = fill[i],
                    .has_missing = (has & 2) != 0,
                    .missing_bits = fill[COUNT(fill) - 1 - i]};
                add(terp_fill_of(&params, nbytes));
                add(terp_missing_of(&params, nbytes));
            }
}

static void
add_exact(struct terp_exact exact)
{
    add(exact.significand);
    add(exact.nzeros);
    add_int(exact.exponent);
}

static void
exact(void)
{
    for (size_t r = 0; r < COUNT(ranges); r++)
        for (size_t b = 0; b < COUNT(bounds); b++)
            for (int nbytes = 4; nbytes <= 8; nbytes += 4)
                for (int exponent = -160; exponent < 60; exponent += 5)
                    for (int nzeros = 0; nzeros < 24; nzeros += 6) {
                        const struct terp_exact found = terp_exact_of(
                            bounds[b], ranges[r].min, ranges[r].max, nbytes,
                            exponent, nzeros);
                        add_exact(found);
                        add_double(terp_coding_step(bounds[b], found));
                    }
    for (int nbytes = 4; nbytes <= 8; nbytes += 4)
        for (int exponent = -1100; exponent < 1100; exponent++)
            for (uint8_t nzeros = 20; nzeros < 56; nzeros++) {
                const struct terp_exact asked = {nzeros & 1, nzeros,
                                                 (int16_t)exponent};
                add(terp_exact_is_valid(asked, nbytes));
            }
}

static void
lossless(void)
{
    struct terp_lossless_step step[TERP_LOSSLESS_MAX_NSTEPS];
    uint16_t counts[TERP_NWIDTHS];

    for (size_t r = 0; r < COUNT(ranges); r++)
        for (int nbytes = 4; nbytes <= 8; nbytes += 4)
            for (int exponent = -1074; exponent < 100; exponent += 7) {
                const int n = terp_lossless_steps(
                    ranges[r].min, ranges[r].max, nbytes, exponent,
                    exponent % 3 == 0 ? 0 : 5, step);
                add_int(n);
                for (int i = 0; i < n; i++) {
                    add_exact(step[i].exact);
                    add(step[i].form);
                }
            }
    for (int width = 0; width < TERP_NWIDTHS; width++)
        for (int shift = 0; shift < 50; shift++) {
            add(terp_cost_above_shift(width, shift, 4));
            add(terp_cost_above_shift(width, shift, 8));
            const struct terp_shift_range of =
                terp_shift_range_of(width, width + 5, shift);
            add_int(of.first);
            add_int(of.last);
        }
    for (unsigned i = 0; i < 256; i++)
        for (int shift = 0; shift < 56; shift += 5) {
            const int64_t d = (int64_t)integer(i, 62) - ((int64_t)1 << 61);
            const int64_t code = terp_code_above_shift(d, shift);
            const uint64_t number = terp_number_below_shift(d, shift);
            add_int(code);
            add(number);
            assert_int_equal(terp_join_shift(code, number, shift), d);
            add_int(terp_width_of_difference(d));
        }
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t cost;
        for (uint64_t w = 0; w < TERP_NWIDTHS; w++) {
            const uint64_t random = terp_field_mix(i * TERP_NWIDTHS + w);
            counts[w] = w % 8 >= i % 8 && w / 8 <= i / 8 % 9
                            ? (uint16_t)(random % 99 * (random >> 60))
                            : 0;
        }
        const int shift =
            terp_shift_of_group(counts, (int)(i % 49), i % 2 ? 8 : 4, &cost);
        add_int(shift);
        add(cost);
        add(terp_cost_of_group(counts, shift, cost));
        add(terp_value_is_common(i, i / 9, 60 * i + i % 300));
        add(terp_common_value_run_at(1 + i * i, i % 512));
    }
}

static void
low_bits(void)
{
    for (int wide = 0; wide <= TERP_WIDE_MAX; wide++) {
        for (unsigned symbol = 0; symbol <= UINT16_MAX; symbol += 3)
            if (symbol <= 2u * (unsigned)terp_max_code_of(wide)) {
                add(terp_row_of_wide(symbol, wide));
                add(terp_context_weight(symbol, wide));
            }
        add_int(terp_sampled_max_code(wide));
    }
    for (int sum = 0; sum < 300; sum++)
        add(terp_context_of((int16_t)sum));
    for (int width = -1; width <= TERP_MAX_WIDTH; width++)
        for (int run = width; run <= TERP_MAX_WIDTH; run += 7)
            for (int below = 0; below <= TERP_BELOW_MAX_NBITS; below++) {
                add(terp_cost_in_all_tiles(width, run, run + 1, below, 4));
                add(terp_cost_in_own_tiles(width, run, run + 1, below, 8));
                add(terp_cost_of_width(width, run, run + 2, below, 8));
                add_int(terp_number_width(run, below));
            }
    for (int below = 0; below <= TERP_BELOW_MAX_NBITS; below++) {
        add_int(terp_low_of(below));
        add_int(terp_nbits_not_weighed(below));
        add(terp_listed_nbits(below));
        add(terp_cost_with_low_bits(12345, 678, below));
    }
    for (uint64_t i = 0; i < 512; i++) {
        add(terp_low_bits_sample_at(1 + i * i * i, TERP_LOW_BITS_NRUNS, i));
        add(terp_common_bits_sample_at(1 + i * i * i, 8 * i));
        add(terp_has_fewer_bits((uint32_t)i, (uint32_t)(i % 5), 100,
                                (uint32_t)(i % 3)));
    }
    for (size_t b = 0; b < COUNT(bounds); b++) {
        add(terp_bound_may_have_low_bits(TERP_BOUND_RELATIVE, bounds[b]));
        add(terp_bound_may_have_low_bits(TERP_BOUND_ABSOLUTE, bounds[b]));
    }
    for (int n = 1020; n < 1030; n++) {
        add(terp_may_be_wide(n));
        add(terp_bound_may_have_low_bits(TERP_BOUND_RELATIVE, 1.0 / n));
    }
    for (int nbytes = 4; nbytes <= 8; nbytes += 4)
        for (int asked = 0; asked < 3; asked++)
            add_int(terp_below_max_nbits(nbytes, (enum terp_predictor)asked));
    for (int size = 0; size < TERP_TILE_NSIZES; size++)
        for (int low = 0; low < 16; low++) {
            add_int(terp_width_of_size(size));
            add_int(terp_half_octave_of_size(size, low));
            for (unsigned i = 0; i < 6; i++) {
                const uint32_t sizes =
                    (UINT32_C(1) << size) |
                    ((uint32_t)terp_field_mix(i) & ((UINT32_C(1) << size) - 1));
                add_int(terp_width_of_sizes(sizes));
                add(terp_low_group_nbits(sizes, 60 + i, low));
            }
        }
}

static void
bits_below(void)
{
    int8_t widths[TERP_LOW_BITS_NVALUES];
    static struct terp_code_widths sampled;

    for (int i = 0; i < 400; i++) {
        const int most = i % 2 ? TERP_BELOW_MAX_NBITS : TERP_LOW_MAX_NBITS;
        for (int f = 0; f < TERP_LOW_BITS_NINTERPOLANTS; f++)
            for (int v = 0; v < TERP_LOW_BITS_NVALUES; v++) {
                const uint64_t random = terp_field_mix(
                    (uint64_t)i * 4096 + (uint64_t)f * 512 + (uint64_t)v);
                const int width = i / 8 + (int)(random % 64) % (i % 8 + 3) - 2;
                widths[v] = (int8_t)(width < -1               ? -1
                                     : width > TERP_MAX_WIDTH ? TERP_MAX_WIDTH
                                                              : width);
                sampled.at[f][v] = (int8_t)(random >> 61 == 0 ? -1 : widths[v]);
            }
        add_int(terp_nbits_below(widths, TERP_LOW_BITS_NVALUES, most,
                                 i % 4 < 2 ? 4 : 8));
        add_int(terp_nbits_below_of_interpolants(&sampled, most, 4));
    }
}

static void
add_pointwise(const struct terp_pointwise *how)
{
    add(how->form);
    add(how->signs);
    add_int(how->center);
    add_double(how->offset);
    add_double(how->bound);
    add_int(how->nzeros);
    add_double(how->joint);
    add_double(how->shift);
}

static void
pointwise(void)
{
    for (size_t b = 0; b < COUNT(bounds) && bounds[b] < 1; b++)
        for (int nbytes = 4; nbytes <= 8; nbytes += 4)
            for (int low = 1; low < 255; low += 9)
                for (int high = low; high < 255; high += 25) {
                    const int up = nbytes == 4 ? 23 : 52;
                    const struct terp_magnitudes of = {
                        (uint64_t)low << up, ((uint64_t)high << up) + 12345,
                        high % 2 == 0, high % 3 == 0};
                    struct terp_pointwise how;
                    double next_floor = nbytes == 4 ? 0x1p-150 : 0x1p-1060;
                    if (bounds[b] < 1e-100)
                        continue;
                    how = terp_pointwise_of(bounds[b], of, nbytes);
                    add_pointwise(&how);
                    for (int i = 0; i < 5; i++) {
                        const double floor = next_floor;
                        next_floor *= 0x1.4p61;
                        const double max =
                            double_of_bits((uint64_t)(high + 800) << 52);
                        const enum terp_floor_use use =
                            terp_pointwise_use_of_floor(bounds[b], floor, max,
                                                        nbytes);
                        add(use);
                        if (use != TERP_FLOOR_IS_JOINED || bounds[b] < 1e-9)
                            continue;
                        how = terp_pointwise_floored_of(bounds[b], floor, of,
                                                        nbytes);
                        add_pointwise(&how);
                    }
                }
    for (uint64_t i = 0; i < 9000; i += 7)
        add(terp_pointwise_part_nvalues(i));
}

static void
repeats(void)
{
    for (size_t b = 0; b < COUNT(bounds); b++)
        for (size_t r = 0; r < COUNT(ranges); r++) {
            const double min = ranges[r].min, max = ranges[r].max;
            add_int(terp_repeats_near_nbits(bounds[b], min, max, 4));
            add_int(terp_repeats_near_nbits(bounds[b], min, max, 8));
            if (bounds[b] < 1e-200)
                continue;
            for (int i = -1; i < 2; i++) {
                add(terp_may_repeat((uint64_t)(TERP_REPEATS_MIN_NVALUES + i),
                                    min, max, bounds[b]));
                add(terp_may_repeat((uint64_t)(TERP_REPEATS_MAX_NVALUES + i),
                                    min, max, bounds[b]));
            }
            for (int effort = 0; effort < 3; effort++)
                add(terp_may_be_lossless((enum terp_effort)effort, min, max,
                                         bounds[b], 23));
        }
    for (int n = 250; n < 260; n++)
        add(terp_may_repeat(1 << 20, 0, n, 1));
    for (uint64_t i = 0; i < 1024; i++) {
        const uint64_t key = terp_field_mix(i);
        const uint64_t entry = terp_repeats_entry(key, i);
        add(terp_repeats_sample_at(65536 + 999 * i, i));
        add(terp_repeats_span_at(i));
        add(terp_repeats_slot(key));
        add(entry);
        assert_false(terp_repeats_match(entry, key, i));
        assert_true(terp_repeats_match(entry, key, i + 1));
        assert_false(terp_repeats_match(entry, ~key, i + 1));
        assert_false(terp_repeats_match(0, key, i));
    }
}

static void
integers(void)
{
    for (int type = TERP_INT8; type <= TERP_UINT64; type++)
        for (unsigned i = 0; i < 4096; i++) {
            const uint64_t top = terp_integer_range((enum terp_type)type);
            const uint64_t a = integer(i % 200, 64) & top;
            const uint64_t b = integer(i * 7 % 233, 64) & top;
            const struct terp_integers found = {
                min_u64(a, b), a > b ? a : b,
                i % 5 == 0 ? 0 : 1 + integer(i % 11, 64) % 9, i % 16 != 0};
            const struct terp_integer_carrier carrier = terp_integer_carrier_of(
                (enum terp_type)type, integer(i % 64, 64), &found);
            struct terp_integer_limits limits;
            add(carrier.head.form);
            add(carrier.head.offset);
            add(carrier.head.scale);
            add_double(carrier.bound);
            add(carrier.is_coded);
            add(terp_integer_limits_of((enum terp_type)type, &carrier.head,
                                       &limits));
            add_int(limits.low);
            add_int(limits.high);
        }
    for (unsigned i = 0; i < 256; i++) {
        const uint64_t n = integer(i, 62), m = integer(255 - i, 62);
        const float f = (float)(n % 2000) / 4 - 250;
        add(terp_common_divisor(n, m));
        add(terp_integer_distance(n, 1 << i % 4, m));
        add_int(terp_integer_number(n, m, 1 + i % 3));
        add_int(terp_integer_of_f32(f, -100, 200));
        add_int(terp_integer_of_f64((double)f, -100, 200));
        add_int(terp_integer_of_bits(terp_bits_of_integer(-(int64_t)n),
                                     -(int64_t)m, (int64_t)m));
        add_int(terp_integer_of_bits(terp_bits_of_integer((int64_t)n),
                                     -(int64_t)m, (int64_t)m));
    }
    for (size_t b = 0; b < COUNT(bounds); b++) {
        const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                           .bound = bounds[b]};
        add(terp_integer_bound(&params));
    }
}

static void
halves(void)
{
    for (int half = 0; half < 2; half++) {
        const enum terp_type type = half ? TERP_FLOAT16 : TERP_BFLOAT16;
        for (unsigned bits = 0; bits <= UINT16_MAX; bits++) {
            const uint16_t word = (uint16_t)bits;
            add(terp_half_in_order(word));
            add(terp_half_is_finite(type, word));
            add(terp_carried_half(type, word, false));
            add(terp_carried_half(type, word, true));
            if (terp_half_is_finite(type, word))
                assert_int_equal(terp_half_of_f32_bits(
                                     type, terp_f32_bits_of_half(type, word)),
                                 word);
        }
        for (uint64_t i = 0; i < 65536; i++)
            add(terp_half_of_f32_bits(type, (uint32_t)terp_field_mix(i)));
        for (size_t b = 0; b < COUNT(bounds); b++) {
            struct terp_params params = {.bound = bounds[b],
                                         .floor = 1,
                                         .has_fill = b % 2,
                                         .fill_bits = 0x7BFF + b,
                                         .has_missing = b % 3 == 0,
                                         .missing_bits = b};
            for (int mode = 0; mode <= TERP_BOUND_POINTWISE; mode++) {
                params.bound_mode = (enum terp_bound_mode)mode;
                const struct terp_params coded =
                    terp_params_of_halves(type, &params);
                add(terp_half_is_exact(type, &params));
                add(coded.bound_mode);
                add_double(coded.bound);
                add_double(coded.floor);
                add(coded.has_fill);
                add(coded.fill_bits);
                add(coded.has_missing);
                add(coded.missing_bits);
            }
            for (size_t r = 0; r < COUNT(ranges); r++)
                add_double(terp_half_bound_of_range(
                    type, bounds[b], ranges[r].min, ranges[r].max));
            add_double(terp_part_bound_of(bounds[b]));
        }
    }
    for (size_t r = 1; r < COUNT(ranges); r++) {
        const double min[TERP_NPARTS] = {ranges[r].min, ranges[r - 1].min};
        const double max[TERP_NPARTS] = {ranges[r].max, ranges[r - 1].max};
        add_double(terp_bound_of_parts(1e-3, min, max));
    }
}

static void
splines(void)
{
    for (int stencil = 0; stencil <= TERP_STENCIL_MEAN; stencil++) {
        add_int(terp_stencil_order((enum terp_stencil)stencil));
        add(terp_mean_stencil((enum terp_stencil)stencil));
        for (int n = -3; n <= 4; n++)
            add(terp_stencil_has(stencil, n));
    }
    for (int spline = 0; spline < TERP_NSPLINES; spline++) {
        add(terp_spline_is_far(spline));
        for (int order = 1; order < 4; order++)
            add(terp_blends_long((enum terp_spline)spline, order));
        for (uint64_t neven = 1; neven < 12; neven++)
            for (uint64_t i = 0; i < neven; i++)
                add(terp_stencil_at((enum terp_spline)spline, i, neven));
    }
    for (unsigned priorities = 0; priorities < 256; priorities++) {
        add_int(terp_blend_order(priorities));
        for (unsigned odd = 0; odd < 16; odd++)
            add(terp_predicting_dims(odd, priorities));
    }
    for (uint64_t i = 1; i < 300; i++) {
        add(terp_means_step(i));
        add(terp_means_first_step(i));
    }
}

static void
quantizer(void)
{
    for (unsigned i = 0; i < 4096; i++) {
        const WORD d = (WORD)integer(i % 300, 32);
        for (int nbits = 0; nbits < 20; nbits += 3) {
            add_int(code_above_tail(d, nbits));
            add(weight_of_difference(d, nbits));
        }
        add(mean_of_quants(d, 1 + i % 8));
    }
    for (size_t b = 0; b < COUNT(bounds); b++)
        for (size_t r = 0; r < COUNT(ranges); r++)
            for (int exponent = -149; exponent < 20; exponent += 13) {
                const struct terp_exact of =
                    terp_exact_of(bounds[b], ranges[r].min, ranges[r].max, 4,
                                  exponent, exponent & 7);
                if (of.significand == 0)
                    continue;
                const struct exact_quants k = exact_quants_of(of, bounds[b]);
                for (int i = -20; i <= 20; i++) {
                    const float value =
                        (float)(i < 0 ? ranges[r].min : ranges[r].max) *
                        (float)i / 20;
                    bool fits;
                    if (!(fabsf(value) <= FLT_MAX))
                        continue;
                    const INT quant = nearest_exact_quant(value, k, &fits);
                    add(fits);
                    add_int(quant);
                    add(bits_of(value_of_exact_quant(quant, k)));
                    assert_true(!fits || fabs((double)value -
                                              (double)value_of_exact_quant(
                                                  quant, k)) <= bounds[b]);
                }
            }
}

static const struct {
    const char *name;
    void (*sweep)(void);
    uint64_t digest;
} sweeps[] = {
    {"range", range, UINT64_C(0xb959f06f001181fe)},
    {"fills", fills, UINT64_C(0x77c6f875657e01fc)},
    {"exact", exact, UINT64_C(0xf910b190940405c4)},
    {"lossless", lossless, UINT64_C(0x6362745bc5ae1d0f)},
    {"low_bits", low_bits, UINT64_C(0x8a4a15a6aadd7682)},
    {"bits_below", bits_below, UINT64_C(0xb645f698cb5a85b6)},
    {"pointwise", pointwise, UINT64_C(0xb9265611e8c0d059)},
    {"repeats", repeats, UINT64_C(0x925b8b20f582a43a)},
    {"integers", integers, UINT64_C(0xf7cdc800382b7ae7)},
    {"halves", halves, UINT64_C(0x3f908f80d571f7e0)},
    {"splines", splines, UINT64_C(0xcbdc9f838d636b36)},
    {"quantizer", quantizer, UINT64_C(0xee6228e0786b97d8)},
};

/* A digest changes only when decisions of the engines change. Then streams,
 * h5tests/codec/stream_digest.txt and the CUDA engine must change too. */
static void
arithmetic_answers_as_ever(void **state)
{
    int nothers = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(sweeps); i++) {
        digest = 0;
        sweeps[i].sweep();
        if (digest != sweeps[i].digest) {
            fprintf(stderr, "%s: 0x%016" PRIx64 "\n", sweeps[i].name, digest);
            nothers++;
        }
    }
    assert_int_equal(nothers, 0);
}

/* ---- promises ---- */

/* The largest float32 that is at most the bound, unless that is infinite. */
static void
limit_is_the_largest_up_to_the_bound(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        const uint64_t random = terp_field_mix(i);
        const int exponent = 1023 - 149 + (int)(random >> 32) % 300;
        const double bound =
            i % 3 == 0 ? (double)(float)(1 + i % 1000)
                       : double_of_bits((uint64_t)exponent << 52 |
                                        random >> 12 >> (i % 2 ? 0 : 26) << 3);
        const float limit = limit_of(bound);
        assert_true((double)limit <= bound);
        assert_true(limit == FLT_MAX ||
                    (double)nextafterf(limit, INFINITY) > bound);
    }
    assert_true(limit_of(1e300) == FLT_MAX);
}

static void
huge_ranges_have_a_bound(void **state)
{
    (void)state;
    assert_true(terp_bound_of_range(0.5, -1.5e308, 1.5e308) == 1.5e308);
    assert_true(terp_bound_of_range(0.25, -1, 3) == 1);
}

/* The longest tile of tokens fits the limit. */
static void
plain_bits_of_tokens_are_no_more_than_the_most(void **state)
{
    int of_run = 0, of_magnitude = 0;

    (void)state;
    for (unsigned cls = 0; cls < TERP_NRUN_CLASSES; cls++) {
        const int nbits = terp_class_nbits(cls, TERP_RUN_SINGLES_LOG2);
        of_run = nbits > of_run ? nbits : of_run;
    }
    for (unsigned cls = 0; cls < TERP_CODE_CLASS_ESCAPE; cls++) {
        const int nbits = terp_class_nbits(cls, TERP_CODE_SINGLES_LOG2);
        of_magnitude = nbits > of_magnitude ? nbits : of_magnitude;
    }
    assert_int_equal(of_run, TERP_RUN_MAX_NBITS);
    assert_int_equal(of_magnitude, TERP_MAGNITUDE_MAX_NBITS);
}

/* An encoder may have used any floor that a stream's floor allows. */
static void
floors_of_streams_have_a_joint_within_the_type(void **state)
{
    (void)state;
    for (int nbytes = 4; nbytes <= 8; nbytes += 4)
        for (int exponent = -1040; exponent < 1024; exponent++) {
            const double floor = ldexp(1, exponent);
            const struct terp_pointwise_head head = {
                .form = TERP_POINTWISE_LOG_F64,
                .signs = TERP_SIGNS_POSITIVE,
                .bound = 0.5,
                .floor = floor,
                .shift = 0.25};
            struct terp_pointwise_head other = head;
            const double joint = terp_pointwise_joint(floor, 0.5);
            other.signs = TERP_SIGNS_NEGATIVE;
            assert_false(terp_pointwise_floor_is_valid(&other, nbytes));
            other.signs = TERP_SIGNS_POSITIVE;
            other.form = TERP_POINTWISE_ROUNDED;
            assert_false(terp_pointwise_floor_is_valid(&other, nbytes));
            assert_int_equal(terp_pointwise_floor_is_valid(&head, nbytes),
                             terp_pointwise_joint_is_large(joint, nbytes) &&
                                 terp_pointwise_joint_is_small(joint, nbytes));
        }
}

static void
products_up_to_the_largest_int64_fit(void **state)
{
    uint64_t product;

    (void)state;
    assert_true(mul_fits(1, INT64_MAX, &product));
    assert_int_equal(product, INT64_MAX);
    assert_true(mul_fits(7, INT64_MAX / 7, &product));
    assert_false(mul_fits(7, INT64_MAX / 7 + 1, &product));
    assert_false(mul_fits(2, UINT64_C(1) << 62, &product));
    assert_true(mul_fits(0, INT64_MAX, &product));
    assert_int_equal(product, 0);
}

static void
cpu_alone_stores_bytes_and_reaches_enormous_psnrs(void **state)
{
    struct terp_params params = {.bound_mode = TERP_BOUND_PSNR, .bound = 60};

    (void)state;
    assert_true(terp_is_the_cpus(TERP_BYTES, &params));
    assert_false(terp_is_the_cpus(TERP_FLOAT64, &params));
    params.bound = TERP_MAX_PSNR + 1;
    assert_true(terp_is_the_cpus(TERP_FLOAT64, &params));
    params.bound_mode = TERP_BOUND_ABSOLUTE;
    assert_false(terp_is_the_cpus(TERP_FLOAT64, &params));
}

/* The distance that every engine looks around a sample. Keys, and streams with
 * references, must be the same in all engines. */
static void
samples_have_the_reach_that_they_always_had(void **state)
{
    (void)state;
    assert_int_equal(terp_repeats_reach(TERP_FLOAT16), 3);
    assert_int_equal(terp_repeats_reach(TERP_BFLOAT16), 3);
    assert_int_equal(terp_repeats_reach(TERP_FLOAT32), 1);
    assert_int_equal(terp_repeats_reach(TERP_FLOAT64), 1);
}

/* The rows of a chunk of one dimension divide it into at least two. */
static void
periods_divide_an_extent(void **state)
{
    (void)state;
    assert_true(terp_may_be_period(100, 50));
    assert_true(terp_may_be_period(100, TERP_MIN_PERIOD));
    assert_false(terp_may_be_period(100, 30));
    assert_false(terp_may_be_period(100, 100));
    assert_false(terp_may_be_period(100, 2));
    assert_false(terp_may_be_period(4 * TERP_MAX_PERIOD, 2 * TERP_MAX_PERIOD));
}

/* 16-bit floats under a bound below their precision are also coded lossless. */
static void
what_keeps_all_bits_may_refer_exactly(void **state)
{
    struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};

    (void)state;
    assert_true(terp_may_refer_exactly(&params, TERP_FLOAT32));
    assert_true(terp_may_refer_exactly(&params, TERP_INT16));
    assert_false(terp_may_refer_exactly(&params, TERP_INT8));
    assert_false(terp_may_refer_exactly(&params, TERP_COMPLEX64));
    params.bound = 0.5;
    assert_false(terp_may_refer_exactly(&params, TERP_FLOAT32));
    assert_true(terp_may_refer_exactly(&params, TERP_INT16));
    for (int type = TERP_FLOAT16; type <= TERP_BFLOAT16; type++) {
        const double least = terp_half_least((enum terp_type)type);
        params.bound = least;
        assert_false(terp_may_refer_exactly(&params, (enum terp_type)type));
        params.bound = least / 2;
        assert_true(terp_may_refer_exactly(&params, (enum terp_type)type));
    }
    params.effort = TERP_EFFORT_FAST;
    assert_false(terp_may_refer_exactly(&params, TERP_FLOAT16));
}

/* Whether an encoder may search for a domain or for repeats, by the caller's
 * parameters. */
static void
chunks_are_open_to_more_by_their_parameters(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {100, 100}};
    const struct terp_params plain = {.bound_mode = TERP_BOUND_RELATIVE,
                                      .bound = 1e-3};
    struct terp_params params = plain;
    struct terp_chunk other = chunk;

    (void)state;
    assert_true(terp_is_open_to_more(&params, &chunk, 10000));
    assert_false(
        terp_is_open_to_more(&params, &chunk, TERP_DOMAIN_MIN_NVALUES - 1));
    assert_true(terp_is_open_to_more(&params, &chunk, TERP_DOMAIN_MAX_NVALUES));
    assert_false(
        terp_is_open_to_more(&params, &chunk, TERP_DOMAIN_MAX_NVALUES + 1));
    other.stack = true;
    assert_false(terp_is_open_to_more(&params, &other, 10000));
    params.predictor = TERP_PREDICTOR_SPLINE;
    assert_false(terp_is_open_to_more(&params, &chunk, 10000));
    params = plain;
    params.bound = 0;
    params.bound_mode = TERP_BOUND_ABSOLUTE;
    assert_false(terp_is_open_to_more(&params, &chunk, 10000));
    params = plain;
    params.bound_mode = TERP_BOUND_POINTWISE;
    assert_true(terp_is_open_to_more(&params, &chunk, 10000));
    params.floor = 1e-3;
    assert_false(terp_is_open_to_more(&params, &chunk, 10000));
    for (int type = TERP_FLOAT16; type <= TERP_BFLOAT16; type++) {
        other = chunk;
        other.type = (enum terp_type)type;
        assert_true(terp_is_open_to_more(&plain, &other, 10000));
        params.floor = 0;
        assert_false(terp_is_open_to_more(&params, &other, 10000));
    }
    other.type = TERP_INT16;
    assert_false(terp_is_open_to_more(&plain, &other, 10000));
}

/* Of two plans at nearly the same price the tuner takes the one whose price is
 * known better: that of blending by a long spline, unless the average is along
 * one dimension, or the level is tiny. */
static void
long_blends_win_against_averages_of_nearly_their_price(void **state)
{
    const uint64_t of_average = 4 * TERP_BLEND_LEAD_MIN_COST;
    const uint64_t least = TERP_BLEND_LEAD_MIN_COST;
    const struct {
        uint64_t best;
        int ndims;
        unsigned spline, priorities;
        bool wins; /* at 25/24 of what blending costs by its samples */
    } cases[] = {
        {of_average, 2, TERP_SPLINE_LONG, 0x00, true},
        {of_average, 3, TERP_SPLINE_LONG, 0x14, true},
        {of_average, 2, TERP_SPLINE_LONG, 0x01, false},
        {of_average, 3, TERP_SPLINE_LONG, 0x24, false},
        {of_average, 2, TERP_SPLINE_CUBIC, 0x00, false},
        {least - 1, 2, TERP_SPLINE_LONG, 0x00, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t best = cases[i].best;
        struct terp_blend_costs costs = {.two = best, .ndims = cases[i].ndims};
        struct terp_level_plan plan = {(uint8_t)cases[i].spline,
                                       (uint8_t)cases[i].priorities, 1};
        /* The prices of blending are 1 and 33/32 of `best`, at most. */
        costs.two_long = (best + best / 33) / 25 * 24;
        assert_true((terp_choose_blending(&costs, best, &plan) > best) ==
                    cases[i].wins);
        assert_int_equal(plan.priorities,
                         cases[i].wins ? TERP_BLEND_FULL : cases[i].priorities);
        costs.two_long = (best + best / 31) / 25 * 24;
        plan.priorities = (uint8_t)cases[i].priorities;
        plan.spline = (uint8_t)cases[i].spline;
        assert_true(terp_choose_blending(&costs, best, &plan) == best);
        assert_int_equal(plan.priorities, cases[i].priorities);
    }
}

/* A slab is a contiguous part of a chunk, a 32nd of it or little less. */
static void
slabs_are_slices_from_the_middle(void **state)
{
    static const struct {
        struct terp_chunk chunk;
        struct terp_slab slab;
    } cases[] = {
        {{TERP_FLOAT32, false, false, 1, {1 << 16}},
         {{TERP_FLOAT32, false, false, 1, {2048}}, 31744}},
        {{TERP_INT16, true, false, 3, {64, 64, 64}},
         {{TERP_INT16, true, false, 3, {2, 64, 64}}, 31 * 64 * 64}},
        {{TERP_FLOAT64, false, false, 4, {8, 26, 48, 96}},
         {{TERP_FLOAT64, false, false, 3, {6, 48, 96}},
          (4 * 26 + 10) * 48 * 96}},
        {{TERP_FLOAT32, false, true, 4, {64, 16, 16, 16}},
         {{TERP_FLOAT32, false, true, 4, {2, 16, 16, 16}}, 31 * 4096}},
        {{TERP_FLOAT32, false, true, 3, {4, 128, 128}},
         {{TERP_FLOAT32, false, false, 2, {16, 128}},
          2 * 128 * 128 + 56 * 128}},
        {{TERP_FLOAT32, false, false, 3, {1 << 16, 3, 1}},
         {{TERP_FLOAT32, false, false, 3, {2048, 3, 1}}, 3 * 31744}},
        {{TERP_FLOAT32, false, false, 3, {1, 1, 1 << 17}},
         {{TERP_FLOAT32, false, false, 1, {4096}}, 63488}},
    };

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct terp_chunk *chunk = &cases[c].chunk;
        const struct terp_slab slab =
            terp_slab_of(chunk, terp_chunk_nvalues(chunk));
        assert_int_equal(slab.at, cases[c].slab.at);
        assert_true(terp_shapes_are_equal(&slab.chunk, &cases[c].slab.chunk));
        assert_int_equal(slab.chunk.type, chunk->type);
        assert_int_equal(slab.chunk.big_endian, chunk->big_endian);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_answers_as_ever),
        cmocka_unit_test(limit_is_the_largest_up_to_the_bound),
        cmocka_unit_test(huge_ranges_have_a_bound),
        cmocka_unit_test(plain_bits_of_tokens_are_no_more_than_the_most),
        cmocka_unit_test(floors_of_streams_have_a_joint_within_the_type),
        cmocka_unit_test(samples_have_the_reach_that_they_always_had),
        cmocka_unit_test(what_keeps_all_bits_may_refer_exactly),
        cmocka_unit_test(periods_divide_an_extent),
        cmocka_unit_test(chunks_are_open_to_more_by_their_parameters),
        cmocka_unit_test(products_up_to_the_largest_int64_fit),
        cmocka_unit_test(
            long_blends_win_against_averages_of_nearly_their_price),
        cmocka_unit_test(cpu_alone_stores_bytes_and_reaches_enormous_psnrs),
        cmocka_unit_test(slabs_are_slices_from_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

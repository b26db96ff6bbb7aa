/* terp compare --metrics: the power spectra of a dataset, its copy and the
 * errors. The transform is
 * implemented here because FFTW's licence (GPL) or pocketfft's language (C++)
 * would bind the whole tool: doc/design/12-tools.md. */
#include <math.h>
#include <stdlib.h>

#include "tools/compare/metrics_sums.h"

struct number {
    double re, im;
};

static const double TURN = 6.283185307179586477;

static struct number
times(struct number a, struct number b)
{
    return (struct number){a.re * b.re - a.im * b.im,
                           a.re * b.im + a.im * b.re};
}

static struct number
on_circle(double turns)
{
    return (struct number){cos(TURN * turns), sin(TURN * turns)};
}

/* A transform of one length: radix 2 for a power of two, else a convolution by
 * such transforms (L. I. Bluestein, "A linear filtering approach to the
 * computation of discrete Fourier transform", IEEE Trans. Audio Electroacoust.
 * 18, 1970, doi:10.1109/TAU.1970.1162132). */
struct transform {
    uint64_t n, m;        /* m: a power of two, n itself or at least 2 n - 1 */
    struct number *roots; /* exp(-2 pi i k / m), k < m / 2 */
    struct number *chirp; /* exp(-pi i k^2 / n); NULL where n is m */
    struct number *filter, *work;
};

static void
swap_bits(struct number *values, uint64_t n)
{
    for (uint64_t i = 1, j = 0; i < n; i++) {
        uint64_t bit = n >> 1;
        for (; (j & bit) != 0; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            struct number value = values[i];
            values[i] = values[j];
            values[j] = value;
        }
    }
}

static void
transform_power(const struct transform *t, struct number *values)
{
    swap_bits(values, t->m);
    for (uint64_t half = 1; half < t->m; half *= 2)
        for (uint64_t first = 0; first < t->m; first += 2 * half)
            for (uint64_t k = 0; k < half; k++) {
                struct number *low = &values[first + k], *high = low + half;
                struct number odd =
                    times(*high, t->roots[k * (t->m / 2 / half)]);
                *high = (struct number){low->re - odd.re, low->im - odd.im};
                *low = (struct number){low->re + odd.re, low->im + odd.im};
            }
}

static void
transform_line(const struct transform *t, struct number *values)
{
    if (t->chirp == NULL) {
        transform_power(t, values);
        return;
    }
    for (uint64_t i = 0; i < t->m; i++)
        t->work[i] =
            i < t->n ? times(values[i], t->chirp[i]) : (struct number){0, 0};
    transform_power(t, t->work);
    /* The conjugate turns the second transform into the inverse one. */
    for (uint64_t i = 0; i < t->m; i++) {
        t->work[i] = times(t->work[i], t->filter[i]);
        t->work[i].im = -t->work[i].im;
    }
    transform_power(t, t->work);
    for (uint64_t i = 0; i < t->n; i++) {
        const struct number back = {t->work[i].re / (double)t->m,
                                    -t->work[i].im / (double)t->m};
        values[i] = times(back, t->chirp[i]);
    }
}

static void
make_filter(const struct transform *t)
{
    for (uint64_t i = 0; i < t->n; i++) {
        /* i^2 modulo 2 n keeps the angle exact. */
        const double turns = (double)(i * i % (2 * t->n)) / (2 * (double)t->n);
        t->chirp[i] = on_circle(-turns);
        t->filter[i] = t->filter[(t->m - i) % t->m] = on_circle(turns);
    }
    transform_power(t, t->filter);
}

static bool
transform_open(struct transform *t, uint64_t n)
{
    *t = (struct transform){.n = n, .m = 1};
    while (t->m < n)
        t->m *= 2;
    const bool is_power = t->m == n;
    while (!is_power && t->m < 2 * n - 1)
        t->m *= 2;
    t->roots = malloc((t->m / 2 + 1) * sizeof *t->roots);
    if (t->roots == NULL)
        return false;
    for (uint64_t k = 0; k < t->m / 2; k++)
        t->roots[k] = on_circle(-(double)k / (double)t->m);
    if (is_power)
        return true;
    t->chirp = malloc(n * sizeof *t->chirp);
    t->filter = calloc(t->m, sizeof *t->filter);
    t->work = malloc(t->m * sizeof *t->work);
    if (t->chirp == NULL || t->filter == NULL || t->work == NULL)
        return false;
    make_filter(t);
    return true;
}

static void
transform_free(struct transform *t)
{
    free(t->roots);
    free(t->chirp);
    free(t->filter);
    free(t->work);
}

struct metrics_fourier {
    uint64_t shape[METRICS_NDIMS], nvalues, nblocks;
    struct transform transforms[METRICS_NDIMS];
    struct number *values, *line;
    int nwaves, divisor;
    double *power; /* METRICS_NSPECTRA times nwaves bins */
    /* A's values without this mean, and errors, are divided by these powers of
     * two: both then have similar size. 0 where all are 0. */
    double mean_a, unit_a, unit_error;
};

/* Bins are 1 / divisor cycles per step wide: a wave number of the longest
 * dimension, if that has at most METRICS_NWAVES values. */
static void
plan_bins(struct metrics_fourier *fourier)
{
    uint64_t longest = 1;
    double squares = 0; /* of the highest frequencies */

    for (int i = 0; i < METRICS_NDIMS; i++) {
        const uint64_t n = fourier->shape[i];
        const double highest = (double)(n / 2) / (double)n;
        longest = n > longest ? n : longest;
        squares += highest * highest;
    }
    fourier->divisor =
        longest < METRICS_NWAVES ? (int)longest : (int)METRICS_NWAVES;
    fourier->nwaves = (int)rint(sqrt(squares) * fourier->divisor) + 1;
}

static bool
prepare(struct metrics_fourier *fourier, const uint64_t shape[METRICS_NDIMS])
{
    uint64_t longest = 1;
    bool ok = true;

    fourier->nvalues = 1;
    for (int i = 0; i < METRICS_NDIMS; i++) {
        fourier->shape[i] = shape[i];
        fourier->nvalues *= shape[i];
        longest = shape[i] > longest ? shape[i] : longest;
        ok &= transform_open(&fourier->transforms[i], shape[i]);
    }
    plan_bins(fourier);
    fourier->values = malloc(fourier->nvalues * sizeof *fourier->values);
    fourier->line = malloc(longest * sizeof *fourier->line);
    fourier->power = calloc((size_t)fourier->nwaves * METRICS_NSPECTRA,
                            sizeof *fourier->power);
    return ok && fourier->values != NULL && fourier->line != NULL &&
           fourier->power != NULL;
}

struct metrics_fourier *
metrics_fourier_open(const uint64_t shape[METRICS_NDIMS])
{
    struct metrics_fourier *fourier = calloc(1, sizeof *fourier);

    if (fourier != NULL && !prepare(fourier, shape)) {
        metrics_fourier_free(fourier);
        return NULL;
    }
    return fourier;
}

void
metrics_fourier_free(struct metrics_fourier *fourier)
{
    if (fourier == NULL)
        return;
    for (int i = 0; i < METRICS_NDIMS; i++)
        transform_free(&fourier->transforms[i]);
    free(fourier->values);
    free(fourier->line);
    free(fourier->power);
    free(fourier);
}

/* Transforms all lines along dimension `dim`. */
static void
transform_dim(struct metrics_fourier *fourier, int dim)
{
    const uint64_t n = fourier->shape[dim];
    uint64_t stride = 1;

    for (int i = dim + 1; i < METRICS_NDIMS; i++)
        stride *= fourier->shape[i];
    for (uint64_t i = 0; n > 1 && i < fourier->nvalues / n; i++) {
        struct number *first =
            fourier->values + i / stride * stride * n + i % stride;
        for (uint64_t k = 0; k < n; k++)
            fourier->line[k] = first[k * stride];
        transform_line(&fourier->transforms[dim], fourier->line);
        for (uint64_t k = 0; k < n; k++)
            first[k * stride] = fourier->line[k];
    }
}

/* In cycles per step. The upper half of the indices are negative frequencies.
 */
static double
frequency(uint64_t k, uint64_t n)
{
    return (double)(k <= n / 2 ? k : n - k) / (double)n;
}

static double
square(struct number value)
{
    return value.re * value.re + value.im * value.im;
}

/* Adds the power of one wave. `value` and `mirror` are the transform at its
 * frequency and at the negative one. Errors were the imaginary part of real
 * values, so that the symmetric part of the transform belongs to A, and the
 * antisymmetric part to the errors. */
static void
add_wave(struct metrics_fourier *fourier, struct number value,
         struct number mirror, int bin)
{
    const double scale = 0.5 / (double)fourier->nvalues;
    const double of_a = scale * fourier->unit_a;
    const double of_error = scale * fourier->unit_error;
    const struct number a = {(value.re + mirror.re) * of_a,
                             (value.im - mirror.im) * of_a};
    const struct number error = {(value.im + mirror.im) * of_error,
                                 (mirror.re - value.re) * of_error};
    const struct number b = {a.re + error.re, a.im + error.im};
    double *power = fourier->power + bin;

    power[METRICS_OF_ERROR * fourier->nwaves] += square(error);
    power[METRICS_OF_A * fourier->nwaves] += square(a);
    power[METRICS_OF_B * fourier->nwaves] += square(b);
}

static void
add_power(struct metrics_fourier *fourier)
{
    const uint64_t *n = fourier->shape;
    const struct number *value = fourier->values;

    for (uint64_t z = 0; z < n[0]; z++)
        for (uint64_t y = 0; y < n[1]; y++)
            for (uint64_t x = 0; x < n[2]; x++, value++) {
                const double fz = frequency(z, n[0]), fy = frequency(y, n[1]),
                             fx = frequency(x, n[2]);
                const uint64_t mirror =
                    ((n[0] - z) % n[0] * n[1] + (n[1] - y) % n[1]) * n[2] +
                    (n[2] - x) % n[2];
                add_wave(fourier, *value, fourier->values[mirror],
                         (int)rint(sqrt(fz * fz + fy * fy + fx * fx) *
                                   fourier->divisor));
            }
}

/* The power of two near a size; 0 for 0. NAN for sizes beyond all numbers, so
 * that their power is undefined. */
static double
unit_of(double size)
{
    int exponent;

    if (size == 0)
        return 0;
    if (!isfinite(size))
        return NAN;
    (void)frexp(size, &exponent);
    return ldexp(1, exponent < -1000 ? -1000 : exponent - 1);
}

void
metrics_fourier_begin(struct metrics_fourier *fourier, double mean_a,
                      double range_a, double rmse)
{
    fourier->mean_a = mean_a;
    fourier->unit_a = unit_of(range_a);
    fourier->unit_error = unit_of(rmse);
}

void
metrics_fourier_add(struct metrics_fourier *fourier,
                    const struct metrics_block *block)
{
    struct number *to = fourier->values;
    const double of_a = fourier->unit_a > 0 ? 1 / fourier->unit_a : 0;
    const double of_error =
        fourier->unit_error > 0 ? 1 / fourier->unit_error : 0;

    for (int i = 0; i < METRICS_NDIMS; i++)
        if (block->core[i] != fourier->shape[i])
            return;
    for (uint64_t z = 0; z < block->core[0]; z++)
        for (uint64_t y = 0; y < block->core[1]; y++) {
            const uint64_t row = metrics_row(block, z, y);
            for (uint64_t x = row; x < row + block->core[2]; x++)
                *to++ = (struct number){
                    isnan(block->a[x]) ? 0
                                       : (block->a[x] - fourier->mean_a) * of_a,
                    block->errors[x] * of_error};
        }
    for (int i = 0; i < METRICS_NDIMS; i++)
        transform_dim(fourier, i);
    add_power(fourier);
    fourier->nblocks++;
}

bool
metrics_fourier_end(const struct metrics_fourier *fourier,
                    struct compare_metrics *metrics)
{
    const size_t nbins = (size_t)fourier->nwaves * METRICS_NSPECTRA;

    metrics->power = malloc(nbins * sizeof *metrics->power);
    if (metrics->power == NULL)
        return false;
    for (size_t i = 0; i < nbins; i++)
        metrics->power[i] = fourier->power[i] / (double)fourier->nblocks;
    metrics->nwaves = fourier->nwaves;
    metrics->wave_divisor = fourier->divisor;
    return true;
}

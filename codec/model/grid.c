/* Finds the step of sampled values. */
#include "codec/model/grid.h"

#include <string.h>

/* A sample has at least so many different values; ranks serve fewer. */
#define MIN_NDISTINCT 16

/* Different values that are tested before all others. */
#define NFIRST 16

/* Decimal places: steps are 10^-e. 5^54 < 2^126. */
#define MIN_E (-20)
#define MAX_E 54

/* Places that are tried after the first that serves. */
#define NMORE 3

/* The bits that a value in the table costs, and a decimal place, in 1/16. */
#define MISS_COST (16 * 80)
#define PLACE_COST 53

/* ---- steps ---- */

/* 2^n, for normal numbers. */
static double
power_of_two(int n)
{
    return double_of_bits((uint64_t)(n + 1023) << 52);
}

double
terp_grid_inverse(const struct terp_grid *grid)
{
    return power_of_two(-grid->exponent - 63) /
           ((double)grid->mantissa * 0x1p-63);
}

/* A step of 5^n, n >= 0, with a mantissa of 128 bits: exact while it fits. */
struct wide {
    uint64_t high, low;
};

static struct wide
five_to(int n)
{
    struct wide five = {0, 1};

    for (int i = 0; i < n; i++) {
        five.high = five.high * 5 + terp_multiply_high(five.low, 5);
        five.low *= 5;
    }
    return five;
}

/* The upper 64 bits of 1 / d, rounded to nearest, and their exponent: long
 * division. d < 2^126. */
static void
invert(struct wide d, struct terp_grid *grid)
{
    struct wide rest = {0, 1};
    uint64_t mantissa = 0;
    int exponent = 0;

    while (mantissa >> 63 == 0) {
        const bool fits =
            rest.high > d.high || (rest.high == d.high && rest.low >= d.low);
        if (fits) {
            rest.high -= d.high + (rest.low < d.low);
            rest.low -= d.low;
        }
        mantissa = 2 * mantissa + fits;
        exponent--;
        rest.high = rest.high << 1 | rest.low >> 63;
        rest.low <<= 1;
    }
    const bool rounds_up =
        rest.high > d.high || (rest.high == d.high && rest.low >= d.low);
    grid->mantissa = mantissa + (rounds_up && mantissa != UINT64_MAX);
    grid->exponent = exponent + 1;
}

/* Sets the step 10^-e. */
static void
set_decimal(struct terp_grid *grid, int e)
{
    if (e >= 0) {
        invert(five_to(e), grid);
        grid->exponent -= e;
        return;
    }
    const struct wide five = five_to(-e); /* less than 2^64 */
    const int nzeros = 64 - bit_width(five.low);
    grid->mantissa = five.low << nzeros;
    grid->exponent = -nzeros - e;
}

/* Rounds a step to the significant bits of a float: where values were made by a
 * product with a float. */
static void
round_step(struct terp_grid *grid, int nbytes)
{
    const int ndropped = nbytes == 8 ? 11 : 40;
    const uint64_t unit = UINT64_C(1) << ndropped;
    const uint64_t low = grid->mantissa & (unit - 1);
    const uint64_t kept = grid->mantissa - low;

    grid->mantissa = low > unit / 2 && kept + unit > kept ? kept + unit : kept;
}

/* ---- samples ---- */

/* The different bits of a sample. */
struct sample {
    int nbytes, n;
    uint64_t bits[TERP_GRID_NSAMPLES];
};

/* Sorts keys, and keeps each once. The different values are mixed, so that the
 * first of them are a sample too. */
static void
make_sample(enum terp_type type, uint64_t *keys, struct sample *sample)
{
    uint64_t scratch[TERP_GRID_NSAMPLES];
    int n = 0;

    sample->nbytes = terp_value_nbytes(type);
    terp_ranks_sort(TERP_GRID_NSAMPLES, sample->nbytes, keys, scratch, NULL,
                    NULL);
    for (int i = 0; i < TERP_GRID_NSAMPLES; i++)
        if (i == 0 || keys[i] != keys[i - 1])
            scratch[n++] = keys[i];
    for (int i = 0; i < n; i++) {
        const int at = i % NFIRST * (n / NFIRST) + i / NFIRST;
        sample->bits[i] = terp_rank_float_bits(
            sample->nbytes, scratch[i < n / NFIRST * NFIRST ? at : i]);
    }
    sample->n = n;
}

/* How many values are not on the grid; more than `most` are not counted. */
static int
count_misses(const struct sample *sample, const struct terp_grid *grid,
             int most)
{
    const double inverse = terp_grid_inverse(grid);
    int nmisses = 0;

    for (int i = 0; i < sample->n; i++) {
        int64_t k;
        if (terp_grid_integer(grid, inverse, sample->nbytes, sample->bits[i],
                              &k))
            continue;
        nmisses++;
        if (nmisses > most || (i < NFIRST && nmisses > NFIRST / 3))
            return most + 1;
    }
    return nmisses;
}

/* ---- decimals ---- */

/* The middle one of the magnitudes of the first values. */
static double
middle_of(const struct sample *sample)
{
    const uint64_t sign = UINT64_C(1) << (8 * sample->nbytes - 1);
    uint64_t sorted[NFIRST];

    for (int i = 0; i < NFIRST; i++) {
        const uint64_t magnitude = sample->bits[i] & (sign - 1);
        int at = i;
        for (; at > 0 && sorted[at - 1] > magnitude; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = magnitude;
    }
    return terp_rank_float(sample->nbytes, sorted[NFIRST / 2]);
}
_Static_assert(NFIRST <= MIN_NDISTINCT, "A sample has so many values.");

/* The first number of decimal places with which values could be on a grid, and
 * the end. Values are judged by the middle magnitude, because fill values are
 * large. */
static void
limit_places(const struct sample *sample, int *first_ret, int *end_ret)
{
    const double most = sample->nbytes == 8 ? 0x1p50 : 0x1p20;
    const double middle = middle_of(sample);
    double power = 1;

    *first_ret = *end_ret = 0;
    if (!(middle > 1e-40 && middle < 1e40))
        return;
    while (*first_ret > MIN_E && middle * power >= 10) {
        power /= 10;
        --*first_ret;
    }
    while (*first_ret < MAX_E && middle * power < 1) {
        power *= 10;
        ++*first_ret;
    }
    *end_ret = *first_ret;
    while (*end_ret <= MAX_E && middle * power < most) {
        power *= 10;
        ++*end_ret;
    }
}

/* The search for a decimal step: the best one so far, and its cost. */
struct search {
    const struct sample *sample;
    struct terp_grid best;
    int cost;
    bool has_one;
};

static void
try_step(struct search *search, const struct terp_grid *grid, int e)
{
    const int n = search->sample->n, most = n / TERP_GRID_FITS_OF;
    const int nmisses = count_misses(search->sample, grid, most);
    const int cost = nmisses * MISS_COST / n + e * PLACE_COST;

    if (nmisses > most || (search->has_one && cost >= search->cost))
        return;
    search->best = *grid;
    search->cost = cost;
    search->has_one = true;
}

static bool
find_decimal(const struct sample *sample, struct terp_grid *grid_ret)
{
    struct search search = {.sample = sample};
    int first, end;

    limit_places(sample, &first, &end);
    for (int e = first; e < end; e++) {
        const bool had_one = search.has_one;
        struct terp_grid grid = {0};
        set_decimal(&grid, e);
        try_step(&search, &grid, e);
        round_step(&grid, sample->nbytes);
        try_step(&search, &grid, e);
        if (!had_one && search.has_one && end > e + 1 + NMORE)
            end = e + 1 + NMORE;
    }
    *grid_ret = search.best;
    return search.has_one;
}

/* ---- powers of two ---- */

/* Numbers of float64 are on a grid of a power of two if their span is small.
 * Without a grid their lowest bits are predicted anew in each binade. */
#define MAX_SPAN 0x1p20

/* The exponent of the lowest bit of a float64 that is set. */
static int
lowest_bit(uint64_t bits)
{
    const int exponent = (int)(bits >> 52 & 0x7FF);
    uint64_t significand = bits & ((UINT64_C(1) << 52) - 1);
    int n = 0;

    if (significand == 0)
        return exponent - 1023;
    while ((significand & 1) == 0) {
        significand >>= 1;
        n++;
    }
    return exponent - 1023 - 52 + n;
}

static bool
find_power(const struct sample *sample, struct terp_grid *grid_ret)
{
    struct terp_grid grid = {.mantissa = UINT64_C(1) << 63};
    double low = 0, high = 0;
    int least = 1024;

    if (sample->nbytes != 8)
        return false;
    for (int i = 0; i < sample->n; i++) {
        const double x = double_of_bits(sample->bits[i]);
        if (!(x > -1e40 && x < 1e40))
            return false;
        if (x == 0)
            continue;
        const int lowest = lowest_bit(sample->bits[i]);
        least = lowest < least ? lowest : least;
        low = i == 0 || x < low ? x : low;
        high = i == 0 || x > high ? x : high;
    }
    if (least < -200 || least > 200)
        return false;
    grid.exponent = least - 63;
    *grid_ret = grid;
    return (high - low) * power_of_two(-least) < MAX_SPAN &&
           count_misses(sample, &grid, 0) == 0;
}

void
terp_grid_find(enum terp_type type, uint64_t *keys, struct terp_grid *grid_ret)
{
    struct sample sample;

    make_sample(type, keys, &sample);
    if (sample.n < MIN_NDISTINCT ||
        (!find_power(&sample, grid_ret) && !find_decimal(&sample, grid_ret)))
        *grid_ret = (struct terp_grid){0};
}

int64_t
terp_grid_drift(int n, int64_t *differences)
{
    int nrising = 0, nfalling = 0;

    for (int i = 1; i < n; i++) {
        const int64_t difference = differences[i];
        int at = i;
        for (; at > 0 && differences[at - 1] > difference; at--)
            differences[at] = differences[at - 1];
        differences[at] = difference;
    }
    for (int i = 0; i < n; i++) {
        nrising += differences[i] > 0;
        nfalling += differences[i] < 0;
    }
    return n > 0 && (8 * nrising >= 7 * n || 8 * nfalling >= 7 * n)
               ? differences[n / 2]
               : 0;
}

/* Writes frequencies.c to standard output. Run it only to add entries; a test
 * runs it and compares the output with the file.
 *
 * A family has NPURE entries that follow its distribution. Then, for each of
 * zero_shares, come NMIXED entries in which that share of codes is zero and the
 * rest follows the distribution. The scales of each group rise in geometric
 * steps. Mixed entries are for tiles that are mostly smooth and rough in
 * places: a narrow distribution expects as many zeros, but no large codes.
 * Narrow entries share nearly the same codewords, as a zero's codeword takes at
 * least a bit, however likely the zero is. The numbers were chosen by the code
 * lengths and cross entropies of tiles of simulated and measured fields. More
 * mixed entries would shorten the codewords of rough tiles further. But smooth
 * chunks would then use more entries, and a longer list of entries per tile
 * costs more than the shorter codewords save.
 *
 * Row m of an entry is the probability of its distribution over [m - 1/2, m +
 * 1/2], for either sign; the rows share what the escape leaves. Every row gets
 * a frequency of 1, so that every code has a codeword, plus its share of the
 * rest. Shares are rounded: row 0 up to the next integer that leaves an even
 * number for the two signs, the other rows by largest remainder, ties to the
 * lower row. So frequencies never grow with the magnitude. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codebooks/codebooks.h"

enum {
    NPURE = 19,
    NMIXED = 3,
    NBINS = 2 * TERP_MAX_CODE + 1,
    LINE_NBYTES = 80,
};

/* Bounds of an escape's probability. An escape also costs a whole value, so a
 * chunk with many escapes chooses another bound or predictor: above MAX_ESCAPE
 * the tail's probability would be wasted. Below MIN_ESCAPE a single jump in a
 * smooth chunk would decide its entry. */
#define MIN_ESCAPE (1.0 / 65536)
#define MAX_ESCAPE (1.0 / 64)

#define SQRT_2 1.41421356237309504880
#define PI 3.14159265358979323846

static const double zero_shares[] = {0.25, 0.875};

struct scales {
    double narrowest;
    double widest;
};

struct family {
    const char *name;
    struct scales pure;
    struct scales mixed;
    double (*bin)(double scale, int magnitude);
    double (*tail)(double scale, double edge); /* for both signs */
};

/* Computes the difference of two arc tangents as one arc tangent, which keeps
 * its digits. */
static double
cauchy_bin(double scale, int magnitude)
{
    if (magnitude == 0)
        return atan(0.5 / scale) / PI * 2;
    const double inner = magnitude - 0.5;
    const double outer = magnitude + 0.5;
    return atan(scale / (scale * scale + inner * outer)) / PI;
}

static double
cauchy_tail(double scale, double edge)
{
    return atan(scale / edge) / PI * 2;
}

static double
laplace_bin(double scale, int magnitude)
{
    if (magnitude == 0)
        return -expm1(-0.5 / scale);
    return exp(-magnitude / scale) * sinh(0.5 / scale);
}

static double
laplace_tail(double scale, double edge)
{
    return exp(-edge / scale);
}

static double
gaussian_tail(double scale, double edge)
{
    return erfc(edge / (scale * SQRT_2));
}

static double
gaussian_bin(double scale, int magnitude)
{
    if (magnitude == 0)
        return erf(0.5 / (scale * SQRT_2));
    return (gaussian_tail(scale, magnitude - 0.5) -
            gaussian_tail(scale, magnitude + 0.5)) /
           2;
}

static const struct family families[] = {
    {"Cauchy", {0.0005, 64.0}, {1.0, 32.0}, cauchy_bin, cauchy_tail},
    {"Laplace", {0.05, 200.0}, {0.5, 8.0}, laplace_bin, laplace_tail},
    {"Gaussian", {0.12, 256.0}, {0.5, 8.0}, gaussian_bin, gaussian_tail},
};

enum {
    NFAMILIES = sizeof families / sizeof families[0],
    NZERO_SHARES = sizeof zero_shares / sizeof zero_shares[0]
};
_Static_assert(NFAMILIES *(NPURE + NZERO_SHARES * NMIXED) == TERP_NENTRIES,
               "all entries are made");

/* Adds one to each of the `nleft` rows with the largest remainders. */
static void
round_by_remainder(uint32_t frequency[TERP_NROWS],
                   double remainder[TERP_RADIUS], uint32_t nleft)
{
    for (; nleft > 0; nleft--) {
        int best = 1;
        for (int m = 2; m <= TERP_MAX_CODE; m++)
            if (remainder[m] > remainder[best])
                best = m;
        frequency[best]++;
        remainder[best] = -1.0;
    }
}

static void
make_entry(const struct family *family, double zero_share, double scale,
           uint32_t frequency[TERP_NROWS])
{
    const double rest = 1.0 - zero_share;
    double mass[TERP_RADIUS];
    double total = 0.0;
    for (int m = TERP_MAX_CODE; m >= 0; m--) {
        mass[m] = family->bin(scale, m);
        total += m == 0 ? mass[m] : 2 * mass[m];
    }
    for (int m = 0; m <= TERP_MAX_CODE; m++)
        mass[m] *= rest / total;
    mass[0] += zero_share;

    double escape = rest * family->tail(scale, TERP_MAX_CODE + 0.5);
    escape = fmin(fmax(escape, MIN_ESCAPE), MAX_ESCAPE);
    frequency[TERP_ROW_ESCAPE] =
        (uint32_t)floor(escape * TERP_FREQUENCY_TOTAL + 0.5);
    uint32_t nleft = TERP_FREQUENCY_TOTAL - frequency[TERP_ROW_ESCAPE];
    const double shared = nleft - NBINS;

    frequency[0] = 1 + (uint32_t)ceil(shared * mass[0]);
    frequency[0] += (nleft - frequency[0]) % 2;
    nleft = (nleft - frequency[0]) / 2;

    double remainder[TERP_RADIUS];
    for (int m = 1; m <= TERP_MAX_CODE; m++) {
        const double share = shared * mass[m];
        frequency[m] = 1 + (uint32_t)share;
        remainder[m] = share - floor(share);
        nleft -= frequency[m];
    }
    if (nleft > TERP_MAX_CODE) {
        fprintf(stderr, "rows of %s %g do not add up\n", family->name, scale);
        exit(EXIT_FAILURE);
    }
    round_by_remainder(frequency, remainder, nleft);
}

static void
print_entry(const uint32_t frequency[TERP_NROWS])
{
    int column = 0;
    for (int row = 0; row < TERP_NROWS; row++) {
        char text[16];
        const int nchars =
            snprintf(text, sizeof text, "%lu,", (unsigned long)frequency[row]);
        if (column + nchars > LINE_NBYTES) {
            putchar('\n');
            column = 0;
        }
        fputs(text, stdout);
        column += nchars;
    }
}

static void
print_entries(const struct family *family, double zero_share,
              struct scales scales, int nscales, int *entry)
{
    const double ratio = scales.widest / scales.narrowest;
    for (int i = 0; i < nscales; i++) {
        const double scale =
            scales.narrowest * pow(ratio, (double)i / (nscales - 1));
        uint32_t frequency[TERP_NROWS];
        make_entry(family, zero_share, scale, frequency);
        printf("/* %d: %s %.6g", (*entry)++, family->name, scale);
        if (zero_share > 0.0)
            printf(", %g zeros", zero_share);
        puts(" */ {");
        print_entry(frequency);
        puts("\n},");
    }
}

int
main(void)
{
    puts("/* Made by generate_frequencies.c; frozen, never edited. */");
    puts("#include \"codebooks/codebooks.h\"\n");
    puts("/* clang-format off */");
    puts("const uint32_t terp_entry_frequency[TERP_NENTRIES][TERP_NROWS] = {");
    int entry = 0;
    for (int f = 0; f < NFAMILIES; f++) {
        const struct family *family = &families[f];
        print_entries(family, 0.0, family->pure, NPURE, &entry);
        for (int i = 0; i < NZERO_SHARES; i++)
            print_entries(family, zero_shares[i], family->mixed, NMIXED,
                          &entry);
    }
    puts("};");
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Writes tables.c to standard output: the tables that follow from the
 * frequencies by integer arithmetic. Run it after a change of frequencies.c; a
 * test runs it and compares the output with the file. */
#include <stdio.h>
#include <stdlib.h>

#include "codebooks/codebooks.h"
#include "codec/format/huffman.h"

static struct terp_huffman_work work;

enum {
    TOTAL_NBITS = 24,
    LINE_NBYTES = 80,
};

_Static_assert(TERP_FREQUENCY_TOTAL == 1u << TOTAL_NBITS, "log2 of the total");
_Static_assert(TERP_NENTRIES <= TERP_ENTRY_STRIDE, "rows hold all entries");

/* floor(log2(value) * 2^fraction_nbits). Squaring the mantissa doubles its
 * logarithm; the integer part is then the next binary digit. */
static uint32_t
log2_fixed(uint32_t value, unsigned fraction_nbits)
{
    uint32_t log2 = 0;
    while (value >> 1 >> log2 != 0)
        log2++;
    /* 1 <= mantissa < 2, with 31 binary places; its square has 62. */
    uint64_t mantissa = (uint64_t)value << (31 - log2);
    for (unsigned i = 0; i < fraction_nbits; i++) {
        mantissa = mantissa * mantissa >> 31;
        const unsigned digit = mantissa >> 32 != 0;
        mantissa >>= digit;
        log2 = 2 * log2 + digit;
    }
    return log2;
}

/* Computes one more binary place than the cost has, which rounds the cost to
 * nearest. */
static uint32_t
cost(uint32_t frequency)
{
    const uint32_t log2 = log2_fixed(frequency, TERP_COST_FRACTION_NBITS + 1);
    return ((uint32_t)TOTAL_NBITS << TERP_COST_FRACTION_NBITS) - (log2 + 1) / 2;
}

static int
print_number(uint32_t number, int column)
{
    char text[16];
    const int nchars =
        snprintf(text, sizeof text, "%lu,", (unsigned long)number);
    if (column + nchars > LINE_NBYTES) {
        putchar('\n');
        column = 0;
    }
    fputs(text, stdout);
    return column + nchars;
}

static void
print_costs(void)
{
    puts("const uint16_t terp_entry_cost[TERP_NROWS][TERP_ENTRY_STRIDE] = {");
    for (int row = 0; row < TERP_NROWS; row++) {
        puts("{");
        int column = 0;
        for (int entry = 0; entry < TERP_NENTRIES; entry++)
            column =
                print_number(cost(terp_entry_frequency[entry][row]), column);
        puts("\n},");
    }
    puts("};\n");
}

/* The mean cost of a half octave's magnitudes; both ends count half. */
static uint32_t
half_octave_cost(const uint32_t *row, int half)
{
    const int nsteps = half < 3 ? 0 : 1 << ((half - 1) / 2 - 1);
    const int first = half < 3 ? half : (half % 2 == 0 ? 3 : 2) * nsteps;
    uint64_t sum = 0, n = 0;

    if (half == TERP_HALF_OCTAVE_ESCAPE)
        return cost(row[TERP_ROW_ESCAPE]);
    for (int m = first; m <= first + nsteps && m < TERP_ROW_ESCAPE; m++) {
        const unsigned weight = m == first || m == first + nsteps ? 1 : 2;
        sum += weight * cost(row[m]);
        n += weight;
    }
    return (uint32_t)((sum + n / 2) / n);
}

static void
print_half_octave_costs(void)
{
    puts("const uint16_t terp_entry_half_octave_cost[TERP_NHALF_OCTAVES]"
         "[TERP_ENTRY_STRIDE] = {");
    for (int half = 0; half < TERP_NHALF_OCTAVES; half++) {
        puts("{");
        int column = 0;
        for (int entry = 0; entry < TERP_NENTRIES; entry++)
            column = print_number(
                half_octave_cost(terp_entry_frequency[entry], half), column);
        puts("\n},");
    }
    puts("};\n");
}

static void
print_nbits(const char *name, uint8_t nbits[TERP_NENTRIES][TERP_NSYMBOLS],
            int nsymbols)
{
    printf("const uint8_t %s[TERP_ENTRY_STRIDE] = {\n", name);
    for (int symbol = 0; symbol < nsymbols; symbol++) {
        puts("{");
        int column = 0;
        for (int entry = 0; entry < TERP_NENTRIES; entry++)
            column = print_number(nbits[entry][symbol], column);
        puts("\n},");
    }
    puts("};");
}

static void
print_code_nbits(void)
{
    static uint8_t nbits[TERP_NENTRIES][TERP_NSYMBOLS];

    for (int entry = 0; entry < TERP_NENTRIES; entry++) {
        const uint32_t *row = terp_entry_frequency[entry];
        uint64_t frequency[TERP_NSYMBOLS];
        for (int m = 0; m <= TERP_MAX_CODE; m++) {
            frequency[TERP_RADIUS + m] = row[m];
            frequency[TERP_RADIUS - m] = row[m];
        }
        frequency[TERP_ESCAPE] = row[TERP_ROW_ESCAPE];
        terp_huffman_lengths(frequency, &work, nbits[entry]);
    }
    print_nbits("terp_entry_code_nbits[TERP_NSYMBOLS]", nbits, TERP_NSYMBOLS);
    puts("");
}

/* The probabilities, in units of 2^-32, that this many zeros follow each
 * other. */
static void
run_chances(const uint32_t *row, uint64_t chance[TERP_TILE_NSYMBOLS + 1])
{
    const uint64_t zero = (uint64_t)row[0] << (32 - TOTAL_NBITS);

    chance[0] = UINT64_C(1) << 32;
    for (int n = 1; n <= TERP_TILE_NSYMBOLS; n++)
        chance[n] = chance[n - 1] * zero >> 32;
}

/* The frequency of a class of codes, both signs. */
static uint64_t
code_class_frequency(const uint32_t *row, unsigned cls)
{
    uint64_t frequency = 0;

    if (cls == TERP_CODE_CLASS_ESCAPE)
        return row[TERP_ROW_ESCAPE];
    unsigned first = 1 + terp_class_first(cls, TERP_CODE_SINGLES_LOG2);
    unsigned end =
        first + (1u << terp_class_nbits(cls, TERP_CODE_SINGLES_LOG2));
    for (unsigned m = first; m < end && m <= TERP_MAX_CODE; m++)
        frequency += 2 * (uint64_t)row[m];
    return frequency;
}

static void
print_token_nbits(void)
{
    static uint8_t nbits[TERP_NENTRIES][TERP_NSYMBOLS];

    for (int entry = 0; entry < TERP_NENTRIES; entry++) {
        const uint32_t *row = terp_entry_frequency[entry];
        uint64_t chance[TERP_TILE_NSYMBOLS + 1];
        uint64_t frequency[TERP_NSYMBOLS] = {0};
        run_chances(row, chance);
        for (unsigned token = 0; token < TERP_NTOKENS; token++) {
            unsigned run = token / TERP_NCODE_CLASSES;
            unsigned first = terp_class_first(run, TERP_RUN_SINGLES_LOG2);
            unsigned end =
                first + (1u << terp_class_nbits(run, TERP_RUN_SINGLES_LOG2));
            uint64_t product =
                (chance[first] - chance[end]) *
                code_class_frequency(row, token % TERP_NCODE_CLASSES);
            frequency[token] = product > 0 ? product : 1;
        }
        terp_huffman_lengths(frequency, &work, nbits[entry]);
    }
    print_nbits("terp_entry_token_nbits[TERP_NTOKENS]", nbits, TERP_NTOKENS);
}

int
main(void)
{
    puts("/* Made by generate_tables.c from frequencies.c; never edited. */");
    puts("#include \"codebooks/codebooks.h\"\n");
    puts("/* clang-format off */");
    print_costs();
    print_half_octave_costs();
    print_code_nbits();
    print_token_nbits();
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Writes tables.c to standard output: what follows from the frequencies by
 * integer arithmetic alone. Run after a change of frequencies.c; a test
 * reruns it and compares. */
#include <stdio.h>
#include <stdlib.h>

#include "codebooks.h"
#include "huffman.h"

enum {
    TOTAL_NBITS = 24,
    LINE_NBYTES = 80,
};

_Static_assert(TERP_FREQUENCY_TOTAL == 1u << TOTAL_NBITS, "log2 of the total");
_Static_assert(TERP_NENTRIES <= TERP_ENTRY_STRIDE, "rows hold all entries");

/* floor(log2(value) * 2^fraction_nbits). Squaring the mantissa doubles its
 * logarithm, whose next binary digit is then the integer part. */
static uint32_t
log2_fixed(uint32_t value, unsigned fraction_nbits)
{
    uint32_t log2 = 0;
    while (value >> 1 >> log2 != 0)
        log2++;
    /* 1 <= mantissa < 2 with 31 binary places; its square has 62. */
    uint64_t mantissa = (uint64_t)value << (31 - log2);
    for (unsigned i = 0; i < fraction_nbits; i++) {
        mantissa = mantissa * mantissa >> 31;
        const unsigned digit = mantissa >> 32 != 0;
        mantissa >>= digit;
        log2 = 2 * log2 + digit;
    }
    return log2;
}

/* One binary place more than the cost has rounds it to nearest. */
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
        terp_huffman_lengths(frequency, nbits[entry]);
    }
    puts("const uint8_t terp_entry_code_nbits[TERP_NSYMBOLS]"
         "[TERP_ENTRY_STRIDE] = {");
    for (int symbol = 0; symbol < TERP_NSYMBOLS; symbol++) {
        puts("{");
        int column = 0;
        for (int entry = 0; entry < TERP_NENTRIES; entry++)
            column = print_number(nbits[entry][symbol], column);
        puts("\n},");
    }
    puts("};");
}

int
main(void)
{
    puts("/* Made by generate_tables.c from frequencies.c; never edited. */");
    puts("#include \"codebooks.h\"\n");
    puts("/* clang-format off */");
    print_costs();
    print_code_nbits();
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

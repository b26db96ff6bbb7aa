/* The dictionary is frozen and well-formed, and its tables follow from its
 * frequencies. codebooks/CMakeLists.txt tests that the generators still make
 * the committed files. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codebooks/codebooks.h"
#include "codec/format/huffman.h"

/* XXH3-64 of the frequencies as little-endian uint32_t, entry by entry. It
 * never changes, because streams name entries by number. New entries get their
 * own digest. */
#define FIRST_75_DIGEST 0xcd30cf5b33ad4184ULL

/* In each family: first the entries without additional zeros, then two groups
 * with them. */
enum {
    FIRST_75 = 75,
    NFAMILY = FIRST_75 / 3,
    NPURE = 19,
    NMIXED = 3
};
_Static_assert(TERP_NENTRIES >= FIRST_75, "entries are only ever added");

static uint32_t
symbol_frequency(int entry, int symbol)
{
    if (symbol == TERP_ESCAPE)
        return terp_entry_frequency[entry][TERP_ROW_ESCAPE];
    const int code = symbol - TERP_RADIUS;
    return terp_entry_frequency[entry][code < 0 ? -code : code];
}

static void
frequencies_never_change(void **state)
{
    (void)state;
    static unsigned char bytes[FIRST_75 * TERP_NROWS * 4];
    size_t at = 0;
    for (int entry = 0; entry < FIRST_75; entry++)
        for (int row = 0; row < TERP_NROWS; row++)
            for (int shift = 0; shift < 32; shift += 8)
                bytes[at++] =
                    (unsigned char)(terp_entry_frequency[entry][row] >> shift);
    assert_int_equal(at, sizeof bytes);
    assert_true(XXH3_64bits(bytes, sizeof bytes) == FIRST_75_DIGEST);
}

static void
frequencies_sum_to_total(void **state)
{
    (void)state;
    for (int entry = 0; entry < TERP_NENTRIES; entry++) {
        uint64_t sum = 0;
        for (int symbol = 0; symbol < TERP_NSYMBOLS; symbol++) {
            assert_int_not_equal(symbol_frequency(entry, symbol), 0);
            sum += symbol_frequency(entry, symbol);
        }
        assert_int_equal(sum, TERP_FREQUENCY_TOTAL);
    }
}

static void
frequencies_never_grow_with_magnitude(void **state)
{
    (void)state;
    for (int entry = 0; entry < TERP_NENTRIES; entry++)
        for (int m = 1; m <= TERP_MAX_CODE; m++)
            assert_in_range(terp_entry_frequency[entry][m], 1,
                            terp_entry_frequency[entry][m - 1]);
}

static void
wider_entries_expect_fewer_zeros(void **state)
{
    (void)state;
    for (int entry = 1; entry < FIRST_75; entry++) {
        const int at = entry % NFAMILY;
        if (at != 0 && at != NPURE && at != NPURE + NMIXED)
            assert_true(terp_entry_frequency[entry][0] <
                        terp_entry_frequency[entry - 1][0]);
    }
}

/* The mass left by the escape and by the one count for each code. */
static uint32_t
shared_by_codes(int entry)
{
    return TERP_FREQUENCY_TOTAL - terp_entry_frequency[entry][TERP_ROW_ESCAPE] -
           (TERP_NSYMBOLS - 1);
}

/* The first mixed entries of a family give 3/4 of the mass to its distribution,
 * the last ones 1/8, at the same scales. So the last entries expect a sixth of
 * each code but zero, apart from the one count for each code, rounding by less
 * than one, and the share of the escapes (1/64 at most). */
static void
mixed_entries_differ_in_zeros_only(void **state)
{
    (void)state;
    for (int entry = NPURE; entry < FIRST_75; entry++) {
        const int at = entry % NFAMILY;
        if (at < NPURE || at >= NPURE + NMIXED)
            continue;
        const uint32_t *first = terp_entry_frequency[entry];
        const uint32_t *last = terp_entry_frequency[entry + NMIXED];
        assert_true(first[0] > shared_by_codes(entry) / 4);
        assert_true(last[0] > shared_by_codes(entry + NMIXED) / 8 * 7);
        for (int m = 1; m <= TERP_MAX_CODE; m++)
            assert_true(fabs(6.0 * (last[m] - 1.0) - (first[m] - 1.0)) <=
                        7.0 + first[m] / 64.0);
    }
}

static void
costs_are_rounded_logarithms(void **state)
{
    (void)state;
    const double one_bit = 1 << TERP_COST_FRACTION_NBITS;
    for (int entry = 0; entry < TERP_NENTRIES; entry++)
        for (int row = 0; row < TERP_NROWS; row++) {
            const double share =
                (double)terp_entry_frequency[entry][row] / TERP_FREQUENCY_TOTAL;
            const double error =
                terp_entry_cost[row][entry] + log2(share) * one_bit;
            assert_true(fabs(error) <= 0.5 + 1e-6);
        }
}

static void
costs_past_the_entries_are_zero(void **state)
{
    (void)state;
    for (int row = 0; row < TERP_NROWS; row++)
        for (int entry = TERP_NENTRIES; entry < TERP_ENTRY_STRIDE; entry++)
            assert_int_equal(terp_entry_cost[row][entry], 0);
}

static void
codes_are_complete(void **state)
{
    (void)state;
    for (int entry = 0; entry < TERP_NENTRIES; entry++) {
        uint32_t kraft = 0;
        uint8_t lengths[TERP_NSYMBOLS];
        uint16_t words[TERP_NSYMBOLS];
        for (int symbol = 0; symbol < TERP_NSYMBOLS; symbol++) {
            const unsigned nbits = terp_entry_code_nbits[symbol][entry];
            lengths[symbol] = (uint8_t)nbits;
            assert_in_range(nbits, 1, TERP_MAX_CODE_NBITS);
            kraft += 1u << (TERP_MAX_CODE_NBITS - nbits);
        }
        assert_int_equal(kraft, 1u << TERP_MAX_CODE_NBITS);
        assert_true(terp_huffman_codewords(lengths, words));
    }
}

/* No code beats the entropy. Whole bits lose at most one bit a value, and the
 * limit of the lengths costs almost nothing at these frequencies. */
static void
codes_are_within_a_bit_of_entropy(void **state)
{
    (void)state;
    for (int entry = 0; entry < TERP_NENTRIES; entry++) {
        double code = 0.0;
        double entropy = 0.0;
        for (int symbol = 0; symbol < TERP_NSYMBOLS; symbol++) {
            const double share =
                (double)symbol_frequency(entry, symbol) / TERP_FREQUENCY_TOTAL;
            code += share * terp_entry_code_nbits[symbol][entry];
            entropy -= share * log2(share);
        }
        assert_true(code >= entropy);
        assert_true(code <= entropy + 1.0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_never_change),
        cmocka_unit_test(frequencies_sum_to_total),
        cmocka_unit_test(frequencies_never_grow_with_magnitude),
        cmocka_unit_test(wider_entries_expect_fewer_zeros),
        cmocka_unit_test(mixed_entries_differ_in_zeros_only),
        cmocka_unit_test(costs_are_rounded_logarithms),
        cmocka_unit_test(costs_past_the_entries_are_zero),
        cmocka_unit_test(codes_are_complete),
        cmocka_unit_test(codes_are_within_a_bit_of_entropy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Canonical codes have the least cost, keep the length limit, and are
 * prefix-free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codec/format/huffman.h"

#define UNREACHABLE_COST (UINT64_MAX / 2)

static uint64_t random_state;
static struct terp_huffman_work work;

/* xorshift64 (Marsaglia 2003). */
static uint64_t
random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t
total_nbits(const uint64_t *frequency, const uint8_t *nbits)
{
    uint64_t total = 0;
    for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++)
        total += frequency[symbol] * nbits[symbol];
    return total;
}

static uint64_t
take_least(uint64_t *weights, size_t *nweights)
{
    size_t least = 0;
    for (size_t i = 1; i < *nweights; i++)
        if (weights[i] < weights[least])
            least = i;
    const uint64_t weight = weights[least];
    weights[least] = weights[--*nweights];
    return weight;
}

/* Huffman's algorithm without a limit: every merge costs its weight. */
static uint64_t
unlimited_total_nbits(const uint64_t *frequency)
{
    uint64_t weights[TERP_NSYMBOLS];
    size_t nweights = 0;
    for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++)
        if (frequency[symbol] != 0)
            weights[nweights++] = frequency[symbol];
    uint64_t total = 0;
    while (nweights > 1) {
        const uint64_t a = take_least(weights, &nweights);
        const uint64_t b = take_least(weights, &nweights);
        weights[nweights++] = a + b;
        total += a + b;
    }
    return total;
}

/* The least cost of a code with words of at most TERP_MAX_CODE_NBITS for
 * `descending`, over all shapes of the tree, from its root down.
 * `least[placed][open]` is the cost so far with `placed` symbols above this
 * depth and `open` nodes at it. A symbol pays its frequency for each level that
 * it is not yet placed on. */
enum {
    MAX_NSHAPED = 40
};

static uint64_t
limited_total_nbits(const uint64_t *descending, size_t nleaves)
{
    static uint64_t least[MAX_NSHAPED + 1][MAX_NSHAPED + 1];
    static uint64_t next[MAX_NSHAPED + 1][MAX_NSHAPED + 1];
    uint64_t unplaced_sum[MAX_NSHAPED + 1] = {0};
    for (size_t i = nleaves; i-- > 0;)
        unplaced_sum[i] = unplaced_sum[i + 1] + descending[i];

    for (size_t i = 0; i <= nleaves; i++)
        for (size_t j = 0; j <= nleaves; j++)
            least[i][j] = UNREACHABLE_COST;
    least[0][1] = 0;
    uint64_t best = UNREACHABLE_COST;
    for (unsigned depth = 0; depth <= TERP_MAX_CODE_NBITS; depth++) {
        for (size_t i = 0; i <= nleaves; i++)
            for (size_t j = 0; j <= nleaves; j++)
                next[i][j] = UNREACHABLE_COST;
        for (size_t placed = 0; placed <= nleaves; placed++)
            for (size_t open = 0; open <= nleaves; open++) {
                if (least[placed][open] == UNREACHABLE_COST)
                    continue;
                for (size_t here = 0; here <= open; here++) {
                    const size_t now = placed + here;
                    size_t below = 2 * (open - here);
                    if (now > nleaves)
                        break;
                    const uint64_t cost =
                        least[placed][open] + unplaced_sum[now];
                    if (now == nleaves && cost < best)
                        best = cost;
                    if (below > nleaves)
                        below = nleaves;
                    if (cost < next[now][below])
                        next[now][below] = cost;
                }
            }
        memcpy(least, next, sizeof least);
    }
    return best;
}

static void
assert_complete_code(const uint64_t *frequency, const uint8_t *nbits)
{
    uint32_t kraft = 0;
    for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++) {
        assert_true((nbits[symbol] == 0) == (frequency[symbol] == 0));
        if (nbits[symbol] != 0) {
            assert_in_range(nbits[symbol], 1, TERP_MAX_CODE_NBITS);
            kraft += 1u << (TERP_MAX_CODE_NBITS - nbits[symbol]);
        }
    }
    assert_int_equal(kraft, 1u << TERP_MAX_CODE_NBITS);
}

static void
random_histograms_get_codes_of_least_cost(void **state)
{
    (void)state;
    random_state = 46117;
    for (int round = 0; round < 200; round++) {
        uint64_t frequency[TERP_NSYMBOLS] = {0};
        uint8_t nbits[TERP_NSYMBOLS];
        const size_t nleaves = 2 + random_next() % (TERP_NSYMBOLS - 1);
        /* Such close weights never need the limit, and many are equal. */
        for (size_t i = 0; i < nleaves; i++) {
            const size_t symbol = random_next() % TERP_NSYMBOLS;
            frequency[symbol] = 8 + random_next() % 32;
        }
        frequency[0] = frequency[TERP_NSYMBOLS - 1] = 9;
        terp_huffman_lengths(frequency, &work, nbits);
        assert_complete_code(frequency, nbits);
        assert_int_equal(total_nbits(frequency, nbits),
                         unlimited_total_nbits(frequency));
    }
}

static void
steep_histograms_get_limited_codes_of_least_cost(void **state)
{
    (void)state;
    random_state = 1990;
    for (int round = 0; round < 40; round++) {
        uint64_t descending[MAX_NSHAPED] = {0};
        uint64_t frequency[TERP_NSYMBOLS] = {0};
        uint8_t nbits[TERP_NSYMBOLS];
        const size_t nleaves = 18 + random_next() % (MAX_NSHAPED - 17);
        /* Fibonacci numbers, or slightly steeper ones, make a tree of the full
         * depth. */
        for (size_t i = nleaves; i-- > 0;)
            descending[i] = i + 2 < nleaves
                                ? descending[i + 1] + descending[i + 2] +
                                      (round == 0 ? 0 : random_next() % 3)
                                : 1;
        for (size_t i = 0; i < nleaves; i++)
            frequency[(i * 389 + 7) % TERP_NSYMBOLS] = descending[i];
        terp_huffman_lengths(frequency, &work, nbits);
        assert_complete_code(frequency, nbits);
        assert_true(total_nbits(frequency, nbits) >
                    unlimited_total_nbits(frequency));
        assert_int_equal(total_nbits(frequency, nbits),
                         limited_total_nbits(descending, nleaves));
    }
}

static void
largest_frequencies_do_not_overflow(void **state)
{
    (void)state;
    uint64_t frequency[TERP_NSYMBOLS];
    uint8_t nbits[TERP_NSYMBOLS];
    for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++)
        frequency[symbol] = (UINT64_C(1) << 48) - 1;
    terp_huffman_lengths(frequency, &work, nbits);
    for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++)
        assert_int_equal(nbits[symbol], 10);

    for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++)
        frequency[symbol] = 1;
    frequency[700] = (UINT64_C(1) << 58) - TERP_NSYMBOLS;
    terp_huffman_lengths(frequency, &work, nbits);
    assert_complete_code(frequency, nbits);
    assert_int_equal(nbits[700], 1);
}

static void
tied_symbols_get_longer_words_first(void **state)
{
    (void)state;
    uint64_t frequency[TERP_NSYMBOLS] = {0};
    uint8_t nbits[TERP_NSYMBOLS];
    frequency[3] = frequency[500] = frequency[1023] = 5;
    terp_huffman_lengths(frequency, &work, nbits);
    assert_int_equal(nbits[3], 2);
    assert_int_equal(nbits[500], 2);
    assert_int_equal(nbits[1023], 1);
}

/* 1, 1, 2, 2 has two codes of least cost; terp uses the flat one. */
static void
tied_leaf_goes_before_package(void **state)
{
    (void)state;
    uint64_t frequency[TERP_NSYMBOLS] = {1, 1, 2, 2};
    uint8_t nbits[TERP_NSYMBOLS];
    terp_huffman_lengths(frequency, &work, nbits);
    for (size_t symbol = 0; symbol < 4; symbol++)
        assert_int_equal(nbits[symbol], 2);
}

static void
lone_symbol_gets_one_bit(void **state)
{
    (void)state;
    uint64_t frequency[TERP_NSYMBOLS] = {0};
    uint8_t nbits[TERP_NSYMBOLS];
    uint16_t words[TERP_NSYMBOLS];
    frequency[TERP_RADIUS] = 1000;
    terp_huffman_lengths(frequency, &work, nbits);
    for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++)
        assert_int_equal(nbits[symbol], symbol == TERP_RADIUS);
    assert_true(terp_huffman_codewords(nbits, words));
    assert_int_equal(words[TERP_RADIUS], 0);
}

static void
empty_histogram_gets_no_words(void **state)
{
    (void)state;
    const uint64_t frequency[TERP_NSYMBOLS] = {0};
    uint8_t nbits[TERP_NSYMBOLS];
    uint16_t words[TERP_NSYMBOLS];
    memset(nbits, 0xff, sizeof nbits);
    terp_huffman_lengths(frequency, &work, nbits);
    for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++)
        assert_int_equal(nbits[symbol], 0);
    assert_true(terp_huffman_codewords(nbits, words));
}

static void
words_ascend_by_length_then_symbol(void **state)
{
    (void)state;
    uint8_t nbits[TERP_NSYMBOLS] = {0};
    uint16_t words[TERP_NSYMBOLS];
    nbits[5] = 3;
    nbits[9] = 1;
    nbits[10] = 3;
    nbits[2] = 2;
    assert_true(terp_huffman_codewords(nbits, words));
    assert_int_equal(words[9], 0);  /* 0 */
    assert_int_equal(words[2], 2);  /* 10 */
    assert_int_equal(words[5], 6);  /* 110 */
    assert_int_equal(words[10], 7); /* 111 */
}

/* Each word, with all bits that may follow it, covers a range of the 15-bit
 * numbers. In a prefix-free code no two ranges overlap. */
static void
words_are_prefix_free(void **state)
{
    (void)state;
    random_state = 15;
    for (int round = 0; round < 50; round++) {
        static uint8_t taken[1 << TERP_MAX_CODE_NBITS];
        uint64_t frequency[TERP_NSYMBOLS];
        uint8_t nbits[TERP_NSYMBOLS];
        uint16_t words[TERP_NSYMBOLS];
        for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++) {
            const unsigned shift = 17 + (unsigned)(random_next() % 47);
            frequency[symbol] = random_next() >> shift;
        }
        terp_huffman_lengths(frequency, &work, nbits);
        assert_true(terp_huffman_codewords(nbits, words));
        memset(taken, 0, sizeof taken);
        for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++) {
            if (nbits[symbol] == 0)
                continue;
            const unsigned nfree = TERP_MAX_CODE_NBITS - nbits[symbol];
            assert_in_range(words[symbol], 0, (1u << nbits[symbol]) - 1);
            for (unsigned i = 0; i < 1u << nfree; i++)
                assert_int_equal(
                    taken[((unsigned)words[symbol] << nfree) + i]++, 0);
        }
    }
}

static void
overfull_lengths_are_refused(void **state)
{
    (void)state;
    uint8_t nbits[TERP_NSYMBOLS] = {0};
    uint16_t words[TERP_NSYMBOLS];
    nbits[0] = nbits[1] = nbits[2] = 1;
    assert_false(terp_huffman_codewords(nbits, words));

    memset(nbits, 0, sizeof nbits);
    nbits[0] = nbits[1] = 1;
    nbits[2] = TERP_MAX_CODE_NBITS;
    assert_false(terp_huffman_codewords(nbits, words));

    memset(nbits, 9, sizeof nbits);
    assert_false(terp_huffman_codewords(nbits, words));
}

static void
lengths_past_the_limit_are_refused(void **state)
{
    (void)state;
    uint8_t nbits[TERP_NSYMBOLS] = {0};
    uint16_t words[TERP_NSYMBOLS];
    nbits[0] = TERP_MAX_CODE_NBITS;
    assert_true(terp_huffman_codewords(nbits, words));
    nbits[1] = TERP_MAX_CODE_NBITS + 1;
    assert_false(terp_huffman_codewords(nbits, words));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_histograms_get_codes_of_least_cost),
        cmocka_unit_test(steep_histograms_get_limited_codes_of_least_cost),
        cmocka_unit_test(largest_frequencies_do_not_overflow),
        cmocka_unit_test(tied_symbols_get_longer_words_first),
        cmocka_unit_test(tied_leaf_goes_before_package),
        cmocka_unit_test(lone_symbol_gets_one_bit),
        cmocka_unit_test(empty_histogram_gets_no_words),
        cmocka_unit_test(words_ascend_by_length_then_symbol),
        cmocka_unit_test(words_are_prefix_free),
        cmocka_unit_test(overfull_lengths_are_refused),
        cmocka_unit_test(lengths_past_the_limit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

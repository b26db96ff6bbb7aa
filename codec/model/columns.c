/* Weighs the columns of a table by a sample of its rows. */
#include "codec/model/columns.h"

/* Bits that values of a sample's columns take, each a sum over all pairs. */
struct weights {
    int n; /* columns */
    uint64_t npairs;
    /* differences from the value above, and these differences from those of the
     * column before */
    uint64_t above[TERP_COLUMNS_MAX_N], both[TERP_COLUMNS_MAX_N];
    /* zeros below all differences from the value above */
    uint64_t zeros[TERP_COLUMNS_MAX_N];
    /* of ranks, where values repeat; otherwise UINT64_MAX */
    uint64_t few[TERP_COLUMNS_MAX_N];
};

static uint64_t
width_of(uint64_t difference)
{
    return (uint64_t)bit_width(difference >> 63 != 0 ? 0 - difference
                                                     : difference);
}

/* Slots of a table that has each key of a column once: numbers of pairs, plus
 * one; 0: the slot is free. */
#define SLOTS_NBITS 9
#define NSLOTS (1 << SLOTS_NBITS)
_Static_assert(NSLOTS >= 2 * TERP_COLUMNS_MAX_NPAIRS,
               "Half the slots are free.");

/* How many different values the first rows of all pairs have in a column. */
static uint64_t
count_distinct(const uint64_t *keys, int n, int column, uint64_t npairs)
{
    const uint64_t pitch = 2 * (uint64_t)n;
    uint16_t slots[NSLOTS] = {0};
    uint64_t ndistinct = 0;

    keys += column;
    for (uint64_t p = 0; p < npairs; p++) {
        const uint64_t key = keys[p * pitch];
        uint64_t slot =
            key * UINT64_C(0x9E3779B97F4A7C15) >> (64 - SLOTS_NBITS);
        while (slots[slot] != 0 && keys[(slots[slot] - 1u) * pitch] != key)
            slot = (slot + 1) % NSLOTS;
        ndistinct += slots[slot] == 0;
        slots[slot] = (uint16_t)(p + 1);
    }
    return ndistinct;
}

/* The bits of ranks, if at least an eighth of the sample's values repeat others
 * of the sample. */
static uint64_t
weigh_ranks(const uint64_t *keys, int n, int column, uint64_t npairs)
{
    const uint64_t ndistinct = count_distinct(keys, n, column, npairs);

    return 8 * ndistinct > 7 * npairs
               ? UINT64_MAX
               : npairs * (uint64_t)bit_width(ndistinct - 1);
}

static void
weigh(const uint64_t *keys, struct weights *weights)
{
    const uint64_t n = (uint64_t)weights->n;

    for (uint64_t c = 0; c < n; c++) {
        uint64_t bits = 0;
        weights->above[c] = weights->both[c] = 0;
        for (uint64_t p = 0; p < weights->npairs; p++) {
            const uint64_t *row = keys + 2 * n * p, *next = row + n;
            const uint64_t above = next[c] - row[c];
            const uint64_t before = c > 0 ? next[c - 1] - row[c - 1] : 0;
            weights->above[c] += width_of(above);
            weights->both[c] += width_of(above - before);
            bits |= above;
        }
        weights->zeros[c] = bits == 0 ? 0 : (uint64_t)__builtin_ctzll(bits);
        weights->few[c] =
            weigh_ranks(keys, weights->n, (int)c, weights->npairs);
    }
}

/* The bits of a column alone. */
static uint64_t
own_bits(const struct weights *weights, int c)
{
    const uint64_t zeros = weights->npairs * weights->zeros[c];
    const uint64_t differences =
        weights->above[c] > zeros ? weights->above[c] - zeros : 0;

    return min_u64(differences, weights->few[c]);
}

/* The bits of all values if the chunk is coded as a whole. Common zeros of all
 * columns, and ranks if all columns have few values, then save bits as well. */
static uint64_t
whole_bits(const struct weights *weights)
{
    uint64_t above = 0, both = 0, zeros = 64, few = 0;
    bool are_few = true;

    for (int c = 0; c < weights->n; c++) {
        above += weights->above[c];
        both += weights->both[c];
        zeros = min_u64(zeros, weights->zeros[c]);
        are_few &= weights->few[c] != UINT64_MAX;
        few += are_few ? own_bits(weights, c) : 0;
    }
    const uint64_t least = min_u64(above, both);
    const uint64_t all_zeros = zeros * weights->npairs * (uint64_t)weights->n;
    const uint64_t bits = least > all_zeros ? least - all_zeros : 0;
    return are_few ? min_u64(bits, few) : bits;
}

/* Groups are tried if they save MIN_GAIN_QUARTERS / 4 bits per value, or if the
 * bits per value of two columns differ by MIN_SPREAD. */
#define MIN_GAIN_QUARTERS 1
#define MIN_SPREAD 3

/* Whether a column belongs to the group of the column before, which must have
 * no treatment of its own: it saves a bit for each value. */
static bool
joins(const struct weights *weights, int c)
{
    return c > 0 && own_bits(weights, c - 1) == weights->above[c - 1] &&
           weights->both[c] + weights->npairs < own_bits(weights, c);
}

unsigned
terp_columns_groups(const struct terp_chunk *chunk, uint64_t nvalues,
                    const uint64_t *keys, bool *are_cheaper_ret)
{
    const int n = terp_columns_n(chunk);
    struct weights weights = {
        .n = n, .npairs = terp_columns_npairs(nvalues / (uint64_t)n)};
    uint64_t sum = 0, least = UINT64_MAX, most = 0;
    unsigned mask = 1;

    weigh(keys, &weights);
    for (int c = 0; c < n; c++) {
        const uint64_t own = own_bits(&weights, c);
        const bool is_joined = joins(&weights, c);
        const uint64_t bits = is_joined ? weights.both[c] : own;
        mask |= is_joined ? 0 : 1u << c;
        sum += bits;
        least = min_u64(least, bits);
        most = bits > most ? bits : most;
    }
    *are_cheaper_ret = true;
    /* The longest dimension is the fastest then. */
    if (mask == 1)
        return chunk->rank == 2 ? mask : 0;
    const uint64_t whole = whole_bits(&weights);
    const uint64_t gain = whole > sum ? whole - sum : 0;
    *are_cheaper_ret =
        4 * gain >= MIN_GAIN_QUARTERS * weights.npairs * (uint64_t)n;
    return *are_cheaper_ret || most - least >= MIN_SPREAD * weights.npairs
               ? mask
               : 0;
}

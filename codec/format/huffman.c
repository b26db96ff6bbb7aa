/* Length-limited codes by package-merge, and their canonical codewords. */
#include "codec/format/huffman.h"

#include <stddef.h>

enum {
    MAX_NITEMS = TERP_HUFFMAN_MAX_NITEMS,
    DIGIT_NBITS = 8,
    NDIGITS = 1 << DIGIT_NBITS,
};

_Static_assert(TERP_NSYMBOLS <= 1 << TERP_MAX_CODE_NBITS,
               "Each symbol can have a codeword, even if all occur.");
_Static_assert(TERP_MAX_CODE_NBITS <= 16,
               "A uint16_t has a bit for each level.");

/* Sorts by ascending weight. The sort is stable: equal weights stay in order of
 * symbols. A radix sort over the digits in use only, which are few for the
 * counts of a chunk. */
static void
sort_leaves(struct terp_huffman_leaf *leaves, struct terp_huffman_leaf *other,
            size_t nleaves)
{
    uint64_t used = 0;
    for (size_t i = 0; i < nleaves; i++)
        used |= leaves[i].weight;

    struct terp_huffman_leaf *from = leaves;
    struct terp_huffman_leaf *to = other;
    for (unsigned shift = 0; shift < 64 && used >> shift != 0;
         shift += DIGIT_NBITS) {
        size_t at[NDIGITS + 1] = {0};
        for (size_t i = 0; i < nleaves; i++)
            at[(from[i].weight >> shift) % NDIGITS + 1]++;
        for (size_t digit = 1; digit < NDIGITS; digit++)
            at[digit] += at[digit - 1];
        for (size_t i = 0; i < nleaves; i++)
            to[at[(from[i].weight >> shift) % NDIGITS]++] = from[i];
        struct terp_huffman_leaf *swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; from != leaves && i < nleaves; i++)
        leaves[i] = from[i];
}

/* Makes the lists of package-merge, one for each level, the deepest first. A
 * list holds the leaves, merged from the second level on with pairs of the list
 * before. A leaf goes before a package of equal weight. Only the order is kept:
 * bit `level` of is_leaf[i] says that item i of that level's list is a leaf. */
static void
merge_packages(struct terp_huffman_work *work, size_t nleaves)
{
    const struct terp_huffman_leaf *leaves = work->leaves;
    const size_t nwanted = 2 * nleaves - 2;
    uint16_t *is_leaf = work->is_leaf;
    uint64_t *before = work->lists[0];
    uint64_t *list = work->lists[1];
    size_t nbefore = 0;

    for (size_t i = 0; i < nwanted; i++)
        is_leaf[i] = 0;
    for (unsigned level = 0; level < TERP_MAX_CODE_NBITS; level++) {
        const size_t npackages = nbefore / 2;
        size_t nitems = nleaves + npackages;
        if (nitems > nwanted)
            nitems = nwanted;
        size_t leaf = 0;
        size_t package = 0;
        for (size_t i = 0; i < nitems; i++) {
            const uint64_t single =
                leaf < nleaves ? leaves[leaf].weight : UINT64_MAX;
            const uint64_t pair =
                package < npackages
                    ? before[2 * package] + before[2 * package + 1]
                    : UINT64_MAX;
            const bool take_leaf = single <= pair;
            list[i] = take_leaf ? single : pair;
            leaf += take_leaf;
            package += !take_leaf;
            is_leaf[i] |= (uint16_t)((unsigned)take_leaf << level);
        }
        uint64_t *swap = before;
        before = list;
        list = swap;
        nbefore = nitems;
    }
}

void
terp_huffman_lengths(const uint64_t frequency[TERP_NSYMBOLS],
                     struct terp_huffman_work *work,
                     uint8_t nbits_ret[TERP_NSYMBOLS])
{
    struct terp_huffman_leaf *leaves = work->leaves;
    size_t nleaves = 0;

    for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++) {
        nbits_ret[symbol] = 0;
        if (frequency[symbol] != 0) {
            leaves[nleaves].weight = frequency[symbol];
            leaves[nleaves].symbol = (uint16_t)symbol;
            nleaves++;
        }
    }
    if (nleaves == 0)
        return;
    if (nleaves == 1) {
        nbits_ret[leaves[0].symbol] = 1;
        return;
    }
    sort_leaves(leaves, work->other, nleaves);
    merge_packages(work, nleaves);

    /* Walks the lists from the last to the first. A taken leaf adds one bit to
     * its symbol's length; a taken package takes two items of the list
     * before. */
    size_t ntaken = 2 * nleaves - 2;
    for (unsigned level = TERP_MAX_CODE_NBITS; level-- > 0;) {
        size_t nleaves_taken = 0;
        for (size_t i = 0; i < ntaken; i++)
            nleaves_taken += (work->is_leaf[i] >> level) & 1u;
        for (size_t i = 0; i < nleaves_taken; i++)
            nbits_ret[leaves[i].symbol]++;
        ntaken = 2 * (ntaken - nleaves_taken);
    }
}

bool
terp_huffman_codewords(const uint8_t nbits[TERP_NSYMBOLS],
                       uint16_t codewords_ret[TERP_NSYMBOLS])
{
    uint32_t ncodewords[TERP_MAX_CODE_NBITS + 1] = {0};
    uint32_t next[TERP_MAX_CODE_NBITS + 1] = {0};

    for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++) {
        if (nbits[symbol] > TERP_MAX_CODE_NBITS)
            return false;
        ncodewords[nbits[symbol]]++;
    }
    ncodewords[0] = 0;
    for (unsigned length = 1; length <= TERP_MAX_CODE_NBITS; length++) {
        next[length] = (next[length - 1] + ncodewords[length - 1]) << 1;
        if (next[length] + ncodewords[length] > 1u << length)
            return false;
    }
    for (size_t symbol = 0; symbol < TERP_NSYMBOLS; symbol++)
        codewords_ret[symbol] =
            nbits[symbol] == 0 ? 0 : (uint16_t)next[nbits[symbol]]++;
    return true;
}

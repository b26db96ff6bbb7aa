/* The low bits of a tile, and its list of codes. The sizes of the tile's codes
 * decide how many bits are low. */
#include "cpu/sections/low_bits_tile.h"

#include <string.h>

#include "codec/model/low_bits.h"

#define GROUP TERP_LOW_GROUP_NNUMBERS

/* ---- choosing the number of low bits ---- */

/* The sizes of a tile's codes. */
struct sizes {
    uint32_t count[TERP_TILE_NSIZES];
    uint32_t of_group[TERP_LOW_TILE_NGROUPS]; /* per group, a bit per size */
    unsigned ngroups, nsymbols;
};

/* The size of a code, from the bits of a float: its exponent and the highest
 * bit of its mantissa. FLOAT_SIZE_OF_1 is that of the code 1. */
#define FLOAT_SHIFT 22
#define FLOAT_SIZE_OF_1 (127 << 1)

/* Adds a group's sizes. */
static void
add_group(const uint16_t *symbols, unsigned n, struct cpu_histogram *histogram,
          struct sizes *sizes)
{
    uint16_t size[GROUP];
    uint32_t counts[TERP_TILE_NSIZES];

    for (unsigned i = 0; i < n; i++) {
        const int code = (int)symbols[i] - TERP_WIDE_RADIUS;
        const float magnitude = (float)(code < 0 ? -code : code);
        int32_t bits;
        memcpy(&bits, &magnitude, sizeof bits);
        bits = (bits >> FLOAT_SHIFT) - FLOAT_SIZE_OF_1 + 1;
        bits = bits < 0 ? 0 : bits;
        size[i] = (uint16_t)(symbols[i] == TERP_ESCAPE ? TERP_TILE_SIZE_ESCAPE
                                                       : bits);
    }
    terp_cpu_histogram(size, n, TERP_TILE_NSIZES, 0, histogram, counts);
    uint32_t present = 0;
    for (int s = 0; s < TERP_TILE_NSIZES; s++) {
        sizes->count[s] += counts[s];
        present |= (uint32_t)(counts[s] > 0) << s;
    }
    sizes->of_group[sizes->ngroups++] = present;
    sizes->nsymbols += n;
}

/* The cost of low bits, in units of the dictionary's cost table. */
static uint64_t
cost_of_low_bits(const struct sizes *sizes, int low_nbits)
{
    uint32_t costs[TERP_ENTRY_STRIDE] = {0};
    uint32_t least = UINT32_MAX;
    uint64_t nbits = 0, of_tokens = 0;

    for (int size = 0; size < TERP_TILE_NSIZES; size++) {
        const uint32_t n = sizes->count[size];
        const int row = terp_half_octave_of_size(size, low_nbits);
        const uint16_t *of_row = terp_entry_half_octave_cost[row];
        if (n == 0)
            continue;
        if (row == TERP_HALF_OCTAVE_ESCAPE && size < TERP_TILE_SIZE_ESCAPE)
            nbits += n * terp_listed_nbits(terp_width_of_size(size));
        of_tokens += row > 0 ? n * TERP_PRICE_OF_TOKEN : 0;
        for (int e = 0; e < TERP_ENTRY_STRIDE; e++)
            costs[e] += n * of_row[e];
    }
    for (int e = 0; e < TERP_NENTRIES; e++)
        least = costs[e] < least ? costs[e] : least;
    for (unsigned g = 0; g < sizes->ngroups; g++)
        nbits += terp_low_group_nbits(
            sizes->of_group[g],
            (unsigned)terp_low_group_nnumbers(sizes->nsymbols, g), low_nbits);
    return (nbits << TERP_COST_FRACTION_NBITS) + of_tokens + least;
}

static int
choose_low_nbits(const struct sizes *sizes)
{
    uint64_t least = UINT64_MAX;
    uint32_t all = 0;
    int best = 0;

    for (unsigned g = 0; g < sizes->ngroups; g++)
        all |= sizes->of_group[g];
    const int widest = terp_width_of_sizes(all);
    if (widest < TERP_TILE_MIN_WIDTH)
        return 0;
    for (int n = 0; n <= TERP_LOW_MAX_NBITS && (n == 0 || n <= widest); n++) {
        const uint64_t cost = cost_of_low_bits(sizes, n);
        if (cost < least) {
            least = cost;
            best = n;
        }
    }
    return best;
}

/* ---- writing ---- */

static void
list_group(const uint16_t *symbols, unsigned n, int low_nbits,
           struct cpu_low_list *list)
{
    uint16_t split[GROUP];

    for (unsigned i = 0; i < n; i++) {
        unsigned low;
        split[i] = (uint16_t)terp_low_split(symbols[i], low_nbits, &low);
    }
    for (unsigned i = 0; i < n; i++) {
        if (split[i] != TERP_ESCAPE)
            continue;
        const unsigned k = list->nescapes++;
        if (symbols[i] == TERP_ESCAPE)
            continue;
        list->is_listed[k / 8] |= (uint8_t)(1u << (k % 8));
        list->number[list->nlisted++] =
            (uint16_t)zigzag((int)symbols[i] - TERP_WIDE_RADIUS);
    }
}

static void
make_list(const uint16_t *symbols, unsigned nsymbols,
          const struct cpu_low_tile *tile, struct cpu_low_list *list)
{
    list->nescapes = list->nlisted = 0;
    memset(list->is_listed, 0, sizeof list->is_listed);
    for (unsigned g = 0; g < terp_cpu_low_tile_ngroups(nsymbols); g++)
        if (tile->escaping >> g & 1)
            list_group(symbols + (size_t)g * GROUP,
                       (unsigned)terp_low_group_nnumbers(nsymbols, g),
                       tile->low_nbits, list);
}

static int
width_of_list_group(const struct cpu_low_list *list, unsigned group)
{
    const uint16_t *number = list->number + group * TERP_LIST_GROUP_NNUMBERS;
    unsigned all = 0;

    for (unsigned i = 0; i < terp_list_group_nnumbers(list->nlisted, group);
         i++)
        all |= number[i];
    return bit_width(all);
}

static unsigned
list_nbytes(const struct cpu_low_list *list)
{
    const unsigned ngroups = terp_list_ngroups(list->nlisted);
    unsigned nbytes =
        TERP_LIST_HEAD_NBYTES + ngroups +
        (list->nlisted < list->nescapes ? (list->nescapes + 7) / 8 : 0);

    if (list->nlisted == 0)
        return 0;
    for (unsigned g = 0; g < ngroups; g++)
        nbytes += terp_list_group_nbytes(list->nlisted, g,
                                         width_of_list_group(list, g));
    return nbytes;
}

static void
write_list(const struct cpu_low_list *list, uint8_t *to)
{
    const unsigned ngroups = terp_list_ngroups(list->nlisted);
    const bool has_bits = list->nlisted < list->nescapes;
    uint8_t *width = to + TERP_LIST_HEAD_NBYTES, *at = width + ngroups;

    store_le(to, list->nlisted | (has_bits ? TERP_LIST_HAS_BITS : 0u),
             TERP_LIST_HEAD_NBYTES);
    for (unsigned g = 0; g < ngroups; g++) {
        const unsigned first = g * TERP_LIST_GROUP_NNUMBERS;
        width[g] = (uint8_t)width_of_list_group(list, g);
        const unsigned nbytes =
            terp_list_group_nbytes(list->nlisted, g, width[g]);
        memset(at, 0, nbytes);
        for (unsigned i = 0; i < terp_list_group_nnumbers(list->nlisted, g);
             i++)
            pack_bits(at, (uint64_t)i * width[g], width[g],
                      list->number[first + i]);
        at += nbytes;
    }
    if (has_bits)
        memcpy(at, list->is_listed, (list->nescapes + 7) / 8);
}

static unsigned
numbers_nbytes(const struct cpu_low_tile *tile, unsigned nsymbols)
{
    unsigned nbytes = 0;

    for (unsigned g = 0; g < terp_cpu_low_tile_ngroups(nsymbols); g++)
        nbytes += (unsigned)terp_low_group_nbytes(nsymbols, g, tile->width[g]);
    return nbytes;
}

/* The width of a group's low bits. */
static int
width_of_group(const uint16_t *symbols, unsigned n, int low_nbits)
{
    unsigned all = 0;

    for (unsigned i = 0; i < n; i++) {
        unsigned low;
        terp_low_split(symbols[i], low_nbits, &low);
        all |= low;
    }
    return bit_width(all);
}

void
terp_cpu_low_tile_measure(const uint16_t *symbols, unsigned nsymbols,
                          struct cpu_low_scratch *scratch,
                          struct cpu_low_tile *tile_ret)
{
    struct sizes sizes = {.ngroups = 0};

    for (unsigned i = 0; i < nsymbols; i += GROUP)
        add_group(symbols + i, nsymbols - i < GROUP ? nsymbols - i : GROUP,
                  &scratch->histogram, &sizes);
    *tile_ret = (struct cpu_low_tile){.low_nbits = choose_low_nbits(&sizes)};
    const int n = tile_ret->low_nbits;
    for (unsigned g = 0; n > 0 && g < sizes.ngroups; g++)
        tile_ret->width[g] = (uint8_t)width_of_group(
            symbols + (size_t)g * GROUP,
            (unsigned)terp_low_group_nnumbers(nsymbols, g), n);
    tile_ret->numbers_nbytes = n > 0 ? numbers_nbytes(tile_ret, nsymbols) : 0;
    /* Codes of at least this size may round to a code that has no symbol. */
    const int first = 2 * (n + TERP_MAX_CODE_WIDTH) - 1;
    for (unsigned g = 0; g < sizes.ngroups; g++)
        tile_ret->escaping |= (unsigned)(first < TERP_TILE_SIZE_ESCAPE &&
                                         sizes.of_group[g] >> first != 0)
                              << g;
    if (tile_ret->escaping != 0) {
        make_list(symbols, nsymbols, tile_ret, &scratch->list);
        tile_ret->list_nbytes = list_nbytes(&scratch->list);
    }
}

static void
write_record(const struct cpu_low_tile *tile, unsigned nsymbols, uint8_t *to)
{
    const unsigned ngroups = terp_cpu_low_tile_ngroups(nsymbols);

    if (tile->low_nbits > 0) {
        *to++ = (uint8_t)tile->low_nbits;
        memset(to, 0, terp_low_widths_nbytes(ngroups));
        for (unsigned g = 0; g < ngroups; g++)
            pack_bits(to, (uint64_t)g * TERP_LOW_WIDTH_NBITS,
                      TERP_LOW_WIDTH_NBITS, tile->width[g]);
        to += terp_low_widths_nbytes(ngroups);
    }
    if (tile->list_nbytes > 0)
        store_le(to, tile->list_nbytes, TERP_LOW_LIST_LENGTH_NBYTES);
}

/* Splits a group's symbols, and writes their low bits. */
static void
split_group(uint16_t *symbols, unsigned n, int low_nbits, int width,
            uint8_t *to)
{
    uint16_t number[GROUP];
    uint64_t bits = 0;
    int nbits = 0;

    for (unsigned i = 0; i < n; i++) {
        unsigned low;
        symbols[i] = (uint16_t)terp_low_split(symbols[i], low_nbits, &low);
        number[i] = (uint16_t)low;
    }
    for (unsigned i = 0; width > 0 && i < n; i++) {
        bits |= (uint64_t)number[i] << nbits;
        for (nbits += width; nbits >= 32; nbits -= 32, bits >>= 32) {
            store_le(to, bits, 4);
            to += 4;
        }
    }
    store_le(to, bits, (nbits + 7) / 8);
}

void
terp_cpu_low_tile_split(const struct cpu_low_tile *tile, unsigned nsymbols,
                        struct cpu_low_scratch *scratch, uint8_t *records,
                        uint8_t *to, uint16_t *symbols)
{
    struct cpu_low_list *list = &scratch->list;

    write_record(tile, nsymbols, records + tile->record_at);
    to += tile->at;
    if (tile->list_nbytes > 0) {
        make_list(symbols, nsymbols, tile, list);
        write_list(list, to + tile->numbers_nbytes);
    }
    for (unsigned g = 0; g < terp_cpu_low_tile_ngroups(nsymbols); g++) {
        split_group(symbols + (size_t)g * GROUP,
                    (unsigned)terp_low_group_nnumbers(nsymbols, g),
                    tile->low_nbits, tile->width[g], to);
        to += terp_low_group_nbytes(nsymbols, g, tile->width[g]);
    }
}

/* ---- reading ---- */

bool
terp_cpu_low_tile_read(const uint8_t *record, unsigned kind, unsigned nsymbols,
                       struct cpu_low_tile *tile_ret)
{
    const unsigned ngroups = terp_cpu_low_tile_ngroups(nsymbols);
    bool valid = true;

    *tile_ret = (struct cpu_low_tile){.low_nbits = 0};
    if (kind & TERP_LOW_HAS_BITS) {
        tile_ret->low_nbits = *record++;
        valid = tile_ret->low_nbits >= 1 &&
                tile_ret->low_nbits <= TERP_LOW_MAX_NBITS;
        for (unsigned g = 0; g < ngroups; g++) {
            tile_ret->width[g] =
                (uint8_t)unpack_bits(record, (uint64_t)g * TERP_LOW_WIDTH_NBITS,
                                     TERP_LOW_WIDTH_NBITS);
            valid &= tile_ret->width[g] <= tile_ret->low_nbits;
        }
        tile_ret->numbers_nbytes = numbers_nbytes(tile_ret, nsymbols);
        record += terp_low_widths_nbytes(ngroups);
    }
    if (kind & TERP_LOW_HAS_LIST) {
        tile_ret->list_nbytes =
            (unsigned)load_le(record, TERP_LOW_LIST_LENGTH_NBYTES);
        valid &= tile_ret->list_nbytes > 0;
    }
    return valid;
}

/* Joins a group's low bits to its symbols. */
static void
join_group(const uint8_t *from, uint64_t nbytes, int low_nbits, int width,
           unsigned n, uint16_t *symbols)
{
    uint16_t number[GROUP] = {0};
    uint64_t bits = 0;
    int nbits = 0;

    for (unsigned i = 0; width > 0 && i < n; i++) {
        if (nbits < width) {
            const int more = (int)min_u64(4, nbytes);
            bits |= load_le(from, more) << nbits;
            from += more;
            nbytes -= (uint64_t)more;
            nbits += 8 * more;
        }
        number[i] = (uint16_t)(bits & ((1u << width) - 1));
        bits >>= width;
        nbits -= width;
    }
    for (unsigned i = 0; i < n; i++)
        symbols[i] = (uint16_t)terp_low_join(symbols[i], number[i], low_nbits);
}

/* Reads a list of `nbytes`. False if it is not valid. */
static bool
read_list(const uint8_t *from, unsigned nbytes, struct cpu_low_list *list)
{
    struct reader reader = {from, from + nbytes, false};
    const unsigned head = (unsigned)read_le(&reader, TERP_LIST_HEAD_NBYTES);
    const unsigned ngroups = terp_list_ngroups(head & ~TERP_LIST_HAS_BITS);

    list->nlisted = head & ~TERP_LIST_HAS_BITS;
    if (list->nlisted < 1 || list->nlisted > TERP_TILE_NSYMBOLS)
        return false;
    const uint8_t *width = reader_take(&reader, ngroups);
    for (unsigned g = 0; width != NULL && g < ngroups; g++) {
        if (width[g] > TERP_LIST_MAX_WIDTH)
            return false;
        const uint8_t *at = reader_take(
            &reader, terp_list_group_nbytes(list->nlisted, g, width[g]));
        for (unsigned i = 0;
             at != NULL && i < terp_list_group_nnumbers(list->nlisted, g); i++)
            list->number[g * TERP_LIST_GROUP_NNUMBERS + i] =
                (uint16_t)unpack_bits(at, (uint64_t)i * width[g], width[g]);
    }
    /* The remaining bytes are the escapes' bits. */
    const uint64_t left = (uint64_t)(reader.end - reader.at);
    if (reader.underflow || left > sizeof list->is_listed ||
        (left > 0) != ((head & TERP_LIST_HAS_BITS) != 0))
        return false;
    list->nescapes = left > 0 ? 8 * (unsigned)left : list->nlisted;
    memset(list->is_listed, left > 0 ? 0 : 0xFF, sizeof list->is_listed);
    memcpy(list->is_listed, reader.at, left);
    return true;
}

/* Replaces escapes among the first `nwanted` symbols by listed codes. A bit for
 * each escape says whether its code is in the list. Returns false if there are
 * more escapes than bits, or more set bits than codes. *nescapes_ret counts the
 * escapes, *nplaced_ret the replaced ones. */
static bool
place_list(const struct cpu_low_list *list, unsigned nwanted, uint16_t *symbols,
           unsigned *nescapes_ret, unsigned *nplaced_ret)
{
    unsigned k = 0, nplaced = 0;

    for (unsigned i = 0; i < nwanted; i++) {
        if (symbols[i] != TERP_ESCAPE)
            continue;
        if (k == list->nescapes)
            return false;
        if (bit_at(list->is_listed, k++)) {
            if (nplaced == list->nlisted)
                return false;
            symbols[i] = (uint16_t)terp_symbol_of_wide(
                (int)unzigzag(list->number[nplaced++]));
        }
    }
    *nescapes_ret = k;
    *nplaced_ret = nplaced;
    return true;
}

/* Whether the escapes used the whole list: every code, and every byte of bits.
 */
static bool
is_all_placed(const struct cpu_low_list *list, unsigned nescapes,
              unsigned nplaced)
{
    return nplaced == list->nlisted && nescapes + 7 >= list->nescapes;
}

bool
terp_cpu_low_tile_join(const struct cpu_low_tile *tile, unsigned nsymbols,
                       unsigned nwanted, const uint8_t *from,
                       struct cpu_low_scratch *scratch, uint16_t *symbols)
{
    const uint8_t *of_list = from + tile->numbers_nbytes;
    struct cpu_low_list *list = &scratch->list;
    unsigned nescapes, nplaced;

    for (unsigned first = 0; first < nwanted; first += GROUP) {
        const unsigned g = first / GROUP;
        const uint64_t nbytes =
            terp_low_group_nbytes(nsymbols, g, tile->width[g]);
        join_group(from, nbytes, tile->low_nbits, tile->width[g],
                   nwanted - first < GROUP ? nwanted - first : GROUP,
                   symbols + first);
        from += nbytes;
    }
    if (tile->list_nbytes == 0)
        return true;
    return read_list(of_list, tile->list_nbytes, list) &&
           place_list(list, nwanted, symbols, &nescapes, &nplaced) &&
           (nwanted < nsymbols || is_all_placed(list, nescapes, nplaced));
}

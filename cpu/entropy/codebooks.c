/* Chooses tiles' entries of the dictionary by their costs, and writes and reads
 * the choice, or the chunk's own code. */
#include "cpu/entropy/codebooks.h"

#include <stdlib.h>

#include "cpu/entropy/kept.h"

/* Rows whose costs are summed at once. */
#define BLOCK_NROWS 16
_Static_assert(TERP_RADIUS % BLOCK_NROWS == 0, "Rows but the escape's fit.");

uint64_t
terp_cpu_cost_of_counts(const uint32_t counts[TERP_NROWS],
                        struct terp_beyond beyond)
{
    uint32_t cost[TERP_ENTRY_STRIDE], least = UINT32_MAX;
    uint32_t ncodes = counts[TERP_ROW_ESCAPE];
    int nrows = TERP_RADIUS;

    for (uint32_t any = 0; nrows > 0; nrows -= BLOCK_NROWS) {
        for (int i = 1; i <= BLOCK_NROWS; i++)
            any |= counts[nrows - i];
        if (any != 0)
            break;
    }

    for (int e = 0; e < TERP_ENTRY_STRIDE; e++)
        cost[e] = counts[TERP_ROW_ESCAPE] * terp_entry_cost[TERP_ROW_ESCAPE][e];
    for (int row = 0; row < nrows; row++) {
        uint32_t count = counts[row];
        if (count == 0)
            continue;
        ncodes += count;
        for (int e = 0; e < TERP_ENTRY_STRIDE; e++)
            cost[e] += count * terp_entry_cost[row][e];
    }
    for (int e = 0; e < TERP_NENTRIES; e++)
        least = cost[e] < least ? cost[e] : least;
    return terp_cost_of_codes(least, ncodes, counts[TERP_ROW_ESCAPE], beyond);
}

/* ---- a tile's entry ---- */

/* The codeword lengths of all entries, and the number of entries. */
static const uint8_t (*lengths_of(enum terp_coding coding,
                                  int *n_ret))[TERP_ENTRY_STRIDE]
{
    *n_ret = coding == TERP_CODING_RATIO ? TERP_NTOKENS : TERP_NSYMBOLS;
    return coding == TERP_CODING_RATIO ? terp_entry_token_nbits
                                       : terp_entry_code_nbits;
}

uint8_t
terp_cpu_entry_costs(enum terp_coding coding,
                     const uint32_t counts[TERP_NSYMBOLS],
                     uint32_t cost_ret[TERP_NENTRIES])
{
    uint16_t nbits[TERP_ENTRY_STRIDE] = {0};
    int n, best = 0;
    const uint8_t(*lengths)[TERP_ENTRY_STRIDE] = lengths_of(coding, &n);

    _Static_assert(TERP_TILE_NSYMBOLS * TERP_MAX_CODE_NBITS <= UINT16_MAX,
                   "The bits of a tile's codewords fit.");
    for (int s = 0; s < n; s++) {
        const uint16_t count = (uint16_t)counts[s];
        if (count == 0)
            continue;
        for (int e = 0; e < TERP_ENTRY_STRIDE; e++)
            nbits[e] = (uint16_t)(nbits[e] + count * lengths[s][e]);
    }
    for (int e = 0; e < TERP_NENTRIES; e++)
        cost_ret[e] = nbits[e];
    for (int e = 1; e < TERP_NENTRIES; e++)
        if (nbits[e] < nbits[best])
            best = e;
    return (uint8_t)best;
}

/* The best entry for a tile among the first `n` of `entries`; ties go to the
 * lower id. */
static int
select_entry(const uint32_t cost[TERP_NENTRIES], const uint8_t *entries, int n)
{
    int best = entries[0];

    for (int i = 1; i < n; i++) {
        int e = entries[i];
        if (cost[e] < cost[best] || (cost[e] == cost[best] && e < best))
            best = e;
    }
    return best;
}

/* Adds a tile's least cost among the first 1, 2, 4... of `entries`. */
static void
add_least_costs(const uint32_t cost[TERP_NENTRIES],
                const uint8_t entries[TERP_NENTRIES],
                uint64_t nbits[TERP_PALETTE_NWIDTHS])
{
    uint32_t least = UINT32_MAX;
    int n = 0;

    for (int width = 0; width <= TERP_PALETTE_MAX_WIDTH; width++) {
        for (; n < TERP_NENTRIES && n < 1 << width; n++)
            least = cost[entries[n]] < least ? cost[entries[n]] : least;
        nbits[width] += (uint64_t)width + least;
    }
}

/* Counts how many of the first `end` tiles use each entry; returns how many use
 * any. */
static uint64_t
count_entries(const struct cpu_tile_index *index, uint64_t end,
              uint64_t ntiles_ret[TERP_NENTRIES])
{
    uint64_t nnonzero = 0;

    memset(ntiles_ret, 0, TERP_NENTRIES * sizeof *ntiles_ret);
    for (uint64_t i = 0; i < end; i++)
        if (bit_at(index->nonzero, i)) {
            ntiles_ret[index->entry[i]]++;
            nnonzero++;
        }
    return nnonzero;
}

void
terp_cpu_entries_select(struct cpu_tile_index *index,
                        const uint32_t (*costs)[TERP_NENTRIES])
{
    uint64_t ntiles[TERP_NENTRIES], nbits[TERP_PALETTE_NWIDTHS] = {0};
    uint8_t entries[TERP_NENTRIES];
    int best = 0;

    for (int e = 0; e < TERP_NENTRIES; e++)
        entries[e] = (uint8_t)e;
    count_entries(index, index->ntiles, ntiles);
    for (int i = 1; i < TERP_NENTRIES; i++) /* most used first; stable */
        for (int j = i; j > 0 && ntiles[entries[j]] > ntiles[entries[j - 1]];
             j--) {
            uint8_t swap = entries[j];
            entries[j] = entries[j - 1];
            entries[j - 1] = swap;
        }
    for (uint64_t i = 0; i < index->ntiles; i++)
        if (bit_at(index->nonzero, i))
            add_least_costs(costs[i], entries, nbits);
    for (int width = 1; width <= TERP_PALETTE_MAX_WIDTH; width++)
        if (nbits[width] < nbits[best])
            best = width;
    int nkept = (int)min_u64((uint64_t)1 << best, TERP_NENTRIES);
    for (uint64_t i = 0; nkept < TERP_NENTRIES && i < index->ntiles; i++)
        if (bit_at(index->nonzero, i))
            index->entry[i] = (uint8_t)select_entry(costs[i], entries, nkept);
}

void
terp_cpu_entry_lengths(enum terp_coding coding, int entry,
                       uint8_t nbits_ret[TERP_NSYMBOLS])
{
    int n;
    const uint8_t(*lengths)[TERP_ENTRY_STRIDE] = lengths_of(coding, &n);

    memset(nbits_ret, 0, TERP_NSYMBOLS);
    for (int s = 0; s < n; s++)
        nbits_ret[s] = lengths[s][entry];
}

/* ---- codebooks in the stream ---- */

void
terp_cpu_custom_write(struct writer *writer, const uint8_t nbits[TERP_NSYMBOLS])
{
    uint64_t low = TERP_NSYMBOLS - 1, high = 1;

    for (uint64_t s = 1; s < TERP_NSYMBOLS; s++) {
        if (nbits[s] == 0)
            continue;
        low = s < low ? s : low;
        high = s;
    }
    if (low > high)
        low = high;
    write_le(writer, low, 2);
    write_le(writer, high, 2);
    uint8_t *at = writer_take_packed(writer, high - low + 2, 4);
    if (at == NULL)
        return;
    pack_bits(at, 0, 4, nbits[TERP_ESCAPE]);
    for (uint64_t s = low; s <= high; s++)
        pack_bits(at, 4 * (s - low + 1), 4, nbits[s]);
}

bool
terp_cpu_custom_read(struct reader *reader, uint8_t nbits_ret[TERP_NSYMBOLS])
{
    uint64_t low = read_le(reader, 2), high = read_le(reader, 2);

    if (reader->underflow || low < 1 || low > high || high >= TERP_NSYMBOLS)
        return false;
    const uint8_t *at = reader_take(reader, packed_nbytes(high - low + 2, 4));
    if (at == NULL)
        return false;
    memset(nbits_ret, 0, TERP_NSYMBOLS);
    nbits_ret[TERP_ESCAPE] = (uint8_t)unpack_bits(at, 0, 4);
    for (uint64_t s = low; s <= high; s++)
        nbits_ret[s] = (uint8_t)unpack_bits(at, 4 * (s - low + 1), 4);
    return true;
}

void
terp_cpu_entries_write(struct writer *writer,
                       const struct cpu_tile_index *index)
{
    uint64_t ntiles[TERP_NENTRIES], packed = 0;
    const uint64_t nnonzero = count_entries(index, index->ntiles, ntiles);
    uint8_t number[TERP_NENTRIES];
    uint64_t nused = 0;

    if (nnonzero == 0)
        return;
    for (int e = 0; e < TERP_NENTRIES; e++)
        if (ntiles[e] > 0)
            number[e] = (uint8_t)nused++;
    write_le(writer, nused, 1);
    for (uint64_t e = 0; e < TERP_NENTRIES; e++)
        if (ntiles[e] > 0)
            write_le(writer, e, 1);
    int width = bit_width(nused - 1);
    uint8_t *at = writer_take_packed(writer, nnonzero, width);
    if (at == NULL)
        return;
    for (uint64_t i = 0; i < index->ntiles; i++) {
        if (!bit_at(index->nonzero, i))
            continue;
        pack_bits(at, packed, width, number[index->entry[i]]);
        packed += (uint64_t)width;
    }
}

bool
terp_cpu_entries_read(struct reader *reader, struct cpu_tile_index *index,
                      uint64_t nnonzero)
{
    uint64_t nused = read_le(reader, 1), packed = 0;
    const uint8_t *used = reader_take(reader, nused);

    if (used == NULL || nused < 1 || nused > TERP_NENTRIES)
        return false;
    int width = bit_width(nused - 1);
    const uint8_t *at = reader_take(reader, packed_nbytes(nnonzero, width));
    if (at == NULL)
        return false;
    for (uint64_t i = 0; i < index->ntiles; i++) {
        if (!bit_at(index->nonzero, i))
            continue;
        uint64_t number = unpack_bits(at, packed, width);
        packed += (uint64_t)width;
        if (number >= nused || used[number] >= TERP_NENTRIES)
            return false;
        index->entry[i] = used[number];
    }
    return true;
}

bool
terp_cpu_tables_find(struct cpu_kept *kept, const struct cpu_tile_index *index,
                     uint64_t ntiles, const void *tables_ret[TERP_NENTRIES],
                     void **own_ret)
{
    uint64_t ntiles_with[TERP_NENTRIES];
    size_t nused = 0;

    count_entries(index, ntiles, ntiles_with);
    for (int e = 0; e < TERP_NENTRIES; e++)
        nused += ntiles_with[e] > 0;
    uint8_t *own = *own_ret = malloc((nused + 1) * kept->table_nbytes);
    if (own == NULL)
        return false;
    for (int e = 0; e < TERP_NENTRIES; e++)
        if (ntiles_with[e] > 0) {
            tables_ret[e] = terp_cpu_kept_table(kept, e, own);
            own += kept->table_nbytes;
        }
    return true;
}

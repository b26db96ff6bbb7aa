/* Encodes symbols by a codebook, and decodes codewords by table look-ups of
 * several bits at a time. */
#include "cpu/entropy/codewords.h"

void
terp_cpu_encode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                           struct cpu_codebook *codebook)
{
    uint16_t codewords[TERP_NSYMBOLS];

    terp_huffman_codewords(nbits, codewords);
    for (int s = 0; s < TERP_NSYMBOLS; s++)
        codebook->codeword[s] = terp_codeword_pack(codewords[s], nbits[s]);
}

/* Encodes four symbols at once: often all four are zero. */
uint64_t
terp_cpu_codewords_encode(const struct cpu_codebook *codebook,
                          const uint16_t *symbols, uint64_t nsymbols,
                          uint8_t *dst)
{
    const uint64_t zeros = TERP_ZERO_SYMBOL * UINT64_C(0x0001000100010001);
    const uint32_t zero = codebook->codeword[TERP_ZERO_SYMBOL];
    const unsigned zero_nbits = terp_codeword_nbits(zero);
    const uint64_t two = (uint64_t)terp_codeword_bits(zero) << zero_nbits |
                         terp_codeword_bits(zero);
    struct cpu_output output = {.at = dst};
    uint64_t i = 0, four;

    for (; i + 4 <= nsymbols; i += 4) {
        unsigned nbits[4];
        uint64_t bits[4];
        memcpy(&four, symbols + i, sizeof four);
        if (four == zeros) {
            cpu_put_bits(&output, two, 2 * zero_nbits);
            cpu_put_bits(&output, two, 2 * zero_nbits);
            continue;
        }
        for (int k = 0; k < 4; k++) {
            const uint32_t packed =
                codebook->codeword[symbols[i + (uint64_t)k]];
            nbits[k] = terp_codeword_nbits(packed);
            bits[k] = terp_codeword_bits(packed);
        }
        for (int k = 0; k < 4; k += 2)
            cpu_put_bits(&output, bits[k] << nbits[k + 1] | bits[k + 1],
                         nbits[k] + nbits[k + 1]);
    }
    for (; i < nsymbols; i++) {
        const uint32_t packed = codebook->codeword[symbols[i]];
        cpu_put_bits(&output, terp_codeword_bits(packed),
                     terp_codeword_nbits(packed));
    }
    return (uint64_t)(output.at - dst) + (output.npending > 0);
}

/* The low bits of a burst's entry are its symbol; the bits above hold the
 * counts that cpu_decode_table describes. */
enum {
    SYMBOL_NBITS = 10
};
_Static_assert(TERP_NSYMBOLS <= 1 << SYMBOL_NBITS &&
                   CPU_BURST_MAX_NSYMBOLS < 1 << (16 - SYMBOL_NBITS) &&
                   CPU_BURST_NBITS < 1 << (16 - SYMBOL_NBITS),
               "Symbols and numbers fit.");

static void
fill_lookup(struct cpu_decode_table *table, int symbol, int length,
            int codeword)
{
    int spare = CPU_LOOKUP_NBITS - length;

    if (spare < 0)
        return;
    for (int i = 0; i < 1 << spare; i++)
        table->lookup[(codeword << spare) + i] =
            (uint16_t)(symbol << 4 | length);
}

static void
fill_bursts(struct cpu_decode_table *table)
{
    for (unsigned bits = 0; bits < 1 << CPU_BURST_NBITS; bits++) {
        unsigned left = CPU_BURST_NBITS, nsymbols = 0;
        uint16_t *burst = table->burst[bits];
        memset(burst, 0, sizeof table->burst[bits]);
        while (nsymbols < CPU_BURST_MAX_NSYMBOLS) {
            /* The bits after the codewords found so far, then zeros. */
            unsigned next = bits << (CPU_LOOKUP_NBITS - left) &
                            ((1 << CPU_LOOKUP_NBITS) - 1);
            unsigned found = table->lookup[next];
            if (found == 0 || (found & 15) > left)
                break;
            burst[nsymbols++] = (uint16_t)(found >> 4);
            left -= found & 15;
        }
        burst[0] |= (uint16_t)(nsymbols << SYMBOL_NBITS);
        burst[1] |= (uint16_t)((CPU_BURST_NBITS - left) << SYMBOL_NBITS);
    }
}

bool
terp_cpu_sorted_codewords_make(const uint8_t nbits[TERP_NSYMBOLS],
                               uint16_t codewords[TERP_NSYMBOLS],
                               struct cpu_sorted_codewords *sorted_ret)
{
    int32_t first[TERP_MAX_CODE_NBITS + 2] = {0};

    if (!terp_huffman_codewords(nbits, codewords))
        return false;
    memset(sorted_ret->end, 0, sizeof sorted_ret->end);
    memset(sorted_ret->base, 0, sizeof sorted_ret->base);
    for (int s = 0; s < TERP_NSYMBOLS; s++)
        first[nbits[s] + 1]++;
    first[1] = 0; /* none: no codeword is this short */
    for (int length = 1; length <= TERP_MAX_CODE_NBITS; length++)
        first[length + 1] += first[length];
    for (int s = 0; s < TERP_NSYMBOLS; s++) {
        int length = nbits[s];
        if (length == 0)
            continue;
        if (sorted_ret->end[length] == 0)
            sorted_ret->base[length] = first[length] - codewords[s];
        sorted_ret->sorted[sorted_ret->base[length] + codewords[s]] =
            (uint16_t)s;
        sorted_ret->end[length] = (codewords[s] + 1u)
                                  << (TERP_MAX_CODE_NBITS - length);
    }
    return true;
}

bool
terp_cpu_decode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                           struct cpu_decode_table *table)
{
    uint16_t codewords[TERP_NSYMBOLS];

    if (!terp_cpu_sorted_codewords_make(nbits, codewords, &table->codewords))
        return false;
    memset(table->lookup, 0, sizeof table->lookup);
    for (int s = 0; s < TERP_NSYMBOLS; s++)
        if (nbits[s] > 0)
            fill_lookup(table, s, nbits[s], codewords[s]);
    int zero_nbits = nbits[TERP_RADIUS];
    table->has_bursts = zero_nbits > 0 && zero_nbits <= 3;
    if (table->has_bursts)
        fill_bursts(table);
    return true;
}

/* The codewords that fit in a 64-bit load after up to seven bits of it are
 * shifted out. */
enum {
    CODEWORDS_PER_LOAD = (64 - 7) / TERP_MAX_CODE_NBITS
};

/* Decodes the next codewords, from `next`. False if no codeword matches. */
typedef bool
decode_step(struct cpu_tile_reader *reader, uint64_t *next);

static inline bool
decode_symbol(struct cpu_tile_reader *reader, uint64_t *next)
{
    const unsigned found = cpu_find_codeword(reader->tile.table, *next);

    reader->tile.symbols[reader->i++] = (uint16_t)(found >> 4);
    reader->at += found & 15;
    *next <<= found & 15;
    return found != 0;
}

static inline bool
decode_burst(struct cpu_tile_reader *reader, uint64_t *next)
{
    const struct cpu_decode_table *table = reader->tile.table;
    const uint16_t *burst = table->burst[*next >> (64 - CPU_BURST_NBITS)];
    const unsigned n = burst[0] >> SYMBOL_NBITS;
    const unsigned length = burst[1] >> SYMBOL_NBITS;
    uint16_t *symbols = reader->tile.symbols + reader->i;

    if (n == 0)
        return decode_symbol(reader, next);
    for (int k = 0; k < CPU_BURST_MAX_NSYMBOLS; k++)
        symbols[k] = burst[k] & ((1u << SYMBOL_NBITS) - 1);
    reader->i += n;
    reader->at += length;
    *next <<= length;
    return true;
}

static inline bool
has_bursts(const struct cpu_coded_tile *tile)
{
    return ((const struct cpu_decode_table *)tile->table)->has_bursts;
}

/* Whether the symbols of the next steps, at most `max_nsymbols` each, have
 * room, and bits are left. */
static inline bool
has_space(const struct cpu_tile_reader *reader, uint64_t max_nsymbols)
{
    return reader->i + CODEWORDS_PER_LOAD * max_nsymbols <=
               reader->tile.nsymbols &&
           reader->at <= reader->nbits;
}

/* Decodes two tiles in turn, until one is nearly at its end. A codeword's place
 * depends on the codeword before it in the same tile, but not on the other
 * tile's: the processor overlaps both. */
static inline bool
decode_two(struct cpu_tile_reader *one, struct cpu_tile_reader *other,
           decode_step *step, uint64_t max_nsymbols)
{
    struct cpu_tile_reader a = *one, b = *other; /* in registers */
    bool good = true;

    while (good && has_space(&a, max_nsymbols) && has_space(&b, max_nsymbols)) {
        uint64_t next_a = cpu_next_bits(&a), next_b = cpu_next_bits(&b);
        for (int k = 0; k < CODEWORDS_PER_LOAD; k++) {
            good &= step(&a, &next_a);
            good &= step(&b, &next_b);
        }
    }
    *one = a;
    *other = b;
    return good;
}

static inline bool
decode_one(struct cpu_tile_reader *reader, decode_step *step,
           uint64_t max_nsymbols)
{
    struct cpu_tile_reader own = *reader;
    bool good = true;

    while (good && has_space(&own, max_nsymbols)) {
        uint64_t next = cpu_next_bits(&own);
        for (int k = 0; k < CODEWORDS_PER_LOAD; k++)
            good &= step(&own, &next);
    }
    *reader = own;
    return good;
}

static bool
finish_tile(struct cpu_tile_reader *reader)
{
    bool good = (!has_bursts(&reader->tile) ||
                 decode_one(reader, decode_burst, CPU_BURST_MAX_NSYMBOLS)) &&
                decode_one(reader, decode_symbol, 1);

    while (good && reader->i < reader->tile.nsymbols) {
        if (reader->at > reader->nbits)
            return false;
        uint64_t next = cpu_next_bits(reader);
        good = decode_symbol(reader, &next);
    }
    return good && div_up(reader->at, 8) == reader->tile.nbytes;
}

bool
terp_cpu_codewords_decode(const struct cpu_coded_tile *tiles, int ntiles)
{
    struct cpu_tile_reader reader[2];
    bool good = true;

    for (int i = 0; i < ntiles; i++)
        reader[i] = (struct cpu_tile_reader){.tile = tiles[i],
                                             .nbits = 8 * tiles[i].nbytes};
    if (ntiles == 2)
        good = has_bursts(&tiles[0]) && has_bursts(&tiles[1])
                   ? decode_two(&reader[0], &reader[1], decode_burst,
                                CPU_BURST_MAX_NSYMBOLS)
                   : decode_two(&reader[0], &reader[1], decode_symbol, 1);
    for (int i = 0; good && i < ntiles; i++)
        good = finish_tile(&reader[i]);
    return good;
}

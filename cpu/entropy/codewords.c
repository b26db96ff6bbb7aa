/* Encodes symbols by a codebook, and decodes them by look-ups of several bits
 * at a time. */
#include "cpu/entropy/codewords.h"

#include "codec/format/base.h"

void
terp_cpu_encode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                           struct cpu_codebook *codebook)
{
    uint16_t codewords[TERP_NSYMBOLS];

    terp_huffman_codewords(nbits, codewords);
    for (int s = 0; s < TERP_NSYMBOLS; s++)
        codebook->codeword[s] = terp_codeword_pack(codewords[s], nbits[s]);
}

uint64_t
terp_cpu_codewords_encode(const struct cpu_codebook *codebook,
                          const uint16_t *symbols, uint64_t nsymbols,
                          uint8_t *dst)
{
    uint8_t *at = dst;
    uint64_t pending = 0; /* bits not yet stored, at the low end */
    int npending = 0;

    for (uint64_t i = 0; i < nsymbols; i++) {
        const uint32_t packed = codebook->codeword[symbols[i]];
        pending =
            pending << terp_codeword_nbits(packed) | terp_codeword_bits(packed);
        npending += (int)terp_codeword_nbits(packed);
        if (npending >= 32) {
            npending -= 32;
            uint32_t full = (uint32_t)(pending >> npending);
            for (int j = 0; j < 4; j++)
                at[j] = (uint8_t)(full >> (24 - 8 * j));
            at += 4;
        }
    }
    for (; npending > 0; npending -= 8)
        *at++ = (uint8_t)(npending >= 8 ? pending >> (npending - 8)
                                        : pending << (8 - npending));
    return (uint64_t)(at - dst);
}

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
        uint64_t burst = 0;
        while (nsymbols < CPU_BURST_MAX_NSYMBOLS) {
            /* Bits that were not looked at yet, then zeros. */
            unsigned next = bits << (CPU_LOOKUP_NBITS - left) &
                            ((1 << CPU_LOOKUP_NBITS) - 1);
            unsigned found = table->lookup[next];
            if (found == 0 || (found & 15) > left)
                break;
            burst |= (uint64_t)(found >> 4) << (16 * nsymbols);
            left -= found & 15;
            nsymbols++;
        }
        table->burst[bits] = burst | (uint64_t)nsymbols << 10 |
                             (uint64_t)(CPU_BURST_NBITS - left) << 26;
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
    first[1] = 0; /* symbols without a codeword */
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

/* Codewords that surely fit what is left of a load after shifting out a byte.
 */
enum {
    CODEWORDS_PER_LOAD = (64 - 7) / TERP_MAX_CODE_NBITS
};

bool
terp_cpu_codewords_decode(const struct cpu_decode_table *table,
                          const uint8_t *src, uint64_t nbytes,
                          uint16_t *symbols, uint64_t nsymbols)
{
    uint64_t at = 0, nbits = 8 * nbytes, i = 0;

    while (table->has_bursts &&
           i + CODEWORDS_PER_LOAD * CPU_BURST_MAX_NSYMBOLS <= nsymbols) {
        if (at > nbits)
            return false;
        uint64_t next = load_be64(src + at / 8) << (at % 8);
        for (int j = 0; j < CODEWORDS_PER_LOAD; j++) {
            uint64_t burst = table->burst[next >> (64 - CPU_BURST_NBITS)];
            unsigned n = burst >> 10 & 63, length = burst >> 26 & 63;
            if (n == 0) {
                unsigned found = cpu_find_codeword(table, next);
                if (found == 0)
                    return false;
                symbols[i++] = (uint16_t)(found >> 4);
                length = found & 15;
            } else {
                uint64_t four = burst & 0x03FF03FF03FF03FF;
                for (int k = 0; k < CPU_BURST_MAX_NSYMBOLS; k++)
                    symbols[i + (uint64_t)k] = (uint16_t)(four >> (16 * k));
                i += n;
            }
            next <<= length;
            at += length;
        }
    }
    while (i < nsymbols) {
        uint64_t stop = min_u64(nsymbols, i + CODEWORDS_PER_LOAD);
        if (at > nbits)
            return false;
        uint64_t next = load_be64(src + at / 8) << (at % 8);
        for (; i < stop; i++) {
            unsigned found = cpu_find_codeword(table, next);
            if (found == 0)
                return false;
            symbols[i] = (uint16_t)(found >> 4);
            next <<= found & 15;
            at += found & 15;
        }
    }
    return div_up(at, 8) == nbytes;
}

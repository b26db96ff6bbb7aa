/* The stages that drop repeated and zero words, in serial code.
 * gpu/block/reduce.cuh and gpu/block/expand.cuh do the same with blocks of
 * threads. */
#include "codec/format/reduce.h"

/* Applies RRE1 to `src`: writes the bit map, and the kept bytes to `kept`.
 * Returns the number of kept bytes. */
static uint64_t
rre1(const uint8_t *src, uint64_t nbytes, uint8_t *bitmap, uint8_t *kept)
{
    uint64_t nkept = 0;
    uint8_t last = 0;

    for (uint64_t i = 0; i < nbytes; i += 8) {
        unsigned bits = 0;
        uint64_t n = min_u64(8, nbytes - i);
        for (uint64_t j = 0; j < n; j++) {
            uint8_t byte = src[i + j];
            unsigned differs = byte != last;
            bits |= differs << j;
            kept[nkept] = byte;
            nkept += differs;
            last = byte;
        }
        bitmap[i / 8] = (uint8_t)bits;
    }
    return nkept;
}

static void
rre1_expand(struct reader *reader, const uint8_t *bitmap, uint8_t *dst,
            uint64_t nbytes)
{
    uint8_t last = 0;

    for (uint64_t i = 0; i < nbytes; i += 8) {
        unsigned bits = bitmap[i / 8];
        uint64_t n = min_u64(8, nbytes - i);
        if (n < 8)
            bits &= (1u << n) - 1;
        if (bits == 0) {
            memset(dst + i, last, n);
            continue;
        }
        const uint8_t *kept =
            reader_take(reader, (uint64_t)__builtin_popcount(bits));
        if (kept == NULL)
            return;
        for (uint64_t j = 0; j < n; j++) {
            if (bits >> j & 1)
                last = *kept++;
            dst[i + j] = last;
        }
    }
}

void
terp_bitmap_write(struct writer *writer, const uint8_t *bitmap, uint64_t nbytes,
                  uint8_t *scratch)
{
    if (nbytes <= TERP_BITMAP_STORED_NBYTES) {
        write_raw(writer, bitmap, nbytes);
        return;
    }
    /* The bit map above is written first, since its size follows from the size
     * of this one. Kept bytes are computed twice: to store those of all levels
     * at once would take more memory. */
    uint64_t above_nbytes = div_up(nbytes, 8);
    rre1(bitmap, nbytes, scratch, scratch + above_nbytes);
    terp_bitmap_write(writer, scratch, above_nbytes, scratch + above_nbytes);
    uint8_t *kept = scratch + above_nbytes;
    write_raw(writer, kept, rre1(bitmap, nbytes, scratch, kept));
}

void
terp_bitmap_read(struct reader *reader, uint8_t *bitmap_ret, uint64_t nbytes,
                 uint8_t *scratch)
{
    if (nbytes <= TERP_BITMAP_STORED_NBYTES) {
        const uint8_t *at = reader_take(reader, nbytes);
        if (at != NULL)
            memcpy(bitmap_ret, at, nbytes);
        return;
    }
    uint64_t above_nbytes = div_up(nbytes, 8);
    terp_bitmap_read(reader, scratch, above_nbytes, scratch + above_nbytes);
    if (!reader->underflow)
        rre1_expand(reader, scratch, bitmap_ret, nbytes);
}

/* Sizes of the stages of RRE4-TCMS8-RZE1 and their positions in the scratch
 * memory. */
struct stages {
    uint64_t nwords;
    uint64_t words_nbytes; /* of kept words, padded to 8 */
    uint8_t *word_bitmap;
    uint8_t *words;
    uint8_t *byte_bitmap;
    uint8_t *rest;
};

static struct stages
lay_out(uint64_t nbytes, uint8_t *scratch)
{
    struct stages s = {.nwords = div_up(nbytes, 4)};
    uint64_t most_nbytes = div_up(s.nwords, 2) * 8;

    s.word_bitmap = scratch;
    s.words = s.word_bitmap + div_up(s.nwords, 8);
    s.byte_bitmap = s.words + most_nbytes;
    s.rest = s.byte_bitmap + most_nbytes / 8;
    return s;
}

uint64_t
terp_reduce_scratch_nbytes(uint64_t nbytes)
{
    uint64_t nwords = div_up(nbytes, 4);
    uint64_t most_nbytes = div_up(nwords, 2) * 8;

    return div_up(nwords, 8) + most_nbytes + most_nbytes / 8 +
           TERP_BITMAP_MAX_NBYTES(most_nbytes / 8);
}

static uint32_t
word_at(const uint8_t *src, uint64_t nbytes, uint64_t i)
{
    return (uint32_t)load_le(src + 4 * i, (int)min_u64(4, nbytes - 4 * i));
}

void
terp_reduce_write(struct writer *writer, const uint8_t *src, uint64_t nbytes,
                  uint8_t *scratch)
{
    struct stages s = lay_out(nbytes, scratch);
    uint32_t last = 0;
    uint64_t nkept = 0;

    memset(s.word_bitmap, 0, div_up(s.nwords, 8));
    for (uint64_t i = 0; i < s.nwords; i++) {
        uint32_t word = word_at(src, nbytes, i);
        if (word != last) {
            s.word_bitmap[i / 8] |= (uint8_t)(1u << (i % 8));
            store_le(s.words + 4 * nkept++, word, 4);
        }
        last = word;
    }
    if (nkept % 2)
        store_le(s.words + 4 * nkept, 0, 4);
    s.words_nbytes = div_up(nkept, 2) * 8;
    terp_bitmap_write(writer, s.word_bitmap, div_up(s.nwords, 8), s.rest);

    memset(s.byte_bitmap, 0, s.words_nbytes / 8);
    uint64_t nbytes_kept = 0;
    for (uint64_t i = 0; i < s.words_nbytes; i += 8) {
        uint64_t word = terp_tcms8(load_le(s.words + i, 8));
        unsigned bits = 0;
        for (unsigned j = 0; j < 8; j++, word >>= 8) {
            unsigned kept = (word & 0xFF) != 0;
            bits |= kept << j;
            s.words[nbytes_kept] = (uint8_t)word;
            nbytes_kept += kept;
        }
        s.byte_bitmap[i / 8] = (uint8_t)bits;
    }
    terp_bitmap_write(writer, s.byte_bitmap, s.words_nbytes / 8, s.rest);
    write_raw(writer, s.words, nbytes_kept);
}

void
terp_reduce_read(struct reader *reader, uint8_t *dst, uint64_t nbytes,
                 uint8_t *scratch)
{
    struct stages s = lay_out(nbytes, scratch);
    uint64_t nkept = 0;

    terp_bitmap_read(reader, s.word_bitmap, div_up(s.nwords, 8), s.rest);
    if (reader->underflow)
        return;
    for (uint64_t i = 0; i < s.nwords; i++)
        nkept += bit_at(s.word_bitmap, i);
    s.words_nbytes = div_up(nkept, 2) * 8;
    terp_bitmap_read(reader, s.byte_bitmap, s.words_nbytes / 8, s.rest);
    if (reader->underflow)
        return;
    for (uint64_t i = 0; i < s.words_nbytes; i += 8) {
        unsigned bits = s.byte_bitmap[i / 8];
        uint64_t word = 0;
        const uint8_t *kept =
            reader_take(reader, (uint64_t)__builtin_popcount(bits));
        if (kept == NULL)
            return;
        for (unsigned j = 0; j < 8; j++)
            if (bits >> j & 1)
                word |= (uint64_t)*kept++ << (8 * j);
        store_le(s.words + i, terp_tcms8_inverse(word), 8);
    }
    uint32_t last = 0;
    const uint8_t *word = s.words;
    for (uint64_t i = 0; i < s.nwords; i++) {
        if (bit_at(s.word_bitmap, i)) {
            last = (uint32_t)load_le(word, 4);
            word += 4;
        }
        store_le(dst + 4 * i, last, (int)min_u64(4, nbytes - 4 * i));
    }
}

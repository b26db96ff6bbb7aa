/* Floor 3: a codebook in a form that decodes on the device. Blocks copy the
 * look-up to shared memory and read longer words where the book is. */
#ifndef TERP_CUDA_DECODE_BOOK_CUH
#define TERP_CUDA_DECODE_BOOK_CUH

#include "codebooks.h"
#include "cuda_platform.cuh"

/* Bits that a look-up sees. They may hold a burst of words: those of codes of
 * small magnitude. */
#define CUDA_LOOKUP_NBITS 10
#define CUDA_LOOKUP_NENTRIES (1 << CUDA_LOOKUP_NBITS)
#define CUDA_BURST_MAX_NSYMBOLS 6
#define CUDA_BURST_CODE_NBITS 7

/* What a look-up finds, 64 bits:
 *  0-3   bits of all its words; 0: the first word is longer, or none
 *  4-6   how many words
 *  7     one word of any symbol, which stands from bit 18 on
 *  8-17  a bit for each bit that is the last of a word, the first lowest
 *  18-59 otherwise the words' codes, 7 bits each, the first lowest */
#define CUDA_FOUND_NBITS(found) ((unsigned)(found)&15)
#define CUDA_FOUND_NSYMBOLS(found) ((unsigned)(found) >> 4 & 7)
#define CUDA_FOUND_IS_WIDE(found) (((unsigned)(found) >> 7 & 1) != 0)
#define CUDA_FOUND_ENDS(found) \
    ((unsigned)(found) >> 8 & (CUDA_LOOKUP_NENTRIES - 1))
#define CUDA_FOUND_CODES_AT 18

/* 10.3 KB. The halves of what is found are apart: to count words takes only
 * the low one, from all banks of shared memory. */
struct __align__(16) cuda_decode_book
{
    uint32_t low[CUDA_LOOKUP_NENTRIES];
    uint32_t high[CUDA_LOOKUP_NENTRIES];
    /* By length: words below end[l] (left-aligned to 15 bits) have up to l
     * bits; word w of l bits stands for sorted[base[l] + w]. */
    uint32_t end[TERP_MAX_CODE_NBITS + 1];
    int32_t base[TERP_MAX_CODE_NBITS + 1];
    uint16_t sorted[TERP_NSYMBOLS];
};

/* Words of lengths above `shortest` are looked for. 0: no word. */
static __host__ __device__ __forceinline__ unsigned
find_length(const uint32_t *end, unsigned bits15, unsigned shortest)
{
    unsigned length = shortest + 1;
    while (length <= TERP_MAX_CODE_NBITS && bits15 >= end[length])
        length++;
    return length <= TERP_MAX_CODE_NBITS ? length : 0;
}

static __host__ __device__ __forceinline__ unsigned
symbol_of_word(const struct cuda_decode_book *book, unsigned bits15,
               unsigned length)
{
    return book->sorted[book->base[length] +
                        (int)(bits15 >> (TERP_MAX_CODE_NBITS - length))];
}

/* Fills in `end` and `base` by the number of words of each length. False when
 * they overfill the code space, as terp_huffman_words finds. */
static __host__ __device__ inline bool
cuda_decode_book_ends(const uint32_t nwords[TERP_MAX_CODE_NBITS + 1],
                      struct cuda_decode_book *book)
{
    uint32_t next = 0, nsorted = 0;

    book->end[0] = 0;
    book->base[0] = 0;
    for (unsigned length = 1; length <= TERP_MAX_CODE_NBITS; length++) {
        next <<= 1;
        book->base[length] = (int32_t)nsorted - (int32_t)next;
        next += nwords[length];
        nsorted += nwords[length];
        book->end[length] = next << (TERP_MAX_CODE_NBITS - length);
        if (next > 1u << length)
            return false;
    }
    return true;
}

/* What to find for these bits, when all else is filled in. */
static __host__ __device__ inline uint64_t
cuda_decode_book_find(const struct cuda_decode_book *book, unsigned bits)
{
    const int nnarrow = 1 << (CUDA_BURST_CODE_NBITS - 1); /* of each sign */
    unsigned left = CUDA_LOOKUP_NBITS, nsymbols = 0, ends = 0, is_wide = 0;
    uint64_t codes = 0;

    while (nsymbols < CUDA_BURST_MAX_NSYMBOLS && !is_wide) {
        /* Bits that were not looked at yet, then zeros. */
        unsigned next = bits << (TERP_MAX_CODE_NBITS - left) &
                        ((1u << TERP_MAX_CODE_NBITS) - 1);
        unsigned length = find_length(book->end, next, 0);
        if (length == 0 || length > left)
            break;
        unsigned symbol = symbol_of_word(book, next, length);
        int code = (int)symbol - TERP_RADIUS;
        if (code >= -nnarrow && code < nnarrow) {
            uint64_t narrow = (unsigned)code & (2 * nnarrow - 1);
            codes |= narrow << (CUDA_BURST_CODE_NBITS * nsymbols);
        } else if (nsymbols == 0) {
            is_wide = 1;
            codes = symbol;
        } else {
            break;
        }
        nsymbols++;
        left -= length;
        ends |= 1u << (CUDA_LOOKUP_NBITS - left - 1);
    }
    return codes << CUDA_FOUND_CODES_AT | (uint64_t)ends << 8 |
           (uint64_t)is_wide << 7 | (uint64_t)nsymbols << 4 |
           (uint64_t)(CUDA_LOOKUP_NBITS - left);
}

static __host__ __device__ inline void
cuda_decode_book_look(struct cuda_decode_book *book, unsigned bits)
{
    uint64_t found = cuda_decode_book_find(book, bits);
    book->low[bits] = (uint32_t)found;
    book->high[bits] = (uint32_t)(found >> 32);
}

/* The books of the dictionary's entries. */
static inline void
cuda_decode_books_fill(struct cuda_decode_book books[TERP_NENTRIES])
{
    for (int e = 0; e < TERP_NENTRIES; e++) {
        struct cuda_decode_book *book = &books[e];
        uint32_t nwords[TERP_MAX_CODE_NBITS + 1] = {0};
        uint16_t *sorted = book->sorted;
        for (int s = 0; s < TERP_NSYMBOLS; s++)
            nwords[terp_entry_code_nbits[s][e]]++;
        cuda_decode_book_ends(nwords, book);
        for (int length = 1; length <= TERP_MAX_CODE_NBITS; length++)
            for (int s = 0; s < TERP_NSYMBOLS; s++)
                if (terp_entry_code_nbits[s][e] == length)
                    *sorted++ = (uint16_t)s;
        for (unsigned bits = 0; bits < CUDA_LOOKUP_NENTRIES; bits++)
            cuda_decode_book_look(book, bits);
    }
}

#endif

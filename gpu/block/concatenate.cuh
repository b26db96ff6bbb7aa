/* Functions by which threads copy bytes to destinations of any alignment. */
#pragma once

#include "gpu/engine/platform.cuh"

/* Copies `nbytes` bytes by `nthreads` threads; this is thread `i`. It writes
 * words of 4 bytes to aligned addresses, and single bytes before the first and
 * after the last such word. `src` must be aligned to 4; `dst` need not be. */
static __device__ __forceinline__ void
copy_bytes(uint8_t *dst, const uint8_t *src, unsigned nbytes, unsigned i,
           unsigned nthreads)
{
    unsigned head = min(nbytes, (0 - (unsigned)(uintptr_t)dst) % 4);
    unsigned nfull = (nbytes - head) / 4, tail = head + 4 * nfull + i;
    const uint32_t *from = (const uint32_t *)src;
    uint32_t *to = (uint32_t *)(dst + head);

#pragma unroll 4
    for (unsigned w = i; w < nfull; w += nthreads)
        to[w] = __funnelshift_r(from[w], from[w + (head != 0)], 8 * head);
    if (i < head)
        dst[i] = src[i];
    if (tail < nbytes)
        dst[tail] = src[tail];
}

/* Four words of 4 bytes, and the word after them. */
struct five_words {
    uint4 four;
    uint32_t next;
};

/* Loads the words 4 i to 4 i + 4 of `from`, which must be aligned to 16. */
static __device__ __forceinline__ struct five_words
load_five(const uint8_t *from, unsigned i)
{
    return {((const uint4 *)from)[i], ((const uint32_t *)from)[4 * i + 4]};
}

/* Does what copy_bytes does, but the thread has loaded its first words before
 * the call: `five` is load_five(from, i). In each turn the thread loads its
 * next words before it stores the current ones. */
static __device__ __forceinline__ void
concatenate_bytes(uint8_t *to, const uint8_t *from, struct five_words five,
                  unsigned nbytes, unsigned i, unsigned nthreads)
{
    const unsigned head = min(nbytes, (0 - (unsigned)(uintptr_t)to) % 4);
    const unsigned nfull = (nbytes - head) / 4;
    const unsigned ntail = (nbytes - head) % 4;
    uint32_t *full = (uint32_t *)(to + head);

    for (unsigned k = 0; i == 0 && k < head; k++)
        to[k] = (uint8_t)(five.four.x >> (8 * k));
#pragma unroll 1
    for (unsigned w = 4 * i; w <= nfull; w += 4 * nthreads) {
        const uint32_t word[5] = {five.four.x, five.four.y, five.four.z,
                                  five.four.w, five.next};
        if (w + 4 * nthreads <= nfull)
            five = load_five(from, w / 4 + nthreads);
        uint32_t last = 0;
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            uint32_t bytes = __funnelshift_r(word[k], word[k + 1], 8 * head);
            if (w + k < nfull)
                full[w + k] = bytes;
            last = w + k == nfull ? bytes : last;
        }
        for (unsigned k = 0; nfull - w < 4 && k < ntail; k++)
            ((uint8_t *)(full + nfull))[k] = (uint8_t)(last >> (8 * k));
    }
}

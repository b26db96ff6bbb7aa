/* Shared by all decoders of codewords and tokens: a tile's bits in shared
 * memory, counts of escapes, and the rounds in which subsequences
 * synchronize. */
#pragma once

#include "gpu/block/expand.cuh"
#include "gpu/entropy/decode_table.cuh"
#include "gpu/entropy/order.cuh"
#include "gpu/sections/escapes.cuh"

/* Symbols of a unit of 16 bytes, in which symbols are stored. */
#define DECODE_UNIT_NSYMBOLS 8

/* ---- escapes ---- */

/* Counts escapes in the ranges of their positions in level order. Bit i of
 * `escapes` stands for the symbol at `tiled` + i in tile order. Escapes are
 * rare and the code needs many registers, so it is not inlined. */
static __device__ __attribute__((noinline)) void
count_in_ranges(unsigned long long *ranges, const struct terp_layout *layout,
                bool is_lorenzo, uint64_t tiled, unsigned escapes)
{
#pragma unroll 1
    for (; escapes != 0; escapes &= escapes - 1) {
        uint64_t escape = tiled + (unsigned)__ffs((int)escapes) - 1;
        uint64_t at = is_lorenzo ? raster_position_of_tiled(layout, escape)
                                 : level_position_of_tiled(layout, escape);
        atomicAdd(&ranges[at / CUDA_RANGE_NVALUES], 1ULL);
    }
}

/* Adds escapes to the list if `listed` (escapes_are_listed), else counts them.
 */
static __device__ __forceinline__ void
note_escapes(const struct cuda_batch &batch, struct cuda_chunk &chunk,
             bool listed, uint64_t tiled, unsigned escapes)
{
    if (!listed) {
        count_in_ranges(
            region<unsigned long long>(batch, batch.at.ranges), batch.d_layout,
            terp_prediction_is_raster(chunk.prediction), tiled, escapes);
        return;
    }
    uint64_t *list = listed_escapes(batch);
    unsigned to = atomicAdd(&chunk.progress[CUDA_PROGRESS_LISTED],
                            (unsigned)__popc(escapes));
#pragma unroll 1
    for (; escapes != 0 && to < CUDA_MAX_NLISTED; escapes &= escapes - 1)
        list[to++] = tiled + (unsigned)__ffs((int)escapes) - 1;
}

/* The same for symbols of a tile. If codes are wide, it does nothing: an escape
 * may stand for a code in a list of the section of low bits, and
 * cuda_low_bits_join finds the true escapes. */
static __device__ __forceinline__ void
note_escapes_of_tile(const struct cuda_batch &batch, struct cuda_chunk &chunk,
                     uint64_t tiled, unsigned escapes)
{
    if (chunk.model.wide == 0)
        note_escapes(batch, chunk, escapes_are_listed(batch, chunk), tiled,
                     escapes);
}

/* Bit 0 and bit 1: the low and the high symbol of `two` is an escape. */
static __device__ __forceinline__ unsigned
find_escapes_of_two(uint32_t two)
{
    static_assert(TERP_ESCAPE == 0, "An escape is a symbol without bits.");
    return (unsigned)((two & 0xFFFF) == 0) | (unsigned)(two >> 16 == 0) << 1;
}

static __device__ __forceinline__ uint4
eight_zero_codes(void)
{
    const unsigned two = TERP_RADIUS << 16 | TERP_RADIUS;
    return make_uint4(two, two, two, two);
}

/* ---- bits ---- */

/* Words for a tile's bytes, which may begin at any byte of the first word, and
 * two words behind them. The first byte is the highest of its word. */
#define TILE_BITS_NWORDS (TERP_CODEWORDS_MAX_NBYTES / 4 + 3)

/* The tile is the bits [begin, end) of the words; bit 0 is the highest of word
 * 0. */
struct tile_bits {
    unsigned begin, end;
};

static __device__ __forceinline__ uint32_t
bits_at(const uint32_t *bits, unsigned at)
{
    return __funnelshift_l(bits[at / 32 + 1], bits[at / 32], at % 32);
}

/* Copies the tile's bytes to s_bits, as words where they fill a word. Reads up
 * to 3 bytes before `src`; a stream's frame stands before any tile. NTHREADS is
 * the block's size; all threads take part, and need a barrier before they read
 * s_bits. Example: stage_bits<128>(s.bits, src, nbytes). */
template <unsigned NTHREADS>
static __device__ __forceinline__ struct tile_bits
stage_bits(uint32_t *s_bits, const uint8_t *src, unsigned nbytes)
{
    const unsigned skipped = (unsigned)((uintptr_t)src % 4);
    const uint32_t *words = (const uint32_t *)(src - skipped);
    const unsigned end = skipped + nbytes;
    const struct tile_bits bits = {8 * skipped, 8 * end};

#pragma unroll 2
    for (unsigned i = threadIdx.x; i < end / 4; i += NTHREADS)
        s_bits[i] = __byte_perm(words[i], 0, 0x0123);
    if (threadIdx.x < 2) {
        uint32_t last = 0;
        if (threadIdx.x == 0)
#pragma unroll 1
            for (unsigned i = 0; i < end % 4; i++)
                last |= (uint32_t)((const uint8_t *)words)[end / 4 * 4 + i]
                        << (24 - 8 * i);
        s_bits[end / 4 + threadIdx.x] = last;
    }
    return bits;
}

/* Finds where the thread's subsequence begins. pass(begin) decodes the
 * subsequence from bit `begin` and returns where the next one begins. In the
 * first round each thread begins at its guess `begin`; in each further round it
 * decodes again if the thread before it stopped elsewhere than where this
 * thread began. After n rounds the first n threads are right; rounds end when
 * all are. Returns where the subsequence begins; s_stop[threadIdx.x] holds the
 * result of the last pass. Pass is a lambda: decode_tokens passes one that
 * counts tokens. Two barriers a round; idle threads take part. */
template <typename Pass>
static __device__ __forceinline__ unsigned
synchronize_subsequences(uint32_t *s_stop, unsigned first_begin, unsigned begin,
                         bool is_idle, Pass pass)
{
    bool is_right = false;

#pragma unroll 1
    for (unsigned before = begin;;) {
        if (!is_right) {
            begin = before;
            s_stop[threadIdx.x] = pass(begin);
        }
        __syncthreads();
        before = threadIdx.x == 0 ? first_begin : s_stop[threadIdx.x - 1];
        is_right = is_idle || before == begin;
        if (!__syncthreads_or(!is_right))
            return begin;
    }
}

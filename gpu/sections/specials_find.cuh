/* The first step of writing special values: finds them, counts runs and
 * collects colors, which are different special values. */
#pragma once

#include "gpu/predict/values.cuh"
#include "gpu/sections/specials_scratch.cuh"

/* Rows of 32 values that a warp has at a time, and how many of them it loads at
 * once. */
#define FIND_NROWS 32
#define FIND_NVALUES (FIND_NROWS * 32)
#define FIND_NLOADS 8
static_assert(SPECIALS_SEGMENT_NVALUES %
                      (FIND_NVALUES * SPECIALS_WRITE_NWARPS) ==
                  0,
              "Warps share a segment's values.");

/* The colors that a warp has met, and which of them it met last. Lane c holds
 * color c. */
template <typename T> struct warp_colors {
    word_of<T> own, last;
    unsigned n;
    bool too_many;
};

/* Notes that `color` occurs at `at`. A place in the list of colors names a
 * color by the position of a value, and positions only become smaller, so warps
 * need no lock. Returns false if there are too many colors. */
template <typename T>
static __device__ bool
note_color(struct cuda_specials &specials, const T *src, word_of<T> color,
           uint64_t at)
{
#pragma unroll 1
    for (int c = 0; c < TERP_SPECIALS_MAX_NCOLORS + 1; c++) {
        unsigned long long *place = &specials.first[c];
        unsigned long long first = *(volatile unsigned long long *)place;
        if (first == 0)
            first = atomicCAS(place, 0ull, at + 1);
        if (first != 0 && bits_of(src[first - 1]) != color)
            continue;
        if (first > at + 1)
            atomicMin(place, at + 1);
        return c < TERP_SPECIALS_MAX_NCOLORS;
    }
    return false;
}

/* Notes the colors of a row, in which the bits of `begins` are set where runs
 * begin. The warp has noted earlier positions of the colors that it knows. */
template <typename T>
static __device__ void
note_colors(struct cuda_specials &specials, const T *src, uint64_t row,
            unsigned begins, word_of<T> bits, warp_colors<T> &colors)
{
    const unsigned lane = threadIdx.x % 32;

    while (begins != 0 && !colors.too_many) {
        const int first = __ffs((int)begins) - 1;
        const word_of<T> color = __shfl_sync(FULL_WARP_MASK, bits, first);
        if (!__any_sync(FULL_WARP_MASK,
                        lane < colors.n && colors.own == color)) {
            bool fits = true;
            if (lane == 0)
                fits = note_color(specials, src, color, row + (unsigned)first);
            colors.too_many = !__all_sync(FULL_WARP_MASK, fits);
            colors.own = lane == colors.n ? color : colors.own;
            colors.n++;
        }
        colors.last = color;
        begins &= ~__ballot_sync(FULL_WARP_MASK, bits == color);
    }
}

/* Finds where runs of equal values begin, and their colors, if not all special
 * values have the last color. Lane i has word i of the mask, and gets the word
 * of row i. */
template <typename T>
static __device__ __forceinline__ unsigned
find_runs(struct cuda_specials &specials, const T *src, uint64_t first,
          unsigned word, bool special_before, warp_colors<T> &colors)
{
    const unsigned lane = threadIdx.x % 32;
    unsigned run_word = 0;

#pragma unroll 1
    for (unsigned i = 0; i < FIND_NROWS; i++) {
        const unsigned row = __shfl_sync(FULL_WARP_MASK, word, (int)i);
        const bool follows_special = special_before;
        special_before = row >> 31;
        if (row == 0)
            continue;
        const uint64_t at = first + 32 * i + lane;
        const bool special = row >> lane & 1;
        const word_of<T> bits = special ? bits_of(src[at]) : 0;
        const bool goes_on =
            special && (lane == 0 ? follows_special : row >> (lane - 1) & 1) &&
            bits_of(src[at - 1]) == bits;
        const unsigned begins =
            __ballot_sync(FULL_WARP_MASK, special && !goes_on);
        run_word = lane == i ? begins : run_word;
        note_colors(specials, src, first + 32 * i, begins, bits, colors);
    }
    return run_word;
}

/* Where the kernel finds out which values are special: in a mask that
 * prediction has made, in the values themselves, or in the coded values, if
 * those are not the values themselves. */
enum special_by {
    BY_MASK,
    BY_VALUES,
    BY_CODED
};

/* Returns the lane's word of the mask of n values. Lane i gets the word of row
 * i; it is given if there is a mask. Sets *others_ret to whether a special
 * value of the lane is not the value `last`. */
template <enum special_by BY, typename T, typename C>
static __device__ __forceinline__ unsigned
find_in_rows(const T *src, const C *coded, const fill_words<C> &fills,
             unsigned n, unsigned word, word_of<T> last, bool *others_ret)
{
    const unsigned lane = threadIdx.x % 32;
    bool others = false;

#pragma unroll 1
    for (unsigned row = 0; row < FIND_NROWS; row += FIND_NLOADS) {
        T values[FIND_NLOADS];
        C decisive[FIND_NLOADS];
        for (unsigned i = 0; i < FIND_NLOADS; i++) {
            const unsigned at = 32 * (row + i) + lane;
            values[i] = at < n ? src[at] : (T)0;
            if constexpr (BY == BY_CODED)
                decisive[i] = at < n ? coded[at] : (C)0;
            else
                decisive[i] = (C)values[i];
        }
        for (unsigned i = 0; i < FIND_NLOADS; i++) {
            const bool special =
                BY == BY_MASK
                    ? __shfl_sync(FULL_WARP_MASK, word, (int)(row + i)) >>
                              lane &
                          1
                    : (32 * (row + i) + lane < n) &
                          is_special(decisive[i], fills);
            const unsigned bits = __ballot_sync(FULL_WARP_MASK, special);
            word = lane == row + i ? bits : word;
            others |= special & (bits_of(values[i]) != last);
        }
    }
    *others_ret = others;
    return word;
}

/* Finds the special values among a warp's values, and where runs begin. T is
 * the type of own values and C that of coded values: find_by_warp<uint16_t,
 * float> is for half floats, whose carrier is float32. Returns the lane's
 * counts: special values in the lower 20 bits, and runs in the next 20 bits
 * each. */
template <typename T, typename C>
static __device__ __forceinline__ unsigned long long
find_by_warp(const struct cuda_batch &batch, struct cuda_chunk &chunk,
             const struct specials_scratch &scratch, uint64_t first,
             const fill_words<C> &fills, warp_colors<T> &colors)
{
    const unsigned lane = threadIdx.x % 32;
    const unsigned n = (unsigned)min_u64(FIND_NVALUES, batch.nvalues - first);
    const T *src = (const T *)chunk.values;
    const C *coded = (const C *)chunk.src;
    uint32_t *mask = region<uint32_t>(batch, batch.at.mask);
    const bool by_mask = terp_prediction_makes_mask(chunk.prediction);
    const bool has_before = first > 0;
    unsigned word = 0;
    bool others = false, special_before = false;

    if (by_mask) {
        word = mask_word(mask, first / 32 + lane, batch.nvalues);
        special_before = has_before && mask[first / 32 - 1] >> 31;
        if (__any_sync(FULL_WARP_MASK, word != 0))
            word = find_in_rows<BY_MASK>(src + first, coded, fills, n, word,
                                         colors.last, &others);
    } else {
        special_before = has_before && is_special(coded[first - 1], fills);
        if (sizeof(T) == sizeof(C) && (const void *)src == (const void *)coded)
            word = find_in_rows<BY_VALUES>(src + first, coded, fills, n, word,
                                           colors.last, &others);
        else
            word = find_in_rows<BY_CODED>(src + first, coded + first, fills, n,
                                          word, colors.last, &others);
    }
    others |= colors.n == 0 && word != 0;
    const unsigned before = __shfl_up_sync(FULL_WARP_MASK, word, 1) >> 31;
    const unsigned begins =
        word & ~(word << 1 | (lane == 0 ? special_before : before));
    unsigned run_word = begins;
    if (!colors.too_many) {
        if (__any_sync(FULL_WARP_MASK, others))
            run_word = find_runs(chunk.specials, src, first, word,
                                 special_before, colors);
        else if (lane == 0 && (word & 1) != 0 && special_before)
            run_word |= bits_of(src[first - 1]) != colors.last;
    }
    if (32 * lane < n) {
        if (!by_mask)
            mask[first / 32 + lane] = word;
        scratch.run_bits[first / 32 + lane] = run_word;
    }
    return (unsigned long long)__popc(word) |
           (unsigned long long)__popc(begins) << 20 |
           (unsigned long long)__popc(run_word) << 40;
}

/* Finds the special values of a segment. Warps take rows in turn. */
template <typename T, typename C>
static __device__ void
find_in_segment(const struct cuda_batch &batch, struct cuda_chunk &chunk,
                const struct specials_scratch &scratch, uint64_t segment,
                warp_colors<T> &colors)
{
    __shared__ unsigned long long s_counts;
    const fill_words<C> fills = fills_of<C>(chunk);
    const uint64_t begin = segment * SPECIALS_SEGMENT_NVALUES;
    const uint64_t end =
        min_u64(begin + SPECIALS_SEGMENT_NVALUES, batch.nvalues);
    unsigned long long counts = 0;

    if (threadIdx.x == 0)
        s_counts = 0;
    for (uint64_t first = begin + threadIdx.x / 32 * FIND_NVALUES; first < end;
         first += SPECIALS_WRITE_NWARPS * FIND_NVALUES)
        counts +=
            find_by_warp<T, C>(batch, chunk, scratch, first, fills, colors);
    counts = warp_sum(counts);
    __syncthreads();
    if (threadIdx.x % 32 == 0 && counts > 0)
        atomicAdd(&s_counts, counts);
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    const unsigned low = (1u << 20) - 1;
    scratch.counts[SPECIAL_VALUES][segment] = (unsigned)s_counts & low;
    for (int kind = RUNS_SPECIAL; kind <= RUNS_COLOR; kind++) {
        const unsigned nruns = (unsigned)(s_counts >> 20 * (kind + 1)) & low;
        scratch.counts[kind][segment] = nruns;
        if (nruns > 0)
            atomicAdd(&chunk.specials.nruns[kind], nruns);
    }
}

/* Makes the palette: colors in the order of their first positions. Sets
 * summary->ncolors, 0 if there are too many. All threads call it together. */
template <typename T>
static __device__ void
make_palette(const struct cuda_chunk &chunk,
             const struct specials_scratch &scratch)
{
    const unsigned long long *first = chunk.specials.first;
    unsigned ncolors = 0, before = 0;

    while (ncolors <= TERP_SPECIALS_MAX_NCOLORS && first[ncolors] != 0)
        ncolors++;
    if (ncolors > TERP_SPECIALS_MAX_NCOLORS)
        ncolors = 0;
    if (threadIdx.x == 0)
        scratch.summary->ncolors = ncolors;
    if (threadIdx.x >= ncolors)
        return;
    for (unsigned c = 0; c < ncolors; c++)
        before += first[c] < first[threadIdx.x];
    scratch.summary->palette[before] =
        bits_of(((const T *)chunk.values)[first[threadIdx.x] - 1]);
}

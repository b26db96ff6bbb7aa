/* The first two steps of writing special values: `find` finds special values,
 * counts runs and collects the palette; `choose` chooses the mask delta that
 * leaves the fewest runs. */
#pragma once

#include "gpu/predict/values.cuh"
#include "gpu/sections/specials_scratch.cuh"

/* ---- find ---- */

/* A block's palette, in shared memory. */
struct palette {
    color_table table;
    unsigned next; /* place of the next new color in the segment; ~0: none */
};

/* Adds the colors of a thread's values to the palette, in the order of their
 * places. Bit i of `unknown` says that value i, at place + 32 i of the segment,
 * may have a new color. All threads call it together. Each round removes known
 * colors, finds the lowest place with a new color by atomicMin, and adds that
 * color; four barriers a round. */
template <typename T>
static __device__ void
add_colors(struct palette &s_palette, const T values[SPECIALS_NITEMS],
           unsigned unknown, unsigned place, uint64_t segment_first)
{
    unsigned nknown = 0;

    for (;;) {
        unsigned ncolors = s_palette.table.ncolors;
        if (ncolors > TERP_SPECIALS_MAX_NCOLORS)
            return;
        for (; nknown < ncolors && unknown != 0; nknown++)
            for (int i = 0; i < SPECIALS_NITEMS; i++)
                if (bits_of(values[i]) == s_palette.table.color[nknown])
                    unknown &= ~(1u << i);
        if (!__syncthreads_or(unknown != 0))
            return;
        if (threadIdx.x == 0)
            s_palette.next = UINT32_MAX;
        __syncthreads();
        unsigned lowest = unknown == 0 ? 0 : (unsigned)__ffs((int)unknown) - 1;
        if (unknown != 0)
            atomicMin(&s_palette.next, place + 32 * lowest);
        __syncthreads();
        if (unknown != 0 && s_palette.next == place + 32 * lowest) {
            uint64_t color = 0;
            for (unsigned i = 0; i < SPECIALS_NITEMS; i++)
                color = i == lowest ? bits_of(values[i]) : color;
            if (ncolors < TERP_SPECIALS_MAX_NCOLORS) {
                s_palette.table.color[ncolors] = color;
                s_palette.table.first[ncolors] = segment_first + s_palette.next;
            }
            s_palette.table.ncolors = ncolors + 1;
        }
        __syncthreads();
    }
}

/* Finds the special values of a segment and the beginnings of runs. A warp owns
 * 512 values in rows of 32, and so 16 words of each bit map, which its first 16
 * lanes hold. T is the type of own values and C that of coded values, which
 * decide whether a value is special: find_in_segment<uint16_t, float> is for
 * half floats, whose carrier is float32. Ends with a barrier. */
template <typename T, typename C>
static __device__ void
find_in_segment(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
                const struct specials_scratch &scratch, uint64_t segment,
                struct palette &s_palette)
{
    __shared__ unsigned s_count[3];
    const T *src = (const T *)chunk.values;
    const C *coded = (const C *)chunk.src;
    uint32_t *mask = region<uint32_t>(batch, batch.at.mask);
    const fill_words<C> fills = fills_of<C>(chunk);
    bool mask_is_made = terp_prediction_makes_mask(chunk.prediction);
    unsigned lane = threadIdx.x % 32;
    unsigned place = threadIdx.x / 32 * (32 * SPECIALS_NITEMS);
    uint64_t first = segment * SPECIALS_SEGMENT_NVALUES + place;
    T values[SPECIALS_NITEMS], before = 0;
    unsigned special_word = 0, run_word = 0, runs = 0;
    bool special_before = false;
    const auto special_at = [&](uint64_t at, T value) {
        if constexpr (sizeof(T) == sizeof(C))
            if (chunk.src == chunk.values)
                return is_special(value, fills);
        return at < batch.nvalues && is_special(coded[at], fills);
    };

    for (int i = 0; i < SPECIALS_NITEMS; i++) {
        uint64_t at = first + 32 * i + lane;
        values[i] = at < batch.nvalues ? src[at] : (T)0;
    }
    if (mask_is_made && lane < SPECIALS_NITEMS &&
        first + 32 * lane < batch.nvalues)
        special_word = mask[first / 32 + lane];
    if (first > 0 && first <= batch.nvalues) {
        before = src[first - 1];
        special_before = mask_is_made ? mask[(first - 1) / 32] >> 31
                                      : special_at(first - 1, before);
    }
    unsigned first_bit = special_before;
    for (int i = 0; i < SPECIALS_NITEMS; i++) {
        bool special =
            mask_is_made
                ? __shfl_sync(FULL_WARP_MASK, special_word, i) >> lane & 1
                : special_at(first + 32 * i + lane, values[i]);
        special &= first + 32 * i + lane < batch.nvalues;
        const unsigned specials = __ballot_sync(FULL_WARP_MASK, special);
        const bool row_follows_special = special_before;
        special_before = specials >> 31;
        if ((int)lane == i)
            special_word = specials;
        if (specials == 0)
            continue;
        T previous =
            __shfl_sync(FULL_WARP_MASK, values[i], (int)(lane + 31) % 32);
        if (lane == 0) {
            const T last = previous;
            previous = before;
            before = last;
        }
        bool previous_special =
            lane == 0 ? row_follows_special : specials >> (lane - 1) & 1;
        bool begins = special && !(previous_special &&
                                   bits_of(previous) == bits_of(values[i]));
        unsigned begin_word = __ballot_sync(FULL_WARP_MASK, begins);
        runs |= (unsigned)begins << i;
        if ((int)lane == i)
            run_word = begin_word;
    }
    unsigned word_before =
        __shfl_up_sync(FULL_WARP_MASK, special_word, 1) >> 31;
    unsigned bit_before = lane == 0 ? first_bit : word_before;
    unsigned nruns = 0, ncolored_runs = 0, nspecials = 0;
    if (lane < SPECIALS_NITEMS && first + 32 * lane < batch.nvalues) {
        if (!mask_is_made)
            mask[first / 32 + lane] = special_word;
        ((uint32_t *)scratch.run_bits)[first / 32 + lane] = run_word;
        nruns = __popc(special_word & ~(special_word << 1 | bit_before));
        ncolored_runs = __popc(run_word);
        nspecials = __popc(special_word);
    }
    if (threadIdx.x < 3)
        s_count[threadIdx.x] = 0;
    __syncthreads();
    if (nspecials > 0) {
        atomicAdd(&s_count[0], nruns);
        atomicAdd(&s_count[1], ncolored_runs);
        atomicAdd(&s_count[2], nspecials);
    }
    add_colors(s_palette, values, runs, place + lane,
               segment * SPECIALS_SEGMENT_NVALUES);
    __syncthreads();
    if (threadIdx.x == 0) {
        struct special_segment *found = &scratch.segments[segment];
        found->nruns[RUNS_SPECIAL] = s_count[0];
        found->nruns[RUNS_COLOR] = s_count[1];
        found->nspecials = s_count[2];
    }
    __syncthreads();
}

/* Merges the palettes of all blocks, in the order of first occurrence. The last
 * block calls it, all threads together. */
static __device__ void
merge_colors(const struct specials_scratch &scratch, struct palette &s_palette)
{
    __shared__ unsigned long long s_first;
    bool too_many = false;

    if (threadIdx.x == 0)
        s_palette.table.ncolors = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += SPECIALS_WRITE_NTHREADS)
        too_many |= scratch.tables[i].ncolors > TERP_SPECIALS_MAX_NCOLORS;
    if (__syncthreads_or(too_many)) {
        if (threadIdx.x == 0)
            s_palette.table.ncolors = TERP_SPECIALS_MAX_NCOLORS + 1;
        __syncthreads();
        return;
    }
    for (unsigned ncolors = 0; ncolors <= TERP_SPECIALS_MAX_NCOLORS;
         ncolors++) {
        unsigned long long first = UINT64_MAX;
        uint64_t color = 0;
        if (threadIdx.x == 0)
            s_first = UINT64_MAX;
        __syncthreads();
        for (unsigned i = threadIdx.x; i < gridDim.x;
             i += SPECIALS_WRITE_NTHREADS) {
            const struct color_table *table = &scratch.tables[i];
            for (unsigned c = 0; c < table->ncolors; c++) {
                bool known = table->first[c] >= first;
                for (unsigned k = 0; k < ncolors; k++)
                    known |= s_palette.table.color[k] == table->color[c];
                if (known)
                    continue;
                first = table->first[c];
                color = table->color[c];
            }
        }
        if (first != UINT64_MAX)
            atomicMin(&s_first, first);
        __syncthreads();
        if (s_first == UINT64_MAX)
            return;
        if (first == s_first) {
            if (ncolors < TERP_SPECIALS_MAX_NCOLORS)
                s_palette.table.color[ncolors] = color;
            s_palette.table.ncolors = ncolors + 1;
        }
        __syncthreads();
    }
}

/* Finds run_at and special_at of each segment: the runs of a kind and the
 * special values before it. Returns the number of all runs. All threads call it
 * together. */
static __device__ uint64_t
number_runs(const struct specials_scratch &scratch, int kind)
{
    uint64_t nruns = 0, nspecials = 0;

    for (uint64_t first = 0; first < scratch.nsegments;
         first += SPECIALS_WRITE_NTHREADS) {
        uint64_t i = first + threadIdx.x;
        bool is_there = i < scratch.nsegments;
        struct special_segment *segment = &scratch.segments[is_there ? i : 0];
        uint64_t run_at =
            sum_before(is_there ? segment->nruns[kind] : 0, &nruns);
        uint64_t special_at =
            sum_before(is_there ? segment->nspecials : 0, &nspecials);
        if (is_there) {
            segment->run_at = run_at;
            segment->special_at = special_at;
        }
    }
    return nruns;
}

/* The last block merges palettes and counts runs. If the palette holds all
 * colors, runs are of equal values, else of special values. */
static __device__ void
finish_find(const struct cuda_batch &batch, struct cuda_chunk &chunk,
            const struct specials_scratch &scratch, struct palette &s_palette)
{
    merge_colors(scratch, s_palette);
    bool colored = s_palette.table.ncolors <= TERP_SPECIALS_MAX_NCOLORS;
    uint64_t nruns = number_runs(scratch, colored ? RUNS_COLOR : RUNS_SPECIAL);
    if (threadIdx.x < TERP_SPECIALS_MAX_NCOLORS)
        scratch.summary->palette[threadIdx.x] =
            s_palette.table.color[threadIdx.x];
    if (threadIdx.x != 0)
        return;
    scratch.summary->nruns = nruns;
    scratch.summary->mask_delta = 0;
    scratch.summary->mask_delta_dim = 0;
    scratch.summary->ncolors = colored ? s_palette.table.ncolors : 0;
    scratch.summary->nfields =
        (uint32_t)terp_specials_nfields((int)scratch.summary->ncolors);
    if (nruns > scratch.max_nruns || batch.nvalues > UINT32_MAX)
        chunk.status = TERP_ERR_DEVICE;
}

/* The step `find`. Blocks take segments in turn; the last block finishes. */
template <typename T, typename C>
static __device__ void
find(const struct cuda_batch &batch, struct cuda_chunk &chunk,
     const struct specials_scratch &scratch)
{
    __shared__ struct palette s_palette;

    if (threadIdx.x == 0)
        s_palette.table.ncolors = 0;
    __syncthreads();
    for (uint64_t i = blockIdx.x; i < scratch.nsegments; i += gridDim.x)
        find_in_segment<T, C>(batch, chunk, scratch, i, s_palette);
    if (threadIdx.x == 0)
        scratch.tables[blockIdx.x] = s_palette.table;
    if (is_last_block(&chunk.progress[CUDA_PROGRESS_FIND_RUNS], gridDim.x))
        finish_find(batch, chunk, scratch, s_palette);
}

/* ---- choose ---- */

/* The last block chooses the mask delta that leaves the fewest runs, if that is
 * fewer than the mask itself has. */
static __device__ void
finish_choose(const struct cuda_batch &batch,
              const struct specials_scratch &scratch)
{
    uint64_t fewest = scratch.summary->nruns;
    int best = 0;

    for (int d = 1; d <= TERP_NDIMS; d++) {
        uint64_t nruns = 0;
        if (terp_mask_delta_distance(batch.d_layout, d) == 0)
            continue;
        for (uint64_t first = 0; first < scratch.nsegments;
             first += SPECIALS_WRITE_NTHREADS) {
            uint64_t i = first + threadIdx.x;
            sum_before(i < scratch.nsegments
                           ? scratch.segments[i].nruns[RUNS_COLOR + d]
                           : 0,
                       &nruns);
        }
        if (nruns < fewest) {
            fewest = nruns;
            best = d;
        }
    }
    if (best == 0)
        return;
    number_runs(scratch, RUNS_COLOR + best);
    if (threadIdx.x != 0)
        return;
    scratch.summary->nruns = fewest;
    scratch.summary->mask_delta =
        terp_mask_delta_distance(batch.d_layout, best);
    scratch.summary->mask_delta_dim = (uint32_t)best;
}

/* The step `choose`: counts the runs of each mask delta, if there is one color.
 * Blocks take segments in turn; a thread has a piece of 16 values. */
static __device__ void
choose(const struct cuda_batch &batch, struct cuda_chunk &chunk,
       const struct specials_scratch &scratch)
{
    __shared__ unsigned s_nruns[TERP_NDIMS];
    const uint16_t *mask = region<uint16_t>(batch, batch.at.mask);
    const uint64_t nvalues = batch.nvalues;

    if (scratch.summary->ncolors != 1)
        return;
    for (uint64_t i = blockIdx.x; i < scratch.nsegments; i += gridDim.x) {
        uint64_t piece = i * SPECIALS_WRITE_NTHREADS + threadIdx.x;
        if (threadIdx.x < TERP_NDIMS)
            s_nruns[threadIdx.x] = 0;
        __syncthreads();
        for (int d = 1; d <= TERP_NDIMS; d++) {
            uint64_t distance = terp_mask_delta_distance(batch.d_layout, d);
            if (distance == 0)
                continue;
            unsigned bits = mask_delta_piece(mask, piece, nvalues, distance);
            unsigned last = piece_before(mask, piece, bits, nvalues, distance);
            int nruns = __popc(bits & ~(bits << 1 | last >> 15));
            if (nruns > 0)
                atomicAdd(&s_nruns[d - 1], (unsigned)nruns);
        }
        __syncthreads();
        if (threadIdx.x < TERP_NDIMS)
            scratch.segments[i].nruns[RUNS_COLOR + 1 + threadIdx.x] =
                s_nruns[threadIdx.x];
        __syncthreads();
    }
    if (is_last_block(&chunk.progress[CUDA_PROGRESS_CHOOSE_MASK_DELTA],
                      gridDim.x))
        finish_choose(batch, scratch);
}

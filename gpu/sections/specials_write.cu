/* Writes the section of special values, with the same bytes as
 * cpu/sections/specials.c, by one kernel in five steps:
 *
 *   find     makes bit maps of special values and of runs, and the palette
 *   choose   chooses the mask delta, if there is one color
 *   list     lists where runs begin and end
 *   measure  finds the widths of groups, and so each place in the section
 *   pack     writes groups and values
 *
 * A step is divided into shares, and blocks take shares in the order of steps.
 * The first share of a step waits until the step before has ended: all shares
 * before it are then in the hands of blocks that run, so the wait ends, however
 * many blocks run at once. The block that ends the last share of a step
 * finishes the step alone. `find` is in gpu/sections/specials_find.cuh. */
#include "gpu/sections/specials_find.cuh"

/* The most blocks of a launch, for all its chunks together: about as many as a
 * large device runs at once, with WRITE_MIN_NBLOCKS for each multiprocessor. */
#define WRITE_MAX_NBLOCKS 660
#define WRITE_MIN_NBLOCKS 5

/* ---- find ---- */

/* Numbers the runs of a kind: finds how many runs, and special values, are
 * before each segment. */
static __device__ void
number_runs(const struct cuda_batch &batch, struct cuda_chunk &chunk,
            const struct specials_scratch &scratch, unsigned kind)
{
    struct specials_summary *summary = scratch.summary;

    sum_up_numbers(scratch.counts[kind], scratch.nsegments, 0);
    if (summary->ncolors == 0)
        sum_up_numbers(scratch.counts[SPECIAL_VALUES], scratch.nsegments, 0);
    if (threadIdx.x != 0)
        return;
    summary->kind = kind;
    summary->nruns = chunk.specials.nruns[kind];
    summary->mask_delta_dim = kind > RUNS_COLOR ? kind - RUNS_COLOR : 0;
    summary->mask_delta =
        kind > RUNS_COLOR
            ? terp_mask_delta_distance(batch.d_layout, (int)(kind - RUNS_COLOR))
            : 0;
    if (summary->nruns > scratch.max_nruns)
        chunk.status = TERP_ERR_DEVICE;
}

/* If the palette holds all colors, runs are of equal values, else of special
 * values. With one color, the mask delta decides. */
template <typename T>
static __device__ void
finish_find(const struct cuda_batch &batch, struct cuda_chunk &chunk,
            const struct specials_scratch &scratch)
{
    make_palette<T>(chunk, scratch);
    __syncthreads();
    const unsigned ncolors = scratch.summary->ncolors;
    if (ncolors != 1)
        number_runs(batch, chunk, scratch,
                    ncolors == 0 ? RUNS_SPECIAL : RUNS_COLOR);
    if (threadIdx.x != 0)
        return;
    scratch.summary->nfields = (uint32_t)terp_specials_nfields((int)ncolors);
    chunk.model_end = specials_begin(batch, chunk);
    if (batch.nvalues > UINT32_MAX)
        chunk.status = TERP_ERR_DEVICE;
}

/* ---- choose ---- */

/* Calls use(i, word, last) for each word i of a mask delta in a segment; `last`
 * is the bit before the word. The warp has the segment, and a lane every 32nd
 * word; it loads WALK_NWORDS before it uses the first. */
#define WALK_NWORDS 4u
template <typename Use>
static __device__ __forceinline__ void
walk_segment(const uint32_t *mask, uint64_t nvalues, uint64_t distance,
             uint64_t segment, Use use)
{
    const unsigned lane = threadIdx.x % 32;
    const uint64_t begin = segment * SPECIALS_SEGMENT_NWORDS;
    unsigned last =
        begin == 0 ? 0
                   : mask_delta_word(mask, begin - 1, nvalues, distance) >> 31;

#pragma unroll 1
    for (unsigned i = lane; i < SPECIALS_SEGMENT_NWORDS;
         i += 32 * WALK_NWORDS) {
        unsigned words[WALK_NWORDS];
        for (unsigned k = 0; k < WALK_NWORDS; k++)
            words[k] =
                mask_delta_word(mask, begin + i + 32 * k, nvalues, distance);
        for (unsigned k = 0; k < WALK_NWORDS; k++) {
            const unsigned before =
                __shfl_up_sync(FULL_WARP_MASK, words[k], 1) >> 31;
            use(begin + i + 32 * k, words[k], lane == 0 ? last : before);
            last = __shfl_sync(FULL_WARP_MASK, words[k], 31) >> 31;
        }
    }
}

/* The step `choose`: counts the runs of each mask delta in a segment, which the
 * warp has. Has barriers. */
static __device__ void
choose(const struct cuda_batch &batch, struct cuda_chunk &chunk,
       const struct specials_scratch &scratch, uint64_t segment)
{
    __shared__ unsigned s_nruns[TERP_NDIMS];
    const uint32_t *mask = region<uint32_t>(batch, batch.at.mask);

    if (threadIdx.x < TERP_NDIMS)
        s_nruns[threadIdx.x] = 0;
    __syncthreads();
    for (int d = 1; d <= TERP_NDIMS && segment < scratch.nsegments; d++) {
        const uint64_t distance = terp_mask_delta_distance(batch.d_layout, d);
        if (distance == 0)
            continue;
        unsigned nruns = 0;
        walk_segment(mask, batch.nvalues, distance, segment,
                     [&](uint64_t, unsigned word, unsigned last) {
                         nruns += (unsigned)__popc(word & ~(word << 1 | last));
                     });
        nruns = warp_sum(nruns);
        if (threadIdx.x % 32 != 0)
            continue;
        scratch.counts[RUNS_COLOR + d][segment] = nruns;
        if (nruns > 0)
            atomicAdd(&s_nruns[d - 1], nruns);
    }
    __syncthreads();
    if (threadIdx.x < TERP_NDIMS && s_nruns[threadIdx.x] > 0)
        atomicAdd(&chunk.specials.nruns[RUNS_COLOR + 1 + threadIdx.x],
                  s_nruns[threadIdx.x]);
}

/* Chooses the mask delta that leaves the fewest runs, if that is fewer than the
 * mask itself has. */
static __device__ void
finish_choose(const struct cuda_batch &batch, struct cuda_chunk &chunk,
              const struct specials_scratch &scratch)
{
    const unsigned long long *nruns = chunk.specials.nruns;
    unsigned best = RUNS_COLOR;

    for (int d = 1; d <= TERP_NDIMS; d++)
        if (terp_mask_delta_distance(batch.d_layout, d) > 0 &&
            nruns[RUNS_COLOR + d] < nruns[best])
            best = RUNS_COLOR + (unsigned)d;
    number_runs(batch, chunk, scratch, best);
}

/* ---- list ---- */

/* The step `list`: writes where the runs of a segment begin and end. The warp
 * has the segment. */
static __device__ void
list(const struct cuda_batch &batch, const struct specials_scratch &scratch,
     uint64_t segment)
{
    const bool colored = scratch.summary->ncolors > 1;
    uint32_t run = scratch.counts[scratch.summary->kind][segment];

    walk_segment(region<uint32_t>(batch, batch.at.mask), batch.nvalues,
                 scratch.summary->mask_delta, segment,
                 [&](uint64_t i, unsigned word, unsigned last) {
                     const unsigned before = word << 1 | last;
                     const unsigned begins =
                         colored ? mask_word(scratch.run_bits, i, batch.nvalues)
                                 : word & ~before;
                     const unsigned ends = before & (begins | ~word);
                     unsigned either = begins | ends;
                     if (__ballot_sync(FULL_WARP_MASK, either != 0) == 0)
                         return;
                     const unsigned n = (unsigned)__popc(begins);
                     const unsigned sum = warp_inclusive_sum(n);
                     uint32_t own = run + sum - n;
                     for (; either != 0; either &= either - 1) {
                         const int bit = __ffs((int)either) - 1;
                         const uint32_t at = (uint32_t)(32 * i) + (uint32_t)bit;
                         if (ends >> bit & 1)
                             scratch.run_end[own - 1] = at;
                         if (begins >> bit & 1)
                             scratch.run_begin[own++] = at;
                     }
                     run += __shfl_sync(FULL_WARP_MASK, sum, 31);
                 });
}

/* ---- measure ---- */

/* The number in a field of run i: the gap before it, its length less one, or
 * its color. */
template <typename T>
static __device__ __forceinline__ uint32_t
number_of(const struct cuda_chunk &chunk,
          const struct specials_scratch &scratch, int field, uint64_t i)
{
    uint32_t begin = scratch.run_begin[i], color = 0;

    if (field == TERP_SPECIALS_GAP)
        return begin - (i == 0 ? 0 : scratch.run_end[i - 1]);
    if (field == TERP_SPECIALS_MORE)
        return scratch.run_end[i] - begin - 1;
    uint64_t bits = bits_of(((const T *)chunk.values)[begin]);
    while (scratch.summary->palette[color] != bits)
        color++;
    return color;
}

/* Finds the place of each batch's groups, and writes the head and the
 * palette. */
static __device__ void
finish_measure(const struct cuda_batch &batch, struct cuda_chunk &chunk,
               const struct specials_scratch &scratch)
{
    struct specials_summary *summary = scratch.summary;
    uint64_t nbatches = div_up(summary->nruns, SPECIALS_PACK_NRUNS);
    uint64_t value_nbytes = (uint64_t)batch.own_nbytes;
    uint64_t at = chunk.model_end + 2;

    for (uint64_t left = summary->nruns >> 7; left > 0; left >>= 7)
        at++;
    for (unsigned field = 0; field < summary->nfields; field++)
        at = sum_up_numbers(scratch.batch_at[field], nbatches, at);
    if (threadIdx.x != 0)
        return;
    summary->values_at = at;
    chunk.specials_end =
        at + value_nbytes *
                 (summary->ncolors > 0 ? summary->ncolors : chunk.nspecials);
    if (chunk.specials_end >= batch.raw_nbytes) {
        chunk.status = TERP_ERR_CAPACITY;
        return;
    }
    uint8_t *dst = (uint8_t *)chunk.dst;
    struct writer writer = {dst + chunk.model_end, dst + at, false};
    terp_specials_write_head(&writer, summary->nruns, (int)summary->ncolors,
                             (int)summary->mask_delta_dim);
    for (unsigned c = 0; c < summary->ncolors; c++)
        store_le(dst + at + c * value_nbytes, summary->palette[c],
                 batch.own_nbytes);
}

/* The step `measure`: finds the widths of a batch's groups, which warps take in
 * turn. */
template <typename T>
static __device__ void
measure(const struct cuda_chunk &chunk, const struct specials_scratch &scratch,
        uint64_t i)
{
    __shared__ unsigned s_nbytes[TERP_SPECIALS_NFIELDS];
    uint64_t nruns = scratch.summary->nruns;
    unsigned lane = threadIdx.x % 32, nfields = scratch.summary->nfields;

    if (threadIdx.x < TERP_SPECIALS_NFIELDS)
        s_nbytes[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned g = threadIdx.x / 32; g < SPECIALS_PACK_NGROUPS;
         g += SPECIALS_WRITE_NWARPS) {
        uint64_t group = i * SPECIALS_PACK_NGROUPS + g;
        uint64_t first = group * TERP_SPECIALS_GROUP_NNUMBERS;
        if (first >= nruns)
            break;
        uint64_t n = min_u64(TERP_SPECIALS_GROUP_NNUMBERS, nruns - first);
        for (unsigned field = 0; field < nfields; field++) {
            uint32_t all = 0;
            for (unsigned j = lane; j < n; j += 32)
                all |= number_of<T>(chunk, scratch, (int)field, first + j);
            all = warp_or(all);
            if (lane > 0)
                continue;
            int width = bit_width(all);
            scratch.width[field][group] = (uint8_t)width;
            atomicAdd(&s_nbytes[field], 1 + (unsigned)packed_nbytes(n, width));
        }
        __syncwarp();
    }
    __syncthreads();
    if (threadIdx.x < nfields)
        scratch.batch_at[threadIdx.x][i] = s_nbytes[threadIdx.x];
}

/* ---- pack ---- */

/* Byte `i` of the bit field array of n numbers of `width` bits. */
static __device__ __forceinline__ uint8_t
packed_byte(const uint32_t *numbers, unsigned n, unsigned width, unsigned i)
{
    unsigned at = 8 * i / width, nbits = (at + 1) * width - 8 * i;
    uint64_t byte = numbers[at] >> (width - nbits);

    for (; nbits < 8 && ++at < n; nbits += width)
        byte |= (uint64_t)numbers[at] << nbits;
    return (uint8_t)byte;
}

/* Writes the groups of batch `i`. First, a warp for each field finds the places
 * of its groups in the stream; after a barrier, warps take groups in turn. */
template <typename T>
static __device__ void
pack_batch(const struct cuda_chunk &chunk,
           const struct specials_scratch &scratch, uint64_t i)
{
    __shared__ uint32_t
        s_numbers[SPECIALS_WRITE_NWARPS][TERP_SPECIALS_GROUP_NNUMBERS];
    __shared__ uint64_t
        s_group_at[TERP_SPECIALS_NFIELDS][SPECIALS_PACK_NGROUPS];
    uint64_t nruns = scratch.summary->nruns;
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned nfields = scratch.summary->nfields;
    uint8_t *dst = (uint8_t *)chunk.dst;

    if (warp < nfields) {
        unsigned long long nbytes[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            uint64_t group = i * SPECIALS_PACK_NGROUPS + 2 * lane + k;
            if (group * TERP_SPECIALS_GROUP_NNUMBERS < nruns)
                nbytes[k] = 1 + packed_nbytes(TERP_SPECIALS_GROUP_NNUMBERS,
                                              scratch.width[warp][group]);
        }
        unsigned long long before = nbytes[0] + nbytes[1];
        before = warp_inclusive_sum(before);
        before += scratch.batch_at[warp][i] - nbytes[0] - nbytes[1];
        s_group_at[warp][2 * lane] = before;
        s_group_at[warp][2 * lane + 1] = before + nbytes[0];
    }
    __syncthreads();
    for (unsigned g = warp; g < SPECIALS_PACK_NGROUPS;
         g += SPECIALS_WRITE_NWARPS) {
        uint64_t group = i * SPECIALS_PACK_NGROUPS + g;
        uint64_t first = group * TERP_SPECIALS_GROUP_NNUMBERS;
        if (first >= nruns)
            break;
        unsigned n =
            (unsigned)min_u64(TERP_SPECIALS_GROUP_NNUMBERS, nruns - first);
        for (unsigned field = 0; field < nfields; field++) {
            unsigned width = scratch.width[field][group];
            uint8_t *at = dst + s_group_at[field][g];
            for (unsigned j = lane; j < n; j += 32)
                s_numbers[warp][j] =
                    number_of<T>(chunk, scratch, (int)field, first + j);
            __syncwarp();
            if (lane == 0)
                *at = (uint8_t)width;
            unsigned nbytes = (unsigned)packed_nbytes(n, (int)width);
            for (unsigned j = lane; j < nbytes; j += 32)
                at[1 + j] = packed_byte(s_numbers[warp], n, width, j);
            __syncwarp();
        }
    }
}

/* Writes the special values of a segment, one after another. The warp has the
 * segment. */
static __device__ void
pack_values(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            const struct specials_scratch &scratch, uint64_t segment)
{
    size_t nbytes = (size_t)batch.own_nbytes;
    uint64_t at = scratch.counts[SPECIAL_VALUES][segment];

    walk_segment(
        region<uint32_t>(batch, batch.at.mask), batch.nvalues, 0, segment,
        [&](uint64_t i, unsigned word, unsigned) {
            const unsigned n = (unsigned)__popc(word);
            const unsigned sum = warp_inclusive_sum(n);
            uint8_t *to = (uint8_t *)chunk.dst + scratch.summary->values_at +
                          (at + sum - n) * nbytes;
            for (; word != 0; word &= word - 1, to += nbytes) {
                const uint64_t value = 32 * i + (unsigned)__ffs((int)word) - 1;
                memcpy(to, (const uint8_t *)chunk.values + value * nbytes,
                       nbytes);
            }
            at += __shfl_sync(FULL_WARP_MASK, sum, 31);
        });
}

/* ---- shares ---- */

enum step {
    STEP_FIND,
    STEP_CHOOSE,
    STEP_LIST,
    STEP_MEASURE,
    STEP_PACK
};

/* A block's share, in shared memory. */
struct share {
    int step;         /* < 0: nothing is left */
    uint64_t first;   /* shares of all steps before */
    uint64_t nshares; /* of the step */
    uint64_t at;      /* among them */
};

/* How many shares a step has, once the step before has ended. */
static __device__ uint64_t
nshares_of(const struct specials_scratch &scratch, int step)
{
    const struct specials_summary *summary = scratch.summary;
    const uint64_t nwarps = div_up(scratch.nsegments, SPECIALS_WRITE_NWARPS);

    switch (step) {
    case STEP_FIND:
        return scratch.nsegments;
    case STEP_CHOOSE:
        return summary->ncolors == 1 ? nwarps : 0;
    case STEP_LIST:
        return nwarps;
    case STEP_MEASURE:
        return div_up(summary->nruns, SPECIALS_PACK_NRUNS);
    default:
        return div_up(summary->nruns, SPECIALS_PACK_NRUNS) +
               (summary->ncolors == 0 ? nwarps : 0);
    }
}

/* Takes the next share; thread 0 calls it. */
static __device__ void
take_share(struct cuda_chunk &chunk, const struct specials_scratch &scratch,
           struct share &share)
{
    const uint64_t taken = atomicAdd(&chunk.specials.ntaken, 1u);

    while (taken - share.first >= share.nshares) {
        if (share.step == STEP_PACK) {
            share.step = -1;
            return;
        }
        if (share.nshares > 0) {
            while (*(volatile unsigned *)&chunk.specials.nsteps <=
                   (unsigned)share.step)
                ;
            __threadfence();
        }
        if (*(volatile enum terp_status *)&chunk.status != TERP_OK) {
            share.step = -1;
            return;
        }
        share.first += share.nshares;
        share.nshares = nshares_of(scratch, ++share.step);
    }
    share.at = taken - share.first;
}

/* Finishes the step whose last share the block has ended, and lets the next one
 * begin. */
template <typename T>
static __device__ void
finish_step(const struct cuda_batch &batch, struct cuda_chunk &chunk,
            const struct specials_scratch &scratch, int step)
{
    if (step == STEP_FIND)
        finish_find<T>(batch, chunk, scratch);
    if (step == STEP_CHOOSE)
        finish_choose(batch, chunk, scratch);
    if (step == STEP_MEASURE)
        finish_measure(batch, chunk, scratch);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicExch(&chunk.specials.nsteps, (unsigned)step + 1);
    }
}

/* ---- kernel ---- */

/* Sets model_end, where the section begins, and specials_end, for a chunk
 * without special values. */
static __device__ void
skip_section(const struct cuda_batch &batch, struct cuda_chunk &chunk)
{
    chunk.specials_end = chunk.model_end = specials_begin(batch, chunk);
    if (chunk.specials_end >= batch.raw_nbytes)
        chunk.status = TERP_ERR_CAPACITY;
}

/* Whether the chunk has special values to write; the same in all threads, even
 * if another block changes the state. Has a barrier. */
static __device__ bool
is_ready(const struct cuda_chunk &chunk)
{
    bool ready = chunk.status == TERP_OK && chunk.nspecials > 0;
    return !__syncthreads_or(!ready);
}

/* Grid: (some blocks, chunks). T is an unsigned integer or float type of the
 * size of own values, C the type of coded values. Example:
 * write_specials<uint16_t, float> writes special values of half floats. */
template <typename T, typename C>
static __global__ void
__launch_bounds__(SPECIALS_WRITE_NTHREADS, WRITE_MIN_NBLOCKS)
    write_specials(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    __shared__ struct specials_scratch s_scratch;
    __shared__ struct share s_share;
    warp_colors<T> colors = {};

    if (!is_ready(chunk)) {
        if (blockIdx.x == 0 && threadIdx.x == 0 && chunk.status == TERP_OK)
            skip_section(batch, chunk);
        return;
    }
    lay_out(batch, s_scratch);
    if (threadIdx.x == 0)
        s_share = {STEP_FIND, 0, s_scratch.nsegments, 0};
    for (;;) {
        if (threadIdx.x == 0)
            take_share(chunk, s_scratch, s_share);
        __syncthreads();
        const int step = s_share.step;
        const uint64_t at = s_share.at;
        const uint64_t segment = at * SPECIALS_WRITE_NWARPS + threadIdx.x / 32;
        if (step < 0)
            return;
        if (step == STEP_FIND)
            find_in_segment<T, C>(batch, chunk, s_scratch, at, colors);
        if (step == STEP_CHOOSE)
            choose(batch, chunk, s_scratch, segment);
        if (step == STEP_LIST && segment < s_scratch.nsegments)
            list(batch, s_scratch, segment);
        if (step == STEP_MEASURE)
            measure<T>(chunk, s_scratch, at);
        if (step == STEP_PACK) {
            const uint64_t nbatches =
                div_up(s_scratch.summary->nruns, SPECIALS_PACK_NRUNS);
            if (at < nbatches)
                pack_batch<T>(chunk, s_scratch, at);
            else if (segment - nbatches * SPECIALS_WRITE_NWARPS <
                     s_scratch.nsegments)
                pack_values(batch, chunk, s_scratch,
                            segment - nbatches * SPECIALS_WRITE_NWARPS);
            __syncthreads();
        } else if (is_last_block(&chunk.specials.nfinished,
                                 (unsigned)(s_share.first + s_share.nshares))) {
            finish_step<T>(batch, chunk, s_scratch, step);
        }
    }
}

template <typename T, typename C>
static cudaError_t
launch_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_stage(batch, stream, write_specials<T, C>,
                        cuda_nblocks(batch, specials_nsegments(batch->nvalues),
                                     WRITE_MAX_NBLOCKS),
                        SPECIALS_WRITE_NTHREADS);
}

template <typename T>
static cudaError_t
launch_write_of(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->value_nbytes == 4 ? launch_write<T, float>(batch, stream)
                                    : launch_write<T, double>(batch, stream);
}

cudaError_t
cuda_specials_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    return cuda_of_width(batch->own_nbytes, launch_write<uint8_t, float>,
                         launch_write_of<uint16_t>, launch_write_of<float>,
                         launch_write_of<double>)(batch, stream);
}

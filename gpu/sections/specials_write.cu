/* Writes the section of special values, with the same bytes as
 * cpu/sections/specials.c, in five steps:
 *
 *   find     makes bit maps of special values and of runs, and the palette
 *   choose   chooses the mask delta, if there is one color
 *   list     lists where runs begin and end
 *   measure  finds the widths of groups, and so each place in the section
 *   pack     writes groups and values
 *
 * Blocks share the work of each step, which is a launch of its own; the last
 * block finishes `find`, `choose` and `measure` alone. One block does all five
 * steps of a small chunk. The first two steps are in
 * gpu/sections/specials_choose.cuh. */
#include "gpu/sections/specials_choose.cuh"

/* ---- list ---- */

/* The step `list`. Blocks take segments in turn; a thread has a piece of 16
 * values, and writes the runs that begin or end there. */
static __device__ void
list(const struct cuda_batch &batch, const struct specials_scratch &scratch)
{
    const uint16_t *mask = region<uint16_t>(batch, batch.at.mask);
    uint64_t nvalues = batch.nvalues;
    uint64_t distance = scratch.summary->mask_delta;
    bool colored = scratch.summary->ncolors > 1;

    for (uint64_t i = blockIdx.x; i < scratch.nsegments; i += gridDim.x) {
        uint64_t piece = i * SPECIALS_WRITE_NTHREADS + threadIdx.x;
        unsigned special = mask_delta_piece(mask, piece, nvalues, distance);
        unsigned next = piece_behind(mask, piece, special, nvalues, distance);
        unsigned last = piece_before(mask, piece, special, nvalues, distance);
        unsigned begins = special & ~(special << 1 | last >> 15);
        unsigned next_begins = next & ~(special >> 15);
        if (colored) {
            begins = piece_of(scratch.run_bits, piece, nvalues);
            next_begins = piece_of(scratch.run_bits, piece + 1, nvalues);
        }
        unsigned goes_on = special & ~begins,
                 next_goes_on = next & ~next_begins;
        unsigned ends = special & ~(goes_on >> 1 | next_goes_on << 15);
        uint64_t nruns = scratch.segments[i].run_at;
        uint64_t run = sum_before((unsigned)__popc(begins), &nruns);
        for (int bit = 0; bit < SPECIALS_NITEMS && (begins | ends) >> bit != 0;
             bit++) {
            uint32_t at = (uint32_t)(piece * SPECIALS_NITEMS) + bit;
            if (begins >> bit & 1)
                scratch.run_begin[run++] = at;
            if (ends >> bit & 1)
                scratch.run_end[run - 1] = at + 1;
        }
    }
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

/* The last block finds the place of each batch's groups, and writes the head
 * and the palette. */
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
    for (unsigned field = 0; field < summary->nfields; field++) {
        for (uint64_t first = 0; first < nbatches;
             first += SPECIALS_WRITE_NTHREADS) {
            uint64_t i = first + threadIdx.x;
            uint64_t *batch_at = &scratch.batch_at[field][i];
            uint64_t place = sum_before(i < nbatches ? *batch_at : 0, &at);
            if (i < nbatches)
                *batch_at = place;
        }
    }
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

/* The step `measure`: finds the widths of groups. Blocks take batches in turn,
 * and a warp groups of a batch. */
template <typename T>
static __device__ void
measure(const struct cuda_batch &batch, struct cuda_chunk &chunk,
        const struct specials_scratch &scratch)
{
    __shared__ unsigned s_nbytes[TERP_SPECIALS_NFIELDS];
    uint64_t nruns = scratch.summary->nruns;
    unsigned lane = threadIdx.x % 32, nfields = scratch.summary->nfields;

    for (uint64_t i = blockIdx.x; i * SPECIALS_PACK_NRUNS < nruns;
         i += gridDim.x) {
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
                atomicAdd(&s_nbytes[field],
                          1 + (unsigned)packed_nbytes(n, width));
            }
            __syncwarp();
        }
        __syncthreads();
        if (threadIdx.x < nfields)
            scratch.batch_at[threadIdx.x][i] = s_nbytes[threadIdx.x];
        __syncthreads();
    }
    if (is_last_block(&chunk.progress[CUDA_PROGRESS_MEASURE_RUNS], gridDim.x))
        finish_measure(batch, chunk, scratch);
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
    __syncthreads();
}

/* Writes all special values, one after another, if there is no palette. Blocks
 * take segments in turn; a thread has a piece of 16 values. */
static __device__ void
pack_values(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            const struct specials_scratch &scratch)
{
    const uint16_t *mask = region<uint16_t>(batch, batch.at.mask);
    size_t nbytes = (size_t)batch.own_nbytes;

    for (uint64_t i = blockIdx.x; i < scratch.nsegments; i += gridDim.x) {
        uint64_t piece = i * SPECIALS_WRITE_NTHREADS + threadIdx.x;
        unsigned special = piece_of(mask, piece, batch.nvalues);
        uint64_t nspecials = scratch.segments[i].special_at;
        uint64_t at = sum_before((unsigned)__popc(special), &nspecials);
        uint8_t *to =
            (uint8_t *)chunk.dst + scratch.summary->values_at + at * nbytes;
        for (; special != 0; special &= special - 1, to += nbytes) {
            uint64_t value = piece * SPECIALS_NITEMS + __ffs((int)special) - 1;
            memcpy(to, (const uint8_t *)chunk.values + value * nbytes, nbytes);
        }
    }
}

/* The step `pack`. */
template <typename T>
static __device__ void
pack(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
     const struct specials_scratch &scratch)
{
    for (uint64_t i = blockIdx.x;
         i * SPECIALS_PACK_NRUNS < scratch.summary->nruns; i += gridDim.x)
        pack_batch<T>(chunk, scratch, i);
    if (scratch.summary->ncolors == 0)
        pack_values(batch, chunk, scratch);
}

/* ---- kernels ---- */

/* The steps of a launch: one, since a step may begin only when all blocks have
 * ended the one before; or all, if a chunk has one block. */
enum {
    STEP_FIND = 1,
    STEP_CHOOSE = 2,
    STEP_LIST = 4,
    STEP_MEASURE = 8,
    STEP_PACK = 16,
    STEP_ALL = 31
};

/* Whether the chunk has special values to write; the same in all threads, even
 * if a step has changed the state. Has a barrier. */
static __device__ bool
is_ready(const struct cuda_chunk &chunk)
{
    bool ready = chunk.status == TERP_OK && chunk.nspecials > 0;
    return !__syncthreads_or(!ready);
}

/* Sets model_end, where the section begins, and specials_end if the chunk has
 * no special values. Thread 0 of the first block works. */
static __device__ void
begin_section(const struct cuda_batch &batch, struct cuda_chunk &chunk)
{
    if (blockIdx.x > 0 || threadIdx.x > 0 || chunk.status != TERP_OK)
        return;
    chunk.model_end = specials_begin(batch, chunk);
    if (chunk.nspecials > 0)
        return;
    chunk.specials_end = chunk.model_end;
    if (chunk.specials_end >= batch.raw_nbytes)
        chunk.status = TERP_ERR_CAPACITY;
}

/* Does some steps. Grid: (some blocks, chunks), or (1, chunks) for STEP_ALL. T
 * is an unsigned integer or float type of the size of own values, C the type of
 * coded values, and STEPS a set of steps. Example: write_specials<uint16_t,
 * float, STEP_FIND> finds special values of half floats. Barriers separate the
 * steps of STEP_ALL. */
template <typename T, typename C, int STEPS>
static __global__ void
__launch_bounds__(SPECIALS_WRITE_NTHREADS)
    write_specials(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    __shared__ struct specials_scratch s_scratch;

    if (STEPS & STEP_FIND)
        begin_section(batch, chunk);
    if (!is_ready(chunk))
        return;
    lay_out(batch, s_scratch);
    __syncthreads();
    if constexpr ((STEPS & STEP_FIND) != 0)
        find<T, C>(batch, chunk, s_scratch);
    if (STEPS == STEP_ALL && !is_ready(chunk))
        return;
    if (STEPS & STEP_CHOOSE)
        choose(batch, chunk, s_scratch);
    if (STEPS == STEP_ALL)
        __syncthreads();
    if (STEPS & STEP_LIST)
        list(batch, s_scratch);
    if (STEPS == STEP_ALL)
        __syncthreads();
    if (STEPS & STEP_MEASURE)
        measure<T>(batch, chunk, s_scratch);
    if (STEPS == STEP_ALL && !is_ready(chunk))
        return;
    if (STEPS & STEP_PACK)
        pack<T>(batch, chunk, s_scratch);
}

template <typename T, typename C>
static cudaError_t
launch_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    typedef void kernel(struct cuda_batch);
    static kernel *const steps[] = {
        write_specials<T, C, STEP_FIND>, write_specials<T, T, STEP_CHOOSE>,
        write_specials<T, T, STEP_LIST>, write_specials<T, T, STEP_MEASURE>,
        write_specials<T, T, STEP_PACK>};
    const uint64_t nsegments = div_up(batch->nvalues, SPECIALS_SEGMENT_NVALUES);
    struct stage_launches launches = {batch, stream};

    if (nsegments <= CUDA_SINGLE_BLOCK_MAX_NSEGMENTS)
        return launch_stage(batch, stream, write_specials<T, C, STEP_ALL>, 1,
                            SPECIALS_WRITE_NTHREADS);
    for (kernel *step : steps)
        launches.add(step, min_u64(nsegments, SPECIALS_MAX_NBLOCKS),
                     SPECIALS_WRITE_NTHREADS);
    return launches.error;
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

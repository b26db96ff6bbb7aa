/* Writes the value of a constant chunk, and the special values of any chunk,
 * over the chunk's values. Only stages that change byte order or gather wanted
 * values follow. */
#include "codec/model/coarse.h"
#include "gpu/predict/carrier.cuh"
#include "gpu/sections/specials_runs.cuh"

/* ---- made values: all, or those of a lattice ---- */

/* The number of made values before position `at` of the chunk. */
static __device__ __forceinline__ uint64_t
nwanted_before(const struct cuda_batch &batch, uint64_t at)
{
    return batch.decoding.nskipped == 0
               ? at
               : terp_coarse_nbefore(batch.d_layout, batch.d_layout + 1,
                                     batch.decoding.nskipped, at);
}

/* The position in the chunk of made value `i`. */
static __device__ __forceinline__ uint64_t
place_of_wanted(const struct cuda_batch &batch, uint64_t i)
{
    return batch.decoding.nskipped == 0
               ? i
               : terp_coarse_place(batch.d_layout, batch.d_layout + 1,
                                   batch.decoding.nskipped, i);
}

/* ---- runs ---- */

/* The made values of a batch's runs, cut to the block's share, in shared
 * memory. The made values of a run follow each other. */
struct shared_runs {
    uint32_t begin[SPECIALS_BATCH_NRUNS];  /* from the share's first one on */
    uint32_t before[SPECIALS_BATCH_NRUNS]; /* in all runs before */
    /* The offset of the run's color in the stream; without a palette, the
     * offset that the chunk's first value would have if all values were stored.
     */
    uint64_t raw_at[SPECIALS_BATCH_NRUNS];
};

/* Cuts the runs of batch `i` to the share, whose first made value is number
 * `first_wanted`. Returns the number of made values in the runs. All threads
 * call it together; ends with a barrier. */
static __device__ uint32_t
cut_runs(const struct cuda_batch &batch, const struct specials_view &view,
         uint64_t i, uint64_t first_wanted, uint64_t value_nbytes,
         struct shared_runs *s_runs)
{
    const uint64_t nbefore = view.batches[i].nspecials;
    struct specials_own_runs runs;
    unsigned long long length[SPECIALS_READ_NRUNS],
        specials_before[SPECIALS_READ_NRUNS];
    unsigned first = threadIdx.x * SPECIALS_READ_NRUNS;

    specials_read_runs(view, i, runs);
    for (int k = 0; k < SPECIALS_READ_NRUNS; k++)
        specials_before[k] = runs.length[k];
    if (view.head.ncolors == 0)
        specials_sums_before(specials_before);
    for (int k = 0; k < SPECIALS_READ_NRUNS; k++) {
        uint64_t begin = runs.begin[k];
        uint64_t end = min_u64(begin + runs.length[k], view.end);
        uint64_t from = begin < view.begin ? view.begin : begin;
        uint64_t raw = view.head.ncolors == 0
                           ? nbefore + specials_before[k] - begin
                           : runs.color[k];
        const bool is_there = from < end;
        from = is_there ? nwanted_before(batch, from) : first_wanted;
        length[k] = is_there ? nwanted_before(batch, end) - from : 0;
        s_runs->begin[first + k] = (uint32_t)(from - first_wanted);
        s_runs->raw_at[first + k] = view.raw_at + raw * value_nbytes;
    }
    uint32_t nvalues = (uint32_t)specials_sums_before(length);
    for (int k = 0; k < SPECIALS_READ_NRUNS; k++)
        s_runs->before[first + k] = (uint32_t)length[k];
    __syncthreads();
    return nvalues;
}

/* Writes the made values of all runs. Threads take values in turn, so long and
 * short runs take equal shares of the work. */
template <typename T>
static __device__ void
place_runs(const struct cuda_batch &batch, const struct specials_view &view,
           const struct shared_runs *s_runs, uint32_t nvalues,
           uint64_t first_wanted, word_of<T> *values)
{

    for (uint32_t i = threadIdx.x; i < nvalues; i += SPECIALS_READ_NTHREADS) {
        /* The last run with at most i values before it. A run without values in
         * the share has as many before it as the next one, so it is not
         * found. */
        unsigned run = 0;
        for (unsigned step = SPECIALS_BATCH_NRUNS / 2; step > 0; step /= 2)
            if (s_runs->before[run + step] <= i)
                run += step;
        const uint64_t wanted =
            first_wanted + s_runs->begin[run] + (i - s_runs->before[run]);
        uint64_t raw_at = s_runs->raw_at[run];
        if (view.head.ncolors == 0)
            raw_at += place_of_wanted(batch, wanted) * sizeof(T);
        values[wanted] = (word_of<T>)load_le(view.stream + raw_at, sizeof(T));
    }
}

/* ---- one value for all, or for all special ones ---- */

/* Writes `value` to the special made values of a share, or to its made values
 * that are not special. A warp loads 32 words of the mask at once. */
template <typename T>
static __device__ __forceinline__ void
fill(const struct cuda_batch &batch, uint64_t begin, uint64_t end, bool special,
     word_of<T> value, word_of<T> *values)
{
    const uint32_t *mask = region<uint32_t>(batch, batch.decoding.nskipped == 0
                                                       ? batch.at.mask
                                                       : batch.at.lattice_mask);
    const bool has_mask = batch.d_chunks[blockIdx.y].has_specials;
    const unsigned lane = threadIdx.x % 32;
    const uint64_t first = begin + 32 * (threadIdx.x - lane);
    const bool has_word = has_mask && first + 32 * lane < end;
    const uint32_t word = has_word ? mask[first / 32 + lane] : 0;

    static_assert(SPECIALS_SHARE_NVALUES == 32 * SPECIALS_READ_NTHREADS,
                  "Each thread has one word of the block's share.");
    const uint32_t own = special ? word : ~word;
    for (unsigned left = __ballot_sync(FULL_WARP_MASK, own != 0); left != 0;
         left &= left - 1) {
        const int k = __ffs((int)left) - 1;
        const uint64_t i = first + 32 * (unsigned)k + lane;
        if ((__shfl_sync(FULL_WARP_MASK, own, k) >> lane & 1) != 0 && i < end)
            values[i] = value;
    }
}

/* The own value of a constant chunk, from its carrier. T: as in
 * read_specials. */
template <typename T>
static __device__ __forceinline__ word_of<T>
constant_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    const uint64_t bits = chunk.constant_bits;

    if (cuda_form_is_of_integers(batch.form))
        return (
            word_of<T>)(batch.form == CUDA_INTS_F32
                            ? integer_of_carried<float>(batch, chunk, bits)
                            : integer_of_carried<double>(batch, chunk, bits));
    if constexpr (sizeof(T) == 2)
        return terp_half_of_f32_bits(batch.chunk.type, (uint32_t)bits);
    else
        return (word_of<T>)bits;
}

/* Writes the special values of a share of the chunk, and the constant value to
 * a share of the made values. Ends with a barrier if there are runs. */
template <typename T>
static __device__ __forceinline__ void
read_share(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
           uint64_t share, struct shared_runs *s_runs)
{
    const uint64_t nwanted =
        batch.d_layout[batch.decoding.nskipped > 0].nvalues;
    const uint64_t begin = share * SPECIALS_SHARE_NVALUES;
    const uint64_t end = min_u64(begin + SPECIALS_SHARE_NVALUES, nwanted);
    word_of<T> *values = (word_of<T> *)chunk.values;

    if (chunk.coding == TERP_CODING_CONSTANT)
        fill<T>(batch, begin, end, false, constant_of<T>(batch, chunk), values);
    if (!chunk.has_specials)
        return;
    const struct specials_view view = specials_view_of(batch, chunk, share);
    if (view.head.ncolors == 1) {
        fill<T>(batch, begin, end, true,
                (word_of<T>)load_le(view.stream + view.raw_at, sizeof(T)),
                values);
        return;
    }
    const uint64_t first_wanted = nwanted_before(batch, view.begin);
    for (uint64_t i = specials_first_batch(view);
         i < view.nbatches && view.batches[i].end < view.end; i++) {
        uint32_t nplaced =
            cut_runs(batch, view, i, first_wanted, sizeof(T), s_runs);
        place_runs<T>(batch, view, s_runs, nplaced, first_wanted, values);
        __syncthreads();
    }
}

/* The most blocks of a chunk. Blocks take shares in turn; most chunks have
 * nothing to do, so blocks should be few. */
#define MAX_NBLOCKS 1056

/* Writes special and constant values. Grid: (some blocks, chunks). Blocks take
 * shares of 16384 values in turn. T is a type of the size of an own value:
 * uint8_t, uint16_t, float or double. Shared: struct shared_runs, 16 bytes a
 * run of a batch. */
template <typename T>
static __global__ void
__launch_bounds__(SPECIALS_READ_NTHREADS)
    read_specials(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    __shared__ struct shared_runs s_runs;

    if (chunk.status != TERP_OK ||
        (chunk.coding != TERP_CODING_CONSTANT && !chunk.has_specials))
        return;
    for (uint64_t share = blockIdx.x;
         share * SPECIALS_SHARE_NVALUES < batch.nvalues; share += gridDim.x)
        read_share<T>(batch, chunk, share, &s_runs);
}

cudaError_t
cuda_specials_read(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_stage(
        batch, stream,
        cuda_of_width(batch->own_nbytes, read_specials<uint8_t>,
                      read_specials<uint16_t>, read_specials<float>,
                      read_specials<double>),
        min_u64(div_up(batch->nvalues, SPECIALS_SHARE_NVALUES), MAX_NBLOCKS),
        SPECIALS_READ_NTHREADS);
}

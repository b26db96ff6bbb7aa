/* The last stage of decoding but for byte order: writes the value of a constant
 * chunk, and the special values of any chunk, over what is in dst. */
#include "gpu/predict/carrier.cuh"
#include "gpu/sections/specials_runs.cuh"

/* Shared memory: a batch's runs, cut to the block's share. */
struct shared_runs {
    uint32_t begin[SPECIALS_BATCH_NRUNS];  /* in the share */
    uint32_t before[SPECIALS_BATCH_NRUNS]; /* values of the runs before */
    uint64_t raw_at[SPECIALS_BATCH_NRUNS]; /* of its first, in the stream */
};

/* Cuts the runs of batch `i` to the share. Returns how many values they have
 * there. */
static __device__ uint32_t
cut_runs(const struct specials_view &view, uint64_t i, uint64_t value_nbytes,
         struct shared_runs *s_runs)
{
    const struct specials_batch &batch = view.batches[i];
    struct specials_own_runs runs;
    unsigned long long length[SPECIALS_READ_NRUNS], rank[SPECIALS_READ_NRUNS];
    unsigned first = threadIdx.x * SPECIALS_READ_NRUNS;

    specials_read_runs(view, i, runs);
    for (int k = 0; k < SPECIALS_READ_NRUNS; k++)
        rank[k] = runs.length[k];
    if (view.head.ncolors == 0)
        specials_sums_before(rank);
    for (int k = 0; k < SPECIALS_READ_NRUNS; k++) {
        uint64_t begin = runs.begin[k];
        uint64_t end = min_u64(begin + runs.length[k], view.end);
        uint64_t from = begin < view.begin ? view.begin : begin;
        uint64_t raw = view.head.ncolors == 0
                           ? batch.nspecials + rank[k] + (from - begin)
                           : runs.color[k];
        length[k] = from < end ? end - from : 0;
        s_runs->begin[first + k] = (uint32_t)(from - view.begin);
        s_runs->raw_at[first + k] = view.raw_at + raw * value_nbytes;
    }
    uint32_t nvalues = (uint32_t)specials_sums_before(length);
    for (int k = 0; k < SPECIALS_READ_NRUNS; k++)
        s_runs->before[first + k] = (uint32_t)length[k];
    __syncthreads();
    return nvalues;
}

/* Threads take the values of all runs in turn, however long these are. */
template <typename T>
static __device__ void
place_runs(const struct specials_view &view, const struct shared_runs *s_runs,
           uint32_t nvalues, word_of<T> *share)
{
    uint64_t stride = view.head.ncolors == 0 ? sizeof(T) : 0;

    for (uint32_t i = threadIdx.x; i < nvalues; i += SPECIALS_READ_NTHREADS) {
        /* The last run with no more than i values before it: a run without
         * values in the share has as many before it as the next one. */
        unsigned run = 0;
        for (unsigned step = SPECIALS_BATCH_NRUNS / 2; step > 0; step /= 2)
            if (s_runs->before[run + step] <= i)
                run += step;
        uint32_t within = i - s_runs->before[run];
        const uint8_t *raw =
            view.stream + s_runs->raw_at[run] + within * stride;
        share[s_runs->begin[run] + within] =
            (word_of<T>)load_le(raw, sizeof(T));
    }
}

/* Writes the one color where the mask has bits. */
template <typename T>
static __device__ void
place_color(const struct specials_view &view, const uint32_t *mask,
            word_of<T> *share)
{
    const word_of<T> color =
        (word_of<T>)load_le(view.stream + view.raw_at, sizeof(T));

    for (unsigned i = threadIdx.x; i < view.end - view.begin;
         i += SPECIALS_READ_NTHREADS)
        if (mask[(view.begin + i) / 32] >> (i % 32) & 1)
            share[i] = color;
}

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

/* Grid: x cuts a chunk into shares, y chunks. A block owns the values of its
 * share. */
template <typename T>
static __global__ void
__launch_bounds__(SPECIALS_READ_NTHREADS)
    read_specials(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    __shared__ struct shared_runs s_runs;
    const uint64_t begin = (uint64_t)blockIdx.x * SPECIALS_SHARE_NVALUES;
    const uint64_t nvalues =
        min_u64(SPECIALS_SHARE_NVALUES, batch.nvalues - begin);
    bool constant = chunk.coding == TERP_CODING_CONSTANT;

    if (chunk.status != TERP_OK || (!constant && !chunk.has_specials))
        return;
    word_of<T> *share = (word_of<T> *)chunk.values + begin;
    if (constant) {
        const word_of<T> value = constant_of<T>(batch, chunk);
        for (unsigned i = threadIdx.x; i < nvalues; i += SPECIALS_READ_NTHREADS)
            share[i] = value;
    }
    if (!chunk.has_specials)
        return;
    const struct specials_view view =
        specials_view_of(batch, chunk, blockIdx.x);
    __syncthreads();
    if (view.head.ncolors == 1) {
        place_color<T>(view, region<uint32_t>(batch, blockIdx.y, batch.at.mask),
                       share);
        return;
    }
    for (uint64_t i = specials_first_batch(view);
         i < view.nbatches && view.batches[i].end < view.end; i++) {
        uint32_t nplaced = cut_runs(view, i, sizeof(T), &s_runs);
        place_runs<T>(view, &s_runs, nplaced, share);
        __syncthreads();
    }
}

cudaError_t
cuda_specials_read(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_stage(batch, stream,
                        batch->own_nbytes == 1   ? read_specials<uint8_t>
                        : batch->own_nbytes == 2 ? read_specials<uint16_t>
                        : batch->own_nbytes == 4 ? read_specials<float>
                                                 : read_specials<double>,
                        div_up(batch->nvalues, SPECIALS_SHARE_NVALUES),
                        SPECIALS_READ_NTHREADS);
}

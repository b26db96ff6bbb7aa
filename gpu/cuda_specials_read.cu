/* Floor 3: the value of a constant chunk and the special values of any, put
 * into place. cuda_model_read has walked over the section, found that it is
 * sound, and left its batches in the region `mask`. */
#include <cub/cub.cuh>

#include "cuda_specials.cuh"
#include "cuda_values.cuh"

#define NTHREADS 512
#define NRUNS (SPECIALS_BATCH_NRUNS / NTHREADS) /* of a thread in a batch */

/* Values that a block owns. */
#define SHARE_NVALUES 16384

typedef cub::BlockScan<unsigned long long, NTHREADS, cub::BLOCK_SCAN_WARP_SCANS>
    sum_scan;

/* What falls into a block's share of a batch's runs, in shared memory. */
struct shared_runs {
    uint64_t group_at[SPECIALS_NFIELDS][SPECIALS_BATCH_NGROUPS];
    uint32_t begin[SPECIALS_BATCH_NRUNS];   /* in the share */
    uint32_t before[SPECIALS_BATCH_NRUNS];  /* values of the runs before */
    uint64_t word_at[SPECIALS_BATCH_NRUNS]; /* of the first, in the stream */
};

/* A block's view of its chunk. */
struct view {
    const uint8_t *stream;
    struct specials_head head;
    uint64_t words_at;   /* palette or all values */
    uint64_t begin, end; /* of the share */
    int value_nbytes;
};

/* Sums before each of a thread's numbers, and of all. */
static __device__ unsigned long long
sums_before(unsigned long long (&numbers)[NRUNS])
{
    __shared__ typename sum_scan::TempStorage s_scan;
    unsigned long long all;

    __syncthreads();
    sum_scan(s_scan).ExclusiveSum(numbers, numbers, all);
    return all;
}

/* Cuts the runs of batch `at` to the share. Returns how many values are left.
 * A thread owns NRUNS runs in a row. */
static __device__ uint32_t
cut_runs(const struct view &view, const struct specials_batch &batch,
         uint64_t at, struct shared_runs *s_runs)
{
    uint64_t left = view.head.nruns - at * SPECIALS_BATCH_NRUNS;
    uint64_t value_nbytes = (uint64_t)view.value_nbytes;
    uint64_t number[NRUNS][SPECIALS_NFIELDS] = {};
    unsigned long long length[NRUNS], sum[NRUNS], rank[NRUNS];
    unsigned first = threadIdx.x * NRUNS;
    unsigned group = threadIdx.x % SPECIALS_BATCH_NGROUPS;
    int own_field = (int)threadIdx.x / SPECIALS_BATCH_NGROUPS;

    if (own_field < view.head.nfields)
        s_runs->group_at[own_field][group] =
            specials_group_at(batch, own_field, group);
    __syncthreads();
    for (int k = 0; k < NRUNS; k++) {
        bool is_there = first + k < left;
        group = (first + k) / SPECIALS_GROUP_NNUMBERS;
        for (int field = 0; is_there && field < view.head.nfields; field++)
            number[k][field] =
                specials_number(view.stream, s_runs->group_at[field][group],
                                batch.width[field][group],
                                (first + k) % SPECIALS_GROUP_NNUMBERS);
        length[k] = is_there ? number[k][SPECIALS_MORE] + 1 : 0;
        sum[k] = length[k] + number[k][SPECIALS_GAP];
        rank[k] = length[k];
    }
    sums_before(sum);
    if (view.head.ncolors == 0)
        sums_before(rank);
    for (int k = 0; k < NRUNS; k++) {
        uint64_t begin = batch.end + sum[k] + number[k][SPECIALS_GAP];
        uint64_t end = min_u64(begin + length[k], view.end);
        uint64_t from = begin < view.begin ? view.begin : begin;
        uint64_t word = view.head.ncolors == 0
                            ? batch.nspecials + rank[k] + (from - begin)
                            : number[k][SPECIALS_COLOR];
        length[k] = from < end ? end - from : 0;
        s_runs->begin[first + k] = (uint32_t)(from - view.begin);
        s_runs->word_at[first + k] = view.words_at + word * value_nbytes;
    }
    uint32_t nvalues = (uint32_t)sums_before(length);
    for (int k = 0; k < NRUNS; k++)
        s_runs->before[first + k] = (uint32_t)length[k];
    __syncthreads();
    return nvalues;
}

/* The last run with no more than i values before it. Those without values
 * stand before the one after them. */
static __device__ __forceinline__ unsigned
find_run(const struct shared_runs *s_runs, uint32_t i)
{
    unsigned run = 0;

    for (unsigned step = SPECIALS_BATCH_NRUNS / 2; step > 0; step /= 2)
        if (s_runs->before[run + step] <= i)
            run += step;
    return run;
}

/* Threads take the values of all runs in turn, however long these are. */
template <typename T>
static __device__ void
place_runs(const struct view &view, const struct shared_runs *s_runs,
           uint32_t nvalues, word_of<T> *share)
{
    uint64_t stride = view.head.ncolors == 0 ? sizeof(T) : 0;

    for (uint32_t i = threadIdx.x; i < nvalues; i += NTHREADS) {
        unsigned run = find_run(s_runs, i);
        uint32_t within = i - s_runs->before[run];
        const uint8_t *word =
            view.stream + s_runs->word_at[run] + within * stride;
        share[s_runs->begin[run] + within] =
            (word_of<T>)load_le(word, sizeof(T));
    }
}

/* Sets the share's bits of values of all runs. */
static __device__ void
mark_runs(const struct shared_runs *s_runs, uint32_t nvalues, uint32_t *s_bits)
{
    for (uint32_t i = threadIdx.x; i < nvalues; i += NTHREADS) {
        unsigned run = find_run(s_runs, i);
        uint32_t at = s_runs->begin[run] + (i - s_runs->before[run]);
        atomicOr(&s_bits[at / 32], 1u << (at % 32));
    }
}

static __device__ __forceinline__ void
take_share(const struct cuda_batch &batch, struct view *view)
{
    view->begin = (uint64_t)blockIdx.x * SHARE_NVALUES;
    view->end = min_u64(view->begin + SHARE_NVALUES, batch.nvalues);
}

static __device__ __forceinline__ void
take_head(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
          struct view *view)
{
    view->stream = (const uint8_t *)chunk.src;
    view->value_nbytes = batch.value_nbytes;
    specials_read_head(view->stream, chunk.model_end, chunk.specials_end,
                       batch.nvalues, &view->head);
    const uint64_t nwords = view->head.ncolors == 0
                                ? chunk.nspecials
                                : (uint64_t)view->head.ncolors;
    view->words_at = chunk.specials_end - (uint64_t)batch.value_nbytes * nwords;
}

/* Batches have their runs in order: the last one that may reach `value`. */
static __device__ uint64_t
find_batch(const struct specials_batch *batches, uint64_t nbatches,
           uint64_t value)
{
    uint64_t low = 0, high = nbatches;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (batches[middle].end <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Grid: x cuts a chunk into shares of SHARE_NVALUES, y chunks. A block owns
 * the values of its share. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) read_specials(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    __shared__ struct shared_runs s_runs;
    bool constant = chunk.coding == TERP_CODING_CONSTANT;
    struct view view;

    if (chunk.status != TERP_OK || (!constant && !chunk.has_specials))
        return;
    take_share(batch, &view);
    word_of<T> *share = (word_of<T> *)chunk.dst + view.begin;
    if (constant)
        for (unsigned i = threadIdx.x; i < view.end - view.begin; i += NTHREADS)
            share[i] = (word_of<T>)chunk.constant_bits;
    if (!chunk.has_specials)
        return;
    __syncthreads();
    take_head(batch, chunk, &view);
    const struct specials_batch *batches =
        region<struct specials_batch>(batch, blockIdx.y, batch.at.mask);
    uint64_t nbatches = div_up(view.head.nruns, SPECIALS_BATCH_NRUNS);
    for (uint64_t i = find_batch(batches, nbatches, view.begin);
         i < nbatches && batches[i].end < view.end; i++) {
        uint32_t nvalues = cut_runs(view, batches[i], i, &s_runs);
        place_runs<T>(view, &s_runs, nvalues, share);
        __syncthreads();
    }
}

/* Grid and ownership as before. */
static __global__ void
__launch_bounds__(NTHREADS) mark_specials(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    __shared__ struct shared_runs s_runs;
    __shared__ uint32_t s_bits[SHARE_NVALUES / 32];
    struct view view;

    if (chunk.status != TERP_OK || chunk.coding != TERP_CODING_RATIO ||
        !chunk.has_specials)
        return;
    for (unsigned i = threadIdx.x; i < SHARE_NVALUES / 32; i += NTHREADS)
        s_bits[i] = 0;
    take_share(batch, &view);
    take_head(batch, chunk, &view);
    const struct specials_batch *batches =
        region<struct specials_batch>(batch, blockIdx.y, batch.at.mask);
    const uint64_t nbatches = div_up(view.head.nruns, SPECIALS_BATCH_NRUNS);
    __syncthreads();
    for (uint64_t i = find_batch(batches, nbatches, view.begin);
         i < nbatches && batches[i].end < view.end; i++) {
        uint32_t nvalues = cut_runs(view, batches[i], i, &s_runs);
        mark_runs(&s_runs, nvalues, s_bits);
        __syncthreads();
    }
    uint32_t *bits =
        region<uint32_t>(batch, blockIdx.y, batch.at.special_bits) +
        view.begin / 32;
    /* Words of 64 bits are whole. */
    const uint64_t nwords = div_up(view.end - view.begin, 64) * 2;
    for (unsigned i = threadIdx.x; i < nwords; i += NTHREADS)
        bits[i] = s_bits[i];
}

cudaError_t
cuda_specials_mark(const struct cuda_batch *batch, cudaStream_t stream)
{
    dim3 grid((unsigned)div_up(batch->nvalues, SHARE_NVALUES),
              (unsigned)batch->nchunks);

    return batch->coding == TERP_CODING_RATIO
               ? launch(mark_specials, grid, NTHREADS, 0, stream, *batch)
               : cudaSuccess;
}

cudaError_t
cuda_specials_read(const struct cuda_batch *batch, cudaStream_t stream)
{
    dim3 grid((unsigned)div_up(batch->nvalues, SHARE_NVALUES),
              (unsigned)batch->nchunks);

    return batch->value_nbytes == 4
               ? launch(read_specials<float>, grid, NTHREADS, 0, stream, *batch)
               : launch(read_specials<double>, grid, NTHREADS, 0, stream,
                        *batch);
}

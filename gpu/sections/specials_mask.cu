/* Makes the mask of special values from their runs. With a mask delta, runs
 * tell where the mask differs from itself some values before; the differences
 * are then summed up (mask_sums.cuh). */
#include "gpu/sections/mask_sums.cuh"
#include "gpu/sections/specials_runs.cuh"

static_assert(SPECIALS_SHARE_NVALUES == 32 * SPECIALS_READ_NTHREADS,
              "Each thread makes one word of its block's share.");

/* The most blocks of a chunk that sum up or fill a mask. Blocks take shares in
 * turn; most chunks have nothing to do, so blocks should be few. */
#define MAX_NSUM_BLOCKS 264
#define MAX_NFILL_BLOCKS 1056

/* ---- words of a share ---- */

/* Toggles, in the words of a share, the bits where runs begin and end. A bit of
 * the mask is then the parity of all toggled bits up to it. */
static __device__ void
toggle_ends(const struct specials_view &view,
            const struct specials_own_runs &runs, uint32_t *s_word)
{
    for (int k = 0; k < SPECIALS_READ_NRUNS; k++) {
        uint64_t end = runs.begin[k] + runs.length[k];
        uint64_t begin =
            runs.begin[k] < view.begin ? view.begin : runs.begin[k];
        if (begin >= end || begin >= view.end || end <= view.begin)
            continue;
        unsigned from = (unsigned)(begin - view.begin);
        atomicXor(&s_word[from / 32], 1u << from % 32);
        if (end >= view.end)
            continue;
        unsigned to = (unsigned)(end - view.begin);
        atomicXor(&s_word[to / 32], 1u << to % 32);
    }
}

/* The parity of `odd` over all threads before this one. Has a barrier. */
static __device__ bool
parity_before(bool odd)
{
    __shared__ unsigned s_odd[SPECIALS_READ_NTHREADS / 32];
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned odds = __ballot_sync(FULL_WARP_MASK, odd);

    if (lane == 0)
        s_odd[warp] = odds;
    __syncthreads();
    unsigned before = odds & ((1u << lane) - 1);
    for (unsigned i = 0; i < warp; i++)
        before ^= s_odd[i];
    return __popc(before) & 1;
}

/* Runs of a batch; `batch` is none if they have not been read. */
struct read_runs {
    struct specials_own_runs own;
    uint64_t batch;
};

/* Makes the words of the block's share of the mask; thread i has word i. `runs`
 * holds the batch of runs that the block has read last. The next share may need
 * the same batch. */
static __device__ void
fill_share(const struct cuda_batch &batch, const struct specials_view &view,
           struct read_runs &runs)
{
    __shared__ uint32_t s_word[SPECIALS_READ_NTHREADS];
    uint32_t *mask = region<uint32_t>(batch, batch.at.mask);
    const uint64_t at = view.begin / 32 + threadIdx.x;

    s_word[threadIdx.x] = 0;
    __syncthreads();
    for (uint64_t i = specials_first_batch(view);
         i < view.nbatches && view.batches[i].end < view.end; i++) {
        if (runs.batch != i)
            specials_read_runs(view, i, runs.own);
        runs.batch = i;
        toggle_ends(view, runs.own, s_word);
    }
    __syncthreads();
    uint32_t word = s_word[threadIdx.x];
    for (int distance = 1; distance < 32; distance *= 2)
        word ^= word << distance;
    if (parity_before(word >> 31))
        word = ~word;
    if (view.end < 32 * (at + 1))
        word &= view.end <= 32 * at ? 0 : (1u << (view.end - 32 * at)) - 1;
    if (at < 2 * div_up(batch.nvalues, 64))
        mask[at] = word;
}

/* ---- sums of a mask delta ---- */

/* Divides the chunk's mask. The sums use the region `runs`, whose batches are
 * no longer needed. */
static __device__ struct mask_cut
cut_mask_of(const struct cuda_batch &batch, uint64_t distance)
{
    return cut_mask(region<uint32_t>(batch, batch.at.mask),
                    region<uint32_t>(batch, batch.at.runs), batch.nvalues,
                    distance);
}

/* ---- kernels ---- */

/* Whether the chunk has special values; the same in all threads, even if a
 * stage on another stream changes the state meanwhile. Has a barrier. */
static __device__ bool
has_mask(const struct cuda_chunk &chunk)
{
    bool ready = chunk.status == TERP_OK && chunk.has_specials;
    return !__syncthreads_or(!ready);
}

/* Makes masks from runs. Grid: (some blocks, chunks). A block has consecutive
 * shares of 16384 values, and a thread owns a word of 32. SINGLE_BLOCK: the
 * last block also undoes the mask delta. Shared: 2 KB of words, and the shared
 * memory of specials_read_runs. */
template <bool SINGLE_BLOCK>
static __global__ void
__launch_bounds__(SPECIALS_READ_NTHREADS)
    fill_mask(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);

    if (!has_mask(chunk))
        return;
    const uint64_t nshares = div_up(batch.nvalues, SPECIALS_SHARE_NVALUES);
    const uint64_t n = div_up(nshares, gridDim.x);
    const uint64_t end = min_u64(nshares, (blockIdx.x + 1) * n);
    struct specials_view view = specials_view_of(batch, chunk, blockIdx.x * n);
    struct read_runs runs = {{}, UINT64_MAX};
    for (uint64_t share = blockIdx.x * n; share < end; share++) {
        specials_view_move(batch, share, view);
        fill_share(batch, view, runs);
    }
    const uint64_t distance = view.head.mask_delta_distance;
    if (!SINGLE_BLOCK || distance == 0 ||
        !is_last_block(&chunk.progress[CUDA_PROGRESS_MASK], gridDim.x))
        return;
    const struct mask_cut cut = cut_mask_of(batch, distance);
    sum_parts(cut, threadIdx.x, SPECIALS_READ_NTHREADS);
    __syncthreads();
    sum_up(cut, threadIdx.x, SPECIALS_READ_NTHREADS);
}

/* Undoes the mask delta of large chunks. Grid: (some blocks, chunks). Threads
 * take parts of columns in turn. The first launch, SUM_UP false, finds the sums
 * of parts, and the second one sums up their bits. */
template <bool SUM_UP>
static __global__ void
__launch_bounds__(SPECIALS_READ_NTHREADS)
    sum_mask(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const uint64_t nthreads = (uint64_t)gridDim.x * SPECIALS_READ_NTHREADS;
    const uint64_t first =
        (uint64_t)blockIdx.x * SPECIALS_READ_NTHREADS + threadIdx.x;

    if (!has_mask(chunk))
        return;
    const uint64_t distance =
        specials_view_of(batch, chunk, 0).head.mask_delta_distance;
    if (distance == 0)
        return;
    const struct mask_cut cut = cut_mask_of(batch, distance);
    if (SUM_UP)
        sum_up(cut, first, nthreads);
    else
        sum_parts(cut, first, nthreads);
}

cudaError_t
cuda_specials_mask(const struct cuda_batch *batch, cudaStream_t stream)
{
    const uint64_t nshares = div_up(batch->nvalues, SPECIALS_SHARE_NVALUES);
    const uint64_t nfills = min_u64(nshares, MAX_NFILL_BLOCKS);
    const uint64_t nsums = min_u64(nshares, MAX_NSUM_BLOCKS);

    if (batch->nvalues <= CUDA_SINGLE_BLOCK_MAX_NSUMMED)
        return launch_stage(batch, stream, fill_mask<true>, nfills,
                            SPECIALS_READ_NTHREADS);
    struct stage_launches launches = {batch, stream};
    launches.add(fill_mask<false>, nfills, SPECIALS_READ_NTHREADS);
    launches.add(sum_mask<false>, nsums, SPECIALS_READ_NTHREADS);
    launches.add(sum_mask<true>, nsums, SPECIALS_READ_NTHREADS);
    return launches.error;
}

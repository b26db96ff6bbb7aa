/* Functions of the engine's table for streams of ranks and of grids: sampling,
 * which finds the chunks that are left to the CPU, and decoding. */
#include "codec/format/ranks.h"
#include "codec/format/types.h"
#include "codec/model/grid.h"
#include "codec/model/ranks.h"
#include "gpu/block/count_keys.cuh"
#include "gpu/block/swap.cuh"
#include "gpu/engine/places.cuh"
#include "gpu/engine/session.cuh"

#define NTHREADS 256
#define COUNT_NTHREADS 1024 /* a lone chunk has one block */

/* ---- samples ---- */

/* Samples of chunks in device memory. The samples of a chunk follow those of
 * the chunk before. */
struct sampling {
    struct terp_chunk chunk;
    uint64_t nvalues, nsamples;
    int slots_nbits;
    const void *const *src;
    uint64_t *keys;
    unsigned *slots; /* initially 0 */
    struct key_counts *counts;
};

/* A block counts how many different values the samples of a chunk have. Grid:
 * chunks. */
static __global__ void
__launch_bounds__(COUNT_NTHREADS) count_samples(const struct sampling it)
{
    begin_kernel();
    const uint64_t nslots = UINT64_C(1) << it.slots_nbits;
    uint64_t *keys = it.keys + blockIdx.x * it.nsamples;
    unsigned *slots = it.slots + blockIdx.x * nslots;

    for (uint64_t i = threadIdx.x; i < it.nsamples; i += COUNT_NTHREADS)
        keys[i] = terp_ranks_sampled_key(&it.chunk, it.src[blockIdx.x],
                                         it.nvalues, i);
    __syncthreads();
    const struct key_counts own =
        count_keys<COUNT_NTHREADS>(keys, it.nsamples, slots, it.slots_nbits);
    atomicAdd(&it.counts[blockIdx.x].ndistinct, own.ndistinct);
    atomicAdd(&it.counts[blockIdx.x].nrepeated, own.nrepeated);
}

/* Counts samples on the device, and copies the keys of chunks that may have few
 * different values to the host. */
static enum terp_status
sample_on_device(struct terp_session *session, const struct terp_chunk *chunk,
                 uint64_t n, const void *const *src, uint64_t *keys_ret,
                 bool *maybe_ret)
{
    struct sampling it = {};
    uint64_t at = 0;

    it.chunk = *chunk;
    it.nvalues = terp_chunk_nvalues(chunk);
    it.nsamples = terp_ranks_nsamples(it.nvalues);
    it.slots_nbits = terp_ranks_slots_nbits(it.nsamples);
    const uint64_t slots_nbytes = n * sizeof *it.slots << it.slots_nbits;
    const uint64_t src_at = place_take(&at, n * sizeof *src);
    const uint64_t keys_at = place_take(&at, n * it.nsamples * sizeof *it.keys);
    const uint64_t counts_at = place_take(&at, n * sizeof *it.counts);
    const uint64_t slots_at = place_take(&at, slots_nbytes);
    const cuda_session_memory memory(session, at);
    const cuda_host_array<struct key_counts> counts(n);
    enum terp_status st = TERP_ERR_MEMORY;

    it.src = (const void *const *)(memory.at + src_at);
    it.keys = (uint64_t *)(memory.at + keys_at);
    it.counts = (struct key_counts *)(memory.at + counts_at);
    it.slots = (unsigned *)(memory.at + slots_at);
    const auto count = [&](cuda_work &work) {
        work.copy(memory.at + src_at, src, n * sizeof *src);
        work.zero(it.counts, slots_at - counts_at + slots_nbytes);
        work.run(count_samples, dim3((unsigned)n), COUNT_NTHREADS, it);
        work.copy(counts, it.counts, n * sizeof *counts);
    };
    const auto fetch = [&](cuda_work &work) {
        for (uint64_t k = 0; k < n; k++)
            if (maybe_ret[k])
                work.copy(keys_ret + k * it.nsamples, it.keys + k * it.nsamples,
                          it.nsamples * sizeof *keys_ret);
    };
    if (memory.at != NULL && counts != NULL)
        st = cuda_session_do(session, "sampling values", count);
    bool any = false;
    for (uint64_t k = 0; st == TERP_OK && k < n; k++) {
        maybe_ret[k] = terp_ranks_estimate(it.nvalues, counts[k].ndistinct,
                                           counts[k].nrepeated) > 0;
        any |= maybe_ret[k];
    }
    if (any)
        st = cuda_session_do(session, "fetching samples", fetch);
    return st;
}

enum terp_status
cuda_ranks_sample(struct terp_session *session, const struct terp_chunk *chunk,
                  uint64_t n, const void *const *src, uint64_t *keys_ret,
                  bool *maybe_ret)
{
    const uint64_t nvalues = terp_chunk_nvalues(chunk);
    const uint64_t nsamples = terp_ranks_nsamples(nvalues);

    if (!cuda_session_is_host(session, src[0]))
        return sample_on_device(session, chunk, n, src, keys_ret, maybe_ret);
    for (uint64_t k = 0; k < n; k++) {
        maybe_ret[k] = true;
        for (uint64_t i = 0; i < nsamples; i++)
            *keys_ret++ = terp_ranks_sampled_key(chunk, src[k], nvalues, i);
    }
    return TERP_OK;
}

/* Grid: chunks. A thread takes a sample. */
static __global__ void
__launch_bounds__(TERP_GRID_NSAMPLES)
    sample_grids(struct terp_chunk chunk, uint64_t nvalues,
                 const void *const *src, uint64_t *keys)
{
    begin_kernel();
    keys[(uint64_t)blockIdx.x * TERP_GRID_NSAMPLES + threadIdx.x] =
        terp_grid_sampled_key(&chunk, src[blockIdx.x], nvalues, threadIdx.x);
}

enum terp_status
cuda_grid_sample(struct terp_session *session, const struct terp_chunk *chunk,
                 uint64_t n, const void *const *src, uint64_t *keys_ret)
{
    const uint64_t nvalues = terp_chunk_nvalues(chunk);

    if (!cuda_session_is_host(session, src[0]))
        return cuda_session_sample(
            session, "sampling grids", n, src, TERP_GRID_NSAMPLES, keys_ret,
            [&](cuda_work &work, const void *const *d_src, uint64_t *keys) {
                work.run(sample_grids, dim3((unsigned)n), TERP_GRID_NSAMPLES,
                         *chunk, nvalues, d_src, keys);
            });
    for (uint64_t k = 0; k < n; k++)
        for (uint64_t i = 0; i < TERP_GRID_NSAMPLES; i++)
            *keys_ret++ = terp_grid_sampled_key(chunk, src[k], nvalues, i);
    return TERP_OK;
}

/* ---- values ---- */

/* A chunk whose ranks, or numbers on a grid, are replaced by values. */
struct ranked {
    const void *table, *ranks;
    void *values;
    uint64_t ntable;
    /* Initially 0. Set if the table does not ascend, or if a rank or number
     * stands for no value. */
    unsigned is_bad;
    int number_nbytes;
    uint64_t step; /* the values are every step-th value of the chunk */
    struct terp_grid grid;
};

template <typename W, typename R>
static __device__ __forceinline__ bool
look_up(const struct ranked &ranked, uint64_t i, uint64_t step,
        uint64_t nvalues, bool swaps)
{
    const W *table = (const W *)ranked.table;
    const R *ranks = (const R *)ranked.ranks;
    W *values = (W *)ranked.values;
    bool is_good = true;

    for (; i < nvalues; i += step) {
        const R rank = ranks[i];
        uint64_t bits = 0;
        if (rank < ranked.ntable)
            bits = table[rank];
        else if (ranked.grid.number_nbytes == 0 ||
                 !terp_grid_value(&ranked.grid, rank - ranked.ntable,
                                  i * ranked.step, sizeof(W), &bits))
            is_good = false;
        values[i] = swaps ? swapped((W)bits) : (W)bits;
    }
    return is_good;
}

/* Thread `i` of `step` checks its share of the table, and fills its share of
 * the values. Grid: x blocks that share a chunk, y chunks. */
template <typename W>
static __global__ void
__launch_bounds__(NTHREADS)
    follow_ranks(struct ranked *list, enum terp_type type, uint64_t nvalues,
                 bool swaps)
{
    begin_kernel();
    struct ranked &ranked = list[blockIdx.y];
    const uint64_t step = (uint64_t)gridDim.x * NTHREADS;
    const uint64_t first = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
    const W *table = (const W *)ranked.table;
    bool is_good = true;

    for (uint64_t i = first + 1; i < ranked.ntable; i += step)
        is_good &= terp_rank_key(type, sizeof(W), table[i - 1]) <
                   terp_rank_key(type, sizeof(W), table[i]);
    is_good &= ranked.number_nbytes == 2
                   ? look_up<W, uint16_t>(ranked, first, step, nvalues, swaps)
               : ranked.number_nbytes == 4
                   ? look_up<W, uint32_t>(ranked, first, step, nvalues, swaps)
                   : look_up<W, uint64_t>(ranked, first, step, nvalues, swaps);
    if (!is_good)
        ranked.is_bad = 1; /* all threads write the same value */
}

/* Tables, ranks and values are in the session's memory. */
enum terp_status
cuda_ranks_follow(struct terp_session *session, const struct terp_chunk *chunk,
                  uint64_t n, const struct terp_ranked *ranked,
                  enum terp_status *status_ret)
{
    const auto kernel = cuda_of_width(
        terp_value_nbytes(chunk->type), follow_ranks<uint64_t>,
        follow_ranks<uint16_t>, follow_ranks<uint32_t>, follow_ranks<uint64_t>);
    const uint64_t nvalues = terp_chunk_nvalues(chunk);

    return cuda_session_portions(n, [=](uint64_t first, uint64_t nchunks) {
        const cuda_session_list<struct ranked> list(session, nchunks);
        if (!list.is_made())
            return TERP_ERR_MEMORY;
        for (uint64_t k = 0; k < nchunks; k++) {
            const struct terp_ranked &of = ranked[first + k];
            list.items[k] = {of.table, of.ranks,         of.values, of.ntable,
                             0,        of.number_nbytes, of.step,   of.grid};
        }
        const enum terp_status st =
            cuda_session_do(session, "following ranks", [&](cuda_work &work) {
                list.upload(work);
                work.run(kernel,
                         cuda_session_grid(nchunks, nvalues, 4 * NTHREADS),
                         NTHREADS, list.on_device(), chunk->type, nvalues,
                         chunk->big_endian);
                list.download(work);
            });
        for (uint64_t k = 0; st == TERP_OK && k < nchunks; k++)
            status_ret[first + k] =
                list.items[k].is_bad ? TERP_ERR_CORRUPT : TERP_OK;
        return st;
    });
}

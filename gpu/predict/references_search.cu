/* Searches for values that repeat others, and lists them.
 *
 * All kernels work on one chunk. Unless a comment says otherwise, the grid has
 * up to MAX_NBLOCKS blocks of NTHREADS threads. A thread owns every gridDim.x *
 * NTHREADS-th item (for_own). There is no shared memory, and only atomics
 * connect threads. */
#include "gpu/predict/references_search.cuh"

#include "codec/format/references.h"
#include "gpu/block/sum.cuh"
#include "gpu/block/swap.cuh"
#include "gpu/block/warp.cuh"

/* Threads, and warps, of a block. */
#define NTHREADS 256
#define NWARPS (NTHREADS / 32)
/* The most blocks of a launch; threads take further items in turns. */
#define MAX_NBLOCKS 4096

/* A thread searches a tile. Small blocks spread few tiles over more
 * multiprocessors. */
#define TILE_NTHREADS 32

static dim3
grid_for(uint64_t n)
{
    return dim3((unsigned)min_u64(div_up(n, NTHREADS), MAX_NBLOCKS));
}

/* Calls work(i) for each item i of this thread, of n items that the grid
 * shares. */
template <typename Work>
static __device__ __forceinline__ void
for_own(uint64_t n, Work work)
{
    for (uint64_t i = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x; i < n;
         i += (uint64_t)gridDim.x * NTHREADS)
        work(i);
}

/* ---- values ---- */

template <typename Word>
static __device__ __forceinline__ Word
original_at(const struct cuda_referring &of, uint64_t i)
{
    const Word word = ((const Word *)of.original)[i];

    return of.big_endian ? swapped(word) : word;
}

/* Finds the words that are compared, and marks the usable ones. Zeros, values
 * that are not finite, fill values, and values that equal their neighbour are
 * not usable: they cost little anyway. */
template <typename Word>
static __global__ void
__launch_bounds__(NTHREADS)
    compare_values(const struct cuda_referring of, const uint64_t marker,
                   const struct cuda_search search)
{
    begin_kernel();
    unsigned nusable = 0, has_marker = 0;
    unsigned long long most = 0;

    for_own(of.nvalues, [&](uint64_t i) {
        const Word bits = original_at<Word>(of, i);
        const uint64_t word =
            terp_reference_word(of.is_float, sizeof(Word), bits);
        bool usable = word != 0 && (!of.is_float || word < of.infinity);
        for (int f = 0; f < 2; f++)
            usable &= !of.has_fill[f] || bits != (Word)of.fill[f];
        if (i > 0)
            usable &= terp_reference_word(of.is_float, sizeof(Word),
                                          original_at<Word>(of, i - 1)) != word;
        ((Word *)search.values)[i] = bits;
        search.words[i] = word;
        search.usable[i] = usable;
        nusable += usable;
        has_marker |= bits == (Word)marker;
        most = usable && word > most ? word : most;
    });
    nusable = warp_sum(nusable);
    has_marker = warp_or(has_marker);
    if (nusable > 0)
        atomicMax(&search.seen->most, most);
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&search.seen->nusable, (unsigned long long)nusable);
        atomicOr(&search.seen->has_marker, has_marker);
    }
}

/* note_integers marks the integers below the number of values that occur;
 * find_missing then finds an integer that does not occur, for the marker. */
template <typename Word>
static __global__ void
__launch_bounds__(NTHREADS)
    note_integers(const Word *values, const uint64_t nvalues, uint8_t *is_there)
{
    begin_kernel();
    for_own(nvalues, [=](uint64_t i) {
        if (values[i] < nvalues)
            is_there[values[i]] = 1;
    });
}

/* Finds the least integer below the number of values that does not occur. */
static __global__ void
__launch_bounds__(NTHREADS)
    find_missing(const uint8_t *is_there, const uint64_t nvalues,
                 struct cuda_seen *seen)
{
    begin_kernel();
    unsigned long long least = UINT64_MAX;

    for_own(nvalues, [&](uint64_t i) {
        if (!is_there[i] && i < least)
            least = i;
    });
    if (least != UINT64_MAX)
        atomicMin(&seen->missing, least);
}

template <typename Word>
static cudaError_t
compare(const struct cuda_referring *of, uint64_t marker,
        const struct cuda_search *search, cudaStream_t stream)
{
    const dim3 grid = grid_for(of->nvalues);
    uint8_t *is_there = (uint8_t *)search->hints;
    struct cuda_work work = {stream};

    work.run(compare_values<Word>, grid, NTHREADS, *of, marker, *search);
    if (of->is_float)
        return work.error;
    work.zero(is_there, of->nvalues);
    work.run(note_integers<Word>, grid, NTHREADS, (const Word *)search->values,
             of->nvalues, is_there);
    work.run(find_missing, grid, NTHREADS, is_there, of->nvalues, search->seen);
    return work.error;
}

cudaError_t
cuda_references_compare(const struct cuda_referring *of, uint64_t marker,
                        const struct cuda_search *search, cudaStream_t stream)
{
    return of->value_nbytes == 2 ? compare<uint16_t>(of, marker, search, stream)
           : of->value_nbytes == 4
               ? compare<uint32_t>(of, marker, search, stream)
               : compare<uint64_t>(of, marker, search, stream);
}

/* ---- hints ---- */

/* Returns the element of the table that holds `key`. If `takes`, a new key gets
 * an element. The position of the element depends on the order of threads. Its
 * content does not: in the end it is the first of all points with the key. */
static __device__ __forceinline__ uint64_t
place_of(const struct cuda_search &search, uint32_t key, bool takes)
{
    const uint64_t mask = (UINT64_C(1) << search.table_nbits) - 1;
    uint64_t place = (uint64_t)key << search.table_nbits >> 32;

    for (;; place = (place + 1) & mask) {
        const unsigned there = takes ? atomicCAS(&search.table[place], 0u, key)
                                     : search.table[place];
        if (there == key || there == 0)
            return place;
    }
}

/* Enters the key of each point into the table, with the first of the points
 * that have it. */
static __global__ void
__launch_bounds__(NTHREADS) insert_keys(const struct terp_repeats repeats,
                                        const struct cuda_search search)
{
    begin_kernel();
    uint32_t *first = search.table + (UINT64_C(1) << search.table_nbits);

    for_own(repeats.nvalues, [&](uint64_t i) {
        const uint32_t key = terp_reference_key(&repeats, i);
        search.keys[i] = key;
        if (key != 0)
            atomicMin(&first[place_of(search, key, true)], (uint32_t)i);
    });
}

/* Gives each point the first point with its key as a hint. */
static __global__ void
__launch_bounds__(NTHREADS)
    look_keys_up(const uint64_t nvalues, const struct cuda_search search)
{
    begin_kernel();
    const uint32_t *first = search.table + (UINT64_C(1) << search.table_nbits);

    for_own(nvalues, [&](uint64_t i) {
        const uint32_t key = search.keys[i];
        search.hints[i] =
            key == 0 ? TERP_NO_SOURCE : first[place_of(search, key, false)];
    });
}

/* ---- tiles ---- */

/* Searches the tiles for references. Grid: x = blocks of TILE_NTHREADS tiles; a
 * thread owns a tile. */
static __global__ void
__launch_bounds__(TILE_NTHREADS)
    search_tiles(const struct terp_repeats repeats, const uint64_t ntiles,
                 struct terp_reference_tile *tiles)
{
    begin_kernel();
    const uint64_t tile = (uint64_t)blockIdx.x * TILE_NTHREADS + threadIdx.x;

    if (tile < ntiles)
        tiles[tile] = terp_reference_search_tile(&repeats, tile);
}

/* Decides which runs that continue from one tile to the next are kept, and sums
 * up the bits that all runs save. One thread goes through the tiles. */
static __global__ void __launch_bounds__(32)
    join_tiles(const struct terp_repeats repeats, const uint64_t ntiles,
               struct terp_reference_tile *tiles, struct cuda_seen *seen)
{
    begin_kernel();
    if (threadIdx.x == 0)
        seen->saved = terp_reference_join_tiles(&repeats, ntiles, tiles);
}

/* Drops the runs at the ends of a tile that join_tiles does not keep. Grid and
 * ownership as for search_tiles. */
static __global__ void
__launch_bounds__(TILE_NTHREADS)
    drop_ends(const struct terp_repeats repeats, const uint64_t ntiles,
              const struct terp_reference_tile *tiles)
{
    begin_kernel();
    const uint64_t tile = (uint64_t)blockIdx.x * TILE_NTHREADS + threadIdx.x;

    if (tile < ntiles)
        terp_reference_drop_ends(&repeats, tile, &tiles[tile]);
}

/* If the source of a point itself refers, gives the point the source of its
 * source. Each round at least halves the number of steps to a point that does
 * not refer. Rounds after the first one that changes nothing end at once. */
static __global__ void
__launch_bounds__(NTHREADS)
    halve_chains(uint32_t *sources, const uint64_t nvalues, uint32_t *changed,
                 const int round)
{
    begin_kernel();
    volatile uint32_t *now = sources;
    bool any = false;

    if (round > 0 && changed[round - 1] == 0)
        return;
    for_own(nvalues, [&](uint64_t i) {
        const uint32_t source = now[i];
        const uint32_t next =
            source == TERP_NO_SOURCE ? TERP_NO_SOURCE : now[source];
        if (next != TERP_NO_SOURCE) {
            now[i] = next;
            any = true;
        }
    });
    if (any)
        changed[round] = 1;
}

/* ---- points that refer ---- */

/* Values in which a warp counts points that refer. */
#define WARP_NVALUES (CUDA_LIST_NVALUES / NWARPS)
static_assert(WARP_NVALUES % 32 == 0, "Lanes have equally many values.");

/* Counts the points that refer or, with `lists`, lists them at the positions
 * given by `nbefore`. Grid: x = shares of CUDA_LIST_NVALUES values. A warp owns
 * WARP_NVALUES consecutive values, a lane every 32nd of them. Shared memory: a
 * count per warp; a barrier before they are added up. */
template <bool lists>
static __global__ void
__launch_bounds__(NTHREADS)
    count_points(const uint32_t *sources, const uint64_t nvalues,
                 uint64_t *nbefore, uint32_t *points)
{
    begin_kernel();
    __shared__ unsigned s_n[NWARPS];
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint64_t first =
        (uint64_t)blockIdx.x * CUDA_LIST_NVALUES + warp * WARP_NVALUES + lane;
    unsigned refer[WARP_NVALUES / 32], n = 0;

#pragma unroll
    for (unsigned k = 0; k < WARP_NVALUES / 32; k++) {
        const uint64_t i = first + 32 * k;
        refer[k] = __ballot_sync(FULL_WARP_MASK,
                                 i < nvalues && sources[i] != TERP_NO_SOURCE);
        n += (unsigned)__popc(refer[k]);
    }
    if (lane == 0)
        s_n[warp] = n;
    __syncthreads();
    if (!lists) {
        for (unsigned w = 1; w < NWARPS && threadIdx.x == 0; w++)
            n += s_n[w];
        if (threadIdx.x == 0)
            nbefore[blockIdx.x] = n;
        return;
    }
    uint64_t at = nbefore[blockIdx.x];
    for (unsigned w = 0; w < warp; w++)
        at += s_n[w];
#pragma unroll
    for (unsigned k = 0; k < WARP_NVALUES / 32; k++) {
        if (refer[k] >> lane & 1)
            points[at + (unsigned)__popc(refer[k] & ((1u << lane) - 1))] =
                (uint32_t)(first + 32 * k);
        at += (unsigned)__popc(refer[k]);
    }
}

/* Sums up the counts, so that nbefore[i] is the number of points that refer
 * before share i. One block. */
static __global__ void
__launch_bounds__(NTHREADS)
    sum_counts(uint64_t *nbefore, const uint64_t nshares,
               struct cuda_seen *seen)
{
    begin_kernel();
    __shared__ block_scan<unsigned long long, NTHREADS> s_scan;
    const uint64_t n = sum_numbers<NTHREADS>(
        nshares, s_scan, [=](uint64_t i) { return nbefore[i]; },
        [=](uint64_t i, uint64_t before) { nbefore[i] = before; });

    if (threadIdx.x == 0)
        seen->nreferences = n;
}

static void
list_points(struct cuda_work *work, uint64_t nvalues,
            const struct cuda_search *search)
{
    const uint64_t nshares = div_up(nvalues, CUDA_LIST_NVALUES);
    const dim3 grid((unsigned)nshares);

    work->run(count_points<false>, grid, NTHREADS, search->sources, nvalues,
              search->nbefore, search->points);
    work->run(sum_counts, 1, NTHREADS, search->nbefore, nshares, search->seen);
    work->run(count_points<true>, grid, NTHREADS, search->sources, nvalues,
              search->nbefore, search->points);
}

cudaError_t
cuda_references_search(const struct terp_repeats *repeats,
                       const struct cuda_search *search, cudaStream_t stream)
{
    const uint64_t n = repeats->nvalues;
    const uint64_t ntiles = div_up(n, TERP_REFERENCE_TILE_NVALUES);
    const uint64_t table_nbytes = UINT64_C(4) << search->table_nbits;
    const dim3 grid = grid_for(n),
               tile_grid((unsigned)div_up(ntiles, TILE_NTHREADS));
    struct cuda_work work = {stream};

    work.zero(search->table, table_nbytes);
    work.fill((uint8_t *)search->table + table_nbytes, 0xFF, table_nbytes);
    work.zero(search->changed, 32 * 4);
    work.run(insert_keys, grid, NTHREADS, *repeats, *search);
    work.run(look_keys_up, grid, NTHREADS, n, *search);
    work.run(search_tiles, tile_grid, TILE_NTHREADS, *repeats, ntiles,
             search->tiles);
    work.run(join_tiles, 1, 32, *repeats, ntiles, search->tiles, search->seen);
    work.run(drop_ends, tile_grid, TILE_NTHREADS, *repeats, ntiles,
             search->tiles);
    for (int round = 0; round < bit_width(n); round++)
        work.run(halve_chains, grid, NTHREADS, search->sources, n,
                 search->changed, round);
    list_points(&work, n, search);
    return work.error;
}

/* Lists the distance of each reference, and puts a marker in its place. */
template <typename Word>
static __global__ void
__launch_bounds__(NTHREADS)
    list_references(const uint64_t marker, const struct cuda_search search,
                    const uint64_t nreferences, uint32_t *distances)
{
    begin_kernel();
    for_own(nreferences, [&](uint64_t k) {
        const uint32_t i = search.points[k];
        distances[k] = i - search.sources[i];
        ((Word *)search.values)[i] = (Word)marker;
    });
}

cudaError_t
cuda_references_list(const struct cuda_referring *of, uint64_t marker,
                     const struct cuda_search *search, uint64_t nreferences,
                     uint32_t *distances, cudaStream_t stream)
{
    return launch(of->value_nbytes == 2   ? list_references<uint16_t>
                  : of->value_nbytes == 4 ? list_references<uint32_t>
                                          : list_references<uint64_t>,
                  grid_for(nreferences), dim3(NTHREADS), 0, stream, marker,
                  *search, nreferences, distances);
}

/* ---- differences ---- */

/* Lists the difference of each reference from its decoded source. */
template <typename Word>
static __global__ void
__launch_bounds__(NTHREADS)
    list_differences(const struct cuda_referring of,
                     const struct terp_reference_bound bound,
                     const struct cuda_search search, const Word *decoded,
                     const uint64_t nreferences, uint64_t *differences)
{
    begin_kernel();
    for_own(nreferences, [&](uint64_t k) {
        const uint32_t i = search.points[k];
        differences[k] = terp_reference_difference_within(
            of.type, bound, original_at<Word>(of, i),
            decoded[search.sources[i]]);
    });
}

template <typename Word>
static cudaError_t
differ(const struct cuda_referring *of, struct terp_reference_bound bound,
       const struct cuda_search *search, const void *decoded,
       uint64_t nreferences, uint64_t *differences, cudaStream_t stream)
{
    return launch(list_differences<Word>, grid_for(nreferences), dim3(NTHREADS),
                  0, stream, *of, bound, *search, (const Word *)decoded,
                  nreferences, differences);
}

cudaError_t
cuda_references_differ(const struct cuda_referring *of,
                       struct terp_reference_bound bound,
                       const struct cuda_search *search, const void *decoded,
                       uint64_t nreferences, uint64_t *differences,
                       cudaStream_t stream)
{
    return (of->value_nbytes == 2   ? differ<uint16_t>
            : of->value_nbytes == 4 ? differ<uint32_t>
                                    : differ<uint64_t>)(of, bound, search,
                                                        decoded, nreferences,
                                                        differences, stream);
}

/* Selects the entries of tiles for each palette width, and makes the codebook
 * of a chunk with coding custom. */
#include "gpu/block/warp.cuh"
#include "gpu/entropy/codebooks.cuh"

#include <cub/block/block_radix_sort.cuh>

#include "codebooks/codebooks.h"

/* ---- palettes ---- */

/* Threads of a block of select_entries. All of them order the entries, which
 * each block does for itself, so a block should have many tiles: two a warp,
 * whose costs half a warp loads each. */
#define SELECT_NTHREADS 1024
#define SELECT_NWARPS (SELECT_NTHREADS / 32)
#define WARP_NTILES 2
#define SELECT_NTILES (WARP_NTILES * SELECT_NWARPS) /* tiles of a block */

/* Threads that compare one entry with all others. */
#define ENTRY_NTHREADS 8
static_assert(ENTRY_NTHREADS * TERP_NENTRIES <= SELECT_NTHREADS,
              "A block must have enough threads for all entries.");

/* Units of 16 bytes, eight costs, in a tile's costs; a lane loads one. Lanes
 * per tile. */
#define COSTS_NUNITS (TERP_ENTRY_STRIDE / 8)
#define TILE_NLANES (32 / WARP_NTILES)
static_assert(TERP_ENTRY_STRIDE % 8 == 0 && COSTS_NUNITS <= TILE_NLANES,
              "A lane loads one unit at most.");

struct select_shared {
    uint4 costs[SELECT_NWARPS][WARP_NTILES][COSTS_NUNITS];
    unsigned long long ntiles[TERP_NENTRIES];
    uint32_t nbits[SELECT_NWARPS][TERP_PALETTE_NWIDTHS];
    uint8_t order[TERP_NENTRIES]; /* entries, the most popular first */
};

/* Makes s->order from s->ntiles: an entry's index there is the number of
 * entries that more tiles would select; ties go to the lower entry. */
static __device__ void
order_entries(struct select_shared *s)
{
    const unsigned entry = threadIdx.x / ENTRY_NTHREADS;
    const unsigned first = threadIdx.x % ENTRY_NTHREADS;
    unsigned place = 0;

    if (entry < TERP_NENTRIES) {
        unsigned long long mine = s->ntiles[entry];
        for (unsigned other = first; other < TERP_NENTRIES;
             other += ENTRY_NTHREADS)
            place += s->ntiles[other] > mine ||
                     (s->ntiles[other] == mine && other < entry);
    }
    for (int step = ENTRY_NTHREADS / 2; step > 0; step /= 2)
        place += __shfl_xor_sync(FULL_WARP_MASK, place, step);
    if (entry < TERP_NENTRIES && first == 0)
        s->order[place] = (uint8_t)entry;
}

/* Lane w < TERP_PALETTE_NWIDTHS gets bits << 7 | entry for the cheapest of the
 * first 2^w entries in s_order; ties go to the lower entry. */
static __device__ __forceinline__ uint32_t
best_of_widths(const uint16_t *nbits, const uint8_t *s_order)
{
    unsigned lane = threadIdx.x % 32;
    uint32_t key[3];

    for (unsigned i = 0; i < 3; i++) {
        unsigned at = 32 * i + lane,
                 entry = at < TERP_NENTRIES ? s_order[at] : 0;
        key[i] = at < TERP_NENTRIES ? (uint32_t)nbits[entry] << 7 | entry
                                    : UINT32_MAX;
    }
    uint32_t least = key[0], best = key[0];
    for (unsigned w = 1; w <= 5; w++) {
        least =
            min(least, __shfl_xor_sync(FULL_WARP_MASK, least, 1 << (w - 1)));
        best = lane == w ? least : best;
    }
    uint32_t second = min(least, warp_min(key[1]));
    uint32_t all = min(second, warp_min(key[2]));
    return lane == 6 ? second : lane == 7 ? all : best;
}

/* Selects entries. Grid: (ntiles / SELECT_NTILES rounded up, chunks). Each
 * block orders the entries; then a warp has two tiles, one after the other, and
 * its lane w the palette width w. Costs are loaded before the ordering, to hide
 * their latency. Shared: struct select_shared, 12 KB; one barrier before the
 * costs and the order are read, one before warp 0 sums the bits. Adds to
 * chunk.width_nbits by atomics. */
static __global__ void
__launch_bounds__(SELECT_NTHREADS) select_entries(const struct cuda_batch batch)
{
    __shared__ struct select_shared s;
    struct cuda_chunk &chunk = begin_chunk(batch);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint64_t first =
        (uint64_t)blockIdx.x * SELECT_NTILES + WARP_NTILES * warp;
    struct cuda_tile_cost *costs =
        region<struct cuda_tile_cost>(batch, batch.at.cost);
    const unsigned of_lane = lane / TILE_NLANES, unit = lane % TILE_NLANES;
    uint8_t nonzero = 0;
    uint32_t nbits = 0;

    if (first + of_lane < batch.ntiles) {
        const uint64_t tile = first + of_lane;
        if (unit < COSTS_NUNITS)
            copy_async(&s.costs[warp][of_lane][unit],
                       (const uint4 *)costs[tile].nbits + unit);
        nonzero = region<uint8_t>(batch, batch.at.nonzero)[tile];
    }
    if (threadIdx.x < TERP_NENTRIES)
        s.ntiles[threadIdx.x] = chunk.ntiles_best[threadIdx.x];
    if (!has_tiles(chunk))
        return;
    order_entries(&s);
    wait_async();
    __syncthreads();
    const uint32_t some = __ballot_sync(FULL_WARP_MASK, nonzero != 0);
    for (unsigned k = 0; k < WARP_NTILES && first + k < batch.ntiles; k++) {
        uint32_t best = 0;
        if (some >> (k * TILE_NLANES) & 1) {
            best = best_of_widths((const uint16_t *)s.costs[warp][k], s.order);
            nbits += (best >> 7) + lane;
        }
        if (lane < TERP_PALETTE_NWIDTHS)
            costs[first + k].best[lane] = best;
    }
    if (lane < TERP_PALETTE_NWIDTHS)
        s.nbits[warp][lane] = nbits;
    __syncthreads();
    if (warp > 0)
        return;
    nbits = 0;
    for (unsigned w = lane / TERP_PALETTE_NWIDTHS; w < SELECT_NWARPS;
         w += 32 / TERP_PALETTE_NWIDTHS)
        nbits += s.nbits[w][lane % TERP_PALETTE_NWIDTHS];
    nbits += __shfl_xor_sync(FULL_WARP_MASK, nbits, 8);
    nbits += __shfl_xor_sync(FULL_WARP_MASK, nbits, 16);
    if (lane < TERP_PALETTE_NWIDTHS)
        atomicAdd(&chunk.width_nbits[lane], (unsigned long long)nbits);
}

cudaError_t
cuda_entries_select(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_stage(batch, stream, select_entries,
                        div_up(batch->ntiles, SELECT_NTILES), SELECT_NTHREADS);
}

/* ---- coding custom ---- */

/* Threads of make_custom: one for each symbol, and for each leaf. */
#define CUSTOM_NTHREADS TERP_NSYMBOLS

/* The most items of a package-merge list: for n leaves 2 n - 2 are taken. */
#define MAX_NITEMS (2 * TERP_NSYMBOLS - 2)

/* Bits of the symbol in a sort key, below the frequency. */
#define SYMBOL_NBITS 10
static_assert(TERP_NSYMBOLS == 1 << SYMBOL_NBITS, "A key holds a symbol.");

typedef cub::BlockRadixSort<unsigned long long, CUSTOM_NTHREADS, 1> leaf_sort;

struct custom_shared {
    union {
        typename leaf_sort::TempStorage sort;
        unsigned long long list[2][MAX_NITEMS];
    };
    unsigned long long leaf[TERP_NSYMBOLS]; /* weights, ascending */
    /* A leaf's place in each list, and how many leaves are taken of it. */
    uint16_t leaf_at[TERP_MAX_CODE_NBITS][TERP_NSYMBOLS];
    unsigned ntaken[TERP_MAX_CODE_NBITS];
    uint8_t nbits[TERP_NSYMBOLS];
    unsigned ncodewords[TERP_MAX_CODE_NBITS + 1][CUSTOM_NTHREADS / 32];
    unsigned first_codeword[TERP_MAX_CODE_NBITS + 1];
    unsigned low, high;
};

/* How many of `n` ascending numbers are below `bound`, or up to `bound` if
 * `or_equal`. */
static __device__ __forceinline__ unsigned
count_below(const unsigned long long *numbers, unsigned n,
            unsigned long long bound, bool or_equal)
{
    unsigned begin = 0;

    while (n > 0) {
        unsigned half = n / 2;
        unsigned long long number = numbers[begin + half];
        if (number < bound || (or_equal && number == bound)) {
            begin += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return begin;
}

/* Makes the lists of package-merge (codec/format/huffman.c), a merge of leaves
 * and packages each. A leaf precedes packages of the same weight. Each thread
 * finds the place of its leaf by counting lighter packages, and the place of
 * its package by counting leaves that are not heavier. Three barriers a
 * list. */
static __device__ void
merge_packages(struct custom_shared *s, unsigned nleaves)
{
    const unsigned nwanted = 2 * nleaves - 2, i = threadIdx.x;
    unsigned nbefore = 0;

    for (unsigned level = 0; level < TERP_MAX_CODE_NBITS; level++) {
        const unsigned npackages = nbefore / 2;
        /* Packages overwrite the list of items that they are made of. */
        unsigned long long *before = s->list[level % 2];
        unsigned long long *list = s->list[(level + 1) % 2];
        unsigned long long pair = 0;
        if (i < npackages)
            pair = before[2 * i] + before[2 * i + 1];
        __syncthreads();
        if (i < npackages)
            before[i] = pair;
        __syncthreads();
        if (i < nleaves) {
            unsigned at = i + count_below(before, npackages, s->leaf[i], false);
            s->leaf_at[level][i] = (uint16_t)at;
            if (at < nwanted)
                list[at] = s->leaf[i];
        }
        if (i < npackages) {
            unsigned at = i + count_below(s->leaf, nleaves, pair, true);
            if (at < nwanted)
                list[at] = pair;
        }
        nbefore = min(nleaves + npackages, nwanted);
        __syncthreads();
    }
}

/* Finds s->ntaken, from the last list to the first: each leaf taken makes its
 * symbol's codeword one bit longer, and each package taken takes two items of
 * the list before. One warp does this. */
static __device__ void
take_leaves(struct custom_shared *s, unsigned nleaves)
{
    unsigned ntaken = 2 * nleaves - 2;

    for (int level = TERP_MAX_CODE_NBITS - 1; level >= 0; level--) {
        /* Leaves stand in ascending places: find the 32 leaves among which the
         * last one taken is, then that leaf. */
        const uint16_t *at = s->leaf_at[level];
        unsigned lane = threadIdx.x, last = 32 * lane + 31;
        unsigned ngroups = (unsigned)__popc(
            __ballot_sync(FULL_WARP_MASK, last < nleaves && at[last] < ntaken));
        unsigned i = 32 * ngroups + lane;
        unsigned n =
            32 * ngroups + (unsigned)__popc(__ballot_sync(
                               FULL_WARP_MASK, i < nleaves && at[i] < ntaken));
        if (lane == 0)
            s->ntaken[level] = n;
        ntaken = 2 * (ntaken - n);
    }
}

/* Makes the canonical codewords for the lengths in s->nbits; a thread a
 * symbol. */
static __device__ void
make_codewords(struct custom_shared *s, struct cuda_custom_codebook *codebook)
{
    unsigned symbol = threadIdx.x, lane = symbol % 32, warp = symbol / 32;
    unsigned nbits = s->nbits[symbol];

    for (unsigned i = symbol;
         i < sizeof s->ncodewords / sizeof s->ncodewords[0][0];
         i += CUSTOM_NTHREADS)
        (&s->ncodewords[0][0])[i] = 0;
    __syncthreads();
    unsigned same = __match_any_sync(FULL_WARP_MASK, nbits);
    unsigned nbefore = (unsigned)__popc(same & ((1u << lane) - 1));
    if (nbefore == 0)
        s->ncodewords[nbits][warp] = (unsigned)__popc(same);
    __syncthreads();
    /* Warp w sums the codewords of w bits; lane i has the count of warp i. */
    if (warp <= TERP_MAX_CODE_NBITS) {
        unsigned mine = s->ncodewords[warp][lane], sum = mine;
        sum = warp_inclusive_sum(sum);
        s->ncodewords[warp][lane] = sum - mine;
        if (lane == 31)
            s->first_codeword[warp] = sum; /* for now, their number */
    }
    __syncthreads();
    if (symbol == 0) {
        unsigned next = 0;
        s->first_codeword[0] = 0;
        for (int length = 1; length <= TERP_MAX_CODE_NBITS; length++) {
            unsigned n = s->first_codeword[length];
            s->first_codeword[length] = next;
            next = (next + n) << 1;
        }
    }
    __syncthreads();
    unsigned codeword =
        s->first_codeword[nbits] + s->ncodewords[nbits][warp] + nbefore;
    codebook->codeword[symbol] =
        nbits == 0 ? 0 : terp_codeword_pack(codeword, nbits);
}

/* Makes a chunk's codebook. Grid: (1, chunks). Thread i has symbol i; after the
 * sort by frequency it has leaf i. Shared: struct custom_shared, 75 KB,
 * dynamic. Every step ends with a barrier. */
static __global__ void
__launch_bounds__(CUSTOM_NTHREADS) make_custom(const struct cuda_batch batch)
{
    begin_kernel();
    struct custom_shared *s = dynamic_shared<struct custom_shared>();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    unsigned symbol = threadIdx.x;

    if (!has_tiles(chunk) || chunk.coding != TERP_CODING_CUSTOM)
        return;
    const unsigned long long *frequency =
        region<unsigned long long>(batch, batch.at.frequency);
    struct cuda_custom_codebook *codebook =
        region<struct cuda_custom_codebook>(batch, batch.at.codebook);
    bool occurs = frequency[symbol] != 0;
    unsigned nleaves = (unsigned)__syncthreads_count(occurs);
    unsigned long long key[1] = {
        occurs ? frequency[symbol] << SYMBOL_NBITS | symbol : ~0ull};
    s->nbits[symbol] = 0;
    if (symbol == 0) {
        s->low = TERP_NSYMBOLS - 1;
        s->high = 1;
    }
    /* One bit more than frequencies have, so that the keys of symbols that do
     * not occur, all ones, come last. */
    leaf_sort(s->sort).Sort(key, 0,
                            SYMBOL_NBITS + bit_width(batch.nvalues) + 1);
    __syncthreads();
    unsigned leaf_symbol = (unsigned)key[0] % TERP_NSYMBOLS;
    s->leaf[symbol] = key[0] >> SYMBOL_NBITS;
    if (occurs && symbol != TERP_ESCAPE) {
        atomicMin(&s->low, symbol);
        atomicMax(&s->high, symbol);
    }
    __syncthreads();
    if (nleaves == 1 && symbol == 0)
        s->nbits[leaf_symbol] = 1;
    if (nleaves > 1) {
        merge_packages(s, nleaves);
        if (symbol < 32)
            take_leaves(s, nleaves);
        __syncthreads();
        unsigned nbits = 0;
        for (int level = 0; level < TERP_MAX_CODE_NBITS; level++)
            nbits += symbol < s->ntaken[level];
        if (symbol < nleaves)
            s->nbits[leaf_symbol] = (uint8_t)nbits;
    }
    __syncthreads();
    make_codewords(s, codebook);
    if (symbol == 0) {
        codebook->low = (uint16_t)min(s->low, s->high);
        codebook->high = (uint16_t)s->high;
    }
}

cudaError_t
cuda_custom_make(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_shared(batch, stream, make_custom, 1, CUSTOM_NTHREADS,
                         sizeof(struct custom_shared));
}

/* Writes the packed codewords of `n` symbols or tokens for all entries. */
static void
fill_codewords(const uint8_t (*lengths)[TERP_ENTRY_STRIDE], int n,
               uint32_t *codewords)
{
    uint8_t nbits[TERP_NSYMBOLS] = {};
    uint16_t codeword[TERP_NSYMBOLS];

    for (int entry = 0; entry < TERP_NENTRIES; entry++) {
        for (int s = 0; s < n; s++)
            nbits[s] = lengths[s][entry];
        terp_huffman_codewords(nbits, codeword);
        for (int s = 0; s < n; s++)
            codewords[entry * n + s] =
                terp_codeword_pack(codeword[s], nbits[s]);
    }
}

void
cuda_codewords_fill(uint32_t *codewords)
{
    fill_codewords(terp_entry_code_nbits, TERP_NSYMBOLS, codewords);
}

void
cuda_token_codewords_fill(uint32_t *codewords)
{
    fill_codewords(terp_entry_token_nbits, TERP_NTOKENS, codewords);
}

/* Symbols from tile order to context order and back, equal to
 * cpu/entropy/contexts.c. doc/format.md, "Context order".
 *
 * The contexts of a level follow from the symbols of coarser levels. An encoder
 * has all symbols: one launch finds all contexts, and one launch sorts all
 * levels. A decoder takes level after level, in two launches each. There is no
 * launch for prefix sums of counts: each block sums the counts before its
 * own. */
#include "gpu/entropy/contexts_find.cuh"
#include "gpu/entropy/contexts_move.cuh"

/* The number of blocks that keeps a device busy. A level of a batch is divided
 * into smaller regions, and so more blocks, until it has this many blocks or
 * until a region has only one group of points per thread. Each region computes
 * weights of its neighbours again, so smaller regions cost more. Tests use a
 * smaller value. */
#ifndef CUDA_CONTEXT_BUSY_NBLOCKS
#define CUDA_CONTEXT_BUSY_NBLOCKS 256
#endif

/* A decoder's coarse levels are restored by one block, in the launch of the
 * symbols without contexts, which saves two launches a level. It does so for
 * levels whose symbols end up to this number, two tiles, and which have at most
 * SINGLE_BLOCK_MAX_NBLOCKS regions: little work for one block. Tests use 0. */
#ifndef CUDA_CONTEXT_SINGLE_BLOCK_NSYMBOLS
#define CUDA_CONTEXT_SINGLE_BLOCK_NSYMBOLS 8192
#endif
#define SINGLE_BLOCK_MAX_NBLOCKS 2

union context_shared {
    struct find_shared find;
    struct move_shared move;
};

/* Whether the chunk's symbols have contexts. All threads of a block get the
 * same answer, even if a stage on another stream sets the status meanwhile. Has
 * a barrier. */
static __device__ __forceinline__ bool
chunk_applies(const struct cuda_chunk &chunk)
{
    return !__syncthreads_or(chunk.status != TERP_OK) &&
           is_in_context_order(chunk);
}

/* ---- coarse symbols ---- */

/* The position in lorenzo's tile order of the symbol at `tiled` in the tile
 * order of splines. */
static __device__ __attribute__((noinline)) uint64_t
lorenzo_place(const struct terp_layout *layout, uint64_t tiled)
{
    const uint64_t position = level_position_of_tiled(layout, tiled);
    uint64_t left = level_point_at(layout, position).raster, at[TERP_NDIMS];

    for (int d = 0; d < TERP_NDIMS; d++)
        at[d] = split(&left, layout->dims[d]);
    return tiled_at(tiled_row_at(layout->rank, layout->dims, at, left),
                    layout->rank, layout->dims[0], at[0]);
}

/* Copies a tile's symbols of levels without contexts: they keep their place
 * between the two orders. `decode` selects the direction: false from `symbols`
 * to `coded`, true back, counting or listing escapes. All threads of a block
 * call it; no barrier. */
template <bool decode>
static __device__ __forceinline__ void
copy_coarse(const struct cuda_batch &batch, struct cuda_chunk &chunk,
            uint64_t ncoarse, uint64_t tile)
{
    const bool is_lorenzo = terp_prediction_is_raster(chunk.prediction);
    uint16_t *symbols = region<uint16_t>(batch, batch.at.symbols);
    uint16_t *coded = region<uint16_t>(batch, batch.at.coded);
    const uint64_t end = min_u64((tile + 1) * TERP_TILE_NSYMBOLS, ncoarse);

#pragma unroll 1
    for (uint64_t i = tile * TERP_TILE_NSYMBOLS + threadIdx.x; i < end;
         i += CONTEXT_NTHREADS) {
        const uint64_t to = is_lorenzo ? lorenzo_place(batch.d_layout, i) : i;
        if (!decode) {
            coded[i] = symbols[to];
            continue;
        }
        const uint16_t symbol = coded[i];
        symbols[to] = symbol;
        if (is_lorenzo)
            class_symbols(batch, chunk)[i] = symbol;
        if (symbol == TERP_ESCAPE)
            note_escapes(batch, chunk, escapes_are_listed(batch, chunk), to, 1);
    }
}

/* ---- kernels ---- */

static __host__ __device__ __forceinline__ uint64_t
first_tile(const struct context_level &level)
{
    return level.begin / TERP_TILE_NSYMBOLS;
}

static __host__ __device__ __forceinline__ uint64_t
level_ntiles(const struct context_level &level)
{
    return div_up(level.end, TERP_TILE_NSYMBOLS) - first_tile(level);
}

/* Finds and counts contexts. Grid: (blocks of level `first`, then of the finer
 * levels, chunks); a block has a region of its level (contexts_find.cuh).
 * Example: find_levels<true, 3> is for decoding chunks of three dimensions;
 * `decode` says where symbols lie (find_view_of), and `rank` unrolls loops over
 * corners. Shared: struct find_shared, 10 KB. */
template <bool decode, int rank>
static __global__ void
__launch_bounds__(CONTEXT_NTHREADS, 4)
    find_levels(const __grid_constant__ struct cuda_batch batch,
                const __grid_constant__ struct context_plan plan, int first)
{
    __shared__ struct find_shared s;
    const struct cuda_chunk &chunk = begin_chunk(batch);
    uint32_t block = blockIdx.x;
    int i = first;

    if (!chunk_applies(chunk))
        return;
    while (block >= plan.level[i].nblocks)
        block -= plan.level[i++].nblocks;
    find_contexts<decode, rank>(batch, chunk, plan.level[i], block, &s);
}

/* Sorts symbols into context order. Grid: (tiles of symbols without contexts,
 * then the tiles of each level, chunks). A block owns the symbols of its tile
 * that belong to its level; a tile at the border of two levels has two blocks.
 * Shared: struct move_shared, 14 KB. */
static __global__ void
__launch_bounds__(CONTEXT_NTHREADS, 6)
    sort_levels(const __grid_constant__ struct cuda_batch batch,
                const __grid_constant__ struct context_plan plan)
{
    __shared__ struct move_shared s;
    struct cuda_chunk &chunk = begin_chunk(batch);
    const uint64_t ncoarse = div_up(plan.ncoarse, TERP_TILE_NSYMBOLS);
    uint64_t tile = blockIdx.x;
    int i = 0;

    if (!chunk_applies(chunk))
        return;
    if (tile < ncoarse) {
        copy_coarse<false>(batch, chunk, plan.ncoarse, tile);
        return;
    }
    tile -= ncoarse;
    while (tile >= level_ntiles(plan.level[i]))
        tile -= level_ntiles(plan.level[i++]);
    move_tile<false>(batch, chunk, plan.level[i],
                     first_tile(plan.level[i]) + tile, &s);
}

/* Restores symbols without contexts. Grid: (their tiles, chunks). If `nsingle`
 * is not 0, the grid has one tile per chunk, and its block also restores the
 * first `nsingle` levels: first all regions, then all tiles of a level, with a
 * barrier before each since they share memory and read each other's counts.
 * Shared: union context_shared, 14 KB. */
template <int rank>
static __global__ void
__launch_bounds__(CONTEXT_NTHREADS)
    restore_coarse(const __grid_constant__ struct cuda_batch batch,
                   const __grid_constant__ struct context_plan plan,
                   int nsingle)
{
    __shared__ union context_shared s;
    struct cuda_chunk &chunk = begin_chunk(batch);

    if (!chunk_applies(chunk))
        return;
    copy_coarse<true>(batch, chunk, plan.ncoarse, blockIdx.x);
#pragma unroll 1
    for (int i = 0; i < nsingle; i++) {
        const struct context_level &level = plan.level[i];
#pragma unroll 1
        for (uint32_t block = 0; block < level.nblocks; block++) {
            __syncthreads();
            find_contexts<true, rank>(batch, chunk, level, block, &s.find);
        }
#pragma unroll 1
        for (uint64_t tile = 0; tile < level_ntiles(level); tile++) {
            __syncthreads();
            move_tile<true>(batch, chunk, level, first_tile(level) + tile,
                            &s.move);
        }
    }
}

/* Restores a level whose contexts are counted. Grid: (tiles of the level,
 * chunks). Shared: struct move_shared, 14 KB. */
static __global__ void
__launch_bounds__(CONTEXT_NTHREADS, 6)
    restore_level(const __grid_constant__ struct cuda_batch batch,
                  const __grid_constant__ struct context_level level)
{
    __shared__ struct move_shared s;
    struct cuda_chunk &chunk = begin_chunk(batch);

    if (chunk_applies(chunk))
        move_tile<true>(batch, chunk, level, first_tile(level) + blockIdx.x,
                        &s);
}

/* Moves lorenzo's symbols from the tile order of splines to lorenzo's own, and
 * counts or lists their escapes. Grid: (blocks of all levels, chunks). A block
 * has a region; a thread takes groups of four points of each class. Shared:
 * 512 bytes, written before the one barrier. */
static __global__ void
__launch_bounds__(CONTEXT_NTHREADS)
    order_lorenzo_symbols(const __grid_constant__ struct cuda_batch batch,
                          const __grid_constant__ struct context_plan plan)
{
    __shared__ struct context_part s_part[TERP_NCLASSES];
    struct cuda_chunk &chunk = begin_chunk(batch);
    const struct terp_layout *layout = batch.d_layout;
    const int rank = layout->rank;
    uint32_t block = blockIdx.x;
    int i = 0;

    if (!chunk_applies(chunk) || !terp_prediction_is_raster(chunk.prediction))
        return;
    while (block >= plan.level[i].nblocks)
        block -= plan.level[i++].nblocks;
    const struct context_level &level = plan.level[i];
    const struct terp_level &shape = layout->level[level.l];
    const struct context_region r =
        context_region_of(shape, layout->nbricks, level, block);
    const uint16_t *from = class_symbols(batch, chunk);
    uint16_t *to = region<uint16_t>(batch, batch.at.symbols);
    const bool listed = escapes_are_listed(batch, chunk);

    if (threadIdx.x < TERP_NCLASSES)
        s_part[threadIdx.x] = context_part_of(shape, rank, r, threadIdx.x);
    __syncthreads();
#pragma unroll 1
    for (uint32_t g = threadIdx.x; g < level.ngroups; g += CONTEXT_NTHREADS) {
        const struct context_group group = context_group_of(level, r, g);
#pragma unroll 1
        for (unsigned odd = 1; odd < 1u << rank; odd++) {
            const unsigned n = context_group_size(level, r, group, odd);
            const struct context_part &part = s_part[odd];
            if (n == 0)
                continue;
            const struct raster_points points =
                raster_points_of(level, r, group, odd);
            const struct tiled_row row = raster_row(layout, points);
            const uint64_t first = part.at + context_group_offset(part, group);
#pragma unroll 1
            for (unsigned k = 0; k < n; k++) {
                const uint16_t symbol = from[first + k];
                const uint64_t tiled = tiled_at(row, rank, layout->dims[0],
                                                points.at[0] + k * points.step);
                to[tiled] = symbol;
                if (symbol == TERP_ESCAPE)
                    note_escapes(batch, chunk, listed, tiled, 1);
            }
        }
    }
}

/* ---- regions of a level ---- */

/* Fills in the members that follow from level->extent. */
static void
measure_regions(const struct terp_layout *layout, struct context_level *level)
{
    const struct terp_level *shape = &layout->level[level->l];
    const int rank = layout->rank;
    uint64_t nblocks = 1, ngroups = 1, nwords = 1, nhalves = 1;

    for (int d = 0; d < TERP_NDIMS; d++) {
        const uint32_t n = level->extent[d];
        const uint32_t groups = d == 0 ? (n + 3) / 4 : n;
        const uint32_t words = d == 0 ? groups + 1 : d < rank ? n + 1 : 1;
        level->nregions[d] = (uint32_t)div_up(shape->neven[d], n);
        level->groups_reciprocal[d] = reciprocal_of(groups);
        level->words_extent[d] = words;
        level->words_reciprocal[d] = reciprocal_of(words);
        level->halves_extent[d] = d < rank ? n / 2 + 1 : 1;
        level->halves_reciprocal[d] = reciprocal_of(level->halves_extent[d]);
        nblocks *= level->nregions[d];
        ngroups *= groups;
        nwords *= words;
        nhalves *= level->halves_extent[d];
        level->stride[d + 1] = (uint32_t)nwords;
    }
    const uint32_t nbricks = level->extent[TERP_NDIMS];
    level->nblocks = (uint32_t)(nblocks * div_up(layout->nbricks, nbricks));
    level->ngroups = (uint32_t)ngroups * nbricks;
    level->nwords = (uint32_t)nwords * nbricks;
    level->nhalves = (uint32_t)nhalves * nbricks;
}

/* About half of an extent: a multiple of 4 along dimension 0 and of 2 along
 * others, so that regions begin at such coordinates. 0: the extent is too
 * small. */
static uint32_t
half_extent(uint32_t extent, int d)
{
    const uint32_t unit = d == 0 ? 4 : 2;
    return extent < 4 * unit ? 0 : (extent + 2 * unit - 1) / (2 * unit) * unit;
}

/* Chooses the extents of a level's regions: a box, halved along the slowest
 * dimensions while blocks are few; or several whole bricks. */
static void
choose_regions(const struct cuda_batch *batch, struct context_level *level)
{
    const struct terp_layout *layout = batch->h_layout;
    const struct terp_level *shape = &layout->level[level->l];
    bool whole = true;
    int d = layout->rank - 1;

    level->extent[TERP_NDIMS] = 1;
    for (int k = 0; k < TERP_NDIMS; k++) {
        const uint64_t box = UINT64_C(1) << terp_box_extent_log2(layout->rank);
        level->extent[k] = (uint32_t)min_u64(box, shape->neven[k]);
    }
    measure_regions(layout, level);
    while (d >= 0 && level->ngroups > CONTEXT_NTHREADS &&
           (uint64_t)level->nblocks * (unsigned)batch->nchunks <
               CUDA_CONTEXT_BUSY_NBLOCKS) {
        const uint32_t halved = half_extent(level->extent[d], d);
        if (halved == 0) {
            d--;
            continue;
        }
        level->extent[d] = halved;
        measure_regions(layout, level);
    }
    for (int k = 0; k < TERP_NDIMS; k++)
        whole &= level->nregions[k] == 1;
    if (!whole)
        return;
    uint64_t nbricks = min_u64(CONTEXT_NTHREADS / level->ngroups,
                               CONTEXT_MAX_NWORDS / level->nwords);
    nbricks = min_u64(nbricks, layout->nbricks);
    level->extent[TERP_NDIMS] = nbricks > 1 ? (uint32_t)nbricks : 1;
    measure_regions(layout, level);
}

/* Describes the regions of all levels with contexts. False: a dimension exceeds
 * 32 bits, and the chunk is left to the CPU. */
static bool
make_plan(const struct cuda_batch *batch, struct context_plan *plan)
{
    const struct terp_layout *layout = batch->h_layout;

    memset(plan, 0, sizeof *plan);
    for (int d = 0; d < TERP_NDIMS; d++)
        if (layout->dims[d] > UINT32_MAX)
            return false;
    plan->nlevels = batch->decoding.nskipped >= TERP_NCONTEXT_LEVELS
                        ? 0
                        : (int)min_u64((uint64_t)(TERP_NCONTEXT_LEVELS -
                                                  batch->decoding.nskipped),
                                       (uint64_t)layout->nlevels);
    plan->ncoarse = plan->nlevels == 0
                        ? batch->nvalues
                        : layout->level[plan->nlevels].class_at[1];
    for (int i = 0; i < plan->nlevels; i++) {
        struct context_level *level = &plan->level[i];
        const int l = plan->nlevels - i;
        level->l = l;
        level->begin = layout->level[l].class_at[1];
        level->end = l == 1 ? batch->nvalues : layout->level[l - 1].class_at[1];
        choose_regions(batch, level);
    }
    return true;
}

/* ---- stages ---- */

typedef void
find_kernel(struct cuda_batch, struct context_plan, int);

/* The kernels by rank of a brick, minus one. */
static find_kernel *const find_when_encoding[] = {
    find_levels<false, 1>, find_levels<false, 2>, find_levels<false, 3>,
    find_levels<false, 4>};
static find_kernel *const find_when_decoding[] = {
    find_levels<true, 1>, find_levels<true, 2>, find_levels<true, 3>,
    find_levels<true, 4>};
static find_kernel *const restore_coarse_of_rank[] = {
    restore_coarse<1>, restore_coarse<2>, restore_coarse<3>, restore_coarse<4>};

cudaError_t
cuda_context_sort(const struct cuda_batch *batch, cudaStream_t stream)
{
    struct stage_launches launches = {batch, stream};
    struct context_plan plan;
    uint64_t nblocks = 0;

    if (!terp_coding_has_contexts(batch->coding) || !make_plan(batch, &plan))
        return cudaSuccess;
    uint64_t ntiles = div_up(plan.ncoarse, TERP_TILE_NSYMBOLS);
    for (int i = 0; i < plan.nlevels; i++) {
        nblocks += plan.level[i].nblocks;
        ntiles += level_ntiles(plan.level[i]);
    }
    if (nblocks > 0)
        launches.add(find_when_encoding[batch->h_layout->rank - 1], nblocks,
                     CONTEXT_NTHREADS, plan, 0);
    launches.add(sort_levels, ntiles, CONTEXT_NTHREADS, plan);
    return launches.error;
}

/* How many levels restore_coarse restores. */
static int
count_single_block_levels(const struct context_plan *plan)
{
    int n = 0;

    while (n < plan->nlevels && plan->ncoarse <= TERP_TILE_NSYMBOLS &&
           plan->level[n].end <= CUDA_CONTEXT_SINGLE_BLOCK_NSYMBOLS &&
           plan->level[n].nblocks <= SINGLE_BLOCK_MAX_NBLOCKS)
        n++;
    return n;
}

cudaError_t
cuda_context_restore(const struct cuda_batch *batch, cudaStream_t stream)
{
    struct stage_launches launches = {batch, stream};
    struct context_plan plan;
    uint64_t nblocks = 0;

    if (!terp_coding_has_contexts(batch->coding) || !make_plan(batch, &plan))
        return cudaSuccess;
    const int nsingle = count_single_block_levels(&plan);
    const int rank = batch->h_layout->rank;
    launches.add(restore_coarse_of_rank[rank - 1],
                 div_up(plan.ncoarse, TERP_TILE_NSYMBOLS), CONTEXT_NTHREADS,
                 plan, nsingle);
    for (int i = nsingle; i < plan.nlevels; i++) {
        const struct context_level &level = plan.level[i];
        launches.add(find_when_decoding[rank - 1], level.nblocks,
                     CONTEXT_NTHREADS, plan, i);
        launches.add(restore_level, level_ntiles(level), CONTEXT_NTHREADS,
                     level);
    }
    for (int i = 0; i < plan.nlevels; i++)
        nblocks += plan.level[i].nblocks;
    if (nblocks > 0)
        launches.add(order_lorenzo_symbols, nblocks, CONTEXT_NTHREADS, plan);
    return launches.error;
}

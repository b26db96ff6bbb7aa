/* Floor 3: all steps of a small level in one launch.
 *
 * A block makes the points of a tile of the level's fine lattice. Along each
 * dimension an odd point is predicted from even ones at most three places
 * away, and a point is odd in a dimension or it is not: so what a tile needs
 * lies in the tile and three places around it, and the block makes that too,
 * for itself alone. Notes are those of coarse levels, but their order is the
 * block's own. */
#ifndef TERP_CUDA_SPLINE_TILE_CUH
#define TERP_CUDA_SPLINE_TILE_CUH

#include "cuda_spline_coarse.cuh"

#define TILE_NDIMS 3 /* more have tiles that are mostly surroundings */
#define TILE_NCLASSES (1 << TILE_NDIMS)
#define TILE_NTHREADS 512

#define NO_NOTE UINT32_MAX
#define NOTE_OWNED_AT NOTE_RANGE_AT /* encode */
#define NOTE_HIGH_AT NOTE_RANGE_AT  /* decode: half of its word of symbols */

template <typename T> struct tile_shared {
    struct cuda_chunk chunk; /* a copy of the state */
    uint8_t dims[TILE_NCLASSES];
    uint32_t forms;
    struct constants<T> k;
    T values[COARSE_NVALUES]; /* of the region: the tile and around it */
    uint32_t notes[COARSE_NVALUES];
    /* By note. Encode: its position in tile order. Decode: the word of two
     * symbols that has its own. */
    uint32_t symbols[COARSE_NVALUES];
    uint32_t work_at[COARSE_NVALUES]; /* likewise, in work order */
};

/* Of a dimension. */
struct tile_axis {
    uint32_t neven, nodd; /* of the level */
    uint32_t ntiles;
    uint32_t core; /* even points of a tile */
    uint32_t halo; /* even points of a region below its tile: 1, or 0 */
    /* Of a region: its points; even and odd ones that it needs. */
    uint32_t width, neven_around, nodd_around;
    uint32_t tile_width; /* points of a tile */
    uint32_t width_reciprocal, tile_width_reciprocal;
    uint32_t coarse_stride, fine_stride;
    uint64_t src_stride;
};

struct tile_work {
    int l, rank;
    uint32_t nregion, ntile; /* values */
    struct tile_axis axis[TILE_NDIMS];
    uint32_t stride[TILE_NDIMS]; /* in a region */
    uint32_t class_at[TILE_NCLASSES];
    uint32_t slot_at[TILE_NCLASSES];       /* of a class's notes */
    uint32_t slot_end[TILE_NDIMS + 1];     /* of a step's; [0] is 0 */
    uint32_t coarse_nvalues, fine_nvalues; /* of a brick */
    uint64_t src_nvalues;
    uint64_t coarse_at, fine_at; /* in `lattice` */
};

/* Even points of a tile along dimension 0, and along the others; of a small
 * lattice tiles are smaller, so that there are more of them. */
#define TILE_SMALL_NVALUES (1u << 15)
static inline uint32_t
core_of(int rank, int d, uint64_t fine_nvalues)
{
    return rank == 1                                     ? 512
           : rank == 2                                   ? 16
           : d == 0 && fine_nvalues > TILE_SMALL_NVALUES ? 8
                                                         : 4;
}

static inline void
make_tile_axis(uint32_t neven, uint32_t nodd, uint32_t core,
               struct tile_axis *axis)
{
    const bool whole = neven <= core;

    axis->neven = neven;
    axis->nodd = nodd;
    axis->core = whole ? neven : core;
    axis->halo = whole ? 0 : 1;
    axis->ntiles = (neven - 1) / axis->core + 1;
    axis->neven_around = whole ? neven : core + 3;
    axis->nodd_around = whole ? nodd : core;
    axis->width = whole ? neven + nodd : 2 * axis->neven_around - 1;
    axis->tile_width = whole ? neven + nodd : 2 * core;
    axis->width_reciprocal = reciprocal_of(axis->width);
    axis->tile_width_reciprocal = reciprocal_of(axis->tile_width);
}

/* Of level l of a chunk of at most TILE_NDIMS dimensions a brick; returns the
 * number of tiles. */
static inline unsigned
make_tile_work(const struct terp_layout *layout, int l, struct tile_work *work)
{
    const struct terp_level *level = &layout->level[l];
    uint64_t src = 1, ntiles = layout->nbricks;

    *work = {};
    work->l = l;
    work->rank = layout->rank;
    work->coarse_at = level->lattice_at;
    work->fine_at = l > 1 ? layout->level[l - 1].lattice_at : 0;
    work->nregion = work->ntile = 1;
    work->coarse_nvalues = work->fine_nvalues = 1;
    for (int d = 0; d < TILE_NDIMS; d++)
        work->fine_nvalues *= (uint32_t)(level->neven[d] + level->nodd[d]);
    uint64_t fine = 1, whole = work->fine_nvalues * layout->nbricks;
    for (int d = 0; d < TILE_NDIMS; d++) {
        struct tile_axis *axis = &work->axis[d];
        make_tile_axis((uint32_t)level->neven[d], (uint32_t)level->nodd[d],
                       core_of(layout->rank, d, whole), axis);
        axis->coarse_stride = work->coarse_nvalues;
        axis->fine_stride = (uint32_t)fine;
        axis->src_stride = src << (l - 1);
        work->stride[d] = work->nregion;
        work->nregion *= axis->width;
        work->ntile *= axis->tile_width;
        work->coarse_nvalues *= axis->neven;
        fine *= axis->neven + axis->nodd;
        src *= layout->dims[d];
        ntiles *= axis->ntiles;
    }
    work->src_nvalues = src;

    uint32_t slot = 0;
    for (int i = 0; i < TERP_NCLASSES - 1; i++) {
        const unsigned odd = terp_class_order[i];
        uint32_t n = 1;
        if (odd >= TILE_NCLASSES)
            continue;
        for (int d = 0; d < TILE_NDIMS; d++)
            n *= odd >> d & 1 ? work->axis[d].nodd_around
                              : work->axis[d].neven_around;
        work->class_at[odd] = (uint32_t)level->class_at[odd];
        work->slot_at[odd] = slot;
        slot += n;
        for (int nodd = nodd_dims_of(odd); nodd <= TILE_NDIMS; nodd++)
            work->slot_end[nodd] = slot;
    }
    return (unsigned)ntiles;
}

/* The block's tile. */
struct tile_place {
    uint32_t brick;
    uint32_t first[TILE_NDIMS]; /* even point */
};

static __device__ __forceinline__ struct tile_place
tile_place_of(const struct tile_work &work)
{
    struct tile_place tile = {blockIdx.x, {0}};

#pragma unroll
    for (int d = 0; d < TILE_NDIMS; d++) {
        const struct tile_axis &axis = work.axis[d];
        if (axis.ntiles == 1)
            continue;
        uint32_t left = tile.brick / axis.ntiles;
        tile.first[d] = (tile.brick - left * axis.ntiles) * axis.core;
        tile.brick = left;
    }
    return tile;
}

/* Notes of the points of a region that are made, while they and the even
 * points come. */
template <typename T, bool decode>
static __device__ __forceinline__ void
make_tile_notes(const struct tile_work &work, const struct tile_place &tile,
                const struct level_view<T> &view, struct tile_shared<T> *shared)
{
    const uint32_t box = 1u << box_shift(work.rank);
    const T *coarse = view.lattice + work.coarse_at +
                      (uint64_t)tile.brick * work.coarse_nvalues;
    const T *src = view.src + tile.brick * work.src_nvalues;

#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < work.nregion; i += TILE_NTHREADS) {
        uint32_t left = i, at[TILE_NDIMS];
        bool needed = true, owned = true;
#pragma unroll
        for (int d = 0; d < TILE_NDIMS; d++) {
            const struct tile_axis &axis = work.axis[d];
            uint32_t quotient = divide_by(axis.width_reciprocal, left);
            at[d] = left - quotient * axis.width;
            left = quotient;
            /* Less than zero becomes large. */
            uint32_t in_tile = at[d] - 2 * axis.halo;
            uint32_t point = 2 * tile.first[d] + in_tile;
            needed &= point < axis.neven + axis.nodd;
            needed &= at[d] % 2 == 0 || in_tile / 2 < axis.nodd_around;
            owned &= in_tile / 2 < axis.core;
        }
        if (!needed)
            continue;
        uint32_t slot = 0, row = tile.brick, box_nrows = 1, row_in_box = 0;
        uint32_t raster = tile.brick;
        uint32_t coarse_at = 0;
        uint64_t src_at = 0;
        unsigned odd = 0, forms = 0, orders = 0;
#pragma unroll
        for (int d = TILE_NDIMS - 1; d >= 0; d--) {
            const struct tile_axis &axis = work.axis[d];
            const uint32_t is_odd = at[d] & 1;
            uint32_t even = at[d] / 2; /* of the region */
            uint32_t e = tile.first[d] + even - axis.halo;
            uint32_t extent = is_odd ? axis.nodd : axis.neven;
            uint32_t low = e & ~(box - 1);
            uint32_t height = min_u32(box, extent - low);
            unsigned form = form_of(shared->forms, e, axis.neven);
            slot = is_odd ? slot * axis.nodd_around + even - axis.halo
                          : slot * axis.neven_around + even;
            raster = raster * extent + e;
            row = row * extent + box_nrows * low;
            row_in_box = row_in_box * height + (e - low);
            box_nrows *= height;
            coarse_at += e * axis.coarse_stride;
            src_at += (2 * e + is_odd) * axis.src_stride;
            odd |= is_odd << d;
            forms |= form << (3 * d);
            orders |= order_of(form) << (4 * d);
        }
        if (odd == 0) {
            copy_async(&shared->values[i], coarse + coarse_at);
            continue;
        }
        slot += work.slot_at[odd];
        uint32_t note = i | best_forms(shared->dims[odd], forms, orders)
                                << NOTE_PLACE_NBITS;
        const uint32_t tiled = work.class_at[odd] + row + row_in_box;
        shared->work_at[slot] = work.class_at[odd] + raster;
        if (decode) {
            copy_async(&shared->symbols[slot],
                       (const uint32_t *)view.symbols + tiled / 2);
            note |= (tiled & 1) << NOTE_HIGH_AT;
        } else {
            copy_async(&shared->values[i], src + src_at);
            shared->symbols[slot] = tiled;
            note |= (uint32_t)owned << NOTE_OWNED_AT;
        }
        shared->notes[slot] = note;
    }
    wait_async();
}

/* The point of a note. */
template <typename T, bool decode>
static __device__ __forceinline__ void
make_tile_point(const struct tile_work &work, const struct level_view<T> &view,
                uint32_t slot, struct tile_shared<T> *shared)
{
    uint32_t note = shared->notes[slot];

    if (note == NO_NOTE)
        return;
    T &value = shared->values[note & (COARSE_NVALUES - 1)];
    if (decode) {
        uint32_t symbol = shared->symbols[slot];
        symbol = note >> NOTE_HIGH_AT & 1 ? symbol >> 16 : symbol & 0xFFFF;
        bool escaped = symbol == TERP_ESCAPE;
        value = escaped ? view.work[shared->work_at[slot]] : code_of<T>(symbol);
        note |= (uint32_t)escaped << NOTE_ESCAPED_AT;
    }
    uint32_t symbol = make_coarse_point<T, decode>(work.rank, work.stride, view,
                                                   0, note, shared->values);
    if (decode || !(note >> NOTE_OWNED_AT & 1))
        return;
    view.symbols[shared->symbols[slot]] = (uint16_t)symbol;
    if (symbol == TERP_ESCAPE)
        count_escape(view, shared->work_at[slot]);
}

/* The tile to `to`, which has the level's fine lattice. */
template <typename T>
static __device__ __forceinline__ void
write_tile(const struct tile_work &work, const struct tile_place &tile,
           const T *s_values, T *to)
{
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < work.ntile; i += TILE_NTHREADS) {
        uint32_t left = i, place = 0;
        uint32_t fine_at = tile.brick * work.fine_nvalues;
        bool exists = true;
#pragma unroll
        for (int d = 0; d < TILE_NDIMS; d++) {
            const struct tile_axis &axis = work.axis[d];
            uint32_t quotient = divide_by(axis.tile_width_reciprocal, left);
            uint32_t at = left - quotient * axis.tile_width;
            uint32_t point = 2 * tile.first[d] + at;
            left = quotient;
            exists &= point < axis.neven + axis.nodd;
            place += (at + 2 * axis.halo) * work.stride[d];
            fine_at += point * axis.fine_stride;
        }
        if (exists)
            to[fine_at] = s_values[place];
    }
}

/* Grid: (tiles of all bricks, chunks). Shared: struct tile_shared. */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(TILE_NTHREADS)
    spline_tile(const __grid_constant__ struct cuda_batch batch,
                const __grid_constant__ struct tile_work work)
{
    begin_kernel();
    struct tile_shared<T> *shared = dynamic_shared<struct tile_shared<T>>();
    const struct cuda_chunk &chunk = shared->chunk;
    const struct tile_place tile = tile_place_of(work);

    for (uint32_t i = threadIdx.x; i < work.slot_end[TILE_NDIMS];
         i += TILE_NTHREADS)
        shared->notes[i] = NO_NOTE;
    copy_state(batch, threadIdx.x, TILE_NTHREADS, &shared->chunk);
    if (!chunk_applies(chunk))
        return;
    const struct cuda_level_plan &plan = chunk.plan[work.l];
    if (threadIdx.x < TILE_NCLASSES) {
        shared->dims[threadIdx.x] =
            (uint8_t)terp_predicting_dims(threadIdx.x, plan.priorities);
    } else if (threadIdx.x == 32) {
        shared->forms = forms_of((enum terp_spline)plan.spline);
    } else if (threadIdx.x == 64) {
        shared->k =
            constants_of<T>(chunk.step * ((double)plan.ratio / TERP_RATIO_ONE),
                            chunk.bound, batch.max_code);
    }
    __syncthreads();
    struct level_view<T> view = view_of<T>(batch, chunk);
    view.k = shared->k;
    make_tile_notes<T, decode>(work, tile, view, shared);
#pragma unroll 1
    for (int s = 0; s < work.rank; s++) {
        __syncthreads();
#pragma unroll 1
        for (uint32_t slot = work.slot_end[s] + threadIdx.x;
             slot < work.slot_end[s + 1]; slot += TILE_NTHREADS)
            make_tile_point<T, decode>(work, view, slot, shared);
    }
    __syncthreads();
    if (decode || work.l > 1)
        write_tile(work, tile, shared->values,
                   work.l > 1 ? view.lattice + work.fine_at : view.dst);
}

#endif

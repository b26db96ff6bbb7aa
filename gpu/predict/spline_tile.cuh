/* Makes all steps of a small level in one launch.
 *
 * A block makes the rows of a tile of the level's fine lattice. Along each
 * dimension an odd point is predicted from even points at most three positions
 * away. All input of a tile therefore lies in the tile and three positions
 * around it: its region. The block computes the whole region for itself, so
 * blocks do not wait for each other. A warp makes a row, a thread one even and
 * one odd point of it. A thread computes the values that depend on its column
 * once for all rows; the values that depend on the row are the same for all
 * threads of a warp. */
#pragma once

#include "gpu/predict/spline_coarse.cuh"
#include "gpu/predict/spline_tile_work.cuh"

#define TILE_NTHREADS 512 /* two blocks fit on a multiprocessor */
#define TILE_NWARPS (TILE_NTHREADS / 32)
/* The most rows of a region, with the rows between them: (2 * 7 - 1) * (2 * 5 -
 * 1), from the largest tile that core_of allows. */
#define TILE_MAX_NPLACES 117
#define TILE_NTURNS 8 /* the most rows of a warp */

/* The first word that a warp reads of a row. `facts` holds, from the lowest
 * bit on: the type of the row; whether it exists; whether the tile owns it;
 * whether dimension 0 predicts odd points; masks of the dimensions above 0,
 * slowest first, that predict even points and odd points; the order of the
 * stencils of odd points, plus 1; the neighbours that exist along these
 * dimensions; whether points are blended, and fully. */
struct alignas(8) tile_head {
    uint32_t place; /* its first value in the region */
    uint32_t facts;
};
/* Masks and positions of the fields of `facts`. */
#define ROW_TYPE 3u
#define ROW_EXISTS 4u
#define ROW_OWNED 8u
#define ROW_ALONG_0 16u
#define ROW_EVEN_DIMS_AT 5
#define ROW_ODD_DIMS_AT 7
#define ROW_ODD_ORDER_AT 9
#define ROW_REACHES_AT 12
/* points of the row that have both neighbours along dimension 0 are blended */
#define ROW_BLENDS (1u << 18)
#define ROW_BLENDS_FULL (1u << 19)

/* A sum of predictions is multiplied by a share, 1 / their number. */
template <typename T> struct alignas(16) tile_shares {
    T even, odd, odd_0; /* odd_0 counts dimension 0, too */
};

/* A row of a region. */
template <typename T> struct alignas(16) tile_row {
    struct tile_head head;
    tile_shares<T> share;
    /* Positions of its point with coordinate 0 along dimension 0. */
    uint64_t src_at;
    uint32_t coarse_at, fine_at;
    uint32_t even_tiled, odd_tiled; /* rows before it, see even_tiled_at */
    uint32_t box_nrows, row_in_box;
    uint32_t even_work, odd_work;
    uint32_t even_index[TILE_NUPPER];
};

template <typename T> struct tile_shared {
    struct cuda_chunk chunk; /* a copy of the state */
    constants<T> k;
    stencil_weights<T> weights[NWEIGHTS];
    tile_row<T> rows[TILE_NTURNS * TILE_NWARPS];
    uint32_t symbols[TILE_NTURNS * TILE_NTHREADS]; /* decode: two per thread */
    T values[TILE_MAX_NPLACES * TILE_PITCH];       /* the region */
};

/* ---- rows: one thread handles a row ---- */

/* Fills the members that do not depend on the chunk's state. */
template <typename T>
static __device__ __forceinline__ void
place_row(const struct tile_work &work, const struct tile_place &tile,
          uint32_t number, tile_row<T> *row)
{
    const uint32_t box = 1u << terp_box_extent_log2(work.rank);
    uint32_t type = 0, begin = 0;
    bool exists = true, owned = true;

    for (uint32_t t = 0; t + 1 < TILE_NTYPES; t++) {
        if (number >= work.row_end[t]) {
            begin = work.row_end[t];
            type = t + 1;
        }
    }
    uint32_t index[TILE_NUPPER] = {0, number - begin};
    const uint32_t ny =
        type & 1 ? work.axis[1].nodd_around : work.axis[1].neven_around;
    index[0] = index[1] / ny;
    index[1] -= index[0] * ny;

    uint32_t place = 0, raster = tile.brick, before = tile.brick;
    uint32_t box_nrows = 1, row_in_box = 0;
    uint32_t coarse_at = tile.brick * work.coarse_nvalues;
    uint32_t fine_at = tile.brick * work.fine_nvalues;
    uint64_t src_at = tile.brick * work.src_nvalues;
#pragma unroll
    for (int j = 0; j < TILE_NUPPER; j++) {
        const int d = TILE_NUPPER - j;
        const struct tile_axis &axis = work.axis[d];
        const uint32_t is_odd = type >> (d - 1) & 1;
        const uint32_t extent = is_odd ? axis.nodd : axis.neven;
        /* A difference below zero becomes a large number. */
        uint32_t in_tile = is_odd ? index[j] : index[j] - axis.halo;
        uint32_t e = tile.first[d] + in_tile;
        uint32_t low = e & ~(box - 1);
        uint32_t height = min_u32(box, extent - low);
        exists &= e < extent;
        owned &= in_tile < axis.core;
        place += (2 * (in_tile + axis.halo) + is_odd) * work.pitch[j];
        raster = raster * extent + e;
        before = before * extent + box_nrows * low;
        row_in_box = row_in_box * height + (e - low);
        box_nrows *= height;
        coarse_at += e * axis.coarse_stride;
        fine_at += (2 * e + is_odd) * axis.fine_stride;
        src_at += (2 * e + is_odd) * axis.src_stride;
        row->even_index[j] = e;
    }
    const uint32_t neven = work.axis[0].neven, nodd = work.axis[0].nodd;
    row->src_at = src_at;
    row->coarse_at = coarse_at;
    row->fine_at = fine_at;
    row->even_tiled = work.class_at[2 * type] + before * neven;
    row->odd_tiled = work.class_at[2 * type + 1] + before * nodd;
    row->even_work = work.class_at[2 * type] + raster * neven;
    row->odd_work = work.class_at[2 * type + 1] + raster * nodd;
    row->box_nrows = box_nrows;
    row->row_in_box = row_in_box;
    row->head = {place, type | (exists ? ROW_EXISTS : 0) |
                            (exists && owned ? ROW_OWNED : 0)};
}

/* Fills the predictors of the row. */
template <typename T>
static __device__ __forceinline__ void
plan_row(const struct tile_work &work, const struct terp_level_plan &plan,
         tile_row<T> *row)
{
    const unsigned odd = 2u * (row->head.facts & ROW_TYPE);
    const unsigned even_dims = terp_predicting_dims(odd, plan.priorities);
    const unsigned odd_dims = terp_predicting_dims(odd | 1, plan.priorities);
    uint32_t reaches = 0;
    const int blend_order = terp_blend_order(plan.priorities);
    int stencil[NUPPER] = {0}, order;

#pragma unroll
    for (int j = 0; j < TILE_NUPPER; j++) {
        stencil[j] =
            terp_stencil_at((enum terp_spline)plan.spline, row->even_index[j],
                            work.axis[TILE_NUPPER - j].neven);
        reaches |=
            reach_at(row->even_index[j], work.axis[TILE_NUPPER - j].neven)
            << (3 * j);
    }
    if (plan.spline == TERP_SPLINE_LINEAR)
        reaches = linear_reaches(reaches);
    static_assert(REACHES_C == 2,
                  "A dimension's bit is shifted to its place from bit 1.");
    const unsigned between =
        (reaches & REACHES_C) << 1 | (reaches >> 3 & REACHES_C);
    if (blend_order > 1 && odd != 0 && (odd & ~between) == 0)
        row->head.facts |=
            ROW_BLENDS | (blend_order == 3 ? ROW_BLENDS_FULL : 0);
    unsigned even = (even_dims >> 2 & 1) | (even_dims & 2);
    unsigned odds = (odd_dims >> 2 & 1) | (odd_dims & 2);
    even = best_dims(stencil, even, &order);
    odds = best_dims(stencil, odds, &order);
    row->head.facts |= ((odd_dims & 1) != 0 ? ROW_ALONG_0 : 0) |
                       even << ROW_EVEN_DIMS_AT | odds << ROW_ODD_DIMS_AT |
                       (uint32_t)(order + 1) << ROW_ODD_ORDER_AT |
                       reaches << ROW_REACHES_AT;
    row->share.even = TERP_SHARE(T, __popc(even));
    row->share.odd = TERP_SHARE(T, __popc(odds));
    row->share.odd_0 = TERP_SHARE(T, __popc(odds) + 1);
}

/* ---- points: a warp makes a row, each thread a pair ---- */

/* The data of a thread's column: the same for its pairs in all rows. */
template <typename T> struct tile_column {
    uint32_t x;          /* index of the even point; the odd point follows it */
    bool exists;         /* the even point exists */
    bool owned, has_odd; /* the tile owns the even, and the odd point */
    /* Positions in tile order, see even_tiled_at. */
    uint32_t low, even_width, odd_width;
    stencil_weights<T> weights; /* of the odd point along dimension 0 */
    unsigned reach;
    int order; /* of the stencil along dimension 0 */
};

template <typename T>
static __device__ __forceinline__ tile_column<T>
column_of(const struct tile_work &work, const struct tile_place &tile)
{
    const struct tile_axis &axis = work.axis[0];
    const uint32_t box = 1u << terp_box_extent_log2(work.rank);
    const uint32_t in_tile = threadIdx.x % 32 - axis.halo;
    tile_column<T> column = {};

    column.x = tile.first[0] + in_tile;
    column.exists = column.x < axis.neven;
    column.owned = column.exists && in_tile < axis.core;
    column.has_odd = column.owned && column.x < axis.nodd;
    column.low = column.x & ~(box - 1);
    column.even_width = min_u32(box, axis.neven - column.low);
    column.odd_width = min_u32(box, axis.nodd - column.low);
    return column;
}

template <typename T>
static __device__ __forceinline__ uint32_t
even_tiled_at(const tile_row<T> &row, const tile_column<T> &column)
{
    return row.even_tiled + column.low * row.box_nrows +
           row.row_in_box * column.even_width + (column.x - column.low);
}

template <typename T>
static __device__ __forceinline__ uint32_t
odd_tiled_at(const tile_row<T> &row, const tile_column<T> &column)
{
    return row.odd_tiled + column.low * row.box_nrows +
           row.row_in_box * column.odd_width + (column.x - column.low);
}

/* The even and the odd point of a thread. */
template <typename T> struct alignas(2 * sizeof(T)) tile_pair {
    T even, odd;
};

/* Starts to copy values to shared memory (encode), or loads symbols and stores
 * their codes there (decode). */
template <typename T, bool decode>
static __device__ __forceinline__ void
load_rows(const struct tile_work &work, const level_view<T> &view,
          const tile_column<T> &column, tile_shared<T> *shared)
{
    /* Copies do not block; loads are issued all before the first is used. */
    [[maybe_unused]] constexpr int NATONCE = decode ? TILE_NTURNS : 1;
    const uint32_t nrows = work.row_end[TILE_NTYPES - 1];
    const uint32_t lane = threadIdx.x % 32;
    uint32_t even[TILE_NTURNS] = {}, odd[TILE_NTURNS] = {};

#pragma unroll NATONCE
    for (uint32_t turn = 0; turn < TILE_NTURNS; turn++) {
        const uint32_t number = turn * TILE_NWARPS + threadIdx.x / 32;
        const tile_row<T> &row = shared->rows[number];
        const struct tile_head head = row.head;
        if (number >= nrows || !(head.facts & ROW_EXISTS) || !column.exists)
            continue;
        T *at = shared->values + head.place + 2 * lane;
        const uint64_t src_at =
            row.src_at + 2 * column.x * work.axis[0].src_stride;
        if (head.facts & ROW_TYPE) {
            if (decode)
                even[turn] = view.symbols[even_tiled_at(row, column)];
            else
                copy_async(at, view.src + src_at);
        }
        if (column.has_odd) {
            if (decode)
                odd[turn] = view.symbols[odd_tiled_at(row, column)];
            else
                copy_async(at + 1, view.src + src_at + work.axis[0].src_stride);
        }
    }
#pragma unroll
    for (uint32_t turn = 0; decode && turn < TILE_NTURNS; turn++) {
        const uint32_t number = turn * TILE_NWARPS + threadIdx.x / 32;
        if (number >= nrows)
            break;
        tile_pair<T> codes = {code_of<T>(even[turn], view.radius),
                              code_of<T>(odd[turn], view.radius)};
        shared->symbols[turn * TILE_NTHREADS + threadIdx.x] =
            even[turn] | odd[turn] << 16;
        *reinterpret_cast<tile_pair<T> *>(
            shared->values + shared->rows[number].head.place + 2 * lane) =
            codes;
    }
}

/* Starts to copy the results of previous kernels: the coarse lattice, and the
 * values of escapes (decode). */
template <typename T, bool decode>
static __device__ __forceinline__ void
load_made(const struct tile_work &work, const level_view<T> &view,
          const tile_column<T> &column, tile_shared<T> *shared)
{
    const uint32_t nrows =
        decode ? work.row_end[TILE_NTYPES - 1] : work.row_end[0];

#pragma unroll 1
    for (uint32_t number = threadIdx.x / 32; number < nrows;
         number += TILE_NWARPS) {
        const tile_row<T> &row = shared->rows[number];
        const struct tile_head head = row.head;
        if (!(head.facts & ROW_EXISTS) || !column.exists)
            continue;
        T *at = shared->values + head.place + 2 * (threadIdx.x % 32);
        if (!(head.facts & ROW_TYPE))
            copy_async(at, view.coarse + row.coarse_at + column.x);
        if (!decode)
            continue;
        const uint32_t both = shared->symbols[number * 32 + threadIdx.x % 32];
        if (head.facts & ROW_TYPE && (both & 0xFFFF) == TERP_ESCAPE)
            copy_async(at, view.work + row.even_work + column.x);
        if (column.has_odd && both >> 16 == TERP_ESCAPE)
            copy_async(at + 1, view.work + row.odd_work + column.x);
    }
}

/* Makes a point: quantizes its value (encode), or adds its code to the
 * prediction unless it has escaped (decode). */
template <typename T, bool decode>
static __device__ __forceinline__ T
make_tile_point(const level_view<T> &view, T value, T pred, uint32_t *symbol)
{
    if (!decode) {
        T made = quantize(value, pred, view, symbol);
        if (__builtin_expect(*symbol == TERP_ESCAPE, 0))
            made = put_on_grid(made, view);
        return made;
    }
    return *symbol != TERP_ESCAPE ? pred + value * view.k.step : value;
}

template <typename T>
static __device__ __forceinline__ tile_pair<T>
load_pair(const T *at, bool exists)
{
    tile_pair<T> none = {(T)-0.0, (T)-0.0};
    return exists ? *reinterpret_cast<const tile_pair<T> *>(at) : none;
}

/* Returns the sums of the predictions of a pair along the dimensions above 0.
 */
template <typename T>
static __device__ __forceinline__ tile_pair<T>
predict_pair(const struct tile_work &work, uint32_t facts,
             const stencil_weights<T> *s_weights, const T *at)
{
    tile_pair<T> sum = {(T)-0.0, (T)-0.0};

#pragma unroll
    for (int j = 0; j < TILE_NUPPER; j++) {
        const unsigned reach = facts >> (ROW_REACHES_AT + 3 * j) & 7;
        const int pitch = (int)work.pitch[j];
        const bool even = facts >> (ROW_EVEN_DIMS_AT + j) & 1;
        const bool odd = facts >> (ROW_ODD_DIMS_AT + j) & 1;
        if (!even && !odd)
            continue;
        const stencil_weights<T> weights = s_weights[reach];
        const tile_pair<T> a = load_pair(at - 3 * pitch, reach & REACHES_A);
        const tile_pair<T> b = load_pair(at - pitch, true);
        const tile_pair<T> c = load_pair(at + pitch, reach & REACHES_C);
        const tile_pair<T> d = load_pair(at + 3 * pitch, reach & REACHES_D);
        T along = combine_weighted(weights, a.even, b.even, c.even, d.even);
        if (even)
            sum.even += along;
        along = combine_weighted(weights, a.odd, b.odd, c.odd, d.odd);
        if (odd)
            sum.odd += along;
    }
    return sum;
}

/* Returns the prediction of an odd point. `sum`: its predictions along the
 * dimensions above 0. `even`: the even point before it. All threads of a warp
 * call it. */
template <typename T>
static __device__ __forceinline__ T
predict_tile_odd(uint32_t facts, const tile_shares<T> &share,
                 const tile_column<T> &column, T sum, T even)
{
    const T none = (T)-0.0;
    T a = __shfl_up_sync(FULL_WARP_MASK, even, 1);
    T c = __shfl_down_sync(FULL_WARP_MASK, even, 1);
    T d = __shfl_down_sync(FULL_WARP_MASK, even, 2);
    T along =
        combine_weighted(column.weights, column.reach & REACHES_A ? a : none,
                         even, column.reach & REACHES_C ? c : none,
                         column.reach & REACHES_D ? d : none);

    const int order = (int)(facts >> ROW_ODD_ORDER_AT & 7) - 1;
    if (!(facts & ROW_ALONG_0) || column.order < order)
        return sum * share.odd;
    return column.order > order ? along : (sum + along) * share.odd_0;
}

/* The contributions of other rows to a pair of a blended row: to the even point
 * if it has two odd dimensions, to the odd point if `has_odd`. */
template <typename T> struct tile_blend {
    blend<T> even, odd;
};

template <typename T>
static __device__ __forceinline__ tile_blend<T>
blend_pair(const struct tile_work &work, uint32_t type, const T *at,
           bool has_odd)
{
    const int s = (int)work.pitch[type == 1], f = (int)work.pitch[1];
    const tile_pair<T> b = load_pair(at - s, true);
    const tile_pair<T> c = load_pair(at + s, true);
    tile_blend<T> near = {};
    T around = 0;

    near.odd.faces = b.odd + c.odd;
    if (has_odd)
        around = (b.even + at[2 - s]) + (c.even + at[2 + s]);
    near.odd.edges = around;
    if (type != ROW_TYPE)
        return near;
    const tile_pair<T> fb = load_pair(at - f, true);
    const tile_pair<T> fc = load_pair(at + f, true);
    const tile_pair<T> bb = load_pair(at - s - f, true);
    const tile_pair<T> bc = load_pair(at - s + f, true);
    const tile_pair<T> cb = load_pair(at + s - f, true);
    const tile_pair<T> cc = load_pair(at + s + f, true);
    near.even.faces = (b.even + c.even) + (fb.even + fc.even);
    near.even.edges = (bb.even + bc.even) + (cb.even + cc.even);
    near.odd.faces += fb.odd + fc.odd;
    near.odd.edges = ((bb.odd + bc.odd) + (cb.odd + cc.odd)) + around;
    if (has_odd) {
        near.odd.edges += (fb.even + at[2 - f]) + (fc.even + at[2 + f]);
        near.odd.corners =
            ((bb.even + at[2 - s - f]) + (bc.even + at[2 - s + f])) +
            ((cb.even + at[2 + s - f]) + (cc.even + at[2 + s + f]));
    }
    return near;
}

/* Makes a row. `to`: the level's fine lattice; NULL: do not store points there.
 */
template <typename T, bool decode>
static __device__ __forceinline__ void
make_tile_row(const struct tile_work &work, const level_view<T> &view,
              const tile_column<T> &column, const stencil_weights<T> *s_weights,
              uint32_t number, T *to, tile_shared<T> *shared)
{
    const tile_row<T> &row = shared->rows[number];
    const struct tile_head head = row.head;
    const tile_shares<T> share = row.share;

    if (!(head.facts & ROW_EXISTS))
        return;
    T *at = shared->values + head.place + 2 * (threadIdx.x % 32);
    const uint32_t both =
        decode ? shared->symbols[number * 32 + threadIdx.x % 32] : 0;
    uint32_t even_symbol = both & 0xFFFF, odd_symbol = both >> 16;
    const bool owned = head.facts & ROW_OWNED && column.owned;
    tile_pair<T> pair = {0, 0}, sum = {0, 0};
    const uint32_t type = head.facts & ROW_TYPE;
    const int order = head.facts & ROW_BLENDS_FULL ? 3 : 2;
    const bool blends_odd =
        head.facts & ROW_BLENDS && column.has_odd && column.reach & REACHES_C;
    tile_blend<T> near = {};

    if (column.exists) {
        pair = load_pair(at, true);
        if (type != 0) {
            const bool blends_even = head.facts & ROW_BLENDS && type == 3;
            if (!blends_even || !(column.reach & REACHES_C))
                sum = predict_pair(work, head.facts, s_weights, at);
            sum.even *= share.even;
            if (head.facts & ROW_BLENDS)
                near = blend_pair(work, type, at, blends_odd);
            if (blends_even)
                sum.even = blend_of<2>(near.even, order);
            pair.even = make_tile_point<T, decode>(view, pair.even, sum.even,
                                                   &even_symbol);
        }
    }
    sum.odd = predict_tile_odd(head.facts, share, column, sum.odd, pair.even);
    if (head.facts & ROW_BLENDS) {
        const T c = __shfl_down_sync(FULL_WARP_MASK, pair.even, 1);
        near.odd.faces += pair.even + c;
        if (blends_odd)
            sum.odd = type == 3 ? blend_of<3>(near.odd, order)
                                : blend_of<2>(near.odd, order);
    }
    if (column.has_odd)
        pair.odd =
            make_tile_point<T, decode>(view, pair.odd, sum.odd, &odd_symbol);
    if (column.exists)
        *reinterpret_cast<tile_pair<T> *>(at) = pair;
    if (!owned)
        return;
    if (to != NULL) {
        to[row.fine_at + 2 * column.x] = pair.even;
        if (column.has_odd)
            to[row.fine_at + 2 * column.x + 1] = pair.odd;
    }
    if (decode)
        return;
    if (head.facts & ROW_TYPE) {
        view.symbols[even_tiled_at(row, column)] = (uint16_t)even_symbol;
        if (even_symbol == TERP_ESCAPE)
            count_escape(view, row.even_work + column.x);
    }
    if (column.has_odd) {
        view.symbols[odd_tiled_at(row, column)] = (uint16_t)odd_symbol;
        if (odd_symbol == TERP_ESCAPE)
            count_escape(view, row.odd_work + column.x);
    }
}

/* Fills the members that depend on the chunk's state: the predictors of rows
 * and columns, and the constants of the quantizer. */
template <typename T>
static __device__ __forceinline__ void
plan_tile(const struct tile_work &work, tile_column<T> *column,
          tile_shared<T> *shared)
{
    const struct cuda_chunk &chunk = shared->chunk;
    const struct terp_level_plan &plan = chunk.model.plan[work.l];
    const enum terp_spline spline = (enum terp_spline)plan.spline;

    if (threadIdx.x < work.row_end[TILE_NTYPES - 1])
        plan_row(work, plan, &shared->rows[threadIdx.x]);
    else if (threadIdx.x == TILE_NTHREADS - 1)
        shared->k = level_constants<T>(chunk, plan);
    column->order = terp_stencil_order(
        terp_stencil_at(spline, column->x, work.axis[0].neven));
    column->reach = reach_at(column->x, work.axis[0].neven);
    if (spline == TERP_SPLINE_LINEAR)
        column->reach = linear_reaches(column->reach);
    column->weights =
        shared->weights[first_weights_of(plan.spline) + column->reach];
}

/* Copies the state from device memory, before this kernel has waited for
 * previous ones. The cache of a multiprocessor may still hold bytes that
 * kernels before `choose` have read; volatile loads bypass it. Ends with a
 * barrier. */
template <typename T>
static __device__ __forceinline__ void
copy_state_early(const struct cuda_batch &batch, tile_shared<T> *shared)
{
    constexpr unsigned NWORDS = sizeof shared->chunk / sizeof(uint64_t);
    const volatile uint64_t *from =
        (const volatile uint64_t *)&batch.d_chunks[blockIdx.y];

    static_assert(NWORDS <= TILE_NTHREADS, "Each word has a thread.");
    if (threadIdx.x < NWORDS)
        ((uint64_t *)&shared->chunk)[threadIdx.x] = from[threadIdx.x];
    __syncthreads();
}

/* Grid: x = tiles of all bricks, y = chunks. The block has TILE_NTHREADS
 * threads. A warp makes every TILE_NWARPS-th row of the region, and a thread an
 * even and an odd point of it. Dynamic shared memory: struct tile_shared. A
 * barrier separates the steps; types of rows with equally many odd dimensions
 * make a step.
 *
 * Before previous kernels have ended, a block may read everything that spline
 * kernels do not write: spline_coarse triggers the next launch only after all
 * kernels before it have ended. */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(TILE_NTHREADS, sizeof(T) == 4 ? 2 : 1)
    spline_tile(const __grid_constant__ struct cuda_batch batch,
                const __grid_constant__ struct tile_work work)
{
    let_next_kernel_come();
    tile_shared<T> *shared = dynamic_shared<tile_shared<T>>();
    const struct cuda_chunk &chunk = shared->chunk;
    const struct tile_place tile = tile_place_of(work);
    tile_column<T> column = column_of<T>(work, tile);

    if (threadIdx.x < work.row_end[TILE_NTYPES - 1])
        place_row(work, tile, threadIdx.x, &shared->rows[threadIdx.x]);
    else if (threadIdx.x >= TILE_NTHREADS - NWEIGHTS)
        shared->weights[threadIdx.x % NWEIGHTS] =
            weights_at<T>(threadIdx.x % NWEIGHTS);
    copy_state_early(batch, shared);
    if (!chunk_applies(chunk) || level_is_long(chunk, work.l)) {
        wait_for_kernels();
        return;
    }
    plan_tile(work, &column, shared);
    __syncthreads();
    level_view<T> view = view_of<T>(batch, chunk);
    view.coarse = view.lattice + work.coarse_at;
    view.k = shared->k;
    const stencil_weights<T> *s_weights =
        shared->weights + first_weights_of(chunk.model.plan[work.l].spline);
    T *to = work.l > 1 ? view.lattice + work.fine_at : decode ? view.dst : NULL;
    load_rows<T, decode>(work, view, column, shared);
    wait_async();
    wait_for_kernels();
    load_made<T, decode>(work, view, column, shared);
    wait_async();
    __syncthreads();
    uint32_t number = threadIdx.x / 32;
#pragma unroll 1
    for (int step = 0; step < TILE_NDIMS; step++) {
        if (step > 0)
            __syncthreads();
#pragma unroll 1
        for (; number < work.step_end[step]; number += TILE_NWARPS)
            make_tile_row<T, decode>(work, view, column, s_weights, number, to,
                                     shared);
    }
}

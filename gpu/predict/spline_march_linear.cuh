/* Marches (gpu/predict/march.cuh) through a level whose spline is linear and
 * whose dimensions differ in priority: each point is predicted along one
 * dimension, from two points. Any extents, any alignment, special values.
 *
 * A warp has cubes of a row, and marches from row to row along A, the dimension
 * of higher priority of y and z; B is the other one. A *slab* is the points of
 * a row of cubes that are even along A. Points that are odd along A lie between
 * the slabs of two steps, which lanes hold in registers. Along x, lanes
 * exchange points; the last lane has a cube of the next warp. Along B, only a
 * coarse point of the next row is needed, and the point behind it along x if B
 * has a higher priority than x: it is made twice. */
#pragma once

#include "gpu/predict/march.cuh"

#define LINEAR_NTHREADS 256
#define LINEAR_NWARPS (LINEAR_NTHREADS / 32)
/* The most blocks for all chunks; few, because none may be needed. */
#define LINEAR_MAX_NBLOCKS 528
/* Cubes of a warp without the last lane's, and steps of a warp: a box, so that
 * the places of symbols have equal distances. */
#define LINEAR_NCUBES 31u
#define LINEAR_NSTEPS 16u /* 1 << terp_box_extent_log2(MARCH_NDIMS) */

/* The prediction of an odd point from the even point below it, `own`, and
 * `other`: the next even point or, at the end of a row of points, the one
 * before. Weights serve both, bit for bit, so that lanes stay together. Levels
 * that are marched through have at least three even points along each
 * dimension. */
template <typename T> struct linear_weights {
    T own, other, scale;
};

template <typename T>
static __device__ __forceinline__ linear_weights<T>
linear_weights_at(bool is_last)
{
    return {is_last ? (T)1.5 : (T)1, is_last ? (T)-0.5 : (T)1,
            is_last ? (T)1 : (T)0.5};
}

template <typename T>
static __device__ __forceinline__ T
linear_of(const linear_weights<T> &w, T own, T other)
{
    return (w.own * own + w.other * other) * w.scale;
}

/* A level: extents and distances along x, A and B, in this order, in the chunk
 * and in the coarse lattice. Classes have bit 0 for x, 1 for A and 2 for B. */
struct linear_level {
    uint32_t neven[MARCH_NDIMS], nodd[MARCH_NDIMS];
    uint32_t fine[MARCH_NDIMS], coarse[MARCH_NDIMS];
    uint32_t brick_nfine, brick_ncoarse;
    bool a_is_y, x_above_a, x_above_b;
};

static __device__ __forceinline__ struct linear_level
linear_level_of(const struct terp_level &level,
                const struct terp_level_plan &plan)
{
    struct linear_level to;
    uint32_t fine = 1, coarse = 1;

    to.a_is_y = priority_of(plan, 1) > priority_of(plan, 2);
#pragma unroll
    for (int d = 0; d < MARCH_NDIMS; d++) {
        const bool is_a = d == (to.a_is_y ? 1 : 2);
        const uint32_t neven = (uint32_t)level.neven[d],
                       nodd = (uint32_t)level.nodd[d];
        const int at = d == 0 ? 0 : is_a ? 1 : 2;
#pragma unroll
        for (int k = 0; k < MARCH_NDIMS; k++) {
            to.neven[k] = k == at ? neven : to.neven[k];
            to.nodd[k] = k == at ? nodd : to.nodd[k];
            to.fine[k] = k == at ? fine : to.fine[k];
            to.coarse[k] = k == at ? coarse : to.coarse[k];
        }
        fine *= neven + nodd;
        coarse *= neven;
    }
    to.brick_nfine = fine;
    to.brick_ncoarse = coarse;
    const unsigned x = priority_of(plan, 0);
    to.x_above_a = x > priority_of(plan, to.a_is_y ? 1 : 2);
    to.x_above_b = x > priority_of(plan, to.a_is_y ? 2 : 1);
    return to;
}

/* Where the row of cube (a, b) of a brick is in a class. Bits of `odd`: 0 for
 * x, 1 for A, 2 for B. */
struct linear_row {
    uint32_t class_at;
    uint64_t extent[TERP_NDIMS], at[TERP_NDIMS];
};

static __device__ __forceinline__ struct linear_row
linear_row_of(const struct terp_level &layout, bool a_is_y, unsigned odd,
              uint32_t a, uint32_t b)
{
    const unsigned of_a = odd >> 1 & 1, of_b = odd >> 2;
    const unsigned of_class =
        (odd & 1) | (a_is_y ? of_a | of_b << 1 : of_b | of_a << 1) << 1;
    struct linear_row row = {(uint32_t)layout.class_at[of_class], {}, {}};

#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++)
        row.extent[d] = terp_class_extent(&layout, of_class, d);
    row.at[1] = a_is_y ? a : b;
    row.at[2] = a_is_y ? b : a;
    return row;
}

/* The place of a symbol, and the distance to the one a step further in the same
 * box. */
struct linear_place {
    uint32_t at, step;
};

static __device__ __noinline__ struct linear_place
linear_place_of(const struct terp_level &layout, bool a_is_y, unsigned odd,
                uint32_t x, uint32_t a, uint32_t b, uint32_t brick)
{
    const struct linear_row row = linear_row_of(layout, a_is_y, odd, a, b);
    const struct tiled_row tiled =
        tiled_row_at(MARCH_NDIMS, row.extent, row.at, brick);
    const uint32_t box = 1u << terp_box_extent_log2(MARCH_NDIMS);
    const uint32_t width =
        min_u32(box, (uint32_t)row.extent[0] - (x & ~(box - 1)));
    const uint32_t height = min_u32(
        box, (uint32_t)(row.extent[1] - (row.at[1] & ~(uint64_t)(box - 1))));

    return {row.class_at +
                (uint32_t)tiled_at(tiled, MARCH_NDIMS, row.extent[0], x),
            a_is_y ? width : width * height};
}

/* The place of a point in level order. Few points need it. */
static __device__ __noinline__ uint32_t
linear_work_at(const struct terp_level &layout, bool a_is_y, unsigned odd,
               uint32_t x, uint32_t a, uint32_t b, uint32_t brick)
{
    const struct linear_row row = linear_row_of(layout, a_is_y, odd, a, b);

    return row.class_at +
           (uint32_t)(((brick * row.extent[2] + row.at[2]) * row.extent[1] +
                       row.at[1]) *
                      row.extent[0]) +
           x;
}

/* ---- points ---- */

/* The input of a point: its value, or its symbol. */
template <typename T> struct linear_input {
    T value;
    uint32_t symbol;
};

template <bool decode, typename T>
static __device__ __forceinline__ linear_input<T>
load_linear(const level_view<T> &view, bool exists, uint32_t fine_at,
            uint32_t tiled)
{
    linear_input<T> in = {0, view.radius};

    if (exists && decode)
        in.symbol = view.symbols[tiled];
    if (exists && !decode)
        in.value = view.src[fine_at];
    return in;
}

/* Makes a point. `tiled` is the place of its symbol, and work_at() its place in
 * level order. */
template <bool decode, typename T, typename At>
static __device__ __forceinline__ T
make_linear(const level_view<T> &view, const linear_input<T> &in, T pred,
            bool exists, bool owned, uint32_t tiled, At work_at)
{
    uint32_t symbol = in.symbol;

    if (decode)
        return symbol != TERP_ESCAPE ? reconstruct(symbol, pred, view)
                                     : view.work[work_at()];
    T made = quantize(in.value, pred, view, &symbol);
    if (__builtin_expect(exists && symbol == TERP_ESCAPE, 0)) {
        made = put_on_grid(made, view);
        if (owned)
            count_escape(view, work_at());
    }
    if (owned && exists)
        view.symbols[tiled] = (uint16_t)symbol;
    return made;
}

/* Stores a cube's points of a row of the chunk. */
template <typename T>
static __device__ __forceinline__ void
store_linear(T *at, T even, T odd, bool has_odd, bool vector)
{
    if (vector) {
        *(both<T> *)at = {{even, odd}};
        return;
    }
    at[0] = even;
    if (has_odd)
        at[1] = odd;
}

/* A cube's points that are even along A: even, odd along x, along B, along
 * both. */
template <typename T> struct linear_slab {
    T at[4];
};

/* Makes the cubes of a warp: from (x, a, b) of a brick on, up to LINEAR_NSTEPS
 * along A. */
template <typename T, bool decode>
static __device__ __forceinline__ void
march_linear(const level_view<T> &view, const struct terp_level &layout,
             const struct linear_level &level, uint32_t first_x, uint32_t first,
             uint32_t b, uint32_t brick)
{
    const unsigned lane = threadIdx.x % 32;
    const uint32_t x = first_x + lane;
    const bool exists = x < level.neven[0];
    const bool is_last = x + 1 >= level.neven[0];
    const bool owned = exists && (lane < LINEAR_NCUBES || is_last);
    const bool has_x = owned && x < level.nodd[0];
    const bool has_b = exists && b < level.nodd[2];
    const bool vector = level.neven[0] == level.nodd[0] &&
                        (uintptr_t)view.dst % sizeof(both<T>) == 0;
    const linear_weights<T> weights_x = linear_weights_at<T>(is_last);
    const unsigned other_lane = (is_last ? lane - 1 : lane + 1) % 32;
    const bool is_last_b = b + 1 >= level.neven[2];
    const linear_weights<T> weights_b = linear_weights_at<T>(is_last_b);
    const uint32_t other_b = is_last_b ? b - 1 : b + 1;
    const uint32_t stop = min_u32(first + LINEAR_NSTEPS, level.neven[1]);
    const uint32_t to_other = 2 * (other_b - b) * level.fine[2] + 1;
    /* The last step may extrapolate from the slab before its own. */
    uint32_t a = first + 1 == level.neven[1] && first > 0 ? first - 1 : first;
    uint32_t fine_at = brick * level.brick_nfine + 2 * a * level.fine[1] +
                       2 * b * level.fine[2] + 2 * x;
    uint32_t coarse_at = brick * level.brick_ncoarse + a * level.coarse[1] + x;
    uint32_t box_a = a; /* the slab of the places of its classes */
    struct linear_place place[MARCH_NCLASSES] = {}, place_other = {0, 0};
    linear_slab<T> before = {}, slab = {};
    const auto along_x = [&](T even) {
        return linear_of(weights_x, even,
                         __shfl_sync(FULL_WARP_MASK, even, (int)other_lane));
    };
    const auto place_of = [&](unsigned odd, uint32_t row_b) {
        return linear_place_of(layout, level.a_is_y, odd, x,
                               (odd & 2) != 0 ? first : a, row_b, brick);
    };
    const auto make = [&](const linear_input<T> &in, T pred, bool there,
                          bool owns, uint32_t tiled, unsigned odd,
                          uint32_t row_b) {
        return make_linear<decode>(view, in, pred, there, owns, tiled, [&]() {
            return linear_work_at(layout, level.a_is_y, odd, x,
                                  (odd & 2) != 0 ? a - 1 : a, row_b, brick);
        });
    };

    place[2] = place_of(2, b);
    place[3] = place_of(3, b);
    place[6] = place_of(6, b);
    place[7] = place_of(7, b);
#pragma unroll 1
    for (; a <= stop; a++) {
        const bool is_slab = a < level.neven[1];
        const bool owns = owned && a < stop;
        const bool is_odd = a > first && a - 1 < level.nodd[1];
        const uint32_t at_b = fine_at + level.fine[2];
        const uint32_t at_a = fine_at - level.fine[1];
        const uint32_t at_ab = at_a + level.fine[2];
        const bool there[4] = {exists, has_x, has_b, has_x && has_b};
        linear_input<T> in[MARCH_NCLASSES], in_other;
        T even = 0, even_other = 0;

        if (a <= first || (decode && a == first + LINEAR_NSTEPS && is_slab)) {
            box_a = a;
            place[1] = place_of(1, b);
            place[4] = place_of(4, b);
            place[5] = place_of(5, b);
            if (decode && !level.x_above_b)
                place_other = place_of(1, other_b);
        }
        const auto tiled = [&](unsigned odd) {
            return place[odd].at +
                   ((odd & 2) != 0 ? a - 1 - first : a - box_a) *
                       place[odd].step;
        };
        if (exists && is_slab) {
            even = view.coarse[coarse_at + b * level.coarse[2]];
            even_other = view.coarse[coarse_at + other_b * level.coarse[2]];
        }
        in[1] = load_linear<decode>(view, there[1] && is_slab, fine_at + 1,
                                    tiled(1));
        in[4] = load_linear<decode>(view, there[2] && is_slab, at_b, tiled(4));
        in[5] =
            load_linear<decode>(view, there[3] && is_slab, at_b + 1, tiled(5));
        in_other = load_linear<decode>(
            view, there[3] && is_slab && !level.x_above_b, fine_at + to_other,
            place_other.at + (a - box_a) * place_other.step);
        in[2] = load_linear<decode>(view, there[0] && is_odd, at_a, tiled(2));
        in[3] =
            load_linear<decode>(view, there[1] && is_odd, at_a + 1, tiled(3));
        in[6] = load_linear<decode>(view, there[2] && is_odd, at_ab, tiled(6));
        in[7] =
            load_linear<decode>(view, there[3] && is_odd, at_ab + 1, tiled(7));
        linear_slab<T> next = slab;
        if (is_slab) {
            next.at[0] = even;
            next.at[1] =
                make(in[1], along_x(even), there[1], owns, tiled(1), 1, b);
            next.at[2] = make(in[4], linear_of(weights_b, even, even_other),
                              there[2], owns, tiled(4), 4, b);
            T pred = along_x(next.at[2]);
            if (!level.x_above_b)
                pred = linear_of(weights_b, next.at[1],
                                 make(in_other, along_x(even_other), there[3],
                                      false, 0, 1, other_b));
            next.at[3] = make(in[5], pred, there[3], owns, tiled(5), 5, b);
            if (decode && owns) {
                store_linear(view.dst + fine_at, next.at[0], next.at[1], has_x,
                             vector);
                if (has_b)
                    store_linear(view.dst + at_b, next.at[2], next.at[3], has_x,
                                 vector);
            }
        }
        if (is_odd) {
            const linear_weights<T> weights = linear_weights_at<T>(!is_slab);
            T made[4];
#pragma unroll
            for (unsigned k = 0; k < 4; k++) {
                const unsigned odd = 2 | (k & 1) | (k & 2) << 1;
                T pred = linear_of(weights, slab.at[k],
                                   is_slab ? next.at[k] : before.at[k]);
                if ((k & 1) != 0 && level.x_above_a)
                    pred = along_x(made[k - 1]);
                made[k] =
                    make(in[odd], pred, there[k], owned, tiled(odd), odd, b);
            }
            if (decode && owned) {
                store_linear(view.dst + at_a, made[0], made[1], has_x, vector);
                if (has_b)
                    store_linear(view.dst + at_ab, made[2], made[3], has_x,
                                 vector);
            }
        }
        before = slab;
        slab = next;
        fine_at += 2 * level.fine[1];
        coarse_at += level.coarse[1];
    }
}

/* Grid: x = blocks, whose warps take cubes of rows in turn; y = chunks. No
 * shared memory but the chunk's state. */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(LINEAR_NTHREADS, sizeof(T) == 4 ? 4 : 3)
    spline_march_linear(const __grid_constant__ struct cuda_batch batch, int l)
{
    begin_kernel();
    __shared__ struct cuda_chunk chunk;
    const struct cuda_chunk &state = batch.d_chunks[blockIdx.y];

    if (!chunk_applies(state) || !plan_marches_linear(state, l))
        return;
    copy_state(batch, threadIdx.x, LINEAR_NTHREADS, &chunk);
    const struct terp_level &layout = batch.d_layout->level[l];
    const struct terp_level_plan &plan = chunk.model.plan[l];
    const struct linear_level level = linear_level_of(layout, plan);
    level_view<T> view = view_of<T>(batch, chunk);
    view.coarse = view.lattice + layout.lattice_at;
    view.k = level_constants<T>(chunk, plan);
    const uint32_t nx =
        level.neven[0] > 2 ? (level.neven[0] - 2) / LINEAR_NCUBES + 1 : 1;
    const uint32_t na = (level.neven[1] - 1) / LINEAR_NSTEPS + 1;
    const uint32_t ntasks =
        nx * na * level.neven[2] * (uint32_t)batch.d_layout->nbricks;
#pragma unroll 1
    for (uint32_t task = blockIdx.x * LINEAR_NWARPS + threadIdx.x / 32;
         task < ntasks; task += gridDim.x * LINEAR_NWARPS) {
        uint32_t left = task;
        const uint32_t x = left % nx * LINEAR_NCUBES;
        left /= nx;
        const uint32_t b = left % level.neven[2];
        left /= level.neven[2];
        march_linear<T, decode>(view, layout, level, x,
                                left % na * LINEAR_NSTEPS, b, left / na);
    }
}

template <typename T, bool decode>
static cudaError_t
launch_march_linear(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    return launch_stage(
        batch, stream, spline_march_linear<T, decode>,
        cuda_nblocks(batch, div_up(batch->nvalues, 8 * LINEAR_NTHREADS),
                     LINEAR_MAX_NBLOCKS),
        LINEAR_NTHREADS, l);
}

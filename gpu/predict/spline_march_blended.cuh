/* Marches through a level of a long spline whose points are fully blended;
 * rough chunks have such a finest level. gpu/predict/march.cuh explains
 * marching. Along z only points with one odd dimension read far points. They
 * are coarse points, which are read ahead, so points with odd z are only one
 * plane behind. Along x and y a line holds the misses at its even points
 * (gpu/predict/spline_long.cuh).
 *
 * Points of three odd dimensions without an even point above them along y or z,
 * a row of each plane and the last plane, are not blended. They also read far
 * points along z. A launch of its own, spline_march_last, makes them from the
 * other points. An encoder stores the other points that it reads in `work`. */
#pragma once

#include "gpu/predict/march.cuh"
#include "gpu/predict/spline_long.cuh"

/* The constants of a blended long spline, see march_cubic. */
struct march_blended {
    static constexpr bool blended = true;
    static constexpr int below = LONG_LEFT, above = LONG_RIGHT;
    static constexpr int odd_lag = 1, coarse_lead = LONG_RIGHT - 1;
    static constexpr int nseen = 7;
    static constexpr bool odd_x_far = false;
    static constexpr int batch_nz = 16;
};

/* LONG_NREACHED: points of a line. LONG_B: index of the nearest point below the
 * odd point. */
#define LONG_NREACHED (LONG_LEFT + 1 + LONG_RIGHT)
#define LONG_B LONG_LEFT

/* ---- prediction ---- */

/* Gathers the lines along z from coarse points of LONG_NREACHED planes. */
template <typename T>
static __device__ __forceinline__ lines<T, LONG_NREACHED>
along_coarse(const both<T> planes[LONG_NREACHED])
{
    lines<T, LONG_NREACHED> lines;

#pragma unroll
    for (int n = 0; n < LONG_NREACHED; n++) {
        lines.of[0].at[n] = planes[n].at[0];
        lines.of[1].at[n] = planes[n].at[1];
    }
    return lines;
}

template <typename T>
static __device__ __forceinline__ both<T>
sum_of(const both<T> &a, const both<T> &b)
{
    return {{a.at[0] + b.at[0], a.at[1] + b.at[1]}};
}

/* Linear interpolation. linear_of: along one dimension; `faces` is the sum of
 * the points below and above. bilinear_of: blended along two dimensions; `slow`
 * and `fast` are the sums of both neighbours along each, `edges` is the sum of
 * the four points diagonally between. */
template <typename T>
static __device__ __forceinline__ both<T>
linear_of(const both<T> &faces)
{
    return {{faces.at[0] * (T)0.5, faces.at[1] * (T)0.5}};
}

template <typename T>
static __device__ __forceinline__ both<T>
bilinear_of(const both<T> &slow, const both<T> &fast, const both<T> &edges)
{
    return {{TERP_BLEND_2(slow.at[0] + fast.at[0], edges.at[0]),
             TERP_BLEND_2(slow.at[1] + fast.at[1], edges.at[1])}};
}

template <typename T>
static __device__ __forceinline__ both<T>
missed_at(const both<T> &point, const both<T> &blend, bool blends)
{
    return {{blends ? point.at[0] - blend.at[0] : point.at[0],
             blends ? point.at[1] - blend.at[1] : point.at[1]}};
}

/* Predicts points of two or three odd dimensions: by the line of misses along
 * the fastest odd dimension, plus the blend along the others. A point that is
 * not blended is predicted by its line alone, if the line has a stencil of
 * higher order than the extrapolation along the other dimension, `beyond`;
 * otherwise by the mean of both. */
template <bool inside, typename T>
static __device__ __forceinline__ both<T>
predict_long(const unsigned reach[MARCH_WIDTH],
             const lines<T, LONG_NREACHED> &lines, const both<T> &blend,
             bool blends, const both<T> &beyond)
{
    both<T> pred;

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++) {
        const T along =
            value_of<TERP_SPLINE_LONG, inside>(reach[i], lines.of[i]);
        pred.at[i] = inside || blends ? along + blend.at[i]
                     : !has_above(reach[i])
                         ? (beyond.at[i] + along) * TERP_SHARE(T, 2)
                         : along;
    }
    return pred;
}

/* Predicts points of one odd dimension. */
template <bool inside, typename T>
static __device__ __forceinline__ both<T>
predict_long_alone(const unsigned reach[MARCH_WIDTH],
                   const lines<T, LONG_NREACHED> &lines)
{
    return {{value_of<TERP_SPLINE_LONG, inside>(reach[0], lines.of[0]),
             value_of<TERP_SPLINE_LONG, inside>(reach[1], lines.of[1])}};
}

template <typename T>
static __device__ __forceinline__ both<T>
beyond_of(const both<T> &a, const both<T> &b)
{
    return {{TERP_EXTRAPOLATE(a.at[0], b.at[0]),
             TERP_EXTRAPOLATE(a.at[1], b.at[1])}};
}

/* ---- a block ---- */

/* The points of earlier planes that a thread keeps in registers. coarse: coarse
 * points around the odd plane that is made, from the lowest that it reads to
 * the highest. below: even points of the plane below it. before: even points of
 * the plane below that. rows_0, rows_1: sums of two rows of the plane below, of
 * coarse points and of points with odd x. */
template <typename T> struct long_planes {
    both<T> coarse[LONG_NREACHED];
    both<T> below[4], before[4];
    both<T> rows_0, rows_1;
};

/* An encoder stores the points of the last row and the last plane that
 * spline_march_last reads. */
template <typename tile, typename T>
static __device__ __forceinline__ void
leave_last(const march<T> &m, T *fine, const both<T> even[4],
           const both<T> odd[4])
{
    const int64_t row = fine_row_of<tile>(m.work);
    T *fine_odd = fine - (int64_t)m.work.fine_plane;

    if (m.step.owns_even && !has_above(m.reach.y))
        store_row<tile, true>(m, fine + row, even[2], even[3]);
    if (m.step.owns_odd && (!has_above(m.reach.y) || !has_above(m.reach.z)))
        store_row<tile, true>(m, fine_odd + row, odd[2], odd[3]);
    if (m.step.owns_odd && !has_above(m.reach.z))
        store_row<tile, false>(m, fine_odd, odd[0], odd[1]);
}

/* Makes a thread's points of a step. `s`: its element in shared memory. `fine`:
 * its even row in the output.
 *
 * A step has two barriers. Shared memory written before the first barrier is
 * read before the second. Memory written between the barriers is read before
 * the first barrier of the next step. */
template <typename tile, bool inside, typename T>
static __device__ __forceinline__ void
make_blended_step(const march<T> &m, const march_input<T> &in,
                  long_planes<T> *p, both<T> *s, T *fine)
{
    constexpr int W = tile::ncolumns, N = tile::nboth;
    const bool even = inside || m.step.has_even;
    const bool odd = inside || m.step.has_odd;
    const bool above_y = inside || has_above(m.reach.y);
    const bool above_z = inside || has_above(m.reach.z);
    const unsigned reach_y[] = {m.reach.y, m.reach.y};
    const unsigned reach_z[] = {m.reach.z, m.reach.z};
    const both<T> none = {};
    /* Shared memory of the seven classes that other threads read. */
    both<T> *s_coarse = s, *s_4 = s + N, *s_missed_4 = s + 2 * N;
    both<T> *s_1 = s + 3 * N, *s_5 = s + 4 * N;
    both<T> *s_missed_2 = s + 5 * N, *s_missed_6 = s + 6 * N;
    both<T> e[4] = {}, o[4] = {}, rows_0 = {}, rows_1 = {};

/* Quantizes or reconstructs both points of a class by their prediction `pred`.
 * Example: MARCH_MAKE(1, pred) makes the points with odd x. */
#define MARCH_MAKE(class, pred) make_both<tile, class, !inside>(m, in, pred)
    e[0] = p->coarse[LONG_B + 1];
    if (odd) {
        o[0] = MARCH_MAKE(
            4, predict_long_alone<inside>(reach_z, along_coarse(p->coarse)));
        if (m.thread.is_seen) {
            *s_4 = o[0];
            *s_missed_4 = missed_at(
                o[0], linear_of(sum_of(p->coarse[LONG_B], e[0])), above_z);
        }
    }
    if (m.thread.is_seen)
        *s_coarse = e[0];
    __syncthreads();
    if (m.thread.is_beside_y) {
        if (even)
            *s_1 = e[1] = MARCH_MAKE(
                1, predict_long_alone<inside>(
                       m.reach.x, along_x<tile>(s_coarse, *s_coarse)));
        if (odd)
            *s_5 = o[1] = MARCH_MAKE(
                5, predict_long<inside>(
                       m.reach.x, along_x<tile>(s_missed_4, *s_missed_4),
                       linear_of(sum_of(p->below[1], e[1])), above_z,
                       beyond_of(p->before[1], p->below[1])));
    }
    if (m.thread.in_tile_y) {
        rows_0 = sum_of(e[0], s_coarse[W]);
        if (even) {
            e[2] =
                MARCH_MAKE(2, predict_long_alone<inside>(
                                  reach_y, along_y<tile>(s_coarse, *s_coarse)));
            *s_missed_2 = missed_at(e[2], linear_of(rows_0), above_y);
        }
        if (odd) {
            const both<T> planes = sum_of(p->below[2], e[2]);
            o[2] = MARCH_MAKE(
                6, predict_long<inside>(reach_y,
                                        along_y<tile>(s_missed_4, *s_missed_4),
                                        linear_of(planes), above_z,
                                        beyond_of(p->before[2], p->below[2])));
            *s_missed_6 = missed_at(o[2],
                                    bilinear_of(planes, sum_of(o[0], s_4[W]),
                                                sum_of(p->rows_0, rows_0)),
                                    above_y && above_z);
        }
    }
    __syncthreads();
    if (m.thread.in_tile_y) {
        rows_1 = sum_of(e[1], s_1[W]);
        if (even)
            e[3] = MARCH_MAKE(3, predict_long<inside>(
                                     m.reach.x,
                                     along_x<tile>(s_missed_2, *s_missed_2),
                                     linear_of(rows_1), above_y,
                                     inside ? none : beyond_of(s_1[-W], e[1])));
        if (odd && above_y && above_z)
            o[3] = MARCH_MAKE(
                7, predict_long<inside>(m.reach.x,
                                        along_x<tile>(s_missed_6, *s_missed_6),
                                        bilinear_of(sum_of(p->below[3], e[3]),
                                                    sum_of(o[1], s_5[W]),
                                                    sum_of(p->rows_1, rows_1)),
                                        true, none));
    }
#undef MARCH_MAKE
    if constexpr (tile::decode)
        store_step<tile>(m, fine, e, o);
    else if (!inside)
        leave_last<tile>(m, fine, e, o);
#pragma unroll
    for (int i = 1; i < 4; i++) {
        p->before[i] = p->below[i];
        p->below[i] = e[i];
    }
    p->rows_0 = rows_0;
    p->rows_1 = rows_1;
}

/* Loads the coarse points that the odd points of the first step read, except
 * the points that are the step's input. */
template <typename tile, typename T>
static __device__ __forceinline__ void
load_coarse(const struct march_work &work, const struct march_thread &thread,
            const T *at, int z, long_planes<T> *planes)
{
#pragma unroll
    for (int n = 0; n + 1 < LONG_NREACHED; n++) {
        const int plane = z - 1 - LONG_LEFT + n;
        const T *coarse =
            at + (n - LONG_NREACHED + 1) * (int64_t)work.plane_ncubes;
        if (!thread.exists || plane < 0 || plane >= work.nz)
            continue;
        if constexpr (tile::ragged) {
            for (int i = 0; i < MARCH_WIDTH; i++)
                if (has_point<tile, 0>(work, thread, i))
                    planes->coarse[n + 1].at[i] = coarse[i];
        } else {
            planes->coarse[n + 1] = *(const both<T> *)coarse;
        }
    }
}

/* Runs all steps of a block, for the cubes of a segment along z. */
template <typename tile, typename T>
static __device__ __forceinline__ void
march_blended_along_z(const struct march_work &work, const level_view<T> &view,
                      march_shared<T> *s_block,
                      const struct march_thread &thread, int begin, int end)
{
    constexpr enum terp_spline spline = TERP_SPLINE_LONG;
    const unsigned all = reach_inside<spline>();
    both<T> *s = dynamic_shared<both<T>>() + thread.seen_at;
    const march_place<T> place =
        march_place_of<tile>(work, view, thread, begin);
    struct march_reach reach = march_reach_of<tile, spline>(work, thread);
    const bool border =
        __any_sync(FULL_WARP_MASK,
                   reach.x[0] != all || reach.x[1] != all || reach.y != all);
    const bool escapes = tile::decode && s_block->chunk.nescapes > 0;
    long_planes<T> planes = {};

    load_coarse<tile>(work, thread, place.coarse, begin, &planes);
    march_steps<tile>(
        work, view, s_block, thread, reach, place, begin, begin, end,
        [&](const march<T> &m, const march_input<T> &in, T *fine) {
            for (int n = 0; n + 1 < LONG_NREACHED; n++)
                planes.coarse[n] = planes.coarse[n + 1];
            planes.coarse[LONG_NREACHED - 1] = *in.s_coarse;
            bool inside = !border && m.step.has_even && m.step.has_odd &&
                          is_inside<tile>(m.step.odd_z, work.nz);
            if (escapes)
                inside = inside && !warp_has_escapes<tile>(in);
            if (inside) {
                make_blended_step<tile, true>(m, in, &planes, s, fine);
            } else {
                reach.z =
                    march_reach_at<spline>((uint32_t)m.step.odd_z, work.nz);
                make_blended_step<tile, false>(m, in, &planes, s, fine);
            }
        });
}

/* ---- points that are not blended ---- */

/* Returns the prediction of the point of three odd dimensions at `at`: the
 * average over the dimensions whose stencils have the highest order. */
template <typename T>
static __device__ __forceinline__ T
predict_last(const struct march_work &work, const uint32_t cube[MARCH_NDIMS],
             const T *at)
{
    const uint32_t n[] = {(uint32_t)work.nx, (uint32_t)work.ny,
                          (uint32_t)work.nz};
    const int64_t stride[] = {1, (int64_t)work.fine_row,
                              (int64_t)work.fine_plane};
    int best = -1, npredictions = 0;
    T sum = 0;

    for (int d = 0; d < MARCH_NDIMS; d++)
        best = max(best, terp_stencil_order(
                             terp_stencil_at(TERP_SPLINE_LONG, cube[d], n[d])));
    for (int d = MARCH_NDIMS - 1; d >= 0; d--) {
        const enum terp_stencil stencil =
            terp_stencil_at(TERP_SPLINE_LONG, cube[d], n[d]);
        if (terp_stencil_order(stencil) != best)
            continue;
        const T along = combine_at<T>(stencil, [&](int nabove) {
            return at[(2 * nabove - 1) * stride[d]];
        });
        sum = npredictions++ == 0 ? along : sum + along;
    }
    return sum * TERP_SHARE(T, npredictions);
}

/* Returns the number of rows of points of three odd dimensions without an even
 * point above them along y, in a brick; last_z_nrows: of others without one
 * along z. With an odd extent every point has an even point above it. */
static __host__ __device__ __forceinline__ uint32_t
last_y_nrows(const struct march_work &work)
{
    return work.odd_ny == work.ny ? (uint32_t)work.odd_nz : 0;
}

static __host__ __device__ __forceinline__ uint32_t
last_z_nrows(const struct march_work &work)
{
    return work.odd_nz == work.nz
               ? (uint32_t)(work.odd_ny - (work.odd_ny == work.ny))
               : 0;
}

/* The tile of a single point: its constants are those of any ragged tile. */
template <typename T, bool decode>
using last_tile =
    march_tile<T, decode, march_blended, 32, 16, 2, 1, false, true>;

/* Grid: x = points, LAST_NTHREADS per block; y = chunks. Each thread makes one
 * point. No shared memory but a copy of the chunk's state. */
#define LAST_NTHREADS 256
template <typename T, bool decode>
static __global__ void
spline_march_last(const __grid_constant__ struct cuda_batch batch,
                  const __grid_constant__ struct march_work work, int l)
{
    begin_kernel();
    __shared__ struct cuda_chunk chunk;
    constexpr int ODD = MARCH_NCLASSES - 1;

    const struct cuda_chunk &state = batch.d_chunks[blockIdx.y];
    if (!chunk_applies(state) || !plan_marches_blended(state, l))
        return;
    copy_state(batch, threadIdx.x, LAST_NTHREADS, &chunk);
    uint64_t left = blockIdx.x * (uint64_t)LAST_NTHREADS + threadIdx.x;
    const uint32_t x = (uint32_t)split(&left, (uint64_t)work.odd_nx);
    const uint32_t nlast_y = last_y_nrows(work);
    const uint32_t row = (uint32_t)split(&left, nlast_y + last_z_nrows(work));
    if (left >= batch.d_layout->nbricks)
        return;
    const bool last_y = row < nlast_y;
    const uint32_t y = last_y ? (uint32_t)work.ny - 1 : row - nlast_y;
    const uint32_t z = last_y ? row : (uint32_t)work.nz - 1;
    const uint32_t cube[] = {x, y, z};
    const uint64_t brick_at = left * work.plane_ncubes * (uint64_t)work.nz;
    const uint64_t at = MARCH_NCLASSES * brick_at +
                        (2 * (uint64_t)z + 1) * work.fine_plane +
                        (2 * (uint64_t)y + 1) * work.fine_row + 2 * x + 1;
    level_view<T> view = view_of<T>(batch, chunk);
    view.k = level_constants<T>(chunk, chunk.model.plan[l]);
    typedef last_tile<T, decode> tile;
    const struct symbol_place place = symbol_place_of<tile, ODD>(work, x, y);
    uint16_t *at_symbol = view.symbols + brick_at + work.class_at[ODD] +
                          symbol_at<tile, ODD>(work, place, (int)z);
    const uint64_t work_at = work.class_at[ODD] + brick_at +
                             (uint64_t)z * (work.odd_nx * work.odd_ny) +
                             (uint64_t)y * (uint64_t)work.odd_nx + x;
    T *fine = decode ? view.dst : view.work;
    uint32_t symbol = decode ? *at_symbol : 0;
    T made = decode ? (T)0 : view.src[at];
    const T pred = predict_last(work, cube, fine + at);
    make_long_points<decode, 1>(view, &pred, work_at, 1, &made, &symbol);
    if (decode) {
        fine[at] = made;
    } else {
        *at_symbol = (uint16_t)symbol;
        if (symbol == TERP_ESCAPE)
            count_escape(view, work_at);
    }
}

template <typename T, bool decode>
static cudaError_t
launch_march_last(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    struct march_work work;

    make_march_work<last_tile<T, decode>>(batch, l, &work);
    const uint64_t npoints =
        (uint64_t)(last_y_nrows(work) + last_z_nrows(work)) *
        (uint64_t)work.odd_nx * batch->h_layout->nbricks;
    if (npoints == 0)
        return cudaSuccess;
    return launch_stage(batch, stream, spline_march_last<T, decode>,
                        div_up(npoints, LAST_NTHREADS), LAST_NTHREADS, work, l);
}

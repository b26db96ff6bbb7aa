/* Marches through a level of a cubic, natural or long spline whose points are
 * averages over all their odd dimensions; most smooth chunks have such a finest
 * level. gpu/predict/march.cuh explains marching. Points with odd z are made
 * when the even planes above them exist. The kernel also marches by fully
 * blended long splines (gpu/predict/spline_march_blended.cuh). */
#pragma once

#include "gpu/predict/spline_march_blended.cuh"

/* The constants of a long spline, see march_cubic. */
struct march_far {
    static constexpr bool blended = false;
    static constexpr int below = LONG_LEFT, above = LONG_RIGHT;
    static constexpr int odd_lag = above, coarse_lead = 0;
    static constexpr int nseen = 6;
    static constexpr bool odd_x_far = true;
    static constexpr int batch_nz = 32;
};

/* ---- prediction ---- */

/* The borders of the chunk at which the threads of a warp have points. Points
 * at borders have stencils of lower order. */
enum march_borders {
    MARCH_INSIDE,
    MARCH_BORDER_X,
    MARCH_BORDER_ANY
};

/* Gathers the lines along z from the planes before and the current plane. */
template <typename tile, typename T>
static __device__ __forceinline__ lines<T, tile::npoints>
along_z(const both<T> (&old)[tile::npoints - 1][4], const both<T> &now,
        int of_class)
{
    lines<T, tile::npoints> lines;

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++) {
#pragma unroll
        for (int n = 0; n + 1 < tile::npoints; n++)
            lines.of[i].at[n] = old[n][of_class].at[i];
        lines.of[i].at[tile::npoints - 1] = now.at[i];
    }
    return lines;
}

/* Returns the four even points next to an odd point. */
template <typename T, int npoints>
static __device__ __forceinline__ line<T, 4>
nearest_of(const line<T, npoints> &line)
{
    const T *b = &line.at[npoints / 2 - 1];

    return {{b[-1], b[0], b[1], b[2]}};
}

/* Returns the prediction of a point all of whose odd dimensions have stencils
 * of lower order. Not inlined, because few points need it. */
template <int odd, typename T>
static __device__ __noinline__ T
predict_corner(unsigned reach_z, unsigned reach_y, unsigned reach_x,
               line<T, 4> z, line<T, 4> y, line<T, 4> x)
{
    const int order_z = odd & MARCH_ODD_Z ? order_of_low(reach_z) : -1;
    const int order_y = odd & MARCH_ODD_Y ? order_of_low(reach_y) : -1;
    const int order_x = odd & MARCH_ODD_X ? order_of_low(reach_x) : -1;
    const int best = max(order_z, max(order_y, order_x));
    T sum = (T)-0.0;

    sum += order_z == best ? low_of(reach_z, z) : (T)-0.0;
    sum += order_y == best ? low_of(reach_y, y) : (T)-0.0;
    sum += order_x == best ? low_of(reach_x, x) : (T)-0.0;
    const int n = (order_z == best) + (order_y == best) + (order_x == best);
    return sum * TERP_SHARE(T, n);
}

/* Returns the prediction of a point of class `odd`. A stencil of lower order
 * does not count next to a cubic stencil. -0 takes its place in the sum,
 * because adding -0 changes no sum. */
template <enum terp_spline spline, int odd, int borders, typename T,
          int npoints>
static __device__ __forceinline__ T
predict_marched(const struct march_reach &reach, unsigned reach_x,
                const line<T, npoints> &z, const line<T, npoints> &y,
                const line<T, npoints> &x)
{
    constexpr int N = (odd & 1) + (odd >> 1 & 1) + (odd >> 2);
    constexpr bool ANY = borders == MARCH_BORDER_ANY, INSIDE = !ANY;
    constexpr bool INSIDE_X = borders == MARCH_INSIDE;
    const bool low_x =
        borders != MARCH_INSIDE && odd & MARCH_ODD_X && is_low(reach_x);
    const bool low_y = ANY && odd & MARCH_ODD_Y && is_low(reach.y);
    const bool low_z = ANY && odd & MARCH_ODD_Z && is_low(reach.z);
    const int n = N - (int)low_x - (int)low_y - (int)low_z;
    T sum = (T)-0.0;

    if constexpr (N == 1) {
        const line<T, npoints> &line = odd == MARCH_ODD_X   ? x
                                       : odd == MARCH_ODD_Y ? y
                                                            : z;
        const unsigned own = odd == MARCH_ODD_X   ? reach_x
                             : odd == MARCH_ODD_Y ? reach.y
                                                  : reach.z;
        constexpr bool INSIDE_OWN = odd == MARCH_ODD_X ? INSIDE_X : INSIDE;
        return n == 0 ? low_of(own, line)
                      : whole_of<spline, INSIDE_OWN>(own, line);
    } else {
        if (ANY && n == 0)
            return predict_corner<odd>(reach.z, reach.y, reach_x, nearest_of(z),
                                       nearest_of(y), nearest_of(x));
        if (odd & MARCH_ODD_Z)
            sum += low_z ? (T)-0.0 : whole_of<spline, INSIDE>(reach.z, z);
        if (odd & MARCH_ODD_Y)
            sum += low_y ? (T)-0.0 : whole_of<spline, INSIDE>(reach.y, y);
        if (odd & MARCH_ODD_X)
            sum += low_x ? (T)-0.0 : whole_of<spline, INSIDE_X>(reach_x, x);
        return sum * TERP_SHARE(T, n);
    }
}

template <enum terp_spline spline, int odd, int borders, typename T,
          int npoints>
static __device__ __forceinline__ both<T>
predict_both(const struct march_reach &reach, const lines<T, npoints> &z,
             const lines<T, npoints> &y, const lines<T, npoints> &x)
{
    both<T> pred;

#pragma unroll
    for (int i = 0; i < MARCH_WIDTH; i++)
        pred.at[i] = predict_marched<spline, odd, borders>(
            reach, reach.x[i], z.of[i], y.of[i], x.of[i]);
    return pred;
}

/* ---- a block ---- */

/* Makes a thread's points of a step. `old`: the thread's even points of the
 * planes before, oldest first. `s`: its element in shared memory. `fine`: its
 * even row in the output.
 *
 * A step has two barriers. Shared memory written before the first barrier is
 * read before the second. Memory written between the barriers is read before
 * the first barrier of the next step. */
template <typename tile, enum terp_spline spline, int borders, typename T>
static __device__ __forceinline__ void
make_step(const march<T> &m, const march_input<T> &in,
          both<T> (&old)[tile::npoints - 1][4], both<T> *s, T *fine)
{
    constexpr int N = tile::nboth, NOLD = tile::npoints - 1;
    /* Steps that make only even or only odd planes are at the ends of a
     * segment. */
    const bool even = borders != MARCH_BORDER_ANY || m.step.has_even;
    const bool odd = borders != MARCH_BORDER_ANY || m.step.has_odd;
    const lines<T, tile::npoints> none = {};
    both<T> e[4] = {}, o[4] = {};

/* These macros keep the calls below short. MARCH_Z(i) is the lines along z
 * through even class i. MARCH_MAKE(class, z, y, x) predicts both points of a
 * class from its lines along z, y and x, `none` where the class is even, and
 * quantizes or reconstructs them.
 *
 * Example: MARCH_MAKE(5, MARCH_Z(1), none, along_x<tile>(s + N, o[0])) makes
 * the points of class 5, odd in x and z. Along z they lie between points of
 * class 1 (odd in x), along x between points of class 4 (odd in z), which are
 * o[0]. */
#define MARCH_Z(i) along_z<tile>(old, e[i], i)
#define MARCH_MAKE(class, z, y, x)                       \
    make_both<tile, class, borders == MARCH_BORDER_ANY>( \
        m, in, predict_both<spline, class, borders>(m.reach, z, y, x))
    if (even) {
        e[0] = *in.s_coarse;
        if (m.thread.is_seen)
            s[0] = e[0];
    }
    if (odd) {
        o[0] = MARCH_MAKE(4, MARCH_Z(0), none, none);
        if (m.thread.is_seen)
            s[N] = o[0];
    }
    __syncthreads();
    if (even) {
        e[1] = MARCH_MAKE(1, none, none, along_x<tile>(s, e[0]));
        if (m.thread.is_seen)
            s[2 * N] = e[1];
    }
    if (odd) {
        o[1] = MARCH_MAKE(5, MARCH_Z(1), none, along_x<tile>(s + N, o[0]));
        if (m.thread.is_seen)
            s[3 * N] = o[1];
    }
    if (m.thread.in_tile_y) {
        if (even)
            s[4 * N] = e[2] = MARCH_MAKE(2, none, along_y<tile>(s, e[0]), none);
        if (odd)
            s[5 * N] = o[2] =
                MARCH_MAKE(6, MARCH_Z(2), along_y<tile>(s + N, o[0]), none);
    }
    __syncthreads();
    if (m.thread.in_tile_y) {
        if (even)
            e[3] = MARCH_MAKE(3, none, along_y<tile>(s + 2 * N, e[1]),
                              along_x<tile>(s + 4 * N, e[2]));
        if (odd)
            o[3] = MARCH_MAKE(7, MARCH_Z(3), along_y<tile>(s + 3 * N, o[1]),
                              along_x<tile>(s + 5 * N, o[2]));
    }
#undef MARCH_MAKE
#undef MARCH_Z
    if constexpr (tile::decode)
        store_step<tile>(m, fine, e, o);
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int n = 0; n + 1 < NOLD; n++)
            old[n][i] = old[n + 1][i];
        old[NOLD - 1][i] = e[i];
    }
}

/* Runs all steps of a block, for the cubes of a segment along z. */
template <typename tile, enum terp_spline spline, typename T>
static __device__ __forceinline__ void
march_along_z(const struct march_work &work, const level_view<T> &view,
              march_shared<T> *s_block, const struct march_thread &thread,
              int begin, int end)
{
    const unsigned inside = reach_inside<spline>();
    const int first = max(begin - tile::below, 0);
    both<T> *s = dynamic_shared<both<T>>() + thread.seen_at;
    const march_place<T> place =
        march_place_of<tile>(work, view, thread, first);
    struct march_reach reach = march_reach_of<tile, spline>(work, thread);
    const bool border_x = __any_sync(FULL_WARP_MASK, reach.x[0] != inside ||
                                                         reach.x[1] != inside);
    const bool border_y = __any_sync(FULL_WARP_MASK, reach.y != inside);
    /* Cubic and natural splines have few stencils at borders of x. A warp there
     * uses code that handles only borders of x. Long splines have more
     * stencils: if tiles are whole planes, all warps use that code; otherwise
     * the few warps at borders use the code for any border. */
    constexpr bool is_long = spline == TERP_SPLINE_LONG;
    const bool any_border = border_y || (is_long && !tile::whole && border_x);
    const bool take_x = is_long ? tile::whole : border_x;
    const bool escapes = tile::decode && s_block->chunk.nescapes > 0;
    both<T> old[tile::npoints - 1][4] = {};

    march_steps<tile>(
        work, view, s_block, thread, reach, place, first, begin, end,
        [&](const march<T> &m, const march_input<T> &in, T *fine) {
            bool any = any_border || !m.step.has_even || !m.step.has_odd ||
                       !is_inside<tile>(m.step.odd_z, work.nz);
            if (escapes)
                any |= warp_has_escapes<tile>(in);
            if (any) {
                reach.z =
                    march_reach_at<spline>((uint32_t)m.step.odd_z, work.nz);
                make_step<tile, spline, MARCH_BORDER_ANY>(m, in, old, s, fine);
            } else if (take_x) {
                make_step<tile, spline, MARCH_BORDER_X>(m, in, old, s, fine);
            } else {
                make_step<tile, spline, MARCH_INSIDE>(m, in, old, s, fine);
            }
        });
}

/* Does the work of a block whose chunk has the plan. `shape` holds the work
 * without its brick. */
template <typename tile, enum terp_spline spline, typename T>
static __device__ __forceinline__ void
march_block(const struct cuda_batch &batch, const struct march_work &shape,
            int l, march_shared<T> *s_block)
{
    struct march_work work = shape;
    level_view<T> view;
    const struct march_part part =
        begin_march<tile>(batch, l, &work, &view, s_block);

    const struct march_thread thread =
        march_thread_of<tile>(work, part.x, part.y);

    if constexpr (tile::blended)
        march_blended_along_z<tile>(work, view, s_block, thread, part.begin,
                                    part.end);
    else
        march_along_z<tile, spline>(work, view, s_block, thread, part.begin,
                                    part.end);
}

/* Grid: x = tiles along x, then y, then segments, then bricks; y = chunks.
 * Block: tile::nthreads threads; each owns two cubes of every plane of the
 * segment. Dynamic shared memory: tile::shared_nbytes; points of the classes
 * that are read along x or y, then input on its way. Barriers: see make_step.
 * Different blocks do not wait for each other. */
template <typename T, typename tile, enum terp_spline spline>
static __global__ void
__launch_bounds__(tile::nthreads, tile::nblocks)
    spline_march(const __grid_constant__ struct cuda_batch batch,
                 const __grid_constant__ struct march_work shape, int l)
{
    __shared__ march_shared<T> s_block;
    const struct cuda_chunk &state = begin_chunk(batch);
    if (!chunk_applies(state) || !values_are_even<tile::decode>(state) ||
        !(tile::blended ? plan_marches_blended(state, l)
                        : plan_marches<T>(state, l) &&
                              state.model.plan[l].spline == spline))
        return;
    march_block<tile, spline>(batch, shape, l, &s_block);
}

template <typename T, typename tile, enum terp_spline spline>
static cudaError_t
launch_march_by(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    constexpr unsigned plan = tile::blended                 ? CUDA_MARCH_BLENDED
                              : spline == TERP_SPLINE_CUBIC ? CUDA_MARCH_CUBIC
                              : spline == TERP_SPLINE_NATURAL
                                  ? CUDA_MARCH_NATURAL
                                  : CUDA_MARCH_LONG;
    struct march_work work;

    if (!may_march(batch, plan))
        return cudaSuccess;
    const uint64_t nblocks = make_march_work<tile>(batch, l, &work);

    return launch_shared(batch, stream, spline_march<T, tile, spline>, nblocks,
                         tile::nthreads, tile::shared_nbytes, work, l);
}

/* The most cubes along y for which blended tiles of 32 x 32 cubes are used,
 * which suit chunks of 64^3. Taller planes use tiles of 32 x 24, which keep a
 * multiprocessor busiest. */
#define BLENDED_SMALL_NY 64
template <typename T, bool decode, int ny>
using blended_tile = march_tile<T, decode, march_blended, 32, ny, 2, 1>;

template <typename T, bool decode>
static cudaError_t
launch_march(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    typedef march_tile<T, decode, march_cubic, 32, 16, decode ? 3 : 2,
                       sizeof(T) == 4 ? 2 : 1>
        tile;
    constexpr enum terp_spline LONG = TERP_SPLINE_LONG;

    cudaError_t error =
        launch_march_by<T, tile, TERP_SPLINE_CUBIC>(batch, l, stream);
    if (error == cudaSuccess)
        error = launch_march_by<T, tile, TERP_SPLINE_NATURAL>(batch, l, stream);
    if constexpr (sizeof(T) == 8) {
        typedef blended_tile<T, decode, 16> blended;
        return error == cudaSuccess
                   ? launch_march_by<T, blended, LONG>(batch, l, stream)
                   : error;
    } else {
        typedef march_tile<T, decode, march_far, 32, 16, 2, 1> far;
        typedef blended_tile<T, decode, 32> small;
        typedef blended_tile<T, decode, 24> large;
        if (error == cudaSuccess)
            error = launch_march_by<T, far, LONG>(batch, l, stream);
        if (error != cudaSuccess)
            return error;
        return batch->h_layout->level[l].neven[1] <= BLENDED_SMALL_NY
                   ? launch_march_by<T, small, LONG>(batch, l, stream)
                   : launch_march_by<T, large, LONG>(batch, l, stream);
    }
}

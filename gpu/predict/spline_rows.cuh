/* The spline predictor along rows of a large level: how the threads of a block
 * make the points of some rows of one type. gpu/predict/spline.cu explains rows
 * and types.
 *
 * Template parameters of this file: T is the type of the values. nodd_dims is
 * the number of odd dimensions above 0 of the rows, 0 to 3. width is how many
 * even points a thread has, 1 or SPLINE_WIDE. vector: all points exist and are
 * aligned, so a thread loads them as one word. blend: points of the level may
 * be blended. Example: make_points<float, 1, true, 2, true, false> decodes rows
 * that are odd along one dimension above 0. Each thread has two even and two
 * odd points, which it stores as one word of 16 bytes. */
#pragma once

#include "gpu/predict/spline_values.cuh"

/* ---- values ---- */

/* The points of a thread in a row of the fine lattice: `width` even points,
 * each followed by the odd point after it. */
template <typename T, int width> struct alignas(sizeof(T) * 2 * width) points {
    T at[2 * width];
};

template <int width, typename T>
static __device__ __forceinline__ bool
is_aligned(const T *at)
{
    return (uintptr_t)at % sizeof(points<T, width>) == 0;
}

/* Whether all points of the threads of a level exist and are aligned. */
template <typename T, bool decode, int width>
static __device__ __forceinline__ bool
is_vector(const struct level_shape &shape, const level_view<T> &view)
{
    return shape.nodd == shape.neven && shape.neven % width == 0 &&
           is_aligned<width>(view.fine) &&
           (decode || shape.l > 1 || is_aligned<width>(view.src));
}

/* With `vector` the points are aligned and all exist; otherwise only n of them
 * exist. */
template <int width, bool vector, typename T>
static __device__ __forceinline__ points<T, width>
load_points(const T *at, uint32_t n)
{
    if (vector)
        return *reinterpret_cast<const points<T, width> *>(at);
    points<T, width> p = {};
#pragma unroll
    for (uint32_t i = 0; i < 2 * width; i++)
        if (i < n)
            p.at[i] = at[i];
    return p;
}

template <int width, bool vector, typename T>
static __device__ __forceinline__ void
store_points(T *at, const points<T, width> &p, uint32_t n)
{
    if constexpr (vector) {
        *reinterpret_cast<points<T, width> *>(at) = p;
    } else {
#pragma unroll
        for (uint32_t i = 0; i < 2 * width; i++)
            if (i < n)
                at[i] = p.at[i];
    }
}

/* Loads, or stores, the symbols of neighbouring points of a class; n of them
 * exist. */
template <int width>
static __device__ __forceinline__ void
load_symbols(const uint16_t *at, uint32_t n, uint32_t symbol_ret[width])
{
    if (width == 2 && n >= 2 && (uintptr_t)at % 4 == 0) {
        uint32_t both = *reinterpret_cast<const uint32_t *>(at);
        symbol_ret[0] = both & 0xFFFF;
        symbol_ret[width - 1] = both >> 16;
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < width; i++)
        if (i < n)
            symbol_ret[i] = at[i];
}

template <int width>
static __device__ __forceinline__ void
store_symbols(uint16_t *at, uint32_t n, const uint32_t symbol[width])
{
    if (width == 2 && n >= 2 && (uintptr_t)at % 4 == 0) {
        *reinterpret_cast<uint32_t *>(at) = symbol[0] | symbol[width - 1] << 16;
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < width; i++)
        if (i < n)
            at[i] = (uint16_t)symbol[i];
}

template <typename T, bool decode>
static __device__ __forceinline__ void
view_level(const struct cuda_chunk &chunk, const struct level_shape &shape,
           level_view<T> *view)
{
    const struct terp_level_plan &plan = chunk.model.plan[shape.l];

    view->coarse = view->lattice + shape.coarse_at;
    view->fine = shape.l > 1 ? view->lattice + shape.fine_at
                 : decode    ? view->dst
                             : view->work;
    view->k = level_constants<T>(chunk, plan);
    view->spline = (enum terp_spline)plan.spline;
    view->blend_order = terp_blend_order(plan.priorities);
}

/* ---- prediction ---- */

/* Returns the sums of the predictions of a thread's points along the dimensions
 * above 0, slowest first. `at`: the points in the fine lattice; n of them
 * exist. */
template <typename T, int nodd_dims, int width, bool vector>
static __device__ __forceinline__ points<T, width>
predict_points(const struct row_type &type, const run<T> &run, const T *at,
               uint32_t n)
{
    points<T, width> sum = {};

    if (run.plain) {
        points<T, width> a[NUPPER], b[NUPPER], c[NUPPER], d[NUPPER];
#pragma unroll
        for (int j = 0; j < nodd_dims; j++) {
            uint64_t stride = type.stride[j];
            a[j] = load_points<width, vector>(at - 3 * stride, n);
            b[j] = load_points<width, vector>(at - stride, n);
            c[j] = load_points<width, vector>(at + stride, n);
            d[j] = load_points<width, vector>(at + 3 * stride, n);
        }
#pragma unroll
        for (int j = 0; j < nodd_dims; j++) {
#pragma unroll
            for (int i = 0; i < 2 * width; i++) {
                T along =
                    TERP_CUBIC(a[j].at[i], b[j].at[i], c[j].at[i], d[j].at[i]);
                sum.at[i] = j == 0 ? along : sum.at[i] + along;
            }
        }
        return sum;
    }
    unsigned seen = 0;
#pragma unroll
    for (int j = 0; j < nodd_dims; j++) {
        points<T, width> a = {}, b, c = {}, d = {};
        const uint64_t stride = type.stride[j];
        const enum terp_stencil stencil = (enum terp_stencil)run.stencil[j];
        if (!((run.even_dims | run.odd_dims) >> j & 1))
            continue;
        b = load_points<width, vector>(at - stride, n);
        if (terp_stencil_has_a(stencil))
            a = load_points<width, vector>(at - 3 * stride, n);
        if (terp_stencil_has_c(stencil))
            c = load_points<width, vector>(at + stride, n);
        if (terp_stencil_has_d(stencil))
            d = load_points<width, vector>(at + 3 * stride, n);
#pragma unroll
        for (int i = 0; i < 2 * width; i++) {
            const unsigned dims = i % 2 == 0 ? run.even_dims : run.odd_dims;
            T along = combine(stencil, a.at[i], b.at[i], c.at[i], d.at[i]);
            if (dims >> j & 1)
                sum.at[i] = seen >> i & 1 ? sum.at[i] + along : along;
            seen |= (dims >> j & 1) << i;
        }
    }
    return sum;
}

/* Points of a neighbouring row: the points at the same positions as the
 * thread's points, and the even point after them. */
template <typename T, int width> struct beside {
    points<T, width> p;
    T behind;
};

template <int width, bool vector, typename T>
static __device__ __forceinline__ beside<T, width>
load_beside(const T *at, uint32_t n)
{
    beside<T, width> row;

    row.p = load_points<width, vector>(at, n);
    row.behind = n > 2 * width ? at[2 * width] : (T)0;
    return row;
}

/* Returns the sum of the two even points around odd point o. */
template <int width, typename T>
static __device__ __forceinline__ T
evens_around(const beside<T, width> &row, int o)
{
    return row.p.at[2 * o] +
           (o + 1 < width ? row.p.at[(2 * o + 2) % (2 * width)] : row.behind);
}

/* The contributions of other rows to a thread's blended points. */
template <typename T, int width> struct blended {
    blend<T> even[width], odd[width];
};

/* Loads the neighbours of blended points. With nodd_dims 1, odd points have two
 * odd dimensions. With nodd_dims 2, even points have two and odd points three.
 */
template <typename T, int nodd_dims, int width, bool vector>
static __device__ __forceinline__ void
load_blended(const struct row_type &type, const T *at, uint32_t n,
             blended<T, width> *near)
{
    const uint64_t s = type.stride[0], f = type.stride[1];
    const beside<T, width> b = load_beside<width, vector>(at - s, n);
    const beside<T, width> c = load_beside<width, vector>(at + s, n);

    if (nodd_dims == 1) {
#pragma unroll
        for (int i = 0; i < width; i++) {
            near->odd[i].faces = b.p.at[2 * i + 1] + c.p.at[2 * i + 1];
            near->odd[i].edges = evens_around(b, i) + evens_around(c, i);
        }
        return;
    }
    const beside<T, width> fb = load_beside<width, vector>(at - f, n);
    const beside<T, width> fc = load_beside<width, vector>(at + f, n);
    const beside<T, width> bb = load_beside<width, vector>(at - s - f, n);
    const beside<T, width> bc = load_beside<width, vector>(at - s + f, n);
    const beside<T, width> cb = load_beside<width, vector>(at + s - f, n);
    const beside<T, width> cc = load_beside<width, vector>(at + s + f, n);
#pragma unroll
    for (int i = 0; i < width; i++) {
        const int e = 2 * i, o = 2 * i + 1;
        near->even[i].faces =
            (b.p.at[e] + c.p.at[e]) + (fb.p.at[e] + fc.p.at[e]);
        near->even[i].edges =
            (bb.p.at[e] + bc.p.at[e]) + (cb.p.at[e] + cc.p.at[e]);
        near->odd[i].faces =
            (b.p.at[o] + c.p.at[o]) + (fb.p.at[o] + fc.p.at[o]);
        near->odd[i].edges =
            (((bb.p.at[o] + bc.p.at[o]) + (cb.p.at[o] + cc.p.at[o])) +
             (evens_around(b, i) + evens_around(c, i))) +
            (evens_around(fb, i) + evens_around(fc, i));
        near->odd[i].corners = (evens_around(bb, i) + evens_around(bc, i)) +
                               (evens_around(cb, i) + evens_around(cc, i));
    }
}

/* Loads the neighbours of an even point with three odd dimensions. */
template <typename T>
static __device__ __forceinline__ blend<T>
load_cube(const struct row_type &type, const T *at)
{
    blend<T> near;
    T face[NUPPER], edge[NUPPER], corner[4];
    const int64_t stride[NUPPER] = {(int64_t)type.stride[0],
                                    (int64_t)type.stride[1],
                                    (int64_t)type.stride[2]};

#pragma unroll
    for (int j = 0; j < NUPPER; j++) {
        const int64_t s = stride[j == 2], f = stride[j == 0 ? 1 : 2];
        face[j] = at[-stride[j]] + at[stride[j]];
        edge[j] = (at[-s - f] + at[-s + f]) + (at[s - f] + at[s + f]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const T *row = at + (i & 2 ? stride[0] : -stride[0]) +
                       (i & 1 ? stride[1] : -stride[1]);
        corner[i] = row[-stride[2]] + row[stride[2]];
    }
    near.faces = (face[0] + face[1]) + face[2];
    near.edges = (edge[0] + edge[1]) + edge[2];
    near.corners = (corner[0] + corner[1]) + (corner[2] + corner[3]);
    return near;
}

/* Returns the prediction of an odd point. `sum`: its predictions along the
 * dimensions above 0. `even`: its row from even point x on. */
template <typename T>
static __device__ __forceinline__ T
predict_odd(const level_view<T> &view, const run<T> &run, T sum, const T *even,
            uint32_t x, uint32_t neven)
{
    T along;
    int order;

    if (!run.along_0)
        return sum * run.share_odd;
    if (x >= 1 && x + 2 < neven && view.spline == TERP_SPLINE_CUBIC) {
        along = TERP_CUBIC(even[-1], even[0], even[1], even[2]);
        order = terp_stencil_order(TERP_STENCIL_CUBIC);
    } else {
        enum terp_stencil stencil = terp_stencil_at(view.spline, x, neven);
        along = combine(stencil, terp_stencil_has_a(stencil) ? even[-1] : (T)0,
                        even[0], terp_stencil_has_c(stencil) ? even[1] : (T)0,
                        terp_stencil_has_d(stencil) ? even[2] : (T)0);
        order = terp_stencil_order(stencil);
    }
    return order == run.odd_order  ? (sum + along) * run.share_odd_0
           : order > run.odd_order ? along
                                   : sum * run.share_odd;
}

/* The position of a thread: its row among the nat_once rows that the block
 * makes at a time, and its column among the shape.span threads of a row. Each
 * thread has shape.width even points and the odd ones after them. Threads
 * beyond the last row only take part in barriers. */
struct place {
    unsigned nat_once, row, column;
};

/* Stores symbols in tile order and counts escapes. `work_at`: index of the
 * first point in level order. */
template <int width, typename T>
static __device__ __forceinline__ void
write_symbols(const level_view<T> &view, uint64_t tiled, uint64_t work_at,
              uint32_t n, const uint32_t symbol[width])
{
    bool escaped = false;

    store_symbols<width>(view.symbols + tiled, n, symbol);
#pragma unroll
    for (uint32_t i = 0; i < width; i++)
        escaped |= symbol[i] == TERP_ESCAPE;
    for (uint32_t i = 0; escaped && i < width; i++)
        if (i < n && symbol[i] == TERP_ESCAPE)
            count_escape(view, work_at + i);
}

/* Replaces escaped values by the values that a decoder will have. `value` holds
 * the n even, or odd, points at every second element. */
template <int width, typename T>
static __device__ __forceinline__ void
put_escapes_on_grid(const level_view<T> &view, uint32_t n,
                    const uint32_t symbol[width], T *value)
{
    bool escaped = false;

#pragma unroll
    for (uint32_t i = 0; i < width; i++)
        escaped |= i < n && symbol[i] == TERP_ESCAPE;
    if (__builtin_expect(!escaped, 1))
        return;
#pragma unroll
    for (uint32_t i = 0; i < width; i++)
        if (i < n && symbol[i] == TERP_ESCAPE)
            value[2 * i] = put_on_grid(value[2 * i], view);
}

/* A thread's input: the values or symbols of its points, loaded before it
 * predicts them. */
template <typename T, int width> struct input {
    points<T, width> value;                         /* encode */
    uint32_t even_symbol[width], odd_symbol[width]; /* decode */
};

/* Returns the index in tile order of point x of a run. */
template <typename T>
static __device__ __forceinline__ uint64_t
symbol_at(const struct level_shape &shape, const run<T> &run, uint64_t tiled,
          uint32_t n0, uint32_t x)
{
    const uint32_t box = 1u << terp_box_extent_log2(shape.rank);
    const uint32_t low = x & ~(box - 1);
    return tiled + (uint64_t)low * run.box_nrows +
           (run.row_in_box * min_u32(box, n0 - low) + (x - low));
}

template <typename T, int nodd_dims, bool decode, int width, bool vector>
static __device__ __forceinline__ void
load_input(const struct level_shape &shape, const level_view<T> &view,
           const run<T> &run, uint32_t x, input<T, width> *in)
{
    const uint64_t stride = shape.src_stride[0];
    const uint32_t neven = shape.neven, nodd = vector ? neven : shape.nodd;

    if (x >= neven)
        return;
    if (decode) {
        const uint16_t *symbols = view.symbols;
        if (nodd_dims > 0)
            load_symbols<width>(
                symbols + symbol_at(shape, run, run.even_tiled, neven, x),
                vector ? width : neven - x, in->even_symbol);
        if (x < nodd)
            load_symbols<width>(
                symbols + symbol_at(shape, run, run.odd_tiled, nodd, x),
                vector ? width : nodd - x, in->odd_symbol);
        return;
    }
    const T *src = view.src + run.src_at + 2 * stride * x;
    if (vector && shape.l == 1) {
        in->value = load_points<width, vector>(src, 2 * width);
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < width; i++) {
        if (nodd_dims > 0 && x + i < neven)
            in->value.at[2 * i] = src[2 * i * stride];
        if (x + i < nodd)
            in->value.at[2 * i + 1] = src[(2 * i + 1) * stride];
    }
}

/* The work of a thread in a turn: its points of a run, from point x of the row
 * on. */
template <typename T> struct turn {
    const struct run<T> &run;
    uint32_t x;
    bool exists; /* its first even point exists */
    /* The segment owns the points. Other points are computed for its odd
     * points. */
    bool owned;
    bool blends;
    uint32_t n; /* points of the row from here on */
    T *fine;    /* address of the thread's points */
};

/* Makes the even points from points of other rows: by `sum`, or by `near` where
 * points are blended. */
template <typename T, int nodd_dims, bool decode, int width, bool vector>
static __device__ __forceinline__ void
make_even_points(const struct level_shape &shape, const struct row_type &type,
                 const level_view<T> &view, const turn<T> &turn,
                 const points<T, width> &sum, const blended<T, width> &near,
                 input<T, width> *in)
{
    const uint32_t neven = shape.neven, x = turn.x;

#pragma unroll
    for (uint32_t e = 0; e < width; e++) {
        T &value = in->value.at[2 * e];
        uint32_t &symbol = in->even_symbol[e];
        T pred = sum.at[2 * e] * turn.run.share_even;
        if (!turn.exists || (!vector && x + e >= neven))
            continue;
        if (turn.blends && nodd_dims == 2)
            pred = blend_of<2>(near.even[e], view.blend_order);
        if (turn.blends && nodd_dims == 3)
            pred = blend_of<3>(load_cube(type, turn.fine + 2 * e),
                               view.blend_order);
        if (nodd_dims == 0)
            value = view.coarse[turn.run.row * neven + x + e];
        else if (!decode)
            value = quantize(value, pred, view, &symbol);
        else if (symbol != TERP_ESCAPE)
            value = reconstruct(symbol, pred, view);
        else
            value =
                view.work[type.even_class_at + turn.run.row * neven + x + e];
    }
    if (!decode && nodd_dims > 0 && turn.exists)
        put_escapes_on_grid<width>(view, vector ? width : neven - x,
                                   in->even_symbol, in->value.at);
}

/* Makes the odd points, also from the even points of their row. `s_even` points
 * to the thread's even points, with the row's others beside them. */
template <typename T, int nodd_dims, bool decode, int width, bool vector>
static __device__ __forceinline__ void
make_odd_points(const struct level_shape &shape, const struct row_type &type,
                const level_view<T> &view, const turn<T> &turn,
                const points<T, width> &sum, const T *s_even,
                blended<T, width> &near, input<T, width> *in)
{
    const uint32_t neven = shape.neven, nodd = vector ? neven : shape.nodd;
    const run<T> &run = turn.run;
    const uint32_t x = turn.x;
    /* The even point after the thread's points. */
    T behind = 0;
    if (turn.blends && turn.owned && x + width < neven)
        behind = s_even[width];
    const bool inside =
        run.plain_odd && turn.owned && x >= 1 && x + width + 1 < neven;
    T even[width + 3] = {};
    if (inside) {
        even[0] = s_even[-1];
#pragma unroll
        for (int e = 0; e < width; e++)
            even[1 + e] = in->value.at[2 * e];
        even[width + 1] = s_even[width];
        even[width + 2] = s_even[width + 1];
    }
#pragma unroll
    for (uint32_t o = 0; o < width; o++) {
        T &value = in->value.at[2 * o + 1];
        uint32_t &symbol = in->odd_symbol[o];
        T pred = sum.at[2 * o + 1];
        if (!turn.owned || (!vector && x + o >= nodd))
            continue;
        if (turn.blends && nodd_dims <= 2 && x + o + 1 < neven) {
            const T c = o + 1 < width ? in->value.at[(2 * o + 2) % (2 * width)]
                                      : behind;
            near.odd[o].faces += in->value.at[2 * o] + c;
            pred = blend_of<nodd_dims + 1>(near.odd[o], view.blend_order);
        } else if (inside) {
            T along =
                TERP_CUBIC(even[o], even[o + 1], even[o + 2], even[o + 3]);
            pred = run.odd_dims == 0 ? along : (pred + along) * run.share_odd_0;
        } else {
            pred = predict_odd(view, run, pred, s_even + o, x + o, neven);
        }
        if (!decode)
            value = quantize(value, pred, view, &symbol);
        else if (symbol != TERP_ESCAPE)
            value = reconstruct(symbol, pred, view);
        else
            value = view.work[type.odd_class_at + run.row * nodd + x + o];
    }
    if (!decode && turn.owned && x < nodd)
        put_escapes_on_grid<width>(view, vector ? width : nodd - x,
                                   in->odd_symbol, in->value.at + 1);
}

/* Stores the points that the thread owns, if later steps or the caller need
 * them, and their symbols. */
template <typename T, int nodd_dims, bool decode, int width, bool vector>
static __device__ __forceinline__ void
store_turn(const struct level_shape &shape, const struct row_type &type,
           const level_view<T> &view, const turn<T> &turn,
           const input<T, width> &in)
{
    const bool keep = decode || shape.l > 1 || nodd_dims < shape.nactive;
    const uint32_t neven = shape.neven, nodd = vector ? neven : shape.nodd;
    const run<T> &run = turn.run;
    const uint32_t x = turn.x;

    if (turn.owned && keep)
        store_points<width, vector>(turn.fine, in.value, turn.n);
    if (turn.owned && !decode && nodd_dims > 0)
        write_symbols<width>(view,
                             symbol_at(shape, run, run.even_tiled, neven, x),
                             type.even_class_at + run.row * neven + x,
                             vector ? width : neven - x, in.even_symbol);
    if (turn.owned && !decode && x < nodd)
        write_symbols<width>(view,
                             symbol_at(shape, run, run.odd_tiled, nodd, x),
                             type.odd_class_at + run.row * nodd + x,
                             vector ? width : nodd - x, in.odd_symbol);
}

/* Makes the points of `nruns` runs of one type in `nturns` turns. Odd points
 * read even points through s_even[2][capacity]. Its halves are used
 * alternately, so one barrier per turn suffices. The input of a turn is loaded
 * in the turn before. With `blend` the points of the level may be blended. */
template <typename T, int nodd_dims, bool decode, int width, bool vector,
          bool blend>
static __device__ __forceinline__ void
make_points(const struct level_shape &shape, const struct row_type &type,
            const level_view<T> &view, const run<T> *s_runs, unsigned nruns,
            unsigned nturns, const struct place &place, T *s_even, int capacity)
{
    const uint32_t neven = shape.neven, nodd = vector ? neven : shape.nodd;
    const uint32_t ahead = (place.column - shape.halo) * width;
    const bool may_own = ahead < shape.segment_npoints;
    input<T, width> next = {};
    unsigned i = place.row < place.nat_once ? place.row : nruns;

    if (i < nruns)
        load_input<T, nodd_dims, decode, width, vector>(
            shape, view, s_runs[i], s_runs[i].x + ahead, &next);
    s_even += (place.row * shape.span + place.column) * width;
    for (unsigned t = 0; t < nturns; t++) {
        const run<T> &run = s_runs[i < nruns ? i : 0];
        const uint32_t x = run.x + ahead;
        const bool exists = i < nruns && x < neven;
        const bool owned = exists && may_own;
        const uint32_t n = neven + nodd - 2 * x;
        T *fine = view.fine + run.fine_at + 2 * (uint64_t)x;
        input<T, width> in = next;
        points<T, width> sum = {};

        i += place.nat_once;
        if (i < nruns)
            load_input<T, nodd_dims, decode, width, vector>(
                shape, view, s_runs[i], s_runs[i].x + ahead, &next);
        const bool blends = blend && exists && run.blends;
        const turn<T> turn = {run, x, exists, owned, blends, n, fine};
        blended<T, width> near = {};
        if (exists && nodd_dims > 0 &&
            (!turn.blends || nodd_dims != 2 || x + width >= neven))
            sum = predict_points<T, nodd_dims, width, vector>(
                type, run, turn.fine, turn.n);
        if (turn.blends && nodd_dims <= 2)
            load_blended<T, nodd_dims, width, vector>(type, turn.fine, turn.n,
                                                      &near);
        make_even_points<T, nodd_dims, decode, width, vector>(
            shape, type, view, turn, sum, near, &in);
#pragma unroll
        for (uint32_t e = 0; e < width; e++)
            if (exists && (vector || x + e < neven))
                s_even[e] = in.value.at[2 * e];
        __syncthreads();
        make_odd_points<T, nodd_dims, decode, width, vector>(
            shape, type, view, turn, sum, s_even, near, &in);
        store_turn<T, nodd_dims, decode, width, vector>(shape, type, view, turn,
                                                        in);
        s_even += capacity;
        capacity = -capacity;
    }
}

/* The spline predictor along rows (gpu/predict/spline.cu) of a level with a
 * long spline or the mean. Few chunks have such levels, and only the device
 * knows which chunks. The other kernels of a level skip it, and the blocks of
 * these kernels end at once if there is nothing to do.
 *
 * A point reads up to eight points along each of its odd dimensions. A block
 * walks along the slowest odd dimension of its rows, and makes rows at the same
 * time that are neighbours along the next odd dimension. Most points that a
 * block reads are then in the multiprocessor's cache. Odd points of a row read
 * its even points through shared memory. Where points are blended,
 * they read the *misses* instead: the differences between the even points and
 * their predictions by linear interpolation along the other odd dimensions. */
#pragma once

#include "gpu/predict/march.cuh"
#include "gpu/predict/spline_rows.cuh"

/* An odd point reads up to LONG_LEFT even points before, and LONG_RIGHT after,
 * the even point on its left. */
#define LONG_LEFT 3
#define LONG_RIGHT 4

/* LONG_MAX_NBLOCKS: the most blocks of a launch for all chunks; few, because
 * none may be needed. LONG_MIN_NTASKS: tasks of a block, if there are enough
 * runs. LONG_MAX_NTURNS: the most turns of a task. */
#define LONG_MAX_NBLOCKS 396u
#define LONG_MIN_NTASKS 8u
#define LONG_MAX_NTURNS 32u

/* The even points of a thread. */
template <typename T>
static constexpr int long_width = sizeof(T) == 4 ? SPLINE_WIDE : 1;

/* Returns the prediction by linear interpolation: along `slow`, or blended
 * along `slow` and `fast`. `fast` is 0 if there is only one dimension. */
template <typename T>
static __device__ __forceinline__ T
blend_at(const T *at, int64_t slow, int64_t fast)
{
    const T faces = at[-slow] + at[slow];

    if (fast == 0)
        return faces * 0.5f;
    return TERP_BLEND_2(faces + (at[-fast] + at[fast]),
                        (at[-slow - fast] + at[-slow + fast]) +
                            (at[slow - fast] + at[slow + fast]));
}

/* Predicts a blended even point at `at`. */
template <typename T, int nodd_dims>
static __device__ __forceinline__ T
blend_long_even(const struct row_type &type, const run<T> &run, const T *at)
{
    constexpr int LAST = nodd_dims - 1;
    const int64_t slow = (int64_t)type.stride[0];
    const int64_t fast = nodd_dims == 3 ? (int64_t)type.stride[1] : 0;
    const int64_t along = (int64_t)type.stride[LAST];
    const T missed =
        combine_at<T>((enum terp_stencil)run.stencil[LAST], [&](int nabove) {
            const T *even = at + (2 * nabove - 1) * along;
            return *even - blend_at(even, slow, fast);
        });

    return missed + blend_at(at, slow, fast);
}

/* Returns the sums of the predictions of a thread's points along the dimensions
 * above 0. `at`: the points in the fine lattice; n of them exist. */
template <typename T, int nodd_dims, int width, bool vector>
static __device__ __forceinline__ points<T, width>
sum_long(const struct row_type &type, const run<T> &run, const T *at,
         uint32_t n)
{
    points<T, width> sum;

    /* Adding to -0 changes no number. */
#pragma unroll
    for (int i = 0; i < 2 * width; i++)
        sum.at[i] = (T)-0.0;
#pragma unroll
    for (int j = 0; j < nodd_dims; j++) {
        const enum terp_stencil stencil = (enum terp_stencil)run.stencil[j];
        const int64_t stride = (int64_t)type.stride[j];
        const auto row = [&](int nabove) {
            return load_points<width, vector>(at + (2 * nabove - 1) * stride,
                                              n);
        };
        points<T, width> along;
        if (stencil == TERP_STENCIL_EIGHT) {
            const points<T, width> z = row(-3), y = row(-2), a = row(-1),
                                   b = row(0), c = row(1), d = row(2),
                                   u = row(3), v = row(4);
#pragma unroll
            for (int i = 0; i < 2 * width; i++)
                along.at[i] = TERP_EIGHT(z.at[i], y.at[i], a.at[i], b.at[i],
                                         c.at[i], d.at[i], u.at[i], v.at[i]);
        } else {
            const reached<points<T, width>> rows =
                reach<points<T, width>>(stencil, row);
#pragma unroll
            for (int i = 0; i < 2 * width; i++) {
                T line[STENCIL_NPOINTS];
#pragma unroll
                for (int k = 0; k < STENCIL_NPOINTS; k++)
                    line[k] = rows.at[k].at[i];
                along.at[i] = combine_reached(stencil, line);
            }
        }
#pragma unroll
        for (int i = 0; i < 2 * width; i++)
            if ((i % 2 == 0 ? run.even_dims : run.odd_dims) >> j & 1)
                sum.at[i] += along.at[i];
    }
    return sum;
}

/* Predicts the odd point that follows even point x of a row, from the sum of
 * its predictions along the dimensions above 0. `line`: the even points around
 * it. */
template <typename T>
static __device__ __forceinline__ T
predict_long_odd(const run<T> &run, enum terp_spline spline, uint32_t x,
                 uint32_t neven, T sum, const line<T, STENCIL_NPOINTS> &line)
{
    enum terp_stencil stencil;
    T along;

    if (spline == TERP_SPLINE_LONG && neven >= MARCH_MIN_NEVEN) {
        const unsigned reach = march_reach_at<TERP_SPLINE_LONG>(x, (int)neven);
        stencil = (enum terp_stencil)(reach >> MARCH_REACH_NBITS);
        along = value_of<TERP_SPLINE_LONG, false>(reach, line);
    } else {
        stencil = terp_stencil_at(spline, x, neven);
        along = combine_reached(stencil, line.at);
    }
    const int order = terp_stencil_order(stencil);
    return order == run.odd_order  ? (sum + along) * run.share_odd_0
           : order > run.odd_order ? along
                                   : sum * run.share_odd;
}

/* Makes a thread's even points, or its odd points, from their predictions:
 * quantizes their values (encode), or reconstructs them from their symbols
 * (decode). n of them exist; `value` holds them at every second element. */
template <bool decode, int width, typename T>
static __device__ __forceinline__ void
make_long_points(const level_view<T> &view, const T pred[width],
                 uint64_t work_at, uint32_t n, T *value, uint32_t symbol[width])
{
#pragma unroll
    for (uint32_t i = 0; i < width; i++) {
        if (i >= n)
            continue;
        if (!decode)
            value[2 * i] = quantize(value[2 * i], pred[i], view, &symbol[i]);
        else if (symbol[i] != TERP_ESCAPE)
            value[2 * i] = reconstruct(symbol[i], pred[i], view);
        else
            value[2 * i] = view.work[work_at + i];
    }
    if (!decode)
        put_escapes_on_grid<width>(view, n, symbol, value);
}

/* Makes a thread's even points of a turn, and stores them, or their misses, in
 * shared memory. */
template <typename T, int nodd_dims, bool decode, int width, bool vector,
          bool blend>
static __device__ __forceinline__ void
make_long_evens(const struct level_shape &shape, const struct row_type &type,
                const level_view<T> &view, const turn<T> &turn,
                const points<T, width> &sum, bool is_inside,
                input<T, width> *in, T *s_even)
{
    const run<T> &run = turn.run;
    const uint32_t n = vector ? width : shape.neven - turn.x;
    const uint64_t row_at = run.row * shape.neven + turn.x;

    if constexpr (nodd_dims == 0) {
#pragma unroll
        for (uint32_t e = 0; e < width; e++)
            if (e < n)
                in->value.at[2 * e] = view.coarse[row_at + e];
    } else {
        T pred[width];
#pragma unroll
        for (uint32_t e = 0; e < width; e++) {
            pred[e] = sum.at[2 * e] * run.share_even;
            if constexpr (nodd_dims > 1 && blend)
                if (is_inside && e < n)
                    pred[e] = blend_long_even<T, nodd_dims>(type, run,
                                                            turn.fine + 2 * e);
        }
        make_long_points<decode, width>(view, pred, type.even_class_at + row_at,
                                        n, in->value.at, in->even_symbol);
    }
#pragma unroll
    for (uint32_t e = 0; e < width; e++) {
        s_even[e] = in->value.at[2 * e];
        if (blend && turn.blends && e < n)
            s_even[e] -= blend_at(turn.fine + 2 * e, (int64_t)type.stride[0],
                                  nodd_dims == 2 ? (int64_t)type.stride[1] : 0);
    }
}

/* Makes a thread's odd points of a turn. */
template <typename T, int nodd_dims, bool decode, int width, bool vector,
          bool blend>
static __device__ __forceinline__ void
make_long_odds(const struct level_shape &shape, const struct row_type &type,
               const level_view<T> &view, const turn<T> &turn,
               const points<T, width> &sum, const T *s_even,
               input<T, width> *in)
{
    const run<T> &run = turn.run;
    const uint32_t x = turn.x, neven = shape.neven;
    const uint32_t nodd = vector ? neven : shape.nodd;
    const bool is_inside = x >= LONG_LEFT && x + width + LONG_RIGHT <= neven;
    T pred[width];

    if (x >= nodd)
        return;
    if (blend && turn.blends) {
#pragma unroll
        for (uint32_t o = 0; o < width; o++)
            if (x + o < nodd)
                pred[o] =
                    combine_at<T>(
                        terp_stencil_at(view.spline, x + o, neven),
                        [&](int nabove) { return s_even[(int)o + nabove]; }) +
                    blend_at(turn.fine + 2 * o + 1, (int64_t)type.stride[0],
                             nodd_dims == 2 ? (int64_t)type.stride[1] : 0);
    } else if (!run.along_0) {
#pragma unroll
        for (int o = 0; o < width; o++)
            pred[o] = sum.at[2 * o + 1] * run.share_odd;
    } else {
        T even[LONG_LEFT + width + LONG_RIGHT];
        const auto load = [&](const auto &nth) {
#pragma unroll
            for (int i = 0; i < LONG_LEFT + width + LONG_RIGHT; i++) {
                const int n = i - LONG_LEFT;
                even[i] = n >= 0 && n < width ? in->value.at[2 * (n & 1)]
                                              : s_even[nth(n)];
            }
        };
        if (is_inside)
            load([](int n) { return n; });
        else
            load([&](int n) {
                return max(min(n, (int)(neven - 1 - x)), -(int)x);
            });
#pragma unroll
        for (int o = 0; o < width; o++) {
            const T of_others = sum.at[2 * o + 1];
            line<T, STENCIL_NPOINTS> line;
#pragma unroll
            for (int i = 0; i < STENCIL_NPOINTS; i++)
                line.at[i] = even[o + i];
            if (!is_inside || !run.plain_odd) {
                pred[o] = predict_long_odd(run, view.spline, x + (uint32_t)o,
                                           neven, of_others, line);
                continue;
            }
            const T along = whole_of<TERP_SPLINE_LONG, true>(0u, line);
            pred[o] = run.odd_dims == 0 ? along
                                        : (of_others + along) * run.share_odd_0;
        }
    }
    make_long_points<decode, width>(
        view, pred, type.odd_class_at + run.row * nodd + x,
        vector ? width : nodd - x, in->value.at + 1, in->odd_symbol);
}

/* Makes the points of a task. s_runs: the runs of its turns. `s_even`: even
 * points of two turns. Has one barrier in each turn. */
template <typename T, int nodd_dims, bool decode, int width, bool vector,
          bool blend>
static __device__ __forceinline__ void
make_long_task(const struct level_shape &shape, const struct row_type &type,
               const level_view<T> &view, const run<T> *s_runs, unsigned nturns,
               const struct place &place, T *s_even)
{
    const uint32_t neven = shape.neven;
    const uint32_t ahead = (place.column - shape.halo) * width;
    const bool has_row = place.row < place.nat_once;
    const run<T> *run = s_runs + (has_row ? place.row : 0);
    int capacity = (int)(blockDim.x * blockDim.y) * width;
    input<T, width> next = {};

    if (has_row)
        load_input<T, nodd_dims, decode, width, vector>(shape, view, *run,
                                                        run->x + ahead, &next);
    s_even += (place.row * shape.span + place.column) * width;
#pragma unroll 1
    for (unsigned t = 0; t < nturns; t++, run += place.nat_once) {
        const uint32_t x = run->x + ahead;
        const bool exists = has_row && x < neven;
        const bool blends =
            blend && nodd_dims >= 1 && nodd_dims <= 2 && exists && run->blends;
        const turn<T> turn = {*run,
                              x,
                              exists,
                              (exists && ahead < shape.segment_npoints),
                              blends,
                              neven + shape.nodd - 2 * x,
                              view.fine + run->fine_at + 2 * (uint64_t)x};
        input<T, width> in = next;
        points<T, width> sum = {};

        if (has_row && t + 1 < nturns)
            load_input<T, nodd_dims, decode, width, vector>(
                shape, view, run[place.nat_once], run[place.nat_once].x + ahead,
                &next);
        if (exists) {
            bool is_inside = blend && nodd_dims > 1;
#pragma unroll
            for (int j = 0; j + 1 < nodd_dims; j++)
                is_inside &= terp_stencil_has_c(run->stencil[j]);
            if (nodd_dims > 0 && !(is_inside && blends))
                sum = sum_long<T, nodd_dims, width, vector>(type, *run,
                                                            turn.fine, turn.n);
            make_long_evens<T, nodd_dims, decode, width, vector, blend>(
                shape, type, view, turn, sum, is_inside, &in, s_even);
        }
        __syncthreads();
        if (turn.owned)
            make_long_odds<T, nodd_dims, decode, width, vector, blend>(
                shape, type, view, turn, sum, s_even, &in);
        store_turn<T, nodd_dims, decode, width, vector>(shape, type, view, turn,
                                                        in);
        s_even += capacity;
        capacity = -capacity;
    }
}

/* How the runs of a type make tasks. A *line* is the runs that differ only
 * along the first odd dimension. A task has `nturns` consecutive runs of each
 * of nat_once lines, which are neighbours along the next odd dimension. Without
 * odd dimensions a task has consecutive runs. */
struct long_tasks {
    unsigned nat_once, nturns;
    uint64_t ngroups; /* of nat_once lines */
    uint64_t n;
};

template <int nodd_dims>
static __host__ __device__ __forceinline__ struct long_tasks
long_tasks_of(const struct row_type &type, unsigned nat_once, unsigned nturns)
{
    const uint64_t length =
        nodd_dims == 0 ? nat_once * (uint64_t)nturns : type.extent[type.dim[0]];
    const uint64_t nlines = divide(type.nruns - 1, length) + 1;

    if (nodd_dims == 0)
        return {nat_once, nturns, 1, nlines};
    const uint64_t ngroups = divide(nlines - 1, nat_once) + 1;
    return {nat_once, nturns, ngroups,
            ngroups * (divide(length - 1, nturns) + 1)};
}

/* Returns the index of run `nth` of a line among the runs of its type. */
template <int nodd_dims>
static __device__ __forceinline__ uint64_t
run_of_line(const struct level_shape &shape, const struct row_type &type,
            uint64_t line, uint32_t nth)
{
    const int along = type.dim[0];
    const int beside = nodd_dims > 1 ? type.dim[1] : 0;
    uint64_t at[TERP_NDIMS] = {0};

#pragma unroll
    for (int d = 1; d < TERP_NDIMS; d++)
        if (d == beside)
            at[d] = split(&line, type.extent[d]);
    at[0] = split(&line, shape.nsegments);
#pragma unroll
    for (int d = 1; d < TERP_NDIMS; d++)
        if (d == along)
            at[d] = nth;
        else if (d != beside)
            at[d] = split(&line, type.extent[d]);
#pragma unroll
    for (int d = TERP_NDIMS - 1; d > 0; d--)
        line = line * type.extent[d] + at[d];
    return line * shape.nsegments + at[0];
}

/* Makes the runs of a task, and returns the number of its turns. A turn may
 * have runs that do not exist: no point of them does. */
template <typename T, int nodd_dims>
static __device__ __forceinline__ unsigned
make_task_runs(const struct level_shape &shape, const struct row_type &type,
               const struct predictors &predictors,
               const struct long_tasks &tasks, uint64_t task, unsigned thread,
               unsigned nthreads, run<T> *s_runs)
{
    const uint64_t part = nodd_dims == 0 ? task : divide(task, tasks.ngroups);
    const uint64_t group = nodd_dims == 0 ? 0 : task - part * tasks.ngroups;
    const uint64_t first = part * tasks.nturns;
    const uint64_t length = nodd_dims == 0
                                ? (type.nruns - 1) / tasks.nat_once + 1
                                : type.extent[type.dim[0]];
    const unsigned nturns = (unsigned)min_u64(tasks.nturns, length - first);

    for (unsigned i = thread; i < nturns * tasks.nat_once; i += nthreads) {
        const unsigned t = i / tasks.nat_once;
        const uint64_t line = group * tasks.nat_once + (i - t * tasks.nat_once);
        const uint64_t index =
            nodd_dims == 0 ? first * tasks.nat_once + i
                           : run_of_line<nodd_dims>(shape, type, line,
                                                    (uint32_t)first + t);
        if (index < type.nruns)
            make_run(shape, type, predictors, index, &s_runs[i]);
        else
            s_runs[i].x = UINT32_MAX / 2;
    }
    return nturns;
}

/* Grid: x = blocks, which take tasks in turns; y = chunks. Block: (shape.span
 * threads of a segment, runs at a time); each thread owns long_width even
 * points and the odd points after them. Dynamic shared memory: the runs of a
 * task, then the even points of two turns. Barriers: around the preparation of
 * a task's runs, and one in each turn. */
template <typename T, int nodd_dims, bool decode>
static __global__ void
__launch_bounds__(SPLINE_MAX_SPAN, 3)
    spline_long(const __grid_constant__ struct cuda_batch batch,
                const __grid_constant__ struct level_shape shape,
                const __grid_constant__ struct step step, unsigned nturns)
{
    begin_kernel();
    __shared__ struct cuda_chunk chunk;
    constexpr int WIDTH = long_width<T>;
    const unsigned nthreads = blockDim.x * blockDim.y;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    const struct place place = {blockDim.y, threadIdx.y, threadIdx.x};

    const struct cuda_chunk &state = batch.d_chunks[blockIdx.y];
    if (!level_is_long(state, shape.l) ||
        (shape.marches && (plan_marches<T>(state, shape.l) ||
                           plan_marches_blended(state, shape.l))))
        return;
    copy_state(batch, thread, nthreads, &chunk);
    if (!chunk_applies(chunk))
        return;
    run<T> *s_runs = dynamic_shared<run<T>>();
    T *s_even = (T *)(s_runs + place.nat_once * nturns);
    level_view<T> view = view_of<T>(batch, chunk);
    view_level<T, decode>(chunk, shape, &view);
    const bool vector = is_vector<T, decode, WIDTH>(shape, view);
    const bool blends = nodd_dims > 0 && view.blend_order > 1;
    uint64_t task = blockIdx.x;
#pragma unroll 1
    for (int t = 0; t < step.ntypes; t++) {
        const struct row_type &type = step.type[t];
        const struct long_tasks tasks =
            long_tasks_of<nodd_dims>(type, place.nat_once, nturns);
#pragma unroll 1
        for (; task < tasks.n; task += gridDim.x) {
            __syncthreads();
            const unsigned n = make_task_runs<T, nodd_dims>(
                shape, type, predictors_of(chunk.model.plan[shape.l], type),
                tasks, task, thread, nthreads, s_runs);
            __syncthreads();
            if (blends)
                make_long_task<T, nodd_dims, decode, WIDTH, false, true>(
                    shape, type, view, s_runs, n, place, s_even);
            else if (vector)
                make_long_task<T, nodd_dims, decode, WIDTH, true, false>(
                    shape, type, view, s_runs, n, place, s_even);
            else
                make_long_task<T, nodd_dims, decode, WIDTH, false, false>(
                    shape, type, view, s_runs, n, place, s_even);
        }
        task -= tasks.n;
    }
}

template <typename T, int nodd_dims, bool decode>
static cudaError_t
launch_long_step(const struct cuda_batch *batch,
                 const struct level_shape &shape, cudaStream_t stream)
{
    const uint64_t most_blocks =
        div_up(LONG_MAX_NBLOCKS, (uint64_t)batch->nchunks);
    uint64_t most = 0, nruns = 0, ntasks = 0;
    struct step step = {};

    make_step(batch->h_layout, &shape, nodd_dims, &step);
    for (int i = 0; i < step.ntypes; i++) {
        most = step.type[i].nruns > most ? step.type[i].nruns : most;
        nruns += step.type[i].nruns;
    }
    if (nruns == 0)
        return cudaSuccess;
    const unsigned nat_once =
        (unsigned)min_u64(SPLINE_MAX_SPAN / shape.span, most);
    uint64_t nturns = nruns / (nat_once * most_blocks * LONG_MIN_NTASKS);
    nturns = min_u64(nturns, LONG_MAX_NTURNS);
    nturns = min_u64(nturns, SPLINE_MAX_SPAN / nat_once);
    nturns += nturns == 0;
    for (int i = 0; i < step.ntypes; i++)
        ntasks +=
            long_tasks_of<nodd_dims>(step.type[i], nat_once, (unsigned)nturns)
                .n;
    const size_t shared_nbytes =
        nat_once * ((unsigned)nturns * sizeof(run<T>) +
                    2 * shape.span * shape.width * sizeof(T));
    const dim3 grid((unsigned)min_u64(ntasks, most_blocks),
                    (unsigned)batch->nchunks);
    return launch(spline_long<T, nodd_dims, decode>, grid,
                  dim3(shape.span, nat_once), shared_nbytes, stream, *batch,
                  shape, step, (unsigned)nturns);
}

template <typename T, bool decode>
static cudaError_t
launch_long(const struct cuda_batch *batch, int l, bool marches,
            cudaStream_t stream)
{
    struct level_shape shape;

    make_shape(batch->h_layout, l, long_width<T>, LONG_LEFT, LONG_RIGHT,
               &shape);
    shape.marches = marches;
    cudaError_t err = launch_long_step<T, 0, decode>(batch, shape, stream);
    if (err == cudaSuccess)
        err = launch_long_step<T, 1, decode>(batch, shape, stream);
    if (err == cudaSuccess)
        err = launch_long_step<T, 2, decode>(batch, shape, stream);
    if (err == cudaSuccess)
        err = launch_long_step<T, 3, decode>(batch, shape, stream);
    return err;
}

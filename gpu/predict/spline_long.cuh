/* The spline predictor along rows (gpu/predict/spline.cu) of a level with a
 * long spline or the mean. Few chunks have such levels, and only the device
 * knows which chunks. The other kernels of a level skip it, and the blocks of
 * these kernels end at once if there is nothing to do.
 *
 * Odd points of a row read its even points through shared memory. Where points
 * are blended, they read the *misses* instead: the differences between the even
 * points and their predictions by linear interpolation along the other odd
 * dimensions. */
#pragma once

#include "gpu/predict/march.cuh"
#include "gpu/predict/spline_rows.cuh"

/* An odd point reads up to LONG_LEFT even points before, and LONG_RIGHT after,
 * the even point on its left. */
#define LONG_LEFT 3
#define LONG_RIGHT 4

/* LONG_MAX_NBLOCKS: the most blocks of a launch for all chunks; few, because
 * none may be needed. LONG_MAX_NTURNS: the most turns for which a block
 * prepares its runs at once, if there are many runs. */
#define LONG_MAX_NBLOCKS 528u
#define LONG_MAX_NTURNS 8u

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

/* Predicts the even point at `at` of a row with nodd_dims odd dimensions. */
template <typename T, int nodd_dims>
static __device__ __forceinline__ T
predict_long_even(const struct row_type &type, const struct run<T> &run,
                  bool blends, const T *at)
{
    constexpr int LAST = nodd_dims - 1;
    bool inside = blends && nodd_dims > 1;
    T sum = 0;

#pragma unroll
    for (int j = 0; j < LAST; j++)
        inside &= terp_form_has_c(run.form[j]);
    if (inside) {
        const int64_t slow = (int64_t)type.stride[0];
        const int64_t fast = nodd_dims == 3 ? (int64_t)type.stride[1] : 0;
        const int64_t along = (int64_t)type.stride[LAST];
        const T missed =
            combine_at<T>((enum terp_form)run.form[LAST], [&](int nabove) {
                const T *even = at + (2 * nabove - 1) * along;
                return *even - blend_at(even, slow, fast);
            });
        return missed + blend_at(at, slow, fast);
    }
    int n = 0;
#pragma unroll
    for (int j = 0; j < nodd_dims; j++) {
        if (!(run.even_dims >> j & 1))
            continue;
        const int64_t stride = (int64_t)type.stride[j];
        const T along =
            combine_at<T>((enum terp_form)run.form[j], [&](int nabove) {
                return at[(2 * nabove - 1) * stride];
            });
        sum = n++ == 0 ? along : sum + along;
    }
    return sum * run.share_even;
}

/* Predicts the odd point at `at`, which follows even point x of its row.
 * `s_even` points to that even point in shared memory; if the point is blended,
 * to the miss there. */
template <typename T, int nodd_dims>
static __device__ __forceinline__ T
predict_long_odd(const struct row_type &type, const struct run<T> &run,
                 enum terp_spline spline, bool blends, uint32_t x,
                 uint32_t neven, const T *at, const T *s_even)
{
    const enum terp_form form = terp_form_at(spline, x, neven);
    const int order = terp_form_order(form);
    T sum = 0;
    int n = 0;

    if (blends)
        return combine_at<T>(form, [&](int nabove) { return s_even[nabove]; }) +
               blend_at(at, (int64_t)type.stride[0],
                        nodd_dims == 2 ? (int64_t)type.stride[1] : 0);
#pragma unroll
    for (int j = 0; j < nodd_dims; j++) {
        if (!(run.odd_dims >> j & 1) || (run.along_0 && order > run.odd_order))
            continue;
        const int64_t stride = (int64_t)type.stride[j];
        const T along =
            combine_at<T>((enum terp_form)run.form[j], [&](int nabove) {
                return at[(2 * nabove - 1) * stride];
            });
        sum = n++ == 0 ? along : sum + along;
    }
    if (!run.along_0 || order < run.odd_order)
        return sum * run.share_odd;
    const T along =
        combine_at<T>(form, [&](int nabove) { return s_even[nabove]; });
    return order > run.odd_order ? along : (sum + along) * run.share_odd_0;
}

/* Makes a point from its prediction: quantizes its value (encode), or
 * reconstructs it from its symbol (decode). */
template <typename T, bool decode>
static __device__ __forceinline__ T
make_long_point(const struct level_view<T> &view, T value, T pred,
                uint64_t work_at, uint32_t *symbol)
{
    if (decode)
        return *symbol != TERP_ESCAPE ? reconstruct(*symbol, pred, view)
                                      : view.work[work_at];
    const T made = quantize(value, pred, view, symbol);
    return __builtin_expect(*symbol == TERP_ESCAPE, 0) ? put_on_grid(made, view)
                                                       : made;
}

/* Makes a thread's points of a turn. `is_run`: whether the thread has a run in
 * this turn; `run` then is that run. `s_even`: the half of shared memory for
 * this turn. Has one barrier. */
template <typename T, int nodd_dims, bool decode>
static __device__ __forceinline__ void
make_long_turn(const struct level_shape &shape, const struct row_type &type,
               const struct level_view<T> &view, const struct run<T> &run,
               bool is_run, const struct place &place, T *s_even)
{
    const uint32_t ahead = place.column - shape.halo;
    const uint32_t neven = shape.neven, x = run.x + ahead;
    const bool exists = is_run && x < neven;
    const bool owned = exists && ahead < shape.segment_npoints;
    const bool blends =
        nodd_dims >= 1 && nodd_dims <= 2 && run.blends && exists;
    T *fine = view.fine + run.fine_at + 2 * (uint64_t)x;
    struct input<T, 1> in = {
    };

    s_even += place.row * shape.span + place.column;
    if (exists) {
        T &even = in.value.at[0];
        load_input<T, nodd_dims, decode, 1, false>(shape, view, run, x, &in);
        if constexpr (nodd_dims == 0)
            even = view.coarse[run.row * neven + x];
        else
            even = make_long_point<T, decode>(
                view, even,
                predict_long_even<T, nodd_dims>(type, run, view.blend_order > 1,
                                                fine),
                type.even_class_at + run.row * neven + x, in.even_symbol);
        *s_even =
            blends
                ? even - blend_at(fine, (int64_t)type.stride[0],
                                  nodd_dims == 2 ? (int64_t)type.stride[1] : 0)
                : even;
    }
    __syncthreads();
    if (!owned)
        return;
    if (x < shape.nodd)
        in.value.at[1] = make_long_point<T, decode>(
            view, in.value.at[1],
            predict_long_odd<T, nodd_dims>(type, run, view.spline, blends, x,
                                           neven, fine + 1, s_even),
            type.odd_class_at + run.row * shape.nodd + x, in.odd_symbol);
    const struct turn<T> turn = {
        run, x, exists, owned, blends, neven + shape.nodd - 2 * x, fine
    };
    store_turn<T, nodd_dims, decode, 1, false>(shape, type, view, turn, in);
}

/* Grid: x = blocks, which take tasks of nruns_per_task runs in turns; y =
 * chunks. Block: (shape.span threads of a segment, runs at a time); each thread
 * owns one even point and the odd point after it. Dynamic shared memory: the
 * runs of a task, then the even points of two turns. Barriers: around the
 * preparation of a task's runs, and one in each turn. */
template <typename T, int nodd_dims, bool decode>
static __global__ void
__launch_bounds__(SPLINE_MAX_SPAN, sizeof(T) == 4 ? 4 : 3)
    spline_long(const __grid_constant__ struct cuda_batch batch,
                const __grid_constant__ struct level_shape shape,
                const __grid_constant__ struct step step,
                unsigned nruns_per_task)
{
    begin_kernel();
    __shared__ struct cuda_chunk chunk;
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
    struct run<T> *s_runs = dynamic_shared<struct run<T>>();
    T *s_even = (T *)(s_runs + nruns_per_task);
    struct level_view<T> view = view_of<T>(batch, chunk);
    view_level<T, decode>(chunk, shape, &view);
    uint64_t task = blockIdx.x;
#pragma unroll 1
    for (int t = 0; t < step.ntypes; t++) {
        const struct row_type &type = step.type[t];
        const uint64_t ntasks = (type.nruns - 1) / nruns_per_task + 1;
#pragma unroll 1
        for (; task < ntasks; task += gridDim.x) {
            const uint64_t first = task * nruns_per_task;
            const unsigned nruns =
                (unsigned)min_u64(nruns_per_task, type.nruns - first);
            __syncthreads();
            for (unsigned i = thread; i < nruns; i += nthreads)
                make_run(shape, type,
                         predictors_of(chunk.model.plan[shape.l], type),
                         first + i, &s_runs[i]);
            __syncthreads();
#pragma unroll 1
            for (unsigned i = 0; i * place.nat_once < nruns; i++) {
                const unsigned r = i * place.nat_once + place.row;
                const bool is_run = place.row < place.nat_once && r < nruns;
                make_long_turn<T, nodd_dims, decode>(
                    shape, type, view, s_runs[is_run ? r : 0], is_run, place,
                    s_even + i % 2 * nthreads);
            }
        }
        task -= ntasks;
    }
}

template <typename T, int nodd_dims, bool decode>
static cudaError_t
launch_long_step(const struct cuda_batch *batch,
                 const struct level_shape &shape, cudaStream_t stream)
{
    const uint64_t most_blocks =
        div_up(LONG_MAX_NBLOCKS, (uint64_t)batch->nchunks);
    uint64_t most = 0, nruns = 0;
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
    const uint64_t nturns = div_up(nruns, nat_once);
    const unsigned nblocks = (unsigned)min_u64(nturns, most_blocks);
    const unsigned nruns_per_task =
        nat_once *
        (nat_once * LONG_MAX_NTURNS > SPLINE_MAX_SPAN
             ? 1
             : (unsigned)min_u64(LONG_MAX_NTURNS, div_up(nturns, nblocks)));
    const size_t shared_nbytes = nruns_per_task * sizeof(struct run<T>) +
                                 2 * nat_once * shape.span * sizeof(T);
    const dim3 grid(nblocks, (unsigned)batch->nchunks);
    return launch(spline_long<T, nodd_dims, decode>, grid,
                  dim3(shape.span, nat_once), shared_nbytes, stream, *batch,
                  shape, step, nruns_per_task);
}

template <typename T, bool decode>
static cudaError_t
launch_long(const struct cuda_batch *batch, int l, bool marches,
            cudaStream_t stream)
{
    struct level_shape shape;

    make_shape(batch->h_layout, l, 1, LONG_LEFT, LONG_RIGHT, &shape);
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

/* A level of the spline predictor under a long spline or the mean, along rows
 * as gpu/predict/spline.cu says. Few chunks have such levels, and which have is
 * known on the device alone: so a level's other kernels leave it to these,
 * whose blocks end at once where there is nothing to do. Odd points of a row
 * see its even ones through shared memory, and where points are blended, what
 * linear interpolants along other dimensions miss at these. */
#pragma once

#include "gpu/predict/march.cuh"
#include "gpu/predict/spline_rows.cuh"

/* Even points that an odd one reaches for, left and right of its own. */
#define LONG_LEFT 3
#define LONG_RIGHT 4

/* Blocks of a launch, as none may be needed, and turns for which one finds its
 * runs at once, if these are many. */
#define LONG_MAX_NBLOCKS 528u
#define LONG_MAX_NTURNS 8u

/* What linear interpolants along one or two dimensions, the slower first,
 * predict; `fast` is 0 of one. */
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

/* The even point at `at` of a row with so many odd dimensions. */
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

/* The odd point at `at`, x-th of the row, by what its even points have in
 * shared memory: what is missed at them where it is blended. */
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

/* A point by its prediction: from its value (encode), or its symbol. */
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

/* What a thread has of its points of a turn before it predicts; `run` is its
 * own if it is one. */
template <typename T, int nodd_dims, bool decode>
static __device__ __forceinline__ struct input<T, 1>
load_long_turn(const struct level_shape &shape,
               const struct level_view<T> &view, const struct run<T> &run,
               bool is_run, const struct place &place) {
    struct input<T, 1> in = {
    };

    if (is_run)
        load_input<T, nodd_dims, decode, 1, false>(
            shape, view, run, run.x + place.column - shape.halo, &in);
    return in;
}

/* Makes a thread's points of a turn, of which `run` is its own if it is one. A
 * turn's half of shared memory is at `s_even`. Has one barrier. */
template <typename T, int nodd_dims, bool decode>
static __device__ __forceinline__ void
make_long_turn(const struct level_shape &shape, const struct row_type &type,
               const struct level_view<T> &view, const struct run<T> &run,
               bool is_run, const struct place &place, struct input<T, 1> in,
               T *s_even)
{
    const uint32_t ahead = place.column - shape.halo;
    const uint32_t neven = shape.neven, x = run.x + ahead;
    const bool exists = is_run && x < neven;
    const bool owned = exists && ahead < shape.segment_npoints;
    const bool blends =
        nodd_dims >= 1 && nodd_dims <= 2 && run.blends && exists;
    T *fine = view.fine + run.fine_at + 2 * (uint64_t)x;

    s_even += place.row * shape.span + place.column;
    if (exists) {
        T &even = in.value.at[0];
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

/* So many runs of a type and their points. Shared: the runs, and even points of
 * two turns of the block. wait(): see make_points. */
template <typename T, int nodd_dims, bool decode, typename Wait>
static __device__ __forceinline__ void
make_long_group(const struct level_shape &shape, const struct row_type &type,
                const struct terp_level_plan &plan,
                const struct level_view<T> &view, const struct place &place,
                uint64_t first, unsigned nruns, struct run<T> *s_runs,
                T *s_even, Wait &wait)
{
    constexpr bool waits = !std::is_same_v<Wait, struct no_wait>;
    const unsigned nthreads = blockDim.x * blockDim.y;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    const bool is_row = place.row < place.nat_once;
    struct input<T, 1> first_in;

    for (unsigned i = thread; i < nruns; i += nthreads)
        make_run(shape, type, predictors_of(plan, type), first + i, &s_runs[i]);
    __syncthreads();
    if constexpr (waits) {
        const bool is_run = is_row && place.row < nruns;
        first_in = load_long_turn<T, nodd_dims, decode>(
            shape, view, s_runs[is_run ? place.row : 0], is_run, place);
        wait();
    }
#pragma unroll 1
    for (unsigned i = 0; i * place.nat_once < nruns; i++) {
        const unsigned r = i * place.nat_once + place.row;
        const bool is_run = is_row && r < nruns;
        const struct run<T> &run = s_runs[is_run ? r : 0];
        const struct input<T, 1> in =
            waits && i == 0 ? first_in
                            : load_long_turn<T, nodd_dims, decode>(
                                  shape, view, run, is_run, place);
        make_long_turn<T, nodd_dims, decode>(shape, type, view, run, is_run,
                                             place, in,
                                             s_even + i % 2 * nthreads);
    }
}

/* Grid: (blocks, chunks). Block: (shape.span, runs at once). Shared: runs, then
 * even points of two turns. */
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
        (shape.marches && (plan_marches<T, decode>(state, shape.l) ||
                           plan_marches_blended<decode>(state, shape.l))))
        return;
    copy_state(batch, thread, nthreads, &chunk);
    if (!chunk_applies(chunk))
        return;
    struct run<T> *s_runs = dynamic_shared<struct run<T>>();
    T *s_even = (T *)(s_runs + nruns_per_task);
    struct level_view<T> view = view_of<T>(batch, chunk);
    view_level<T, decode>(chunk, shape, &view);
    struct no_wait wait;
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
            make_long_group<T, nodd_dims, decode>(
                shape, type, chunk.model.plan[shape.l], view, place, first,
                nruns, s_runs, s_even, wait);
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

/* Floor 3: the spline predictor over all levels of a chunk.
 *
 * A level's new points are made row by row, a row being the points of its fine
 * lattice along dimension 0, even and odd ones together. Rows differ in type:
 * the set of dimensions above 0 in which their coordinate is odd. A row of
 * type 0 has its even points from the coarse lattice; all others are predicted
 * from rows with one odd dimension less, and odd points from the even points
 * of their row too. So a level takes one step for each number of odd
 * dimensions, 0 to 3, and each step writes whole rows of the fine lattice:
 * that of a level above 1 in the region `lattice`, that of level 1 in `dst`
 * or, while encoding, in `work`, all in C order. Coarse levels are done in one
 * launch, by a block a chunk. */
#include "cuda_spline.cuh"
#include "cuda_values.cuh"

/* ---- values ---- */

/* An even point and the odd one behind it. */
template <typename T> struct alignas(2 * sizeof(T)) pair {
    T even, odd;
};

/* With `vector` pairs are aligned and whole. */
template <bool vector, typename T>
static __device__ __forceinline__ struct pair<T>
load_pair(const T *at, bool has_odd) {
    if (vector)
        return *reinterpret_cast<const struct pair<T> *>(at);
    struct pair<T> p;
    p.even = at[0];
    p.odd = has_odd ? at[1] : at[0];
    return p;
}

template <bool vector, typename T>
static __device__ __forceinline__ void
store_pair(T *at, struct pair<T> p, bool has_odd)
{
    if (vector) {
        *reinterpret_cast<struct pair<T> *>(at) = p;
        return;
    }
    at[0] = p.even;
    if (has_odd)
        at[1] = p.odd;
}

template <typename T>
static __device__ __forceinline__ T
combine(enum terp_form form, T a, T b, T c, T d)
{
    switch (form) {
    case TERP_FORM_COPY:
        return b;
    case TERP_FORM_EXTRAPOLATE:
        return TERP_EXTRAPOLATE(a, b);
    case TERP_FORM_LINEAR:
        return TERP_LINEAR(b, c);
    case TERP_FORM_QUAD_BELOW:
        return TERP_QUAD_BELOW(a, b, c);
    case TERP_FORM_QUAD_ABOVE:
        return TERP_QUAD_ABOVE(b, c, d);
    case TERP_FORM_CUBIC:
        return TERP_CUBIC(a, b, c, d);
    default:
        return TERP_NATURAL(a, b, c, d, (T)0.025);
    }
}

/* What one chunk's threads need of it, at a level. */
template <typename T> struct level_view {
    const T *src;
    T *dst; /* decode */
    T *lattice;
    T *work; /* decode: escaped values */
    uint16_t *symbols;
    unsigned long long *ranges;
    struct fill_words<T> fills;
    bool has_specials;
    /* Of the level. */
    const T *coarse;
    T *fine;
    struct constants<T> k;
    enum terp_spline spline;
};

template <typename T>
static __device__ __forceinline__ struct level_view<T>
view_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk) {
    const unsigned c = blockIdx.y;
    struct level_view<T> view;

    view.src = (const T *)chunk.src;
    view.dst = (T *)chunk.dst;
    view.lattice = region<T>(batch, c, batch.at.lattice);
    view.work = region<T>(batch, c, batch.at.work);
    view.symbols = region<uint16_t>(batch, c, batch.at.symbols);
    view.ranges = region<unsigned long long>(batch, c, batch.at.ranges);
    view.fills = fills_of<T>(chunk);
    view.has_specials = chunk.has_specials;
    return view;
}

template <typename T, bool decode>
static __device__ __forceinline__ void
view_level(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
           const struct level_shape &shape, struct level_view<T> *view)
{
    const struct cuda_level_plan &plan = chunk.plan[shape.l];

    view->coarse = view->lattice + shape.coarse_at;
    view->fine = shape.l > 1 ? view->lattice + shape.fine_at
                 : decode    ? view->dst
                             : view->work;
    view->k =
        constants_of<T>(chunk.step * ((double)plan.ratio / TERP_RATIO_ONE),
                        chunk.bound, batch.max_code);
    view->spline = (enum terp_spline)plan.spline;
}

/* The code of `value` as a symbol; returns what the decoder makes of it. */
template <typename T>
static __device__ __forceinline__ T
quantize(T value, T pred, const struct level_view<T> &view,
         uint32_t *symbol_ret)
{
    const T rounder = value_traits<T>::ROUNDER;
    bool special = view.has_specials && is_special(value, view.fills);

    value = special ? pred : value;
    T scaled = (value - pred) * view.k.inverse;
    T rounded = scaled + rounder;
    T code = rounded - rounder;
    T rec = pred + code * view.k.step;
    bool fits = (absolute(code) <= view.k.max_code) &
                (absolute(value - rec) < view.k.limit);
    /* The sum's low bits are the code. */
    uint32_t symbol =
        (uint32_t)(bits_of(rounded) - bits_of(rounder)) + TERP_RADIUS;
    symbol = fits ? symbol : TERP_ESCAPE;
    *symbol_ret = special ? TERP_RADIUS : symbol;
    return special ? pred : fits ? rec : value;
}

template <typename T>
static __device__ __forceinline__ T
reconstruct(uint32_t symbol, T pred, const struct level_view<T> &view,
            uint64_t work_at)
{
    const T rounder = value_traits<T>::ROUNDER;
    word_of<T> bits = bits_of(rounder) + symbol - TERP_RADIUS;
    T code = value_of_bits(bits) - rounder;

    return symbol == TERP_ESCAPE ? view.work[work_at]
                                 : pred + code * view.k.step;
}

template <typename T>
static __device__ __forceinline__ void
count_escape(const struct level_view<T> &view, uint32_t symbol,
             uint64_t work_at)
{
    if (symbol == TERP_ESCAPE)
        atomicAdd(&view.ranges[work_at / CUDA_RANGE_NVALUES], 1ull);
}

/* ---- prediction ---- */

/* The pairs around one, along a dimension. */
template <typename T> struct neighbours {
    struct pair<T> a, b, c, d;
};

/* Sums of predictions along the dimensions above 0, slowest first, for a pair
 * of points; `at` is the pair's place in the fine lattice. */
template <typename T, int nodd_dims, bool vector>
static __device__ __forceinline__ struct pair<T>
predict_pair(const struct level_view<T> &view, const struct run<T> &run,
             const T *at, bool has_odd) {
    const unsigned dims = run.even_dims | run.odd_dims;
    struct neighbours<T> near[NUPPER] = {
    };
    struct pair<T> sum = {
        0, 0
    };
    bool even_first = true, odd_first = true;

    /* Two ways, so that loads of all dimensions go out together. */
#pragma unroll
    for (int j = 0; run.interior && j < nodd_dims; j++) {
        if (!(dims >> j & 1))
            continue;
        uint64_t stride = run.stride[j];
        near[j].a = load_pair<vector>(at - 3 * stride, has_odd);
        near[j].b = load_pair<vector>(at - stride, has_odd);
        near[j].c = load_pair<vector>(at + stride, has_odd);
        near[j].d = load_pair<vector>(at + 3 * stride, has_odd);
    }
#pragma unroll
    for (int j = 0; !run.interior && j < nodd_dims; j++) {
        if (!(dims >> j & 1))
            continue;
        uint64_t stride = run.stride[j];
        int form = run.form[j];
        near[j].b = load_pair<vector>(at - stride, has_odd);
        if (form_has_a(form))
            near[j].a = load_pair<vector>(at - 3 * stride, has_odd);
        if (form_has_c(form))
            near[j].c = load_pair<vector>(at + stride, has_odd);
        if (form_has_d(form))
            near[j].d = load_pair<vector>(at + 3 * stride, has_odd);
    }
#pragma unroll
    for (int j = 0; j < nodd_dims; j++) {
        const struct neighbours<T> &n = near[j];
        struct pair<T> along;
        if (!(dims >> j & 1))
            continue;
        enum terp_form form = run.interior && view.spline == TERP_SPLINE_CUBIC
                                  ? TERP_FORM_CUBIC
                                  : (enum terp_form)run.form[j];
        along.even = combine(form, n.a.even, n.b.even, n.c.even, n.d.even);
        along.odd = combine(form, n.a.odd, n.b.odd, n.c.odd, n.d.odd);
        if (run.even_dims >> j & 1) {
            sum.even = even_first ? along.even : sum.even + along.even;
            even_first = false;
        }
        if (run.odd_dims >> j & 1) {
            sum.odd = odd_first ? along.odd : sum.odd + along.odd;
            odd_first = false;
        }
    }
    return sum;
}

/* The prediction of an odd point: `sum` is of the dimensions above 0, `even`
 * its even point x among those of its row. */
template <typename T>
static __device__ __forceinline__ T
predict_odd(const struct level_view<T> &view, const struct run<T> &run, T sum,
            const T *even, uint32_t x, uint32_t neven)
{
    T along;
    int order;

    if (!run.along_0)
        return sum * run.share_odd;
    if (x >= 1 && x + 2 < neven && view.spline == TERP_SPLINE_CUBIC) {
        along = TERP_CUBIC(even[-1], even[0], even[1], even[2]);
        order = terp_form_order(TERP_FORM_CUBIC);
    } else {
        enum terp_form form = terp_form_at(view.spline, x, neven);
        along = combine(form, form_has_a(form) ? even[-1] : (T)0, even[0],
                        form_has_c(form) ? even[1] : (T)0,
                        form_has_d(form) ? even[2] : (T)0);
        order = terp_form_order(form);
    }
    return order == run.odd_order  ? (sum + along) * run.share_odd_0
           : order > run.odd_order ? along
                                   : sum * run.share_odd;
}

/* Makes the points of `nruns` runs of one step. The block's threads stand in
 * `nat_once` rows (`row`) of shape.span (`column`), a thread for an even point
 * and the odd one behind it; threads of other rows only meet barriers. Odd
 * points see the even ones through s_even[2][capacity], whose halves take
 * turns so that one barrier a turn will do. */
template <typename T, int nodd_dims, bool decode, bool vector>
static __device__ __forceinline__ void
make_points(const struct level_shape &shape, const struct level_view<T> &view,
            const struct run<T> *s_runs, unsigned nruns, unsigned nat_once,
            unsigned column, unsigned row, T *s_even, unsigned capacity)
{
    const uint32_t box = 1u << box_shift(shape.rank);
    const uint32_t neven = shape.neven[0], nodd = shape.nodd[0];
    const bool keep = decode || shape.l > 1 || nodd_dims < shape.nactive;
    unsigned turn = 0;

    for (unsigned first = 0; first < nruns; first += nat_once, turn ^= 1) {
        bool in_turn = row < nat_once && first + row < nruns;
        const struct run<T> &run = s_runs[in_turn ? first + row : 0];
        const uint32_t x = run.x + column - shape.halo;
        const bool exists = in_turn && x < neven;
        const bool owned =
            exists && column - shape.halo < shape.segment_npoints;
        const bool has_odd = exists && x < nodd;
        T *even = s_even + turn * capacity + row * shape.span + column;
        T *fine = view.fine + run.fine_at + 2 * (uint64_t)x;
        struct pair<T> value = {0, 0}, sum = {
            0, 0
        };
        uint32_t even_symbol = TERP_RADIUS, odd_symbol = TERP_RADIUS;
        uint64_t even_at = 0, odd_at = 0;

        if (exists) {
            uint32_t low = x & ~(box - 1);
            uint64_t slab = (uint64_t)low * run.box_nrows;
            uint32_t even_box = min_u32(box, neven - low);
            uint32_t odd_box = min_u32(box, nodd - low);
            even_at =
                run.even_tiled + slab + (run.row_in_box * even_box + (x - low));
            odd_at =
                run.odd_tiled + slab + (run.row_in_box * odd_box + (x - low));
            if (decode) {
                if (nodd_dims > 0)
                    even_symbol = view.symbols[even_at];
                if (has_odd)
                    odd_symbol = view.symbols[odd_at];
            } else {
                uint64_t stride = shape.src_stride[0];
                const T *src = view.src + run.src_at + 2 * stride * x;
                if (vector && shape.l == 1) {
                    value = load_pair<vector>(src, true);
                } else {
                    if (nodd_dims > 0)
                        value.even = src[0];
                    if (has_odd)
                        value.odd = src[stride];
                }
            }
            if (nodd_dims == 0) {
                value.even = view.coarse[run.even_work + x];
            } else {
                sum = predict_pair<T, nodd_dims, vector>(view, run, fine,
                                                         has_odd);
                T pred = sum.even * run.share_even;
                if (decode)
                    value.even =
                        reconstruct(even_symbol, pred, view, run.even_work + x);
                else
                    value.even = quantize(value.even, pred, view, &even_symbol);
            }
            *even = value.even;
        }
        __syncthreads();
        if (owned && has_odd) {
            T pred = predict_odd(view, run, sum.odd, even, x, neven);
            if (decode)
                value.odd =
                    reconstruct(odd_symbol, pred, view, run.odd_work + x);
            else
                value.odd = quantize(value.odd, pred, view, &odd_symbol);
        }
        if (owned && keep)
            store_pair<vector>(fine, value, has_odd);
        if (owned && !decode) {
            if (nodd_dims > 0) {
                view.symbols[even_at] = (uint16_t)even_symbol;
                count_escape(view, even_symbol, run.even_work + x);
            }
            if (has_odd) {
                view.symbols[odd_at] = (uint16_t)odd_symbol;
                count_escape(view, odd_symbol, run.odd_work + x);
            }
        }
    }
}

/* ---- a step of a large level: a launch ---- */

static __device__ __forceinline__ bool
chunk_applies(const struct cuda_chunk &chunk)
{
    return chunk.status == TERP_OK &&
           chunk.prediction == TERP_PREDICTION_SPLINE;
}

template <typename T>
static __host__ __device__ __forceinline__ bool
is_aligned(const T *at)
{
    return (uintptr_t)at % sizeof(struct pair<T>) == 0;
}

/* Grid: (step.ntypes * groups of nruns_per_block runs, chunks); blocks of
 * neighbouring groups of all types follow each other, which read the same
 * rows. Block: (shape.span, runs at once). Shared: runs, then even points. */
template <typename T, int nodd_dims, bool decode>
static __global__ void
__launch_bounds__(MAX_SPAN)
    spline_step(struct cuda_batch batch, struct level_shape shape,
                struct step step, unsigned nruns_per_block)
{
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned which = blockIdx.x % step.ntypes;
    const uint64_t first =
        (uint64_t)(blockIdx.x / step.ntypes) * nruns_per_block;

    if (!chunk_applies(chunk) || first >= step.nruns[which])
        return;
    struct run<T> *s_runs = dynamic_shared<struct run<T>>();
    T *s_even = (T *)(s_runs + nruns_per_block);
    unsigned nruns =
        (unsigned)min_u64(nruns_per_block, step.nruns[which] - first);
    unsigned nthreads = blockDim.x * blockDim.y;

    for (unsigned i = threadIdx.y * blockDim.x + threadIdx.x; i < nruns;
         i += nthreads)
        make_run(shape, chunk.plan[shape.l], step.type[which], first + i,
                 &s_runs[i]);
    struct level_view<T> view = view_of<T>(batch, chunk);
    view_level<T, decode>(batch, chunk, shape, &view);
    __syncthreads();
    bool vector = shape.nodd[0] == shape.neven[0] && is_aligned(view.fine) &&
                  (decode || shape.l > 1 || is_aligned(view.src));
    if (vector)
        make_points<T, nodd_dims, decode, true>(shape, view, s_runs, nruns,
                                                blockDim.y, threadIdx.x,
                                                threadIdx.y, s_even, nthreads);
    else
        make_points<T, nodd_dims, decode, false>(shape, view, s_runs, nruns,
                                                 blockDim.y, threadIdx.x,
                                                 threadIdx.y, s_even, nthreads);
}

/* Points that keep a large device busy twice over. */
#define MANY_NTHREADS (1u << 19)
#define MAX_NRUNS_PER_THREAD 8
#define MAX_NRUNS_PER_BLOCK 64

template <typename T, int nodd_dims, bool decode>
static cudaError_t
launch_step(const struct cuda_batch *batch, const struct level_shape &shape,
            cudaStream_t stream)
{
    struct step step;
    uint64_t most = 0, nruns = 0;

    make_step(shape, nodd_dims, &step);
    for (int i = 0; i < step.ntypes; i++) {
        most = step.nruns[i] > most ? step.nruns[i] : most;
        nruns += step.nruns[i];
    }
    if (nruns == 0)
        return cudaSuccess;
    unsigned nat_once = MAX_SPAN / shape.span;
    nat_once = (unsigned)min_u64(nat_once, most);
    uint64_t per_thread =
        nruns * shape.span * (uint64_t)batch->nchunks / MANY_NTHREADS;
    per_thread = min_u64(per_thread, MAX_NRUNS_PER_THREAD);
    per_thread = min_u64(per_thread, MAX_NRUNS_PER_BLOCK / nat_once);
    unsigned nruns_per_block =
        nat_once * (per_thread > 1 ? (unsigned)per_thread : 1);
    size_t shared_nbytes = nruns_per_block * sizeof(struct run<T>) +
                           2 * nat_once * shape.span * sizeof(T);
    dim3 grid((unsigned)(step.ntypes * div_up(most, nruns_per_block)),
              (unsigned)batch->nchunks);
    return launch(spline_step<T, nodd_dims, decode>, grid,
                  dim3(shape.span, nat_once), shared_nbytes, stream, *batch,
                  shape, step, nruns_per_block);
}

/* ---- anchors and coarse levels: one launch ---- */

/* A level whose fine lattice has no more values is coarse, one block does it.
 * Each level halves a lattice of at least two values. */
#define COARSE_NVALUES 8192
#define MAX_NCOARSE 14
#define COARSE_NTHREADS 1024
#define COARSE_NRUNS 128 /* at once */

template <typename T> struct coarse_shared {
    struct level_shape shapes[MAX_NCOARSE];
    struct run<T> runs[COARSE_NRUNS];
    T even[2][COARSE_NTHREADS];
    uint32_t symbols[COARSE_NTHREADS]; /* of anchors */
};

/* Anchors, each predicted by the one before: one thread goes along what the
 * others bring and take away. */
template <typename T, bool decode>
static __device__ __forceinline__ void
make_anchors(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
             const struct level_view<T> &view, T *to, T *s_values,
             uint32_t *s_symbols)
{
    const uint64_t nbricks = batch.d_layout->nbricks;
    const uint64_t brick_nvalues = batch.nvalues / nbricks;
    T last = (T)chunk.reference;

    for (uint64_t first = 0; first < nbricks; first += COARSE_NTHREADS) {
        unsigned n = (unsigned)min_u64(COARSE_NTHREADS, nbricks - first);
        uint64_t at = first + threadIdx.x;
        if (threadIdx.x < n) {
            s_symbols[threadIdx.x] = decode ? view.symbols[at] : 0;
            s_values[threadIdx.x] = !decode ? view.src[at * brick_nvalues]
                                    : s_symbols[threadIdx.x] == TERP_ESCAPE
                                        ? view.work[at]
                                        : (T)0;
        }
        __syncthreads();
        for (unsigned i = 0; threadIdx.x == 0 && i < n; i++) {
            if (!decode)
                last = quantize(s_values[i], last, view, &s_symbols[i]);
            else
                last = reconstruct(s_symbols[i], last, view, first + i);
            s_values[i] = last;
        }
        __syncthreads();
        if (threadIdx.x < n) {
            to[at] = s_values[threadIdx.x];
            if (!decode) {
                view.symbols[at] = (uint16_t)s_symbols[threadIdx.x];
                count_escape(view, s_symbols[threadIdx.x], at);
            }
        }
        __syncthreads();
    }
}

template <typename T, int nodd_dims, bool decode>
static __device__ void
coarse_step(const struct cuda_chunk &chunk, const struct level_shape &shape,
            const struct level_view<T> &view, struct coarse_shared<T> *shared)
{
    struct step step;
    const unsigned nat_once =
        min_u32(COARSE_NTHREADS / shape.span, COARSE_NRUNS);
    unsigned nruns = 0;

    make_step(shape, nodd_dims, &step);
    for (int i = 0; i < step.ntypes; i++)
        nruns += (unsigned)step.nruns[i];
    for (unsigned first = 0; first < nruns; first += nat_once) {
        unsigned n = min_u32(nat_once, nruns - first),
                 index = first + threadIdx.x;
        int which = 0;
        while (which + 1 < step.ntypes && index >= step.nruns[which])
            index -= (unsigned)step.nruns[which++];
        if (threadIdx.x < n)
            make_run(shape, chunk.plan[shape.l], step.type[which], index,
                     &shared->runs[threadIdx.x]);
        __syncthreads();
        make_points<T, nodd_dims, decode, false>(
            shape, view, shared->runs, n, nat_once, threadIdx.x % shape.span,
            threadIdx.x / shape.span, shared->even[0], COARSE_NTHREADS);
        /* What follows reads these points, and reuses the memory. */
        __syncthreads();
    }
}

/* Grid: (1, chunks). The block owns its chunk's anchors and its `ncoarse`
 * coarsest levels. */
template <typename T, bool decode>
static __global__ void
__launch_bounds__(COARSE_NTHREADS)
    spline_coarse(struct cuda_batch batch, int ncoarse)
{
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const struct terp_layout &layout = *batch.d_layout;
    struct coarse_shared<T> *shared = dynamic_shared<struct coarse_shared<T>>();

    if (!chunk_applies(chunk))
        return;
    if (ncoarse < 0) {
        if (threadIdx.x == 0)
            chunk.status = TERP_ERR_DEVICE;
        return;
    }
    if ((int)threadIdx.x < ncoarse)
        make_shape(&layout, layout.nlevels - (int)threadIdx.x,
                   &shared->shapes[threadIdx.x]);
    struct level_view<T> view = view_of<T>(batch, chunk);
    view.k = constants_of<T>(chunk.step, chunk.bound, batch.max_code);
    T *anchors = layout.nlevels > 0
                     ? view.lattice + layout.level[layout.nlevels].lattice_at
                 : decode ? view.dst
                          : view.work;
    make_anchors<T, decode>(batch, chunk, view, anchors, shared->even[0],
                            shared->symbols);
    for (int i = 0; i < ncoarse; i++) {
        const struct level_shape &shape = shared->shapes[i];
        view_level<T, decode>(batch, chunk, shape, &view);
        coarse_step<T, 0, decode>(chunk, shape, view, shared);
        coarse_step<T, 1, decode>(chunk, shape, view, shared);
        coarse_step<T, 2, decode>(chunk, shape, view, shared);
        coarse_step<T, 3, decode>(chunk, shape, view, shared);
    }
}

/* ---- all levels ---- */

template <typename T, bool decode>
static cudaError_t
launch_levels(const struct cuda_batch *batch, cudaStream_t stream)
{
    const struct terp_layout *layout = batch->h_layout;
    struct level_shape shape;
    int l = layout->nlevels;
    bool too_long = false;

    for (int d = 0; d < TERP_NDIMS; d++)
        too_long |= layout->dims[d] > UINT32_MAX;
    for (; l >= 1 && !too_long; l--) {
        make_shape(layout, l, &shape);
        if (shape.fine_stride[TERP_NDIMS] * shape.nbricks > COARSE_NVALUES)
            break;
    }
    cudaError_t err =
        launch(spline_coarse<T, decode>, dim3(1, (unsigned)batch->nchunks),
               dim3(COARSE_NTHREADS), sizeof(struct coarse_shared<T>), stream,
               *batch, too_long ? -1 : layout->nlevels - l);
    for (; l >= 1 && !too_long && err == cudaSuccess; l--) {
        make_shape(layout, l, &shape);
        err = launch_step<T, 0, decode>(batch, shape, stream);
        if (err == cudaSuccess)
            err = launch_step<T, 1, decode>(batch, shape, stream);
        if (err == cudaSuccess)
            err = launch_step<T, 2, decode>(batch, shape, stream);
        if (err == cudaSuccess)
            err = launch_step<T, 3, decode>(batch, shape, stream);
    }
    return err;
}

cudaError_t
cuda_spline_quantize(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->value_nbytes == 4
               ? launch_levels<float, false>(batch, stream)
               : launch_levels<double, false>(batch, stream);
}

cudaError_t
cuda_spline_reconstruct(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->value_nbytes == 4
               ? launch_levels<float, true>(batch, stream)
               : launch_levels<double, true>(batch, stream);
}

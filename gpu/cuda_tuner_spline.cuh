/* Floor 3: samples of a class of points under all splines; the same as those
 * of `sample` in cpu_stages_impl.h. */
#ifndef TERP_CUDA_TUNER_SPLINE_CUH
#define TERP_CUDA_TUNER_SPLINE_CUH

#include <limits.h>

#include "cuda_tuner.cuh"

/* A class and the runs of it that a block samples. */
struct sampled_class {
    int l;
    unsigned odd;
    uint64_t extent[TERP_NDIMS];
    uint64_t neven[TERP_NDIMS];
    uint64_t stride[TERP_NDIMS]; /* in the chunk, of the level's lattice */
    uint64_t brick_nvalues;
    uint64_t nvalues;
    uint64_t nruns_per_row;
    uint64_t every;
    uint64_t first_run; /* of this block */
    uint32_t nruns;     /* likewise, of those sampled */
    uint32_t run_nvalues;
};

static __device__ void
find_class(const struct terp_layout *layout, int l, unsigned odd, unsigned part,
           unsigned nparts, struct sampled_class *cls)
{
    const struct terp_level *level = &layout->level[l];
    uint64_t nrows = layout->nbricks, stride = 1;

    cls->l = l;
    cls->odd = odd;
    for (int d = 0; d < TERP_NDIMS; d++) {
        cls->extent[d] = odd >> d & 1 ? level->nodd[d] : level->neven[d];
        cls->neven[d] = level->neven[d];
        cls->stride[d] = stride << (l - 1);
        stride *= layout->dims[d];
        if (d > 0)
            nrows *= cls->extent[d];
    }
    cls->brick_nvalues = stride;
    cls->nvalues = nrows * cls->extent[0];
    cls->nruns_per_row = div_up(cls->extent[0], TERP_SAMPLE_RUN_NVALUES);
    uint64_t nruns = nrows * cls->nruns_per_row;
    cls->every = terp_sample_distance(cls->nvalues, nruns);
    /* Those of all blocks, of which this one has a part. */
    uint32_t nsampled_runs =
        (uint32_t)div_up(nruns - cls->every / 2, cls->every);
    uint32_t first = nsampled_runs * part / nparts;
    uint32_t end = nsampled_runs * (part + 1) / nparts;
    cls->first_run = cls->every / 2 + first * cls->every;
    cls->run_nvalues =
        (uint32_t)min_u64(TERP_SAMPLE_RUN_NVALUES, cls->extent[0]);
    cls->nruns = end - first;
}

/* Predictions of a point along one dimension, by spline, and the order of the
 * cubic and natural spline's form. The linear spline's order is the same, but
 * at most linear. */
template <typename T> struct along {
    T by[TERP_NSPLINES];
    int order;
};
#define LINEAR_ORDER 2

/* The four points around one, as far as its form needs them. */
template <typename T> struct neighbours {
    T a, b, c, d;
};

_Static_assert(
    (TERP_FORM_EXTRAPOLATE & TERP_FORM_QUAD_BELOW & TERP_FORM_CUBIC & 1) == 1 &&
        ((TERP_FORM_COPY | TERP_FORM_LINEAR | TERP_FORM_QUAD_ABOVE) & 1) == 0,
    "forms that take the point further below are odd");

template <typename T>
static __device__ __forceinline__ struct neighbours<T>
load_neighbours(const T *at, uint64_t stride, enum terp_form form) {
    const T *below = at - stride, *above = at + stride;
    bool has_a = form & 1;
    struct neighbours<T> near;
    near.b = *below;
    near.a = has_a ? *(below - 2 * stride) : (T)0;
    near.c = form >= TERP_FORM_LINEAR ? *above : (T)0;
    near.d = form >= TERP_FORM_QUAD_ABOVE ? above[2 * stride] : (T)0;
    return near;
}

/* `form` is the cubic spline's. */
template <typename T>
static __device__ __forceinline__ struct along<T>
predict_along(const struct source<T> &source, const struct neighbours<T> &near,
              enum terp_form form) {
    T a = known(source, near.a), b = known(source, near.b);
    T c = known(source, near.c), d = known(source, near.d);
    T linear = form >= TERP_FORM_LINEAR        ? TERP_LINEAR(b, c)
               : form == TERP_FORM_EXTRAPOLATE ? TERP_EXTRAPOLATE(a, b)
                                               : b;
    T cubic = linear, natural = linear;

    if (form == TERP_FORM_CUBIC) {
        cubic = TERP_CUBIC(a, b, c, d);
        natural = TERP_NATURAL(a, b, c, d, (T)0.025);
    } else if (form == TERP_FORM_QUAD_BELOW) {
        cubic = natural = TERP_QUAD_BELOW(a, b, c);
    } else if (form == TERP_FORM_QUAD_ABOVE) {
        cubic = natural = TERP_QUAD_ABOVE(b, c, d);
    }
    struct along<T> along;
    along.by[TERP_SPLINE_CUBIC] = cubic;
    along.by[TERP_SPLINE_NATURAL] = natural;
    along.by[TERP_SPLINE_LINEAR] = linear;
    along.order = terp_form_order(form);
    return along;
}

/* Sums of the predictions of highest order along some dimensions. */
template <typename T>
struct average {
    T sum[TERP_NSPLINES];
    int order; /* -1: of no dimension */
    int n, linear_n;
};

/* Dimensions come from the slowest to the fastest. */
template <typename T>
static __device__ __forceinline__ struct average<T>
average_with(const struct average<T> &slower, const struct along<T> &along) {
    struct average<T> all = slower;

    for (int s = 0; s < TERP_NSPLINES; s++) {
        int most = s == TERP_SPLINE_LINEAR ? LINEAR_ORDER : INT_MAX;
        int before = min(slower.order, most), order = min(along.order, most);
        all.sum[s] = order > before    ? along.by[s]
                     : order == before ? slower.sum[s] + along.by[s]
                                       : slower.sum[s];
        int &n = s == TERP_SPLINE_LINEAR ? all.linear_n : all.n;
        if (s != TERP_SPLINE_NATURAL) /* as cubic */
            n = order > before ? 1 : order == before ? n + 1 : n;
    }
    all.order = max(along.order, slower.order);
    return all;
}

template <typename T>
static __device__ __forceinline__ T
share_of(int n)
{
    return n == 1 ? (T)1 : n == 2 ? (T)0.5 : n == 3 ? (T)(1.0 / 3) : (T)0.25;
}

/* What the code of `value` would be. A special value costs nothing; what one
 * stands in for as a neighbour is not known yet and seldom good. */
template <typename T>
static __device__ __forceinline__ unsigned
slot_of(T value, T pred, T inverse, T max_code)
{
    T scaled = absolute(value - pred) * inverse;
    T unknown = value != value ? (T)0 : max_code;
    T most = max_code + (T)0.5; /* and more: an escape */
    scaled = scaled != scaled ? unknown : scaled;
    scaled = scaled < most ? scaled : most;
    return (unsigned)(int)(scaled + (T)0.5);
}

/* Counts a value's codes under all splines and all sets of dimensions of the
 * class that predict it and consist of those in `slower` and some below D. The
 * set's number times the histograms of a set gives the place. */
template <int D, typename T>
static __device__ __forceinline__ void
count_sets(T value, const struct along<T> along[TERP_NDIMS], unsigned odd,
           T inverse, T max_code, const struct average<T> &slower,
           uint32_t *s_histogram)
{
    if constexpr (D > 0) {
        const unsigned faster = odd & ((1u << (D - 1)) - 1);
        if (odd >> (D - 1) & 1) {
            uint32_t *s_set = s_histogram + (TERP_NSPLINES * HISTOGRAM_NWORDS
                                             << count_bits(faster));
            struct average<T> all = average_with(slower, along[D - 1]);
            T share = share_of<T>(all.n);
            T linear_share = share_of<T>(all.linear_n);
            for (int s = 0; s < TERP_NSPLINES; s++) {
                T pred = all.sum[s] *
                         (s == TERP_SPLINE_LINEAR ? linear_share : share);
                count_slot(s_set + s * HISTOGRAM_NWORDS,
                           slot_of(value, pred, inverse, max_code));
            }
            count_sets<D - 1>(value, along, odd, inverse, max_code, all, s_set);
        }
        count_sets<D - 1>(value, along, odd, inverse, max_code, slower,
                          s_histogram);
    }
}

/* A sampled run: found once, for all of its values. */
struct sampled_run {
    uint64_t at;      /* in the chunk */
    uint64_t x;       /* in the class */
    unsigned forms;   /* four bits a dimension, but for dimension 0 */
    uint32_t nvalues; /* at most run_nvalues */
};
#define MAX_NRUNS 128 /* found at once */

static __device__ __forceinline__ struct sampled_run
find_run(const volatile struct sampled_class &cls, unsigned nth)
{
    uint64_t run = cls.first_run + nth * cls.every;
    uint64_t left = run / cls.nruns_per_row;
    struct sampled_run found;

    found.x = (run - left * cls.nruns_per_row) * TERP_SAMPLE_RUN_NVALUES;
    found.nvalues = (uint32_t)min_u64(cls.run_nvalues, cls.extent[0] - found.x);
    found.at = (2 * found.x + (cls.odd & 1)) * cls.stride[0];
    found.forms = 0;
    for (int d = 1; d < TERP_NDIMS; d++) {
        uint64_t slower = cls.extent[d] == 1 ? left : left / cls.extent[d];
        uint64_t at = left - slower * cls.extent[d];
        found.forms |=
            (unsigned)terp_form_at(TERP_SPLINE_CUBIC, at, cls.neven[d])
            << (4 * d);
        found.at += (2 * at + (cls.odd >> d & 1)) * cls.stride[d];
        left = slower;
    }
    found.at += left * cls.brick_nvalues;
    return found;
}

template <typename T>
static __device__ __forceinline__ void
sample_value(const volatile struct sampled_class &cls,
             const struct sampled_run &run, unsigned x,
             const struct source<T> &source, T inverse, T max_code,
             uint32_t *s_histograms)
{
    const T *point = source.values + run.at + 2 * x * cls.stride[0];
    const unsigned odd = cls.odd;
    enum terp_form form[TERP_NDIMS];
    struct neighbours<T> near[TERP_NDIMS];
    struct along<T> along[TERP_NDIMS];
    T value = *point;

#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++) {
        form[d] = d == 0
                      ? terp_form_at(TERP_SPLINE_CUBIC, run.x + x, cls.neven[0])
                      : (enum terp_form)(run.forms >> (4 * d) & 15);
        if (odd >> d & 1)
            near[d] = load_neighbours(point, cls.stride[d], form[d]);
    }
    value = known(source, value);
#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++)
        if (odd >> d & 1)
            along[d] = predict_along(source, near[d], form[d]);
    const struct average<T> none = {
        {0, 0, 0}, -1, 0, 0
    };
    count_sets<TERP_NDIMS>(value, along, odd, inverse, max_code, none,
                           s_histograms - TERP_NSPLINES * HISTOGRAM_NWORDS);
}

/* Consecutive threads take consecutive values of the sampled runs. */
template <typename T>
static __device__ void
sample_class(const volatile struct sampled_class &cls,
             const struct source<T> &source, T inverse, T max_code,
             uint32_t *s_histograms, struct findings *s_found)
{
    __shared__ struct sampled_run s_runs[MAX_NRUNS];
    const unsigned run_nvalues = cls.run_nvalues, all = cls.nruns;
    unsigned nsampled = 0;

    for (unsigned first = 0; first < all; first += MAX_NRUNS) {
        unsigned nruns = min((unsigned)MAX_NRUNS, all - first);
        __syncthreads();
        if (threadIdx.x < nruns)
            s_runs[threadIdx.x] = find_run(cls, first + threadIdx.x);
        __syncthreads();
        for (unsigned i = threadIdx.x; i < nruns * run_nvalues;
             i += blockDim.x) {
            unsigned nth = i / run_nvalues, x = i - nth * run_nvalues;
            if (x >= s_runs[nth].nvalues)
                continue;
            sample_value(cls, s_runs[nth], x, source, inverse, max_code,
                         s_histograms);
            nsampled++;
        }
    }
    nsampled = warp_sum(nsampled);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&s_found->nsampled, nsampled);
}

#endif

/* Samples a class of points under splines. `sample` in
 * cpu/predict/stages_impl.h takes the same samples. */
#pragma once

#include "gpu/predict/spline_stencils.cuh"
#include "gpu/predict/tuner.cuh"

/* A class, and the runs of it that a block samples. */
struct sampled_class {
    unsigned odd;
    uint64_t extent[TERP_NDIMS];
    uint64_t neven[TERP_NDIMS];
    uint64_t stride[TERP_NDIMS]; /* in the chunk, on the level's lattice */
    unsigned odd_dims;           /* as list_dims returns them */
    uint64_t brick_nvalues;
    uint64_t nvalues;
    uint64_t nruns_per_row;
    uint64_t every;
    uint64_t first_run; /* the first run of this block */
    uint32_t nruns;     /* runs that this block samples */
    uint32_t run_nvalues;
};

/* Returns the dimensions of a set in ascending order, four bits each. */
static __device__ __forceinline__ unsigned
list_dims(unsigned dims)
{
    unsigned list = 0, n = 0;
#pragma unroll
    for (unsigned d = 0; d < TERP_NDIMS; d++)
        if (dims >> d & 1)
            list |= d << 4 * n++;
    return list;
}

static __device__ void
find_class(const struct terp_layout *layout, int l, unsigned odd, unsigned part,
           unsigned nparts, struct sampled_class *cls)
{
    const struct terp_level *level = &layout->level[l];
    uint64_t nrows = layout->nbricks, stride = 1;

    cls->odd = odd;
    cls->odd_dims = list_dims(odd);
#pragma unroll
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
    /* Runs that all blocks sample; this block samples a part of them. */
    uint32_t nsampled_runs =
        (uint32_t)div_up(nruns - cls->every / 2, cls->every);
    uint32_t first = nsampled_runs * part / nparts;
    uint32_t end = nsampled_runs * (part + 1) / nparts;
    cls->first_run = cls->every / 2 + first * cls->every;
    cls->run_nvalues =
        (uint32_t)min_u64(TERP_SAMPLE_RUN_NVALUES, cls->extent[0]);
    cls->nruns = end - first;
}

/* The four points around a point; points that its stencil does not read are 0.
 */
template <typename T> struct neighbours {
    T a, b, c, d;
};

_Static_assert((TERP_STENCIL_EXTRAPOLATE & TERP_STENCIL_QUAD_BELOW &
                TERP_STENCIL_CUBIC & 1) == 1 &&
                   ((TERP_STENCIL_COPY | TERP_STENCIL_LINEAR |
                     TERP_STENCIL_QUAD_ABOVE) &
                    1) == 0,
               "Forms that read point a have odd numbers.");

template <typename T>
static __device__ __forceinline__ neighbours<T>
load_neighbours(const T *at, uint64_t stride, enum terp_stencil stencil)
{
    const T *below = at - stride, *above = at + stride;
    bool has_a = stencil & 1;
    neighbours<T> near;
    near.b = __ldg(below);
    near.a = has_a ? __ldg(below - 2 * stride) : (T)0;
    near.c = stencil >= TERP_STENCIL_LINEAR ? __ldg(above) : (T)0;
    near.d =
        stencil >= TERP_STENCIL_QUAD_ABOVE ? __ldg(above + 2 * stride) : (T)0;
    return near;
}

/* A prediction along one or several dimensions: the sum of the predictions
 * whose stencils have the highest order, their number, and this order. */
template <typename T> struct average {
    T sum;
    int n, order;
};
#define TUNE_LINEAR_ORDER 2 /* the most of the linear spline's stencils */

/* Predicts by a spline that is not long. `stencil` is the stencil of the cubic
 * spline. */
template <typename T>
static __device__ __forceinline__ average<T>
predict_along(const neighbours<T> &near, enum terp_stencil stencil, int spline)
{
    T a = near.a, b = near.b, c = near.c, d = near.d;
    int order = terp_stencil_order(stencil);
    T pred = stencil >= TERP_STENCIL_LINEAR        ? TERP_LINEAR(b, c)
             : stencil == TERP_STENCIL_EXTRAPOLATE ? TERP_EXTRAPOLATE(a, b)
                                                   : b;

    if (spline == TERP_SPLINE_LINEAR)
        order = min(order, TUNE_LINEAR_ORDER);
    else if (stencil == TERP_STENCIL_CUBIC)
        pred = spline == TERP_SPLINE_CUBIC ? TERP_CUBIC(a, b, c, d)
                                           : TERP_NATURAL(T, a, b, c, d);
    else if (stencil == TERP_STENCIL_QUAD_BELOW)
        pred = TERP_QUAD_BELOW(a, b, c);
    else if (stencil == TERP_STENCIL_QUAD_ABOVE)
        pred = TERP_QUAD_ABOVE(b, c, d);
    return average<T>{pred, 1, order};
}

static __device__ __forceinline__ enum terp_stencil
stencil_along(unsigned stencils, unsigned d)
{
    return (enum terp_stencil)(stencils >> (4 * d) & 15);
}

/* Returns the stencil of the cubic spline where a long spline has `stencil`. */
static __device__ __forceinline__ enum terp_stencil
cubic_stencil(enum terp_stencil stencil)
{
    return stencil < TERP_STENCIL_CUBIC ? stencil : TERP_STENCIL_CUBIC;
}

/* Returns a value; with has_specials, special values become NaN. Callers test
 * for special values once per chunk, not once per value. */
template <bool has_specials, typename T>
static __device__ __forceinline__ T
value_at(const source<T> &source, const T *at)
{
    const T value = __ldg(at);

    return has_specials ? known(source, value) : value;
}

/* Predicts by a long spline. */
template <bool has_specials, typename T>
static __device__ __forceinline__ average<T>
predict_far(const source<T> &source, const T *point, uint64_t stride,
            enum terp_stencil stencil)
{
    const int64_t step = (int64_t)stride;
    const T pred = combine_at<T>(stencil, [&](int nabove) {
        return value_at<has_specials>(source, point + (2 * nabove - 1) * step);
    });

    return average<T>{pred, 1, terp_stencil_order(stencil)};
}

/* Combines predictions; dimensions are added from the slowest to the fastest.
 */
template <typename T>
static __device__ __forceinline__ average<T>
average_with(const average<T> &slower, const average<T> &along)
{
    bool higher = along.order > slower.order;
    bool equal = along.order == slower.order;
    average<T> all;

    all.sum = equal ? slower.sum + along.sum : slower.sum;
    all.sum = higher ? along.sum : all.sum;
    all.n = higher ? 1 : slower.n + equal;
    all.order = max(along.order, slower.order);
    return all;
}

/* Returns 1 / n. n is at most NDIMS. */
template <unsigned NDIMS, typename T>
static __device__ __forceinline__ T
share_of(int n)
{
    return NDIMS == 1 || n == 1   ? TERP_SHARE(T, 1)
           : NDIMS <= 2 || n == 2 ? TERP_SHARE(T, 2)
           : NDIMS == 3 || n == 3 ? TERP_SHARE(T, 3)
                                  : TERP_SHARE(T, 4);
}

/* Returns the slot of the code that `value` would have. */
template <typename T>
static __device__ __forceinline__ unsigned
slot_of(T value, T pred, T noise, const constants<T> &k)
{
    const T most = k.max_code + (T)0.5; /* anything larger is an escape */
    const T magnitude = sampled_magnitude(value, pred, noise, k.inverse);

    /* Only a NaN differs from itself. */
    return magnitude == magnitude
               ? (unsigned)(int)(smaller(magnitude, most) + (T)0.5)
           : value == value ? TUNE_SLOT_UNKNOWN
                            : TUNE_SLOT_SPECIAL;
}

/* Where take_slot puts a value's slots. counted: adds 1 to a slot of a
 * histogram. stored: stores the offset of the slot's row in the table of costs.
 */
struct counted {
    uint32_t *s_histograms;
};

struct stored {
    uint16_t *s_rows;
    unsigned max_code;
};
#define TUNE_STORED_STRIDE 64 /* the most values of a stored histogram */
#define ESCAPE_ROW_AT (TERP_ROW_ESCAPE * TERP_ENTRY_STRIDE)
#define UNKNOWN_ROW_AT (TERP_ROW_UNKNOWN * TERP_ENTRY_STRIDE)
#define SPECIAL_ROW_AT (TERP_ROW_SPECIAL * TERP_ENTRY_STRIDE)
_Static_assert(ESCAPE_ROW_AT < UNKNOWN_ROW_AT &&
                   UNKNOWN_ROW_AT < SPECIAL_ROW_AT && SPECIAL_ROW_AT < 1 << 16,
               "Offsets of rows fit 16 bits, and rows of values without a "
               "code come last.");

static __device__ __forceinline__ void
take_slot(const struct counted &to, unsigned histogram, unsigned slot)
{
    count_slot(to.s_histograms + histogram * TUNE_HISTOGRAM_NWORDS, slot);
}

static __device__ __forceinline__ void
take_slot(const struct stored &to, unsigned histogram, unsigned slot)
{
    unsigned row = slot == TUNE_SLOT_UNKNOWN   ? TERP_ROW_UNKNOWN
                   : slot == TUNE_SLOT_SPECIAL ? TERP_ROW_SPECIAL
                   : slot > to.max_code        ? TERP_ROW_ESCAPE
                                               : slot;
    to.s_rows[histogram * TUNE_STORED_STRIDE] =
        (uint16_t)(row * TERP_ENTRY_STRIDE);
}

/* Takes the slots of a value under all sets of odd dimensions that consist of
 * the set SLOWER and any dimensions below D. `slower` is the average along
 * SLOWER. Recursive at compile time: predict_sets<2, 0> takes {1}, {0, 1} and
 * {0}. */
template <int D, unsigned SLOWER, typename T, typename To>
static __device__ __forceinline__ void
predict_sets(T value, T noise, const average<T> along[],
             const average<T> &slower, const constants<T> &k, const To &to)
{
    if constexpr (D > 0) {
        constexpr unsigned SET = SLOWER | 1u << (D - 1);
        average<T> all =
            SLOWER == 0 ? along[D - 1] : average_with(slower, along[D - 1]);
        constexpr unsigned NDIMS = count_bits(SET);
        T pred = all.sum;
        if constexpr (SLOWER != 0)
            pred *= share_of<NDIMS, T>(all.n);
        take_slot(to, SET - 1,
                  slot_of(value, pred,
                          noise * (T)terp_noise_amplitude(NDIMS, 1, false), k));
        predict_sets<D - 1, SET>(value, noise, along, all, k, to);
        predict_sets<D - 1, SLOWER>(value, noise, along, slower, k, to);
    }
}

/* Consecutive points of a row of a class. */
struct sampled_run {
    uint64_t at; /* of the first point in the chunk */
    uint64_t x;  /* of the first point in the row */
    /* stencils of long splines, four bits for each dimension above 0 */
    unsigned stencils;
    uint32_t nvalues; /* at most run_nvalues */
};
/* runs that a block finds at once, one per thread; they stay in shared memory
 */
#define TUNE_MAX_NRUNS 96

/* Finds the run that begins at point x of a row of the class. */
static __device__ __forceinline__ struct sampled_run
find_point(const volatile struct sampled_class &cls, uint64_t row, uint64_t x)
{
    struct sampled_run found;

    found.x = x;
    found.nvalues = (uint32_t)min_u64(cls.run_nvalues, cls.extent[0] - x);
    found.at = (2 * x + (cls.odd & 1)) * cls.stride[0];
    found.stencils = 0;
#pragma unroll 1
    for (int d = 1; d < TERP_NDIMS; d++) {
        uint64_t extent = cls.extent[d];
        uint64_t slower = extent == 1 ? row : row / extent;
        uint64_t at = row - slower * extent;
        found.stencils |=
            (unsigned)terp_stencil_at(TERP_SPLINE_LONG, at, cls.neven[d])
            << (4 * d);
        found.at += (2 * at + (cls.odd >> d & 1)) * cls.stride[d];
        row = slower;
    }
    found.at += row * cls.brick_nvalues;
    return found;
}

static __device__ __forceinline__ struct sampled_run
find_run(const volatile struct sampled_class &cls, unsigned nth)
{
    uint64_t run = cls.first_run + nth * cls.every;
    uint64_t nper_row = cls.nruns_per_row;
    uint64_t row = nper_row == 1 ? run : run / nper_row;

    return find_point(cls, row,
                      (run - row * nper_row) * TERP_SAMPLE_RUN_NVALUES);
}

/* Finds the runs from `first` on, one per thread. */
static __device__ __forceinline__ void
find_runs(const volatile struct sampled_class &cls, unsigned first,
          struct sampled_run s_runs[TUNE_MAX_NRUNS])
{
    if (threadIdx.x < TUNE_MAX_NRUNS && first + threadIdx.x < cls.nruns)
        s_runs[threadIdx.x] = find_run(cls, first + threadIdx.x);
}

/* Takes the slots of the x-th value of a run under all splines, in a class of
 * one odd dimension. */
template <typename T, typename To>
static __device__ __forceinline__ void
sample_line(const volatile struct sampled_class &cls,
            const struct sampled_run &run, unsigned x, const source<T> &source,
            const constants<T> &k, const To &to)
{
    const T *point = source.values + run.at + 2 * x * cls.stride[0];
    const unsigned d = cls.odd_dims & 15;
    const int64_t step = (int64_t)cls.stride[d];
    const unsigned stencils =
        run.stencils |
        (unsigned)terp_stencil_at(TERP_SPLINE_LONG, run.x + x, cls.neven[0]);
    const enum terp_stencil far = stencil_along(stencils, d);
    const T noise = (T)terp_noise_at(run.x + x) * source.noise_scale *
                    (T)terp_noise_amplitude(1, 1, false);
    T value = __ldg(point);
    reached<T> points = reach<T>(far, [&](int nabove) {
        return __ldg(point + (2 * nabove - 1) * step);
    });

    if (source.has_specials) {
        value = known(source, value);
#pragma unroll
        for (int i = 0; i < STENCIL_NPOINTS; i++)
            points.at[i] = known(source, points.at[i]);
    }
    const T *b = points.at + STENCIL_NBELOW;
    const neighbours<T> near = {b[-1], b[0], b[1], b[2]};
#pragma unroll
    for (int spline = 0; spline < TERP_NSPLINES; spline++) {
        const T pred = spline < TERP_SPLINE_LONG
                           ? predict_along(near, cubic_stencil(far), spline).sum
                       : spline == TERP_SPLINE_LONG
                           ? combine_reached(far, points.at)
                           : combine_reached(terp_mean_stencil(far), points.at);
        take_slot(to, (unsigned)spline, slot_of(value, pred, noise, k));
    }
}

/* Takes its slots under the cubic spline along all sets of odd dimensions, in a
 * class of N > 1 odd dimensions. */
template <int N, typename T, typename To>
static __device__ __forceinline__ void
sample_sets(const volatile struct sampled_class &cls,
            const struct sampled_run &run, unsigned x, const source<T> &source,
            const constants<T> &k, const To &to)
{
    const T *point = source.values + run.at + 2 * x * cls.stride[0];
    const unsigned odd_dims = cls.odd_dims;
    unsigned stencils =
        run.stencils |
        (unsigned)terp_stencil_at(TERP_SPLINE_LONG, run.x + x, cls.neven[0]);
    enum terp_stencil stencil[N];
    neighbours<T> near[N];
    T value = __ldg(point);

#pragma unroll
    for (int i = 0; i < N; i++) {
        unsigned d = odd_dims >> (4 * i) & 15;
        stencil[i] = cubic_stencil(stencil_along(stencils, d));
        near[i] = load_neighbours(point, cls.stride[d], stencil[i]);
    }
    if (source.has_specials) {
        value = known(source, value);
#pragma unroll
        for (int i = 0; i < N; i++) {
            near[i].a = known(source, near[i].a);
            near[i].b = known(source, near[i].b);
            near[i].c = known(source, near[i].c);
            near[i].d = known(source, near[i].d);
        }
    }
    const T noise = (T)terp_noise_at(run.x + x) * source.noise_scale;
    average<T> along[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        along[i] = predict_along(near[i], stencil[i], TERP_SPLINE_CUBIC);
    predict_sets<N, 0>(value, noise, along, along[0], k, to);
}

template <int N, typename T, typename To>
static __device__ __forceinline__ void
sample_value(const volatile struct sampled_class &cls,
             const struct sampled_run &run, unsigned x, const source<T> &source,
             const constants<T> &k, const To &to)
{
    if constexpr (N == 1)
        sample_line(cls, run, x, source, k, to);
    else
        sample_sets<N>(cls, run, x, source, k, to);
}
_Static_assert(TERP_SPLINE_CUBIC == 0 &&
                   TERP_SPLINE_LONG == TERP_NSPLINES - 2 &&
                   TERP_SPLINE_MEAN == TERP_NSPLINES - 1,
               "The cubic spline is the first, long splines are the last.");

/* ---- blending ---- */

/* The values around a point along N dimensions, slowest first: below it, beside
 * it, above it. Values above it do not exist along dimensions that end at the
 * point. They are read as 0. */
#define CUBE_NVALUES(N) ((N) == 2 ? 9 : 27)

template <int N, typename T>
static __device__ __forceinline__ void
load_cube(const source<T> &source, const T *point, const uint64_t stride[N],
          const bool ends[N], T cube[CUBE_NVALUES(N)])
{
#pragma unroll
    for (int i = 0; i < CUBE_NVALUES(N) / 3; i++) {
        const uint64_t beside = stride[N - 2];
        const T *row = N == 2 || i / 3 == 1 ? point
                       : i / 3 == 0         ? point - stride[0]
                                            : point + stride[0];
        row = i % 3 == 1 ? row : i % 3 == 0 ? row - beside : row + beside;
        const bool exists =
            !(i % 3 == 2 && ends[N - 2]) && !(i / 3 == 2 && ends[0]);
        cube[3 * i] = exists ? __ldg(row - stride[N - 1]) : (T)0;
        cube[3 * i + 1] = exists ? __ldg(row) : (T)0;
        cube[3 * i + 2] =
            exists && !ends[N - 1] ? __ldg(row + stride[N - 1]) : (T)0;
    }
    if (__builtin_expect(source.has_specials, false)) {
#pragma unroll
        for (int i = 0; i < CUBE_NVALUES(N); i++)
            cube[i] = known(source, cube[i]);
    }
}

/* Returns the sum of two values on both sides of middle[at], or of four values
 * around it. */
template <typename T>
static __device__ __forceinline__ T
sum_of_two(const T *middle, int at, int stride)
{
    return middle[at - stride] + middle[at + stride];
}

template <typename T>
static __device__ __forceinline__ T
sum_of_four(const T *middle, int at, int slow, int fast)
{
    return sum_of_two(middle, at - slow, fast) +
           sum_of_two(middle, at + slow, fast);
}

/* Predicts a value at which some of its dimensions end, by the linear spline.
 * The other dimensions predict it; if there are none, all dimensions do. */
template <int N, typename T>
static __device__ __forceinline__ T
predict_end(const source<T> &source, const T *point, const uint64_t stride[N],
            const enum terp_stencil stencil[N], const bool ends[N],
            const T *middle)
{
    average<T> all = {0, 0, 0};

#pragma unroll
    for (int i = 0; i < N; i++) {
        const int at = N - i == 3 ? 9 : N - i == 2 ? 3 : 1;
        T along = TERP_LINEAR(middle[-at], middle[at]);
        if (!ends[i])
            all.sum = all.n++ == 0 ? along : all.sum + along;
    }
    if (all.n == 0) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            neighbours<T> near = load_neighbours(point, stride[i], stencil[i]);
            near.a = known(source, near.a);
            near.b = known(source, near.b);
            const average<T> along =
                predict_along(near, stencil[i], TERP_SPLINE_LINEAR);
            all = i == 0 ? along : average_with(all, along);
        }
    }
    return all.sum * share_of<N, T>(all.n);
}

/* Predicts by a long spline along the second of two dimensions, applied to the
 * errors of the linear spline along the first. If the first dimension ends at
 * the point, the dimension whose stencil has the higher order predicts the
 * point, or both dimensions do. */
template <bool has_specials, typename T>
static __device__ __forceinline__ T
blend_far(const source<T> &source, const T *point, const uint64_t stride[2],
          const enum terp_stencil stencil[2])
{
    const int64_t slow = (int64_t)stride[0], fast = (int64_t)stride[1];

    if (stencil[0] < TERP_STENCIL_LINEAR) {
        const average<T> all = average_with(
            predict_far<has_specials>(source, point, stride[0], stencil[0]),
            predict_far<has_specials>(source, point, stride[1], stencil[1]));
        return all.sum * share_of<2, T>(all.n);
    }
    const auto value = [&](const T *at) {
        return value_at<has_specials>(source, at);
    };
    const T along = combine_at<T>(stencil[1], [&](int nabove) {
        const T *even = point + (2 * nabove - 1) * fast;
        return value(even) -
               TERP_LINEAR(value(even - slow), value(even + slow));
    });
    return along + TERP_LINEAR(value(point - slow), value(point + slow));
}

/* Takes the slots of the x-th value of a run, blended in pairs and blended
 * fully, in a class of N odd dimensions. */
template <int N, typename T>
static __device__ __forceinline__ void
blend_value(const volatile struct sampled_class &cls,
            const struct sampled_run &run, unsigned x, const source<T> &source,
            const constants<T> &k, const struct counted &to)
{
    const T *point = source.values + run.at + 2 * x * cls.stride[0];
    const unsigned odd_dims = cls.odd_dims;
    const unsigned stencils =
        run.stencils |
        (unsigned)terp_stencil_at(TERP_SPLINE_LONG, run.x + x, cls.neven[0]);
    const T noise = (T)terp_noise_at(run.x + x) * source.noise_scale;
    enum terp_stencil stencil[N]; /* slowest dimension first */
    uint64_t stride[N];
    bool ends[N], inside = true;
    T cube[CUBE_NVALUES(N)], pairs, full;
    const T *middle = cube + CUBE_NVALUES(N) / 2;

#pragma unroll
    for (int i = 0; i < N; i++) {
        unsigned d = odd_dims >> (4 * (N - 1 - i)) & 15;
        stencil[i] = stencil_along(stencils, d);
        stride[i] = cls.stride[d];
        ends[i] = stencil[i] < TERP_STENCIL_LINEAR;
        inside &= !ends[i];
    }
    load_cube<N>(source, point, stride, ends, cube);
    if constexpr (N == 3) {
        T faces = sum_of_two(middle, 0, 9) + sum_of_two(middle, 0, 3) +
                  sum_of_two(middle, 0, 1);
        T edges = sum_of_four(middle, 0, 9, 3) + sum_of_four(middle, 0, 9, 1) +
                  sum_of_four(middle, 0, 3, 1);
        T corners =
            sum_of_four(middle, -9, 3, 1) + sum_of_four(middle, 9, 3, 1);
        pairs = TERP_BLEND_3_PAIRS(T, faces, edges);
        full = TERP_BLEND_3_FULL(faces, edges, corners);
    } else {
        pairs = full =
            TERP_BLEND_2(sum_of_two(middle, 0, 3) + sum_of_two(middle, 0, 1),
                         sum_of_four(middle, 0, 3, 1));
    }
    if (!inside)
        pairs = full =
            predict_end<N>(source, point, stride, stencil, ends, middle);
    take_slot(to, 0,
              slot_of(*middle, pairs,
                      noise * (T)terp_noise_amplitude(N, 2, false), k));
    const bool is_long = N == 2;
    if constexpr (is_long)
        full = source.has_specials
                   ? blend_far<true>(source, point, stride, stencil)
                   : blend_far<false>(source, point, stride, stencil);
    take_slot(to, 1,
              slot_of(*middle, full,
                      noise * (T)terp_noise_amplitude(N, 3, is_long), k));
}

/* ---- runs ---- */

/* Samples all runs of a block: consecutive threads take consecutive values of
 * the runs. The first runs are already in s_runs, unless `is_repeat` is set and
 * not all runs fit. is_repeat: the same values have been sampled before, so
 * they do not count as further samples. */
template <int N, bool blends, typename T>
static __device__ __forceinline__ void
sample_runs(const volatile struct sampled_class &cls, const source<T> &source,
            const constants<T> &k, struct sampled_run s_runs[TUNE_MAX_NRUNS],
            bool is_repeat, uint32_t *s_histograms, struct findings *s_found)
{
    const unsigned run_nvalues = cls.run_nvalues, all = cls.nruns;
    const unsigned nth_of_thread = threadIdx.x / run_nvalues;
    const unsigned x_of_thread = threadIdx.x - nth_of_thread * run_nvalues;
    const unsigned nruns_ahead = blockDim.x / run_nvalues;
    const unsigned x_ahead = blockDim.x - nruns_ahead * run_nvalues;
    const struct counted to = {s_histograms};
    unsigned nsampled = 0;

#pragma unroll 1
    for (unsigned first = 0; first < all; first += TUNE_MAX_NRUNS) {
        unsigned nruns = min((unsigned)TUNE_MAX_NRUNS, all - first);
        unsigned nth = nth_of_thread, x = x_of_thread;
        if (first > 0 || (is_repeat && all > TUNE_MAX_NRUNS)) {
            __syncthreads();
            find_runs(cls, first, s_runs);
            __syncthreads();
        }
#pragma unroll 1
        while (nth < nruns) {
            if (x < s_runs[nth].nvalues) {
                if constexpr (blends)
                    blend_value<N>(cls, s_runs[nth], x, source, k, to);
                else
                    sample_value<N>(cls, s_runs[nth], x, source, k, to);
                nsampled++;
            }
            nth += nruns_ahead;
            x += x_ahead;
            nth += x >= run_nvalues;
            x -= x >= run_nvalues ? run_nvalues : 0;
        }
    }
    nsampled = __reduce_add_sync(FULL_WARP_MASK, nsampled);
    if (threadIdx.x % 32 == 0 && !is_repeat)
        atomicAdd(&s_found->nsampled, nsampled);
}

/* Samples a class, by averages or, with `blends`, by blending. is_repeat: see
 * sample_runs. */
template <typename T>
static __device__ void
sample_class(const volatile struct sampled_class &cls,
             struct sampled_run s_runs[TUNE_MAX_NRUNS], const source<T> &source,
             const constants<T> &k, bool blends, bool is_repeat,
             uint32_t *s_histograms, struct findings *s_found)
{
    unsigned nodd = count_bits(cls.odd);

    if (blends && nodd == 2)
        sample_runs<2, true>(cls, source, k, s_runs, is_repeat, s_histograms,
                             s_found);
    else if (blends)
        sample_runs<3, true>(cls, source, k, s_runs, is_repeat, s_histograms,
                             s_found);
    else if (nodd == 1)
        sample_runs<1, false>(cls, source, k, s_runs, is_repeat, s_histograms,
                              s_found);
    else if (nodd == 2)
        sample_runs<2, false>(cls, source, k, s_runs, is_repeat, s_histograms,
                              s_found);
    else if (nodd == 3)
        sample_runs<3, false>(cls, source, k, s_runs, is_repeat, s_histograms,
                              s_found);
    else
        sample_runs<4, false>(cls, source, k, s_runs, is_repeat, s_histograms,
                              s_found);
}

/* Stores the rows of a point of a small class. */
template <typename T>
static __device__ __forceinline__ void
sample_point(const volatile struct sampled_class &cls, unsigned point,
             const source<T> &source, const constants<T> &k, uint16_t *s_rows)
{
    const unsigned nodd = count_bits(cls.odd);
    const unsigned row = point / (unsigned)cls.extent[0];
    const struct sampled_run run =
        find_point(cls, row, point - row * (unsigned)cls.extent[0]);
    const struct stored to = {s_rows + point, (unsigned)k.max_code};

    if (nodd == 1)
        sample_value<1>(cls, run, 0, source, k, to);
    else if (nodd == 2)
        sample_value<2>(cls, run, 0, source, k, to);
    else if (nodd == 3)
        sample_value<3>(cls, run, 0, source, k, to);
    else
        sample_value<4>(cls, run, 0, source, k, to);
}

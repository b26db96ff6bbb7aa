/* Floor 3: what to predict with, estimated on samples of the original values.
 * The same samples, costs and ties as in cpu_tuner.c.
 *
 * Samples are predicted from original values, so nothing waits for anything:
 * one launch estimates all classes of all levels under all splines, and the
 * dimensions of lorenzo. Blocks count codes in shared memory and turn counts
 * into costs under each entry of the dictionary, which are sums: where blocks
 * share a class, the block that ends last adds theirs up. It also chooses. */
#include "cuda_values.cuh"

/* Enough blocks of this size fit on a multiprocessor to hide the latency of
 * gathering neighbours. */
#define NTHREADS 512
#define NWARPS (NTHREADS / 32)
#define ALL_LANES 0xFFFFFFFFu

/* A block takes this many samples or more; blocks that share a class leave
 * records to add up, so there is a limit to them. */
#define SPLINE_PART_NVALUES 512
#define LORENZO_PART_NVALUES 2048
#define MAX_NPARTS 8

/* The most that one block may be given: counts have 16 bits. Up to half as
 * many again are sampled where rows end with a short run. */
#define MAX_PART_NVALUES 32768
_Static_assert(TERP_MAX_NSAMPLES <= MAX_PART_NVALUES &&
                   3 * MAX_PART_NVALUES / 2 + 8 * TERP_SAMPLE_RUN_NVALUES <=
                       UINT16_MAX,
               "a class of one part can be counted");
/* Lorenzo samples twice as much; its blocks' costs are added in 32 bits. */
_Static_assert((uint64_t)4 * TERP_MAX_NSAMPLES *
                       (24 << TERP_COST_FRACTION_NBITS) <
                   (uint64_t)1 << 32,
               "costs of samples are 32-bit numbers");

/* ---- what a block works on ---- */

/* How a launch's blocks, the blockIdx.x of each chunk, are dealt out: first
 * lorenzo's, then by level from 1, class from the last, part. */
struct tune_grid {
    unsigned nblocks;
    unsigned nlorenzo;
    unsigned lorenzo_record; /* first of them */
    int nlevels;             /* to be planned */
    unsigned nhistograms;    /* of a block, at most */
    unsigned first_block[TERP_MAX_LEVELS + 1];
    unsigned nparts[TERP_MAX_LEVELS + 1];
    unsigned first_record[TERP_MAX_LEVELS + 1]; /* where parts are many */
};

/* What a block leaves of a histogram, in the region `staging`: costs of its
 * codes by entry, and these. */
enum {
    RECORD_NSAMPLED = TERP_NENTRIES,
    RECORD_NESCAPES,
    RECORD_NJOINED,
    RECORD_NWORDS = TERP_ENTRY_STRIDE
};
_Static_assert(RECORD_NJOINED < RECORD_NWORDS, "padding has room for these");

/* Costs in the region `tune`: of each level, by spline, class and dimensions
 * that predict. Of level 0, which there is not, the sums. */
#define COST_SPLINE 0
#define COST_LORENZO 1

static __device__ __forceinline__ unsigned
cost_at(int l, int spline, unsigned odd, unsigned predicting)
{
    return (((unsigned)l * TERP_NSPLINES + (unsigned)spline) * TERP_NCLASSES +
            odd) *
               TERP_NCLASSES +
           predicting;
}

/* Subsets of a set of dimensions are numbered by pushing its bits together. */
static __host__ __device__ __forceinline__ unsigned
subset_at(unsigned number, unsigned dims)
{
    unsigned subset = 0;
    for (int d = 0; d < TERP_NDIMS; d++) {
        if (!(dims >> d & 1))
            continue;
        subset |= (number & 1) << d;
        number >>= 1;
    }
    return subset;
}

/* One histogram for each set of dimensions that may predict a class of so
 * many odd dimensions, and each spline. */
static __host__ __device__ __forceinline__ unsigned
nhistograms_of(unsigned nodd)
{
    return TERP_NSPLINES * ((1u << nodd) - 1);
}

static __host__ __device__ __forceinline__ unsigned
count_bits(unsigned dims)
{
    return (0x4332322132212110ull >> (4 * dims) & 15);
}

/* Histograms of the classes with lower numbers. */
static __host__ __device__ __forceinline__ unsigned
histograms_before(unsigned number)
{
    unsigned n = 0;
    for (unsigned i = 1; i < number; i++)
        n += nhistograms_of(count_bits(i));
    return n;
}

static __host__ __device__ __forceinline__ unsigned
active_dims(const uint64_t nodd[TERP_NDIMS])
{
    unsigned active = 0;
    for (int d = 0; d < TERP_NDIMS; d++)
        active |= (unsigned)(nodd[d] > 0) << d;
    return active;
}

static __device__ __forceinline__ unsigned
warp_sum(unsigned n)
{
    for (int lanes = 16; lanes > 0; lanes /= 2)
        n += __shfl_xor_sync(ALL_LANES, n, lanes);
    return n;
}

/* ---- histograms ---- */

/* A histogram counts slots: 0 the escape, 1 .. the magnitudes of codes. Two
 * slots share a word. Most samples fall into the first few slots, which each
 * lane counts for itself until all are counted. Afterwards the lanes' words
 * hold costs by entry. */
#define NSLOTS TERP_NROWS
#define NCOUNT_WORDS ((NSLOTS + 1) / 2)
#define NCOMMON_WORDS 4
#define NLANE_WORDS (NCOMMON_WORDS * 32)
#define HISTOGRAM_NWORDS (NCOUNT_WORDS + NLANE_WORDS)
_Static_assert(RECORD_NWORDS <= NLANE_WORDS, "costs replace lanes' counts");

#define MAX_NHISTOGRAMS (TERP_NSPLINES * (TERP_NCLASSES - 1))

/* The costs of eight entries are one load. */
#define NOCTETS (TERP_ENTRY_STRIDE / 8)
_Static_assert(MAX_NHISTOGRAMS *NOCTETS <= NTHREADS, "a thread each");

/* What a block found besides its histograms. */
struct findings {
    uint32_t nsampled;
    uint32_t njoined;
    uint32_t nused; /* slots in use in any histogram */
    uint16_t used[NSLOTS];
};

static __device__ __forceinline__ void
count_slot(uint32_t *s_histogram, unsigned slot)
{
    unsigned word = slot / 2;
    unsigned at = word < NCOMMON_WORDS
                      ? NCOUNT_WORDS + word * 32 + threadIdx.x % 32
                      : word;
    atomicAdd(s_histogram + at, 1u << (16 * (slot % 2)));
}

static __device__ __forceinline__ uint32_t
count_of(const uint32_t *s_histogram, unsigned slot)
{
    return s_histogram[slot / 2] >> (16 * (slot % 2)) & 0xFFFF;
}

static __device__ void
clear_histograms(uint32_t *s_histograms, unsigned n, struct findings *s_found)
{
    for (unsigned i = threadIdx.x; i < n * HISTOGRAM_NWORDS; i += NTHREADS)
        s_histograms[i] = 0;
    if (threadIdx.x == 0) {
        s_found->nsampled = 0;
        s_found->njoined = 0;
        s_found->nused = 0;
    }
}

/* Adds up what lanes counted. Lists the slots in use, in any order. */
static __device__ void
gather_counts(uint32_t *s_histograms, unsigned n, struct findings *s_found)
{
    for (unsigned i = threadIdx.x; i < n * NCOMMON_WORDS; i += NTHREADS) {
        uint32_t *s_histogram =
            s_histograms + i / NCOMMON_WORDS * HISTOGRAM_NWORDS;
        unsigned word = i % NCOMMON_WORDS;
        uint32_t sum = 0;
        /* Each thread begins at another bank. */
        for (unsigned k = 0; k < 32; k++)
            sum += s_histogram[NCOUNT_WORDS + word * 32 + (k + i) % 32];
        s_histogram[word] = sum;
    }
    __syncthreads();
    for (unsigned first = 0; first < NCOUNT_WORDS; first += NTHREADS) {
        unsigned word = first + threadIdx.x;
        uint32_t counts = 0;
        for (unsigned h = 0; word < NCOUNT_WORDS && h < n; h++)
            counts |= s_histograms[h * HISTOGRAM_NWORDS + word];
        unsigned low = __ballot_sync(ALL_LANES, (counts & 0xFFFF) != 0);
        unsigned high = __ballot_sync(ALL_LANES, counts >> 16 != 0);
        unsigned lane = threadIdx.x % 32, before = (1u << lane) - 1;
        unsigned at = 0;
        if (lane == 0 && (low | high) != 0)
            at = atomicAdd(&s_found->nused,
                           (unsigned)(__popc(low) + __popc(high)));
        at = __shfl_sync(ALL_LANES, at, 0) +
             (unsigned)(__popc(low & before) + __popc(high & before));
        if (low >> lane & 1)
            s_found->used[at++] = (uint16_t)(2 * word);
        if (high >> lane & 1)
            s_found->used[at] = (uint16_t)(2 * word + 1);
    }
    for (unsigned i = threadIdx.x; i < n * RECORD_NWORDS; i += NTHREADS)
        s_histograms[i / RECORD_NWORDS * HISTOGRAM_NWORDS + NCOUNT_WORDS +
                     i % RECORD_NWORDS] = 0;
    __syncthreads();
}

/* Costs of each histogram under each entry, in place of the lanes' counts. A
 * thread has eight entries and, with others, one histogram. */
static __device__ void
cost_histograms(const uint16_t *d_cost, uint32_t *s_histograms, unsigned n,
                const struct findings *s_found)
{
    unsigned octet = threadIdx.x % NOCTETS, rest = threadIdx.x / NOCTETS;
    unsigned nslices = NTHREADS / NOCTETS / n;
    unsigned slice = rest / n, nused = s_found->nused;
    uint32_t *s_histogram = s_histograms + rest % n * HISTOGRAM_NWORDS;
    uint32_t sums[8] = {0};

    for (unsigned i = slice; slice < nslices && i < nused; i += 4 * nslices) {
        uint4 costs[4];
        uint32_t counts[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            unsigned at = i + k * nslices;
            unsigned slot = at < nused ? s_found->used[at] : 0;
            unsigned row = slot == 0 ? TERP_ROW_ESCAPE : slot - 1;
            counts[k] = at < nused ? count_of(s_histogram, slot) : 0;
            costs[k] = make_uint4(0, 0, 0, 0);
            if (counts[k] != 0)
                costs[k] = *(const uint4 *)(d_cost + row * TERP_ENTRY_STRIDE +
                                            octet * 8);
        }
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            const uint32_t words[4] = {costs[k].x, costs[k].y, costs[k].z,
                                       costs[k].w};
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                sums[2 * e] += counts[k] * (words[e] & 0xFFFF);
                sums[2 * e + 1] += counts[k] * (words[e] >> 16);
            }
        }
    }
    for (unsigned e = 0; e < 8; e++)
        if (sums[e] != 0)
            atomicAdd(s_histogram + NCOUNT_WORDS + octet * 8 + e, sums[e]);
    __syncthreads();
}

/* A histogram's least cost, of codes and escaped words, by a warp. */
static __device__ __forceinline__ uint64_t
least_cost(const uint32_t *s_histogram)
{
    unsigned least = 0xFFFFFFFF;
    for (unsigned e = threadIdx.x % 32; e < TERP_NENTRIES; e += 32)
        least = min(least, s_histogram[NCOUNT_WORDS + e]);
    for (int lanes = 16; lanes > 0; lanes /= 2)
        least = min(least, __shfl_xor_sync(ALL_LANES, least, lanes));
    return least + count_of(s_histogram, 0) * TERP_ESCAPE_COST;
}

static __device__ void
write_records(uint32_t *records, const uint32_t *s_histograms, unsigned n,
              const struct findings *s_found)
{
    for (unsigned i = threadIdx.x; i < n * RECORD_NWORDS; i += NTHREADS) {
        const uint32_t *s_histogram =
            s_histograms + i / RECORD_NWORDS * HISTOGRAM_NWORDS;
        unsigned word = i % RECORD_NWORDS;
        records[i] = word == RECORD_NSAMPLED   ? s_found->nsampled
                     : word == RECORD_NESCAPES ? count_of(s_histogram, 0)
                     : word == RECORD_NJOINED
                         ? s_found->njoined
                         : s_histogram[NCOUNT_WORDS + word];
    }
}

/* ---- spline: samples of a class ---- */

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
    uint32_t run_nvalues;
    uint32_t nsamples; /* at most */
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
    cls->nsamples = (end - first) * cls->run_nvalues;
}

/* Special values are taken for NaN. */
template <typename T> struct source {
    const T *values;
    bool has_specials;
    fill_words<T> fills;
};

template <typename T>
static __device__ __forceinline__ T
load(const struct source<T> &source, const T *at)
{
    T value = *at;
    return source.has_specials && is_special(value, source.fills) ? (T)NAN
                                                                  : value;
}

/* Predictions of a point along one dimension, by spline. Natural and cubic
 * spline have forms of one order. */
template <typename T> struct along {
    T by[TERP_NSPLINES];
    int order, linear_order;
};

/* `form` is the cubic spline's. */
template <typename T>
static __device__ __forceinline__ struct along<T>
predict_along(const struct source<T> &source, const T *at, uint64_t stride,
              enum terp_form form) {
    bool has_a = form == TERP_FORM_EXTRAPOLATE ||
                 form == TERP_FORM_QUAD_BELOW || form == TERP_FORM_CUBIC;
    bool has_c = form >= TERP_FORM_LINEAR;
    bool has_d = form >= TERP_FORM_QUAD_ABOVE;
    T b = load(source, at - stride);
    T a = has_a ? load(source, at - 3 * stride) : (T)0;
    T c = has_c ? load(source, at + stride) : (T)0;
    T d = has_d ? load(source, at + 3 * stride) : (T)0;
    T linear = has_c ? TERP_LINEAR(b, c) : has_a ? TERP_EXTRAPOLATE(a, b) : b;
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
    along.linear_order = terp_form_order(has_c ? TERP_FORM_LINEAR : form);
    return along;
}

/* Sums of the predictions of highest order along some dimensions. */
template <typename T>
struct average {
    T sum[TERP_NSPLINES];
    int order, linear_order;
    int n, linear_n;
};

/* Dimensions come from the slowest to the fastest. */
template <typename T>
static __device__ __forceinline__ struct average<T>
average_with(const struct average<T> &slower, const struct along<T> &along) {
    struct average<T> all = slower;

    for (int s = 0; s < TERP_NSPLINES; s++) {
        bool linear = s == TERP_SPLINE_LINEAR;
        int before = linear ? slower.linear_order : slower.order;
        int order = linear ? along.linear_order : along.order;
        all.sum[s] = order > before    ? along.by[s]
                     : order == before ? slower.sum[s] + along.by[s]
                                       : slower.sum[s];
    }
    all.n = along.order > slower.order    ? 1
            : along.order == slower.order ? slower.n + 1
                                          : slower.n;
    all.linear_n = along.linear_order > slower.linear_order ? 1
                   : along.linear_order == slower.linear_order
                       ? slower.linear_n + 1
                       : slower.linear_n;
    all.order = max(along.order, slower.order);
    all.linear_order = max(along.linear_order, slower.linear_order);
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
    scaled = scaled != scaled ? unknown : scaled;
    bool fits = scaled < max_code + (T)0.5;
    return fits ? (unsigned)(int)(scaled + (T)0.5) + 1 : 0;
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

/* Consecutive threads take consecutive values of the sampled runs. */
template <typename T>
static __device__ void
sample_class(const struct sampled_class &cls, const struct source<T> &source,
             T inverse, T max_code, uint32_t *s_histograms,
             struct findings *s_found)
{
    unsigned nsampled = 0;

    for (unsigned i = threadIdx.x; i < cls.nsamples; i += NTHREADS) {
        uint32_t nth = i / cls.run_nvalues;
        uint64_t run = cls.first_run + nth * cls.every;
        uint64_t left = run / cls.nruns_per_row;
        uint64_t at[TERP_NDIMS];
        at[0] = (run - left * cls.nruns_per_row) * TERP_SAMPLE_RUN_NVALUES +
                (i - nth * cls.run_nvalues);
        if (at[0] >= cls.extent[0])
            continue;
        const T *point = source.values;
        enum terp_form form[TERP_NDIMS];
        for (int d = 0; d < TERP_NDIMS; d++) {
            if (d > 0) {
                uint64_t slower =
                    cls.extent[d] == 1 ? left : left / cls.extent[d];
                at[d] = left - slower * cls.extent[d];
                left = slower;
            }
            form[d] = terp_form_at(TERP_SPLINE_CUBIC, at[d], cls.neven[d]);
            point += (2 * at[d] + (cls.odd >> d & 1)) * cls.stride[d];
        }
        point += left * cls.brick_nvalues;
        T value = load(source, point);
        struct along<T> along[TERP_NDIMS];
        for (int d = 0; d < TERP_NDIMS; d++)
            if (cls.odd >> d & 1)
                along[d] = predict_along(source, point, cls.stride[d], form[d]);
        const struct average<T> none = {
            {0, 0, 0}, -1, -1, 0, 0
        };
        count_sets<TERP_NDIMS>(value, along, cls.odd, inverse, max_code, none,
                               s_histograms - TERP_NSPLINES * HISTOGRAM_NWORDS);
        nsampled++;
    }
    nsampled = warp_sum(nsampled);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&s_found->nsampled, nsampled);
}

/* ---- lorenzo: stretches of rows ---- */

/* The stretches that a block samples. */
struct sampled_stretches {
    uint64_t nper_row;
    uint64_t every;
    uint32_t first, end;
};

static __device__ struct sampled_stretches
find_stretches(const struct terp_layout *layout, unsigned part, unsigned nparts)
{
    struct sampled_stretches some;
    some.nper_row = div_up(layout->dims[0], TERP_LORENZO_NVALUES);
    some.every = terp_lorenzo_distance(layout->nvalues);
    uint64_t nstretches = layout->nvalues / layout->dims[0] * some.nper_row;
    uint32_t nsampled =
        (uint32_t)div_up(nstretches - some.every / 2, some.every);
    some.first = nsampled * part / nparts;
    some.end = nsampled * (part + 1) / nparts;
    return some;
}

/* Rows that a difference along slower dimensions takes: bit d - 1 of a
 * corner is set where the row is the one before in dimension d. */
#define NCORNERS (1 << (TERP_NDIMS - 1))

/* What lanes that share a stretch know of it. */
template <typename T> struct stretch {
    const T *values;
    uint32_t nvalues;
    unsigned exists;          /* bit d - 1: a row before it in dimension d */
    int_of<T> last[NCORNERS]; /* integers before the lanes' values */
};

/* The integer that stands for a value, see prequantize in the CPU's stages. A
 * value that it does not reproduce repeats the one before, as special values
 * do. The whole warp takes part. */
template <typename T>
static __device__ __forceinline__ int_of<T>
integer_of(const struct source<T> &source, const T *at, bool exists,
           const struct constants<T> &k, unsigned group, int_of<T> last,
           bool *joins_ret)
{
    int_of<T> integer = 0;
    bool valid = true;

    *joins_ret = false;
    if (exists) {
        T value = *at;
        bool special = source.has_specials && is_special(value, source.fills);
        T scaled = value * k.inverse;
        bool fits = absolute(scaled) <= value_traits<T>::MAX_LEVEL;
        T level = ((fits ? scaled : (T)0) + value_traits<T>::ROUNDER) -
                  value_traits<T>::ROUNDER;
        fits &= absolute(value - level * k.step) < k.limit;
        integer = (int_of<T>)level;
        valid = fits && !special;
        *joins_ret = !fits && !special;
    }
    unsigned valids = __ballot_sync(ALL_LANES, valid);
    if (valids != ALL_LANES) {
        unsigned lane = threadIdx.x % 32;
        unsigned until = valids & group & (ALL_LANES >> (31 - lane));
        int from = until != 0 ? 31 - __clz((int)until) : (int)lane;
        int_of<T> before = __shfl_sync(ALL_LANES, integer, from);
        integer = until != 0 ? before : last;
    }
    return integer;
}

/* Differences along a set of slower dimensions, from rows that are corners. */
template <typename W>
static __device__ __forceinline__ void
difference_corners(W corners[NCORNERS], unsigned slower)
{
#pragma unroll
    for (int d = 0; d < TERP_NDIMS - 1; d++) {
#pragma unroll
        for (unsigned corner = 0; corner < NCORNERS; corner++)
            if ((corner >> d & 1) && (slower >> d & 1))
                corners[corner] = corners[corner ^ (1u << d)] - corners[corner];
    }
}

template <typename T>
static __device__ __forceinline__ unsigned
slot_of_difference(word_of<T> difference, int max_code)
{
    int_of<T> code = (int_of<T>)difference;
    bool fits = code >= -max_code && code <= max_code;
    return fits ? (unsigned)(code < 0 ? -code : code) + 1 : 0;
}

/* Counts the codes of a value by the dimensions of the difference; `row` holds
 * differences along dimension 0. */
template <typename T>
static __device__ __forceinline__ void
count_differences(word_of<T> row[NCORNERS], word_of<T> column[NCORNERS],
                  unsigned slower, int max_code, uint32_t *s_histogram)
{
    difference_corners(row, slower);
    difference_corners(column, slower);
#pragma unroll
    for (unsigned corner = 0; corner < NCORNERS; corner++) {
        if ((corner & ~slower) != 0)
            continue;
        if (corner != 0) {
            count_slot(s_histogram,
                       slot_of_difference<T>(column[corner], max_code));
            s_histogram += HISTOGRAM_NWORDS;
        }
        count_slot(s_histogram, slot_of_difference<T>(row[corner], max_code));
        s_histogram += HISTOGRAM_NWORDS;
    }
}

template <typename T>
static __device__ __forceinline__ struct stretch<T>
find_stretch(const struct terp_layout *layout, const T *values,
             const struct sampled_stretches &some, uint32_t nth) {
    uint64_t at = some.every / 2 + nth * some.every;
    uint64_t row = at / some.nper_row, left = row;
    uint64_t x = (at - row * some.nper_row) * TERP_LORENZO_NVALUES;
    struct stretch<T> stretch;

    stretch.values = values + row * layout->dims[0] + x;
    stretch.nvalues =
        (uint32_t)min_u64(TERP_LORENZO_NVALUES, layout->dims[0] - x);
    stretch.exists = 0;
    for (int d = 1; d < TERP_NDIMS; d++) {
        uint64_t slower = left / layout->dims[d];
        stretch.exists |= (unsigned)(left - slower * layout->dims[d] > 0)
                          << (d - 1);
        left = slower;
    }
    for (unsigned corner = 0; corner < NCORNERS; corner++)
        stretch.last[corner] = 0;
    return stretch;
}

/* A warp takes a stretch, 32 values at a time, or as many short ones as it
 * has room for, lanes in groups of a power of two. */
template <typename T>
static __device__ void
sample_lorenzo(const struct terp_layout *layout,
               const struct sampled_stretches &some,
               const struct source<T> &source, const struct constants<T> &k,
               int max_code, uint32_t *s_histograms, struct findings *s_found)
{
    uint32_t most = (uint32_t)min_u64(TERP_LORENZO_NVALUES, layout->dims[0]);
    unsigned nlanes = 32, slower = 0;
    uint32_t nsampled = 0, njoined = 0;
    uint64_t stride[TERP_NDIMS] = {1};

    while (nlanes / 2 >= most)
        nlanes /= 2;
    for (int d = 1; d < TERP_NDIMS; d++) {
        slower |= (unsigned)(layout->dims[d] > 1) << (d - 1);
        stride[d] = stride[d - 1] * layout->dims[d - 1];
    }
    unsigned lane = threadIdx.x % 32, member = lane % nlanes;
    unsigned group = (ALL_LANES >> (32 - nlanes)) << (lane - member);
    uint32_t nat_once = 32 / nlanes;
    for (uint32_t first = some.first + threadIdx.x / 32 * nat_once;
         first < some.end; first += NWARPS * nat_once) {
        uint32_t nth = first + lane / nlanes;
        struct stretch<T> stretch = find_stretch(layout, source.values, some,
                                                 nth < some.end ? nth : first);
        if (nth >= some.end)
            stretch.nvalues = 0;
        for (uint32_t at = 0; at < most; at += nlanes) {
            uint32_t x = at + member;
            bool inside = x < stretch.nvalues;
            word_of<T> row[NCORNERS], column[NCORNERS];
#pragma unroll
            for (unsigned corner = 0; corner < NCORNERS; corner++) {
                const T *value = stretch.values + x;
                bool joins;
                if ((corner & ~slower) != 0)
                    continue;
                for (int d = 1; d < TERP_NDIMS; d++)
                    value -= corner >> (d - 1) & 1 ? stride[d] : 0;
                int_of<T> last = stretch.last[corner];
                bool exists = inside && (corner & ~stretch.exists) == 0;
                int_of<T> integer =
                    integer_of(source, value, exists, k, group, last, &joins);
                int_of<T> before = __shfl_up_sync(ALL_LANES, integer, 1);
                before = member == 0 ? last : before;
                column[corner] = (word_of<T>)integer;
                row[corner] = (word_of<T>)integer - (word_of<T>)before;
                stretch.last[corner] = __shfl_sync(
                    ALL_LANES, integer, (int)(lane - member + nlanes - 1));
                if (corner == 0)
                    njoined += joins;
            }
            /* The first has nothing before it here, but has in the chunk. */
            if (!inside || x == 0)
                continue;
            count_differences<T>(row, column, slower, max_code, s_histograms);
            nsampled++;
        }
    }
    nsampled = warp_sum(nsampled);
    njoined = warp_sum(njoined);
    if (lane == 0) {
        atomicAdd(&s_found->nsampled, nsampled);
        atomicAdd(&s_found->njoined, njoined);
    }
}

/* ---- choices: the block that ends last ---- */

/* A histogram of several blocks: costs of codes, escapes, values. */
struct sums {
    uint32_t least;
    uint32_t nsampled, nescapes, njoined;
};
_Static_assert(sizeof(struct sums) <= 4 * HISTOGRAM_NWORDS * 3 / 7,
               "195 of these fit where a class of 45 histograms did, and so on "
               "for fewer dimensions");

/* Records [nparts][n] to n sums. */
static __device__ void
add_records(const uint32_t *records, unsigned n, unsigned nparts,
            struct sums *s_sums)
{
    const unsigned nquads = RECORD_NWORDS / 4;

    for (unsigned i = threadIdx.x; i < n; i += NTHREADS) {
        s_sums[i].least = 0xFFFFFFFF;
        s_sums[i].nsampled = 0;
        s_sums[i].nescapes = 0;
        s_sums[i].njoined = 0;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n * nquads; i += NTHREADS) {
        const uint4 *quads = (const uint4 *)records + i;
        struct sums *s_sum = &s_sums[i / nquads];
        unsigned first = i % nquads * 4;
        uint32_t words[4] = {0}, least = 0xFFFFFFFF;
#pragma unroll 8
        for (unsigned part = 0; part < nparts; part++) {
            uint4 quad = quads[part * n * nquads];
            words[0] += quad.x;
            words[1] += quad.y;
            words[2] += quad.z;
            words[3] += quad.w;
        }
#pragma unroll
        for (unsigned w = 0; w < 4; w++) {
            if (first + w < TERP_NENTRIES)
                least = min(least, words[w]);
            else if (first + w == RECORD_NSAMPLED)
                s_sum->nsampled = words[w];
            else if (first + w == RECORD_NESCAPES)
                s_sum->nescapes = words[w];
            else if (first + w == RECORD_NJOINED)
                s_sum->njoined = words[w];
        }
        atomicMin(&s_sum->least, least);
    }
    __syncthreads();
}

static __device__ __forceinline__ uint64_t
cost_of_class(const struct terp_layout *layout, int l, unsigned odd,
              uint64_t cost, uint32_t nsampled)
{
    const struct terp_level *level = &layout->level[l];
    uint64_t nvalues = layout->nbricks;

    for (int d = 0; d < TERP_NDIMS; d++)
        nvalues *= odd >> d & 1 ? level->nodd[d] : level->neven[d];
    return nsampled == 0 ? 0 : terp_scale_cost(cost, nvalues, nsampled);
}

static __device__ void
add_level(const struct terp_layout *layout, int l, const uint32_t *records,
          unsigned nparts, struct sums *s_sums, uint64_t *costs)
{
    unsigned active = active_dims(layout->level[l].nodd);
    unsigned n = histograms_before(1u << count_bits(active));

    add_records(records, n, nparts, s_sums);
    for (unsigned i = threadIdx.x; i < n; i += NTHREADS) {
        unsigned number = 1, h = i;
        while (h >= nhistograms_of(count_bits(number)))
            h -= nhistograms_of(count_bits(number++));
        unsigned odd = subset_at(number, active);
        unsigned predicting = subset_at(h / TERP_NSPLINES + 1, odd);
        uint64_t cost = s_sums[i].least + s_sums[i].nescapes * TERP_ESCAPE_COST;
        costs[cost_at(l, (int)(h % TERP_NSPLINES), odd, predicting)] =
            cost_of_class(layout, l, odd, cost, s_sums[i].nsampled);
    }
    __syncthreads();
}

static __device__ __forceinline__ uint64_t
cost_of_priorities(const uint64_t *costs, int l, int spline, unsigned active,
                   unsigned priorities)
{
    uint64_t cost = 0;
    for (unsigned odd = active; odd > 0; odd = (odd - 1) & active)
        cost += costs[cost_at(l, spline, odd,
                              terp_predicting_dims(odd, priorities))];
    return cost;
}

/* All levels' plans but for ratios. Returns the cost. Least are found among
 * keys of a cost and, below it, what ties go to; a chunk on a device has fewer
 * than 2^40 values, whose costs have less than 2^16 units each. */
static __device__ uint64_t
plan_levels(const struct terp_layout *layout, int nlevels,
            const uint64_t *costs, struct cuda_level_plan *plan)
{
    __shared__ unsigned long long s_least[TERP_MAX_LEVELS + 1];
    __shared__ unsigned long long s_cost;
    __shared__ uint8_t s_active[TERP_MAX_LEVELS + 1];

    for (int l = 1 + (int)threadIdx.x; l <= nlevels; l += NTHREADS) {
        s_least[l] = ~0ull;
        s_active[l] = (uint8_t)active_dims(layout->level[l].nodd);
    }
    if (threadIdx.x == 0)
        s_cost = 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < nlevels * 256; i += NTHREADS) {
        int l = i / 256 + 1;
        unsigned priorities = (unsigned)i % 256;
        if (!terp_priorities_are_canonical(priorities, s_active[l]))
            continue;
        uint64_t cost = cost_of_priorities(costs, l, TERP_SPLINE_CUBIC,
                                           s_active[l], priorities);
        atomicMin(&s_least[l], (unsigned long long)(cost << 8 | priorities));
    }
    __syncthreads();
    /* Four lanes a level, one for each spline. */
    for (int first = 0; first < 4 * nlevels; first += NTHREADS) {
        int i = first + (int)threadIdx.x;
        int l = min(i / 4 + 1, nlevels), spline = i % 4;
        unsigned priorities = (unsigned)s_least[l] & 0xFF;
        uint64_t least = ~UINT64_C(0);
        if (spline < TERP_NSPLINES)
            least =
                cost_of_priorities(costs, l, spline, s_active[l], priorities)
                    << 2 |
                (unsigned)spline;
        for (int lanes = 2; lanes > 0; lanes /= 2)
            least = min_u64(least, __shfl_xor_sync(ALL_LANES, least, lanes));
        if (spline == 0 && i < 4 * nlevels) {
            plan[l].priorities = (uint8_t)priorities;
            plan[l].spline = (uint8_t)(least & 3);
            atomicAdd(&s_cost, (unsigned long long)(least >> 2));
        }
    }
    __syncthreads();
    return s_cost;
}

/* Returns the cost. Without a sample there is none, and all dimensions in use
 * are taken. */
static __device__ uint64_t
choose_dims(const struct terp_layout *layout, const uint32_t *records,
            unsigned nparts, struct sums *s_sums, unsigned *dims_ret)
{
    __shared__ unsigned long long s_least;
    unsigned active = 0;

    for (int d = 0; d < TERP_NDIMS; d++)
        active |= (unsigned)(layout->dims[d] > 1) << d;
    unsigned n = nparts > 0 ? (1u << count_bits(active)) - 1 : 0;
    if (threadIdx.x == 0)
        s_least = ~0ull;
    add_records(records, n, nparts, s_sums);
    if (threadIdx.x < n && s_sums[threadIdx.x].nsampled > 0) {
        const struct sums *sums = &s_sums[threadIdx.x];
        uint64_t cost = sums->least + sums->nescapes * TERP_ESCAPE_COST +
                        sums->njoined * TERP_JOINED_COST;
        cost = terp_scale_cost(cost, layout->nvalues, sums->nsampled);
        /* Ties go to the larger set. */
        atomicMin(&s_least,
                  (unsigned long long)(cost << 4 | (14 - threadIdx.x)));
    }
    __syncthreads();
    uint64_t least = s_least;
    *dims_ret = least == ~UINT64_C(0)
                    ? active
                    : subset_at(15 - (unsigned)(least & 15), active);
    return least == ~UINT64_C(0) ? least : least >> 4;
}

static __device__ void
choose(const struct cuda_batch &batch, const struct tune_grid &grid,
       struct cuda_chunk &chunk)
{
    const struct terp_layout *layout = batch.d_layout;
    const uint32_t *records =
        region<uint32_t>(batch, blockIdx.y, batch.at.staging);
    uint64_t *costs = region<uint64_t>(batch, blockIdx.y, batch.at.tune);
    struct sums *s_sums = dynamic_shared<struct sums>();
    enum terp_predictor asked = batch.params.predictor;
    unsigned dims = 0;

    for (int l = 1; l <= grid.nlevels && grid.nparts[l] > 1; l++)
        add_level(layout, l, records + grid.first_record[l] * RECORD_NWORDS,
                  grid.nparts[l], s_sums, costs);
    uint64_t spline_cost = plan_levels(layout, grid.nlevels, costs, chunk.plan);
    uint64_t lorenzo_cost = ~UINT64_C(0);
    if (asked != TERP_PREDICTOR_SPLINE)
        lorenzo_cost =
            choose_dims(layout, records + grid.lorenzo_record * RECORD_NWORDS,
                        grid.nlorenzo, s_sums, &dims);
    for (int l = 1 + (int)threadIdx.x; l <= grid.nlevels; l += NTHREADS)
        chunk.plan[l].ratio =
            (uint8_t)terp_ratio_of_level(l, spline_cost, layout->nvalues);
    if (threadIdx.x == 0) {
        bool lorenzo =
            asked == TERP_PREDICTOR_LORENZO ||
            (asked == TERP_PREDICTOR_AUTO && lorenzo_cost < spline_cost);
        chunk.prediction =
            lorenzo ? TERP_PREDICTION_LORENZO : TERP_PREDICTION_SPLINE;
        chunk.lorenzo_dims = dims;
        costs[COST_SPLINE] = spline_cost;
        costs[COST_LORENZO] = lorenzo_cost;
    }
}

/* ---- the kernel ---- */

template <typename T>
static __device__ void
tune_lorenzo(const struct cuda_batch &batch, const struct tune_grid &grid,
             const struct source<T> &source, const struct constants<T> &k,
             uint32_t *s_histograms, struct findings *s_found)
{
    const struct terp_layout *layout = batch.d_layout;
    unsigned nactive = 0;

    for (int d = 0; d < TERP_NDIMS; d++)
        nactive += layout->dims[d] > 1;
    unsigned n = (1u << nactive) - 1;
    clear_histograms(s_histograms, n, s_found);
    __syncthreads();
    sample_lorenzo(layout, find_stretches(layout, blockIdx.x, grid.nlorenzo),
                   source, k, batch.max_code, s_histograms, s_found);
    __syncthreads();
    gather_counts(s_histograms, n, s_found);
    cost_histograms(batch.tables.d_cost, s_histograms, n, s_found);
    write_records(region<uint32_t>(batch, blockIdx.y, batch.at.staging) +
                      (grid.lorenzo_record + blockIdx.x * n) * RECORD_NWORDS,
                  s_histograms, n, s_found);
}

template <typename T>
static __device__ void
tune_class(const struct cuda_batch &batch, const struct tune_grid &grid,
           const struct source<T> &source, const struct constants<T> &k,
           uint32_t *s_histograms, struct findings *s_found)
{
    __shared__ struct sampled_class s_class;
    const struct terp_layout *layout = batch.d_layout;
    int l = 1;

    while (l < grid.nlevels && blockIdx.x >= grid.first_block[l + 1])
        l++;
    unsigned nparts = grid.nparts[l];
    unsigned index = blockIdx.x - grid.first_block[l], part = index % nparts;
    unsigned active = active_dims(layout->level[l].nodd);
    unsigned nclasses = 1u << count_bits(active);
    unsigned number = nclasses - 1 - index / nparts;
    unsigned odd = subset_at(number, active);
    unsigned n = nhistograms_of(count_bits(odd));

    if (threadIdx.x == 0)
        find_class(layout, l, odd, part, nparts, &s_class);
    clear_histograms(s_histograms, n, s_found);
    __syncthreads();
    sample_class(s_class, source, k.inverse, k.max_code, s_histograms, s_found);
    __syncthreads();
    gather_counts(s_histograms, n, s_found);
    cost_histograms(batch.tables.d_cost, s_histograms, n, s_found);
    if (nparts > 1) {
        unsigned record = grid.first_record[l] +
                          part * histograms_before(nclasses) +
                          histograms_before(number);
        write_records(region<uint32_t>(batch, blockIdx.y, batch.at.staging) +
                          record * RECORD_NWORDS,
                      s_histograms, n, s_found);
        return;
    }
    uint64_t *costs = region<uint64_t>(batch, blockIdx.y, batch.at.tune);
    for (unsigned h = threadIdx.x / 32; h < n; h += NWARPS) {
        uint64_t cost = least_cost(s_histograms + h * HISTOGRAM_NWORDS);
        unsigned predicting = subset_at(h / TERP_NSPLINES + 1, odd);
        if (threadIdx.x % 32 == 0)
            costs[cost_at(l, (int)(h % TERP_NSPLINES), odd, predicting)] =
                cost_of_class(layout, l, odd, cost, s_found->nsampled);
    }
}

/* Grid: struct tune_grid. Block: NTHREADS; histograms of its class, or of
 * lorenzo, in dynamic shared memory. Blocks do not wait for each other; the
 * last of a chunk, by its counter, reads what the others left. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS)
    tune(const struct cuda_batch batch, const struct tune_grid grid)
{
    __shared__ struct findings s_found;
    __shared__ bool s_is_last;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];

    if (chunk.status != TERP_OK || chunk.coding == TERP_CODING_CONSTANT)
        return;
    if (blockIdx.x < grid.nblocks) {
        struct source<T> source = {
            (const T *)chunk.src, chunk.has_specials, fills_of<T>(chunk)
        };
        struct constants<T> k =
            constants_of<T>(chunk.step, chunk.bound, batch.max_code);
        uint32_t *s_histograms = dynamic_shared<uint32_t>();
        if (blockIdx.x < grid.nlorenzo)
            tune_lorenzo(batch, grid, source, k, s_histograms, &s_found);
        else
            tune_class(batch, grid, source, k, s_histograms, &s_found);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        s_is_last =
            atomicAdd(&chunk.progress[CUDA_PROGRESS_TUNE], 1u) == gridDim.x - 1;
    __syncthreads();
    if (!s_is_last)
        return;
    __threadfence();
    choose(batch, grid, chunk);
}

/* ---- the launch ---- */

/* Parts for so many samples. */
static unsigned
nparts_of(uint64_t nsamples, uint64_t part_nvalues, unsigned most)
{
    uint64_t nparts = min_u64(div_up(nsamples, part_nvalues), most);
    uint64_t least = div_up(nsamples, MAX_PART_NVALUES);
    return (unsigned)(nparts < least ? least : nparts);
}

/* Returns how many records there are. */
static uint64_t
deal_blocks(const struct cuda_batch *batch, unsigned most_parts,
            struct tune_grid *grid)
{
    const struct terp_layout *layout = batch->h_layout;
    enum terp_predictor asked = batch->params.predictor;
    unsigned nrecords = 0, active = 0;

    *grid = tune_grid{};
    for (int d = 0; d < TERP_NDIMS; d++)
        active |= (unsigned)(layout->dims[d] > 1) << d;
    /* A row of one value has no difference that could be sampled. */
    if (asked != TERP_PREDICTOR_SPLINE && layout->dims[0] > 1) {
        grid->nlorenzo = nparts_of(2 * terp_nsamples_of(layout->nvalues),
                                   LORENZO_PART_NVALUES, 4 * most_parts);
        grid->nhistograms = (1u << count_bits(active)) - 1;
        grid->nblocks = grid->nlorenzo;
        nrecords = grid->nlorenzo * grid->nhistograms;
    }
    if (asked != TERP_PREDICTOR_LORENZO)
        grid->nlevels = layout->nlevels;
    for (int l = 1; l <= grid->nlevels; l++) {
        const struct terp_level *level = &layout->level[l];
        unsigned nodd = count_bits(active_dims(level->nodd));
        uint64_t nvalues = layout->nbricks; /* no class has more */
        for (int d = 0; d < TERP_NDIMS; d++)
            nvalues *= level->neven[d];
        grid->nparts[l] = nparts_of(min_u64(nvalues, terp_nsamples_of(nvalues)),
                                    SPLINE_PART_NVALUES, most_parts);
        grid->first_block[l] = grid->nblocks;
        grid->nblocks += ((1u << nodd) - 1) * grid->nparts[l];
        if (l == 1)
            grid->nhistograms = nhistograms_of(nodd);
        if (grid->nparts[l] == 1)
            continue;
        grid->first_record[l] = nrecords;
        nrecords += histograms_before(1u << nodd) * grid->nparts[l];
    }
    return nrecords;
}

template <typename T>
static cudaError_t
launch_tune(const struct cuda_batch *batch, const struct tune_grid *grid,
            cudaStream_t stream)
{
    const size_t always_nbytes = 40 << 10; /* of 48 KiB, the rest is static */
    size_t shared_nbytes = grid->nhistograms * HISTOGRAM_NWORDS * 4;
    dim3 blocks(grid->nblocks > 0 ? grid->nblocks : 1,
                (unsigned)batch->nchunks);
    cudaError_t error = cudaSuccess;

    if (shared_nbytes > always_nbytes)
        error = cudaFuncSetAttribute(
            tune<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
            (int)shared_nbytes);
    return error != cudaSuccess ? error
                                : launch(tune<T>, blocks, NTHREADS,
                                         shared_nbytes, stream, *batch, *grid);
}

cudaError_t
cuda_tune(const struct cuda_batch *batch, cudaStream_t stream)
{
    const uint64_t room = batch->npartitions * CUDA_PARTITION_MAX_NBYTES;
    struct tune_grid grid;
    /* Many chunks keep the device busy with one block a class. */
    unsigned most_parts =
        batch->nchunks < MAX_NPARTS ? MAX_NPARTS / (unsigned)batch->nchunks : 1;

    while (deal_blocks(batch, most_parts, &grid) * RECORD_NWORDS * 4 > room &&
           most_parts > 1)
        most_parts /= 2;
    return batch->chunk.type == TERP_FLOAT32
               ? launch_tune<float>(batch, &grid, stream)
               : launch_tune<double>(batch, &grid, stream);
}

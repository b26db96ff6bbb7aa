/* A spline kernel's view of a chunk, and the arithmetic of one point. */
#pragma once

#include "gpu/predict/spline.cuh"
#include "gpu/predict/spline_stencils.cuh"
#include "gpu/predict/values.cuh"

/* Copies the state of a chunk to shared memory; by default the chunk of the
 * block. All threads load at once, because loads of single fields from
 * different cache lines would wait for each other. Ends with a barrier. */
static __device__ __forceinline__ void
copy_state(const struct cuda_batch &batch, unsigned thread, unsigned nthreads,
           struct cuda_chunk *s_chunk, unsigned c = blockIdx.y)
{
    constexpr unsigned NWORDS = sizeof *s_chunk / sizeof(uint64_t);
    const uint64_t *from = (const uint64_t *)&batch.d_chunks[c];

    static_assert(sizeof *s_chunk % sizeof(uint64_t) == 0,
                  "A state consists of whole words.");
#pragma unroll 1
    for (unsigned i = thread; i < NWORDS; i += nthreads)
        ((uint64_t *)s_chunk)[i] = from[i];
    __syncthreads();
}

static __device__ __forceinline__ bool
chunk_applies(const struct cuda_chunk &chunk)
{
    return chunk.status == TERP_OK &&
           chunk.prediction == TERP_PREDICTION_SPLINE;
}

/* Whether level l has a spline that kernels of its own handle. */
static __device__ __forceinline__ bool
level_is_long(const struct cuda_chunk &chunk, int l)
{
    return terp_spline_is_far(chunk.model.plan[l].spline);
}

/* All stencils as one expression with different weights, so that the threads of
 * a warp stay together although their stencils differ. For a neighbour that a
 * stencil does not read, the caller passes -0. Adding -0 changes no sum, and
 * subtracting it changes no difference if its weight is -0, too. */
template <typename T> struct alignas(sizeof(T) * 4) stencil_weights {
    T b;     /* the weight of b; of b + c if c is 0 */
    T c;     /* the weight of c, or 0 */
    T outer; /* the weight of a + d */
    T scale;
};

template <typename T>
static __device__ __forceinline__ stencil_weights<T>
weights_of(enum terp_stencil stencil)
{
    switch (stencil) {
    case TERP_STENCIL_COPY:
        return {1, 0, (T)-0.0, 1};
    case TERP_STENCIL_EXTRAPOLATE:
        return {(T)1.5, 1, (T)0.5, 1};
    case TERP_STENCIL_LINEAR:
        return {1, 0, (T)-0.0, (T)0.5};
    case TERP_STENCIL_QUAD_BELOW:
        return {6, 3, 1, (T)0.125};
    case TERP_STENCIL_QUAD_ABOVE:
        return {3, 6, 1, (T)0.125};
    case TERP_STENCIL_CUBIC:
        return {9, 0, 1, (T)0.0625};
    default:
        return {23, 0, 3, TERP_FORTIETH(T)};
    }
}

/* Which neighbours besides b exist along a dimension, as bits. That selects the
 * stencil of every spline but the natural one, which has a table of its own. */
#define REACHES_A 1u
#define REACHES_C 2u
#define REACHES_D 4u
#define REACHES_ALL 7u
#define NREACHES 8
/* both tables; the second is for natural splines */
#define NWEIGHTS (2 * NREACHES)

/* Returns the neighbours of the odd point after even point i of `neven`, for
 * splines that are not linear. */
static __device__ __forceinline__ unsigned
reach_at(uint32_t i, uint32_t neven)
{
    return (i > 0) * REACHES_A + (i + 1 < neven) * REACHES_C +
           (i + 2 < neven) * REACHES_D;
}

/* Returns the neighbours that a linear spline reads. `reaches` holds four
 * dimensions of three bits each. */
static __device__ __forceinline__ unsigned
linear_reaches(unsigned reaches)
{
    const unsigned with_c = reaches & 02222;

    return reaches & ~(with_c >> 1 | with_c << 1);
}

/* Returns element `index` of a table that holds the weights of all cubic
 * stencils, then of all natural ones. */
template <typename T>
static __device__ __forceinline__ stencil_weights<T>
weights_at(unsigned index)
{
    const unsigned reach = index % NREACHES;
    const uint64_t i = reach & 1, neven = i + 1 + (reach >> 1 & 1);

    return weights_of<T>(terp_stencil_at(index < NREACHES ? TERP_SPLINE_CUBIC
                                                          : TERP_SPLINE_NATURAL,
                                         i, neven + (reach >> 2)));
}

static __device__ __forceinline__ unsigned
first_weights_of(unsigned spline)
{
    return spline == TERP_SPLINE_NATURAL ? NREACHES : 0;
}

/* Returns the result of combine, bit for bit. */
template <typename T>
static __device__ __forceinline__ T
combine_weighted(const stencil_weights<T> &w, T a, T b, T c, T d)
{
    T inner = w.c == 0 ? w.b * (b + c) : w.b * b + w.c * c;

    return (inner - w.outer * (a + d)) * w.scale;
}

/* Sums of a blended point's neighbours in the cube around it: neighbours that
 * differ from it along one of its odd dimensions, along two, along three. */
template <typename T> struct blend {
    T faces, edges, corners;
};

/* Returns the prediction of a point of NODD odd dimensions; `order` of them are
 * blended at a time. */
template <int NODD, typename T>
static __device__ __forceinline__ T
blend_of(const blend<T> &near, int order)
{
    if (NODD == 2)
        return TERP_BLEND_2(near.faces, near.edges);
    return order == 2 ? TERP_BLEND_3_PAIRS(T, near.faces, near.edges)
                      : TERP_BLEND_3_FULL(near.faces, near.edges, near.corners);
}

/* A chunk at one level, as a thread needs it. */
template <typename T> struct level_view {
    const struct cuda_chunk *s_chunk; /* a copy in shared memory */
    /* encode: the state in which escapes are recorded */
    struct cuda_chunk *d_chunk;
    const T *src;
    T *dst; /* decode */
    T *lattice;
    T *work; /* decode: values of escapes */
    uint16_t *symbols;
    unsigned long long *ranges;
    fill_words<T> fills;
    bool has_specials;
    uint32_t radius; /* the symbol of code 0 */
    /* Only of this level: */
    const T *coarse;
    T *fine;
    constants<T> k;
    enum terp_spline spline;
    int blend_order;
};

template <typename T>
static __device__ __forceinline__ level_view<T>
view_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
        unsigned c = blockIdx.y)
{
    level_view<T> view;

    view.s_chunk = &chunk;
    view.d_chunk = &batch.d_chunks[c];
    view.src = (const T *)chunk.src;
    view.dst = (T *)chunk.dst;
    view.lattice = region<T>(batch, c, batch.at.lattice);
    view.work = region<T>(batch, c, batch.at.work);
    view.symbols = region<uint16_t>(batch, c, batch.at.symbols);
    view.ranges = region<unsigned long long>(batch, c, batch.at.ranges);
    view.fills = fills_of<T>(chunk);
    view.has_specials = chunk.has_specials;
    view.radius = (uint32_t)terp_radius_of(chunk.model.wide);
    return view;
}

/* Quantizes a value; *symbol_ret is its code as a symbol. Returns the value
 * that a decoder will have, or the value itself if it escapes. */
template <typename T>
static __device__ __forceinline__ T
quantize(T value, T pred, const level_view<T> &view, uint32_t *symbol_ret)
{
    bool special = view.has_specials && is_special(value, view.fills);

    value = special ? pred : value;
    TERP_QUANTIZE(value, pred, view.k, rounded, code, rec, fits);
    uint32_t symbol =
        (uint32_t)(bits_of(rounded) - bits_of(value_traits<T>::ROUNDER)) +
        view.radius;
    symbol = fits ? symbol : TERP_ESCAPE;
    *symbol_ret = special ? view.radius : symbol;
    return special ? pred : fits ? rec : value;
}

/* Records an escape; returns the value that a decoder will have. */
template <typename T>
static __device__ __forceinline__ T
put_on_grid(T value, const level_view<T> &view)
{
    const grid_point<T> point =
        find_on_grid(grid_of<T>(*view.s_chunk, view.k.limit), value);

    note_number(view.d_chunk, point.fits,
                point.fits ? zigzag((int64_t)point.nsteps) : 0);
    return point.fits ? point.value : value;
}

/* Returns the code of a symbol that is not an escape. */
template <typename T>
static __device__ __forceinline__ T
code_of(uint32_t symbol, uint32_t radius)
{
    const T rounder = value_traits<T>::ROUNDER;
    word_of<T> bits = bits_of(rounder) + symbol - radius;

    return value_of_bits(bits) - rounder;
}

template <typename T>
static __device__ __forceinline__ T
reconstruct(uint32_t symbol, T pred, const level_view<T> &view)
{
    return pred + code_of<T>(symbol, view.radius) * view.k.step;
}

template <typename T>
static __device__ __forceinline__ void
count_escape(const level_view<T> &view, uint64_t work_at)
{
    atomicAdd(&view.ranges[work_at / CUDA_RANGE_NVALUES], 1ull);
}

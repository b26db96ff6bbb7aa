/* The shape of a level as rows along dimension 0, and the data that the threads
 * of a row share. gpu/predict/spline.cu explains rows and types. */
#pragma once

#include "gpu/engine/state.cuh"
#include "gpu/entropy/order.cuh"

#define NUPPER (TERP_NDIMS - 1) /* dimensions above 0 */

static __host__ __device__ __forceinline__ uint32_t
min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static __host__ __device__ __forceinline__ uint32_t
max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* ---- shapes: they follow from the layout alone ---- */

/* All rows of one type. The type is the set of dimensions above 0 along which
 * the coordinates of a row are odd. Odd dimensions are listed slowest first in
 * the arrays of NUPPER elements. 32 bits suffice for extents, see ncoarse_of.
 */
struct row_type {
    unsigned odd; /* the type, as a mask of dimensions */
    /* of the classes of the type; [0] is not used */
    uint32_t extent[TERP_NDIMS];
    uint64_t nruns; /* segments of rows: the unit of work */
    uint64_t even_class_at, odd_class_at;
    uint64_t fine_at, src_at; /* of the first row */
    uint64_t stride[NUPPER];  /* along odd dimensions, in the fine lattice */
    uint32_t neven[NUPPER];   /* even points along odd dimensions */
    uint8_t dim[NUPPER];
};

/* The types with a given number of odd dimensions that have rows: the work of
 * one launch. */
struct step {
    int ntypes;
    struct row_type type[NUPPER];
};

struct level_shape {
    int l, rank;
    uint32_t neven, nodd; /* points of a row */
    int nactive;          /* dimensions above 0 that have odd points */
    /* Values to the next row of the same type along a dimension; [TERP_NDIMS]:
     * to the next brick. fine_stride counts in the fine lattice, src_stride in
     * the chunk. fine_stride[0] is 1 and src_stride[0] is the distance between
     * an even point and the odd point after it. */
    uint64_t fine_stride[TERP_NDIMS + 1], src_stride[TERP_NDIMS + 1];
    uint64_t coarse_at, fine_at; /* in `lattice`; fine_at is 0 at level 1 */
    uint64_t fine_nvalues;       /* of all bricks */
    /* Rows are cut into segments of segment_npoints even points and the odd
     * points after them. A thread has `width` even and `width` odd points. If a
     * row has more than one segment, additional threads at both ends, `halo` of
     * them on the left, compute the even points that odd points of the segment
     * read. */
    uint32_t width;
    uint32_t segment_npoints, nsegments;
    /* span: threads of a segment, with the additional ones */
    uint32_t span, halo;
    /* chunks whose plan allows it are marched through, see spline_march.cuh */
    bool marches;
};

/* The most threads of a segment, and of a block that works on rows. */
#define SPLINE_MAX_SPAN 256
/* width of a thread in large levels of float32, and under long splines */
#define SPLINE_WIDE 2

/* An odd point reads up to SPLINE_LEFT even points before, and SPLINE_RIGHT
 * after, the even point on its left. */
#define SPLINE_LEFT 1
#define SPLINE_RIGHT 2

/* Fills the shape of level l. An odd point reads `left` even points before, and
 * `right` after, the even point on its left. */
static __host__ __device__ inline void
make_shape(const struct terp_layout *layout, int l, uint32_t width,
           uint32_t left, uint32_t right, struct level_shape *shape)
{
    const struct terp_level *level = &layout->level[l];
    uint64_t fine = 1, src = (uint64_t)1 << (l - 1);

    shape->l = l;
    shape->marches = false;
    shape->rank = layout->rank;
    shape->neven = (uint32_t)level->neven[0];
    shape->nodd = (uint32_t)level->nodd[0];
    shape->nactive = 0;
    for (int d = 0; d < TERP_NDIMS; d++) {
        shape->nactive += d > 0 && level->nodd[d] > 0;
        shape->fine_stride[d] = d > 0 ? 2 * fine : fine;
        shape->src_stride[d] = d > 0 ? 2 * src : src;
        fine *= level->neven[d] + level->nodd[d];
        src *= layout->dims[d];
    }
    shape->fine_stride[TERP_NDIMS] = fine;
    shape->src_stride[TERP_NDIMS] = src >> (l - 1);
    shape->coarse_at = level->lattice_at;
    shape->fine_at = l > 1 ? layout->level[l - 1].lattice_at : 0;
    shape->fine_nvalues = fine * layout->nbricks;
    left = (left - 1) / width + 1;
    right = (right - 1) / width + 1;
    uint32_t nthreads = (shape->neven - 1) / width + 1, nhalo = 0;
    shape->width = width;
    shape->halo = nthreads > SPLINE_MAX_SPAN ? left : 0;
    if (shape->halo > 0)
        nhalo = left + right;
    shape->nsegments = (nthreads - 1) / (SPLINE_MAX_SPAN - nhalo) + 1;
    nthreads = (nthreads - 1) / shape->nsegments + 1;
    shape->segment_npoints = nthreads * width;
    shape->span = nthreads + nhalo;
}

/* Fills the rows of the type `odd`. */
static __host__ __device__ inline void
make_type(const struct terp_layout *layout, const struct level_shape *shape,
          unsigned odd, struct row_type *type)
{
    const struct terp_level *level = &layout->level[shape->l];
    int n = 0;

    type->odd = odd;
    type->nruns = layout->nbricks * shape->nsegments;
    type->even_class_at = level->class_at[odd];
    type->odd_class_at = level->class_at[odd | 1];
    type->fine_at = type->src_at = 0;
    for (int d = TERP_NDIMS - 1; d >= 0; d--) {
        type->extent[d] = (uint32_t)terp_class_extent(level, odd, d);
        if (d > 0)
            type->nruns *= type->extent[d];
        if (!(odd >> d & 1))
            continue;
        type->fine_at += shape->fine_stride[d] / 2;
        type->src_at += shape->src_stride[d] / 2;
        type->stride[n] = shape->fine_stride[d] / 2;
        type->neven[n] = (uint32_t)level->neven[d];
        type->dim[n++] = (uint8_t)d;
    }
    for (; n < NUPPER; n++) {
        type->stride[n] = 0;
        type->neven[n] = 0;
        type->dim[n] = 0;
    }
}

/* Returns the types with `nodd_dims` odd dimensions as masks, one per byte. */
static __host__ __device__ __forceinline__ unsigned
types_of_step(int nodd_dims)
{
    return nodd_dims == 0   ? 0x00
           : nodd_dims == 1 ? 0x080402
           : nodd_dims == 2 ? 0x0C0A06
                            : 0x0E;
}

/* Fills the types of a step: all types with nodd_dims odd dimensions that have
 * rows. */
static __host__ __device__ inline void
make_step(const struct terp_layout *layout, const struct level_shape *shape,
          int nodd_dims, struct step *step)
{
    unsigned types = types_of_step(nodd_dims);

    step->ntypes = 0;
    do {
        struct row_type *type = &step->type[step->ntypes];
        make_type(layout, shape, types & 0xFF, type);
        step->ntypes += type->nruns > 0;
        types >>= 8;
    } while (types != 0);
}

/* ---- runs: segments of rows ---- */

/* The dimensions that predict the rows of a type. Masks count the odd
 * dimensions in the order of struct row_type. */
struct predictors {
    enum terp_spline spline;
    unsigned even_dims, odd_dims;
    bool along_0; /* dimension 0 predicts odd points, too */
    bool blend;
};

/* Returns the predictors of the rows of a type, from a level's plan. */
static __device__ __forceinline__ struct predictors
predictors_of(const struct terp_level_plan &plan, const struct row_type &type)
{
    const unsigned priorities = plan.priorities;
    const unsigned even = terp_predicting_dims(type.odd, priorities);
    const unsigned odd = terp_predicting_dims(type.odd | 1, priorities);
    struct predictors p = {(enum terp_spline)plan.spline, 0, 0, (odd & 1) != 0,
                           terp_blend_order(priorities) > 1};

#pragma unroll
    for (int j = 0; j < NUPPER; j++) {
        if (type.dim[j] == 0)
            continue;
        p.even_dims |= (even >> type.dim[j] & 1) << j;
        p.odd_dims |= (odd >> type.dim[j] & 1) << j;
    }
    return p;
}

/* A run is a segment of a row; its threads share this struct. Of the dimensions
 * that predict the run, the masks hold only the dimensions whose stencils have
 * the highest order. */
template <typename T> struct alignas(16) run {
    uint64_t fine_at, src_at;       /* of the first point of the row */
    uint64_t even_tiled, odd_tiled; /* symbols before this row in tile order */
    /* index of the row among rows of its type */
    uint64_t row;
    uint32_t x; /* first even point of the segment */
    uint32_t box_nrows, row_in_box;
    /* A sum of predictions is multiplied by a share, 1 / their number.
     * share_odd_0 counts the prediction along dimension 0, too. */
    T share_even, share_odd, share_odd_0;
    uint8_t even_dims, odd_dims;
    /* the order of the stencils above dimension 0; -1: there are none */
    int8_t odd_order;
    bool along_0;
    bool plain; /* cubic stencils along all odd dimensions */
    /* The stencils above dimension 0 have the order of cubic stencils. So does
     * the stencil along dimension 0, except at the ends of the row. The spline
     * is cubic or long. */
    bool plain_odd;
    /* Points that have both neighbours along dimension 0 are blended. */
    bool blends;
    uint8_t stencil[NUPPER];
};

/* Returns the dimensions among `dims` whose stencil has the highest order. */
static __device__ __forceinline__ unsigned
best_dims(const int stencil[NUPPER], unsigned dims, int *order_ret)
{
    unsigned best = 0;

    *order_ret = -1;
#pragma unroll
    for (int j = 0; j < NUPPER; j++) {
        int order = terp_stencil_order((enum terp_stencil)stencil[j]);
        if (!(dims >> j & 1) || order < *order_ret)
            continue;
        best = order > *order_ret ? 1u << j : best | 1u << j;
        *order_ret = order;
    }
    return best;
}

/* Fills a run from its index among the runs of its type. One thread calls it.
 */
template <typename T>
static __device__ __forceinline__ void
make_run(const struct level_shape &shape, const struct row_type &type,
         const struct predictors &predictors, uint64_t index, run<T> *run)
{
    uint64_t left = index;
    const uint64_t segment = split(&left, shape.nsegments), row = left;
    const uint64_t y = split(&left, type.extent[1]);
    const uint64_t z = split(&left, type.extent[2]);
    const uint64_t w = split(&left, type.extent[3]);
    const uint64_t at[TERP_NDIMS] = {0, y, z, w};
    const uint64_t extent[TERP_NDIMS] = {0, type.extent[1], type.extent[2],
                                         type.extent[3]};

    run->row = row;
    run->x = (uint32_t)segment * shape.segment_npoints;
    run->fine_at = type.fine_at + y * shape.fine_stride[1] +
                   z * shape.fine_stride[2] + w * shape.fine_stride[3] +
                   left * shape.fine_stride[4];
    run->src_at = type.src_at + y * shape.src_stride[1] +
                  z * shape.src_stride[2] + w * shape.src_stride[3] +
                  left * shape.src_stride[4];
    struct tiled_row tiled = tiled_row_at(shape.rank, extent, at, left);
    run->even_tiled = type.even_class_at + tiled.nrows_before * shape.neven;
    run->odd_tiled = type.odd_class_at + tiled.nrows_before * shape.nodd;
    run->box_nrows = tiled.box_nrows;
    run->row_in_box = tiled.row_in_box;

    unsigned even_dims = predictors.even_dims, odd_dims = predictors.odd_dims;
    int stencil[NUPPER], order = odd_dims != 0 ? 4 : -1;
    bool interior = true, between = true;
#pragma unroll
    for (int j = 0; j < NUPPER; j++) {
        int d = type.dim[j];
        stencil[j] = TERP_STENCIL_COPY;
        if (d != 0) {
            stencil[j] = terp_stencil_at(predictors.spline,
                                         d == 1   ? y
                                         : d == 2 ? z
                                                  : w,
                                         type.neven[j]);
            interior &= terp_stencil_has_a(stencil[j]) &&
                        terp_stencil_has_d(stencil[j]);
            between &= terp_stencil_has_c(stencil[j]);
        }
        run->stencil[j] = (uint8_t)stencil[j];
    }
    if (!interior) {
        even_dims = best_dims(stencil, even_dims, &order);
        odd_dims = best_dims(stencil, odd_dims, &order);
    }
    const unsigned all = (1u << __popc(type.odd)) - 1;
    run->plain = interior && predictors.spline == TERP_SPLINE_CUBIC &&
                 even_dims == all && odd_dims == all;
    run->blends = between && predictors.blend;
    run->along_0 = predictors.along_0;
    run->plain_odd =
        predictors.along_0 &&
        (predictors.spline == TERP_SPLINE_CUBIC ||
         predictors.spline == TERP_SPLINE_LONG) &&
        (odd_dims == 0 || order == terp_stencil_order(TERP_STENCIL_CUBIC));
    run->even_dims = (uint8_t)even_dims;
    run->odd_dims = (uint8_t)odd_dims;
    run->odd_order = (int8_t)order;
    int nodd_dims = __popc(odd_dims);
    run->share_even = TERP_SHARE(T, __popc(even_dims));
    run->share_odd = TERP_SHARE(T, nodd_dims);
    run->share_odd_0 = TERP_SHARE(T, nodd_dims + 1);
}

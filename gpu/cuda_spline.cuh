/* Floor 3: the shape of a level as rows, and what a row's threads share. */
#ifndef TERP_CUDA_SPLINE_CUH
#define TERP_CUDA_SPLINE_CUH

#include "cuda_order.cuh"
#include "cuda_state.cuh"

#define NUPPER (TERP_NDIMS - 1) /* dimensions above 0 */

static __host__ __device__ __forceinline__ uint32_t
min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- shapes ---- */

/* What is known of a level without its values. A dimension's extents have 32
 * bits: see cuda_spline_quantize. */
struct level_shape {
    int l, rank;
    uint32_t neven[TERP_NDIMS], nodd[TERP_NDIMS];
    uint64_t nbricks;
    /* Values from a point of the fine lattice to the next along a dimension,
     * or to the next brick: in the fine lattice, and in the chunk. */
    uint64_t fine_stride[TERP_NDIMS + 1], src_stride[TERP_NDIMS + 1];
    uint64_t coarse_at, fine_at; /* in `lattice`; level 1: fine_at is 0 */
    uint64_t class_at[TERP_NCLASSES];
    int nactive; /* dimensions above 0 that have odd points */
    /* Rows are cut into segments of so many even points and the odd points
     * behind them. If there is more than one, threads of both ends (`halo` on
     * the left) make the even points that odd points reach for. */
    uint32_t segment_npoints, nsegments;
    uint32_t span, halo; /* threads of a segment */
};

#define MAX_SPAN 256
#define HALO_NTHREADS 3 /* one on the left, two on the right */

static __host__ __device__ inline void
make_shape(const struct terp_layout *layout, int l, struct level_shape *shape)
{
    const struct terp_level *level = &layout->level[l];
    uint64_t fine = 1, src = (uint64_t)1 << (l - 1);

    shape->l = l;
    shape->rank = layout->rank;
    shape->nbricks = layout->nbricks;
    shape->nactive = 0;
    for (int d = 0; d < TERP_NDIMS; d++) {
        shape->neven[d] = (uint32_t)level->neven[d];
        shape->nodd[d] = (uint32_t)level->nodd[d];
        shape->nactive += d > 0 && level->nodd[d] > 0;
        shape->fine_stride[d] = fine;
        shape->src_stride[d] = src;
        fine *= level->neven[d] + level->nodd[d];
        src *= layout->dims[d];
    }
    shape->fine_stride[TERP_NDIMS] = fine;
    shape->src_stride[TERP_NDIMS] = src >> (l - 1);
    shape->coarse_at = level->lattice_at;
    shape->fine_at = l > 1 ? layout->level[l - 1].lattice_at : 0;
    for (int i = 0; i < TERP_NCLASSES; i++)
        shape->class_at[i] = level->class_at[i];
    uint32_t npoints = shape->neven[0];
    shape->halo = npoints > MAX_SPAN;
    uint32_t most = MAX_SPAN - (shape->halo ? HALO_NTHREADS : 0);
    shape->nsegments = (npoints - 1) / most + 1;
    shape->segment_npoints = (npoints - 1) / shape->nsegments + 1;
    shape->span = shape->segment_npoints + (shape->halo ? HALO_NTHREADS : 0);
}

static __host__ __device__ __forceinline__ uint64_t
type_extent(const struct level_shape &shape, unsigned type, int d)
{
    return type >> d & 1 ? shape.nodd[d] : shape.neven[d];
}

/* Runs of a type: its rows' segments. */
static __host__ __device__ inline uint64_t
type_nruns(const struct level_shape &shape, unsigned type)
{
    uint64_t nruns = shape.nbricks * shape.nsegments;
    for (int d = 1; d < TERP_NDIMS; d++)
        nruns *= type_extent(shape, type, d);
    return nruns;
}

/* The i-th type with so many odd dimensions; all have bit 0 clear. */
static __host__ __device__ __forceinline__ unsigned
type_of_step(int nodd_dims, int i)
{
    return nodd_dims == 0   ? 0
           : nodd_dims == 1 ? 2u << i
           : nodd_dims == 2 ? (i == 0   ? 6u
                               : i == 1 ? 10u
                                        : 12u)
                            : 14u;
}

/* Types of a step that have rows. */
struct step {
    int ntypes;
    unsigned type[NUPPER];
    uint64_t nruns[NUPPER];
};

static __host__ __device__ inline void
make_step(const struct level_shape &shape, int nodd_dims, struct step *step)
{
    int ntypes = nodd_dims == 0 || nodd_dims == NUPPER ? 1 : NUPPER;

    step->ntypes = 0;
    for (int i = 0; i < ntypes; i++) {
        unsigned type = type_of_step(nodd_dims, i);
        uint64_t nruns = type_nruns(shape, type);
        if (nruns == 0)
            continue;
        step->type[step->ntypes] = type;
        step->nruns[step->ntypes++] = nruns;
    }
}

/* ---- runs ---- */

/* Points that a form does not read may not exist. */
static __device__ __forceinline__ bool
form_has_a(int form)
{
    return form != TERP_FORM_COPY && form != TERP_FORM_LINEAR &&
           form != TERP_FORM_QUAD_ABOVE;
}

static __device__ __forceinline__ bool
form_has_c(int form)
{
    return form >= TERP_FORM_LINEAR;
}

static __device__ __forceinline__ bool
form_has_d(int form)
{
    return form >= TERP_FORM_QUAD_ABOVE;
}

/* A segment of a row, as all its threads share it. Dimensions that predict it
 * are listed slowest first, see `upper_dim`. Only those of the highest order
 * that occurs are set in even_dims and odd_dims. */
template <typename T> struct run {
    uint64_t fine_at, src_at;       /* of the row's first point */
    uint64_t even_work, odd_work;   /* of its first points, in work order; even
                                       points of type 0: in coarse lattice */
    uint64_t even_tiled, odd_tiled; /* of the rows before, in tile order */
    uint64_t stride[NUPPER];
    uint32_t x;        /* of the segment's first even point */
    int32_t odd_order; /* of the forms above dimension 0; -1: none */
    uint32_t box_nrows, row_in_box;
    T share_even, share_odd, share_odd_0; /* 1 / predictions that are added;
                                             the last: with dimension 0 */
    uint8_t form[NUPPER];
    uint8_t even_dims, odd_dims;
    bool along_0;  /* dimension 0 predicts the odd points */
    bool interior; /* every form has all four points */
};

/* The j-th of the dimensions of a type, slowest first. */
static __device__ __forceinline__ int
upper_dim(unsigned type, int j)
{
    for (int d = TERP_NDIMS - 1; d > 0; d--)
        if ((type >> d & 1) && j-- == 0)
            return d;
    return 0;
}

template <typename T>
static __device__ __forceinline__ T
share_of(int npredictions)
{
    return npredictions == 2   ? (T)0.5
           : npredictions == 3 ? (T)(1.0 / 3)
           : npredictions == 4 ? (T)0.25
                               : (T)1;
}

/* Those of `dims` (a mask over j) whose form is of the highest order. */
static __device__ __forceinline__ unsigned
best_dims(const uint8_t form[NUPPER], unsigned dims, int *order_ret)
{
    unsigned best = 0;

    *order_ret = -1;
    for (int j = 0; j < NUPPER; j++) {
        int order = terp_form_order((enum terp_form)form[j]);
        if (!(dims >> j & 1) || order < *order_ret)
            continue;
        best = order > *order_ret ? 1u << j : best | 1u << j;
        *order_ret = order;
    }
    return best;
}

template <typename T>
static __device__ void
make_run(const struct level_shape &shape, const struct cuda_level_plan &plan,
         unsigned type, uint64_t index, struct run<T> *run)
{
    uint64_t left = index, extent[TERP_NDIMS], at[TERP_NDIMS];
    uint64_t segment = split(&left, shape.nsegments), row = left;

    run->x = (uint32_t)segment * shape.segment_npoints;
    run->fine_at = run->src_at = 0;
    for (int d = 1; d < TERP_NDIMS; d++) {
        extent[d] = type_extent(shape, type, d);
        at[d] = split(&left, extent[d]);
        uint64_t fine = 2 * at[d] + (type >> d & 1);
        run->fine_at += fine * shape.fine_stride[d];
        run->src_at += fine * shape.src_stride[d];
    }
    run->fine_at += left * shape.fine_stride[TERP_NDIMS];
    run->src_at += left * shape.src_stride[TERP_NDIMS];
    struct tiled_row tiled = tiled_row_at(shape.rank, extent, at, left);
    run->even_work = row * shape.neven[0];
    if (type != 0)
        run->even_work += shape.class_at[type];
    run->odd_work = shape.class_at[type | 1] + row * shape.nodd[0];
    run->even_tiled =
        shape.class_at[type] + tiled.nrows_before * shape.neven[0];
    run->odd_tiled =
        shape.class_at[type | 1] + tiled.nrows_before * shape.nodd[0];
    run->box_nrows = tiled.box_nrows;
    run->row_in_box = tiled.row_in_box;

    unsigned even = terp_predicting_dims(type, plan.priorities);
    unsigned odd = terp_predicting_dims(type | 1, plan.priorities);
    unsigned even_dims = 0, odd_dims = 0;
    int order;
    run->interior = true;
    for (int j = 0; j < NUPPER; j++) {
        int d = upper_dim(type, j);
        run->form[j] = TERP_FORM_COPY;
        run->stride[j] = 0;
        if (d == 0)
            continue;
        run->form[j] = (uint8_t)terp_form_at((enum terp_spline)plan.spline,
                                             at[d], shape.neven[d]);
        run->stride[j] = shape.fine_stride[d];
        run->interior &= form_has_a(run->form[j]) && form_has_d(run->form[j]);
        even_dims |= (even >> d & 1) << j;
        odd_dims |= (odd >> d & 1) << j;
    }
    even_dims = best_dims(run->form, even_dims, &order);
    odd_dims = best_dims(run->form, odd_dims, &order);
    run->even_dims = (uint8_t)even_dims;
    run->odd_dims = (uint8_t)odd_dims;
    run->odd_order = order;
    int nodd_dims = __popc(odd_dims);
    run->along_0 = odd & 1;
    run->share_even = share_of<T>(__popc(even_dims));
    run->share_odd = share_of<T>(nodd_dims);
    run->share_odd_0 = share_of<T>(nodd_dims + 1);
}

#endif

/* The spline predictor over all levels of a chunk.
 *
 * A level's new points are made row by row, a row being the points of its fine
 * lattice along dimension 0, even and odd ones together. Rows differ in type:
 * the set of dimensions above 0 in which their coordinate is odd. A row of
 * type 0 has its even points from the coarse lattice; all others are predicted
 * from rows with one odd dimension less, and odd points from the even points
 * of their row too. So a level takes one step for each number of odd
 * dimensions, 0 to 3, and each step writes whole rows of the fine lattice:
 * that of a level above 1 in the region `lattice`, that of level 1 in `dst`
 * or, while encoding, in `work`, all in C order. That is for large levels: of a
 * small one a launch makes all steps, by tiles, and coarse levels are done all
 * in one launch, by a block a chunk. Levels of long splines have launches of
 * their own, and so has the finest level of large chunks whose plan allows to
 * march through it. Of few small chunks clusters of blocks make the steps. */
#include "gpu/predict/spline_cluster.cuh"
#include "gpu/predict/spline_march_small.cuh"
#include "gpu/predict/spline_tile.cuh"

/* Whether a level's rows are wide. */
static bool
is_wide(const struct cuda_batch *batch, const struct level_shape &shape)
{
    return batch->value_nbytes == 4 && shape.neven == shape.nodd &&
           shape.neven % SPLINE_WIDE == 0 &&
           shape.fine_at % (2 * SPLINE_WIDE) == 0 &&
           shape.fine_nvalues * (uint64_t)batch->nchunks >= WIDE_NVALUES;
}

/* Whether a level is marched through, in chunks whose plan allows it. One chunk
 * of less is faster by its rows. */
static bool
is_marched(const struct cuda_batch *batch, const struct level_shape &shape)
{
    return shape_marches(batch->h_layout, shape.l) &&
           shape.fine_nvalues * (uint64_t)batch->nchunks >= WIDE_NVALUES;
}

/* ---- all levels ---- */

/* Whether a level is done by tiles: they make more points, but wait less.
 * Short rows would leave most of a warp without points. */
#define TILE_MIN_NEVEN 8
#define TILE_MAX_NVALUES (2 * CUDA_BUSY_NTHREADS)
static bool
is_tiled(const struct cuda_batch *batch, const struct level_shape &shape)
{
    return shape.rank > 1 && shape.rank <= TILE_NDIMS &&
           shape.neven >= TILE_MIN_NEVEN &&
           shape.fine_nvalues * (uint64_t)batch->nchunks <= TILE_MAX_NVALUES;
}

template <typename T, bool decode>
static cudaError_t
launch_tiles(const struct cuda_batch *batch, int l, cudaStream_t stream)
{
    struct tile_work work;

    unsigned ntiles = make_tile_work(batch->h_layout, l, &work);
    return launch_shared(batch, stream, spline_tile<T, decode>, ntiles,
                         TILE_NTHREADS, sizeof(struct tile_shared<T>), work);
}

/* Coarse levels; -1: the chunk is too long. */
static int
ncoarse_of(const struct cuda_batch *batch)
{
    const struct terp_layout *layout = batch->h_layout;
    struct level_shape shape;
    int n = 0;

    for (int d = 0; d < TERP_NDIMS; d++)
        if (layout->dims[d] > UINT32_MAX)
            return -1;
    for (; n < layout->nlevels; n++) {
        make_shape(layout, layout->nlevels - n, 1, SPLINE_LEFT, SPLINE_RIGHT,
                   &shape);
        if (shape.fine_nvalues > COARSE_NVALUES)
            break;
    }
    return n;
}

template <typename T, bool decode>
static cudaError_t
launch_coarse(const struct cuda_batch *batch, int ncoarse, cudaStream_t stream)
{
    struct coarse_work work;

    make_coarse_work(batch->h_layout, ncoarse, &work);
    return launch_shared(batch, stream, spline_coarse<T, decode>, 1,
                         COARSE_NTHREADS, sizeof(struct coarse_shared<T>),
                         work);
}

/* All levels but those that cuda_spline_begin has made. Anchors alone are made
 * here: when decoded, their escapes need be placed. */
template <typename T, bool decode>
static cudaError_t
launch_levels(const struct cuda_batch *batch, cudaStream_t stream)
{
    const struct terp_layout *layout = batch->h_layout;
    const int ncoarse = ncoarse_of(batch);
    struct level_shape shape;
    cudaError_t err = cudaSuccess;

    if (!decode || ncoarse <= 0)
        err = launch_coarse<T, decode>(batch, ncoarse, stream);
    if (ncoarse < 0)
        return err;
    if (err == cudaSuccess && is_clustered(batch, ncoarse))
        return launch_clustered<T, decode>(batch, layout->nlevels - ncoarse,
                                           stream);
    for (int l = layout->nlevels - ncoarse; l >= 1 && err == cudaSuccess; l--) {
        make_shape(layout, l, 1, SPLINE_LEFT, SPLINE_RIGHT, &shape);
        if (is_tiled(batch, shape)) {
            err = launch_tiles<T, decode>(batch, l, stream);
        } else {
            const bool marches = is_marched(batch, shape);
            const bool wide = is_wide(batch, shape);
            if (wide)
                make_shape(layout, l, SPLINE_WIDE, SPLINE_LEFT, SPLINE_RIGHT,
                           &shape);
            shape.marches = marches;
            if (marches && has_small_planes(batch, l)) {
                err = launch_march_small<decode>(batch, l, stream);
            } else if (marches) {
                err = launch_march<T, decode>(batch, l, stream);
                if (err == cudaSuccess)
                    err = launch_march_blended<T, decode>(batch, l, stream);
            }
            if (err == cudaSuccess)
                err = wide ? launch_level<float, decode, SPLINE_WIDE>(
                                 batch, shape, stream)
                           : launch_level<T, decode, 1>(batch, shape, stream);
        }
        if (err == cudaSuccess)
            err = launch_long<T, decode>(batch, l, shape.marches, stream);
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

bool
cuda_spline_begins(const struct cuda_batch *batch)
{
    return ncoarse_of(batch) > 0;
}

cudaError_t
cuda_spline_begin(const struct cuda_batch *batch, cudaStream_t stream)
{
    const int ncoarse = ncoarse_of(batch);

    if (ncoarse <= 0)
        return cudaSuccess;
    return batch->value_nbytes == 4
               ? launch_coarse<float, true>(batch, ncoarse, stream)
               : launch_coarse<double, true>(batch, ncoarse, stream);
}

cudaError_t
cuda_spline_reconstruct(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->value_nbytes == 4
               ? launch_levels<float, true>(batch, stream)
               : launch_levels<double, true>(batch, stream);
}

unsigned
cuda_spline_find_clusters(void)
{
    unsigned nblocks = CUDA_CLUSTER_MAX_NBLOCKS;

    while (nblocks >= CLUSTER_PORTABLE_NBLOCKS &&
           !(can_cluster<float, false>(nblocks) &&
             can_cluster<float, true>(nblocks) &&
             can_cluster<double, false>(nblocks) &&
             can_cluster<double, true>(nblocks)))
        nblocks /= 2;
    cudaGetLastError(); /* of a device that knows nothing of clusters */
    return nblocks >= CLUSTER_PORTABLE_NBLOCKS ? nblocks : 0;
}

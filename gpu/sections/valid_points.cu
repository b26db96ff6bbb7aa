/* Counts the valid points before each tile, from the mask of special points. */
#include "gpu/sections/valid_points.cuh"

#include "gpu/block/sum.cuh"
#include "gpu/predict/lorenzo_shape.cuh"

/* Threads of a block that counts, and of the one block that sums. */
#define NTHREADS 256
#define SUM_NTHREADS 1024

/* Counts the valid points of tiles. Grid: (any number of blocks, chunks). A
 * warp counts a tile, and takes tiles in turn. */
static __global__ void
__launch_bounds__(NTHREADS) count_tiles(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const struct valid_points points = valid_points_of(batch, chunk);
    uint64_t *nbefore = region<uint64_t>(batch, batch.at.valid_before);

    if (!chunk_is_lossless(chunk) || points.mask == nullptr)
        return;
    for (uint64_t tile = blockIdx.x * (NTHREADS / 32) + threadIdx.x / 32;
         tile < batch.ntiles; tile += gridDim.x * (NTHREADS / 32)) {
        const unsigned n = count_valid(points, tile, batch.nvalues);
        if (threadIdx.x % 32 == 0)
            nbefore[tile] = n;
    }
}

/* Replaces the counts of tiles by sums of the counts before. Grid: (1, chunks).
 * Shared: the sums of a scan, 256 bytes. */
static __global__ void
__launch_bounds__(SUM_NTHREADS) sum_tiles(const struct cuda_batch batch)
{
    __shared__ block_scan<unsigned long long, SUM_NTHREADS> s_scan;
    const struct cuda_chunk &chunk = begin_chunk(batch);
    uint64_t *nbefore = region<uint64_t>(batch, batch.at.valid_before);

    if (!chunk_is_lossless(chunk) || lossless_mask(batch, chunk) == nullptr)
        return;
    const uint64_t n = sum_numbers<SUM_NTHREADS>(
        batch.ntiles, s_scan, [&](uint64_t i) { return nbefore[i]; },
        [&](uint64_t i, uint64_t before) { nbefore[i] = before; });
    if (threadIdx.x == 0)
        nbefore[batch.ntiles] = n;
}

cudaError_t
cuda_valid_points_count(const struct cuda_batch *batch, cudaStream_t stream)
{
    struct stage_launches launches = {batch, stream};

    launches.add(count_tiles,
                 nblocks_for(batch, div_up(batch->ntiles, NTHREADS / 32)),
                 NTHREADS);
    launches.add(sum_tiles, 1, SUM_NTHREADS);
    return launches.error;
}

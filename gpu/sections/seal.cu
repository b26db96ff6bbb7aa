/* Checksums of streams: cuda_seal writes them, cuda_verify compares them. */
#include "gpu/block/checksum.cuh"
#include "gpu/engine/state.cuh"

#define NTHREADS 512

/* Sums of XXH3's blocks whose loads are on their way while earlier ones are
 * chained. */
#define NAHEAD 16

/* The least bytes for a block of threads to sum up, and the most blocks of a
 * grid, which a large device runs at once. */
#define GRID_BLOCK_NBYTES (64 << 10)
#define MAX_NBLOCKS 528

/* Grid: x blocks of a stream, y chunks. */
static __global__ void
__launch_bounds__(NTHREADS) seal(const struct cuda_batch batch)
{
    begin_kernel();
    seal_stream<NTHREADS, NAHEAD>(
        batch.d_chunks[blockIdx.y],
        region<uint64_t>(batch, blockIdx.y, batch.at.staging));
}

/* The same grid. */
static __global__ void
__launch_bounds__(NTHREADS) verify(const struct cuda_batch batch)
{
    begin_kernel();
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const uint8_t *stream = (const uint8_t *)chunk.src;
    const uint64_t nbytes = chunk.src_nbytes;
    uint64_t *sums = region<uint64_t>(batch, blockIdx.y, batch.at.cost);
    uint64_t hash;

    if ((chunk.checksum_status != TERP_OK) | (nbytes <= CUDA_SHORT_NBYTES))
        return;
    /* The stream is longer than any of such a chunk: the region does not hold
     * its sums. */
    if (nbytes > batch.raw_nbytes) {
        if (threadIdx.x == 0)
            chunk.checksum_status = TERP_ERR_DEVICE;
        return;
    }
    if (checksum<NTHREADS, NAHEAD>(chunk, stream, nbytes, sums, &hash) &&
        threadIdx.x == 0 && hash != load_le(stream + TERP_FRAME_CHECKSUM_AT, 8))
        chunk.checksum_status = TERP_ERR_CHECKSUM;
}

static uint64_t
nblocks_of(const struct cuda_batch *batch)
{
    return min_u64(div_up(batch->raw_nbytes, GRID_BLOCK_NBYTES),
                   div_up(MAX_NBLOCKS, (unsigned)batch->nchunks));
}

cudaError_t
cuda_seal(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_stage(batch, stream, seal, nblocks_of(batch), NTHREADS);
}

cudaError_t
cuda_verify(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_stage(batch, stream, verify, nblocks_of(batch), NTHREADS);
}

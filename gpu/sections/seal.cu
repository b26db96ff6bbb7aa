/* Checksums of streams: cuda_seal writes them, cuda_verify compares them. */
#include "gpu/block/checksum.cuh"
#include "gpu/engine/state.cuh"

#define NTHREADS 512

/* The most blocks of a grid, which a large device runs at once. */
#define MAX_NBLOCKS 528

/* Grid: x blocks of a stream, y chunks. */
static __global__ void
__launch_bounds__(NTHREADS) seal(const struct cuda_batch batch)
{
    begin_kernel();
    seal_stream<NTHREADS>(batch.d_chunks[blockIdx.y]);
}

/* The same grid. */
static __global__ void
__launch_bounds__(NTHREADS) verify(const struct cuda_batch batch)
{
    begin_kernel();
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const uint8_t *stream = (const uint8_t *)chunk.src;
    const uint64_t nbytes = chunk.src_nbytes;
    uint64_t hash;

    if ((chunk.checksum_status != TERP_OK) | (nbytes <= CUDA_SHORT_NBYTES))
        return;
    /* Longer than any stream of such a chunk: the CPU says what is wrong. */
    if (nbytes > batch.raw_nbytes) {
        if (threadIdx.x == 0)
            chunk.checksum_status = TERP_ERR_DEVICE;
        return;
    }
    if (checksum<NTHREADS>(chunk, stream, nbytes, &hash) && threadIdx.x == 0 &&
        hash != load_le(stream + TERP_FRAME_CHECKSUM_AT, 8))
        chunk.checksum_status = TERP_ERR_CHECKSUM;
}

static uint64_t
nblocks_of(const struct cuda_batch *batch)
{
    return min_u64(terp_checksum_npieces(batch->raw_nbytes),
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

/* Checksums of streams and of their prefixes: cuda_seal writes them, and
 * cuda_verify compares the checksum of a stream, or of the prefix that is
 * read. */
#include "gpu/sections/seal.cuh"

#include "gpu/block/checksum.cuh"
#include "gpu/sections/head.cuh"

/* Threads of a block: 16 warps hash the blocks of a piece, and one of them
 * chains the sums (gpu/block/checksum.cuh). */
#define NTHREADS 512

/* The most blocks of a grid, for all its chunks together: about as many as a
 * large device runs at once. Blocks take pieces in turn. */
#define MAX_NBLOCKS 528

/* Finds the checksums of prefixes. Grid: (TERP_NPREFIXES times some blocks,
 * chunks): block b works on prefix b % TERP_NPREFIXES. Block 0 removes the
 * table of prefixes from a stream that is too short; other blocks see that by
 * the stream's length, before and after its removal. The blocks of a prefix add
 * to prefix_checksum by atomics, and the last one finishes it. */
static __global__ void
__launch_bounds__(NTHREADS) find_prefixes(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const unsigned i = blockIdx.x % TERP_NPREFIXES;
    uint8_t *stream = (uint8_t *)chunk.dst;
    const uint64_t nbytes = chunk.stream_nbytes;
    uint64_t hash;

    if (chunk.status != TERP_OK || chunk.coding == TERP_CODING_RAW ||
        !stream_has_prefixes(stream))
        return;
    if (prefixes_are_dropped(nbytes)) {
        if (blockIdx.x > 0)
            return;
        const uint64_t end =
            drop_prefixes<NTHREADS>(stream, batch.frame_nbytes, nbytes);
        if (threadIdx.x == 0)
            chunk.stream_nbytes = end;
        return;
    }
    if (checksum<NTHREADS>(&chunk.prefix_checksum[i], &chunk.prefix_progress[i],
                           stream, chunk.prefix[i].nbytes,
                           blockIdx.x / TERP_NPREFIXES,
                           gridDim.x / TERP_NPREFIXES, &hash) &&
        threadIdx.x == 0)
        chunk.prefix[i].checksum = terp_prefix_checksum(hash);
}

/* Writes tables of prefixes, and the checksums of streams. Grid: (some blocks,
 * chunks). Blocks take pieces of a stream in turn; block 0 has the first piece,
 * which holds frame and table, so it alone needs a barrier after writing the
 * table. */
static __global__ void
__launch_bounds__(NTHREADS) seal(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    uint8_t *stream = (uint8_t *)chunk.dst;

    if (chunk.coding == TERP_CODING_RAW)
        return;
    if (batch.encoding.prefixes_nbytes > 0 && blockIdx.x == 0 &&
        chunk.status == TERP_OK && stream_has_prefixes(stream)) {
        write_prefixes(chunk.prefix, stream + batch.frame_nbytes);
        __syncthreads();
    }
    seal_stream<NTHREADS>(chunk);
}

/* Whether `hash` equals the checksum in the stream: of the prefix if
 * READS_PREFIXES and the stream has prefixes, else of the stream. */
template <bool READS_PREFIXES>
static __device__ __forceinline__ bool
is_checksum_of(const struct cuda_batch &batch, const uint8_t *stream,
               uint64_t hash)
{
    return READS_PREFIXES && stream_has_prefixes(stream)
               ? terp_prefix_checksum(hash) ==
                     load_le(stream + batch.decoding.prefix_at + 4, 4)
               : hash == load_le(stream + TERP_FRAME_CHECKSUM_AT, 8);
}

/* Compares checksums. Grid: (some blocks, chunks); blocks take pieces in turn,
 * and the last one compares. READS_PREFIXES: the batch reads a prefix of each
 * stream that has them (batch.decoding.prefix_at > 0). */
template <bool READS_PREFIXES>
static __global__ void
__launch_bounds__(NTHREADS) verify(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const uint8_t *stream = (const uint8_t *)chunk.src;
    const uint64_t nbytes = chunk.src_nbytes;
    uint64_t hash;

    if ((chunk.checksum_status != TERP_OK) | (nbytes <= CUDA_SHORT_NBYTES))
        return;
    /* A valid stream is never this long. The CPU gives the exact error. */
    if (nbytes > batch.raw_nbytes) {
        if (threadIdx.x == 0)
            chunk.checksum_status = TERP_ERR_DEVICE;
        return;
    }
    if (checksum<NTHREADS, READS_PREFIXES>(
            &chunk.checksum, &chunk.progress[CUDA_PROGRESS_CHECKSUM], stream,
            nbytes, blockIdx.x, gridDim.x, &hash,
            READS_PREFIXES && stream_has_prefixes(stream) ? batch.frame_nbytes
                                                          : 0) &&
        threadIdx.x == 0 &&
        !is_checksum_of<READS_PREFIXES>(batch, stream, hash))
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
    struct stage_launches launches = {batch, stream};

    if (batch->is_part)
        return cudaSuccess;
    if (batch->encoding.prefixes_nbytes > 0)
        launches.add(find_prefixes, TERP_NPREFIXES * nblocks_of(batch),
                     NTHREADS);
    launches.add(seal, nblocks_of(batch), NTHREADS);
    return launches.error;
}

cudaError_t
cuda_verify(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->is_part
               ? cudaSuccess
               : launch_stage(batch, stream,
                              batch->decoding.prefix_at > 0 ? verify<true>
                                                            : verify<false>,
                              nblocks_of(batch), NTHREADS);
}

/* Seals (SEALS) or verifies streams. Grid: (some blocks, streams). Blocks take
 * pieces of a stream in turn; thread 0 of the last one writes or compares. */
template <bool SEALS>
static __global__ void
__launch_bounds__(NTHREADS) hash_streams(struct cuda_sealed *streams)
{
    begin_kernel();
    struct cuda_sealed &sealed = streams[blockIdx.y];
    uint8_t *at = sealed.stream + TERP_FRAME_CHECKSUM_AT;
    uint64_t hash;

    if (sealed.nbytes <= CUDA_SHORT_NBYTES ||
        !checksum<NTHREADS>(&sealed.sum, &sealed.progress, sealed.stream,
                            sealed.nbytes, blockIdx.x, gridDim.x, &hash) ||
        threadIdx.x > 0)
        return;
    if (SEALS)
        store_le(at, hash, 8);
    else
        sealed.is_bad = hash != load_le(at, 8);
}

template <bool SEALS>
static cudaError_t
hash_all(struct cuda_sealed *d_streams, uint64_t n, cudaStream_t stream)
{
    return launch(hash_streams<SEALS>,
                  dim3((unsigned)div_up(MAX_NBLOCKS, n), (unsigned)n),
                  dim3(NTHREADS), 0, stream, d_streams);
}

cudaError_t
cuda_streams_seal(struct cuda_sealed *d_streams, uint64_t n,
                  cudaStream_t stream)
{
    return hash_all<true>(d_streams, n, stream);
}

cudaError_t
cuda_streams_verify(struct cuda_sealed *d_streams, uint64_t n,
                    cudaStream_t stream)
{
    return hash_all<false>(d_streams, n, stream);
}

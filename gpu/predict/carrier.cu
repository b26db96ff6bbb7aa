/* 16-bit floats to the float32 that carry them, before all that scans or
 * predicts, and back after it (codec/model/carrier.h). */
#include "gpu/predict/values.cuh"

#define NTHREADS 256

/* Values that a thread loads before it waits for them; a block takes pieces of
 * as many of each thread's. */
#define NLOADS 8
#define PIECE_NVALUES (NTHREADS * NLOADS)

/* Grid: x cuts the values into pieces, y chunks. A thread owns the values that
 * it makes. */
static __global__ void
__launch_bounds__(NTHREADS) carry(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const uint64_t first = (uint64_t)blockIdx.x * PIECE_NVALUES + threadIdx.x;
    const bool normal_only = batch.form != CUDA_VALUES;
    const uint16_t *from = (const uint16_t *)chunk.values;
    uint32_t *to = region<uint32_t>(batch, blockIdx.y, batch.at.carried);
    uint16_t halves[NLOADS];

    if (chunk.status != TERP_OK)
        return;
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++)
        if (first + i * NTHREADS < batch.nvalues)
            halves[i] = from[first + i * NTHREADS];
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++)
        if (first + i * NTHREADS < batch.nvalues)
            to[first + i * NTHREADS] =
                terp_carried_half(batch.chunk.type, halves[i], normal_only);
}

/* Grid: as above. */
static __global__ void
__launch_bounds__(NTHREADS) uncarry(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const uint64_t first = (uint64_t)blockIdx.x * PIECE_NVALUES + threadIdx.x;
    const uint32_t *from =
        region<uint32_t>(batch, blockIdx.y, batch.at.carried);
    uint16_t *to = (uint16_t *)chunk.values;
    uint32_t carried[NLOADS];

    if (chunk.status != TERP_OK || chunk.prediction == TERP_PREDICTION_NONE)
        return;
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++)
        if (first + i * NTHREADS < batch.nvalues)
            carried[i] = from[first + i * NTHREADS];
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++)
        if (first + i * NTHREADS < batch.nvalues)
            to[first + i * NTHREADS] =
                terp_half_of_f32_bits(batch.chunk.type, carried[i]);
}

static cudaError_t
launch_halves(const struct cuda_batch *batch, void (*kernel)(struct cuda_batch),
              cudaStream_t stream)
{
    return batch->carrier_head_nbytes == 0
               ? cudaSuccess
               : launch_stage(batch, stream, kernel,
                              div_up(batch->nvalues, PIECE_NVALUES), NTHREADS);
}

cudaError_t
cuda_carry(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_halves(batch, carry, stream);
}

cudaError_t
cuda_uncarry(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_halves(batch, uncarry, stream);
}

/* Every step-th value: what a stream says becomes what a stream of the lattice
 * would say (codec/model/coarse.h), so that all that follows decodes that. */
#include "gpu/sections/low_bits.cuh"

/* Grid: (1, chunks), a thread. Levels have the numbers that they have in the
 * lattice; the records of low bits begin behind the kinds of fewer tiles. */
static __global__ void
coarsen(const struct cuda_batch batch)
{
    begin_kernel();
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const int nlevels = batch.d_layout->nlevels - batch.nskipped;

    if (chunk.status != TERP_OK)
        return;
    if (cuda_form_may_have_signs(batch.form) &&
        chunk.head.signs == TERP_SIGNS_MIXED) {
        chunk.status = TERP_ERR_DEVICE;
        return;
    }
    for (int l = 1; l <= nlevels; l++)
        chunk.model.plan[l] = chunk.model.plan[l + batch.nskipped];
    chunk.low_records_nbytes +=
        packed_nbytes(batch.ntiles, TERP_LOW_KIND_NBITS) -
        packed_nbytes(batch.lattice_ntiles, TERP_LOW_KIND_NBITS);
}

cudaError_t
cuda_coarsen(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->nskipped == 0 ? cudaSuccess
                                : launch_stage(batch, stream, coarsen, 1, 1);
}

/* Every step-th value: what a stream says becomes what a stream of the lattice
 * would say (codec/model/coarse.h), so that all that follows decodes that. */
#include "codec/model/coarse.h"

#include "gpu/predict/values.cuh"
#include "gpu/sections/low_bits.cuh"

#define NTHREADS 256
#define NWARPS (NTHREADS / 32)

#define MAX_NBLOCKS 2048

/* ---- what the stream says ---- */

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

/* ---- bits ---- */

/* A warp makes a word of the lattice's bits, of which each lane's value has
 * place `from` of all. */
static __device__ __forceinline__ void
gather_word(const struct cuda_batch &batch, uint64_t of_all, uint64_t from,
            bool is_there, uint64_t of_lattice, uint64_t word)
{
    const uint32_t *bits = region<uint32_t>(batch, blockIdx.y, of_all);
    const uint32_t made = __ballot_sync(
        FULL_WARP_MASK, is_there && (bits[from / 32] >> (from % 32) & 1));

    if (threadIdx.x % 32 == 0)
        region<uint32_t>(batch, blockIdx.y, of_lattice)[word] = made;
}

/* Grid: (MAX_NBLOCKS at most, chunks). Other stages may change the chunk's
 * status meanwhile, but none of this. */
static __global__ void
__launch_bounds__(NTHREADS) gather_bits(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const struct terp_layout *whole = batch.d_layout, *lattice = whole + 1;
    const bool has_mask = chunk.has_specials;
    const bool has_signs = cuda_form_may_have_signs(batch.form) &&
                           batch.d_sign_chunks[blockIdx.y].status == TERP_OK;
    const uint64_t nwords =
        has_mask || has_signs ? 2 * div_up(lattice->nvalues, 64) : 0;

    for (uint64_t word = (uint64_t)blockIdx.x * NWARPS + threadIdx.x / 32;
         word < nwords; word += (uint64_t)gridDim.x * NWARPS) {
        const uint64_t i = 32 * word + threadIdx.x % 32;
        const bool is_there = i < lattice->nvalues;
        const uint64_t from =
            is_there ? terp_coarse_place(whole, lattice, batch.nskipped, i) : 0;
        if (has_mask)
            gather_word(batch, batch.at.mask, from, is_there,
                        batch.at.lattice_mask, word);
        if (has_signs)
            gather_word(batch, batch.at.signs, from, is_there,
                        batch.at.lattice_signs, word);
    }
}

cudaError_t
cuda_coarsen_bits(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (batch->nskipped == 0)
        return cudaSuccess;
    return launch_stage(
        batch, stream, gather_bits,
        min_u64(div_up(batch->lattice_ntiles * TERP_TILE_NSYMBOLS, NTHREADS),
                MAX_NBLOCKS),
        NTHREADS);
}

/* ---- values ---- */

/* Grid: (MAX_NBLOCKS at most, chunks). Of a stream that is stored as it was,
 * the values stand in it. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) gather_wanted(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const struct terp_chunk &shape = batch.chunk;
    const word_of<T> *made = (const word_of<T> *)chunk.values;
    const uint8_t *stored = (const uint8_t *)chunk.src + chunk.src_nbytes -
                            batch.nvalues * sizeof(T);
    word_of<T> *to = (word_of<T> *)chunk.original;
    uint64_t nwanted = 1;

    if (chunk.status != TERP_OK)
        return;
    for (int d = 0; d < shape.rank; d++)
        nwanted *= div_up(shape.dims[d], batch.wanted_step);
    for (uint64_t i = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
         i < nwanted; i += (uint64_t)gridDim.x * NTHREADS) {
        uint64_t left = i, from = 0, stride = 1;
        for (int d = shape.rank - 1; d >= 0; d--) {
            const uint64_t n = div_up(shape.dims[d], batch.wanted_step);
            from += left % n * batch.wanted_step * stride;
            left /= n;
            stride *= shape.dims[d];
        }
        to[i] = chunk.coding == TERP_CODING_RAW
                    ? (word_of<T>)load_le(stored + from * sizeof(T), sizeof(T))
                    : made[from];
    }
}

cudaError_t
cuda_wanted_gather(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (batch->wanted_step == 0)
        return cudaSuccess;
    return launch_stage(batch, stream,
                        batch->own_nbytes == 2   ? gather_wanted<uint16_t>
                        : batch->own_nbytes == 4 ? gather_wanted<float>
                                                 : gather_wanted<double>,
                        min_u64(div_up(batch->nvalues, NTHREADS), MAX_NBLOCKS),
                        NTHREADS);
}

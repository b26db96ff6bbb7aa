/* Coarse decoding of every step-th value. Changes the model and sections found
 * in a stream to those of a stream of the lattice alone (codec/model/coarse.h),
 * so that the following stages decode the lattice like a chunk. */
#include "codec/format/copies.h"
#include "codec/model/coarse.h"

#include "gpu/predict/repeats.cuh"
#include "gpu/predict/values.cuh"
#include "gpu/sections/low_bits.cuh"

/* Threads, and warps, of a block. */
#define NTHREADS 256
#define NWARPS (NTHREADS / 32)

/* The most blocks for a chunk. More pieces of work go to the same blocks in
 * turns. */
#define MAX_NBLOCKS 2048

/* ---- model and sections ---- */

/* Grid: x = 1, y = chunks; one thread. Gives levels the numbers that they have
 * in the lattice. The records of low bits then begin after the kinds of fewer
 * tiles. */
static __global__ void
coarsen(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const int nlevels = batch.d_layout->nlevels - batch.decoding.nskipped;

    if (chunk.status != TERP_OK)
        return;
    for (int l = 1; l <= nlevels; l++)
        chunk.model.plan[l] = chunk.model.plan[l + batch.decoding.nskipped];
    chunk.low_records_nbytes +=
        packed_nbytes(batch.ntiles, TERP_LOW_KIND_NBITS) -
        packed_nbytes(batch.decoding.lattice_ntiles, TERP_LOW_KIND_NBITS);
}

cudaError_t
cuda_coarsen(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->decoding.nskipped == 0
               ? cudaSuccess
               : launch_stage(batch, stream, coarsen, 1, 1);
}

/* ---- bits ---- */

/* A warp makes word `word` of the lattice's bits; each lane gathers the bit of
 * its value, bit `from` of the whole chunk. */
static __device__ __forceinline__ void
gather_word(const struct cuda_batch &batch, uint64_t of_all, uint64_t from,
            bool is_there, uint64_t of_lattice, uint64_t word)
{
    const uint32_t *bits = region<uint32_t>(batch, of_all);
    const uint32_t made = __ballot_sync(
        FULL_WARP_MASK, is_there && (bits[from / 32] >> (from % 32) & 1));

    if (threadIdx.x % 32 == 0)
        region<uint32_t>(batch, of_lattice)[word] = made;
}

/* The coordinates of a value in the lattice, and its brick. */
struct lattice_place {
    uint64_t at[TERP_NDIMS], brick;
};

static __device__ __forceinline__ struct lattice_place
lattice_place_of(const struct terp_layout &lattice, uint64_t i)
{
    struct lattice_place place;

#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++) {
        place.at[d] = i % lattice.dims[d];
        i /= lattice.dims[d];
    }
    place.brick = i;
    return place;
}

/* Moves `place` n values forward in C order. */
static __device__ __forceinline__ void
advance(const struct terp_layout &lattice, uint64_t n,
        struct lattice_place *place)
{
    place->at[0] += n;
    while (place->at[0] >= lattice.dims[0]) {
        bool carries = true;
        place->at[0] -= lattice.dims[0];
#pragma unroll
        for (int d = 1; d < TERP_NDIMS; d++) {
            place->at[d] += carries;
            carries = place->at[d] == lattice.dims[d];
            place->at[d] = carries ? 0 : place->at[d];
        }
        place->brick += carries;
    }
}

/* Words that a warp makes one after another. Only the first needs divisions. */
#define WARP_NWORDS 8

/* Grid: x = up to MAX_NBLOCKS, y = chunks. A warp owns WARP_NWORDS words of 32
 * bits at a time, a lane one bit of each. No shared memory. Other stages may
 * change the chunk's status meanwhile, so the kernel does not read it. */
static __global__ void
__launch_bounds__(NTHREADS) gather_bits(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const struct terp_layout &whole = batch.d_layout[0];
    const struct terp_layout &lattice = batch.d_layout[1];
    const bool has_mask = chunk.has_specials;
    const bool has_signs = cuda_form_may_have_signs(batch.form) &&
                           batch.d_sign_chunks[blockIdx.y].status == TERP_OK;
    const uint64_t nwords =
        has_mask || has_signs ? 2 * div_up(lattice.nvalues, 64) : 0;

    for (uint64_t first = (warp_of_chunk<NWARPS>()) * WARP_NWORDS;
         first < nwords; first += (uint64_t)gridDim.x * NWARPS * WARP_NWORDS) {
        const uint64_t end = min_u64(first + WARP_NWORDS, nwords);
        uint64_t i = 32 * first + threadIdx.x % 32;
        struct lattice_place place = lattice_place_of(lattice, i);
        for (uint64_t word = first; word < end; word++, i += 32) {
            const bool is_there = i < lattice.nvalues;
            const uint64_t from =
                terp_coarse_row_begin(&whole, batch.decoding.nskipped,
                                      place.brick, place.at) +
                (place.at[0] << batch.decoding.nskipped);
            if (has_mask)
                gather_word(batch, batch.at.mask, from, is_there,
                            batch.at.lattice_mask, word);
            if (has_signs)
                gather_word(batch, batch.at.signs, from, is_there,
                            batch.at.lattice_signs, word);
            if (word + 1 < end)
                advance(lattice, 32, &place);
        }
    }
}

cudaError_t
cuda_coarsen_bits(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (batch->decoding.nskipped == 0)
        return cudaSuccess;
    return launch_stage(
        batch, stream, gather_bits,
        min_u64(div_up(batch->decoding.lattice_ntiles * TERP_TILE_NSYMBOLS,
                       NTHREADS * WARP_NWORDS),
                MAX_NBLOCKS),
        NTHREADS);
}

/* ---- values ---- */

/* Copies the values that the caller wants. Grid: x = up to MAX_NBLOCKS, y =
 * chunks. No shared memory. The values of a stored stream are read from the
 * stream itself. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) gather_wanted(const struct cuda_batch batch,
                                          const struct cuda_spread_shape shape)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const word_of<T> *made = (const word_of<T> *)chunk.values;
    const uint8_t *stored = (const uint8_t *)chunk.src + chunk.src_nbytes -
                            batch.nvalues * sizeof(T);
    const bool is_stored = chunk.coding == TERP_CODING_RAW;
    word_of<T> *to = (word_of<T> *)chunk.original;

    if (chunk.status != TERP_OK)
        return;
    for_spread<NWARPS>(shape, [=](uint64_t to_at, uint64_t at) {
        to[to_at] =
            is_stored ? (word_of<T>)load_le(stored + at * sizeof(T), sizeof(T))
                      : made[at];
    });
}

cudaError_t
cuda_wanted_gather(const struct cuda_batch *batch, cudaStream_t stream)
{
    const uint64_t step = batch->decoding.wanted_step;
    const struct terp_chunk *chunk = &batch->chunk;
    struct cuda_spread_shape shape = {
        batch->own_nbytes, {1, 1, 1, 1}, {0, 0, 0, 0}};
    uint64_t stride = step;

    if (step == 0)
        return cudaSuccess;
    for (int d = 0; d < chunk->rank; d++) {
        shape.dims[d] = div_up(terp_extent_of(chunk, d), step);
        shape.stride[d] = stride;
        stride *= terp_extent_of(chunk, d);
    }
    return launch_stage(batch, stream,
                        cuda_of_width(batch->own_nbytes, gather_wanted<uint8_t>,
                                      gather_wanted<uint16_t>,
                                      gather_wanted<float>,
                                      gather_wanted<double>),
                        min_u64(div_up(batch->nvalues, NTHREADS), MAX_NBLOCKS),
                        NTHREADS, shape);
}

/* Writes and reads the section of signs. Signs are bits in C order, whose words
 * gpu/predict/pointwise.cu makes and reads. */
#include "gpu/sections/signs.cuh"

#include "codec/format/sections.h"
#include "gpu/block/warp.cuh"
#include "gpu/engine/places.cuh"
#include "gpu/sections/escapes.cuh"
#include "gpu/sections/mask_sums.cuh"
#include "gpu/sections/mask_words.cuh"

#define NTHREADS 256
#define NWARPS (NTHREADS / 32)

/* The most blocks of a launch, for all its chunks together. Blocks loop over
 * the work; chunks without signs then cost few blocks. Tests use a smaller
 * value. */
#ifndef CUDA_SIGNS_MAX_NBLOCKS
#define CUDA_SIGNS_MAX_NBLOCKS 2048
#endif

/* ---- the batch of symbols ---- */

/* The batch of signs, without its regions. */
static struct cuda_batch
describe(const struct cuda_batch *batch)
{
    struct cuda_batch signs = *batch;

    signs.encoding.prefixes_nbytes = 0;
    signs.decoding.nskipped = 0; /* all signs are read */

    signs.nvalues = div_up(batch->nvalues, 8);
    signs.ntiles = div_up(signs.nvalues, TERP_TILE_NSYMBOLS);
    signs.npartitions = div_up(signs.ntiles, TERP_PARTITION_NTILES);
    signs.nranges = 0; /* a symbol that escapes is not valid */
    signs.coding = batch->decodes ? TERP_CODING_RAW : TERP_SIGNS_CODING;
    signs.value_nbytes = 4; /* of the region work, a symbol */
    signs.d_chunks = batch->d_sign_chunks;
    signs.at = {};
    signs.at.stride = batch->at.stride;
    return signs;
}

static void
lay_out_zeroed(struct cuda_batch *signs, uint64_t *at)
{
    signs->at.frequency = place_take(at, 8 * TERP_NSYMBOLS);
}

static void
lay_out(struct cuda_batch *signs, uint64_t *at)
{
    struct cuda_regions *regions = &signs->at;
    const uint64_t ntiles = signs->npartitions * TERP_PARTITION_NTILES;

    regions->symbols = place_take(at, 2 * signs->nvalues);
    regions->cost = place_take(at, 4 * TERP_NENTRIES * signs->ntiles);
    regions->entry = place_take(at, ntiles);
    regions->nonzero = place_take(at, ntiles);
    regions->nbytes = place_take(at, 2 * ntiles);
    regions->begin = place_take(at, 8 * (signs->npartitions + 1));
    regions->reduced = place_take(at, signs->npartitions);
    regions->staging =
        place_take(at, signs->npartitions * CUDA_PARTITION_MAX_NBYTES);
    regions->codebook = place_take(at, 32 << 10);
    regions->tune = place_take(at, 8 * CUDA_MAX_NLISTED);
    regions->work = place_take(
        at, signs->decodes ? 0 : 4 * signs->ntiles * TERP_TILE_NSYMBOLS);
}

void
cuda_signs_lay_out_zeroed(struct cuda_batch *batch, uint64_t *at)
{
    struct cuda_batch signs = describe(batch);

    batch->at.signs_zeroed = *at;
    if (cuda_form_may_have_signs(batch->form))
        lay_out_zeroed(&signs, at);
}

void
cuda_signs_lay_out(struct cuda_batch *batch, uint64_t *at)
{
    struct cuda_batch signs = describe(batch);
    const uint64_t nvalues =
        cuda_form_may_have_signs(batch->form) ? batch->nvalues : 0;

    batch->at.signs = place_take(at, 8 * div_up(nvalues, 64));
    batch->at.sign_pieces = place_take(
        at, batch->decodes ? mask_sums_nbytes(nvalues)
                           : 4 * div_up(nvalues, SIGN_PIECE_NVALUES));
    batch->at.signs_scratch = *at;
    if (nvalues > 0)
        lay_out(&signs, at);
}

/* The batch of signs. */
static struct cuda_batch
signs_of(const struct cuda_batch *batch)
{
    struct cuda_batch signs = describe(batch);
    uint64_t zeroed_at = batch->at.signs_zeroed;
    uint64_t at = batch->at.signs_scratch;

    lay_out_zeroed(&signs, &zeroed_at);
    lay_out(&signs, &at);
    return signs;
}

static uint64_t
nblocks_for(const struct cuda_batch *batch, uint64_t nvalues_per_block)
{
    return cuda_nblocks(batch, div_up(batch->nvalues, nvalues_per_block),
                        CUDA_SIGNS_MAX_NBLOCKS);
}

/* ---- writing ---- */

/* Whether the chunk has signs. Stages on other streams may change its status
 * meanwhile, but not the members that decide this. */
static __device__ __forceinline__ bool
is_mixed(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return chunk.form == batch.form && chunk.how.signs == TERP_SIGNS_MIXED &&
           chunk.coding >= TERP_CODING_HUFFMAN;
}

/* Sets up the chunk's state in the batch of signs. A warp calls it together. */
static __device__ __forceinline__ void
begin_tiles(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            struct cuda_chunk *signs)
{
    const bool applies = chunk.status == TERP_OK && is_mixed(batch, chunk);

    for (unsigned i = threadIdx.x % 32; i < sizeof *signs / 8; i += 32)
        ((uint64_t *)signs)[i] = 0;
    __syncwarp();
    if (threadIdx.x % 32 != 0)
        return;
    signs->dst = chunk.dst;
    signs->coding = TERP_SIGNS_CODING;
    signs->status = applies ? TERP_OK : TERP_ERR_DEVICE;
}

/* Whether the sign before a piece is negative: the sign of the nearest earlier
 * piece whose sign is known. A warp calls it together, and reads 32 pieces at a
 * time. */
static __device__ __forceinline__ bool
is_negative_before(const uint32_t *pieces, uint64_t piece)
{
    const unsigned lane = threadIdx.x % 32;

    for (uint64_t end = piece; end > 0; end -= min_u64(32, end)) {
        const uint32_t own = lane < end ? pieces[end - 1 - lane] : 0;
        const uint32_t known =
            __ballot_sync(FULL_WARP_MASK, (own & SIGN_PIECE_KNOWN) != 0);
        if (known != 0)
            return __shfl_sync(FULL_WARP_MASK, own, __ffs((int)known) - 1) &
                   SIGN_PIECE_NEGATIVE;
    }
    return false;
}

/* Sets the signs of values that take the sign of an earlier piece. Grid: (some
 * blocks, chunks). A warp takes pieces in turn, and a lane words of a piece.
 * The first warp of a chunk also sets up the state in the batch of signs. */
static __global__ void
__launch_bounds__(NTHREADS)
    carry_signs(const struct cuda_batch batch, const struct cuda_batch signs)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const uint64_t npieces = div_up(batch.nvalues, SIGN_PIECE_NVALUES);
    const uint32_t *pieces = region<uint32_t>(batch, batch.at.sign_pieces);
    uint32_t *words = region<uint32_t>(batch, batch.at.signs);
    const unsigned lane = threadIdx.x % 32;

    if (blockIdx.x == 0 && threadIdx.x < 32)
        begin_tiles(batch, chunk, &signs.d_chunks[blockIdx.y]);
    if (!is_mixed(batch, chunk))
        return;
    for (uint64_t piece = warp_of_chunk<NWARPS>(); piece < npieces;
         piece += warps_of_chunk<NWARPS>()) {
        const unsigned nopen = pieces[piece] & SIGN_PIECE_NOPEN;
        if (nopen == 0 || !is_negative_before(pieces, piece))
            continue;
        for (unsigned w = lane; 32 * w < nopen; w += 32) {
            const uint64_t at = piece * (SIGN_PIECE_NVALUES / 32) + w;
            if (32 * at >= batch.nvalues)
                break;
            const uint64_t left =
                min_u64(nopen - 32 * w, batch.nvalues - 32 * at);
            words[at] |= left >= 32 ? UINT32_MAX : (1u << left) - 1;
        }
    }
}

/* Counts negative signs, and the differences of each mask delta. Grid: (some
 * blocks, chunks). A thread takes 32 values in turn. */
static __global__ void
__launch_bounds__(NTHREADS) count_signs(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const uint32_t *bits = region<uint32_t>(batch, batch.at.signs);
    uint64_t distance[1 + TERP_NDIMS] = {0};
    unsigned long long n[1 + TERP_NDIMS] = {0};

    if (!is_mixed(batch, chunk))
        return;
    for (int d = 1; d <= TERP_NDIMS; d++)
        distance[d] = terp_mask_delta_distance(batch.d_layout, d);
    for (uint64_t i = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
         32 * i < batch.nvalues; i += (uint64_t)gridDim.x * NTHREADS)
        for (int d = 0; d <= TERP_NDIMS; d++)
            if (d == 0 || distance[d] > 0)
                n[d] += (unsigned)__popc(
                    mask_delta_word(bits, i, batch.nvalues, distance[d]));
    for (int d = 0; d <= TERP_NDIMS; d++) {
        const unsigned long long sum = warp_sum(n[d]);
        if (threadIdx.x % 32 == 0 && sum > 0)
            atomicAdd(&chunk.nsigns[d], sum);
    }
}

/* Makes the symbols of signs. Grid: (some blocks, chunks). A thread takes 32
 * values, four symbols, in turn. */
static __global__ void
__launch_bounds__(NTHREADS)
    make_symbols(const struct cuda_batch batch, const struct cuda_batch signs)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const uint32_t *bits = region<uint32_t>(batch, batch.at.signs);
    uint16_t *symbols = region<uint16_t>(signs, signs.at.symbols);

    if (!is_mixed(batch, chunk))
        return;
    const int d = signs_choose_dim(batch, chunk);
    const uint64_t distance =
        d == 0 ? 0 : terp_mask_delta_distance(batch.d_layout, d);
    for (uint64_t i = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
         32 * i < batch.nvalues; i += (uint64_t)gridDim.x * NTHREADS) {
        const unsigned word = mask_delta_word(bits, i, batch.nvalues, distance);
        for (unsigned k = 0; k < 4 && 4 * i + k < signs.nvalues; k++)
            symbols[4 * i + k] =
                (uint16_t)terp_sign_symbol((uint8_t)(word >> 8 * k));
    }
}

cudaError_t
cuda_signs_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (!cuda_form_may_have_signs(batch->form))
        return cudaSuccess;
    const struct cuda_batch signs = signs_of(batch);
    const uint64_t nblocks = nblocks_for(batch, 32 * NTHREADS);
    struct stage_launches launches = {batch, stream};

    launches.add(carry_signs, nblocks_for(batch, SIGN_PIECE_NVALUES * NWARPS),
                 NTHREADS, signs);
    launches.add(count_signs, nblocks, NTHREADS);
    launches.add(make_symbols, nblocks, NTHREADS, signs);
    launches.add_stage(cuda_tiles_encode, &signs);
    launches.add_stage(cuda_partitions_encode, &signs);
    return launches.error == cudaSuccess
               ? cuda_signs_place(batch, &signs, stream)
               : launches.error;
}

/* ---- reading ---- */

/* Whether the chunk has valid signs. The status in the batch of signs decides,
 * since stages on other streams may change the chunk's own meanwhile. */
static __device__ __forceinline__ bool
has_signs(const struct cuda_batch &signs)
{
    return signs.d_chunks[blockIdx.y].status == TERP_OK;
}

/* Joins symbols to words of signs. Grid: (words / NTHREADS rounded up, chunks).
 * A thread has a word of 32 signs, four symbols. */
static __global__ void
__launch_bounds__(NTHREADS)
    join_symbols(const struct cuda_batch batch, const struct cuda_batch signs)
{
    begin_kernel();
    const uint16_t *symbols = region<uint16_t>(signs, signs.at.symbols);
    const uint64_t at = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
    uint32_t word = 0;
    bool valid = true;

    if (!has_signs(signs) || at >= 2 * div_up(batch.nvalues, 64))
        return;
    for (unsigned i = 0; i < 4 && 4 * at + i < signs.nvalues; i++) {
        const unsigned symbol = symbols[4 * at + i];
        valid &= terp_sign_symbol_is_valid(symbol);
        word |= (uint32_t)terp_sign_byte(symbol) << 8 * i;
    }
    region<uint32_t>(batch, batch.at.signs)[at] = word;
    if (!valid)
        signs.d_chunks[blockIdx.y].status = TERP_ERR_CORRUPT;
}

/* Undoes the mask delta. Grid: (some blocks, chunks). Threads take parts of
 * columns in turn (mask_sums.cuh). Two launches, <true, false> to sum parts and
 * <false, true> to sum up their bits; or one block per chunk, <true, true>,
 * which does both, with a barrier between. */
template <bool SUM_PARTS, bool SUM_UP>
static __global__ void
__launch_bounds__(NTHREADS)
    sum_signs(const struct cuda_batch batch, const struct cuda_batch signs)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const uint64_t nthreads = (uint64_t)gridDim.x * NTHREADS;
    const uint64_t first = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;

    if (!has_signs(signs))
        return;
    const int d = ((const uint8_t *)chunk.src)[chunk.signs_at];
    if (d == 0)
        return;
    const struct mask_cut cut =
        cut_mask(region<uint32_t>(batch, batch.at.signs),
                 region<uint32_t>(batch, batch.at.sign_pieces), batch.nvalues,
                 terp_mask_delta_distance(batch.d_layout, d));
    if (SUM_PARTS)
        sum_parts(cut, first, nthreads);
    if (SUM_PARTS && SUM_UP)
        __syncthreads();
    if (SUM_UP)
        sum_up(cut, first, nthreads);
}

cudaError_t
cuda_signs_read(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (!cuda_form_may_have_signs(batch->form))
        return cudaSuccess;
    const struct cuda_batch signs = signs_of(batch);
    const uint64_t nblocks = nblocks_for(batch, 32 * NTHREADS);
    struct stage_launches launches = {
        batch, stream, cuda_signs_index_read(batch, &signs, stream)};

    launches.add_stage(cuda_tiles_decode, &signs);
    launches.add(join_symbols, div_up(2 * div_up(batch->nvalues, 64), NTHREADS),
                 NTHREADS, signs);
    if (batch->nvalues <= CUDA_SINGLE_BLOCK_MAX_NSUMMED) {
        launches.add(sum_signs<true, true>, 1, NTHREADS, signs);
    } else {
        launches.add(sum_signs<true, false>, nblocks, NTHREADS, signs);
        launches.add(sum_signs<false, true>, nblocks, NTHREADS, signs);
    }
    return launches.error;
}

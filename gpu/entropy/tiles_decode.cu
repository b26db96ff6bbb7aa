/* The payload's bytes to symbols, as cpu/entropy/tiles_decode.c makes them, and
 * TERP_ERR_CORRUPT for the same streams. First reduced partitions become their
 * tiles' bytes again, then a block makes a tile's symbols. In the smallest
 * batches, whose blocks all run at once, a block does both: it is fused.
 *
 * What a coding does with a tile is chosen in the kernels, since chunks of a
 * batch may have several: a new coding has its decoder in a file of its own,
 * its branch in decode_small_batch and decode_large_batch, and its place in
 * has_tiles. Each of these has a variant that knows the coding `ratio` too,
 * with `tokens`, since its shared memory and registers would slow the others
 * down. */
#include "gpu/block/expand_partition.cuh"
#include "gpu/entropy/contexts.cuh"
#include "gpu/entropy/decode_codewords.cuh"
#include "gpu/entropy/decode_tokens_small_batch.cuh"

/* ---- partitions ---- */

/* A block's threads wait for each other at a dozen barriers, whatever there is
 * to do between them: so a multiprocessor has as many blocks as its memory
 * holds, of few threads. */
#define EXPAND_NTHREADS 256
#define EXPAND_NBLOCKS 6 /* of a multiprocessor */
#define EXPAND_STAGED_NBYTES 4096

/* Where the bytes of a reduced partition's tiles are put: in the region
 * `staging`. */
static __device__ __forceinline__ uint8_t *
staged_partition(const struct cuda_batch &batch, uint64_t p)
{
    return region<uint8_t>(batch, batch.at.staging) +
           p * CUDA_PARTITION_MAX_NBYTES;
}

/* The device decodes tiles of this coding. */
template <bool tokens>
static __device__ __forceinline__ bool
has_tiles(enum terp_coding coding)
{
    return terp_coding_reduces(coding) ||
           (tokens && coding == TERP_CODING_RATIO);
}

/* Grid (npartitions, nchunks): a block a partition, a thread a word at a time.
 * Partitions that are not reduced stay where they are. */
static __global__ void
__launch_bounds__(EXPAND_NTHREADS, EXPAND_NBLOCKS)
    expand_partitions(const struct cuda_batch batch)
{
    __shared__ struct expand_shared<EXPAND_NTHREADS, EXPAND_STAGED_NBYTES> s;
    struct cuda_chunk &chunk = begin_chunk(batch);
    const uint64_t p = blockIdx.x;
    const uint64_t *begin = region<uint64_t>(batch, batch.at.begin) + p;
    struct block_reader reader = {};

    /* All loads before the first that is waited for. */
    const bool reduced = region<uint8_t>(batch, batch.at.reduced)[p] != 0;
    unsigned nbytes = region<uint16_t>(
        batch, batch.at.nbytes)[p * TERP_PARTITION_NTILES +
                                threadIdx.x % TERP_PARTITION_NTILES];
    nbytes = threadIdx.x % 32 < TERP_PARTITION_NTILES ? nbytes : 0;
    reader.src = (const uint8_t *)chunk.src + chunk.payload_at + begin[0];
    reader.end = begin[1] - begin[0];
    /* Other blocks of this launch may set the status meanwhile. */
    if (__syncthreads_or(chunk.status != TERP_OK) ||
        !terp_coding_reduces(chunk.coding) || !reduced)
        return;
    nbytes = __reduce_add_sync(FULL_WARP_MASK, nbytes);
    stage_bytes<EXPAND_NTHREADS>(&reader, s.staged, EXPAND_STAGED_NBYTES);
    struct kept_bytes kept;
    if (!find_kept(&reader, s, nbytes, &kept)) {
        if (threadIdx.x == 0)
            chunk.status = TERP_ERR_CORRUPT;
        return;
    }
    uint32_t *dst = (uint32_t *)staged_partition(batch, p);
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < kept.nwords; i += EXPAND_NTHREADS)
        dst[i] = kept_word(s, kept, i);
}

/* ---- blocks of tiles ---- */

#define LARGE_BATCH_NTHREADS 128
#define LARGE_BATCH_NBLOCKS 8 /* of a multiprocessor: its memory holds them */
#define LARGE_BATCH_BLOCK_NTILES 4 /* of a block, where there are many */
#define LARGE_BATCH_MANY_NTILES 16384
#ifndef CUDA_LARGE_BATCH_NTILES
#define CUDA_LARGE_BATCH_NTILES 2048
#endif
/* The blocks of so few tiles run at once. Each then finds by itself what its
 * partition keeps, and makes only its own tile's bytes of that. */
#define FUSED_MAX_NTILES 128
#define FUSED_STAGED_NBYTES 22528
typedef struct expand_shared<SMALL_BATCH_NTHREADS, FUSED_STAGED_NBYTES>
    fused_shared;

/* ---- places of tiles ---- */

/* What a block needs to know to decode a tile. All is loaded before any of it
 * is waited for. */
struct tile_place {
    uint64_t begin, end; /* of the partition, in the payload */
    uint8_t nonzero, entry, reduced;
    uint16_t nbytes;
    unsigned nbytes_before, nbytes_all; /* of the partition's tiles */
};

static __device__ __forceinline__ struct tile_place
load_place(const struct cuda_batch &batch, uint64_t tile)
{
    const uint64_t p = tile / TERP_PARTITION_NTILES;
    const uint64_t first = p * TERP_PARTITION_NTILES;
    const uint16_t *nbytes = region<uint16_t>(batch, batch.at.nbytes);
    const uint64_t lane = threadIdx.x % 32;
    struct tile_place place;

    place.begin = region<uint64_t>(batch, batch.at.begin)[p];
    place.end = region<uint64_t>(batch, batch.at.begin)[p + 1];
    place.nonzero = region<uint8_t>(batch, batch.at.nonzero)[tile];
    place.entry = region<uint8_t>(batch, batch.at.entry)[tile];
    place.reduced = region<uint8_t>(batch, batch.at.reduced)[p];
    place.nbytes = nbytes[tile];
    place.nbytes_all = lane < TERP_PARTITION_NTILES ? nbytes[first + lane] : 0;
    place.nbytes_before = first + lane < tile ? place.nbytes_all : 0;
    return place;
}

/* Adds up the lengths that lanes have loaded, a tile's each. */
static __device__ __forceinline__ void
sum_place(struct tile_place &place)
{
    place.nbytes_before =
        __reduce_add_sync(FULL_WARP_MASK, place.nbytes_before);
    place.nbytes_all = __reduce_add_sync(FULL_WARP_MASK, place.nbytes_all);
}

static __device__ __forceinline__ const uint8_t *
tile_bytes(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
           uint64_t tile, const struct tile_place &place)
{
    return (place.reduced
                ? staged_partition(batch, tile / TERP_PARTITION_NTILES)
                : (const uint8_t *)chunk.src + chunk.payload_at + place.begin) +
           place.nbytes_before;
}

static __device__ __forceinline__ const struct cuda_decode_table *
tile_decode_table(const struct cuda_batch &batch, enum terp_coding coding,
                  unsigned entry)
{
    return coding == TERP_CODING_HUFFMAN
               ? batch.tables.d_decode_tables + entry
               : region<struct cuda_decode_table>(batch, batch.at.codebook);
}

static __device__ __forceinline__ const struct cuda_token_decode_table *
tile_token_table(const struct cuda_batch &batch, unsigned entry)
{
    return batch.tables.d_token_decode_tables + entry;
}

/* No encoder reduces partitions of ratio, though the format has such: they are
 * left to the CPU. */
static __device__ __forceinline__ bool
is_for_device(struct cuda_chunk &chunk, const struct tile_place &place)
{
    if (place.reduced && threadIdx.x == 0)
        chunk.status = TERP_ERR_DEVICE;
    return !place.reduced;
}

template <unsigned NTHREADS>
static __device__ __forceinline__ void
store_zero_tile(uint16_t *symbols, unsigned nsymbols)
{
#pragma unroll 1
    for (unsigned i = threadIdx.x; i * DECODE_UNIT_NSYMBOLS < nsymbols;
         i += NTHREADS)
        ((uint4 *)symbols)[i] = eight_zero_codes();
}

/* ---- small batches ---- */

/* Takes the tile's bytes out of its reduced partition, at which the reader
 * stands. False where the partition is not valid. */
static __device__ __forceinline__ bool
expand_tile(struct small_batch_codewords &s_codewords, fused_shared &s,
            struct block_reader *reader, const struct tile_place &place,
            struct tile_bits *bits_ret)
{
    const unsigned skipped = place.nbytes_before % 4;
    const unsigned end = skipped + place.nbytes;
    struct kept_bytes kept;

    if (!find_kept(reader, s, place.nbytes_all, &kept))
        return false;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i <= (end + 3) / 4;
         i += SMALL_BATCH_NTHREADS) {
        /* One more word is stored, since codewords are looked up across two. */
        const unsigned at = place.nbytes_before / 4 + i;
        const uint32_t word = at < kept.nwords ? kept_word(s, kept, at) : 0;
        s_codewords.bits[i] = __byte_perm(word, 0, 0x0123);
    }
    *bits_ret = {8 * skipped, 8 * end};
    return true;
}

template <bool tokens> union small_batch_shared {
    struct small_batch_codewords codewords;
};
template <> union small_batch_shared<true> {
    struct small_batch_codewords codewords;
    struct small_batch_tokens tokens;
};

/* A tile of tokens. False where it is not valid. */
static __device__ __forceinline__ bool
decode_token_tile(struct small_batch_tokens &s,
                  struct block_scan<unsigned, SMALL_BATCH_NTHREADS> &s_scan,
                  const struct cuda_token_decode_table *table,
                  const uint8_t *src, unsigned nbytes, uint16_t *symbols,
                  unsigned nsymbols)
{
    stage_token_table(s, table);
    const struct tile_bits bits =
        stage_bits<SMALL_BATCH_NTHREADS>(s.bits, src, nbytes);
    wait_async();
    return decode_small_batch_tokens(s, s_scan, bits, symbols, nsymbols);
}

/* A tile of codewords; where `s_fused` is not NULL, out of a reduced partition,
 * at which the reader stands. False where it is not valid. Sets a bit for each
 * escape of the thread's codewords. */
static __device__ __forceinline__ bool
decode_codeword_tile(struct small_batch_codewords &s_codewords,
                     struct block_scan<unsigned, SMALL_BATCH_NTHREADS> &s_scan,
                     const struct cuda_decode_table *table,
                     fused_shared *s_fused, struct block_reader reader,
                     const struct tile_place &place, const uint8_t *src,
                     uint16_t *symbols, unsigned nsymbols,
                     unsigned *escapes_ret)
{
    const bool expands = s_fused != nullptr;
    struct tile_bits bits = {};

    stage_codeword_table(s_codewords, table);
    if (expands)
        stage_bytes<SMALL_BATCH_NTHREADS>(&reader, s_fused->staged,
                                          sizeof s_fused->staged);
    else
        bits = stage_bits<SMALL_BATCH_NTHREADS>(s_codewords.bits, src,
                                                place.nbytes);
    wait_async();
    __syncthreads();
    make_lengths(s_codewords);
    if (expands && !expand_tile(s_codewords, *s_fused, &reader, place, &bits))
        return false;
    return decode_small_batch_codewords(s_codewords, s_scan, bits, symbols,
                                        nsymbols, escapes_ret);
}

/* Grid (ntiles, nchunks): a block a tile. With `fused` it expands reduced tiles
 * too, in dynamic shared memory. It stores whole units of 16 bytes: the region
 * of symbols has room for them. */
template <bool tokens>
static __global__ void
__launch_bounds__(SMALL_BATCH_NTHREADS, 1)
    decode_small_batch(const struct cuda_batch batch, bool fused)
{
    let_next_kernel_come();
    __shared__ union small_batch_shared<tokens> s;
    __shared__ struct block_scan<unsigned, SMALL_BATCH_NTHREADS> s_scan;
    fused_shared *s_fused = dynamic_shared<fused_shared>();
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const uint64_t tile = blockIdx.x;
    const unsigned nsymbols = terp_tile_nsymbols(batch.nvalues, tile);
    uint16_t *symbols =
        region<uint16_t>(batch, batch.at.symbols) + tile * TERP_TILE_NSYMBOLS;

    wait_for_kernels();
    struct tile_place place = load_place(batch, tile);
    const enum terp_coding coding = chunk.coding;
    struct block_reader reader = {};
    unsigned escapes = 0;
    bool valid;

    reader.src = (const uint8_t *)chunk.src + chunk.payload_at + place.begin;
    reader.end = place.end - place.begin;
    sum_place(place);
    const uint8_t *src = tile_bytes(batch, chunk, tile, place);
    if (tokens)
        symbols = coded_symbols(batch, chunk) + tile * TERP_TILE_NSYMBOLS;
    /* Other blocks of this launch may set the status meanwhile. */
    if (__syncthreads_or(chunk.status != TERP_OK) || !has_tiles<tokens>(coding))
        return;
    if (!place.nonzero) {
        store_zero_tile<SMALL_BATCH_NTHREADS>(symbols, nsymbols);
        return;
    }
    if constexpr (tokens) {
        if (coding == TERP_CODING_RATIO) {
            if (!is_for_device(chunk, place))
                return;
            valid = decode_token_tile(s.tokens, s_scan,
                                      tile_token_table(batch, place.entry), src,
                                      place.nbytes, symbols, nsymbols);
            if (!valid && threadIdx.x == 0)
                chunk.status = TERP_ERR_CORRUPT;
            return;
        }
    }
    valid = decode_codeword_tile(
        s.codewords, s_scan, tile_decode_table(batch, coding, place.entry),
        fused && place.reduced ? s_fused : nullptr, reader, place, src, symbols,
        nsymbols, &escapes);
    if (escapes != 0)
        note_escapes_of_tile(batch, chunk,
                             tile * TERP_TILE_NSYMBOLS +
                                 DECODE_UNIT_NSYMBOLS * threadIdx.x,
                             escapes);
    if (!valid && threadIdx.x == 0)
        chunk.status = TERP_ERR_CORRUPT;
}

/* ---- large batches ---- */

template <bool tokens> union large_batch_shared {
    struct codewords_shared<LARGE_BATCH_NTHREADS> codewords;
};
template <> union large_batch_shared<true> {
    struct codewords_shared<LARGE_BATCH_NTHREADS> codewords;
    struct tokens_shared<LARGE_BATCH_NTHREADS> tokens;
};

/* Grid (at most ntiles, nchunks): blocks take tiles in turn, so that none has
 * several of the first ones, whose codewords are long. A block stores whole
 * units of 16 bytes, as above. */
template <bool tokens>
static __global__ void
__launch_bounds__(LARGE_BATCH_NTHREADS, LARGE_BATCH_NBLOCKS)
    decode_large_batch(const struct cuda_batch batch)
{
    __shared__ union large_batch_shared<tokens> s;
    __shared__ struct block_scan<unsigned, LARGE_BATCH_NTHREADS> s_scan;
    struct cuda_chunk &chunk = begin_chunk(batch);
    const uint64_t first = blockIdx.x;
    const enum terp_coding coding = chunk.coding;
    const struct cuda_decode_table *book, *staged = nullptr;
    unsigned staged_entry = TERP_NENTRIES;
    struct tile_place place = load_place(batch, first);

    /* Other blocks of this launch may set the status meanwhile. */
    if (__syncthreads_or(chunk.status != TERP_OK) || !has_tiles<tokens>(coding))
        return;
    for (uint64_t tile = first; tile < batch.ntiles; tile += gridDim.x) {
        const unsigned nsymbols = terp_tile_nsymbols(batch.nvalues, tile);
        uint16_t *symbols =
            (tokens ? coded_symbols(batch, chunk)
                    : region<uint16_t>(batch, batch.at.symbols)) +
            tile * TERP_TILE_NSYMBOLS;
        bool valid;
        if (tile > first)
            place = load_place(batch, tile);
        sum_place(place);
        const uint8_t *src = tile_bytes(batch, chunk, tile, place);
        if (!place.nonzero) {
            store_zero_tile<LARGE_BATCH_NTHREADS>(symbols, nsymbols);
            continue;
        }
        __syncthreads(); /* the tile before has left shared memory */
        if constexpr (tokens) {
            if (coding == TERP_CODING_RATIO) {
                if (!is_for_device(chunk, place))
                    return;
                valid = decode_tokens<LARGE_BATCH_NTHREADS>(
                    s.tokens, s_scan, tile_token_table(batch, place.entry),
                    place.entry != staged_entry, src, place.nbytes, symbols,
                    nsymbols);
                staged_entry = place.entry;
                if (!valid && threadIdx.x == 0)
                    chunk.status = TERP_ERR_CORRUPT;
                continue;
            }
        }
        book = tile_decode_table(batch, coding, place.entry);
        valid = decode_codewords<LARGE_BATCH_NTHREADS>(
            batch, chunk, s.codewords, s_scan, book, book != staged, tile, src,
            place.nbytes, symbols, nsymbols);
        staged = book;
        if (!valid && threadIdx.x == 0)
            chunk.status = TERP_ERR_CORRUPT;
    }
}

template <bool tokens>
static cudaError_t
launch_tiles(const struct cuda_batch *batch, cudaStream_t stream)
{
    const uint64_t nall = batch->ntiles * (unsigned)batch->nchunks;
    const bool is_small = nall < CUDA_LARGE_BATCH_NTILES;
    const bool fused = is_small && nall <= FUSED_MAX_NTILES;
    cudaError_t error = cudaSuccess;

    if (!fused)
        error = launch_stage(batch, stream, expand_partitions,
                             batch->npartitions, EXPAND_NTHREADS);
    if (error != cudaSuccess)
        return error;
    return is_small ? launch_shared(batch, stream, decode_small_batch<tokens>,
                                    batch->ntiles, SMALL_BATCH_NTHREADS,
                                    fused ? sizeof(fused_shared) : 0, fused)
                    : launch_stage(
                          batch, stream, decode_large_batch<tokens>,
                          div_up(batch->ntiles, nall < LARGE_BATCH_MANY_NTILES
                                                    ? 1
                                                    : LARGE_BATCH_BLOCK_NTILES),
                          LARGE_BATCH_NTHREADS);
}

cudaError_t
cuda_tiles_decode(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->coding == TERP_CODING_RATIO
               ? launch_tiles<true>(batch, stream)
               : launch_tiles<false>(batch, stream);
}

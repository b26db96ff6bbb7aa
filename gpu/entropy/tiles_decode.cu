/* Decodes the payload to symbols, as cpu/entropy/tiles_decode.c does, with
 * TERP_ERR_CORRUPT for the same streams. First, reduced partitions are expanded
 * to the bytes of their tiles; then a block decodes each tile. In the smallest
 * batches a block does both for its tile (fused).
 *
 * The kernels select the decoder by the chunk's coding, since the chunks of a
 * batch may have several. A new coding needs a decoder in a file of its own, a
 * branch in decode_small_batch and decode_large_batch, and a case in has_tiles.
 * The template parameter `tokens` of these says whether the coding `ratio` may
 * occur; its shared memory and registers would slow other batches down.
 * Example: decode_large_batch<false> decodes huffman and custom tiles alone. */
#include "gpu/block/expand_partition.cuh"
#include "gpu/entropy/contexts.cuh"
#include "gpu/entropy/decode_codewords.cuh"
#include "gpu/entropy/decode_tokens_small_batch.cuh"

/* ---- partitions ---- */

/* Threads of a block that expands a partition, blocks on a multiprocessor, and
 * bytes of the reduced partition that it keeps in shared memory. A block has a
 * dozen barriers, with little work between them, so several small blocks hide
 * each other's waits. Each warp counts the maps of the whole block: with 256
 * threads in place of 512, half the warps execute half the instructions. */
#define EXPAND_NTHREADS 256
#define EXPAND_NBLOCKS 6
#define EXPAND_STAGED_NBYTES 4096

/* The bytes of an expanded partition's tiles, in the region `staging`. */
static __device__ __forceinline__ uint8_t *
staged_partition(const struct cuda_batch &batch, uint64_t p)
{
    return region<uint8_t>(batch, batch.at.staging) +
           p * CUDA_PARTITION_MAX_NBYTES;
}

/* Whether a kernel with these `tokens` decodes tiles of the coding. */
template <bool tokens>
static __device__ __forceinline__ bool
has_tiles(enum terp_coding coding)
{
    return terp_coding_reduces(coding) ||
           (tokens && coding == TERP_CODING_RATIO);
}

/* Expands reduced partitions to `staging`; others stay in the stream. Grid:
 * (npartitions, chunks). A block has a partition, and a thread writes a word at
 * a time. Shared: struct expand_shared; find_kept has the barriers. */
static __global__ void
__launch_bounds__(EXPAND_NTHREADS, EXPAND_NBLOCKS)
    expand_partitions(const struct cuda_batch batch)
{
    __shared__ expand_shared<EXPAND_NTHREADS, EXPAND_STAGED_NBYTES> s;
    struct cuda_chunk &chunk = begin_chunk(batch);
    const uint64_t p = blockIdx.x;
    const uint64_t *begin = region<uint64_t>(batch, batch.at.begin) + p;
    struct block_reader reader = {};

    /* All loads start before the code waits for one of them. */
    const bool reduced = region<uint8_t>(batch, batch.at.reduced)[p] != 0;
    unsigned nbytes = region<uint16_t>(
        batch, batch.at.nbytes)[p * TERP_PARTITION_NTILES +
                                threadIdx.x % TERP_PARTITION_NTILES];
    nbytes = threadIdx.x % 32 < TERP_PARTITION_NTILES ? nbytes : 0;
    reader.src = (const uint8_t *)chunk.src + chunk.payload_at + begin[0];
    reader.end = begin[1] - begin[0];
    /* Other blocks of this launch may set the status meanwhile, so all threads
     * agree on it. */
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

/* Threads of a block in a large batch, and blocks on a multiprocessor. A block
 * has 26 KB of shared memory, so eight fit. */
#define LARGE_BATCH_NTHREADS 128
#define LARGE_BATCH_NBLOCKS 8

/* A block takes this many tiles if the batch has at least
 * LARGE_BATCH_MANY_NTILES, else one. A block with several tiles copies a table
 * again only if the next tile has another table. With few tiles, more blocks
 * are better. */
#define LARGE_BATCH_BLOCK_NTILES 4
#define LARGE_BATCH_MANY_NTILES 16384

/* Tiles from which a batch is large. Below, the device is not full, the slowest
 * block decides, and tiles are decoded by many threads and transition tables.
 * Tests use 1. */
#ifndef CUDA_LARGE_BATCH_NTILES
#define CUDA_LARGE_BATCH_NTILES 2048
#endif

/* The most tiles of a batch whose blocks expand partitions themselves. All
 * blocks run at once on a device of as many multiprocessors. Each block then
 * reads the maps of its tile's partition and expands only the tile's bytes;
 * that repeats work, but saves a launch. FUSED_STAGED_NBYTES: bytes of a
 * reduced partition in shared memory. */
#define FUSED_MAX_NTILES 128
#define FUSED_STAGED_NBYTES 22528
typedef expand_shared<SMALL_BATCH_NTHREADS, FUSED_STAGED_NBYTES> fused_shared;

/* ---- places of tiles ---- */

/* Where a tile's bytes are, and its codebook. All members are loaded before the
 * code waits for one of them. */
struct decoded_tile {
    uint64_t begin, end; /* of the partition, in the payload */
    uint8_t nonzero, entry, reduced;
    uint16_t nbytes;
    unsigned nbytes_before, nbytes_all; /* of the partition's tiles */
};

static __device__ __forceinline__ struct decoded_tile
load_place(const struct cuda_batch &batch, uint64_t tile)
{
    const uint64_t p = tile / TERP_PARTITION_NTILES;
    const uint64_t first = p * TERP_PARTITION_NTILES;
    const uint16_t *nbytes = region<uint16_t>(batch, batch.at.nbytes);
    const uint64_t lane = threadIdx.x % 32;
    struct decoded_tile place;

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

/* Sums the lengths of tiles; each lane has loaded one length. */
static __device__ __forceinline__ void
sum_place(struct decoded_tile &place)
{
    place.nbytes_before =
        __reduce_add_sync(FULL_WARP_MASK, place.nbytes_before);
    place.nbytes_all = __reduce_add_sync(FULL_WARP_MASK, place.nbytes_all);
}

static __device__ __forceinline__ const uint8_t *
tile_bytes(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
           uint64_t tile, const struct decoded_tile &place)
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

/* Whether the device decodes a tile of ratio; else sets the status. The format
 * allows reduced partitions of ratio, but no encoder makes them, so the device
 * leaves them to the CPU. */
static __device__ __forceinline__ bool
is_for_device(struct cuda_chunk &chunk, const struct decoded_tile &place)
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

/* Expands the tile's bytes to s_codewords.bits, from its reduced partition at
 * the reader's position. False: the partition is not valid. */
static __device__ __forceinline__ bool
expand_tile(struct small_batch_codewords &s_codewords, fused_shared &s,
            struct block_reader *reader, const struct decoded_tile &place,
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
        /* Stores one more word, since bits_at reads two. */
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

/* Decodes a tile of tokens. False: it is not valid. */
static __device__ __forceinline__ bool
decode_token_tile(struct small_batch_tokens &s,
                  block_scan<unsigned, SMALL_BATCH_NTHREADS> &s_scan,
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

/* Decodes a tile of codewords: from `src`, or, if s_fused is not NULL, from a
 * reduced partition at the reader's position. False: it is not valid.
 * *escapes_ret gets a bit for each escape among the thread's symbols. */
static __device__ __forceinline__ bool
decode_codeword_tile(struct small_batch_codewords &s_codewords,
                     block_scan<unsigned, SMALL_BATCH_NTHREADS> &s_scan,
                     const struct cuda_decode_table *table,
                     fused_shared *s_fused, struct block_reader reader,
                     const struct decoded_tile &place, const uint8_t *src,
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

/* Decodes tiles of a small batch. Grid: (ntiles, chunks). A block has a tile; a
 * thread decodes a subsequence of its bits and stores a unit of 8 symbols.
 * Units of the last tile are stored whole: the region of symbols has room for
 * them. With `fused` it also expands the tile from a reduced partition, in
 * dynamic shared memory (fused_shared, else none). Static shared memory: 27 KB,
 * or 41 KB with `tokens`. One block per multiprocessor suffices. Barriers are
 * in the decoders. */
template <bool tokens>
static __global__ void
__launch_bounds__(SMALL_BATCH_NTHREADS, 1)
    decode_small_batch(const struct cuda_batch batch, bool fused)
{
    let_next_kernel_come();
    __shared__ union small_batch_shared<tokens> s;
    __shared__ block_scan<unsigned, SMALL_BATCH_NTHREADS> s_scan;
    fused_shared *s_fused = dynamic_shared<fused_shared>();
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const uint64_t tile = blockIdx.x;
    const unsigned nsymbols = terp_tile_nsymbols(batch.nvalues, tile);
    uint16_t *symbols =
        region<uint16_t>(batch, batch.at.symbols) + tile * TERP_TILE_NSYMBOLS;

    wait_for_kernels();
    struct decoded_tile place = load_place(batch, tile);
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
    /* Other blocks of this launch may set the status meanwhile, so all threads
     * agree on it. */
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
    codewords_shared<LARGE_BATCH_NTHREADS> codewords;
};
template <> union large_batch_shared<true> {
    codewords_shared<LARGE_BATCH_NTHREADS> codewords;
    tokens_shared<LARGE_BATCH_NTHREADS> tokens;
};

/* Decodes tiles of a large batch. Grid: (blocks, chunks), with at most ntiles
 * blocks. Block b takes tiles b, b + gridDim.x and so on: coarse tiles come
 * first and have long codewords, so no block has several of them. A thread
 * decodes a subsequence of a tile's bits. Units are stored whole, as in
 * decode_small_batch. Shared: 26 KB. A table stays in shared memory from tile
 * to tile as long as tiles have the same codebook. */
template <bool tokens>
static __global__ void
__launch_bounds__(LARGE_BATCH_NTHREADS, LARGE_BATCH_NBLOCKS)
    decode_large_batch(const struct cuda_batch batch)
{
    __shared__ union large_batch_shared<tokens> s;
    __shared__ block_scan<unsigned, LARGE_BATCH_NTHREADS> s_scan;
    struct cuda_chunk &chunk = begin_chunk(batch);
    const uint64_t first = blockIdx.x;
    const enum terp_coding coding = chunk.coding;
    const struct cuda_decode_table *book, *staged = nullptr;
    unsigned staged_entry = TERP_NENTRIES;
    struct decoded_tile place = load_place(batch, first);

    /* Other blocks of this launch may set the status meanwhile, so all threads
     * agree on it. */
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
        __syncthreads(); /* no thread still reads the tile before */
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

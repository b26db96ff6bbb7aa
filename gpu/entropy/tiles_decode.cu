/* The payload's bytes to symbols. First reduced partitions become
 * tiles' bytes again, then a block makes a tile's symbols; where tiles are few,
 * it does both. The same as in cpu/entropy/tiles.c, cpu/entropy/codewords.c,
 * cpu/entropy/tokens.c and codec/format/reduce.c, and TERP_ERR_CORRUPT for the
 * same streams.
 *
 * Of each kernel there is one that knows the coding `ratio` too, with
 * `tokens`. */
#include "gpu/block/expand_partition.cuh"
#include "gpu/block/planes.cuh"
#include "gpu/entropy/contexts.cuh"
#include "gpu/entropy/decode_codewords.cuh"
#include "gpu/entropy/decode_tokens_small_batch.cuh"

/* ---- partitions ---- */

#define EXPAND_NBLOCKS 4 /* of a multiprocessor */
#define EXPAND_STAGED_NBYTES 8192

/* The partition's tiles' bytes in the region `staging`. */
static __device__ __forceinline__ uint8_t *
staged_partition(const struct cuda_batch &batch, uint64_t p)
{
    return region<uint8_t>(batch, blockIdx.y, batch.at.staging) +
           p * CUDA_PARTITION_MAX_NBYTES;
}

static __device__ __forceinline__ bool
has_partitions(enum terp_coding coding)
{
    return coding == TERP_CODING_HUFFMAN || coding == TERP_CODING_CUSTOM ||
           coding == TERP_CODING_SPEED;
}

template <bool tokens>
static __device__ __forceinline__ bool
has_tiles(enum terp_coding coding)
{
    return has_partitions(coding) || (tokens && coding == TERP_CODING_RATIO);
}

/* Grid (npartitions, nchunks), a block a partition, a thread a word at a time.
 * Others are not reduced and stay where they are. */
static __global__ void
__launch_bounds__(EXPAND_NTHREADS, EXPAND_NBLOCKS)
    expand_partitions(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ struct expand_shared<EXPAND_STAGED_NBYTES> s;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const uint64_t p = blockIdx.x;
    const uint64_t *begin =
        region<uint64_t>(batch, blockIdx.y, batch.at.begin) + p;
    struct block_reader reader = {};

    /* All loads before the first that is waited for. */
    const bool reduced =
        region<uint8_t>(batch, blockIdx.y, batch.at.reduced)[p] != 0;
    unsigned nbytes =
        region<uint16_t>(batch, blockIdx.y,
                         batch.at.nbytes)[p * TERP_PARTITION_NTILES +
                                          threadIdx.x % TERP_PARTITION_NTILES];
    nbytes = threadIdx.x % 32 < TERP_PARTITION_NTILES ? nbytes : 0;
    reader.src = (const uint8_t *)chunk.src + chunk.payload_at + begin[0];
    reader.end = begin[1] - begin[0];
    /* Other blocks of this launch may set the status meanwhile. */
    if (__syncthreads_or(chunk.status != TERP_OK) ||
        !has_partitions(chunk.coding) || !reduced)
        return;
    nbytes = __reduce_add_sync(0xFFFFFFFF, nbytes);
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

#define MANY_TILES_NTHREADS 128
#define MANY_TILES_NBLOCKS 8 /* of a multiprocessor: its memory holds them */
#define MANY_TILES_BLOCK 4   /* tiles of a block, where there are many */
#ifndef CUDA_LARGE_BATCH_NTILES
#define CUDA_LARGE_BATCH_NTILES 2048
#endif
/* So few tiles' blocks run at once. Each then finds by itself what its
 * partition keeps, and makes its own tile's bytes of that. */
#define ALONE_NTILES 128
#define ALONE_STAGED_NBYTES 22528
typedef struct expand_shared<ALONE_STAGED_NBYTES> alone_shared;

#define PLANE_MAX_NBYTES (TERP_TILE_NSYMBOLS / 8)
struct planes_shared {
    __align__(16) uint8_t staged[TERP_CODEWORDS_MAX_NBYTES + 16];
    uint64_t planes[PLANE_MAX_NBYTES];
    uint64_t bitmap[PLANE_MAX_NBYTES / 8];
    uint64_t above[PLANE_MAX_NBYTES / 64];
};

/* ---- tiles of bit planes ---- */

/* The flipped codes 2i and 2i + 1 of four as symbols, the first lowest. */
static __device__ __forceinline__ uint32_t
two_symbols(uint32_t flipped, int i)
{
    const uint32_t zero = TERP_RADIUS - 128;
    return __byte_perm(flipped, 0, i == 0 ? 0x4140 : 0x4342) +
           (zero << 16 | zero);
}

/* Escapes are 0 when flipped. A bit for each of four. The condition holds
 * when there is any. */
static __device__ __forceinline__ unsigned
find_escapes(uint32_t flipped)
{
    unsigned found = 0;

    if (((flipped - 0x01010101) & ~flipped & 0x80808080) != 0)
        for (int i = 0; i < 4; i++)
            found |= (unsigned)((flipped >> (8 * i) & 255) == 0) << i;
    return found;
}

/* TCMS1-BIT1-RRE1 backwards. A thread makes eight symbols at a time. */
template <unsigned NTHREADS>
static __device__ bool
decode_planes(const struct cuda_batch &batch, struct cuda_chunk &chunk,
              struct planes_shared &s, tile_scan<NTHREADS> &s_scan,
              uint64_t tile, const uint8_t *src, unsigned nbytes,
              uint16_t *symbols, unsigned nsymbols)
{
    static_assert(TERP_SPEED_ESCAPE == -128, "the least code of a byte");
    const unsigned plane_nbytes = (nsymbols + 7) / 8;
    const uint8_t *planes = (const uint8_t *)s.planes;
    struct block_reader reader = {};

    reader.src = src;
    reader.end = nbytes;
    stage_bytes<NTHREADS>(&reader, s.staged, sizeof s.staged);
    expand_bitmap<NTHREADS>(&reader, (uint8_t *)s.bitmap, plane_nbytes,
                            (uint8_t *)s.above);
    if (!reader.underflow)
        expand_rre1<NTHREADS, PLANE_MAX_NBYTES / NTHREADS>(
            &reader, (const uint8_t *)s.bitmap, (uint8_t *)s.planes,
            8 * plane_nbytes, s_scan);
    if (reader.underflow || reader.at != reader.end)
        return false;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < plane_nbytes; i += NTHREADS) {
        uint64_t word = 0;
#pragma unroll
        for (unsigned p = 0; p < 8; p++)
            word |= (uint64_t)planes[(7 - p) * plane_nbytes + i] << (8 * p);
        word = transpose_8x8(word);
        uint32_t low = flipped_codes((uint32_t)word);
        uint32_t high = flipped_codes((uint32_t)(word >> 32));
        uint32_t two[4] = {two_symbols(low, 0), two_symbols(low, 1),
                           two_symbols(high, 0), two_symbols(high, 1)};
        unsigned escapes = find_escapes(low) | find_escapes(high) << 4;
        if (escapes != 0) {
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (escapes >> j & 1)
                    two[j / 2] &= j % 2 == 0 ? 0xFFFF0000 : 0xFFFF;
            escapes &= (1u << group_of_eight(nsymbols, i)) - 1;
        }
        ((uint4 *)symbols)[i] = make_uint4(two[0], two[1], two[2], two[3]);
        if (escapes != 0)
            note_escapes(batch, chunk, escapes_are_listed(batch, chunk),
                         tile * TERP_TILE_NSYMBOLS + 8 * i, escapes);
    }
    return true;
}

/* ---- places of tiles ---- */

/* What a block needs to know to decode a tile; fetched side by side. */
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
    const uint16_t *nbytes =
        region<uint16_t>(batch, blockIdx.y, batch.at.nbytes);
    const uint64_t lane = threadIdx.x % 32;
    struct tile_place place;

    place.begin = region<uint64_t>(batch, blockIdx.y, batch.at.begin)[p];
    place.end = region<uint64_t>(batch, blockIdx.y, batch.at.begin)[p + 1];
    place.nonzero = region<uint8_t>(batch, blockIdx.y, batch.at.nonzero)[tile];
    place.entry = region<uint8_t>(batch, blockIdx.y, batch.at.entry)[tile];
    place.reduced = region<uint8_t>(batch, blockIdx.y, batch.at.reduced)[p];
    place.nbytes = nbytes[tile];
    place.nbytes_all = lane < TERP_PARTITION_NTILES ? nbytes[first + lane] : 0;
    place.nbytes_before = first + lane < tile ? place.nbytes_all : 0;
    return place;
}

/* Lanes have loaded a tile's bytes each. */
static __device__ __forceinline__ void
sum_place(struct tile_place &place)
{
    place.nbytes_before = __reduce_add_sync(0xFFFFFFFF, place.nbytes_before);
    place.nbytes_all = __reduce_add_sync(0xFFFFFFFF, place.nbytes_all);
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
tile_book(const struct cuda_batch &batch, enum terp_coding coding,
          unsigned entry)
{
    return coding == TERP_CODING_HUFFMAN
               ? batch.tables.d_decode_tables + entry
               : region<struct cuda_decode_table>(batch, blockIdx.y,
                                                 batch.at.codebook);
}

static __device__ __forceinline__ const struct cuda_token_decode_table *
tile_token_book(const struct cuda_batch &batch, unsigned entry)
{
    return batch.tables.d_token_decode_tables + entry;
}

/* No encoder reduces partitions of ratio: that is left to the CPU. */
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
    for (unsigned i = threadIdx.x; i * UNIT_NSYMBOLS < nsymbols; i += NTHREADS)
        ((uint4 *)symbols)[i] = eight_zero_codes();
}

/* ---- few tiles ---- */

/* The tile's bytes out of its partition, which stands at the reader: to where
 * they are decoded, or speed's to memory. False where it is not valid. */
static __device__ __forceinline__ bool
expand_tile(const struct cuda_batch &batch, enum terp_coding coding,
            struct few_words_shared &s_words, alone_shared &s,
            struct block_reader *reader, const struct tile_place &place,
            uint64_t tile, struct tile_bits *bits_ret)
{
    const unsigned skipped = place.nbytes_before % 4;
    const unsigned end = skipped + place.nbytes;
    uint32_t *dst =
        (uint32_t *)staged_partition(batch, tile / TERP_PARTITION_NTILES);
    struct kept_bytes kept;

    static_assert(EXPAND_NTHREADS == FEW_TILES_NTHREADS, "the same block");
    if (!find_kept(reader, s, place.nbytes_all, &kept))
        return false;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i <= (end + 3) / 4; i += EXPAND_NTHREADS) {
        /* A word more, since words of code are looked for in two. */
        const unsigned at = place.nbytes_before / 4 + i;
        const uint32_t word = at < kept.nwords ? kept_word(s, kept, at) : 0;
        if (coding != TERP_CODING_SPEED)
            s_words.bits[i] = __byte_perm(word, 0, 0x0123);
        else if (at < kept.nwords)
            dst[at] = word;
    }
    *bits_ret = {8 * skipped, 8 * end};
    return true;
}

template <bool tokens> union few_shared {
    struct few_words_shared words;
    struct planes_shared planes;
};
template <> union few_shared<true> {
    struct few_words_shared words;
    struct planes_shared planes;
    struct few_tokens_shared tokens;
};

/* Grid (ntiles, nchunks), a block a tile. With `alone`, in blocks that run at
 * once, it expands reduced tiles, using dynamic shared memory. Stores whole
 * units of 16 bytes: the region of symbols has room for them. */
template <bool tokens>
static __global__ void
__launch_bounds__(FEW_TILES_NTHREADS, 1)
    decode_few_tiles(const struct cuda_batch batch, bool alone)
{
    let_next_kernel_come();
    __shared__ union few_shared<tokens> s;
    __shared__ tile_scan<FEW_TILES_NTHREADS> s_scan;
    alone_shared *s_alone = dynamic_shared<alone_shared>();
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const uint64_t tile = blockIdx.x;
    const unsigned nsymbols = (unsigned)min_u64(
        TERP_TILE_NSYMBOLS, batch.nvalues - tile * TERP_TILE_NSYMBOLS);
    uint16_t *symbols = region<uint16_t>(batch, blockIdx.y, batch.at.symbols) +
                        tile * TERP_TILE_NSYMBOLS;

    wait_for_kernels();
    struct tile_place place = load_place(batch, tile);
    const enum terp_coding coding = chunk.coding;
    const bool is_speed = coding == TERP_CODING_SPEED;
    const bool listed = escapes_are_listed(batch, chunk);
    const bool expands = alone && place.reduced;
    struct block_reader reader = {};
    struct tile_bits bits = {};
    unsigned escapes = 0;
    bool valid = true;

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
        store_zero_tile<FEW_TILES_NTHREADS>(symbols, nsymbols);
        return;
    }
    if constexpr (tokens) {
        if (coding == TERP_CODING_RATIO) {
            if (!is_for_device(chunk, place))
                return;
            stage_token_book(s.tokens, tile_token_book(batch, place.entry));
            bits = stage_bits<FEW_TILES_NTHREADS>(s.tokens.bits, src,
                                                  place.nbytes);
            wait_async();
            valid =
                decode_few_tokens(s.tokens, s_scan, bits, symbols, nsymbols);
            if (!valid && threadIdx.x == 0)
                chunk.status = TERP_ERR_CORRUPT;
            return;
        }
    }
    if (!is_speed)
        stage_word_book(s.words, tile_book(batch, coding, place.entry));
    if (expands)
        stage_bytes<FEW_TILES_NTHREADS>(&reader, s_alone->staged,
                                        sizeof s_alone->staged);
    else if (!is_speed)
        bits = stage_bits<FEW_TILES_NTHREADS>(s.words.bits, src, place.nbytes);
    if (!is_speed) {
        wait_async();
        __syncthreads();
        make_lengths(s.words);
    }
    if (expands)
        valid = expand_tile(batch, coding, s.words, *s_alone, &reader, place,
                            tile, &bits);
    if (valid && is_speed)
        valid = decode_planes<FEW_TILES_NTHREADS>(
            batch, chunk, s.planes, s_scan, tile, src, place.nbytes, symbols,
            nsymbols);
    else if (valid)
        valid = decode_few_words(s.words, s_scan, bits, symbols, nsymbols,
                                 &escapes);
    if (escapes != 0)
        note_escapes(batch, chunk, listed,
                     tile * TERP_TILE_NSYMBOLS + UNIT_NSYMBOLS * threadIdx.x,
                     escapes);
    if (!valid && threadIdx.x == 0)
        chunk.status = TERP_ERR_CORRUPT;
}

/* ---- many tiles ---- */

template <bool tokens> union many_shared {
    struct words_shared<MANY_TILES_NTHREADS> words;
    struct planes_shared planes;
};
template <> union many_shared<true> {
    struct words_shared<MANY_TILES_NTHREADS> words;
    struct planes_shared planes;
    struct tokens_shared<MANY_TILES_NTHREADS> tokens;
};

/* Grid (ntiles / MANY_TILES_BLOCK, nchunks), a block some tiles, one after
 * another. Stores whole units of 16 bytes, as above. */
template <bool tokens>
static __global__ void
__launch_bounds__(MANY_TILES_NTHREADS, MANY_TILES_NBLOCKS)
    decode_many_tiles(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ union many_shared<tokens> s;
    __shared__ tile_scan<MANY_TILES_NTHREADS> s_scan;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const uint64_t first = (uint64_t)blockIdx.x * MANY_TILES_BLOCK;
    const uint64_t end = min_u64(first + MANY_TILES_BLOCK, batch.ntiles);
    const enum terp_coding coding = chunk.coding;
    const struct cuda_decode_table *book, *staged = nullptr;
    unsigned staged_entry = TERP_NENTRIES;
    struct tile_place place = load_place(batch, first);

    /* Other blocks of this launch may set the status meanwhile. */
    if (__syncthreads_or(chunk.status != TERP_OK) || !has_tiles<tokens>(coding))
        return;
    for (uint64_t tile = first; tile < end; tile++) {
        const uint64_t left = batch.nvalues - tile * TERP_TILE_NSYMBOLS;
        const unsigned nsymbols = (unsigned)min_u64(TERP_TILE_NSYMBOLS, left);
        uint16_t *symbols =
            (tokens ? coded_symbols(batch, chunk)
                    : region<uint16_t>(batch, blockIdx.y, batch.at.symbols)) +
            tile * TERP_TILE_NSYMBOLS;
        bool valid;
        if (tile > first)
            place = load_place(batch, tile);
        sum_place(place);
        const uint8_t *src = tile_bytes(batch, chunk, tile, place);
        if (!place.nonzero) {
            store_zero_tile<MANY_TILES_NTHREADS>(symbols, nsymbols);
            continue;
        }
        __syncthreads(); /* the tile before has left shared memory */
        if constexpr (tokens) {
            if (coding == TERP_CODING_RATIO) {
                if (!is_for_device(chunk, place))
                    return;
                valid = decode_tokens<MANY_TILES_NTHREADS>(
                    s.tokens, s_scan, tile_token_book(batch, place.entry),
                    place.entry != staged_entry, src, place.nbytes, symbols,
                    nsymbols);
                staged_entry = place.entry;
                if (!valid && threadIdx.x == 0)
                    chunk.status = TERP_ERR_CORRUPT;
                continue;
            }
        }
        if (coding == TERP_CODING_SPEED) {
            valid = decode_planes<MANY_TILES_NTHREADS>(
                batch, chunk, s.planes, s_scan, tile, src, place.nbytes,
                symbols, nsymbols);
        } else {
            book = tile_book(batch, coding, place.entry);
            valid = decode_words<MANY_TILES_NTHREADS>(
                batch, chunk, s.words, s_scan, book, book != staged, tile, src,
                place.nbytes, symbols, nsymbols);
            staged = book;
        }
        if (!valid && threadIdx.x == 0)
            chunk.status = TERP_ERR_CORRUPT;
    }
}

template <bool tokens>
static cudaError_t
launch_tiles(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nchunks = (unsigned)batch->nchunks;
    const unsigned ntiles = (unsigned)batch->ntiles;
    const uint64_t nall = batch->ntiles * nchunks;
    const bool few = nall < CUDA_LARGE_BATCH_NTILES;
    const bool alone = few && nall <= ALONE_NTILES;
    cudaError_t error;

    if (alone)
        error =
            cudaFuncSetAttribute(decode_few_tiles<tokens>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)sizeof(alone_shared));
    else
        error = launch(expand_partitions,
                       dim3((unsigned)batch->npartitions, nchunks),
                       dim3(EXPAND_NTHREADS), 0, stream, *batch);
    if (error != cudaSuccess)
        return error;
    if (few)
        return launch(decode_few_tiles<tokens>, dim3(ntiles, nchunks),
                      dim3(FEW_TILES_NTHREADS),
                      alone ? sizeof(alone_shared) : 0, stream, *batch, alone);
    return launch(
        decode_many_tiles<tokens>,
        dim3((unsigned)div_up(batch->ntiles, MANY_TILES_BLOCK), nchunks),
        dim3(MANY_TILES_NTHREADS), 0, stream, *batch);
}

cudaError_t
cuda_tiles_decode(const struct cuda_batch *batch, cudaStream_t stream)
{
    return batch->coding == TERP_CODING_RATIO
               ? launch_tiles<true>(batch, stream)
               : launch_tiles<false>(batch, stream);
}

/* Floor 3: the payload's bytes to symbols. First reduced partitions become
 * tiles' bytes again, then a block a tile makes symbols. The same as in
 * cpu_tiles.c, cpu_words.c and reduce.c, and TERP_ERR_CORRUPT for the same
 * streams. */
#include "bytes.h"
#include "cuda_decode_words.cuh"

/* ---- partitions ---- */

#define EXPAND_NTHREADS 512
#define EXPAND_NBLOCKS 4 /* of a multiprocessor */
#define EXPAND_STAGED_NBYTES 8192

/* RRE4 sees a partition as words of four bytes, RZE1 what is left of them as
 * pairs of words. A bit each for the words and for the bytes that are kept. */
#define MAX_NWORDS (CUDA_PARTITION_MAX_NBYTES / 4)
#define MAX_NPAIRS (MAX_NWORDS / 2)
static_assert(MAX_NWORDS % 64 == 0 && MAX_NPAIRS % 64 == 0,
              "bit maps are whole 64-bit words");

struct expand_shared {
    __align__(16) uint8_t staged[EXPAND_STAGED_NBYTES];
    alignas(8) uint32_t words[MAX_NWORDS / 32]; /* bit maps */
    alignas(8) uint32_t bytes[MAX_NPAIRS / 4];
    alignas(8) uint8_t above[MAX_NPAIRS / 8];
    uint32_t before[MAX_NWORDS / 32 + MAX_NPAIRS / 4];
    typename block_sum<EXPAND_NTHREADS>::TempStorage scan;
};

/* What is kept of a partition. */
struct kept_bytes {
    unsigned nwords; /* of the partition */
    unsigned npairs;
    unsigned nmap; /* words of the map of words; in s.before these are first */
    const uint8_t *bytes;
};

static __device__ __forceinline__ uint32_t
word_of_maps(const struct expand_shared &s, const struct kept_bytes &kept,
             unsigned i)
{
    return i < kept.nmap ? map_word(s.words, kept.nwords, i)
                         : map_word(s.bytes, 8 * kept.npairs, i - kept.nmap);
}

/* Bits set before each word of its map, that of words having `nkept`. Ends with
 * a barrier. */
static __device__ __forceinline__ void
count_maps(struct expand_shared &s, const struct kept_bytes &kept,
           unsigned nkept)
{
    const unsigned n = kept.nmap + (kept.npairs + 3) / 4;
    const unsigned share = (n + EXPAND_NTHREADS - 1) / EXPAND_NTHREADS;
    const unsigned begin = threadIdx.x * share, end = min(begin + share, n);
    unsigned sum = 0, before;

#pragma unroll 1
    for (unsigned i = begin; i < end; i++)
        sum += (unsigned)__popc(word_of_maps(s, kept, i));
    block_sum<EXPAND_NTHREADS>(s.scan).ExclusiveSum(sum, before);
#pragma unroll 1
    for (unsigned i = begin; i < end; i++) {
        s.before[i] = i < kept.nmap ? before : before - nkept;
        before += (unsigned)__popc(word_of_maps(s, kept, i));
    }
    __syncthreads();
}

/* Pair `at` of the words that RRE4 kept: its bytes that are not zero, and TCMS8
 * backwards. */
static __device__ __forceinline__ uint64_t
kept_pair(const struct expand_shared &s, const struct kept_bytes &kept,
          unsigned at)
{
    const uint32_t map = s.bytes[at / 4];
    const unsigned first = 8 * (at % 4), bits = map >> first & 255;
    const uint8_t *from = kept.bytes + s.before[kept.nmap + at / 4] +
                          __popc(map & ((1u << first) - 1));
    uint64_t pair = 0;

#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        if (bits >> i & 1)
            pair |= (uint64_t)*from++ << (8 * i);
    return pair >> 1 ^ (0 - (pair & 1));
}

/* RRE4-TCMS8-RZE1 backwards. A thread makes a word at a time, and finds what
 * it needs by counts of bits. */
static __device__ __forceinline__ bool
expand_partition(struct block_reader *reader, struct expand_shared &s,
                 unsigned nbytes, uint32_t *dst)
{
    struct kept_bytes kept = {};
    unsigned nkept = 0, none;

    kept.nwords = (nbytes + 3) / 4;
    kept.nmap = (kept.nwords + 31) / 32;
    stage_bytes<EXPAND_NTHREADS>(reader, s.staged, EXPAND_STAGED_NBYTES);
    /* First the map of words, then that of the bytes of those that are kept.
     * A loop, for less code. */
    unsigned nbits = kept.nwords;
    uint32_t *map = s.words;
#pragma unroll 1
    for (bool of_words = true;; of_words = false) {
        expand_bitmap<EXPAND_NTHREADS>(reader, (uint8_t *)map, (nbits + 7) / 8,
                                       s.above);
        if (reader->underflow)
            return false;
        unsigned n = count_map(map, nbits, 0, &none);
        if (!of_words) {
            kept.bytes = take_bytes(reader, n);
            break;
        }
        nkept = n;
        kept.npairs = (nkept + 1) / 2;
        nbits = 8 * kept.npairs;
        map = s.bytes;
    }
    if (kept.bytes == nullptr || reader->at != reader->end)
        return false;
    count_maps(s, kept, nkept);
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < kept.nwords; i += EXPAND_NTHREADS) {
        const unsigned n =
            s.before[i / 32] +
            (unsigned)__popc(s.words[i / 32] & ((2u << (i % 32)) - 1));
        uint64_t pair = 0;
        if (n > 0)
            pair = kept_pair(s, kept, (n - 1) / 2);
        dst[i] = n % 2 != 0 ? (uint32_t)pair : (uint32_t)(pair >> 32);
    }
    return true;
}

/* The partition's tiles' bytes in the region `staging`. */
static __device__ __forceinline__ uint8_t *
staged_partition(const struct cuda_batch &batch, uint64_t p)
{
    return region<uint8_t>(batch, blockIdx.y, batch.at.staging) +
           p * CUDA_PARTITION_MAX_NBYTES;
}

static __device__ __forceinline__ bool
has_tiles(const struct cuda_chunk &chunk)
{
    return chunk.coding == TERP_CODING_HUFFMAN ||
           chunk.coding == TERP_CODING_CUSTOM ||
           chunk.coding == TERP_CODING_SPEED;
}

/* Grid (npartitions, nchunks), a block a partition. Others are not reduced and
 * stay where they are. */
static __global__ void
__launch_bounds__(EXPAND_NTHREADS, EXPAND_NBLOCKS)
    expand_partitions(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ struct expand_shared s;
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
    reader.src = (const uint8_t *)chunk.src + chunk.payload_at + begin[0];
    reader.end = begin[1] - begin[0];
    /* Other blocks of this launch may set the status meanwhile. */
    if (__syncthreads_or(chunk.status != TERP_OK) || !has_tiles(chunk) ||
        !reduced)
        return;
    for (int distance = TERP_PARTITION_NTILES / 2; distance > 0; distance /= 2)
        nbytes += __shfl_xor_sync(0xFFFFFFFF, nbytes, distance);
    if (!expand_partition(&reader, s, nbytes,
                          (uint32_t *)staged_partition(batch, p)) &&
        threadIdx.x == 0)
        chunk.status = TERP_ERR_CORRUPT;
}

/* ---- tiles ---- */

#define MANY_TILES_NBLOCKS                              \
    8 /* of a multiprocessor: as many as fit its memory \
       */
/* A block decodes this many, where there are many. */
#define BLOCK_NTILES 4
#ifndef CUDA_MANY_TILES
#define CUDA_MANY_TILES 2048
#endif

#define PLANE_MAX_NBYTES (TERP_TILE_NSYMBOLS / 8)
struct planes_shared {
    __align__(16) uint8_t staged[CUDA_TILE_MAX_NBYTES + 16];
    uint64_t planes[PLANE_MAX_NBYTES];
    uint64_t bitmap[PLANE_MAX_NBYTES / 8];
    uint64_t above[PLANE_MAX_NBYTES / 64];
};

template <unsigned NTHREADS> union tile_shared {
    struct words_shared<NTHREADS> words;
    struct planes_shared planes;
};

/* ---- tiles of bit planes ---- */

/* Transposes the 8x8 bit matrix whose rows are the bytes of a word (Warren,
 * Hacker's Delight, 7-3). */
static __device__ __forceinline__ uint64_t
transpose_8x8(uint64_t m)
{
    uint64_t swap = (m ^ m >> 7) & 0x00AA00AA00AA00AA;
    m ^= swap ^ swap << 7;
    swap = (m ^ m >> 14) & 0x0000CCCC0000CCCC;
    m ^= swap ^ swap << 14;
    swap = (m ^ m >> 28) & 0x00000000F0F0F0F0;
    return m ^ swap ^ swap << 28;
}

/* Four bytes of TCMS1 to codes, each with its sign bit flipped: code + 128. */
static __device__ __forceinline__ uint32_t
flipped_codes(uint32_t tcms)
{
    uint32_t sign = (tcms & 0x01010101) * 255;
    return (tcms >> 1 & 0x7F7F7F7F) ^ sign ^ 0x80808080;
}

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
            note_escapes(batch, chunk, tile * TERP_TILE_NSYMBOLS + 8 * i,
                         escapes);
    }
    return true;
}

/* ---- tiles ---- */

/* What a block needs to know to decode a tile; fetched side by side. */
struct tile_place {
    uint64_t begin; /* of the partition, in the payload */
    uint8_t nonzero, entry, reduced;
    uint16_t nbytes;
    unsigned nbytes_before; /* of the partition's tiles */
};

static __device__ __forceinline__ struct tile_place
find_tile(const struct cuda_batch &batch, uint64_t tile)
{
    const uint64_t p = tile / TERP_PARTITION_NTILES;
    const uint64_t first = p * TERP_PARTITION_NTILES;
    const uint16_t *nbytes =
        region<uint16_t>(batch, blockIdx.y, batch.at.nbytes);
    const uint64_t lane = threadIdx.x % 32;
    struct tile_place place;

    place.begin = region<uint64_t>(batch, blockIdx.y, batch.at.begin)[p];
    place.nonzero = region<uint8_t>(batch, blockIdx.y, batch.at.nonzero)[tile];
    place.entry = region<uint8_t>(batch, blockIdx.y, batch.at.entry)[tile];
    place.reduced = region<uint8_t>(batch, blockIdx.y, batch.at.reduced)[p];
    place.nbytes = nbytes[tile];
    place.nbytes_before = first + lane < tile ? nbytes[first + lane] : 0;
    for (int distance = TERP_PARTITION_NTILES / 2; distance > 0; distance /= 2)
        place.nbytes_before +=
            __shfl_xor_sync(0xFFFFFFFF, place.nbytes_before, distance);
    place.nbytes_before = __shfl_sync(0xFFFFFFFF, place.nbytes_before, 0);
    return place;
}

/* Grid (ntiles / block_ntiles, nchunks), a block some tiles, one after another.
 * Stores whole units of 16 bytes: the region of symbols has room for them. */
template <unsigned NTHREADS>
static __global__ void
__launch_bounds__(NTHREADS,
                  NTHREADS == MANY_TILES_NTHREADS ? MANY_TILES_NBLOCKS : 1)
    decode_tiles(const struct cuda_batch batch, unsigned block_ntiles)
{
    begin_kernel();
    __shared__ union tile_shared<NTHREADS> s;
    __shared__ tile_scan<NTHREADS> s_scan;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const uint64_t first = (uint64_t)blockIdx.x * block_ntiles;
    const uint64_t end = min_u64(first + block_ntiles, batch.ntiles);
    const enum terp_coding coding = chunk.coding;
    const uint8_t *payload = (const uint8_t *)chunk.src + chunk.payload_at;
    const struct cuda_decode_book *book, *staged = nullptr;
    struct tile_place place = find_tile(batch, first);

    /* Other blocks of this launch may set the status meanwhile. */
    if (__syncthreads_or(chunk.status != TERP_OK) || !has_tiles(chunk))
        return;
    for (uint64_t tile = first; tile < end; tile++) {
        const uint64_t left = batch.nvalues - tile * TERP_TILE_NSYMBOLS;
        const unsigned nsymbols = (unsigned)min_u64(TERP_TILE_NSYMBOLS, left);
        uint16_t *symbols =
            region<uint16_t>(batch, blockIdx.y, batch.at.symbols) +
            tile * TERP_TILE_NSYMBOLS;
        bool valid;
        if (tile > first)
            place = find_tile(batch, tile);
        const uint8_t *src =
            (place.reduced
                 ? staged_partition(batch, tile / TERP_PARTITION_NTILES)
                 : payload + place.begin) +
            place.nbytes_before;
        if (!place.nonzero) {
#pragma unroll 1
            for (unsigned i = threadIdx.x; i * UNIT_NSYMBOLS < nsymbols;
                 i += NTHREADS)
                ((uint4 *)symbols)[i] = eight_zero_codes();
            continue;
        }
        __syncthreads(); /* the tile before has left shared memory */
        if (coding == TERP_CODING_SPEED) {
            valid =
                decode_planes<NTHREADS>(batch, chunk, s.planes, s_scan, tile,
                                        src, place.nbytes, symbols, nsymbols);
        } else {
            book = coding == TERP_CODING_HUFFMAN
                       ? batch.tables.d_decode_books + place.entry
                       : region<struct cuda_decode_book>(batch, blockIdx.y,
                                                         batch.at.books);
            valid = decode_words<NTHREADS>(batch, chunk, s.words, s_scan, book,
                                           book != staged, tile, src,
                                           place.nbytes, symbols, nsymbols);
            staged = book;
        }
        if (!valid && threadIdx.x == 0)
            chunk.status = TERP_ERR_CORRUPT;
    }
}

cudaError_t
cuda_tiles_decode(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nchunks = (unsigned)batch->nchunks;
    const unsigned ntiles = (unsigned)batch->ntiles;

    cudaError_t error =
        launch(expand_partitions, dim3((unsigned)batch->npartitions, nchunks),
               dim3(EXPAND_NTHREADS), 0, stream, *batch);
    if (error != cudaSuccess)
        return error;
    if (batch->ntiles * nchunks < CUDA_MANY_TILES)
        return launch(decode_tiles<FEW_TILES_NTHREADS>, dim3(ntiles, nchunks),
                      dim3(FEW_TILES_NTHREADS), 0, stream, *batch, 1u);
    return launch(decode_tiles<MANY_TILES_NTHREADS>,
                  dim3((unsigned)div_up(batch->ntiles, BLOCK_NTILES), nchunks),
                  dim3(MANY_TILES_NTHREADS), 0, stream, *batch,
                  (unsigned)BLOCK_NTILES);
}

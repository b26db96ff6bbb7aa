#include "cuda_stream_small.cuh"

#include "cuda_checksum.cuh"
#include "cuda_head.cuh"
#include "cuda_index.cuh"
#include "cuda_join.cuh"

#define FULL_WARP 0xFFFFFFFF

#define SMALL_NTHREADS 1024
#define SMALL_NTILES (CUDA_FEW_PARTITIONS * TERP_PARTITION_NTILES)
static_assert(SMALL_NTILES / 8 <= CUDA_STORED_NBYTES,
              "a map of so few tiles is stored");
static_assert(SMALL_NTHREADS >= TERP_MAX_FRAME_NBYTES, "a thread a byte");

/* Threads that have a partition. */
#define PART_NTHREADS (SMALL_NTHREADS / CUDA_FEW_PARTITIONS)
#define PART_NWARPS (PART_NTHREADS / 32)

/* A stream this long is put together in shared memory. Of others this is where
 * frame and model are made, and from INDEX_AT on the index. */
#define STREAM_NBYTES (64 << 10)
#define INDEX_AT 512
#define INDEX_MAX_NBYTES (STREAM_NBYTES - INDEX_AT)
static_assert(TERP_MAX_FRAME_NBYTES + 1 + 8 + 2 * TERP_MAX_LEVELS <= INDEX_AT,
              "frame and model");
#define ENTRY_NBITS 7
static_assert(TERP_NENTRIES <= 1 << ENTRY_NBITS, "numbers of entries");
static_assert(TERP_NSYMBOLS + TERP_NENTRIES + 64 * SMALL_NTILES <=
                  INDEX_MAX_NBYTES,
              "an index");

/* So few chunks rehearse. */
#define REHEARSE_MAX_NCHUNKS 64

struct small_shared {
    struct cuda_chunk chunk;
    uint64_t secret[XXH3_TABLE_NWORDS];
    uint64_t sums[(STREAM_NBYTES / XXH3_BLOCK_NBYTES + 1) * XXH3_NLANES];
    struct cuda_partition partition[CUDA_FEW_PARTITIONS]; /* not reduced */
    uint32_t used[USED_NWORDS];                           /* a bit an entry */
    uint32_t numbers[SMALL_NTILES * ENTRY_NBITS / 32 + 1];
    uint32_t lengths[CUDA_FEW_PARTITIONS][9];
    /* speed: of a tile, and where it begins in its partition. */
    uint32_t tile_nbytes[SMALL_NTILES], tile_at[SMALL_NTILES];
};

/* What all partitions have, and what comes before this thread's, the same
 * however they are reduced. */
struct small_index {
    unsigned nfull, full_before;
    unsigned nnonzero, nonzero_before;
    unsigned lengths_nbytes, lengths_before;
    unsigned max_nbytes; /* of the payload */
    unsigned map_nbytes;
    uint64_t model_end, books_at, controls_at;
};

/* Bits that do not cross 64. */
static __device__ __forceinline__ void
put_bits(uint32_t *s_words, unsigned at, uint32_t value)
{
    const uint64_t bits = (uint64_t)value << (at % 32);

    if ((uint32_t)bits != 0)
        atomicOr(&s_words[at / 32], (uint32_t)bits);
    if (bits >> 32 != 0)
        atomicOr(&s_words[at / 32 + 1], (uint32_t)(bits >> 32));
}

/* ---- before partitions are put together ---- */

/* By a warp, whose lane i has tile i of partition p. */
static __device__ __forceinline__ void
measure_partition(const struct cuda_batch &batch, struct small_shared *s,
                  unsigned p, unsigned length, unsigned entry)
{
    const unsigned lane = threadIdx.x % 32, end = length_sum(length);
    const unsigned tiles = __ballot_sync(FULL_WARP, length != 0);
    const unsigned excess = length_excess(batch, p, length);
    unsigned all = excess;

    for (int step = 16; step > 0; step /= 2)
        all |= __shfl_xor_sync(FULL_WARP, all, step);
    const unsigned width = (unsigned)bit_width(all);
    if (lane < TERP_PARTITION_NTILES) {
        s->tile_nbytes[p * TERP_PARTITION_NTILES + lane] = length;
        s->tile_at[p * TERP_PARTITION_NTILES + lane] = end - length;
    }
    if (length != 0) {
        put_bits(s->lengths[p],
                 (unsigned)__popc(tiles & bits_below(lane)) * width, excess);
        if (batch.coding == TERP_CODING_HUFFMAN)
            atomicOr(&s->used[entry / 32], 1u << (entry % 32));
    }
    if (lane == TERP_PARTITION_NTILES - 1)
        s->partition[p] = {end, (uint16_t)tiles, (uint8_t)width, 0};
}

/* Once all are measured. */
static __device__ __forceinline__ struct small_index
index_of(const struct cuda_batch &batch, const struct small_shared *s)
{
    struct small_index index = {};
    const unsigned mine = threadIdx.x / PART_NTHREADS;

#pragma unroll 1
    for (unsigned p = 0; p < CUDA_FEW_PARTITIONS; p++) {
        const struct cuda_partition partition = s->partition[p];
        if (p == mine) {
            index.full_before = index.nfull;
            index.nonzero_before = index.nnonzero;
            index.lengths_before = index.lengths_nbytes;
        }
        const unsigned nnonzero = (unsigned)__popc(partition.tiles);
        index.nfull += nnonzero != 0;
        index.nnonzero += nnonzero;
        index.lengths_nbytes += (nnonzero * partition.width + 7) / 8;
        index.max_nbytes += partition.nbytes;
    }
    index.map_nbytes = (unsigned)div_up(batch.ntiles, 8);
    index.model_end = batch.frame_nbytes + model_nbytes(batch, s->chunk);
    index.books_at = s->chunk.escapes_end + index.map_nbytes;
    index.controls_at = index.books_at;
    if (index.nnonzero > 0)
        index.controls_at += books_nbytes(
            s->chunk.coding, s->used, index.nnonzero,
            region<struct cuda_custom_book>(batch, blockIdx.y, batch.at.books));
    return index;
}

/* Where the stream ends when its payload has so many bytes; where that
 * begins. */
static __device__ __forceinline__ uint64_t
end_of(const struct small_index &index, unsigned payload_nbytes,
       unsigned *offset_nbytes_ret, uint64_t *lengths_at_ret)
{
    const unsigned width = ((unsigned)bit_width(payload_nbytes) + 7) / 8;

    *offset_nbytes_ret = width;
    if (index.nnonzero == 0)
        return index.books_at;
    *lengths_at_ret =
        index.controls_at + index.nfull + 1 + (index.nfull - 1) * width;
    return *lengths_at_ret + index.lengths_nbytes + payload_nbytes;
}

/* The index up to the control bytes, from s_index on. */
static __device__ __forceinline__ void
write_books(const struct cuda_batch &batch, struct small_shared *s,
            const struct small_index &index, unsigned entry, uint8_t *s_index)
{
    const unsigned nused = count_used(s->used, TERP_NENTRIES);
    const unsigned width = (unsigned)bit_width(nused - 1), i = threadIdx.x;
    uint8_t *books = s_index + index.map_nbytes;

    if (i < index.map_nbytes)
        s_index[i] = (uint8_t)(s->partition[i / 2].tiles >> (8 * (i % 2)));
    if (index.nnonzero == 0)
        return;
    if (s->chunk.coding == TERP_CODING_CUSTOM)
        write_custom<SMALL_NTHREADS>(
            region<struct cuda_custom_book>(batch, blockIdx.y, batch.at.books),
            books);
    if (s->chunk.coding != TERP_CODING_HUFFMAN)
        return;
    write_palette(s->used, books);
    const unsigned tile = i % PART_NTHREADS;
    if (tile < TERP_PARTITION_NTILES) {
        const unsigned tiles = s->partition[i / PART_NTHREADS].tiles;
        if (tiles >> tile & 1)
            put_bits(s->numbers,
                     (index.nonzero_before +
                      (unsigned)__popc(tiles & bits_below(tile))) *
                         width,
                     count_used(s->used, entry));
    }
    __syncthreads();
    if (i < (index.nnonzero * width + 7) / 8)
        books[1 + nused + i] = ((const uint8_t *)s->numbers)[i];
}

/* ---- after that ---- */

/* A constant or a raw chunk. */
static __device__ void
write_plain(const struct cuda_batch &batch, struct cuda_chunk &chunk, bool raw)
{
    uint8_t *dst = (uint8_t *)chunk.dst;
    const uint64_t at = batch.frame_nbytes - sizeof chunk.bound;

    __syncthreads(); /* the state changes */
    if (threadIdx.x == 0) {
        if (raw) {
            chunk.coding = TERP_CODING_RAW;
            chunk.prediction = TERP_PREDICTION_NONE;
            chunk.has_specials = false;
            chunk.status = TERP_OK;
        } else {
            store_le(dst + at, chunk.constant_bits, batch.value_nbytes);
        }
        chunk.payload_at = at;
        chunk.stream_nbytes = raw ? batch.raw_nbytes : chunk.specials_end;
        write_frame(batch, chunk, dst);
    }
    if (raw)
        copy_bytes(dst + at, (const uint8_t *)chunk.original,
                   (unsigned)(batch.raw_nbytes - at), threadIdx.x,
                   SMALL_NTHREADS);
    __syncthreads();
    seal_stream<SMALL_NTHREADS, 2>(
        chunk, region<uint64_t>(batch, blockIdx.y, batch.at.staging));
}

/* Grid: x 1, y chunks. All of the stream of a chunk of few partitions but
 * special values and escapes. What does not depend on how partitions are
 * reduced is made while they are put together: the kernel that does so lets
 * this one come when all before it is done. A single chunk then rehearses, as
 * if none was reduced and from shared memory to shared memory, so that the code
 * is at hand when they are. Dynamic shared memory: STREAM_NBYTES. */
static __global__ void
__launch_bounds__(SMALL_NTHREADS)
    write_small_stream(const struct cuda_batch batch)
{
    let_next_kernel_come();
    __shared__ struct small_shared s;
    uint8_t *s_stream = dynamic_shared<uint8_t>();
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned lane = threadIdx.x % 32, i = threadIdx.x % PART_NTHREADS;
    const unsigned p = threadIdx.x / PART_NTHREADS;
    const struct cuda_index_room room = index_room(batch, blockIdx.y);
    unsigned length = 0, entry = 0;

    /* Loads first. */
    static_assert(sizeof s.chunk % 8 == 0 &&
                      sizeof s.chunk / 8 <= SMALL_NTHREADS,
                  "a thread a word");
    if (threadIdx.x < sizeof s.chunk / 8)
        ((uint64_t *)&s.chunk)[threadIdx.x] =
            ((const uint64_t *)&chunk)[threadIdx.x];
    if (i / 32 == 0) {
        const unsigned tile = p * TERP_PARTITION_NTILES + lane;
        length = tile_length(batch, blockIdx.y, p);
        if (lane < TERP_PARTITION_NTILES && tile < batch.ntiles)
            entry = region<uint8_t>(batch, blockIdx.y, batch.at.entry)[tile];
    }
    if (threadIdx.x < sizeof s.numbers / 4)
        s.numbers[threadIdx.x] = 0;
    if (threadIdx.x < sizeof s.lengths / 4)
        s.lengths[0][threadIdx.x] = 0;
    if (threadIdx.x < USED_NWORDS)
        s.used[threadIdx.x] = 0;
    __syncthreads();

    const enum terp_coding coding = s.chunk.coding;
    const bool some =
        s.chunk.status == TERP_OK && coding >= TERP_CODING_HUFFMAN;
    uint8_t *dst = (uint8_t *)s.chunk.dst;
    uint64_t end = 0;
    if (!some) {
        wait_for_kernels();
        bool raw = s.chunk.status == TERP_ERR_CAPACITY;
        if (s.chunk.status == TERP_OK || raw)
            write_plain(batch, chunk,
                        raw || coding == TERP_CODING_RAW ||
                            s.chunk.specials_end >= batch.raw_nbytes);
        return;
    }
    if (i / 32 == 0)
        measure_partition(batch, &s, p, length, entry);
    if (threadIdx.x < batch.frame_nbytes)
        s_stream[threadIdx.x] = frame_byte(batch, s.chunk, threadIdx.x);
    if (p == 1 && i >= PART_NTHREADS - MODEL_NTHREADS)
        write_model(batch, s.chunk, s_stream, (int)(PART_NTHREADS - 1 - i));
    __syncthreads();

    const struct small_index index = index_of(batch, &s);
    unsigned offset_nbytes;
    uint64_t lengths_at = 0;
    const bool fits = end_of(index, index.max_nbytes, &offset_nbytes,
                             &lengths_at) <= STREAM_NBYTES;
    uint8_t *s_index =
        s_stream + (fits ? (unsigned)s.chunk.escapes_end : INDEX_AT);
    if (fits && s.chunk.escapes_end <= batch.raw_nbytes)
#pragma unroll 1
        for (unsigned at = (unsigned)index.model_end + threadIdx.x;
             at < s.chunk.escapes_end; at += SMALL_NTHREADS)
            s_stream[at] = dst[at];
    xxh3_make_secret(load_le(s_stream, TERP_FRAME_CHECKSUM_AT), s.secret);
    write_books(batch, &s, index, entry, s_index);

    /* Of speed tiles are joined, a warp each; of others partitions. */
    const bool is_words = coding != TERP_CODING_SPEED;
    const unsigned first = is_words ? 0 : i / 32;
    const unsigned npieces = is_words ? 1 : TERP_PARTITION_NTILES;
    const unsigned member = is_words ? i : lane;
    const unsigned nmembers = is_words ? PART_NTHREADS : 32;
    const bool rehearses = fits && gridDim.y <= REHEARSE_MAX_NCHUNKS;
#pragma unroll 1
    for (bool last = !rehearses;; last = true) {
        const struct cuda_partition *partition = s.partition;
        const uint8_t *from = s_stream;
        uint8_t *to = s_stream;
        unsigned nbytes = 0, before = 0;

        __syncthreads();
        if (last) {
            wait_for_kernels();
            partition = room.partition;
            from = region<uint8_t>(batch, blockIdx.y, batch.at.staging) +
                   (uint64_t)p * CUDA_PARTITION_MAX_NBYTES +
                   first * CUDA_TILE_MAX_NBYTES;
            to = dst;
        }
        struct five_words five = {};
        if (p < batch.npartitions)
            five = load_five(from, member);
#pragma unroll
        for (unsigned k = 0; k < CUDA_FEW_PARTITIONS; k++) {
            unsigned n = k < batch.npartitions ? partition[k].nbytes : 0;
            before += k < p ? n : 0;
            nbytes += n;
        }
        const unsigned mine = p < batch.npartitions ? partition[p].nbytes : 0;
        const unsigned reduced =
            p < batch.npartitions ? partition[p].reduced : 0;
        end = end_of(index, nbytes, &offset_nbytes, &lengths_at);
        if (last && end >= batch.raw_nbytes)
            break;

        /* What follows the codebooks, where it stands but for `fits`. */
        uint8_t *out = fits ? s_stream : dst;
        if (i / 32 == PART_NWARPS - 1 && s.partition[p].tiles != 0) {
            uint8_t *controls = s_index + index.map_nbytes +
                                (index.controls_at - index.books_at);
            uint8_t *offsets = controls + index.nfull + 1;
            uint8_t *lengths = offsets + (index.nfull - 1) * offset_nbytes +
                               index.lengths_before;
            const unsigned width = s.partition[p].width;
            if (lane < ((unsigned)__popc(s.partition[p].tiles) * width + 7) / 8)
                lengths[lane] = ((const uint8_t *)s.lengths[p])[lane];
            if (index.full_before > 0 && lane < offset_nbytes)
                offsets[(index.full_before - 1) * offset_nbytes + lane] =
                    (uint8_t)((uint64_t)before >> (8 * lane));
            if (lane == 31)
                controls[index.full_before] = (uint8_t)(width | reduced << 7);
            if (lane == 30 && index.full_before == 0)
                controls[index.nfull] = (uint8_t)offset_nbytes;
        }
        uint8_t *payload = out + (end - nbytes) + before;
#pragma unroll 1
        for (unsigned piece = first; piece < npieces; piece += PART_NWARPS) {
            unsigned at = 0, n = mine;
            if (npieces > 1) {
                n = s.tile_nbytes[p * TERP_PARTITION_NTILES + piece];
                at = s.tile_at[p * TERP_PARTITION_NTILES + piece];
            }
            join_bytes(payload + at, from, five, n, member, nmembers);
            from += last ? PART_NWARPS * CUDA_TILE_MAX_NBYTES : 0;
            if (piece + PART_NWARPS < npieces)
                five = load_five(from, member);
        }
        if (!fits) {
            const unsigned index_nbytes =
                (unsigned)(end - nbytes - s.chunk.escapes_end);
            __syncthreads();
            copy_bytes(dst, s_stream, (unsigned)index.model_end, threadIdx.x,
                       SMALL_NTHREADS);
            copy_bytes(dst + s.chunk.escapes_end, s_index, index_nbytes,
                       threadIdx.x, SMALL_NTHREADS);
        }
        __syncthreads();

        /* The checksum, and all else to its place. */
        const uint64_t hashed_nbytes = end - TERP_FRAME_DIMS_AT;
        uint64_t *sums =
            end <= STREAM_NBYTES
                ? s.sums
                : region<uint64_t>(batch, blockIdx.y, batch.at.staging);
        const bool is_long = end > CUDA_SHORT_NBYTES;
        if (is_long)
            sum_blocks(out + TERP_FRAME_DIMS_AT, hashed_nbytes, s.secret,
                       threadIdx.x / 32, SMALL_NTHREADS / 32, sums);
        __syncthreads();
        if (threadIdx.x < 32) {
            uint64_t hash = load_le(s_stream + TERP_FRAME_CHECKSUM_AT, 8);
            if (is_long)
                hash = join_sums<2>(sums, hashed_nbytes, s.secret);
            if (lane < TERP_FRAME_CHECKSUM_AT)
                to[lane] = s_stream[lane];
            else if (lane < TERP_FRAME_DIMS_AT)
                to[lane] =
                    (uint8_t)(hash >> (8 * (lane - TERP_FRAME_CHECKSUM_AT)));
        } else if (fits) {
            copy_bytes(to + TERP_FRAME_DIMS_AT, s_stream + TERP_FRAME_DIMS_AT,
                       (unsigned)hashed_nbytes, threadIdx.x - 32,
                       SMALL_NTHREADS - 32);
        }
        if (last) {
            if (threadIdx.x == 32) {
                chunk.nnonzero = index.nnonzero;
                chunk.payload_at = end - nbytes;
                chunk.stream_nbytes = end;
            }
            return;
        }
    }
    write_plain(batch, chunk, true);
}

cudaError_t
cuda_small_stream_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    cudaError_t error = cudaFuncSetAttribute(
        write_small_stream, cudaFuncAttributeMaxDynamicSharedMemorySize,
        STREAM_NBYTES);
    return error == cudaSuccess
               ? launch(write_small_stream, dim3(1, (unsigned)batch->nchunks),
                        SMALL_NTHREADS, STREAM_NBYTES, stream, *batch)
               : error;
}

#include "gpu/sections/stream_small.cuh"

#include "gpu/block/checksum.cuh"
#include "gpu/block/concatenate.cuh"
#include "gpu/sections/head.cuh"
#include "gpu/sections/index.cuh"

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

struct small_shared {
    struct cuda_chunk chunk;
    uint64_t secret[XXH3_TABLE_NWORDS];
    uint64_t sums[(STREAM_NBYTES / XXH3_BLOCK_NBYTES + 1) * XXH3_NLANES];
    alignas(8) struct cuda_partition partition[CUDA_FEW_PARTITIONS];
    uint32_t used[USED_NWORDS]; /* a bit an entry */
    uint32_t numbers[SMALL_NTILES * ENTRY_NBITS / 32 + 1];
    uint32_t lengths[CUDA_FEW_PARTITIONS][9];
    /* Unless joined: of a tile, and where it begins in its partition. */
    uint32_t tile_nbytes[SMALL_NTILES], tile_at[SMALL_NTILES];
};

/* What all partitions have, and what comes before this thread's. */
struct small_index {
    unsigned nfull, full_before;
    unsigned nnonzero, nonzero_before;
    unsigned lengths_nbytes, lengths_before;
    unsigned payload_nbytes, payload_before;
    unsigned map_nbytes, books_nbytes;
    unsigned offset_nbytes;
    uint64_t end; /* of the stream */
};

/* ---- index ---- */

/* By a warp, whose lane i has tile i of partition p. */
static __device__ __forceinline__ void
note_tiles(const struct cuda_batch &batch, struct small_shared *s, unsigned p,
           unsigned length, unsigned entry)
{
    const unsigned lane = threadIdx.x % 32, end = length_sum(length);
    const unsigned tiles = s->partition[p].tiles;

    if (lane < TERP_PARTITION_NTILES) {
        s->tile_nbytes[p * TERP_PARTITION_NTILES + lane] = length;
        s->tile_at[p * TERP_PARTITION_NTILES + lane] = end - length;
    }
    if (length == 0)
        return;
    put_bits(s->lengths[p],
             (unsigned)__popc(tiles & bits_below(lane)) * s->partition[p].width,
             length_excess(batch, p, length));
    if (terp_coding_selects_entries(batch.coding))
        atomicOr(&s->used[entry / 32], 1u << (entry % 32));
}

static __device__ __forceinline__ unsigned
lengths_nbytes(const struct cuda_partition &partition)
{
    return ((unsigned)__popc(partition.tiles) * partition.width + 7) / 8;
}

/* Once all tiles are noted. */
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
            index.payload_before = index.payload_nbytes;
        }
        index.nfull += partition.tiles != 0;
        index.nnonzero += (unsigned)__popc(partition.tiles);
        index.lengths_nbytes += lengths_nbytes(partition);
        index.payload_nbytes += partition.nbytes;
    }
    index.map_nbytes = (unsigned)div_up(batch.ntiles, 8);
    index.end = s->chunk.escapes_end + index.map_nbytes;
    if (index.nnonzero == 0)
        return index;
    index.books_nbytes =
        (unsigned)books_nbytes(s->chunk.coding, s->used, index.nnonzero,
                               region<struct cuda_custom_codebook>(
                                   batch, blockIdx.y, batch.at.codebook));
    index.offset_nbytes = ((unsigned)bit_width(index.payload_nbytes) + 7) / 8;
    index.end += index.books_nbytes + index.nfull + 1 +
                 (index.nfull - 1) * index.offset_nbytes +
                 index.lengths_nbytes + index.payload_nbytes;
    return index;
}

/* The index from s_index on, but for the numbers of tiles' entries, which are
 * put together. */
static __device__ __forceinline__ void
write_index(struct small_shared *s, const struct small_index &index,
            unsigned entry, uint8_t *s_index)
{
    const unsigned i = threadIdx.x % PART_NTHREADS, lane = threadIdx.x % 32;
    const struct cuda_partition partition =
        s->partition[threadIdx.x / PART_NTHREADS];
    uint8_t *books = s_index + index.map_nbytes;
    uint8_t *controls = books + index.books_nbytes;
    uint8_t *offsets = controls + index.nfull + 1;

    if (threadIdx.x < index.map_nbytes)
        s_index[threadIdx.x] = (uint8_t)(s->partition[threadIdx.x / 2].tiles >>
                                         (8 * (threadIdx.x % 2)));
    if (partition.tiles == 0)
        return;
    if (i / 32 == PART_NWARPS - 1) {
        if (lane < lengths_nbytes(partition))
            offsets[(index.nfull - 1) * index.offset_nbytes +
                    index.lengths_before + lane] =
                ((const uint8_t *)
                     s->lengths[threadIdx.x / PART_NTHREADS])[lane];
        if (index.full_before > 0 && lane < index.offset_nbytes)
            offsets[(index.full_before - 1) * index.offset_nbytes + lane] =
                (uint8_t)((uint64_t)index.payload_before >> (8 * lane));
        if (lane == 31)
            controls[index.full_before] =
                (uint8_t)(partition.width | (unsigned)partition.reduced << 7);
        if (lane == 30 && index.full_before == 0)
            controls[index.nfull] = (uint8_t)index.offset_nbytes;
    }
    if (terp_coding_selects_entries(s->chunk.coding) &&
        i < TERP_PARTITION_NTILES && (partition.tiles >> i & 1)) {
        const unsigned nused = count_used(s->used, TERP_NENTRIES);
        put_bits(s->numbers,
                 (index.nonzero_before +
                  (unsigned)__popc(partition.tiles & bits_below(i))) *
                     (unsigned)bit_width(nused - 1),
                 count_used(s->used, entry));
    }
}

/* The codebooks, once numbers are put together. */
static __device__ __forceinline__ void
write_books(const struct cuda_batch &batch, const struct small_shared *s,
            const struct small_index &index, uint8_t *books)
{
    if (index.nnonzero == 0)
        return;
    if (s->chunk.coding == TERP_CODING_CUSTOM)
        write_custom<SMALL_NTHREADS>(region<struct cuda_custom_codebook>(
                                         batch, blockIdx.y, batch.at.codebook),
                                     books);
    if (!terp_coding_selects_entries(s->chunk.coding))
        return;
    write_palette(s->used, books);
    const unsigned n = 1 + count_used(s->used, TERP_NENTRIES);
    if (threadIdx.x < index.books_nbytes - n)
        books[n + threadIdx.x] = ((const uint8_t *)s->numbers)[threadIdx.x];
}

/* ---- streams ---- */

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
 * special values and escapes. Dynamic shared memory: STREAM_NBYTES. */
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
    /* Of words partitions are joined, of others tiles, a warp each. */
    const bool is_words = terp_coding_reduces(batch.coding);
    const unsigned slot_nbytes = terp_tile_max_nbytes(batch.coding);
    const unsigned first = is_words ? 0 : i / 32;
    const unsigned npieces = is_words ? 1 : TERP_PARTITION_NTILES;
    const unsigned member = is_words ? i : lane;
    const unsigned nmembers = is_words ? PART_NTHREADS : 32;
    const struct cuda_partition *partition =
        index_room(batch, blockIdx.y).partition;
    const uint8_t *from =
        region<uint8_t>(batch, blockIdx.y, batch.at.staging) +
        (uint64_t)(p * TERP_PARTITION_NTILES + first) * slot_nbytes;
    unsigned length = 0, entry = 0;
    struct five_words five = {};

    if (threadIdx.x < sizeof s.numbers / 4)
        s.numbers[threadIdx.x] = 0;
    if (threadIdx.x < sizeof s.lengths / 4)
        ((uint32_t *)s.lengths)[threadIdx.x] = 0;
    if (threadIdx.x < USED_NWORDS)
        s.used[threadIdx.x] = 0;
    if (threadIdx.x >= batch.npartitions && threadIdx.x < CUDA_FEW_PARTITIONS)
        s.partition[threadIdx.x] = {};
    wait_for_kernels();
    /* All that is needed, whether or not the chunk has tiles. */
    static_assert(sizeof s.chunk % 8 == 0 &&
                      sizeof s.chunk / 8 <= SMALL_NTHREADS,
                  "a thread a word");
    if (p < batch.npartitions)
        five = load_five(from, member);
    if (threadIdx.x < sizeof s.chunk / 8)
        copy_async((uint64_t *)&s.chunk + threadIdx.x,
                   (const uint64_t *)&chunk + threadIdx.x);
    const bool is_noted = batch.coding != TERP_CODING_RATIO;
    if (is_noted && threadIdx.x < batch.npartitions)
        copy_async(&s.partition[threadIdx.x], &partition[threadIdx.x]);
    if (i / 32 == 0) {
        const unsigned tile = p * TERP_PARTITION_NTILES + lane;
        if (lane < TERP_PARTITION_NTILES && tile < batch.ntiles)
            entry = region<uint8_t>(batch, blockIdx.y, batch.at.entry)[tile];
        length = tile_length(batch, blockIdx.y, p);
        if (!is_noted && p < batch.npartitions) {
            const struct cuda_partition noted =
                partition_of(batch, p, length, length_sum(length));
            if (lane == 0)
                s.partition[p] = noted;
        }
    }
    wait_async();
    __syncthreads();

    if (s.chunk.status != TERP_OK || s.chunk.coding < TERP_CODING_HUFFMAN) {
        if (s.chunk.status == TERP_OK || s.chunk.status == TERP_ERR_CAPACITY)
            write_plain(batch, chunk,
                        s.chunk.status == TERP_ERR_CAPACITY ||
                            s.chunk.coding == TERP_CODING_RAW ||
                            s.chunk.specials_end >= batch.raw_nbytes);
        return;
    }
    uint8_t *dst = (uint8_t *)s.chunk.dst;
    const unsigned model_end =
        (unsigned)(batch.frame_nbytes + model_nbytes(batch, s.chunk));
    const uint64_t escapes_end = s.chunk.escapes_end;
    uint8_t section = 0; /* this thread's first byte of other stages */
    if (model_end + threadIdx.x < min_u64(escapes_end, batch.raw_nbytes))
        section = dst[model_end + threadIdx.x];
    if (i / 32 == 0)
        note_tiles(batch, &s, p, length, entry);
    if (threadIdx.x < batch.frame_nbytes)
        s_stream[threadIdx.x] = frame_byte(batch, s.chunk, threadIdx.x);
    if (p == 1 && i >= PART_NTHREADS - MODEL_NTHREADS)
        write_model(batch, s.chunk, s_stream, (int)(PART_NTHREADS - 1 - i));
    __syncthreads();

    const struct small_index index = index_of(batch, &s);
    if (index.end >= batch.raw_nbytes) {
        write_plain(batch, chunk, true);
        return;
    }
    const bool fits = index.end <= STREAM_NBYTES;
    const unsigned payload_at = (unsigned)index.end - index.payload_nbytes;
    uint8_t *out = fits ? s_stream : dst;
    uint8_t *s_index = s_stream + (fits ? (unsigned)escapes_end : INDEX_AT);
    write_index(&s, index, entry, s_index);
    uint8_t *payload = out + payload_at + index.payload_before;
#pragma unroll 1
    for (unsigned piece = first; piece < npieces; piece += PART_NWARPS) {
        unsigned at = 0, nbytes = s.partition[p].nbytes;
        if (npieces > 1) {
            nbytes = s.tile_nbytes[p * TERP_PARTITION_NTILES + piece];
            at = s.tile_at[p * TERP_PARTITION_NTILES + piece];
        }
        join_bytes(payload + at, from, five, nbytes, member, nmembers);
        from += PART_NWARPS * slot_nbytes;
        if (piece + PART_NWARPS < npieces && p < batch.npartitions)
            five = load_five(from, member);
    }
    if (fits)
#pragma unroll 1
        for (unsigned at = model_end + threadIdx.x; at < escapes_end;
             at += SMALL_NTHREADS) {
            s_stream[at] = section;
            if (at + SMALL_NTHREADS < escapes_end)
                section = dst[at + SMALL_NTHREADS];
        }
    xxh3_make_secret(load_le(s_stream, TERP_FRAME_CHECKSUM_AT), s.secret);
    __syncthreads();

    write_books(batch, &s, index, s_index + index.map_nbytes);
    __syncthreads();
    if (!fits) {
        copy_bytes(dst, s_stream, model_end, threadIdx.x, SMALL_NTHREADS);
        copy_bytes(dst + escapes_end, s_index,
                   payload_at - (unsigned)escapes_end, threadIdx.x,
                   SMALL_NTHREADS);
        __syncthreads();
    }

    /* The checksum, and all else to its place. */
    const uint64_t hashed_nbytes = index.end - TERP_FRAME_DIMS_AT;
    const bool is_long = index.end > CUDA_SHORT_NBYTES;
    uint64_t *sums =
        fits ? s.sums : region<uint64_t>(batch, blockIdx.y, batch.at.staging);
    if (is_long)
        sum_blocks(out + TERP_FRAME_DIMS_AT, hashed_nbytes, s.secret,
                   threadIdx.x / 32, SMALL_NTHREADS / 32, sums);
    __syncthreads();
    if (threadIdx.x < 32) {
        uint64_t hash = 0;
        if (is_long)
            hash = join_sums<2>(sums, hashed_nbytes, s.secret);
        if (lane < TERP_FRAME_CHECKSUM_AT)
            dst[lane] = s_stream[lane];
        else if (lane < TERP_FRAME_DIMS_AT)
            dst[lane] =
                (uint8_t)(hash >> (8 * (lane - TERP_FRAME_CHECKSUM_AT)));
    } else if (fits) {
        copy_bytes(dst + TERP_FRAME_DIMS_AT, s_stream + TERP_FRAME_DIMS_AT,
                   (unsigned)hashed_nbytes, threadIdx.x - 32,
                   SMALL_NTHREADS - 32);
    }
    if (threadIdx.x == 32)
        chunk.stream_nbytes = index.end;
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

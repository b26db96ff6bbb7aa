/* Writes and seals the stream of a small chunk, by one block. The sections from
 * special values to escapes are in dst already. The block assembles the stream
 * in shared memory, if it fits, and copies it to dst. */
#include "gpu/sections/stream_small.cuh"

#include "gpu/block/checksum.cuh"
#include "gpu/block/concatenate.cuh"
#include "gpu/sections/head.cuh"
#include "gpu/sections/index.cuh"
#include "gpu/sections/low_bits.cuh"

/* Threads of the block, and most tiles of a small chunk. */
#define SMALL_NTHREADS 1024
#define SMALL_NTILES (CUDA_SMALL_CHUNK_NPARTITIONS * TERP_PARTITION_NTILES)
static_assert(
    TERP_PREFIXES_MIN_STREAM_NBYTES + TERP_PREFIXES_NBYTES <= 64 << 10,
    "A stream that loses its table is put together in shared memory.");
static_assert(SMALL_NTILES / 8 <= TERP_BITMAP_STORED_NBYTES,
              "The bit map of a small chunk's tiles is stored.");
static_assert(SMALL_NTHREADS >= CUDA_FRAME_NBYTES,
              "Each byte of the frame has a thread.");

/* Threads and warps for each partition. */
#define PARTITION_NTHREADS (SMALL_NTHREADS / CUDA_SMALL_CHUNK_NPARTITIONS)
#define PARTITION_NWARPS (PARTITION_NTHREADS / 32)

/* Bytes of dynamic shared memory. A stream of up to this many bytes is
 * assembled there. Of a longer stream only frame and model, and from INDEX_AT
 * on the index, are made there; its payload goes to dst at once. */
#define STREAM_NBYTES (64 << 10)
#define INDEX_AT 512
#define INDEX_MAX_NBYTES (STREAM_NBYTES - INDEX_AT)
static_assert(CUDA_FRAME_NBYTES + CUDA_CARRIER_HEAD_MAX_NBYTES +
                      CUDA_HEAD_MAX_NBYTES + 1 + 8 + 2 * TERP_MAX_LEVELS <=
                  INDEX_AT,
              "Frame, head and model end before the index.");
#define ENTRY_NBITS 7
static_assert(TERP_NENTRIES <= 1 << ENTRY_NBITS,
              "An entry's number has no more bits.");
static_assert(TERP_NSYMBOLS + TERP_NENTRIES + 64 * SMALL_NTILES <=
                  INDEX_MAX_NBYTES,
              "The index of a small chunk fits.");

struct small_shared {
    struct cuda_chunk chunk;
    checksum_shared<SMALL_NTHREADS> checksum;
    alignas(8) struct cuda_partition partition[CUDA_SMALL_CHUNK_NPARTITIONS];
    uint32_t used[USED_ENTRIES_NWORDS]; /* a bit an entry */
    uint32_t numbers[SMALL_NTILES * ENTRY_NBITS / 32 + 1];
    uint32_t lengths[CUDA_SMALL_CHUNK_NPARTITIONS][9];
    /* A tile's bytes, and its offset in its partition. */
    uint32_t tile_nbytes[SMALL_NTILES], tile_at[SMALL_NTILES];
    struct terp_prefix prefix[TERP_NPREFIXES];
    unsigned long long prefix_sum[TERP_NPREFIXES];
};

/* Sums over all partitions, and over the partitions before this thread's
 * (_before). A full partition has a tile that is not zero. */
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

/* A warp records the lengths and entries of partition p; lane i has tile i. */
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
    atomicOr(&s->used[entry / 32], 1u << (entry % 32));
}

/* Bytes of the lengths of a partition's tiles. */
static __device__ __forceinline__ unsigned
lengths_nbytes(const struct cuda_partition &partition)
{
    return ((unsigned)__popc(partition.tiles) * partition.width + 7) / 8;
}

/* Finds the sizes of the index's arrays, after all tiles are recorded. */
static __device__ __forceinline__ struct small_index
index_of(const struct cuda_batch &batch, const struct small_shared *s)
{
    struct small_index index = {};
    const unsigned mine = threadIdx.x / PARTITION_NTHREADS;

#pragma unroll 1
    for (unsigned p = 0; p < CUDA_SMALL_CHUNK_NPARTITIONS; p++) {
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
    index.end = index_begin(s->chunk) + index.map_nbytes;
    if (index.nnonzero == 0)
        return index;
    index.books_nbytes =
        (unsigned)books_nbytes(s->chunk.coding, s->used, index.nnonzero, NULL);
    index.offset_nbytes = (unsigned)terp_offset_nbytes(index.payload_nbytes);
    index.end += index.books_nbytes + index.nfull + 1 +
                 (index.nfull - 1) * index.offset_nbytes +
                 index.lengths_nbytes + index.payload_nbytes;
    return index;
}

/* Writes the index to s_index, except codebooks, and packs the numbers of
 * tiles' entries in s->numbers, for write_books. */
static __device__ __forceinline__ void
write_index(struct small_shared *s, const struct small_index &index,
            unsigned entry, uint8_t *s_index)
{
    const unsigned i = threadIdx.x % PARTITION_NTHREADS,
                   lane = threadIdx.x % 32;
    const struct cuda_partition partition =
        s->partition[threadIdx.x / PARTITION_NTHREADS];
    uint8_t *books = s_index + index.map_nbytes;
    uint8_t *controls = books + index.books_nbytes;
    uint8_t *offsets = controls + index.nfull + 1;

    if (threadIdx.x < index.map_nbytes)
        s_index[threadIdx.x] = (uint8_t)(s->partition[threadIdx.x / 2].tiles >>
                                         (8 * (threadIdx.x % 2)));
    if (partition.tiles == 0)
        return;
    if (i / 32 == PARTITION_NWARPS - 1) {
        if (lane < lengths_nbytes(partition))
            offsets[(index.nfull - 1) * index.offset_nbytes +
                    index.lengths_before + lane] =
                ((const uint8_t *)
                     s->lengths[threadIdx.x / PARTITION_NTHREADS])[lane];
        if (index.full_before > 0 && lane < index.offset_nbytes)
            offsets[(index.full_before - 1) * index.offset_nbytes + lane] =
                (uint8_t)((uint64_t)index.payload_before >> (8 * lane));
        if (lane == 31)
            controls[index.full_before] =
                terp_partition_control(partition.width, partition.reduced);
        if (lane == 30 && index.full_before == 0)
            controls[index.nfull] = (uint8_t)index.offset_nbytes;
    }
    if (i < TERP_PARTITION_NTILES && (partition.tiles >> i & 1)) {
        const unsigned nused = count_used(s->used, TERP_NENTRIES);
        put_bits(s->numbers,
                 (index.nonzero_before +
                  (unsigned)__popc(partition.tiles & bits_below(i))) *
                     (unsigned)bit_width(nused - 1),
                 count_used(s->used, entry));
    }
}

/* Writes the codebooks, after a barrier behind write_index. */
static __device__ __forceinline__ void
write_books(const struct small_shared *s, const struct small_index &index,
            uint8_t *books)
{
    if (index.nnonzero == 0)
        return;
    write_palette(s->used, books);
    const unsigned n = 1 + count_used(s->used, TERP_NENTRIES);
    if (threadIdx.x < index.books_nbytes - n)
        books[n + threadIdx.x] = ((const uint8_t *)s->numbers)[threadIdx.x];
}

/* ---- streams ---- */

/* Writes and seals a constant chunk. A raw one has no stream. */
static __device__ void
write_plain(const struct cuda_batch &batch, struct cuda_chunk &chunk, bool raw)
{
    uint8_t *dst = (uint8_t *)chunk.dst;

    __syncthreads(); /* all threads have read the state, which now changes */
    if (threadIdx.x == 0 && raw) {
        set_raw(batch, chunk);
    } else if (threadIdx.x == 0) {
        write_constant(batch, chunk, dst);
        chunk.stream_nbytes = chunk.specials_end;
        write_frame(batch, chunk, dst);
    }
    if (raw)
        return;
    __syncthreads();
    seal_stream<SMALL_NTHREADS>(chunk);
}

/* The thread's share of copying the payload: pieces of partition `p`. A piece
 * is the whole partition, copied by all of its threads, if the coding
 * concatenates tiles; else it is a tile in its slot, copied by a warp. */
struct payload_share {
    unsigned p, thread; /* of the partition's threads */
    unsigned first, npieces;
    unsigned member, nmembers; /* number among the threads of a piece */
    unsigned slot_nbytes;
    const uint8_t *from;
};

static __device__ __forceinline__ struct payload_share
share_of(const struct cuda_batch &batch)
{
    const bool is_whole = terp_coding_reduces(batch.coding);
    struct payload_share share;

    share.p = threadIdx.x / PARTITION_NTHREADS;
    share.thread = threadIdx.x % PARTITION_NTHREADS;
    share.slot_nbytes = terp_tile_max_nbytes(batch.coding);
    share.first = is_whole ? 0 : share.thread / 32;
    share.npieces = is_whole ? 1 : TERP_PARTITION_NTILES;
    share.member = is_whole ? share.thread : threadIdx.x % 32;
    share.nmembers = is_whole ? PARTITION_NTHREADS : 32;
    share.from = region<uint8_t>(batch, batch.at.staging) +
                 (uint64_t)(share.p * TERP_PARTITION_NTILES + share.first) *
                     share.slot_nbytes;
    return share;
}

/* Data that a thread loads before it knows the chunk's coding. */
struct small_loads {
    struct five_words five; /* of its first piece */
    unsigned length, entry; /* first warp of a partition: of the lane's tile */
};

static __device__ __forceinline__ void
clear_shared(const struct cuda_batch &batch, struct small_shared *s)
{
    if (threadIdx.x < sizeof s->numbers / 4)
        s->numbers[threadIdx.x] = 0;
    if (threadIdx.x < sizeof s->lengths / 4)
        ((uint32_t *)s->lengths)[threadIdx.x] = 0;
    if (threadIdx.x < USED_ENTRIES_NWORDS)
        s->used[threadIdx.x] = 0;
    if (threadIdx.x < TERP_NPREFIXES)
        s->prefix_sum[threadIdx.x] = 0;
    if (threadIdx.x >= batch.npartitions &&
        threadIdx.x < CUDA_SMALL_CHUNK_NPARTITIONS)
        s->partition[threadIdx.x] = {};
}

/* Loads all data at once, whether or not the chunk has tiles; copies state and
 * partitions to shared memory. Ends with a barrier. */
static __device__ __forceinline__ struct small_loads
load_chunk(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
           const struct payload_share &share, struct small_shared *s)
{
    const unsigned lane = threadIdx.x % 32, p = share.p;
    const struct cuda_partition *partition =
        index_scratch(batch, blockIdx.y).partition;
    struct small_loads loads = {};

    static_assert(sizeof s->chunk % 8 == 0 &&
                      sizeof s->chunk / 8 <= SMALL_NTHREADS,
                  "Each thread copies a word of the state.");
    if (p < batch.npartitions)
        loads.five = load_five(share.from, share.member);
    if (threadIdx.x < sizeof s->chunk / 8)
        copy_async((uint64_t *)&s->chunk + threadIdx.x,
                   (const uint64_t *)&chunk + threadIdx.x);
    /* No stage has recorded the partitions of ratio streams. */
    const bool is_noted = batch.coding != TERP_CODING_RATIO;
    if (is_noted && threadIdx.x < batch.npartitions)
        copy_async(&s->partition[threadIdx.x], &partition[threadIdx.x]);
    if (share.thread / 32 == 0) {
        const unsigned tile = p * TERP_PARTITION_NTILES + lane;
        if (lane < TERP_PARTITION_NTILES && tile < batch.ntiles)
            loads.entry = region<uint8_t>(batch, batch.at.entry)[tile];
        loads.length = tile_length(batch, p);
        if (!is_noted && p < batch.npartitions) {
            const struct cuda_partition noted =
                partition_of(batch, p, loads.length, length_sum(loads.length));
            if (lane == 0)
                s->partition[p] = noted;
        }
    }
    wait_async();
    __syncthreads();
    return loads;
}

/* Copies the thread's share of the payload; its partition begins at
 * `payload`. */
static __device__ __forceinline__ void
write_payload(const struct cuda_batch &batch, const struct small_shared *s,
              const struct payload_share &share, struct five_words five,
              uint8_t *payload)
{
    const uint8_t *from = share.from;

#pragma unroll 1
    for (unsigned piece = share.first; piece < share.npieces;
         piece += PARTITION_NWARPS) {
        unsigned at = 0, nbytes = s->partition[share.p].nbytes;
        if (share.npieces > 1) {
            nbytes = s->tile_nbytes[share.p * TERP_PARTITION_NTILES + piece];
            at = s->tile_at[share.p * TERP_PARTITION_NTILES + piece];
        }
        concatenate_bytes(payload + at, from, five, nbytes, share.member,
                          share.nmembers);
        from += PARTITION_NWARPS * share.slot_nbytes;
        if (piece + PARTITION_NWARPS < share.npieces &&
            share.p < batch.npartitions)
            five = load_five(from, share.member);
    }
}

/* Copies the sections that other stages have written to dst into the stream in
 * shared memory. `loaded` is the thread's first byte. */
static __device__ __forceinline__ void
fetch_sections(uint8_t *s_stream, const uint8_t *dst, unsigned model_end,
               uint64_t escapes_end, uint8_t loaded)
{
#pragma unroll 1
    for (unsigned at = model_end + threadIdx.x; at < escapes_end;
         at += SMALL_NTHREADS) {
        s_stream[at] = loaded;
        if (at + SMALL_NTHREADS < escapes_end)
            loaded = dst[at + SMALL_NTHREADS];
    }
}

/* Writes the low bits of all tiles. Few chunks have low bits, so it is not
 * inlined. */
static __device__ __attribute__((noinline)) void
write_section(struct low_bits_view view, uint64_t records_nbytes,
              uint8_t *section)
{
#pragma unroll 1
    for (unsigned tile = threadIdx.x / 32; tile < view.ntiles;
         tile += SMALL_NTHREADS / 32)
        write_low_bits(view, records_nbytes, tile, section);
}

/* Records the length of each prefix: thread 0 of the partition with the
 * prefix's last tile does so. The thread's partition begins at `begin`. */
static __device__ __forceinline__ void
note_prefixes(const struct cuda_batch &batch, struct small_shared *s,
              const struct payload_share &share, unsigned begin)
{
#pragma unroll 1
    for (int i = 0; i < TERP_NPREFIXES; i++) {
        const unsigned tile = (unsigned)batch.encoding.prefix_ntiles[i] - 1;
        const struct cuda_partition partition = s->partition[share.p];
        if (tile / TERP_PARTITION_NTILES == share.p && share.thread == 0)
            s->prefix[i].nbytes = terp_prefix_nbytes(
                begin + (partition.reduced
                             ? partition.nbytes
                             : s->tile_at[tile] + s->tile_nbytes[tile]));
    }
}

/* Writes the table of prefixes of the stream in `out`. It is not inlined, to
 * leave registers to other code. Ends with a barrier. */
static __device__ __attribute__((noinline)) void
add_prefixes(struct small_shared *s, uint8_t *out, uint64_t frame_nbytes)
{
    sum_prefixes<SMALL_NTHREADS>(out, s->prefix, &s->checksum, s->prefix_sum);
    if (threadIdx.x < TERP_NPREFIXES)
        s->prefix[threadIdx.x].checksum =
            terp_prefix_checksum(s->prefix_sum[threadIdx.x]);
    __syncthreads();
    write_prefixes(s->prefix, out + frame_nbytes);
    __syncthreads();
}

/* Computes the checksum of the stream in `out` and completes the stream in dst:
 * the first warp writes the bytes before the dims, with the checksum; the other
 * warps copy the rest if the stream is in shared memory (`fits`). */
static __device__ __forceinline__ void
seal_and_store(struct small_shared *s, const uint8_t *s_stream,
               const uint8_t *out, uint64_t end, bool fits, uint8_t *dst)
{
    const unsigned lane = threadIdx.x % 32;
    const uint64_t hashed_nbytes = end - TERP_FRAME_DIMS_AT;
    uint64_t hash = 0;

    if (end > CUDA_SHORT_NBYTES)
        hash = sum_pieces<SMALL_NTHREADS>(out + TERP_FRAME_DIMS_AT,
                                          hashed_nbytes, 0, 1, &s->checksum);
    if (threadIdx.x < 32) {
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
}

/* Writes and seals streams. Grid: (1, chunks). A quarter of the threads has a
 * partition. Shared: STREAM_NBYTES, dynamic, and struct small_shared. Barriers
 * separate loading, recording tiles, writing index and payload, codebooks and
 * checksum. */
static __global__ void
__launch_bounds__(SMALL_NTHREADS)
    write_small_stream(const struct cuda_batch batch)
{
    let_next_kernel_come();
    __shared__ struct small_shared s;
    uint8_t *s_stream = dynamic_shared<uint8_t>();
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const struct payload_share share = share_of(batch);

    clear_shared(batch, &s);
    wait_for_kernels();
    const struct small_loads loads = load_chunk(batch, chunk, share, &s);
    if (s.chunk.status != TERP_OK || s.chunk.coding < TERP_CODING_HUFFMAN) {
        if (s.chunk.status == TERP_OK || s.chunk.status == TERP_ERR_CAPACITY)
            write_plain(batch, chunk,
                        s.chunk.status == TERP_ERR_CAPACITY ||
                            s.chunk.coding == TERP_CODING_RAW ||
                            s.chunk.specials_end >= batch.raw_nbytes);
        return;
    }
    uint8_t *dst = (uint8_t *)s.chunk.dst;
    const unsigned model_end = (unsigned)s.chunk.model_end;
    const uint64_t escapes_end = s.chunk.escapes_end;
    uint8_t section = 0; /* the thread's first byte of sections in dst */
    if (model_end + threadIdx.x < min_u64(escapes_end, batch.raw_nbytes))
        section = dst[model_end + threadIdx.x];
    if (share.thread / 32 == 0)
        note_tiles(batch, &s, share.p, loads.length, loads.entry);
    if (threadIdx.x < batch.frame_nbytes)
        s_stream[threadIdx.x] = frame_byte(batch, s.chunk, threadIdx.x);
    if (share.p == 1 && share.thread >= PARTITION_NTHREADS - MODEL_NTHREADS)
        write_model(batch, s.chunk, s_stream,
                    (int)(PARTITION_NTHREADS - 1 - share.thread));
    __syncthreads();

    const struct small_index index = index_of(batch, &s);
    if (index.end >= batch.raw_nbytes) {
        write_plain(batch, chunk, true);
        return;
    }
    const bool fits = index.end <= STREAM_NBYTES;
    const unsigned payload_at = (unsigned)index.end - index.payload_nbytes;
    uint8_t *out = fits ? s_stream : dst;
    const unsigned index_at = (unsigned)index_begin(s.chunk);
    uint8_t *s_index = s_stream + (fits ? index_at : INDEX_AT);
    write_index(&s, index, loads.entry, s_index);
    write_payload(batch, &s, share, loads.five,
                  out + payload_at + index.payload_before);
    if (s.chunk.low_bits_nbytes > 0)
        write_section(low_bits_of(batch), s.chunk.low_records_nbytes,
                      out + escapes_end);
    if (fits)
        fetch_sections(s_stream, dst, model_end, escapes_end, section);
    const bool has_prefixes = cuda_prefixes_nbytes(batch, s.chunk) > 0;
    const bool drops = has_prefixes && prefixes_are_dropped(index.end);
    uint64_t seed = load_le(s_stream, TERP_FRAME_CHECKSUM_AT);
    if (drops)
        seed &=
            ~((uint64_t)TERP_FRAME_PREFIXES << (8 * TERP_FRAME_PREDICTION_AT));
    xxh3_make_secret(seed, s.checksum.secret);
    if (has_prefixes)
        note_prefixes(batch, &s, share, payload_at + index.payload_before);
    __syncthreads();

    write_books(&s, index, s_index + index.map_nbytes);
    __syncthreads();
    if (!fits) {
        copy_bytes(dst, s_stream, model_end, threadIdx.x, SMALL_NTHREADS);
        copy_bytes(dst + index_at, s_index, payload_at - index_at, threadIdx.x,
                   SMALL_NTHREADS);
        __syncthreads();
    }
    uint64_t end = index.end;
    if (drops)
        end = drop_prefixes<SMALL_NTHREADS>(out, batch.frame_nbytes, end);
    else if (has_prefixes)
        add_prefixes(&s, out, batch.frame_nbytes);
    seal_and_store(&s, s_stream, out, end, fits, dst);
    if (threadIdx.x == 32)
        chunk.stream_nbytes = end;
}

cudaError_t
cuda_small_stream_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_shared(batch, stream, write_small_stream, 1, SMALL_NTHREADS,
                         STREAM_NBYTES);
}

/* Writes the parts of a stream before and behind its sections: frame, model,
 * index and codebooks by one block, and the payload by a block for each
 * partition. gpu/sections/stream_small.cu does so for small chunks. */
#include "gpu/block/concatenate.cuh"
#include "gpu/sections/head.cuh"
#include "gpu/sections/index.cuh"
#include "gpu/sections/signs.cuh"
#include "gpu/sections/stream_small.cuh"

/* Threads of the block that writes all but the payload. */
#define HEAD_NTHREADS 1024

/* ---- index ---- */

/* Sums over some partitions. A device's memory holds fewer than 2^24
 * partitions, so 32 bits suffice. A full partition has a tile that is not zero.
 */
typedef struct cuda_partition_prefix index_sums;

static __device__ __forceinline__ index_sums
sums_of(const struct cuda_partition &partition)
{
    uint32_t nnonzero = (uint32_t)__popc(partition.tiles);
    return {partition.nbytes, (nnonzero * partition.width + 7) / 8,
            partition.tiles != 0, nnonzero};
}

static __device__ __forceinline__ void
add_sums(index_sums *to, const index_sums &other)
{
    to->payload_nbytes += other.payload_nbytes;
    to->lengths_nbytes += other.lengths_nbytes;
    to->nfull += other.nfull;
    to->nnonzero += other.nnonzero;
}

static __device__ __forceinline__ index_sums
shuffle_sums(const index_sums &sums, unsigned from)
{
    return {__shfl_sync(FULL_WARP_MASK, sums.payload_nbytes, (int)from),
            __shfl_sync(FULL_WARP_MASK, sums.lengths_nbytes, (int)from),
            __shfl_sync(FULL_WARP_MASK, sums.nfull, (int)from),
            __shfl_sync(FULL_WARP_MASK, sums.nnonzero, (int)from)};
}

/* The sums over this lane and the lanes before it. */
static __device__ index_sums
scan_sums(index_sums sums)
{
    const unsigned lane = threadIdx.x % 32;

#pragma unroll 1
    for (unsigned step = 1; step < 32; step *= 2) {
        index_sums below = shuffle_sums(sums, lane - step);
        if (lane >= step)
            add_sums(&sums, below);
    }
    return sums;
}

/* The most partitions of a chunk that has its bit map, the levels above the
 * map, and the entry numbers in shared memory: about 40 KB. A chunk of more
 * partitions has them in scratch memory. */
#define SHARED_NPARTITIONS 2048
#define SHARED_MAP_NBYTES (SHARED_NPARTITIONS * TERP_PARTITION_NTILES / 8)
#define SHARED_TOWER_NWORDS                                                  \
    (level_nwords(SHARED_MAP_NBYTES) + level_nwords(SHARED_MAP_NBYTES / 8) + \
     level_nwords(SHARED_MAP_NBYTES / 64))
static_assert(SHARED_MAP_NBYTES / 512 <= TERP_BITMAP_STORED_NBYTES,
              "SHARED_TOWER_NWORDS must count all levels of a map.");

struct head_shared {
    block_scan<unsigned, HEAD_NTHREADS> scan;
    index_sums warps[HEAD_NTHREADS / 32];
    uint32_t used[USED_ENTRIES_NWORDS]; /* a bit an entry */
    uint8_t number[TERP_NENTRIES];      /* of an entry among those in use */
    alignas(8) uint16_t map[SHARED_NPARTITIONS];
    alignas(8) uint32_t tower[2 * SHARED_TOWER_NWORDS];
    alignas(8) uint8_t numbers[SHARED_NPARTITIONS * TERP_PARTITION_NTILES];
};
static_assert(HEAD_NTHREADS / 32 == 32,
              "A warp has a lane for the sums of each warp.");

/* The index in memory, and the offsets of its arrays in the stream. All threads
 * have the same, except `before`, `first` and `end`. */
struct index {
    struct cuda_index_scratch scratch;
    const uint8_t *entry;
    const struct cuda_custom_codebook *book;
    uint8_t *numbers;        /* of the entry of each tile that is not zero */
    uint16_t *map;           /* bit map of tiles, padded to 8 bytes */
    struct cuda_tower tower; /* the map and the levels above it */
    index_sums all;          /* over all partitions */
    index_sums before;       /* over the partitions before this thread's */
    unsigned first, end;     /* this thread's partitions */
    uint64_t books_at, books_nbytes, controls_at, lengths_at;
    unsigned offset_nbytes;
};

/* Sets the index's pointers and the thread's partitions. */

static __device__ struct index
index_of(const struct cuda_batch &batch, struct head_shared *s)
{
    struct index index = {};
    const unsigned npartitions = (unsigned)batch.npartitions;
    const unsigned share = (npartitions + HEAD_NTHREADS - 1) / HEAD_NTHREADS;
    uint32_t *words = s->tower;

    static_assert(sizeof(struct cuda_index_layout) +
                          sizeof(struct cuda_partition_prefix) +
                          sizeof(struct cuda_partition) <=
                      4 * TERP_NENTRIES,
                  "A partition's facts must fit where one tile's cost was.");
    static_assert(sizeof(struct cuda_partition_prefix) +
                          sizeof(struct cuda_partition) +
                          TERP_PARTITION_NTILES + 2 + 4 * 8 <=
                      4 * TERP_NENTRIES,
                  "Map and numbers must fit where other tiles' costs were.");
    index.scratch = index_scratch(batch, blockIdx.y);
    index.entry = region<uint8_t>(batch, batch.at.entry);
    index.book = region<struct cuda_custom_codebook>(batch, batch.at.codebook);
    index.first = min(threadIdx.x * share, npartitions);
    index.end = min(index.first + share, npartitions);
    index.map = s->map;
    index.numbers = s->numbers;
    if (npartitions > SHARED_NPARTITIONS) {
        index.numbers = index.scratch.rest;
        index.map =
            (uint16_t *)(index.numbers + npartitions * TERP_PARTITION_NTILES);
        words = (uint32_t *)index.map + (npartitions + 3) / 4 * 2;
    }
    index.tower =
        tower_of(index.map, (unsigned)div_up(batch.ntiles, 8), &words);
    return index;
}

/* Partitions that a thread loads at once, with the entries of their tiles. Two
 * hide some latency and need few registers. */
#define LOAD_NPARTITIONS 2
static_assert(TERP_PARTITION_NTILES == 16,
              "A word has the entries of eight tiles, a load those of 16.");

struct loaded_partition {
    struct cuda_partition partition;
    uint64_t entries[2];
};

/* Loads the thread's partitions from `first` on; partitions that do not exist
 * get no tiles. */
static __device__ __forceinline__ void
load_partitions(const struct index &index, unsigned first,
                struct loaded_partition loaded[LOAD_NPARTITIONS])
{
#pragma unroll
    for (unsigned k = 0; k < LOAD_NPARTITIONS; k++) {
        loaded[k] = {};
        if (first + k >= index.end)
            continue;
        loaded[k].partition = index.scratch.partition[first + k];
        const ulonglong2 entries = ((const ulonglong2 *)index.entry)[first + k];
        loaded[k].entries[0] = entries.x;
        loaded[k].entries[1] = entries.y;
    }
}

/* The entry of tile `i` of a partition. */
static __device__ __forceinline__ unsigned
entry_of_tile(const struct loaded_partition &loaded, unsigned i)
{
    return (unsigned)(loaded.entries[i / 8] >> (8 * (i % 8)) & 0xFF);
}

/* Marks the entries that a partition's tiles use. */
static __device__ __forceinline__ void
mark_entries(const struct loaded_partition &loaded, struct head_shared *s)
{
#pragma unroll
    for (unsigned i = 0; i < TERP_PARTITION_NTILES; i++) {
        const unsigned entry = entry_of_tile(loaded, i);
        if (loaded.partition.tiles >> i & 1 &&
            (s->used[entry / 32] >> (entry % 32) & 1) == 0)
            atomicOr(&s->used[entry / 32], 1u << (entry % 32));
    }
}

/* Finds the bit map of tiles, the entries in use, and the sums over partitions.
 * A thread has consecutive partitions. All threads call it together; one
 * barrier. */
static __device__ void
measure_partitions(const struct cuda_batch &batch, struct index *index,
                   struct head_shared *s)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    index_sums mine = {0, 0, 0, 0};

#pragma unroll 1
    for (unsigned p = index->first; p < index->end; p += LOAD_NPARTITIONS) {
        struct loaded_partition loaded[LOAD_NPARTITIONS];
        load_partitions(*index, p, loaded);
#pragma unroll
        for (unsigned k = 0; k < LOAD_NPARTITIONS; k++) {
            if (terp_coding_selects_entries(batch.coding))
                mark_entries(loaded[k], s);
            if (p + k < index->end)
                index->map[p + k] = loaded[k].partition.tiles;
            add_sums(&mine, sums_of(loaded[k].partition));
        }
    }
    index_sums sums = scan_sums(mine);
    if (lane == 31)
        s->warps[warp] = sums;
    __syncthreads();
    index_sums of_warps = scan_sums(s->warps[lane]);
    index->all = shuffle_sums(of_warps, 31);
    index->before = {0, 0, 0, 0};
    index_sums warps_before = shuffle_sums(of_warps, warp - 1);
    if (warp > 0)
        add_sums(&index->before, warps_before);
    index_sums lanes_before = shuffle_sums(sums, lane - 1);
    if (lane > 0)
        add_sums(&index->before, lanes_before);
}

/* Finds the offsets of the index's arrays. Returns where the stream ends. */
static __device__ uint64_t
place_index(const struct cuda_chunk &chunk, struct index *index,
            const struct head_shared *s)
{
    const index_sums &all = index->all;

    index->books_at = index_begin(chunk) + tower_nbytes(index->tower);
    if (all.nnonzero == 0)
        return index->books_at;
    index->books_nbytes =
        books_nbytes(chunk.coding, s->used, all.nnonzero, index->book);
    index->controls_at = index->books_at + index->books_nbytes;
    index->offset_nbytes = (unsigned)terp_offset_nbytes(all.payload_nbytes);
    index->lengths_at = index->controls_at + all.nfull + 1 +
                        (uint64_t)(all.nfull - 1) * index->offset_nbytes;
    return index->lengths_at + all.lengths_nbytes + all.payload_nbytes;
}

/* Writes the sums before each partition to scratch memory, and the numbers of
 * tiles' entries to index.numbers. */
static __device__ void
place_partitions(const struct index &index, bool selects_entries,
                 const struct head_shared *s)
{
    index_sums before = index.before;

#pragma unroll 1
    for (unsigned p = index.first; p < index.end; p += LOAD_NPARTITIONS) {
        struct loaded_partition loaded[LOAD_NPARTITIONS];
        load_partitions(index, p, loaded);
#pragma unroll
        for (unsigned k = 0; k < LOAD_NPARTITIONS; k++) {
            uint8_t *to = index.numbers + before.nnonzero;
            if (p + k < index.end)
                index.scratch.prefix[p + k] = before;
#pragma unroll
            for (unsigned i = 0; i < TERP_PARTITION_NTILES; i++)
                if (selects_entries && loaded[k].partition.tiles >> i & 1)
                    *to++ = s->number[entry_of_tile(loaded[k], i)];
            add_sums(&before, sums_of(loaded[k].partition));
        }
    }
}

/* Packs the numbers of entries. A thread has eight, which take as many bytes as
 * one number has bits. */
static __device__ void
write_numbers(const struct index &index, unsigned nused, uint8_t *dst)
{
    const unsigned nnonzero = index.all.nnonzero;
    const unsigned width = (unsigned)bit_width(nused - 1);

#pragma unroll 1
    for (unsigned i = 8 * threadIdx.x; i < nnonzero && width > 0;
         i += 8 * HEAD_NTHREADS) {
        const unsigned n = min(8u, nnonzero - i);
        const uint64_t numbers = *(const uint64_t *)(index.numbers + i);
        uint64_t packed = 0;
#pragma unroll 1
        for (unsigned k = 0; k < n; k++)
            packed |= (numbers >> (8 * k) & 0xFF) << (k * width);
        store_le(dst + i / 8 * width, packed, (int)(n * width + 7) / 8);
    }
}

/* Writes bit map, codebooks and the offsets' width; write_payload writes the
 * rest of the index. Also sets payload_at and stream_nbytes. False, and nothing
 * is written: the stream would not be shorter than a raw one. All threads call
 * it together. */
static __device__ bool
write_index(const struct cuda_batch &batch, struct cuda_chunk &chunk,
            struct head_shared *s)
{
    uint8_t *dst = (uint8_t *)chunk.dst;
    struct index index = index_of(batch, s);

    if (threadIdx.x < USED_ENTRIES_NWORDS)
        s->used[threadIdx.x] = 0;
    __syncthreads();
    measure_partitions(batch, &index, s);
    tower_build<HEAD_NTHREADS>(&index.tower, s->scan);
    uint64_t end = place_index(chunk, &index, s);
    if (end >= batch.raw_nbytes)
        return false;
    tower_store<HEAD_NTHREADS>(index.tower, dst + index_begin(chunk));
    const bool selects_entries = terp_coding_selects_entries(chunk.coding);
    if (selects_entries && threadIdx.x < TERP_NENTRIES)
        s->number[threadIdx.x] = (uint8_t)count_used(s->used, threadIdx.x);
    __syncthreads();
    /* Even without full partitions: note_prefixes needs the sums. */
    place_partitions(index, selects_entries, s);
    if (index.all.nnonzero > 0) {
        uint8_t *books = dst + index.books_at;
        if (chunk.coding == TERP_CODING_CUSTOM)
            write_custom<HEAD_NTHREADS>(index.book, books);
        if (selects_entries) {
            unsigned nused = count_used(s->used, TERP_NENTRIES);
            write_palette(s->used, books);
            __syncthreads();
            write_numbers(index, nused, books + 1 + nused);
        }
    }
    if (threadIdx.x == 0) {
        chunk.payload_at = end - index.all.payload_nbytes;
        chunk.stream_nbytes = end;
        *index.scratch.layout = {index.controls_at, index.lengths_at,
                                 index.all.nfull, index.offset_nbytes};
        if (index.all.nnonzero > 0)
            dst[index.controls_at + index.all.nfull] =
                (uint8_t)index.offset_nbytes;
    }
    return true;
}

/* Writes frame, model and index, or a constant chunk. A raw one has no stream.
 */
static __device__ __forceinline__ void
write_head(const struct cuda_batch &batch, struct cuda_chunk &chunk)
{
    __shared__ struct head_shared s_head;
    uint8_t *dst = (uint8_t *)chunk.dst;
    enum terp_status status = chunk.status;
    enum terp_coding coding = chunk.coding;
    bool raw = status == TERP_ERR_CAPACITY;

    if (status != TERP_OK && !raw)
        return;
    if (!raw && coding == TERP_CODING_CONSTANT)
        raw = chunk.specials_end >= batch.raw_nbytes;
    else if (!raw)
        raw = !write_index(batch, chunk, &s_head);
    __syncthreads(); /* all threads have read the state, which now changes */
    /* The last threads have the fewest partitions, so they do the rest. */
    const unsigned i = HEAD_NTHREADS - 1 - threadIdx.x;
    if (!raw && coding != TERP_CODING_CONSTANT) {
        write_model(batch, chunk, dst, (int)i);
        if (i >= MODEL_NTHREADS && i - MODEL_NTHREADS < batch.frame_nbytes)
            dst[i - MODEL_NTHREADS] =
                frame_byte(batch, chunk, i - MODEL_NTHREADS);
        return;
    }
    if (i != 0)
        return;
    if (raw) {
        set_raw(batch, chunk);
        return;
    }
    chunk.payload_at = write_frame(batch, chunk, dst);
    write_constant(batch, chunk, dst);
    chunk.stream_nbytes = chunk.specials_end;
}

/* ---- payload ---- */

/* Threads of a block that writes a partition's payload. */
#define PAYLOAD_NTHREADS 256

/* A warp writes a partition's control byte, offset and lengths to the index.
 * Lane i has tile i. */
static __device__ void
write_partition(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
                const struct cuda_partition &partition,
                const struct cuda_partition_prefix &prefix, unsigned p,
                unsigned length, uint32_t s_lengths[8])
{
    const struct cuda_index_layout layout =
        *index_scratch(batch, blockIdx.y).layout;
    const unsigned lane = threadIdx.x % 32;
    const unsigned width = partition.width;
    uint8_t *dst = (uint8_t *)chunk.dst;

    if (lane < 8)
        s_lengths[lane] = 0;
    __syncwarp();
    put_bits(s_lengths,
             (unsigned)__popc(partition.tiles & bits_below(lane)) * width,
             length_excess(batch, p, length));
    __syncwarp();
    if (lane < ((unsigned)__popc(partition.tiles) * width + 7) / 8)
        dst[layout.lengths_at + prefix.lengths_nbytes + lane] =
            ((const uint8_t *)s_lengths)[lane];
    if (lane == 31)
        dst[layout.controls_at + prefix.nfull] =
            terp_partition_control(width, partition.reduced);
    if (prefix.nfull > 0 && lane < layout.offset_nbytes)
        dst[layout.controls_at + layout.nfull + 1 +
            (uint64_t)(prefix.nfull - 1) * layout.offset_nbytes + lane] =
            (uint8_t)(prefix.payload_nbytes >> (8 * lane));
}

/* Records the lengths of prefixes whose last tile is in the partition: lane i
 * of the first warp has tile i, and `end` is the sum of lengths up to it. */
static __device__ __forceinline__ void
note_prefixes(const struct cuda_batch &batch, struct cuda_chunk &chunk,
              const struct cuda_partition &partition,
              const struct cuda_partition_prefix &prefix, unsigned p,
              unsigned end)
{
#pragma unroll
    for (int i = 0; i < TERP_NPREFIXES; i++) {
        const uint64_t tile = batch.encoding.prefix_ntiles[i] - 1;
        if (tile / TERP_PARTITION_NTILES == p &&
            tile % TERP_PARTITION_NTILES == threadIdx.x)
            chunk.prefix[i].nbytes = terp_prefix_nbytes(
                chunk.payload_at + prefix.payload_nbytes +
                (partition.reduced ? partition.nbytes : end));
    }
}

/* Writes payloads. Grid: (npartitions, chunks). A block writes a partition's
 * payload and its bytes of the index. One loop copies both: concatenated tiles
 * by all threads, tiles in slots by a warp each. Shared: 32 bytes of lengths,
 * which one warp uses. */
static __global__ void
__launch_bounds__(PAYLOAD_NTHREADS) write_payload(const struct cuda_batch batch)
{
    __shared__ uint32_t s_lengths[8];
    struct cuda_chunk &chunk = begin_chunk(batch);
    const unsigned p = blockIdx.x;
    const struct cuda_index_scratch scratch = index_scratch(batch, blockIdx.y);
    const struct cuda_partition partition = scratch.partition[p];
    const struct cuda_partition_prefix prefix = scratch.prefix[p];
    const unsigned length = tile_length(batch, p);
    const unsigned end = length_sum(length);
    unsigned i = threadIdx.x, nthreads = PAYLOAD_NTHREADS;
    uint8_t *dst = (uint8_t *)chunk.dst + chunk.payload_at;
    const unsigned slot_nbytes = terp_tile_max_nbytes(batch.coding);
    const uint8_t *src = region<uint8_t>(batch, batch.at.staging) +
                         (uint64_t)p * TERP_PARTITION_NTILES * slot_nbytes;
    unsigned nbytes = partition.nbytes, first = 0, npieces = 1;

    if (!has_tiles(chunk))
        return;
    if (cuda_prefixes_nbytes(batch, chunk) > 0)
        note_prefixes(batch, chunk, partition, prefix, p, end);
    if (partition.tiles == 0)
        return;
    if (i / 32 == PAYLOAD_NTHREADS / 32 - 1)
        write_partition(batch, chunk, partition, prefix, p, length, s_lengths);
    dst += prefix.payload_nbytes;
    if (!terp_coding_reduces(chunk.coding)) {
        first = i / 32;
        npieces = TERP_PARTITION_NTILES;
        i %= 32;
        nthreads = 32;
    }
#pragma unroll 1
    for (unsigned tile = first; tile < npieces; tile += PAYLOAD_NTHREADS / 32) {
        unsigned at = 0;
        if (npieces > 1) {
            nbytes = __shfl_sync(FULL_WARP_MASK, length, (int)tile);
            at = __shfl_sync(FULL_WARP_MASK, end, (int)tile) - nbytes;
        }
        copy_bytes(dst + at, src + (uint64_t)tile * slot_nbytes, nbytes, i,
                   nthreads);
    }
}

/* Writes frame, model and index. Grid: (1, chunks). Shared: struct
 * head_shared. */
static __global__ void
__launch_bounds__(HEAD_NTHREADS) write_stream(const struct cuda_batch batch)
{
    begin_kernel();
    write_head(batch, batch.d_chunks[blockIdx.y]);
}

cudaError_t
cuda_stream_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (batch->npartitions <= CUDA_SMALL_CHUNK_NPARTITIONS)
        return cuda_small_stream_write(batch, stream);
    struct stage_launches launches = {batch, stream};
    launches.add(write_stream, 1, HEAD_NTHREADS);
    launches.add(write_payload, batch->npartitions, PAYLOAD_NTHREADS);
    return launches.error;
}

/* ---- signs ---- */

/* Writes the section of signs up to its payload, at the chunk's specials_end.
 * Grid: (1, chunks). Shared: struct head_shared. */
static __global__ void
__launch_bounds__(HEAD_NTHREADS) write_signs_head(const struct cuda_batch batch,
                                                  const struct cuda_batch signs)
{
    __shared__ struct head_shared s_head;
    struct cuda_chunk &chunk = begin_chunk(batch);
    struct cuda_chunk &own = signs.d_chunks[blockIdx.y];
    const uint64_t begin = chunk.specials_end;
    const uint64_t tiles_at = begin + SIGNS_HEAD_NBYTES;

    /* Stages on other streams may set the chunk's status meanwhile. */
    if (__syncthreads_or((own.status != TERP_OK) | (chunk.status != TERP_OK)))
        return;
    if (threadIdx.x == 0)
        own.escapes_end = tiles_at;
    __syncthreads();
    const bool fits =
        tiles_at < batch.raw_nbytes && write_index(signs, own, &s_head);
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    if (!fits) {
        own.status = chunk.status = TERP_ERR_CAPACITY;
        return;
    }
    uint8_t *head = (uint8_t *)chunk.dst + begin;
    head[0] = (uint8_t)signs_choose_dim(batch, chunk);
    store_le(head + 1, own.stream_nbytes - tiles_at, TERP_SIGNS_LENGTH_NBYTES);
    chunk.specials_end = own.stream_nbytes;
}

cudaError_t
cuda_signs_place(const struct cuda_batch *batch, const struct cuda_batch *signs,
                 cudaStream_t stream)
{
    cudaError_t error =
        launch_stage(batch, stream, write_signs_head, 1, HEAD_NTHREADS, *signs);

    return error == cudaSuccess
               ? launch_stage(signs, stream, write_payload, signs->npartitions,
                              PAYLOAD_NTHREADS)
               : error;
}

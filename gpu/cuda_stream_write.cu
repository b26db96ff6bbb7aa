#include <cub/cub.cuh>

#include "cuda_checksum.cuh"
#include "cuda_index.cuh"
#include "cuda_reduce.cuh"

#define FULL_WARP 0xFFFFFFFF

/* One block writes all of a stream but escapes, specials and a payload of many
 * partitions. */
#define HEAD_NTHREADS 1024

/* Threads that have a level each. */
#define MODEL_NTHREADS 64
static_assert(TERP_MAX_LEVELS < MODEL_NTHREADS, "and one what is before them");

/* ---- frame and model ---- */

static __device__ __forceinline__ uint64_t
value_word(const struct cuda_batch &batch, double value)
{
    return batch.value_nbytes == 8 ? double_bits(value)
                                   : (uint64_t)__float_as_uint((float)value);
}

/* By one thread. Returns where the frame ends. */
static __device__ uint64_t
write_frame(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            uint8_t *dst)
{
    const uint64_t dims_end = batch.frame_nbytes - sizeof chunk.bound;

    for (unsigned i = 0; i < dims_end; i++)
        dst[i] = batch.frame[i];
    dst[TERP_FRAME_CODING_AT] = (uint8_t)chunk.coding;
    dst[TERP_FRAME_PREDICTION_AT] =
        (uint8_t)((int)chunk.prediction |
                  (chunk.has_specials ? TERP_FRAME_SPECIALS : 0));
    if (chunk.coding == TERP_CODING_RAW || chunk.coding == TERP_CODING_CONSTANT)
        return dims_end;
    store_le(dst + dims_end, double_bits(chunk.bound), 8);
    return batch.frame_nbytes;
}

/* Thread l of those that call it has the plan of level l. */
static __device__ void
write_model(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            uint8_t *dst, int l)
{
    const int nlevels = batch.d_layout->nlevels;
    uint8_t *model = dst + batch.frame_nbytes;

    if (l == 0) {
        model[0] = (uint8_t)chunk.shrink;
        if (chunk.prediction == TERP_PREDICTION_SPLINE)
            store_le(model + 1, value_word(batch, chunk.reference),
                     batch.value_nbytes);
        else
            model[1] = (uint8_t)chunk.lorenzo_dims;
    } else if (l <= nlevels && chunk.prediction == TERP_PREDICTION_SPLINE) {
        const struct cuda_level_plan &plan = chunk.plan[l];
        uint8_t *at = model + 1 + batch.value_nbytes + 2 * (nlevels - l);
        at[0] = (uint8_t)((plan.ratio - 1) | plan.spline << 6);
        at[1] = plan.priorities;
    }
}

/* ---- index ---- */

/* Sums of partitions. A device's memory holds fewer than 2^24 of them. */
typedef struct cuda_partition_place index_sums;

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
    return {__shfl_sync(FULL_WARP, sums.payload_nbytes, (int)from),
            __shfl_sync(FULL_WARP, sums.lengths_nbytes, (int)from),
            __shfl_sync(FULL_WARP, sums.nfull, (int)from),
            __shfl_sync(FULL_WARP, sums.nnonzero, (int)from)};
}

/* Of this lane and those before it. */
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

#define USED_NWORDS ((TERP_NENTRIES + 31) / 32)

/* Partitions of which the map and the numbers of tiles are in shared memory.
 * Longer ones have scratch. */
#define SHARED_NPARTITIONS 1024
#define SHARED_MAP_NBYTES (SHARED_NPARTITIONS * TERP_PARTITION_NTILES / 8)
#define SHARED_TOWER_NWORDS                                                  \
    (level_nwords(SHARED_MAP_NBYTES) + level_nwords(SHARED_MAP_NBYTES / 8) + \
     level_nwords(SHARED_MAP_NBYTES / 64))
static_assert(SHARED_MAP_NBYTES / 512 <= CUDA_STORED_NBYTES,
              "these are all levels");

struct head_shared {
    scan_storage<HEAD_NTHREADS> scan;
    index_sums warps[HEAD_NTHREADS / 32];
    uint32_t used[USED_NWORDS];    /* a bit an entry */
    uint8_t number[TERP_NENTRIES]; /* of an entry among these */
    alignas(8) uint16_t map[SHARED_NPARTITIONS];
    alignas(8) uint32_t tower[2 * SHARED_TOWER_NWORDS];
    alignas(8) uint8_t numbers[SHARED_NPARTITIONS * TERP_PARTITION_NTILES];
};
static_assert(HEAD_NTHREADS / 32 == 32, "a lane has a warp's sums");

/* Where things stand in memory and in the stream, the same in all threads. */
struct index {
    struct cuda_index_room room;
    const uint8_t *entry;
    const struct cuda_custom_book *book;
    uint8_t *numbers;        /* of the entries of non-zero tiles */
    uint16_t *map;           /* bits of tiles; filled up to 8 bytes */
    struct cuda_tower tower; /* of map */
    index_sums all;
    index_sums before;   /* this thread's partitions */
    unsigned first, end; /* these */
    uint64_t books_at, books_nbytes, controls_at, lengths_at;
    unsigned offset_nbytes;
};

static __device__ struct index
index_of(const struct cuda_batch &batch, unsigned chunk, struct head_shared *s)
{
    struct index index = {};
    const unsigned npartitions = (unsigned)batch.npartitions;
    const unsigned share = (npartitions + HEAD_NTHREADS - 1) / HEAD_NTHREADS;
    uint32_t *words = s->tower;

    static_assert(sizeof(struct cuda_index_places) +
                          sizeof(struct cuda_partition_place) +
                          sizeof(struct cuda_partition) <=
                      4 * TERP_NENTRIES,
                  "a tile's cost gives room to a partition");
    static_assert(sizeof(struct cuda_partition_place) +
                          sizeof(struct cuda_partition) +
                          TERP_PARTITION_NTILES + 2 + 4 * 8 <=
                      4 * TERP_NENTRIES,
                  "and that of many tiles to what else partitions need");
    index.room = index_room(batch, chunk);
    index.entry = region<uint8_t>(batch, chunk, batch.at.entry);
    index.book = region<struct cuda_custom_book>(batch, chunk, batch.at.books);
    index.first = min(threadIdx.x * share, npartitions);
    index.end = min(index.first + share, npartitions);
    index.map = s->map;
    index.numbers = s->numbers;
    if (npartitions > SHARED_NPARTITIONS) {
        index.numbers = index.room.rest;
        index.map =
            (uint16_t *)(index.numbers + npartitions * TERP_PARTITION_NTILES);
        words = (uint32_t *)index.map + (npartitions + 3) / 4 * 2;
    }
    index.tower =
        tower_of(index.map, (unsigned)div_up(batch.ntiles, 8), true, &words);
    return index;
}

/* The entries that tiles use. A thread a tile. */
static __device__ void
mark_entries(const struct cuda_batch &batch, const struct index &index,
             struct head_shared *s)
{
    const uint8_t *nonzero =
        region<uint8_t>(batch, blockIdx.y, batch.at.nonzero);

#pragma unroll 4
    for (unsigned i = threadIdx.x; i < batch.ntiles; i += HEAD_NTHREADS) {
        const unsigned entry = index.entry[i];
        if (nonzero[i] != 0 && (s->used[entry / 32] >> (entry % 32) & 1) == 0)
            atomicOr(&s->used[entry / 32], 1u << (entry % 32));
    }
}

/* Bit map of tiles, entries in use, and what partitions take. A thread has
 * partitions that follow each other. */
static __device__ void
measure_partitions(const struct cuda_batch &batch, struct index *index,
                   struct head_shared *s)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    index_sums mine = {0, 0, 0, 0};

    if (batch.coding == TERP_CODING_HUFFMAN)
        mark_entries(batch, *index, s);
#pragma unroll 1
    for (unsigned p = index->first; p < index->end; p++) {
        struct cuda_partition partition = index->room.partition[p];
        index->map[p] = partition.tiles;
        add_sums(&mine, sums_of(partition));
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

/* Entries in use below one of them, or all. */
static __device__ __forceinline__ unsigned
count_used(const struct head_shared *s, unsigned end)
{
    unsigned n = 0;

#pragma unroll
    for (unsigned i = 0; i < USED_NWORDS; i++)
        if (32 * i < end)
            n += (unsigned)__popc(
                s->used[i] &
                (end >= 32 * i + 32 ? UINT32_MAX : bits_below(end % 32)));
    return n;
}

/* Places in the stream; returns where it ends. */
static __device__ uint64_t
place_index(const struct cuda_chunk &chunk, struct index *index,
            const struct head_shared *s)
{
    const index_sums &all = index->all;
    unsigned nused = count_used(s, TERP_NENTRIES);

    index->books_at = chunk.escapes_end + tower_nbytes(index->tower);
    if (all.nnonzero == 0)
        return index->books_at;
    if (chunk.coding == TERP_CODING_HUFFMAN)
        index->books_nbytes =
            1 + nused + packed_nbytes(all.nnonzero, bit_width(nused - 1));
    if (chunk.coding == TERP_CODING_CUSTOM)
        index->books_nbytes =
            4 + packed_nbytes(
                    (uint64_t)index->book->high - index->book->low + 2, 4);
    index->controls_at = index->books_at + index->books_nbytes;
    index->offset_nbytes = ((unsigned)bit_width(all.payload_nbytes) + 7) / 8;
    index->lengths_at = index->controls_at + all.nfull + 1 +
                        (uint64_t)(all.nfull - 1) * index->offset_nbytes;
    return index->lengths_at + all.lengths_nbytes + all.payload_nbytes;
}

/* The entries in use, and their numbers. */
static __device__ void
write_palette(struct head_shared *s, uint8_t *dst)
{
    const unsigned entry = threadIdx.x;

    if (entry < TERP_NENTRIES && (s->used[entry / 32] >> (entry % 32) & 1)) {
        unsigned number = count_used(s, entry);
        s->number[entry] = (uint8_t)number;
        dst[1 + number] = (uint8_t)entry;
    }
    if (entry == 0)
        dst[0] = (uint8_t)count_used(s, TERP_NENTRIES);
}

/* What is before each partition. */
static __device__ void
place_partitions(const struct index &index)
{
    index_sums before = index.before;

#pragma unroll 1
    for (unsigned p = index.first; p < index.end; p++) {
        index.room.place[p] = before;
        add_sums(&before, sums_of(index.room.partition[p]));
    }
}

/* The numbers of tiles' entries. A thread a tile. */
static __device__ void
number_tiles(const struct cuda_batch &batch, const struct index &index,
             const struct head_shared *s)
{
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < batch.ntiles; i += HEAD_NTHREADS) {
        const unsigned p = i / TERP_PARTITION_NTILES;
        const unsigned tiles = index.map[p], bit = i % TERP_PARTITION_NTILES;
        if (tiles >> bit & 1)
            index.numbers[index.room.place[p].nnonzero +
                          (unsigned)__popc(tiles & bits_below(bit))] =
                s->number[index.entry[i]];
    }
}

/* Eight numbers of w bits are w bytes, by one thread. */
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

/* A byte has two symbols, the escape first of all. */
static __device__ void
write_custom(const struct cuda_custom_book *book, uint8_t *dst)
{
    unsigned low = book->low, n = book->high - low + 2u;

    if (threadIdx.x == 0) {
        store_le(dst, low, 2);
        store_le(dst + 2, book->high, 2);
    }
#pragma unroll 1
    for (unsigned i = 2 * threadIdx.x; i < n; i += 2 * HEAD_NTHREADS) {
        unsigned even = i == 0 ? TERP_ESCAPE : low + i - 1;
        unsigned nbits = book->word[even] & 15;
        if (i + 1 < n)
            nbits |= (book->word[low + i] & 15) << 4;
        dst[4 + i / 2] = (uint8_t)nbits;
    }
}

/* All of a coded stream's head from the escapes' end on, but what each
 * partition writes. False, and nothing is written, when the stream would not
 * be shorter than a raw one. */
static __device__ bool
write_index(const struct cuda_batch &batch, struct cuda_chunk &chunk,
            struct head_shared *s)
{
    uint8_t *dst = (uint8_t *)chunk.dst;
    struct index index = index_of(batch, blockIdx.y, s);

    if (threadIdx.x < USED_NWORDS)
        s->used[threadIdx.x] = 0;
    __syncthreads();
    measure_partitions(batch, &index, s);
    tower_build<HEAD_NTHREADS>(&index.tower, s->scan);
    uint64_t end = place_index(chunk, &index, s);
    if (end >= batch.raw_nbytes)
        return false;
    tower_store<HEAD_NTHREADS>(index.tower, dst + chunk.escapes_end);
    if (index.all.nnonzero > 0) {
        uint8_t *books = dst + index.books_at;
        if (chunk.coding == TERP_CODING_HUFFMAN)
            write_palette(s, books);
        if (chunk.coding == TERP_CODING_CUSTOM)
            write_custom(index.book, books);
        place_partitions(index);
        if (chunk.coding == TERP_CODING_HUFFMAN) {
            unsigned nused = count_used(s, TERP_NENTRIES);
            __syncthreads();
            number_tiles(batch, index, s);
            __syncthreads();
            write_numbers(index, nused, books + 1 + nused);
        }
    }
    if (threadIdx.x == 0) {
        chunk.nnonzero = index.all.nnonzero;
        chunk.payload_at = end - index.all.payload_nbytes;
        chunk.stream_nbytes = end;
        *index.room.places = {index.controls_at, index.lengths_at,
                              index.all.nfull, index.offset_nbytes};
        if (index.all.nnonzero > 0)
            dst[index.controls_at + index.all.nfull] =
                (uint8_t)index.offset_nbytes;
    }
    return true;
}

/* Frame, model and index, or the frame of a raw chunk. */
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
    __syncthreads(); /* the state may change */
    /* The rest is for threads that have few partitions. */
    const unsigned i = HEAD_NTHREADS - 1 - threadIdx.x;
    if (!raw && coding != TERP_CODING_CONSTANT)
        write_model(batch, chunk, dst, (int)i);
    if (i != MODEL_NTHREADS)
        return;
    if (raw) {
        chunk.coding = coding = TERP_CODING_RAW;
        chunk.prediction = TERP_PREDICTION_NONE;
        chunk.has_specials = false;
        chunk.status = TERP_OK;
    }
    uint64_t at = write_frame(batch, chunk, dst);
    if (coding == TERP_CODING_CONSTANT) {
        store_le(dst + at, chunk.constant_bits, batch.value_nbytes);
        chunk.stream_nbytes = chunk.specials_end;
    }
    if (coding == TERP_CODING_RAW) {
        chunk.payload_at = at;
        chunk.stream_nbytes = batch.raw_nbytes;
    }
}

/* ---- payload ---- */

/* Threads that have a partition. */
#define PAYLOAD_NTHREADS 256
static_assert(HEAD_NTHREADS == CUDA_FEW_PARTITIONS * PAYLOAD_NTHREADS,
              "one block has few partitions");

/* Thread `i` of `nthreads` copies its part. `src` is aligned to 4, dst need
 * not be. */
static __device__ __forceinline__ void
copy_bytes(uint8_t *dst, const uint8_t *src, unsigned nbytes, unsigned i,
           unsigned nthreads)
{
    unsigned head = min(nbytes, (0 - (unsigned)(uintptr_t)dst) % 4);
    unsigned nfull = (nbytes - head) / 4, tail = head + 4 * nfull + i;
    const uint32_t *from = (const uint32_t *)src;
    uint32_t *to = (uint32_t *)(dst + head);

#pragma unroll 4
    for (unsigned w = i; w < nfull; w += nthreads)
        to[w] = __funnelshift_r(from[w], from[w + (head != 0)], 8 * head);
    if (i < head)
        dst[i] = src[i];
    if (tail < nbytes)
        dst[tail] = src[tail];
}

/* What the index says of a partition: control byte, offset, lengths. By one
 * warp, whose lane i has tile i. */
static __device__ void
write_partition(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
                const struct cuda_partition &partition,
                const struct cuda_partition_place &place, unsigned p,
                unsigned length, uint32_t s_lengths[8])
{
    const struct cuda_index_places places =
        *index_room(batch, blockIdx.y).places;
    const unsigned lane = threadIdx.x % 32;
    const unsigned width = partition.width;
    uint8_t *dst = (uint8_t *)chunk.dst;

    if (lane < 8)
        s_lengths[lane] = 0;
    __syncwarp();
    unsigned tiles_before =
        (unsigned)__popc(partition.tiles & bits_below(lane % 32));
    unsigned at = tiles_before * width;
    uint64_t bits = (uint64_t)length_excess(batch, p, length) << (at % 32);
    if ((uint32_t)bits != 0)
        atomicOr(&s_lengths[at / 32], (uint32_t)bits);
    if (bits >> 32 != 0)
        atomicOr(&s_lengths[at / 32 + 1], (uint32_t)(bits >> 32));
    __syncwarp();
    if (lane < ((unsigned)__popc(partition.tiles) * width + 7) / 8)
        dst[places.lengths_at + place.lengths_nbytes + lane] =
            ((const uint8_t *)s_lengths)[lane];
    if (lane == 31)
        dst[places.controls_at + place.nfull] =
            (uint8_t)(width | (unsigned)partition.reduced << 7);
    if (place.nfull > 0 && lane < places.offset_nbytes)
        dst[places.controls_at + places.nfull + 1 +
            (uint64_t)(place.nfull - 1) * places.offset_nbytes + lane] =
            (uint8_t)(place.payload_nbytes >> (8 * lane));
}

/* Partition p's payload and what the index says of it, or as many values as a
 * partition has symbols; `tiles`: the chunk has some. By PAYLOAD_NTHREADS
 * threads. All copies are one piece of code: a reduced partition and values
 * are copied by all threads, tiles by a warp each. */
static __device__ __forceinline__ void
write_part(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
           unsigned p, bool tiles, uint32_t s_lengths[8])
{
    const uint64_t slice_nbytes = (uint64_t)TERP_PARTITION_NTILES *
                                  TERP_TILE_NSYMBOLS *
                                  (unsigned)batch.value_nbytes;
    const struct cuda_index_room room = index_room(batch, blockIdx.y);
    const struct cuda_partition partition = room.partition[p];
    const struct cuda_partition_place place = room.place[p];
    const unsigned length = tile_length(batch, blockIdx.y, p);
    unsigned i = threadIdx.x % PAYLOAD_NTHREADS, nthreads = PAYLOAD_NTHREADS;
    uint8_t *dst = (uint8_t *)chunk.dst + chunk.payload_at;
    const uint8_t *src = region<uint8_t>(batch, blockIdx.y, batch.at.staging) +
                         (uint64_t)p * CUDA_PARTITION_MAX_NBYTES;
    unsigned nbytes = partition.nbytes, first = 0, npieces = 1;
    const unsigned end = length_sum(length);

    if (tiles) {
        if (partition.tiles == 0)
            return;
        if (i / 32 == PAYLOAD_NTHREADS / 32 - 1)
            write_partition(batch, chunk, partition, place, p, length,
                            s_lengths);
        dst += place.payload_nbytes;
        if (partition.reduced == 0) {
            first = i / 32;
            npieces = TERP_PARTITION_NTILES;
            i %= 32;
            nthreads = 32;
        }
    } else {
        uint64_t at = p * slice_nbytes;
        if (chunk.status != TERP_OK || chunk.coding != TERP_CODING_RAW)
            return;
        dst += at;
        src = (const uint8_t *)chunk.original + at;
        nbytes = (unsigned)min_u64(slice_nbytes,
                                   batch.raw_nbytes - chunk.payload_at - at);
    }
#pragma unroll 1
    for (unsigned tile = first; tile < npieces; tile += PAYLOAD_NTHREADS / 32) {
        unsigned at = 0;
        if (npieces > 1) {
            nbytes = __shfl_sync(FULL_WARP, length, (int)tile);
            at = __shfl_sync(FULL_WARP, end, (int)tile) - nbytes;
        }
        copy_bytes(dst + at, src + (uint64_t)tile * CUDA_TILE_MAX_NBYTES,
                   nbytes, i, nthreads);
    }
}

/* Grid: x partitions, y chunks. */
static __global__ void
__launch_bounds__(PAYLOAD_NTHREADS) write_payload(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ uint32_t s_lengths[8];
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];

    write_part(batch, chunk, blockIdx.x, has_tiles(chunk), s_lengths);
}

/* Blocks of XXH3 whose sums are in shared memory. */
#define SHARED_SUMS_NBLOCKS 64

/* Grid: x 1, y chunks. Where there are few partitions, all of the stream. */
static __global__ void
__launch_bounds__(HEAD_NTHREADS) write_stream(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ uint32_t s_lengths[CUDA_FEW_PARTITIONS][8];
    __shared__ uint64_t s_sums[(SHARED_SUMS_NBLOCKS + 1) * XXH3_NLANES];
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const unsigned p = threadIdx.x / PAYLOAD_NTHREADS;

    write_head(batch, chunk);
    if (batch.npartitions > CUDA_FEW_PARTITIONS)
        return;
    __syncthreads();
    const bool tiles = has_tiles(chunk);
    if (p < batch.npartitions)
        write_part(batch, chunk, p, tiles, s_lengths[p]);
    __syncthreads();
    uint64_t *sums =
        chunk.stream_nbytes <= SHARED_SUMS_NBLOCKS * XXH3_BLOCK_NBYTES
            ? s_sums
            : region<uint64_t>(batch, blockIdx.y, batch.at.staging);
    seal_stream<HEAD_NTHREADS, 2>(chunk, sums);
}

cudaError_t
cuda_stream_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    cudaError_t error = launch(write_stream, dim3(1, (unsigned)batch->nchunks),
                               HEAD_NTHREADS, 0, stream, *batch);
    if (error == cudaSuccess && batch->npartitions > CUDA_FEW_PARTITIONS)
        error =
            launch(write_payload,
                   dim3((unsigned)batch->npartitions, (unsigned)batch->nchunks),
                   PAYLOAD_NTHREADS, 0, stream, *batch);
    return error;
}

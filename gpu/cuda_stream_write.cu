#include <cub/cub.cuh>

#include "cuda_books.cuh"
#include "cuda_reduce.cuh"

#define FULL_WARP 0xFFFFFFFF

/* One block writes all of a stream but escapes, specials and payload. */
#define HEAD_NTHREADS 1024

/* ---- frame and model ---- */

static __device__ __forceinline__ uint64_t
value_word(const struct cuda_batch &batch, double value)
{
    return batch.value_nbytes == 8 ? double_bits(value)
                                   : (uint64_t)__float_as_uint((float)value);
}

/* As terp_frame_write does. By one thread. Returns where the frame ends. */
static __device__ uint64_t
write_frame(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            uint8_t *dst)
{
    const struct terp_chunk &shape = batch.chunk;
    uint64_t at = TERP_FRAME_DIMS_AT;
    int width = (int)(batch.frame_nbytes - TERP_FRAME_DIMS_AT - 8) / shape.rank;

    store_le(dst, UINT64_C(0x50524554), 4); /* "TERP" */
    dst[4] = TERP_FORMAT_VERSION;
    dst[5] =
        (uint8_t)((shape.rank - 1) | (bit_width((unsigned)width) - 1) << 2 |
                  (int)shape.type << 4 | (int)shape.big_endian << 6 |
                  (int)shape.stack << 7);
    dst[6] = (uint8_t)chunk.coding;
    dst[7] = (uint8_t)((int)chunk.prediction | (int)chunk.has_specials << 4);
    for (int i = 0; i < shape.rank; i++, at += (unsigned)width)
        store_le(dst + at, shape.dims[i], width);
    if (chunk.coding != TERP_CODING_RAW &&
        chunk.coding != TERP_CODING_CONSTANT) {
        store_le(dst + at, double_bits(chunk.bound), 8);
        at += 8;
    }
    return at;
}

/* Thread l has the plan of level l. */
static __device__ void
write_model(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            uint8_t *dst)
{
    const int nlevels = batch.d_layout->nlevels;
    uint8_t *model = dst + batch.frame_nbytes;
    int l = (int)threadIdx.x;

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

/* Of partitions; also of all before one. */
struct index_sums {
    uint64_t payload_nbytes;
    uint64_t lengths_nbytes;
    uint32_t nfull; /* have tiles */
    uint32_t nnonzero;
};

struct add_index_sums {
    __device__ struct index_sums operator()(const struct index_sums &a,
                                            const struct index_sums &b) const
    {
        return {a.payload_nbytes + b.payload_nbytes,
                a.lengths_nbytes + b.lengths_nbytes, a.nfull + b.nfull,
                a.nnonzero + b.nnonzero};
    }
};

typedef cub::BlockScan<struct index_sums, HEAD_NTHREADS,
                       cub::BLOCK_SCAN_WARP_SCANS>
    index_scan;

#define USED_NWORDS ((TERP_NENTRIES + 31) / 32)

struct head_shared {
    union {
        typename index_scan::TempStorage sums;
        scan_storage<HEAD_NTHREADS> bits;
    } scan;
    uint32_t used[USED_NWORDS];    /* a bit an entry */
    uint8_t number[TERP_NENTRIES]; /* of an entry among these */
};

/* Where things stand in memory and in the stream, the same in all threads. */
struct index {
    const uint8_t *nonzero, *entry, *reduced;
    const uint16_t *nbytes;
    uint64_t *begin;
    const struct cuda_custom_book *book;
    /* scratch, in the region of costs */
    struct index_sums *before; /* a partition */
    uint8_t *numbers;          /* of the entries of non-zero tiles */
    uint16_t *map;             /* bits of tiles; filled up to 8 bytes */
    struct cuda_tower tower;   /* of map */
    struct index_sums all;
    uint64_t books_at, books_nbytes, controls_at, lengths_at;
    int offset_nbytes;
};

static __device__ struct index
index_of(const struct cuda_batch &batch, unsigned chunk)
{
    struct index index = {};
    uint8_t *scratch = region<uint8_t>(batch, chunk, batch.at.cost);
    unsigned npartitions = (unsigned)batch.npartitions;
    uint32_t *words;

    index.nonzero = region<uint8_t>(batch, chunk, batch.at.nonzero);
    index.entry = region<uint8_t>(batch, chunk, batch.at.entry);
    index.reduced = region<uint8_t>(batch, chunk, batch.at.reduced);
    index.nbytes = region<uint16_t>(batch, chunk, batch.at.nbytes);
    index.begin = region<uint64_t>(batch, chunk, batch.at.begin);
    index.book = region<struct cuda_custom_book>(batch, chunk, batch.at.books);
    static_assert(sizeof(struct index_sums) + TERP_PARTITION_NTILES + 8 +
                          4 * 8 <=
                      4 * TERP_NENTRIES,
                  "a tile's cost gives room to what a partition needs");
    index.before = (struct index_sums *)scratch;
    scratch += npartitions * sizeof *index.before;
    index.numbers = scratch;
    scratch += npartitions * TERP_PARTITION_NTILES;
    index.map = (uint16_t *)scratch;
    words = (uint32_t *)scratch + (npartitions + 3) / 4 * 2;
    index.tower =
        tower_of(index.map, (unsigned)div_up(batch.ntiles, 8), true, &words);
    return index;
}

/* Four bytes, of which bit 0 counts, to four bits. */
static __device__ __forceinline__ unsigned
gather_flags(uint32_t bytes)
{
    return (bytes & 0x01010101) * 0x01020408 >> 24 & 0xF;
}

/* A partition's tiles as a bit map. */
static __device__ unsigned
nonzero_tiles(const struct cuda_batch &batch, const struct index &index,
              unsigned p)
{
    unsigned first = p * TERP_PARTITION_NTILES;
    unsigned ntiles =
        (unsigned)min_u64(TERP_PARTITION_NTILES, batch.ntiles - first);
    uint4 flags = *(const uint4 *)(index.nonzero + first);
    unsigned bits = gather_flags(flags.x) | gather_flags(flags.y) << 4 |
                    gather_flags(flags.z) << 8 | gather_flags(flags.w) << 12;
    return bits & bits_below(ntiles);
}

/* The lengths of a partition's tiles less the least that they could have; 0
 * of zero tiles. */
struct partition_lengths {
    uint32_t at[TERP_PARTITION_NTILES];
    int width; /* that holds them all */
};

static __device__ __forceinline__ struct partition_lengths
load_lengths(const struct cuda_batch &batch, const struct index &index,
             unsigned p, unsigned tiles)
{
    const unsigned first = p * TERP_PARTITION_NTILES;
    const uint4 *from = (const uint4 *)(index.nbytes + first);
    const bool planes = batch.coding == TERP_CODING_SPEED;
    const uint4 low = from[0], high = from[1];
    const uint32_t pair[TERP_PARTITION_NTILES / 2] = {
        low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    struct partition_lengths lengths;
    uint32_t all = 0;

#pragma unroll
    for (unsigned i = 0; i < TERP_PARTITION_NTILES; i++) {
        uint32_t least = planes ? 1 : (tile_nsymbols(batch, first + i) + 7) / 8;
        uint32_t nbytes = pair[i / 2] >> (16 * (i % 2)) & 0xFFFF;
        lengths.at[i] = tiles >> i & 1 ? nbytes - least : 0;
        all |= lengths.at[i];
    }
    lengths.width = bit_width(all);
    return lengths;
}

/* The entries of a partition's tiles. */
struct partition_entries {
    uint32_t four[TERP_PARTITION_NTILES / 4];
};

static __device__ __forceinline__ struct partition_entries
load_entries(const struct index &index, unsigned p)
{
    const uint4 all = *(const uint4 *)(index.entry + p * TERP_PARTITION_NTILES);
    return {{all.x, all.y, all.z, all.w}};
}

static __device__ __forceinline__ unsigned
entry_at(const struct partition_entries &entries, unsigned i)
{
    return entries.four[i / 4] >> (8 * (i % 4)) & 0xFF;
}

static __device__ __forceinline__ void
mark_entries(const struct partition_entries &entries, unsigned tiles,
             struct head_shared *s)
{
#pragma unroll
    for (unsigned i = 0; i < TERP_PARTITION_NTILES; i++) {
        unsigned entry = entry_at(entries, i);
        if ((tiles >> i & 1) != 0 &&
            (s->used[entry / 32] >> (entry % 32) & 1) == 0)
            atomicOr(&s->used[entry / 32], 1u << (entry % 32));
    }
}

/* Bit map of tiles, entries in use, and what each partition takes. A thread a
 * partition. */
static __device__ void
measure_partitions(const struct cuda_batch &batch, struct index *index,
                   struct head_shared *s)
{
    const struct index_sums none = {0, 0, 0, 0};
    unsigned npartitions = (unsigned)batch.npartitions;

    index->all = none;
    for (unsigned first = 0; first < npartitions; first += HEAD_NTHREADS) {
        unsigned p = first + threadIdx.x;
        struct index_sums mine = none, before, sum;
        if (p < npartitions) {
            unsigned tiles = nonzero_tiles(batch, *index, p);
            int width = load_lengths(batch, *index, p, tiles).width;
            index->map[p] = (uint16_t)tiles;
            mine.nnonzero = (uint32_t)__popc(tiles);
            mine.nfull = tiles != 0;
            mine.lengths_nbytes = packed_nbytes(mine.nnonzero, width);
            mine.payload_nbytes = index->begin[p + 1];
            if (batch.coding == TERP_CODING_HUFFMAN)
                mark_entries(load_entries(*index, p), tiles, s);
        }
        index_scan(s->scan.sums)
            .ExclusiveScan(mine, before, none, add_index_sums(), sum);
        if (p < npartitions)
            index->before[p] = add_index_sums()(index->all, before);
        index->all = add_index_sums()(index->all, sum);
        __syncthreads();
    }
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
    const struct index_sums &all = index->all;
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
    index->offset_nbytes = (bit_width(all.payload_nbytes) + 7) / 8;
    index->lengths_at =
        index->controls_at + all.nfull + 1 +
        (uint64_t)(all.nfull - 1) * (unsigned)index->offset_nbytes;
    return index->lengths_at + all.lengths_nbytes + all.payload_nbytes;
}

/* The entries in use, and the number that each tile's entry has among them:
 * eight numbers of w bits are w bytes, by one thread. */
static __device__ void
write_entries(const struct cuda_batch &batch, const struct index &index,
              struct head_shared *s, uint8_t *dst)
{
    unsigned nused = count_used(s, TERP_NENTRIES), entry = threadIdx.x;
    unsigned nnonzero = index.all.nnonzero;
    unsigned width = (unsigned)bit_width(nused - 1);

    if (entry < TERP_NENTRIES && (s->used[entry / 32] >> (entry % 32) & 1)) {
        unsigned number = count_used(s, entry);
        s->number[entry] = (uint8_t)number;
        dst[1 + number] = (uint8_t)entry;
    }
    if (threadIdx.x == 0)
        dst[0] = (uint8_t)nused;
    __syncthreads();
    for (unsigned p = threadIdx.x; p < batch.npartitions; p += HEAD_NTHREADS) {
        uint8_t *to = index.numbers + index.before[p].nnonzero;
        unsigned tiles = index.map[p];
        struct partition_entries entries = load_entries(index, p);
#pragma unroll
        for (unsigned i = 0; i < TERP_PARTITION_NTILES; i++)
            if (tiles >> i & 1)
                *to++ = s->number[entry_at(entries, i)];
    }
    __syncthreads();
    dst += 1 + nused;
    for (unsigned i = 8 * threadIdx.x; i < nnonzero && width > 0;
         i += 8 * HEAD_NTHREADS) {
        unsigned n = min(8u, nnonzero - i);
        uint64_t packed = 0;
        for (unsigned k = 0; k < n; k++)
            packed |= (uint64_t)index.numbers[i + k] << (k * width);
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
    for (unsigned i = 2 * threadIdx.x; i < n; i += 2 * HEAD_NTHREADS) {
        unsigned even = i == 0 ? TERP_ESCAPE : low + i - 1;
        unsigned nbits = book->word[even] & 15;
        if (i + 1 < n)
            nbits |= (book->word[low + i] & 15) << 4;
        dst[4 + i / 2] = (uint8_t)nbits;
    }
}

/* Control byte, offset and lengths of each partition that has tiles, and
 * where all begin. A thread a partition. */
static __device__ void
write_places(const struct cuda_batch &batch, const struct index &index,
             uint8_t *dst)
{
    int o = index.offset_nbytes;

    if (threadIdx.x == 0 && index.all.nnonzero > 0)
        dst[index.controls_at + index.all.nfull] = (uint8_t)o;
    for (unsigned p = threadIdx.x; p < batch.npartitions; p += HEAD_NTHREADS) {
        struct index_sums before = index.before[p];
        unsigned tiles = index.map[p];
        index.begin[p] = before.payload_nbytes;
        if (tiles == 0)
            continue;
        struct partition_lengths lengths = load_lengths(batch, index, p, tiles);
        dst[index.controls_at + before.nfull] =
            (uint8_t)(lengths.width | index.reduced[p] << 7);
        if (before.nfull > 0)
            store_le(dst + index.controls_at + index.all.nfull + 1 +
                         (uint64_t)(before.nfull - 1) * (unsigned)o,
                     before.payload_nbytes, o);
        uint8_t *at = dst + index.lengths_at + before.lengths_nbytes;
        uint32_t pending = 0;
        int npending = 0;
#pragma unroll
        for (unsigned i = 0; i < TERP_PARTITION_NTILES; i++) {
            if ((tiles >> i & 1) == 0)
                continue;
            pending |= lengths.at[i] << npending;
            for (npending += lengths.width; npending >= 8; npending -= 8) {
                *at++ = (uint8_t)pending;
                pending >>= 8;
            }
        }
        if (npending > 0)
            *at = (uint8_t)pending;
    }
    if (threadIdx.x == 0)
        index.begin[batch.npartitions] = index.all.payload_nbytes;
}

/* All of a coded stream's head from the escapes' end on. False, and nothing is
 * written, when the stream would not be shorter than a raw one. */
static __device__ bool
write_index(const struct cuda_batch &batch, struct cuda_chunk &chunk,
            struct head_shared *s)
{
    uint8_t *dst = (uint8_t *)chunk.dst;
    struct index index = index_of(batch, blockIdx.y);

    if (threadIdx.x < sizeof s->used / sizeof s->used[0])
        s->used[threadIdx.x] = 0;
    __syncthreads();
    measure_partitions(batch, &index, s);
    tower_build<HEAD_NTHREADS>(&index.tower, s->scan.bits);
    uint64_t end = place_index(chunk, &index, s);
    if (end >= batch.raw_nbytes)
        return false;
    tower_store<HEAD_NTHREADS>(index.tower, dst + chunk.escapes_end);
    if (index.all.nnonzero > 0) {
        if (chunk.coding == TERP_CODING_HUFFMAN)
            write_entries(batch, index, s, dst + index.books_at);
        if (chunk.coding == TERP_CODING_CUSTOM)
            write_custom(index.book, dst + index.books_at);
    }
    write_places(batch, index, dst);
    if (threadIdx.x == 0) {
        chunk.nnonzero = index.all.nnonzero;
        chunk.payload_at = end - index.all.payload_nbytes;
        chunk.stream_nbytes = end;
    }
    return true;
}

/* Grid: x 1, y chunks. */
static __global__ void
__launch_bounds__(HEAD_NTHREADS) write_head(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ struct head_shared s_head;
    struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    uint8_t *dst = (uint8_t *)chunk.dst;
    enum terp_status status = chunk.status;
    enum terp_coding coding = chunk.coding;
    bool raw = status == TERP_ERR_CAPACITY;

    if (status != TERP_OK && !raw)
        return;
    if (!raw && coding == TERP_CODING_CONSTANT) {
        uint64_t end = chunk.specials_end;
        raw = end >= batch.raw_nbytes;
        if (!raw && threadIdx.x == 0) {
            uint64_t at = write_frame(batch, chunk, dst);
            store_le(dst + at, chunk.constant_bits, batch.value_nbytes);
            chunk.stream_nbytes = end;
        }
    } else if (!raw) {
        raw = !write_index(batch, chunk, &s_head);
        if (!raw) {
            write_model(batch, chunk, dst);
            if (threadIdx.x == 0)
                write_frame(batch, chunk, dst);
        }
    }
    __syncthreads();
    if (raw && threadIdx.x == 0) {
        chunk.coding = TERP_CODING_RAW;
        chunk.prediction = TERP_PREDICTION_NONE;
        chunk.has_specials = false;
        chunk.payload_at = write_frame(batch, chunk, dst);
        chunk.stream_nbytes = batch.raw_nbytes;
        chunk.status = TERP_OK;
    }
}

/* ---- payload ---- */

#define PAYLOAD_NTHREADS 256

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

/* A partition's bytes: reduced in one piece, else tile by tile, a warp each
 * time. */
static __device__ void
copy_partition(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
               unsigned p)
{
    const uint8_t *nonzero =
        region<uint8_t>(batch, blockIdx.y, batch.at.nonzero);
    const uint16_t *nbytes =
        region<uint16_t>(batch, blockIdx.y, batch.at.nbytes);
    const uint64_t *begin = region<uint64_t>(batch, blockIdx.y, batch.at.begin);
    const uint8_t *slot = region<uint8_t>(batch, blockIdx.y, batch.at.staging) +
                          (uint64_t)p * CUDA_PARTITION_MAX_NBYTES;
    uint8_t *dst = (uint8_t *)chunk.dst + chunk.payload_at + begin[p];
    unsigned lane = threadIdx.x % 32, length = 0, end;

    if (region<uint8_t>(batch, blockIdx.y, batch.at.reduced)[p] != 0) {
        copy_bytes(dst, slot, (unsigned)(begin[p + 1] - begin[p]), threadIdx.x,
                   PAYLOAD_NTHREADS);
        return;
    }
    uint64_t tile = (uint64_t)p * TERP_PARTITION_NTILES + lane;
    if (lane < TERP_PARTITION_NTILES && tile < batch.ntiles &&
        nonzero[tile] != 0)
        length = nbytes[tile];
    end = length;
    for (unsigned step = 1; step < TERP_PARTITION_NTILES; step *= 2) {
        unsigned below = __shfl_up_sync(FULL_WARP, end, step);
        end += lane >= step ? below : 0;
    }
    for (unsigned i = threadIdx.x / 32; i < TERP_PARTITION_NTILES;
         i += PAYLOAD_NTHREADS / 32) {
        unsigned n = __shfl_sync(FULL_WARP, length, (int)i);
        unsigned at = __shfl_sync(FULL_WARP, end, (int)i) - n;
        copy_bytes(dst + at, slot + i * CUDA_TILE_MAX_NBYTES, n, lane, 32);
    }
}

/* Grid: x partitions, y chunks. A partition's payload, or as many values as a
 * partition has symbols. */
static __global__ void
__launch_bounds__(PAYLOAD_NTHREADS) write_payload(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const uint64_t slice_nbytes = (uint64_t)TERP_PARTITION_NTILES *
                                  TERP_TILE_NSYMBOLS *
                                  (unsigned)batch.value_nbytes;
    uint64_t at = blockIdx.x * slice_nbytes;

    if (has_tiles(chunk))
        copy_partition(batch, chunk, blockIdx.x);
    else if (chunk.status == TERP_OK && chunk.coding == TERP_CODING_RAW)
        copy_bytes((uint8_t *)chunk.dst + chunk.payload_at + at,
                   (const uint8_t *)chunk.original + at,
                   (unsigned)min_u64(slice_nbytes,
                                     batch.raw_nbytes - chunk.payload_at - at),
                   threadIdx.x, PAYLOAD_NTHREADS);
}

cudaError_t
cuda_stream_write(const struct cuda_batch *batch, cudaStream_t stream)
{
    cudaError_t error = launch(write_head, dim3(1, (unsigned)batch->nchunks),
                               HEAD_NTHREADS, 0, stream, *batch);
    if (error == cudaSuccess)
        error =
            launch(write_payload,
                   dim3((unsigned)batch->npartitions, (unsigned)batch->nchunks),
                   PAYLOAD_NTHREADS, 0, stream, *batch);
    return error;
}

/* Floor 3: all of a stream that stands before its payload. One block reads a
 * chunk's; what is long (tiles, partitions) its threads share out. The same as
 * in cpu_engine.c, cpu_books.c and cpu_tile_index.c: whatever the CPU refuses
 * is TERP_ERR_CORRUPT here too. */
#include "bytes.h"
#include "cuda_decode_book.cuh"
#include "cuda_expand.cuh"
#include "cuda_specials.cuh"

/* Threads of a block: all that it can have for a long index. Of a short one
 * every thread has little to do, and fewer are together sooner. */
#define MANY_NTHREADS 1024
#define FEW_NTHREADS 256
#ifndef CUDA_MANY_PARTITIONS
#define CUDA_MANY_PARTITIONS 128
#endif

/* Bytes of the stream that are staged at a time, and tiles' bit maps that fit
 * in shared memory. Longer ones are expanded in the region `staging`. */
#define STAGED_NBYTES 8192
#define BITMAP_NBYTES 8192

/* Control byte of a partition: width of its lengths, and whether reduced. */
#define CONTROL_REDUCED 0x80
#define MAX_LENGTH_NBITS 16

template <unsigned NTHREADS>
using wide_sum = cub::BlockScan<unsigned long long, (int)NTHREADS,
                                cub::BLOCK_SCAN_WARP_SCANS>;

template <unsigned NTHREADS> struct read_shared {
    __align__(16) uint8_t staged[STAGED_NBYTES];
    __align__(16) uint8_t bitmap[BITMAP_NBYTES];
    __align__(16) uint8_t above[BITMAP_NBYTES / 8];
    typename block_sum<NTHREADS>::TempStorage scan;
    typename wide_sum<NTHREADS>::TempStorage wide_scan;
    /* custom codebook, by length */
    uint32_t nbefore[TERP_NSYMBOLS / 32][TERP_MAX_CODE_NBITS + 1];
    uint32_t nwords[TERP_MAX_CODE_NBITS + 1];
    bool fits;
};

/* What is read of the chunk's state: at once, before anything is written. */
struct stream_facts {
    enum terp_coding coding;
    enum terp_prediction prediction;
    bool has_specials;
    double bound;
    int nlevels;
};

/* ---- model, specials, escapes ---- */

static __device__ double
value_of(const struct cuda_batch &batch, uint64_t bits)
{
    return batch.value_nbytes == 8 ? __longlong_as_double((long long)bits)
                                   : (double)__uint_as_float((unsigned)bits);
}

/* A thread a level. */
static __device__ bool
read_plans(int nlevels, struct cuda_chunk *chunk, struct block_reader *reader)
{
    int at = (int)threadIdx.x;
    bool valid = true;

    const uint8_t *plans = take_bytes(reader, 2 * (uint64_t)nlevels);
    if (plans == nullptr)
        return false;
    if (at < nlevels) {
        struct cuda_level_plan plan;
        plan.ratio = (uint8_t)((plans[2 * at] & 63) + 1);
        plan.spline = (uint8_t)(plans[2 * at] >> 6);
        plan.priorities = plans[2 * at + 1];
        valid = plan.spline < TERP_NSPLINES;
        chunk->plan[nlevels - at] = plan;
    }
    return !__syncthreads_or(!valid);
}

static __device__ bool
read_model(const struct cuda_batch &batch, const struct stream_facts &facts,
           struct cuda_chunk *chunk, struct block_reader *reader)
{
    int shrink = (int)take_le(reader, 1);

    if (reader->underflow || shrink < TERP_MIN_SHRINK ||
        shrink > TERP_MAX_SHRINK)
        return false;
    if (threadIdx.x == 0) {
        chunk->shrink = shrink;
        chunk->step = terp_step_of(facts.bound, shrink);
    }
    if (facts.prediction == TERP_PREDICTION_SPLINE) {
        uint64_t reference = take_le(reader, batch.value_nbytes);
        if (threadIdx.x == 0)
            chunk->reference = value_of(batch, reference);
        return read_plans(facts.nlevels, chunk, reader);
    }
    unsigned dims = (unsigned)take_le(reader, 1);
    if (threadIdx.x == 0)
        chunk->lorenzo_dims = dims;
    return !reader->underflow && dims < TERP_NCLASSES;
}

static __device__ bool
pass_specials(const struct cuda_batch &batch, const struct stream_facts &facts,
              struct cuda_chunk *chunk, struct block_reader *reader)
{
    unsigned long long nspecials = 0;
    uint64_t end = reader->at;

    if (facts.has_specials &&
        !specials_skip(
            reader->src, reader->at, reader->end, batch.nvalues,
            batch.value_nbytes,
            region<struct specials_batch>(batch, blockIdx.y, batch.at.mask),
            &nspecials, &end))
        return false;
    if (threadIdx.x == 0) {
        chunk->model_end = reader->at;
        chunk->specials_end = end;
        chunk->nspecials = nspecials;
    }
    reader->at = end;
    return true;
}

static __device__ bool
pass_escapes(const struct cuda_batch &batch, struct cuda_chunk *chunk,
             struct block_reader *reader)
{
    uint64_t nescapes = 0, nbytes, byte = 0x80;

    for (int shift = 0; shift < 63 && byte >= 0x80; shift += 7) {
        byte = take_le(reader, 1);
        nescapes |= (byte & 0x7F) << shift;
    }
    if (byte >= 0x80 ||
        !mul_fits(nescapes, (uint64_t)batch.value_nbytes, &nbytes) ||
        take_bytes(reader, nbytes) == nullptr)
        return false;
    if (threadIdx.x == 0) {
        chunk->nescapes = nescapes;
        chunk->escapes_end = reader->at;
    }
    return true;
}

/* ---- tiles ---- */

/* What all threads know of the index, once it was read. */
struct tile_index {
    const uint8_t *bitmap;
    uint64_t nnonzero, nfull; /* tiles, and partitions that have some */
    /* huffman */
    const uint8_t *used;
    unsigned nused;
    const uint8_t *numbers;
    int number_width;
    /* places */
    const uint8_t *controls;
    const uint8_t *offsets;
    int offset_nbytes;
    const uint8_t *lengths;
    uint64_t payload_nbytes;
};

/* A thread has `count` partitions from `first` on, and before these there are
 * so many tiles, full partitions and bytes of lengths. */
struct partition_share {
    uint64_t first, count;
    unsigned ntiles, nfull, lengths_nbytes;
};

/* Sixteen bits: the tiles of a partition that are not zero. */
static __device__ __forceinline__ unsigned
partition_bits(const struct cuda_batch &batch, const uint8_t *bitmap,
               uint64_t p)
{
    unsigned bits = bitmap[2 * p];
    if (16 * p + 8 < batch.ntiles)
        bits |= (unsigned)bitmap[2 * p + 1] << 8;
    return bits;
}

/* Which tiles are not zero, and how many in each thread's share. */
template <unsigned NTHREADS>
static __device__ bool
read_nonzero(const struct cuda_batch &batch, struct block_reader *reader,
             struct read_shared<NTHREADS> &s, struct tile_index *index,
             struct partition_share *share)
{
    unsigned nbytes = (unsigned)div_up(batch.ntiles, 8);
    uint8_t *bitmap = s.bitmap, *above = s.above;
    unsigned ntiles = 0, nfull = 0;

    if (nbytes > BITMAP_NBYTES) {
        bitmap = region<uint8_t>(batch, blockIdx.y, batch.at.staging);
        above = bitmap + div_up(nbytes, 8) * 8;
    }
    expand_bitmap<NTHREADS>(reader, bitmap, nbytes, above);
    if (reader->underflow)
        return false;
    if (batch.ntiles % 8 != 0 && bitmap[nbytes - 1] >> (batch.ntiles % 8) != 0)
        return false;
    uint64_t most = div_up(batch.npartitions, NTHREADS);
    share->first = min_u64(most * threadIdx.x, batch.npartitions);
    share->count = min_u64(most, batch.npartitions - share->first);
#pragma unroll 1
    for (uint64_t i = 0; i < share->count; i++) {
        unsigned bits = partition_bits(batch, bitmap, share->first + i);
        ntiles += (unsigned)__popc(bits);
        nfull += bits != 0;
    }
    /* Both counts at once. */
    unsigned long long before, all;
    wide_sum<NTHREADS>(s.wide_scan)
        .ExclusiveSum((unsigned long long)nfull << 32 | ntiles, before, all);
    share->ntiles = (unsigned)before;
    share->nfull = (unsigned)(before >> 32);
    index->nnonzero = (uint32_t)all;
    index->nfull = (uint32_t)(all >> 32);
    index->bitmap = bitmap;
    return true;
}

/* Codebooks of the dictionary: which, and the number of each tile's. */
static __device__ bool
read_entries(struct block_reader *reader, struct tile_index *index)
{
    unsigned nused = (unsigned)take_le(reader, 1);
    const uint8_t *used = take_bytes(reader, nused);

    if (used == nullptr || nused < 1 || nused > TERP_NENTRIES)
        return false;
    index->used = used;
    index->nused = nused;
    index->number_width = bit_width(nused - 1);
    index->numbers =
        take_bytes(reader, packed_nbytes(index->nnonzero, index->number_width));
    return index->numbers != nullptr;
}

/* Bits of a symbol's word by the stored codebook; 0: none. */
static __device__ __forceinline__ unsigned
custom_length(const uint8_t *lengths, unsigned low, unsigned high,
              unsigned symbol)
{
    unsigned i = symbol == TERP_ESCAPE ? 0 : symbol - low + 1;

    if (symbol != TERP_ESCAPE && (symbol < low || symbol > high))
        return 0;
    return lengths[i / 2] >> (4 * (i % 2)) & 15;
}

/* The chunk's own codebook, made ready to decode. */
template <unsigned NTHREADS>
static __device__ bool
read_custom(const struct cuda_batch &batch, struct block_reader *reader,
            struct read_shared<NTHREADS> &s)
{
    static_assert(TERP_NSYMBOLS % NTHREADS == 0 &&
                      CUDA_LOOKUP_NENTRIES % NTHREADS == 0,
                  "threads have as many symbols and look-ups");
    struct cuda_decode_book *book =
        region<struct cuda_decode_book>(batch, blockIdx.y, batch.at.books);
    const unsigned lane = threadIdx.x % 32;
    unsigned low = (unsigned)take_le(reader, 2);
    unsigned high = (unsigned)take_le(reader, 2);

    if (reader->underflow || low < 1 || low > high || high >= TERP_NSYMBOLS)
        return false;
    const uint8_t *at = take_bytes(reader, packed_nbytes(high - low + 2, 4));
    if (at == nullptr)
        return false;
        /* Symbols of the same length, in each 32 symbols and in those before.
         */
#pragma unroll 1
    for (unsigned symbol = threadIdx.x; symbol < TERP_NSYMBOLS;
         symbol += NTHREADS) {
        unsigned length = custom_length(at, low, high, symbol);
        if (lane <= TERP_MAX_CODE_NBITS)
            s.nbefore[symbol / 32][lane] = 0;
        __syncwarp();
        unsigned same = __match_any_sync(0xFFFFFFFF, length);
        if ((same & ((1u << lane) - 1)) == 0)
            s.nbefore[symbol / 32][length] = (uint32_t)__popc(same);
    }
    __syncthreads();
    if (threadIdx.x <= TERP_MAX_CODE_NBITS) {
        unsigned sum = 0;
        for (int w = 0; w < TERP_NSYMBOLS / 32; w++) {
            unsigned n = s.nbefore[w][threadIdx.x];
            s.nbefore[w][threadIdx.x] = sum;
            sum += n;
        }
        s.nwords[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        s.fits = cuda_decode_book_ends(s.nwords, book);
#pragma unroll 1
    for (unsigned symbol = threadIdx.x; symbol < TERP_NSYMBOLS;
         symbol += NTHREADS) {
        unsigned length = custom_length(at, low, high, symbol);
        unsigned same = __match_any_sync(0xFFFFFFFF, length);
        unsigned place = s.nbefore[symbol / 32][length] +
                         (unsigned)__popc(same & ((1u << lane) - 1));
        for (unsigned shorter = 1; shorter < length; shorter++)
            place += s.nwords[shorter];
        if (length > 0)
            book->sorted[place] = (uint16_t)symbol;
    }
    __syncthreads();
    if (!s.fits)
        return false;
#pragma unroll 1
    for (unsigned bits = threadIdx.x; bits < CUDA_LOOKUP_NENTRIES;
         bits += NTHREADS)
        cuda_decode_book_look(book, bits);
    return true;
}

/* Controls and offsets; leaves the reader at the payload. */
template <unsigned NTHREADS>
static __device__ bool
read_places(const struct cuda_batch &batch, struct block_reader *reader,
            struct read_shared<NTHREADS> &s, struct tile_index *index,
            struct partition_share *share)
{
    unsigned own_nbytes = 0, full = share->nfull, lengths_nbytes;
    bool valid = true;

    index->controls = take_bytes(reader, index->nfull);
    if (index->controls == nullptr)
        return false;
#pragma unroll 1
    for (uint64_t i = 0; i < share->count; i++) {
        unsigned bits = partition_bits(batch, index->bitmap, share->first + i);
        if (bits == 0)
            continue;
        unsigned width = index->controls[full++] & ~(unsigned)CONTROL_REDUCED;
        valid &= width <= MAX_LENGTH_NBITS;
        own_nbytes += ((unsigned)__popc(bits) * width + 7) / 8;
    }
    if (__syncthreads_or(!valid))
        return false;
    block_sum<NTHREADS>(s.scan).ExclusiveSum(own_nbytes, share->lengths_nbytes,
                                             lengths_nbytes);
    index->offset_nbytes = (int)take_le(reader, 1);
    if (index->offset_nbytes < 1 || index->offset_nbytes > 8)
        return false;
    index->offsets =
        take_bytes(reader, (index->nfull - 1) * (uint64_t)index->offset_nbytes);
    index->lengths = take_bytes(reader, lengths_nbytes);
    index->payload_nbytes = reader->end - reader->at;
    return !reader->underflow;
}

/* Where in the payload the full partition of this number begins. */
static __device__ __forceinline__ uint64_t
full_begin(const struct tile_index &index, uint64_t full)
{
    if (full == 0)
        return 0;
    if (full >= index.nfull)
        return index.payload_nbytes;
    return load_le(index.offsets + (full - 1) * (uint64_t)index.offset_nbytes,
                   index.offset_nbytes);
}

/* A number of up to 16 bits from any bit on. Reads no byte but its own. */
static __device__ __forceinline__ unsigned
number_at(const uint8_t *bytes, uint64_t bit, unsigned width)
{
    const uint8_t *at = bytes + bit / 8;
    const unsigned skipped = (unsigned)(bit % 8), end = skipped + width;
    unsigned bits = width > 0 ? at[0] : 0;

    bits |= end > 8 ? (unsigned)at[1] << 8 : 0;
    bits |= end > 16 ? (unsigned)at[2] << 16 : 0;
    return bits >> skipped & ((1u << width) - 1);
}

/* What the index says of one tile; false where that is not valid. `rank`: how
 * many tiles of the partition have words and stand before. */
static __device__ __forceinline__ bool
read_tile(const struct cuda_batch &batch, enum terp_coding coding,
          const struct tile_index &index, uint64_t tile, unsigned rank,
          unsigned control, const struct partition_share &partition,
          unsigned *nbytes_ret, unsigned *entry_ret)
{
    const unsigned width = control & ~(unsigned)CONTROL_REDUCED;
    const uint64_t left = batch.nvalues - tile * TERP_TILE_NSYMBOLS;
    /* A word takes a bit at least, planes a byte. */
    const unsigned least =
        coding == TERP_CODING_SPEED
            ? 1
            : ((unsigned)min_u64(TERP_TILE_NSYMBOLS, left) + 7) / 8;
    const unsigned nbytes =
        least + number_at(index.lengths + partition.lengths_nbytes,
                          rank * width, width);
    unsigned entry = 0;
    bool valid = nbytes <= CUDA_TILE_MAX_NBYTES;

    if (coding == TERP_CODING_HUFFMAN) {
        const unsigned nbits = (unsigned)index.number_width;
        unsigned number = number_at(
            index.numbers, (uint64_t)(partition.ntiles + rank) * nbits, nbits);
        valid &= number < index.nused;
        entry = number < index.nused ? index.used[number] : 0;
        valid &= entry < TERP_NENTRIES;
    }
    *nbytes_ret = nbytes;
    *entry_ret = entry;
    return valid;
}

/* The tiles of the 32 partitions that a warp's threads have. Two partitions at
 * a time, a thread a tile. The bytes of the own partition's tiles; false where
 * a number is not valid. */
static __device__ __forceinline__ bool
read_tiles(const struct cuda_batch &batch, enum terp_coding coding,
           const struct tile_index &index, uint64_t p, unsigned bits,
           unsigned control, const struct partition_share &own,
           unsigned npartitions, unsigned *sum_nbytes_ret)
{
    static_assert(TERP_PARTITION_NTILES == 16, "a thread a tile, two halves");
    uint8_t *nonzero = region<uint8_t>(batch, blockIdx.y, batch.at.nonzero);
    uint8_t *entries = region<uint8_t>(batch, blockIdx.y, batch.at.entry);
    uint16_t *sizes = region<uint16_t>(batch, blockIdx.y, batch.at.nbytes);
    const unsigned all = 0xFFFFFFFF, lane = threadIdx.x % 32, i = lane % 16;
    bool valid = true;

#pragma unroll 1
    for (unsigned first = 0; first < npartitions; first += 2) {
        const unsigned owner = first + lane / 16;
        const unsigned tiles = __shfl_sync(all, bits, (int)owner);
        const unsigned its_control = __shfl_sync(all, control, (int)owner);
        const uint64_t tile =
            (uint64_t)__shfl_sync(all, (unsigned)p, (int)owner) * 16 + i;
        struct partition_share partition = {};
        unsigned nbytes = 0, entry = 0;
        partition.ntiles = __shfl_sync(all, own.ntiles, (int)owner);
        partition.lengths_nbytes =
            __shfl_sync(all, own.lengths_nbytes, (int)owner);
        if (tiles >> i & 1)
            valid &= read_tile(batch, coding, index, tile,
                               (unsigned)__popc(tiles & ((1u << i) - 1)),
                               its_control, partition, &nbytes, &entry);
        /* Regions are multiples of 256 bytes: whole partitions fit. */
        if (owner < npartitions) {
            nonzero[tile] = tiles >> i & 1;
            entries[tile] = (uint8_t)entry;
            sizes[tile] = (uint16_t)nbytes;
        }
        for (int distance = 8; distance > 0; distance /= 2)
            nbytes += __shfl_xor_sync(all, nbytes, distance);
        const unsigned sums[2] = {__shfl_sync(all, nbytes, 0),
                                  __shfl_sync(all, nbytes, 16)};
        if (lane / 2 == first / 2)
            *sum_nbytes_ret = lane % 2 == 0 ? sums[0] : sums[1];
    }
    return valid;
}

/* Each warp those of its threads' shares. */
template <unsigned NTHREADS>
static __device__ bool
read_partitions(const struct cuda_batch &batch, enum terp_coding coding,
                const struct tile_index &index, struct partition_share share)
{
    uint64_t *begin = region<uint64_t>(batch, blockIdx.y, batch.at.begin);
    uint8_t *reduced = region<uint8_t>(batch, blockIdx.y, batch.at.reduced);
    const unsigned most = (unsigned)div_up(batch.npartitions, NTHREADS);
    bool valid = true;

#pragma unroll 1
    for (unsigned i = 0; i < most; i++) {
        const uint64_t p = share.first + i;
        const bool is_there = i < share.count;
        const unsigned npartitions =
            (unsigned)__popc(__ballot_sync(0xFFFFFFFF, is_there));
        unsigned bits = 0, control = 0, sum_nbytes = 0;
        if (is_there)
            bits = partition_bits(batch, index.bitmap, p);
        if (bits != 0)
            control = index.controls[share.nfull];
        valid &= read_tiles(batch, coding, index, p, bits, control, share,
                            npartitions, &sum_nbytes);
        if (is_there) {
            const uint64_t at = full_begin(index, share.nfull);
            begin[p] = at;
            reduced[p] = (control & CONTROL_REDUCED) != 0;
            if (bits != 0) {
                const unsigned width = control & ~(unsigned)CONTROL_REDUCED;
                const unsigned ntiles = (unsigned)__popc(bits);
                share.nfull++;
                share.ntiles += ntiles;
                share.lengths_nbytes += (ntiles * width + 7) / 8;
                const uint64_t end = full_begin(index, share.nfull);
                valid &= at <= end && ((control & CONTROL_REDUCED) != 0 ||
                                       end - at == sum_nbytes);
            }
        }
    }
    if (threadIdx.x == 0)
        begin[batch.npartitions] = index.payload_nbytes;
    return !__syncthreads_or(!valid);
}

template <unsigned NTHREADS>
static __device__ bool
read_index(const struct cuda_batch &batch, enum terp_coding coding,
           struct cuda_chunk *chunk, struct block_reader *reader,
           struct read_shared<NTHREADS> &s)
{
    struct tile_index index = {};
    struct partition_share share;

    if (!read_nonzero(batch, reader, s, &index, &share))
        return false;
    if (index.nnonzero == 0) {
        if (reader->at != reader->end)
            return false;
    } else {
        if (coding == TERP_CODING_HUFFMAN && !read_entries(reader, &index))
            return false;
        if (coding == TERP_CODING_CUSTOM && !read_custom(batch, reader, s))
            return false;
        if (!read_places(batch, reader, s, &index, &share))
            return false;
    }
    if (threadIdx.x == 0)
        chunk->payload_at = reader->at;
    return read_partitions<NTHREADS>(batch, coding, index, share);
}

template <unsigned NTHREADS>
static __device__ bool
read_stream(const struct cuda_batch &batch, struct cuda_chunk *chunk,
            struct read_shared<NTHREADS> &s)
{
    struct block_reader reader = {};

    reader.src = (const uint8_t *)chunk->src;
    reader.end = chunk->src_nbytes;
    const struct stream_facts facts = {chunk->coding, chunk->prediction,
                                       chunk->has_specials, chunk->bound,
                                       batch.d_layout->nlevels};
    if (facts.coding == TERP_CODING_CONSTANT) {
        reader.at = batch.frame_nbytes - sizeof facts.bound; /* has none */
        stage_bytes<NTHREADS>(&reader, s.staged, 32);
        uint64_t bits = take_le(&reader, batch.value_nbytes);
        if (threadIdx.x == 0)
            chunk->constant_bits = bits;
        return !reader.underflow &&
               pass_specials(batch, facts, chunk, &reader) &&
               reader.at == reader.end;
    }
    reader.at = batch.frame_nbytes;
    stage_bytes<NTHREADS>(&reader, s.staged, STAGED_NBYTES);
    if (!read_model(batch, facts, chunk, &reader) ||
        !pass_specials(batch, facts, chunk, &reader) ||
        !pass_escapes(batch, chunk, &reader))
        return false;
    /* Specials and escapes may have taken up what was staged. */
    if (reader.staged_end < reader.end &&
        reader.at - reader.staged_at > STAGED_NBYTES / 2)
        stage_bytes<NTHREADS>(&reader, s.staged, STAGED_NBYTES);
    return read_index(batch, facts.coding, chunk, &reader, s);
}

/* Grid (1, nchunks), a block a chunk. */
template <unsigned NTHREADS>
static __global__ void
__launch_bounds__(NTHREADS) read_streams(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ struct read_shared<NTHREADS> s;
    struct cuda_chunk *chunk = &batch.d_chunks[blockIdx.y];

    if (chunk->status != TERP_OK || chunk->coding == TERP_CODING_RAW)
        return;
    bool valid = read_stream<NTHREADS>(batch, chunk, s);
    __syncthreads(); /* all have seen the status */
    if (!valid && threadIdx.x == 0)
        chunk->status = TERP_ERR_CORRUPT;
}

cudaError_t
cuda_model_read(const struct cuda_batch *batch, cudaStream_t stream)
{
    const dim3 grid(1, (unsigned)batch->nchunks);

    return batch->npartitions < CUDA_MANY_PARTITIONS
               ? launch(read_streams<FEW_NTHREADS>, grid, dim3(FEW_NTHREADS), 0,
                        stream, *batch)
               : launch(read_streams<MANY_NTHREADS>, grid, dim3(MANY_NTHREADS),
                        0, stream, *batch);
}

/* Done by the launch of cuda_model_read, which reads on. */
cudaError_t
cuda_tile_index_read(const struct cuda_batch *batch, cudaStream_t stream)
{
    (void)batch;
    (void)stream;
    return cudaSuccess;
}

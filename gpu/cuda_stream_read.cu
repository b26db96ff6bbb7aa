/* Floor 3: all of a stream that stands before its payload. One block reads a
 * chunk's; what is long (tiles, partitions) its threads share out. The same as
 * in cpu_engine.c, cpu_books.c and cpu_tile_index.c: whatever the CPU refuses
 * is TERP_ERR_CORRUPT here too. */
#include "bytes.h"
#include "cuda_decode_book.cuh"
#include "cuda_expand.cuh"
#include "cuda_specials.cuh"

#define NTHREADS 1024

/* Bytes of the stream that are staged at a time, and tiles' bit maps that fit
 * in shared memory. Longer ones are expanded in the region `staging`. */
#define STAGED_NBYTES 8192
#define BITMAP_NBYTES 8192

/* Control byte of a partition: width of its lengths, and whether reduced. */
#define CONTROL_REDUCED 0x80
#define MAX_LENGTH_NBITS 16

typedef cub::BlockScan<unsigned long long, NTHREADS, cub::BLOCK_SCAN_WARP_SCANS>
    wide_sum;

struct read_shared {
    __align__(16) uint8_t staged[STAGED_NBYTES];
    __align__(16) uint8_t bitmap[BITMAP_NBYTES];
    __align__(16) uint8_t above[BITMAP_NBYTES / 8];
    typename block_sum<NTHREADS>::TempStorage scan;
    wide_sum::TempStorage wide_scan;
    /* custom codebook, by length */
    uint32_t nbefore[NTHREADS / 32][TERP_MAX_CODE_NBITS + 1];
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
static __device__ bool
read_nonzero(const struct cuda_batch &batch, struct block_reader *reader,
             struct read_shared &s, struct tile_index *index,
             struct partition_share *share)
{
    unsigned nbytes = (unsigned)div_up(batch.ntiles, 8);
    uint8_t *bitmap = s.bitmap, *above = s.above;
    unsigned ntiles = 0, nfull = 0;

    if (nbytes > BITMAP_NBYTES) {
        bitmap = region<uint8_t>(batch, blockIdx.y, batch.at.staging);
        above = bitmap + div_up(nbytes, 8) * 8;
    }
    expand_bitmap<NTHREADS>(reader, bitmap, nbytes, above, s.scan);
    if (reader->underflow)
        return false;
    if (batch.ntiles % 8 != 0 && bitmap[nbytes - 1] >> (batch.ntiles % 8) != 0)
        return false;
    uint64_t most = div_up(batch.npartitions, NTHREADS);
    share->first = min_u64(most * threadIdx.x, batch.npartitions);
    share->count = min_u64(most, batch.npartitions - share->first);
    for (uint64_t i = 0; i < share->count; i++) {
        unsigned bits = partition_bits(batch, bitmap, share->first + i);
        ntiles += (unsigned)__popc(bits);
        nfull += bits != 0;
    }
    /* Both counts at once. */
    unsigned long long before, all;
    wide_sum(s.wide_scan)
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

/* The chunk's own codebook, made ready to decode. A thread a symbol. */
static __device__ bool
read_custom(const struct cuda_batch &batch, struct block_reader *reader,
            struct read_shared &s)
{
    static_assert(NTHREADS == TERP_NSYMBOLS && NTHREADS == CUDA_LOOKUP_NENTRIES,
                  "a thread a symbol, a thread a look-up");
    struct cuda_decode_book *book =
        region<struct cuda_decode_book>(batch, blockIdx.y, batch.at.books);
    const unsigned symbol = threadIdx.x, warp = threadIdx.x / 32;
    const unsigned lane = threadIdx.x % 32;
    unsigned low = (unsigned)take_le(reader, 2);
    unsigned high = (unsigned)take_le(reader, 2), length = 0;

    if (reader->underflow || low < 1 || low > high || high >= TERP_NSYMBOLS)
        return false;
    const uint8_t *at = take_bytes(reader, packed_nbytes(high - low + 2, 4));
    if (at == nullptr)
        return false;
    if (symbol == TERP_ESCAPE || (symbol >= low && symbol <= high)) {
        unsigned i = symbol == TERP_ESCAPE ? 0 : symbol - low + 1;
        length = at[i / 2] >> (4 * (i % 2)) & 15;
    }
    /* Symbols of the same length, in the warp and in those before it. */
    if (lane <= TERP_MAX_CODE_NBITS)
        s.nbefore[warp][lane] = 0;
    __syncwarp();
    unsigned same = __match_any_sync(0xFFFFFFFF, length);
    unsigned place = (unsigned)__popc(same & ((1u << lane) - 1));
    if (place == 0)
        s.nbefore[warp][length] = (uint32_t)__popc(same);
    __syncthreads();
    if (threadIdx.x <= TERP_MAX_CODE_NBITS) {
        unsigned sum = 0;
        for (int w = 0; w < NTHREADS / 32; w++) {
            unsigned n = s.nbefore[w][threadIdx.x];
            s.nbefore[w][threadIdx.x] = sum;
            sum += n;
        }
        s.nwords[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        s.fits = cuda_decode_book_ends(s.nwords, book);
    place += s.nbefore[warp][length];
    for (unsigned shorter = 1; shorter < length; shorter++)
        place += s.nwords[shorter];
    if (length > 0)
        book->sorted[place] = (uint16_t)symbol;
    __syncthreads();
    if (!s.fits)
        return false;
    cuda_decode_book_look(book, threadIdx.x);
    return true;
}

/* Controls and offsets; leaves the reader at the payload. */
static __device__ bool
read_places(const struct cuda_batch &batch, struct block_reader *reader,
            struct read_shared &s, struct tile_index *index,
            struct partition_share *share)
{
    unsigned own_nbytes = 0, full = share->nfull, lengths_nbytes;
    bool valid = true;

    index->controls = take_bytes(reader, index->nfull);
    if (index->controls == nullptr)
        return false;
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

/* Numbers of up to 16 bits one after another. Reads no byte before it is
 * needed. */
struct number_list {
    const uint8_t *at;
    unsigned bits;
    int nbits;
};

static __device__ __forceinline__ struct number_list
number_list_at(const uint8_t *bytes, uint64_t first_bit)
{
    struct number_list list = {bytes + first_bit / 8, 0, 0};
    int skipped = (int)(first_bit % 8);

    if (skipped > 0) {
        list.bits = *list.at++ >> skipped;
        list.nbits = 8 - skipped;
    }
    return list;
}

static __device__ __forceinline__ unsigned
next_number(struct number_list *list, int width)
{
    for (; list->nbits < width; list->nbits += 8)
        list->bits |= (unsigned)*list->at++ << list->nbits;
    unsigned number = list->bits & ((1u << width) - 1);
    list->bits >>= width;
    list->nbits -= width;
    return number;
}

/* The tiles of one partition. */
struct partition_tiles {
    __align__(16) uint8_t nonzero[TERP_PARTITION_NTILES];
    __align__(16) uint8_t entry[TERP_PARTITION_NTILES];
    __align__(16) uint16_t nbytes[TERP_PARTITION_NTILES];
};

/* Reads entries and lengths of the tiles that are not zero; the share's counts
 * go on to the next partition. False where a number is not valid. */
static __device__ __forceinline__ bool
read_partition(const struct cuda_batch &batch, enum terp_coding coding,
               const struct tile_index &index, uint64_t p, unsigned bits,
               struct partition_share *share, struct partition_tiles *tiles)
{
    const unsigned control = index.controls[share->nfull];
    const int width = (int)(control & ~(unsigned)CONTROL_REDUCED);
    const bool huffman = coding == TERP_CODING_HUFFMAN;
    struct number_list lengths =
        number_list_at(index.lengths + share->lengths_nbytes, 0);
    struct number_list numbers = number_list_at(
        index.numbers, (uint64_t)share->ntiles * (unsigned)index.number_width);
    uint64_t sum_nbytes = 0;
    bool valid = true;

#pragma unroll
    for (unsigned i = 0; i < TERP_PARTITION_NTILES; i++) {
        if (!(bits >> i & 1))
            continue;
        /* A word takes a bit at least, planes a byte. */
        uint64_t tile = p * TERP_PARTITION_NTILES + i;
        unsigned least = 1;
        if (coding != TERP_CODING_SPEED)
            least = (unsigned)div_up(
                min_u64(TERP_TILE_NSYMBOLS,
                        batch.nvalues - tile * TERP_TILE_NSYMBOLS),
                8);
        unsigned nbytes = next_number(&lengths, width) + least;
        unsigned number =
            huffman ? next_number(&numbers, index.number_width) : 0;
        unsigned entry = 0;
        valid &= nbytes <= CUDA_TILE_MAX_NBYTES;
        if (huffman && number < index.nused)
            entry = index.used[number];
        else
            valid &= !huffman;
        valid &= entry < TERP_NENTRIES;
        tiles->nonzero[i] = 1;
        tiles->entry[i] = (uint8_t)entry;
        tiles->nbytes[i] = (uint16_t)nbytes;
        sum_nbytes += nbytes;
    }
    uint64_t begin = full_begin(index, share->nfull);
    uint64_t end = full_begin(index, share->nfull + 1);
    bool reduced = (control & CONTROL_REDUCED) != 0;
    share->nfull++;
    share->ntiles += (unsigned)__popc(bits);
    share->lengths_nbytes += ((unsigned)__popc(bits) * (unsigned)width + 7) / 8;
    return valid && begin <= end && (reduced || end - begin == sum_nbytes);
}

/* Each thread those of its share. */
static __device__ bool
read_partitions(const struct cuda_batch &batch, enum terp_coding coding,
                const struct tile_index &index, struct partition_share share)
{
    uint4 *nonzero = region<uint4>(batch, blockIdx.y, batch.at.nonzero);
    uint4 *entry = region<uint4>(batch, blockIdx.y, batch.at.entry);
    uint4 *nbytes = region<uint4>(batch, blockIdx.y, batch.at.nbytes);
    uint64_t *begin = region<uint64_t>(batch, blockIdx.y, batch.at.begin);
    uint8_t *reduced = region<uint8_t>(batch, blockIdx.y, batch.at.reduced);
    bool valid = true;

    for (uint64_t i = 0; i < share.count; i++) {
        uint64_t p = share.first + i;
        unsigned bits = partition_bits(batch, index.bitmap, p);
        struct partition_tiles tiles = {};
        begin[p] = full_begin(index, share.nfull);
        reduced[p] = 0;
        if (bits != 0) {
            reduced[p] = (index.controls[share.nfull] & CONTROL_REDUCED) != 0;
            valid &=
                read_partition(batch, coding, index, p, bits, &share, &tiles);
        }
        /* Regions are multiples of 256 bytes: whole partitions fit. */
        memcpy(&nonzero[p], tiles.nonzero, sizeof tiles.nonzero);
        memcpy(&entry[p], tiles.entry, sizeof tiles.entry);
        memcpy(&nbytes[2 * p], tiles.nbytes, sizeof tiles.nbytes);
    }
    if (threadIdx.x == 0)
        begin[batch.npartitions] = index.payload_nbytes;
    return !__syncthreads_or(!valid);
}

static __device__ bool
read_index(const struct cuda_batch &batch, enum terp_coding coding,
           struct cuda_chunk *chunk, struct block_reader *reader,
           struct read_shared &s)
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
    return read_partitions(batch, coding, index, share);
}

static __device__ bool
read_stream(const struct cuda_batch &batch, struct cuda_chunk *chunk,
            struct read_shared &s)
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
static __global__ void
__launch_bounds__(NTHREADS) read_streams(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ struct read_shared s;
    struct cuda_chunk *chunk = &batch.d_chunks[blockIdx.y];

    if (chunk->status != TERP_OK)
        return;
    bool valid = read_stream(batch, chunk, s);
    __syncthreads(); /* all have seen the status */
    if (!valid && threadIdx.x == 0)
        chunk->status = TERP_ERR_CORRUPT;
}

cudaError_t
cuda_model_read(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch(read_streams, dim3(1, (unsigned)batch->nchunks),
                  dim3(NTHREADS), 0, stream, *batch);
}

/* Done by the launch of cuda_model_read, which reads on. */
cudaError_t
cuda_tile_index_read(const struct cuda_batch *batch, cudaStream_t stream)
{
    (void)batch;
    (void)stream;
    return cudaSuccess;
}

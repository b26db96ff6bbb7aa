/* Decodes streams of coding SPEED, in one kernel: each tile finds its place in
 * the index, adds its share to the checksum, and the last tile that ends
 * compares the sum. */
#include "gpu/speed/tile.cuh"

/* Integers from a row to the next in shared memory: with 16 bytes more than the
 * columns, the rows that a warp sums begin in other banks. */
template <typename Word>
static constexpr int row_stride = SPEED_NCOLUMNS + 16 / (int)sizeof(Word);

#define NALL_ROWS (TERP_SPEED_NSLABS * SPEED_NROWS)

/* The tile of a block, and what its stream says of it. */
struct coded_tile {
    enum terp_speed_kind kind;
    uint64_t step_bits, seed, index_at, tiles_at;
    uint64_t place, end; /* bytes behind tiles_at */
};

/* Shared memory of a tile: its bytes, and then its integers. */
template <typename Word> struct decoding_memory {
    union {
        alignas(
            16) uint8_t bytes[TERP_SPEED_TILE_MAX_NBYTES(sizeof(Word)) + 16];
        alignas(16) Word integers[NALL_ROWS * row_stride<Word>];
    };
    block_scan<int, SPEED_NTHREADS> scan;
    unsigned long long sums[SPEED_NTHREADS / 32];
    Word ends[TERP_SPEED_NSLABS][SPEED_NCOLUMNS];
    struct terp_speed_box box;
    struct coded_tile tile;
    bool is_found;
};

/* Finds a tile's place. False: the stream is no such stream, or has no such
 * tile. */
static __device__ __forceinline__ bool
find_tile(const struct speed_job &job, const struct speed_stream &stream,
          uint64_t tile, struct coded_tile *ret)
{
    const uint64_t ntiles = job.grid.ntiles;
    const uint64_t kind_at = job.frame_nbytes;

    if (stream.nbytes < kind_at + 16 || stream.src[kind_at] > TERP_SPEED_STEPS)
        return false;
    ret->kind = (enum terp_speed_kind)stream.src[kind_at];
    ret->seed = *(const uint64_t *)stream.src;
    ret->index_at = kind_at + terp_speed_head_nbytes(ret->kind, kind_at);
    ret->tiles_at = ret->index_at + terp_speed_index_nbytes(ntiles);
    if (stream.nbytes < ret->tiles_at + 8 * ntiles || stream.nbytes % 8 != 0)
        return false;
    ret->step_bits = ret->kind == TERP_SPEED_STEPS
                         ? *(const uint64_t *)(stream.src + ret->index_at - 8)
                         : 0;
    const uint32_t *index = (const uint32_t *)(stream.src + ret->index_at);
    const uint64_t all_nbytes = stream.nbytes - ret->tiles_at;
    ret->place = (uint64_t)index[tile] * TERP_SPEED_ALIGN_NBYTES;
    ret->end = tile + 1 == ntiles
                   ? all_nbytes
                   : (uint64_t)index[tile + 1] * TERP_SPEED_ALIGN_NBYTES;
    return ret->place < ret->end && ret->end <= all_nbytes &&
           (tile > 0 || ret->place == 0);
}

/* Whether the first bytes of a stream are valid, up to the index and behind
 * it. One thread reads them. */
static __device__ __noinline__ bool
head_is_valid(const struct speed_job &job, const struct speed_stream &stream,
              const struct coded_tile &tile)
{
    const uint8_t *src = stream.src;
    const unsigned bound_at = job.frame_nbytes - 8;
    bool is_valid = true;

    for (unsigned i = 0; i < bound_at; i++)
        is_valid &= src[i] == job.frame[i] || (i >= 8 && i < 16);
    uint64_t bound = 0;
    for (unsigned i = 0; i < 8; i++)
        bound |= (uint64_t)src[bound_at + i] << 8 * i;
    is_valid &=
        is_bound(double_of_bits(bound)) || is_zero_bound(double_of_bits(bound));
    const uint64_t end =
        tile.index_at - (tile.kind == TERP_SPEED_STEPS ? 8 : 0);
    for (uint64_t i = job.frame_nbytes + 1; i < end; i++)
        is_valid &= src[i] == 0;
    for (uint64_t i = tile.index_at + 4 * job.grid.ntiles; i < tile.tiles_at;
         i++)
        is_valid &= src[i] == 0;
    if (tile.kind != TERP_SPEED_STEPS)
        return is_valid;
    if (terp_type_is_integer(job.type))
        return is_valid && tile.step_bits > 0;
    const double step = double_of_bits(tile.step_bits);
    return is_valid && is_bound(step) &&
           (job.value_nbytes == 8 ||
            (step >= 0x1p-126 && step <= 0x1p127 &&
             double_bits((double)(float)step) == tile.step_bits));
}

static __device__ __forceinline__ uint32_t
unfold(uint32_t number)
{
    return number >> 1 ^ (0 - (number & 1));
}

/* Unpacks a group of a width below 16. */
template <typename Word>
static __device__ __forceinline__ void
unpack_narrow(const uint16_t *s_units, int width, Word words[SPEED_NROWS])
{
    typedef typename speed_word<Word>::integer integer;
    const uint32_t mask = (1u << width) - 1;
    uint32_t kept = 0;
    int nbits = 0;

#pragma unroll
    for (int r = 0; r < SPEED_NROWS; r++) {
        if (nbits < width) {
            kept |= (uint32_t)*s_units++ << nbits;
            nbits += 16;
        }
        words[r] = (Word)(integer)(int32_t)unfold(kept & mask);
        kept >>= width;
        nbits -= width;
    }
}

/* Unpacks a group of any width. */
template <typename Word>
static __device__ __forceinline__ void
unpack(const uint16_t *s_units, int width, Word words[SPEED_NROWS])
{
    const uint32_t mask = (uint32_t)(((uint64_t)1 << (width & 63)) - 1);
    uint64_t kept = 0;
    int nbits = 0;
    const auto fill = [&](int n) { /* so that n bits are kept, up to 32 */
#pragma unroll
                                   for (int i = 0; i < 2; i++)
                                       if (nbits < n) {
                                           kept |= (uint64_t)*s_units++
                                                   << nbits;
                                           nbits += 16;
                                       }
    };
    const auto drop = [&](int n) {
        kept >>= n;
        nbits -= n;
    };

#pragma unroll
    for (int r = 0; r < SPEED_NROWS; r++) {
        if (sizeof(Word) == 4) {
            fill(width);
            const uint32_t number = (uint32_t)kept & mask;
            drop(width);
            words[r] = (Word)unfold(number);
            continue;
        }
        uint64_t word = 0;
        int left = width, shift = 0;
        if (sizeof(Word) == 8 && left > 32) {
            fill(32);
            word = kept & UINT32_MAX;
            drop(32);
            left -= 32;
            shift = 32;
        }
        fill(left);
        word |= (kept & (((uint64_t)1 << left) - 1)) << shift;
        drop(left);
        words[r] = (Word)(word >> 1 ^ (0 - (word & 1)));
    }
}

/* Sums the integers of each row along x. Four threads have a row: lane l has 16
 * columns of row l % 8 of the warp's rows, and the lanes l + 8, l + 16 and l +
 * 24 those behind. */
template <typename Word>
static __device__ __forceinline__ void
sum_rows(Word *s_integers)
{
    constexpr int NVECTORS = (int)sizeof(Word); /* of 16 bytes, a thread */
    const int lane = (int)threadIdx.x % 32;
    const int row = (int)threadIdx.x / 32 * 8 + lane % 8;
    uint4 *at =
        (uint4 *)(s_integers + row * row_stride<Word> + lane / 8 * SPEED_NROWS);
    alignas(16) Word words[16];

#pragma unroll
    for (int i = 0; i < NVECTORS; i++)
        ((uint4 *)words)[i] = at[i];
#pragma unroll
    for (int i = 1; i < 16; i++)
        words[i] += words[i - 1];
    const Word own = words[15];
    Word sum = own;
#pragma unroll
    for (int distance = 8; distance < 32; distance *= 2) {
        const Word left =
            __shfl_up_sync(FULL_WARP_MASK, sum, (unsigned)distance);
        if (lane >= distance)
            sum += left;
    }
#pragma unroll
    for (int i = 0; i < 16; i++)
        words[i] += sum - own;
#pragma unroll
    for (int i = 0; i < NVECTORS; i++)
        at[i] = ((const uint4 *)words)[i];
}

/* The bits of the value of an integer. */
template <typename Word>
static __device__ inline Word
value_of_word(const struct speed_job &job, const struct coded_tile &tile,
              bool is_bits, double factor, Word word)
{
    typedef speed_word<Word> of;
    typedef typename of::real real;
    typedef typename of::integer integer;

    if (is_bits)
        return terp_type_is_integer(job.type) ? word
               : job.value_nbytes == 2
                   ? (Word)terp_speed_bits_of_key(word & 0xFFFF, 16)
                   : speed_bits_of_key(word);
    if (terp_type_is_integer(job.type))
        return (Word)speed_value_of_steps(job.type, job.value_nbytes,
                                          tile.step_bits, (integer)word);
    const real step = (real)(double_of_bits(tile.step_bits) * factor);
    const real value = (real)(integer)word * step;
    return job.value_nbytes == 2 ? (Word)terp_half_of_f32_bits(
                                       job.type, (uint32_t)of::bits_of(value))
                                 : of::bits_of(value);
}

/* Bytes of a tile's exceptions, in shared memory; 0: they do not fit. */
static __device__ __noinline__ int
exceptions_nbytes(const struct terp_speed_box &box, int word_nbytes,
                  int value_nbytes, int nlisted, const uint8_t *s_at,
                  int left_nbytes)
{
    const int nstates = terp_speed_states_nbytes(&box);
    int nbytes = word_nbytes + nstates, nmixed = 0;

    if (left_nbytes < nbytes)
        return 0;
    for (int i = 0; i < 4 * nstates; i++)
        nmixed +=
            (s_at[word_nbytes + i / 4] >> 2 * (i % 4) & 3) == TERP_SPEED_MIXED;
    return nbytes + 2 * nmixed + nlisted * (2 + value_nbytes);
}

static __device__ __forceinline__ uint64_t
get_bytes(const uint8_t *at, int nbytes)
{
    uint64_t value = 0;

    for (int i = 0; i < nbytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* Puts exceptions in their places. `at`: in global memory. Returns whether they
 * are valid. */
template <typename Word>
static __device__ __noinline__ bool
place_exceptions(const struct speed_job &job, const struct speed_stream &stream,
                 const struct terp_speed_box box, int nlisted,
                 const uint8_t *at, block_scan<int, SPEED_NTHREADS> &scan)
{
    const int s = (int)threadIdx.x / SPEED_NCOLUMNS,
              x = (int)threadIdx.x % SPEED_NCOLUMNS;
    const int ngroups = terp_speed_row_ngroups(&box);
    const int nrows = speed_group_nrows(box, s, x);
    const uint64_t value_nbytes = (uint64_t)job.value_nbytes;
    const Word fill = (Word)get_bytes(at, (int)sizeof(Word));
    uint8_t *dst = (uint8_t *)stream.dst;
    bool is_valid = true;
    int state = TERP_SPEED_NONE, nmixed;

    at += sizeof(Word);
    if (s < box.nslabs && x < ngroups) {
        const int i = s * ngroups + x;
        state = at[i / 4] >> 2 * (i % 4) & 3;
    }
    at += terp_speed_states_nbytes(&box);
    is_valid &=
        state <= TERP_SPEED_MIXED && (nrows > 0 || state == TERP_SPEED_NONE);
    __syncthreads();
    const int mixed =
        scan_block(scan, state == TERP_SPEED_MIXED ? 1 : 0, &nmixed);
    const unsigned mask = state == TERP_SPEED_ALL ? 0xFFFF
                          : state == TERP_SPEED_MIXED
                              ? (unsigned)get_bytes(at + 2 * mixed, 2)
                              : 0;
    at += 2 * nmixed;
    for (int r = 0; r < nrows; r++)
        if (mask >> r & 1)
            speed_put_value(job,
                            dst + (box.first + (uint64_t)s * box.slab +
                                   (uint64_t)r * box.row + (uint64_t)x) *
                                      value_nbytes,
                            fill);
    __syncthreads(); /* listed values come last */
    for (int i = (int)threadIdx.x; i < nlisted; i += SPEED_NTHREADS) {
        const int place = (int)get_bytes(at + 2 * i, 2);
        const int before = i == 0 ? -1 : (int)get_bytes(at + 2 * i - 2, 2);
        const int group = place / SPEED_NROWS, r = place % SPEED_NROWS;
        const int of_slab = group / SPEED_NCOLUMNS,
                  of_column = group % SPEED_NCOLUMNS;
        if (place <= before || place >= TERP_SPEED_TILE_NVALUES ||
            r >= speed_group_nrows(box, of_slab, of_column)) {
            is_valid = false;
            continue;
        }
        speed_put_value(job,
                        dst + (box.first + (uint64_t)of_slab * box.slab +
                               (uint64_t)r * box.row + (uint64_t)of_column) *
                                  value_nbytes,
                        (Word)get_bytes(at + 2 * nlisted + job.value_nbytes * i,
                                        job.value_nbytes));
    }
    return is_valid;
}

/* Decodes the tile in shared memory to its places. Returns whether the tile is
 * valid; all threads agree, but for exceptions. */
template <typename Word, bool IS_PLAIN>
static __device__ __forceinline__ bool
decode_tile(const struct speed_job &job, const struct speed_stream &stream,
            const struct coded_tile &tile, const struct terp_speed_box &box,
            decoding_memory<Word> &mem)
{
    const int slab = (int)threadIdx.x / SPEED_NCOLUMNS,
              x = (int)threadIdx.x % SPEED_NCOLUMNS;
    const int nbytes = (int)(tile.end - tile.place);
    const int head_nbytes = terp_speed_tile_head_nbytes((int)sizeof(Word));
    const uint8_t *bytes = mem.bytes;

    if (nbytes < head_nbytes)
        return false;
    const uint32_t first = *(const uint32_t *)bytes;
    const Word base =
        *(const Word *)(bytes + terp_speed_base_at((int)sizeof(Word)));
    const int flags = (int)(first & 255), form = flags & TERP_SPEED_WIDTHS;
    const int level = flags >> TERP_SPEED_LEVEL_SHIFT & 3;
    const int nlisted = (int)(first >> 16);
    const bool is_exact = (flags & TERP_SPEED_EXACT) != 0;
    const bool has_exceptions = (flags & TERP_SPEED_EXCEPTIONS) != 0;
    const bool is_bits = tile.kind == TERP_SPEED_BITS || is_exact;
    const int widths_nbytes = terp_speed_widths_nbytes(&box, form);
    const int nbits = is_bits ? 8 * job.value_nbytes : 8 * (int)sizeof(Word);
    if (flags & TERP_SPEED_UNUSED || (first >> 8 & 255) != 0 ||
        (sizeof(Word) == 8 && *(const uint32_t *)(bytes + 4) != 0) ||
        form >= TERP_SPEED_NWIDTHS ||
        (is_exact && tile.kind == TERP_SPEED_BITS) ||
        (is_bits && (level != 0 || has_exceptions)) ||
        (!terp_speed_has_float_steps(job.type) && level != 0) ||
        nlisted > (has_exceptions ? TERP_SPEED_MAX_NLISTED : 0) ||
        nbytes - head_nbytes < widths_nbytes)
        return false;
    const int nrows = speed_group_nrows(box, slab, x);
    const int ngroups = terp_speed_row_ngroups(&box);
    int width = 0;
    if (slab < box.nslabs && x < ngroups) {
        const int at = slab * ngroups + x;
        if (form == TERP_SPEED_WIDTHS_OF_4)
            width = bytes[head_nbytes + at / 2] >> 4 * (at % 2) & 15;
        else if (form == TERP_SPEED_WIDTHS_OF_8)
            width = bytes[head_nbytes + at];
    }
    int nunits;
    const int first_unit = scan_block(mem.scan, width, &nunits);
    const int packed_at = head_nbytes + widths_nbytes;
    const int exceptions_at = packed_at + 2 * nunits;
    int used = exceptions_at;
    if (has_exceptions && used <= nbytes) {
        const int more =
            exceptions_nbytes(box, (int)sizeof(Word), job.value_nbytes, nlisted,
                              bytes + used, nbytes - used);
        used = more == 0 ? nbytes + 8 : used + more;
    }
    const bool is_bad = width > nbits || (nrows == 0 && width != 0);
    if (__syncthreads_or(is_bad) || used > nbytes || nbytes - used >= 8)
        return false;
    Word words[SPEED_NROWS];
    const uint16_t *units = (const uint16_t *)(bytes + packed_at) + first_unit;
    if (form == TERP_SPEED_WIDTHS_OF_8) /* the same in all threads */
        unpack(units, width, words);
    else
        unpack_narrow(units, width, words);
    const bool sums_rows = box.shape != TERP_SPEED_LINE || x == 0;
    if (threadIdx.x == 0)
        words[0] += base;
    if (sums_rows)
#pragma unroll
        for (int r = 1; r < SPEED_NROWS; r++)
            words[r] += words[r - 1];
    if (box.shape != TERP_SPEED_VOLUME) {
        mem.ends[slab][x] = words[SPEED_NROWS - 1];
        __syncthreads();
        Word before = 0;
        for (int i = 0; i < slab && sums_rows; i++)
            before += mem.ends[i][x];
#pragma unroll
        for (int r = 0; r < SPEED_NROWS; r++)
            words[r] += before;
    }
    Word *shared = mem.integers + slab * SPEED_NROWS * row_stride<Word> + x;
    __syncthreads(); /* all units are read */
#pragma unroll
    for (int r = 0; r < SPEED_NROWS; r++)
        shared[r * row_stride<Word>] = words[r];
    __syncthreads();
    sum_rows(mem.integers);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < SPEED_NROWS; r++)
        words[r] = shared[r * row_stride<Word>];
    if (box.shape == TERP_SPEED_VOLUME)
#pragma unroll
        for (int i = 1; i < TERP_SPEED_NSLABS; i++)
            if (i <= slab)
#pragma unroll
                for (int r = 0; r < SPEED_NROWS; r++)
                    words[r] +=
                        shared[(r - i * SPEED_NROWS) * row_stride<Word>];
    const double factor = terp_speed_factor(level);
    uint8_t *column = (uint8_t *)stream.dst +
                      (box.first + (uint64_t)slab * box.slab + (uint64_t)x) *
                          (uint64_t)job.value_nbytes;
    const uint64_t row_nbytes = box.row * (uint64_t)job.value_nbytes;
    if (IS_PLAIN) {
        typedef speed_word<Word> of;
        typedef typename of::real real;
        const real step = (real)(double_of_bits(tile.step_bits) * factor);
#pragma unroll
        for (int r = 0; r < SPEED_NROWS; r++)
            if (is_bits)
                words[r] = speed_bits_of_key(words[r]);
            else
                words[r] =
                    of::bits_of((real)(typename of::integer)words[r] * step);
        if (job.big_endian) {
#pragma unroll
            for (int r = 0; r < SPEED_NROWS; r++)
                if (r < nrows)
                    speed_put_value(job, column + (uint64_t)r * row_nbytes,
                                    words[r]);
        } else if (nrows == SPEED_NROWS) {
#pragma unroll
            for (int r = 0; r < SPEED_NROWS; r++) {
                speed_store((Word *)column, words[r]);
                column += row_nbytes;
            }
        } else {
#pragma unroll
            for (int r = 0; r < SPEED_NROWS; r++)
                if (r < nrows)
                    speed_store((Word *)(column + (uint64_t)r * row_nbytes),
                                words[r]);
        }
    } else {
#pragma unroll 1
        for (int r = 0; r < SPEED_NROWS; r++) {
            Word word = 0;
#pragma unroll
            for (int i = 0; i < SPEED_NROWS; i++)
                word = i == r ? words[i] : word;
            if (r < nrows)
                speed_put_value(
                    job, column + (uint64_t)r * row_nbytes,
                    value_of_word(job, tile, is_bits, factor, word));
        }
    }
    return !has_exceptions ||
           place_exceptions<Word>(job, stream, box, nlisted,
                                  stream.src + tile.tiles_at + tile.place +
                                      exceptions_at,
                                  mem.scan);
}

/* Compares the checksum. */
static __device__ __noinline__ bool
is_complete(const struct speed_job &job, const struct speed_stream &stream,
            const struct coded_tile &tile, struct speed_progress *progress)
{
    const uint64_t *words = (const uint64_t *)stream.src;
    uint64_t sum = 0;

    if (atomicAdd(&progress->is_bad, 0u) != 0)
        return false;
    if (job.is_part)
        return true;
    for (uint64_t i = 2; i < tile.index_at / 8; i++)
        sum += terp_speed_hash_word(words[i], words[0], i - 2);
    return words[1] == terp_speed_hash_tile(sum, 0, job.grid.ntiles) +
                           atomicAdd(&progress->checksum, 0ull);
}

/* Decodes a tile of a stream. Grid: tiles, streams. The progress of a stream
 * says in the end whether it is decoded: its nbytes is 1. */
template <typename Word, bool IS_PLAIN>
static __global__ void
__launch_bounds__(SPEED_NTHREADS, sizeof(Word) == 4 ? 6 : 3)
    decode_tiles(const __grid_constant__ struct speed_job job)
{
    __shared__ decoding_memory<Word> mem;

    begin_kernel();
    const struct speed_stream stream =
        job.streams == NULL ? job.stream : job.streams[blockIdx.y];
    struct speed_progress *progress = &job.progress[blockIdx.y];
    /* Two threads of different warps find out what all need. */
    if (threadIdx.x == 0)
        mem.is_found = find_tile(job, stream, blockIdx.x, &mem.tile);
    if (threadIdx.x == 32)
        terp_speed_box_make(&job.grid, blockIdx.x, &mem.box);
    __syncthreads();
    if (!mem.is_found) /* no tile of the stream can be the last */
        return;
    const struct coded_tile &tile = mem.tile;
    const uint64_t nbytes = tile.end - tile.place, seed = tile.seed;
    unsigned long long sum = 0;
    bool is_good = nbytes <= TERP_SPEED_TILE_MAX_NBYTES(sizeof(Word));
    if (is_good) {
        const unsigned long long *from =
            (const unsigned long long *)(stream.src + tile.tiles_at +
                                         tile.place);
        uint64_t *to = (uint64_t *)mem.bytes;
        for (int i = (int)threadIdx.x; i < (int)(nbytes / 8);
             i += SPEED_NTHREADS) {
            const uint64_t word = speed_load(&from[i]);
            to[i] = word;
            sum += terp_speed_hash_word(word, seed, (uint64_t)i);
        }
    }
    sum = speed_block_sum(sum, mem.sums); /* and the tile is complete */
    if (is_good)
        is_good = decode_tile<Word, IS_PLAIN>(job, stream, tile, mem.box, mem);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        is_good &= head_is_valid(job, stream, tile);
    const bool is_bad = __syncthreads_or(!is_good) != 0;
    if (threadIdx.x != 0)
        return;
    if (is_bad)
        atomicOr(&progress->is_bad, 1u);
    atomicAdd(&progress->checksum,
              (unsigned long long)terp_speed_hash_tile(
                  sum, tile.place / TERP_SPEED_ALIGN_NBYTES, blockIdx.x));
    __threadfence();
    if (atomicAdd(&progress->ndone, 1u) == job.grid.ntiles - 1)
        speed_tell(job, is_complete(job, stream, tile, progress) ? 1 : 0);
}

cudaError_t
cuda_speed_launch_decode(const struct speed_job *job, unsigned nchunks,
                         cudaStream_t stream)
{
    const dim3 grid((unsigned)job->grid.ntiles, nchunks);
    const bool is_plain = terp_type_is_plain(job->type);
    auto *kernel = terp_speed_word_nbytes(job->type) == 4
                       ? (is_plain ? decode_tiles<uint32_t, true>
                                   : decode_tiles<uint32_t, false>)
                       : (is_plain ? decode_tiles<uint64_t, true>
                                   : decode_tiles<uint64_t, false>);

    return launch(kernel, grid, dim3(SPEED_NTHREADS), 0, stream, *job);
}

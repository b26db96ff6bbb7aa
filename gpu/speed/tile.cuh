/* Tiles of coding SPEED on the device: codec/format/speed.h. A block of 256
 * threads has a tile; thread t has the group t, which is the column t % 64 of
 * the slab t / 64, in registers. */
#pragma once

#include "codec/format/speed.h"
#include "codec/model/carrier.h"
#include "codec/model/range.h"
#include "codec/model/speed.h"
#include "gpu/block/scan.cuh"
#include "gpu/block/swap.cuh"
#include "gpu/engine/platform.cuh"

#define SPEED_NTHREADS TERP_SPEED_NGROUPS
#define SPEED_NROWS TERP_SPEED_NROWS
#define SPEED_NCOLUMNS TERP_SPEED_NCOLUMNS

/* The most bytes before the index: a frame with a bound, and the head. */
#define SPEED_MAX_HEAD_NBYTES 80

/* The numbers of a chunk's values (cpu/speed/tile.h has the CPU's). */
struct speed_numbers {
    enum terp_speed_kind kind;
    double step[TERP_SPEED_NLEVELS], per_step[TERP_SPEED_NLEVELS], most;
    uint64_t whole_step, whole_most;
    double per_whole_step;
    int nfills;
    uint64_t fill[TERP_NFILLS];
};

/* A chunk to encode. */
struct speed_chunk {
    const void *src;
    uint8_t *dst;
    struct speed_numbers numbers;
    unsigned index_at; /* bytes of `head` */
    /* what precedes the index, but for the checksum */
    alignas(8) uint8_t head[SPEED_MAX_HEAD_NBYTES];
};

/* The state that a chunk's tiles share. Zeros at first. */
struct speed_progress {
    unsigned next, ndone;
    unsigned long long checksum;
    /* In the end: bytes of the stream, or decode: 1 if it is decoded. Kernels
       write it to h_progress if there is one: a copy to the host takes longer.
     */
    unsigned long long nbytes;
    unsigned is_long, is_bad;
};

/* A chunk's stream to decode. */
struct speed_stream {
    const uint8_t *src;
    uint64_t nbytes;
    void *dst;
};

/* Chunks of one shape. */
struct speed_job {
    enum terp_type type;
    bool big_endian;
    int value_nbytes;
    struct terp_speed_grid grid;
    /* one chunk, or, for more, all of them in device memory */
    struct speed_chunk chunk;
    const struct speed_chunk *chunks;
    struct speed_stream stream;
    const struct speed_stream *streams;
    struct speed_progress *progress;   /* of each chunk */
    struct speed_progress *h_progress; /* pinned, or NULL; only for nbytes */
    unsigned long long *states;        /* encode: of each tile */
    uint64_t cap_nbytes;               /* encode: a stream is shorter */
    /* decode: the frame that streams must have, but for checksum and bound;
     * inner streams have no checksum */
    bool is_part;
    unsigned frame_nbytes;
    alignas(8) uint8_t frame[SPEED_MAX_HEAD_NBYTES];
};

/* Sets nbytes of the block's chunk. */
static __device__ __forceinline__ void
speed_tell(const struct speed_job &job, unsigned long long nbytes)
{
    struct speed_progress *to =
        job.h_progress != NULL ? job.h_progress : job.progress;

    to[blockIdx.y].nbytes = nbytes;
}

/* A tile's state of the look-back (Merrill and Garland, "Single-pass Parallel
 * Prefix Scan with Decoupled Look-back", 2016): absent, the tile's own bytes,
 * or the bytes of all tiles up to it. */
#define SPEED_OWN (1ull << 62)
#define SPEED_ALL (2ull << 62)
#define SPEED_NBYTES (SPEED_OWN - 1)

/* Values and streams are read and written once. */
template <typename T>
static __device__ __forceinline__ T
speed_load(const T *at)
{
#ifdef __CUDA_ARCH__
    return __ldcs(at);
#else
    return *at;
#endif
}

template <typename T>
static __device__ __forceinline__ void
speed_store(T *at, T value)
{
#ifdef __CUDA_ARCH__
    __stcs(at, value);
#else
    *at = value;
#endif
}

/* ---- words ---- */

/* A word of 32 or 64 bits, with the integer and the float of as many bits. */
template <typename Word> struct speed_word {
    static constexpr bool is_narrow = sizeof(Word) == 4;
    typedef std::conditional_t<is_narrow, int32_t, int64_t> integer;
    typedef std::conditional_t<is_narrow, float, double> real;
    static __device__ __forceinline__ real real_of(Word bits)
    {
        if constexpr (is_narrow)
            return __uint_as_float(bits);
        else
            return double_of_bits(bits);
    }
    static __device__ __forceinline__ Word bits_of(real value)
    {
        if constexpr (is_narrow)
            return __float_as_uint(value);
        else
            return double_bits(value);
    }
    static __device__ __forceinline__ real rounder(void)
    {
        /* 1.5 * 2^23, 1.5 * 2^52 */
        return is_narrow ? (real)12582912.0 : (real)6755399441055744.0;
    }
    static __device__ __forceinline__ real max_quotient(void)
    {
        return is_narrow ? (real)TERP_SPEED_MAX_QUOTIENT_F32
                         : (real)TERP_SPEED_MAX_QUOTIENT_F64;
    }
    static __device__ __forceinline__ real magnitude(real value)
    {
        if constexpr (is_narrow)
            return fabsf(value);
        else
            return fabs(value);
    }
    static __device__ __forceinline__ int width(Word word)
    {
        return is_narrow ? 32 - __clz((int)word) : 64 - __clzll((int64_t)word);
    }
};

template <typename Word>
static __device__ __forceinline__ Word
speed_key(Word bits)
{
    typedef typename speed_word<Word>::integer integer;
    const int sign_at = 8 * (int)sizeof(Word) - 1;
    return bits ^ ((Word)((integer)bits >> sign_at) | (Word)1 << sign_at);
}

template <typename Word>
static __device__ __forceinline__ Word
speed_bits_of_key(Word key)
{
    typedef typename speed_word<Word>::integer integer;
    const int sign_at = 8 * (int)sizeof(Word) - 1;
    return key ^ ((Word) ~((integer)key >> sign_at) | (Word)1 << sign_at);
}

/* ---- groups ---- */

/* The rows that a group has. */
static __device__ __forceinline__ int
speed_group_nrows(const struct terp_speed_box &box, int s, int x)
{
    int nrows = box.nrows;

    if (box.shape == TERP_SPEED_LINE)
        nrows = (nrows - s * TERP_SPEED_SLAB_NVALUES - x + SPEED_NCOLUMNS - 1) /
                SPEED_NCOLUMNS;
    else if (s >= box.nslabs || x >= box.ncolumns)
        return 0;
    else if (box.shape == TERP_SPEED_PLANE)
        nrows -= s * SPEED_NROWS;
    return nrows < 0 ? 0 : nrows < SPEED_NROWS ? nrows : SPEED_NROWS;
}

/* The bits of a value; the address is aligned. */
template <typename Word>
static __device__ __forceinline__ Word
speed_value_bits(const struct speed_job &job, const uint8_t *at)
{
    if (sizeof(Word) == 8 || job.value_nbytes == 4) {
        const Word bits = speed_load((const Word *)at);
        return job.big_endian ? swapped(bits) : bits;
    }
    if (job.value_nbytes == 1)
        return *at;
    const uint16_t bits = *(const uint16_t *)at;
    return job.big_endian ? swapped(bits) : bits;
}

template <typename Word>
static __device__ __forceinline__ void
speed_put_value(const struct speed_job &job, uint8_t *at, Word bits)
{
    if (sizeof(Word) == 8 || job.value_nbytes == 4) {
        speed_store((Word *)at, job.big_endian ? swapped(bits) : bits);
    } else if (job.value_nbytes == 1) {
        *at = (uint8_t)bits;
    } else {
        const uint16_t half = (uint16_t)bits;
        *(uint16_t *)at = job.big_endian ? swapped(half) : half;
    }
}

/* Loads a group whose type is a float of the size of a word: a value for each
 * of the first `nrows` rows, and zeros for the other rows. `IS_WHOLE`: the
 * group has all rows. */
template <typename Word, bool IS_WHOLE>
static __device__ __forceinline__ void
speed_load_group(bool is_swapped, const uint8_t *column, uint64_t row_nbytes,
                 int nrows, Word words[SPEED_NROWS])
{
#pragma unroll
    for (int r = 0; r < SPEED_NROWS; r++) {
        words[r] = 0;
        if (IS_WHOLE || r < nrows)
            words[r] = speed_load((const Word *)column);
        column += row_nbytes;
    }
    if (is_swapped)
#pragma unroll
        for (int r = 0; r < SPEED_NROWS; r++)
            words[r] = swapped(words[r]);
}

/* ---- integers of type ---- */

static __device__ __forceinline__ int64_t
speed_number_of(enum terp_type type, uint64_t bits)
{
    return type == TERP_INT8    ? (int64_t)(int8_t)bits
           : type == TERP_INT16 ? (int64_t)(int16_t)bits
           : type == TERP_INT32 ? (int64_t)(int32_t)bits
                                : (int64_t)bits;
}

static __device__ __forceinline__ uint64_t
speed_value_of_steps(enum terp_type type, int value_nbytes, uint64_t step,
                     int64_t q)
{
    const uint64_t product = (uint64_t)q * step;

    if (value_nbytes == 8)
        return product;
    const bool is_signed = terp_type_is_signed(type);
    const int nbits = 8 * value_nbytes;
    const int64_t least = is_signed ? -((int64_t)1 << (nbits - 1)) : 0;
    const int64_t most = ((int64_t)1 << (is_signed ? nbits - 1 : nbits)) - 1;
    const int64_t value = (int64_t)product;
    return (uint64_t)(value < least ? least : value > most ? most : value);
}

static __device__ __forceinline__ bool
speed_is_fill(const struct speed_numbers &numbers, uint64_t bits)
{
    bool any = false;

    for (int i = 0; i < numbers.nfills; i++)
        any |= bits == numbers.fill[i];
    return any;
}

enum speed_outcome {
    SPEED_CODED,
    SPEED_SPECIAL,
    SPEED_MISSED
};

static __device__ inline enum speed_outcome
speed_quantize_integer(const struct speed_job &job,
                       const struct speed_numbers &numbers, uint64_t bits,
                       uint64_t *word_ret)
{
    const int64_t value = speed_number_of(job.type, bits);
    const double number =
        job.type == TERP_UINT64 ? (double)(uint64_t)value : (double)value;
    const double quotient = number * numbers.per_whole_step;
    const double rounder = speed_word<uint64_t>::rounder();
    const int64_t q =
        (int64_t)(double_bits(quotient + rounder) - double_bits(rounder));

    *word_ret = (uint64_t)q;
    if (speed_is_fill(numbers, bits))
        return SPEED_SPECIAL;
    const uint64_t decoded =
        speed_value_of_steps(job.type, job.value_nbytes, numbers.whole_step, q);
    const uint64_t own = (uint64_t)value;
    const bool is_above =
        job.type == TERP_UINT64 ? own > decoded : value > (int64_t)decoded;
    return (is_above ? own - decoded : decoded - own) <= numbers.whole_most
               ? SPEED_CODED
           : fabs(quotient) <= TERP_SPEED_MAX_QUOTIENT_F64 ? SPEED_MISSED
                                                           : SPEED_SPECIAL;
}

/* What one value becomes under a level's steps, with the arithmetic of
 * cpu/speed/tile_impl.h. IS_PLAIN: the type is a float of the size of a word.
 */
template <typename Word, bool IS_PLAIN>
static __device__ inline enum speed_outcome
speed_quantize(const struct speed_job &job, const struct speed_numbers &numbers,
               int level, Word bits, Word *word_ret)
{
    typedef speed_word<Word> of;
    typedef typename of::real real;
    typedef typename of::integer integer;
    const bool is_half = !IS_PLAIN && job.value_nbytes == 2;

    if (!IS_PLAIN && terp_type_is_integer(job.type)) {
        uint64_t word;
        const enum speed_outcome outcome =
            speed_quantize_integer(job, numbers, bits, &word);
        *word_ret = (Word)word;
        return outcome;
    }
    const Word own =
        is_half ? (Word)terp_f32_bits_of_half(job.type, (uint16_t)bits) : bits;
    const real value = of::real_of(own);
    const real step = (real)numbers.step[level];
    const real quotient = value * (real)numbers.per_step[level];
    const Word q =
        of::bits_of(quotient + of::rounder()) - of::bits_of(of::rounder());
    real decoded = (real)(integer)q * step;
    *word_ret = q;
    if (speed_is_fill(numbers, is_half ? bits : of::bits_of(value + (real)0)))
        return SPEED_SPECIAL;
    if (is_half)
        decoded = of::real_of((Word)terp_f32_bits_of_half(
            job.type,
            terp_half_of_f32_bits(job.type, (uint32_t)of::bits_of(decoded))));
    return of::magnitude(value - decoded) <= (real)numbers.most ? SPEED_CODED
           : of::magnitude(quotient) <= of::max_quotient()      ? SPEED_MISSED
                                                                : SPEED_SPECIAL;
}

/* The integer of a value's bits, and back. */
template <typename Word>
static __device__ __forceinline__ Word
speed_word_of_bits(const struct speed_job &job, Word bits)
{
    return terp_type_is_integer(job.type) ? bits
           : job.value_nbytes == 2        ? (Word)terp_speed_key_of(bits, 16)
                                          : speed_key(bits);
}

/* ---- sums of a block ---- */

static __device__ __forceinline__ unsigned long long
speed_block_sum(unsigned long long value, unsigned long long *s_sums)
{
    unsigned long long all = 0;

    value = warp_sum(value);
    if (threadIdx.x % 32 == 0)
        s_sums[threadIdx.x / 32] = value;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < SPEED_NTHREADS / 32; i++)
        all += s_sums[i];
    return all;
}

/* encode.cu: a block for each tile, gridDim.y chunks. */
cudaError_t
cuda_speed_launch_encode(const struct speed_job *job, unsigned nchunks,
                         cudaStream_t stream);

/* decode.cu */
cudaError_t
cuda_speed_launch_decode(const struct speed_job *job, unsigned nchunks,
                         cudaStream_t stream);

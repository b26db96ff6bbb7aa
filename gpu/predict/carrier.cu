/* Turns 16-bit floats and integers into the floats that carry them, before the
 * scan and prediction, and back after it (codec/model/carrier.h). The carrier
 * of integers follows from all of them, by two passes: one finds their range,
 * one the greatest common divisor of their differences. */
#include "gpu/predict/carrier.cuh"

#include "gpu/block/warp.cuh"
#include "gpu/predict/extremes.cuh"

/* Threads of a block. */
#define NTHREADS 256

/* NLOADS: values that a thread loads before it uses the first one, so that the
 * loads overlap. A piece is the values that a block handles at a time. */
#define NLOADS 8
#define PIECE_NVALUES (NTHREADS * NLOADS)

/* The most blocks of a batch that measure integers. Each block updates the
 * chunk's state by atomics, so more blocks would cost time. */
#define MEASURE_MAX_NBLOCKS 2048

/* Loads, or stores, a thread's words of a piece. `first` is the index of the
 * thread's first word. Words that do not exist are read as 0. */
template <typename W>
static __device__ __forceinline__ void
load_piece(const W *from, uint64_t first, uint64_t nvalues, W words[NLOADS])
{
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++)
        words[i] =
            first + i * NTHREADS < nvalues ? from[first + i * NTHREADS] : (W)0;
}

template <typename W>
static __device__ __forceinline__ void
store_piece(W *to, uint64_t first, uint64_t nvalues, const W words[NLOADS])
{
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++)
        if (first + i * NTHREADS < nvalues)
            to[first + i * NTHREADS] = words[i];
}

static __device__ __forceinline__ uint64_t
first_of_thread(void)
{
    return (uint64_t)blockIdx.x * PIECE_NVALUES + threadIdx.x;
}

/* ---- 16-bit floats ---- */

/* Turns 16-bit floats into float32. Grid: x = pieces, y = chunks. A thread owns
 * the values that it makes. No shared memory. */
static __global__ void
__launch_bounds__(NTHREADS) carry_halves(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const bool normal_only = batch.form != CUDA_VALUES;
    uint16_t halves[NLOADS];
    uint32_t carried[NLOADS];

    if (chunk.status != TERP_OK)
        return;
    load_piece((const uint16_t *)chunk.values, first_of_thread(), batch.nvalues,
               halves);
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++)
        carried[i] =
            terp_carried_half(batch.chunk.type, halves[i], normal_only);
    store_piece(region<uint32_t>(batch, batch.at.carried), first_of_thread(),
                batch.nvalues, carried);
}

/* Turns float32 into 16-bit floats. Grid and ownership as for carry_halves. */
static __global__ void
__launch_bounds__(NTHREADS) uncarry_halves(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    uint32_t carried[NLOADS];
    uint16_t halves[NLOADS];

    if (!is_predicted(chunk))
        return;
    load_piece(region<uint32_t>(batch, batch.at.carried), first_of_thread(),
               batch.nvalues, carried);
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++)
        halves[i] = terp_half_of_f32_bits(batch.chunk.type, carried[i]);
    store_piece((uint16_t *)chunk.values, first_of_thread(), batch.nvalues,
                halves);
}

/* ---- range and common divisor of integers ---- */

/* Whether an integer counts for range and divisor; fill values do not. */
static __device__ __forceinline__ bool
counts(const struct cuda_batch &batch, uint64_t word)
{
    return !(batch.encoding.nfills > 0 && word == batch.encoding.fill[0]) &&
           !(batch.encoding.nfills > 1 && word == batch.encoding.fill[1]);
}

/* Loads a thread's integers of a piece, as distances from the lowest integer of
 * their type. Returns one bit per integer: set if the integer is not a fill
 * value. */
template <typename W>
static __device__ __forceinline__ unsigned
load_distances(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
               uint64_t lowest, uint64_t first, uint64_t distances[NLOADS])
{
    W words[NLOADS];
    unsigned which = 0;

    load_piece((const W *)chunk.values, first, batch.nvalues, words);
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++) {
        which |= (unsigned)(first + i * NTHREADS < batch.nvalues &&
                            counts(batch, words[i]))
                 << i;
        distances[i] = terp_integer_distance(words[i], sizeof(W), lowest);
    }
    return which;
}

/* Finds the range of a chunk's integers. Grid: x = shares of pieces, y =
 * chunks. A thread takes every NTHREADS-th integer of the block's pieces. No
 * shared memory; warps combine their results by atomics. */
template <typename W>
static __global__ void
__launch_bounds__(NTHREADS) find_integer_range(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const uint64_t lowest = terp_lowest_integer(batch.chunk.type);
    unsigned long long min_complement = 0, max = 0;
    bool any = false;

    if (chunk.status != TERP_OK)
        return;
    for (uint64_t first = first_of_thread(); first < batch.nvalues;
         first += (uint64_t)gridDim.x * PIECE_NVALUES) {
        uint64_t distances[NLOADS];
        const unsigned which =
            load_distances<W>(batch, chunk, lowest, first, distances);
        any |= which != 0;
#pragma unroll
        for (unsigned i = 0; i < NLOADS; i++) {
            if ((which >> i & 1) == 0)
                continue;
            min_complement =
                ~distances[i] > min_complement ? ~distances[i] : min_complement;
            max = distances[i] > max ? distances[i] : max;
        }
    }
    any = __any_sync(FULL_WARP_MASK, any);
    for (int distance = 16; distance > 0; distance /= 2) {
        const unsigned long long other_min =
            __shfl_xor_sync(FULL_WARP_MASK, min_complement, distance);
        const unsigned long long other_max =
            __shfl_xor_sync(FULL_WARP_MASK, max, distance);
        min_complement =
            other_min > min_complement ? other_min : min_complement;
        max = other_max > max ? other_max : max;
    }
    if (threadIdx.x % 32 > 0 || !any)
        return;
    raise_key(&chunk.integers.min_complement, min_complement);
    raise_key(&chunk.integers.max, max);
    chunk.integers.any = true;
}

/* Returns the greatest common divisor of `scale` and of the differences of a
 * thread's integers from the least one. Ends early, for the whole block, when
 * it is 1. */
template <typename W>
static __device__ __forceinline__ unsigned long long
divide(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
       unsigned long long scale)
{
    const uint64_t lowest = terp_lowest_integer(batch.chunk.type);
    const uint64_t min = ~chunk.integers.min_complement;
    const uint64_t first_of_block = (uint64_t)blockIdx.x * PIECE_NVALUES;

    for (uint64_t first = first_of_block; first < batch.nvalues;
         first += (uint64_t)gridDim.x * PIECE_NVALUES) {
        uint64_t distances[NLOADS];
        const unsigned which = load_distances<W>(
            batch, chunk, lowest, first + threadIdx.x, distances);
#pragma unroll
        for (unsigned i = 0; i < NLOADS; i++) {
            const uint64_t d = distances[i] - min;
            if ((which >> i & 1) && d != 0 && scale != 1 &&
                (scale == 0 || d % scale != 0))
                scale = terp_common_divisor(d, scale);
        }
        if (__syncthreads_or(scale == 1))
            return 1;
    }
    return scale;
}

/* Combines the divisors of a warp's lanes with the chunk's divisor. */
static __device__ __forceinline__ void
add_scale(unsigned long long *at, unsigned long long scale)
{
    for (int distance = 16; distance > 0; distance /= 2)
        scale = terp_common_divisor(
            scale, __shfl_xor_sync(FULL_WARP_MASK, scale, distance));
    if (threadIdx.x % 32 > 0)
        return;
    unsigned long long seen = *(const volatile unsigned long long *)at;
    unsigned long long both = terp_common_divisor(seen, scale);
    while (both != seen) {
        const unsigned long long before = atomicCAS(at, seen, both);
        if (before == seen)
            return;
        seen = before;
        both = terp_common_divisor(seen, scale);
    }
}

/* Chooses the carrier of the integers. Chunks without a carrier are stored. */
static __device__ __forceinline__ void
choose_carrier(const struct cuda_batch &batch, struct cuda_chunk &chunk)
{
    const struct cuda_integers &own = chunk.integers;
    const struct terp_integers found = {
        ~own.min_complement, own.max,
        *(const volatile unsigned long long *)&own.scale, own.any};
    const struct terp_integer_carrier carrier = terp_integer_carrier_of(
        batch.chunk.type, batch.encoding.integer_bound, &found);

    chunk.carrier = carrier.head;
    chunk.carrier_bound = carrier.bound;
    chunk.form = batch.form;
    if (!carrier.is_coded) {
        chunk.status = TERP_ERR_CAPACITY;
        return;
    }
    chunk.form = cuda_form_of_carrier(carrier.head.form);
    if (chunk.form != batch.form)
        chunk.status = TERP_ERR_DEVICE;
}

/* Finds the common divisor; the last block of a chunk chooses the carrier. Grid
 * and ownership as for find_integer_range. Shared memory: the divisor that the
 * chunk has so far; a barrier after it is read, and one for each piece. */
template <typename W>
static __global__ void
__launch_bounds__(NTHREADS) find_integer_carrier(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    struct cuda_integers *found = &chunk.integers;
    __shared__ unsigned long long s_scale;

    if (chunk.status != TERP_OK)
        return;
    if (threadIdx.x == 0)
        s_scale = *(const volatile unsigned long long *)&found->scale;
    __syncthreads();
    if (found->any && ~found->min_complement < found->max && s_scale != 1)
        add_scale(&found->scale, divide<W>(batch, chunk, s_scale));
    if (is_last_block(&chunk.progress[CUDA_PROGRESS_INTEGERS], gridDim.x) &&
        threadIdx.x == 0)
        choose_carrier(batch, chunk);
}

/* ---- integers ---- */

/* Turns integers into floats. Grid: x = pieces, y = chunks. A thread owns the
 * values that it makes. No shared memory. */
template <typename W, typename C>
static __global__ void
__launch_bounds__(NTHREADS) carry_integers(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const uint64_t lowest = terp_lowest_integer(batch.chunk.type);
    const uint64_t first = first_of_thread();
    uint64_t distances[NLOADS];
    word_of<C> carried[NLOADS];

    if (chunk.status != TERP_OK)
        return;
    const uint64_t offset = chunk.carrier.offset - lowest;
    const uint64_t scale = chunk.carrier.scale;
    const unsigned which =
        load_distances<W>(batch, chunk, lowest, first, distances);
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++)
        carried[i] = which >> i & 1
                         ? carried_of_number<C>(
                               batch.form,
                               terp_integer_number(distances[i], offset, scale))
                         : bits_of((C)NAN);
    store_piece(region<word_of<C>>(batch, batch.at.carried), first,
                batch.nvalues, carried);
}

/* Turns floats into integers. Grid and ownership as for carry_integers. */
template <typename W, typename C>
static __global__ void
__launch_bounds__(NTHREADS) uncarry_integers(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    word_of<C> carried[NLOADS];
    W words[NLOADS];

    if (!is_predicted(chunk))
        return;
    load_piece(region<word_of<C>>(batch, batch.at.carried), first_of_thread(),
               batch.nvalues, carried);
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++)
        words[i] = (W)integer_of_carried<C>(batch, chunk, carried[i]);
    store_piece((W *)chunk.values, first_of_thread(), batch.nvalues, words);
}

/* ---- launches ---- */

typedef void kernel_of_batch(struct cuda_batch);

static cudaError_t
launch_pieces(const struct cuda_batch *batch, kernel_of_batch *kernel,
              cudaStream_t stream)
{
    return launch_stage(batch, stream, kernel,
                        div_up(batch->nvalues, PIECE_NVALUES), NTHREADS);
}

template <typename W>
static cudaError_t
launch_carry(const struct cuda_batch *batch, cudaStream_t stream)
{
    const uint64_t npieces = div_up(batch->nvalues, PIECE_NVALUES);
    const uint64_t nblocks =
        min_u64(npieces, div_up(MEASURE_MAX_NBLOCKS, (uint64_t)batch->nchunks));
    struct stage_launches launches = {batch, stream};

    launches.add(find_integer_range<W>, nblocks, NTHREADS);
    launches.add(find_integer_carrier<W>, nblocks, NTHREADS);
    launches.add(batch->carrier_nbytes == 4 ? carry_integers<W, float>
                                            : carry_integers<W, double>,
                 npieces, NTHREADS);
    return launches.error;
}

template <typename W>
static cudaError_t
launch_uncarry(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_pieces(batch,
                         batch->carrier_nbytes == 4
                             ? uncarry_integers<W, float>
                             : uncarry_integers<W, double>,
                         stream);
}

cudaError_t
cuda_carry(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (terp_type_is_half(batch->chunk.type))
        return launch_pieces(batch, carry_halves, stream);
    if (!terp_type_is_integer(batch->chunk.type))
        return cudaSuccess;
    return cuda_of_width(batch->own_nbytes, launch_carry<uint8_t>,
                         launch_carry<uint16_t>, launch_carry<uint32_t>,
                         launch_carry<uint64_t>)(batch, stream);
}

cudaError_t
cuda_uncarry(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (terp_type_is_half(batch->chunk.type))
        return launch_pieces(batch, uncarry_halves, stream);
    if (!terp_type_is_integer(batch->chunk.type))
        return cudaSuccess;
    return cuda_of_width(batch->own_nbytes, launch_uncarry<uint8_t>,
                         launch_uncarry<uint16_t>, launch_uncarry<uint32_t>,
                         launch_uncarry<uint64_t>)(batch, stream);
}

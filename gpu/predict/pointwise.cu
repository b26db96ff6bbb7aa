/* Bounds relative to each value: turns values into coded values before all
 * prediction, and back after it (codec/model/pointwise.h).
 *
 * The scan has found the range of the values and their least magnitude. One
 * thread per chunk derives from them how logarithms are taken. All blocks then
 * take logarithms, in one pass over the values, and find the range of the
 * results. A chunk that needs another form than the batch has is left out, and
 * the host codes it in another batch. */
#include "gpu/block/warp.cuh"
#include "gpu/predict/range.cuh"
#include "gpu/sections/signs.cuh"

/* Threads, and warps, of a block. */
#define NTHREADS 256
#define NWARPS (NTHREADS / 32)

/* NLOADS: values that a thread loads before it uses the first one, so that the
 * loads overlap. A piece is the values that a block handles at a time. */
#define NLOADS 8
#define PIECE_NVALUES (NTHREADS * NLOADS)
#define PIECE_NWORDS (PIECE_NVALUES / 32)
static_assert(PIECE_NVALUES == SIGN_PIECE_NVALUES,
              "gpu/sections/signs.cuh cuts signs into the same pieces.");
static_assert(PIECE_NWORDS <= NTHREADS, "Each word of signs has a thread.");

/* The most blocks for all chunks of a batch. Each block updates the chunk's
 * state by atomics, so more blocks would cost time. Tests can set another
 * number. */
#ifndef CUDA_POINTWISE_MAX_NBLOCKS
#define CUDA_POINTWISE_MAX_NBLOCKS 8192
#endif

static uint64_t
nblocks_for(const struct cuda_batch *batch)
{
    return cuda_nblocks(batch, div_up(batch->nvalues, PIECE_NVALUES),
                        CUDA_POINTWISE_MAX_NBLOCKS);
}

/* ---- the form of a chunk ---- */

/* The most blocks of a launch that usually has nothing to do. */
#define REMEASURE_MAX_NBLOCKS 512

/* Finds the least magnitude again, without the fill values, if a fill value had
 * it. Grid: x = up to REMEASURE_MAX_NBLOCKS, y = chunks. A thread takes every
 * gridDim.x * NTHREADS-th value. No shared memory. */
template <typename V>
static __global__ void
__launch_bounds__(NTHREADS) remeasure(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const V *values = carried_values<V>(batch, chunk);
    V least = value_traits<V>::MAX;

    if (chunk.status != TERP_OK || !chunk.needs_remeasure)
        return;
    const fill_words<V> fills = fills_of<V>(chunk.own_fills);
    for (uint64_t at = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
         at < batch.nvalues; at += (uint64_t)gridDim.x * NTHREADS) {
        const V value = values[at];
        least =
            is_special(value, fills) ? least : lesser_magnitude(value, least);
    }
    note_least(chunk, least);
}

/* Returns the magnitudes that the scan has found. */
template <typename V>
static __device__ struct terp_magnitudes
magnitudes_of(const struct cuda_chunk &chunk)
{
    const V min = (V)chunk.own_min, max = (V)chunk.own_max;
    const bool negative = min <= -smallest_with_logarithm<V>;
    const bool positive = max >= smallest_with_logarithm<V>;
    const V below = negative ? -min : (V)0, above = positive ? max : (V)0;
    struct terp_magnitudes magnitudes;

    magnitudes.min_bits = ~chunk.least_key;
    magnitudes.max_bits = bits_of(above > below ? above : below);
    magnitudes.positive = positive;
    magnitudes.negative = negative;
    return magnitudes;
}

/* Finds how the chunk is coded. Grid: x = 1, y = chunks; one thread. */
template <typename V>
static __global__ void
choose_form(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const double bound = batch.encoding.pointwise_bound,
                 floor = batch.encoding.floor;

    if (chunk.status != TERP_OK)
        return;
    const struct terp_magnitudes magnitudes = magnitudes_of<V>(chunk);
    const enum terp_floor_use use =
        floor == 0 ? TERP_FLOOR_IS_NONE
                   : terp_pointwise_use_of_floor(
                         bound, floor,
                         (double)value_of_bits((word_of<V>)magnitudes.max_bits),
                         sizeof(V));
    const struct terp_pointwise how =
        use == TERP_FLOOR_IS_JOINED
            ? terp_pointwise_floored_of(bound, floor, magnitudes, sizeof(V))
            : terp_pointwise_of(bound, magnitudes, sizeof(V));
    chunk.magnitudes = magnitudes;
    chunk.how = how;
    chunk.head = {how.form,
                  how.signs,
                  batch.encoding.caller_bound,
                  how.center,
                  how.joint > 0 ? floor : 0,
                  how.shift};
    chunk.carrier_bound = batch.encoding.caller_bound;
    chunk.form = use == TERP_FLOOR_IS_ALL
                     ? CUDA_VALUES
                     : cuda_form_of(how.form, how.joint > 0);
    if (chunk.form != batch.form)
        chunk.status = TERP_ERR_DEVICE;
    chunk.src = region<uint8_t>(batch, batch.at.coded_values);
    chunk.scan.min_key = chunk.scan.max_key = chunk.nspecials = 0;
}

/* ---- signs ---- */

/* The signs of a piece, in shared memory. negative: the sign of each value; a
 * value without a sign has the sign of the last value before it in its word.
 * coded: which values have a sign. begins: the first word of a part. */
struct piece_signs {
    uint32_t negative[PIECE_NWORDS], coded[PIECE_NWORDS];
    bool begins[PIECE_NWORDS];
    /* values at the begin whose sign an earlier piece decides */
    unsigned nopen;
};

/* A warp stores the signs of 32 values. */
static __device__ __forceinline__ void
note_signs(struct piece_signs *s, unsigned word, bool is_coded,
           bool is_negative)
{
    const unsigned lane = threadIdx.x % 32;
    const uint32_t coded = __ballot_sync(FULL_WARP_MASK, is_coded);
    const uint32_t negative =
        __ballot_sync(FULL_WARP_MASK, is_coded && is_negative);
    const uint32_t before = coded & UINT32_MAX >> (31 - lane);
    const bool sign =
        before != 0 && (negative >> (31 - __clz((int)before)) & 1);
    const uint32_t signs = __ballot_sync(FULL_WARP_MASK, sign);

    if (lane == 0) {
        s->negative[word] = signs;
        s->coded[word] = coded;
    }
}

/* Returns the sign that values after a word continue with: 1, 0, or -1 if an
 * earlier piece decides it. */
static __device__ __forceinline__ int
sign_behind(const struct piece_signs *s, int word)
{
    for (; word >= 0; word--) {
        if (s->coded[word] != 0)
            return (int)(s->negative[word] >> 31);
        if (s->begins[word])
            return 0;
    }
    return -1;
}

/* Completes the words of a piece and stores them; a thread has one word. Values
 * at the begin whose sign an earlier piece decides are stored as positive for
 * now. Ends with a barrier. */
static __device__ void
store_signs(const struct cuda_batch &batch, uint64_t piece,
            struct piece_signs *s)
{
    const unsigned w = threadIdx.x;
    const uint64_t word = piece * PIECE_NWORDS + w;
    const uint64_t part_nvalues = terp_pointwise_part_nvalues(batch.nvalues);
    uint32_t *signs = region<uint32_t>(batch, batch.at.signs);

    if (w < PIECE_NWORDS)
        s->begins[w] = word * 32 % part_nvalues == 0;
    if (w == 0)
        s->nopen = 0;
    __syncthreads();
    if (w < PIECE_NWORDS && word < 2 * div_up(batch.nvalues, 64)) {
        const uint32_t coded = s->coded[w];
        const int nopen = coded == 0 ? 32 : __ffs((int)coded) - 1;
        uint32_t own = s->negative[w];
        if (nopen > 0) {
            const int sign = s->begins[w] ? 0 : sign_behind(s, (int)w - 1);
            if (sign < 0)
                atomicAdd(&s->nopen, (unsigned)nopen);
            if (sign > 0)
                own |= UINT32_MAX >> (32 - nopen);
        }
        const uint64_t left =
            word * 32 < batch.nvalues ? batch.nvalues - word * 32 : 0;
        signs[word] = left >= 32 ? own : own & ((1u << left) - 1);
    }
    __syncthreads();
    if (w == 0) {
        const int sign = sign_behind(s, PIECE_NWORDS - 1);
        region<uint32_t>(batch, batch.at.sign_pieces)[piece] =
            s->nopen | (sign < 0   ? 0
                        : sign > 0 ? SIGN_PIECE_KNOWN | SIGN_PIECE_NEGATIVE
                                   : SIGN_PIECE_KNOWN);
    }
    __syncthreads();
}

/* ---- values to coded values ---- */

/* Turns values into coded values; finds the range of the coded values, and
 * signs. V: type of values, C: type of coded values. Grid: x = nblocks_for, y =
 * chunks. A block takes pieces in turns; a thread owns every NTHREADS-th value
 * of a piece. Shared memory: the signs of a piece, with barriers in
 * store_signs. */
template <typename V, typename C, enum cuda_form form>
static __global__ void
__launch_bounds__(NTHREADS) code_values(const struct cuda_batch batch)
{
    __shared__ struct piece_signs s_signs;
    struct cuda_chunk &chunk = begin_chunk(batch);
    const uint64_t npieces = div_up(batch.nvalues, PIECE_NVALUES);
    const V *from = carried_values<V>(batch, chunk);
    C *to = region<C>(batch, batch.at.coded_values);
    extremes<C> own = no_extremes<C>();

    if (chunk.status != TERP_OK)
        return;
    const coder_of<V, C, form> coder(chunk.how);
    const fill_words<V> fills = fills_of<V>(chunk.own_fills);
    const bool has_signs =
        cuda_form_may_have_signs(form) && chunk.how.signs == TERP_SIGNS_MIXED;
    for (uint64_t piece = blockIdx.x; piece < npieces; piece += gridDim.x) {
        const uint64_t first = piece * PIECE_NVALUES + threadIdx.x;
        V values[NLOADS];
#pragma unroll
        for (unsigned i = 0; i < NLOADS; i++)
            values[i] = first + i * NTHREADS < batch.nvalues
                            ? from[first + i * NTHREADS]
                            : (V)NAN;
#pragma unroll
        for (unsigned i = 0; i < NLOADS; i++) {
            const V value = values[i];
            const bool special = is_special(value, fills);
            const C coded = special ? (C)NAN : coder(value);
            const C plain = with_one_zero(coded);
            const bool is_coded = TERP_ABS(plain) <= value_traits<C>::MAX;
            const bool is_there = first + i * NTHREADS < batch.nvalues;
            if (is_there)
                to[first + i * NTHREADS] = coded;
            own.min = smaller(own.min, is_coded ? plain : own.min);
            own.max = larger(own.max, is_coded ? plain : own.max);
            own.n[0] += is_there && !is_coded;
            if (has_signs)
                note_signs(&s_signs, i * NWARPS + threadIdx.x / 32, is_coded,
                           value < 0);
        }
        if (has_signs)
            store_signs(batch, piece, &s_signs);
    }
    own = reduce_extremes<NWARPS>(own);
    if (threadIdx.x != 0)
        return;
    if (own.min <= own.max) {
        raise_key(&chunk.scan.min_key, ~key_of((double)own.min));
        raise_key(&chunk.scan.max_key, key_of((double)own.max));
    }
    if (own.n[0] > 0)
        atomicAdd(&chunk.nspecials, own.n[0]);
}

/* Returns the bits of the value that all values of a constant chunk share;
 * `constant` is the coded value. */
template <typename V, typename C, enum cuda_form form>
static __device__ uint64_t
constant_of(const struct cuda_chunk &chunk, C constant)
{
    const struct terp_magnitudes &magnitudes = chunk.magnitudes;

    if constexpr (form == CUDA_ROUNDED) {
        return bits_of(constant);
    } else if constexpr (cuda_form_is_floored(form)) {
        return chunk.own_min == chunk.own_max
                   ? bits_of((V)chunk.own_min)
                   : bits_of(floored_decoder<V, C>(chunk.head)(constant));
    } else {
        const V value = magnitudes.min_bits == magnitudes.max_bits
                            ? value_of_bits((word_of<V>)magnitudes.min_bits)
                            : log_decoder<V, C>(chunk.head)(constant);
        return bits_of(magnitudes.negative ? -value : value);
    }
}

/* Sets the parameters that follow from the coded values. Grid: x = 1, y =
 * chunks; one thread. */
template <typename V, typename C, enum cuda_form form>
static __global__ void
finish_coded(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const C *coded = region<C>(batch, batch.at.coded_values);
    const struct terp_magnitudes &magnitudes = chunk.magnitudes;
    struct value_range range = {};

    if (chunk.status != TERP_OK)
        return;
    const bool all_special = chunk.nspecials == batch.nvalues;
    range.min =
        all_special ? value_traits<C>::MAX : value_of_key(~chunk.scan.min_key);
    range.max =
        all_special ? -value_traits<C>::MAX : value_of_key(chunk.scan.max_key);
    range.nspecials = chunk.nspecials;
    for (int i = 0; i < TERP_NFILLS; i++)
        range.fills[i] = terp_slot_of_fill(false, 0, sizeof(C));
    finalize_params<C>(batch, chunk, range, coded[0], chunk.how.bound,
                       all_special || chunk.how.joint > 0 ||
                           !(magnitudes.positive && magnitudes.negative));
    if (chunk.coding == TERP_CODING_CONSTANT)
        chunk.constant_bits =
            all_special
                ? 0
                : constant_of<V, C, form>(
                      chunk, value_of_bits((word_of<C>)chunk.constant_bits));
}

template <typename V, typename C, enum cuda_form form>
static cudaError_t
launch_code(const struct cuda_batch *batch, cudaStream_t stream)
{
    struct stage_launches launches = {batch, stream};

    launches.add(remeasure<V>,
                 min_u64(nblocks_for(batch), REMEASURE_MAX_NBLOCKS), NTHREADS);
    launches.add(choose_form<V>, 1, 1);
    launches.add(code_values<V, C, form>, nblocks_for(batch), NTHREADS);
    launches.add(finish_coded<V, C, form>, 1, 1);
    return launches.error;
}

template <typename V>
static cudaError_t
launch_code_of(const struct cuda_batch *batch, cudaStream_t stream)
{
    const enum cuda_form form = batch->form;
    auto *const code =
        form == CUDA_LOG_F32       ? launch_code<V, float, CUDA_LOG_F32>
        : form == CUDA_LOG_F64     ? launch_code<V, double, CUDA_LOG_F64>
        : form == CUDA_FLOORED_F32 ? launch_code<V, float, CUDA_FLOORED_F32>
        : form == CUDA_FLOORED_F64 ? launch_code<V, double, CUDA_FLOORED_F64>
                                   : launch_code<V, V, CUDA_ROUNDED>;

    return code(batch, stream);
}

cudaError_t
cuda_pointwise_code(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (!cuda_form_is_pointwise(batch->form))
        return cudaSuccess;
    return batch->carrier_nbytes == 4 ? launch_code_of<float>(batch, stream)
                                      : launch_code_of<double>(batch, stream);
}

/* ---- back to values ---- */

/* Turns decoded coded values back into values. Grid: x = pieces, y = chunks. A
 * thread owns the values that it makes; it may store them in place. No shared
 * memory. */
template <typename V, typename C, bool floored>
static __global__ void
__launch_bounds__(NTHREADS) decode_values(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const uint64_t first = (uint64_t)blockIdx.x * PIECE_NVALUES + threadIdx.x;
    const uint32_t *signs = region<uint32_t>(batch, batch.at.signs);
    const C *from = (const C *)chunk.dst;
    V *to = carried_values<V>(batch, chunk);
    C coded[NLOADS];

    if (!is_predicted(chunk))
        return;
    const decoder_of<V, C, floored> decoder(chunk.head);
    const enum terp_pointwise_signs kind = chunk.head.signs;
    if (!floored && kind == TERP_SIGNS_MIXED &&
        batch.d_sign_chunks[blockIdx.y].status != TERP_OK) {
        if (threadIdx.x == 0)
            chunk.status = TERP_ERR_CORRUPT;
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++)
        coded[i] = first + i * NTHREADS < batch.nvalues
                       ? from[first + i * NTHREADS]
                       : (C)0;
#pragma unroll
    for (unsigned i = 0; i < NLOADS; i++) {
        const uint64_t at = first + i * NTHREADS;
        if (at >= batch.nvalues)
            break;
        const V value = decoder(coded[i]);
        bool negative = kind == TERP_SIGNS_NEGATIVE;
        if (!floored && kind == TERP_SIGNS_MIXED)
            negative = signs[at / 32] >> (at % 32) & 1;
        to[at] = negative ? -value : value;
    }
}

template <typename V>
static cudaError_t
launch_decode_of(const struct cuda_batch *batch, cudaStream_t stream)
{
    typedef void kernel(struct cuda_batch);
    kernel *const decode =
        batch->form == CUDA_LOG_F32       ? decode_values<V, float, false>
        : batch->form == CUDA_LOG_F64     ? decode_values<V, double, false>
        : batch->form == CUDA_FLOORED_F32 ? decode_values<V, float, true>
                                          : decode_values<V, double, true>;

    return launch_stage(batch, stream, decode,
                        div_up(batch->nvalues, PIECE_NVALUES), NTHREADS);
}

cudaError_t
cuda_pointwise_decode(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (!cuda_form_has_logarithms(batch->form))
        return cudaSuccess;
    return batch->carrier_nbytes == 4 ? launch_decode_of<float>(batch, stream)
                                      : launch_decode_of<double>(batch, stream);
}

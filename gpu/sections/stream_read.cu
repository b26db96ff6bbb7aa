/* Reads a stream up to its payload, by a block for each chunk. Its threads
 * share the long arrays: special values, tiles, partitions. cpu/decode.c,
 * cpu/entropy/codebooks.c and cpu/sections/index.c read the same; a stream that
 * they refuse is TERP_ERR_CORRUPT here too. */
#include "gpu/predict/predictor.cuh"
#include "gpu/sections/index_read.cuh"
#include "gpu/sections/shifts.cuh"
#include "gpu/sections/signs.cuh"
#include "gpu/sections/specials.cuh"
#include "gpu/sections/tails.cuh"

/* Facts about a stream from its frame. */
struct stream_facts {
    enum terp_coding coding;
    enum terp_prediction prediction;
    bool has_specials;
    unsigned prefixes_nbytes; /* of the table of prefixes, behind the bound */
    int nlevels;
};

/* Members of the state that the block finds, in shared memory until it may
 * write the state. */
struct stream_found {
    uint64_t constant_bits;
    struct terp_pointwise_head head;
    uint64_t model_end, specials_end, signs_at, signs_end, tails_at, shifts_at,
        remainders_at, remainders_nbytes, escapes_end, low_records_nbytes,
        payload_at;
    unsigned long long nspecials;
    uint64_t nescapes;
    unsigned number_nbytes;
    struct cuda_model model;
};

/* ---- model ---- */

/* The last threads of a block read the model, so that the first need not wait
 * for it. */

/* The number of this thread among them; below 0 if it is not one of them.
 * NTHREADS is the block's size, here and below: LONG_INDEX_NTHREADS or
 * SHORT_INDEX_NTHREADS (index_read.cuh). */
template <unsigned NTHREADS>
static __device__ __forceinline__ int
model_thread(void)
{
    return (int)threadIdx.x - (int)(NTHREADS - MODEL_NTHREADS);
}

/* Reads a ULEB128 number. False: it is too long, or the stream ends before. */
static __device__ __forceinline__ bool
take_uleb(struct staged_reader *reader, uint64_t *value_ret)
{
    unsigned byte = 0x80;

    *value_ret = 0;
#pragma unroll 1
    for (int shift = 0; shift < 63 && byte >= 0x80; shift += 7) {
        byte = take_byte(reader);
        *value_ret |= (uint64_t)(byte & 0x7F) << shift;
    }
    return byte < 0x80 && !reader->underflow;
}

/* ---- specials, tails, escapes, low bits ---- */

/* Finds the end of the section of specials. It is not inlined, so that streams
 * without special values need not fetch its instructions. */
static __device__ __attribute__((noinline)) bool
skip_specials(const uint8_t *src, uint64_t begin, uint64_t end,
              const struct terp_layout *layout, int value_nbytes,
              struct specials_batch *batches, struct stream_found *s_found)
{
    unsigned long long nspecials;
    uint64_t specials_end;

    if (!specials_skip(src, begin, end, layout, value_nbytes, batches,
                       &nspecials, &specials_end))
        return false;
    if (threadIdx.x == 0) {
        s_found->nspecials = nspecials;
        s_found->specials_end = specials_end;
    }
    __syncthreads();
    return true;
}

/* Moves the reader behind the section of specials. False: it is not valid. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
pass_specials(const struct cuda_batch &batch, const struct stream_facts &facts,
              struct stream_found *s_found, struct staged_reader *reader,
              read_shared<NTHREADS> &s)
{
    const uint64_t begin = position_of(*reader);

    if (threadIdx.x == 0)
        s_found->model_end = s_found->specials_end = begin;
    if (!facts.has_specials)
        return true;
    if (!skip_specials(
            reader->src, begin, reader->end, batch.d_layout, batch.own_nbytes,
            region<struct specials_batch>(batch, batch.at.runs), s_found))
        return false;
    advance_to<NTHREADS>(reader, s_found->specials_end, s.staged);
    return true;
}

/* Moves the reader behind the section of signs. False: it is not valid. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
pass_signs(const struct cuda_batch &batch, bool has_signs,
           struct stream_found *s_found, struct staged_reader *reader,
           read_shared<NTHREADS> &s)
{
    const uint64_t begin = position_of(*reader);

    if (!has_signs)
        return true;
    const uint8_t *at = take_bytes(reader, SIGNS_HEAD_NBYTES);
    if (reader->underflow)
        return false;
    const int d = at[0];
    const uint64_t nbytes = load_le_loop(at + 1, TERP_SIGNS_LENGTH_NBYTES);
    if (nbytes > reader->end - position_of(*reader) || d > TERP_NDIMS ||
        (d > 0 && terp_mask_delta_distance(batch.d_layout, d) == 0))
        return false;
    const uint64_t end = position_of(*reader) + nbytes;
    if (threadIdx.x == 0) {
        s_found->signs_at = begin;
        s_found->signs_end = end;
    }
    advance_to<NTHREADS>(reader, end, s.staged);
    return true;
}

/* Finds where the tails of each tile begin. Returns the section's size; 0: it
 * is not valid. `left`: bytes from its beginning to the stream's end. Few
 * streams have tails, so it is not inlined. */
template <unsigned NTHREADS>
static __device__ __attribute__((noinline)) uint64_t
measure_tails(struct tails_view view, int tail_nbits, const uint8_t *at,
              uint64_t left, read_shared<NTHREADS> &s)
{
    const uint64_t ngroups = terp_low_ngroups(view.nvalues);
    bool valid = true;

    if (ngroups > left)
        return 0;
    for (uint64_t g = threadIdx.x; g < ngroups; g += NTHREADS) {
        view.widths[g] = at[g];
        valid &= at[g] <= tail_nbits;
    }
    __syncthreads();
    const uint64_t nbytes = ngroups + place_tail_tiles<NTHREADS>(view, s.scan);
    return __syncthreads_and(valid) && nbytes <= left ? nbytes : 0;
}

/* Moves the reader behind the section of tails. False: it is not valid, or the
 * batch does not expect it. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
pass_tails(const struct cuda_batch &batch, int tail_nbits,
           struct stream_found *s_found, struct staged_reader *reader,
           read_shared<NTHREADS> &s)
{
    const uint64_t begin = position_of(*reader);

    if (tail_nbits == 0)
        return true;
    if (!batch.may_have_low_bits)
        return false;
    const uint64_t nbytes =
        measure_tails<NTHREADS>(tails_of(batch), tail_nbits,
                                reader->src + begin, reader->end - begin, s);
    if (threadIdx.x == 0)
        s_found->tails_at = begin + terp_low_ngroups(batch.nvalues);
    if (nbytes > 0)
        advance_to<NTHREADS>(reader, begin + nbytes, s.staged);
    return nbytes > 0;
}

/* Moves the reader behind the section of escapes. False: it is not valid. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
pass_escapes(const struct cuda_batch &batch, struct stream_found *s_found,
             struct staged_reader *reader, read_shared<NTHREADS> &s)
{
    uint64_t nescapes;
    unsigned number_nbytes = 0;

    if (!take_uleb(reader, &nescapes))
        return false;
    if (nescapes > 0)
        number_nbytes = take_byte(reader);
    const unsigned nbytes =
        (unsigned)terp_escape_nbytes((int)number_nbytes, batch.value_nbytes);
    const uint64_t begin = position_of(*reader),
                   end = begin + nescapes * nbytes;
    if (reader->underflow ||
        !terp_escapes_are_valid(nescapes, (int)number_nbytes, batch.nvalues,
                                batch.value_nbytes) ||
        end > reader->end)
        return false;
    if (threadIdx.x == 0) {
        s_found->nescapes = nescapes;
        s_found->number_nbytes = number_nbytes;
        s_found->escapes_end = end;
    }
    advance_to<NTHREADS>(reader, end, s.staged);
    return true;
}

/* Finds where the low bits of each tile begin. Returns the section's size; 0:
 * it is not valid. `left`: bytes from its beginning to the stream's end. Few
 * streams have low bits, so it is not inlined. */
template <unsigned NTHREADS>
static __device__ __attribute__((noinline)) uint64_t
measure_low_bits(struct low_bits_view view, const uint8_t *at, uint64_t left,
                 uint64_t *records_nbytes_ret, read_shared<NTHREADS> &s)
{
    const uint64_t kinds_nbytes = low_kinds_nbytes(view);
    bool valid = true;

    if (kinds_nbytes > left)
        return 0;
    const struct low_sizes sizes = place_low_tiles<NTHREADS>(
        view, s.scan, [&](uint64_t tile) { return load_low_kind(at, tile); },
        [&](uint64_t tile, struct cuda_low_tile *low) {
            const unsigned kind = load_low_kind(at, tile);
            const unsigned ngroups = low_tile_ngroups(view, tile);
            const uint64_t record = kinds_nbytes + low->record_at;
            if (record + terp_low_record_nbytes(kind, ngroups) > left)
                valid = false;
            else
                valid &= load_low_record(at + record, kind, ngroups, low);
        });
    const uint64_t nbytes = kinds_nbytes + sizes.records_nbytes + sizes.nbytes;
    if (threadIdx.x == 0)
        *records_nbytes_ret = sizes.records_nbytes;
    return __syncthreads_and(valid) && nbytes <= left ? nbytes : 0;
}

/* Moves the reader behind the section of low bits. False: it is not valid, or
 * the batch does not expect it. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
pass_low_bits(const struct cuda_batch &batch, int wide,
              struct stream_found *s_found, struct staged_reader *reader,
              read_shared<NTHREADS> &s)
{
    const uint64_t begin = position_of(*reader);

    if (wide == 0)
        return true;
    if (!batch.may_have_low_bits)
        return false;
    const uint64_t nbytes = measure_low_bits<NTHREADS>(
        low_bits_of(batch), reader->src + begin, reader->end - begin,
        &s_found->low_records_nbytes, s);
    if (nbytes > 0)
        advance_to<NTHREADS>(reader, begin + nbytes, s.staged);
    return nbytes > 0;
}

/* ---- sections of lossless streams ---- */

/* Unpacks the words of all groups of shifts, and finds the bytes of spans, for
 * read_lossless_streams. Grid: (at most UNPACK_MAX_NBLOCKS, chunks). A warp
 * takes spans in turn, and a lane has a group. */
#define UNPACK_NTHREADS 256
#define UNPACK_MAX_NBLOCKS 1024
static __global__ void
__launch_bounds__(UNPACK_NTHREADS)
    unpack_shift_groups(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const uint8_t *src = (const uint8_t *)chunk.src;
    const uint64_t at = chunk.specials_end;
    const int width = terp_shift_nbits(batch.value_nbytes);

    if (!chunk_is_lossless(chunk) || at >= chunk.src_nbytes)
        return;
    const uint64_t nvalid = nvalid_of(valid_points_of(batch, chunk));
    const uint64_t ngroups = shift_ngroups(nvalid);
    const struct shift_fields fields =
        shift_fields_at(src[at], at + 1, ngroups, batch.value_nbytes);
    if (!shift_fields_are_valid(fields, chunk.src_nbytes))
        return;
    const uint8_t *zeros =
        src + fields.at +
        (fields.has & TERP_SHIFTS_SHIFTS ? packed_nbytes(ngroups, width) : 0);
    for (uint64_t span = blockIdx.x * (UNPACK_NTHREADS / 32) + threadIdx.x / 32;
         span < shift_nspans(ngroups);
         span += gridDim.x * (UNPACK_NTHREADS / 32)) {
        const uint64_t g = span * SHIFT_SPAN_NGROUPS + threadIdx.x % 32;
        const uint64_t bit = g * (unsigned)width;
        int shift = 0, nzeros = 0;
        if (g < ngroups && fields.has & TERP_SHIFTS_SHIFTS)
            shift = (int)unpack_bits(src + fields.at, bit, width);
        if (g < ngroups && fields.has & TERP_SHIFTS_ZEROS)
            nzeros = (int)unpack_bits(zeros, bit, width);
        place_shift_span(nvalid, span, shift_group_word(shift, nzeros),
                         region<uint64_t>(batch, batch.at.shift_groups),
                         region<uint64_t>(batch, batch.at.shift_spans));
        if (shift > terp_max_shift(batch.value_nbytes))
            chunk.status = TERP_ERR_CORRUPT;
    }
}

/* Moves the reader behind the section of shifts. False: it is not valid. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
pass_shifts(const struct cuda_batch &batch, uint64_t nvalid,
            struct stream_found *s_found, struct staged_reader *reader,
            read_shared<NTHREADS> &s)
{
    const uint64_t ngroups = shift_ngroups(nvalid);
    const unsigned has = take_byte(reader);
    const struct shift_fields fields =
        shift_fields_at(has, position_of(*reader), ngroups, batch.value_nbytes);

    if (reader->underflow || !shift_fields_are_valid(fields, reader->end))
        return false;
    const uint64_t end =
        fields.end +
        place_shift_spans<NTHREADS>(
            ngroups, region<uint64_t>(batch, batch.at.shift_spans), s.scan);
    if (end > reader->end)
        return false;
    if (threadIdx.x == 0)
        s_found->shifts_at = fields.end;
    advance_to<NTHREADS>(reader, end, s.staged);
    return true;
}

/* Moves the reader behind the section of remainders. False: it is not valid. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
pass_remainders(enum terp_lossless_form form, struct stream_found *s_found,
                struct staged_reader *reader, read_shared<NTHREADS> &s)
{
    uint64_t nbytes;

    if (form != TERP_LOSSLESS_REMAINDERS)
        return true;
    if (!take_uleb(reader, &nbytes))
        return false;
    const uint64_t begin = position_of(*reader);
    if (nbytes > reader->end - begin)
        return false;
    if (threadIdx.x == 0) {
        s_found->remainders_at = begin;
        s_found->remainders_nbytes = nbytes;
    }
    advance_to<NTHREADS>(reader, begin + nbytes, s.staged);
    return true;
}

/* ---- streams ---- */

/* Moves the reader behind the model, which may have optional members. Returns
 * the model's first byte. */
static __device__ __forceinline__ const uint8_t *
take_model(const struct cuda_batch &batch, const struct stream_facts &facts,
           struct staged_reader *reader)
{
    const uint8_t *at = take_bytes(
        reader,
        (unsigned)terp_model_nbytes(facts.prediction, batch.value_nbytes,
                                    facts.nlevels, false, false));

    if (!reader->underflow && facts.prediction == TERP_PREDICTION_LORENZO &&
        (at[1] & TERP_LORENZO_EXACT))
        take_bytes(reader, TERP_EXACT_NBYTES);
    if (!reader->underflow && facts.prediction == TERP_PREDICTION_LORENZO &&
        (at[1] & TERP_LORENZO_TAILS))
        take_bytes(reader, 1);
    if (!reader->underflow && facts.prediction == TERP_PREDICTION_LOSSLESS)
        take_bytes(reader, lossless_center_nbytes(at + 1, batch.value_nbytes));
    return at;
}

/* Facts about head and model that all threads need. */
struct first_facts {
    int wide, tail_nbits;
    bool has_signs;
};

/* One thread reads the head of a pointwise form. */
static __device__ __forceinline__ bool
read_pointwise_head(const struct cuda_batch &batch, const uint8_t *at,
                    unsigned nbytes, struct terp_pointwise_head *s_head)
{
    struct reader reader = {at, at + nbytes, false};

    return terp_pointwise_read_head(&reader, batch.carrier_nbytes, s_head);
}

/* Reads the bytes before the section of specials: the value of a constant
 * chunk, or heads and model. False, in some threads or in all: they are not
 * valid. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
read_first(const struct cuda_batch &batch, const struct stream_facts &facts,
           struct stream_found *s_found, struct staged_reader *reader,
           struct first_facts *first)
{
    const bool constant = facts.coding == TERP_CODING_CONSTANT;
    const unsigned value_nbytes = (unsigned)batch.carrier_nbytes;
    const unsigned head_nbytes =
        constant ? 0 : cuda_form_head_nbytes(batch.form);
    const uint8_t *bound_at =
        reader->s_at - facts.prefixes_nbytes - sizeof(double);
    const uint8_t *carrier = take_bytes(reader, batch.carrier_head_nbytes);
    if (!reader->underflow && cuda_form_is_of_integers(batch.form))
        take_bytes(reader, cuda_scale_nbytes_of_head(carrier[0]));
    const uint8_t *head = take_bytes(reader, head_nbytes);
    const uint8_t *at = constant ? take_bytes(reader, value_nbytes)
                                 : take_model(batch, facts, reader);
    const int thread = model_thread<NTHREADS>();

    first->has_signs =
        !reader->underflow && head_nbytes > 0 &&
        (head[0] & TERP_POINTWISE_SIGNS) >> TERP_POINTWISE_SIGNS_SHIFT ==
            TERP_SIGNS_MIXED;
    first->wide = reader->underflow || constant ? 0 : at[0] >> TERP_WIDE_SHIFT;
    first->tail_nbits = reader->underflow || constant ||
                                facts.prediction != TERP_PREDICTION_LORENZO
                            ? 0
                            : lorenzo_tail_nbits(at + 1);
    if (reader->underflow || thread < 0)
        return !reader->underflow;
    if (!constant)
        return predictor_read_model(batch, facts.prediction, facts.has_specials,
                                    facts.nlevels,
                                    double_of_bits(load_le(bound_at, 8)), at,
                                    thread, &s_found->model) &&
               (thread > 0 || head_nbytes == 0 ||
                read_pointwise_head(batch, head, head_nbytes, &s_found->head));
    if (thread == 0)
        s_found->constant_bits = load_le_loop(at, value_nbytes);
    return true;
}

/* Reads the index of tiles, the last item before the payload. False, in some
 * threads or in all: it is not valid. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
read_tiles_index(const struct cuda_batch &batch, enum terp_coding coding,
                 struct stream_found *s_found, struct staged_reader *reader,
                 read_shared<NTHREADS> &s)
{
    uint64_t payload_at = 0;
    bool valid;

    if constexpr (is_short_index<NTHREADS>) {
        valid = read_index<NTHREADS>(batch, coding, reader, s, &payload_at);
    } else {
        const uint64_t at = position_of(*reader);
        struct block_reader block = {
            reader->src, reader->s_at, at,   reader->staged_end,
            at,          reader->end,  false};
        valid = read_index<NTHREADS>(batch, coding, &block, s, &payload_at);
    }
    if (threadIdx.x == 0)
        s_found->payload_at = payload_at;
    return valid;
}

/* Reads the stream from the frame's end to the payload. A lossless stream is
 * read up to its shifts only: their number follows from the number of valid
 * points, which is not known before the mask is made. False, in some threads or
 * in all: the stream is not valid. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
read_body(const struct cuda_batch &batch, const struct stream_facts &facts,
          struct stream_found *s_found, struct staged_reader *reader,
          read_shared<NTHREADS> &s)
{
    struct first_facts first;

    bool valid = read_first<NTHREADS>(batch, facts, s_found, reader, &first);
    if (reader->underflow ||
        !pass_specials<NTHREADS>(batch, facts, s_found, reader, s))
        return false;
    if (facts.coding == TERP_CODING_CONSTANT)
        return valid && position_of(*reader) == reader->end;
    if (facts.prediction == TERP_PREDICTION_LOSSLESS)
        return valid && batch.may_be_lossless &&
               !cuda_form_is_pointwise(batch.form);
    if (!pass_signs<NTHREADS>(batch, first.has_signs, s_found, reader, s))
        return false;
    if (!pass_tails<NTHREADS>(batch, first.tail_nbits, s_found, reader, s))
        return false;
    if (!pass_escapes<NTHREADS>(batch, s_found, reader, s))
        return false;
    if (!pass_low_bits<NTHREADS>(batch, first.wide, s_found, reader, s))
        return false;
    valid &=
        read_tiles_index<NTHREADS>(batch, facts.coding, s_found, reader, s);
    return valid;
}

/* Copies the members that were found to the chunk's state. */
static __device__ __forceinline__ void
write_found(const struct stream_found &s_found, struct cuda_chunk *chunk)
{
    const unsigned i = threadIdx.x;

    static_assert(sizeof s_found.model % 8 == 0 &&
                      sizeof s_found.model / 8 <= MODEL_NTHREADS,
                  "Each thread copies a word of the model.");
    if (i < sizeof s_found.model / 8)
        ((uint64_t *)&chunk->model)[i] = ((const uint64_t *)&s_found.model)[i];
    if (i != 0)
        return;
    chunk->constant_bits = s_found.constant_bits;
    chunk->model_end = s_found.model_end;
    chunk->specials_end = s_found.specials_end;
    chunk->head = s_found.head;
    chunk->signs_at = s_found.signs_at;
    chunk->signs_end = s_found.signs_end;
    chunk->tails_at = s_found.tails_at;
    chunk->nspecials = s_found.nspecials;
    chunk->nescapes = s_found.nescapes;
    chunk->number_nbytes = s_found.number_nbytes;
    chunk->escapes_end = s_found.escapes_end;
    chunk->low_records_nbytes = s_found.low_records_nbytes;
    chunk->payload_at = s_found.payload_at;
}

/* Reads streams. Grid: (1, chunks). The block runs beside begin_chunks, which
 * sets up the state, so it finds the stream by the host's copy of the state and
 * reads the frame itself. It writes to regions that begin_chunks does not touch
 * at once, and to the state after wait_for_kernels. Shared: struct read_shared,
 * mostly staged bytes and bit maps. A barrier ends each section. */
template <unsigned NTHREADS>
static __global__ void
__launch_bounds__(NTHREADS) read_streams(const struct cuda_batch batch)
{
    let_next_kernel_come();
    __shared__ read_shared<NTHREADS> s;
    __shared__ struct stream_found s_found;
    const struct cuda_chunk *host = (const struct cuda_chunk *)s.host;
    struct cuda_chunk *chunk = &batch.d_chunks[blockIdx.y];
    /* Where the frame of a stream without a bound ends. */
    const uint64_t body_at = batch.dims_end;
    struct staged_reader reader = {};
    struct stream_facts facts = {};

    if (threadIdx.x < CUDA_HOST_NBYTES / 8)
        s.host[threadIdx.x] =
            ((const uint64_t *)&batch.h_chunks[blockIdx.y])[threadIdx.x];
    facts.nlevels = batch.d_layout->nlevels;
    for (unsigned i = threadIdx.x; i < sizeof s_found / 8; i += NTHREADS)
        ((uint64_t *)&s_found)[i] = 0;
    __syncthreads();
    reader.src = (const uint8_t *)host->src;
    reader.end = host->status == TERP_OK
                     ? cuda_read_nbytes(batch, reader.src, host->src_nbytes)
                     : 0;
    if (reader.end < body_at) {
        wait_for_kernels();
        return;
    }
    const unsigned coding = reader.src[TERP_FRAME_CODING_AT];
    const unsigned prediction = reader.src[TERP_FRAME_PREDICTION_AT];
    stage_at<NTHREADS>(&reader, TERP_FRAME_DIMS_AT, s.staged);
    facts.coding = (enum terp_coding)coding;
    facts.prediction =
        (enum terp_prediction)(prediction & TERP_FRAME_PREDICTION);
    facts.has_specials = (prediction & TERP_FRAME_SPECIALS) != 0;
    facts.prefixes_nbytes =
        prediction & TERP_FRAME_PREFIXES ? TERP_PREFIXES_NBYTES : 0;
    const uint64_t begin = facts.coding == TERP_CODING_CONSTANT
                               ? body_at
                               : batch.frame_nbytes + facts.prefixes_nbytes;
    bool valid = facts.coding == TERP_CODING_RAW;
    take_bytes(&reader, (unsigned)(begin - TERP_FRAME_DIMS_AT));
    if (!valid && !reader.underflow)
        valid = read_body<NTHREADS>(batch, facts, &s_found, &reader, s);
    valid = __syncthreads_and(valid) != 0;

    wait_for_kernels();
    write_found(s_found, chunk);
    if (threadIdx.x == 0 && !valid && chunk->status == TERP_OK)
        chunk->status = TERP_ERR_CORRUPT;
}

/* Reads lossless streams from the section of specials to the payload, after
 * valid points are counted. Grid: (1, chunks). Shared: as in read_streams. */
template <unsigned NTHREADS>
static __global__ void
__launch_bounds__(NTHREADS) read_lossless_streams(const struct cuda_batch batch)
{
    __shared__ read_shared<NTHREADS> s;
    __shared__ struct stream_found s_found;
    struct cuda_chunk *chunk = &begin_chunk(batch);
    struct staged_reader reader = {};

    if (!chunk_is_lossless(*chunk))
        return;
    const uint64_t nvalid = nvalid_of(valid_points_of(batch, *chunk));
    for (unsigned i = threadIdx.x; i < sizeof s_found / 8; i += NTHREADS)
        ((uint64_t *)&s_found)[i] = 0;
    reader.src = (const uint8_t *)chunk->src;
    reader.end = chunk->src_nbytes;
    __syncthreads();
    stage_at<NTHREADS>(&reader, chunk->specials_end, s.staged);
    const bool valid =
        pass_shifts<NTHREADS>(batch, nvalid, &s_found, &reader, s) &&
        pass_remainders<NTHREADS>(chunk->model.lossless.form, &s_found, &reader,
                                  s) &&
        pass_escapes<NTHREADS>(batch, &s_found, &reader, s) &&
        read_tiles_index<NTHREADS>(batch, chunk->coding, &s_found, &reader, s);
    if (!__syncthreads_and(valid)) {
        if (threadIdx.x == 0)
            chunk->status = TERP_ERR_CORRUPT;
        return;
    }
    if (threadIdx.x > 0)
        return;
    chunk->shifts_at = s_found.shifts_at;
    chunk->remainders_at = s_found.remainders_at;
    chunk->remainders_nbytes = s_found.remainders_nbytes;
    chunk->nescapes = s_found.nescapes;
    chunk->number_nbytes = s_found.number_nbytes;
    chunk->escapes_end = s_found.escapes_end;
    chunk->payload_at = s_found.payload_at;
}

cudaError_t
cuda_lossless_read(const struct cuda_batch *batch, cudaStream_t stream)
{
    const uint64_t nwarps =
        div_up(batch->ntiles * SHIFT_TILE_NGROUPS, SHIFT_SPAN_NGROUPS);
    struct stage_launches launches = {batch, stream};

    launches.add_stage(cuda_valid_points_count, batch);
    launches.add(
        unpack_shift_groups,
        min_u64(div_up(nwarps, UNPACK_NTHREADS / 32), UNPACK_MAX_NBLOCKS),
        UNPACK_NTHREADS);
    return launches.error == cudaSuccess
               ? launch_index(batch, batch, true, stream,
                              read_lossless_streams<LONG_INDEX_NTHREADS>,
                              read_lossless_streams<SHORT_INDEX_NTHREADS>)
               : launches.error;
}

cudaError_t
cuda_model_read(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch_index(batch, batch, false, stream,
                        read_streams<LONG_INDEX_NTHREADS>,
                        read_streams<SHORT_INDEX_NTHREADS>);
}

/* ---- signs ---- */

/* Sets up a chunk's state in the batch of signs, and reads the index of its
 * tiles. Grid: (1, chunks). Shared: struct read_shared. */
template <unsigned NTHREADS>
static __global__ void
__launch_bounds__(NTHREADS) read_signs_index(const struct cuda_batch batch,
                                             const struct cuda_batch signs)
{
    __shared__ read_shared<NTHREADS> s;
    const struct cuda_chunk &chunk = begin_chunk(batch);
    struct cuda_chunk *own = &signs.d_chunks[blockIdx.y];
    struct staged_reader reader = {};
    uint64_t payload_at = 0;
    bool valid = true;

    for (unsigned i = threadIdx.x; i < sizeof *own / 8; i += NTHREADS)
        ((uint64_t *)own)[i] = 0;
    /* Stages on other streams may set the chunk's status meanwhile. */
    const bool applies = !__syncthreads_or(chunk.status != TERP_OK) &&
                         chunk.prediction != TERP_PREDICTION_NONE &&
                         chunk.head.signs == TERP_SIGNS_MIXED;
    if (applies) {
        reader.src = (const uint8_t *)chunk.src;
        reader.end = chunk.signs_end;
        const uint64_t at = chunk.signs_at + SIGNS_HEAD_NBYTES;
        if constexpr (is_short_index<NTHREADS>) {
            stage_at<NTHREADS>(&reader, at, s.staged);
            valid = read_index<NTHREADS>(signs, TERP_SIGNS_CODING, &reader, s,
                                         &payload_at);
        } else {
            struct block_reader block = {};
            block.src = reader.src;
            block.at = at;
            block.end = reader.end;
            stage_bytes<NTHREADS>(&block, s.staged, STAGED_READER_NBYTES);
            valid = read_index<NTHREADS>(signs, TERP_SIGNS_CODING, &block, s,
                                         &payload_at);
        }
        valid = __syncthreads_and(valid) != 0;
    }
    if (threadIdx.x != 0)
        return;
    own->src = chunk.src;
    own->src_nbytes = chunk.signs_end;
    own->coding = TERP_SIGNS_CODING;
    own->payload_at = payload_at;
    own->status = !applies ? TERP_ERR_DEVICE
                  : valid  ? TERP_OK
                           : TERP_ERR_CORRUPT;
}

cudaError_t
cuda_signs_index_read(const struct cuda_batch *batch,
                      const struct cuda_batch *signs, cudaStream_t stream)
{
    return launch_index(batch, signs, false, stream,
                        read_signs_index<LONG_INDEX_NTHREADS>,
                        read_signs_index<SHORT_INDEX_NTHREADS>, *signs);
}

/* Sets up the states of chunks before the stages, and returns results after. */
#include "gpu/engine/chunks.cuh"

#define NTHREADS 256
static_assert(
    NTHREADS >= CUDA_FRAME_NBYTES && NTHREADS >= CUDA_SHORT_NBYTES,
    "A block needs a thread for each byte of a frame and a short stream.");

/* Copies the members of a chunk's state that the host sets, and clears the
 * others. All threads of a chunk's first block call it. */
static __device__ void
take_state(struct cuda_chunk *chunk, const struct cuda_chunk *h_chunk)
{
    const uint64_t *from = (const uint64_t *)h_chunk;
    uint64_t *to = (uint64_t *)chunk;

    for (unsigned i = threadIdx.x; i < sizeof *chunk / 8; i += NTHREADS)
        to[i] = i < CUDA_HOST_NBYTES / 8 ? from[i] : 0;
}

/* Reads the carrier's head at `head`. Sets carrier and, for integers, limits.
 * False: the carrier is not valid or not the batch's. */
static __device__ bool
take_carrier(const struct cuda_batch &batch, const uint8_t *head,
             struct cuda_chunk *chunk)
{
    const enum terp_type type = batch.chunk.type;
    struct reader reader = {head, head + CUDA_CARRIER_HEAD_MAX_NBYTES, false};

    return terp_carrier_read_head(&reader, type, &chunk->carrier) &&
           cuda_form_of_carrier(chunk->carrier.form) ==
               (cuda_form_is_pointwise(batch.form) ? CUDA_VALUES
                                                   : batch.form) &&
           (!terp_type_is_integer(type) ||
            terp_integer_limits_of(type, &chunk->carrier, &chunk->limits));
}

/* Lowers src_nbytes to the prefix that the batch reads. False: the stream's
 * table of prefixes is not valid. */
static __device__ bool
take_prefix(const struct cuda_batch &batch, struct cuda_chunk *chunk)
{
    chunk->src_nbytes =
        cuda_read_nbytes(batch, (const uint8_t *)chunk->src, chunk->src_nbytes);
    return chunk->src_nbytes > 0;
}

/* Reads into `chunk` the bytes of a frame that differ between streams of one
 * shape. False: the bytes are not valid, or they describe a stream that the
 * batch does not decode. */
static __device__ bool
take_frame(const struct cuda_batch &batch, const uint8_t *frame,
           struct cuda_chunk *chunk)
{
    const int last_prediction = batch.may_be_lossless ? TERP_PREDICTION_LOSSLESS
                                                      : TERP_PREDICTION_LORENZO;
    const int coding = frame[TERP_FRAME_CODING_AT],
              prediction = frame[TERP_FRAME_PREDICTION_AT] & 0xF,
              flags = frame[TERP_FRAME_PREDICTION_AT] & ~0xF;
    const bool is_raw = coding == TERP_CODING_RAW;
    const bool is_pointwise = cuda_form_is_pointwise(batch.form);
    const bool has_bound = coding >= TERP_CODING_HUFFMAN;
    const uint64_t bound_at = batch.frame_nbytes - sizeof chunk->bound;
    const bool has_prefixes = (flags & TERP_FRAME_PREFIXES) != 0;
    const uint64_t frame_nbytes =
        !has_bound
            ? batch.dims_end
            : batch.frame_nbytes + (has_prefixes ? TERP_PREFIXES_NBYTES : 0);
    const uint8_t *head = frame + frame_nbytes;

    chunk->coding = (enum terp_coding)coding;
    chunk->prediction = (enum terp_prediction)prediction;
    chunk->has_specials = (flags & TERP_FRAME_SPECIALS) != 0;
    chunk->bound = double_of_bits(load_le(frame + bound_at, 8));
    return (coding <= TERP_CODING_HUFFMAN || coding == batch.coding) &&
           prediction <= last_prediction &&
           (!has_prefixes ||
            (prediction == TERP_PREDICTION_SPLINE && !batch.is_part)) &&
           (batch.decoding.nskipped == 0 ||
            prediction == TERP_PREDICTION_SPLINE ||
            coding == TERP_CODING_CONSTANT) &&
           (flags & ~(TERP_FRAME_SPECIALS | TERP_FRAME_PREFIXES)) ==
               ((has_bound && batch.has_domain ? TERP_FRAME_DOMAIN : 0) |
                (has_bound && is_pointwise ? TERP_FRAME_POINTWISE : 0)) &&
           (!has_bound || !is_pointwise ||
            cuda_form_of_head(head[batch.carrier_head_nbytes]) == batch.form) &&
           (is_raw || batch.carrier_head_nbytes == 0 ||
            take_carrier(batch, head, chunk)) &&
           has_bound == (prediction != TERP_PREDICTION_NONE) &&
           chunk->src_nbytes >= frame_nbytes && take_prefix(batch, chunk) &&
           (!has_bound || is_bound(chunk->bound) ||
            (is_zero_bound(chunk->bound) &&
             terp_prediction_is_raster(chunk->prediction))) &&
           (!is_raw || (flags == 0 && chunk->src_nbytes == batch.raw_nbytes));
}

/* Compares a frame with the batch's, except bytes that differ between streams,
 * and reads those bytes. All threads of a chunk's first block call it, a thread
 * a byte. */
static __device__ void
read_frame(const struct cuda_batch &batch, struct cuda_chunk *chunk)
{
    __shared__ uint8_t s_frame[CUDA_FRAME_NBYTES];
    const uint8_t *src = (const uint8_t *)chunk->src;
    const unsigned i = threadIdx.x;
    bool same = true;

    if (i < CUDA_FRAME_NBYTES) {
        s_frame[i] = i < chunk->src_nbytes ? src[i] : 0;
    }
    __syncthreads();
    if (i < CUDA_FRAME_NBYTES) {
        const bool has_bound =
            s_frame[TERP_FRAME_CODING_AT] >= TERP_CODING_HUFFMAN;
        bool varies = (i >= TERP_FRAME_CODING_AT && i < TERP_FRAME_DIMS_AT) ||
                      i >= (has_bound ? batch.frame_nbytes - sizeof chunk->bound
                                      : batch.dims_end);
        same = varies || s_frame[i] == batch.frame[i];
    }
    same = __syncthreads_and(same) != 0;
    if (i > 0 || (take_frame(batch, s_frame, chunk) && same))
        return;
    chunk->status = TERP_ERR_DEVICE;
    chunk->checksum_status = TERP_ERR_DEVICE;
}

/* Copies states from pinned memory, zeroes regions, reads frames. Grid: (any
 * number of blocks, chunks). All blocks of a chunk share the zeroing; block 0
 * alone touches the state, which is complete at the barrier. */
static __global__ void
__launch_bounds__(NTHREADS) begin_chunks(const struct cuda_batch batch)
{
    struct cuda_chunk *chunk = &begin_chunk(batch);
    uint4 *zeroed = region<uint4>(batch, 0);
    const uint64_t n = batch.at.zeroed_nbytes / sizeof *zeroed;

    if (blockIdx.x == 0)
        take_state(chunk, &batch.h_chunks[blockIdx.y]);
    for (uint64_t i = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x; i < n;
         i += (uint64_t)gridDim.x * NTHREADS)
        zeroed[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    if (blockIdx.x == 0 && batch.decodes && chunk->status == TERP_OK)
        read_frame(batch, chunk);
}

/* Copies the facts about a chunk's form to the host. */
static __device__ void
return_form(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            struct cuda_chunk *h_chunk)
{
    h_chunk->form = chunk.form;
    h_chunk->carrier = chunk.carrier;
    if (!cuda_form_is_pointwise(batch.form))
        return;
    h_chunk->how = chunk.how;
    for (int k = 0; k < TERP_NFILLS; k++)
        h_chunk->fills[k] = chunk.own_fills[k];
}

/* Copies results, and streams of up to CUDA_SHORT_NBYTES, to pinned memory.
 * Grid: (1, chunks). Thread 0 copies members, and thread i byte i of the
 * stream. */
static __global__ void
__launch_bounds__(NTHREADS)
    end_chunks(const struct cuda_batch batch, uint8_t *h_short)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    struct cuda_chunk *h_chunk = &batch.h_chunks[blockIdx.y];
    const uint8_t *stream =
        (const uint8_t *)(batch.decodes ? chunk.src : chunk.dst);
    const uint64_t nbytes =
        batch.decodes ? chunk.src_nbytes : chunk.stream_nbytes;
    const enum terp_status status =
        chunk.checksum_status != TERP_OK ? chunk.checksum_status : chunk.status;

    if (threadIdx.x == 0) {
        h_chunk->status = status;
        h_chunk->coding = chunk.coding;
        h_chunk->prediction = chunk.prediction;
        h_chunk->stream_nbytes = chunk.stream_nbytes;
        h_chunk->spline_cost = chunk.spline_cost;
        h_chunk->lorenzo_cost = chunk.lorenzo_cost;
        h_chunk->facts = chunk.facts;
        h_chunk->bound = terp_type_is_half(batch.chunk.type)
                             ? chunk.carrier_bound
                             : chunk.bound;
        h_chunk->model.step = chunk.model.step;
        h_chunk->model.wide = chunk.model.wide;
        h_chunk->min = chunk.min;
        h_chunk->max = chunk.max;
        h_chunk->bound_range = chunk.bound_range;
        for (int k = 0; k < TERP_NFILLS; k++)
            h_chunk->fills[k] = chunk.fills[k];
        if (batch.form != CUDA_VALUES && !batch.decodes)
            return_form(batch, chunk, h_chunk);
    }
    if (status != TERP_ERR_DEVICE && nbytes <= CUDA_SHORT_NBYTES &&
        threadIdx.x < nbytes)
        h_short[blockIdx.y * CUDA_SHORT_NBYTES + threadIdx.x] =
            stream[threadIdx.x];
}

cudaError_t
cuda_chunks_begin(const struct cuda_slot *slot)
{
    const struct cuda_batch *batch = &slot->batch;
    uint64_t nblocks = div_up(batch->at.zeroed_nbytes, 16 * NTHREADS);

    return launch_stage(batch, slot->stream, begin_chunks,
                        min_u64(nblocks, 1024), NTHREADS);
}

cudaError_t
cuda_chunks_end(const struct cuda_slot *slot)
{
    return launch_stage(&slot->batch, slot->stream, end_chunks, 1, NTHREADS,
                        slot->h_short);
}

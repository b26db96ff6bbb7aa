/* Finds values that repeat others, and codes what is left of a chunk: what
 * codec/compose/references.c does, in the same order. */
#include "gpu/engine/references.cuh"

#include "codec/format/references.h"
#include "codec/model/repeats.h"
#include "gpu/engine/join.cuh"
#include "gpu/engine/places.cuh"
#include "gpu/predict/references_search.cuh"

static const struct terp_cuda_call on_device = {TERP_MEMORY_DEVICE, false, NULL,
                                                0, NULL};

/* Of a chunk, for want of memory, or since a part of it is. */
#define IS_THE_CPUS TERP_ERR_MEMORY

/* A chunk, and the memory in which it is searched and coded again. */
struct job {
    struct terp_cuda_device *device;
    const struct terp_cuda_call *where;
    const struct cuda_call *call;
    cuda_coding_function *encode, *decode;
    uint64_t i;
    const struct terp_chunk *chunk;
    struct terp_reference_bound bound; /* 0: all bits come back */
    uint64_t marker;
    struct cuda_referring of;
    struct cuda_search search;
    struct cuda_seen seen;
    struct cuda_block block;
    uint8_t *memory;
    uint64_t original_at; /* of a chunk on the host */
    uint64_t sealed_at;
    /* In what the search had. */
    uint64_t part_at[TERP_REFERENCES_NPARTS], stream_at[TERP_REFERENCES_NPARTS];
    uint64_t stream_nbytes[TERP_REFERENCES_NPARTS];
    uint64_t decoded_at;
};

static bool
is_on_host(const struct job *job)
{
    return job->where->memory == TERP_MEMORY_HOST;
}

/* ---- memory ---- */

/* A part of as many references as there are values. */
static struct terp_chunk
largest_part(const struct job *job, int part)
{
    return terp_references_chunk(job->chunk, (enum terp_references_part)part,
                                 job->of.nvalues);
}

/* Places in `memory`, which may be NULL yet. Returns how much there is. */
static uint64_t
lay_out(struct job *job)
{
    const uint64_t n = job->of.nvalues, nbytes = terp_chunk_nbytes(job->chunk);
    const int table_nbits = cuda_search_table_nbits(n);
    struct cuda_search *search = &job->search;
    uint8_t *memory = job->memory;
    uint64_t at = 0;
    const auto take = [&](uint64_t nbytes_of) {
        return memory + place_take(&at, nbytes_of);
    };

    search->table_nbits = table_nbits;
    search->seen = (struct cuda_seen *)take(sizeof *search->seen);
    search->values = take(nbytes);
    search->sources = (uint32_t *)take(4 * n);
    search->points = (uint32_t *)take(4 * n);
    job->original_at = place_take(&at, is_on_host(job) ? nbytes : 0);
    job->sealed_at = place_take(&at, sizeof(struct cuda_sealed));

    uint64_t end = at;
    for (int p = 0; p < TERP_REFERENCES_NPARTS; p++) {
        const struct terp_chunk part = largest_part(job, p);
        if (p != TERP_REFERENCES_VALUES)
            job->part_at[p] = place_take(&end, terp_chunk_nbytes(&part));
        job->stream_at[p] = place_take(&end, terp_encode_bound(&part));
    }
    job->part_at[TERP_REFERENCES_VALUES] =
        (uint64_t)((uint8_t *)search->values - memory);
    job->decoded_at = place_take(&end, job->bound.bound > 0 ? nbytes : 0);

    search->words = (uint64_t *)take(8 * n);
    search->usable = take(n);
    search->keys = (uint32_t *)take(4 * n);
    search->hints = (uint32_t *)take(4 * n);
    search->table = (uint32_t *)take(UINT64_C(8) << table_nbits);
    search->tiles = (struct terp_reference_tile *)take(
        div_up(n, TERP_REFERENCE_TILE_NVALUES) * sizeof *search->tiles);
    search->changed = (uint32_t *)take(32 * 4);
    search->ranks = (uint64_t *)take(8 * div_up(n, CUDA_LIST_NVALUES));
    return at > end ? at : end;
}

static enum terp_status
make_memory(struct job *job)
{
    const enum terp_status st =
        cuda_block_take(job->device, lay_out(job), &job->block);

    if (st != TERP_OK)
        return st;
    job->memory = job->block.at;
    lay_out(job);
    return TERP_OK;
}

/* ---- the search ---- */

static cudaError_t
see(struct job *job, cudaStream_t stream)
{
    return cudaMemcpyAsync(&job->seen, job->search.seen, sizeof job->seen,
                           cudaMemcpyDeviceToHost, stream);
}

static cudaError_t
compare(struct job *job, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;

    job->of.original = job->call->src[job->i];
    if (is_on_host(job)) {
        job->of.original = job->memory + job->original_at;
        error = cudaMemcpyAsync(
            job->memory + job->original_at, job->call->src[job->i],
            terp_chunk_nbytes(job->chunk), cudaMemcpyHostToDevice, stream);
    }
    job->seen = CUDA_SEEN_NOTHING;
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(job->search.seen, &job->seen, sizeof job->seen,
                                cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess)
        error = cuda_references_compare(&job->of, job->marker, &job->search,
                                        stream);
    return error == cudaSuccess ? see(job, stream) : error;
}

/* Whether there is a marker, and something to be searched. */
static bool
is_searched(struct job *job)
{
    if (job->of.is_float)
        return !job->seen.has_marker && job->seen.nusable > 0;
    job->marker = job->seen.missing;
    return job->marker <= UINT64_MAX >> (64 - 8 * job->of.value_nbytes) &&
           job->seen.missing < job->of.nvalues && job->seen.nusable > 0;
}

static cudaError_t
search(struct job *job, cudaStream_t stream)
{
    const int word_nbits = 8 * job->of.value_nbytes - job->of.is_float;
    struct terp_repeats repeats = {};
    int near_nbits = -1;

    if (job->bound.bound > 0 && job->bound.of_each) {
        near_nbits = terp_repeats_near_nbits_of_each(job->bound.bound,
                                                     job->of.value_nbytes);
    } else if (job->bound.bound > 0) {
        const double most =
            terp_reference_float(job->chunk->type, job->seen.most);
        near_nbits = terp_repeats_near_nbits(job->bound.bound, -most, most,
                                             job->of.value_nbytes);
    }
    repeats.words = job->search.words;
    repeats.usable = job->search.usable;
    repeats.nvalues = job->of.nvalues;
    repeats.value_nbits =
        16 * 8 * job->call->dst_nbytes[job->i] / job->seen.nusable;
    repeats.hints = job->search.hints;
    repeats.sources = job->search.sources;
    terp_repeats_tell_apart(&repeats, word_nbits, near_nbits);
    const cudaError_t error =
        cuda_references_search(&repeats, &job->search, stream);
    return error == cudaSuccess ? see(job, stream) : error;
}

/* Whether references were found that are worth a stream. */
static enum terp_status
find_references(struct job *job, bool *found_ret)
{
    enum terp_status st =
        cuda_slot_do(job->device, job->where, "comparing values",
                     [=](cudaStream_t stream) { return compare(job, stream); });

    *found_ret = st == TERP_OK && is_searched(job);
    if (!*found_ret)
        return st;
    st = cuda_slot_do(job->device, &on_device, "looking for repeated values",
                      [=](cudaStream_t stream) { return search(job, stream); });
    *found_ret =
        st == TERP_OK &&
        terp_references_pay(job->seen.saved / 16, job->call->dst_nbytes[job->i],
                            job->bound.bound);
    return st;
}

/* ---- parts ---- */

static struct terp_chunk
part_of(const struct job *job, int part)
{
    return terp_references_chunk(job->chunk, (enum terp_references_part)part,
                                 job->seen.nreferences);
}

static enum terp_status
encode_part(struct job *job, int p)
{
    const struct terp_chunk chunk = part_of(job, p);
    struct terp_params params =
        terp_references_params(job->call->params, job->of.is_float, job->bound,
                               job->marker, (enum terp_references_part)p);
    const double bound = params.bound;
    const void *src = job->memory + job->part_at[p];
    void *dst = job->memory + job->stream_at[p];
    struct cuda_call call = {};

    /* What was a part of the range is now a bound, which may let no value
     * change. */
    if (terp_type_is_half(chunk.type) &&
        terp_half_is_exact(chunk.type, &params))
        params.bound = 0;
    call.chunk = &chunk;
    call.params = &params;
    call.caller_bound = bound;
    call.is_part = true;
    call.is_plain = true;
    call.nchunks = 1;
    call.src = &src;
    call.dst = &dst;
    call.dst_nbytes = &job->stream_nbytes[p];
    call.allocator = job->call->allocator;
    const enum terp_status st = job->encode(job->device, &on_device, &call);
    return st == TERP_OK && job->stream_nbytes[p] == 0 ? IS_THE_CPUS : st;
}

/* The values as a decoder has them that refer to none. */
static enum terp_status
decode_values(struct job *job)
{
    const struct terp_chunk chunk = part_of(job, TERP_REFERENCES_VALUES);
    const void *src = job->memory + job->stream_at[TERP_REFERENCES_VALUES];
    void *dst = job->memory + job->decoded_at;
    enum terp_status status = TERP_ERR_DEVICE;
    struct cuda_call call = {};

    call.chunk = &chunk;
    call.is_part = true;
    call.nchunks = 1;
    call.src = &src;
    call.src_nbytes = &job->stream_nbytes[TERP_REFERENCES_VALUES];
    call.dst = &dst;
    call.status = &status;
    const enum terp_status st = job->decode(job->device, &on_device, &call);
    return st == TERP_OK && status != TERP_OK ? IS_THE_CPUS : st;
}

static enum terp_status
list(const struct job *job)
{
    return cuda_slot_do(
        job->device, &on_device, "listing references",
        [=](cudaStream_t stream) {
            return cuda_references_list(
                &job->of, job->marker, &job->search, job->seen.nreferences,
                (uint32_t *)(job->memory +
                             job->part_at[TERP_REFERENCES_DISTANCES]),
                stream);
        });
}

static enum terp_status
differ(const struct job *job)
{
    const void *decoded = job->bound.bound > 0 ? job->memory + job->decoded_at
                                               : (uint8_t *)job->search.values;

    return cuda_slot_do(
        job->device, &on_device, "listing differences",
        [=](cudaStream_t stream) {
            return cuda_references_differ(
                &job->of, job->bound, &job->search, decoded,
                job->seen.nreferences,
                (uint64_t *)(job->memory +
                             job->part_at[TERP_REFERENCES_DIFFERENCES]),
                stream);
        });
}

static enum terp_status
encode_parts(struct job *job)
{
    enum terp_status st = list(job);

    if (st == TERP_OK)
        st = encode_part(job, TERP_REFERENCES_VALUES);
    if (st == TERP_OK && job->bound.bound > 0)
        st = decode_values(job);
    if (st == TERP_OK)
        st = differ(job);
    for (int p = 0; st == TERP_OK && p < TERP_REFERENCES_VALUES; p++)
        st = encode_part(job, p);
    return st;
}

/* ---- the stream ---- */

/* Keeps the stream if it is shorter; the values alone may not have become so.
 */
static cudaError_t
write_stream(const struct job *job, cudaStream_t stream)
{
    const uint64_t most = job->call->dst_nbytes[job->i];
    struct terp_frame frame = {};
    uint8_t kept[TERP_REFERENCES_NPARTS][TERP_PART_NKEPT];
    uint8_t head[TERP_FRAME_RAW_MAX_NBYTES + 8 + 9], length[2][9];
    struct cuda_piece pieces[1 + 3 * TERP_REFERENCES_NPARTS];
    int npieces = 0;
    uint64_t nbytes = 0;

    for (int p = 0; p < TERP_REFERENCES_NPARTS; p++) {
        const cudaError_t error = cudaMemcpyAsync(
            kept[p], job->memory + job->stream_at[p] + TERP_FRAME_CODING_AT,
            TERP_PART_NKEPT, cudaMemcpyDeviceToHost, stream);
        if (error != cudaSuccess)
            return error;
    }
    const cudaError_t error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess ||
        kept[TERP_REFERENCES_VALUES][0] == TERP_CODING_RAW)
        return error;
    frame.chunk = *job->chunk;
    frame.coding = TERP_CODING_REFERENCES;
    uint8_t *body = head + terp_frame_write(&frame, head);
    struct writer writer = {body, head + sizeof head, false};
    write_le(&writer, job->marker, job->of.value_nbytes);
    write_uleb(&writer, job->seen.nreferences);
    pieces[npieces++] = {head, (uint64_t)(writer.at - head)};
    for (int p = 0; p < TERP_REFERENCES_NPARTS; p++) {
        const struct terp_chunk chunk = part_of(job, p);
        const uint64_t common = terp_part_common_nbytes(&chunk);
        if (p != TERP_REFERENCES_VALUES) {
            struct writer own = {length[p], length[p] + 9, false};
            terp_part_write_nbytes(&own, &chunk, job->stream_nbytes[p]);
            pieces[npieces++] = {length[p], (uint64_t)(own.at - length[p])};
        }
        pieces[npieces++] = {kept[p], TERP_PART_NKEPT};
        pieces[npieces++] = {job->memory + job->stream_at[p] + common,
                             job->stream_nbytes[p] - common};
    }
    for (int k = 0; k < npieces; k++)
        nbytes += pieces[k].nbytes;
    if (nbytes >= most)
        return cudaSuccess;
    job->call->dst_nbytes[job->i] = nbytes;
    return cuda_stream_join(
        job->call->dst[job->i], is_on_host(job), pieces, npieces,
        (struct cuda_sealed *)(job->memory + job->sealed_at), stream);
}

static struct job
job_of(struct terp_cuda_device *device, const struct terp_cuda_call *where,
       const struct cuda_call *call, uint64_t i,
       struct terp_reference_bound bound)
{
    const struct terp_params *params = call->params;
    struct job job = {};

    job.device = device;
    job.where = where;
    job.call = call;
    job.i = i;
    job.chunk = call->chunk;
    job.bound = bound;
    job.of.type = call->chunk->type;
    job.of.value_nbytes = terp_value_nbytes(call->chunk->type);
    job.of.nvalues =
        terp_chunk_nbytes(call->chunk) / (uint64_t)job.of.value_nbytes;
    job.of.is_float = !terp_type_is_integer(call->chunk->type);
    job.of.big_endian = call->chunk->big_endian;
    job.of.infinity = terp_references_infinity(call->chunk->type);
    job.of.fill[0] = terp_own_fill(call->chunk->type, params->fill_bits);
    job.of.fill[1] = terp_own_fill(call->chunk->type, params->missing_bits);
    job.of.has_fill[0] = params->has_fill;
    job.of.has_fill[1] = params->has_missing;
    job.marker = terp_references_marker_of_floats(job.of.value_nbytes);
    return job;
}

enum terp_status
cuda_references_encode(struct terp_cuda_device *device,
                       const struct terp_cuda_call *where,
                       const struct cuda_call *call, uint64_t i,
                       struct terp_reference_bound bound,
                       cuda_coding_function *encode,
                       cuda_coding_function *decode)
{
    struct job job = job_of(device, where, call, i, bound);
    bool found = false;

    job.encode = encode;
    job.decode = decode;
    if (job.of.nvalues >= TERP_NO_SOURCE ||
        (!job.of.is_float && call->params->has_missing))
        return TERP_OK;
    enum terp_status st = make_memory(&job);
    if (st == TERP_OK)
        st = find_references(&job, &found);
    if (st == TERP_OK && found)
        st = encode_parts(&job);
    if (st == TERP_OK && found)
        st = cuda_slot_do(
            device, &on_device, "writing references",
            [&](cudaStream_t stream) { return write_stream(&job, stream); });
    if (job.memory != NULL)
        cuda_block_give(device, job.block);
    if (st != IS_THE_CPUS)
        return st;
    call->dst_nbytes[i] = 0;
    return TERP_OK;
}

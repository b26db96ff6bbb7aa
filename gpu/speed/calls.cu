/* Streams of coding SPEED of a call: what the host prepares, and one launch for
 * up to MAX_NCHUNKS chunks. Chunks in host memory are copied to the device and
 * streams back. */
#include "gpu/speed/speed.cuh"

#include "codec/format/frame.h"
#include "gpu/engine/array.cuh"
#include "gpu/engine/places.cuh"
#include "gpu/speed/tile.cuh"

/* Chunks of a launch: blockIdx.y. */
#define MAX_NCHUNKS 4096

/* Values or streams in host memory that are on the device at once. */
#define MAX_STAGED_NBYTES (UINT64_C(256) << 20)

static struct speed_job
job_of(const struct terp_chunk *chunk)
{
    struct speed_job job = {};

    job.type = chunk->type;
    job.value_nbytes = terp_value_nbytes(chunk->type);
    job.big_endian = chunk->big_endian && job.value_nbytes > 1;
    terp_speed_grid_make(chunk, &job.grid);
    return job;
}

static bool
is_aligned(const void *at, uint64_t nbytes)
{
    return (uintptr_t)at % nbytes == 0;
}

/* The number of chunks for a launch, of n chunks that remain. Chunks in host
 * memory (`is_staged`) are copied to the device, and the copies must fit. */
static uint64_t
portion_of(uint64_t n, uint64_t nbytes, bool is_staged)
{
    const uint64_t most =
        is_staged ? MAX_STAGED_NBYTES / nbytes + 1 : MAX_NCHUNKS;

    return min_u64(n, min_u64(most, MAX_NCHUNKS));
}

/* Sets where kernels count and tell their results, for as long as `progress`
 * exists. */
static void
place_progress(const cuda_session_list<struct speed_progress> &progress,
               struct speed_job *job)
{
    job->progress = progress.on_device();
    job->h_progress = progress.pinned();
    for (uint64_t k = 0; k < progress.n; k++)
        progress.items[k].nbytes = 0;
}

/* ---- encoding ---- */

static void
add_fill(struct speed_numbers *numbers, int value_nbytes, bool is_integer,
         uint64_t bits)
{
    bits &= UINT64_MAX >> (64 - 8 * value_nbytes);
    if (!is_integer && bits == UINT64_C(1) << (8 * value_nbytes - 1))
        bits = 0; /* -0.0 */
    for (int i = 0; i < numbers->nfills; i++)
        if (bits == numbers->fill[i])
            return;
    numbers->fill[numbers->nfills++] = bits;
}

/* The numbers of a chunk under an absolute bound. */
static void
make_chunk(const struct terp_chunk *chunk, double bound,
           struct speed_chunk *ret)
{
    const struct terp_speed_choice choice =
        terp_speed_choose(chunk->type, bound);
    const bool has_steps = choice.head.kind == TERP_SPEED_STEPS;
    const bool is_narrow = terp_speed_word_nbytes(chunk->type) == 4;
    struct speed_numbers *numbers = &ret->numbers;
    struct terp_frame frame = {};

    numbers->kind = choice.head.kind;
    numbers->most = choice.most;
    numbers->whole_most = choice.whole_most;
    if (has_steps && terp_type_is_integer(chunk->type)) {
        numbers->whole_step = choice.head.step_bits;
        numbers->per_whole_step = 1 / (double)choice.head.step_bits;
    }
    for (int i = 0; has_steps && !terp_type_is_integer(chunk->type) &&
                    i < TERP_SPEED_NLEVELS;
         i++) {
        const double step =
            double_of_bits(choice.head.step_bits) * terp_speed_factor(i);
        numbers->step[i] = is_narrow ? (double)(float)step : step;
        numbers->per_step[i] = is_narrow ? (double)(float)(1 / numbers->step[i])
                                         : 1 / numbers->step[i];
    }
    frame.chunk = *chunk;
    frame.coding = TERP_CODING_SPEED;
    frame.bound = choice.bound;
    frame.version = TERP_FORMAT_VERSION;
    const unsigned nbytes = (unsigned)terp_frame_write(&frame, ret->head);
    ret->index_at = nbytes + (unsigned)terp_speed_head_write(
                                 &choice.head, nbytes, ret->head + nbytes);
}
static_assert(TERP_FRAME_RAW_MAX_NBYTES + 8 + 8 + 8 <= SPEED_MAX_HEAD_NBYTES,
              "A head holds what precedes an index.");

/* What an encoder does for a portion of chunks. */
struct speed_encoding {
    struct terp_session *session;
    const struct terp_source *source;
    uint64_t first, n; /* chunks of the source */
    bool is_staged;    /* values and streams are in host memory */
    void *const *dst;
    struct speed_chunk *chunks;
};

/* The fill values of the caller, and the absolute bounds of chunks under a
 * relative one: the ranges leave out what is special. */
static enum terp_status
find_bounds(struct speed_encoding *it, const void *const *src)
{
    const struct terp_params *params = it->source->params;
    const struct terp_chunk *chunk = it->source->chunk;
    const double *given = it->source->bounds;
    const int value_nbytes = terp_value_nbytes(chunk->type);
    const bool is_integer = terp_type_is_integer(chunk->type);
    const bool is_relative =
        params->bound_mode == TERP_BOUND_RELATIVE && !is_integer;
    const cuda_host_array<struct terp_measure> measures(it->n);
    enum terp_status st = measures == NULL ? TERP_ERR_MEMORY : TERP_OK;

    bool is_given = given != NULL;
    for (uint64_t k = 0; is_given && k < it->n; k++)
        is_given = given[it->first + k] > 0;
    const bool is_measured = is_relative && !is_given;
    if (st == TERP_OK && is_measured)
        st = cuda_values_measure(it->session, params, chunk, it->n, src,
                                 measures);
    for (uint64_t k = 0; st == TERP_OK && k < it->n; k++) {
        struct speed_chunk *own = &it->chunks[k];
        const double bound = given == NULL ? 0 : given[it->first + k];
        const bool is_found = bound <= 0 && is_measured;
        double absolute = bound > 0 ? bound
                          : params->bound_mode == TERP_BOUND_RELATIVE
                              ? 0
                              : params->bound;
        if (is_found)
            absolute = measures[k].min < measures[k].max
                           ? terp_bound_of_range(params->bound, measures[k].min,
                                                 measures[k].max)
                           : 0;
        make_chunk(chunk, absolute, own);
        for (int i = 0; is_found && i < TERP_NFILLS; i++)
            if (measures[k].fill_bits[i] != UINT64_C(1)
                                                << (8 * value_nbytes - 1))
                add_fill(&own->numbers, value_nbytes, is_integer,
                         measures[k].fill_bits[i]);
        if (!is_found && params->has_fill)
            add_fill(&own->numbers, value_nbytes, is_integer,
                     params->fill_bits);
        if (!is_found && params->has_missing)
            add_fill(&own->numbers, value_nbytes, is_integer,
                     params->missing_bits);
    }
    return st;
}

static enum terp_status
encode_portion(struct speed_encoding *it, uint64_t *nbytes_ret)
{
    const struct terp_chunk *chunk = it->source->chunk;
    const uint64_t chunk_nbytes = terp_chunk_nbytes(chunk);
    const uint64_t stride = place_aligned(terp_encode_bound(chunk));
    struct terp_frame raw = {};
    uint64_t at = 0;

    struct speed_job job = job_of(chunk);
    raw.chunk = *chunk;
    job.cap_nbytes = (uint64_t)terp_frame_nbytes(&raw) + chunk_nbytes;
    job.is_part = it->source->is_part;
    const uint64_t values_at = place_take(
        &at, it->is_staged ? it->n * place_aligned(chunk_nbytes) : 0);
    const uint64_t streams_at =
        place_take(&at, it->is_staged ? it->n * stride : 0);
    const uint64_t list_at = place_take(&at, it->n * sizeof *it->chunks);
    const uint64_t states_nbytes = it->n * job.grid.ntiles * 8;
    const cuda_session_list<struct speed_progress> progress(it->session, it->n,
                                                            states_nbytes);
    const cuda_session_memory memory(it->session, at);
    const void *const *src = it->source->src + it->first;
    const cuda_host_array<const void *> staged(it->n);
    enum terp_status st = TERP_OK;

    if (!progress.is_made() || memory.at == NULL || staged == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; k < it->n; k++)
        staged[k] = it->is_staged ? memory.at + values_at +
                                        k * place_aligned(chunk_nbytes)
                                  : src[k];
    if (it->is_staged)
        st = cuda_session_do(
            it->session, "copying values", [&](cuda_work &work) {
                for (uint64_t k = 0; k < it->n; k++)
                    work.copy((void *)staged[k], src[k], chunk_nbytes);
            });
    if (st == TERP_OK)
        st = find_bounds(it, staged);
    for (uint64_t k = 0; k < it->n; k++) {
        it->chunks[k].src = staged[k];
        it->chunks[k].dst = it->is_staged ? memory.at + streams_at + k * stride
                                          : (uint8_t *)it->dst[it->first + k];
    }
    job.chunk = it->chunks[0];
    job.chunks =
        it->n == 1 ? NULL : (const struct speed_chunk *)(memory.at + list_at);
    place_progress(progress, &job);
    job.states = (unsigned long long *)progress.more();
    if (st == TERP_OK)
        st = cuda_session_do(
            it->session, "encoding tiles", [&](cuda_work &work) {
                work.zero(job.progress, (uint64_t)(progress.more() -
                                                   (uint8_t *)job.progress) +
                                            states_nbytes);
                if (it->n > 1)
                    work.copy(memory.at + list_at, it->chunks,
                              it->n * sizeof *it->chunks);
                work.add(cuda_speed_launch_encode, &job, (unsigned)it->n);
                if (job.h_progress == NULL)
                    progress.download(work);
            });
    for (uint64_t k = 0; st == TERP_OK && k < it->n; k++)
        nbytes_ret[it->first + k] = progress.items[k].nbytes;
    if (st == TERP_OK && it->is_staged)
        st = cuda_session_do(
            it->session, "copying streams", [&](cuda_work &work) {
                for (uint64_t k = 0; k < it->n; k++)
                    work.copy(it->dst[it->first + k], it->chunks[k].dst,
                              progress.items[k].nbytes);
            });
    return st;
}

/* Whether the device leaves chunks to the CPU: relative bounds of types of
 * which it does not find the range, and places that are not aligned. */
static bool
leaves(const struct speed_encoding *it)
{
    const struct terp_source *source = it->source;
    const uint64_t value_nbytes =
        (uint64_t)terp_value_nbytes(source->chunk->type);
    struct terp_speed_grid grid;

    terp_speed_grid_make(source->chunk, &grid);
    if (grid.ntiles > INT32_MAX ||
        (source->params->bound_mode == TERP_BOUND_RELATIVE &&
         terp_type_is_half(source->chunk->type)))
        return true;
    for (uint64_t i = 0; i < source->n; i++)
        if (cuda_session_is_host(it->session, source->src[i]) !=
                cuda_session_is_host(it->session, it->dst[i]) ||
            (!it->is_staged && (!is_aligned(source->src[i], value_nbytes) ||
                                !is_aligned(it->dst[i], 8))))
            return true;
    return false;
}

enum terp_status
cuda_speed_encode(struct terp_session *session,
                  const struct terp_source *source, void *const *dst,
                  uint64_t *nbytes_ret)
{
    const uint64_t chunk_nbytes = terp_chunk_nbytes(source->chunk);
    struct speed_encoding it = {};
    enum terp_status st = TERP_OK;

    it.session = session;
    it.source = source;
    it.dst = dst;
    it.is_staged = cuda_session_is_host(session, source->src[0]);
    for (uint64_t i = 0; i < source->n; i++)
        nbytes_ret[i] = TERP_LEFT_NBYTES;
    if (leaves(&it))
        return TERP_OK;
    const uint64_t most = portion_of(source->n, chunk_nbytes, it.is_staged);
    const cuda_host_array<struct speed_chunk> chunks(most);
    it.chunks = chunks;
    if (it.chunks == NULL)
        st = TERP_ERR_MEMORY;
    for (; st == TERP_OK && it.first < source->n; it.first += it.n) {
        it.n = min_u64(most, source->n - it.first);
        for (uint64_t k = 0; k < it.n; k++)
            it.chunks[k] = {};
        st = encode_portion(&it, nbytes_ret);
    }
    return st;
}

/* ---- decoding ---- */

/* Streams to decode; at[k] is the caller's number of stream k. */
struct speed_decoding {
    struct terp_session *session;
    const struct terp_chunk *chunk;
    bool is_part, is_staged;
    uint64_t n, *at;
    struct speed_stream *streams;
    bool *is_done;
};

static enum terp_status
decode_portion(struct speed_decoding *it, const void *const *src,
               void *const *dst)
{
    const uint64_t chunk_nbytes = terp_chunk_nbytes(it->chunk);
    struct terp_frame frame = {};
    uint64_t at = 0, streams_nbytes = 0;
    struct speed_job job = job_of(it->chunk);

    frame.chunk = *it->chunk;
    frame.coding = TERP_CODING_SPEED;
    frame.version = TERP_FORMAT_VERSION;
    job.is_part = it->is_part;
    job.frame_nbytes = (unsigned)terp_frame_write(&frame, job.frame);
    for (uint64_t k = 0; it->is_staged && k < it->n; k++)
        streams_nbytes += place_aligned(it->streams[k].nbytes);
    const uint64_t streams_at = place_take(&at, streams_nbytes);
    const uint64_t values_at = place_take(
        &at, it->is_staged ? it->n * place_aligned(chunk_nbytes) : 0);
    const uint64_t list_at = place_take(&at, it->n * sizeof *it->streams);
    const cuda_session_list<struct speed_progress> progress(it->session, it->n);
    const cuda_session_memory memory(it->session, at);

    if (!progress.is_made() || memory.at == NULL)
        return TERP_ERR_MEMORY;
    uint8_t *next = memory.at + streams_at;
    for (uint64_t k = 0; it->is_staged && k < it->n; k++) {
        it->streams[k].src = next;
        next += place_aligned(it->streams[k].nbytes);
        it->streams[k].dst =
            memory.at + values_at + k * place_aligned(chunk_nbytes);
    }
    job.stream = it->streams[0];
    job.streams =
        it->n == 1 ? NULL : (const struct speed_stream *)(memory.at + list_at);
    place_progress(progress, &job);
    enum terp_status st =
        cuda_session_do(it->session, "decoding tiles", [&](cuda_work &work) {
            work.zero(job.progress, it->n * sizeof *job.progress);
            for (uint64_t k = 0; it->is_staged && k < it->n; k++)
                work.copy((void *)it->streams[k].src, src[it->at[k]],
                          it->streams[k].nbytes);
            if (it->n > 1)
                work.copy(memory.at + list_at, it->streams,
                          it->n * sizeof *it->streams);
            work.add(cuda_speed_launch_decode, &job, (unsigned)it->n);
            if (job.h_progress == NULL)
                progress.download(work);
        });
    for (uint64_t k = 0; k < it->n; k++)
        it->is_done[k] = st == TERP_OK && progress.items[k].nbytes != 0;
    if (st == TERP_OK && it->is_staged)
        st = cuda_session_do(
            it->session, "copying values", [&](cuda_work &work) {
                for (uint64_t k = 0; k < it->n; k++)
                    if (it->is_done[k])
                        work.copy(dst[it->at[k]], it->streams[k].dst,
                                  chunk_nbytes);
            });
    return st;
}

/* Whether stream k may be decoded here. */
static bool
is_possible(const struct speed_decoding *it, const void *src, uint64_t nbytes,
            const void *dst)
{
    const uint64_t value_nbytes = (uint64_t)terp_value_nbytes(it->chunk->type);

    if (nbytes < TERP_FRAME_DIMS_AT || nbytes > terp_encode_bound(it->chunk) ||
        cuda_session_is_host(it->session, src) != it->is_staged ||
        cuda_session_is_host(it->session, dst) != it->is_staged)
        return false;
    return it->is_staged ? ((const uint8_t *)src)[TERP_FRAME_CODING_AT] ==
                               TERP_CODING_SPEED
                         : is_aligned(src, 8) && is_aligned(dst, value_nbytes);
}

enum terp_status
cuda_speed_decode(struct terp_session *session, const struct terp_chunk *chunk,
                  bool is_part, uint64_t n, const void *const *src,
                  const uint64_t *nbytes, void *const *dst,
                  enum terp_status *status_ret, bool *any_ret)
{
    struct speed_decoding it = {};
    struct terp_speed_grid grid;
    enum terp_status st = TERP_OK;

    *any_ret = false;
    it.session = session;
    it.chunk = chunk;
    it.is_part = is_part;
    it.is_staged = cuda_session_is_host(session, src[0]);
    terp_speed_grid_make(chunk, &grid);
    if (grid.ntiles > INT32_MAX || terp_type_nparts(chunk->type) > 1)
        return TERP_OK;
    const uint64_t most = portion_of(n, terp_chunk_nbytes(chunk), it.is_staged);
    const cuda_host_array<uint64_t> at(most);
    const cuda_host_array<struct speed_stream> streams(most);
    const cuda_host_array<bool> is_done(most);
    it.at = at;
    it.streams = streams;
    it.is_done = is_done;
    if (it.at == NULL || it.streams == NULL || it.is_done == NULL)
        st = TERP_ERR_MEMORY;
    for (uint64_t i = 0; st == TERP_OK && i < n;) {
        it.n = 0;
        for (; i < n && it.n < most; i++) {
            if (status_ret[i] != TERP_ERR_DEVICE ||
                !is_possible(&it, src[i], nbytes[i], dst[i]))
                continue;
            it.at[it.n] = i;
            it.streams[it.n++] = {(const uint8_t *)src[i], nbytes[i], dst[i]};
        }
        if (it.n > 0)
            st = decode_portion(&it, src, dst);
        for (uint64_t k = 0; st == TERP_OK && k < it.n; k++)
            if (it.is_done[k]) {
                status_ret[it.at[k]] = TERP_OK;
                *any_ret = true;
            }
    }
    return st;
}

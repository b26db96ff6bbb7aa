/* Streams that hold others: of copies, and with references. What they hold is
 * decoded as any other streams are, side by side, in device memory; then all
 * references are followed at once, or copies are made. */
#include "gpu/engine/within.cuh"

#include <new>

#include <string.h>
#include <sys/mman.h>

#include "codec/format/copies.h"
#include "codec/format/references.h"
#include "codec/format/types.h"
#include "codec/model/coarse.h"
#include "gpu/engine/again.cuh"
#include "gpu/engine/array.cuh"
#include "gpu/engine/places.cuh"
#include "gpu/predict/repeats.cuh"
#include "gpu/sections/seal.cuh"

#define MAX_NPARTS TERP_REFERENCES_NPARTS
#define DISTANCES TERP_REFERENCES_DISTANCES
#define DIFFERENCES TERP_REFERENCES_DIFFERENCES

/* What is decoded at once, at most, but for one stream. */
#define PORTION_NBYTES (UINT64_C(512) << 20)
#define PORTION_MAX_NSTREAMS 4096

/* Bytes of a stream, or of a part, that tell what it holds: its frame, and the
 * begin of its body with the first part's head; and all of a short one. */
#define HEAD_NBYTES 512
static_assert(HEAD_NBYTES >=
                      TERP_FRAME_MAX_NBYTES + 8 + 9 + TERP_PART_HEAD_NBYTES &&
                  HEAD_NBYTES >= CUDA_SHORT_NBYTES,
              "One look suffices.");

/* A part: its chunk, and where its stream and its values are in the memory of a
 * portion. */
struct part {
    struct terp_chunk chunk;
    struct terp_part of;
    uint8_t frame[TERP_FRAME_MAX_NBYTES]; /* begins the stream */
    uint64_t frame_nbytes, stream_at, values_at;
    enum terp_status status;
};

/* A stream that holds others. */
struct hull {
    uint64_t at; /* which of the call */
    const uint8_t *src;
    uint64_t nbytes;
    uint8_t *seen; /* as much as `src`, of which the host has seen some bytes */
    uint64_t next; /* what it has to see next */
    bool is_good;
    int nparts;
    struct part part[MAX_NPARTS];
    unsigned dims; /* of copies */
    uint64_t marker, nreferences;
    uint64_t ranks_at, whole_at, out_at; /* as those of parts */
};

typedef enum terp_status
decode_function(struct terp_cuda_device *device,
                const struct terp_cuda_call *where, struct cuda_call *call);

/* What is decoded together. */
struct job {
    struct terp_cuda_device *device;
    const struct terp_cuda_call *where;
    const struct cuda_call *call;
    enum terp_coding coding;
    decode_function *decode; /* parts */
    uint64_t n;
    struct hull *hulls;
};

/* A portion of them, and its memory. */
struct portion {
    const struct job *job;
    struct hull *hulls;
    uint64_t n, nbytes;
    uint8_t *memory;
    uint64_t sealed_at, spread_at, follow_at;
};

static const struct terp_cuda_call on_device = {TERP_MEMORY_DEVICE, false, NULL,
                                                0, NULL};

/* ---- what streams hold ---- */

static bool
is_on_host(const struct job *job)
{
    return job->where->memory == TERP_MEMORY_HOST;
}

/* Shows the host what is next of all streams. */
static enum terp_status
look(const struct job *job)
{
    void **dst = new (std::nothrow) void *[job->n];
    const void **src = new (std::nothrow) const void *[job->n];
    uint64_t *nbytes = new (std::nothrow) uint64_t[job->n], n = 0;
    enum terp_status st = TERP_ERR_MEMORY;

    if (dst != NULL && src != NULL && nbytes != NULL) {
        for (uint64_t i = 0; i < job->n; i++) {
            const struct hull *hull = &job->hulls[i];
            if (!hull->is_good || hull->next >= hull->nbytes)
                continue;
            dst[n] = hull->seen + hull->next;
            src[n] = hull->src + hull->next;
            nbytes[n++] = min_u64(HEAD_NBYTES, hull->nbytes - hull->next);
        }
        st =
            is_on_host(job) || n == 0
                ? TERP_OK
                : cuda_array_copy(job->device, job->where, n, dst, src, nbytes);
    }
    delete[] dst;
    delete[] src;
    delete[] nbytes;
    return st;
}

/* Host memory that is seen as it is; or as much as the stream, of which few
 * pages will be there. */
static bool
make_room(const struct job *job, struct hull *hull)
{
    if (is_on_host(job)) {
        hull->seen = (uint8_t *)hull->src;
        return true;
    }
    void *room = mmap(NULL, hull->nbytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    hull->seen = room == MAP_FAILED ? NULL : (uint8_t *)room;
    return hull->seen != NULL;
}

static void
free_hulls(struct job *job)
{
    for (uint64_t i = 0; i < job->n && !is_on_host(job); i++)
        if (job->hulls[i].seen != NULL)
            munmap(job->hulls[i].seen, job->hulls[i].nbytes);
    delete[] job->hulls;
}

/* All streams that are left: what is longer than a stored chunk is none of
 * ours. */
static enum terp_status
list_left(struct job *job)
{
    const struct cuda_call *call = job->call;
    const uint64_t most = terp_encode_bound(call->chunk);
    uint64_t n = 0;

    for (uint64_t i = 0; i < call->nchunks; i++)
        n += call->status[i] == TERP_ERR_DEVICE;
    if (n == 0)
        return TERP_OK;
    job->hulls = new (std::nothrow) struct hull[n]();
    if (job->hulls == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t i = 0; i < call->nchunks; i++) {
        if (call->status[i] != TERP_ERR_DEVICE || call->src_nbytes[i] == 0 ||
            call->src_nbytes[i] > most)
            continue;
        struct hull *hull = &job->hulls[job->n++];
        hull->at = i;
        hull->src = (const uint8_t *)call->src[i];
        hull->nbytes = call->src_nbytes[i];
        hull->is_good = make_room(job, hull);
    }
    return TERP_OK;
}

/* Whether the checksum is the one that it has, as far as the host sees it. */
static bool
may_be_sealed(const struct job *job, const struct hull *hull)
{
    const bool sees_all = is_on_host(job) || hull->nbytes <= CUDA_SHORT_NBYTES;

    return job->call->is_part || !sees_all ||
           terp_frame_verify(hull->seen, hull->nbytes) == TERP_OK;
}

static void
take_part(struct hull *hull, const struct terp_chunk *chunk,
          const struct terp_part *of)
{
    struct part *part = &hull->part[hull->nparts++];

    part->chunk = *chunk;
    part->of = *of;
    part->frame_nbytes =
        (uint64_t)terp_part_write_frame(chunk, of->bytes, part->frame);
}

static bool
read_copies(const struct terp_chunk *chunk, const uint8_t *body,
            uint64_t nbytes, struct hull *hull)
{
    struct terp_copies copies;

    if (terp_copies_read(chunk, body, nbytes, &copies) != TERP_OK)
        return false;
    const struct terp_chunk left = terp_copies_chunk(chunk, copies.dims);
    hull->dims = copies.dims;
    take_part(hull, &left, &copies.values);
    return true;
}

/* Each part but the last tells where the next one is, which the host has to see
 * before. */
static bool
read_references(const struct terp_chunk *chunk, const uint8_t *body,
                uint64_t nbytes, int nseen, struct hull *hull)
{
    struct terp_references references = {};
    const bool all =
        terp_references_read(chunk, body, nbytes, &references) == TERP_OK;
    const struct terp_part *last = &references.part[nseen - 1];

    if (nseen < MAX_NPARTS) {
        if (last->bytes != NULL)
            hull->next = (uint64_t)(last->bytes - hull->seen) + last->nbytes;
        return last->bytes != NULL;
    }
    hull->marker = references.marker;
    hull->nreferences = references.nreferences;
    for (int i = 0; all && i < MAX_NPARTS; i++) {
        const struct terp_chunk of_part = terp_references_chunk(
            chunk, (enum terp_references_part)i, references.nreferences);
        take_part(hull, &of_part, &references.part[i]);
    }
    return all;
}

/* What the host knows of a stream of which it has seen so many parts' heads. */
static bool
read_hull(const struct job *job, int nseen, struct hull *hull)
{
    const struct terp_chunk *chunk = job->call->chunk;
    struct terp_frame frame;
    int frame_nbytes;

    if (terp_frame_read(hull->seen, hull->nbytes, &frame, &frame_nbytes) !=
            TERP_OK ||
        frame.coding != job->coding ||
        !terp_chunks_are_alike(&frame.chunk, chunk) ||
        (nseen == 1 && !may_be_sealed(job, hull)))
        return false;
    const uint8_t *body = hull->seen + frame_nbytes;
    const uint64_t nbytes = hull->nbytes - (uint64_t)frame_nbytes;
    return job->coding == TERP_CODING_COPIES
               ? read_copies(chunk, body, nbytes, hull)
               : read_references(chunk, body, nbytes, nseen, hull);
}

/* Has the streams of the job's coding that make sense. */
static enum terp_status
find_hulls(struct job *job)
{
    const int nheads = job->coding == TERP_CODING_COPIES ? 1 : MAX_NPARTS;
    enum terp_status st = list_left(job);

    for (int nseen = 1; st == TERP_OK && nseen <= nheads && job->n > 0;
         nseen++) {
        st = look(job);
        for (uint64_t i = 0; st == TERP_OK && i < job->n; i++)
            job->hulls[i].is_good =
                job->hulls[i].is_good && read_hull(job, nseen, &job->hulls[i]);
    }
    return st;
}

/* ---- the memory of a portion ---- */

static uint64_t
stream_nbytes_of(const struct part *part)
{
    return part->frame_nbytes + part->of.nbytes - TERP_PART_NKEPT;
}

static bool
is_coarse(const struct job *job)
{
    return job->call->step > 1;
}

/* Whether values are followed in memory of the portion, to be spread. */
static bool
has_whole(const struct job *job)
{
    return job->coding == TERP_CODING_REFERENCES && is_coarse(job);
}

/* Places of what a stream needs, from *at on. */
static void
place_hull(const struct job *job, struct hull *hull, uint64_t *at)
{
    const struct terp_chunk *chunk = job->call->chunk;
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const uint64_t nvalues = nbytes / (uint64_t)terp_value_nbytes(chunk->type);

    for (int p = 0; p < hull->nparts; p++) {
        struct part *part = &hull->part[p];
        part->stream_at = place_take(at, stream_nbytes_of(part));
        part->values_at = place_take(at, terp_chunk_nbytes(&part->chunk));
    }
    if (job->coding == TERP_CODING_REFERENCES)
        hull->ranks_at =
            place_take(at, 8 * div_up(nvalues, CUDA_FOLLOW_NVALUES));
    hull->whole_at = place_take(at, has_whole(job) ? nbytes : 0);
    hull->out_at = place_take(at, is_on_host(job) ? nbytes : 0);
}

/* As many streams from `first` on as a portion holds, copies along the same
 * dimensions; those that are good come first. Returns how many were looked at.
 */
static uint64_t
make_portion(const struct job *job, uint64_t first, struct portion *portion)
{
    struct hull *hulls = job->hulls + first;
    uint64_t i = 0, at = 0;

    *portion = {};
    portion->job = job;
    portion->hulls = hulls;
    portion->sealed_at =
        place_take(&at, PORTION_MAX_NSTREAMS * sizeof(struct cuda_sealed));
    portion->spread_at =
        place_take(&at, PORTION_MAX_NSTREAMS * sizeof(struct cuda_spread));
    portion->follow_at =
        place_take(&at, PORTION_MAX_NSTREAMS * sizeof(struct cuda_follow));
    for (; first + i < job->n && portion->n < PORTION_MAX_NSTREAMS; i++) {
        if (!hulls[i].is_good)
            continue;
        uint64_t end = at;
        place_hull(job, &hulls[i], &end);
        if (portion->n > 0 &&
            (end > PORTION_NBYTES || hulls[i].dims != hulls[0].dims))
            break;
        at = end;
        const struct hull hull = hulls[i];
        hulls[i] = hulls[portion->n];
        hulls[portion->n++] = hull;
    }
    portion->nbytes = at;
    return i;
}

/* ---- parts ---- */

/* Streams of parts, which begin with frames of their own, to the portion's
 * memory; and whether the whole streams have their checksums. */
static cudaError_t
fetch_parts(const struct portion *portion, struct cuda_sealed *sealed,
            cudaStream_t stream)
{
    const uint64_t nbytes = portion->n * sizeof *sealed;
    struct cuda_sealed *d_sealed =
        (struct cuda_sealed *)(portion->memory + portion->sealed_at);
    cudaError_t error = cudaSuccess;

    if (!is_on_host(portion->job) && !portion->job->call->is_part) {
        error = cudaMemcpyAsync(d_sealed, sealed, nbytes,
                                cudaMemcpyHostToDevice, stream);
        if (error == cudaSuccess)
            error = cuda_streams_verify(d_sealed, portion->n, stream);
        if (error == cudaSuccess)
            error = cudaMemcpyAsync(sealed, d_sealed, nbytes,
                                    cudaMemcpyDeviceToHost, stream);
    }
    for (uint64_t i = 0; i < portion->n; i++) {
        const struct hull *hull = &portion->hulls[i];
        for (int p = 0; error == cudaSuccess && p < hull->nparts; p++) {
            const struct part *part = &hull->part[p];
            uint8_t *to = portion->memory + part->stream_at;
            error = cudaMemcpyAsync(to, part->frame, part->frame_nbytes,
                                    cudaMemcpyHostToDevice, stream);
            if (error == cudaSuccess)
                error = cudaMemcpyAsync(
                    to + part->frame_nbytes,
                    hull->src + (part->of.bytes - hull->seen) + TERP_PART_NKEPT,
                    part->of.nbytes - TERP_PART_NKEPT, cudaMemcpyDefault,
                    stream);
        }
    }
    return error;
}

static enum terp_status
fetch_portion(const struct portion *portion)
{
    const struct job *job = portion->job;
    struct cuda_sealed *sealed =
        new (std::nothrow) struct cuda_sealed[portion->n]();

    if (sealed == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t i = 0; i < portion->n; i++) {
        sealed[i].stream = (uint8_t *)portion->hulls[i].src;
        sealed[i].nbytes = portion->hulls[i].nbytes;
    }
    const enum terp_status st = cuda_slot_do(
        job->device, job->where, "fetching parts", [=](cudaStream_t stream) {
            return fetch_parts(portion, sealed, stream);
        });
    for (uint64_t i = 0; st == TERP_OK && i < portion->n; i++)
        portion->hulls[i].is_good = !sealed[i].is_bad;
    delete[] sealed;
    return st;
}

/* Decodes part number p of streams [first, first + n), whose chunks are alike.
 */
static enum terp_status
decode_alike(const struct portion *portion, int p, uint64_t first, uint64_t n)
{
    const void **src = new (std::nothrow) const void *[n];
    void **dst = new (std::nothrow) void *[n];
    uint64_t *nbytes = new (std::nothrow) uint64_t[n];
    enum terp_status *status = new (std::nothrow) enum terp_status[n];
    enum terp_status st = TERP_ERR_MEMORY;

    if (src != NULL && dst != NULL && nbytes != NULL && status != NULL) {
        struct cuda_call call = {};
        for (uint64_t i = 0; i < n; i++) {
            const struct part *part = &portion->hulls[first + i].part[p];
            src[i] = portion->memory + part->stream_at;
            dst[i] = portion->memory + part->values_at;
            nbytes[i] = stream_nbytes_of(part);
            status[i] = TERP_ERR_DEVICE;
        }
        call.chunk = &portion->hulls[first].part[p].chunk;
        call.is_part = true;
        call.nchunks = n;
        call.src = src;
        call.src_nbytes = nbytes;
        call.dst = dst;
        call.status = status;
        st = portion->job->decode(portion->job->device, &on_device, &call);
        for (uint64_t i = 0; st == TERP_OK && i < n; i++)
            portion->hulls[first + i].part[p].status = status[i];
    }
    delete[] src;
    delete[] dst;
    delete[] nbytes;
    delete[] status;
    return st;
}

/* Decodes all parts: those of one chunk together. */
static enum terp_status
decode_parts(const struct portion *portion)
{
    struct hull *hulls = portion->hulls;
    enum terp_status st = TERP_OK;

    for (int p = 0; p < hulls[0].nparts; p++)
        for (uint64_t i = 0, n; st == TERP_OK && i < portion->n; i += n) {
            for (n = 1; i + n < portion->n &&
                        terp_chunks_are_alike(&hulls[i].part[p].chunk,
                                              &hulls[i + n].part[p].chunk);)
                n++;
            st = decode_alike(portion, p, i, n);
        }
    for (uint64_t i = 0; st == TERP_OK && i < portion->n; i++)
        for (int p = 0; p < hulls[i].nparts; p++)
            hulls[i].is_good &= hulls[i].part[p].status == TERP_OK;
    return st;
}

/* ---- values ---- */

static void *
values_of_part(const struct portion *portion, const struct hull *hull, int p)
{
    return portion->memory + hull->part[p].values_at;
}

/* Where the values go that are wanted. */
static void *
out_of(const struct portion *portion, const struct hull *hull)
{
    return is_on_host(portion->job) ? portion->memory + hull->out_at
                                    : portion->job->call->dst[hull->at];
}

static cudaError_t
follow(const struct portion *portion, struct cuda_follow *follows,
       cudaStream_t stream)
{
    const struct terp_chunk *chunk = portion->job->call->chunk;
    const int value_nbytes = terp_value_nbytes(chunk->type);
    const struct cuda_follow_kind kind = {
        terp_chunk_nbytes(chunk) / (uint64_t)value_nbytes, value_nbytes,
        !terp_type_is_integer(chunk->type), chunk->big_endian};
    const uint64_t nbytes = portion->n * sizeof *follows;
    struct cuda_follow *d_follows =
        (struct cuda_follow *)(portion->memory + portion->follow_at);

    for (uint64_t i = 0; i < portion->n; i++) {
        const struct hull *hull = &portion->hulls[i];
        follows[i] = {
            values_of_part(portion, hull, TERP_REFERENCES_VALUES),
            (const uint32_t *)values_of_part(portion, hull, DISTANCES),
            (const uint64_t *)values_of_part(portion, hull, DIFFERENCES),
            has_whole(portion->job) ? portion->memory + hull->whole_at
                                    : out_of(portion, hull),
            hull->marker,
            hull->nreferences,
            (uint64_t *)(portion->memory + hull->ranks_at),
            !hull->is_good};
    }
    cudaError_t error = cudaMemcpyAsync(d_follows, follows, nbytes,
                                        cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess)
        error = cuda_references_follow(d_follows, portion->n, &kind, stream);
    return error == cudaSuccess
               ? cudaMemcpyAsync(follows, d_follows, nbytes,
                                 cudaMemcpyDeviceToHost, stream)
               : error;
}

/* Of a chunk without some dimensions, every step-th value. */
static struct cuda_spread_shape
spread_shape(const struct terp_chunk *chunk, unsigned dims, uint64_t step)
{
    struct cuda_spread_shape shape = {
        terp_value_nbytes(chunk->type), {1, 1, 1, 1}, {0, 0, 0, 0}};
    uint64_t stride = step;

    static_assert(TERP_MAX_RANK == 4, "No other dims are set.");
    for (int d = 0; d < chunk->rank; d++) {
        const uint64_t extent = terp_extent_of(chunk, d);
        shape.dims[d] = div_up(extent, step);
        if (dims >> d & 1)
            continue;
        shape.stride[d] = stride;
        stride *= extent;
    }
    return shape;
}

static cudaError_t
spread(const struct portion *portion, struct cuda_spread *spreads,
       cudaStream_t stream)
{
    const struct job *job = portion->job;
    const struct cuda_spread_shape shape =
        spread_shape(job->call->chunk, portion->hulls[0].dims,
                     is_coarse(job) ? job->call->step : 1);
    struct cuda_spread *d_spreads =
        (struct cuda_spread *)(portion->memory + portion->spread_at);

    for (uint64_t i = 0; i < portion->n; i++) {
        const struct hull *hull = &portion->hulls[i];
        spreads[i] = {has_whole(job) ? portion->memory + hull->whole_at
                                     : values_of_part(portion, hull, 0),
                      out_of(portion, hull)};
    }
    const cudaError_t error =
        cudaMemcpyAsync(d_spreads, spreads, portion->n * sizeof *spreads,
                        cudaMemcpyHostToDevice, stream);
    return error == cudaSuccess
               ? cuda_copies_spread(d_spreads, portion->n, &shape, stream)
               : error;
}

/* Values to the host, of streams that are good so far. */
static cudaError_t
download(const struct portion *portion, cudaStream_t stream)
{
    const struct cuda_call *call = portion->job->call;
    const struct terp_chunk wanted = terp_coarse_chunk_of(
        call->chunk, is_coarse(portion->job) ? call->step : 1);
    cudaError_t error = cudaSuccess;

    for (uint64_t i = 0; error == cudaSuccess && i < portion->n; i++)
        if (portion->hulls[i].is_good)
            error = cudaMemcpyAsync(call->dst[portion->hulls[i].at],
                                    out_of(portion, &portion->hulls[i]),
                                    terp_chunk_nbytes(&wanted),
                                    cudaMemcpyDeviceToHost, stream);
    return error;
}

/* Puts the portion's values together. */
static enum terp_status
put_back(const struct portion *portion)
{
    const struct job *job = portion->job;
    struct cuda_follow *follows =
        new (std::nothrow) struct cuda_follow[portion->n]();
    struct cuda_spread *spreads =
        new (std::nothrow) struct cuda_spread[portion->n];
    enum terp_status st = TERP_ERR_MEMORY;

    if (follows != NULL && spreads != NULL)
        st = cuda_slot_do(
            job->device, &on_device, "putting values back",
            [=](cudaStream_t stream) {
                const bool refers = job->coding == TERP_CODING_REFERENCES;
                cudaError_t error = cudaSuccess;
                if (refers)
                    error = follow(portion, follows, stream);
                if (error == cudaSuccess && (!refers || is_coarse(job)))
                    error = spread(portion, spreads, stream);
                return error == cudaSuccess && is_on_host(job)
                           ? download(portion, stream)
                           : error;
            });
    for (uint64_t i = 0; st == TERP_OK && i < portion->n; i++)
        if (portion->hulls[i].is_good && !follows[i].is_bad)
            job->call->status[portion->hulls[i].at] = TERP_OK;
    delete[] follows;
    delete[] spreads;
    return st;
}

/* ---- all ---- */

/* Without memory for it, what is left is the CPU's. */
static enum terp_status
decode_portion(struct portion *portion)
{
    struct terp_cuda_device *device = portion->job->device;
    struct cuda_block block;
    enum terp_status st = cuda_block_take(device, portion->nbytes, &block);

    if (st != TERP_OK)
        return st == TERP_ERR_MEMORY ? TERP_OK : st;
    portion->memory = block.at;
    st = fetch_portion(portion);
    if (st == TERP_OK)
        st = decode_parts(portion);
    if (st == TERP_OK)
        st = put_back(portion);
    cuda_block_give(device, block);
    return st;
}

static enum terp_status
decode_hulls(struct terp_cuda_device *device,
             const struct terp_cuda_call *where, const struct cuda_call *call,
             enum terp_coding coding, decode_function *decode)
{
    struct job job = {device, where, call, coding, decode, 0, NULL};
    enum terp_status st = find_hulls(&job);

    for (uint64_t i = 0; st == TERP_OK && i < job.n;) {
        struct portion portion;
        i += make_portion(&job, i, &portion);
        if (portion.n > 0)
            st = decode_portion(&portion);
    }
    free_hulls(&job);
    return st;
}

/* Where no streams are copies. */
static enum terp_status
decode_but_copies(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where, struct cuda_call *call)
{
    const enum terp_status st = cuda_decode(device, where, call);

    return st == TERP_OK ? decode_hulls(device, where, call,
                                        TERP_CODING_REFERENCES, cuda_decode)
                         : st;
}

enum terp_status
cuda_decode_all(struct terp_cuda_device *device,
                const struct terp_cuda_call *where, struct cuda_call *call)
{
    const enum terp_status st = decode_but_copies(device, where, call);

    return st == TERP_OK ? decode_hulls(device, where, call, TERP_CODING_COPIES,
                                        decode_but_copies)
                         : st;
}

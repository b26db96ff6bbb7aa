/* Functions of the engine's table that assemble, peek at, decode and verify
 * streams. */
#include <string.h>

#include "codec/format/frame.h"
#include "gpu/engine/decode.cuh"
#include "gpu/engine/pieces.cuh"
#include "gpu/engine/places.cuh"
#include "gpu/engine/session.cuh"
#include "gpu/sections/seal.cuh"
#include "gpu/speed/speed.cuh"

/* ---- assembling ---- */

/* Streams that are assembled on the device. Their lists follow each other in
 * one host buffer, which is copied to the device in one transfer: transfers,
 * pieces, streams to seal, and the bytes of pieces on the host. The members
 * `_at` are offsets in it. */
struct assembling {
    struct terp_session *session;
    const struct terp_assembly *assemblies;
    uint64_t n, npieces, host_nbytes, most_nbytes;
    uint64_t pieces_at, sealed_at, bytes_at, streams_at;
    /* distance of streams that are assembled in device memory and then copied
     * to the host; 0: none */
    uint64_t stream_stride;
    bool seals; /* false: the streams get no checksums */
    uint8_t *host, *device;
    struct cuda_transfer *transfers;
    struct cuda_piece *pieces;
    struct cuda_sealed *sealed;
};

/* Whether a piece is in host memory, which kernels cannot read: a frame, or the
 * caller's values in a stored chunk. */
static bool
is_on_host(const struct terp_session *session, const struct terp_piece *piece)
{
    return piece->is_on_host || cuda_session_is_host(session, piece->at);
}

static void
measure_lists(struct assembling *it)
{
    uint64_t at = 0;

    it->most_nbytes = 1;
    for (uint64_t k = 0; k < it->n; k++) {
        const struct terp_assembly *stream = &it->assemblies[k];
        it->npieces += (uint64_t)stream->npieces;
        if (stream->nbytes > it->most_nbytes)
            it->most_nbytes = stream->nbytes;
        for (int p = 0; p < stream->npieces; p++)
            if (is_on_host(it->session, &stream->pieces[p]))
                it->host_nbytes += stream->pieces[p].nbytes;
    }
    place_take(&at, it->n * sizeof *it->transfers);
    it->pieces_at = place_take(&at, it->npieces * sizeof *it->pieces);
    it->sealed_at = place_take(&at, it->n * sizeof *it->sealed);
    it->bytes_at = place_take(&at, it->host_nbytes);
    it->streams_at = at;
    if (cuda_session_is_host(it->session, it->assemblies[0].dst))
        it->stream_stride = place_aligned(it->most_nbytes);
}

static uint8_t *
stream_of(const struct assembling *it, uint64_t k)
{
    return it->stream_stride > 0
               ? it->device + it->streams_at + k * it->stream_stride
               : (uint8_t *)it->assemblies[k].dst;
}

static void
fill_lists(struct assembling *it)
{
    uint64_t next = 0, bytes_at = it->bytes_at;

    it->transfers = (struct cuda_transfer *)it->host;
    it->pieces = (struct cuda_piece *)(it->host + it->pieces_at);
    it->sealed = (struct cuda_sealed *)(it->host + it->sealed_at);
    for (uint64_t k = 0; k < it->n; k++) {
        const struct terp_assembly *stream = &it->assemblies[k];
        uint8_t *to = stream_of(it, k);
        it->transfers[k] = {next, (unsigned)stream->npieces};
        it->sealed[k] = {to, stream->nbytes, 0, 0, false};
        for (int p = 0; p < stream->npieces; p++) {
            const struct terp_piece *piece = &stream->pieces[p];
            const uint8_t *from = (const uint8_t *)piece->at;
            if (is_on_host(it->session, piece)) {
                memcpy(it->host + bytes_at, from, piece->nbytes);
                from = it->device + bytes_at;
                bytes_at += piece->nbytes;
            }
            it->pieces[next++] = {from, to, piece->nbytes};
            to += piece->nbytes;
        }
    }
}

static void
assemble_on_device(struct cuda_work &work, const struct assembling *it,
                   const cuda_session_list<uint8_t> &list)
{
    list.upload(work);
    work.add(cuda_pieces_copy, it->n, it->most_nbytes,
             (const struct cuda_transfer *)it->device,
             (const struct cuda_piece *)(it->device + it->pieces_at));
    if (it->seals)
        work.add(cuda_streams_seal,
                 (struct cuda_sealed *)(it->device + it->sealed_at), it->n);
    for (uint64_t k = 0; it->stream_stride > 0 && k < it->n; k++)
        work.copy(it->assemblies[k].dst, stream_of(it, k),
                  it->assemblies[k].nbytes);
}

/* Writes the checksums of short streams in device memory: the host computes
 * them. */
static enum terp_status
seal_short(const struct assembling *it)
{
    const cuda_host_array<uint8_t> heads(it->n * CUDA_SHORT_NBYTES);
    uint64_t nshort = 0;
    const auto is_short = [=](uint64_t k) {
        return it->assemblies[k].nbytes <= CUDA_SHORT_NBYTES;
    };

    if (heads == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; k < it->n; k++)
        nshort += is_short(k);
    if (nshort == 0)
        return TERP_OK;
    return cuda_session_do(
        it->session, "sealing streams", [&](cuda_work &work) {
            for (uint64_t k = 0; k < it->n; k++)
                if (is_short(k))
                    work.copy(heads + k * CUDA_SHORT_NBYTES,
                              it->assemblies[k].dst, it->assemblies[k].nbytes);
            work.add(cudaStreamSynchronize);
            for (uint64_t k = 0; k < it->n && work.error == cudaSuccess; k++) {
                uint8_t *head = heads + k * CUDA_SHORT_NBYTES;
                if (!is_short(k))
                    continue;
                terp_frame_seal(head, it->assemblies[k].nbytes);
                work.copy((uint8_t *)it->assemblies[k].dst +
                              TERP_FRAME_CHECKSUM_AT,
                          head + TERP_FRAME_CHECKSUM_AT, 8);
            }
        });
}

static enum terp_status
assemble(struct terp_session *session, uint64_t n,
         const struct terp_assembly *assemblies, bool seals)
{
    struct assembling it = {};

    it.seals = seals;
    it.session = session;
    it.assemblies = assemblies;
    it.n = n;
    measure_lists(&it);
    const cuda_session_list<uint8_t> list(session, it.streams_at,
                                          n * it.stream_stride);
    if (!list.is_made())
        return TERP_ERR_MEMORY;
    it.host = list.items;
    it.device = list.on_device();
    fill_lists(&it);
    const enum terp_status st = cuda_session_start_or_do(
        session, it.stream_stride == 0, "putting streams together",
        [&](cuda_work &work) { assemble_on_device(work, &it, list); });
    if (st != TERP_OK || !seals)
        return st;
    if (it.stream_stride == 0)
        return seal_short(&it);
    for (uint64_t k = 0; k < n; k++)
        if (assemblies[k].nbytes <= CUDA_SHORT_NBYTES)
            terp_frame_seal((uint8_t *)assemblies[k].dst, assemblies[k].nbytes);
    return TERP_OK;
}

/* Whether all pieces of a stream and its destination are in host memory: a
 * stored chunk. */
static bool
is_all_on_host(const struct terp_session *session,
               const struct terp_assembly *stream)
{
    bool is_all = cuda_session_is_host(session, stream->dst);

    for (int p = 0; p < stream->npieces; p++)
        is_all = is_all && is_on_host(session, &stream->pieces[p]);
    return is_all;
}

static void
assemble_on_host(const struct terp_assembly *stream)
{
    uint8_t *to = (uint8_t *)stream->dst;

    for (int p = 0; p < stream->npieces; p++) {
        memcpy(to, stream->pieces[p].at, stream->pieces[p].nbytes);
        to += stream->pieces[p].nbytes;
    }
    terp_frame_seal((uint8_t *)stream->dst, stream->nbytes);
}

/* All streams of a call come from one kind of memory and go to one kind. */
enum terp_status
cuda_streams_assemble(struct terp_session *session, uint64_t n,
                      const struct terp_assembly *assemblies)
{
    if (is_all_on_host(session, &assemblies[0])) {
        for (uint64_t k = 0; k < n; k++)
            assemble_on_host(&assemblies[k]);
        return TERP_OK;
    }
    return cuda_session_portions(n, [=](uint64_t first, uint64_t nstreams) {
        return assemble(session, nstreams, assemblies + first, true);
    });
}

/* ---- reading ---- */

/* Gathers the wanted bytes in one block of device memory, then copies the block
 * to the host. */
enum terp_status
cuda_streams_peek(struct terp_session *session, uint64_t n,
                  const void *const *at, const uint64_t *nbytes,
                  uint8_t *buffer, const uint8_t **seen_ret)
{
    const bool is_host = cuda_session_is_host(session, at[0]);

    for (uint64_t k = 0; k < n; k++)
        seen_ret[k] =
            is_host ? (const uint8_t *)at[k] : buffer + k * TERP_PEEK_NBYTES;
    if (is_host)
        return TERP_OK;
    return cuda_session_portions(n, [=](uint64_t first, uint64_t nstreams) {
        const uint64_t seen_nbytes = nstreams * TERP_PEEK_NBYTES;
        const cuda_session_list<struct cuda_piece> list(session, nstreams,
                                                        seen_nbytes);
        if (!list.is_made())
            return TERP_ERR_MEMORY;
        for (uint64_t k = 0; k < nstreams; k++)
            list.items[k] = {(const uint8_t *)at[first + k],
                             list.more() + k * TERP_PEEK_NBYTES,
                             nbytes[first + k]};
        return cuda_session_do(
            session, "reading the heads of streams", [&](cuda_work &work) {
                list.upload(work);
                work.add(cuda_pieces_copy, nstreams, TERP_PEEK_NBYTES,
                         (const struct cuda_transfer *)NULL, list.on_device());
                work.copy(buffer + first * TERP_PEEK_NBYTES, list.more(),
                          seen_nbytes);
            });
    });
}

/* ---- decoding ---- */

/* Streams to decode, each complete in device memory. Inner streams have no
 * complete frame, so each gets one there. */
struct decoding {
    struct terp_session *session;
    uint64_t step, n;
    const struct terp_open_stream *streams;
    cuda_host_array<const void *> src;
    cuda_host_array<uint64_t> nbytes;
    /* of inner streams: the frame and the body of each */
    cuda_host_array<struct terp_piece> pieces;
    cuda_host_array<struct terp_assembly> assemblies;
    cuda_host_array<uint8_t[TERP_FRAME_MAX_NBYTES]> frames;
};

/* Writes the frames of inner streams and lists frames and bodies as pieces.
 * Returns the bytes of all streams, each aligned. */
static uint64_t
list_parts(struct decoding *it)
{
    uint64_t at = 0;

    for (uint64_t k = 0; k < it->n; k++) {
        const struct terp_open_stream *part = &it->streams[k];
        struct terp_frame frame = part->frame;
        /* a plain stream has the first version, but for coding SPEED */
        frame.version =
            frame.coding == TERP_CODING_SPEED ? TERP_FORMAT_VERSION : 0;
        const uint64_t frame_nbytes =
            (uint64_t)terp_frame_write(&frame, it->frames[k]);
        it->pieces[2 * k] = {it->frames[k], frame_nbytes, true};
        it->pieces[2 * k + 1] = {part->body, part->body_nbytes,
                                 cuda_session_is_host(it->session, part->body)};
        it->nbytes[k] = frame_nbytes + part->body_nbytes;
        at += place_aligned(it->nbytes[k]);
    }
    return at;
}

static enum terp_status
make_parts(struct decoding *it, uint8_t *memory)
{
    for (uint64_t k = 0; k < it->n; k++) {
        it->assemblies[k] = {2, &it->pieces[2 * k], memory, it->nbytes[k]};
        it->src[k] = memory;
        memory += place_aligned(it->nbytes[k]);
    }
    return cuda_session_portions(it->n, [=](uint64_t first, uint64_t nstreams) {
        return assemble(it->session, nstreams, it->assemblies + first, false);
    });
}

/* Decodes the listed streams. With `is_part` checksums are not verified, and
 * streams with a table of prefixes are refused. Inner streams have neither a
 * checksum nor such a table; other streams have been verified already. */
static enum terp_status
decode_listed(const struct decoding *it, bool is_part, void *const *dst,
              enum terp_status *status_ret)
{
    struct cuda_call call = {};
    bool has_speed = false;

    for (uint64_t k = 0; k < it->n; k++)
        status_ret[k] = TERP_ERR_DEVICE;
    for (uint64_t k = 0; k < it->n; k++)
        has_speed |= it->streams[k].frame.coding == TERP_CODING_SPEED;
    if (has_speed) /* others beside them are left */
        return it->step > 1
                   ? TERP_OK
                   : cuda_speed_decode(it->session, &it->streams[0].frame.chunk,
                                       is_part, it->n, it->src, it->nbytes, dst,
                                       status_ret, &has_speed);
    call.chunk = &it->streams[0].frame.chunk;
    call.is_part = is_part;
    call.nchunks = it->n;
    call.src = it->src;
    call.src_nbytes = it->nbytes;
    call.dst = dst;
    call.status = status_ret;
    call.step = it->step > 1 ? it->step : 0;
    return cuda_decode(it->session, &call);
}

/* Either all streams are inner streams, or none is. */
enum terp_status
cuda_streams_decode(struct terp_session *session, uint64_t step, uint64_t n,
                    const struct terp_open_stream *streams, void *const *dst,
                    enum terp_status *status_ret)
{
    struct decoding it = {session,
                          step,
                          n,
                          streams,
                          cuda_host_array<const void *>(n),
                          cuda_host_array<uint64_t>(n),
                          cuda_host_array<struct terp_piece>(2 * n),
                          cuda_host_array<struct terp_assembly>(n),
                          cuda_host_array<uint8_t[TERP_FRAME_MAX_NBYTES]>(n)};
    bool has_prefixes = false;

    if (it.src == NULL || it.nbytes == NULL || it.pieces == NULL ||
        it.assemblies == NULL || it.frames == NULL)
        return TERP_ERR_MEMORY;
    if (streams[0].whole == NULL) {
        const cuda_session_memory memory(session, list_parts(&it));
        const enum terp_status st =
            memory.at == NULL ? TERP_ERR_MEMORY : make_parts(&it, memory.at);
        return st == TERP_OK ? decode_listed(&it, true, dst, status_ret) : st;
    }
    for (uint64_t k = 0; k < n; k++) {
        it.src[k] = streams[k].whole;
        it.nbytes[k] = (uint64_t)(streams[k].body - streams[k].whole) +
                       streams[k].body_nbytes;
        has_prefixes |= streams[k].frame.has_prefixes;
    }
    return decode_listed(&it, !has_prefixes, dst, status_ret);
}

/* Streams of coding SPEED first, and then others. */
static enum terp_status
decode_speed_first(struct terp_session *session, struct cuda_call *call)
{
    struct cuda_part rest(*call);
    bool any;
    enum terp_status st =
        cuda_speed_decode(session, call->chunk, false, call->nchunks, call->src,
                          call->src_nbytes, call->dst, call->status, &any);

    session->device->last_had_speed = any;
    if (st != TERP_OK)
        return st;
    if (!rest.is_made())
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; k < call->nchunks; k++)
        if (call->status[k] == TERP_ERR_DEVICE)
            rest.add(*call, k);
    st = rest.call.nchunks == 0 ? TERP_OK : cuda_decode(session, &rest.call);
    if (st == TERP_OK)
        rest.return_status(*call);
    return st;
}

/* Whether streams are taken for streams of coding SPEED first: what was seen
 * last, or, in host memory, what the first stream says. */
static bool
expects_speed(const struct terp_session *session, const struct cuda_call *call)
{
    const uint8_t *first = (const uint8_t *)call->src[0];

    return cuda_session_is_host(session, first)
               ? call->src_nbytes[0] > TERP_FRAME_DIMS_AT &&
                     first[TERP_FRAME_CODING_AT] == TERP_CODING_SPEED
               : session->device->last_had_speed.load();
}

enum terp_status
cuda_streams_decode_whole(struct terp_session *session,
                          const struct terp_chunk *chunk, uint64_t step,
                          uint64_t n, const void *const *src,
                          const uint64_t *nbytes, void *const *dst,
                          enum terp_status *status_ret)
{
    struct cuda_call call = {};
    bool is_left = false, any;

    for (uint64_t k = 0; k < n; k++)
        status_ret[k] = TERP_ERR_DEVICE;
    call.chunk = chunk;
    call.nchunks = n;
    call.src = src;
    call.src_nbytes = nbytes;
    call.dst = dst;
    call.status = status_ret;
    call.step = step;
    call.src_on_host = call.dst_on_host =
        session->where->memory == TERP_MEMORY_HOST;
    if (step <= 1 && expects_speed(session, &call))
        return decode_speed_first(session, &call);
    enum terp_status st = cuda_decode(session, &call);
    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        is_left |= status_ret[k] == TERP_ERR_DEVICE;
    if (st != TERP_OK || step > 1 || !is_left)
        return st;
    st = cuda_speed_decode(session, chunk, false, n, src, nbytes, dst,
                           status_ret, &any);
    session->device->last_had_speed = any;
    return st;
}

/* ---- checksums ---- */

enum terp_status
cuda_streams_verify_whole(struct terp_session *session, uint64_t n,
                          const void *const *streams, const uint64_t *nbytes,
                          enum terp_status *status_ret)
{
    const bool is_host = cuda_session_is_host(session, streams[0]);

    for (uint64_t k = 0; is_host && k < n; k++)
        status_ret[k] =
            terp_frame_verify((const uint8_t *)streams[k], nbytes[k]);
    if (is_host)
        return TERP_OK;
    const cuda_session_list<struct cuda_sealed> list(session, n);
    /* The host verifies short streams. */
    const cuda_host_array<uint8_t> buffer(n * CUDA_SHORT_NBYTES);

    if (!list.is_made() || buffer == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; k < n; k++)
        list.items[k] = {(uint8_t *)streams[k], nbytes[k], 0, 0, false};
    const enum terp_status st =
        cuda_session_do(session, "verifying streams", [&](cuda_work &work) {
            list.upload(work);
            work.add(cuda_streams_verify, list.on_device(), n);
            for (uint64_t k = 0; k < n; k++)
                if (nbytes[k] <= CUDA_SHORT_NBYTES)
                    work.copy(buffer + k * CUDA_SHORT_NBYTES, streams[k],
                              nbytes[k]);
            list.download(work);
        });
    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        status_ret[k] =
            nbytes[k] <= CUDA_SHORT_NBYTES
                ? terp_frame_verify(buffer + k * CUDA_SHORT_NBYTES, nbytes[k])
            : list.items[k].is_bad ? TERP_ERR_CHECKSUM
                                   : TERP_OK;
    return st;
}

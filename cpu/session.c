/* The CPU at work for one call: its threads, its memory, and what it copies. */
#include "cpu/engine.h"

#include <string.h>

#include "codec/format/types.h"
#include "codec/model/carrier.h"
#include "cpu/predict/carrier.h"
#include "cpu/predict/coarse.h"
#include "cpu/predict/predictor.h"

struct terp_session *
terp_cpu_open(const struct terp_cpu_call *call, uint64_t nvalues)
{
    return (struct terp_session *)terp_cpu_pool_make(
        (int)min_u64((uint64_t)call->nthreads,
                     nvalues / CPU_THREAD_MIN_NVALUES),
        call->allocator);
}

void
terp_cpu_close(struct terp_session *session)
{
    terp_cpu_pool_free(cpu_pool_of(session));
}

void *
terp_cpu_allocate(struct terp_session *session, uint64_t nbytes)
{
    return terp_cpu_memory_make(cpu_pool_of(session), nbytes);
}

void
terp_cpu_release(struct terp_session *session, void *at)
{
    terp_cpu_memory_free(cpu_pool_of(session), at);
}

enum terp_status
terp_cpu_copy(struct terp_session *session, void *dst, const void *src,
              uint64_t nbytes)
{
    (void)session;
    memcpy(dst, src, nbytes);
    return TERP_OK;
}

/* ---- values ---- */

static struct cpu_parts
parts_of(struct terp_session *session, const struct terp_chunk *chunk)
{
    const enum terp_type type = terp_type_of_part(chunk->type);

    return (struct cpu_parts){.pool = cpu_pool_of(session),
                              .type = type,
                              .nparts = terp_chunk_nbytes(chunk) /
                                        (uint64_t)terp_part_nbytes(type)};
}

static void
swap(const struct cpu_parts *parts, void *values)
{
    terp_swap_values(values, parts->nparts, terp_part_nbytes(parts->type));
}

enum terp_status
terp_cpu_split(struct terp_session *session, const struct terp_chunk *chunk,
               const void *src, void *parts)
{
    const struct cpu_parts of = parts_of(session, chunk);

    terp_cpu_parts_split(&of, src, parts);
    if (chunk->big_endian)
        swap(&of, parts);
    return TERP_OK;
}

enum terp_status
terp_cpu_join(struct terp_session *session, const struct terp_chunk *chunk,
              const void *parts, void *dst)
{
    const struct cpu_parts of = parts_of(session, chunk);

    terp_cpu_parts_join(&of, parts, dst);
    if (chunk->big_endian)
        swap(&of, dst);
    return TERP_OK;
}

enum terp_status
terp_cpu_gather(struct terp_session *session, const struct terp_coarse *coarse,
                int value_nbytes, const void *src, void *dst)
{
    (void)session;
    terp_cpu_coarse_values(coarse, value_nbytes, src, dst);
    return TERP_OK;
}

/* ---- streams ---- */

enum terp_status
terp_cpu_read_frame(struct terp_session *session, const void *stream,
                    uint64_t nbytes, struct terp_open_stream *stream_ret)
{
    int frame_nbytes;
    const enum terp_status st =
        terp_frame_read(stream, nbytes, &stream_ret->frame, &frame_nbytes);

    (void)session;
    if (st != TERP_OK)
        return st;
    stream_ret->body = (const uint8_t *)stream + frame_nbytes;
    stream_ret->body_nbytes = nbytes - (uint64_t)frame_nbytes;
    return TERP_OK;
}

enum terp_status
terp_cpu_append(struct terp_session *session, int npieces,
                const struct terp_piece *pieces, void *dst)
{
    uint8_t *to = dst;

    (void)session;
    for (int i = 0; i < npieces; i++) {
        memcpy(to, pieces[i].at, pieces[i].nbytes);
        to += pieces[i].nbytes;
    }
    return TERP_OK;
}

enum terp_status
terp_cpu_seal(struct terp_session *session, void *stream, uint64_t nbytes)
{
    (void)session;
    terp_frame_seal(stream, nbytes);
    return TERP_OK;
}

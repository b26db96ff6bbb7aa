/* The CPU engine's session: its threads, its memory and its copies. */
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
terp_cpu_copy(struct terp_session *session, uint64_t n, void *const *dst,
              const void *const *src, const uint64_t *nbytes)
{
    (void)session;
    for (uint64_t k = 0; k < n; k++)
        memcpy(dst[k], src[k], nbytes[k]);
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
               uint64_t n, const void *const *src, void *const *parts)
{
    const struct cpu_parts of = parts_of(session, chunk);

    for (uint64_t k = 0; k < n; k++) {
        terp_cpu_parts_split(&of, src[k], parts[k]);
        if (chunk->big_endian)
            swap(&of, parts[k]);
    }
    return TERP_OK;
}

enum terp_status
terp_cpu_join(struct terp_session *session, const struct terp_chunk *chunk,
              uint64_t n, const void *const *parts, void *const *dst)
{
    const struct cpu_parts of = parts_of(session, chunk);

    for (uint64_t k = 0; k < n; k++) {
        terp_cpu_parts_join(&of, parts[k], dst[k]);
        if (chunk->big_endian)
            swap(&of, dst[k]);
    }
    return TERP_OK;
}

enum terp_status
terp_cpu_gather(struct terp_session *session, const struct terp_coarse *coarse,
                int value_nbytes, uint64_t n, const void *const *src,
                void *const *dst)
{
    (void)session;
    for (uint64_t k = 0; k < n; k++)
        terp_cpu_coarse_values(coarse, value_nbytes, src[k], dst[k]);
    return TERP_OK;
}

/* ---- streams ---- */

enum terp_status
terp_cpu_peek(struct terp_session *session, uint64_t n, const void *const *at,
              const uint64_t *nbytes, uint8_t *buffer, const uint8_t **seen_ret)
{
    (void)session;
    (void)nbytes;
    (void)buffer;
    for (uint64_t k = 0; k < n; k++)
        seen_ret[k] = at[k];
    return TERP_OK;
}

enum terp_status
terp_cpu_assemble(struct terp_session *session, uint64_t n,
                  const struct terp_assembly *assemblies)
{
    (void)session;
    for (uint64_t k = 0; k < n; k++) {
        const struct terp_assembly *stream = &assemblies[k];
        uint8_t *to = stream->dst;
        for (int i = 0; i < stream->npieces; i++) {
            memcpy(to, stream->pieces[i].at, stream->pieces[i].nbytes);
            to += stream->pieces[i].nbytes;
        }
        terp_frame_seal(stream->dst, stream->nbytes);
    }
    return TERP_OK;
}

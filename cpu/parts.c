/* Codes the parts of complex values, and puts them together. */
#include "cpu/parts.h"

#include "codec/format/parts.h"
#include "codec/format/types.h"
#include "codec/model/carrier.h"
#include "codec/model/coarse.h"
#include "cpu/pipeline.h"
#include "cpu/predict/carrier.h"
#include "cpu/predict/predictor.h"

/* A chunk's parts. */
struct parts {
    struct cpu_pool *pool;
    struct terp_chunk chunk; /* of each */
    uint64_t nvalues, nbytes;
    uint8_t *values; /* of both, little-endian */
};

static struct cpu_parts
as_carried(const struct parts *parts)
{
    return (struct cpu_parts){.pool = parts->pool,
                              .type = parts->chunk.type,
                              .nparts = TERP_NPARTS * parts->nvalues};
}

/* With room for the values; to be freed in any case. */
static bool
make_parts(const struct terp_cpu_call *call, const struct terp_chunk *chunk,
           struct parts *parts)
{
    parts->chunk = terp_chunk_of_part(chunk);
    parts->nbytes = terp_chunk_nbytes(&parts->chunk);
    parts->nvalues =
        parts->nbytes / (uint64_t)terp_part_nbytes(parts->chunk.type);
    parts->pool = terp_cpu_pool_make(call->nthreads, call->allocator);
    parts->values =
        terp_cpu_memory_make(parts->pool, TERP_NPARTS * parts->nbytes);
    return parts->values != NULL;
}

static void
free_parts(struct parts *parts)
{
    terp_cpu_memory_free(parts->pool, parts->values);
    terp_cpu_pool_free(parts->pool);
}

/* Little-endian values become big-endian ones, and the other way round. */
static void
swap_parts(const struct parts *parts, bool big_endian, void *values)
{
    if (big_endian)
        terp_swap_values(values, TERP_NPARTS * parts->nvalues,
                         terp_part_nbytes(parts->chunk.type));
}

/* What a relative bound means for the parts' ranges. */
static double
bound_of_ranges(const struct parts *parts, const struct terp_params *params)
{
    double min[TERP_NPARTS], max[TERP_NPARTS];
    const struct cpu_stages *stages = cpu_stages_of(parts->chunk.type);

    swap_parts(parts, TERP_HOST_IS_BIG_ENDIAN, parts->values);
    for (uint64_t i = 0; i < TERP_NPARTS; i++) {
        struct cpu_fills fills = cpu_fills_of(stages, params);
        struct cpu_stats stats;
        terp_cpu_scan(stages, parts->pool, parts->values + i * parts->nbytes,
                      parts->nvalues, &fills, &stats);
        min[i] = stats.min;
        max[i] = stats.max;
    }
    swap_parts(parts, TERP_HOST_IS_BIG_ENDIAN, parts->values);
    return terp_bound_of_parts(params->bound, min, max);
}

/* The bound of values, and what it means for parts. Where no part has a range
 * a relative bound is none, and stays what it is. */
static double
find_bound(const struct parts *parts, const struct terp_params *params,
           struct terp_params *part_params)
{
    double bound = params->bound;

    *part_params = *params;
    if (params->bound_mode == TERP_BOUND_POINTWISE)
        return bound;
    if (params->bound_mode == TERP_BOUND_RELATIVE)
        bound = bound_of_ranges(parts, params);
    if (!is_bound(bound))
        return 0;
    part_params->bound_mode = TERP_BOUND_ABSOLUTE;
    part_params->bound = terp_part_bound_of(bound);
    return bound;
}

/* Adds part i, whose stream is made in `stream`. */
static enum terp_status
encode_part(const struct terp_cpu_call *call, const struct terp_params *params,
            const struct parts *parts, int i, uint8_t *stream,
            struct writer *writer)
{
    const struct terp_cpu_call own = {call->nthreads, call->allocator, true,
                                      NULL};
    const uint8_t *values = parts->values + (uint64_t)i * parts->nbytes;
    uint64_t nbytes;
    enum terp_status st =
        terp_cpu_encode(&own, params, &parts->chunk, values, stream, &nbytes);

    if (st == TERP_ERR_CAPACITY) {
        const struct terp_frame raw = {.chunk = parts->chunk,
                                       .coding = TERP_CODING_RAW};
        const int frame_nbytes = terp_frame_write(&raw, stream);
        memcpy(stream + frame_nbytes, values, parts->nbytes);
        nbytes = (uint64_t)frame_nbytes + parts->nbytes;
        st = TERP_OK;
    }
    if (st == TERP_OK)
        terp_parts_write(writer, &parts->chunk, stream, nbytes,
                         i == TERP_NPARTS - 1);
    return st;
}

/* No stream that is not smaller than a raw one. */
static enum terp_status
encode_parts(const struct terp_cpu_call *call, const struct terp_params *params,
             const struct terp_chunk *chunk, const struct parts *parts,
             uint8_t *dst, uint64_t *dst_nbytes_ret)
{
    const struct terp_frame frame = {.chunk = *chunk,
                                     .coding = TERP_CODING_PARTS};
    uint8_t *body = dst + terp_frame_write(&frame, dst);
    struct writer writer = {body, body + TERP_NPARTS * parts->nbytes - 1,
                            false};
    struct terp_params part_params;
    uint8_t *stream =
        terp_cpu_memory_make(parts->pool, terp_encode_bound(&parts->chunk));
    enum terp_status st = stream == NULL ? TERP_ERR_MEMORY : TERP_OK;

    terp_parts_write_bound(&writer, find_bound(parts, params, &part_params));
    for (int i = 0; st == TERP_OK && i < TERP_NPARTS; i++)
        st = encode_part(call, &part_params, parts, i, stream, &writer);
    terp_cpu_memory_free(parts->pool, stream);
    if (st == TERP_OK && writer.overflow)
        st = TERP_ERR_CAPACITY;
    if (st != TERP_OK)
        return st;
    *dst_nbytes_ret = (uint64_t)(writer.at - dst);
    terp_frame_seal(dst, *dst_nbytes_ret);
    return TERP_OK;
}

enum terp_status
terp_cpu_parts_encode(const struct terp_cpu_call *call,
                      const struct terp_params *params,
                      const struct terp_chunk *chunk, const void *src,
                      uint8_t *dst, uint64_t *dst_nbytes_ret)
{
    struct parts parts;
    enum terp_status st = TERP_ERR_MEMORY;

    if (make_parts(call, chunk, &parts)) {
        const struct cpu_parts carried = as_carried(&parts);
        terp_cpu_parts_split(&carried, src, parts.values);
        swap_parts(&parts, chunk->big_endian, parts.values);
        st = encode_parts(call, params, chunk, &parts, dst, dst_nbytes_ret);
    }
    free_parts(&parts);
    return st;
}

enum terp_status
terp_cpu_parts_decode(const struct terp_cpu_call *call,
                      const struct terp_chunk *chunk, const uint8_t *body,
                      uint64_t body_nbytes, uint64_t step, void *dst)
{
    const struct terp_chunk coarse = terp_coarse_chunk_of(chunk, step);
    struct terp_part part[TERP_NPARTS];
    struct parts parts;
    double bound;
    enum terp_status st =
        terp_parts_read(chunk, body, body_nbytes, &bound, part);

    if (st != TERP_OK)
        return st;
    if (!make_parts(call, &coarse, &parts))
        st = TERP_ERR_MEMORY;
    for (int i = 0; st == TERP_OK && i < TERP_NPARTS; i++)
        st = terp_cpu_decode(call, &part[i].frame, part[i].body,
                             part[i].body_nbytes, step,
                             parts.values + (uint64_t)i * parts.nbytes);
    if (st == TERP_OK) {
        const struct cpu_parts carried = as_carried(&parts);
        terp_cpu_parts_join(&carried, parts.values, dst);
        swap_parts(&parts, chunk->big_endian, dst);
    }
    free_parts(&parts);
    return st;
}

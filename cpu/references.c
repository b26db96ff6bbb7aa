/* Makes and follows references. A value that repeats an earlier one becomes a
 * marker, which is special for all that predicts; what it repeats, and how it
 * differs from that, are streams of integers. */
#include "cpu/references.h"

#include <string.h>

#include "codec/format/references.h"
#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "codec/model/carrier.h"
#include "codec/model/repeats.h"
#include "cpu/pipeline.h"
#include "cpu/references_find.h"

/* A chunk with room for what it is made of. */
struct job {
    const struct terp_cpu_call *call;
    const struct terp_chunk *chunk;
    struct cpu_pool *pool;
    uint64_t nvalues, nreferences;
    int value_nbytes;
    bool is_float;
    struct terp_reference_bound bound; /* encode; 0: all bits come back */
    uint64_t marker;
    uint8_t *values; /* little-endian */
    uint64_t *words; /* encode: of what refers, in the end its value's bits */
    uint8_t *usable;
    uint32_t *sources;
    uint8_t *distances, *differences; /* of references, little-endian */
};

static uint64_t
bits_at(const struct job *job, const uint8_t *values, uint64_t i)
{
    const uint8_t *at = values + i * (uint64_t)job->value_nbytes;

    return job->value_nbytes == 4   ? load_le(at, 4)
           : job->value_nbytes == 8 ? load_le(at, 8)
                                    : load_le(at, 2);
}

static uint64_t
value_at(const struct job *job, uint64_t i)
{
    return bits_at(job, job->values, i);
}

static void
put_value(const struct job *job, uint64_t i, uint64_t bits)
{
    store_le(job->values + i * (uint64_t)job->value_nbytes, bits,
             job->value_nbytes);
}

static uint64_t
word_of(const struct job *job, uint64_t bits)
{
    return terp_reference_word(job->is_float, job->value_nbytes, bits);
}

static uint64_t
value_of(const struct job *job, uint64_t source, uint64_t difference)
{
    return terp_reference_value(job->is_float, job->value_nbytes, source,
                                difference);
}

static void
free_job(struct job *job)
{
    terp_cpu_memory_free(job->pool, job->values);
    terp_cpu_memory_free(job->pool, job->words);
    terp_cpu_memory_free(job->pool, job->sources);
    terp_cpu_memory_free(job->pool, job->distances);
    terp_cpu_pool_free(job->pool);
}

static struct job
job_of(const struct terp_cpu_call *call, const struct terp_chunk *chunk)
{
    struct job job = {.call = call,
                      .chunk = chunk,
                      .value_nbytes = terp_value_nbytes(chunk->type),
                      .is_float = !terp_type_is_integer(chunk->type)};

    job.nvalues = terp_chunk_nbytes(chunk) / (uint64_t)job.value_nbytes;
    job.pool = terp_cpu_pool_make(call->nthreads, call->allocator);
    return job;
}

/* ---- encoding ---- */

static bool
make_values(struct job *job, const void *src)
{
    const uint64_t nbytes = job->nvalues * (uint64_t)job->value_nbytes;

    job->values = terp_cpu_memory_make(job->pool, nbytes);
    job->words = terp_cpu_memory_make(job->pool, job->nvalues * 9);
    job->sources = terp_cpu_memory_make(job->pool, job->nvalues * 4);
    if (job->values == NULL || job->words == NULL || job->sources == NULL)
        return false;
    job->usable = (uint8_t *)(job->words + job->nvalues);
    memcpy(job->values, src, nbytes);
    if (job->chunk->big_endian)
        terp_swap_values(job->values, job->nvalues, job->value_nbytes);
    return true;
}

/* Integers and fill values, to which others are not alike. */
static bool
is_fill(const struct job *job, const struct terp_params *params, uint64_t bits)
{
    const uint64_t ones = UINT64_MAX >> (64 - 8 * job->value_nbytes);

    return (params->has_fill && bits == (params->fill_bits & ones)) ||
           (params->has_missing && bits == (params->missing_bits & ones));
}

/* Words that are compared. Zeros, what is not finite, and what equals its
 * neighbour, cost little as it is. */
static void
find_words(const struct job *job, const struct terp_params *params)
{
    const uint64_t infinity = terp_references_infinity(job->chunk->type);

    for (uint64_t i = 0; i < job->nvalues; i++) {
        const uint64_t bits = value_at(job, i);
        const uint64_t word = word_of(job, bits);
        job->words[i] = word;
        job->usable[i] = word != 0 && !is_fill(job, params, bits) &&
                         (!job->is_float || word < infinity) &&
                         (i == 0 || job->words[i - 1] != word);
    }
}

/* How near values have to be; -1: all bits come back. */
static int
near_nbits_of(const struct job *job)
{
    double most = 0;

    if (job->bound.bound == 0)
        return -1;
    if (job->bound.of_each)
        return terp_repeats_near_nbits_of_each(job->bound.bound,
                                               job->value_nbytes);
    for (uint64_t i = 0; i < job->nvalues; i++)
        if (job->usable[i]) {
            const double magnitude =
                terp_reference_float(job->chunk->type, job->words[i]);
            most = magnitude > most ? magnitude : most;
        }
    return terp_repeats_near_nbits(job->bound.bound, -most, most,
                                   job->value_nbytes);
}

/* A NaN, or an integer, that no value is: of as many integers as there are
 * values one is missing, unless all values differ. */
static bool
find_marker(struct job *job)
{
    uint8_t *is_there = job->usable;

    if (job->is_float) {
        job->marker = terp_references_marker_of_floats(job->value_nbytes);
        for (uint64_t i = 0; i < job->nvalues; i++)
            if (value_at(job, i) == job->marker)
                return false;
        return true;
    }
    memset(is_there, 0, job->nvalues);
    for (uint64_t i = 0; i < job->nvalues; i++)
        if (value_at(job, i) < job->nvalues)
            is_there[value_at(job, i)] = 1;
    const uint8_t *missing = memchr(is_there, 0, job->nvalues);
    if (missing == NULL)
        return false;
    job->marker = (uint64_t)(missing - is_there);
    return job->marker <= UINT64_MAX >> (64 - 8 * job->value_nbytes);
}

/* Puts markers and lists distances. */
static bool
make_references(struct job *job)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < job->nvalues; i++)
        n += job->sources[i] != TERP_NO_SOURCE;
    job->nreferences = n;
    job->distances = terp_cpu_memory_make(job->pool, 12 * n);
    if (job->distances == NULL)
        return false;
    job->differences = job->distances + 4 * n;
    n = 0;
    for (uint64_t i = 0; i < job->nvalues; i++) {
        const uint32_t source = job->sources[i];
        if (source == TERP_NO_SOURCE)
            continue;
        store_le(job->distances + 4 * n, i - source, 4);
        job->words[i] = value_at(job, i);
        put_value(job, i, job->marker);
        n++;
    }
    return true;
}

/* `decoded`: values as a decoder has them. */
static void
list_differences(const struct job *job, const uint8_t *decoded)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < job->nvalues; i++)
        if (job->sources[i] != TERP_NO_SOURCE)
            store_le(job->differences + 8 * n++,
                     terp_reference_difference_within(
                         job->chunk->type, job->bound, job->words[i],
                         bits_at(job, decoded, job->sources[i])),
                     8);
}

struct part_stream {
    uint8_t *bytes;
    uint64_t nbytes;
};

/* Stored, if it is not the values, where it does not become smaller. */
static enum terp_status
encode_part(const struct job *job, const struct terp_params *params,
            enum terp_references_part part, struct part_stream *stream_ret)
{
    const struct terp_chunk chunk =
        terp_references_chunk(job->chunk, part, job->nreferences);
    const struct terp_params own = terp_references_params(
        params, job->is_float, job->bound, job->marker, part);
    const uint8_t *const values[] = {job->distances, job->differences,
                                     job->values};
    const struct terp_cpu_call call = {
        job->call->nthreads, job->call->allocator, true,
        part == TERP_REFERENCES_VALUES ? job->call->limits : NULL};
    uint8_t *room = terp_cpu_memory_make(job->pool, terp_encode_bound(&chunk));
    uint64_t nbytes = 0;

    if (room == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st = terp_cpu_encode_plainly(&call, &own, &chunk,
                                                  values[part], room, &nbytes);
    if (st == TERP_ERR_CAPACITY && part != TERP_REFERENCES_VALUES) {
        const struct terp_frame raw = {.chunk = chunk,
                                       .coding = TERP_CODING_RAW};
        const int frame_nbytes = terp_frame_write(&raw, room);
        nbytes = terp_chunk_nbytes(&chunk) + (uint64_t)frame_nbytes;
        memcpy(room + frame_nbytes, values[part], terp_chunk_nbytes(&chunk));
        st = TERP_OK;
    }
    if (st == TERP_OK) {
        *stream_ret = (struct part_stream){
            terp_cpu_memory_make(job->pool, nbytes), nbytes};
        st = stream_ret->bytes == NULL ? TERP_ERR_MEMORY : TERP_OK;
    }
    if (st == TERP_OK)
        memcpy(stream_ret->bytes, room, nbytes);
    terp_cpu_memory_free(job->pool, room);
    return st;
}

/* Differences are taken to what a decoder will have. */
static enum terp_status
tell_differences(const struct job *job, const struct part_stream *stream)
{
    struct terp_frame frame;
    int nbytes;

    if (job->bound.bound == 0) {
        list_differences(job, job->values);
        return TERP_OK;
    }
    uint8_t *decoded = terp_cpu_memory_make(
        job->pool, job->nvalues * (uint64_t)job->value_nbytes);
    if (decoded == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st =
        terp_frame_read(stream->bytes, stream->nbytes, &frame, &nbytes);
    if (st == TERP_OK)
        st = terp_cpu_decode(job->call, &frame, stream->bytes + nbytes,
                             stream->nbytes - (uint64_t)nbytes, 1, decoded);
    if (st == TERP_OK)
        list_differences(job, decoded);
    terp_cpu_memory_free(job->pool, decoded);
    return st;
}

/* Keeps the stream if it is shorter. */
static enum terp_status
write_streams(const struct job *job, const struct part_stream *streams,
              uint8_t *dst, uint64_t *nbytes_ret)
{
    const struct terp_frame frame = {.chunk = *job->chunk,
                                     .coding = TERP_CODING_REFERENCES};
    uint8_t *other =
        terp_cpu_memory_make(job->pool, terp_encode_bound(job->chunk));

    if (other == NULL)
        return TERP_ERR_MEMORY;
    uint8_t *body = other + terp_frame_write(&frame, other);
    struct writer writer = {body, other + *nbytes_ret - 1, false};
    write_le(&writer, job->marker, job->value_nbytes);
    write_uleb(&writer, job->nreferences);
    for (int i = 0; i < TERP_REFERENCES_NPARTS; i++) {
        const enum terp_references_part part = (enum terp_references_part)i;
        const struct terp_chunk chunk =
            terp_references_chunk(job->chunk, part, job->nreferences);
        terp_parts_write(&writer, &chunk, streams[i].bytes, streams[i].nbytes,
                         part == TERP_REFERENCES_VALUES);
    }
    if (!writer.overflow) {
        *nbytes_ret = (uint64_t)(writer.at - other);
        memcpy(dst, other, *nbytes_ret);
        terp_frame_seal(dst, *nbytes_ret);
    }
    terp_cpu_memory_free(job->pool, other);
    return TERP_OK;
}

static enum terp_status
encode_references(const struct job *job, const struct terp_params *params,
                  uint8_t *dst, uint64_t *nbytes_ret)
{
    struct part_stream streams[TERP_REFERENCES_NPARTS] = {{0}};
    enum terp_status st = encode_part(job, params, TERP_REFERENCES_VALUES,
                                      &streams[TERP_REFERENCES_VALUES]);

    if (st == TERP_OK)
        st = tell_differences(job, &streams[TERP_REFERENCES_VALUES]);
    for (int i = 0; st == TERP_OK && i < TERP_REFERENCES_VALUES; i++)
        st =
            encode_part(job, params, (enum terp_references_part)i, &streams[i]);
    if (st == TERP_OK)
        st = write_streams(job, streams, dst, nbytes_ret);
    for (int i = 0; i < TERP_REFERENCES_NPARTS; i++)
        terp_cpu_memory_free(job->pool, streams[i].bytes);
    return st == TERP_ERR_CAPACITY ? TERP_OK : st;
}

enum terp_status
terp_cpu_references_encode(const struct terp_cpu_call *call,
                           const struct terp_params *params,
                           const struct terp_chunk *chunk,
                           struct terp_reference_bound bound, const void *src,
                           uint8_t *dst, uint64_t *nbytes_ret)
{
    struct job job = job_of(call, chunk);
    enum terp_status st = TERP_OK;
    uint64_t saved = 0;

    job.bound = bound;
    if (job.nvalues >= TERP_NO_SOURCE ||
        (!job.is_float && params->has_missing)) {
        free_job(&job);
        return TERP_OK;
    }
    if (!make_values(&job, src))
        st = TERP_ERR_MEMORY;
    if (st == TERP_OK && find_marker(&job)) {
        find_words(&job, params);
        const struct cpu_repeats repeats = {.words = job.words,
                                            .usable = job.usable,
                                            .nvalues = job.nvalues,
                                            .word_nbits = 8 * job.value_nbytes -
                                                          job.is_float,
                                            .nbits = 8 * *nbytes_ret,
                                            .near_nbits = near_nbits_of(&job)};
        st = terp_cpu_repeats_find(job.pool, &repeats, job.sources, &saved);
    }
    if (st == TERP_OK && terp_references_pay(saved, *nbytes_ret, bound.bound)) {
        st = make_references(&job)
                 ? encode_references(&job, params, dst, nbytes_ret)
                 : TERP_ERR_MEMORY;
    }
    free_job(&job);
    return st;
}

/* ---- decoding ---- */

static enum terp_status
decode_parts(struct job *job, const struct terp_references *references)
{
    uint8_t *const to[] = {job->distances, job->differences, job->values};
    enum terp_status st = TERP_OK;

    for (int i = 0; st == TERP_OK && i < TERP_REFERENCES_NPARTS; i++)
        st = terp_cpu_decode(job->call, &references->part[i].frame,
                             references->part[i].body,
                             references->part[i].body_nbytes, 1, to[i]);
    return st;
}

/* False where markers are not as many as references, or one has no source that
 * is before it and no marker. */
static bool
follow_references(const struct job *job)
{
    uint64_t n = 0;
    bool valid = true;

    for (uint64_t i = 0; i < job->nvalues; i++) {
        if (value_at(job, i) != job->marker)
            continue;
        const uint64_t distance =
            n < job->nreferences ? load_le(job->distances + 4 * n, 4) : 0;
        valid &= distance > 0 && distance <= i;
        job->words[i] = 0;
        if (valid)
            valid = value_at(job, i - distance) != job->marker;
        if (valid)
            job->words[i] = value_of(job, value_at(job, i - distance),
                                     load_le(job->differences + 8 * n, 8));
        n++;
    }
    for (uint64_t i = 0; i < job->nvalues; i++)
        if (value_at(job, i) == job->marker)
            put_value(job, i, job->words[i]);
    return valid && n == job->nreferences;
}

enum terp_status
terp_cpu_references_decode(const struct terp_cpu_call *call,
                           const struct terp_chunk *chunk, const uint8_t *body,
                           uint64_t body_nbytes, void *dst)
{
    struct terp_references references;
    enum terp_status st =
        terp_references_read(chunk, body, body_nbytes, &references);

    if (st != TERP_OK)
        return st;
    struct job job = job_of(call, chunk);
    job.nreferences = references.nreferences;
    job.marker = references.marker;
    job.values = dst;
    job.words = terp_cpu_memory_make(job.pool, 8 * job.nvalues);
    job.distances = terp_cpu_memory_make(job.pool, 12 * job.nreferences);
    if (job.words == NULL || job.distances == NULL) {
        st = TERP_ERR_MEMORY;
    } else {
        job.differences = job.distances + 4 * job.nreferences;
        st = decode_parts(&job, &references);
    }
    if (st == TERP_OK && !follow_references(&job))
        st = TERP_ERR_CORRUPT;
    if (st == TERP_OK && chunk->big_endian)
        terp_swap_values(dst, job.nvalues, job.value_nbytes);
    job.values = NULL;
    free_job(&job);
    return st;
}

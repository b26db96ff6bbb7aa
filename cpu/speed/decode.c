/* Decodes streams of coding SPEED. */
#include "cpu/speed/decode.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/predict/coarse.h"
#include "cpu/speed/tile.h"

/* A stream that becomes values. */
struct decoding {
    struct cpu_speed_numbers numbers;
    struct terp_speed_body body;
    struct cpu_speed_work *works;
    void *values;
    atomic_bool is_corrupt;
};

static void
decode_share(void *arg, struct cpu_share share)
{
    struct decoding *decoding = arg;
    const struct terp_speed_body *body = &decoding->body;
    const uint8_t *end = body->tiles + body->tiles_nbytes;

    for (uint64_t i = share.first; i < share.end; i++) {
        struct terp_speed_box box;
        uint64_t nbytes;
        const uint8_t *tile = terp_speed_tile_at(body, i, &nbytes);
        terp_speed_box_make(&body->grid, i, &box);
        const enum terp_status st =
            nbytes > TERP_SPEED_TILE_MAX_NBYTES(8)
                ? TERP_ERR_CORRUPT
                : (decoding->numbers.word_nbytes == 4
                       ? terp_cpu_speed_decode_tile_32
                       : terp_cpu_speed_decode_tile_64)(
                      &decoding->numbers, &box, tile, nbytes,
                      (uint64_t)(end - tile) - nbytes,
                      &decoding->works[share.worker], decoding->values);
        if (st != TERP_OK)
            atomic_store(&decoding->is_corrupt, true);
    }
}

/* Fewer tiles are not worth a thread. */
#define MIN_NTILES 32

static struct cpu_speed_numbers
numbers_of(const struct terp_chunk *chunk, const struct terp_speed_head *head)
{
    struct cpu_speed_numbers numbers = {
        .type = chunk->type,
        .value_nbytes = terp_value_nbytes(chunk->type),
        .word_nbytes = terp_speed_word_nbytes(chunk->type),
        .kind = head->kind};

    if (head->kind == TERP_SPEED_STEPS)
        terp_cpu_speed_set_step(&numbers, head->step_bits);
    return numbers;
}

static enum terp_status
decode_all(struct cpu_pool *pool, const struct terp_open_stream *stream,
           void *dst)
{
    const struct terp_chunk *chunk = &stream->frame.chunk;
    struct decoding decoding = {.values = dst};
    const enum terp_status st =
        terp_speed_body_read(chunk, (uint64_t)terp_frame_nbytes(&stream->frame),
                             stream->body, stream->body_nbytes, &decoding.body);

    if (st != TERP_OK)
        return st;
    decoding.numbers = numbers_of(chunk, &decoding.body.head);
    decoding.works = aligned_alloc(_Alignof(struct cpu_speed_work),
                                   (size_t)terp_cpu_pool_nworkers(pool) *
                                       sizeof *decoding.works);
    if (decoding.works == NULL)
        return TERP_ERR_MEMORY;
    terp_cpu_pool_run(pool, decode_share, &decoding, decoding.body.grid.ntiles,
                      MIN_NTILES);
    free(decoding.works);
    if (atomic_load(&decoding.is_corrupt))
        return TERP_ERR_CORRUPT;
    if (chunk->big_endian != TERP_HOST_IS_BIG_ENDIAN)
        terp_swap_values(dst,
                         terp_chunk_nbytes(chunk) /
                             (uint64_t)decoding.numbers.value_nbytes,
                         decoding.numbers.value_nbytes);
    return TERP_OK;
}

enum terp_status
terp_cpu_speed_decode(struct cpu_pool *pool,
                      const struct terp_open_stream *stream,
                      const struct terp_coarse *coarse, void *dst)
{
    const struct terp_chunk *chunk = &stream->frame.chunk;
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const int value_nbytes = terp_value_nbytes(chunk->type);

    if (coarse->is_all)
        return decode_all(pool, stream, dst);
    void *whole = terp_cpu_memory_make(pool, nbytes);
    if (whole == NULL)
        return TERP_ERR_MEMORY;
    const enum terp_status st = decode_all(pool, stream, whole);
    if (st == TERP_OK)
        terp_cpu_coarse_values(coarse, value_nbytes, whole, dst);
    terp_cpu_memory_free(pool, whole);
    return st;
}

enum terp_status
terp_cpu_speed_inspect(const struct terp_frame *frame, const uint8_t *body,
                       uint64_t body_nbytes, struct terp_info *info)
{
    struct terp_speed_body read;
    const enum terp_status st =
        terp_speed_body_read(&frame->chunk, (uint64_t)terp_frame_nbytes(frame),
                             body, body_nbytes, &read);

    if (st != TERP_OK)
        return st;
    info->ntiles = read.grid.ntiles;
    info->index_nbytes = terp_speed_index_nbytes(read.grid.ntiles);
    for (uint64_t i = 0; i < read.grid.ntiles; i++) {
        uint64_t nbytes;
        const uint8_t *tile = terp_speed_tile_at(&read, i, &nbytes);
        info->ntiles_zero +=
            (tile[0] & TERP_SPEED_WIDTHS) == TERP_SPEED_NO_WIDTHS;
    }
    return TERP_OK;
}

/* Encodes chunks as streams of coding SPEED. */
#include <stdatomic.h>
#include <stdlib.h>

#include "codec/model/carrier.h"
#include "codec/model/speed.h"
#include "cpu/engine.h"
#include "cpu/predict/predictor.h"
#include "cpu/predict/stages.h"
#include "cpu/speed/tile.h"

/* ---- the bound ---- */

static bool
is_fill(const struct cpu_speed_numbers *numbers, uint64_t bits)
{
    for (int i = 0; i < numbers->nfills; i++)
        if (bits == numbers->fill[i])
            return true;
    return false;
}

static void
add_fill(struct cpu_speed_numbers *numbers, uint64_t bits)
{
    bits &= UINT64_MAX >> (64 - 8 * numbers->value_nbytes);
    if (!terp_type_is_integer(numbers->type) &&
        bits == UINT64_C(1) << (8 * numbers->value_nbytes - 1))
        bits = 0; /* -0.0 */
    if (!is_fill(numbers, bits))
        numbers->fill[numbers->nfills++] = bits;
}

/* The absolute bound of a chunk of floats under a relative one. Takes the fill
 * values that the range leaves out. `values` are of the type `scanned`. */
static double
find_bound_of_range(struct cpu_pool *pool, const struct terp_params *params,
                    enum terp_type scanned, const void *values,
                    uint64_t nvalues, struct cpu_speed_numbers *numbers)
{
    const struct cpu_stages *stages = cpu_stages_of(scanned);
    struct cpu_fills fills = cpu_fills_of(stages, params);
    struct terp_bound_range range;
    struct cpu_stats stats;

    terp_cpu_scan(stages, pool, numbers->type, values, nvalues, &fills, &stats,
                  &range);
    for (int i = 0; i < TERP_NFILLS; i++)
        if (fills.bits[i] != stages->negative_zero_bits)
            add_fill(numbers,
                     numbers->type == scanned
                         ? fills.bits[i]
                         : terp_half_of_f32_bits(numbers->type,
                                                 (uint32_t)fills.bits[i]));
    return range.min < range.max
               ? terp_bound_of_range(params->bound, range.min, range.max)
               : 0;
}

/* The same of 16-bit floats, by way of float32. */
static enum terp_status
find_bound_of_halves(struct cpu_pool *pool, const struct terp_params *params,
                     const void *values, uint64_t nvalues,
                     struct cpu_speed_numbers *numbers, double *bound_ret)
{
    const struct terp_params coded =
        terp_params_of_halves(numbers->type, params);
    const uint8_t *halves = values;
    uint32_t *carried = terp_cpu_memory_make(pool, (size_t)(4 * nvalues));

    if (carried == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t i = 0; i < nvalues; i++)
        carried[i] = terp_carried_half(
            numbers->type, (uint16_t)load_value(halves + 2 * i, 2), false);
    *bound_ret = find_bound_of_range(pool, &coded, TERP_FLOAT32, carried,
                                     nvalues, numbers);
    terp_cpu_memory_free(pool, carried);
    return TERP_OK;
}

/* The absolute bound, and the values that are not coded. Integers have no
 * range: a relative bound means all bits. */
static enum terp_status
find_bound(struct cpu_pool *pool, const struct terp_params *params,
           const void *values, uint64_t nvalues,
           struct cpu_speed_numbers *numbers, double *bound_ret)
{
    const bool is_relative = params->bound_mode == TERP_BOUND_RELATIVE;

    *bound_ret = is_relative ? 0 : params->bound;
    if (is_relative && terp_type_is_plain(numbers->type)) {
        *bound_ret = find_bound_of_range(pool, params, numbers->type, values,
                                         nvalues, numbers);
        return TERP_OK;
    }
    if (is_relative && terp_type_is_half(numbers->type))
        return find_bound_of_halves(pool, params, values, nvalues, numbers,
                                    bound_ret);
    if (params->has_fill)
        add_fill(numbers, params->fill_bits);
    if (params->has_missing)
        add_fill(numbers, params->missing_bits);
    return TERP_OK;
}

/* ---- tiles ---- */

/* A chunk that becomes a stream. */
struct coding {
    struct cpu_speed_numbers numbers;
    struct terp_speed_grid grid;
    const void *values;
    uint8_t *index, *tiles; /* in the stream */
    uint64_t cap_nbytes;    /* of tiles */
    struct cpu_speed_work *works;
    /* Runs of tiles, each in its own memory but the first one. */
    uint64_t nruns;
    uint8_t **run;
    uint64_t *run_nbytes;
    atomic_bool is_short;
};

static uint64_t
first_of_run(const struct coding *coding, uint64_t run)
{
    return run * coding->grid.ntiles / coding->nruns;
}

/* Codes the tiles of a run, whose places in the index are relative to the
 * run's. */
static void
encode_run(struct coding *coding, struct cpu_speed_work *work, uint64_t run)
{
    const uint64_t end = first_of_run(coding, run + 1);
    uint8_t *dst = run == 0 ? coding->tiles : coding->run[run];
    uint64_t at = 0;

    for (uint64_t i = first_of_run(coding, run); i < end; i++) {
        struct terp_speed_box box;
        /* directly in the stream, if the largest tile and its padding fit */
        const bool fits = coding->cap_nbytes - at >= sizeof work->bytes &&
                          (run == 0 || i + 2 < end);
        uint8_t *tile = fits ? dst + at : work->bytes;
        terp_speed_box_make(&coding->grid, i, &box);
        const uint64_t nbytes =
            (coding->numbers.word_nbytes == 4 ? terp_cpu_speed_encode_tile_32
                                              : terp_cpu_speed_encode_tile_64)(
                &coding->numbers, &box, coding->values, work, tile);
        if (nbytes > coding->cap_nbytes - at) {
            atomic_store(&coding->is_short, true);
            return;
        }
        if (!fits)
            memcpy(dst + at, tile, nbytes);
        store_le(coding->index + TERP_SPEED_INDEX_NBYTES * i,
                 at / TERP_SPEED_ALIGN_NBYTES, TERP_SPEED_INDEX_NBYTES);
        at += nbytes;
    }
    coding->run_nbytes[run] = at;
}

static void
encode_share(void *arg, struct cpu_share share)
{
    struct coding *coding = arg;

    for (uint64_t run = share.first; run < share.end; run++)
        encode_run(coding, &coding->works[share.worker], run);
}

/* Moves the runs together; returns the bytes of all tiles. */
static uint64_t
join_runs(struct coding *coding)
{
    uint64_t at = coding->run_nbytes[0];

    for (uint64_t run = 1; run < coding->nruns; run++) {
        const uint64_t end = first_of_run(coding, run + 1);
        if (coding->run_nbytes[run] > coding->cap_nbytes - at) {
            atomic_store(&coding->is_short, true);
            return 0;
        }
        memcpy(coding->tiles + at, coding->run[run], coding->run_nbytes[run]);
        for (uint64_t i = first_of_run(coding, run); i < end; i++) {
            uint8_t *entry = coding->index + TERP_SPEED_INDEX_NBYTES * i;
            store_le(entry,
                     load_le(entry, TERP_SPEED_INDEX_NBYTES) +
                         at / TERP_SPEED_ALIGN_NBYTES,
                     TERP_SPEED_INDEX_NBYTES);
        }
        at += coding->run_nbytes[run];
    }
    return at;
}

/* Runs of fewer tiles are not worth a thread. */
#define MIN_RUN_NTILES 16

static enum terp_status
encode_tiles(struct cpu_pool *pool, struct coding *coding, uint64_t *nbytes_ret)
{
    const uint64_t nworkers = (uint64_t)terp_cpu_pool_nworkers(pool);
    const uint64_t most = coding->grid.ntiles / MIN_RUN_NTILES;
    const uint64_t word_nbytes = (uint64_t)coding->numbers.word_nbytes;
    uint64_t buffer_nbytes = 0;

    coding->nruns = nworkers < most ? nworkers : most > 0 ? most : 1;
    const uint64_t run_cap = min_u64(
        coding->cap_nbytes, div_up(coding->grid.ntiles, coding->nruns) *
                                TERP_SPEED_TILE_MAX_NBYTES(word_nbytes));
    buffer_nbytes = run_cap * (coding->nruns - 1);
    uint8_t *memory = malloc(
        (size_t)(coding->nruns * (sizeof(uint8_t *) + sizeof(uint64_t))));
    uint8_t *buffer = buffer_nbytes == 0
                          ? NULL
                          : terp_cpu_memory_make(pool, (size_t)buffer_nbytes);
    coding->works = aligned_alloc(_Alignof(struct cpu_speed_work),
                                  (size_t)nworkers * sizeof *coding->works);
    enum terp_status st = TERP_ERR_MEMORY;
    if (memory != NULL && (buffer != NULL || buffer_nbytes == 0) &&
        coding->works != NULL) {
        coding->run = (uint8_t **)memory;
        coding->run_nbytes = (uint64_t *)(coding->run + coding->nruns);
        for (uint64_t run = 0; run < coding->nruns; run++) {
            coding->run[run] = run == 0 ? NULL : buffer + (run - 1) * run_cap;
            coding->run_nbytes[run] = 0;
        }
        terp_cpu_pool_run(pool, encode_share, coding, coding->nruns, 2);
        *nbytes_ret = atomic_load(&coding->is_short) ? 0 : join_runs(coding);
        st = TERP_OK;
    }
    free(coding->works);
    terp_cpu_memory_free(pool, buffer);
    free(memory);
    return st;
}

/* ---- a chunk ---- */

static enum terp_status
encode_values(struct cpu_pool *pool, const struct terp_source *source,
              double given_bound, const void *values, uint8_t *dst,
              uint64_t *nbytes_ret)
{
    const struct terp_chunk *chunk = source->chunk;
    const uint64_t nvalues =
        terp_chunk_nbytes(chunk) / (uint64_t)terp_value_nbytes(chunk->type);
    struct coding coding = {
        .numbers = {.type = chunk->type,
                    .value_nbytes = terp_value_nbytes(chunk->type),
                    .word_nbytes = terp_speed_word_nbytes(chunk->type)},
        .values = values};
    const struct terp_params params =
        given_bound > 0 ? terp_params_under(source->params, given_bound)
                        : *source->params;
    double bound = 0;
    enum terp_status st =
        find_bound(pool, &params, values, nvalues, &coding.numbers, &bound);
    if (st != TERP_OK)
        return st;
    const struct terp_speed_choice choice =
        terp_speed_choose(chunk->type, bound);
    const bool has_steps = choice.head.kind == TERP_SPEED_STEPS;
    const struct terp_frame frame = {.chunk = *chunk,
                                     .coding = TERP_CODING_SPEED,
                                     .bound = choice.bound,
                                     .version = TERP_FORMAT_VERSION};
    struct terp_frame raw = frame;

    raw.coding = TERP_CODING_RAW;
    const uint64_t stored_nbytes =
        (uint64_t)terp_frame_nbytes(&raw) + terp_chunk_nbytes(chunk);
    coding.numbers.kind = choice.head.kind;
    coding.numbers.most = choice.most;
    coding.numbers.whole_most = choice.whole_most;
    if (has_steps)
        terp_cpu_speed_set_step(&coding.numbers, choice.head.step_bits);
    terp_speed_grid_make(chunk, &coding.grid);
    const uint64_t frame_nbytes = (uint64_t)terp_frame_nbytes(&frame);
    const uint64_t index_at =
        frame_nbytes + terp_speed_head_nbytes(choice.head.kind, frame_nbytes);
    const uint64_t tiles_at =
        index_at + terp_speed_index_nbytes(coding.grid.ntiles);
    *nbytes_ret = 0;
    if (tiles_at + 8 >= stored_nbytes)
        return TERP_OK;
    terp_frame_write(&frame, dst);
    terp_speed_head_write(&choice.head, frame_nbytes, dst + frame_nbytes);
    coding.index = dst + index_at;
    coding.tiles = dst + tiles_at;
    coding.cap_nbytes = stored_nbytes - 1 - tiles_at;
    memset(coding.tiles - 4, 0, 4);
    uint64_t nbytes = 0;
    st = encode_tiles(pool, &coding, &nbytes);
    if (st != TERP_OK || nbytes == 0)
        return st;
    *nbytes_ret = tiles_at + nbytes;
    if (!source->is_part)
        terp_frame_seal(dst, *nbytes_ret);
    return TERP_OK;
}

static enum terp_status
encode_chunk(struct cpu_pool *pool, const struct terp_source *source,
             uint64_t i, uint8_t *dst, uint64_t *nbytes_ret)
{
    const struct terp_chunk *chunk = source->chunk;
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const double bound = source->bounds == NULL ? 0 : source->bounds[i];

    if (chunk->big_endian == TERP_HOST_IS_BIG_ENDIAN)
        return encode_values(pool, source, bound, source->src[i], dst,
                             nbytes_ret);
    void *swapped = terp_cpu_memory_make(pool, nbytes);
    if (swapped == NULL)
        return TERP_ERR_MEMORY;
    const int value_nbytes = terp_value_nbytes(chunk->type);
    memcpy(swapped, source->src[i], nbytes);
    terp_swap_values(swapped, nbytes / (uint64_t)value_nbytes, value_nbytes);
    const enum terp_status st =
        encode_values(pool, source, bound, swapped, dst, nbytes_ret);
    terp_cpu_memory_free(pool, swapped);
    return st;
}

enum terp_status
terp_cpu_speed_encode(struct terp_session *session,
                      const struct terp_source *source, void *const *dst,
                      uint64_t *nbytes_ret)
{
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < source->n; i++)
        st = encode_chunk(cpu_pool_of(session), source, i, dst[i],
                          &nbytes_ret[i]);
    return st;
}

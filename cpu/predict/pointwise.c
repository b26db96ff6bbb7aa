/* The loops of pointwise bounds, shared out among threads. */
#include "cpu/predict/pointwise.h"

#include "codec/format/base.h"

/* Ranges that the pool takes. */
#define NPARTS TERP_POINTWISE_NPARTS

/* Coded values are scanned by blocks, while a block is in the cache. */
#define BLOCK_NVALUES 2048

struct work {
    const struct cpu_pointwise *chunk;
    const struct cpu_pointwise_stages *stages;
    const struct cpu_stages *coded_stages;
    uint64_t part_nvalues, nparts;
    const uint8_t *values, *coded;
    uint8_t *values_ret, *coded_ret;
    uint64_t value_nbytes, coded_nbytes; /* of one value; of one coded value */
    const struct terp_pointwise *how;
    const struct terp_pointwise_head *head;
    const uint64_t *mask, *signs;
    uint64_t *signs_ret;
    /* Of each range: its magnitudes, or its coded values' extremes. */
    struct terp_magnitudes *magnitudes;
    struct cpu_stats *stats;
};

static struct work
make_work(const struct cpu_pointwise *chunk, enum terp_pointwise_form form)
{
    struct work work = {
        .chunk = chunk,
        .stages = chunk->type == TERP_FLOAT32 ? &terp_cpu_pointwise_f32
                                              : &terp_cpu_pointwise_f64,
        .part_nvalues = terp_pointwise_part_nvalues(chunk->nvalues),
        .value_nbytes = (uint64_t)cpu_stages_of(chunk->type)->value_nbytes,
        .coded_stages = cpu_stages_of(terp_pointwise_type(form, chunk->type))};

    work.nparts = div_up(chunk->nvalues, work.part_nvalues);
    work.coded_nbytes = (uint64_t)work.coded_stages->value_nbytes;
    return work;
}

static void
do_parts(struct work *work, cpu_item *task)
{
    terp_cpu_pool_each(work->chunk->pool, task, work, work->nparts, 2);
}

/* The first value of range p; its length goes to *nvalues_ret. */
static uint64_t
begin_of(const struct work *work, uint64_t p, uint64_t *nvalues_ret)
{
    const uint64_t begin = p * work->part_nvalues;

    *nvalues_ret = min_u64(work->part_nvalues, work->chunk->nvalues - begin);
    return begin;
}

static void
measure_part(void *arg, uint64_t p)
{
    struct work *work = arg;
    uint64_t nvalues, begin = begin_of(work, p, &nvalues);
    work->stages->magnitudes(work->values + begin * work->value_nbytes, nvalues,
                             work->chunk->fills, &work->magnitudes[p]);
}

void
terp_cpu_pointwise_measure(const struct cpu_pointwise *chunk,
                           const void *values,
                           struct terp_magnitudes *magnitudes_ret)
{
    struct work work = make_work(chunk, TERP_POINTWISE_ROUNDED);
    struct terp_magnitudes magnitudes[NPARTS];

    work.values = values;
    work.magnitudes = magnitudes;
    do_parts(&work, measure_part);
    *magnitudes_ret = magnitudes[0];
    for (uint64_t p = 1; p < work.nparts; p++) {
        const struct terp_magnitudes *part = &magnitudes[p];
        magnitudes_ret->min_bits =
            min_u64(magnitudes_ret->min_bits, part->min_bits);
        if (part->max_bits > magnitudes_ret->max_bits)
            magnitudes_ret->max_bits = part->max_bits;
        magnitudes_ret->positive |= part->positive;
        magnitudes_ret->negative |= part->negative;
    }
}

static void
code_part(void *arg, uint64_t p)
{
    struct work *work = arg;
    uint64_t nvalues, begin = begin_of(work, p, &nvalues);
    const uint64_t end = begin + nvalues;
    const uint64_t none = work->coded_stages->negative_zero_bits;
    const struct cpu_fills no_fills = {{none, none, none}};
    struct cpu_stats stats;

    for (uint64_t at = begin; at < end; at += BLOCK_NVALUES) {
        const uint64_t n = min_u64(BLOCK_NVALUES, end - at);
        uint8_t *coded = work->coded_ret + at * work->coded_nbytes;
        (work->how->joint > 0 ? work->stages->code_floored
                              : work->stages->code)[work->how->form](
            work->values + at * work->value_nbytes, n, work->chunk->fills,
            work->how, coded);
        work->coded_stages->scan(coded, n, &no_fills, &stats);
        if (at == begin)
            work->stats[p] = stats;
        else
            cpu_stats_add(&work->stats[p], &stats);
    }
}

void
terp_cpu_pointwise_code(const struct cpu_pointwise *chunk, const void *values,
                        const struct terp_pointwise *how, void *coded,
                        struct cpu_stats *stats_ret)
{
    struct work work = make_work(chunk, how->form);
    struct cpu_stats stats[NPARTS];

    work.values = values;
    work.coded_ret = coded;
    work.how = how;
    work.stats = stats;
    do_parts(&work, code_part);
    *stats_ret = stats[0];
    for (uint64_t p = 1; p < work.nparts; p++)
        cpu_stats_add(stats_ret, &stats[p]);
}

static void
sign_part(void *arg, uint64_t p)
{
    struct work *work = arg;
    uint64_t nvalues, begin = begin_of(work, p, &nvalues);
    work->stages->signs(work->values + begin * work->value_nbytes, nvalues,
                        work->chunk->fills, work->signs_ret + begin / 64);
}

void
terp_cpu_pointwise_signs(const struct cpu_pointwise *chunk, const void *values,
                         uint64_t *signs)
{
    struct work work = make_work(chunk, TERP_POINTWISE_ROUNDED);

    work.values = values;
    work.signs_ret = signs;
    do_parts(&work, sign_part);
}

static void
decode_values(const struct work *work, uint64_t begin, uint64_t nvalues)
{
    const struct terp_pointwise_head *head = work->head;
    uint8_t *values = work->values_ret + begin * work->value_nbytes;
    const uint8_t *coded = work->coded + begin * work->coded_nbytes;

    if (head->floor > 0)
        work->stages->decode_floored[head->form](coded, nvalues, head, values);
    else
        work->stages->decode[head->form](coded, nvalues, head->center, values);
    if (head->signs != TERP_SIGNS_POSITIVE)
        work->stages->negate(work->signs == NULL ? NULL
                                                 : work->signs + begin / 64,
                             nvalues, values);
}

/* The first value, from `at` on, in a word of the mask that is full or, if
 * `full` is false, not full; `end` if there is none. */
static uint64_t
find_word(const uint64_t *mask, uint64_t at, uint64_t end, bool full)
{
    while (at < end && (mask[at / 64] == UINT64_MAX) != full)
        at += 64;
    return min_u64(at, end);
}

/* Decodes a range. Words of the mask with special values alone, such as long
 * runs of zeros, need no decoding. */
static void
decode_part(void *arg, uint64_t p)
{
    const struct work *work = arg;
    uint64_t nvalues, at = begin_of(work, p, &nvalues);
    const uint64_t end = at + nvalues;

    if (work->mask == NULL) {
        decode_values(work, at, nvalues);
        return;
    }
    while ((at = find_word(work->mask, at, end, false)) < end) {
        const uint64_t next = find_word(work->mask, at, end, true);
        decode_values(work, at, next - at);
        at = next;
    }
}

void
terp_cpu_pointwise_decode(const struct cpu_pointwise *chunk,
                          const struct terp_pointwise_head *head,
                          const uint64_t *mask, const uint64_t *signs,
                          const void *coded, void *values)
{
    struct work work = make_work(chunk, head->form);

    work.coded = coded;
    work.values_ret = values;
    work.head = head;
    work.mask = mask;
    work.signs = signs;
    do_parts(&work, decode_part);
}

/* Bounds the search for the coded value of a limit: the rounding errors of a
 * logarithm and its inverse are fewer steps than this. */
#define LIMIT_MAX_NSTEPS 64

struct terp_limit
terp_cpu_pointwise_limit(enum terp_type type, const struct terp_pointwise *how,
                         const struct terp_pointwise_head *head, double limit,
                         bool is_low)
{
    const struct cpu_stages *stages = cpu_stages_of(type);
    const struct cpu_stages *coded_stages =
        cpu_stages_of(terp_pointwise_type(how->form, type));
    const uint64_t none = stages->negative_zero_bits;
    const struct cpu_fills no_fills = {{none, none, none}};
    const struct cpu_pointwise one = {NULL, type, 1, &no_fills};
    const double toward = is_low ? INFINITY : -INFINITY;
    struct terp_pointwise_head positive = *head;
    struct cpu_stats stats;
    uint64_t value, coded;

    positive.signs = TERP_SIGNS_POSITIVE;
    store_value(&value, cpu_value_bits(stages, limit), stages->value_nbytes);
    terp_cpu_pointwise_code(&one, &value, how, &coded, &stats);
    const double from = cpu_value_of_bits(
        coded_stages, load_value(&coded, coded_stages->value_nbytes));
    /* Finds the coded value that decodes to the limit itself
     * (codec/model/pointwise.h). */
    double found = coded_stages->value_nbytes == 4
                       ? (double)(float)(from - how->offset)
                       : from - how->offset;
    for (int i = 0; found == found && i < LIMIT_MAX_NSTEPS; i++) {
        store_value(&coded, cpu_value_bits(coded_stages, found),
                    coded_stages->value_nbytes);
        terp_cpu_pointwise_decode(&one, &positive, NULL, NULL, &coded, &value);
        const double decoded =
            cpu_value_of_bits(stages, load_value(&value, stages->value_nbytes));
        if (is_low ? decoded >= limit : decoded <= limit)
            return (struct terp_limit){from, found};
        found = coded_stages->value_nbytes == 4
                    ? (double)nextafterf((float)found, (float)toward)
                    : nextafter(found, toward);
    }
    return terp_limit_at(-toward);
}

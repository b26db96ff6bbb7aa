/* Converts values to the floats that carry them, and back. */
#include "cpu/predict/carrier.h"

#include <math.h>

/* Values in each item of a pool's task. */
#define ITEM_NVALUES 32768

#define INLINE static inline __attribute__((always_inline))

struct work {
    const struct cpu_parts *parts;
    const uint8_t *src;
    uint8_t *dst;
    const struct terp_carrier_head *head;
    const struct terp_integer_limits *limits;
    uint64_t lowest;
    bool normal_only;
};

static struct work
make_work(const struct cpu_parts *parts, const void *src, void *dst,
          const struct terp_carrier_head *head)
{
    return (struct work){
        .parts = parts,
        .src = src,
        .dst = dst,
        .head = head,
        .lowest = terp_lowest_integer(terp_carried_integer(parts->type))};
}

static void
do_items(struct work *work, cpu_task *task)
{
    terp_cpu_pool_run(work->parts->pool, task, work,
                      div_up(work->parts->nparts, ITEM_NVALUES), 2);
}

/* The first value of a share; its end goes to *end_ret. */
static uint64_t
begin_of(const struct work *work, struct cpu_share share, uint64_t *end_ret)
{
    *end_ret = min_u64(share.end * ITEM_NVALUES, work->parts->nparts);
    return share.first * ITEM_NVALUES;
}

/* ---- words, whose width is a constant in each inlined copy ---- */

INLINE uint64_t
load_word(const uint8_t *src, uint64_t i, int nbytes)
{
    return load_value(src + i * (uint64_t)nbytes, nbytes);
}

INLINE void
store_word(uint8_t *dst, uint64_t i, int nbytes, uint64_t word)
{
    store_value(dst + i * (uint64_t)nbytes, word, nbytes);
}

/* Loads integer i as a word. Returns whether it counts: fill values do not. */
INLINE bool
take_part(const struct work *work, uint64_t i, int nbytes, uint64_t *word_ret)
{
    const struct cpu_parts *parts = work->parts;
    const uint64_t word = load_word(work->src, i, nbytes);

    *word_ret = word;
    return !(parts->nfills > 0 && word == parts->fill[0]) &&
           !(parts->nfills > 1 && word == parts->fill[1]);
}

/* Calls the copy of a function for the width of the work's values: for 16-bit
 * values CALL_BY_WIDTH(code, work, begin, end) calls code(work, 2, begin, end),
 * in which the compiler inlines the constant 2. */
#define CALL_BY_WIDTH(function, work, ...)               \
    do {                                                 \
        switch (terp_part_nbytes((work)->parts->type)) { \
        case 1:                                          \
            function(work, 1, __VA_ARGS__);              \
            break;                                       \
        case 2:                                          \
            function(work, 2, __VA_ARGS__);              \
            break;                                       \
        case 4:                                          \
            function(work, 4, __VA_ARGS__);              \
            break;                                       \
        default:                                         \
            function(work, 8, __VA_ARGS__);              \
        }                                                \
    } while (0)

/* ---- measuring ---- */

INLINE void
measure(const struct work *work, int nbytes, struct terp_integers *integers_ret)
{
    const struct cpu_parts *parts = work->parts;
    uint64_t min = UINT64_MAX, max = 0, first = 0, scale = 0;

    for (uint64_t i = 0; i < parts->nparts; i++) {
        uint64_t word;
        const bool counts = take_part(work, i, nbytes, &word);
        const uint64_t distance =
            terp_integer_distance(word, nbytes, work->lowest);
        min = counts && distance < min ? distance : min;
        max = counts && distance > max ? distance : max;
    }
    integers_ret->any = min <= max;
    first = min;
    for (uint64_t i = 0; scale != 1 && min < max && i < parts->nparts; i++) {
        uint64_t word;
        const bool counts = take_part(work, i, nbytes, &word);
        const uint64_t distance =
            terp_integer_distance(word, nbytes, work->lowest);
        if (counts && distance != first)
            scale = terp_common_divisor(distance - first, scale);
    }
    integers_ret->min = min;
    integers_ret->max = max;
    integers_ret->scale = scale;
}

void
terp_cpu_integers_measure(const struct cpu_parts *parts, const void *src,
                          struct terp_integers *integers_ret)
{
    const struct work work = make_work(parts, src, NULL, NULL);

    CALL_BY_WIDTH(measure, &work, integers_ret);
}

/* ---- coding ---- */

INLINE void
code(const struct work *work, int nbytes, uint64_t begin, uint64_t end)
{
    const enum terp_carrier_form form = work->head->form;
    const uint64_t offset = work->head->offset - work->lowest;
    const uint64_t scale = work->head->scale;

    for (uint64_t i = begin; i < end; i++) {
        uint64_t word;
        const bool special = !take_part(work, i, nbytes, &word);
        const int64_t n = terp_integer_number(
            terp_integer_distance(word, nbytes, work->lowest), offset, scale);
        if (form == TERP_CARRIER_INTS_F32) {
            const float y = special ? NAN : (float)n;
            memcpy(work->dst + 4 * i, &y, 4);
        } else {
            const double y = special ? (double)NAN
                             : form == TERP_CARRIER_INTS_F64
                                 ? (double)n
                                 : double_of_bits(terp_bits_of_integer(n));
            memcpy(work->dst + 8 * i, &y, 8);
        }
    }
}

static void
code_items(void *arg, struct cpu_share share)
{
    const struct work *work = arg;
    uint64_t end, begin = begin_of(work, share, &end);

    CALL_BY_WIDTH(code, work, begin, end);
}

void
terp_cpu_integers_code(const struct cpu_parts *parts, const void *src,
                       const struct terp_carrier_head *head, void *coded)
{
    struct work work = make_work(parts, src, coded, head);

    do_items(&work, code_items);
}

/* ---- decoding ---- */

INLINE void
decode(const struct work *work, int nbytes, uint64_t begin, uint64_t end)
{
    const struct terp_carrier_head *head = work->head;
    const int64_t low = work->limits->low, high = work->limits->high;
    const bool is_half = nbytes == 2 && terp_type_is_half(work->parts->type);
    float y32;
    uint64_t y64;

    for (uint64_t i = begin; i < end; i++) {
        int64_t n;
        if (head->form == TERP_CARRIER_INTS_F32) {
            memcpy(&y32, work->src + 4 * i, 4);
            n = terp_integer_of_f32(y32, (float)low, (float)high);
        } else {
            memcpy(&y64, work->src + 8 * i, 8);
            n = head->form == TERP_CARRIER_INTS_F64
                    ? terp_integer_of_f64(double_of_bits(y64), (double)low,
                                          (double)high)
                    : terp_integer_of_bits(y64, low, high);
        }
        const uint64_t word = head->offset + head->scale * (uint64_t)n;
        store_word(work->dst, i, nbytes,
                   is_half ? terp_half_in_order((uint16_t)word) : word);
    }
}

static void
decode_items(void *arg, struct cpu_share share)
{
    const struct work *work = arg;
    uint64_t end, begin = begin_of(work, share, &end);

    CALL_BY_WIDTH(decode, work, begin, end);
}

void
terp_cpu_integers_decode(const struct cpu_parts *parts,
                         const struct terp_carrier_head *head,
                         const struct terp_integer_limits *limits,
                         const void *coded, void *dst)
{
    struct work work = make_work(parts, coded, dst, head);

    work.limits = limits;
    do_items(&work, decode_items);
}

/* ---- 16-bit floats ---- */

static void
code_half_items(void *arg, struct cpu_share share)
{
    const struct work *work = arg;
    const enum terp_type type = work->parts->type;
    uint64_t end, begin = begin_of(work, share, &end);

    for (uint64_t i = begin; i < end; i++) {
        const uint16_t half = (uint16_t)load_word(work->src, i, 2);
        const uint32_t bits = terp_carried_half(type, half, work->normal_only);
        memcpy(work->dst + 4 * i, &bits, 4);
    }
}

void
terp_cpu_halves_code(const struct cpu_parts *parts, const void *src,
                     bool normal_only, void *coded)
{
    struct work work = make_work(parts, src, coded, NULL);

    work.normal_only = normal_only;
    do_items(&work, code_half_items);
}

static void
decode_half_items(void *arg, struct cpu_share share)
{
    const struct work *work = arg;
    uint64_t end, begin = begin_of(work, share, &end);
    uint32_t bits;

    for (uint64_t i = begin; i < end; i++) {
        memcpy(&bits, work->src + 4 * i, 4);
        store_word(work->dst, i, 2,
                   terp_half_of_f32_bits(work->parts->type, bits));
    }
}

void
terp_cpu_halves_decode(const struct cpu_parts *parts, const void *coded,
                       void *dst)
{
    struct work work = make_work(parts, coded, dst, NULL);

    do_items(&work, decode_half_items);
}

/* ---- complex values ---- */

/* Separates real and imaginary parts; with `joins`, puts them back together. */
INLINE void
move(const struct work *work, int nbytes, uint64_t begin, uint64_t end,
     bool joins)
{
    const uint64_t nvalues = work->parts->nparts / 2;

    for (uint64_t i = begin; i < end; i++) {
        const uint64_t from = joins         ? i / 2 + (i % 2) * nvalues
                              : i < nvalues ? 2 * i
                                            : 2 * (i - nvalues) + 1;
        store_word(work->dst, i, nbytes, load_word(work->src, from, nbytes));
    }
}

static void
move_by_width(const struct work *work, uint64_t begin, uint64_t end, bool joins)
{
    if (terp_part_nbytes(work->parts->type) == 4)
        move(work, 4, begin, end, joins);
    else
        move(work, 8, begin, end, joins);
}

static void
split_items(void *arg, struct cpu_share share)
{
    const struct work *work = arg;
    uint64_t end, begin = begin_of(work, share, &end);

    move_by_width(work, begin, end, false);
}

static void
join_items(void *arg, struct cpu_share share)
{
    const struct work *work = arg;
    uint64_t end, begin = begin_of(work, share, &end);

    move_by_width(work, begin, end, true);
}

void
terp_cpu_parts_split(const struct cpu_parts *parts, const void *values,
                     void *dst)
{
    struct work work = make_work(parts, values, dst, NULL);

    do_items(&work, split_items);
}

void
terp_cpu_parts_join(const struct cpu_parts *parts, const void *src,
                    void *values)
{
    struct work work = make_work(parts, src, values, NULL);

    do_items(&work, join_items);
}

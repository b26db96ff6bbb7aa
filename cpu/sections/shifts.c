/* Writes and reads the section of shifts. A group has the differences of points
 * that are not special, in C order: first the begin of each group is found,
 * then the pool's threads share the groups. */
#include "cpu/sections/shifts.h"

#include "cpu/sections/bits.h"

#define GROUP TERP_SHIFT_GROUP_NVALUES

/* Fewer groups than this are not worth waking the pool for. */
#define MIN_NGROUPS_SHARED 64

/* A worker's copies of a group: of its points, if some are special, and of its
 * bytes, with padding. */
struct copy {
    uint64_t positions[GROUP];
    uint64_t differences[GROUP]; /* of the type's width */
    uint16_t symbols[GROUP];
    uint8_t bytes[8 * GROUP + CPU_BITS_PADDING_NBYTES];
};

/* The task that the threads share. */
struct task {
    const struct cpu_prediction *lossless;
    const uint64_t *mask; /* NULL: no point is special */
    uint64_t nvalues;     /* without special values */
    uint64_t ngroups;
    struct copy *copies; /* per worker */
    void (*work)(const struct task *task, uint64_t group, struct copy *copy);
    uint64_t *first; /* the first point of each group */
    uint64_t *begin; /* where each group's bytes begin */
    uint8_t *shifts, *zeros;
    bool has_zeros;
    uint8_t *to;
    const uint8_t *from;
};

static uint64_t
group_nvalues(const struct task *task, uint64_t group)
{
    return min_u64(GROUP, task->nvalues - group * GROUP);
}

/* The points of word i that are not special. */
static uint64_t
valid_of_word(const struct task *task, uint64_t i)
{
    const uint64_t nvalues = task->lossless->layout->nvalues;
    const uint64_t all = nvalues - i * 64 < 64
                             ? (UINT64_C(1) << (nvalues - i * 64)) - 1
                             : UINT64_MAX;
    return all & ~task->mask[i];
}

/* The position of the set bit of a word that has `n` set bits below it. */
static unsigned
place_of_bit(uint64_t word, uint64_t n)
{
    for (; n > 0; n--)
        word &= word - 1;
    return (unsigned)__builtin_ctzll(word);
}

static void
find_groups(struct task *task)
{
    uint64_t n = 0, group = 0;

    if (task->mask == NULL) {
        for (uint64_t g = 0; g < task->ngroups; g++)
            task->first[g] = g * GROUP;
        return;
    }
    for (uint64_t i = 0; i * 64 < task->lossless->layout->nvalues; i++) {
        const uint64_t valid = valid_of_word(task, i);
        const uint64_t more = (uint64_t)__builtin_popcountll(valid);
        if (group < task->ngroups && n + more > group * GROUP)
            task->first[group] =
                i * 64 + place_of_bit(valid, group * GROUP - n);
        group += group < task->ngroups && n + more > group * GROUP;
        n += more;
    }
}

static enum terp_status
make_task(const struct cpu_prediction *lossless, struct task *task)
{
    const uint64_t nworkers = (uint64_t)terp_cpu_pool_nworkers(lossless->pool);
    const uint64_t nspecials = lossless->nspecials;

    *task = (struct task){.lossless = lossless,
                          .mask = nspecials > 0 ? lossless->mask : NULL,
                          .nvalues = lossless->layout->nvalues - nspecials};
    task->ngroups = div_up(task->nvalues, GROUP);
    task->copies =
        terp_cpu_memory_make(lossless->pool, nworkers * sizeof *task->copies +
                                                 18 * task->ngroups + 1);
    if (task->copies == NULL)
        return TERP_ERR_MEMORY;
    task->first = (uint64_t *)(task->copies + nworkers);
    task->begin = task->first + task->ngroups;
    task->shifts = (uint8_t *)(task->begin + task->ngroups);
    task->zeros = task->shifts + task->ngroups;
    find_groups(task);
    return TERP_OK;
}

static void
free_task(struct task *task)
{
    terp_cpu_memory_free(task->lossless->pool, task->copies);
}

static void
do_groups(void *arg, struct cpu_share share)
{
    const struct task *task = arg;

    for (uint64_t g = share.first; g < share.end; g++)
        task->work(task, g, &task->copies[share.worker]);
}

static void
for_groups(struct task *task, void (*work)(const struct task *task,
                                           uint64_t group, struct copy *copy))
{
    task->work = work;
    terp_cpu_pool_run(task->lossless->pool, do_groups, task, task->ngroups,
                      MIN_NGROUPS_SHARED);
}

/* Lists the points of a group. */
static void
list_points(const struct task *task, uint64_t group, uint64_t positions[GROUP])
{
    const uint64_t n = group_nvalues(task, group);
    uint64_t at = task->first[group], i = 0;
    uint64_t valid = valid_of_word(task, at / 64) >> at % 64 << at % 64;

    for (at -= at % 64; i < n; valid &= valid - 1) {
        while (valid == 0) {
            at += 64;
            valid = valid_of_word(task, at / 64);
        }
        positions[i++] = at + (uint64_t)__builtin_ctzll(valid);
    }
}

/* The points of a group. If no point of the chunk is special, they are in the
 * chunk's arrays; otherwise they are in copies without the special points. */
struct points {
    uint64_t n;
    void *differences;
    uint16_t *symbols;
};

static struct points
points_of(const struct task *task, uint64_t group, struct copy *copy)
{
    const struct cpu_prediction *lossless = task->lossless;
    const uint64_t n = group_nvalues(task, group), first = task->first[group];

    if (task->mask == NULL)
        return (struct points){n,
                               (uint8_t *)lossless->work +
                                   first *
                                       (uint64_t)lossless->stages->value_nbytes,
                               lossless->symbols + first};
    list_points(task, group, copy->positions);
    return (struct points){n, copy->differences, copy->symbols};
}

/* Copies the differences of points out of the chunk's array. */
static void
gather_differences(const struct task *task, const struct points *points,
                   const struct copy *copy)
{
    if (task->mask != NULL)
        task->lossless->stages->gather(task->lossless->work, copy->positions,
                                       points->n, points->differences);
}

static void
gather_symbols(const struct task *task, const struct points *points,
               const struct copy *copy)
{
    for (uint64_t i = 0; task->mask != NULL && i < points->n; i++)
        points->symbols[i] = task->lossless->symbols[copy->positions[i]];
}

static uint64_t
group_nbytes(const struct task *task, uint64_t group)
{
    return packed_nbytes(group_nvalues(task, group), task->shifts[group]);
}

static uint64_t
place_groups(const struct task *task)
{
    uint64_t nbytes = 0;

    for (uint64_t g = 0; g < task->ngroups; g++) {
        task->begin[g] = nbytes;
        nbytes += group_nbytes(task, g);
    }
    return nbytes;
}

/* ---- writing ---- */

static void
measure_group(const struct task *task, uint64_t g, struct copy *copy)
{
    const struct cpu_prediction *lossless = task->lossless;
    const struct points points = points_of(task, g, copy);
    int nzeros;

    gather_differences(task, &points, copy);
    task->shifts[g] = (uint8_t)lossless->stages->split_shift(
        points.differences, points.n, task->has_zeros, &lossless->quantizer,
        &nzeros, points.symbols);
    task->zeros[g] = (uint8_t)nzeros;
    for (uint64_t i = 0; task->mask != NULL && i < points.n; i++)
        lossless->symbols[copy->positions[i]] = points.symbols[i];
}

/* Whether storing the numbers of trailing zeros saves more bits than they
 * take. */
static bool
zeros_pay(const struct task *task, int width, bool *any_ret)
{
    uint64_t saved = 0;

    for (uint64_t g = 0; g < task->ngroups; g++)
        saved += task->zeros[g] * group_nvalues(task, g);
    *any_ret = saved > 0;
    return saved > task->ngroups * (uint64_t)width;
}

static bool
any_of(const uint8_t *numbers, uint64_t n)
{
    bool any = false;

    for (uint64_t i = 0; i < n; i++)
        any |= numbers[i] > 0;
    return any;
}

static void
write_group(const struct task *task, uint64_t g, struct copy *copy)
{
    const struct points points = points_of(task, g, copy);

    gather_differences(task, &points, copy);
    gather_symbols(task, &points, copy);
    task->lossless->stages->put_below_shift(points.differences, points.symbols,
                                            points.n, task->zeros[g],
                                            task->shifts[g], copy->bytes);
    memcpy(task->to + task->begin[g], copy->bytes, group_nbytes(task, g));
}

static void
write_numbers(const uint8_t *numbers, uint64_t n, int width,
              struct writer *writer)
{
    uint8_t *at = writer_take_packed(writer, n, width);

    for (uint64_t i = 0; at != NULL && i < n; i++)
        pack_bits(at, i * (uint64_t)width, width, numbers[i]);
}

enum terp_status
terp_cpu_shifts_write(struct cpu_prediction *lossless, struct writer *writer)
{
    const uint64_t nvalues = lossless->layout->nvalues;
    const int width = terp_shift_nbits(lossless->stages->value_nbytes);
    struct task task;
    enum terp_status st = make_task(lossless, &task);

    if (st != TERP_OK)
        return st;
    if (task.mask != NULL)
        for (uint64_t i = 0; i < nvalues; i++)
            lossless->symbols[i] = TERP_RADIUS;
    task.has_zeros = true;
    for_groups(&task, measure_group);
    bool any;
    task.has_zeros = zeros_pay(&task, width, &any);
    if (any && !task.has_zeros)
        for_groups(&task, measure_group);
    const bool has_shifts = any_of(task.shifts, task.ngroups);
    write_le(writer,
             (has_shifts ? TERP_SHIFTS_SHIFTS : 0) |
                 (task.has_zeros ? TERP_SHIFTS_ZEROS : 0),
             1);
    if (has_shifts)
        write_numbers(task.shifts, task.ngroups, width, writer);
    if (task.has_zeros)
        write_numbers(task.zeros, task.ngroups, width, writer);
    task.to = writer_take(writer, place_groups(&task));
    if (task.to != NULL)
        for_groups(&task, write_group);
    free_task(&task);
    return TERP_OK;
}

/* ---- reading ---- */

/* A group's number of shifted bits or of zeros; 0 if the section has none. */
static int
number_of_group(const uint8_t *numbers, uint64_t group, int width)
{
    return numbers == NULL
               ? 0
               : (int)unpack_bits(numbers, group * (uint64_t)width, width);
}

enum terp_status
terp_cpu_shifts_read(struct reader *reader, int value_nbytes, uint64_t nvalues,
                     struct cpu_shifts_section *section_ret)
{
    const int width = terp_shift_nbits(value_nbytes);
    const uint64_t ngroups = div_up(nvalues, GROUP);
    const uint64_t numbers_nbytes = packed_nbytes(ngroups, width);
    const unsigned has = (unsigned)read_le(reader, 1);
    uint64_t nbytes = 0;

    section_ret->shifts =
        has & TERP_SHIFTS_SHIFTS ? reader_take(reader, numbers_nbytes) : NULL;
    section_ret->zeros =
        has & TERP_SHIFTS_ZEROS ? reader_take(reader, numbers_nbytes) : NULL;
    if (reader->underflow ||
        (has & ~(TERP_SHIFTS_SHIFTS | TERP_SHIFTS_ZEROS)) != 0)
        return TERP_ERR_CORRUPT;
    /* Without shifts no group has bits below its codes. Skipping the loop
     * bounds the time: such a stream may claim any number of groups without
     * having bytes for them. */
    for (uint64_t g = 0; section_ret->shifts != NULL && g < ngroups; g++) {
        const int shift = number_of_group(section_ret->shifts, g, width);
        if (shift > terp_max_shift(value_nbytes))
            return TERP_ERR_CORRUPT;
        nbytes += packed_nbytes(min_u64(GROUP, nvalues - g * GROUP), shift);
    }
    section_ret->at = reader_take(reader, nbytes);
    return section_ret->at == NULL ? TERP_ERR_CORRUPT : TERP_OK;
}

static void
read_group(const struct task *task, uint64_t g, struct copy *copy)
{
    const struct cpu_prediction *lossless = task->lossless;
    const struct points points = points_of(task, g, copy);

    gather_symbols(task, &points, copy);
    memcpy(copy->bytes, task->from + task->begin[g], group_nbytes(task, g));
    lossless->stages->join_shift(points.symbols, points.n, task->zeros[g],
                                 task->shifts[g], copy->bytes,
                                 points.differences);
    if (task->mask != NULL)
        lossless->stages->scatter(points.differences, copy->positions, points.n,
                                  lossless->work);
}

enum terp_status
terp_cpu_shifts_place(const struct cpu_prediction *lossless,
                      const struct cpu_shifts_section *section)
{
    const int width = terp_shift_nbits(lossless->stages->value_nbytes);
    struct task task;
    enum terp_status st = make_task(lossless, &task);

    if (st != TERP_OK)
        return st;
    for (uint64_t g = 0; g < task.ngroups; g++) {
        task.shifts[g] = (uint8_t)number_of_group(section->shifts, g, width);
        task.zeros[g] = (uint8_t)number_of_group(section->zeros, g, width);
    }
    task.from = section->at;
    place_groups(&task);
    for_groups(&task, read_group);
    free_task(&task);
    return TERP_OK;
}

/* Writes and reads the section of escapes. The chunk is cut into ranges. The
 * pool's threads first count the escapes of each range, which tells where in
 * the section they begin; then they write or read them. */
#include "cpu/sections/escapes.h"

#include "codec/format/sections.h"

/* The most ranges of a chunk, and the fewest values of a range. */
#define MAX_NPARTS 128
#define MIN_PART_NVALUES 8192

/* The task that the threads share. */
struct task {
    const struct cpu_prediction *prediction;
    bool on_grid;
    struct cpu_grid grid;
    uint64_t part_nvalues, nparts;
    int number_nbytes;   /* 0: escapes are raw values */
    int nbytes;          /* of an escape */
    uint8_t *to;         /* writing: the section */
    const uint8_t *from; /* reading: the section */
    struct part {
        uint64_t nescapes;
        uint64_t before; /* escapes of the ranges before this one */
        uint64_t all;    /* OR of all its numbers */
        bool fits;       /* every raw value has a number */
    } part[MAX_NPARTS];
};

static uint64_t
next_escape(const struct task *task, uint64_t from, uint64_t end)
{
    return cpu_find_escape(task->prediction->symbols, from, end);
}

static uint64_t
part_end(const struct task *task, uint64_t part)
{
    return min_u64((part + 1) * task->part_nvalues,
                   task->prediction->layout->nvalues);
}

static uint8_t *
raw_at(const struct task *task, uint64_t i)
{
    return (uint8_t *)task->prediction->work +
           i * (uint64_t)task->prediction->stages->value_nbytes;
}

/* The number that encodes the raw value at `i`; false if there is none. */
static bool
number_at(const struct task *task, uint64_t i, uint64_t *number_ret)
{
    const struct cpu_stages *stages = task->prediction->stages;
    const uint8_t *raw = raw_at(task, i);
    int64_t integer;

    if (!task->on_grid) {
        uint64_t bits = load_value(raw, stages->value_nbytes);
        integer = stages->value_nbytes == 4 ? (int32_t)bits : (int64_t)bits;
    } else if (!stages->to_grid(raw, &task->grid, &integer)) {
        return false;
    }
    *number_ret = zigzag(integer);
    return true;
}

static void
count_part(void *arg, uint64_t p)
{
    struct task *task = arg;
    struct part part = {.fits = true};
    uint64_t stop = part_end(task, p);
    for (uint64_t i = next_escape(task, p * task->part_nvalues, stop); i < stop;
         i = next_escape(task, i + 1, stop)) {
        uint64_t number = 0;
        part.fits = part.fits && number_at(task, i, &number);
        part.all |= number;
        part.nescapes++;
    }
    task->part[p] = part;
}

/* Makes the task, and returns the number of escapes. */
static uint64_t
count_escapes(const struct cpu_prediction *prediction, bool on_grid,
              struct task *task)
{
    uint64_t nvalues = prediction->layout->nvalues, n = 0;

    task->prediction = prediction;
    task->on_grid = on_grid;
    task->grid = prediction->stages->grid(&prediction->quantizer);
    task->part_nvalues = div_up(nvalues, MAX_NPARTS);
    if (task->part_nvalues < MIN_PART_NVALUES)
        task->part_nvalues = MIN_PART_NVALUES;
    task->nparts = div_up(nvalues, task->part_nvalues);
    terp_cpu_pool_each(prediction->pool, count_part, task, task->nparts, 8);
    for (uint64_t p = 0; p < task->nparts; p++) {
        task->part[p].before = n;
        n += task->part[p].nescapes;
    }
    return n;
}

static void
write_part(void *arg, uint64_t p)
{
    const struct task *task = arg;
    uint64_t i = p * task->part_nvalues, stop = part_end(task, p);
    uint8_t *at = task->to + task->part[p].before * (uint64_t)task->nbytes;
    for (uint64_t left = task->part[p].nescapes; left > 0; left--, i++) {
        uint64_t bits = 0;
        i = next_escape(task, i, stop);
        if (task->number_nbytes == 0)
            bits = load_value(raw_at(task, i), task->nbytes);
        else
            (void)number_at(task, i, &bits);
        store_le(at, bits, task->nbytes);
        at += task->nbytes;
    }
}

void
terp_cpu_escapes_write(const struct cpu_prediction *prediction, bool on_grid,
                       struct writer *writer)
{
    struct task task;
    uint64_t n = count_escapes(prediction, on_grid, &task), all = 0;
    bool fits = true;

    for (uint64_t p = 0; p < task.nparts; p++) {
        all |= task.part[p].all;
        fits &= task.part[p].fits;
    }
    task.number_nbytes = fits ? terp_number_nbytes(all) : 0;
    task.nbytes = terp_escape_nbytes(task.number_nbytes,
                                     prediction->stages->value_nbytes);
    write_uleb(writer, n);
    if (n == 0)
        return;
    write_le(writer, (uint64_t)task.number_nbytes, 1);
    task.to = writer_take(writer, n * (uint64_t)task.nbytes);
    if (task.to != NULL)
        terp_cpu_pool_each(prediction->pool, write_part, &task, task.nparts, 8);
}

enum terp_status
terp_cpu_escapes_read(struct reader *reader, uint64_t nvalues, int value_nbytes,
                      struct cpu_escape_section *section_ret)
{
    struct cpu_escape_section section = {.nescapes = read_uleb(reader)};

    if (section.nescapes > 0)
        section.number_nbytes = (int)read_le(reader, 1);
    if (reader->underflow ||
        !terp_escapes_are_valid(section.nescapes, section.number_nbytes,
                                nvalues, value_nbytes))
        return TERP_ERR_CORRUPT;
    int nbytes = terp_escape_nbytes(section.number_nbytes, value_nbytes);
    section.at = reader_take(reader, section.nescapes * (uint64_t)nbytes);
    *section_ret = section;
    return section.at == NULL ? TERP_ERR_CORRUPT : TERP_OK;
}

static void
place_part(void *arg, uint64_t p)
{
    const struct task *task = arg;
    const struct cpu_stages *stages = task->prediction->stages;
    uint64_t i = p * task->part_nvalues, stop = part_end(task, p);
    const uint8_t *at =
        task->from + task->part[p].before * (uint64_t)task->nbytes;
    for (uint64_t left = task->part[p].nescapes; left > 0; left--, i++) {
        i = next_escape(task, i, stop);
        uint8_t *raw = raw_at(task, i);
        uint64_t bits = load_le(at, task->nbytes);
        int64_t integer = unzigzag(bits);
        if (task->number_nbytes == 0)
            store_value(raw, bits, task->nbytes);
        else if (!task->on_grid)
            store_value(raw, (uint64_t)integer, stages->value_nbytes);
        else
            stages->from_grid(integer, &task->grid, raw);
        at += task->nbytes;
    }
}

enum terp_status
terp_cpu_escapes_place(const struct cpu_prediction *prediction, bool on_grid,
                       const struct cpu_escape_section *section)
{
    struct task task;
    const uint64_t n = count_escapes(prediction, on_grid, &task);

    if (n > section->nescapes || (n < section->nescapes && !section->goes_on))
        return TERP_ERR_CORRUPT;
    task.number_nbytes = section->number_nbytes;
    task.nbytes = terp_escape_nbytes(section->number_nbytes,
                                     prediction->stages->value_nbytes);
    task.from = section->at;
    if (n > 0)
        terp_cpu_pool_each(prediction->pool, place_part, &task, task.nparts, 8);
    return TERP_OK;
}

/* Writes and reads the section of tails. */
#include "cpu/sections/tails.h"

#include "codec/format/bits.h"
#include "codec/format/low_bits.h"
#include "cpu/sections/low_bits.h"

#define GROUP TERP_LOW_GROUP_NNUMBERS

/* Fewer groups than this are not worth waking the pool for. */
#define MIN_NGROUPS_SHARED 64

/* The task that the threads share. */
struct task {
    const struct cpu_prediction *lorenzo;
    uint8_t *widths_ret; /* writing: where the widths go */
    const uint8_t *widths;
    uint64_t *begin; /* where each group's bytes begin */
    uint8_t *to;
    const uint8_t *from;
};

static uint64_t
nnumbers(const struct task *task, uint64_t group)
{
    return terp_low_group_nnumbers(task->lorenzo->layout->nvalues, group);
}

static enum terp_status
make_task(const struct cpu_prediction *lorenzo, struct task *task_ret)
{
    uint64_t ngroups = terp_low_ngroups(lorenzo->layout->nvalues);

    *task_ret = (struct task){
        .lorenzo = lorenzo,
        .begin = terp_cpu_memory_make(lorenzo->pool, 8 * ngroups)};
    return task_ret->begin == NULL ? TERP_ERR_MEMORY : TERP_OK;
}

static void
for_groups(const struct task *task, cpu_item *work)
{
    terp_cpu_pool_each(task->lorenzo->pool, work, (void *)task,
                       terp_low_ngroups(task->lorenzo->layout->nvalues),
                       MIN_NGROUPS_SHARED);
}

static uint64_t
place_groups(const struct task *task)
{
    return terp_cpu_place_groups(task->widths, task->lorenzo->layout->nvalues,
                                 task->begin);
}

static void *
quants_of(const struct task *task, uint64_t group)
{
    return (uint8_t *)task->lorenzo->work +
           group * GROUP * (uint64_t)task->lorenzo->stages->value_nbytes;
}

/* ---- writing ---- */

static void
find_numbers(const struct task *task, uint64_t group, uint64_t numbers[GROUP])
{
    task->lorenzo->stages->numbers_of_tails(
        quants_of(task, group), task->lorenzo->symbols + group * GROUP,
        nnumbers(task, group), &task->lorenzo->quantizer, numbers);
}

static void
measure_group(void *arg, uint64_t g)
{
    const struct task *task = arg;
    uint64_t numbers[GROUP];
    uint64_t all = 0;
    find_numbers(task, g, numbers);
    for (uint64_t i = 0; i < nnumbers(task, g); i++)
        all |= numbers[i];
    task->widths_ret[g] = (uint8_t)bit_width(all);
}

static void
write_group(void *arg, uint64_t g)
{
    const struct task *task = arg;
    uint64_t numbers[GROUP];
    const int width = task->widths[g];
    struct bit_writer to = {.to = task->to + task->begin[g]};
    find_numbers(task, g, numbers);
    for (uint64_t i = 0; i < nnumbers(task, g); i++)
        bit_writer_put(&to, numbers[i], width);
    bit_writer_end(&to);
}

enum terp_status
terp_cpu_tails_write(const struct cpu_prediction *lorenzo,
                     struct writer *writer)
{
    struct task task;
    enum terp_status st = make_task(lorenzo, &task);

    if (st != TERP_OK)
        return st;
    task.widths = task.widths_ret =
        writer_take(writer, terp_low_ngroups(lorenzo->layout->nvalues));
    if (task.widths != NULL) {
        for_groups(&task, measure_group);
        task.to = writer_take(writer, place_groups(&task));
        if (task.to != NULL)
            for_groups(&task, write_group);
    }
    terp_cpu_memory_free(lorenzo->pool, task.begin);
    return TERP_OK;
}

/* ---- reading ---- */

enum terp_status
terp_cpu_tails_read(struct reader *reader, int tail_nbits, uint64_t nvalues,
                    struct cpu_tails_section *section_ret)
{
    const uint64_t ngroups = terp_low_ngroups(nvalues);
    uint64_t nbytes = 0;

    section_ret->widths = reader_take(reader, ngroups);
    if (section_ret->widths == NULL)
        return TERP_ERR_CORRUPT;
    for (uint64_t g = 0; g < ngroups; g++) {
        if (section_ret->widths[g] > tail_nbits)
            return TERP_ERR_CORRUPT;
        nbytes += terp_low_group_nbytes(nvalues, g, section_ret->widths[g]);
    }
    section_ret->at = reader_take(reader, nbytes);
    return section_ret->at == NULL ? TERP_ERR_CORRUPT : TERP_OK;
}

static void
read_group(void *arg, uint64_t g)
{
    const struct task *task = arg;
    uint64_t numbers[GROUP];
    const int width = task->widths[g];
    for (uint64_t i = 0; i < nnumbers(task, g); i++)
        numbers[i] = unpack_bits(task->from + task->begin[g],
                                 i * (uint64_t)width, width);
    task->lorenzo->stages->tails_of_numbers(numbers, nnumbers(task, g),
                                            quants_of(task, g));
}

enum terp_status
terp_cpu_tails_place(const struct cpu_prediction *lorenzo,
                     const struct cpu_tails_section *section)
{
    struct task task;
    enum terp_status st = make_task(lorenzo, &task);

    if (st != TERP_OK)
        return st;
    task.widths = section->widths;
    task.from = section->at;
    place_groups(&task);
    for_groups(&task, read_group);
    terp_cpu_memory_free(lorenzo->pool, task.begin);
    return TERP_OK;
}

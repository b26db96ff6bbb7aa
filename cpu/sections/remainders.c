/* Writes and reads the section of remainders. The remainders of a group of
 * points fill whole bytes: first the begin of each group is found, then threads
 * share the groups. */
#include "cpu/sections/remainders.h"

#include "cpu/sections/bits.h"

#define GROUP TERP_REMAINDERS_NVALUES

/* Fewer groups than this are not worth waking the pool for. */
#define MIN_NGROUPS_SHARED 8

/* A worker's copy of a group's bytes, with padding. A remainder has at most the
 * bits of a value. */
struct copy {
    uint8_t bytes[8 * GROUP + CPU_BITS_PADDING_NBYTES];
};

/* The task that the threads share. */
struct task {
    const struct cpu_prediction *lossless;
    uint64_t ngroups;
    struct copy *copies; /* per worker */
    uint64_t nbytes;     /* of all groups */
    uint64_t *begin;     /* where each group begins; at first its number of
                          * bytes */
    void (*work)(const struct task *task, uint64_t group, struct copy *copy);
    uint8_t *to;
    const uint8_t *from;
    void *values;
};

static enum terp_status
make_task(const struct cpu_prediction *lossless, struct task *task)
{
    const uint64_t nworkers = (uint64_t)terp_cpu_pool_nworkers(lossless->pool);

    *task = (struct task){.lossless = lossless,
                          .ngroups = div_up(lossless->layout->nvalues, GROUP)};
    task->begin = terp_cpu_memory_make(
        lossless->pool, 8 * task->ngroups + nworkers * sizeof *task->copies);
    if (task->begin == NULL)
        return TERP_ERR_MEMORY;
    task->copies = (struct copy *)(task->begin + task->ngroups);
    return TERP_OK;
}

static void
free_task(const struct task *task)
{
    terp_cpu_memory_free(task->lossless->pool, task->begin);
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

static uint64_t
group_end(const struct task *task, uint64_t group)
{
    return min_u64((group + 1) * GROUP, task->lossless->layout->nvalues);
}

static uint64_t
group_nbytes(const struct task *task, uint64_t group)
{
    return (group + 1 < task->ngroups ? task->begin[group + 1] : task->nbytes) -
           task->begin[group];
}

static uint64_t
place_groups(const struct task *task)
{
    uint64_t nbytes = 0;

    for (uint64_t g = 0; g < task->ngroups; g++) {
        const uint64_t of_group = task->begin[g];
        task->begin[g] = nbytes;
        nbytes += of_group;
    }
    return nbytes;
}

/* ---- writing ---- */

static void
measure_group(const struct task *task, uint64_t g, struct copy *copy)
{
    const struct cpu_prediction *lossless = task->lossless;

    (void)copy;
    task->begin[g] = div_up(lossless->stages->nbits_of_remainders_of_values(
                                lossless->values, g * GROUP, group_end(task, g),
                                &lossless->lossless, lossless->mask),
                            8);
}

static void
write_group(const struct task *task, uint64_t g, struct copy *copy)
{
    const struct cpu_prediction *lossless = task->lossless;

    lossless->stages->put_remainders(lossless->values, g * GROUP,
                                     group_end(task, g), &lossless->lossless,
                                     lossless->mask, copy->bytes);
    memcpy(task->to + task->begin[g], copy->bytes, group_nbytes(task, g));
}

enum terp_status
terp_cpu_remainders_write(const struct cpu_prediction *lossless,
                          struct writer *writer)
{
    struct task task;
    enum terp_status st = make_task(lossless, &task);

    if (st != TERP_OK)
        return st;
    for_groups(&task, measure_group);
    task.nbytes = place_groups(&task);
    write_uleb(writer, task.nbytes);
    task.to = writer_take(writer, task.nbytes);
    if (task.to != NULL)
        for_groups(&task, write_group);
    free_task(&task);
    return TERP_OK;
}

/* ---- reading ---- */

enum terp_status
terp_cpu_remainders_read(struct reader *reader,
                         struct cpu_remainders_section *section_ret)
{
    section_ret->nbytes = read_uleb(reader);
    section_ret->at = reader_take(reader, section_ret->nbytes);
    return section_ret->at == NULL ? TERP_ERR_CORRUPT : TERP_OK;
}

static void
measure_integers_of(const struct task *task, uint64_t g, struct copy *copy)
{
    const struct cpu_prediction *lossless = task->lossless;

    (void)copy;
    task->begin[g] = div_up(lossless->stages->nbits_of_remainders(
                                lossless->work, g * GROUP, group_end(task, g),
                                &lossless->lossless, lossless->mask),
                            8);
}

static void
read_group(const struct task *task, uint64_t g, struct copy *copy)
{
    const struct cpu_prediction *lossless = task->lossless;

    memcpy(copy->bytes, task->from + task->begin[g], group_nbytes(task, g));
    lossless->stages->join_remainders(
        lossless->work, g * GROUP, group_end(task, g), &lossless->lossless,
        lossless->mask, copy->bytes, task->values);
}

enum terp_status
terp_cpu_remainders_place(const struct cpu_prediction *lossless,
                          const struct cpu_remainders_section *section,
                          void *values)
{
    struct task task;
    enum terp_status st = make_task(lossless, &task);

    if (st != TERP_OK)
        return st;
    for_groups(&task, measure_integers_of);
    task.nbytes = place_groups(&task);
    if (task.nbytes == section->nbytes) {
        task.from = section->at;
        task.values = values;
        for_groups(&task, read_group);
    } else {
        st = TERP_ERR_CORRUPT;
    }
    free_task(&task);
    return st;
}

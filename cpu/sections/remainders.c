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
struct job {
    const struct cpu_prediction *lossless;
    uint64_t ngroups;
    struct copy *copies; /* per worker */
    uint64_t nbytes;     /* of all groups */
    uint64_t *begin;     /* where each group begins; at first its number of
                          * bytes */
    void (*work)(const struct job *job, uint64_t group, struct copy *copy);
    uint8_t *to;
    const uint8_t *from;
    void *values;
};

static enum terp_status
make_job(const struct cpu_prediction *lossless, struct job *job)
{
    const uint64_t nworkers = (uint64_t)terp_cpu_pool_nworkers(lossless->pool);

    *job = (struct job){.lossless = lossless,
                        .ngroups = div_up(lossless->layout->nvalues, GROUP)};
    job->begin = terp_cpu_memory_make(
        lossless->pool, 8 * job->ngroups + nworkers * sizeof *job->copies);
    if (job->begin == NULL)
        return TERP_ERR_MEMORY;
    job->copies = (struct copy *)(job->begin + job->ngroups);
    return TERP_OK;
}

static void
free_job(const struct job *job)
{
    terp_cpu_memory_free(job->lossless->pool, job->begin);
}

static void
do_groups(void *arg, struct cpu_share share)
{
    const struct job *job = arg;

    for (uint64_t g = share.first; g < share.end; g++)
        job->work(job, g, &job->copies[share.worker]);
}

static void
for_groups(struct job *job, void (*work)(const struct job *job, uint64_t group,
                                         struct copy *copy))
{
    job->work = work;
    terp_cpu_pool_run(job->lossless->pool, do_groups, job, job->ngroups,
                      MIN_NGROUPS_SHARED);
}

static uint64_t
group_end(const struct job *job, uint64_t group)
{
    return min_u64((group + 1) * GROUP, job->lossless->layout->nvalues);
}

static uint64_t
group_nbytes(const struct job *job, uint64_t group)
{
    return (group + 1 < job->ngroups ? job->begin[group + 1] : job->nbytes) -
           job->begin[group];
}

static uint64_t
place_groups(const struct job *job)
{
    uint64_t nbytes = 0;

    for (uint64_t g = 0; g < job->ngroups; g++) {
        const uint64_t of_group = job->begin[g];
        job->begin[g] = nbytes;
        nbytes += of_group;
    }
    return nbytes;
}

/* ---- writing ---- */

static void
measure_group(const struct job *job, uint64_t g, struct copy *copy)
{
    const struct cpu_prediction *lossless = job->lossless;

    (void)copy;
    job->begin[g] = div_up(lossless->stages->nbits_of_remainders_of_values(
                               lossless->values, g * GROUP, group_end(job, g),
                               &lossless->lossless, lossless->mask),
                           8);
}

static void
write_group(const struct job *job, uint64_t g, struct copy *copy)
{
    const struct cpu_prediction *lossless = job->lossless;

    lossless->stages->put_remainders(lossless->values, g * GROUP,
                                     group_end(job, g), &lossless->lossless,
                                     lossless->mask, copy->bytes);
    memcpy(job->to + job->begin[g], copy->bytes, group_nbytes(job, g));
}

enum terp_status
terp_cpu_remainders_write(const struct cpu_prediction *lossless,
                          struct writer *writer)
{
    struct job job;
    enum terp_status st = make_job(lossless, &job);

    if (st != TERP_OK)
        return st;
    for_groups(&job, measure_group);
    job.nbytes = place_groups(&job);
    write_uleb(writer, job.nbytes);
    job.to = writer_take(writer, job.nbytes);
    if (job.to != NULL)
        for_groups(&job, write_group);
    free_job(&job);
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
measure_integers_of(const struct job *job, uint64_t g, struct copy *copy)
{
    const struct cpu_prediction *lossless = job->lossless;

    (void)copy;
    job->begin[g] = div_up(lossless->stages->nbits_of_remainders(
                               lossless->work, g * GROUP, group_end(job, g),
                               &lossless->lossless, lossless->mask),
                           8);
}

static void
read_group(const struct job *job, uint64_t g, struct copy *copy)
{
    const struct cpu_prediction *lossless = job->lossless;

    memcpy(copy->bytes, job->from + job->begin[g], group_nbytes(job, g));
    lossless->stages->join_remainders(lossless->work, g * GROUP,
                                      group_end(job, g), &lossless->lossless,
                                      lossless->mask, copy->bytes, job->values);
}

enum terp_status
terp_cpu_remainders_place(const struct cpu_prediction *lossless,
                          const struct cpu_remainders_section *section,
                          void *values)
{
    struct job job;
    enum terp_status st = make_job(lossless, &job);

    if (st != TERP_OK)
        return st;
    for_groups(&job, measure_integers_of);
    job.nbytes = place_groups(&job);
    if (job.nbytes == section->nbytes) {
        job.from = section->at;
        job.values = values;
        for_groups(&job, read_group);
    } else {
        st = TERP_ERR_CORRUPT;
    }
    free_job(&job);
    return st;
}

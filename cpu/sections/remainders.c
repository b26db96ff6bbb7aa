/* Writes and reads the section of remainders. The remainders of a group of
 * points fill whole bytes: first the begin of each group is found, then threads
 * share the groups. */
#include "cpu/sections/remainders.h"

#include "codec/format/base.h"
#include "codec/format/bits.h"

#define GROUP TERP_REMAINDERS_NVALUES

/* Fewer groups than this are not worth waking the pool for. */
#define MIN_NGROUPS_SHARED 8

/* A worker's results for a group. */
struct found {
    uint64_t numbers[GROUP];
    uint8_t nbits[GROUP];
};

/* The task that the threads share. */
struct job {
    const struct cpu_prediction *lossless;
    uint64_t ngroups;
    struct found *found; /* per worker */
    uint64_t *begin;     /* where each group begins; at first its number of
                          * bytes */
    void (*work)(const struct job *job, uint64_t group, struct found *found);
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
    job->found = terp_cpu_memory_make(
        lossless->pool, nworkers * sizeof *job->found + 8 * job->ngroups);
    if (job->found == NULL)
        return TERP_ERR_MEMORY;
    job->begin = (uint64_t *)(job->found + nworkers);
    return TERP_OK;
}

static void
free_job(const struct job *job)
{
    terp_cpu_memory_free(job->lossless->pool, job->found);
}

static void
do_groups(void *arg, struct cpu_share share)
{
    const struct job *job = arg;

    for (uint64_t g = share.first; g < share.end; g++)
        job->work(job, g, &job->found[share.worker]);
}

static void
for_groups(struct job *job, void (*work)(const struct job *job, uint64_t group,
                                         struct found *found))
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

static uint64_t
find_remainders(const struct job *job, uint64_t group, struct found *found)
{
    const struct cpu_prediction *lossless = job->lossless;

    return lossless->stages->remainders_of_values(
        lossless->values, group * GROUP, group_end(job, group),
        &lossless->lossless, lossless->mask, found->numbers, found->nbits);
}

static void
measure_group(const struct job *job, uint64_t g, struct found *found)
{
    const uint64_t n = find_remainders(job, g, found);
    uint64_t sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += found->nbits[i];
    job->begin[g] = div_up(sum, 8);
}

static void
write_group(const struct job *job, uint64_t g, struct found *found)
{
    const uint64_t n = find_remainders(job, g, found);
    struct bit_writer to = {.to = job->to + job->begin[g]};

    for (uint64_t i = 0; i < n; i++)
        bit_writer_put(&to, found->numbers[i], found->nbits[i]);
    bit_writer_end(&to);
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
    const uint64_t nbytes = place_groups(&job);
    write_uleb(writer, nbytes);
    job.to = writer_take(writer, nbytes);
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

/* The width of each point's remainder; returns their sum. */
static uint64_t
find_nbits(const struct job *job, uint64_t group, uint8_t nbits[GROUP])
{
    const struct cpu_prediction *lossless = job->lossless;
    const uint64_t first = group * GROUP, end = group_end(job, group);
    uint64_t sum = 0;

    lossless->stages->nbits_of_remainders(lossless->work, first, end,
                                          &lossless->lossless, nbits);
    for (uint64_t i = first; i < end; i++) {
        if (lossless->mask != NULL && lossless->mask[i / 64] >> i % 64 & 1)
            nbits[i - first] = 0;
        sum += nbits[i - first];
    }
    return sum;
}

static void
measure_integers_of(const struct job *job, uint64_t g, struct found *found)
{
    job->begin[g] = div_up(find_nbits(job, g, found->nbits), 8);
}

static void
read_group(const struct job *job, uint64_t g, struct found *found)
{
    const struct cpu_prediction *lossless = job->lossless;
    const uint64_t first = g * GROUP, end = group_end(job, g);
    uint64_t at = 0;

    find_nbits(job, g, found->nbits);
    for (uint64_t i = 0; i < end - first; i++) {
        found->numbers[i] =
            load_bits(job->from + job->begin[g], at, found->nbits[i]);
        at += found->nbits[i];
    }
    lossless->stages->join_remainders(lossless->work, first, end,
                                      &lossless->lossless, found->numbers,
                                      job->values);
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
    if (place_groups(&job) == section->nbytes) {
        job.from = section->at;
        job.values = values;
        for_groups(&job, read_group);
    } else {
        st = TERP_ERR_CORRUPT;
    }
    free_job(&job);
    return st;
}

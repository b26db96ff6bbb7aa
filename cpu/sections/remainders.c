/* The section of remainders, written and read. Those of some thousand points
 * fill whole bytes: where they begin is found first, and threads share them
 * then. */
#include "cpu/sections/remainders.h"

#include "codec/format/base.h"
#include "codec/format/bits.h"

#define GROUP TERP_REMAINDERS_NVALUES

/* Fewer groups than this are not worth waking the pool for. */
#define MIN_NGROUPS_SHARED 8

/* What the threads share. */
struct job {
    const struct cpu_prediction *lossless;
    uint64_t ngroups;
    uint64_t *begin; /* of each among the bytes of all; before: its bytes */
    uint8_t *to;
    const uint8_t *from;
    void *values;
};

static enum terp_status
make_job(const struct cpu_prediction *lossless, struct job *job)
{
    *job = (struct job){.lossless = lossless,
                        .ngroups = div_up(lossless->layout->nvalues, GROUP)};
    job->begin = terp_cpu_memory_make(lossless->pool, 8 * job->ngroups);
    return job->begin == NULL ? TERP_ERR_MEMORY : TERP_OK;
}

static void
for_groups(const struct job *job, cpu_item *work)
{
    terp_cpu_pool_each(job->lossless->pool, work, (void *)job, job->ngroups,
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
find_remainders(const struct job *job, uint64_t group, uint64_t numbers[GROUP],
                uint8_t nbits[GROUP])
{
    const struct cpu_prediction *lossless = job->lossless;

    return lossless->stages->remainders_of_values(
        lossless->values, group * GROUP, group_end(job, group),
        &lossless->lossless, lossless->mask, numbers, nbits);
}

static void
measure_group(void *arg, uint64_t g)
{
    const struct job *job = arg;
    uint64_t numbers[GROUP];
    uint8_t nbits[GROUP];
    const uint64_t n = find_remainders(job, g, numbers, nbits);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += nbits[i];
    job->begin[g] = div_up(sum, 8);
}

static void
write_group(void *arg, uint64_t g)
{
    const struct job *job = arg;
    uint64_t numbers[GROUP];
    uint8_t nbits[GROUP];
    const uint64_t n = find_remainders(job, g, numbers, nbits);
    struct bit_writer to = {.to = job->to + job->begin[g]};
    for (uint64_t i = 0; i < n; i++)
        bit_writer_put(&to, numbers[i], nbits[i]);
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
    terp_cpu_memory_free(lossless->pool, job.begin);
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

/* The bits of each point's remainder, and of all. */
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
measure_integers_of(void *arg, uint64_t g)
{
    const struct job *job = arg;
    uint8_t nbits[GROUP];
    job->begin[g] = div_up(find_nbits(job, g, nbits), 8);
}

static void
read_group(void *arg, uint64_t g)
{
    const struct job *job = arg;
    const struct cpu_prediction *lossless = job->lossless;
    uint64_t numbers[GROUP];
    uint8_t nbits[GROUP];
    const uint64_t first = g * GROUP, end = group_end(job, g);
    uint64_t at = 0;
    find_nbits(job, g, nbits);
    for (uint64_t i = 0; i < end - first; i++) {
        numbers[i] = load_bits(job->from + job->begin[g], at, nbits[i]);
        at += nbits[i];
    }
    lossless->stages->join_remainders(
        lossless->work, first, end, &lossless->lossless, numbers, job->values);
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
    terp_cpu_memory_free(lossless->pool, job.begin);
    return st;
}

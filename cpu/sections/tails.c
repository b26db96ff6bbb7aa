/* Writes and reads the section of tails. */
#include "cpu/sections/tails.h"

#include "codec/format/bits.h"
#include "codec/format/low_bits.h"
#include "cpu/sections/low_bits.h"

#define GROUP TERP_LOW_GROUP_NNUMBERS

/* Fewer groups than this are not worth waking the pool for. */
#define MIN_NGROUPS_SHARED 64

/* The task that the threads share. */
struct job {
    const struct cpu_prediction *lorenzo;
    uint8_t *widths_ret; /* writing: their place */
    const uint8_t *widths;
    uint64_t *begin; /* where each group's bytes begin */
    uint8_t *to;
    const uint8_t *from;
};

static uint64_t
nnumbers(const struct job *job, uint64_t group)
{
    return terp_low_group_nnumbers(job->lorenzo->layout->nvalues, group);
}

static enum terp_status
make_job(const struct cpu_prediction *lorenzo, struct job *job_ret)
{
    uint64_t ngroups = terp_low_ngroups(lorenzo->layout->nvalues);

    *job_ret =
        (struct job){.lorenzo = lorenzo,
                     .begin = terp_cpu_memory_make(lorenzo->pool, 8 * ngroups)};
    return job_ret->begin == NULL ? TERP_ERR_MEMORY : TERP_OK;
}

static void
for_groups(const struct job *job, cpu_item *work)
{
    terp_cpu_pool_each(job->lorenzo->pool, work, (void *)job,
                       terp_low_ngroups(job->lorenzo->layout->nvalues),
                       MIN_NGROUPS_SHARED);
}

static uint64_t
place_groups(const struct job *job)
{
    return terp_cpu_place_groups(job->widths, job->lorenzo->layout->nvalues,
                                 job->begin);
}

static void *
quants_of(const struct job *job, uint64_t group)
{
    return (uint8_t *)job->lorenzo->work +
           group * GROUP * (uint64_t)job->lorenzo->stages->value_nbytes;
}

/* ---- writing ---- */

static void
find_numbers(const struct job *job, uint64_t group, uint64_t numbers[GROUP])
{
    job->lorenzo->stages->numbers_of_tails(
        quants_of(job, group), job->lorenzo->symbols + group * GROUP,
        nnumbers(job, group), &job->lorenzo->quantizer, numbers);
}

static void
measure_group(void *arg, uint64_t g)
{
    const struct job *job = arg;
    uint64_t numbers[GROUP];
    uint64_t all = 0;
    find_numbers(job, g, numbers);
    for (uint64_t i = 0; i < nnumbers(job, g); i++)
        all |= numbers[i];
    job->widths_ret[g] = (uint8_t)bit_width(all);
}

static void
write_group(void *arg, uint64_t g)
{
    const struct job *job = arg;
    uint64_t numbers[GROUP];
    const int width = job->widths[g];
    struct bit_writer to = {.to = job->to + job->begin[g]};
    find_numbers(job, g, numbers);
    for (uint64_t i = 0; i < nnumbers(job, g); i++)
        bit_writer_put(&to, numbers[i], width);
    bit_writer_end(&to);
}

enum terp_status
terp_cpu_tails_write(const struct cpu_prediction *lorenzo,
                     struct writer *writer)
{
    struct job job;
    enum terp_status st = make_job(lorenzo, &job);

    if (st != TERP_OK)
        return st;
    job.widths = job.widths_ret =
        writer_take(writer, terp_low_ngroups(lorenzo->layout->nvalues));
    if (job.widths != NULL) {
        for_groups(&job, measure_group);
        job.to = writer_take(writer, place_groups(&job));
        if (job.to != NULL)
            for_groups(&job, write_group);
    }
    terp_cpu_memory_free(lorenzo->pool, job.begin);
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
    const struct job *job = arg;
    uint64_t numbers[GROUP];
    const int width = job->widths[g];
    for (uint64_t i = 0; i < nnumbers(job, g); i++)
        numbers[i] =
            unpack_bits(job->from + job->begin[g], i * (uint64_t)width, width);
    job->lorenzo->stages->tails_of_numbers(numbers, nnumbers(job, g),
                                           quants_of(job, g));
}

enum terp_status
terp_cpu_tails_place(const struct cpu_prediction *lorenzo,
                     const struct cpu_tails_section *section)
{
    struct job job;
    enum terp_status st = make_job(lorenzo, &job);

    if (st != TERP_OK)
        return st;
    job.widths = section->widths;
    job.from = section->at;
    place_groups(&job);
    for_groups(&job, read_group);
    terp_cpu_memory_free(lorenzo->pool, job.begin);
    return TERP_OK;
}

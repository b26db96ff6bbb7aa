/* Writes and reads the section of escapes. The chunk is cut into ranges. The
 * pool's threads first count the escapes of each range, which tells where in
 * the section they begin; then they write or read them. */
#include "cpu/sections/escapes.h"

#include "codec/format/sections.h"

/* The most ranges of a chunk, and the fewest values of a range. */
#define MAX_NPARTS 128
#define MIN_PART_NVALUES 8192

/* The task that the threads share. */
struct job {
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
next_escape(const struct job *job, uint64_t from, uint64_t end)
{
    return cpu_find_escape(job->prediction->symbols, from, end);
}

static uint64_t
part_end(const struct job *job, uint64_t part)
{
    return min_u64((part + 1) * job->part_nvalues,
                   job->prediction->layout->nvalues);
}

static uint8_t *
raw_at(const struct job *job, uint64_t i)
{
    return (uint8_t *)job->prediction->work +
           i * (uint64_t)job->prediction->stages->value_nbytes;
}

/* The number that encodes the raw value at `i`; false if there is none. */
static bool
number_at(const struct job *job, uint64_t i, uint64_t *number_ret)
{
    const struct cpu_stages *stages = job->prediction->stages;
    const uint8_t *raw = raw_at(job, i);
    int64_t integer;

    if (!job->on_grid) {
        uint64_t bits = load_value(raw, stages->value_nbytes);
        integer = stages->value_nbytes == 4 ? (int32_t)bits : (int64_t)bits;
    } else if (!stages->to_grid(raw, &job->grid, &integer)) {
        return false;
    }
    *number_ret = zigzag(integer);
    return true;
}

static void
count_part(void *arg, uint64_t p)
{
    struct job *job = arg;
    struct part part = {.fits = true};
    uint64_t stop = part_end(job, p);
    for (uint64_t i = next_escape(job, p * job->part_nvalues, stop); i < stop;
         i = next_escape(job, i + 1, stop)) {
        uint64_t number = 0;
        part.fits = part.fits && number_at(job, i, &number);
        part.all |= number;
        part.nescapes++;
    }
    job->part[p] = part;
}

/* Makes the task, and returns the number of escapes. */
static uint64_t
count_escapes(const struct cpu_prediction *prediction, bool on_grid,
              struct job *job)
{
    uint64_t nvalues = prediction->layout->nvalues, n = 0;

    job->prediction = prediction;
    job->on_grid = on_grid;
    job->grid = prediction->stages->grid(&prediction->quantizer);
    job->part_nvalues = div_up(nvalues, MAX_NPARTS);
    if (job->part_nvalues < MIN_PART_NVALUES)
        job->part_nvalues = MIN_PART_NVALUES;
    job->nparts = div_up(nvalues, job->part_nvalues);
    terp_cpu_pool_each(prediction->pool, count_part, job, job->nparts, 8);
    for (uint64_t p = 0; p < job->nparts; p++) {
        job->part[p].before = n;
        n += job->part[p].nescapes;
    }
    return n;
}

static void
write_part(void *arg, uint64_t p)
{
    const struct job *job = arg;
    uint64_t i = p * job->part_nvalues, stop = part_end(job, p);
    uint8_t *at = job->to + job->part[p].before * (uint64_t)job->nbytes;
    for (uint64_t left = job->part[p].nescapes; left > 0; left--, i++) {
        uint64_t bits = 0;
        i = next_escape(job, i, stop);
        if (job->number_nbytes == 0)
            bits = load_value(raw_at(job, i), job->nbytes);
        else
            (void)number_at(job, i, &bits);
        store_le(at, bits, job->nbytes);
        at += job->nbytes;
    }
}

void
terp_cpu_escapes_write(const struct cpu_prediction *prediction, bool on_grid,
                       struct writer *writer)
{
    struct job job;
    uint64_t n = count_escapes(prediction, on_grid, &job), all = 0;
    bool fits = true;

    for (uint64_t p = 0; p < job.nparts; p++) {
        all |= job.part[p].all;
        fits &= job.part[p].fits;
    }
    job.number_nbytes = fits ? terp_number_nbytes(all) : 0;
    job.nbytes =
        terp_escape_nbytes(job.number_nbytes, prediction->stages->value_nbytes);
    write_uleb(writer, n);
    if (n == 0)
        return;
    write_le(writer, (uint64_t)job.number_nbytes, 1);
    job.to = writer_take(writer, n * (uint64_t)job.nbytes);
    if (job.to != NULL)
        terp_cpu_pool_each(prediction->pool, write_part, &job, job.nparts, 8);
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
    const struct job *job = arg;
    const struct cpu_stages *stages = job->prediction->stages;
    uint64_t i = p * job->part_nvalues, stop = part_end(job, p);
    const uint8_t *at = job->from + job->part[p].before * (uint64_t)job->nbytes;
    for (uint64_t left = job->part[p].nescapes; left > 0; left--, i++) {
        i = next_escape(job, i, stop);
        uint8_t *raw = raw_at(job, i);
        uint64_t bits = load_le(at, job->nbytes);
        int64_t integer = unzigzag(bits);
        if (job->number_nbytes == 0)
            store_value(raw, bits, job->nbytes);
        else if (!job->on_grid)
            store_value(raw, (uint64_t)integer, stages->value_nbytes);
        else
            stages->from_grid(integer, &job->grid, raw);
        at += job->nbytes;
    }
}

enum terp_status
terp_cpu_escapes_place(const struct cpu_prediction *prediction, bool on_grid,
                       const struct cpu_escape_section *section)
{
    struct job job;
    const uint64_t n = count_escapes(prediction, on_grid, &job);

    if (n > section->nescapes || (n < section->nescapes && !section->goes_on))
        return TERP_ERR_CORRUPT;
    job.number_nbytes = section->number_nbytes;
    job.nbytes = terp_escape_nbytes(section->number_nbytes,
                                    prediction->stages->value_nbytes);
    job.from = section->at;
    if (n > 0)
        terp_cpu_pool_each(prediction->pool, place_part, &job, job.nparts, 8);
    return TERP_OK;
}

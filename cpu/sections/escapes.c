#include "cpu/sections/escapes.h"

/* Symbols are looked through in so many parts, or fewer. */
#define MAX_NPARTS 128
#define MIN_PART_NVALUES 8192

/* What the team does, part by part. */
struct job {
    const struct cpu_escapes *escapes;
    struct cpu_grid grid;
    uint64_t part_nvalues, nparts;
    int number_nbytes;   /* 0: words, not numbers */
    int nbytes;          /* of either */
    uint8_t *to;         /* the section's, when written */
    const uint8_t *from; /* and when read */
    struct part {
        uint64_t nescapes;
        uint64_t before; /* escapes of the parts before it */
        uint64_t all;    /* bits of any number */
        bool fits;       /* every word has a number */
    } part[MAX_NPARTS];
};

static uint64_t
next_escape(const struct job *job, uint64_t from, uint64_t end)
{
    return cpu_find_escape(job->escapes->symbols, from, end);
}

static uint64_t
part_end(const struct job *job, uint64_t part)
{
    return min_u64((part + 1) * job->part_nvalues, job->escapes->nvalues);
}

static uint8_t *
word_at(const struct cpu_escapes *escapes, uint64_t i)
{
    return (uint8_t *)escapes->words +
           i * (uint64_t)escapes->stages->value_nbytes;
}

/* The number that stands for the word at `i`; false if none does. */
static bool
number_at(const struct job *job, uint64_t i, uint64_t *number_ret)
{
    const struct cpu_escapes *escapes = job->escapes;
    const uint8_t *word = word_at(escapes, i);
    int nbytes = escapes->stages->value_nbytes;
    int64_t signed_word;

    if (escapes->quantizer == NULL) {
        uint64_t bits = load_le(word, nbytes);
        signed_word = nbytes == 4 ? (int32_t)bits : (int64_t)bits;
    } else if (!escapes->stages->to_grid(word, &job->grid, &signed_word)) {
        return false;
    }
    *number_ret = zigzag(signed_word);
    return true;
}

static void
survey_parts(void *arg, int id, uint64_t first, uint64_t end)
{
    struct job *job = arg;

    (void)id;
    for (uint64_t p = first; p < end; p++) {
        struct part part = {.fits = true};
        uint64_t stop = part_end(job, p);
        for (uint64_t i = next_escape(job, p * job->part_nvalues, stop);
             i < stop; i = next_escape(job, i + 1, stop)) {
            uint64_t number = 0;
            part.fits = part.fits && number_at(job, i, &number);
            part.all |= number;
            part.nescapes++;
        }
        job->part[p] = part;
    }
}

/* Makes the job and counts escapes; returns how many there are. */
static uint64_t
survey(const struct cpu_escapes *escapes, struct job *job)
{
    uint64_t n = 0;

    job->escapes = escapes;
    job->grid = (struct cpu_grid){.step = 0};
    if (escapes->quantizer != NULL)
        job->grid = escapes->stages->grid(escapes->quantizer);
    job->part_nvalues = div_up(escapes->nvalues, MAX_NPARTS);
    if (job->part_nvalues < MIN_PART_NVALUES)
        job->part_nvalues = MIN_PART_NVALUES;
    job->nparts = div_up(escapes->nvalues, job->part_nvalues);
    terp_cpu_pool_run(escapes->team, survey_parts, job, job->nparts, 8);
    for (uint64_t p = 0; p < job->nparts; p++) {
        job->part[p].before = n;
        n += job->part[p].nescapes;
    }
    return n;
}

static void
write_parts(void *arg, int id, uint64_t first, uint64_t end)
{
    const struct job *job = arg;

    (void)id;
    for (uint64_t p = first; p < end; p++) {
        uint64_t i = p * job->part_nvalues, stop = part_end(job, p);
        uint8_t *at = job->to + job->part[p].before * (uint64_t)job->nbytes;
        for (uint64_t left = job->part[p].nescapes; left > 0; left--, i++) {
            uint64_t bits = 0;
            i = next_escape(job, i, stop);
            if (job->number_nbytes == 0)
                bits = load_le(word_at(job->escapes, i), job->nbytes);
            else
                (void)number_at(job, i, &bits);
            store_le(at, bits, job->nbytes);
            at += job->nbytes;
        }
    }
}

void
terp_cpu_escapes_write(const struct cpu_escapes *escapes, struct writer *writer)
{
    struct job job;
    uint64_t n = survey(escapes, &job), all = 1; /* a byte at least */
    bool fits = true;

    for (uint64_t p = 0; p < job.nparts; p++) {
        all |= job.part[p].all;
        fits &= job.part[p].fits;
    }
    job.number_nbytes = fits ? (bit_width(all) + 7) / 8 : 0;
    job.nbytes = fits ? job.number_nbytes : escapes->stages->value_nbytes;
    write_uleb(writer, n);
    if (n == 0)
        return;
    write_le(writer, (uint64_t)job.number_nbytes, 1);
    job.to = writer_take(writer, n * (uint64_t)job.nbytes);
    if (job.to != NULL)
        terp_cpu_pool_run(escapes->team, write_parts, &job, job.nparts, 8);
}

enum terp_status
terp_cpu_escapes_read(struct reader *reader, uint64_t nvalues, int value_nbytes,
                      struct cpu_escape_section *section_ret)
{
    struct cpu_escape_section section = {.nescapes = read_uleb(reader)};

    if (section.nescapes > 0)
        section.number_nbytes = (int)read_le(reader, 1);
    if (reader->underflow || section.nescapes > nvalues ||
        section.number_nbytes > value_nbytes)
        return TERP_ERR_CORRUPT;
    int nbytes =
        section.number_nbytes == 0 ? value_nbytes : section.number_nbytes;
    section.at = reader_take(reader, section.nescapes * (uint64_t)nbytes);
    *section_ret = section;
    return section.at == NULL ? TERP_ERR_CORRUPT : TERP_OK;
}

static void
place_parts(void *arg, int id, uint64_t first, uint64_t end)
{
    const struct job *job = arg;
    const struct cpu_escapes *escapes = job->escapes;

    (void)id;
    for (uint64_t p = first; p < end; p++) {
        uint64_t i = p * job->part_nvalues, stop = part_end(job, p);
        const uint8_t *at =
            job->from + job->part[p].before * (uint64_t)job->nbytes;
        for (uint64_t left = job->part[p].nescapes; left > 0; left--, i++) {
            i = next_escape(job, i, stop);
            uint8_t *word = word_at(escapes, i);
            uint64_t bits = load_le(at, job->nbytes);
            int64_t signed_word = unzigzag(bits);
            if (job->number_nbytes == 0)
                store_le(word, bits, job->nbytes);
            else if (escapes->quantizer == NULL)
                store_le(word, (uint64_t)signed_word,
                         escapes->stages->value_nbytes);
            else
                escapes->stages->from_grid(signed_word, &job->grid, word);
            at += job->nbytes;
        }
    }
}

enum terp_status
terp_cpu_escapes_place(const struct cpu_escapes *escapes,
                       const struct cpu_escape_section *section)
{
    struct job job;

    if (survey(escapes, &job) != section->nescapes)
        return TERP_ERR_CORRUPT;
    job.number_nbytes = section->number_nbytes;
    job.nbytes = section->number_nbytes == 0 ? escapes->stages->value_nbytes
                                             : section->number_nbytes;
    job.from = section->at;
    if (section->nescapes > 0)
        terp_cpu_pool_run(escapes->team, place_parts, &job, job.nparts, 8);
    return TERP_OK;
}

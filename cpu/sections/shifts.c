/* Writes and reads the section of shifts. A group has the differences of points
 * that are not special, in C order: first the begin of each group is found,
 * then the pool's threads share the groups. */
#include "cpu/sections/shifts.h"

#include "codec/format/base.h"
#include "codec/format/bits.h"

#define GROUP TERP_SHIFT_GROUP_NVALUES

/* Fewer groups than this are not worth waking the pool for. */
#define MIN_NGROUPS_SHARED 64

/* A worker's results for a group. */
struct found {
    uint64_t places[GROUP];
    int64_t differences[GROUP];
};

/* The task that the threads share. */
struct job {
    const struct cpu_prediction *lossless;
    const uint64_t *mask; /* NULL: no point is special */
    uint64_t nvalues;     /* without special values */
    uint64_t ngroups;
    struct found *found; /* per worker */
    void (*work)(const struct job *job, uint64_t group, struct found *found);
    uint64_t *first; /* the first point of each group */
    uint64_t *begin; /* where each group's bytes begin */
    uint8_t *shifts, *zeros;
    bool has_zeros;
    uint8_t *to;
    const uint8_t *from;
};

static uint64_t
group_nvalues(const struct job *job, uint64_t group)
{
    return min_u64(GROUP, job->nvalues - group * GROUP);
}

/* The points of word i that are not special. */
static uint64_t
valid_of_word(const struct job *job, uint64_t i)
{
    const uint64_t nvalues = job->lossless->layout->nvalues;
    const uint64_t all = nvalues - i * 64 < 64
                             ? (UINT64_C(1) << (nvalues - i * 64)) - 1
                             : UINT64_MAX;
    return all & ~job->mask[i];
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
find_groups(struct job *job)
{
    uint64_t n = 0, group = 0;

    if (job->mask == NULL) {
        for (uint64_t g = 0; g < job->ngroups; g++)
            job->first[g] = g * GROUP;
        return;
    }
    for (uint64_t i = 0; i * 64 < job->lossless->layout->nvalues; i++) {
        const uint64_t valid = valid_of_word(job, i);
        const uint64_t more = (uint64_t)__builtin_popcountll(valid);
        if (group < job->ngroups && n + more > group * GROUP)
            job->first[group] = i * 64 + place_of_bit(valid, group * GROUP - n);
        group += group < job->ngroups && n + more > group * GROUP;
        n += more;
    }
}

static enum terp_status
make_job(const struct cpu_prediction *lossless, struct job *job)
{
    const uint64_t nworkers = (uint64_t)terp_cpu_pool_nworkers(lossless->pool);
    const uint64_t nspecials = lossless->nspecials;

    *job = (struct job){.lossless = lossless,
                        .mask = nspecials > 0 ? lossless->mask : NULL,
                        .nvalues = lossless->layout->nvalues - nspecials};
    job->ngroups = div_up(job->nvalues, GROUP);
    job->found = terp_cpu_memory_make(
        lossless->pool, nworkers * sizeof *job->found + 18 * job->ngroups + 1);
    if (job->found == NULL)
        return TERP_ERR_MEMORY;
    job->first = (uint64_t *)(job->found + nworkers);
    job->begin = job->first + job->ngroups;
    job->shifts = (uint8_t *)(job->begin + job->ngroups);
    job->zeros = job->shifts + job->ngroups;
    find_groups(job);
    return TERP_OK;
}

static void
free_job(struct job *job)
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

/* Lists the points of a group, and returns their number. */
static uint64_t
points_of(const struct job *job, uint64_t group, uint64_t places[GROUP])
{
    const uint64_t n = group_nvalues(job, group);
    uint64_t at = job->first[group], i = 0;

    if (job->mask == NULL) {
        for (; i < n; i++)
            places[i] = at + i;
        return n;
    }
    uint64_t valid = valid_of_word(job, at / 64) >> at % 64 << at % 64;
    for (at -= at % 64; i < n; valid &= valid - 1) {
        while (valid == 0) {
            at += 64;
            valid = valid_of_word(job, at / 64);
        }
        places[i++] = at + (uint64_t)__builtin_ctzll(valid);
    }
    return n;
}

static uint64_t
place_groups(const struct job *job)
{
    uint64_t nbytes = 0;

    for (uint64_t g = 0; g < job->ngroups; g++) {
        job->begin[g] = nbytes;
        nbytes += packed_nbytes(group_nvalues(job, g), job->shifts[g]);
    }
    return nbytes;
}

/* ---- writing ---- */

static void
measure_group(const struct job *job, uint64_t g, struct found *found)
{
    const struct cpu_prediction *lossless = job->lossless;
    const int value_nbytes = lossless->stages->value_nbytes;
    const int max_code = lossless->quantizer.max_code;
    uint64_t *restrict places = found->places;
    int64_t *restrict differences = found->differences;
    const uint64_t n = points_of(job, g, places);
    uint16_t counts[TERP_NWIDTHS] = {0};
    uint64_t all = 0, cost;
    lossless->stages->gather(lossless->work, places, n, differences);
    for (uint64_t i = 0; i < n; i++)
        all |= (uint64_t)differences[i];
    const int nzeros = all == 0 || !job->has_zeros ? 0 : __builtin_ctzll(all);
    for (uint64_t i = 0; i < n; i++) {
        differences[i] >>= nzeros;
        counts[terp_width_of_difference(differences[i])]++;
    }
    const int shift =
        terp_shift_of_group(counts, terp_max_shift(value_nbytes),
                            lossless->quantizer.escape_nbytes, &cost);
    job->zeros[g] = (uint8_t)nzeros;
    job->shifts[g] = (uint8_t)shift;
    for (uint64_t i = 0; i < n; i++) {
        const int64_t code = terp_code_above_shift(differences[i], shift);
        lossless->symbols[places[i]] = code < -max_code || code > max_code
                                           ? TERP_ESCAPE
                                           : (uint16_t)(code + TERP_RADIUS);
    }
}

/* Whether storing the numbers of trailing zeros saves more bits than they
 * take. */
static bool
zeros_pay(const struct job *job, int width, bool *any_ret)
{
    uint64_t saved = 0;

    for (uint64_t g = 0; g < job->ngroups; g++)
        saved += job->zeros[g] * group_nvalues(job, g);
    *any_ret = saved > 0;
    return saved > job->ngroups * (uint64_t)width;
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
write_group(const struct job *job, uint64_t g, struct found *found)
{
    const struct cpu_prediction *lossless = job->lossless;
    uint64_t *restrict places = found->places;
    int64_t *restrict differences = found->differences;
    const uint64_t n = points_of(job, g, places);
    const int shift = job->shifts[g];
    struct bit_writer to = {.to = job->to + job->begin[g]};
    lossless->stages->gather(lossless->work, places, n, differences);
    for (uint64_t i = 0; i < n; i++) {
        const int64_t difference = differences[i] >> job->zeros[g];
        const uint64_t below = lossless->symbols[places[i]] == TERP_ESCAPE
                                   ? 0
                                   : terp_number_below_shift(difference, shift);
        bit_writer_put(&to, below, shift);
    }
    bit_writer_end(&to);
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
    struct job job;
    enum terp_status st = make_job(lossless, &job);

    if (st != TERP_OK)
        return st;
    if (job.mask != NULL)
        for (uint64_t i = 0; i < nvalues; i++)
            lossless->symbols[i] = TERP_RADIUS;
    job.has_zeros = true;
    for_groups(&job, measure_group);
    bool any;
    job.has_zeros = zeros_pay(&job, width, &any);
    if (any && !job.has_zeros)
        for_groups(&job, measure_group);
    const bool has_shifts = any_of(job.shifts, job.ngroups);
    write_le(writer,
             (has_shifts ? TERP_SHIFTS_SHIFTS : 0) |
                 (job.has_zeros ? TERP_SHIFTS_ZEROS : 0),
             1);
    if (has_shifts)
        write_numbers(job.shifts, job.ngroups, width, writer);
    if (job.has_zeros)
        write_numbers(job.zeros, job.ngroups, width, writer);
    job.to = writer_take(writer, place_groups(&job));
    if (job.to != NULL)
        for_groups(&job, write_group);
    free_job(&job);
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
read_group(const struct job *job, uint64_t g, struct found *found)
{
    const struct cpu_prediction *lossless = job->lossless;
    uint64_t *restrict places = found->places;
    int64_t *restrict differences = found->differences;
    const uint64_t n = points_of(job, g, places);
    const int shift = job->shifts[g];
    const uint8_t *from = job->from + job->begin[g];
    for (uint64_t i = 0; i < n; i++) {
        const int64_t code =
            (int64_t)lossless->symbols[places[i]] - TERP_RADIUS;
        const uint64_t below = load_bits(from, i * (uint64_t)shift, shift);
        differences[i] =
            (int64_t)(terp_join_shift(code, below, shift) << job->zeros[g]);
    }
    lossless->stages->scatter(differences, places, n, lossless->work);
}

enum terp_status
terp_cpu_shifts_place(const struct cpu_prediction *lossless,
                      const struct cpu_shifts_section *section)
{
    const int width = terp_shift_nbits(lossless->stages->value_nbytes);
    struct job job;
    enum terp_status st = make_job(lossless, &job);

    if (st != TERP_OK)
        return st;
    for (uint64_t g = 0; g < job.ngroups; g++) {
        job.shifts[g] = (uint8_t)number_of_group(section->shifts, g, width);
        job.zeros[g] = (uint8_t)number_of_group(section->zeros, g, width);
    }
    job.from = section->at;
    place_groups(&job);
    for_groups(&job, read_group);
    free_job(&job);
    return TERP_OK;
}

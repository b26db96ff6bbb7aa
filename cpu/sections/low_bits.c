/* The section of low bits, written and read. */
#include "cpu/sections/low_bits.h"

#include "codec/format/low_bits.h"

#define GROUP TERP_LOW_GROUP_NNUMBERS

/* Fewer groups than this are not worth waking the pool for. */
#define MIN_NGROUPS_SHARED 64

/* What the threads share. */
struct job {
    int low_nbits;
    uint64_t nsymbols;
    uint16_t *symbols;
    uint8_t *width;  /* of each group */
    uint64_t *begin; /* of each group, among the bytes of all */
    uint8_t *to;
    const uint8_t *from;
};

static bool
make_job(struct cpu_pool *pool, int low_nbits, uint64_t nsymbols,
         uint16_t *symbols, struct job *job_ret)
{
    const uint64_t ngroups = terp_low_ngroups(nsymbols);
    uint64_t *begin = terp_cpu_memory_make(pool, ngroups * (sizeof *begin + 1));

    if (begin == NULL)
        return false;
    *job_ret = (struct job){.low_nbits = low_nbits,
                            .nsymbols = nsymbols,
                            .symbols = symbols,
                            .begin = begin,
                            .width = (uint8_t *)(begin + ngroups)};
    return true;
}

uint64_t
terp_cpu_place_groups(const uint8_t *widths, uint64_t nnumbers,
                      uint64_t *begin_ret)
{
    uint64_t nbytes = 0;

    for (uint64_t g = 0; g < terp_low_ngroups(nnumbers); g++) {
        begin_ret[g] = nbytes;
        nbytes += terp_low_group_nbytes(nnumbers, g, widths[g]);
    }
    return nbytes;
}

/* ---- writing ---- */

static void
measure_groups(void *arg, struct cpu_share share)
{
    const struct job *job = arg;

    for (uint64_t g = share.first; g < share.end; g++) {
        const uint16_t *symbols = job->symbols + g * GROUP;
        uint64_t n = terp_low_group_nnumbers(job->nsymbols, g);
        unsigned all = 0, low;
        for (uint64_t i = 0; i < n; i++) {
            terp_low_split(symbols[i], job->low_nbits, &low);
            all |= low;
        }
        job->width[g] = (uint8_t)bit_width(all);
    }
}

static void
split_groups(void *arg, struct cpu_share share)
{
    const struct job *job = arg;

    for (uint64_t g = share.first; g < share.end; g++) {
        uint16_t *symbols = job->symbols + g * GROUP;
        uint64_t n = terp_low_group_nnumbers(job->nsymbols, g), bits = 0;
        uint8_t *to = job->to + job->begin[g];
        int nbits = 0;
        for (uint64_t i = 0; i < n; i++) {
            unsigned low;
            symbols[i] =
                (uint16_t)terp_low_split(symbols[i], job->low_nbits, &low);
            bits |= (uint64_t)low << nbits;
            for (nbits += job->width[g]; nbits >= 32;
                 nbits -= 32, bits >>= 32) {
                store_le(to, bits, 4);
                to += 4;
            }
        }
        store_le(to, bits, (nbits + 7) / 8);
    }
}

enum terp_status
terp_cpu_low_bits_split(struct cpu_pool *pool, int low_nbits, uint64_t nsymbols,
                        uint16_t *symbols, struct writer *writer)
{
    const uint64_t ngroups = terp_low_ngroups(nsymbols);
    struct job job;

    if (!make_job(pool, low_nbits, nsymbols, symbols, &job))
        return TERP_ERR_MEMORY;
    terp_cpu_pool_run(pool, measure_groups, &job, ngroups, MIN_NGROUPS_SHARED);
    uint8_t *widths = writer_take_packed(writer, ngroups, TERP_LOW_WIDTH_NBITS);
    job.to = writer_take(writer,
                         terp_cpu_place_groups(job.width, nsymbols, job.begin));
    if (job.to != NULL) {
        for (uint64_t g = 0; g < ngroups; g++)
            pack_bits(widths, g * TERP_LOW_WIDTH_NBITS, TERP_LOW_WIDTH_NBITS,
                      job.width[g]);
        terp_cpu_pool_run(pool, split_groups, &job, ngroups,
                          MIN_NGROUPS_SHARED);
    }
    terp_cpu_memory_free(pool, job.begin);
    return writer->overflow ? TERP_ERR_CAPACITY : TERP_OK;
}

/* ---- reading ---- */

static int
width_at(const uint8_t *widths, uint64_t group)
{
    return (int)unpack_bits(widths, group * TERP_LOW_WIDTH_NBITS,
                            TERP_LOW_WIDTH_NBITS);
}

enum terp_status
terp_cpu_low_bits_read(struct reader *reader, int low_nbits, uint64_t nsymbols,
                       struct cpu_low_bits_section *section_ret)
{
    const uint64_t ngroups = terp_low_ngroups(nsymbols);
    uint64_t nbytes = 0;

    section_ret->widths =
        reader_take(reader, packed_nbytes(ngroups, TERP_LOW_WIDTH_NBITS));
    if (section_ret->widths == NULL)
        return TERP_ERR_CORRUPT;
    for (uint64_t g = 0; g < ngroups; g++) {
        int width = width_at(section_ret->widths, g);
        if (width > low_nbits)
            return TERP_ERR_CORRUPT;
        nbytes += terp_low_group_nbytes(nsymbols, g, width);
    }
    section_ret->at = reader_take(reader, nbytes);
    return section_ret->at == NULL ? TERP_ERR_CORRUPT : TERP_OK;
}

static void
join_groups(void *arg, struct cpu_share share)
{
    const struct job *job = arg;

    for (uint64_t g = share.first; g < share.end; g++) {
        uint16_t *symbols = job->symbols + g * GROUP;
        const int width = job->width[g];
        uint64_t n = terp_low_group_nnumbers(job->nsymbols, g), bits = 0;
        uint64_t nbytes = terp_low_group_nbytes(job->nsymbols, g, width);
        const uint8_t *from = job->from + job->begin[g];
        int nbits = 0;
        for (uint64_t i = 0; i < n; i++) {
            if (nbits < width) {
                int more = (int)min_u64(4, nbytes);
                bits |= load_le(from, more) << nbits;
                from += more;
                nbytes -= (uint64_t)more;
                nbits += 8 * more;
            }
            symbols[i] = (uint16_t)terp_low_join(
                symbols[i], (unsigned)bits & ((1u << width) - 1),
                job->low_nbits);
            bits >>= width;
            nbits -= width;
        }
    }
}

enum terp_status
terp_cpu_low_bits_join(struct cpu_pool *pool, int low_nbits, uint64_t nsymbols,
                       const struct cpu_low_bits_section *section,
                       uint16_t *symbols)
{
    const uint64_t ngroups = terp_low_ngroups(nsymbols);
    struct job job;

    if (!make_job(pool, low_nbits, nsymbols, symbols, &job))
        return TERP_ERR_MEMORY;
    for (uint64_t g = 0; g < ngroups; g++)
        job.width[g] = (uint8_t)width_at(section->widths, g);
    terp_cpu_place_groups(job.width, nsymbols, job.begin);
    job.from = section->at;
    terp_cpu_pool_run(pool, join_groups, &job, ngroups, MIN_NGROUPS_SHARED);
    terp_cpu_memory_free(pool, job.begin);
    return TERP_OK;
}

/* Finds the special values of a chunk and the range of all others. An extreme
 * that is far from all other values, and repeats, is guessed to be a fill
 * value, and the scan is repeated without it. If the caller names two fill
 * values, no others are looked for. Guessed fill values count for the range of
 * the bound unless they are usual ones (codec/model/fills.h). */
#include "cpu/predict/predictor.h"

#include <stdatomic.h>

#include "codec/format/base.h"
#include "codec/model/range.h"

/* Ranges that the pool scans. */
#define NPARTS 64

/* Values that are probed before the result is checked. */
#define PROBE_NVALUES UINT64_C(4096)

struct scan {
    const struct cpu_stages *stages;
    struct cpu_pool *pool;
    const uint8_t *values;
    uint64_t nvalues, part_nvalues, nparts;
    struct cpu_fills fills;
    struct cpu_stats stats; /* of all values */
    struct cpu_stats part[NPARTS];
    /* Whether some value is near an extreme. */
    atomic_bool near_min, near_max;
};

static void
scan_values(const struct scan *scan, uint64_t at, uint64_t nvalues,
            struct cpu_stats *stats_ret)
{
    const struct cpu_stages *stages = scan->stages;

    stages->scan(scan->values + at * (uint64_t)stages->value_nbytes, nvalues,
                 &scan->fills, stats_ret);
}

static void
scan_part(void *arg, uint64_t p)
{
    struct scan *scan = arg;
    uint64_t at = p * scan->part_nvalues;
    scan_values(scan, at, min_u64(scan->part_nvalues, scan->nvalues - at),
                &scan->part[p]);
}

static void
scan_all(struct scan *scan)
{
    terp_cpu_pool_each(scan->pool, scan_part, scan, scan->nparts, 2);
    scan->stats = scan->part[0];
    for (uint64_t p = 1; p < scan->nparts; p++)
        cpu_stats_add(&scan->stats, &scan->part[p]);
}

/* Probes values that are not extreme until some value is known to be near each
 * extreme: in most chunks the first values suffice. */
static void
probe_inner(void *arg, struct cpu_share share)
{
    struct scan *scan = arg;
    double min = scan->stats.min, max = scan->stats.max;
    uint64_t stop = min_u64(share.end * scan->part_nvalues, scan->nvalues);
    struct cpu_stats inner;

    for (uint64_t at = share.first * scan->part_nvalues; at < stop;
         at += PROBE_NVALUES) {
        if (atomic_load(&scan->near_min) && atomic_load(&scan->near_max))
            return;
        scan_values(scan, at, min_u64(PROBE_NVALUES, stop - at), &inner);
        if (inner.min > inner.max)
            continue; /* every value here is extreme or special */
        if (terp_is_near_min(inner.min, min, max))
            atomic_store(&scan->near_min, true);
        if (terp_is_near_max(inner.max, min, max))
            atomic_store(&scan->near_max, true);
    }
}

/* Takes an extreme for a fill value if it is far from all other values and
 * repeats. Returns how often it occurs then, else 0. */
static uint64_t
try_fill(struct scan *scan, double extreme, int slot)
{
    struct cpu_stats before = scan->stats;
    uint64_t bits = scan->fills.bits[slot];

    scan->fills.bits[slot] = cpu_value_bits(scan->stages, extreme);
    scan_all(scan);
    const uint64_t n = scan->stats.nspecials - before.nspecials;
    if (n >= TERP_FILL_MIN_REPEATS)
        return n;
    scan->fills.bits[slot] = bits;
    scan->stats = before;
    return 0;
}

void
terp_cpu_scan(const struct cpu_stages *stages, struct cpu_pool *pool,
              enum terp_type type, const void *values, uint64_t nvalues,
              struct cpu_fills *fills, struct cpu_stats *stats_ret,
              struct terp_bound_range *range_ret)
{
    struct scan scan = {.stages = stages,
                        .pool = pool,
                        .values = values,
                        .nvalues = nvalues,
                        .part_nvalues = div_up(nvalues, NPARTS),
                        .fills = *fills};

    scan.nparts = div_up(nvalues, scan.part_nvalues);
    scan_all(&scan);
    double min = scan.stats.min, max = scan.stats.max;
    uint64_t nmin = 0, nmax = 0;
    if (min <= max && fills->bits[1] == stages->negative_zero_bits) {
        scan.fills.bits[1] = cpu_value_bits(stages, min);
        scan.fills.bits[2] = cpu_value_bits(stages, max);
        terp_cpu_pool_run(pool, probe_inner, &scan, scan.nparts, 2);
        scan.fills = *fills;
        if (!atomic_load(&scan.near_min))
            nmin = try_fill(&scan, min, 1);
        if (!atomic_load(&scan.near_max))
            nmax = try_fill(&scan, max, 2);
    }
    *fills = scan.fills;
    *stats_ret = scan.stats;
    *range_ret = (struct terp_bound_range){scan.stats.min, scan.stats.max, 0};
    if (nmin > 0)
        terp_bound_range_add(range_ret, type, min, nmin);
    if (nmax > 0)
        terp_bound_range_add(range_ret, type, max, nmax);
}

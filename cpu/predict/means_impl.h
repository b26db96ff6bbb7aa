/* The part of cpu/predict/stages_impl.h for lorenzo's means. Lines are
 * handled side by side, as many at a time as keep the integers of a mean in
 * the cache. */
#define STRIP_NVALUES TERP_LORENZO_NVALUES

/* Finds the predictions of line i of `n` lines side by side, i > 0. */
static void
find_means(const WORD *quants, uint64_t i, uint64_t extent, uint64_t stride,
           uint64_t n, WORD *restrict means)
{
    const uint64_t step = terp_means_step(i);
    WORD count = 0;

    memset(means, 0, n * sizeof *means);
    for (uint64_t k = 1; k < TERP_MEANS_REACH; k += 2) {
        const uint64_t distance = k * step;
        if (distance <= i) {
            const WORD *before = quants + (i - distance) * stride;
            for (uint64_t j = 0; j < n; j++)
                means[j] += before[j];
            count++;
        }
        if (distance < extent - i) {
            const WORD *after = quants + (i + distance) * stride;
            for (uint64_t j = 0; j < n; j++)
                means[j] += after[j];
            count++;
        }
    }
    for (uint64_t j = 0; j < n; j++)
        means[j] = mean_of_quants(means[j], count);
}

/* Subtracts the means of a step; with `adds`, a constant, adds them. */
TERP_INLINE void
take_step(WORD *quants, uint64_t step, uint64_t extent, uint64_t stride,
          uint64_t n, bool adds)
{
    WORD means[STRIP_NVALUES];

    for (uint64_t i = step; i < extent; i += 2 * step) {
        WORD *to = quants + i * stride;
        find_means(quants, i, extent, stride, n, means);
        for (uint64_t j = 0; j < n; j++)
            to[j] += adds ? means[j] : 0 - means[j];
    }
}

/* Subtracts means along the lines of one brick, which lie side by side. */
static void
subtract_means(WORD *quants, uint64_t extent, uint64_t stride, uint64_t n)
{
    /* From fine to coarse, so that the coarser integers are still unchanged. */
    for (uint64_t step = 1; step < extent; step *= 2)
        take_step(quants, step, extent, stride, n, false);
}

static void
add_means(WORD *quants, uint64_t extent, uint64_t stride, uint64_t n)
{
    for (uint64_t step = terp_means_first_step(extent); step > 0; step /= 2)
        take_step(quants, step, extent, stride, n, true);
}

/* Handles all lines, a strip at a time. */
static void
for_strips(void *inout, struct cpu_axis axis,
           void (*take)(WORD *quants, uint64_t extent, uint64_t stride,
                        uint64_t n))
{
    for (uint64_t o = 0; o < axis.nouter; o++)
        for (uint64_t at = axis.begin; at < axis.end; at += STRIP_NVALUES)
            take((WORD *)inout + o * axis.extent * axis.ninner + at,
                 axis.extent, axis.ninner,
                 min_u64(STRIP_NVALUES, axis.end - at));
}

static void
difference_means(void *inout, struct cpu_axis axis)
{
    for_strips(inout, axis, subtract_means);
}

static void
accumulate_means(void *inout, struct cpu_axis axis)
{
    for_strips(inout, axis, add_means);
}

static void
weigh_means(const void *line, uint64_t i, struct cpu_axis axis, uint64_t n,
            int low_nbits, uint64_t *differences, uint64_t *codes)
{
    const WORD *quants = line, *own = quants + i * axis.ninner;
    WORD means[STRIP_NVALUES] = {0};

    if (i > 0)
        find_means(quants, i, axis.extent, axis.ninner, n, means);
    for (uint64_t j = 0; j < n; j++) {
        WORD before = i > 0 ? (own - axis.ninner)[j] : 0;
        *differences += weight_of_difference(own[j] - before, low_nbits);
        *codes += weight_of_difference(own[j] - means[j], low_nbits);
    }
}

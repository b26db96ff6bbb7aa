/* The part of cpu/predict/stages_impl.h for the lossless prediction: converts
 * values to integers and remainders and back, gathers differences in groups,
 * and estimates the widths of differences on samples. */

static struct lossless_quants
quants_of_model(const struct cpu_lossless *model)
{
    return lossless_quants_of(model->exact, model->form);
}

/* Returns a bit for each of `n` values, at most 64, that its integer and
 * remainder do not hold. */
static uint64_t
lossless_misses(const T *values, uint64_t n, struct lossless_quants k)
{
    uint64_t misses = 0;

    for (uint64_t j = 0; j < n; j++) {
        WORD remainder;
        bool fits;
        (void)lossless_quant_of(values[j], k, &remainder, &fits);
        misses |= (uint64_t)!fits << j;
    }
    return misses;
}

static uint64_t
lossless_quantize(const void *src, uint64_t nvalues,
                  const struct cpu_lossless *model, uint64_t *mask_words,
                  void *quants_ret)
{
    const struct lossless_quants k = quants_of_model(model);
    const bool fits_all = lossless_fits_all(k);
    const WORD center = (WORD)model->center;
    const T *values = src;
    INT *restrict quants = quants_ret;
    uint64_t nunpredictable = 0;

    for (uint64_t at = 0; at < nvalues; at += 64) {
        const uint64_t n = min_u64(64, nvalues - at);
        for (uint64_t i = at; i < at + n; i++)
            quants[i] = (INT)((WORD)lossless_integer_of(values[i], k) - center);
        nunpredictable +=
            set_aside(fits_all ? 0 : lossless_misses(values + at, n, k),
                      &mask_words[at / 64], quants + at, n);
    }
    return nunpredictable;
}

static uint64_t
count_unpredictable(const void *src, uint64_t nvalues,
                    const struct cpu_fills *fills,
                    const struct cpu_lossless *model)
{
    const struct lossless_quants k = quants_of_model(model);
    const T *values = src;
    WORD fill[TERP_NFILLS];
    uint64_t n = 0;

    if (lossless_fits_all(k))
        return 0;
    fill_words_of(fills, fill);
    for (uint64_t i = 0; i < nvalues; i++) {
        WORD remainder;
        bool fits;
        (void)lossless_quant_of(values[i], k, &remainder, &fits);
        n += !fits && !is_special(values[i], fill);
    }
    return n;
}

/* Integer i, with the center added back. */
TERP_INLINE INT
quant_at(const INT *quants, uint64_t i, const struct cpu_lossless *model)
{
    return (INT)((WORD)quants[i] + (WORD)model->center);
}

static void
lossless_restore(const void *quants_in, uint64_t nvalues,
                 const struct cpu_lossless *model, void *dst)
{
    const struct lossless_quants k = quants_of_model(model);
    const INT *quants = quants_in;
    T *values = dst;

    for (uint64_t i = 0; i < nvalues; i++)
        values[i] = value_of_lossless(quant_at(quants, i, model), 0, k);
}

/* ---- samples ---- */

#define SAMPLE_NVALUES TERP_LOSSLESS_RUN_NVALUES
#define HALO TERP_LOSSLESS_MAX_ORDER
#define ROW_NVALUES (SAMPLE_NVALUES + HALO)

/* Makes the integers of `n` values of a row. A special point repeats the
 * integer before it, or the first integer of the row if none is before. Returns
 * false if all points are special. */
static bool
sample_row(const T *values, uint64_t n, const WORD *fills,
           struct lossless_quants k, WORD center, WORD *restrict quants)
{
    uint64_t nleading = 0;
    WORD nspecials = 0;

    for (uint64_t i = 0; i < n; i++) {
        nspecials += is_special(values[i], fills);
        quants[i] = (WORD)lossless_integer_of(values[i], k) - center;
    }
    if (nspecials == 0)
        return true;
    for (uint64_t i = 0; i < n; i++) {
        WORD remainder;
        bool fits;
        if (!is_special(values[i], fills))
            quants[i] =
                (WORD)lossless_quant_of(values[i], k, &remainder, &fits) -
                center;
        else if (i > nleading)
            quants[i] = quants[i - 1];
        else
            nleading++;
    }
    for (uint64_t i = 0; i < nleading && nleading < n; i++)
        quants[i] = quants[nleading];
    return nleading < n;
}

/* Takes differences of an order (0 to 2) between rows that are `nrows` apart;
 * the latest rows come first. */
static void
take_order(WORD (*rows)[ROW_NVALUES], uint64_t nrows, int order,
           WORD (*restrict to)[ROW_NVALUES])
{
    for (uint64_t r = 0; r < nrows; r++) {
        const WORD *a = rows[r], *b = rows[r + nrows], *c = rows[r + 2 * nrows];
        for (int i = 0; i < ROW_NVALUES; i++)
            to[r][i] = order == 0   ? a[i]
                       : order == 1 ? a[i] - b[i]
                                    : a[i] - 2 * b[i] + c[i];
    }
}

/* The rows that a sample needs, the latest first: [3][3][3] along dimensions 3
 * to 1. */
struct sample {
    WORD rows[27][ROW_NVALUES];
    uint64_t n;
    WORD counted[SAMPLE_NVALUES]; /* all bits: the value counts; else 0 */
    uint64_t ncounted, remainder_nbits;
};

static void
count_values(const T *values, const WORD *fills, struct lossless_quants k,
             struct sample *sample)
{
    WORD nbits = 0, ncounted = 0;

    for (uint64_t i = 0; i < sample->n; i++) {
        const WORD counts = !is_special(values[i], fills);
        sample->counted[i] = 0 - counts;
        nbits += nbits_of_values_remainder(values[i], k) & (0 - counts);
        ncounted += counts;
    }
    sample->remainder_nbits += nbits;
    sample->ncounted += ncounted;
}

/* A sample, and its differences along the slower dimensions. */
struct weighing {
    struct sample sample;
    WORD of_3[9][ROW_NVALUES], of_2[3][ROW_NVALUES], of_1[1][ROW_NVALUES];
};
_Static_assert(sizeof(struct weighing) <= CPU_LOSSLESS_SCRATCH_NBYTES,
               "There is room for it.");

/* False if a row has special values alone. */
static bool
take_sample(const void *src, const struct terp_layout *layout,
            const struct cpu_fills *fills, const struct cpu_lossless *model,
            const struct terp_lossless_run *run, struct sample *sample)
{
    const struct lossless_quants k = quants_of_model(model);
    const T *values = (const T *)src + run->at;
    uint64_t stride[TERP_NDIMS] = {1};
    WORD fill[TERP_NFILLS];

    fill_words_of(fills, fill);
    for (int d = 1; d < TERP_NDIMS; d++)
        stride[d] = stride[d - 1] * layout->dims[d - 1];
    memset(sample, 0, sizeof *sample);
    sample->n = run->n;
    for (int r = 0; r < 27; r++) {
        const int step[3] = {r % 3, r / 3 % 3, r / 9};
        const T *row = values;
        if (step[0] > run->most[1] || step[1] > run->most[2] ||
            step[2] > run->most[3])
            continue;
        for (int d = 1; d < TERP_NDIMS; d++)
            row -= (uint64_t)step[d - 1] * stride[d];
        if (!sample_row(row - run->most[0], run->n + (uint64_t)run->most[0],
                        fill, k, (WORD)model->center,
                        sample->rows[r] + HALO - run->most[0]))
            return false;
    }
    count_values(values, fill, k, sample);
    return true;
}

/* Difference i along the row, of differences along the slower dimensions. */
TERP_INLINE WORD
last_difference(const WORD *row, uint64_t i, int order)
{
    const WORD *at = row + HALO + i;

    return order == 0   ? at[0]
           : order == 1 ? at[0] - at[-1]
                        : at[0] - 2 * at[-1] + at[-2];
}

/* bit_width() of a magnitude, at most 2^(width of the type - 1), which becomes
 * vectors for integers of 32 bits. A float's exponent tells it, if the second
 * highest bit is 0 and nothing is rounded up. */
TERP_INLINE WORD
width_of(WORD word)
{
#if TERP_VALUE_NBYTES == 4
    const INT below_1 = 126;
    const INT exponent =
        (INT)(bits_of((T)(INT)(word & ~(word >> 1))) << 1 >> 24);

    return (WORD)(exponent > below_1 ? exponent - below_1 : 0);
#else
    return (WORD)bit_width(word);
#endif
}

/* Adds up the bits of differences, without the zeros that all of them end
 * in. */
static uint64_t
sum_of_widths(const struct sample *sample, const WORD *row, int order)
{
    WORD all = 0, nnonzero = 0, sum = 0;

    for (uint64_t i = 0; i < sample->n; i++) {
        const WORD d = last_difference(row, i, order) & sample->counted[i];
        const WORD nonzero = d != 0;
        all |= d;
        nnonzero += nonzero;
        sum += width_of(d ^ (0 - (d >> (8 * sizeof(WORD) - 1)))) + nonzero;
    }
    const struct terp_lossless_widths widths = {
        .all = all, .nnonzero = nnonzero, .sum = sum};
    return terp_lossless_nbits_of(widths, all == 0 ? 0 : __builtin_ctzll(all));
}

static void
weigh_orders(const void *src, const struct terp_layout *layout,
             const struct cpu_fills *fills, const struct cpu_lossless *model,
             const struct terp_lossless_run *run, void *scratch,
             struct cpu_order_weights *weights)
{
    struct weighing *w = scratch;
    struct sample *sample = &w->sample;
    const int *most = run->most;
    int order[TERP_NDIMS];

    if (!take_sample(src, layout, fills, model, run, sample))
        return;
    weights->nsampled += sample->ncounted;
    weights->remainder_nbits += sample->remainder_nbits;
    for (order[3] = 0; order[3] <= most[3]; order[3]++) {
        take_order(sample->rows, 9, order[3], w->of_3);
        for (order[2] = 0; order[2] <= most[2]; order[2]++) {
            take_order(w->of_3, 3, order[2], w->of_2);
            for (order[1] = 0; order[1] <= most[1]; order[1]++) {
                uint64_t *nbits =
                    weights->nbits +
                    3 * (order[1] + 3 * (order[2] + 3 * order[3]));
                take_order(w->of_2, 1, order[1], w->of_1);
                for (order[0] = 0; order[0] <= most[0]; order[0]++)
                    nbits[order[0]] +=
                        sum_of_widths(sample, w->of_1[0], order[0]);
            }
        }
    }
}

static uint64_t
cost_of_run(const void *src, const struct terp_layout *layout,
            const struct cpu_fills *fills, const struct cpu_lossless *model,
            const struct terp_lossless_run *run, void *scratch)
{
    struct weighing *w = scratch;
    struct sample *sample = &w->sample;
    const WORD *row = w->of_1[0];
    uint16_t counts[TERP_NWIDTHS] = {0};
    struct terp_lossless_run own = *run;
    int order[TERP_NDIMS];
    WORD all = 0;

    terp_lossless_order_of(model->dims, order);
    memcpy(own.most, order, sizeof own.most);
    if (!take_sample(src, layout, fills, model, &own, sample))
        return 0;
    take_order(sample->rows, 9, order[3], w->of_3);
    take_order(w->of_3, 3, order[2], w->of_2);
    take_order(w->of_2, 1, order[1], w->of_1);
    for (uint64_t i = 0; i < sample->n; i++)
        all |= last_difference(row, i, order[0]) & sample->counted[i];
    const int nzeros = all == 0 ? 0 : __builtin_ctzll(all);
    for (uint64_t i = 0; i < sample->n; i++) {
        const WORD d = last_difference(row, i, order[0]);
        const WORD opposite = 0 - d;
        if (sample->counted[i] != 0)
            counts[bit_width((d < opposite ? d : opposite) >> nzeros)]++;
    }
    uint64_t cost;
    const int shift = terp_shift_of_group(
        counts, terp_max_shift(TERP_VALUE_NBYTES), TERP_VALUE_NBYTES, &cost);
    return 16 * sample->remainder_nbits +
           terp_cost_of_group(counts, shift, cost);
}

static int
compare_integers(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int64_t
center(const void *src, uint64_t nvalues, const struct cpu_fills *fills,
       const struct cpu_lossless *model, void *scratch)
{
    const struct lossless_quants k = quants_of_model(model);
    const T *values = src;
    int64_t *samples = scratch;
    WORD fill[TERP_NFILLS];
    size_t n = 0;

    fill_words_of(fills, fill);
    for (uint64_t i = 0; i < TERP_COMMON_VALUE_NRUNS; i++) {
        const T value = values[terp_common_value_run_at(nvalues, i)];
        WORD remainder;
        bool fits;
        if (!is_special(value, fill))
            samples[n++] = lossless_quant_of(value, k, &remainder, &fits);
    }
    qsort(samples, n, sizeof *samples, compare_integers);
    return n == 0 ? 0 : terp_lossless_center_of(samples[n / 2]);
}

/* ---- common values ---- */

/* Counts the runs whose first value is `word`. */
static uint64_t
count_alike(const WORD firsts[TERP_COMMON_VALUE_NRUNS], WORD word)
{
    uint64_t n = 0;

    for (int i = 0; i < TERP_COMMON_VALUE_NRUNS; i++)
        n += firsts[i] == word;
    return n;
}

static bool
common_value(const void *src, uint64_t nvalues, const struct cpu_fills *fills,
             uint64_t *bits_ret)
{
    const T *values = src;
    WORD fill[TERP_NFILLS], firsts[TERP_COMMON_VALUE_NRUNS], found = 0;
    uint64_t most = 0, nsampled = 0, nruns = 0, nfound = 0;

    fill_words_of(fills, fill);
    for (uint64_t i = 0; i < TERP_COMMON_VALUE_NRUNS; i++)
        firsts[i] = bits_of(
            with_one_zero(values[terp_common_value_run_at(nvalues, i)]));
    for (uint64_t i = 0; i < TERP_COMMON_VALUE_NRUNS; i++) {
        const uint64_t n = count_alike(firsts, firsts[i]);
        const T value = values[terp_common_value_run_at(nvalues, i)];
        if (n > most && !is_special(value, fill)) {
            most = n;
            found = firsts[i];
        }
    }
    if (most < TERP_COMMON_VALUE_NRUNS / TERP_COMMON_VALUE_ONE_IN)
        return false;
    for (uint64_t i = 0; i < TERP_COMMON_VALUE_NRUNS; i++) {
        const uint64_t at = terp_common_value_run_at(nvalues, i);
        bool before = true;
        const uint64_t end =
            min_u64(nvalues, at + TERP_COMMON_VALUE_RUN_NVALUES);
        for (uint64_t j = at; j < end; j++) {
            const bool is_found = bits_of(with_one_zero(values[j])) == found;
            nfound += is_found;
            nruns += is_found && !before;
            before = is_found;
            nsampled++;
        }
    }
    if (!terp_value_is_common(nfound, nruns, nsampled))
        return false;
    *bits_ret = found;
    return true;
}

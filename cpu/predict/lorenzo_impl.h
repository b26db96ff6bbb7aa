/* The part of cpu/predict/stages_impl.h for lorenzo: from values to integers,
 * differences and symbols. */

/* Quantizes `n` values, at most 64. Returns a bit for each value that its
 * integer does not reproduce within the bound. */
static uint64_t
nearest_quants(const T *values, uint64_t n, struct constants k, INT *quants)
{
    uint64_t misses = 0;

    for (uint64_t j = 0; j < n; j++) {
        bool fits;
        quants[j] = (INT)nearest_quant(values[j], k, &fits);
        misses |= (uint64_t)!fits << j;
    }
    return misses;
}

static uint64_t
nearest_exact_quants(const T *values, uint64_t n, struct exact_quants k,
                     INT *quants)
{
    uint64_t misses = 0;

    for (uint64_t j = 0; j < n; j++) {
        bool fits;
        quants[j] = nearest_exact_quant(values[j], k, &fits);
        misses |= (uint64_t)!fits << j;
    }
    return misses;
}

static void
dequantize(const void *quants_in, uint64_t nvalues,
           const struct cpu_quantizer *quantizer, void *dst)
{
    const T step = level_constants(quantizer).step;
    const struct exact_quants exact =
        exact_quants_of(quantizer->exact, quantizer->bound);
    const INT *quants = quants_in;
    T *restrict values = dst;

    if (quantizer->exact.significand > 0) {
        for (uint64_t i = 0; i < nvalues; i++)
            values[i] = value_of_exact_quant(quants[i], exact);
        return;
    }
    for (uint64_t i = 0; i < nvalues; i++)
        values[i] = (T)quants[i] * step;
}

/* Returns a bit for each of `n` values, at most 64, that its integer
 * reproduces, but past a limit. */
static uint64_t
beyond_limits(const T *values, uint64_t n, uint64_t misses, const INT *quants,
              const struct cpu_quantizer *quantizer)
{
    T decoded[64];
    uint64_t beyond = 0;

    dequantize(quants, n, quantizer, decoded);
    for (uint64_t j = 0; j < n; j++)
        beyond |=
            (uint64_t)!keeps_limits(values[j], decoded[j], quantizer->limits)
            << j;
    return beyond & ~misses;
}

/* In a vector with at least this many marked points, all lanes are handled;
 * with fewer, the marked points one by one. */
#define MIN_NMARKED 4

/* Sets those of `n` integers, at most 64, to 0 that are marked. */
static void
clear_marked(INT *quants, uint64_t marked, uint64_t n)
{
    if (marked == UINT64_MAX) {
        memset(quants, 0, 64 * sizeof *quants);
        return;
    }
    if (n < 64 ||
        __builtin_popcountll(marked) < 64 / CPU_VECTOR_NVALUES * MIN_NMARKED) {
        for (; marked != 0; marked &= marked - 1)
            quants[__builtin_ctzll(marked)] = 0;
        return;
    }
    for (int at = 0; at < 64; at += CPU_VECTOR_NVALUES) {
        const WORD part = (WORD)(marked >> at);
        for (int j = 0; j < CPU_VECTOR_NVALUES; j++)
            quants[at + j] = part & (WORD)1 << j ? 0 : quants[at + j];
    }
}

/* Marks the values of a word of the mask that their integers miss as
 * special, and sets all special points to 0. Returns how many were not
 * special before. */
static uint64_t
set_aside(uint64_t misses, uint64_t *mask_word, INT *quants, uint64_t n)
{
    const uint64_t nmore = (uint64_t)__builtin_popcountll(misses & ~*mask_word);

    *mask_word |= misses;
    clear_marked(quants, *mask_word, n);
    return nmore;
}

static uint64_t
prequantize(const void *src, uint64_t nvalues,
            const struct cpu_quantizer *quantizer, uint64_t *mask_words,
            void *quants_ret)
{
    const struct constants k = level_constants(quantizer);
    const struct exact_quants exact =
        exact_quants_of(quantizer->exact, quantizer->bound);
    const T *values = src;
    INT *quants = quants_ret;
    uint64_t nunpredictable = 0;

    for (uint64_t at = 0; at < nvalues; at += 64) {
        uint64_t n = min_u64(64, nvalues - at);
        uint64_t misses =
            quantizer->exact.significand > 0
                ? nearest_exact_quants(values + at, n, exact, quants + at)
                : nearest_quants(values + at, n, k, quants + at);
        if (quantizer->limits != NULL)
            misses |=
                beyond_limits(values + at, n, misses, quants + at, quantizer);
        nunpredictable +=
            set_aside(misses, &mask_words[at / 64], quants + at, n);
    }
    return nunpredictable;
}

static uint64_t
count_near(const void *values_in, const void *quants_in,
           const uint64_t *mask_words, uint64_t first, uint64_t end,
           const struct cpu_quantizer *quantizer)
{
    const T limit = limit_of(quantizer->bound);
    const T *values = values_in;
    T nearest[TERP_LORENZO_NVALUES];
    uint64_t nnear = 0;

    dequantize(quants_in, end, quantizer, nearest);
    for (uint64_t i = first; i < end; i++)
        nnear += is_near(values[i], nearest[i], limit) &&
                 !(mask_words[i / 64] >> i % 64 & 1);
    return nnear;
}

/* Replaces the marked lanes of a vector by those of `before`, which does not
 * overlap it. */
static inline void
repeat_lanes(INT *restrict quants, const INT *restrict before, WORD marked)
{
    for (int j = 0; j < CPU_VECTOR_NVALUES; j++)
        quants[j] = marked & (WORD)1 << j ? before[j] : quants[j];
}

/* Replaces each marked one of 64 integers by the last unmarked one before
 * it. */
static inline void
repeat_runs(INT *quants, uint64_t marked)
{
    while (marked != 0) {
        INT *run = quants + __builtin_ctzll(marked);
        marked >>= __builtin_ctzll(marked);
        const int n = marked == UINT64_MAX ? 64 : __builtin_ctzll(~marked);
        for (int j = 0; j < n; j++)
            run[j] = run[-1];
        quants = run + n;
        marked = n == 64 ? 0 : marked >> n;
    }
}

/* Replaces each integer whose bit in `marked` is set by the integer that is
 * `distance` points earlier. `n` is at most 64. */
static inline void
repeat_marked(INT *quants, uint64_t marked, uint64_t n, uint64_t distance)
{
    const uint64_t lanes = CPU_VECTOR_NVALUES;
    uint64_t at = 0;

    if (distance == 1) {
        repeat_runs(quants, marked);
        return;
    }
    for (; distance >= lanes && marked != 0 && at + lanes <= n; at += lanes) {
        const WORD part = (WORD)(marked & ((UINT64_C(1) << lanes) - 1));
        if (part != 0)
            repeat_lanes(quants + at, quants + at - distance, part);
        marked >>= lanes;
    }
    for (; marked != 0; marked &= marked - 1) {
        INT *quant = quants + at + __builtin_ctzll(marked);
        *quant = *(quant - distance);
    }
}

static void
repeat(void *inout, const uint64_t *mask_words, uint64_t first, uint64_t end,
       uint64_t distance)
{
    INT *quants = inout;

    for (uint64_t at = first, n; at < end; at += n) {
        const uint64_t special = mask_words[at / 64] >> at % 64;
        n = min_u64(64 - at % 64, end - at);
        repeat_marked(quants + at, special & UINT64_MAX >> (64 - n), n,
                      distance);
    }
}

static void
clear(void *inout, const uint64_t *mask_words, uint64_t end)
{
    INT *quants = inout;

    for (uint64_t at = 0, next; at < end; at = next) {
        for (next = at; next + 64 <= end && mask_words[next / 64] == UINT64_MAX;
             next += 64) {
        }
        if (next > at) {
            memset(quants + at, 0, (next - at) * sizeof *quants);
            continue;
        }
        next = min_u64(at + 64, end);
        clear_marked(quants + at, mask_words[at / 64], next - at);
    }
}

/* Differences along a row overwrite the integers that the next ones need. So
 * rows are handled from the end, in blocks of this size, and the integers
 * before a block are copied first: the loop then has no dependence, and becomes
 * vectors. */
#define PIECE_NVALUES UINT64_C(256)

static void
difference_row(WORD *restrict row, uint64_t first, uint64_t extent)
{
    WORD before[PIECE_NVALUES];

    for (uint64_t end = extent; end > first + 1;) {
        const uint64_t n = min_u64(PIECE_NVALUES, end - 1 - first);
        memcpy(before, row + end - n - 1, n * sizeof *row);
        for (uint64_t j = 0; j < n; j++)
            row[end - n + j] -= before[j];
        end -= n;
    }
}

static void
difference(void *inout, struct cpu_axis axis)
{
    const uint64_t ninner = axis.ninner;

    for (uint64_t o = 0; o < axis.nouter; o++) {
        WORD *base = (WORD *)inout + o * axis.extent * ninner;
        if (ninner == 1) {
            difference_row(base, axis.first, axis.extent);
            continue;
        }
        for (uint64_t i = axis.extent - 1; i > axis.first; i--) {
            WORD *restrict to = base + i * ninner;
            const WORD *from = to - ninner;
            for (uint64_t j = axis.begin; j < axis.end; j++)
                to[j] -= from[j];
        }
    }
}

static void
subtract_from(const void *quants, uint64_t n, void *inout)
{
    const WORD *from = quants;
    WORD *restrict differences = inout;

    for (uint64_t i = 0; i < n; i++)
        differences[i] = from[i] - differences[i];
}

static void
accumulate_row(WORD *row, uint64_t first, uint64_t extent)
{
    WORD sum = row[first];

    for (uint64_t i = first + 1; i < extent; i++)
        row[i] = sum += row[i];
}

static void
accumulate(void *inout, struct cpu_axis axis)
{
    const uint64_t ninner = axis.ninner;

    for (uint64_t o = 0; o < axis.nouter; o++) {
        WORD *base = (WORD *)inout + o * axis.extent * ninner;
        if (ninner == 1 && axis.first < axis.extent) {
            accumulate_row(base, axis.first, axis.extent);
            continue;
        }
        for (uint64_t i = axis.first + 1; i < axis.extent; i++) {
            WORD *restrict to = base + i * ninner;
            const WORD *from = to - ninner;
            for (uint64_t j = axis.begin; j < axis.end; j++)
                to[j] += from[j];
        }
    }
}

/* Each sum waits for the one before: both together take no longer than one. */
static void
accumulate_twice(void *inout, struct cpu_axis axis)
{
    WORD *row = inout;

    for (uint64_t o = 0; o < axis.nouter; o++, row += axis.extent) {
        WORD slope = 0, sum = row[0];
        for (uint64_t i = 1; i < axis.extent; i++) {
            slope += row[i];
            row[i] = sum += slope;
        }
    }
}

TERP_INLINE void
codes_to_symbols(const INT *quants, uint64_t nvalues,
                 const struct cpu_quantizer *quantizer, int tail_nbits,
                 uint16_t *restrict symbols)
{
    const INT max_code = quantizer->max_code, radius = quantizer->radius;

    for (uint64_t i = 0; i < nvalues; i++) {
        const INT code = code_above_tail((WORD)quants[i], tail_nbits);
        bool fits = code >= -max_code && code <= max_code;
        INT symbol = (fits ? code : -radius) + radius;
        symbols[i] = (uint16_t)symbol;
    }
}

static void
symbols_of_quants(const void *quants, uint64_t nvalues,
                  const struct cpu_quantizer *quantizer, uint16_t *symbols)
{
    if (quantizer->tail_nbits == 0)
        codes_to_symbols(quants, nvalues, quantizer, 0, symbols);
    else
        codes_to_symbols(quants, nvalues, quantizer, quantizer->tail_nbits,
                         symbols);
}

static void
quants_of_symbols(const uint16_t *symbols, uint64_t nvalues,
                  const struct cpu_quantizer *quantizer, void *inout)
{
    INT *restrict quants = inout;
    const INT radius = quantizer->radius;
    const int tail_nbits = quantizer->tail_nbits;

    if (tail_nbits == 0) {
        for (uint64_t i = 0; i < nvalues; i++)
            quants[i] = symbols[i] == TERP_ESCAPE ? quants[i]
                                                  : (INT)symbols[i] - radius;
        return;
    }
    for (uint64_t i = 0; i < nvalues; i++)
        if (symbols[i] != TERP_ESCAPE)
            quants[i] = (INT)((WORD)quants[i] +
                              ((WORD)((INT)symbols[i] - radius) << tail_nbits));
}

static void
numbers_of_tails(const void *quants_in, const uint16_t *symbols, uint64_t n,
                 const struct cpu_quantizer *quantizer, uint64_t *numbers)
{
    const WORD *quants = quants_in;
    const INT radius = quantizer->radius;

    for (uint64_t i = 0; i < n; i++) {
        const WORD code = (WORD)((INT)symbols[i] - radius);
        const INT tail = (INT)(quants[i] - (code << quantizer->tail_nbits));
        numbers[i] = symbols[i] == TERP_ESCAPE ? 0 : zigzag(tail);
    }
}

static void
tails_of_numbers(const uint64_t *numbers, uint64_t n, void *quants_ret)
{
    INT *quants = quants_ret;

    for (uint64_t i = 0; i < n; i++)
        quants[i] = (INT)unzigzag(numbers[i]);
}

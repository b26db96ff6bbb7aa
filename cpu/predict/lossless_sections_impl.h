/* The part of cpu/predict/stages_impl.h for the sections of the lossless
 * prediction: groups of differences and their shifts, and remainders. */

/* ---- shifts ---- */

#define GROUP TERP_SHIFT_GROUP_NVALUES

static void
gather(const void *quants_in, const uint64_t *positions, uint64_t n,
       void *differences_ret)
{
    const INT *quants = quants_in;
    INT *restrict differences = differences_ret;

    for (uint64_t i = 0; i < n; i++)
        differences[i] = quants[positions[i]];
}

static void
scatter(const void *differences_in, const uint64_t *positions, uint64_t n,
        void *quants_ret)
{
    const INT *differences = differences_in;
    INT *restrict quants = quants_ret;

    for (uint64_t i = 0; i < n; i++)
        quants[positions[i]] = differences[i];
}

/* The widths of differences, terp_width_of_difference. */
static void
widths_of_differences(const INT *differences, uint64_t n, int nzeros,
                      uint8_t *restrict widths)
{
    for (uint64_t i = 0; i < n; i++) {
        const INT difference = differences[i] >> nzeros;
        const WORD sign = (WORD)(difference < 0);
        widths[i] = (uint8_t)width_of(((WORD)difference ^ (0 - sign)) + sign);
    }
}

/* Counts the differences of each width. */
static void
count_widths(const uint8_t widths[GROUP], uint64_t n,
             uint16_t counts_ret[TERP_NWIDTHS])
{
    uint8_t least = UINT8_MAX, most = 0;

    memset(counts_ret, 0, TERP_NWIDTHS * sizeof *counts_ret);
    for (uint64_t i = 0; i < n; i++) {
        least = widths[i] < least ? widths[i] : least;
        most = widths[i] > most ? widths[i] : most;
    }
    for (int width = least; width <= most; width++) {
        uint8_t lanes[32] = {0};
        for (int i = 0; i < GROUP; i += 32)
            for (int j = 0; j < 32; j++)
                lanes[j] =
                    (uint8_t)(lanes[j] + (widths[i + j] == (uint8_t)width));
        for (int j = 0; j < 32; j++)
            counts_ret[width] = (uint16_t)(counts_ret[width] + lanes[j]);
    }
}

static int
split_shift(const void *differences_in, uint64_t n, bool has_zeros,
            const struct cpu_quantizer *quantizer, int *nzeros_ret,
            uint16_t *restrict symbols)
{
    const INT *differences = differences_in;
    const INT max_code = (INT)quantizer->max_code;
    uint8_t widths[GROUP];
    uint16_t counts[TERP_NWIDTHS];
    WORD all = 0;
    uint64_t cost;

    for (uint64_t i = 0; i < n; i++)
        all |= (WORD)differences[i];
    const int nzeros = all == 0 || !has_zeros ? 0 : __builtin_ctzll(all);
    memset(widths, UINT8_MAX, sizeof widths);
    widths_of_differences(differences, n, nzeros, widths);
    count_widths(widths, n, counts);
    const int shift =
        terp_shift_of_group(counts, terp_max_shift(TERP_VALUE_NBYTES),
                            quantizer->escape_nbytes, &cost);
    const INT half = shift == 0 ? 0 : 1;
    for (uint64_t i = 0; i < n; i++) {
        /* terp_code_above_shift */
        const INT difference = differences[i] >> nzeros;
        const INT code =
            (difference >> shift) + (difference >> (shift - half) & half);
        symbols[i] = (uint16_t)(code < -max_code || code > max_code
                                    ? TERP_ESCAPE
                                    : code + TERP_RADIUS);
    }
    *nzeros_ret = nzeros;
    return shift;
}

static void
put_below_shift(const void *differences_in, const uint16_t *symbols, uint64_t n,
                int nzeros, int shift, uint8_t *bytes_ret)
{
    const INT *differences = differences_in;
    const WORD middle = (WORD)1 << shift >> 1;
    const WORD below = ((WORD)1 << shift) - 1;
    struct cpu_bit_writer writer = {.to = bytes_ret};
    WORD numbers[GROUP];

    for (uint64_t i = 0; i < n; i++) { /* terp_number_below_shift */
        const WORD number = ((WORD)(differences[i] >> nzeros) + middle) & below;
        numbers[i] = symbols[i] == TERP_ESCAPE ? 0 : number;
    }
    for (uint64_t i = 0; i < n; i++)
        cpu_put_bits_of(&writer, numbers[i], (unsigned)shift, 8 * sizeof(WORD));
}

/* The bits that a load of eight bytes has for each of four numbers, after up to
 * seven bits are shifted out. */
#define FOUR_MAX_NBITS ((64 - 7) / 4)

/* Unpacks numbers of `width` bits; `n` is rounded up to a multiple of four. */
static void
unpack(const uint8_t *bytes, uint64_t n, int width, WORD *restrict numbers)
{
    const uint64_t all = (UINT64_C(1) << width) - 1;
    uint64_t bit = 0;

    if (width <= FOUR_MAX_NBITS)
        for (uint64_t i = 0; i < n; i += 4, bit += 4 * (uint64_t)width) {
            const uint64_t four = load_le64(bytes + bit / 8) >> bit % 8;
            numbers[i] = (WORD)(four & all);
            numbers[i + 1] = (WORD)(four >> width & all);
            numbers[i + 2] = (WORD)(four >> 2 * width & all);
            numbers[i + 3] = (WORD)(four >> 3 * width & all);
        }
    else if (width <= 2 * FOUR_MAX_NBITS)
        for (uint64_t i = 0; i < n; i += 2, bit += 2 * (uint64_t)width) {
            const uint64_t two = load_le64(bytes + bit / 8) >> bit % 8;
            numbers[i] = (WORD)(two & all);
            numbers[i + 1] = (WORD)(two >> width & all);
        }
    else
        for (uint64_t i = 0; i < n; i++, bit += (uint64_t)width)
            numbers[i] = (WORD)cpu_load_bits(bytes, bit, width);
}

static void
join_shift(const uint16_t *symbols, uint64_t n, int nzeros, int shift,
           const uint8_t *bytes, void *differences_ret)
{
    const WORD middle = (WORD)1 << shift >> 1;
    INT *restrict differences = differences_ret;
    WORD numbers[GROUP];

    unpack(bytes, n, shift, numbers);
    for (uint64_t i = 0; i < n; i++) { /* terp_join_shift */
        const WORD code = (WORD)(INT)symbols[i] - TERP_RADIUS;
        differences[i] =
            (INT)(((code << shift) + numbers[i] - middle) << nzeros);
    }
}

#undef GROUP

/* ---- remainders ---- */

/* Points are taken by words of the mask. */
#define WORD_NPOINTS 64

TERP_INLINE uint64_t
specials_of_word(const uint64_t *mask_words, uint64_t at)
{
    return mask_words == NULL ? 0 : mask_words[at / WORD_NPOINTS];
}

/* Sets numbers to 0: those of special points, which have no remainder, and all
 * numbers from `n` on. */
TERP_INLINE void
clear_numbers(uint64_t specials, uint64_t n, WORD numbers[WORD_NPOINTS])
{
    for (; specials != 0; specials &= specials - 1)
        numbers[__builtin_ctzll(specials)] = 0;
    for (; n < WORD_NPOINTS; n++)
        numbers[n] = 0;
}

TERP_INLINE uint64_t
sum_of(const WORD nbits[WORD_NPOINTS], uint64_t n)
{
    WORD sum = 0; /* at most 64 of 64 */

    for (uint64_t i = 0; i < n; i++)
        sum += nbits[i];
    return sum;
}

/* The largest magnitude of integers, or more. */
TERP_INLINE WORD
largest_of(const INT *quants, uint64_t n, WORD center)
{
    WORD all = 0;

    for (uint64_t i = 0; i < n; i++) {
        const INT quant = (INT)((WORD)quants[i] + center);
        all |= (WORD)(quant < 0 ? ~quant : quant);
    }
    return all + 1;
}

/* Finds the widths of the remainders of `n` integers. */
TERP_INLINE void
widths_of_quants(const INT *quants, uint64_t n, WORD center,
                 struct lossless_quants k, uint64_t specials,
                 WORD nbits[WORD_NPOINTS])
{
    for (uint64_t i = 0; i < n; i++)
        nbits[i] = (WORD)nbits_of_remainder((INT)((WORD)quants[i] + center), k);
    clear_numbers(specials, n, nbits);
}

static uint64_t
nbits_of_remainders(const void *quants, uint64_t first, uint64_t end,
                    const struct cpu_lossless *model,
                    const uint64_t *mask_words)
{
    const struct lossless_quants k = quants_of_model(model);
    WORD nbits[WORD_NPOINTS];
    uint64_t sum = 0;

    for (uint64_t at = first; at < end; at += WORD_NPOINTS) {
        const uint64_t n = min_u64(WORD_NPOINTS, end - at);
        widths_of_quants((const INT *)quants + at, n, (WORD)model->center, k,
                         specials_of_word(mask_words, at), nbits);
        sum += sum_of(nbits, n);
    }
    return sum;
}

/* Loads remainders from bit `bit` on, and returns the bit after them: four by
 * one load where they are short, which most are. */
TERP_INLINE uint64_t
load_remainders(const uint8_t *bytes, uint64_t bit, uint64_t n,
                const WORD nbits[WORD_NPOINTS], WORD numbers[WORD_NPOINTS])
{
    WORD nlonger = 0;

    for (uint64_t i = 0; i < n; i++)
        nlonger += nbits[i] > FOUR_MAX_NBITS;
    if (nlonger > 0) {
        for (uint64_t i = 0; i < n; bit += nbits[i], i++)
            numbers[i] = (WORD)cpu_load_bits(bytes, bit, (int)nbits[i]);
        return bit;
    }
    for (uint64_t i = 0; i < n; i += 4) {
        uint64_t four = load_le64(bytes + bit / 8) >> bit % 8;
        for (uint64_t j = i; j < i + 4; j++) {
            numbers[j] = (WORD)(four & ((UINT64_C(1) << nbits[j]) - 1));
            four >>= nbits[j];
            bit += nbits[j];
        }
    }
    return bit;
}

static void
join_remainders(const void *quants_in, uint64_t first, uint64_t end,
                const struct cpu_lossless *model, const uint64_t *mask_words,
                const uint8_t *bytes, void *dst)
{
    struct lossless_quants k = quants_of_model(model);
    const WORD center = (WORD)model->center;
    WORD nbits[WORD_NPOINTS], numbers[WORD_NPOINTS];
    uint64_t bit = 0;

    k.form = TERP_LOSSLESS_REMAINDERS; /* the compiler drops the others */
    for (uint64_t at = first; at < end; at += WORD_NPOINTS) {
        const uint64_t n = min_u64(WORD_NPOINTS, end - at);
        const INT *quants = (const INT *)quants_in + at;
        T *restrict values = (T *)dst + at;
        widths_of_quants(quants, n, center, k, specials_of_word(mask_words, at),
                         nbits);
        bit = load_remainders(bytes, bit, n, nbits, numbers);
        if (largest_of(quants, n, center) < lossless_products_end(k))
            for (uint64_t i = 0; i < n; i++)
                values[i] = value_of_product((INT)((WORD)quants[i] + center),
                                             numbers[i], k);
        else
            for (uint64_t i = 0; i < n; i++)
                values[i] = value_of_lossless((INT)((WORD)quants[i] + center),
                                              numbers[i], k);
    }
}

/* Finds the remainders of `n` values, and their widths. */
TERP_INLINE void
take_remainders(const T *values, uint64_t n, struct lossless_quants k,
                uint64_t specials, WORD nbits[WORD_NPOINTS],
                WORD numbers[WORD_NPOINTS])
{
    for (uint64_t i = 0; i < n; i++) {
        nbits[i] = nbits_of_values_remainder(values[i], k);
        numbers[i] = remainder_of_value(values[i], nbits[i], k);
    }
    clear_numbers(specials, n, nbits);
    clear_numbers(specials, n, numbers);
}

static uint64_t
nbits_of_remainders_of_values(const void *values, uint64_t first, uint64_t end,
                              const struct cpu_lossless *model,
                              const uint64_t *mask_words)
{
    const struct lossless_quants k = quants_of_model(model);
    WORD nbits[WORD_NPOINTS], numbers[WORD_NPOINTS];
    uint64_t sum = 0;

    for (uint64_t at = first; at < end; at += WORD_NPOINTS) {
        const uint64_t n = min_u64(WORD_NPOINTS, end - at);
        take_remainders((const T *)values + at, n, k,
                        specials_of_word(mask_words, at), nbits, numbers);
        sum += sum_of(nbits, n);
    }
    return sum;
}

static void
put_remainders(const void *values, uint64_t first, uint64_t end,
               const struct cpu_lossless *model, const uint64_t *mask_words,
               uint8_t *bytes_ret)
{
    const struct lossless_quants k = quants_of_model(model);
    struct cpu_bit_writer writer = {.to = bytes_ret};
    WORD nbits[WORD_NPOINTS], numbers[WORD_NPOINTS];

    for (uint64_t at = first; at < end; at += WORD_NPOINTS) {
        const uint64_t n = min_u64(WORD_NPOINTS, end - at);
        take_remainders((const T *)values + at, n, k,
                        specials_of_word(mask_words, at), nbits, numbers);
        for (uint64_t i = 0; i < n; i++)
            cpu_put_bits_of(&writer, numbers[i], (unsigned)nbits[i],
                            8 * sizeof(WORD));
    }
}

/* The loops over integers of WORD_NBITS bits. A file defines WORD_NBITS and
 * includes this header. */
#include <math.h>

#include "codec/model/carrier.h"
#include "cpu/speed/tile.h"

#if WORD_NBITS == 32
#define ENCODE_TILE terp_cpu_speed_encode_tile_32
#define DECODE_TILE terp_cpu_speed_decode_tile_32
#define WORD uint32_t
#define SIGNED int32_t
#define FLOAT float
#define ROUNDER 0x1.8p23f
#define MAX_QUOTIENT ((float)TERP_SPEED_MAX_QUOTIENT_F32)
#define MAGNITUDE fabsf
#else
#define ENCODE_TILE terp_cpu_speed_encode_tile_64
#define DECODE_TILE terp_cpu_speed_decode_tile_64
#define WORD uint64_t
#define SIGNED int64_t
#define FLOAT double
#define ROUNDER 0x1.8p52
#define MAX_QUOTIENT TERP_SPEED_MAX_QUOTIENT_F64
#define MAGNITUDE fabs
#endif
#define WORD_NBYTES (WORD_NBITS / 8)
#define INLINE static inline __attribute__((always_inline))
#define NROWS TERP_SPEED_NROWS
#define NCOLUMNS TERP_SPEED_NCOLUMNS

/* ---- values and integers ---- */

INLINE WORD
bits_of(FLOAT value)
{
    WORD bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE FLOAT
float_of(WORD bits)
{
    FLOAT value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What becomes of a value: an integer; an exception under every step; an
 * exception under this step, which is too large. */
enum outcome {
    CODED,
    SPECIAL,
    MISSED
};

/* The integer nearest to value / step. The sum rounds it, and its low bits are
 * the integer where |quotient| <= MAX_QUOTIENT. */
INLINE WORD
quantize_float(FLOAT value, FLOAT per_step, FLOAT *quotient_ret)
{
    const FLOAT quotient = value * per_step;

    *quotient_ret = quotient;
    return bits_of(quotient + ROUNDER) - bits_of(ROUNDER);
}

/* Of a row of floats; whether any value is not coded. A quotient that is too
 * large makes a wrong integer, whose error tells. */
INLINE bool
quantize_floats(const FLOAT *values, int n, FLOAT per_step, FLOAT step,
                FLOAT most, WORD *words_ret)
{
    WORD bad = 0;

    for (int i = 0; i < n; i++) {
        FLOAT quotient;
        const WORD q = quantize_float(values[i], per_step, &quotient);
        const FLOAT error = values[i] - (FLOAT)(SIGNED)q * step;
        bad |= (WORD) !(MAGNITUDE(error) <= most);
        words_ret[i] = q;
    }
    return bad != 0;
}

INLINE bool
is_any_fill(const struct cpu_speed_numbers *numbers, uint64_t bits)
{
    bool any = false;

    for (int i = 0; i < numbers->nfills; i++)
        any |= bits == numbers->fill[i];
    return any;
}

/* An integer as a signed number of 64 bits; one of uint64 keeps its bits. */
INLINE int64_t
number_of(enum terp_type type, uint64_t bits)
{
    switch (type) {
    case TERP_INT8:
        return (int8_t)bits;
    case TERP_INT16:
        return (int16_t)bits;
    case TERP_INT32:
        return (int32_t)bits;
    default:
        return (int64_t)bits;
    }
}

/* The value of q whole steps. Of fewer than 64 bits it is kept in the range of
 * the type. */
INLINE uint64_t
value_of_steps(enum terp_type type, int value_nbytes, uint64_t step, int64_t q)
{
    const uint64_t product = (uint64_t)q * step;

    if (value_nbytes == 8)
        return product;
    const bool is_signed = terp_type_is_signed(type);
    const int nbits = 8 * value_nbytes;
    const int64_t least = is_signed ? -((int64_t)1 << (nbits - 1)) : 0;
    const int64_t most = ((int64_t)1 << (is_signed ? nbits - 1 : nbits)) - 1;
    const int64_t value = (int64_t)product;
    return (uint64_t)(value < least ? least : value > most ? most : value);
}

INLINE uint64_t
distance(enum terp_type type, uint64_t a, uint64_t b)
{
    const bool is_above = type == TERP_UINT64 ? a > b : (int64_t)a > (int64_t)b;
    return is_above ? a - b : b - a;
}

static enum outcome
quantize_integer(const struct cpu_speed_numbers *numbers, uint64_t bits,
                 WORD *word_ret)
{
    const enum terp_type type = numbers->type;
    const int64_t value = number_of(type, bits);
    const double quotient =
        (type == TERP_UINT64 ? (double)(uint64_t)value : (double)value) *
        numbers->per_whole_step;
    const int64_t q =
        (int64_t)(double_bits(quotient + 0x1.8p52) - double_bits(0x1.8p52));

    *word_ret = (WORD)q;
    if (is_any_fill(numbers, bits))
        return SPECIAL;
    const uint64_t decoded =
        value_of_steps(type, numbers->value_nbytes, numbers->whole_step, q);
    return distance(type, (uint64_t)value, decoded) <= numbers->whole_most
               ? CODED
           : fabs(quotient) <= TERP_SPEED_MAX_QUOTIENT_F64 ? MISSED
                                                           : SPECIAL;
}

#if WORD_NBITS == 32
INLINE float
float_of_half(enum terp_type type, uint64_t bits)
{
    return float_of(terp_f32_bits_of_half(type, (uint16_t)bits));
}

/* The float32 of a 16-bit float that decodes from q steps. */
INLINE float
rounded_half(enum terp_type type, float value)
{
    return float_of_half(type, terp_half_of_f32_bits(type, bits_of(value)));
}
#endif

/* One value, with the arithmetic of the rows. */
static enum outcome
quantize_one(const struct cpu_speed_numbers *numbers, int level, uint64_t bits,
             WORD *word_ret)
{
    const FLOAT step = (FLOAT)numbers->step[level];
    const FLOAT per_step = (FLOAT)numbers->per_step[level];
    FLOAT value, quotient;

    if (terp_type_is_integer(numbers->type))
        return quantize_integer(numbers, bits, word_ret);
#if WORD_NBITS == 32
    const bool is_half = numbers->value_nbytes == 2;
    value = is_half ? float_of_half(numbers->type, bits) : float_of((WORD)bits);
#else
    value = float_of(bits);
#endif
    const WORD q = *word_ret = quantize_float(value, per_step, &quotient);
    FLOAT decoded = (FLOAT)(SIGNED)q * step;
#if WORD_NBITS == 32
    if (is_half) {
        decoded = rounded_half(numbers->type, decoded);
        if (is_any_fill(numbers, bits))
            return SPECIAL;
    } else
#endif
        if (numbers->nfills > 0 &&
            is_any_fill(numbers, bits_of(value + (FLOAT)0)))
        return SPECIAL;
    return MAGNITUDE(value - decoded) <= (FLOAT)numbers->most ? CODED
           : MAGNITUDE(quotient) <= MAX_QUOTIENT              ? MISSED
                                                              : SPECIAL;
}

/* ---- rows ---- */

/* Whether all values of a row are coded. */
INLINE bool
quantize_row(const struct cpu_speed_numbers *numbers, int level,
             const uint8_t *row, int n, FLOAT *values, WORD *words_ret)
{
    const int value_nbytes = numbers->value_nbytes;
    bool bad = false;

    if (!terp_type_is_plain(numbers->type)) {
        for (int i = 0; i < n; i++)
            bad |=
                quantize_one(numbers, level,
                             load_value(row + i * value_nbytes, value_nbytes),
                             &words_ret[i]) != CODED;
        return !bad;
    }
    memcpy(values, row, (size_t)n * sizeof *values);
    for (int i = 0; numbers->nfills > 0 && i < n; i++)
        bad |= is_any_fill(numbers, bits_of(values[i] + (FLOAT)0));
    const FLOAT step = (FLOAT)numbers->step[level];
    const FLOAT per_step = (FLOAT)numbers->per_step[level];
    const FLOAT most = (FLOAT)numbers->most;
    return !(bad | (n == NCOLUMNS ? quantize_floats(values, NCOLUMNS, per_step,
                                                    step, most, words_ret)
                                  : quantize_floats(values, n, per_step, step,
                                                    most, words_ret)));
}

static bool
quantize_tile(const struct cpu_speed_numbers *numbers,
              const struct terp_speed_box *box, const void *values, int level,
              struct cpu_speed_work *work)
{
    WORD *words = (WORD *)work->words;
    bool is_good = true;

    for (int s = 0; s < box->nslabs; s++)
        for (int r = 0; r < terp_speed_slab_nrows(box, s); r++)
            is_good &= quantize_row(
                numbers, level, cpu_speed_row(numbers, box, values, s, r),
                terp_speed_row_ncolumns(box, s, r), (FLOAT *)work->values,
                words + (s * NROWS + r) * NCOLUMNS);
    return is_good;
}

/* The bits of values as integers. */
static void
take_bits(const struct cpu_speed_numbers *numbers,
          const struct terp_speed_box *box, const void *values,
          struct cpu_speed_work *work)
{
    const int value_nbytes = numbers->value_nbytes;
    const bool has_keys = !terp_type_is_integer(numbers->type);

    for (int s = 0; s < box->nslabs; s++)
        for (int r = 0; r < terp_speed_slab_nrows(box, s); r++) {
            const uint8_t *row = cpu_speed_row(numbers, box, values, s, r);
            const int n = terp_speed_row_ncolumns(box, s, r);
            WORD *words = (WORD *)work->words + (s * NROWS + r) * NCOLUMNS;
            if (value_nbytes < WORD_NBYTES) {
                for (int i = 0; i < n; i++) {
                    const uint64_t bits =
                        load_value(row + i * value_nbytes, value_nbytes);
                    words[i] =
                        (WORD)(has_keys ? terp_speed_key_of(bits, 16) : bits);
                }
                continue;
            }
            memcpy(words, row, (size_t)n * sizeof *words);
            for (int i = 0; has_keys && i < n; i++)
                words[i] ^= (WORD)((SIGNED)words[i] >> (WORD_NBITS - 1)) |
                            (WORD)1 << (WORD_NBITS - 1);
        }
}

/* ---- exceptions ---- */

/* Finds the exceptions under a level's steps; returns how many more there are
 * than under smaller steps. */
static int
find_exceptions(const struct cpu_speed_numbers *numbers,
                const struct terp_speed_box *box, const void *values, int level,
                uint16_t masks_ret[TERP_SPEED_NGROUPS])
{
    const int value_nbytes = numbers->value_nbytes;
    int nmissed = 0;

    memset(masks_ret, 0, TERP_SPEED_NGROUPS * sizeof *masks_ret);
    for (int s = 0; s < box->nslabs; s++)
        for (int r = 0; r < terp_speed_slab_nrows(box, s); r++) {
            const uint8_t *row = cpu_speed_row(numbers, box, values, s, r);
            for (int i = 0; i < terp_speed_row_ncolumns(box, s, r); i++) {
                WORD word;
                const enum outcome outcome = quantize_one(
                    numbers, level,
                    load_value(row + i * value_nbytes, value_nbytes), &word);
                nmissed += outcome == MISSED;
                if (outcome != CODED)
                    masks_ret[s * NCOLUMNS + i] |= (uint16_t)(1u << r);
            }
        }
    return nmissed;
}

/* Gives exceptions the integer before them in their group, or the first one
 * behind, or that of the tile's first value that is none. Returns false if
 * there is no other value. */
static bool
fill_exceptions(const struct terp_speed_box *box,
                const uint16_t masks[TERP_SPEED_NGROUPS], WORD *words)
{
    bool any = false;
    WORD other = 0;

    for (int pass = 0; pass < 2; pass++)
        for (int s = 0; s < box->nslabs; s++)
            for (int x = 0; x < box->ncolumns; x++) {
                const unsigned mask = masks[s * NCOLUMNS + x];
                WORD *group = words + s * NROWS * NCOLUMNS + x;
                int nrows = 0, first = 0;
                while (nrows < NROWS &&
                       terp_speed_row_ncolumns(box, s, nrows) > x)
                    nrows++;
                while (first < nrows && mask >> first & 1)
                    first++;
                if (first < nrows && !any) {
                    any = true;
                    other = group[first * NCOLUMNS];
                }
                if (pass == 0 || mask == 0)
                    continue;
                WORD before = first < nrows ? group[first * NCOLUMNS] : other;
                for (int r = 0; r < nrows; r++) {
                    if (mask >> r & 1)
                        group[r * NCOLUMNS] = before;
                    before = group[r * NCOLUMNS];
                }
            }
    return any;
}

/* ---- differences ---- */

/* Signed differences of `nbits` bits as unsigned numbers. */
INLINE WORD
fold(WORD difference, int unused_nbits)
{
    const SIGNED e = (SIGNED)(difference << unused_nbits) >> unused_nbits;
    return (WORD)e << 1 ^ (WORD)(e >> (WORD_NBITS - 1));
}

INLINE WORD
unfold(WORD number)
{
    return number >> 1 ^ (0 - (number & 1));
}

/* Computes the differences of a row as zigzag numbers, and adds their bits (OR)
 * to `common`, which has the bits of the rows before. `below`: the row of the
 * slab before, or NULL. `last`: the differences along the columns of the row
 * before, which this row's replace. */
INLINE void
difference_row(const WORD *row, const WORD *below, int n, int unused_nbits,
               WORD *last, WORD *numbers_ret, WORD *common)
{
    WORD d = row[0] - (below == NULL ? 0 : below[0]);
    WORD number = fold(d - last[0], unused_nbits);

    numbers_ret[0] = number;
    common[0] |= number;
    last[0] = d;
    if (below == NULL)
        for (int x = 1; x < n; x++) {
            d = row[x] - row[x - 1];
            number = fold(d - last[x], unused_nbits);
            numbers_ret[x] = number;
            common[x] |= number;
            last[x] = d;
        }
    else
        for (int x = 1; x < n; x++) {
            d = (row[x] - row[x - 1]) - (below[x] - below[x - 1]);
            number = fold(d - last[x], unused_nbits);
            numbers_ret[x] = number;
            common[x] |= number;
            last[x] = d;
        }
}

/* The row of a line: only its first value has the row before as a neighbour. */
INLINE void
difference_line(const WORD *row, int n, int unused_nbits, WORD *last,
                WORD *numbers_ret, WORD *common)
{
    WORD number = fold(row[0] - last[0], unused_nbits);

    numbers_ret[0] = number;
    common[0] |= number;
    last[0] = row[0];
    for (int x = 1; x < n; x++) {
        number = fold(row[x] - row[x - 1], unused_nbits);
        numbers_ret[x] = number;
        common[x] |= number;
    }
}

static void
difference_slab(const struct terp_speed_box *box, int s, int unused_nbits,
                const WORD *words, WORD *last, WORD *numbers_ret,
                uint8_t *widths_ret)
{
    const WORD *slab = words + s * TERP_SPEED_SLAB_NVALUES;
    const WORD *below = box->shape == TERP_SPEED_VOLUME && s > 0
                            ? slab - TERP_SPEED_SLAB_NVALUES
                            : NULL;
    const int nrows = terp_speed_slab_nrows(box, s);
    WORD common[NCOLUMNS] = {0};

    if (box->shape == TERP_SPEED_VOLUME)
        memset(last, 0, NCOLUMNS * sizeof *last);
    for (int r = 0; r < NROWS; r++) {
        const int n = r < nrows ? terp_speed_row_ncolumns(box, s, r) : 0;
        const WORD *row = slab + r * NCOLUMNS;
        WORD *to = numbers_ret + r * NCOLUMNS;
        if (n < NCOLUMNS)
            memset(to, 0, NCOLUMNS * sizeof *to);
        if (s == 0 && r == 0)
            last[0] = row[0]; /* the base is not a difference */
        if (n > 0 && box->shape == TERP_SPEED_LINE)
            difference_line(row, n, unused_nbits, last, to, common);
        else if (n == NCOLUMNS && below != NULL && unused_nbits == 0)
            difference_row(row, below + r * NCOLUMNS, NCOLUMNS, 0, last, to,
                           common);
        else if (n == NCOLUMNS && below == NULL && unused_nbits == 0)
            difference_row(row, NULL, NCOLUMNS, 0, last, to, common);
        else if (n > 0)
            difference_row(row, below == NULL ? NULL : below + r * NCOLUMNS, n,
                           unused_nbits, last, to, common);
    }
    for (int x = 0; x < NCOLUMNS; x++)
        widths_ret[x] = (uint8_t)bit_width(common[x]);
}

/* ---- packing ---- */

INLINE void
store_word(uint8_t *at, uint64_t word)
{
    if (TERP_HOST_IS_BIG_ENDIAN)
        word = __builtin_bswap64(word);
    memcpy(at, &word, sizeof word);
}

/* Groups of up to 8 bits a value: eight values are in a word. */
static uint8_t *
pack_narrow(const WORD *numbers, const uint8_t *widths, uint8_t *at)
{
    uint64_t low[NCOLUMNS] = {0}, high[NCOLUMNS] = {0}, shift[NCOLUMNS] = {0};

    for (int r = 0; r < 8; r++)
        for (int x = 0; x < NCOLUMNS; x++) {
            low[x] |= (uint64_t)numbers[r * NCOLUMNS + x] << shift[x];
            high[x] |= (uint64_t)numbers[(r + 8) * NCOLUMNS + x] << shift[x];
            shift[x] += widths[x];
        }
    for (int x = 0; x < NCOLUMNS; x++) {
        store_word(at, low[x]);
        store_word(at + widths[x], high[x]);
        at += 2 * widths[x];
    }
    return at;
}

/* One group of up to 16 bits a value: four values are in a word. */
INLINE void
pack_16(const WORD *numbers, int w, uint8_t *at)
{
    for (int half = 0; half < 2; half++, numbers += 8 * NCOLUMNS, at += w) {
        uint64_t low = 0, high = 0;
        for (int r = 3; r >= 0; r--) {
            low = low << w | numbers[r * NCOLUMNS];
            high = high << w | numbers[(r + 4) * NCOLUMNS];
        }
        store_word(at, low | high << (4 * w - 1) << 1);
        store_word(at + 8, 4 * w == 64 ? high : high >> (64 - 4 * w));
    }
}

/* One group of up to 56 bits a value. */
INLINE void
pack_56(const WORD *numbers, int w, uint8_t *at)
{
    uint64_t kept = 0;
    int nbits = 0;

    for (int r = 0; r < NROWS; r++) {
        kept |= (uint64_t)numbers[r * NCOLUMNS] << nbits;
        nbits += w;
        store_word(at, kept);
        at += nbits / 8;
        kept >>= nbits / 8 * 8;
        nbits %= 8;
    }
}

/* Of two values at a time: up to 28 bits each. */
INLINE void
pack_28(const WORD *numbers, int w, uint8_t *at)
{
    uint64_t kept = 0;
    int nbits = 0;

    for (int r = 0; r < NROWS; r += 2) {
        const uint64_t two = (uint64_t)numbers[r * NCOLUMNS] |
                             (uint64_t)numbers[(r + 1) * NCOLUMNS] << w;
        kept |= two << nbits;
        nbits += 2 * w;
        store_word(at, kept);
        at += nbits / 8;
        kept >>= nbits / 8 * 8;
        nbits %= 8;
    }
}

#if WORD_NBITS == 64
/* Of more than 56 bits a value. */
static void
pack_64(const WORD *numbers, int w, uint8_t *at)
{
    memset(at, 0, 2 * (size_t)w);
    for (int r = 0; r < NROWS; r++) {
        const uint64_t number = numbers[r * NCOLUMNS];
        const uint64_t bit = (uint64_t)r * (uint64_t)w;
        pack_bits(at, bit, 32, number & UINT32_MAX);
        pack_bits(at, bit + 32, w - 32, number >> 32);
    }
}
#endif

static uint8_t *
pack_slab(const WORD *numbers, const uint8_t *widths, int largest, uint8_t *at)
{
    if (largest <= 8)
        return pack_narrow(numbers, widths, at);
    for (int x = 0; x < NCOLUMNS; x++) {
        const int w = widths[x];
        if (w == 0)
            continue;
        if (w <= 16)
            pack_16(numbers + x, w, at);
        else if (w <= 28)
            pack_28(numbers + x, w, at);
#if WORD_NBITS == 64
        else if (w > 56)
            pack_64(numbers + x, w, at);
#endif
        else
            pack_56(numbers + x, w, at);
        at += 2 * w;
    }
    return at;
}

/* ---- a tile ---- */

static int
largest_of(const uint8_t *widths, int n)
{
    int largest = 0;

    for (int i = 0; i < n; i++)
        largest = widths[i] > largest ? widths[i] : largest;
    return largest;
}

static uint8_t *
write_widths(const struct terp_speed_box *box, int form, const uint8_t *widths,
             uint8_t *at)
{
    const int ngroups = terp_speed_row_ngroups(box);

    for (int s = 0; s < box->nslabs; s++, widths += NCOLUMNS)
        for (int x = 0; x < ngroups; x++) {
            if (form == TERP_SPEED_WIDTHS_OF_8)
                *at++ = widths[x];
            else if (form == TERP_SPEED_WIDTHS_OF_4 && x % 2 == 0)
                *at++ = (uint8_t)(widths[x] | widths[x + 1] << 4);
        }
    return at;
}

/* Writes a tile of integers; `flags` are those of its first byte. */
static uint64_t
write_words(const struct terp_speed_box *box, int nbits, int flags,
            struct cpu_speed_work *work, uint8_t *dst)
{
    const WORD *words = (const WORD *)work->words;
    WORD *numbers = (WORD *)work->residuals;
    const int head_nbytes = terp_speed_tile_head_nbytes(WORD_NBYTES);
    WORD last[NCOLUMNS] = {0};

    memset(work->widths, 0, sizeof work->widths);
    for (int s = 0; s < box->nslabs; s++)
        difference_slab(box, s, WORD_NBITS - nbits, words, last,
                        numbers + s * TERP_SPEED_SLAB_NVALUES,
                        work->widths + s * NCOLUMNS);
    const int largest = largest_of(work->widths, TERP_SPEED_NGROUPS);
    const int form = largest == 0    ? TERP_SPEED_NO_WIDTHS
                     : largest <= 15 ? TERP_SPEED_WIDTHS_OF_4
                                     : TERP_SPEED_WIDTHS_OF_8;
    memset(dst, 0, (size_t)head_nbytes);
    dst[0] = (uint8_t)(flags | form);
    store_le(dst + terp_speed_base_at(WORD_NBYTES), words[0], WORD_NBYTES);
    uint8_t *at = write_widths(box, form, work->widths, dst + head_nbytes);
    for (int s = 0; largest > 0 && s < box->nslabs; s++) {
        const uint8_t *widths = work->widths + s * NCOLUMNS;
        at = pack_slab(numbers + s * TERP_SPEED_SLAB_NVALUES, widths,
                       largest_of(widths, NCOLUMNS), at);
    }
    return (uint64_t)(at - dst);
}

static uint64_t
write_bits(const struct cpu_speed_numbers *numbers,
           const struct terp_speed_box *box, const void *values, int flags,
           struct cpu_speed_work *work, uint8_t *dst)
{
    take_bits(numbers, box, values, work);
    return write_words(box, 8 * numbers->value_nbytes, flags, work, dst);
}

/* Writes a tile with the largest steps that keep the bound, or an exact one. */
static uint64_t
write_steps(const struct cpu_speed_numbers *numbers,
            const struct terp_speed_box *box, const void *values,
            struct cpu_speed_work *work, uint8_t *dst)
{
    const int nlevels =
        terp_speed_has_float_steps(numbers->type) ? TERP_SPEED_NLEVELS : 1;
    int level = 0;

    for (;; level++) {
        if (quantize_tile(numbers, box, values, level, work))
            return write_words(box, WORD_NBITS, level << TERP_SPEED_LEVEL_SHIFT,
                               work, dst);
        if (find_exceptions(numbers, box, values, level, work->masks) == 0 ||
            level == nlevels - 1)
            break;
    }
    if (terp_cpu_speed_count_listed(numbers, box, values, work->masks) >
            TERP_SPEED_MAX_NLISTED ||
        !fill_exceptions(box, work->masks, (WORD *)work->words))
        return write_bits(numbers, box, values, TERP_SPEED_EXACT, work, dst);
    const uint64_t nbytes = write_words(
        box, WORD_NBITS,
        TERP_SPEED_EXCEPTIONS | level << TERP_SPEED_LEVEL_SHIFT, work, dst);
    return terp_cpu_speed_exceptions_write(numbers, box, values, work->masks,
                                           dst, nbytes);
}

uint64_t
ENCODE_TILE(const struct cpu_speed_numbers *numbers,
            const struct terp_speed_box *box, const void *values,
            struct cpu_speed_work *work, uint8_t *dst)
{
    const uint64_t nbytes = numbers->kind == TERP_SPEED_BITS
                                ? write_bits(numbers, box, values, 0, work, dst)
                                : write_steps(numbers, box, values, work, dst);

    store_word(dst + nbytes, 0);
    return terp_speed_aligned(nbytes);
}

/* ---- unpacking ---- */

INLINE uint64_t
load_word(const uint8_t *at)
{
    return load_le64(at);
}

static const uint8_t *
unpack_narrow(const uint8_t *at, const uint8_t *widths, WORD *numbers_ret)
{
    uint64_t low[NCOLUMNS], high[NCOLUMNS], width[NCOLUMNS], mask[NCOLUMNS];

    for (int x = 0; x < NCOLUMNS; x++) {
        low[x] = load_word(at);
        high[x] = load_word(at + widths[x]);
        at += 2 * widths[x];
        width[x] = widths[x];
        mask[x] = ((uint64_t)1 << widths[x]) - 1;
    }
    for (int r = 0; r < 8; r++)
        for (int x = 0; x < NCOLUMNS; x++) {
            numbers_ret[r * NCOLUMNS + x] = (WORD)(low[x] & mask[x]);
            numbers_ret[(r + 8) * NCOLUMNS + x] = (WORD)(high[x] & mask[x]);
            low[x] >>= width[x];
            high[x] >>= width[x];
        }
    return at;
}

INLINE void
unpack_56(const uint8_t *at, int w, WORD *numbers_ret)
{
    const uint64_t mask = ((uint64_t)1 << w) - 1;

    for (int r = 0, bit = 0; r < NROWS; r++, bit += w)
        numbers_ret[r * NCOLUMNS] =
            (WORD)(load_word(at + bit / 8) >> bit % 8 & mask);
}

/* Two values at a time, of up to 28 bits each. */
INLINE void
unpack_28(const uint8_t *at, int w, WORD *numbers_ret)
{
    const uint64_t mask = ((uint64_t)1 << w) - 1;

    for (int r = 0, bit = 0; r < NROWS; r += 2, bit += 2 * w) {
        const uint64_t two = load_word(at + bit / 8) >> bit % 8;
        numbers_ret[r * NCOLUMNS] = (WORD)(two & mask);
        numbers_ret[(r + 1) * NCOLUMNS] = (WORD)(two >> w & mask);
    }
}

#if WORD_NBITS == 64
static void
unpack_64(const uint8_t *at, int w, WORD *numbers_ret)
{
    for (int r = 0; r < NROWS; r++) {
        const uint64_t bit = (uint64_t)r * (uint64_t)w;
        numbers_ret[r * NCOLUMNS] =
            unpack_bits(at, bit, 32) | unpack_bits(at, bit + 32, w - 32) << 32;
    }
}
#endif

static const uint8_t *
unpack_slab(const uint8_t *at, const uint8_t *widths, WORD *numbers_ret)
{
    const int largest = largest_of(widths, NCOLUMNS);

    if (largest == 0) {
        memset(numbers_ret, 0, TERP_SPEED_SLAB_NVALUES * sizeof *numbers_ret);
        return at;
    }
    if (largest <= 8)
        return unpack_narrow(at, widths, numbers_ret);
    for (int x = 0; x < NCOLUMNS; x++) {
#if WORD_NBITS == 64
        if (widths[x] > 56)
            unpack_64(at, widths[x], numbers_ret + x);
        else
#endif
            if (widths[x] <= 28)
            unpack_28(at, widths[x], numbers_ret + x);
        else
            unpack_56(at, widths[x], numbers_ret + x);
        at += 2 * widths[x];
    }
    return at;
}

/* ---- sums ---- */

/* Adds the numbers of a row to those of the rows before. */
INLINE void
add_row(const WORD *numbers, WORD *sums)
{
    for (int x = 0; x < NCOLUMNS; x++)
        sums[x] += unfold(numbers[x]);
}

/* Sums along a row. */
INLINE void
sum_row(const WORD *from, WORD *to)
{
    WORD sum = 0;

    for (int x = 0; x < NCOLUMNS; x++) {
        sum += from[x];
        to[x] = sum;
    }
}

/* ---- integers and values ---- */

static void
store_row(const struct cpu_speed_numbers *numbers, int level, bool is_bits,
          const WORD *words, int n, uint8_t *row)
{
    const enum terp_type type = numbers->type;
    const int value_nbytes = numbers->value_nbytes;
    const FLOAT step = (FLOAT)numbers->step[level];
    FLOAT values[NCOLUMNS];

    if (is_bits && value_nbytes == WORD_NBYTES) {
        WORD bits[NCOLUMNS];
        const bool has_keys = !terp_type_is_integer(type);
        for (int i = 0; has_keys && i < NCOLUMNS; i++)
            bits[i] =
                words[i] ^ ((WORD) ~((SIGNED)words[i] >> (WORD_NBITS - 1)) |
                            (WORD)1 << (WORD_NBITS - 1));
        memcpy(row, has_keys ? bits : words, (size_t)n * sizeof *bits);
    } else if (is_bits) {
        for (int i = 0; i < n; i++)
            store_value(row + i * value_nbytes,
                        terp_type_is_integer(type)
                            ? words[i]
                            : terp_speed_bits_of_key(words[i] & 0xFFFF, 16),
                        value_nbytes);
    } else if (terp_type_is_integer(type)) {
        for (int i = 0; i < n; i++)
            store_value(row + i * value_nbytes,
                        value_of_steps(type, value_nbytes, numbers->whole_step,
                                       (SIGNED)words[i]),
                        value_nbytes);
    } else {
        for (int i = 0; i < NCOLUMNS; i++)
            values[i] = (FLOAT)(SIGNED)words[i] * step;
        if (value_nbytes == WORD_NBYTES) {
            memcpy(row, values, (size_t)n * sizeof *values);
            return;
        }
#if WORD_NBITS == 32
        for (int i = 0; i < n; i++)
            store_value(row + i * value_nbytes,
                        terp_half_of_f32_bits(type, bits_of(values[i])),
                        value_nbytes);
#endif
    }
}

static void
sum_slab(const struct terp_speed_box *box, const WORD *numbers, WORD *sums,
         WORD *planes)
{
    if (box->shape == TERP_SPEED_VOLUME) {
        for (int r = 0; r < NROWS; r++) {
            add_row(numbers + r * NCOLUMNS, sums);
            for (int x = 0; x < NCOLUMNS; x++)
                planes[r * NCOLUMNS + x] += sums[x];
        }
        return;
    }
    for (int r = 0; r < NROWS; r++) {
        WORD *plane = planes + r * NCOLUMNS;
        if (box->shape == TERP_SPEED_PLANE) {
            add_row(numbers + r * NCOLUMNS, sums);
            memcpy(plane, sums, NCOLUMNS * sizeof *sums);
            continue;
        }
        for (int x = 0; x < NCOLUMNS; x++)
            plane[x] = unfold(numbers[r * NCOLUMNS + x]);
        plane[0] = sums[0] += plane[0];
    }
}

enum terp_status
DECODE_TILE(const struct cpu_speed_numbers *numbers,
            const struct terp_speed_box *box, const uint8_t *tile,
            uint64_t nbytes, uint64_t readable_nbytes,
            struct cpu_speed_work *work, void *values)
{
    WORD *unpacked = (WORD *)work->residuals, *planes = (WORD *)work->words;
    WORD sums[NCOLUMNS] = {0}, words[NCOLUMNS];
    struct cpu_speed_tile read;
    const enum terp_status st = terp_cpu_speed_tile_read(
        numbers, box, tile, nbytes, work->widths, &read);

    if (st != TERP_OK)
        return st;
    if (readable_nbytes < CPU_SPEED_PADDING_NBYTES) {
        memcpy(work->bytes, tile, nbytes);
        tile = work->bytes;
    }
    const bool is_bits = numbers->kind == TERP_SPEED_BITS || read.is_exact;
    const uint8_t *at = tile + read.packed_at;
    memset(planes, 0, TERP_SPEED_SLAB_NVALUES * sizeof *planes);
    for (int s = 0; s < box->nslabs; s++) {
        at = unpack_slab(at, work->widths + s * NCOLUMNS, unpacked);
        if (box->shape == TERP_SPEED_VOLUME)
            memset(sums, 0, sizeof sums);
        if (s == 0)
            sums[0] = (WORD)read.base;
        sum_slab(box, unpacked, sums, planes);
        const int nrows = terp_speed_slab_nrows(box, s);
        for (int r = 0; r < nrows; r++) {
            sum_row(planes + r * NCOLUMNS, words);
            store_row(numbers, read.level, is_bits, words,
                      terp_speed_row_ncolumns(box, s, r),
                      (uint8_t *)values +
                          (cpu_speed_row(numbers, box, values, s, r) -
                           (const uint8_t *)values));
        }
    }
    return read.has_exceptions ? terp_cpu_speed_exceptions_place(
                                     numbers, box, &read, tile, values)
                               : TERP_OK;
}

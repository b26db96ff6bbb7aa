/* The body of cpu/predict/pointwise_f32.c and cpu/predict/pointwise_f64.c: the
 * loops of cpu/predict/pointwise.h over values of type T, which
 * codec/model/value.h derives from TERP_VALUE_NBYTES (4: float, 8: double). The
 * includer also defines STAGES, the name of the table of functions, and the
 * logarithms of codec/model/logarithm.h that T takes. */
#include "codec/model/logarithm.h"
#include "codec/model/quantizer.h"
#include "cpu/predict/pointwise.h"
#include "cpu/sections/mask.h"

#define SIGN_BIT ((WORD)1 << (8 * sizeof(T) - 1))

/* Values whose logarithms one loop takes. */
#define BLOCK_NVALUES 256

/* Returns whether there are any fill values. With a floor, 0 counts as one, as
 * it has no logarithm. */
static bool
fill_words_of(const struct cpu_fills *fills, bool has_floor,
              WORD fill[TERP_NFILLS])
{
    bool any = false;

    for (int i = 0; i < TERP_NFILLS; i++) {
        fill[i] = (WORD)fills->bits[i];
        any |= fill[i] != SIGN_BIT && (has_floor || fill[i] != 0);
    }
    return any;
}

/* Whether a magnitude is neither tiny nor infinite. Fill values are compared
 * elsewhere: comparing 64-bit words keeps compilers from making vectors. */
static inline __attribute__((always_inline)) bool
has_logarithm(T value)
{
    return ((int)(TERP_ABS(value) >= TINY) &
            (int)(TERP_ABS(value) <= TERP_CONST(MAX))) != 0;
}

static inline __attribute__((always_inline)) bool
is_coded(T value, bool any_fill, const WORD *fills)
{
    return has_logarithm(value) && !(any_fill && is_special(value, fills));
}

/* `its` for a value that has a logarithm, else `other`. Written as consecutive
 * selections, which compilers turn into vector masks for either type. */
static inline __attribute__((always_inline)) T
if_logarithm(T value, T its, T other)
{
    const T large = TERP_ABS(value) >= TINY ? its : other;

    return TERP_ABS(value) <= TERP_CONST(MAX) ? large : other;
}

/* Lanes of a vector loop: extremes of values, and the least magnitude. */
struct lanes {
    T low[CPU_VECTOR_NVALUES], high[CPU_VECTOR_NVALUES],
        least[CPU_VECTOR_NVALUES];
};

static inline __attribute__((always_inline)) void
measure_vector(const T *values, bool any_fill, const WORD *fills,
               struct lanes *lanes)
{
    for (int j = 0; j < CPU_VECTOR_NVALUES; j++) {
        const T value =
            any_fill && is_special(values[j], fills) ? (T)NAN : values[j];
        const T low = if_logarithm(value, value, TERP_CONST(MAX));
        const T high = if_logarithm(value, value, -TERP_CONST(MAX));
        const T least = if_logarithm(value, TERP_ABS(value), TERP_CONST(MAX));
        lanes->low[j] = low < lanes->low[j] ? low : lanes->low[j];
        lanes->high[j] = high > lanes->high[j] ? high : lanes->high[j];
        lanes->least[j] = least < lanes->least[j] ? least : lanes->least[j];
    }
}

static void
magnitudes(const void *src, uint64_t nvalues, const struct cpu_fills *fills,
           struct terp_magnitudes *magnitudes_ret)
{
    const T *values = src;
    const uint64_t nwhole = nvalues / CPU_VECTOR_NVALUES * CPU_VECTOR_NVALUES;
    WORD fill[TERP_NFILLS];
    const bool any_fill = fill_words_of(fills, false, fill);
    T low = TERP_CONST(MAX), high = -low, least = low;
    T last[CPU_VECTOR_NVALUES] = {0};
    struct lanes lanes;
    uint64_t at = 0;

    for (int j = 0; j < CPU_VECTOR_NVALUES; j++) {
        lanes.low[j] = low;
        lanes.high[j] = high;
        lanes.least[j] = least;
    }
    for (; !any_fill && at < nwhole; at += CPU_VECTOR_NVALUES)
        measure_vector(values + at, false, fill, &lanes);
    for (; at < nwhole; at += CPU_VECTOR_NVALUES)
        measure_vector(values + at, true, fill, &lanes);
    memcpy(last, values + nwhole, (nvalues - nwhole) * sizeof *last);
    measure_vector(last, true, fill, &lanes);
    for (int j = 0; j < CPU_VECTOR_NVALUES; j++) {
        low = lanes.low[j] < low ? lanes.low[j] : low;
        high = lanes.high[j] > high ? lanes.high[j] : high;
        least = lanes.least[j] < least ? lanes.least[j] : least;
    }
    const T most = low > high ? 0 : high > -low ? high : -low;
    *magnitudes_ret = (struct terp_magnitudes){.min_bits = bits_of(least),
                                               .max_bits = bits_of(most),
                                               .positive = high > 0,
                                               .negative = low < 0};
}

/* Rounds values to the nearest that end in this many zero bits. A value that
 * would become infinite is special. */
static void
code_rounded(const void *src, uint64_t nvalues, const struct cpu_fills *fills,
             const struct terp_pointwise *how, void *coded)
{
    const T *values = src;
    T *rounded = coded;
    WORD fill[TERP_NFILLS];
    const bool any_fill = fill_words_of(fills, false, fill);
    const int nzeros = how->nzeros;
    const WORD half = nzeros > 0 ? (WORD)1 << (nzeros - 1) : 0;

    for (uint64_t i = 0; i < nvalues; i++) {
        const WORD bits = (bits_of(values[i]) + half) >> nzeros << nzeros;
        T value;
        memcpy(&value, &bits, sizeof value);
        rounded[i] = is_coded(values[i], any_fill, fill) && has_logarithm(value)
                         ? value
                         : (T)NAN;
    }
}

static void
code_log_f32(const void *src, uint64_t nvalues, const struct cpu_fills *fills,
             const struct terp_pointwise *how, void *coded)
{
    const T *values = src;
    float *logarithms = coded;
    const float offset = (float)how->offset;
    const int center = how->center;
    float k[BLOCK_NVALUES], m[BLOCK_NVALUES];
    WORD fill[TERP_NFILLS];
    const bool any_fill = fill_words_of(fills, false, fill);

    for (uint64_t at = 0; at < nvalues; at += BLOCK_NVALUES) {
        const uint64_t n = min_u64(BLOCK_NVALUES, nvalues - at);
        for (uint64_t j = 0; j < n; j++) {
            const T value = values[at + j];
            float own_k;
            SPLIT_IN_F32(TERP_ABS(value), center, &own_k, &m[j]);
            k[j] = has_logarithm(value) ? own_k : NAN;
        }
        for (uint64_t j = 0; j < n; j++)
            logarithms[at + j] = terp_log_f32(k[j], m[j], offset);
        for (uint64_t j = 0; any_fill && j < n; j++)
            if (is_special(values[at + j], fill))
                logarithms[at + j] = NAN;
    }
}

static void
code_log_f64(const void *src, uint64_t nvalues, const struct cpu_fills *fills,
             const struct terp_pointwise *how, void *coded)
{
    const T *values = src;
    double *logarithms = coded;
    const double offset = how->offset;
    const int center = how->center;
    WORD fill[TERP_NFILLS];
    const bool any_fill = fill_words_of(fills, false, fill);

    for (uint64_t i = 0; i < nvalues; i++) {
        const T value = values[i];
        const double y =
            terp_log_of_f64((double)TERP_ABS(value), center, offset);
        logarithms[i] = has_logarithm(value) ? y : (double)NAN;
    }
    for (uint64_t i = 0; any_fill && i < nvalues; i++)
        if (is_special(values[i], fill))
            logarithms[i] = (double)NAN;
}

/* ---- with a floor ---- */

static inline __attribute__((always_inline)) bool
is_finite(T value)
{
    return TERP_ABS(value) <= TERP_CONST(MAX);
}

static void
code_floored_f32(const void *src, uint64_t nvalues,
                 const struct cpu_fills *fills,
                 const struct terp_pointwise *how, void *coded)
{
    const T *values = src;
    float *coded_values = coded;
    const T joint = (T)how->joint, scale = (T)terp_floor_scale(how->joint);
    const float shift = (float)how->shift;
    const int center = how->center;
    float k[BLOCK_NVALUES], m[BLOCK_NVALUES];
    WORD fill[TERP_NFILLS];
    const bool any_fill = fill_words_of(fills, true, fill);

    for (uint64_t at = 0; at < nvalues; at += BLOCK_NVALUES) {
        const uint64_t n = min_u64(BLOCK_NVALUES, nvalues - at);
        for (uint64_t j = 0; j < n; j++)
            SPLIT_IN_F32(TERP_ABS(values[at + j]), center, &k[j], &m[j]);
        for (uint64_t j = 0; j < n; j++) {
            const T value = values[at + j], magnitude = TERP_ABS(value);
            const float multiple = (float)(magnitude * scale);
            const float logarithm = terp_log_f32(k[j], m[j], shift);
            const float y = magnitude <= joint ? multiple : logarithm;
            coded_values[at + j] = !is_finite(value) ? NAN : value < 0 ? -y : y;
        }
        for (uint64_t j = 0; any_fill && j < n; j++)
            if (is_special(values[at + j], fill))
                coded_values[at + j] = NAN;
    }
}

static void
code_floored_f64(const void *src, uint64_t nvalues,
                 const struct cpu_fills *fills,
                 const struct terp_pointwise *how, void *coded)
{
    const T *values = src;
    double *coded_values = coded;
    const double joint = how->joint, scale = terp_floor_scale(joint);
    const double shift = how->shift;
    const int center = how->center;
    WORD fill[TERP_NFILLS];
    const bool any_fill = fill_words_of(fills, true, fill);

    for (uint64_t i = 0; i < nvalues; i++) {
        const double value = (double)values[i], magnitude = fabs(value);
        const double logarithm = terp_log_of_f64(magnitude, center, shift);
        const double y = magnitude <= joint ? magnitude * scale : logarithm;
        coded_values[i] = !is_finite(values[i]) ? (double)NAN
                          : value < 0           ? -y
                                                : y;
    }
    for (uint64_t i = 0; any_fill && i < nvalues; i++)
        if (is_special(values[i], fill))
            coded_values[i] = (double)NAN;
}

/* ---- from coded values to values ---- */

#define CODED float
#define VALUE_OF VALUE_OF_F32
#define DECODE_LOG decode_log_f32
#define DECODE_FLOORED decode_floored_f32
#include "cpu/predict/pointwise_decode_impl.h"
#define CODED double
#define VALUE_OF VALUE_OF_F64
#define DECODE_LOG decode_log_f64
#define DECODE_FLOORED decode_floored_f64
#include "cpu/predict/pointwise_decode_impl.h"

/* ---- signs ---- */

/* Replaces bits of a word that are not `known` by the next lower known bit, or
 * by `before`. */
static inline uint64_t
fill_up(uint64_t bits, uint64_t known, uint64_t before)
{
    bits &= known;
    for (int distance = 1; distance < 64; distance *= 2) {
        bits |= bits << distance & ~known;
        known |= known << distance;
    }
    return bits | (before & ~known);
}

/* The signs of 64 values; if there are fewer, then zeros. */
static inline uint64_t
sign_word(const T *values, bool any_fill, const WORD *fills, uint64_t before)
{
    uint8_t negative[64], coded[64];

    for (int j = 0; j < 64; j++)
        negative[j] = values[j] < 0;
    for (int j = 0; j < 64; j++)
        coded[j] = if_logarithm(values[j], 1, 0) > 0;
    for (int j = 0; any_fill && j < 64; j++)
        coded[j] &= !is_special(values[j], fills);
    return fill_up(cpu_word_of_bytes(negative), cpu_word_of_bytes(coded),
                   before);
}

static void
signs(const void *src, uint64_t nvalues, const struct cpu_fills *fills,
      uint64_t *sign_words)
{
    const T *values = src;
    WORD fill[TERP_NFILLS];
    const bool any_fill = fill_words_of(fills, false, fill);
    uint64_t before = 0;
    T last[64];

    for (uint64_t at = 0; at < nvalues; at += 64) {
        if (nvalues - at < 64) {
            memset(last, 0, sizeof last);
            memcpy(last, values + at, (nvalues - at) * sizeof *last);
            sign_words[at / 64] = sign_word(last, any_fill, fill, before) &
                                  ~(UINT64_MAX << (nvalues - at));
            return;
        }
        sign_words[at / 64] = sign_word(values + at, any_fill, fill, before);
        before = 0 - (sign_words[at / 64] >> 63);
    }
}

static void
negate(const uint64_t *sign_words, uint64_t nvalues, void *dst)
{
    T *values = dst;

    for (uint64_t at = 0; at < nvalues; at += 64) {
        const uint64_t word =
            sign_words == NULL ? UINT64_MAX : sign_words[at / 64];
        const uint64_t n = min_u64(64, nvalues - at);
        if (word == 0)
            continue;
        for (uint64_t j = 0; j < n; j++)
            values[at + j] = word >> j & 1 ? -values[at + j] : values[at + j];
    }
}

const struct cpu_pointwise_stages STAGES = {
    .magnitudes = magnitudes,
    .code = {code_rounded, code_log_f32, code_log_f64},
    .decode = {NULL, decode_log_f32, decode_log_f64},
    .code_floored = {NULL, code_floored_f32, code_floored_f64},
    .decode_floored = {NULL, decode_floored_f32, decode_floored_f64},
    .signs = signs,
    .negate = negate};

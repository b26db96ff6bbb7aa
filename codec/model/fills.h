/* Fill values that nobody declared. An extreme value is recognised as a fill
 * value if it occurs at least TERP_FILL_MIN_REPEATS times, and if its distance
 * to every other value is more than TERP_FILL_DISTANCE times the range of the
 * others. Recognised values are coded apart and come back exactly. A relative
 * bound counts them for the range, as they may be data, unless they are usual
 * fill values. The engines and the tool include this header. */
#pragma once

#include <float.h>

#include "codec/model/carrier.h"

#define TERP_FILL_DISTANCE 8
#define TERP_FILL_MIN_REPEATS 2

/* The largest finite value of a type of floats. */
static inline TERP_HOST_DEVICE double
terp_largest_float(enum terp_type type)
{
    return type == TERP_FLOAT64    ? DBL_MAX
           : type == TERP_FLOAT16  ? 65504
           : type == TERP_BFLOAT16 ? 0x1.fep127
                                   : (double)FLT_MAX;
}

/* Whether a value of a type is `number`, rounded to the type or to float32. */
static inline TERP_HOST_DEVICE bool
terp_is_number(enum terp_type type, double value, double number)
{
    const double size = number < 0 ? -number : number;

    if (value == number)
        return true;
    if (size > (double)FLT_MAX || size > terp_largest_float(type))
        return false;
    const float narrow = (float)number;
    if (!terp_type_is_half(type))
        return value == (double)narrow;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    bits = terp_f32_bits_of_half(type, terp_half_of_f32_bits(type, bits));
    float rounded;
    memcpy(&rounded, &bits, sizeof rounded);
    return value == (double)rounded;
}

/* Whether formats, archives or programs use the number for missing values. Such
 * a number is a fill value even if the file does not declare it. */
static inline TERP_HOST_DEVICE bool
terp_is_usual_fill(enum terp_type type, double value)
{
    /* With either sign. */
    const double numbers[] = {
        999, /* weather, space weather, satellites: nines */
        9999,
        99999,
        999999,
        9999999,
        999.9,
        9999.9,
        99999.9,
        999.99,
        9999.99,
        99999.99,
        999.25,   /* LAS (well logs) */
        9.99e8,   /* GrADS */
        9.999e20, /* wgrib2 */
        9.99e33,  /* GrADS */
        1e15,     /* MERRA */
        1e20,     /* CMIP */
        1e30,     /* MODFLOW, ocean models */
        3e30,
        1.6375e30,       /* HEALPix */
        0x1p100,         /* OMI */
        1e31,            /* CDF of ISTP */
        1e32,            /* PDS */
        9e33,            /* CERES */
        1e34,            /* Ferret */
        1e35,            /* NCL */
        1e36,            /* CESM */
        0x1.ep122,       /* netCDF */
        9.96921e36,      /* netCDF, as it is printed */
        1e37,            /* ROMS */
        1.70141e38,      /* Surfer */
        0x1.fffff6p127,  /* ISIS */
        (double)FLT_MAX, /* GDAL, ArcGIS */
        1e100,           /* ecCodes */
    };
    /* Only negative. */
    const double negatives[] = {
        7777,       /* HDF-EOS */
        8888,       /* GHCN */
        32767,      /* netCDF, of 16 bits */
        32768,      /* SRTM, GDAL */
        2147483647, /* netCDF, of 32 bits; ODB */
        2147483648,
    };
    const double size = value < 0 ? -value : value;
    bool usual = size == terp_largest_float(type);

    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        usual |= terp_is_number(type, size, numbers[i]);
    for (unsigned i = 0; i < sizeof negatives / sizeof *negatives; i++)
        usual |= value < 0 && terp_is_number(type, size, negatives[i]);
    return usual;
}

/* Usual fill values among the special values of a stream. */
#define TERP_MAX_NUSUAL 4
struct terp_usual_fills {
    int n;
    double at[TERP_MAX_NUSUAL];
};

static inline void
terp_usual_fills_add(struct terp_usual_fills *fills, double value)
{
    for (int i = 0; i < fills->n; i++)
        if (fills->at[i] == value)
            return;
    if (fills->n < TERP_MAX_NUSUAL)
        fills->at[fills->n++] = value;
}

/* The range of a chunk that its relative bound is a fraction of. */
struct terp_bound_range {
    double min, max;   /* min > max: no values */
    uint64_t nguessed; /* recognised fill values in it, which are coded apart */
};

/* Widens the range by `value`, which was recognised as a fill value and occurs
 * `n` times. A usual fill value does not widen the range. */
static inline TERP_HOST_DEVICE void
terp_bound_range_add(struct terp_bound_range *range, enum terp_type type,
                     double value, uint64_t n)
{
    if (terp_is_usual_fill(type, value))
        return;
    range->min = value < range->min ? value : range->min;
    range->max = value > range->max ? value : range->max;
    range->nguessed += n;
}

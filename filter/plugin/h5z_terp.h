/* H5Z-TERP: compression of HDF5's datasets of numbers, with an error bound that
 * every value keeps or without loss: floats of 16, 32 and 64 bits, complex
 * values, and integers. This header is for programs that write HDF5 files; to
 * read them only the plugin is needed, found through HDF5_PLUGIN_PATH.
 *
 * Works from C and C++. Link with libhdf5; there is no terp library to link.
 * All functions here touch nothing but their arguments, so they follow
 * HDF5's own rule for threads. The words that they make are described in
 * doc/cd_values.md.
 */
#ifndef H5Z_TERP_H
#define H5Z_TERP_H

#include <hdf5.h>
#include <stdint.h>
#include <string.h>

/* The filter's identifier, in the range that HDF5 leaves to everybody. */
#define H5Z_FILTER_TERP 46117

/* Bounds on |x - x'|, in the unit of the data: the bound itself; the bound
 * times (max - min) of the valid values of each chunk; or the bound, which is
 * below 1, times |x|, for each value, or a floor where that is less. By the
 * absolute bound 0 every bit comes back. */
#define H5Z_TERP_ABSOLUTE 1u
#define H5Z_TERP_RELATIVE 2u
#define H5Z_TERP_POINTWISE 3u
/* Instead of a bound, the PSNR of each chunk in dB, 20 log10((max - min) /
 * RMSE) of its valid values: it is reached, and exceeded by 0.5 dB at most
 * where some bound gives that. Writing looks for that bound, and takes some
 * times as long. */
#define H5Z_TERP_PSNR 4u

/* AUTO is this version's default, RATIO, or HUFFMAN where that is found to be
 * smaller; SPEED is what is fastest, HUFFMAN. */
#define H5Z_TERP_PIPELINE_AUTO 0u
#define H5Z_TERP_PIPELINE_HUFFMAN 1u
#define H5Z_TERP_PIPELINE_NONE 2u /* no pipeline has this number */
#define H5Z_TERP_PIPELINE_SPEED 3u
#define H5Z_TERP_PIPELINE_RATIO 4u
#define H5Z_TERP_NPIPELINES 5u

#define H5Z_TERP_PREDICTOR_AUTO 0u
#define H5Z_TERP_PREDICTOR_SPLINE 1u
#define H5Z_TERP_PREDICTOR_LORENZO 2u
#define H5Z_TERP_NPREDICTORS 3u

/* How hard to look for the smallest file: the default, faster, or up to thirty
 * times as slow. Reading does not depend on it. */
#define H5Z_TERP_EFFORT_DEFAULT 0u
#define H5Z_TERP_EFFORT_FAST 1u
#define H5Z_TERP_EFFORT_BEST 2u
#define H5Z_TERP_NEFFORTS 3u

/* Signs of decoded values: as the bound leaves them; a chunk without values
 * below 0 decodes to none below 0, and one without values above 0 to none above
 * 0; or each value keeps its own. */
#define H5Z_TERP_KEEP_SIGN_NONE 0u
#define H5Z_TERP_KEEP_SIGN_OF_CHUNK 1u
#define H5Z_TERP_KEEP_SIGN_OF_VALUES 2u
#define H5Z_TERP_NKEEP_SIGNS 3u

#define H5Z_TERP_MAX_NLOGICAL 3
#define H5Z_TERP_MAX_NWORDS (12 + H5Z_TERP_MAX_NLOGICAL)

/* How to compress a dataset. Every field but `bound_mode` and `bound` may be
 * left 0.
 *
 * `flags` is H5Z_FLAG_MANDATORY (0: to create or write the dataset fails
 * where the plugin is not found) or H5Z_FLAG_OPTIONAL (the data is stored
 * uncompressed then). With `nlogical` > 0, a chunk of k * logical[0] * ...
 * values is a stack of k bricks of these dims, slowest first: for datasets
 * that keep many 3-D boxes in one dimension. Where the dims do not divide the
 * chunk, the chunk's own are used. */
struct H5Z_terp_config {
    unsigned bound_mode;
    double bound;
    unsigned pipeline;
    unsigned predictor;
    unsigned flags;
    unsigned nlogical;
    unsigned logical[H5Z_TERP_MAX_NLOGICAL];
    unsigned effort;
    double floor; /* of H5Z_TERP_POINTWISE */
    /* With `has_missing` a value that comes back bit for bit, and is ignored by
     * bounds, like the fill value that the dataset may have. */
    unsigned has_missing;
    double missing;
    unsigned keep_sign;
    /* With `has_valid_range` a value from valid_min on does not decode to one
     * below it, nor a value up to valid_max to one above it; each may be
     * infinite. */
    unsigned has_valid_range;
    double valid_min, valid_max;
};

/* Writes a float64 to two words, low word first. */
static inline void
H5Z_terp_put_double(double value, unsigned *words)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    words[0] = (unsigned)(bits & 0xFFFFFFFFu);
    words[1] = (unsigned)(bits >> 32);
}

/* Digits and bits that netCDF's nc_def_var_quantize can keep of a float64. */
#define H5Z_TERP_MAX_NDIGITS 15u
#define H5Z_TERP_MAX_NBITS 52u

/* The pointwise bound that keeps `ndigits` significant decimal digits, from 1
 * to H5Z_TERP_MAX_NDIGITS, of every value: half of the last one, where that is
 * least, 10^-ndigits / 2 of the value (Zender, GMD 9, 2016). This is what
 * netCDF's BITGROOM and GRANULARBR are to keep. 0: another number. */
static inline double
H5Z_terp_bound_of_digits(unsigned ndigits)
{
    /* No division: the program may have changed the direction of rounding. */
    static const double bounds[H5Z_TERP_MAX_NDIGITS + 1] = {
        0,    5e-2,  5e-3,  5e-4,  5e-5,  5e-6,  5e-7,  5e-8,
        5e-9, 5e-10, 5e-11, 5e-12, 5e-13, 5e-14, 5e-15, 5e-16};

    return ndigits > H5Z_TERP_MAX_NDIGITS ? 0 : bounds[ndigits];
}

/* That of values whose mantissas are rounded to `nbits` bits, from 1 to
 * H5Z_TERP_MAX_NBITS, as netCDF's BITROUND does: 2^-nbits / 2 of the value. */
static inline double
H5Z_terp_bound_of_bits(unsigned nbits)
{
    double bound = 0.5;

    for (unsigned i = 0; i < nbits && i < H5Z_TERP_MAX_NBITS; i++)
        bound /= 2;
    return nbits < 1 || nbits > H5Z_TERP_MAX_NBITS ? 0 : bound;
}

/* Writes the cd_values of `config` for H5Pset_filter, nc_def_var_filter and
 * the like. Returns their number, or 0 when a field is out of range. The
 * bound itself is checked when the dataset is created. */
static inline size_t
H5Z_terp_cd_values(const struct H5Z_terp_config *config,
                   unsigned cd_values[H5Z_TERP_MAX_NWORDS])
{
    /* Mark the form that holds a float64 in two words, and two words more for a
     * floor, for a missing value, and for each end of a valid range. */
    const unsigned exact = 0x10000u, floored = 0x20000u, missing = 0x40000u;
    const unsigned ranged = 0x80000u;
    /* By its bits: where subnormal numbers are flushed they compare as 0. */
    unsigned words[2];
    H5Z_terp_put_double(config->floor, words);
    const unsigned has_floor = (words[0] | words[1] << 1) != 0;
    const unsigned has_missing = config->has_missing != 0;
    const unsigned has_range = config->has_valid_range != 0;
    size_t n = 3;

    if (config->bound_mode < H5Z_TERP_ABSOLUTE ||
        config->bound_mode > H5Z_TERP_PSNR ||
        config->pipeline >= H5Z_TERP_NPIPELINES ||
        config->pipeline == H5Z_TERP_PIPELINE_NONE ||
        config->predictor >= H5Z_TERP_NPREDICTORS ||
        config->effort >= H5Z_TERP_NEFFORTS ||
        config->keep_sign >= H5Z_TERP_NKEEP_SIGNS ||
        config->nlogical > H5Z_TERP_MAX_NLOGICAL)
        return 0;
    cd_values[0] = config->bound_mode | config->pipeline << 4 |
                   config->predictor << 8 | config->effort << 12 | exact |
                   floored * has_floor | missing * has_missing |
                   ranged * has_range | config->keep_sign << 20;
    H5Z_terp_put_double(config->bound, cd_values + 1);
    if (has_floor) {
        H5Z_terp_put_double(config->floor, cd_values + n);
        n += 2;
    }
    if (has_missing) {
        H5Z_terp_put_double(config->missing, cd_values + n);
        n += 2;
    }
    if (has_range) {
        H5Z_terp_put_double(config->valid_min, cd_values + n);
        H5Z_terp_put_double(config->valid_max, cd_values + n + 2);
        n += 4;
    }
    cd_values[n++] = config->nlogical;
    for (unsigned i = 0; i < config->nlogical; i++)
        cd_values[n++] = config->logical[i];
    return n;
}

/* Adds terp to the filters of `dcpl`, a chunked dataset creation property
 * list, which it modifies and does not keep. Should be the first filter: data
 * that another one has mixed passes through uncompressed, but for shuffle and
 * fletcher32 (doc/cd_values.md, "Other filters in the pipeline"). Returns a
 * non-negative value, or a negative one with the reason on HDF5's error
 * stack: a field out of range, or the plugin not found. A bound that is no
 * finite number above 0, nor the absolute bound 0, or a pointwise one that is
 * not below 1, is refused when the dataset is created, and so is a floor of
 * another bound than a pointwise one. */
static inline herr_t
H5Pset_terp(hid_t dcpl, const struct H5Z_terp_config *config)
{
    unsigned cd_values[H5Z_TERP_MAX_NWORDS];
    size_t cd_nelmts = H5Z_terp_cd_values(config, cd_values);

    if (cd_nelmts == 0) {
        H5Epush2(H5E_DEFAULT, "h5z_terp.h", "H5Pset_terp", __LINE__,
                 H5E_ERR_CLS, H5E_ARGS, H5E_BADRANGE,
                 "a field of struct H5Z_terp_config is out of range");
        return -1;
    }
    /* H5Pset_filter takes what it does not find, and only H5Dcreate fails. */
    if (config->flags == H5Z_FLAG_MANDATORY &&
        H5Zfilter_avail(H5Z_FILTER_TERP) <= 0) {
        H5Epush2(H5E_DEFAULT, "h5z_terp.h", "H5Pset_terp", __LINE__,
                 H5E_ERR_CLS, H5E_PLINE, H5E_NOFILTER,
                 "the plugin of terp was not found: its folder belongs in "
                 "HDF5_PLUGIN_PATH");
        return -1;
    }
    return H5Pset_filter(dcpl, H5Z_FILTER_TERP, config->flags, cd_nelmts,
                         cd_values);
}

/* |x - x'| <= bound, mandatory, everything else chosen by terp. */
static inline herr_t
H5Pset_terp_abs(hid_t dcpl, double bound)
{
    const struct H5Z_terp_config config = {H5Z_TERP_ABSOLUTE,
                                           bound,
                                           0,
                                           0,
                                           H5Z_FLAG_MANDATORY,
                                           0,
                                           {0},
                                           0,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0};
    return H5Pset_terp(dcpl, &config);
}

/* Every bit comes back, mandatory, everything else chosen by terp. */
static inline herr_t
H5Pset_terp_lossless(hid_t dcpl)
{
    return H5Pset_terp_abs(dcpl, 0);
}

/* |x - x'| <= bound * (max - min) of each chunk, mandatory, everything else
 * chosen by terp. */
static inline herr_t
H5Pset_terp_rel(hid_t dcpl, double bound)
{
    const struct H5Z_terp_config config = {H5Z_TERP_RELATIVE,
                                           bound,
                                           0,
                                           0,
                                           H5Z_FLAG_MANDATORY,
                                           0,
                                           {0},
                                           0,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0};
    return H5Pset_terp(dcpl, &config);
}

/* |x - x'| <= max(floor, bound * |x|) of each value, mandatory, everything else
 * chosen by terp. Zeros and signs of small values need not stay. */
static inline herr_t
H5Pset_terp_pwr_floor(hid_t dcpl, double bound, double floor)
{
    const struct H5Z_terp_config config = {H5Z_TERP_POINTWISE,
                                           bound,
                                           0,
                                           0,
                                           H5Z_FLAG_MANDATORY,
                                           0,
                                           {0},
                                           0,
                                           floor,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0};
    return H5Pset_terp(dcpl, &config);
}

/* |x - x'| <= bound * |x| of each value, zeros and signs kept, mandatory,
 * everything else chosen by terp. */
static inline herr_t
H5Pset_terp_pwr(hid_t dcpl, double bound)
{
    return H5Pset_terp_pwr_floor(dcpl, bound, 0);
}

/* The PSNR of each chunk, in dB, mandatory, everything else chosen by terp. */
static inline herr_t
H5Pset_terp_psnr(hid_t dcpl, double psnr)
{
    const struct H5Z_terp_config config = {H5Z_TERP_PSNR,
                                           psnr,
                                           0,
                                           0,
                                           H5Z_FLAG_MANDATORY,
                                           0,
                                           {0},
                                           0,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0,
                                           0};
    return H5Pset_terp(dcpl, &config);
}

/* Keeps significant decimal digits, 1 to 15, or bits of mantissas, 1 to 52, of
 * each value: H5Pset_terp_pwr with the bound that does so. Another number is
 * refused when the dataset is created. */
static inline herr_t
H5Pset_terp_digits(hid_t dcpl, unsigned ndigits)
{
    return H5Pset_terp_pwr(dcpl, H5Z_terp_bound_of_digits(ndigits));
}

static inline herr_t
H5Pset_terp_bits(hid_t dcpl, unsigned nbits)
{
    return H5Pset_terp_pwr(dcpl, H5Z_terp_bound_of_bits(nbits));
}

/* For programs that are linked with the filter itself, the library
 * terp::h5z_linked, since they can load no plugin: registers it with HDF5.
 * Below 0 where that fails. */
#ifdef __cplusplus
extern "C"
#endif
    int
    H5Z_terp_register(void);

#endif

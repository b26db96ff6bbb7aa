/* H5Z-TERP compresses HDF5 datasets of numbers: lossless, or with an error
 * bound that holds for every value. The numbers are floats of 16, 32 and 64
 * bits, complex values, and integers. This header is for programs that write
 * HDF5 files. A program that reads them needs only the plugin, which HDF5 finds
 * through HDF5_PLUGIN_PATH.
 *
 * The header works from C and C++. Link with libhdf5; terp has no library to
 * link. All functions here use only their arguments, so HDF5's own rule for
 * threads holds. doc/cd_values.md describes the cd_values that they make.
 */
#ifndef H5Z_TERP_H
#define H5Z_TERP_H

#include <hdf5.h>
#include <stdint.h>
#include <string.h>

/* The filter's identifier, in the range that HDF5 leaves free for any use. */
#define H5Z_FILTER_TERP 46117

/* Modes of the bound on |x - x'|, the error of a value x, in the unit of the
 * data. ABSOLUTE: the bound itself; the absolute bound 0 is lossless. RELATIVE:
 * the bound times (max - min) of the valid values of the chunk. POINTWISE: the
 * bound, which must be below 1, times |x|, or a floor where the product is
 * less. */
#define H5Z_TERP_ABSOLUTE 1u
#define H5Z_TERP_RELATIVE 2u
#define H5Z_TERP_POINTWISE 3u
/* PSNR: not a bound on each value, but the least PSNR of each chunk in dB, 20
 * log10((max - min) / RMSE) of its valid values. The chunk's PSNR exceeds it by
 * at most 0.5 dB where some bound gives such a PSNR. Writing searches for that
 * bound, and takes several times as long. */
#define H5Z_TERP_PSNR 4u

/* How streams are coded. AUTO: RATIO, or HUFFMAN where the encoder finds
 * HUFFMAN smaller. SPEED: the fastest pipeline, whose streams terp 1 does not
 * read; HUFFMAN where version 2 of the format is forbidden. */
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

/* Search effort of the encoder. FAST is faster than DEFAULT; BEST searches for
 * the smallest file, and is up to thirty times as slow. Reading does not depend
 * on the effort. */
#define H5Z_TERP_EFFORT_DEFAULT 0u
#define H5Z_TERP_EFFORT_FAST 1u
#define H5Z_TERP_EFFORT_BEST 2u
#define H5Z_TERP_NEFFORTS 3u

/* Signs of decoded values. NONE: a sign may change within the bound. OF_CHUNK:
 * a chunk without values below 0 decodes to no value below 0, and a chunk
 * without values above 0 to no value above 0. OF_VALUES: each value keeps its
 * sign. */
#define H5Z_TERP_KEEP_SIGN_NONE 0u
#define H5Z_TERP_KEEP_SIGN_OF_CHUNK 1u
#define H5Z_TERP_KEEP_SIGN_OF_VALUES 2u
#define H5Z_TERP_NKEEP_SIGNS 3u

#define H5Z_TERP_MAX_NLOGICAL 3
#define H5Z_TERP_MAX_NWORDS (12 + H5Z_TERP_MAX_NLOGICAL)

/* How to compress a dataset. Every field but `bound_mode` and `bound` may stay
 * 0.
 *
 * `flags` is H5Z_FLAG_MANDATORY (0) or H5Z_FLAG_OPTIONAL. Where HDF5 does not
 * find the plugin, creating or writing a mandatory dataset fails, and an
 * optional one is stored uncompressed. With `nlogical` > 0, a chunk is a stack
 * of bricks with the dims logical[0], logical[1], ..., slowest first: for
 * datasets that keep many 3-D boxes in one dimension. Where these dims do not
 * divide the chunk, the chunk's own dims are used. */
struct H5Z_terp_config {
    unsigned bound_mode;
    double bound;
    unsigned pipeline;
    unsigned predictor;
    unsigned flags;
    unsigned nlogical;
    unsigned logical[H5Z_TERP_MAX_NLOGICAL];
    unsigned effort;
    double floor; /* least bound of a value; H5Z_TERP_POINTWISE only */
    /* With `has_missing`: `missing` decodes bit for bit, and bounds ignore it,
     * like the dataset's fill value. */
    unsigned has_missing;
    double missing;
    unsigned keep_sign;
    /* With `has_valid_range`: a value >= valid_min decodes to a value >=
     * valid_min, and a value <= valid_max to a value <= valid_max. Both may be
     * infinite. */
    unsigned has_valid_range;
    double valid_min, valid_max;
    /* 1: only streams that terp 1 reads; 0: also newer ones, where they are
     * smaller by at least 2 %. */
    unsigned format;
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

/* The most digits and bits that netCDF's nc_def_var_quantize keeps of a
 * float64. */
#define H5Z_TERP_MAX_NDIGITS 15u
#define H5Z_TERP_MAX_NBITS 52u

/* The pointwise bound that keeps `ndigits` significant decimal digits of every
 * value, 1 to H5Z_TERP_MAX_NDIGITS: 10^-ndigits / 2, half a unit of the last
 * digit, relative to the largest value of as many digits (Zender, GMD 9, 2016).
 * netCDF's BITGROOM and GRANULARBR promise the same. Returns 0 for any other
 * number of digits. */
static inline double
H5Z_terp_bound_of_digits(unsigned ndigits)
{
    /* A table, because the program may have changed the rounding of
     * divisions. */
    static const double bounds[H5Z_TERP_MAX_NDIGITS + 1] = {
        0,    5e-2,  5e-3,  5e-4,  5e-5,  5e-6,  5e-7,  5e-8,
        5e-9, 5e-10, 5e-11, 5e-12, 5e-13, 5e-14, 5e-15, 5e-16};

    return ndigits > H5Z_TERP_MAX_NDIGITS ? 0 : bounds[ndigits];
}

/* The pointwise bound of values whose mantissas are rounded to `nbits` bits, 1
 * to H5Z_TERP_MAX_NBITS, as by netCDF's BITROUND: 2^-nbits / 2. Returns 0 for
 * any other number of bits. */
static inline double
H5Z_terp_bound_of_bits(unsigned nbits)
{
    double bound = 0.5;

    for (unsigned i = 0; i < nbits && i < H5Z_TERP_MAX_NBITS; i++)
        bound /= 2;
    return nbits < 1 || nbits > H5Z_TERP_MAX_NBITS ? 0 : bound;
}

/* Writes the cd_values of `config`, for H5Pset_filter, nc_def_var_filter and
 * similar functions. Returns their number, or 0 when a field is out of range.
 * The bound itself is checked when the dataset is created. */
static inline size_t
H5Z_terp_cd_values(const struct H5Z_terp_config *config,
                   unsigned cd_values[H5Z_TERP_MAX_NWORDS])
{
    /* Flags in the first word: the bound is a float64 in two words; two more
     * words hold a floor, two a missing value, four a valid range. */
    const unsigned exact = 0x10000u, floored = 0x20000u, missing = 0x40000u;
    const unsigned ranged = 0x80000u, first_format = 0x400000u;
    /* Tested by its bits: where the CPU flushes subnormals, a subnormal floor
     * compares equal to 0. */
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
        config->keep_sign >= H5Z_TERP_NKEEP_SIGNS || config->format > 1 ||
        config->nlogical > H5Z_TERP_MAX_NLOGICAL)
        return 0;
    cd_values[0] = config->bound_mode | config->pipeline << 4 |
                   config->predictor << 8 | config->effort << 12 | exact |
                   floored * has_floor | missing * has_missing |
                   ranged * has_range | config->keep_sign << 20 |
                   first_format * config->format;
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

/* Room for the bounds of members (H5Z_terp_add_member). */
#define H5Z_TERP_MEMBER_NWORDS 4
#define H5Z_TERP_MAX_NBOUNDED 16
#define H5Z_TERP_MAX_ALL_NWORDS \
    (H5Z_TERP_MAX_NWORDS + H5Z_TERP_MEMBER_NWORDS * H5Z_TERP_MAX_NBOUNDED)

/* Gives a member of a compound type a bound of its own, behind the cd_nelmts
 * words that H5Z_terp_cd_values or this function has written. `cd_values` holds
 * H5Z_TERP_MAX_ALL_NWORDS; at most H5Z_TERP_MAX_NBOUNDED members have bounds.
 * `name` is in UTF-8; "position.x" is member x of member position. Of `config`
 * the bound, pipeline, predictor, effort and keep_sign count. Returns the
 * number of words, or 0 when a field is out of range. Creating a dataset of a
 * compound type that lacks the member fails. */
static inline size_t
H5Z_terp_add_member(const char *name, const struct H5Z_terp_config *config,
                    unsigned *cd_values, size_t cd_nelmts)
{
    /* The bits of a mode but those that announce more words. */
    const unsigned kept = 0x31FFFFu, members = 0x800000u;
    unsigned words[H5Z_TERP_MAX_NWORDS], hash = 0x811C9DC5u;

    if (H5Z_terp_cd_values(config, words) == 0 ||
        cd_nelmts + H5Z_TERP_MEMBER_NWORDS > H5Z_TERP_MAX_ALL_NWORDS)
        return 0;
    for (; *name != '\0'; name++) /* FNV-1a */
        hash = ((hash ^ (unsigned char)*name) * 0x01000193u) & 0xFFFFFFFFu;
    cd_values[0] |= members;
    cd_values[cd_nelmts] = hash;
    cd_values[cd_nelmts + 1] = words[0] & kept;
    cd_values[cd_nelmts + 2] = words[1];
    cd_values[cd_nelmts + 3] = words[2];
    return cd_nelmts + H5Z_TERP_MEMBER_NWORDS;
}

/* Adds terp to the filters of `dcpl`, a creation property list of a chunked
 * dataset. terp should be the first filter: data that another filter has
 * changed passes through uncompressed, except after shuffle and fletcher32
 * (doc/cd_values.md, "Other filters in the pipeline"). Returns a non-negative
 * value; or a negative value, with the reason on HDF5's error stack, when a
 * field is out of range or HDF5 does not find the plugin.
 *
 * Creating the dataset fails for a bound that is not finite and positive (0 is
 * allowed for H5Z_TERP_ABSOLUTE), for a pointwise bound of 1 or more, and for a
 * floor with a mode other than H5Z_TERP_POINTWISE. */
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
    /* H5Pset_filter succeeds without the plugin; only H5Dcreate would fail. */
    if (config->flags == H5Z_FLAG_MANDATORY &&
        H5Zfilter_avail(H5Z_FILTER_TERP) <= 0) {
        H5Epush2(H5E_DEFAULT, "h5z_terp.h", "H5Pset_terp", __LINE__,
                 H5E_ERR_CLS, H5E_PLINE, H5E_NOFILTER,
                 "HDF5 does not find the plugin of terp: add its folder to "
                 "HDF5_PLUGIN_PATH");
        return -1;
    }
    return H5Pset_filter(dcpl, H5Z_FILTER_TERP, config->flags, cd_nelmts,
                         cd_values);
}

/* For the functions below: H5Pset_terp with a bound, a floor, and 0 in every
 * other field. */
static inline herr_t
H5Z_terp_set_bound(hid_t dcpl, unsigned mode, double bound, double floor)
{
    struct H5Z_terp_config config;

    memset(&config, 0, sizeof config);
    config.bound_mode = mode;
    config.bound = bound;
    config.floor = floor;
    config.flags = H5Z_FLAG_MANDATORY;
    return H5Pset_terp(dcpl, &config);
}

/* |x - x'| <= bound. Mandatory; terp chooses everything else. */
static inline herr_t
H5Pset_terp_abs(hid_t dcpl, double bound)
{
    return H5Z_terp_set_bound(dcpl, H5Z_TERP_ABSOLUTE, bound, 0);
}

/* Lossless. Mandatory; terp chooses everything else. */
static inline herr_t
H5Pset_terp_lossless(hid_t dcpl)
{
    return H5Pset_terp_abs(dcpl, 0);
}

/* |x - x'| <= bound * (max - min) of the chunk. Mandatory; terp chooses
 * everything else. */
static inline herr_t
H5Pset_terp_rel(hid_t dcpl, double bound)
{
    return H5Z_terp_set_bound(dcpl, H5Z_TERP_RELATIVE, bound, 0);
}

/* |x - x'| <= max(floor, bound * |x|). Zeros and signs of values within the
 * floor may change. Mandatory; terp chooses everything else. */
static inline herr_t
H5Pset_terp_pwr_floor(hid_t dcpl, double bound, double floor)
{
    return H5Z_terp_set_bound(dcpl, H5Z_TERP_POINTWISE, bound, floor);
}

/* |x - x'| <= bound * |x|, so zeros and signs stay. Mandatory; terp chooses
 * everything else. */
static inline herr_t
H5Pset_terp_pwr(hid_t dcpl, double bound)
{
    return H5Pset_terp_pwr_floor(dcpl, bound, 0);
}

/* Each chunk has at least this PSNR in dB. Mandatory; terp chooses everything
 * else. */
static inline herr_t
H5Pset_terp_psnr(hid_t dcpl, double psnr)
{
    return H5Z_terp_set_bound(dcpl, H5Z_TERP_PSNR, psnr, 0);
}

/* Keeps 1 to 15 significant decimal digits of each value: H5Pset_terp_pwr with
 * the bound of H5Z_terp_bound_of_digits. Creating the dataset fails for any
 * other number. */
static inline herr_t
H5Pset_terp_digits(hid_t dcpl, unsigned ndigits)
{
    return H5Pset_terp_pwr(dcpl, H5Z_terp_bound_of_digits(ndigits));
}

/* Keeps 1 to 52 bits of the mantissa of each value: H5Pset_terp_pwr with the
 * bound of H5Z_terp_bound_of_bits. Creating the dataset fails for any other
 * number. */
static inline herr_t
H5Pset_terp_bits(hid_t dcpl, unsigned nbits)
{
    return H5Pset_terp_pwr(dcpl, H5Z_terp_bound_of_bits(nbits));
}

/* Registers the filter with HDF5, in a program that is linked with the library
 * terp::h5z_linked because it cannot load a plugin. Negative where HDF5
 * refuses. */
#ifdef __cplusplus
extern "C"
#endif
    int
    H5Z_terp_register(void);

#endif

/* Compares a type with those that HDF5 predefines, and reads the fields of a
 * float of 16 bits.
 *
 * Functions are looked up one by one as they are needed: in a program that
 * exports none of HDF5, each search takes time (filter/plugin/program.h), and a
 * program that is linked with libhdf5.a holds only the functions that it calls
 * itself. */
#include "filter/types.h"

#include "codec/format/types.h"

/* The types that HDF5 predefines, by the variables that hold their ids. */
static const struct {
    const char *variable;
    struct terp_number number;
} predefined[] = {
    {"H5T_IEEE_F32LE_g", {TERP_FLOAT32, false}},
    {"H5T_IEEE_F64LE_g", {TERP_FLOAT64, false}},
    {"H5T_IEEE_F32BE_g", {TERP_FLOAT32, true}},
    {"H5T_IEEE_F64BE_g", {TERP_FLOAT64, true}},
    {"H5T_STD_I8LE_g", {TERP_INT8, false}},
    {"H5T_STD_I16LE_g", {TERP_INT16, false}},
    {"H5T_STD_I32LE_g", {TERP_INT32, false}},
    {"H5T_STD_I64LE_g", {TERP_INT64, false}},
    {"H5T_STD_U8LE_g", {TERP_UINT8, false}},
    {"H5T_STD_U16LE_g", {TERP_UINT16, false}},
    {"H5T_STD_U32LE_g", {TERP_UINT32, false}},
    {"H5T_STD_U64LE_g", {TERP_UINT64, false}},
    {"H5T_STD_I8BE_g", {TERP_INT8, true}},
    {"H5T_STD_I16BE_g", {TERP_INT16, true}},
    {"H5T_STD_I32BE_g", {TERP_INT32, true}},
    {"H5T_STD_I64BE_g", {TERP_INT64, true}},
    {"H5T_STD_U8BE_g", {TERP_UINT8, true}},
    {"H5T_STD_U16BE_g", {TERP_UINT16, true}},
    {"H5T_STD_U32BE_g", {TERP_UINT32, true}},
    {"H5T_STD_U64BE_g", {TERP_UINT64, true}},
};
#define NPREDEFINED (sizeof predefined / sizeof *predefined)

bool
terp_number_find_type(const struct terp_host *host,
                      const struct terp_number *number, hid_t *type_ret)
{
    for (size_t i = 0; i < NPREDEFINED; i++)
        if (predefined[i].number.type == number->type &&
            predefined[i].number.big_endian == number->big_endian)
            return terp_host_find_id(host, predefined[i].variable, type_ret);
    return false;
}

/* H5Tequal needs no function that tells a type's properties: a program that is
 * linked with libhdf5.a may lack those. */
static enum terp_pass
find_predefined(const struct terp_host *host, hid_t type,
                struct terp_number *number_ret)
{
    htri_t (*is_equal)(hid_t, hid_t);
    hid_t known;

    if (!terp_host_find(host, "H5Tequal", &is_equal))
        return TERP_PASS_UNKNOWN_LAYOUT;
    for (size_t i = 0; i < NPREDEFINED; i++) {
        if (!terp_host_find_id(host, predefined[i].variable, &known))
            return TERP_PASS_UNKNOWN_LAYOUT;
        if (is_equal(type, known) > 0) {
            *number_ret = predefined[i].number;
            return TERP_PASS_NONE;
        }
    }
    return TERP_PASS_NOT_NUMBER;
}

/* The floats of 16 bits: sign, exponent and mantissa fill the bits in that
 * order from the highest one down. */
static const struct {
    enum terp_type type;
    size_t exponent_nbits, mantissa_nbits, bias;
} halves[] = {{TERP_FLOAT16, 5, 10, 15}, {TERP_BFLOAT16, 8, 7, 127}};

/* A float of 16 bits, every property of which is compared. */
static enum terp_pass
read_half(const struct terp_host *host, hid_t type,
          struct terp_number *number_ret)
{
    herr_t (*get_fields)(hid_t, size_t *, size_t *, size_t *, size_t *,
                         size_t *);
    size_t (*get_size)(hid_t), (*get_precision)(hid_t), (*get_bias)(hid_t);
    H5T_norm_t (*get_norm)(hid_t);
    H5T_order_t (*get_order)(hid_t);
    size_t sign_at, exponent_at, exponent_nbits, mantissa_at, mantissa_nbits;

    if (!terp_host_find(host, "H5Tget_fields", &get_fields) ||
        !terp_host_find(host, "H5Tget_size", &get_size) ||
        !terp_host_find(host, "H5Tget_precision", &get_precision) ||
        !terp_host_find(host, "H5Tget_ebias", &get_bias) ||
        !terp_host_find(host, "H5Tget_norm", &get_norm) ||
        !terp_host_find(host, "H5Tget_order", &get_order) ||
        get_size(type) != 2 || get_precision(type) != 16 ||
        get_norm(type) != H5T_NORM_IMPLIED ||
        get_fields(type, &sign_at, &exponent_at, &exponent_nbits, &mantissa_at,
                   &mantissa_nbits) < 0 ||
        sign_at != 15 || mantissa_at != 0 || exponent_at != mantissa_nbits)
        return TERP_PASS_FLOAT_FORMAT;
    const size_t bias = get_bias(type);
    const H5T_order_t order = get_order(type);
    if (order != H5T_ORDER_LE && order != H5T_ORDER_BE)
        return TERP_PASS_FLOAT_FORMAT;
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
        if (exponent_nbits == halves[i].exponent_nbits &&
            mantissa_nbits == halves[i].mantissa_nbits &&
            bias == halves[i].bias) {
            *number_ret =
                (struct terp_number){halves[i].type, order == H5T_ORDER_BE};
            return TERP_PASS_NONE;
        }
    return TERP_PASS_FLOAT_FORMAT;
}

/* Complex values whose parts are of type `part`. */
static enum terp_pass
find_complex(const struct terp_host *host, hid_t part,
             struct terp_number *number_ret)
{
    enum terp_pass pass = find_predefined(host, part, number_ret);

    if (pass != TERP_PASS_NONE)
        return pass;
    if (!terp_type_is_plain(number_ret->type))
        return TERP_PASS_NOT_NUMBER;
    number_ret->type =
        number_ret->type == TERP_FLOAT32 ? TERP_COMPLEX64 : TERP_COMPLEX128;
    return TERP_PASS_NONE;
}

static enum terp_pass
read_compound(const struct terp_host *host, hid_t type,
              struct terp_number *number_ret)
{
    int (*count_members)(hid_t), (*find_member)(hid_t, const char *);
    size_t (*get_offset)(hid_t, unsigned), (*get_size)(hid_t);
    hid_t (*get_member)(hid_t, unsigned);
    htri_t (*is_equal)(hid_t, hid_t);
    herr_t (*close_type)(hid_t);

    if (!terp_host_find(host, "H5Tget_nmembers", &count_members) ||
        !terp_host_find(host, "H5Tget_member_index", &find_member) ||
        !terp_host_find(host, "H5Tget_member_offset", &get_offset) ||
        !terp_host_find(host, "H5Tget_size", &get_size) ||
        !terp_host_find(host, "H5Tget_member_type", &get_member) ||
        !terp_host_find(host, "H5Tequal", &is_equal) ||
        !terp_host_find(host, "H5Tclose", &close_type) ||
        count_members(type) != 2 || find_member(type, "r") != 0 ||
        find_member(type, "i") != 1)
        return TERP_PASS_NOT_NUMBER;
    const hid_t real = get_member(type, 0), imaginary = get_member(type, 1);
    enum terp_pass pass = TERP_PASS_NOT_NUMBER;
    if (real >= 0 && imaginary >= 0 && is_equal(real, imaginary) > 0 &&
        get_offset(type, 0) == 0 && get_offset(type, 1) == get_size(real) &&
        get_size(type) == 2 * get_size(real))
        pass = find_complex(host, real, number_ret);
    close_type(real);
    close_type(imaginary);
    return pass;
}

/* An enumeration of integers, or an H5T_COMPLEX of floats. */
static enum terp_pass
read_derived(const struct terp_host *host, hid_t type, bool is_complex,
             struct terp_number *number_ret)
{
    hid_t (*get_super)(hid_t);
    herr_t (*close_type)(hid_t);

    if (!terp_host_find(host, "H5Tget_super", &get_super) ||
        !terp_host_find(host, "H5Tclose", &close_type))
        return TERP_PASS_UNKNOWN_LAYOUT;
    const hid_t base = get_super(type);
    if (base < 0)
        return TERP_PASS_UNKNOWN_LAYOUT;
    enum terp_pass pass = is_complex ? find_complex(host, base, number_ret)
                                     : find_predefined(host, base, number_ret);
    close_type(base);
    return pass;
}

enum terp_pass
terp_number_read(const struct terp_host *host, hid_t type,
                 struct terp_number *number_ret)
{
    H5T_class_t (*get_class)(hid_t);

    if (!terp_host_find(host, "H5Tget_class", &get_class))
        return TERP_PASS_UNKNOWN_LAYOUT;
    const int class = (int)get_class(type);
    if (class == H5T_NO_CLASS)
        return TERP_PASS_UNKNOWN_LAYOUT;
    if (class == H5T_ENUM || class == TERP_H5T_COMPLEX)
        return read_derived(host, type, class == TERP_H5T_COMPLEX, number_ret);
    if (class == H5T_COMPOUND)
        return read_compound(host, type, number_ret);
    if (class != H5T_FLOAT && class != H5T_INTEGER)
        return TERP_PASS_NOT_NUMBER;
    enum terp_pass pass = find_predefined(host, type, number_ret);
    return pass == TERP_PASS_NOT_NUMBER && class == H5T_FLOAT
               ? read_half(host, type, number_ret)
               : pass;
}

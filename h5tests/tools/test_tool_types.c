/* How the tool recognizes HDF5's types: those that the filter codes, and others
 * that differ from them in one property. */
#include "codec/format/base.h"
#include "h5tests/support/cmocka_all.h"
#include "tools/common/h5file.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A 16-bit float: positions and lengths of fields in bits. */
struct half {
    size_t sign_at, exponent_at, exponent_nbits, mantissa_at, mantissa_nbits,
        bias;
    H5T_norm_t norm;
};

static const struct half binary16 = {15, 10, 5, 0, 10, 15, H5T_NORM_IMPLIED};
static const struct half bfloat16 = {15, 7, 8, 0, 7, 127, H5T_NORM_IMPLIED};

static enum terp_type
type_of_half(const struct half *half, H5T_order_t order)
{
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);

    assert_true(H5Tset_fields(type, half->sign_at, half->exponent_at,
                              half->exponent_nbits, half->mantissa_at,
                              half->mantissa_nbits) >= 0);
    assert_true(H5Tset_size(type, 2) >= 0);
    assert_true(H5Tset_ebias(type, half->bias) >= 0);
    assert_true(H5Tset_norm(type, half->norm) >= 0);
    assert_true(H5Tset_order(type, order) >= 0);
    const enum terp_type found = tool_coded_type(type);
    assert_int_equal(tool_type(type), TERP_BYTES);
    H5Tclose(type);
    return found;
}

static void
half_with_every_field_is_recognised(void **state)
{
    (void)state;
    assert_int_equal(type_of_half(&binary16, H5T_ORDER_LE), TERP_FLOAT16);
    assert_int_equal(type_of_half(&binary16, H5T_ORDER_BE), TERP_FLOAT16);
    assert_int_equal(type_of_half(&bfloat16, H5T_ORDER_LE), TERP_BFLOAT16);
    assert_int_equal(type_of_half(&bfloat16, H5T_ORDER_BE), TERP_BFLOAT16);
}

/* The filter stores values of this type uncompressed. */
static void
half_with_another_field_is_bytes(void **state)
{
    static const struct half others[] = {
        {15, 11, 4, 0, 10, 15,
         H5T_NORM_IMPLIED}, /* a bit outside of all fields */
        {15, 10, 4, 0, 10, 15, H5T_NORM_IMPLIED},
        {15, 10, 5, 0, 10, 16, H5T_NORM_IMPLIED},
        {15, 10, 5, 0, 9, 15, H5T_NORM_IMPLIED},
        {15, 10, 5, 0, 10, 15, H5T_NORM_NONE},
        {0, 11, 5, 1, 10, 15, H5T_NORM_IMPLIED},
        {14, 9, 5, 0, 9, 15, H5T_NORM_IMPLIED},
        {15, 0, 5, 5, 10, 15, H5T_NORM_IMPLIED},
        {15, 8, 7, 0, 7, 127, H5T_NORM_IMPLIED},
        {15, 7, 7, 0, 7, 127, H5T_NORM_IMPLIED},
        {15, 7, 8, 0, 7, 126, H5T_NORM_IMPLIED},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(others); i++)
        if (type_of_half(&others[i], H5T_ORDER_LE) != TERP_BYTES)
            fail_msg("half %d is recognised", (int)i);
}

static void
predefined_types_are_recognised(void **state)
{
    const struct {
        hid_t id;
        enum terp_type type;
    } known[] = {
        {H5T_IEEE_F32LE, TERP_FLOAT32}, {H5T_IEEE_F32BE, TERP_FLOAT32},
        {H5T_IEEE_F64LE, TERP_FLOAT64}, {H5T_IEEE_F64BE, TERP_FLOAT64},
        {H5T_STD_I8LE, TERP_INT8},      {H5T_STD_U8BE, TERP_UINT8},
        {H5T_STD_I16LE, TERP_INT16},    {H5T_STD_U16BE, TERP_UINT16},
        {H5T_STD_I32LE, TERP_INT32},    {H5T_STD_U32BE, TERP_UINT32},
        {H5T_STD_I64LE, TERP_INT64},    {H5T_STD_U64BE, TERP_UINT64},
        {H5T_STD_B32LE, TERP_BYTES},    {H5T_C_S1, TERP_BYTES},
        {H5T_STD_REF_OBJ, TERP_BYTES},  {H5T_UNIX_D32LE, TERP_BYTES},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(known); i++) {
        assert_int_equal(tool_coded_type(known[i].id), known[i].type);
        assert_int_equal(tool_type(known[i].id),
                         known[i].type == TERP_FLOAT32 ||
                                 known[i].type == TERP_FLOAT64
                             ? known[i].type
                             : TERP_BYTES);
    }
}

static void
integer_with_padding_is_bytes(void **state)
{
    const hid_t few_bits = H5Tcopy(H5T_STD_I32LE);
    const hid_t wide = H5Tcopy(H5T_STD_I16LE);

    (void)state;
    assert_true(H5Tset_precision(few_bits, 20) >= 0);
    assert_int_equal(tool_coded_type(few_bits), TERP_BYTES);
    assert_true(H5Tset_size(wide, 3) >= 0);
    assert_int_equal(tool_coded_type(wide), TERP_BYTES);
    H5Tclose(few_bits);
    H5Tclose(wide);
}

static void
enumeration_is_its_integers(void **state)
{
    const hid_t type = H5Tenum_create(H5T_STD_U16BE);
    const uint16_t one = 1;

    (void)state;
    assert_true(H5Tenum_insert(type, "one", &one) >= 0);
    assert_int_equal(tool_coded_type(type), TERP_UINT16);
    assert_int_equal(tool_type(type), TERP_BYTES);
    H5Tclose(type);
}

static enum terp_type
type_of_pair(hid_t part, const char *real, const char *imaginary, size_t gap)
{
    const size_t nbytes = H5Tget_size(part);
    const hid_t type = H5Tcreate(H5T_COMPOUND, 2 * nbytes + gap);

    assert_true(H5Tinsert(type, real, 0, part) >= 0);
    assert_true(H5Tinsert(type, imaginary, nbytes + gap, part) >= 0);
    const enum terp_type found = tool_coded_type(type);
    H5Tclose(type);
    return found;
}

static void
compound_of_two_floats_is_complex(void **state)
{
    (void)state;
    assert_int_equal(type_of_pair(H5T_IEEE_F32LE, "r", "i", 0), TERP_COMPLEX64);
    assert_int_equal(type_of_pair(H5T_IEEE_F64BE, "r", "i", 0),
                     TERP_COMPLEX128);
    assert_int_equal(type_of_pair(H5T_IEEE_F32LE, "x", "y", 0), TERP_BYTES);
    assert_int_equal(type_of_pair(H5T_IEEE_F32LE, "r", "i", 4), TERP_BYTES);
    assert_int_equal(type_of_pair(H5T_STD_I32LE, "r", "i", 0), TERP_BYTES);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_with_every_field_is_recognised),
        cmocka_unit_test(half_with_another_field_is_bytes),
        cmocka_unit_test(predefined_types_are_recognised),
        cmocka_unit_test(integer_with_padding_is_bytes),
        cmocka_unit_test(enumeration_is_its_integers),
        cmocka_unit_test(compound_of_two_floats_is_complex),
    };

    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

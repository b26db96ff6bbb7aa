/* terp in libpressio, through libpressio's C interface: types, dims, options,
 * errors. test_block.c tests blocks. */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <libpressio.h>

extern "C" void
libpressio_register_terp(void);

#define CHECK(condition)                                                 \
    do {                                                                 \
        if (!(condition)) {                                              \
            std::fprintf(stderr, "line %d: " #condition "\n", __LINE__); \
            std::exit(1);                                                \
        }                                                                \
    } while (0)

static pressio_compressor *
make(pressio *library)
{
    pressio_compressor *compressor = pressio_get_compressor(library, "terp");

    CHECK(compressor != nullptr);
    return compressor;
}

static int
set(pressio_compressor *compressor, const char *key, double number)
{
    pressio_options *options = pressio_options_new();

    pressio_options_set_double(options, key, number);
    const int error = pressio_compressor_set_options(compressor, options);
    pressio_options_free(options);
    return error;
}

static int
set(pressio_compressor *compressor, const char *key, const char *word)
{
    pressio_options *options = pressio_options_new();

    pressio_options_set_string(options, key, word);
    const int error = pressio_compressor_set_options(compressor, options);
    pressio_options_free(options);
    return error;
}

static int
set(pressio_compressor *compressor, const char *key, int32_t number)
{
    pressio_options *options = pressio_options_new();

    pressio_options_set_integer(options, key, number);
    const int error = pressio_compressor_set_options(compressor, options);
    pressio_options_free(options);
    return error;
}

/* Compresses 50 x 40 x 30 values, the last dim fastest; returns the largest
 * error, and the compressed bytes. */
template <class T>
static double
round_trip(pressio_compressor *compressor, pressio_dtype type,
           size_t *nbytes_ret)
{
    const size_t dims[] = {30, 40, 50}; /* libpressio: the fastest first */
    std::vector<T> values(30 * 40 * 50);
    double error = 0;

    for (size_t i = 0; i < values.size(); i++)
        values[i] = static_cast<T>(
            50 + 40 * std::sin(0.1 * static_cast<double>(i % 30)) *
                     std::cos(0.05 * static_cast<double>(i / 30 % 40)));
    pressio_data *input =
        pressio_data_new_nonowning(type, values.data(), 3, dims);
    pressio_data *encoded =
        pressio_data_new_empty(pressio_byte_dtype, 0, nullptr);
    pressio_data *decoded = pressio_data_new_owning(type, 3, dims);
    CHECK(pressio_compressor_compress(compressor, input, encoded) == 0);
    *nbytes_ret = pressio_data_get_bytes(encoded);
    CHECK(pressio_compressor_decompress(compressor, encoded, decoded) == 0);
    size_t nbytes;
    const T *found = static_cast<const T *>(pressio_data_ptr(decoded, &nbytes));
    CHECK(nbytes == values.size() * sizeof(T));
    for (size_t i = 0; i < values.size(); i++)
        error = std::fmax(error, std::fabs(static_cast<double>(values[i]) -
                                           static_cast<double>(found[i])));
    pressio_data_free(input);
    pressio_data_free(encoded);
    pressio_data_free(decoded);
    return error;
}

static void
types_keep_the_bound(pressio *library)
{
    pressio_compressor *compressor = make(library);
    size_t nbytes;

    CHECK(round_trip<float>(compressor, pressio_float_dtype, &nbytes) == 0);
    CHECK(set(compressor, "pressio:abs", 1e-2) == 0);
    const double error =
        round_trip<float>(compressor, pressio_float_dtype, &nbytes);
    CHECK(error > 0 && error <= 1e-2 && nbytes < 240000 / 20);
    CHECK(round_trip<double>(compressor, pressio_double_dtype, &nbytes) <=
          1e-2);
    CHECK(round_trip<int16_t>(compressor, pressio_int16_dtype, &nbytes) == 0);
    CHECK(round_trip<uint64_t>(compressor, pressio_uint64_dtype, &nbytes) == 0);
    CHECK(round_trip<uint8_t>(compressor, pressio_byte_dtype, &nbytes) == 0);
    pressio_compressor_release(compressor);
}

static void
options_replace_each_other(pressio *library)
{
    pressio_compressor *compressor = make(library);
    size_t nbytes, fewer;

    CHECK(set(compressor, "terp:rel", 1e-3) == 0);
    CHECK(round_trip<float>(compressor, pressio_float_dtype, &nbytes) <= 0.08);
    CHECK(set(compressor, "terp:pwr", 1e-3) == 0);
    CHECK(set(compressor, "terp:floor", 1e-6) == 0);
    CHECK(round_trip<float>(compressor, pressio_float_dtype, &nbytes) <= 0.09);
    /* A floor belongs to pointwise bounds. */
    CHECK(set(compressor, "terp:abs", 1.0) != 0);
    pressio_compressor_release(compressor);

    compressor = make(library);
    CHECK(set(compressor, "terp:abs", 1e-3) == 0);
    round_trip<float>(compressor, pressio_float_dtype, &nbytes);
    CHECK(set(compressor, "terp:pipeline", "speed") == 0);
    CHECK(round_trip<float>(compressor, pressio_float_dtype, &fewer) <= 1e-3);
    CHECK(fewer != nbytes);
    CHECK(set(compressor, "pressio:lossless", 1) == 0);
    CHECK(round_trip<float>(compressor, pressio_float_dtype, &nbytes) == 0);
    pressio_options *options = pressio_compressor_get_options(compressor);
    int32_t is_lossless = 0;
    CHECK(pressio_options_get_integer(options, "terp:lossless", &is_lossless) ==
          pressio_options_key_set);
    CHECK(is_lossless == 1);
    pressio_options_free(options);
    pressio_compressor_release(compressor);
}

static void
wrong_options_are_refused(pressio *library)
{
    pressio_compressor *compressor = make(library);
    size_t nbytes;

    CHECK(set(compressor, "terp:abs", 0.5) == 0);
    CHECK(set(compressor, "terp:rel", -1.0) != 0);
    CHECK(std::strstr(pressio_compressor_error_msg(compressor), "bound") !=
          nullptr);
    CHECK(set(compressor, "terp:pipeline", "zip") != 0);
    CHECK(std::strstr(pressio_compressor_error_msg(compressor), "pipeline") !=
          nullptr);
    /* What was set before holds. */
    const double error =
        round_trip<double>(compressor, pressio_double_dtype, &nbytes);
    CHECK(error > 0 && error <= 0.5);
    pressio_compressor_release(compressor);
}

static void
wrong_streams_are_refused(pressio *library)
{
    pressio_compressor *compressor = make(library);
    const size_t dims[] = {100}, fewer[] = {99};
    std::vector<float> values(100, 1.5f);
    pressio_data *input =
        pressio_data_new_nonowning(pressio_float_dtype, values.data(), 1, dims);
    pressio_data *encoded =
        pressio_data_new_empty(pressio_byte_dtype, 0, nullptr);
    pressio_data *small =
        pressio_data_new_owning(pressio_float_dtype, 1, fewer);
    pressio_data *decoded =
        pressio_data_new_owning(pressio_float_dtype, 1, dims);

    CHECK(pressio_compressor_compress(compressor, input, encoded) == 0);
    CHECK(pressio_compressor_decompress(compressor, encoded, small) != 0);
    size_t nbytes;
    uint8_t *bytes = static_cast<uint8_t *>(pressio_data_ptr(encoded, &nbytes));
    bytes[nbytes - 1] ^= 1;
    CHECK(pressio_compressor_decompress(compressor, encoded, decoded) != 0);
    CHECK(std::strstr(pressio_compressor_error_msg(compressor), "terp: ") !=
          nullptr);
    pressio_data_free(input);
    pressio_data_free(encoded);
    pressio_data_free(small);
    pressio_data_free(decoded);
    pressio_compressor_release(compressor);
}

int
main()
{
    libpressio_register_terp();
    pressio *library = pressio_instance();
    types_keep_the_bound(library);
    options_replace_each_other(library);
    wrong_options_are_refused(library);
    wrong_streams_are_refused(library);
    pressio_release(library);
    return 0;
}

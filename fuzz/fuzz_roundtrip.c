/* Any values, dims and parameters keep every promise of a round trip.
 * terp_case_check tests the promises; a failed assertion ends the process. */
#include <math.h>
#include <string.h>

#include "fuzz/target.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/reader.h"
#include "h5tests/support/values.h"

enum {
    HEADER_NBYTES = 16,
    FLAG_FLOAT64 = 1,
    FLAG_BIG_ENDIAN = 2,
    FLAG_STACK = 4,
    FLAG_RELATIVE = 8,
    FLAG_FILL = 16,
    FLAG_WALK = 32,
    EFFORT_SHIFT = 6,
    LARGE_SHIFT = 2,   /* of byte 1 */
    OTHER_TYPE = 0x10, /* of byte 9 */
    LOSSLESS = 0x80    /* of byte 8 */
};

/* Fills the chunk with the input's bytes, repeated, as bits of values; or with
 * a random walk whose steps are the input's bytes, which suits the
 * predictors. */
static void
make_values(const struct terp_chunk *chunk, bool is_walk, const uint8_t *data,
            size_t nbytes, uint8_t *values_ret)
{
    uint64_t nvalues = chunk_nvalues(chunk);
    int width = value_nbytes(chunk->type);
    double place = 0;

    for (uint64_t i = 0; i < nvalues; i++) {
        uint64_t bits = 0;
        if (is_walk) {
            place += (double)(int8_t)data[i % nbytes] / 64;
            bits = value_to_bits(chunk->type, place);
        } else {
            for (uint64_t b = 0; b < (uint64_t)width; b++)
                bits = bits << 8 | data[(i * (uint64_t)width + b) % nbytes];
        }
        value_put(chunk, values_ret, i, bits);
    }
}

/* Whether every integer is within the bound. An absolute bound of at least 1 is
 * rounded down; any other bound is lossless. */
static bool
integers_are_within(const struct terp_params *params,
                    const struct terp_chunk *chunk, const uint8_t *values,
                    const uint8_t *decoded)
{
    const bool has_bound =
        params->bound_mode == TERP_BOUND_ABSOLUTE && params->bound >= 1;
    const uint64_t bound = !has_bound               ? 0
                           : params->bound < 0x1p64 ? (uint64_t)params->bound
                                                    : UINT64_MAX;
    /* Signed integers are shifted so that they compare as unsigned ones. */
    const uint64_t least = integer_to_bits(chunk->type, -INFINITY);
    const uint64_t mask = UINT64_MAX >> (64 - 8 * value_nbytes(chunk->type));

    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const uint64_t a = (value_bits(chunk, values, i) - least) & mask;
        const uint64_t b = (value_bits(chunk, decoded, i) - least) & mask;
        if ((a > b ? a - b : b - a) > bound)
            return false;
    }
    return true;
}

/* Encodes values of any type. Both decoders give the same values. Integers are
 * within the bound. Bytes, and values under the bound 0, come back
 * unchanged. */
static void
check_all_types(const struct terp_params *params,
                const struct terp_chunk *chunk, const uint8_t *values)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const struct terp_stream stream =
        terp_case_encode(params, chunk, values, 1);
    uint8_t *decoded = terp_case_alloc(nbytes);
    uint64_t got = 0;
    bool is_read;

    CHECK(terp_decode(stream.bytes, stream.nbytes, decoded, nbytes, &got, 1) ==
          TERP_OK);
    CHECK(got == nbytes);
    if (chunk->type == TERP_BYTES ||
        (params->bound_mode == TERP_BOUND_ABSOLUTE && params->bound == 0))
        CHECK(memcmp(decoded, values, nbytes) == 0);
    if (terp_type_is_integer(chunk->type))
        CHECK(integers_are_within(params, chunk, values, decoded));
    CHECK(reader_agrees(stream.bytes, stream.nbytes, nbytes, true, &is_read));
    CHECK(is_read);
    free(stream.bytes);
    free(decoded);
}

/* The input: byte 0 flags and effort; byte 1 rank, size of the chunk, and
 * whether the bound is pointwise, without or with a floor (from bytes 2 and 7);
 * byte 2 pipeline and predictor; bytes 3-6 dims; bytes 7 and 8 bound; bytes
 * 8-15 fill value, whose first byte may also choose another type; from byte 9
 * on the data. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    /* The largest dim by rank: chunks of at most about 200 or 2000 values. */
    static const int largest[2][TERP_MAX_RANK] = {{200, 14, 6, 4},
                                                  {2000, 45, 13, 7}};

    if (nbytes <= HEADER_NBYTES)
        return 0;
    const unsigned flags = data[0];
    const bool is_large = (data[1] >> LARGE_SHIFT & 7) == 7;
    int rank = data[1] % TERP_MAX_RANK + 1;
    enum terp_type type = flags & FLAG_FLOAT64 ? TERP_FLOAT64 : TERP_FLOAT32;
    uint64_t dims[TERP_MAX_RANK];

    if (data[9] & OTHER_TYPE)
        type = (enum terp_type)(data[9] % OTHER_TYPE % TERP_NTYPES);
    if (type == TERP_BYTES)
        rank = 1;
    for (int i = 0; i < rank; i++)
        dims[i] = 1 + (uint64_t)data[3 + i] * 8 %
                          (uint64_t)largest[is_large][rank - 1];
    struct terp_chunk chunk = terp_case_chunk(type, rank, dims);
    chunk.big_endian = flags & FLAG_BIG_ENDIAN;
    chunk.stack = (flags & FLAG_STACK) && rank > 1;

    struct terp_params params = {
        .bound_mode =
            flags & FLAG_RELATIVE ? TERP_BOUND_RELATIVE : TERP_BOUND_ABSOLUTE,
        /* 0, or from the subnormal 2^-1024 to nearly 2^1017. */
        .bound = !(flags & FLAG_RELATIVE) && data[8] == LOSSLESS
                     ? 0
                     : ldexp(1 + data[7] / 256.0, 8 * (int8_t)data[8]),
        .pipeline = (enum terp_pipeline)(data[2] % TERP_NPIPELINES),
        .predictor = (enum terp_predictor)(data[2] / 4 % TERP_NPREDICTORS),
        .effort = (enum terp_effort)((flags >> EFFORT_SHIFT) % TERP_NEFFORTS),
        .has_fill = flags & FLAG_FILL,
        .fill_bits = load_le(data + 8, 8)};

    if (data[1] >= 0x80 && params.bound > 0 && params.bound < 1)
        params.bound_mode = TERP_BOUND_POINTWISE;
    if (data[1] >= 0xC0 && params.bound_mode == TERP_BOUND_POINTWISE)
        params.floor = ldexp(1 + data[2] / 256.0, 4 * (int8_t)data[7]);
    /* BEST takes thirty times as long. */
    if (is_large && params.effort == TERP_EFFORT_BEST)
        params.effort = TERP_EFFORT_DEFAULT;
    /* The missing value is the fill value plus one. */
    params.has_missing = params.has_fill && data[2] >= 0x80;
    params.missing_bits = params.fill_bits + 1;
    if (terp_params_check(&params, NULL) != TERP_OK)
        return 0; /* some combinations are invalid */
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    make_values(&chunk, flags & FLAG_WALK, data + 9, nbytes - 9, values);
    if (terp_type_is_plain(type) || terp_type_is_half(type))
        terp_case_check("fuzz", &params, &chunk, values);
    if (!terp_type_is_plain(type) || data[9] % 4 == 0)
        check_all_types(&params, &chunk, values);
    free(values);
    return 0;
}

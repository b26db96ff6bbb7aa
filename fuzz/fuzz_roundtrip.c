/* Any values, dims and parameters keep every promise of a round trip: those
 * of terp_case_check, whose failed assertion ends the process. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "h5tests/support/cases.h"
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
    LOSSLESS = 0x80 /* byte 8 */
};

/* Bytes as bits of values, over and over; or as the steps of a random walk,
 * which is what the predictors are made for. */
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

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/* Bytes 0 flags and effort, 1 rank and whether the bound is pointwise, with a
 * floor (of 2 and 7) or without, 2
 * pipeline and predictor, 3-6 dims, 7 and 8 bound, the next 8 (read again as
 * data) fill value; then data. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    /* Largest dim by rank: at most some 2000 values. */
    static const int largest[TERP_MAX_RANK] = {2000, 45, 13, 7};

    if (nbytes <= HEADER_NBYTES)
        return 0;
    unsigned flags = data[0];
    int rank = data[1] % TERP_MAX_RANK + 1;
    uint64_t dims[TERP_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = (uint64_t)(1 + data[3 + i] * 8 % largest[rank - 1]);
    struct terp_chunk chunk = terp_case_chunk(
        flags & FLAG_FLOAT64 ? TERP_FLOAT64 : TERP_FLOAT32, rank, dims);
    chunk.big_endian = flags & FLAG_BIG_ENDIAN;
    chunk.stack = (flags & FLAG_STACK) && rank > 1;

    struct terp_params params = {
        .bound_mode =
            flags & FLAG_RELATIVE ? TERP_BOUND_RELATIVE : TERP_BOUND_ABSOLUTE,
        /* 0, or from 2^-1024, a denormal, to nearly 2^1017. */
        .bound = !(flags & FLAG_RELATIVE) && data[8] == LOSSLESS
                     ? 0
                     : ldexp(1 + data[7] / 256.0, 8 * (int8_t)data[8]),
        .pipeline = (enum terp_pipeline)(data[2] % 5),
        .predictor = (enum terp_predictor)(data[2] / 4 % 3),
        .effort = (enum terp_effort)((flags >> EFFORT_SHIFT) % TERP_NEFFORTS),
        .has_fill = flags & FLAG_FILL,
        .fill_bits = load_le(data + 8, 8)};

    if (data[1] >= 0x80 && params.bound > 0 && params.bound < 1)
        params.bound_mode = TERP_BOUND_POINTWISE;
    if (data[1] >= 0xC0 && params.bound_mode == TERP_BOUND_POINTWISE)
        params.floor = ldexp(1 + data[2] / 256.0, 4 * (int8_t)data[7]);
    /* The next number is a second fill value. */
    params.has_missing = params.has_fill && data[2] >= 0x80;
    params.missing_bits = params.fill_bits + 1;
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    make_values(&chunk, flags & FLAG_WALK, data + 9, nbytes - 9, values);
    terp_case_check("fuzz", &params, &chunk, values);
    free(values);
    return 0;
}

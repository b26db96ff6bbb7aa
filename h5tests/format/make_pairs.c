/* make_pairs DIR: writes streams of all kinds to an existing folder, N.terp,
 * and beside each the values that it decodes to, N.values. */
#include <stdio.h>
#include <stdlib.h>

#include "h5tests/support/fields.h"
#include "h5tests/support/modes.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* From no tile that is full to several partitions. */
static const struct terp_chunk chunks[] = {
    {TERP_FLOAT64, false, false, 1, {2}},
    {TERP_FLOAT32, false, false, 1, {70001}},
    {TERP_FLOAT32, false, false, 2, {303, 509}},
    {TERP_FLOAT64, true, false, 2, {3, 3001}},
    {TERP_FLOAT32, true, false, 3, {7, 1, 13}},
    {TERP_FLOAT64, false, false, 3, {33, 35, 37}},
    {TERP_FLOAT32, false, false, 4, {9, 11, 13, 15}},
    {TERP_FLOAT32, false, true, 4, {5, 15, 15, 16}},
    {TERP_FLOAT64, false, true, 2, {100, 30}},
    {TERP_FLOAT32, false, true, 2, {99, 1}},
};

static const struct terp_chunk maps = {
    TERP_FLOAT64, true, false, 4, {21, 1, 13, 15}};

static const double bounds[] = {1e-1, 1e-3, 1e-5};

static bool
write_file(const char *dir, int number, const char *suffix, const void *bytes,
           uint64_t nbytes)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%d.%s", dir, number, suffix);
    if (n < 0 || (size_t)n >= sizeof path)
        return false;
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return false;
    bool written = fwrite(bytes, 1, nbytes, file) == nbytes;
    return fclose(file) == 0 && written;
}

static bool
make(const char *dir, int number, const struct terp_chunk *chunk,
     enum terp_field field, double bound, const struct terp_mode *mode)
{
    struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                 .bound = bound,
                                 .pipeline = mode->pipeline,
                                 .predictor = mode->predictor};
    uint64_t nbytes = terp_chunk_nbytes(chunk), stream_nbytes, got;
    uint64_t cap_nbytes = terp_encode_bound(chunk);
    uint8_t *values = malloc(nbytes), *stream = malloc(cap_nbytes);
    bool made = false;

    if (values != NULL && stream != NULL) {
        terp_field_make(field, chunk, values);
        made = terp_encode(&params, chunk, values, stream, cap_nbytes,
                           &stream_nbytes, 1) == TERP_OK &&
               terp_decode(stream, stream_nbytes, values, nbytes, &got, 1) ==
                   TERP_OK &&
               write_file(dir, number, "terp", stream, stream_nbytes) &&
               write_file(dir, number, "values", values, nbytes);
    }
    free(values);
    free(stream);
    return made;
}

int
main(int argc, char **argv)
{
    int number = 0;

    if (argc != 2) {
        fputs("usage: make_pairs DIR\n", stderr);
        return EXIT_FAILURE;
    }
    /* In all modes: few fields have means. */
    for (int mode = 0; mode < TERP_NMODES; mode++, number++) {
        if (!make(argv[1], number, &maps, TERP_FIELD_MAPS, 1e-3,
                  &terp_mode[mode])) {
            fprintf(stderr, "make_pairs: no pair %d\n", number);
            return EXIT_FAILURE;
        }
    }
    /* Fields and bounds take turns: their numbers and that of the modes have
     * no common factor. */
    for (size_t c = 0; c < COUNT(chunks); c++) {
        for (int mode = 0; mode < TERP_NMODES; mode++, number++) {
            if (!make(argv[1], number, &chunks[c],
                      (enum terp_field)(number % TERP_NFIELDS),
                      bounds[(size_t)number % COUNT(bounds)],
                      &terp_mode[mode])) {
                fprintf(stderr, "make_pairs: no pair %d\n", number);
                return EXIT_FAILURE;
            }
        }
    }
    return EXIT_SUCCESS;
}

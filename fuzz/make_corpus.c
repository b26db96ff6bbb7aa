/* Writes small valid inputs for the fuzzers: make_corpus FOLDER, which holds
 * the folders stream, cd and roundtrip, and with "rules" rules. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/cd_values.h"
#include "codec/api/terp.h"
#include "codec/format/base.h"
#include "codec/format/frame.h"

#define MAX_NVALUES 1024

static int nfiles;

static void
write_file(const char *folder, const char *subject, const void *bytes,
           size_t nbytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/seed%03d", folder, subject, nfiles++);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, nbytes, file) != nbytes ||
        fclose(file) != 0) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(1);
    }
}

/* A smooth field with a step, some noise, and special values in a corner. */
static void
fill(const struct terp_chunk *chunk, bool with_specials, void *values_ret)
{
    float *f32 = values_ret;
    double *f64 = values_ret;
    uint64_t nvalues =
        terp_chunk_nbytes(chunk) /
        (chunk->type == TERP_FLOAT32 ? sizeof *f32 : sizeof *f64);
    uint64_t row = chunk->dims[chunk->rank - 1], random = 1;

    for (uint64_t i = 0; i < nvalues; i++) {
        double x = (double)(i % row), y = (double)(i / row);
        random = random * 6364136223846793005u + 1442695040888963407u;
        double value = 0.01 * x * x - 0.3 * y + (x > 20 ? 5 : 0) +
                       1e-3 * (double)(random >> 40) / (1 << 24);
        if (with_specials && i % 97 < 9)
            value = i % 97 < 3 ? NAN : i % 97 < 6 ? -INFINITY : -0.0;
        if (chunk->type == TERP_FLOAT32)
            f32[i] = (float)value;
        else
            f64[i] = value;
    }
}

static void
write_streams(const char *folder)
{
    static const uint64_t dims[][TERP_MAX_RANK] = {
        {1}, {257}, {9, 33}, {7, 8, 11}, {3, 4, 5, 6}, {4, 100}};
    static const int ranks[] = {1, 1, 2, 3, 4, 2};
    static const double bounds[] = {1e-3, 1e-7, 1e-12, 0};
    static double values[MAX_NVALUES];
    static uint8_t stream[MAX_NVALUES * sizeof(double) + TERP_MAX_FRAME_NBYTES];

    /* Every choice of: bound, shape, type, pipeline, predictor, specials. The
     * second bound leaves wide codes, and exact quants of float32; the third
     * leaves tails of lorenzo's differences; the last is lossless. */
    for (int choice = 0; choice < 4 * 6 * 2 * 4 * 2 * 2; choice++) {
        int shape = choice / 4 % 6, rest = choice / 24;
        double bound = bounds[choice % 4];
        struct terp_chunk chunk = {.type =
                                       rest % 2 ? TERP_FLOAT64 : TERP_FLOAT32,
                                   .stack = shape == 5,
                                   .rank = ranks[shape]};
        struct terp_params params = {
            .bound_mode = bound > 0 ? TERP_BOUND_RELATIVE : TERP_BOUND_ABSOLUTE,
            .bound = bound,
            .pipeline = (enum terp_pipeline)(1 + rest / 2 % 4),
            .predictor = (enum terp_predictor)(1 + rest / 8 % 2)};
        uint64_t stream_nbytes;

        memcpy(chunk.dims, dims[shape], sizeof dims[shape]);
        fill(&chunk, rest / 16 % 2, values);
        if (terp_encode(&params, &chunk, values, stream, sizeof stream,
                        &stream_nbytes, 1) != TERP_OK) {
            fprintf(stderr, "cannot encode choice %d\n", choice);
            exit(1);
        }
        write_file(folder, "stream", stream, stream_nbytes);
    }
}

static void
write_cd_values(const char *folder)
{
    static const unsigned words[][9] = {
        {TERP_BOUND_RELATIVE, 1, 3},
        {TERP_BOUND_ABSOLUTE | TERP_PIPELINE_CUSTOM << TERP_CD_PIPELINE_SHIFT,
         25, (unsigned)-2},
        {TERP_BOUND_ABSOLUTE | TERP_CD_EXACT, 0, 0x3FF00000},
        {TERP_BOUND_ABSOLUTE, 0, 0},
        {TERP_BOUND_RELATIVE, 1, 3, 1, 16},
        {TERP_BOUND_RELATIVE, 1, 3, 3, 1, 1, 3},
        {TERP_BOUND_PSNR, 60, 0},
        {TERP_BOUND_POINTWISE | TERP_CD_FLOOR, 1, 3, 1, 9},
        {TERP_BOUND_POINTWISE | TERP_CD_FLOOR | TERP_CD_MISSING, 1, 3, 1, 9,
         (unsigned)-9999, 0, 1, 16}};
    static const size_t nwords[] = {3, 3, 3, 3, 5, 7, 3, 5, 9};
    const int nseeds = sizeof nwords / sizeof *nwords;
    unsigned persisted[TERP_CD_MAX_NWORDS];
    uint8_t bytes[1 + 4 * TERP_CD_MAX_NWORDS];

    for (int i = 0; i < nseeds; i++) {
        struct terp_cd cd;
        const uint64_t dims[] = {6, 8, 16};

        bytes[0] = 0x30;
        for (size_t j = 0; j < nwords[i]; j++)
            store_le(bytes + 1 + 4 * j, words[i][j], 4);
        write_file(folder, "cd", bytes, 1 + 4 * nwords[i]);
        if (terp_cd_parse(nwords[i], words[i], &cd, NULL) != TERP_OK)
            exit(1);
        terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 3, dims);
        size_t npersisted = terp_cd_persist(&cd, persisted);
        for (size_t j = 0; j < npersisted; j++)
            store_le(bytes + 1 + 4 * j, persisted[j], 4);
        write_file(folder, "cd", bytes, 1 + 4 * npersisted);
    }
}

/* Headers as fuzz_roundtrip.c reads them, then steps of a walk. */
static void
write_round_trips(const char *folder)
{
    uint8_t bytes[256];

    for (int choice = 0; choice < 2 * 4 * 12 * 4; choice++) {
        int rank = choice / 2 % 4, coding = choice / 8 % 12, kind = choice / 96;
        uint32_t random = (uint32_t)choice;

        for (size_t i = 0; i < sizeof bytes; i++) {
            random = random * 1664525 + 1013904223;
            bytes[i] = (uint8_t)((random >> 24) % 5 - 2);
        }
        bytes[0] = (uint8_t)((kind % 2 ? 1 : 0) | (kind / 2 ? 8 : 0) | 32 |
                             choice % 3 << 6);
        bytes[1] = (uint8_t)rank;
        bytes[2] = (uint8_t)coding;
        for (int i = 3; i < 7; i++)
            bytes[i] = (uint8_t)(37 * i + choice);
        bytes[7] = 0;
        bytes[8] = (uint8_t)(choice % 2 ? -4 : choice % 16 > 0 ? -1 : -128);
        write_file(folder, "roundtrip", bytes, sizeof bytes);
    }
}

/* A path and rules, as fuzz_rules.c reads them. */
static void
write_rules(const char *folder)
{
    static const char *const texts[] = {
        "/a/velocity_x\n*/velocity*=rel:1e-3; *=lossless",
        "/rho\nrho=abs:0.5;*=none",
        "/v[0]\nv\\[0]=pwr:1e-4; v[!xy]=abs:1",
        "/x\nx=abs:0x1p-3 ; # all else\n*=lossless\n",
        "*=abs:1e400",
        "/t\n?=pwr:1",
        "/x=1\nx=1=rel:.5",
        ""};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        write_file(folder, "rules", texts[i], strlen(texts[i]));
}

int
main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: make_corpus FOLDER [rules]\n");
        return 2;
    }
    write_streams(argv[1]);
    write_cd_values(argv[1]);
    write_round_trips(argv[1]);
    if (argc == 3 && strcmp(argv[2], "rules") == 0)
        write_rules(argv[1]);
    return 0;
}

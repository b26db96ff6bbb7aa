/* Writes small valid inputs for the fuzzers: make_corpus FOLDER [rules]
 * [files]. FOLDER has the subfolders stream, cd and roundtrip and, for each of
 * the two words, a subfolder of that name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/cd_values.h"
#include "codec/api/terp.h"
#include "codec/format/base.h"
#include "codec/format/frame.h"
#include "filter/container.h"
#include "fuzz/choices.h"
#include "h5tests/support/few.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/tables.h"

#define MAX_NVALUES 1024

static int nfiles;

static uint64_t
take_below(uint64_t *random, uint64_t n)
{
    const uint64_t number = *random % n;

    *random /= n;
    return number;
}

static void
write_file(const char *folder, const char *subject, const void *bytes,
           size_t nbytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/seed%04d", folder, subject, nfiles++);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, nbytes, file) != nbytes ||
        fclose(file) != 0) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(1);
    }
}

/* Describes a dataset as datasets.c makes it, with chunks like the stream's;
 * every second one has attributes. */
static void
write_dataset(const char *folder, const uint8_t *stream, size_t stream_nbytes,
              uint64_t choice)
{
    static const uint8_t attributes[] = {
        0, 45, 0,  8, 't', 'e', 'r', 'p',  ' ', '1', '.', '0', /* text of 64 */
        1, 43, 0,  9, 'r', 'e', 'l', 'a',  't', 'i', 'v', 'e',
        0, 7,  46, 2, 4,   '0', ':', '4',  0,   11,  2,   1,
        8, 0,  0,  0, 0,   0,   0,   0xF0, 0x3F};
    enum {
        NATTRIBUTES = 4
    };
    uint8_t bytes[FUZZ_NCHOICES + sizeof attributes + 4096] = {0};
    uint64_t random = terp_field_mix(choice + 1);
    size_t nbytes = FUZZ_NCHOICES;

    if (stream_nbytes > 700)
        return;
    bytes[FUZZ_FLAGS] = FUZZ_FROM_STREAM | FUZZ_LOCAL_WORDS |
                        (uint8_t)(take_below(&random, 8) << 2);
    bytes[FUZZ_FILTERS] =
        (uint8_t)(take_below(&random, 4) == 0 ? take_below(&random, 18) : 0);
    bytes[FUZZ_FILL] = (uint8_t)take_below(&random, 4);
    for (int i = 0; i < TERP_MAX_RANK; i++)
        bytes[FUZZ_EXTENT + i] = (uint8_t)take_below(&random, 16);
    for (int i = 0; i < FUZZ_MAX_NSTORED; i++)
        bytes[FUZZ_STORED + i] = (uint8_t)take_below(&random, 8);
    bytes[FUZZ_ACTIONS] = (uint8_t)take_below(&random, 128);
    bytes[FUZZ_PLACE] = (uint8_t)take_below(&random, 256);
    bytes[FUZZ_CHANGE] = 1;
    if (choice % 2 == 0) {
        bytes[FUZZ_NATTRIBUTES] = NATTRIBUTES;
        memcpy(bytes + nbytes, attributes, sizeof attributes);
        nbytes += sizeof attributes;
    }
    memcpy(bytes + nbytes, stream, stream_nbytes);
    write_file(folder, "files", bytes, nbytes + stream_nbytes);
}

/* Streams of small chunks. Types, shapes, fields, kinds of bound and modes of
 * the encoder are each combined with others. */
static void
write_streams(const char *folder, bool with_files)
{
    static const uint64_t dims[][TERP_MAX_RANK] = {
        {1},      {65},         {257},        {700},        {3, 11},
        {9, 33},  {16, 40},     {2, 2, 9},    {7, 8, 11},   {4, 12, 16},
        {4, 100}, {2, 3, 2, 5}, {3, 4, 5, 6}, {4, 4, 6, 7}, {2, 350}};
    static const int ranks[] = {1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 2, 4, 4, 4, 2};
    static const double bounds[] = {0.5, 1e-2, 1e-3, 1e-5, 1e-7, 1e-12, 0};
    static uint8_t values[MAX_NVALUES * 16];
    static uint8_t stream[sizeof values + TERP_MAX_FRAME_NBYTES];
    enum {
        NSTREAMS = 2000,
        NSHAPES = sizeof ranks / sizeof *ranks,
        NBOUNDS = sizeof bounds / sizeof *bounds
    };

    for (uint64_t choice = 0; choice < NSTREAMS; choice++) {
        uint64_t random = terp_field_mix(choice);
        const uint64_t shape = take_below(&random, NSHAPES);
        struct terp_chunk chunk = {
            .type = (enum terp_type)take_below(&random, TERP_NTYPES),
            .big_endian = take_below(&random, 8) == 0,
            .stack = take_below(&random, 4) == 0 && ranks[shape] > 1,
            .rank = ranks[shape]};
        struct terp_params params = {
            .bound_mode = (enum terp_bound_mode)(1 + take_below(&random, 3)),
            .bound = bounds[take_below(&random, NBOUNDS)],
            .pipeline =
                (enum terp_pipeline)take_below(&random, TERP_NPIPELINES),
            .predictor =
                (enum terp_predictor)take_below(&random, TERP_NPREDICTORS),
            .effort = (enum terp_effort)take_below(&random, TERP_NEFFORTS)};
        uint64_t stream_nbytes;

        memcpy(chunk.dims, dims[shape], sizeof dims[shape]);
        if (chunk.type == TERP_BYTES) {
            chunk.rank = 1;
            chunk.stack = false;
        }
        if (params.bound == 0)
            params.bound_mode = TERP_BOUND_ABSOLUTE;
        if (params.bound_mode == TERP_BOUND_POINTWISE &&
            take_below(&random, 2) == 0)
            params.floor = 1e-2;
        /* A value that occurs often in some fields. */
        params.has_fill = take_below(&random, 4) == 0;
        terp_field_make(
            (enum terp_field)take_below(&random, TERP_NNAMED_FIELDS), &chunk,
            values);
        memcpy(&params.fill_bits, values, 4);
        if (terp_params_check(&params, NULL) != TERP_OK)
            continue; /* some numbers are no valid choice */
        if (terp_encode(&params, &chunk, values, stream, sizeof stream,
                        &stream_nbytes, 1) != TERP_OK) {
            fprintf(stderr, "cannot encode choice %d\n", (int)choice);
            exit(1);
        }
        write_file(folder, "stream", stream, stream_nbytes);
        if (with_files && choice % 4 == 0)
            write_dataset(folder, stream, stream_nbytes, choice);
    }
}

/* Chunks of few different values, whose streams have ranks. */
static void
write_few(const char *folder)
{
    static const uint64_t nlevels[] = {2, 20, 400};
    static uint8_t values[1200 * 16];
    static uint8_t stream[sizeof values + TERP_MAX_FRAME_NBYTES];

    for (uint64_t choice = 0; choice < 3 * TERP_NTYPES; choice++) {
        const struct terp_chunk chunk = {.type = (enum terp_type)(choice / 3),
                                         .big_endian = choice % 2 == 0,
                                         .stack = choice % 5 == 0,
                                         .rank = 2,
                                         .dims = {30, 40}};
        const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};
        uint64_t stream_nbytes;
        if (!terp_references_are_possible(terp_type_of_part(chunk.type)))
            continue;
        few_make(&chunk, nlevels[choice % 3], values);
        if (terp_encode(&params, &chunk, values, stream, sizeof stream,
                        &stream_nbytes, 1) != TERP_OK) {
            fprintf(stderr, "cannot encode few values, %d\n", (int)choice);
            exit(1);
        }
        write_file(folder, "stream", stream, stream_nbytes);
    }
}

/* Decimals, whose streams have grids. */
static void
write_decimals(const char *folder)
{
    static uint8_t values[4200 * 8];
    static uint8_t stream[sizeof values + TERP_MAX_FRAME_NBYTES];

    for (int choice = 0; choice < 4; choice++) {
        const struct terp_chunk chunk = {.type = choice % 2 == 0 ? TERP_FLOAT32
                                                                 : TERP_FLOAT64,
                                         .big_endian = choice == 3,
                                         .rank = 2,
                                         .dims = {60, 70}};
        const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};
        uint64_t stream_nbytes;
        decimals_make(&chunk, choice < 2 ? 0 : 50, values);
        if (terp_encode(&params, &chunk, values, stream, sizeof stream,
                        &stream_nbytes, 1) != TERP_OK) {
            fprintf(stderr, "cannot encode decimals, %d\n", choice);
            exit(1);
        }
        write_file(folder, "stream", stream, stream_nbytes);
    }
}

/* Tables, whose streams have columns. */
static void
write_tables(const char *folder)
{
    static const uint64_t ncolumns[] = {3, 16};
    static uint8_t values[500 * 16 * 16];
    static uint8_t stream[sizeof values + TERP_MAX_FRAME_NBYTES];

    for (uint64_t choice = 0; choice < 2 * TERP_NTYPES; choice++) {
        const struct terp_chunk chunk = {.type = (enum terp_type)(choice / 2),
                                         .big_endian = choice % 3 == 0,
                                         .rank = 2,
                                         .dims = {500, ncolumns[choice % 2]}};
        const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};
        uint64_t stream_nbytes;
        if (chunk.type == TERP_BYTES)
            continue;
        table_make(&chunk, values);
        if (terp_encode(&params, &chunk, values, stream, sizeof stream,
                        &stream_nbytes, 1) != TERP_OK) {
            fprintf(stderr, "cannot encode a table, %d\n", (int)choice);
            exit(1);
        }
        write_file(folder, "stream", stream, stream_nbytes);
    }
}

/* Compound values of three members, and the cd_values of their dataset. */
static void
write_compound(const char *folder)
{
    static const unsigned user[] = {
        0x800000 | TERP_BOUND_RELATIVE, 1, 2, 0, 7, TERP_BOUND_ABSOLUTE, 1, 1};
    static const struct terp_member members[] = {
        {TERP_FLOAT32, false, 1, 0, {0}},
        {TERP_FLOAT64, true, 0, 1, {2}},
        {TERP_UINT16, false, 0, 0, {0}}};
    static const uint64_t nvalues = 60;
    static uint8_t values[60 * 22];
    uint8_t bytes[1 + 4 * TERP_CD_MAX_NWORDS], container[4096];
    unsigned words[TERP_CD_MAX_NWORDS];
    struct terp_run run;
    struct terp_cd cd;
    uint64_t nbytes;
    bool is_rewrite;

    if (terp_cd_parse(sizeof user / sizeof *user, user, &cd, NULL) != TERP_OK)
        exit(1);
    for (int i = 0; i < 3; i++)
        if (!terp_compound_add(&cd.compound, &members[i]))
            exit(1);
    terp_cd_apply_compound(&cd, 1, &nvalues);
    const size_t nwords = terp_cd_persist(&cd, words);
    bytes[0] = 0;
    for (size_t j = 0; j < nwords; j++)
        store_le(bytes + 1 + 4 * j, words[j], 4);
    write_file(folder, "cd", bytes, 1 + 4 * nwords);
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = (uint8_t)(i % 22 % 4 == 3 ? 0x3F : i / 22);
    (void)terp_run_begin(NULL, NULL, &run);
    if (terp_container_encode(&run, &cd, values, NULL, container, &nbytes,
                              &is_rewrite) != TERP_OK)
        exit(1);
    write_file(folder, "stream", container, nbytes);
}

static void
write_cd_values(const char *folder)
{
    static const unsigned words[][9] = {
        {TERP_BOUND_RELATIVE, 1, 3},
        {TERP_BOUND_ABSOLUTE | TERP_PIPELINE_HUFFMAN << TERP_CD_PIPELINE_SHIFT,
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

/* Headers as fuzz_roundtrip.c reads them, then the steps of a random walk. */
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
        "/rho\nrho=abs:0.5,keep-sign:chunk,valid-range:0:;*=none",
        "/v[0]\nv\\[0]=pwr:1e-4; v[!xy]=abs:1",
        "/x\nx=abs:0x1p-3, chunk:8x9,small ; # all else\n*=lossless\n",
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
        fprintf(stderr, "usage: make_corpus FOLDER [rules] [files]\n");
        return 2;
    }
    bool with_rules = false, with_files = false;
    for (int i = 2; i < argc; i++) {
        with_rules |= strcmp(argv[i], "rules") == 0;
        with_files |= strcmp(argv[i], "files") == 0;
    }
    write_streams(argv[1], with_files);
    write_few(argv[1]);
    write_decimals(argv[1]);
    write_tables(argv[1]);
    write_cd_values(argv[1]);
    write_compound(argv[1]);
    write_round_trips(argv[1]);
    if (with_rules)
        write_rules(argv[1]);
    return 0;
}

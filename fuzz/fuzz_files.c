/* Whatever an HDF5 file contains, terp info, terp verify, other functions of
 * the tool, and terp_h5_read must return, leave no object open, and report each
 * damaged chunk. A chunk is damaged if terp_decode refuses the stored bytes. */
#include <stdio.h>
#include <string.h>

#include "codec/api/terp.h"
#include "codec/format/base.h"
#include "filter/h5/terp_h5.h"
#include "fuzz/datasets.h"
#include "fuzz/target.h"
#include "tools/common/lost.h"
#include "tools/common/stored.h"
#include "tools/info/info.h"
#include "tools/verify/verify.h"

/* Bits of FUZZ_ACTIONS. */
#define PRINTS_JSON 0x41u /* several bits, to make JSON rare: it takes long */
#define READS_REST 2u
#define READS_ATTRIBUTES 4u
#define READS_BLOCK 8u
#define READS_STRIDED 16u
#define LISTS_BOXES 32u

/* The largest dataset that is read whole. */
#define MAX_NBYTES (UINT64_C(16) << 10)

int
LLVMFuzzerInitialize(int *argc, char ***argv);

/* Without worker threads: starting them takes longer than decoding these
 * chunks. */
static struct tool_checker *checkers[2]; /* indexed by enum tool_check_rest */

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    fuzz_datasets_begin();
    checkers[0] = tool_checker_start(0, TOOL_CHECK_SKIPS_REST);
    checkers[1] = tool_checker_start(0, TOOL_CHECK_READS_REST);
    CHECK(checkers[0] != NULL && checkers[1] != NULL);
    return 0;
}

/* ---- expected results ---- */

enum expected {
    EXPECT_ANYTHING,
    EXPECT_WHOLE,
    EXPECT_DAMAGED
};

struct subject {
    const struct fuzz_dataset *made;
    struct tool_dataset dataset;
    enum expected expected[FUZZ_MAX_NSTORED];
    bool all_whole;      /* every stored chunk */
    bool has_other_size; /* a stream's number of values is not the chunk's */
    bool has_longer;     /* a stream has more values than its chunk */
};

static bool
is_cut(const struct tool_dataset *dataset, const hsize_t *at)
{
    for (int i = 0; i < dataset->rank; i++)
        if (dataset->dims[i] - at[i] < dataset->chunk_dims[i])
            return true;
    return false;
}

static enum expected
expect(struct subject *subject, const struct fuzz_stored *stored)
{
    const struct tool_dataset *dataset = &subject->dataset;
    uint64_t nbytes = 0;

    if (!fuzz_dataset_begins_with_terp(subject->made) || !dataset->has_terp ||
        dataset->params_error != NULL || stored->mask != 0 ||
        stored->behind == FUZZ_BEHIND_UNKNOWN ||
        (dataset->edges_unfiltered && is_cut(dataset, stored->at)))
        return EXPECT_ANYTHING;
    if (stored->behind == FUZZ_BEHIND_NOTICES ||
        terp_decoded_nbytes(stored->stream, stored->stream_nbytes, &nbytes) !=
            TERP_OK)
        return EXPECT_DAMAGED;
    /* If other filters hide the stream from the tool, HDF5 reads the chunk, and
     * HDF5 does not compare sizes. */
    if (nbytes != dataset->chunk_nbytes) {
        subject->has_other_size = true;
        subject->has_longer |= nbytes > dataset->chunk_nbytes;
        return dataset->unseen_mask == 0 ? EXPECT_DAMAGED : EXPECT_ANYTHING;
    }
    uint8_t *values = malloc(nbytes <= MAX_NBYTES ? nbytes : 1);
    CHECK(values != NULL);
    const enum terp_status st =
        nbytes <= MAX_NBYTES
            ? terp_decode(stored->stream, stored->stream_nbytes, values, nbytes,
                          &nbytes, 1)
            : TERP_ERR_LIMIT;
    free(values);
    return st == TERP_OK          ? EXPECT_WHOLE
           : st == TERP_ERR_LIMIT ? EXPECT_ANYTHING
                                  : EXPECT_DAMAGED;
}

static void
expect_all(struct subject *subject)
{
    subject->all_whole = true;
    for (int i = 0; i < subject->made->nstored; i++) {
        subject->expected[i] = expect(subject, &subject->made->stored[i]);
        subject->all_whole &= subject->expected[i] == EXPECT_WHOLE;
    }
}

/* ---- terp verify ---- */

/* A report that compares the results of terp verify with `expected`. */
struct hearing {
    const struct verify_report *printer;
    void *state;
    const struct subject *subject;
    bool lost, heard[FUZZ_MAX_NSTORED];
    uint64_t ndamaged;
};

static void
hear_dataset(void *report, const char *path, const char *damage)
{
    struct hearing *hearing = report;

    hearing->lost = damage != NULL;
    hearing->printer->dataset(hearing->state, path, damage);
}

static void
hear_damage(void *report, const char *path, const struct tool_grid *box,
            const char *reason)
{
    struct hearing *hearing = report;
    const struct fuzz_dataset *made = hearing->subject->made;
    bool found = false;

    CHECK(reason != NULL && reason[0] != '\0');
    for (int i = 0; i < made->nstored; i++)
        if (memcmp(made->stored[i].at, box->at,
                   (size_t)box->rank * sizeof box->at[0]) == 0) {
            CHECK(!hearing->heard[i]);
            CHECK(hearing->subject->expected[i] != EXPECT_WHOLE);
            found = hearing->heard[i] = true;
        }
    CHECK(found);
    hearing->ndamaged++;
    hearing->printer->damage(hearing->state, path, box, reason);
}

static void
hear_sums(void *report, const char *path, const struct verify_sums *sums)
{
    struct hearing *hearing = report;
    uint64_t nchunks = 0;

    for (int i = 0; i < TOOL_CHECK_NKINDS; i++)
        nchunks += sums->nof_kind[i];
    CHECK(nchunks == sums->nchunks);
    CHECK(sums->nof_kind[TOOL_CHECK_DAMAGED] == hearing->ndamaged);
    hearing->printer->sums(hearing->state, path, sums);
}

static bool
is_of_any_length(hid_t type)
{
    return H5Tdetect_class(type, H5T_VLEN) > 0 || H5Tis_variable_str(type) > 0;
}

static void
verify(const struct subject *subject, uint8_t actions)
{
    static const struct verify_report report = {
        .dataset = hear_dataset, .damage = hear_damage, .sums = hear_sums};
    struct hearing hearing = {.printer = &verify_report_text,
                              .subject = subject};
    const struct tool_dataset *dataset = &subject->dataset;
    struct verify run = {.report = &report,
                         .state = &hearing,
                         .checker = checkers[(actions & READS_REST) != 0]};

    /* For values of variable length HDF5 allocates as much memory as a chunk's
     * bytes claim. */
    if (is_of_any_length(dataset->type) &&
        (dataset->nfilters > 1 || (actions & READS_REST) != 0))
        return;
#ifdef TERP_HAVE_JANSSON
    if ((actions & PRINTS_JSON) == PRINTS_JSON)
        hearing.printer = &verify_report_json;
#endif
    if (hearing.printer->begin != NULL)
        hearing.state = hearing.printer->begin();
    hearing.printer->file(hearing.state, "fuzz.h5", true);
    verify_dataset("/x", dataset, NULL, &run);
    if (hearing.printer->end != NULL)
        hearing.printer->end(hearing.state);
    CHECK(run.damaged == (hearing.lost || hearing.ndamaged > 0));
    for (int i = 0; i < subject->made->nstored && !hearing.lost; i++)
        CHECK(hearing.heard[i] || subject->expected[i] != EXPECT_DAMAGED);
}

/* ---- terp info ---- */

static void
info(const struct subject *subject, uint8_t actions)
{
    const struct fuzz_dataset *made = subject->made;
    struct info_show show = {.report = &info_report_text};
    struct terp_info told = {.size = sizeof told};

    (void)actions;
#ifdef TERP_HAVE_JANSSON
    if (actions & PRINTS_JSON)
        show.report = &info_report_json;
#endif
    if (show.report->begin != NULL)
        show.state = show.report->begin();
    show.report->file(show.state, 0, "fuzz.h5", true);
    info_show_dataset("/x", &subject->dataset, NULL, &show);
    if (show.report->end != NULL)
        show.report->end(show.state);
    if (!fuzz_dataset_is_plain(made))
        return;
    for (int i = 0; i < made->nstored; i++)
        CHECK(show.damaged || subject->expected[i] != EXPECT_DAMAGED ||
              (terp_inspect(made->stored[i].stream,
                            made->stored[i].stream_nbytes, &told) == TERP_OK &&
               told.chunk_nbytes == subject->dataset.chunk_nbytes));
}

/* ---- values ---- */

static uint8_t *
make_values(const struct tool_dataset *dataset)
{
    uint8_t *values = calloc(dataset->nvalues, dataset->value_nbytes);

    CHECK(values != NULL);
    return values;
}

/* Reads all values by terp_h5_read. If all chunks are whole, also reads them by
 * HDF5 and the filter. Only then do sizes match, which HDF5 does not
 * compare. */
static void
read_block(const struct subject *subject)
{
    const struct tool_dataset *dataset = &subject->dataset;
    uint8_t *values = make_values(dataset);
    const enum terp_status st =
        terp_h5_read(NULL, dataset->id, NULL, NULL, values, NULL);

    /* If the cd_values belong to another dataset, the filter returns more bytes
     * than a chunk has, and HDF5 takes the first ones. */
    CHECK(st != TERP_OK || subject->all_whole || subject->has_longer);
    if (subject->all_whole && fuzz_dataset_has_fill(subject->made)) {
        uint8_t *same = make_values(dataset);
        const bool ok = H5Dread(dataset->id, dataset->type, H5S_ALL, H5S_ALL,
                                H5P_DEFAULT, same) >= 0;
        CHECK(st != TERP_OK || !ok ||
              memcmp(values, same, dataset->nvalues * dataset->value_nbytes) ==
                  0);
        free(same);
    }
    free(values);
}

static void
read_strided(const struct subject *subject)
{
    const struct tool_dataset *dataset = &subject->dataset;
    uint8_t *values = make_values(dataset);
    hsize_t at[H5S_MAX_RANK], stride[H5S_MAX_RANK];

    for (int i = 0; i < dataset->rank; i++) {
        stride[i] = subject->made->stream.step;
        at[i] = subject->made->choices[FUZZ_ACTIONS_MORE] >> (i & 7) & 1
                    ? dataset->dims[i] - 1
                    : 0;
    }
    (void)terp_h5_read_strided(NULL, dataset->id, at, stride, NULL, values,
                               NULL);
    free(values);
}

static void
read_values(const struct subject *subject, uint8_t actions)
{
    const struct tool_dataset *dataset = &subject->dataset;

    if (!fuzz_dataset_is_plain(subject->made) || !dataset->chunked ||
        dataset->nvalues == 0 ||
        dataset->nvalues > MAX_NBYTES / dataset->value_nbytes ||
        dataset->chunk_nbytes > MAX_NBYTES)
        return;
    /* If terp_h5_read left a chunk to HDF5, HDF5 would read beyond the end of
     * the decoded bytes. */
    if (subject->has_other_size &&
        (dataset->params_error != NULL || dataset->cd.pass != TERP_PASS_NONE ||
         dataset->edges_unfiltered ||
         !(subject->made->choices[FUZZ_FLAGS] & FUZZ_LOCAL_WORDS)))
        return;
    for (int i = 0; i < subject->made->nstored; i++)
        if (subject->expected[i] == EXPECT_ANYTHING)
            return;
    if (actions & READS_BLOCK)
        read_block(subject);
    if (actions & READS_STRIDED)
        read_strided(subject);
}

static void
read_attributes(const struct tool_dataset *dataset)
{
    double values[TOOL_MAX_NMISSING], second;

    for (int wide = 0; wide < 2; wide++) {
        const int n = tool_missing_values(dataset, wide, values);
        CHECK(n >= 0 && n <= TOOL_MAX_NMISSING);
        for (int i = 0; i < n; i++)
            CHECK(values[i] - values[i] == 0); /* finite */
        CHECK(!tool_second_fill(dataset, wide, &second) || n > 0);
    }
    (void)tool_coded_type(dataset->type);
}

/* ---- a whole input ---- */

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct fuzz_dataset made;

    if (!fuzz_dataset_make(data, nbytes, NULL, &made))
        return 0;
    struct subject subject = {.made = &made};
    const uint8_t actions = made.choices[FUZZ_ACTIONS];
    if (made.id >= 0 && tool_dataset_of(made.id, &subject.dataset)) {
        expect_all(&subject);
        info(&subject, actions);
        verify(&subject, actions);
        if (actions & READS_ATTRIBUTES)
            read_attributes(&subject.dataset);
        read_values(&subject, actions);
        if (actions & LISTS_BOXES) {
            const struct tool_grid grid =
                tool_grid_of(&subject.dataset, subject.dataset.chunk_dims);
            if (subject.dataset.chunked && tool_grid_nboxes(&grid) < 1 << 16)
                free(tool_stored_boxes(&subject.dataset, &grid));
        }
        tool_dataset_close(&subject.dataset);
    }
    fuzz_dataset_free(&made);
    return 0;
}

/* terp compare: finds the pairs of datasets of two files, and compares each. */
#define _XOPEN_SOURCE 700 /* tsearch */
#include "tools/compare/pairs.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/h5z_terp.h"
#include "tools/common/cf.h"
#include "tools/common/limit.h"
#include "tools/common/walk.h"

const char *
compare_verdict_text(enum compare_verdict verdict)
{
    static const char *const texts[] = {[COMPARE_OK] = "ok",
                                        [COMPARE_UNJUDGED] = "unjudged",
                                        [COMPARE_SKIPPED] = "skipped",
                                        [COMPARE_EXTRA] = "extra",
                                        [COMPARE_EXCEEDED] = "exceeded",
                                        [COMPARE_SPECIALS] = "specials",
                                        [COMPARE_DIFFERENT] = "different",
                                        [COMPARE_UNREADABLE] = "unreadable",
                                        [COMPARE_TYPE] = "type",
                                        [COMPARE_SHAPE] = "shape",
                                        [COMPARE_MISSING] = "missing"};
    return texts[verdict];
}

bool
compare_verdict_fails(enum compare_verdict verdict, bool allows_unjudged)
{
    return verdict >= COMPARE_EXCEEDED ||
           (verdict != COMPARE_OK && !allows_unjudged);
}

/* The state of the walk over both files. */
struct walk {
    struct compare_pairs *pairs;
    struct nested_files *files;
    void *compared; /* addresses in B of compared datasets; a tree of
                       tsearch() */
};

static void
conclude(struct compare_result *result, enum compare_verdict verdict,
         const char *reason)
{
    result->verdict = verdict;
    snprintf(result->reason, sizeof result->reason, "%s", reason);
}

static void
compare_open(const struct walk *walk, const struct tool_dataset *a,
             const struct tool_dataset *b, struct compare_result *result)
{
    struct compare_pairs *pairs = walk->pairs;
    char reason[sizeof result->reason];

    if (H5Tequal(a->type, b->type) <= 0)
        conclude(result, COMPARE_TYPE, "the types differ");
    else if (a->rank != b->rank || a->nvalues != b->nvalues ||
             memcmp(a->dims, b->dims, sizeof a->dims) != 0)
        conclude(result, COMPARE_SHAPE, "the shapes differ");
    else if (b->has_terp && b->params_error != NULL)
        conclude(result, COMPARE_UNREADABLE, b->params_error);
    else if ((a->has_terp || b->has_terp) &&
             H5Zfilter_avail(H5Z_FILTER_TERP) <= 0)
        pairs->lacks_plugin = true;
    else if (!tool_limit_take(a, TOOL_LIMIT_ALL, reason, sizeof reason) ||
             !tool_limit_take(b, TOOL_LIMIT_ALL, reason, sizeof reason))
        conclude(result, COMPARE_SKIPPED, reason);
    else
        compare_values(a, b, &pairs->bounds, walk->files, result);
}

/* ---- compared datasets of B ---- */

static int
compare_addresses(const void *a, const void *b)
{
    const haddr_t x = *(const haddr_t *)a, y = *(const haddr_t *)b;

    return (x > y) - (x < y);
}

static haddr_t
address_of(const struct tool_dataset *dataset)
{
    H5O_info_t info;

    return H5Oget_info2(dataset->id, &info, H5O_INFO_BASIC) >= 0 ? info.addr
                                                                 : HADDR_UNDEF;
}

/* Without memory to record it, the dataset is compared twice. */
static void
note_compared(struct walk *walk, const struct tool_dataset *b)
{
    haddr_t *address = malloc(sizeof *address);

    if (address == NULL)
        return;
    *address = address_of(b);
    haddr_t **found = tsearch(address, &walk->compared, compare_addresses);
    if (found == NULL || *found != address)
        free(address);
}

static bool
was_compared(const struct walk *walk, const struct tool_dataset *b)
{
    const haddr_t address = address_of(b);

    return tfind(&address, &walk->compared, compare_addresses) != NULL;
}

static void
forget_compared(struct walk *walk)
{
    while (walk->compared != NULL) {
        haddr_t *address = *(haddr_t **)walk->compared;
        tdelete(address, &walk->compared, compare_addresses);
        free(address);
    }
}

/* ---- datasets ---- */

static bool
is_wanted(const struct walk *walk, const char *path)
{
    const struct compare_pairs *pairs = walk->pairs;

    return pairs->wants == NULL || pairs->wants(pairs->context, path);
}

static void
add(const struct walk *walk, const struct tool_dataset *a,
    const struct tool_dataset *b, struct compare_result *result)
{
    struct compare_pairs *pairs = walk->pairs;

    if (!pairs->lacks_plugin)
        pairs->add(pairs->context, a, b, result);
}

/* Compares the members of compound values one by one, each like a dataset. */
static void
compare_members(struct walk *walk, const struct tool_dataset *a,
                const struct tool_dataset *b, const char *path)
{
    const size_t cap = strlen(path) + TOOL_MEMBER_PATH_NBYTES + 1;
    char *whole = malloc(cap), member[TOOL_MEMBER_PATH_NBYTES];
    struct terp_member_walk listed = {.at = 0};
    struct tool_dataset member_a, member_b;

    while (whole != NULL && terp_member_next(&b->cd.compound, &listed)) {
        if (!compare_member(a, b, &listed, &member_a, &member_b, member))
            continue;
        snprintf(whole, cap, "%s%s%s", path, member[0] != '\0' ? "." : "",
                 member);
        struct compare_result result = compare_new_result(whole);
        compare_open(walk, &member_a, &member_b, &result);
        add(walk, &member_a, &member_b, &result);
        tool_close(member_b.type);
    }
    free(whole);
}

static void
compare_pair(struct walk *walk, const struct tool_dataset *a,
             const struct tool_dataset *b, struct compare_result *result)
{
    note_compared(walk, b);
    if (compare_has_members(a, b)) {
        compare_members(walk, a, b, result->path);
        return;
    }
    compare_open(walk, a, b, result);
    add(walk, a, b, result);
}

/* Reports a verdict without a comparison. */
static void
find(const struct walk *walk, const char *path, const struct tool_dataset *a,
     const struct tool_dataset *b, enum compare_verdict verdict,
     const char *reason)
{
    struct compare_result result = compare_new_result(path);

    conclude(&result, verdict, reason);
    add(walk, a, b, &result);
}

static void
find_trouble(const struct walk *walk, const char *path,
             const struct tool_dataset *a, const struct tool_trouble *trouble)
{
    find(walk, path, a, NULL, COMPARE_UNREADABLE, trouble->reason);
    walk->pairs->lacks_hdf5 |= trouble->is_newer;
}

/* Reports a path of A that leads to nothing in B, or to an object that HDF5
 * cannot open. */
static void
find_no_dataset(const struct walk *walk, const char *path,
                const struct tool_dataset *a)
{
    const struct tool_trouble trouble = tool_hdf5_trouble();

    if (H5Oexists_by_name(walk->pairs->file_b, path, H5P_DEFAULT) > 0)
        find_trouble(walk, path, a, &trouble);
    else
        find(walk, path, a, NULL, COMPARE_MISSING, "not in B");
}

static void
compare_dataset(const char *path, const struct tool_dataset *a,
                const struct tool_trouble *trouble, void *context)
{
    struct walk *walk = context;
    struct compare_result result = compare_new_result(path);
    struct tool_dataset b;

    if (walk->pairs->lacks_plugin || !is_wanted(walk, path))
        return;
    if (a == NULL) {
        find_trouble(walk, path, NULL, trouble);
    } else if (!tool_dataset_open(walk->pairs->file_b, path, &b)) {
        find_no_dataset(walk, path, a);
    } else {
        compare_pair(walk, a, &b, &result);
        tool_dataset_close(&b);
    }
}

/* Compares a dataset of B, unless the walk over A has compared it under another
 * path. */
static void
look_at_dataset(const char *path, const struct tool_dataset *b,
                const struct tool_trouble *trouble, void *context)
{
    struct walk *walk = context;
    struct compare_result result = compare_new_result(path);
    struct tool_dataset a;
    H5O_info_t info;

    (void)trouble; /* the walk over A has reported it */
    /* repack adds the container to files of CF. */
    if (walk->pairs->lacks_plugin || !is_wanted(walk, path) ||
        (b != NULL && was_compared(walk, b)) ||
        (b != NULL && tool_cf_is_container(b->id)))
        return;
    if (!tool_dataset_open(walk->pairs->file_a, path, &a)) {
        /* The walk over A has reported objects that cannot be opened. */
        if (H5Oget_info_by_name2(walk->pairs->file_a, path, &info,
                                 H5O_INFO_BASIC, H5P_DEFAULT) < 0 ||
            info.type != H5O_TYPE_DATASET)
            find(walk, path, NULL, b, COMPARE_EXTRA, "not in A");
        return;
    }
    if (b != NULL)
        compare_pair(walk, &a, b, &result);
    tool_dataset_close(&a);
}

void
compare_pairs_visit(struct compare_pairs *pairs)
{
    struct walk walk = {.pairs = pairs};

    walk.files = nested_files_open(pairs->file_a, pairs->file_b);
    if (!tool_file_visit(pairs->file_a, compare_dataset, &walk))
        find(&walk, pairs->path_a, NULL, NULL, COMPARE_UNREADABLE,
             "some of the file's groups cannot be read");
    if (!tool_file_visit(pairs->file_b, look_at_dataset, &walk))
        find(&walk, pairs->path_b, NULL, NULL, COMPARE_UNREADABLE,
             "some of the file's groups cannot be read");
    nested_files_close(walk.files);
    forget_compared(&walk);
}

/* Gives new datasets chunks and the filter where a rule applies. */
#include "vol/create.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/privilege.h"
#include "codec/api/text.h"
#include "codec/format/types.h"
#include "filter/members.h"
#include "filter/plugin/call.h"
#include "filter/types.h"
#include "vol/chunks.h"

/* Datasets of fewer values stay uncompressed, unless the rule says "small":
 * compression hardly saves more than the chunk's entry in the file's index
 * takes. Tests set a smaller number. */
#ifndef VOL_CREATE_MIN_NVALUES
#define VOL_CREATE_MIN_NVALUES 4096
#endif

/* The dataset's path, which the caller frees; NULL: an anonymous dataset. */
static char *
read_path(const struct vol_creation *creation)
{
    if (creation->name == NULL)
        return NULL;
    char *path = *creation->name == '/'
                     ? NULL
                     : vol_object_path(creation->parent,
                                       creation->loc->obj_type, creation->dxpl);
    const size_t length = path == NULL ? 0 : strlen(path);
    char *whole = realloc(path, length + strlen(creation->name) + 2);
    if (whole == NULL) {
        free(path);
        return NULL;
    }
    char *end = whole + length;
    if (*creation->name != '/' && (length == 0 || end[-1] != '/'))
        *end++ = '/';
    strcpy(end, creation->name);
    return whole;
}

/* Bytes of a compound value that has the members that the rule names, because
 * the filter refuses others; 0: the rule does not apply. */
static unsigned
read_compound_nbytes(const struct terp_host *host, hid_t type,
                     const struct vol_choice *choice)
{
    struct terp_cd cd = {.nrules = choice->nmembers};
    bool unmatched;

    for (int i = 0; i < choice->nmembers; i++)
        cd.rules[i].name_hash = choice->members[i][0];
    return choice->has_compounds &&
                   terp_members_read(host, type, &cd, &unmatched) ==
                       TERP_PASS_BY_MEMBER &&
                   !unmatched
               ? cd.compound.value_nbytes
               : 0;
}

/* Bytes of a float32, a float64 or a compound value; 0: the rule does not apply
 * to the type. */
static unsigned
read_value_nbytes(const void *caller, hid_t type,
                  const struct vol_choice *choice)
{
    struct terp_host host;
    struct terp_number number;
    unsigned nbytes = 0;

    terp_host_open(caller, &host);
    if (terp_number_read(&host, type, &number) != TERP_PASS_NONE)
        nbytes = read_compound_nbytes(&host, type, choice);
    else if (terp_type_is_plain(number.type))
        nbytes = (unsigned)terp_value_nbytes(number.type);
    terp_host_close(&host);
    return nbytes;
}

/* The dataset that a rule applies to. */
struct found {
    struct vol_extent extent;
    unsigned value_nbytes;
    bool has_chunks, has_filters, has_terp, has_fletcher;
    hsize_t chunk[H5S_MAX_RANK]; /* the program's, if has_chunks */
};

static bool
read_filters(const struct vol_library *library, hid_t dcpl, struct found *found)
{
    const int nfilters = library->H5Pget_nfilters(dcpl);
    unsigned flags;

    found->has_filters = nfilters > 0;
    for (int i = 0; i < nfilters; i++) {
        size_t nwords = 0;
        const H5Z_filter_t filter = library->H5Pget_filter2(
            dcpl, (unsigned)i, &flags, &nwords, NULL, 0, NULL, NULL);
        found->has_terp |= filter == H5Z_FILTER_TERP;
        found->has_fletcher |= filter == H5Z_FILTER_FLETCHER32;
    }
    return nfilters >= 0;
}

/* Whether the dataset has too few values to compress. Where the program's
 * chunks stay, their values count; otherwise the dataset's values now, unless
 * it may grow. */
static bool
has_few_values(const struct vol_choice *choice, const struct found *found)
{
    uint64_t nvalues = 1;

    if (!found->has_chunks || choice->replaces_chunks)
        return !found->extent.grows &&
               found->extent.nvalues < VOL_CREATE_MIN_NVALUES;
    for (int d = 0; d < found->extent.rank; d++)
        nvalues *= found->chunk[d];
    return nvalues < VOL_CREATE_MIN_NVALUES;
}

/* Whether the user says that the program writes collectively through MPI. HDF5
 * refuses independent writes to a dataset with filters. */
static bool
writes_are_collective(void)
{
    const char *text = getenv("TERP_RULES_MPI");

    return text != NULL && strcmp(text, "collective") == 0;
}

/* Whether the dataset may be a line of AMReX, or of its particles, that holds
 * several components. A chunk of them would have one range, and components of
 * small ranges would not survive a bound relative to it. The names are those of
 * datasets of one component, too. */
static bool
may_mix_components(const char *path, const struct vol_choice *choice,
                   const struct found *found)
{
    static const char line[] = "data:datatype=";
    const char *slash = path == NULL ? NULL : strrchr(path, '/');

    return choice->config.bound_mode == H5Z_TERP_RELATIVE &&
           !choice->has_components && found->extent.rank == 1 &&
           slash != NULL && strncmp(slash + 1, line, sizeof line - 1) == 0;
}

static const char mixes_components[] =
    "it may hold several components, which share a relative bound; use "
    "\"pwr\", \"abs\" or terp repack, or the rule's option \"components\" "
    "where each dataset has one";

/* Fills in `found`. Returns why the dataset stays uncompressed; NULL: it is
 * compressed. */
static const char *
reason_to_leave(const struct vol_library *library,
                const struct vol_creation *creation, const char *path,
                const struct vol_choice *choice, struct found *found)
{
    const hid_t dcpl = creation->dcpl;
    const H5D_layout_t layout = library->H5Pget_layout(dcpl);

    if (!vol_extent_read(library, creation->space, &found->extent))
        return "it is scalar or null";
    if (found->value_nbytes == 0)
        return choice->has_compounds
                   ? "terp does not compress its type, or it lacks a member "
                     "that the rule names"
                   : "its type is neither float32 nor float64; the rule's "
                     "option \"compound\" takes compound values";
    found->has_chunks = layout == H5D_CHUNKED;
    if (found->has_chunks &&
        library->H5Pget_chunk(dcpl, H5S_MAX_RANK, found->chunk) !=
            found->extent.rank)
        return "its chunks have another rank than its dataspace";
    if (!choice->has_small && has_few_values(choice, found))
        return "it has few values; the rule's option \"small\" takes it too";
    if (found->extent.nvalues == 0 && !found->extent.grows)
        return "it has no values";
    if (choice->rank > 0 && choice->rank != found->extent.rank)
        return "the rule's chunk has another rank";
    if (!found->has_chunks &&
        (layout != H5D_CONTIGUOUS || library->H5Pget_external_count(dcpl) != 0))
        return "its layout cannot have chunks";
    if (!read_filters(library, dcpl, found))
        return "HDF5 does not tell its filters";
    if (found->has_terp)
        return "it has terp already";
    if (found->has_filters && !choice->replaces_filters)
        return "it has filters already; the rule's option "
               "\"replace-filters\" replaces them";
    if (may_mix_components(path, choice, found))
        return mixes_components;
    /* With filters of its own, the program already writes collectively. */
    if (creation->parent->is_shared && !found->has_filters &&
        !writes_are_collective())
        return "several processes may have its file open; where they write "
               "collectively, set TERP_RULES_MPI=collective";
    return NULL;
}

static bool
set_chunks(const struct vol_library *library, const struct vol_choice *choice,
           const struct found *found, hid_t dcpl, hid_t dapl)
{
    const struct vol_extent *extent = &found->extent;
    hsize_t chunk[H5S_MAX_RANK];

    if (found->has_chunks && !choice->replaces_chunks)
        return true;
    vol_chunks_choose(extent, found->has_chunks ? found->chunk : NULL, chunk);
    /* HDF5 refuses chunks that are longer than a dimension's maximum. */
    for (int d = 0; d < choice->rank; d++)
        chunk[d] = min_u64(choice->chunk[d], extent->max[d]);
    return library->H5Pset_chunk(dcpl, extent->rank, chunk) >= 0 &&
           vol_chunks_set_cache(library, dapl, extent, chunk,
                                found->value_nbytes);
}

/* Replaces the filters by terp, and by the program's checksum after terp. */
static bool
set_filters(const struct vol_library *library, const struct vol_choice *choice,
            const struct found *found, hid_t dcpl)
{
    unsigned words[H5Z_TERP_MAX_ALL_NWORDS];
    size_t nwords = H5Z_terp_cd_values(&choice->config, words);

    if (choice->nmembers > 0)
        words[0] |= TERP_CD_MEMBERS;
    for (int i = 0; i < choice->nmembers; i++) {
        memcpy(words + nwords, choice->members[i], sizeof choice->members[i]);
        nwords += H5Z_TERP_MEMBER_NWORDS;
    }

    return (!found->has_filters ||
            library->H5Premove_filter(dcpl, H5Z_FILTER_ALL) >= 0) &&
           library->H5Pset_filter(dcpl, H5Z_FILTER_TERP, choice->config.flags,
                                  nwords, words) >= 0 &&
           (!found->has_fletcher ||
            library->H5Pset_filter(dcpl, H5Z_FILTER_FLETCHER32,
                                   H5Z_FLAG_MANDATORY, 0, NULL) >= 0);
}

/* Makes property lists with the rule's chunks and filter; false if HDF5
 * refuses. */
static bool
make_lists(const struct vol_library *library, const struct vol_choice *choice,
           const struct found *found, struct vol_creation *creation)
{
    hid_t dcpl = library->H5Pcopy(creation->dcpl);
    hid_t dapl = library->H5Pcopy(creation->dapl);

    if (dcpl >= 0 && dapl >= 0 &&
        set_chunks(library, choice, found, dcpl, dapl) &&
        set_filters(library, choice, found, dcpl)) {
        creation->dcpl = dcpl;
        creation->dapl = dapl;
        return true;
    }
    if (dcpl >= 0)
        library->H5Pclose(dcpl);
    if (dapl >= 0)
        library->H5Pclose(dapl);
    return false;
}

/* Prints a wrong rule once, not for each dataset. */
static void
say_wrong(const struct terp_call *call, const char *reason)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;

    if (!call->quiet && (!atomic_flag_test_and_set(&said) || call->verbose))
        fprintf(stderr, "H5Z-TERP: TERP_RULES: %s; no rule is used\n", reason);
}

static const char no_filter[] = "this HDF5 does not find the filter of terp";

/* Printed once even when not verbose: a user of rules expects compressed
 * data. */
static void
say_no_filter(const struct terp_call *call)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;

    if (!call->quiet && !call->verbose && !atomic_flag_test_and_set(&said))
        fprintf(stderr,
                "H5Z-TERP: TERP_RULES: %s, and stores data uncompressed; add "
                "the plugin's folder to HDF5_PLUGIN_PATH\n",
                no_filter);
}

/* The same. */
static void
say_mixes_components(const struct terp_call *call, const char *path)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;

    if (!call->quiet && !call->verbose && !atomic_flag_test_and_set(&said))
        fprintf(stderr, "H5Z-TERP: TERP_RULES: %s is not compressed: %s\n",
                path, mixes_components);
}

/* Applies the rule `choice` to the dataset at `path`. */
static bool
apply(const void *caller, const struct terp_call *call, const char *path,
      const struct vol_choice *choice, struct vol_creation *creation)
{
    const struct vol_library *library = creation->parent->library;
    struct found found = {
        .value_nbytes = read_value_nbytes(caller, creation->type, choice)};
    char bound[TERP_TEXT_NUMBER_NBYTES];

    const char *reason =
        reason_to_leave(library, creation, path, choice, &found);
    if (reason == mixes_components)
        say_mixes_components(call, path);
    /* If HDF5 cannot find an optional filter, it omits the filter without an
     * error. */
    if (reason == NULL && library->H5Zfilter_avail(H5Z_FILTER_TERP) <= 0) {
        reason = no_filter;
        say_no_filter(call);
    }
    if (reason == NULL && !make_lists(library, choice, &found, creation))
        reason = "HDF5 refuses the rule's filter or chunks";
    if (reason != NULL)
        terp_call_say(call, "rules: %s is not compressed: %s",
                      path == NULL ? "(no name)" : path, reason);
    else
        terp_call_say(call, "rules: %s is compressed, mode %u, bound %s",
                      path == NULL ? "(no name)" : path,
                      choice->config.bound_mode,
                      terp_text_number(choice->config.bound, 17, bound));
    return reason == NULL;
}

bool
vol_create_apply(const void *caller, struct vol_creation *creation)
{
    const char *rules = terp_getenv_of_file("TERP_RULES");
    char reason[VOL_REASON_NBYTES];
    struct vol_choice choice;
    struct terp_call call;
    bool applied = false;

    if (rules == NULL || *rules == '\0')
        return false;
    char *path = read_path(creation);
    terp_call_begin(caller, &call);
    enum vol_rule rule = vol_rules_find(rules, path, &choice, reason);
    if (rule == VOL_RULE_WRONG)
        say_wrong(&call, reason);
    if (rule == VOL_RULE_LEAVE || rule == VOL_RULE_UNMATCHED)
        terp_call_say(&call, "rules: %s is not compressed: %s",
                      path == NULL ? "(no name)" : path,
                      path == NULL             ? "it has no name"
                      : rule == VOL_RULE_LEAVE ? "its rule says none"
                                               : "no rule matches its path");
    if (rule == VOL_RULE_APPLY)
        applied = apply(caller, &call, path, &choice, creation);
    terp_host_close(&call.host);
    free(path);
    return applied;
}

void
vol_create_close(const struct vol_creation *creation)
{
    const struct vol_library *library = creation->parent->library;

    library->H5Pclose(creation->dcpl);
    library->H5Pclose(creation->dapl);
}

void
vol_create_give_up(const void *caller, const char *name)
{
    struct terp_call call;

    terp_call_begin(caller, &call);
    terp_call_say(&call, "rules: %s is not compressed: HDF5 failed",
                  name == NULL ? "(no name)" : name);
    terp_host_close(&call.host);
}

/* terp repack: the note of a copy: its options, its input, and a digest of its
 * datasets. */
#define _POSIX_C_SOURCE 200809L /* st_mtim */
#include "tools/repack/done.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/attribute.h"
#include "tools/common/walk.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char NOTE[] = "terp_repack";

/* Old object headers limit an attribute to 64 KiB. */
#define MAX_NOTE_NBYTES ((size_t)60000)

/* More parameters of a filter than any filter has. */
#define MAX_NWORDS 256

/* ---- text ---- */

struct text {
    char *bytes; /* NULL: empty, or without memory */
    size_t nbytes;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void
add(struct text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    const int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *bytes = n < 0 || text->failed
                      ? NULL
                      : realloc(text->bytes, text->nbytes + (size_t)n + 1);
    if (bytes == NULL) {
        text->failed = true;
        return;
    }
    text->bytes = bytes;
    va_start(arguments, format);
    vsnprintf(bytes + text->nbytes, (size_t)n + 1, format, arguments);
    va_end(arguments);
    text->nbytes += (size_t)n;
}

static void
add_bound(struct text *text, const struct repack_bound *bound)
{
    if (bound->mode == REPACK_KEEP)
        return;
    add(text, " %s", bound->kind);
    if (bound->given > 0)
        add(text, " %.17g", bound->given);
    if (bound->floor > 0)
        add(text, " floor %.17g", bound->floor);
}

static void
add_limits(struct text *text, const struct repack_limits *limits)
{
    if (limits->keep_sign != REPACK_LIMITS_DEFAULT.keep_sign)
        add(text, " keep-sign %d", (int)limits->keep_sign);
    if (limits->valid == REPACK_VALID_NONE)
        add(text, " valid-range none");
    if (limits->valid == REPACK_VALID_GIVEN)
        add(text, " valid-range %.17g:%.17g", limits->valid_min,
            limits->valid_max);
}

static void
add_chunk(struct text *text, const struct repack_request *request)
{
    if (request->chunk_auto)
        add(text, " chunk auto");
    for (unsigned i = 0; i < request->chunk.rank; i++)
        add(text, "%s%" PRIu64, i == 0 ? " chunk " : "x",
            request->chunk.dims[i]);
}

/* Adds every option on which the bytes of a copy depend. */
static void
add_options(struct text *text, const struct repack_request *request)
{
    add(text, "options:");
    add_bound(text, &request->bound);
    for (int i = 0; i < request->nrules; i++)
        add(text, " dataset %s", request->rules[i].text);
    for (int i = 0; i < request->nmembers; i++)
        add(text, " member %s", request->members[i].text);
    for (int i = 0; i < request->nmasks; i++)
        add(text, " mask %s", request->masks[i].text);
    if (request->fills_masked)
        add(text, " mask-fill");
    add_limits(text, &request->limits);
    add_chunk(text, request);
    if (request->pipeline != 0)
        add(text, " pipeline %s", tool_pipeline_name((int)request->pipeline));
    if (request->effort != 0)
        add(text, " effort %s", tool_effort_name((int)request->effort));
    if (request->format != 0)
        add(text, " format %u", request->format);
    if (request->levels != REPACK_LEVELS_FOUND)
        add(text,
            request->levels == REPACK_LEVELS_NEEDED ? " amrex" : " no-amrex");
    if (request->deflates_rest)
        add(text, " rest deflate");
    if (request->leaves_out_cf)
        add(text, " no-cf");
    if (request->record)
        add(text, " record");
    if (request->salvage)
        add(text, " salvage");
}

static void
add_input(struct text *text, const struct stat *in)
{
    add(text, "%" PRIu64 " bytes of %" PRId64 ".%09ld", (uint64_t)in->st_size,
        (int64_t)in->st_mtim.tv_sec, (long)in->st_mtim.tv_nsec);
}

/* ---- the digest of datasets ---- */

/* Each hash is the seed of the next one. */
struct digest {
    XXH64_hash_t hash;
    bool failed;
};

static void
digest_bytes(struct digest *digest, const void *bytes, size_t nbytes)
{
    digest->hash = XXH64(bytes, nbytes, digest->hash);
}

static void
digest_number(struct digest *digest, uint64_t number)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> 8 * i);
    digest_bytes(digest, bytes, sizeof bytes);
}

static void
digest_dims(struct digest *digest, int rank, const hsize_t *dims)
{
    for (int i = 0; i < rank; i++)
        digest_number(digest, dims[i]);
}

static void
digest_filters(struct digest *digest, const struct tool_dataset *dataset)
{
    unsigned words[MAX_NWORDS], flags, config;

    digest_number(digest, (uint64_t)dataset->nfilters);
    for (int i = 0; i < dataset->nfilters; i++) {
        size_t nwords = MAX_NWORDS;
        const H5Z_filter_t filter =
            H5Pget_filter2(dataset->dcpl, (unsigned)i, &flags, &nwords, words,
                           0, NULL, &config);
        digest_number(digest, (uint64_t)filter);
        for (size_t j = 0; j < nwords && j < MAX_NWORDS; j++)
            digest_number(digest, words[j]);
    }
}

/* A tool_visit. */
static void
digest_dataset(const char *path, const struct tool_dataset *dataset,
               const struct tool_trouble *trouble, void *context)
{
    struct digest *digest = context;
    char type[64];

    (void)trouble;
    if (dataset == NULL) {
        digest->failed = true;
        return;
    }
    tool_dataset_type_name(dataset, type, sizeof type);
    digest_bytes(digest, path, strlen(path) + 1);
    digest_bytes(digest, type, strlen(type) + 1);
    digest_number(digest, dataset->value_nbytes);
    digest_number(digest, (uint64_t)dataset->rank);
    digest_dims(digest, dataset->rank, dataset->dims);
    digest_number(digest, (uint64_t)H5Pget_layout(dataset->dcpl));
    if (dataset->chunked) {
        digest_dims(digest, dataset->rank, dataset->chunk_dims);
        digest_filters(digest, dataset);
    }
    digest_number(digest, H5Dget_storage_size(dataset->id));
}

/* Adds a number that depends on the datasets' paths, types, shapes, filters and
 * stored sizes. A dataset that is written again gets other sizes. */
static void
add_datasets(struct text *text, hid_t file)
{
    struct digest digest = {0};

    if (!tool_file_visit(file, digest_dataset, &digest) || digest.failed)
        text->failed = true;
    else
        add(text, "; datasets: %016" PRIx64, (uint64_t)digest.hash);
}

/* ---- the note ---- */

static bool
write_note(hid_t out, const struct text *note)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    hid_t space = H5Screate(H5S_SCALAR);
    bool ok = H5Tset_size(type, note->nbytes + 1) >= 0 &&
              H5Tset_cset(type, H5T_CSET_UTF8) >= 0;
    hid_t root = ok ? H5Gopen2(out, "/", H5P_DEFAULT) : -1;
    hid_t attribute = root < 0 ? -1
                               : H5Acreate2(root, NOTE, type, space,
                                            H5P_DEFAULT, H5P_DEFAULT);

    ok = attribute >= 0 && H5Awrite(attribute, type, note->bytes) >= 0;
    tool_close(attribute);
    tool_close(root);
    tool_close(space);
    tool_close(type);
    return ok;
}

bool
repack_done_note(struct repack *repack, const struct stat *stat_in)
{
    struct text note = {0};
    bool ok = H5Aexists_by_name(repack->out, "/", NOTE, H5P_DEFAULT) <= 0 ||
              H5Adelete_by_name(repack->out, "/", NOTE, H5P_DEFAULT) >= 0;

    if (ok && repack_is_of_many(&repack->request) && repack->nlost == 0 &&
        repack->nleft_out == 0) {
        add_options(&note, &repack->request);
        add(&note, "; input: ");
        add_input(&note, stat_in);
        add_datasets(&note, repack->out);
        ok = note.failed || note.nbytes > MAX_NOTE_NBYTES ||
             write_note(repack->out, &note);
    }
    free(note.bytes);
    return ok || repack_fail(repack, "/", NULL);
}

/* Reads "1234 bytes of 1764460000.123456789", which ends at `end`. */
static bool
read_input(const char *text, const char *end, uint64_t *nbytes_ret)
{
    int n = 0;

    return sscanf(text, "%" SCNu64 " bytes of %*d.%*u%n", nbytes_ret, &n) ==
               1 &&
           text + n == end;
}

bool
repack_done_check(const struct repack_request *request, hid_t out,
                  const struct stat *stat_in, uint64_t *in_nbytes_ret)
{
    struct text begin = {0}, end = {0};
    hid_t root = H5Gopen2(out, "/", H5P_DEFAULT);
    char *note = root < 0 ? NULL : tool_attribute_text(root, NOTE);
    bool done = false;

    tool_close(root);
    add_options(&begin, request);
    add(&begin, "; input: ");
    if (stat_in != NULL)
        add_input(&begin, stat_in);
    const char *rest = note != NULL && !begin.failed &&
                               strncmp(note, begin.bytes, begin.nbytes) == 0
                           ? note + begin.nbytes
                           : NULL;
    if (rest != NULL)
        add_datasets(&end, out);
    if (rest != NULL && !end.failed && strlen(rest) >= end.nbytes) {
        const char *at = rest + strlen(rest) - end.nbytes;
        done = strcmp(at, end.bytes) == 0 &&
               (stat_in != NULL ? at == rest
                                : read_input(rest, at, in_nbytes_ret));
    }
    free(begin.bytes);
    free(end.bytes);
    free(note);
    return done;
}

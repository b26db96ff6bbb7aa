/* terp info: prints the datasets as JSON. doc/terp.1 documents the keys. */
#include <math.h>
#include <stdio.h>

#include "codec/api/inspect.h"
#include "tools/common/cf.h"
#include "tools/common/json.h"
#include "tools/common/lost.h"
#include "tools/common/options.h"
#include "tools/common/record.h"
#include "tools/info/info.h"

static void *
json_begin(void)
{
    json_t *document = tool_json_document("info");

    tool_json_set(document, "files", json_array());
    return document;
}

static void
json_file(void *report, int nth, const char *path, bool opened)
{
    json_t *file = json_object();

    (void)nth;
    tool_json_append(json_object_get(report, "files"), file);
    tool_json_set_text(file, "path", path);
    tool_json_set(file, "opened", json_boolean(opened));
    tool_json_set(file, "damage", json_null());
    tool_json_set(file, "datasets", json_array());
}

/* The file that receives datasets. */
static json_t *
last_file(void *report)
{
    const json_t *files = json_object_get(report, "files");
    return json_array_get(files, json_array_size(files) - 1);
}

static void
set_layout(json_t *object, const struct tool_dataset *dataset)
{
    uint64_t nbytes = dataset->nvalues * dataset->value_nbytes;
    uint64_t stored_nbytes = H5Dget_storage_size(dataset->id);
    bool null = dataset->nvalues == 0 && dataset->rank == 0;
    char type[64];

    tool_dataset_type_name(dataset, type, sizeof type);
    tool_json_set_text(object, "type", type);
    tool_json_set_dims(object, "shape", dataset->rank,
                       null ? NULL : dataset->dims);
    tool_json_set_dims(object, "chunk", dataset->rank,
                       dataset->chunked ? dataset->chunk_dims : NULL);
    tool_json_set_count(object, "bytes", nbytes);
    tool_json_set_count(object, "stored_bytes", stored_nbytes);
    tool_json_set_number(object, "ratio", tool_ratio(nbytes, stored_nbytes));
}

static json_t *
make_params(const struct tool_dataset *dataset)
{
    const struct terp_cd *cd = &dataset->cd;
    const struct terp_params *params = &cd->params;
    json_t *object = json_object();
    hsize_t bricks[TERP_MAX_RANK];

    for (int i = 0; i < cd->nlogical; i++)
        bricks[i] = cd->logical[i];
    tool_json_set_text(object, "bound_mode",
                       terp_bound_mode_name(params->bound_mode));
    tool_json_set_number(object, "bound", params->bound);
    tool_json_set_number(object, "floor",
                         params->floor > 0 ? params->floor : (double)NAN);
    tool_json_set_text(object, "pipeline",
                       terp_pipeline_name(params->pipeline));
    tool_json_set_text(object, "predictor",
                       terp_predictor_name(params->predictor));
    tool_json_set_text(object, "effort", terp_effort_name(params->effort));
    tool_json_set_dims(object, "bricks", cd->nlogical,
                       cd->nlogical > 0 ? bricks : NULL);
    tool_json_set(object, "fill_kept", json_boolean(params->has_fill));
    tool_json_set_number(object, "missing_value",
                         cd->has_missing ? cd->missing : (double)NAN);
    tool_json_set_number(object, "valid_min",
                         params->has_valid_range ? params->valid_min
                                                 : (double)NAN);
    tool_json_set_number(object, "valid_max",
                         params->has_valid_range ? params->valid_max
                                                 : (double)NAN);
    tool_json_set_text(object, "keep_sign",
                       tool_keep_sign_name((int)params->keep_sign));
    if (params->format != 0)
        tool_json_set_count(object, "format", (uint64_t)params->format);
    tool_json_set_text(object, "passed_through", info_pass_text(dataset));
    return object;
}

/* The record of terp repack --record, or null. */
static json_t *
make_record(const struct tool_dataset *dataset)
{
    struct tool_record record;

    if (!tool_record_read(dataset->id, &record))
        return json_null();
    json_t *object = json_object();
    tool_json_set_text(object, "implementation", record.implementation);
    tool_json_set_text(object, "bound_kind", record.bound_kind);
    tool_json_set_number(object, "bound", record.bound);
    tool_json_set_number(object, "absolute_bound", record.absolute_bound);
    tool_json_set_number(object, "floor", record.floor);
    tool_json_set_number(object, "max_error", record.max_error);
    tool_json_set_number(object, "psnr", record.psnr);
    return object;
}

/* CF's attributes of lossy compression, or null. */
static json_t *
make_note(const char *path, const struct tool_dataset *dataset)
{
    struct tool_cf_note note;

    if (!tool_cf_describe(dataset->id, path, &note))
        return json_null();
    json_t *object = json_object();
    tool_json_set(object, "quantization", json_boolean(note.is_quantized));
    tool_json_set_text(object, "algorithm", note.algorithm);
    tool_json_set_text(object, "implementation", note.implementation);
    tool_json_set_number(object, "bits", note.bits);
    tool_json_set_number(object, "digits", note.digits);
    tool_json_set_number(object, "absolute_error", note.errors.absolute);
    tool_json_set_number(object, "relative_error", note.errors.relative);
    tool_cf_free(&note);
    return object;
}

/* The losses that terp repack --salvage lists, or null. */
static json_t *
make_lost(const struct tool_dataset *dataset)
{
    struct tool_lost lost;
    json_t *array =
        tool_lost_read(dataset->id, &lost) ? json_array() : json_null();

    for (uint64_t i = 0; json_is_array(array) && i < lost.n; i++) {
        json_t *chunk = json_object();
        tool_json_append(array, chunk);
        tool_json_set_text(chunk, "values", lost.values[i]);
        tool_json_set_text(chunk, "reason", lost.reasons[i]);
    }
    tool_lost_free(&lost);
    return array;
}

/* Keys are names with _ for spaces. */
static json_t *
make_counts(const char *name_of(int), const uint64_t *counts, int ncounts)
{
    json_t *object = json_object();
    char key[32];

    for (int i = 0; i < ncounts; i++) {
        snprintf(key, sizeof key, "%s", name_of(i));
        for (char *at = key; *at != '\0'; at++)
            if (*at == ' ')
                *at = '_';
        tool_json_set_count(object, key, counts[i]);
    }
    return object;
}

/* The most frequent domain. A stack also has `bricks`. */
static json_t *
make_domain(const struct info_summary *sum)
{
    const struct info_domain *domain = info_main_domain(sum);
    const struct terp_chunk *shape = &domain->shape;
    hsize_t dims[TERP_MAX_RANK];

    if (domain->nchunks == 0)
        return json_null();
    json_t *object = json_object();
    for (int i = 0; i < shape->rank; i++)
        dims[i] = shape->dims[i];
    tool_json_set_count(object, "chunks", domain->nchunks);
    tool_json_set_dims(object, "shape", shape->rank, dims);
    tool_json_set_dims(object, "bricks", shape->rank - 1,
                       shape->stack ? dims + 1 : NULL);
    return object;
}

static json_t *
make_dictionary(const struct info_summary *sum)
{
    json_t *array = json_array();
    int place;

    for (int i = 0; i < 256; i++) {
        if (sum->ntiles_with_entry[i] == 0)
            continue;
        const char *family = terp_entry_family(i, &place);
        json_t *entry = json_object();
        tool_json_append(array, entry);
        tool_json_set(entry, "entry", json_integer(i));
        tool_json_set_text(entry, "family", family);
        tool_json_set(entry, "place",
                      family != NULL ? json_integer(place) : json_null());
        tool_json_set_count(entry, "tiles", sum->ntiles_with_entry[i]);
    }
    return array;
}

/* Null if no stream has a table of prefixes. */
static json_t *
make_prefixes(const struct info_summary *sum)
{
    if (sum->nwith_prefixes == 0)
        return json_null();
    json_t *object = json_object();
    json_t *steps = json_array();
    tool_json_set_count(object, "chunks", sum->nwith_prefixes);
    tool_json_set_count(object, "stream_bytes", sum->prefixed_nbytes);
    tool_json_set(object, "steps", steps);
    for (int i = 0; i < INFO_NPREFIXES; i++) {
        json_t *prefix = json_object();
        tool_json_append(steps, prefix);
        tool_json_set_count(prefix, "step", INFO_STEP_OF_PREFIX(i));
        tool_json_set_count(prefix, "bytes", sum->prefix_nbytes[i]);
    }
    return object;
}

static json_t *
make_damage(const struct tool_dataset *dataset, const struct info_summary *sum)
{
    if (sum->nof_kind[INFO_DAMAGED] == 0)
        return json_null();
    json_t *object = json_object();
    tool_json_set_dims(object, "at", dataset->rank, sum->damaged_at);
    tool_json_set_text(object, "reason", sum->damage);
    return object;
}

static json_t *
make_undeclared(const struct info_summary *sum)
{
    json_t *array = json_array();

    for (int i = 0; i < sum->undeclared.n; i++)
        tool_json_append(array, json_real(sum->undeclared.at[i]));
    return array;
}

/* Null if values are no compounds. */
static json_t *
make_members(const struct info_members *members)
{
    json_t *array = members->n > 0 ? json_array() : json_null();

    for (int i = 0; i < members->n; i++) {
        const struct info_member *member = &members->member[i];
        json_t *object = json_object();
        tool_json_append(array, object);
        tool_json_set_text(object, "name",
                           member->at == SIZE_MAX ? NULL : member->path);
        tool_json_set_count(object, "bytes", member->nbytes);
        tool_json_set_count(object, "stored_bytes", member->stored_nbytes);
    }
    return array;
}

static json_t *
make_streams(const struct tool_dataset *dataset, const struct info_summary *sum)
{
    json_t *object = json_object();

    tool_json_set_count(object, "chunks", sum->nchunks);
    tool_json_set(object, "kinds",
                  make_counts(info_kind_name, sum->nof_kind, INFO_NKINDS));
    tool_json_set(object, "predictors",
                  make_counts(info_predictor_name, sum->nwith_predictor,
                              INFO_NPREDICTORS));
    tool_json_set_count(object, "version_2", sum->nof_version_2);
    tool_json_set(
        object, "codings",
        make_counts(info_coding_name, sum->nwith_coding, INFO_NCODINGS));
    tool_json_set_count(object, "domains", sum->nwith_domain);
    tool_json_set(object, "domain", make_domain(sum));
    tool_json_set_count(object, "values", sum->nvalues);
    tool_json_set_count(object, "escapes", sum->nescapes);
    tool_json_set_count(object, "specials", sum->nspecials);
    tool_json_set(object, "undeclared_fills", make_undeclared(sum));
    tool_json_set_count(object, "tiles", sum->ntiles);
    tool_json_set_count(object, "tiles_zero", sum->ntiles_zero);
    tool_json_set_count(object, "index_bytes", sum->index_nbytes);
    tool_json_set(object, "dictionary", make_dictionary(sum));
    tool_json_set(object, "prefixes", make_prefixes(sum));
    tool_json_set(object, "members", make_members(&sum->members));
    tool_json_set(object, "damaged_chunk", make_damage(dataset, sum));
    return object;
}

static void
json_add(void *report, const char *path, const struct tool_dataset *dataset,
         const struct info_summary *summary, const char *damage)
{
    json_t *object = json_object();
    bool known = dataset->has_terp && damage == NULL;

    tool_json_append(json_object_get(last_file(report), "datasets"), object);
    tool_json_set_text(object, "path", path);
    tool_json_set_text(object, "damage", damage);
    tool_json_set(object, "unreadable", json_null());
    set_layout(object, dataset);
    tool_json_set(object, "terp", json_boolean(dataset->has_terp));
    tool_json_set(object, "lossless",
                  json_boolean(damage == NULL && tool_is_lossless(dataset)));
    tool_json_set(object, "record", make_record(dataset));
    tool_json_set(object, "cf", make_note(path, dataset));
    tool_json_set(object, "lost", make_lost(dataset));
    if (!known)
        return;
    tool_json_set(object, "parameters", make_params(dataset));
    tool_json_set(object, "streams", make_streams(dataset, summary));
}

static void
json_add_trouble(void *report, const char *path,
                 const struct tool_trouble *trouble)
{
    json_t *object = json_object();

    tool_json_append(json_object_get(last_file(report), "datasets"), object);
    tool_json_set_text(object, "path", path);
    tool_json_set_text(object, "damage",
                       trouble->is_newer ? NULL : trouble->reason);
    tool_json_set_text(object, "unreadable",
                       trouble->is_newer ? trouble->reason : NULL);
}

static void
json_damaged_file(void *report, const char *damage)
{
    tool_json_set_text(last_file(report), "damage", damage);
}

const struct info_report info_report_json = {
    json_begin,       json_file,         json_add,
    json_add_trouble, json_damaged_file, tool_json_print};

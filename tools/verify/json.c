/* terp verify: prints results as JSON. doc/terp.1 documents the keys. */
#include "tools/common/json.h"
#include "tools/verify/verify.h"

static void *
json_begin(void)
{
    json_t *document = tool_json_document("verify");

    tool_json_set(document, "files", json_array());
    return document;
}

static json_t *
last_of(json_t *object, const char *key)
{
    const json_t *array = json_object_get(object, key);
    return json_array_get(array, json_array_size(array) - 1);
}

static void
json_file(void *report, const char *path, bool opened)
{
    json_t *file = json_object();

    tool_json_append(json_object_get(report, "files"), file);
    tool_json_set_text(file, "path", path);
    tool_json_set(file, "opened", json_boolean(opened));
    tool_json_set(file, "damage", json_null());
    tool_json_set(file, "datasets", json_array());
}

static void
json_dataset(void *report, const char *path, const char *damage)
{
    json_t *dataset = json_object();

    tool_json_append(json_object_get(last_of(report, "files"), "datasets"),
                     dataset);
    tool_json_set_text(dataset, "path", path);
    tool_json_set_text(dataset, "damage", damage);
    tool_json_set(dataset, "unreadable", json_null());
    tool_json_set(dataset, "damaged_chunks", json_array());
}

static json_t *
last_dataset(void *report)
{
    return last_of(last_of(report, "files"), "datasets");
}

static void
json_unreadable(void *report, const char *path, const char *reason)
{
    json_dataset(report, path, NULL);
    tool_json_set_text(last_dataset(report), "unreadable", reason);
}

static void
json_damage(void *report, const char *path, const struct tool_grid *box,
            const char *reason)
{
    json_t *chunk = json_object();

    (void)path;
    tool_json_append(json_object_get(last_dataset(report), "damaged_chunks"),
                     chunk);
    tool_json_set_dims(chunk, "at", box->rank, box->at);
    tool_json_set_dims(chunk, "count", box->rank, box->count);
    tool_json_set_text(chunk, "reason", reason);
}

static void
json_sums(void *report, const char *path, const struct verify_sums *sums)
{
    static const char *const keys[TOOL_CHECK_NKINDS] = {
        [TOOL_CHECK_WHOLE] = "whole",
        [TOOL_CHECK_DAMAGED] = "damaged",
        [TOOL_CHECK_ABSENT] = "not_written",
        [TOOL_CHECK_UNCHECKED] = "not_checked",
        [TOOL_CHECK_UNTRIED] = "out_of_memory"};
    json_t *dataset = last_dataset(report);

    (void)path;
    tool_json_set_count(dataset, "chunks", sums->nchunks);
    for (int i = 0; i < TOOL_CHECK_NKINDS; i++)
        tool_json_set_count(dataset, keys[i], sums->nof_kind[i]);
}

static void
json_damaged_file(void *report, const char *damage)
{
    tool_json_set_text(last_of(report, "files"), "damage", damage);
}

const struct verify_report verify_report_json = {
    json_begin,  json_file, json_dataset,      json_unreadable,
    json_damage, json_sums, json_damaged_file, tool_json_print};

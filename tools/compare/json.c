/* terp compare: prints the results as JSON. doc/terp.1 documents the keys. */
#include "tools/common/json.h"
#include "tools/common/tool.h"
#include "tools/compare/compare.h"

static void *
json_begin(const char *path_a, const char *path_b)
{
    json_t *document = tool_json_document("compare");

    tool_json_set(document, "a", tool_json_text(path_a));
    tool_json_set(document, "b", tool_json_text(path_b));
    tool_json_set(document, "datasets", json_array());
    return document;
}

static void
set_values(json_t *dataset, const struct compare_result *result)
{
    tool_json_set(dataset, "bound", tool_json_number(result->bound));
    tool_json_set(dataset, "error_of_bound",
                  tool_json_number(result->error_of_bound));
    tool_json_set(dataset, "max_error", tool_json_number(result->max_error));
    tool_json_set(dataset, "psnr", tool_json_number(result->psnr));
    tool_json_set(dataset, "min", tool_json_number(result->min));
    tool_json_set(dataset, "max", tool_json_number(result->max));
    tool_json_set(dataset, "valid", tool_json_count(result->nvalid));
    tool_json_set(dataset, "left_out", tool_json_count(result->nleft_out));
    tool_json_set(dataset, "specials", tool_json_count(result->nspecials));
    tool_json_set(dataset, "specials_changed",
                  tool_json_count(result->nspecials_changed));
    tool_json_set(dataset, "bytes", tool_json_count(result->nbytes));
    tool_json_set(dataset, "stored_bytes",
                  tool_json_count(result->stored_nbytes));
    tool_json_set(
        dataset, "ratio",
        tool_json_number(tool_ratio(result->nbytes, result->stored_nbytes)));
    tool_json_set(dataset, "png", tool_json_text(result->picture));
}

static void
json_add(void *report, const struct compare_result *result)
{
    json_t *dataset = json_object();

    tool_json_append(json_object_get(report, "datasets"), dataset);
    tool_json_set(dataset, "path", tool_json_text(result->path));
    tool_json_set(dataset, "verdict",
                  json_string(compare_verdict_text(result->verdict)));
    tool_json_set(
        dataset, "reason",
        tool_json_text(result->reason[0] != '\0' ? result->reason : NULL));
    if (result->compared)
        set_values(dataset, result);
}

static void
json_end(void *report, int code)
{
    if (code == TOOL_TROUBLE) {
        json_decref(report);
        return;
    }
    tool_json_set(report, "ok", json_boolean(code == TOOL_OK));
    tool_json_print(report);
}

const struct compare_report compare_report_json = {json_begin, json_add,
                                                   json_end};

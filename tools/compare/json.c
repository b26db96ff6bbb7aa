/* terp compare: prints the results as JSON. doc/terp.1 documents the keys. */
#include <math.h>

#include "tools/common/json.h"
#include "tools/common/tool.h"
#include "tools/compare/compare.h"

static void *
json_begin(const char *path_a, const char *path_b)
{
    json_t *document = tool_json_document("compare");

    tool_json_set_text(document, "a", path_a);
    tool_json_set_text(document, "b", path_b);
    tool_json_set(document, "datasets", json_array());
    return document;
}

static void
set_values(json_t *dataset, const struct compare_result *result)
{
    tool_json_set_number(dataset, "bound", result->bound);
    tool_json_set_number(dataset, "pointwise_bound",
                         result->pointwise_bound > 0 ? result->pointwise_bound
                                                     : (double)NAN);
    tool_json_set_number(dataset, "floor",
                         result->floor > 0 ? result->floor : (double)NAN);
    tool_json_set_number(dataset, "error_of_bound", result->error_of_bound);
    tool_json_set_number(dataset, "max_error", result->max_error);
    tool_json_set_number(dataset, "psnr", result->psnr);
    tool_json_set_number(dataset, "min", result->min);
    tool_json_set_number(dataset, "max", result->max);
    tool_json_set_count(dataset, "valid", result->nvalid);
    tool_json_set_count(dataset, "left_out", result->nleft_out);
    tool_json_set_count(dataset, "specials", result->nspecials);
    tool_json_set_count(dataset, "specials_changed", result->nspecials_changed);
    tool_json_set_count(dataset, "bytes", result->nbytes);
    tool_json_set_count(dataset, "stored_bytes", result->stored_nbytes);
    tool_json_set_number(dataset, "ratio",
                         tool_ratio(result->nbytes, result->stored_nbytes));
    tool_json_set_text(dataset, "png", result->picture);
}

static void
json_add(void *report, const struct compare_result *result)
{
    json_t *dataset = json_object();

    tool_json_append(json_object_get(report, "datasets"), dataset);
    tool_json_set_text(dataset, "path", result->path);
    tool_json_set_text(dataset, "verdict",
                       compare_verdict_text(result->verdict));
    tool_json_set_text(dataset, "reason", result->reason);
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

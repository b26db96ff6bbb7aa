/* terp compare: prints results as JSON. doc/terp.1 documents the keys. */
#include <math.h>

#include "tools/common/json.h"
#include "tools/common/tool.h"
#include "tools/compare/metrics.h"

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
set_extreme(json_t *metrics, const char *key,
            const struct compare_result *result,
            const struct metrics_extreme *extreme)
{
    json_t *object = json_object();
    hsize_t at[H5S_MAX_RANK];

    compare_metrics_coordinates(result, extreme->index, at);
    tool_json_set_number(object, "value", extreme->value);
    tool_json_set_dims(object, "at", result->rank, at);
    tool_json_set(metrics, key, object);
}

static void
append_number(json_t *array, double value)
{
    tool_json_append(array, isfinite(value) ? json_real(value) : json_null());
}

static json_t *
json_of_dim(const struct metrics_dim *dim)
{
    json_t *object = json_object(), *lags = json_array();

    tool_json_set(object, "dimension", json_integer(dim->axis));
    tool_json_set_number(object, "gradient_rmse", dim->gradient_rmse);
    tool_json_set_number(object, "gradient_max_error", dim->gradient_max);
    tool_json_set_number(object, "gradient_rmse_of_rms", dim->gradient_of_rms);
    for (int i = 0; i < dim->nlags; i++)
        append_number(lags, dim->autocorrelation[i]);
    tool_json_set(object, "autocorrelation", lags);
    return object;
}

static json_t *
json_of_spectrum(const struct compare_metrics *metrics)
{
    static const char *const keys[METRICS_NSPECTRA] = {
        [METRICS_OF_ERROR] = "power",
        [METRICS_OF_A] = "power_a",
        [METRICS_OF_B] = "power_b"};
    json_t *object = json_object(), *block = json_array();
    json_t *waves = json_array();

    for (int i = 0; i < metrics->ndims; i++)
        tool_json_append(block,
                         json_integer((json_int_t)metrics->dims[i].block));
    for (int i = 0; i < metrics->nwaves; i++)
        append_number(waves, (double)i / metrics->wave_divisor);
    tool_json_set(object, "block", block);
    tool_json_set(object, "wave_number", waves);
    for (int which = 0; which < METRICS_NSPECTRA; which++) {
        const double *power =
            compare_metrics_spectrum(metrics, (enum metrics_spectrum)which);
        json_t *array = json_array();
        for (int i = 0; i < metrics->nwaves; i++)
            append_number(array, power[i]);
        tool_json_set(object, keys[which], array);
    }
    return object;
}

static void
set_metrics(json_t *dataset, const struct compare_result *result)
{
    const struct compare_metrics *metrics = result->metrics;
    json_t *object = json_object(), *dims = json_array();

    tool_json_set_count(object, "values", metrics->nvalues);
    tool_json_set_number(object, "rmse", metrics->rmse);
    tool_json_set_number(object, "correlation", metrics->correlation);
    tool_json_set_number(object, "ssim", metrics->ssim);
    tool_json_set_number(object, "ssim_min", metrics->ssim_min);
    tool_json_set_count(object, "ssim_slices", metrics->nslices);
    tool_json_set_number(object, "mean_a", metrics->mean_a);
    tool_json_set_number(object, "mean_b", metrics->mean_b);
    tool_json_set_number(object, "drift", metrics->drift);
    tool_json_set_number(object, "drift_of_range", metrics->drift_of_range);
    tool_json_set_number(object, "drift_of_deviation",
                         metrics->drift_of_deviation);
    set_extreme(object, "min_a", result, &metrics->min_a);
    set_extreme(object, "max_a", result, &metrics->max_a);
    set_extreme(object, "min_b", result, &metrics->min_b);
    set_extreme(object, "max_b", result, &metrics->max_b);
    for (int i = 0; i < metrics->ndims; i++)
        tool_json_append(dims, json_of_dim(&metrics->dims[i]));
    tool_json_set(object, "dimensions", dims);
    tool_json_set(object, "spectrum", json_of_spectrum(metrics));
    tool_json_set(dataset, "metrics", object);
}

static void
set_chunks(json_t *dataset, const struct compare_result *result)
{
    const bool known = result->nchunks > 0;

    tool_json_set(dataset, "chunks",
                  known ? json_integer((json_int_t)result->nchunks)
                        : json_null());
    tool_json_set(dataset, "chunks_exceeded",
                  known ? json_integer((json_int_t)result->nchunks_exceeded)
                        : json_null());
}

static void
set_values(json_t *dataset, const struct compare_result *result)
{
    tool_json_set(dataset, "lossless", json_boolean(result->is_lossless));
    set_chunks(dataset, result);
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
    if (result->metrics != NULL)
        set_metrics(dataset, result);
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

/* terp advise: prints results as JSON. doc/terp.1 documents the keys. */
#include <math.h>

#include "tools/advise/advise.h"
#include "tools/common/json.h"

static void *
json_begin(const char *path, int nthreads)
{
    json_t *document = tool_json_document("advise");

    tool_json_set_text(document, "file", path);
    tool_json_set(document, "threads", json_integer(nthreads));
    tool_json_set(document, "datasets", json_array());
    return document;
}

static json_t *
make_sample(const struct tool_dataset *dataset,
            const struct advise_sample *sample)
{
    json_t *object = json_object();

    tool_json_set_dims(object, "box", dataset->rank, sample->grid.step);
    tool_json_set(object, "boxes", json_integer(sample->nboxes));
    tool_json_set_count(object, "values", sample->nvalues);
    tool_json_set_count(object, "valid", sample->nvalid);
    tool_json_set_count(object, "left_out", sample->nleft_out);
    tool_json_set_number(object, "min", sample->min);
    tool_json_set_number(object, "max", sample->max);
    tool_json_set_number(object, "floor",
                         sample->params.floor > 0 ? sample->params.floor
                                                  : (double)NAN);
    return object;
}

static json_t *
make_choice(const struct advise_choice *choice)
{
    json_t *object = json_object();

    tool_json_set_number(object, "rel", choice->relative);
    tool_json_set_number(object, "abs", choice->bound);
    tool_json_set_number(
        object, "pwr", choice->pointwise > 0 ? choice->pointwise : (double)NAN);
    tool_json_set_text(object, "pipeline",
                       terp_pipeline_name(choice->pipeline));
    tool_json_set_number(object, "ratio", choice->ratio);
    tool_json_set_number(object, "psnr", choice->psnr);
    tool_json_set_number(object, "write_mb_per_s", choice->write_speed);
    tool_json_set_number(object, "read_mb_per_s", choice->read_speed);
    return object;
}

static void
json_add(void *report, const char *path, const struct tool_dataset *dataset,
         const struct advise_sample *sample,
         const struct advise_choice *choices, const char *picture,
         const char *reason)
{
    json_t *object = json_object(), *array = json_array();
    char type[64];

    tool_json_append(json_object_get(report, "datasets"), object);
    tool_json_set_text(object, "path", path);
    tool_json_set_text(object, "reason", reason);
    tool_json_set_text(object, "png", picture);
    tool_json_set_text(object, "component",
                       sample != NULL && sample->component[0] != '\0'
                           ? sample->component
                           : NULL);
    tool_json_set_text(object, "note",
                       sample != NULL && sample->note[0] != '\0' ? sample->note
                                                                 : NULL);
    tool_json_set(object, "choices", array);
    if (choices == NULL || sample == NULL)
        return;
    tool_dataset_type_name(dataset, type, sizeof type);
    tool_json_set_text(object, "type", type);
    tool_json_set_dims(object, "shape", dataset->rank, dataset->dims);
    tool_json_set(object, "sample", make_sample(dataset, sample));
    for (int i = 0; i < ADVISE_NCHOICES; i++)
        tool_json_append(array, make_choice(&choices[i]));
}

static void
json_end(void *report, int nthreads)
{
    (void)nthreads;
    tool_json_print(report);
}

const struct advise_report advise_report_json = {json_begin, json_add,
                                                 json_end};

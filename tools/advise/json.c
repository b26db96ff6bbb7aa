/* terp advise: prints the results as JSON. doc/terp.1 documents the keys. */
#include "tools/common/json.h"
#include "tools/advise/advise.h"
#include "tools/common/options.h"

static void *
json_begin(const char *path)
{
    json_t *document = tool_json_document("advise");

    tool_json_set(document, "file", tool_json_text(path));
    tool_json_set(document, "datasets", json_array());
    return document;
}

static json_t *
make_sample(const struct tool_dataset *dataset,
            const struct advise_sample *sample)
{
    json_t *object = json_object();

    tool_json_set(object, "box",
                  tool_json_dims(dataset->rank, sample->box_dims));
    tool_json_set(object, "boxes", json_integer(sample->nboxes));
    tool_json_set(object, "values", tool_json_count(sample->nvalues));
    tool_json_set(object, "valid", tool_json_count(sample->nvalid));
    tool_json_set(object, "left_out", tool_json_count(sample->nleft_out));
    tool_json_set(object, "min", tool_json_number(sample->min));
    tool_json_set(object, "max", tool_json_number(sample->max));
    return object;
}

static json_t *
make_choice(const struct advise_choice *choice)
{
    json_t *object = json_object();

    tool_json_set(object, "rel", tool_json_number(choice->relative));
    tool_json_set(object, "abs", tool_json_number(choice->bound));
    tool_json_set(object, "pipeline",
                  json_string(terp_pipeline_names[choice->pipeline]));
    tool_json_set(object, "ratio", tool_json_number(choice->ratio));
    tool_json_set(object, "psnr", tool_json_number(choice->psnr));
    tool_json_set(object, "write_mb_per_s",
                  tool_json_number(choice->write_speed));
    tool_json_set(object, "read_mb_per_s",
                  tool_json_number(choice->read_speed));
    return object;
}

static void
json_add(void *report, const char *path, const struct tool_dataset *dataset,
         const struct advise_sample *sample,
         const struct advise_choice *choices, const char *reason)
{
    json_t *object = json_object(), *array = json_array();
    char type[64];

    tool_json_append(json_object_get(report, "datasets"), object);
    tool_json_set(object, "path", tool_json_text(path));
    tool_json_set(object, "reason",
                  tool_json_text(choices == NULL ? reason : NULL));
    tool_json_set(object, "choices", array);
    if (choices == NULL)
        return;
    tool_dataset_type_name(dataset, type, sizeof type);
    tool_json_set(object, "type", json_string(type));
    tool_json_set(object, "shape",
                  tool_json_dims(dataset->rank, dataset->dims));
    tool_json_set(object, "sample", make_sample(dataset, sample));
    for (int i = 0; i < ADVISE_NCHOICES; i++)
        tool_json_append(array, make_choice(&choices[i]));
}

static void
json_end(void *report)
{
    tool_json_print(report);
}

const struct advise_report advise_report_json = {json_begin, json_add,
                                                 json_end};

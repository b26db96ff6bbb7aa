/* terp advise: prints a table for each dataset. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/advise/advise.h"
#include "tools/common/text.h"

/* Whether bounds were relative to each value; decides the command at the end.
 */
struct text {
    bool pointwise;
};

static void *
text_begin(const char *path, int nthreads)
{
    (void)nthreads;
    printf("%s\n", tool_shown(path));
    return calloc(1, sizeof(struct text));
}

static void
print_sample(const struct tool_dataset *dataset,
             const struct advise_sample *sample)
{
    char type[64];

    tool_dataset_type_name(dataset, type, sizeof type);
    printf("  %s, ", type);
    tool_dims_print(dataset->rank, dataset->dims);
    printf(", values %.4g to %.4g\n  measured on %d of ", sample->min,
           sample->max, sample->nboxes);
    tool_dims_print(dataset->rank, sample->grid.step);
    printf(", %.3g %% of the values\n",
           100 * (double)sample->nvalues / (double)dataset->nvalues);
    if (sample->has_unwritten)
        printf("  only stored values; the others are the fill value\n");
    if (sample->nleft_out > 0)
        printf("  %" PRIu64 " values are an undeclared fill value\n",
               sample->nleft_out);
}

static void
text_add(void *report, const char *path, const struct tool_dataset *dataset,
         const struct advise_sample *sample,
         const struct advise_choice *choices, const char *picture,
         const char *reason)
{
    struct text *text = report;

    (void)picture;
    printf("\n%s", tool_shown(path));
    if (sample != NULL && sample->component[0] != '\0')
        printf(", %s", tool_shown(sample->component));
    printf("\n");
    if (choices == NULL || sample == NULL) {
        printf("  %s\n", tool_shown(reason));
        return;
    }
    print_sample(dataset, sample);
    const bool pointwise = choices->pointwise > 0;
    if (text != NULL)
        text->pointwise = pointwise;
    if (sample->note[0] != '\0')
        printf("  %s\n", sample->note);
    if (sample->params.floor > 0)
        printf("  bounds are at least the floor %g\n", sample->params.floor);
    printf("  %5s %10s  %-8s %8s %8s %11s %11s\n", pointwise ? "pwr" : "rel",
           pointwise ? "" : "abs", "pipeline", "ratio", "PSNR dB", "write MB/s",
           "read MB/s");
    for (int i = 0; i < ADVISE_NCHOICES; i++) {
        const struct advise_choice *choice = &choices[i];
        bool first = i % ADVISE_NPIPELINES == 0;
        if (first && pointwise)
            printf("  %5.0e %10s", choice->pointwise, "");
        else if (first)
            printf("  %5.0e %10.3g", choice->relative, choice->bound);
        else
            printf("  %16s", "");
        printf("  %-8s %8.2f %8.2f %11.0f %11.0f\n",
               terp_pipeline_name(choice->pipeline), choice->ratio,
               choice->psnr, choice->write_speed, choice->read_speed);
    }
}

static void
text_end(void *report, int nthreads)
{
    struct text *text = report;
    const char *bound = text != NULL && text->pointwise ? "pwr" : "rel";

    printf("\nSpeeds are wall-clock speeds of %d thread%s, without reading and "
           "writing the file. To compress with your choice, such as %s 1e-3:\n"
           "  terp repack IN OUT --%s 1e-3 --pipeline ratio\n",
           nthreads, nthreads == 1 ? "" : "s", bound, bound);
    free(text);
}

const struct advise_report advise_report_text = {text_begin, text_add,
                                                 text_end};

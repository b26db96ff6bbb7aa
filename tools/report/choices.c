/* terp report: what terp would reach with several bounds, as terp advise
 * measures it. */
#include <math.h>

#include "codec/api/processor.h"
#include "tools/advise/advise.h"
#include "tools/common/chunk_shape.h"
#include "tools/repack/limits.h"
#include "tools/report/report.h"

static void
put_choices(struct html *html, const struct advise_sample *sample,
            const struct advise_choice *choices, const char *units)
{
    html_put(html, "<table class=\"choices\"><caption>What terp would reach "
                   "with a bound, measured on ");
    html_count(html, sample->nvalues);
    html_put(html, " values</caption><thead><tr><th scope=\"col\">Bound, of "
                   "the range</th><th scope=\"col\">Bound");
    report_put_units(html, units);
    html_put(html, "</th><th scope=\"col\">Ratio</th><th scope=\"col\">PSNR, "
                   "dB</th></tr></thead><tbody>");
    for (int i = 0; i < ADVISE_NCHOICES; i += ADVISE_NPIPELINES) {
        html_put(html, "<tr><td>");
        html_number(html, choices[i].relative, 2);
        html_put(html, "</td><td>");
        html_number(html, choices[i].bound, 3);
        html_put(html, "</td><td>");
        html_fixed(html, "choice_ratio", choices[i].ratio, 2);
        html_put(html, "</td><td>");
        html_fixed(html, "choice_psnr", choices[i].psnr, 2);
        html_put(html, "</td></tr>");
    }
    html_put(html, "</tbody></table>\n");
}

void
report_choices(struct html *html, const struct tool_dataset *dataset,
               const char *units)
{
    const struct repack_limits limits = REPACK_LIMITS_DEFAULT;
    struct advise_choice choices[ADVISE_NCHOICES];
    struct advise_sample sample;

    if (tool_type(dataset->type) == TERP_BYTES || dataset->rank == 0 ||
        dataset->nvalues < TOOL_MIN_NVALUES)
        return;
    advise_sample_read(dataset, &sample);
    sample.params.bound_mode = TERP_BOUND_ABSOLUTE;
    sample.params.bound = 1e-2;
    repack_limits_set(&limits, dataset, &sample.params);
    if (sample.reason[0] == '\0' &&
        advise_measure(&sample, false, terp_processor_count(), choices))
        put_choices(html, &sample, choices, units);
    advise_sample_free(&sample);
}

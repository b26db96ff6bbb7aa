/* terp compare: prints a table with a line for each dataset. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tools/compare/compare.h"

static void *
text_begin(const char *path_a, const char *path_b)
{
    (void)path_a;
    (void)path_b;
    printf("%-10s %11s %11s %8s %8s %9s  %s\n", "verdict", "error/bound",
           "max error", "PSNR dB", "ratio", "specials", "dataset");
    return NULL;
}

static void
print_verdict(enum compare_verdict verdict)
{
    const char *text =
        verdict == COMPARE_SKIPPED ? "-" : compare_verdict_text(verdict);
    int width = 0;

    for (; text[width] != '\0'; width++)
        putchar(verdict >= COMPARE_EXCEEDED ? toupper(text[width])
                                            : text[width]);
    printf("%*s", 10 - width, "");
}

static void
print_number(const char *format, int width, double value)
{
    char text[32];
    snprintf(text, sizeof text, format, value);
    printf(" %*s", width, isnan(value) ? "-" : text);
}

static void
text_add(void *report, const struct compare_result *result)
{
    (void)report;
    print_verdict(result->verdict);
    print_number("%.6f", 11, result->error_of_bound);
    print_number("%.4g", 11, result->max_error);
    print_number("%.2f", 8, result->psnr);
    print_number("%.2f", 8, tool_ratio(result->nbytes, result->stored_nbytes));
    print_number("%.0f", 9,
                 result->compared ? (double)result->nspecials : (double)NAN);
    printf("  %s", result->path);
    if (result->reason[0] != '\0')
        printf(": %s", result->reason);
    if (result->nleft_out > 0)
        printf("%s %" PRIu64 " values left out of PSNR",
               result->reason[0] != '\0' ? "," : ":", result->nleft_out);
    printf("\n");
}

const struct compare_report compare_report_text = {.begin = text_begin,
                                                   .add = text_add};

/* terp verify: prints a line for each damaged chunk, then a line for the
 * dataset. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/common/text.h"
#include "tools/verify/verify.h"

static void
text_file(void *report, const char *path, bool opened)
{
    (void)report;
    if (opened)
        printf("%s\n", tool_shown(path));
}

static void
text_dataset(void *report, const char *path, const char *damage)
{
    (void)report;
    if (damage != NULL)
        printf("%s: DAMAGED: %s\n", tool_shown(path), tool_shown(damage));
}

static void
text_unreadable(void *report, const char *path, const char *reason)
{
    (void)report;
    printf("%s: UNREADABLE: %s\n", tool_shown(path), tool_shown(reason));
}

static void
text_damage(void *report, const char *path, const struct tool_grid *box,
            const char *reason)
{
    char values[TOOL_MAX_SELECTION_NBYTES];

    (void)report;
    tool_selection_text(box, values);
    printf("%s[%s]: DAMAGED: %s\n", tool_shown(path), values,
           tool_shown(reason));
}

static void
text_sums(void *report, const char *path, const struct verify_sums *sums)
{
    const char *separator = "";

    (void)report;
    printf("%s: ", tool_shown(path));
    if (sums->nchunks == 0)
        printf("no chunks");
    for (int i = 0; i < TOOL_CHECK_NKINDS; i++)
        if (sums->nof_kind[i] > 0) {
            printf("%s%" PRIu64 " %s", separator, sums->nof_kind[i],
                   verify_kind_names[i]);
            separator = ", ";
        }
    printf("\n");
}

static void
text_damaged_file(void *report, const char *damage)
{
    (void)report;
    printf("DAMAGED: %s\n", damage);
}

const struct verify_report verify_report_text = {.file = text_file,
                                                 .dataset = text_dataset,
                                                 .unreadable = text_unreadable,
                                                 .damage = text_damage,
                                                 .sums = text_sums,
                                                 .damaged_file =
                                                     text_damaged_file};

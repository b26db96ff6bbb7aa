/* Draws the progress bar, and prints the last line. */
#define _POSIX_C_SOURCE 200809L /* isatty, clock_gettime */
#include "tools/common/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "codec/format/base.h"

enum {
    BAR_WIDTH = 30
};
/* Shortest time between two drawings, in seconds. */
#define REDRAW_S 0.1

double
tool_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The number of decimals that shows three digits. */
static int
ndigits(double number)
{
    return number < 10 ? 2 : number < 100 ? 1 : 0;
}

void
tool_nbytes_text(double nbytes, char text[16])
{
    static const char units[] = {'k', 'M', 'G', 'T', 'P'};
    size_t unit = 0;

    nbytes /= 1000;
    for (; nbytes >= 1000 && unit + 1 < sizeof units; unit++)
        nbytes /= 1000;
    snprintf(text, 16, "%.*f %cB", ndigits(nbytes), nbytes, units[unit]);
}

static void
draw(struct tool_progress *progress, double s)
{
    char bar[BAR_WIDTH + 1], done[16], total[16], speed[16];
    double fraction =
        progress->total_nbytes == 0
            ? 1
            : (double)progress->done_nbytes / (double)progress->total_nbytes;
    double left_s = fraction > 0 ? s * (1 - fraction) / fraction : 0;
    int nfilled = (int)(fraction * (double)BAR_WIDTH);

    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < nfilled ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    tool_nbytes_text((double)progress->done_nbytes, done);
    tool_nbytes_text((double)progress->total_nbytes, total);
    tool_nbytes_text((double)progress->done_nbytes / s, speed);
    int width = fprintf(stderr, "\r[%s] %3.0f %%  %s of %s  %s/s  %.0f s left",
                        bar, 100 * fraction, done, total, speed, left_s);
    /* Blanks erase the rest of a longer line. */
    for (int i = width; i < progress->width; i++)
        fputc(' ', stderr);
    progress->width = width;
    fflush(stderr);
}

void
tool_progress_start(struct tool_progress *progress, uint64_t total_nbytes)
{
    memset(progress, 0, sizeof *progress);
    progress->shown = isatty(STDERR_FILENO) == 1;
    progress->total_nbytes = total_nbytes;
    progress->start_s = progress->drawn_s = tool_seconds();
}

void
tool_progress_add(struct tool_progress *progress, uint64_t nbytes)
{
    double now = tool_seconds();

    progress->done_nbytes =
        min_u64(progress->done_nbytes + nbytes, progress->total_nbytes);
    if (progress->nhundredths != NULL)
        atomic_store(progress->nhundredths,
                     (unsigned)(100.0 * (double)progress->done_nbytes /
                                (double)progress->total_nbytes));
    if (!progress->shown || now - progress->drawn_s < REDRAW_S)
        return;
    progress->drawn_s = now;
    draw(progress, now - progress->start_s);
}

void
tool_progress_end(struct tool_progress *progress)
{
    if (progress->width > 0)
        fprintf(stderr, "\r%*s\r", progress->width, "");
    progress->width = 0;
}

void
tool_progress_sum(double start_s, const char *in, uint64_t in_nbytes,
                  const char *out, uint64_t out_nbytes)
{
    char before[16], after[16];
    double ratio = (double)in_nbytes / (double)out_nbytes;

    tool_nbytes_text((double)in_nbytes, before);
    tool_nbytes_text((double)out_nbytes, after);
    fprintf(stderr, "%s %s -> %s %s, ratio %.*f, %.1f s\n", in, before, out,
            after, ndigits(ratio), ratio, tool_seconds() - start_s);
}

/* Looks for damage in the chunks of datasets: one thread reads, others decode.
 * An undamaged chunk has a correct checksum, and its stream decodes to the
 * number of bytes that a chunk has. */
#pragma once

#include "tools/common/h5file.h"

enum tool_check_kind {
    TOOL_CHECK_WHOLE,
    TOOL_CHECK_DAMAGED,
    TOOL_CHECK_ABSENT,    /* never written */
    TOOL_CHECK_UNCHECKED, /* has no checksum */
    TOOL_CHECK_UNTRIED,   /* memory was too short */
    TOOL_CHECK_NKINDS
};

/* What to do with chunks that have neither a terp stream nor fletcher32. */
enum tool_check_rest {
    TOOL_CHECK_SKIPS_REST, /* do not read them; they are unchecked */
    TOOL_CHECK_READS_REST  /* read them; unreadable ones are damaged */
};

struct tool_checker;

/* With 0 threads the calling thread decodes. NULL without memory. */
struct tool_checker *
tool_checker_start(int nthreads, enum tool_check_rest rest);

/* Receives the chunks of a dataset in the order of the grid: the values in the
 * chunk, and the reason if the chunk is damaged or was not checked. */
typedef void
tool_check_report(void *context, const struct tool_grid *box,
                  enum tool_check_kind kind, const char *reason);

/* Checks all chunks of a dataset and reports them. Chunks that are known to be
 * unwritten without looking at them are only counted in the result. Does
 * nothing for a dataset without chunks. */
uint64_t
tool_check_chunks(struct tool_checker *checker,
                  const struct tool_dataset *dataset, tool_check_report *report,
                  void *context);

/* Does nothing for NULL. */
void
tool_checker_end(struct tool_checker *checker);

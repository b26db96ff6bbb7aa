/* Looks for damage in the chunks of datasets: one thread reads them, others
 * decode. A chunk is whole when its checksum is right and its stream decodes to
 * as many bytes as a chunk has. */
#pragma once

#include "tools/common/h5file.h"

enum tool_check_kind {
    TOOL_CHECK_WHOLE,
    TOOL_CHECK_DAMAGED,
    TOOL_CHECK_ABSENT,    /* never written */
    TOOL_CHECK_UNCHECKED, /* nothing tells whether it is whole */
    TOOL_CHECK_UNTRIED,   /* for want of memory */
    TOOL_CHECK_NKINDS
};

/* Of chunks that terp has not compressed, and which have no fletcher32. */
enum tool_check_rest {
    TOOL_CHECK_PASSES_REST, /* they are not read, and unchecked */
    TOOL_CHECK_READS_REST   /* damaged are those that HDF5 cannot read */
};

struct tool_checker;

/* Without threads of its own (0) the caller's decodes. NULL for want of
 * memory. */
struct tool_checker *
tool_checker_start(int nthreads, enum tool_check_rest rest);

/* Gets chunks of a dataset in the order of the grid: the values in it, and
 * why it is damaged or was not tried, where that is so. */
typedef void
tool_check_tell(void *context, const struct tool_grid *box,
                enum tool_check_kind kind, const char *reason);

/* Tells of every chunk but those that are known not to be stored before one is
 * looked at; returns how many these are. A dataset that is not chunked has
 * nothing to tell of. */
uint64_t
tool_check_chunks(struct tool_checker *checker,
                  const struct tool_dataset *dataset, tool_check_tell *tell,
                  void *context);

/* NULL: nothing. */
void
tool_checker_end(struct tool_checker *checker);

/* Golden streams: small files, kept for ever, that every later version must
 * decode to the same bytes. Each release has a folder whose `list.txt` has a
 * line for each stream:
 *
 *   <file name> <bytes of the stream> <bytes decoded> <XXH3-64 decoded>
 *
 * Files of a released version are never changed or removed.
 * h5tests/filter/golden_files.c wrote the folder's `filter.h5`. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "h5tests/support/cases.h"

#define TERP_GOLDEN_LIST "list.txt"
#define TERP_GOLDEN_NAME_CAP 128

struct terp_golden {
    char name[TERP_GOLDEN_NAME_CAP];
    struct terp_stream stream;
    uint64_t nbytes, digest; /* of the decoded values */
};

#define TERP_MAX_NGOLDEN 4096

/* Appends a folder's streams to the array. Fails the test if the folder does
 * not match its list. */
void
terp_golden_read(const char *folder, struct terp_golden golden[], size_t *n);

void
terp_golden_forget(struct terp_golden golden[], size_t *n);

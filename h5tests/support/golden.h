/* Golden streams: small files, kept for ever, that every later version must
 * decode to the same bytes. Each release has a folder, where `list.txt` has a
 * line a stream:
 *
 *   <file name> <bytes of the stream> <bytes decoded> <XXH3-64 decoded>
 *
 * Files of a released version are never changed or removed. `filter.h5` there
 * is of h5tests/filter/golden_files.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "h5tests/support/cases.h"

#define TERP_GOLDEN_LIST "list.txt"
#define TERP_GOLDEN_NAME_CAP 128

struct terp_golden {
    char name[TERP_GOLDEN_NAME_CAP];
    struct terp_stream stream;
    uint64_t nbytes, digest; /* decoded */
};

#define TERP_MAX_NGOLDEN 4096

/* Adds a folder's streams to those that there are; fails the test where it does
 * not have what its list says. */
void
terp_golden_read(const char *folder, struct terp_golden golden[], size_t *n);

void
terp_golden_forget(struct terp_golden golden[], size_t *n);

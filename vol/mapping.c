/* Sets glibc's limit for buffers that it maps. Other C libraries have none. */
#include "vol/mapping.h"

#include <stdbool.h>

#ifdef __GLIBC__
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Buffers that are smaller, or few, are cleared as fast as they are mapped. */
#define MIN_NBYTES (UINT64_C(128) << 10)
#define MIN_ALL_NBYTES (UINT64_C(4) << 20)

/* glibc's DEFAULT_MMAP_THRESHOLD_MAX. glibc keeps twice its limit at the end of
 * the heap. */
#define LARGEST (4 * 1024 * 1024 * (int)sizeof(long))

/* The setting belongs to the process, and so to all its threads. */
static _Atomic bool is_set_here;

static bool
user_has_set_it(void)
{
    const char *tunables = getenv("GLIBC_TUNABLES");

    return getenv("MALLOC_MMAP_THRESHOLD_") != NULL ||
           (tunables != NULL && strstr(tunables, "mmap_threshold") != NULL);
}

void
vol_mapping_begin(uint64_t n, uint64_t nbytes)
{
    if (nbytes >= MIN_NBYTES && nbytes <= (uint64_t)LARGEST &&
        n >= MIN_ALL_NBYTES / nbytes && !user_has_set_it())
        is_set_here = mallopt(M_MMAP_THRESHOLD, (int)nbytes) == 1;
}

void
vol_mapping_end(void)
{
    if (!is_set_here)
        return;
    (void)mallopt(M_MMAP_THRESHOLD, LARGEST);
    (void)mallopt(M_TRIM_THRESHOLD, 2 * LARGEST);
    is_set_here = false;
}
#else
void
vol_mapping_begin(uint64_t n, uint64_t nbytes)
{
    (void)n, (void)nbytes;
}

void
vol_mapping_end(void)
{
}
#endif

/* Limits for untrusted files, from file size and memory of the machine. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#define _DARWIN_C_SOURCE        /* _SC_PHYS_PAGES */
#include "tools/common/limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef _WIN32
#include <windows.h>
#endif

#include "codec/api/budget.h"
#include "codec/format/base.h"
#include "tools/common/progress.h"
#include "tools/common/stored.h"

/* Limit of decoded bytes, as a multiple of the file's size; real files stay
 * below. A chunk of 64^3 equal values takes about 150 bytes for 1 or 2 MiB.
 * Larger constant chunks count only a CONSTANT_SHARE-th of their bytes, in
 * proportion to the time that they take. */
#define TIMES_FILE ((uint64_t)100000)
#define CONSTANT_SHARE 16
/* Every file may decode to this much, however small it is. */
#define BASE_NBYTES ((uint64_t)256 << 20)
/* The cost of a chunk beside its bytes. */
#define CHUNK_NBYTES 64

static const char VARIABLE[] = "TERP_MAX_MEMORY";

static struct {
    bool is_default; /* this program sets TERP_MAX_MEMORY */
    bool is_known;   /* is_default is decided */
    bool is_trusted;
    uint64_t file_nbytes, limit_nbytes, taken_nbytes;
} limit;

/* ---- memory of the machine ---- */

#ifndef _WIN32
/* The number in a file of the system; UINT64_MAX if there is none, as in "max".
 */
static uint64_t
read_number(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint64_t number = UINT64_MAX;

    if (file != NULL && fscanf(file, "%" SCNu64, &number) != 1)
        number = UINT64_MAX;
    if (file != NULL)
        fclose(file);
    return number;
}
#endif

/* The memory of the machine, or of the container. */
static uint64_t
memory_nbytes(void)
{
#ifdef _WIN32
    MEMORYSTATUSEX status = {.dwLength = sizeof status};

    return GlobalMemoryStatusEx(&status) ? status.ullTotalPhys : UINT64_MAX;
#else
    const long npages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t nbytes =
        npages > 0 && page > 0 ? (uint64_t)npages * (uint64_t)page : UINT64_MAX;

    nbytes = min_u64(nbytes, read_number("/sys/fs/cgroup/memory.max"));
    return min_u64(nbytes,
                   read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
#endif
}

/* ---- size of files ---- */

static uint64_t
add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t
multiply(uint64_t a, uint64_t b)
{
    return b > 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

uint64_t
tool_limit_file_nbytes(hid_t file)
{
    hsize_t nbytes = 0;

    return file >= 0 && H5Fget_filesize(file, &nbytes) >= 0 ? nbytes : 0;
}

static void
set_memory(uint64_t nbytes)
{
    const char *text = getenv(VARIABLE);
    char number[32];

    if (!limit.is_known)
        limit.is_default = text == NULL || *text == '\0';
    limit.is_known = true;
    if (!limit.is_default)
        return;
    snprintf(number, sizeof number, "%" PRIu64, nbytes);
    if (limit.is_trusted)
        unsetenv(VARIABLE);
    else
        setenv(VARIABLE, number, 1);
}

void
tool_limit_begin(uint64_t nbytes, bool is_trusted)
{
    limit.is_trusted = is_trusted;
    limit.taken_nbytes = 0;
    limit.file_nbytes = nbytes;
    limit.limit_nbytes = add(BASE_NBYTES, multiply(TIMES_FILE, nbytes));
    set_memory(min_u64(limit.limit_nbytes, memory_nbytes() / 2));
}

const char *
tool_limit_hint(const char *reason)
{
    return limit.is_default && !limit.is_trusted &&
                   strstr(reason, VARIABLE) != NULL &&
                   strstr(reason, "--trusted") == NULL
               ? " (its default depends on the machine's memory and the file's "
                 "size; use --trusted for a file that you trust)"
               : "";
}

/* ---- cost of datasets ---- */

/* The size of a file that a dataset names; a relative path may start from the
 * directory of the dataset's file. */
static uint64_t
other_nbytes(const struct tool_dataset *dataset, const char *name)
{
    char path[4096];
    struct stat found;

    if (stat(name, &found) == 0)
        return (uint64_t)found.st_size;
    const ssize_t n = H5Fget_name(dataset->id, path, sizeof path);
    if (n <= 0 || (size_t)n + strlen(name) + 2 > sizeof path)
        return 0;
    char *slash = strrchr(path, '/');
    strcpy(slash == NULL ? path : slash + 1, name);
    return stat(path, &found) == 0 ? (uint64_t)found.st_size : 0;
}

/* The size of other files that hold values of the dataset; UINT64_MAX where
 * their names are unknown. */
static uint64_t
elsewhere_nbytes(const struct tool_dataset *dataset)
{
    const int nfiles = H5Pget_external_count(dataset->dcpl);
    size_t nsources = 0;
    uint64_t nbytes = 0;
    char name[4096];

    for (int i = 0; i < nfiles; i++)
        if (H5Pget_external(dataset->dcpl, (unsigned)i, sizeof name - 1, name,
                            NULL, NULL) >= 0)
            nbytes = add(nbytes, other_nbytes(dataset, name));
    if (H5Pget_layout(dataset->dcpl) != H5D_VIRTUAL ||
        H5Pget_virtual_count(dataset->dcpl, &nsources) < 0)
        return nbytes;
    for (size_t i = 0; i < nsources; i++) {
        if (H5Pget_virtual_filename(dataset->dcpl, i, name, sizeof name) < 0 ||
            strchr(name, '%') != NULL)
            return UINT64_MAX;
        nbytes = add(nbytes, other_nbytes(dataset, name));
    }
    return nbytes;
}

/* The cost of looking for chunks one by one, where HDF5 cannot list them. */
static uint64_t
cost_of_list(const struct tool_dataset *dataset, hsize_t *nchunks_ret)
{
    const struct tool_grid grid = tool_grid_of(dataset, dataset->chunk_dims);

    *nchunks_ret = 0;
    if (!dataset->chunked ||
        H5Dget_num_chunks(dataset->id, dataset->space, nchunks_ret) >= 0)
        return 0;
    *nchunks_ret = tool_grid_nboxes(&grid);
    return multiply(*nchunks_ret, CHUNK_NBYTES);
}

/* An upper limit of the cost of reading all values, minus the share of other
 * files. */
static uint64_t
cost_of_all(const struct tool_dataset *dataset, hsize_t nchunks)
{
    const uint64_t nbytes = multiply(dataset->nvalues, dataset->value_nbytes);

    if (dataset->chunked)
        return multiply(nchunks, add(dataset->chunk_nbytes, CHUNK_NBYTES));
    if (H5Pget_layout(dataset->dcpl) == H5D_VIRTUAL ||
        H5Pget_external_count(dataset->dcpl) > 0) {
        const uint64_t others = multiply(TIMES_FILE, elsewhere_nbytes(dataset));
        return nbytes > others ? nbytes - others : 0;
    }
    return H5Dget_storage_size(dataset->id) > 0 ? nbytes : 0;
}

static uint64_t
cost_of_chunk(const struct tool_dataset *dataset,
              const struct tool_chunk *chunk)
{
    struct terp_info info = {.size = sizeof info};
    const bool is_constant =
        chunk->kind == TOOL_CHUNK_STREAM &&
        terp_inspect(chunk->bytes, chunk->nbytes, &info) == TERP_OK &&
        strcmp(info.pipeline, "constant") == 0;

    if (chunk->kind == TOOL_CHUNK_ABSENT)
        return CHUNK_NBYTES;
    return add(dataset->chunk_nbytes / (is_constant ? CONSTANT_SHARE : 1),
               add(chunk->nbytes, CHUNK_NBYTES));
}

/* The cost of decoding the chunks, as their frames say. Stops above `left`. */
static uint64_t
cost_of_chunks(const struct tool_dataset *dataset, uint64_t left)
{
    struct tool_grid grid = tool_grid_of(dataset, dataset->chunk_dims);
    struct tool_stored stored = tool_stored_find(dataset);
    struct tool_chunk chunk = {0};
    uint64_t nbytes = 0;

    while (nbytes <= left && tool_stored_next(&stored, &grid)) {
        tool_chunk_read(dataset, &grid, &chunk);
        nbytes = add(nbytes, cost_of_chunk(dataset, &chunk));
    }
    tool_chunk_free(&chunk);
    tool_stored_free(&stored);
    return nbytes;
}

static bool
fits_memory(const struct tool_dataset *dataset, char *reason_ret,
            size_t reason_cap)
{
    const char *reason = terp_status_text(TERP_ERR_LIMIT);
    char size[16];

    if (!dataset->chunked ||
        terp_budget_check(dataset->chunk_nbytes) == TERP_OK)
        return true;
    tool_nbytes_text((double)dataset->chunk_nbytes, size);
    snprintf(reason_ret, reason_cap, "a chunk has %s: %s%s", size, reason,
             tool_limit_hint(reason));
    return false;
}

static bool
fits_work(uint64_t nbytes, char *reason_ret, size_t reason_cap)
{
    char size[16];

    if (nbytes <= limit.limit_nbytes - limit.taken_nbytes)
        return true;
    tool_nbytes_text((double)limit.limit_nbytes, size);
    snprintf(
        reason_ret, reason_cap,
        "with it the file's datasets decode to more than %s, the limit for "
        "a file of %" PRIu64 " bytes; use --trusted for a file that you "
        "trust",
        size, limit.file_nbytes);
    return false;
}

bool
tool_limit_take(const struct tool_dataset *dataset, enum tool_limit_use use,
                char *reason_ret, size_t reason_cap)
{
    const uint64_t left = limit.limit_nbytes - limit.taken_nbytes;
    hsize_t nchunks;

    if (use != TOOL_LIMIT_LIST && !fits_memory(dataset, reason_ret, reason_cap))
        return false;
    if (limit.is_trusted || !limit.is_known)
        return true;
    uint64_t nbytes = cost_of_list(dataset, &nchunks);
    if (use == TOOL_LIMIT_ALL && nbytes <= left) {
        nbytes = add(nbytes, cost_of_all(dataset, nchunks));
        if (nbytes > left && dataset->chunked)
            nbytes = cost_of_chunks(dataset, left);
    }
    if (!fits_work(nbytes, reason_ret, reason_cap))
        return false;
    limit.taken_nbytes += nbytes;
    return true;
}

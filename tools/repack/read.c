/* Reads the values of parts: by HDF5, or, where they stand in the file as they
 * are in memory, by all threads at once. */
#define _POSIX_C_SOURCE 200809L /* pread */
#include <errno.h>
#include <unistd.h>

#include "codec/format/base.h"
#include "tools/repack/job.h"

/* HDF5's file, where that is one file on its own. */
static int
find_file(hid_t in)
{
    hid_t fapl = H5Fget_access_plist(in);
    void *file = NULL;
    bool found = fapl >= 0 && H5Pget_driver(fapl) == H5FD_SEC2 &&
                 H5Fget_vfd_handle(in, fapl, &file) >= 0 && file != NULL;

    if (fapl >= 0)
        H5Pclose(fapl);
    return found ? *(const int *)file : -1;
}

void
repack_read_prepare(struct repack_job *job)
{
    const struct tool_grid *grid = &job->split.grid;
    uint64_t nbytes = job->value_nbytes;

    for (int d = 0; d < grid->rank; d++)
        nbytes *= grid->dims[d];
    job->file = -1;
    if (H5Pget_layout(job->dcpl) != H5D_CONTIGUOUS ||
        H5Tequal(job->type, job->native) <= 0 ||
        H5Dget_storage_size(job->in) != nbytes)
        return;
    job->file_offset = H5Dget_offset(job->in);
    if (job->file_offset != HADDR_UNDEF)
        job->file = find_file(job->repack->in);
}

bool
repack_select(hid_t dataset, const struct tool_grid *grid, hid_t *in_file_ret,
              hid_t *in_memory_ret)
{
    hid_t in_file = H5Dget_space(dataset);

    *in_file_ret = in_file;
    if (grid->rank == 0) {
        *in_memory_ret = H5Scopy(in_file);
        return *in_memory_ret >= 0;
    }
    *in_memory_ret = H5Screate_simple(grid->rank, grid->count, NULL);
    return in_file >= 0 && *in_memory_ret >= 0 &&
           H5Sselect_hyperslab(in_file, H5S_SELECT_SET, grid->at, NULL,
                               grid->count, NULL) >= 0;
}

bool
repack_read(const struct repack_job *job, struct repack_part *part, hid_t type)
{
    hid_t in_file, in_memory;
    bool ok = repack_select(job->in, &part->box, &in_file, &in_memory) &&
              H5Dread(job->in, type, in_memory, in_file, H5P_DEFAULT,
                      part->values) >= 0;

    if (in_file >= 0)
        H5Sclose(in_file);
    if (in_memory >= 0)
        H5Sclose(in_memory);
    return ok || repack_job_fails(job);
}

static bool
read_run(int file, uint64_t offset, uint64_t nbytes, uint8_t *to)
{
    while (nbytes > 0) {
        ssize_t n = pread(file, to, nbytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) /* 0: the file has become shorter */
            return false;
        to += n;
        offset += (uint64_t)n;
        nbytes -= (uint64_t)n;
    }
    return true;
}

bool
repack_read_direct(const struct repack_job *job, struct repack_part *part)
{
    const struct tool_grid *box = &part->box;
    uint64_t run_nvalues = 1, at[H5S_MAX_RANK] = {0};
    uint8_t *to = part->values;
    int nouter = box->rank;

    /* Values that follow each other in the file are a run. */
    while (nouter > 0) {
        nouter--;
        run_nvalues *= box->count[nouter];
        if (box->count[nouter] < box->dims[nouter])
            break;
    }
    const uint64_t run_nbytes = run_nvalues * job->value_nbytes;
    for (uint64_t run = 0; run < part->nvalues / run_nvalues; run++) {
        uint64_t left = run, first = 0, stride = 1;
        for (int d = nouter - 1; d >= 0; d--) {
            at[d] = left % box->count[d];
            left /= box->count[d];
        }
        for (int d = box->rank - 1; d >= 0; d--) {
            first += (box->at[d] + at[d]) * stride;
            stride *= box->dims[d];
        }
        if (!read_run(job->file, job->file_offset + first * job->value_nbytes,
                      run_nbytes, to))
            return false;
        to += run_nbytes;
    }
    return true;
}

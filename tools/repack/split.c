/* terp repack: chooses the size of parts, and how many threads work on them. */
#include "tools/repack/split.h"

#include <string.h>

#include "codec/format/base.h"

/* Small parts keep all threads busy until the end. Large parts are long runs of
 * the file, such as rows of units, which are read faster. These limits weigh
 * the two. */
#define PARTS_PER_THREAD 8
#define MAX_PART_NBYTES ((uint64_t)16 << 20)
#define MAX_ROW_NBYTES ((uint64_t)64 << 20)
/* The parts in memory hold at most so many bytes. Each part has its values up
 * to three times: as read, cut into chunks, and as streams. */
#define PARTS_NBYTES ((uint64_t)768 << 20)
#define COPIES_PER_PART 3
/* The device does so many parts while a thread does one. */
#define DEVICE_NPARTS 16

void
repack_grid(int rank, const hsize_t *dims, const hsize_t *unit_dims,
            uint64_t value_nbytes, uint64_t cap_nbytes,
            struct tool_grid *grid_ret)
{
    uint64_t nbytes = value_nbytes;

    memset(grid_ret, 0, sizeof *grid_ret);
    grid_ret->rank = rank;
    for (int i = 0; i < rank; i++) {
        grid_ret->dims[i] = dims[i];
        grid_ret->step[i] = unit_dims[i];
        nbytes *= unit_dims[i];
    }
    /* A block takes as many units as fit of a row, then as many whole rows of a
     * plane, and so on. */
    for (int i = rank - 1; i >= 0; i--) {
        uint64_t nunits = div_up(dims[i], unit_dims[i]);
        uint64_t nfit = nbytes > 0 ? cap_nbytes / nbytes : 0;
        uint64_t n = min_u64(nunits, nfit);
        if (n <= 1)
            n = 1;
        grid_ret->step[i] *= n;
        nbytes *= n;
        if (n < nunits)
            break;
    }
}

static uint64_t
count_boxes(const struct tool_grid *grid)
{
    uint64_t nboxes = 1;

    for (int d = 0; d < grid->rank; d++)
        nboxes *= div_up(grid->dims[d], grid->step[d]);
    return nboxes;
}

void
repack_split(const struct repack_request *request, int rank,
             const hsize_t *dims, const hsize_t *unit_dims,
             uint64_t value_nbytes, bool with_device,
             struct repack_split *split_ret)
{
    const uint64_t nthreads = (uint64_t)request->nthreads;
    uint64_t nbytes = value_nbytes, row_nbytes = value_nbytes, part_nbytes;
    uint64_t nslots = nthreads + 2;

    for (int d = 0; d < rank; d++) {
        nbytes *= dims[d];
        row_nbytes *= d < rank - 1 ? unit_dims[d] : dims[d];
    }
    if (with_device)
        nslots += DEVICE_NPARTS;
    part_nbytes = min_u64(nbytes / (PARTS_PER_THREAD * nthreads),
                          PARTS_NBYTES / (COPIES_PER_PART * nslots));
    part_nbytes = min_u64(part_nbytes, MAX_PART_NBYTES);
    if (part_nbytes < row_nbytes && row_nbytes <= MAX_ROW_NBYTES)
        part_nbytes = row_nbytes;
    repack_grid(rank, dims, unit_dims, value_nbytes, part_nbytes,
                &split_ret->grid);
    split_ret->nparts = count_boxes(&split_ret->grid);
    part_nbytes = tool_grid_cap(&split_ret->grid) * value_nbytes;

    nslots = min_u64(nslots, PARTS_NBYTES / (COPIES_PER_PART * part_nbytes));
    nslots = min_u64(nslots, split_ret->nparts);
    split_ret->nslots = nslots > 0 ? nslots : 1;
    uint64_t nworkers = min_u64(nthreads, split_ret->nslots);
    split_ret->nworkers = (int)nworkers;
    split_ret->nthreads = (int)(nthreads / nworkers);
    split_ret->ndevice_threads = (int)nworkers;
    if (request->engine == TERP_ENGINE_AUTO)
        split_ret->ndevice_threads -= split_ret->nworkers / 4;
}

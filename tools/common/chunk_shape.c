/* Chooses the shape of chunks. */
#include "tools/common/chunk_shape.h"

#include "codec/format/base.h"

/* Smaller chunks compress worse, larger ones make readers
 * of a few values decode more than they want. */
#define CHUNK_NVALUES ((uint64_t)64 * 64 * 64)

/* A frame, and what HDF5's index keeps of a chunk, are about a hundred bytes.
 * Of a chunk of this size that compresses twentyfold they are as much as the
 * rest.
 */
#define TINY_NBYTES 4096

/* What one chunk covers when `side` is the limit of each of `rank` dims. */
static uint64_t
nvalues_within(int rank, const hsize_t *dims, uint64_t side)
{
    uint64_t nvalues = 1;
    for (int i = 0; i < rank; i++)
        nvalues *= min_u64(dims[i], side);
    return nvalues;
}

/* The largest side of a cube that holds CHUNK_NVALUES of the array; dims
 * that are shorter leave more to the others. */
static uint64_t
side_of(int rank, const hsize_t *dims)
{
    uint64_t low = 1, high = CHUNK_NVALUES;

    while (low < high) {
        uint64_t side = low + (high - low + 1) / 2;
        if (nvalues_within(rank, dims, side) <= CHUNK_NVALUES)
            low = side;
        else
            high = side - 1;
    }
    return low;
}

/* Cuts a dim into equal parts of about `side`, so that the last part is padded
 * by less than one value for each part. */
static uint64_t
part_of(uint64_t dim, uint64_t side)
{
    uint64_t nparts = (dim + side / 2) / side;
    return nparts <= 1 ? dim : (dim + nparts - 1) / nparts;
}

void
tool_chunk_shape(int rank, const hsize_t *dims, hsize_t *chunk_dims_ret)
{
    uint64_t left_nvalues = CHUNK_NVALUES;
    int ninner = (int)min_u64((uint64_t)rank, 3);
    hsize_t inner[3];

    /* An unlimited dim is 0 until something is written. It is taken to become
     * long. */
    for (int i = 0; i < ninner; i++) {
        hsize_t dim = dims[rank - ninner + i];
        inner[i] = dim > 0 ? dim : CHUNK_NVALUES;
    }
    uint64_t side = side_of(ninner, inner);
    for (int i = 0; i < ninner; i++) {
        hsize_t part = part_of(inner[i], side);
        chunk_dims_ret[rank - ninner + i] = part;
        left_nvalues /= part;
    }
    /* Where the three innermost dims leave room in a chunk, it also covers
     * several steps of the next slower ones. */
    for (int i = rank - ninner - 1; i >= 0; i--) {
        hsize_t part = dims[i] > 0 ? dims[i] : 1;
        if (part > left_nvalues)
            part = left_nvalues > 1 ? part_of(part, left_nvalues) : 1;
        chunk_dims_ret[i] = part;
        left_nvalues /= part;
    }
}

bool
tool_chunk_is_tiny(const struct tool_dataset *dataset)
{
    hsize_t nstored = 0;

    if (!dataset->chunked || dataset->chunk_nbytes >= TINY_NBYTES)
        return false;
    const struct tool_grid grid = tool_grid_of(dataset, dataset->chunk_dims);
    const uint64_t nchunks = tool_grid_nboxes(&grid);
    return nchunks > 1 &&
           H5Dget_num_chunks(dataset->id, dataset->space, &nstored) >= 0 &&
           nstored >= nchunks / 2;
}

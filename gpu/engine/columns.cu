/* Functions of the engine's table for streams of columns: sampling, which finds
 * the tables that are left to the CPU, and decoding. */
#include "codec/model/columns.h"
#include "gpu/block/swap.cuh"
#include "gpu/engine/places.cuh"
#include "gpu/engine/session.cuh"

#define NTHREADS 256

static uint64_t
nvalues_of(const struct terp_chunk *chunk)
{
    return terp_chunk_nbytes(chunk) / (uint64_t)terp_value_nbytes(chunk->type);
}

/* ---- samples ---- */

/* Samples of chunks in device memory. The samples of a chunk follow those of
 * the chunk before. */
struct row_sampling {
    struct terp_chunk chunk;
    uint64_t nvalues, nkeys;
    const void *const *src;
    uint64_t *keys;
};

/* Each thread samples pairs of rows. Grid: chunks. */
static __global__ void
__launch_bounds__(NTHREADS) sample_rows(const struct row_sampling it)
{
    begin_kernel();
    const uint64_t n = (uint64_t)terp_columns_n(&it.chunk);
    uint64_t *keys = it.keys + blockIdx.x * it.nkeys;

    for (uint64_t p = threadIdx.x; 2 * n * p < it.nkeys; p += NTHREADS)
        terp_columns_sample_pair(&it.chunk, it.src[blockIdx.x], it.nvalues, p,
                                 keys + 2 * n * p);
}

static enum terp_status
sample_on_device(struct terp_session *session, const struct terp_chunk *chunk,
                 uint64_t n, const void *const *src, uint64_t *keys_ret)
{
    struct row_sampling it = {};
    uint64_t at = 0;

    it.chunk = *chunk;
    it.nvalues = nvalues_of(chunk);
    it.nkeys = terp_columns_nkeys(chunk, it.nvalues);
    const uint64_t src_at = place_take(&at, n * sizeof *src);
    const uint64_t keys_at = place_take(&at, n * it.nkeys * sizeof *it.keys);
    const cuda_session_memory memory(session, at);

    if (memory.at == NULL)
        return TERP_ERR_MEMORY;
    it.src = (const void *const *)(memory.at + src_at);
    it.keys = (uint64_t *)(memory.at + keys_at);
    return cuda_session_do(session, "sampling rows", [&](cuda_work &work) {
        work.copy(memory.at + src_at, src, n * sizeof *src);
        work.run(sample_rows, dim3((unsigned)n), NTHREADS, it);
        work.copy(keys_ret, it.keys, n * it.nkeys * sizeof *keys_ret);
    });
}

enum terp_status
cuda_columns_sample(struct terp_session *session,
                    const struct terp_chunk *chunk, uint64_t n,
                    const void *const *src, uint64_t *keys_ret)
{
    const uint64_t nvalues = nvalues_of(chunk);
    const uint64_t nkeys = terp_columns_nkeys(chunk, nvalues);

    if (!cuda_session_is_host(session, src[0]))
        return sample_on_device(session, chunk, n, src, keys_ret);
    for (uint64_t k = 0; k < n; k++)
        terp_columns_sample(chunk, src[k], nvalues, keys_ret + k * nkeys);
    return TERP_OK;
}

/* ---- values ---- */

/* A table, and its columns, one after another. */
struct table {
    const void *columns;
    void *values;
};

/* Grid: x blocks that share a table, y tables. */
template <typename W>
static __global__ void
__launch_bounds__(NTHREADS)
    join_columns(const struct table *tables, uint64_t nvalues,
                 unsigned ncolumns, bool swaps)
{
    begin_kernel();
    const W *columns = (const W *)tables[blockIdx.y].columns;
    W *values = (W *)tables[blockIdx.y].values;
    const uint64_t nrows = nvalues / ncolumns;

    for (uint64_t i = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
         i < nvalues; i += (uint64_t)gridDim.x * NTHREADS) {
        const W word = columns[i % ncolumns * nrows + i / ncolumns];
        values[i] = swaps ? swapped(word) : word;
    }
}

/* Tables in host memory are put together on the device, and copied. */
static enum terp_status
put_together(struct terp_session *session, const struct terp_chunk *chunk,
             uint64_t n, const void *const *columns, void *const *dst)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const uint64_t stride =
        cuda_session_is_host(session, dst[0]) ? place_aligned(nbytes) : 0;
    const cuda_session_list<struct table> list(session, n, n * stride);
    const uint64_t nvalues = nvalues_of(chunk);
    const int value_nbytes = terp_value_nbytes(chunk->type);

    if (!list.is_made())
        return TERP_ERR_MEMORY;
    for (uint64_t k = 0; k < n; k++)
        list.items[k] = {columns[k],
                         stride > 0 ? list.more() + k * stride : dst[k]};
    return cuda_session_do(
        session, "putting columns together", [&](cuda_work &work) {
            list.upload(work);
            work.run(cuda_of_width(value_nbytes, join_columns<uint8_t>,
                                   join_columns<uint16_t>,
                                   join_columns<uint32_t>,
                                   join_columns<uint64_t>),
                     cuda_session_grid(n, nvalues, 4 * NTHREADS), NTHREADS,
                     list.on_device(), nvalues, (unsigned)terp_columns_n(chunk),
                     chunk->big_endian);
            for (uint64_t k = 0; stride > 0 && k < n; k++)
                work.copy(dst[k], list.more() + k * stride, nbytes);
        });
}

enum terp_status
cuda_columns_put_together(struct terp_session *session,
                          const struct terp_chunk *chunk, uint64_t n,
                          const void *const *columns, void *const *dst)
{
    return cuda_session_portions(n, [=](uint64_t first, uint64_t ntables) {
        return put_together(session, chunk, ntables, columns + first,
                            dst + first);
    });
}

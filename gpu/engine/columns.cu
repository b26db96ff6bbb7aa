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

/* Each thread samples pairs of rows. The samples of a chunk follow those of the
 * chunk before. Grid: x = chunks. */
static __global__ void
__launch_bounds__(NTHREADS)
    sample_rows(struct terp_chunk chunk, uint64_t nvalues, uint64_t nkeys,
                const void *const *src, uint64_t *keys)
{
    begin_kernel();
    const uint64_t n = (uint64_t)terp_columns_n(&chunk);

    for (uint64_t p = threadIdx.x; 2 * n * p < nkeys; p += NTHREADS)
        terp_columns_sample_pair(&chunk, src[blockIdx.x], nvalues, p,
                                 keys + blockIdx.x * nkeys + 2 * n * p);
}

enum terp_status
cuda_columns_sample(struct terp_session *session,
                    const struct terp_chunk *chunk, uint64_t n,
                    const void *const *src, uint64_t *keys_ret)
{
    const uint64_t nvalues = nvalues_of(chunk);
    const uint64_t nkeys = terp_columns_nkeys(chunk, nvalues);

    if (!cuda_session_is_host(session, src[0]))
        return cuda_session_sample(
            session, "sampling rows", n, src, nkeys, keys_ret,
            [&](cuda_work &work, const void *const *d_src, uint64_t *keys) {
                work.run(sample_rows, dim3((unsigned)n), NTHREADS, *chunk,
                         nvalues, nkeys, d_src, keys);
            });
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
enum terp_status
cuda_columns_put_together(struct terp_session *session,
                          const struct terp_chunk *chunk, uint64_t n,
                          const void *const *columns, void *const *dst)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const uint64_t nvalues = nvalues_of(chunk);
    const uint64_t stride =
        cuda_session_is_host(session, dst[0]) ? place_aligned(nbytes) : 0;
    const auto kernel = cuda_of_width(
        terp_value_nbytes(chunk->type), join_columns<uint8_t>,
        join_columns<uint16_t>, join_columns<uint32_t>, join_columns<uint64_t>);

    return cuda_session_portions(n, [=](uint64_t first, uint64_t ntables) {
        const cuda_session_list<struct table> list(session, ntables,
                                                   ntables * stride);
        if (!list.is_made())
            return TERP_ERR_MEMORY;
        for (uint64_t k = 0; k < ntables; k++)
            list.items[k] = {columns[first + k], stride > 0
                                                     ? list.more() + k * stride
                                                     : dst[first + k]};
        return cuda_session_do(
            session, "putting columns together", [&](cuda_work &work) {
                list.upload(work);
                work.run(kernel,
                         cuda_session_grid(ntables, nvalues, 4 * NTHREADS),
                         NTHREADS, list.on_device(), nvalues,
                         (unsigned)terp_columns_n(chunk), chunk->big_endian);
                for (uint64_t k = 0; stride > 0 && k < ntables; k++)
                    work.copy(dst[first + k], list.more() + k * stride, nbytes);
            });
    });
}

/* Functions of the engine's table for streams of columns: sampling, which finds
 * the tables that are left to the CPU, and decoding. */
#include <new>

#include "codec/model/columns.h"
#include "gpu/block/swap.cuh"
#include "gpu/engine/places.cuh"
#include "gpu/engine/session.cuh"

#define NTHREADS 256

/* Blocks of all chunks: more than a large device runs at once. */
#define MAX_NBLOCKS 2048

/* Most chunks of a launch: blockIdx.y. */
#define MAX_NCHUNKS 16384

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
    return cuda_session_do(session, "sampling rows", [&](cudaStream_t stream) {
        cudaError_t error =
            cudaMemcpyAsync(memory.at + src_at, src, n * sizeof *src,
                            cudaMemcpyHostToDevice, stream);
        if (error == cudaSuccess)
            error = launch(sample_rows, dim3((unsigned)n), dim3(NTHREADS), 0,
                           stream, it);
        return error == cudaSuccess
                   ? cudaMemcpyAsync(keys_ret, it.keys,
                                     n * it.nkeys * sizeof *keys_ret,
                                     cudaMemcpyDeviceToHost, stream)
                   : error;
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

static cudaError_t
start_join(const struct terp_chunk *chunk, uint64_t n,
           const struct table *tables, cudaStream_t stream)
{
    const uint64_t nvalues = nvalues_of(chunk);
    const unsigned ncolumns = (unsigned)terp_columns_n(chunk);
    const int nbytes = terp_value_nbytes(chunk->type);
    const dim3 grid((unsigned)min_u64(div_up(nvalues, 4 * NTHREADS),
                                      div_up(MAX_NBLOCKS, n)),
                    (unsigned)n);

    return launch(nbytes == 1   ? join_columns<uint8_t>
                  : nbytes == 2 ? join_columns<uint16_t>
                  : nbytes == 4 ? join_columns<uint32_t>
                                : join_columns<uint64_t>,
                  grid, dim3(NTHREADS), 0, stream, tables, nvalues, ncolumns,
                  chunk->big_endian);
}

/* Tables in host memory are put together on the device, and copied. */
static enum terp_status
put_together(struct terp_session *session, const struct terp_chunk *chunk,
             uint64_t n, const void *const *columns, void *const *dst)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const uint64_t stride =
        cuda_session_is_host(session, dst[0]) ? place_aligned(nbytes) : 0;
    const uint64_t list_nbytes = place_aligned(n * sizeof(struct table));
    struct table *tables = new (std::nothrow) struct table[(size_t)n];
    const cuda_session_memory memory(session, list_nbytes + n * stride);
    enum terp_status st = TERP_ERR_MEMORY;

    if (tables != NULL && memory.at != NULL) {
        for (uint64_t k = 0; k < n; k++) {
            tables[k].columns = columns[k];
            tables[k].values =
                stride > 0 ? memory.at + list_nbytes + k * stride : dst[k];
        }
        st = cuda_session_do(
            session, "putting columns together",
            [=, &memory](cudaStream_t stream) {
                cudaError_t error =
                    cudaMemcpyAsync(memory.at, tables, n * sizeof *tables,
                                    cudaMemcpyHostToDevice, stream);
                if (error == cudaSuccess)
                    error = start_join(chunk, n,
                                       (const struct table *)memory.at, stream);
                for (uint64_t k = 0; stride > 0 && k < n; k++)
                    if (error == cudaSuccess)
                        error =
                            cudaMemcpyAsync(dst[k], tables[k].values, nbytes,
                                            cudaMemcpyDeviceToHost, stream);
                return error;
            });
    }
    delete[] tables;
    return st;
}

enum terp_status
cuda_columns_put_together(struct terp_session *session,
                          const struct terp_chunk *chunk, uint64_t n,
                          const void *const *columns, void *const *dst)
{
    enum terp_status st = TERP_OK;

    for (uint64_t k = 0; st == TERP_OK && k < n; k += MAX_NCHUNKS)
        st = put_together(session, chunk, min_u64(MAX_NCHUNKS, n - k),
                          columns + k, dst + k);
    return st;
}

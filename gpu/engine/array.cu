/* Gathers chunks of an array, and scatters them back, all on the device. */
#include "gpu/engine/array.cuh"

#define WARP_NTHREADS 32
#define BLOCK_NWARPS 8

/* The most values of a piece, which a warp copies in a loop: 8 per lane. */
#define PIECE_NVALUES 256

/* The most blocks of a grid. A device runs fewer at once, so more would not
 * help; blocks loop over the pieces that remain. */
#define MAX_NBLOCKS 8192

/* A piece of a chunk's row: its first value's index in the chunks and in the
 * array, its values, and how many of them lie inside the array (the others are
 * padding). */
struct row_piece {
    uint64_t in_chunks, in_array;
    uint32_t nvalues, ninside;
};

/* Piece `number`; pieces are numbered from the first row of chunk `first`. */
static __device__ inline struct row_piece
find_piece(const struct terp_array &array, uint64_t first, uint64_t nrows,
           uint64_t number)
{
    const uint64_t row_nvalues = array.chunk[array.rank - 1];
    const uint64_t row_npieces = div_up(row_nvalues, PIECE_NVALUES);
    const uint64_t row = number / row_npieces;
    const uint64_t begin = number % row_npieces * PIECE_NVALUES;
    uint64_t at;
    const uint64_t inside =
        terp_array_row(&array, first + row / nrows, row % nrows, &at);
    const uint64_t nvalues = min_u64(row_nvalues - begin, PIECE_NVALUES);
    const uint64_t ninside =
        inside > begin ? min_u64(inside - begin, nvalues) : 0;

    return {row * row_nvalues + begin, at + begin, (uint32_t)nvalues,
            (uint32_t)ninside};
}

/* Copies all pieces: with GATHER from the array `src` to chunks at `dst`, else
 * from chunks at `src` to the array `dst`. Value is an unsigned integer of the
 * array's value size, or uint4; values are only copied. Example:
 * move_rows<uint32_t, true> gathers float32 values.
 *
 * Grid: any number of blocks of BLOCK_NWARPS warps; no shared memory and no
 * barrier. A warp owns 32 pieces at a time: each lane computes the place of
 * one, since divisions are slow, and then all lanes copy the pieces one after
 * another. */
template <typename Value, bool GATHER>
static __global__ void
__launch_bounds__(WARP_NTHREADS *BLOCK_NWARPS)
    move_rows(const __grid_constant__ struct terp_array array,
              const uint64_t first, const uint64_t nrows,
              const uint64_t npieces, const Value *__restrict__ src,
              Value *__restrict__ dst)
{
    begin_kernel();
    const unsigned lane = threadIdx.x % WARP_NTHREADS;
    const unsigned warp = threadIdx.x / WARP_NTHREADS;
    const uint64_t step = (uint64_t)gridDim.x * BLOCK_NWARPS * WARP_NTHREADS;
    Value pad;

    memcpy(&pad, array.pad, sizeof pad);
    for (uint64_t base =
             ((uint64_t)blockIdx.x * BLOCK_NWARPS + warp) * WARP_NTHREADS;
         base < npieces; base += step) {
        const int n = (int)min_u64(npieces - base, WARP_NTHREADS);
        struct row_piece mine = {};
        if ((int)lane < n)
            mine = find_piece(array, first, nrows, base + lane);
        for (int p = 0; p < n; p++) {
            const uint64_t in_chunks =
                __shfl_sync(FULL_WARP_MASK, mine.in_chunks, p);
            const uint64_t in_array =
                __shfl_sync(FULL_WARP_MASK, mine.in_array, p);
            const uint32_t nvalues =
                __shfl_sync(FULL_WARP_MASK, mine.nvalues, p);
            const uint32_t ninside =
                __shfl_sync(FULL_WARP_MASK, mine.ninside, p);
            for (uint32_t i = lane; i < (GATHER ? nvalues : ninside);
                 i += WARP_NTHREADS) {
                if (GATHER)
                    dst[in_chunks + i] = i < ninside ? src[in_array + i] : pad;
                else
                    dst[in_array + i] = src[in_chunks + i];
            }
        }
    }
}

template <typename Value, bool GATHER>
static cudaError_t
launch_rows(const struct terp_array *array, uint64_t first, uint64_t n,
            const void *src, void *dst, cudaStream_t stream)
{
    const uint64_t row_nvalues = array->chunk[array->rank - 1];
    const uint64_t nrows = terp_array_chunk_nvalues(array) / row_nvalues;
    const uint64_t npieces = n * nrows * div_up(row_nvalues, PIECE_NVALUES);
    const uint64_t nblocks =
        min_u64(div_up(npieces, WARP_NTHREADS * BLOCK_NWARPS), MAX_NBLOCKS);

    return launch(move_rows<Value, GATHER>, dim3((unsigned)nblocks),
                  dim3(WARP_NTHREADS * BLOCK_NWARPS), 0, stream, *array, first,
                  nrows, npieces, (const Value *)src, (Value *)dst);
}

template <typename Value>
static cudaError_t
move(const struct terp_array *array, uint64_t first, uint64_t n,
     const void *src, void *dst, bool gather, cudaStream_t stream)
{
    return gather
               ? launch_rows<Value, true>(array, first, n, src, dst, stream)
               : launch_rows<Value, false>(array, first, n, src, dst, stream);
}

bool
cuda_array_has(struct terp_cuda_device *device, const void *at)
{
    unsigned type = 0;

    /* The driver fails if CUDA did not allocate the memory. */
    return cuda_device_do(device,
                          [&](const struct cuda_visit &) {
                              return device->driver.pointer_attribute(
                                         &type,
                                         CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                         (CUdeviceptr)at) == CUDA_SUCCESS
                                         ? TERP_OK
                                         : TERP_ERR_ARGUMENT;
                          }) == TERP_OK &&
           type == CU_MEMORYTYPE_DEVICE;
}

enum terp_status
cuda_array_allocate(struct terp_cuda_device *device, uint64_t nbytes,
                    void **at_ret)
{
    *at_ret = NULL;
    return cuda_device_do(device, [=](const struct cuda_visit &) {
        cudaError_t error = cudaMalloc(at_ret, nbytes);
        if (error == cudaErrorMemoryAllocation && cuda_device_trim(device))
            error = cudaMalloc(at_ret, nbytes);
        return cuda_status_of("allocating", error);
    });
}

void
cuda_array_release(struct terp_cuda_device *device, void *at)
{
    cuda_device_do(device, [=](const struct cuda_visit &) {
        cudaFree(at);
        return TERP_OK;
    });
}

enum terp_status
cuda_array_move(struct terp_cuda_device *device,
                const struct terp_cuda_call *call,
                const struct terp_array *array, uint64_t first, uint64_t n,
                const void *src, void *dst, bool gather)
{
    auto *start = array->value_nbytes == 1   ? move<uint8_t>
                  : array->value_nbytes == 2 ? move<uint16_t>
                  : array->value_nbytes == 4 ? move<uint32_t>
                  : array->value_nbytes == 8 ? move<uint64_t>
                                             : move<uint4>;

    return cuda_session_do_alone(
        device, call, "moving chunks", [=](struct cuda_work &work) {
            work.add(start, array, first, n, src, dst, gather);
        });
}

/* What an engine is: the CPU's, which is linked, and the CUDA engine, which is
 * a shared object of its own. They never see each other. */
#ifndef TERP_CODEC_ENGINE_H
#define TERP_CODEC_ENGINE_H

#include "codec/format/array.h"
#include "codec/format/frame.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the CPU engine ---- */

/* Encodes a chunk of floats into a sealed stream at `dst`, whose capacity is
 * terp_encode_bound. TERP_ERR_CAPACITY: the stream would not be smaller than
 * a raw one; the caller stores the chunk. */
enum terp_status
terp_cpu_encode(const struct terp_params *params,
                const struct terp_chunk *chunk, const void *src, uint8_t *dst,
                uint64_t *dst_nbytes_ret, int nthreads);

/* Decodes the body of a verified stream whose frame was read. `dst` holds
 * terp_chunk_nbytes(&frame->chunk) bytes. */
enum terp_status
terp_cpu_decode(const struct terp_frame *frame, const uint8_t *body,
                uint64_t body_nbytes, void *dst, int nthreads);

/* Fills in the counts of a stream with a body: escapes, specials, tiles. */
enum terp_status
terp_cpu_inspect(const struct terp_frame *frame, const uint8_t *body,
                 uint64_t body_nbytes, struct terp_info *info);

/* Does chunks [first, end) of a batch with `nthreads` for each chunk. */
typedef void
terp_cpu_batch_task(void *batch, uint64_t first, uint64_t end, int nthreads);

/* Splits `nchunks` among at most `nthreads` threads; where there are more
 * threads than chunks, each chunk gets several. Returns when all are done. */
void
terp_cpu_batch(terp_cpu_batch_task *task, void *batch, uint64_t nchunks,
               int nthreads);

/* ---- the CUDA engine ---- */

/* Counts changes of what follows, and of the structs of terp.h. */
#define TERP_CUDA_ABI 2

/* The name of the shared object, and of its only exported function. */
#define TERP_CUDA_LIBRARY "libterp_cuda.so"
#define TERP_CUDA_OPEN "terp_cuda_open"

/* TERP_ENGINE_AUTO takes the device for calls that have at least this many
 * bytes of values on the host: the fewest with which it was measured, and it
 * was faster (doc/design.md, "Figures"). */
#define TERP_AUTO_MIN_NBYTES (UINT64_C(1) << 14)

/* Batches of whole streams, frame, checksum and stored form included.
 *
 * Pointers are of one kind of memory, as terp_encode_batch says; arguments
 * were checked: nchunks > 0, the chunk is valid, the bound is one where the
 * type has one. Any thread may call at any time. TERP_ERR_DEVICE, and it
 * alone, means that the device did not do the work, for lack of memory too:
 * the engine is not called again in this process. Nothing here leaves an error
 * behind in the host's own use of CUDA, or changes its current device. */
struct terp_cuda_engine {
    const char *device; /* its name and place, for people; static */

    /* As terp_encode_batch: TERP_OK, TERP_ERR_DEVICE or TERP_ERR_MEMORY. */
    enum terp_status (*encode)(const struct terp_params *params,
                               const struct terp_chunk *chunk,
                               enum terp_memory memory, uint64_t nchunks,
                               const void *const *src, void *const *dst,
                               uint64_t *dst_nbytes_ret);

    /* As terp_decode_batch. status_ret is complete and the result TERP_OK
     * where all streams were tried, whatever they held; what stream i gives
     * is judged as the CPU does: frame, checksum, TERP_ERR_ARGUMENT for
     * another chunk, contents. */
    enum terp_status (*decode)(const struct terp_chunk *chunk,
                               enum terp_memory memory, uint64_t nchunks,
                               const void *const *src,
                               const uint64_t *src_nbytes, void *const *dst,
                               enum terp_status *status_ret);

    /* Device memory, for callers that code from or to the host by way of it;
     * TERP_ERR_MEMORY: there is not as much. */
    enum terp_status (*allocate)(uint64_t nbytes, void **at_ret);
    void (*release)(void *at);

    /* Copies n parts, nbytes[i] from src[i] to dst[i], on host or device. */
    enum terp_status (*copy)(uint64_t n, void *const *dst,
                             const void *const *src, const uint64_t *nbytes);

    /* Copies chunks of an array, both on the device: `gather`, from the array
     * `src` to chunks one behind the other at `dst`, padded; or back. */
    enum terp_status (*move)(const struct terp_array *array, uint64_t first,
                             uint64_t n, const void *src, void *dst,
                             bool gather);

    /* Why the last call of this thread failed; static, or the thread's. */
    const char *(*reason)(void);
};

/* Chooses a device and makes ready to use it. Called once in a process.
 * TERP_ERR_ARGUMENT: another `abi` than the library's; TERP_ERR_DEVICE: no
 * device that it can use. `*reason_ret` says more then; static. */
typedef enum terp_status
terp_cuda_open_function(unsigned abi,
                        const struct terp_cuda_engine **engine_ret,
                        const char **reason_ret);

#ifdef __cplusplus
}
#endif

#endif

/* The interface of the engines. The CPU engine is linked into the codec; the
 * CUDA engine is a shared object of its own. Neither calls the other. */
#pragma once

#include <pthread.h>
#include <stdlib.h>

#include "codec/format/array.h"
#include "codec/format/frame.h"
#include "codec/format/grid.h"
#include "codec/model/coarse.h"
#include "codec/model/domain.h"
#include "codec/model/fills.h"
#include "codec/model/reference_search.h"

TERP_C_BEGIN

/* ---- the CPU engine ---- */

/* Large blocks of memory that finished calls leave for later calls. The system
 * clears the pages of fresh blocks, which takes a fifth of the time of a large
 * chunk. The oldest block is released first. Only trylock is used, because a
 * forked child may inherit a locked mutex; a call that cannot lock works
 * without the reserve. */
#define TERP_RESERVE_NBLOCKS 8
struct terp_reserve {
    pthread_mutex_t lock;
    uint64_t limit_nbytes; /* most bytes of all blocks */
    uint64_t nbytes;
    int nblocks;
    struct terp_reserved {
        void *at;
        size_t nbytes;
    } block[TERP_RESERVE_NBLOCKS];
};

/* Releases the blocks. */
void
terp_cpu_reserve_trim(struct terp_reserve *reserve);

/* The functions that allocate and release buffers as large as a chunk; NULL
 * functions: the C library. Tables and masks, a few percent of a chunk's size,
 * always come from the C library. */
struct terp_allocator {
    void *(*allocate)(void *arg, size_t nbytes);
    void (*release)(void *arg, void *at);
    void *arg;
    struct terp_reserve *reserve; /* of blocks from the C library; NULL: none */
    /* For functions that count the memory that they hand out. `hold` adds
     * memory that the reserve or the C library hands out instead, or refuses
     * it; `give` subtracts it. NULL: the functions do not count. */
    bool (*hold)(void *arg, uint64_t nbytes);
    void (*give)(void *arg, uint64_t nbytes);
};

static inline bool
terp_allocator_is_own(const struct terp_allocator *allocator)
{
    return allocator != NULL && allocator->allocate != NULL;
}

static inline void *
terp_allocate(const struct terp_allocator *allocator, uint64_t nbytes)
{
    size_t size = nbytes == 0 ? 1 : (size_t)nbytes;

    if (nbytes > SIZE_MAX)
        return NULL;
    return terp_allocator_is_own(allocator)
               ? allocator->allocate(allocator->arg, size)
               : malloc(size);
}

static inline void
terp_release(const struct terp_allocator *allocator, void *at)
{
    if (!terp_allocator_is_own(allocator))
        free(at);
    else if (at != NULL)
        allocator->release(allocator->arg, at);
}

struct terp_engine;

/* How one call of the API runs on the CPU. */
struct terp_cpu_call {
    const struct terp_engine *engine;
    int nthreads; /* at least 1 */
    const struct terp_allocator
        *allocator; /* NULL: the C library, no reserve */
};

/* ---- what an engine does ---- */

/* An engine codes plain streams: streams without inner streams. codec/compose
 * decides what a stream consists of and which of several streams is kept; it
 * drives both engines through one table. All pointers to values and streams
 * point to the engine's kind of memory. */

/* An engine's threads and memory during one call. Each engine defines its own.
 */
struct terp_session;

/* Limits of decoded values (codec/model/valid_range.h). */
struct terp_limits;

/* Chunks to encode, all of one shape. */
struct terp_source {
    const struct terp_chunk *chunk;
    const struct terp_params *params;
    /* One absolute bound per chunk. A bound above 0 replaces the bound of
     * `params`. NULL: the bound of `params` applies to all chunks. */
    const double *bounds;
    const struct terp_limits *limits; /* NULL: none */
    /* the streams become inner streams: they get no table of prefixes and no
     * checksum */
    bool is_part;
    /* the chunk is a group of columns, whose stream must not hold copies */
    bool is_of_columns;
    /* references are not tried for the values of the chunk */
    bool has_no_references;
    /* markers stand for the values that refer to others */
    bool has_markers;
    /* also find the facts of struct terp_facts from `bound` on */
    bool wants_more;
    uint64_t n;
    const void *const *src;
};

/* How one attempt encodes its chunks. */
struct terp_plan {
    struct terp_trial trial;
    /* The engine may skip a chunk if it finds out, before it codes the chunk,
     * that another domain is surely better. */
    bool yields;
};

/* Facts about a chunk that an engine finds in the first attempt. `domain` and
 * `verdict`: the best domain found, and how sure the engine is that it is
 * better than the chunk's own shape. */
struct terp_facts {
    /* the chunk is constant or cannot be coded: further attempts cannot help */
    bool is_settled;
    /* coded values, which may stand for values of another type, are coded
     * losslessly */
    bool is_exact;
    /* terp_domain_is_open: other domains may be tried */
    bool is_open;
    struct terp_chunk domain;
    enum terp_domain_verdict verdict;
    bool huffman_may_be_smaller; /* terp_huffman_may_be_smaller */
    bool lorenzo_may_be_smaller; /* terp_lorenzo_may_be_smaller */
    bool splines_may_be_smaller; /* terp_splines_may_be_smaller */
    /* Only if source.wants_more, and only for chunks for which other streams
     * are possible: the bound, absolute or relative to each value; the fill
     * values; the dimensions along which all values are copies; whether values
     * may repeat others; whether a lossless stream may be smaller; whether
     * there may be few different values (terp_may_be_few). */
    double bound;
    bool has_fill[TERP_NFILLS];
    uint64_t fill_bits[TERP_NFILLS];
    unsigned copied;
    bool may_repeat;
    bool may_be_lossless;
    bool may_be_few;
    /* Set by codec/compose if references made the stream smaller; otherwise 0:
     * bits that they save, estimated, and the size of the smallest stream
     * without them. */
    uint64_t reference_nbits, unreferred_nbytes;
    /* Set by codec/compose where ranks are kept; otherwise 0: the values in
     * their table, and its bytes. */
    uint64_t ranks_ntable, ranks_table_nbytes;
};

/* The state of chunks between attempts. Each engine defines its own. */
struct terp_encoding;

/* A stream whose frame has been read. */
struct terp_open_stream {
    struct terp_frame frame;
    const uint8_t *body;
    uint64_t body_nbytes;
    /* the stream from its frame on; NULL: an inner stream, which has no
     * complete frame */
    const uint8_t *whole;
};

/* The range of a chunk's valid values, and the mean square of the errors of
 * decoded values, relative to the range. Valid values include guessed fill
 * values that may be data (codec/model/fills.h). */
struct terp_measure {
    /* half of max - min; 0: all values that are not coded apart are equal */
    double half_range;
    /* of the valid values; min > max: no valid values */
    double min, max;
    /* Values that are not valid. Values of `fill_bits` are exact. */
    uint64_t nspecials, fill_bits[TERP_NFILLS];
    double square; /* set by compare() */
};

/* The references that a search has found, in the engine's memory: the chunk's
 * values with a marker in place of each reference, and the distances to the
 * sources of the references. All numbers are little-endian. */
struct terp_found_references {
    /* 0: references would not make a smaller stream */
    uint64_t marker, nreferences;
    const void *values, *distances;
    void *differences;    /* filled in by `differ` */
    void *own;            /* the engine's own data */
    uint64_t saved_nbits; /* an estimate; of the CPU only */
};

/* A decoded chunk with markers, and the references that replace the markers. */
struct terp_followed {
    uint64_t marker, nreferences;
    const void *distances, *differences;
    void *values;
};

/* The different values of a chunk, sorted, and the place of each value among
 * them; or the values that are not on a grid, and a number for each value:
 * the inner streams' chunks (codec/format/ranks.h), in blocks of the
 * engine's memory. The caller releases the blocks. */
struct terp_found_ranks {
    uint64_t ntable; /* 0: the stream is not worth a trial */
    void *table, *ranks;
    struct terp_grid grid; /* number_nbytes 0: there are only ranks */
    uint64_t nnumbers;     /* of a grid: one more than the largest number */
};

/* The table and the ranks of a decoded chunk, and the destination of its
 * values.
 */
struct terp_ranked {
    uint64_t ntable;
    const void *table, *ranks;
    void *values;
    int number_nbytes;     /* of a rank or number */
    uint64_t step;         /* `values` are every step-th value of the chunk */
    struct terp_grid grid; /* number_nbytes 0: there are only ranks */
};

/* A piece of a stream that is assembled. */
struct terp_piece {
    const void *at;
    uint64_t nbytes;
    /* false: in the engine's memory */
    bool is_on_host;
};

/* A stream to assemble: its pieces, in order, and its destination. */
struct terp_assembly {
    int npieces;
    const struct terp_piece *pieces;
    void *dst;
    uint64_t nbytes; /* of all pieces */
};

/* The size that encode() returns for a chunk that the engine leaves to the CPU.
 * A device cannot encode everything that the format allows. */
#define TERP_LEFT_NBYTES UINT64_MAX

/* The most bytes that peek() shows. They suffice to read the head of an inner
 * stream (codec/format/held.h). */
#define TERP_PEEK_NBYTES 256

/* The functions of an engine. A function that returns a status returns
 * TERP_ERR_MEMORY if memory is short; only a device returns TERP_ERR_DEVICE. A
 * function of n chunks or streams takes a whole batch in one call, because each
 * call of a device costs some microseconds. */
struct terp_engine {
    /* the CPU engine's instruction set: "baseline" runs on all processors of
     * the architecture, other names need more */
    const char *instructions;

    /* A device leaves chunks and streams to the CPU if it cannot code them, or
     * if memory is short for a trial. Its encode() may write anywhere in the
     * terp_encode_bound bytes of a destination, whatever the capacity. */
    bool is_device;

    /* CPU only. Opens a session for chunks of `nvalues` values each; close()
     * ends it. NULL is a valid session of the CPU engine. A session of a device
     * does all work in the order of the calls; a function may return before its
     * work has ended, unless it returns results to the host. */
    struct terp_session *(*open)(const struct terp_cpu_call *call,
                                 uint64_t nvalues);
    void (*close)(struct terp_session *session);

    void *(*allocate)(struct terp_session *session, uint64_t nbytes);
    void (*release)(struct terp_session *session, void *at);
    enum terp_status (*copy)(struct terp_session *session, uint64_t n,
                             void *const *dst, const void *const *src,
                             const uint64_t *nbytes);

    /* ---- plain streams ---- */

    /* Begins to encode chunks of floats or integers. *source must stay valid
     * until end(). */
    enum terp_status (*begin)(struct terp_session *session,
                              const struct terp_source *source,
                              struct terp_encoding **encoding_ret);

    /* Encodes chunks at[0] to at[n - 1] as `plan` says. Stream k goes to
     * dst[k], with its frame, and must be shorter than cap_nbytes[k].
     * nbytes_ret[k] is its size; 0 if no stream is that short or the chunk was
     * skipped; TERP_LEFT_NBYTES if the engine leaves the chunk to the CPU.
     * Streams get checksums unless source.is_part. facts_ret[k] has the facts
     * of the first attempt, except may_repeat, which may depend on the size of
     * this attempt's stream. */
    enum terp_status (*encode)(struct terp_encoding *encoding,
                               const struct terp_plan *plan, uint64_t n,
                               const uint64_t *at, void *const *dst,
                               const uint64_t *cap_nbytes, uint64_t *nbytes_ret,
                               struct terp_facts *facts_ret);
    void (*end)(struct terp_encoding *encoding);

    /* Encodes all chunks of a source as streams of coding SPEED, for which
     * terp_params_have_speed (codec/model/bound.h). nbytes_ret[i] is the size
     * of stream i, 0 if the stored chunk is as short, or TERP_LEFT_NBYTES.
     * dst[i] holds terp_encode_bound bytes. Streams get checksums unless
     * source.is_part. */
    enum terp_status (*encode_speed)(struct terp_session *session,
                                     const struct terp_source *source,
                                     void *const *dst, uint64_t *nbytes_ret);

    /* Makes the first nbytes[k] bytes at each address at[k] visible to the
     * host; nbytes[k] is at most TERP_PEEK_NBYTES. seen_ret[k] is at[k] itself
     * or points into `buffer`, which has TERP_PEEK_NBYTES for each k. */
    enum terp_status (*peek)(struct terp_session *session, uint64_t n,
                             const void *const *at, const uint64_t *nbytes,
                             uint8_t *buffer, const uint8_t **seen_ret);

    /* Decodes the bodies of verified plain or raw streams of one shape: every
     * step-th value of each dimension, where `step` is a power of two
     * (codec/model/coarse.h). dst[k] receives the chunk of the decoded values.
     * If a prefix of a stream suffices, the body may end with the prefix.
     * status_ret[k] is the status of stream k; TERP_ERR_DEVICE: it is left to
     * the CPU. */
    enum terp_status (*decode)(struct terp_session *session, uint64_t step,
                               uint64_t n,
                               const struct terp_open_stream *streams,
                               void *const *dst, enum terp_status *status_ret);

    /* Device only, which reads the frames itself: decodes complete streams of
     * `chunk` that have not been verified. TERP_ERR_DEVICE: the stream is left,
     * because it holds inner streams or because the CPU gives the exact error.
     */
    enum terp_status (*decode_whole)(struct terp_session *session,
                                     const struct terp_chunk *chunk,
                                     uint64_t step, uint64_t n,
                                     const void *const *src,
                                     const uint64_t *nbytes, void *const *dst,
                                     enum terp_status *status_ret);

    /* Device only. status_ret[k] is TERP_ERR_CHECKSUM if stream k is damaged.
     */
    enum terp_status (*verify)(struct terp_session *session, uint64_t n,
                               const void *const *streams,
                               const uint64_t *nbytes,
                               enum terp_status *status_ret);

    /* Device only. Whether `at` points to the engine's memory. */
    bool (*has)(const struct terp_session *session, const void *at);

    /* CPU only. Fills in the counts of a plain stream: escapes, special values,
     * tiles. Adds the usual fill values among its special values. */
    enum terp_status (*inspect)(const struct terp_frame *frame,
                                const uint8_t *body, uint64_t body_nbytes,
                                struct terp_info *info,
                                struct terp_usual_fills *fills);

    /* CPU only. Encodes a chunk that was decoded from the stream `before` and
     * then changed in part; uses the steps and predictions of `before`.
     * Unchanged values keep their bits, and cost few bytes if their neighbours
     * are unchanged too. `dst` holds terp_encode_bound bytes.
     * TERP_ERR_CAPACITY: this is not possible, or the stream is no smaller than
     * a raw one. It is possible only with the spline predictor, under an
     * absolute or relative bound that is not below the bound of `before`. */
    enum terp_status (*encode_changed)(struct terp_session *session,
                                       const struct terp_source *source,
                                       const struct terp_open_stream *before,
                                       uint8_t *dst, uint64_t *dst_nbytes_ret);

    /* ---- values ---- */

    /* Finds the ranges of chunks of floats. */
    enum terp_status (*measure)(struct terp_session *session,
                                const struct terp_params *params,
                                const struct terp_chunk *chunk, uint64_t n,
                                const void *const *src,
                                struct terp_measure *measures_ret);

    /* Measures the errors of decoded values, `others`, against chunks for which
     * measure() has filled in `measures`; sets `square`. If the chunk is
     * big-endian, the function may swap `others` in place. */
    enum terp_status (*compare)(struct terp_session *session,
                                const struct terp_params *params,
                                const struct terp_chunk *chunk, uint64_t n,
                                const void *const *src, void *const *others,
                                struct terp_measure *measures);

    /* `split` copies the real parts of complex values, then the imaginary
     * parts, little-endian, to parts[k]; `join` is the inverse. */
    enum terp_status (*split)(struct terp_session *session,
                              const struct terp_chunk *chunk, uint64_t n,
                              const void *const *src, void *const *parts);
    enum terp_status (*join)(struct terp_session *session,
                             const struct terp_chunk *chunk, uint64_t n,
                             const void *const *parts, void *const *dst);

    /* Copies the wanted values out of the lattice that a coarse decode has
     * filled. */
    enum terp_status (*gather)(struct terp_session *session,
                               const struct terp_coarse *coarse,
                               int value_nbytes, uint64_t n,
                               const void *const *src, void *const *dst);

    /* `leave_out` copies one value of each line of copies along the dimensions
     * `dims`; `put_back` spreads the values over the whole chunk again, in
     * place. */
    enum terp_status (*leave_out)(struct terp_session *session,
                                  const struct terp_chunk *chunk, unsigned dims,
                                  uint64_t n, const void *const *src,
                                  void *const *left);
    enum terp_status (*put_back)(struct terp_session *session,
                                 const struct terp_chunk *chunk, unsigned dims,
                                 uint64_t n, void *const *values);

    /* `search` searches a chunk for references; `stream_nbytes` is the size of
     * its stream without references. `differ` then finds how the referring
     * values differ from their sources: `decoded` has the values of the chunk
     * as a decoder will have them, with markers; NULL: all bits are kept. The
     * caller passes *found_ret to forget() in any case, also after an error. */
    enum terp_status (*search)(struct terp_session *session,
                               const struct terp_chunk *chunk,
                               const struct terp_params *params,
                               struct terp_reference_bound bound,
                               const void *src, uint64_t stream_nbytes,
                               struct terp_found_references *found_ret);
    enum terp_status (*differ)(struct terp_session *session,
                               const struct terp_found_references *found,
                               const void *decoded);
    void (*forget)(struct terp_session *session,
                   const struct terp_found_references *found);

    /* Replaces the markers in decoded little-endian chunks by the values that
     * their references yield, and converts the chunks to their own byte order.
     * status_ret[k] is TERP_ERR_CORRUPT if the numbers of markers and
     * references differ, or if the source of a reference is not an earlier
     * value without a marker. */
    enum terp_status (*follow)(struct terp_session *session,
                               const struct terp_chunk *chunk, uint64_t n,
                               const struct terp_followed *followed,
                               enum terp_status *status_ret);

    /* Writes the keys of the samples of chunks (codec/model/ranks.h) to host
     * memory, chunk after chunk. maybe_ret[k] is false if a device has found
     * too many different keys in chunk k; it then leaves out the keys of the
     * chunk.
     */
    enum terp_status (*sample)(struct terp_session *session,
                               const struct terp_chunk *chunk, uint64_t n,
                               const void *const *src, uint64_t *keys_ret,
                               bool *maybe_ret);

    /* CPU only. Counts all values of a chunk. The caller releases the blocks of
     * *found_ret in any case. */
    enum terp_status (*rank)(struct terp_session *session,
                             const struct terp_chunk *chunk, const void *src,
                             struct terp_found_ranks *found_ret);

    /* Writes the keys of TERP_GRID_NSAMPLES values of each chunk
     * (codec/model/grid.h) to host memory, chunk after chunk. */
    enum terp_status (*sample_grid)(struct terp_session *session,
                                    const struct terp_chunk *chunk, uint64_t n,
                                    const void *const *src, uint64_t *keys_ret);

    /* CPU only. Replaces the values of a chunk by numbers of found_ret->grid,
     * whose first integer and gap it finds, and lists the other values in the
     * table. The caller releases the blocks of *found_ret in any case. */
    enum terp_status (*number)(struct terp_session *session,
                               const struct terp_chunk *chunk, const void *src,
                               struct terp_found_ranks *found_ret);

    /* Replaces the ranks or numbers of chunks by values in the chunk's byte
     * order. status_ret[k] is TERP_ERR_CORRUPT if the table of chunk k does
     * not ascend, or if a rank or number stands for no value. */
    enum terp_status (*unrank)(struct terp_session *session,
                               const struct terp_chunk *chunk, uint64_t n,
                               const struct terp_ranked *ranked,
                               enum terp_status *status_ret);

    /* Writes the keys of the sampled rows of tables (codec/model/columns.h) to
     * host memory, chunk after chunk. */
    enum terp_status (*sample_rows)(struct terp_session *session,
                                    const struct terp_chunk *chunk, uint64_t n,
                                    const void *const *src, uint64_t *keys_ret);

    /* `take_apart`, of the CPU only, copies the columns of a table, one after
     * another and little-endian; `put_together` is the inverse. */
    enum terp_status (*take_apart)(struct terp_session *session,
                                   const struct terp_chunk *chunk,
                                   const void *src, void *columns);
    enum terp_status (*put_together)(struct terp_session *session,
                                     const struct terp_chunk *chunk, uint64_t n,
                                     const void *const *columns,
                                     void *const *dst);

    /* ---- streams ---- */

    /* Assembles streams: copies the pieces of each stream to its destination,
     * one after another, and writes its checksum. */
    enum terp_status (*assemble)(struct terp_session *session, uint64_t n,
                                 const struct terp_assembly *assemblies);
};

/* The CPU engine, compiled once per instruction set; all builds make the same
 * bytes. codec/api/processor.h says which of the builds a processor can run.
 * cpu/CMakeLists.txt decides which builds exist besides the baseline. */
extern const struct terp_engine terp_cpu_baseline, terp_cpu_avx2;

/* A thread's share of a batch: chunks [first, end), with `nthreads` threads for
 * each chunk. `thread` is the thread's own number, below the number of threads
 * and below the number of chunks. */
struct terp_cpu_batch_part {
    uint64_t first, end;
    int nthreads, thread;
};

typedef void
terp_cpu_batch_task(void *batch, struct terp_cpu_batch_part part);

/* Divides `nchunks` chunks among at most `nthreads` threads. If there are more
 * threads than chunks, each chunk gets several threads. Returns when all chunks
 * are done. */
void
terp_cpu_batch(terp_cpu_batch_task *task, void *batch, uint64_t nchunks,
               int nthreads);

/* ---- the CUDA engine ---- */

/* The version of the declarations below and of the structs of terp.h. Each
 * change of either increases it. */
#define TERP_CUDA_ABI 11

/* The names of the shared object and of its only exported function. */
#define TERP_CUDA_LIBRARY "libterp_cuda.so"
#define TERP_CUDA_OPEN "terp_cuda_open"

/* TERP_ENGINE_AUTO uses the device for calls with at least this many bytes of
 * values in host memory. It is the smallest measured size, and the device was
 * faster even there (doc/design/10-cuda-engine.md, "Limits of the speed").
 * codec/api/context.c depends on it. */
#define TERP_AUTO_MIN_NBYTES (UINT64_C(1) << 14)

/* An opened device: its tables, streams and working memory. A process may open
 * several devices, also several times the same GPU; they share only the GPU. */
struct terp_cuda_device;

struct terp_cuda_options {
    /* the CUDA ordinal; -1: chosen by TERP_DEVICE or by the process's number on
     * its machine */
    int device;
    /* Limits the device memory that the engine holds for itself; memory given
     * by `allocate` does not count. 0: no limit. */
    uint64_t memory_limit_nbytes;
};

/* The memory and the CUDA stream of a call. */
struct terp_cuda_call {
    enum terp_memory memory;
    /* Device memory only: `stream` is the caller's cudaStream_t, of any
     * context. NULL is the legacy default stream of the calling thread's
     * current context or, without a current context, of the device. The call's
     * work begins after the work that the stream has when the call is made. */
    bool has_stream;
    void *stream;
    /* decode: every step-th value of each dimension, a power of two; 0: all
     * values */
    uint64_t step;
    /* encode: allocates host buffers as large as chunks; NULL: the C library */
    const struct terp_allocator *allocator;
};

/* The functions of libterp_cuda.so. They code batches of complete streams, with
 * frame and checksum, also raw and constant ones.
 *
 * All pointers of a call point to one kind of memory, as terp_encode_batch
 * says. The caller has checked the arguments: nchunks > 0, the chunk is valid,
 * and so is the bound if the type has one. Any thread may call any function at
 * any time, except that nothing may run beside `close`. A call returns after
 * all its work is done. No function leaves an error in the host application's
 * own use of CUDA, changes a thread's current context, or creates a context on
 * another device.
 *
 * A call that cannot do its work returns:
 *   TERP_ERR_MEMORY   There was too little memory, also for smaller batches
 *                     and after the device had released all memory that it
 *                     kept. The next call may succeed.
 *   TERP_ERR_DEVICE   CUDA failed in this call. The next call may succeed,
 *                     unless the device is lost.
 *   TERP_ERR_ARGUMENT call->stream is being captured, or is not a stream.
 * A device is lost when an error has ended its context: a kernel of any code in
 * this process failed, or cudaDeviceReset was called. Every later call then
 * fails with TERP_ERR_DEVICE; the device can only be closed. */
struct terp_cuda_engine {
    /* Chooses a device and prepares it. TERP_ERR_DEVICE: there is no usable
     * device; TERP_ERR_MEMORY: the device has no free memory. *name_ret is the
     * device's name and bus address for messages, valid until the device is
     * closed. *reason_ret is the reason of a failure, valid until the thread's
     * next call. */
    enum terp_status (*open)(const struct terp_cuda_options *options,
                             struct terp_cuda_device **device_ret,
                             const char **name_ret, const char **reason_ret);

    /* Releases the working and pinned memory that no running call uses. */
    void (*trim)(struct terp_cuda_device *device);

    /* Releases everything that `open` and calls have allocated, except memory
     * given by `allocate`. NULL is allowed. */
    void (*close)(struct terp_cuda_device *device);

    /* Whether the device is lost. Once true, it stays true. */
    bool (*is_lost)(const struct terp_cuda_device *device);

    /* TERP_OK: dst_nbytes_ret[i] is the size of stream i, or 0 if the chunk is
     * left to the CPU; dst[i] may have been written even then. Chunks for which
     * terp_is_the_cpus holds are always left. After any other result, all
     * dst[i] and dst_nbytes_ret[i] are unspecified. */
    enum terp_status (*encode)(struct terp_cuda_device *device,
                               const struct terp_cuda_call *call,
                               const struct terp_params *params,
                               const struct terp_chunk *chunk, uint64_t nchunks,
                               const void *const *src, void *const *dst,
                               uint64_t *dst_nbytes_ret);

    /* TERP_OK: status_ret[i] is the status that terp_decode_batch gives for
     * src[i], or TERP_ERR_DEVICE if the stream is left to the CPU: the device
     * does not decode such a stream, or the CPU gives the exact error. With
     * call->step above 1, dst[i] receives the chunk of every step-th value; of
     * a stream with prefixes only the needed prefix is read; and every damaged
     * stream is left to the CPU. After any other result, all dst[i] and
     * status_ret[i] are unspecified. */
    enum terp_status (*decode)(struct terp_cuda_device *device,
                               const struct terp_cuda_call *call,
                               const struct terp_chunk *chunk, uint64_t nchunks,
                               const void *const *src,
                               const uint64_t *src_nbytes, void *const *dst,
                               enum terp_status *status_ret);

    /* Whether `at` points to the memory of a device, this one or another. */
    bool (*has)(struct terp_cuda_device *device, const void *at);

    /* Allocates device memory, aligned for every type, for callers that move
     * host data through the device. */
    enum terp_status (*allocate)(struct terp_cuda_device *device,
                                 uint64_t nbytes, void **at_ret);
    void (*release)(struct terp_cuda_device *device, void *at);

    /* Allocates host memory that the device copies at full speed, and beside
     * the calling thread. It may be larger: *nbytes becomes its size, which
     * `release_pinned` needs. New memory takes much longer than memory that
     * `release_pinned` has kept. */
    enum terp_status (*allocate_pinned)(struct terp_cuda_device *device,
                                        uint64_t *nbytes, void **at_ret);
    void (*release_pinned)(struct terp_cuda_device *device, void *at,
                           uint64_t nbytes);

    /* Copies n blocks: nbytes[i] bytes from src[i] to dst[i]. All src are on
     * the host or all on the device, and so are all dst. Fails for no lack of
     * device memory. One block may be on another device. */
    enum terp_status (*copy)(struct terp_cuda_device *device,
                             const struct terp_cuda_call *call, uint64_t n,
                             void *const *dst, const void *const *src,
                             const uint64_t *nbytes);

    /* Copies chunks [first, first + n) of an array on the device. With
     * `gather`, from the array `src` to chunks at `dst`, one after another and
     * padded; otherwise from chunks to the array. */
    enum terp_status (*move)(struct terp_cuda_device *device,
                             const struct terp_cuda_call *call,
                             const struct terp_array *array, uint64_t first,
                             uint64_t n, const void *src, void *dst,
                             bool gather);

    /* The reason why this thread's last call failed, valid until its next call.
     */
    const char *(*reason)(void);
};

/* Returns the engine's functions, which are static: the function may be called
 * many times, by several loaders. TERP_ERR_ARGUMENT: `abi` is not the library's
 * TERP_CUDA_ABI. */
typedef enum terp_status
terp_cuda_open_function(unsigned abi,
                        const struct terp_cuda_engine **engine_ret);

TERP_C_END

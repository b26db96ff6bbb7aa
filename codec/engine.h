/* What an engine is: the CPU's, which is linked, and the CUDA engine, which is
 * a shared object of its own. They never see each other. */
#pragma once

#include <pthread.h>
#include <stdlib.h>

#include "codec/format/array.h"
#include "codec/format/frame.h"
#include "codec/model/coarse.h"
#include "codec/model/domain.h"
#include "codec/model/reference_search.h"

TERP_C_BEGIN

/* ---- the CPU engine ---- */

/* Large blocks of memory that calls are through with, for later ones: the pages
 * of fresh ones are cleared, which takes a fifth of the time of a large chunk.
 * The oldest one is the first to go. Nobody waits for the lock, which a forked
 * child may find locked: he does without. */
#define TERP_RESERVE_NBLOCKS 8
struct terp_reserve {
    pthread_mutex_t lock;
    uint64_t limit_nbytes; /* of all blocks */
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

/* Where buffers as large as a chunk come from, the C library where there is no
 * function; tables and masks, some percent of that, always do. */
struct terp_allocator {
    void *(*allocate)(void *arg, size_t nbytes);
    void (*release)(void *arg, void *at);
    void *arg;
    struct terp_reserve *reserve; /* of the C library's; or NULL */
    /* Of functions that count what they hand out: counts what the reserve does
     * instead, or refuses it; and takes it off again. NULL: they do not. */
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

/* How a call of the API works on the CPU. */
struct terp_cpu_call {
    const struct terp_engine *engine;
    int nthreads; /* at least 1 */
    const struct terp_allocator
        *allocator; /* NULL: the C library, no reserve */
};

/* ---- what an engine does ---- */

/* An engine codes plain streams: streams that hold no other streams. What a
 * stream is made of, and which of several streams is kept, codec/compose
 * decides, which drives an engine through one table. Pointers to values and
 * streams are of one kind of memory, the engine's. */

/* The threads and the memory of an engine at work for one call. An engine
 * defines its own. */
struct terp_session;

/* Limits of decoded values (codec/model/valid_range.h). */
struct terp_limits;

/* Chunks that are to be encoded, all of one shape. */
struct terp_source {
    const struct terp_chunk *chunk;
    const struct terp_params *params;
    /* Absolute bounds, one for each chunk, in place of the bound of `params`,
     * where they are above 0. NULL: `params` has the bound of all. */
    const double *bounds;
    const struct terp_limits *limits; /* NULL: none */
    bool is_part;    /* of other streams: no prefixes, no checksum */
    bool wants_more; /* the facts of other streams, below */
    uint64_t n;
    const void *const *src;
};

/* One attempt at chunks. */
struct terp_plan {
    struct terp_trial trial;
    /* An engine that is sure of another domain before it codes a chunk leaves
     * the chunk out. */
    bool yields;
};

/* What an engine finds out about a chunk in the first attempt. */
struct terp_facts {
    bool is_settled; /* constant, or cannot be coded: no attempt is better */
    bool is_exact;   /* what is coded, which may carry values, loses nothing */
    bool is_open;    /* to other domains: terp_domain_is_open */
    struct terp_chunk domain;
    enum terp_domain_verdict verdict;
    bool asks_for_huffman; /* terp_asks_for_huffman */
    /* Where other streams are wanted, and may be: the bound, absolute or
     * relative to each value, the fill values, the dimensions along which all
     * values are copies, whether values may repeat others, and whether a
     * stream without loss may be smaller. */
    double bound;
    bool has_fill[TERP_NFILLS];
    uint64_t fill_bits[TERP_NFILLS];
    unsigned copied;
    bool may_repeat;
    bool may_be_lossless;
};

/* Chunks between attempts. An engine defines its own. */
struct terp_encoding;

/* A stream whose frame was read. */
struct terp_open_stream {
    struct terp_frame frame;
    const uint8_t *body;
    uint64_t body_nbytes;
    const uint8_t *whole; /* the stream, with its frame in front; NULL: a part
                             of another stream, which has no frame */
};

/* The range of a chunk's valid values; and the mean square of how far other
 * values are from them, as a part of the range. */
struct terp_measure {
    double half_range; /* 0: there is none */
    double min, max;   /* of the valid values; min > max: there are none */
    uint64_t nspecials, fill_bits[TERP_NFILLS]; /* values that do not count */
    double square;                              /* of compare() */
};

/* References that a search has found, in the engine's memory: where their
 * sources are, and the chunk with a marker for each value that refers; both
 * little-endian. */
struct terp_found_references {
    uint64_t marker, nreferences; /* 0: none that are worth a stream */
    const void *values, *distances;
    void *differences; /* of `differ` */
    void *own;         /* the engine's */
};

/* A chunk that was decoded, with markers, and the references that follow in
 * their places. */
struct terp_followed {
    uint64_t marker, nreferences;
    const void *distances, *differences;
    void *values;
};

/* Bytes of a stream that is put together. */
struct terp_piece {
    const void *at;
    uint64_t nbytes;
    bool is_on_host; /* else in the engine's memory */
};

/* A stream that is put together: what it consists of, and where it goes. */
struct terp_assembly {
    int npieces;
    const struct terp_piece *pieces;
    void *dst;
    uint64_t nbytes; /* of all pieces */
};

/* The size that encode() returns for a chunk that the engine leaves to the CPU:
 * a device does not encode all that the format has. */
#define TERP_LEFT_NBYTES UINT64_MAX

/* Bytes of the head of a part, and more (codec/format/held.h). */
#define TERP_LOOK_NBYTES 256

/* Functions that return a status return TERP_ERR_MEMORY where memory is short;
 * TERP_ERR_DEVICE is a device's. Functions of n chunks or streams take all of a
 * batch in one call, since each call of a device costs some microseconds. */
struct terp_engine {
    const char *instructions; /* CPU: "baseline", which all processors of the
                                 architecture run, or a name of more */

    /* Leaves chunks and streams to the CPU where it cannot code them or memory
     * is short for a trial. Its encode() writes anywhere in the bytes of
     * terp_encode_bound, whatever the capacity. */
    bool is_device;

    /* A session for chunks of so many values, which close() ends. NULL is a
     * session as well. */
    struct terp_session *(*open)(const struct terp_cpu_call *call,
                                 uint64_t nvalues);
    void (*close)(struct terp_session *session);

    void *(*allocate)(struct terp_session *session, uint64_t nbytes);
    void (*release)(struct terp_session *session, void *at);
    enum terp_status (*copy)(struct terp_session *session, uint64_t n,
                             void *const *dst, const void *const *src,
                             const uint64_t *nbytes);

    /* ---- plain streams ---- */

    /* Begins to encode chunks of floats or integers; `source` stays until
     * end(). */
    enum terp_status (*begin)(struct terp_session *session,
                              const struct terp_source *source,
                              struct terp_encoding **encoding_ret);

    /* Encodes chunks at[0] to at[n - 1] as `plan` says, each into less than
     * cap_nbytes[k] bytes of dst[k], which hold a frame: nbytes_ret[k] is 0
     * where that cannot be, or the chunk was left out, and TERP_LEFT_NBYTES
     * where the engine leaves the chunk to the CPU. Streams that are no parts
     * are sealed. facts_ret[k] are those of the first attempt, but for
     * may_repeat, which may depend on the size of this one. */
    enum terp_status (*encode)(struct terp_encoding *encoding,
                               const struct terp_plan *plan, uint64_t n,
                               const uint64_t *at, void *const *dst,
                               const uint64_t *cap_nbytes, uint64_t *nbytes_ret,
                               struct terp_facts *facts_ret);
    void (*end)(struct terp_encoding *encoding);

    /* Shows the host the first nbytes[k] bytes, at most TERP_LOOK_NBYTES, at
     * each place: seen_ret[k] is the place itself, or in `room`, which holds
     * TERP_LOOK_NBYTES for each. */
    enum terp_status (*look)(struct terp_session *session, uint64_t n,
                             const void *const *at, const uint64_t *nbytes,
                             uint8_t *room, const uint8_t **seen_ret);

    /* Decodes the bodies of plain or raw streams of one shape, which were
     * verified: every step-th value of each dimension, `step` being a power of
     * two (codec/model/coarse.h). dst[k] holds the chunk of these. Where a
     * prefix tells them the body ends with that. status_ret[k] tells of each
     * stream; TERP_ERR_DEVICE: it is left to the CPU. */
    enum terp_status (*decode)(struct terp_session *session, uint64_t step,
                               uint64_t n,
                               const struct terp_open_stream *streams,
                               void *const *dst, enum terp_status *status_ret);

    /* A device's, which reads frames itself: decodes whole streams of `chunk`,
     * which were not verified. TERP_ERR_DEVICE: a stream is left, since it
     * holds others or the CPU says best what is wrong. */
    enum terp_status (*decode_whole)(struct terp_session *session,
                                     const struct terp_chunk *chunk,
                                     uint64_t step, uint64_t n,
                                     const void *const *src,
                                     const uint64_t *nbytes, void *const *dst,
                                     enum terp_status *status_ret);

    /* A device's: TERP_ERR_CHECKSUM for streams that are not intact. */
    enum terp_status (*verify)(struct terp_session *session, uint64_t n,
                               const void *const *streams,
                               const uint64_t *nbytes,
                               enum terp_status *status_ret);

    /* Whether `at` is in the engine's memory. */
    bool (*has)(const struct terp_session *session, const void *at);

    /* Fills in the counts of a plain stream: escapes, specials, tiles. */
    enum terp_status (*inspect)(const struct terp_frame *frame,
                                const uint8_t *body, uint64_t body_nbytes,
                                struct terp_info *info);

    /* Encodes a chunk whose values were those of an earlier stream and have
     * changed in part, by the steps and predictions of that: `before`. Values
     * that have not changed stay as they are; in few bytes where those around
     * them have not changed either. `dst` holds terp_encode_bound.
     * TERP_ERR_CAPACITY where this cannot be, or the stream is no smaller than
     * a raw one: it is for the spline predictor under absolute and relative
     * bounds, and takes no larger bound than the earlier one. */
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

    /* Compares chunks, which were measured, with other values: those are
     * swapped, if the chunk is big-endian. */
    enum terp_status (*compare)(struct terp_session *session,
                                const struct terp_params *params,
                                const struct terp_chunk *chunk, uint64_t n,
                                const void *const *src, void *const *others,
                                struct terp_measure *measures);

    /* Complex values to their parts, little-endian, one behind the other; and
     * back. */
    enum terp_status (*split)(struct terp_session *session,
                              const struct terp_chunk *chunk, uint64_t n,
                              const void *const *src, void *const *parts);
    enum terp_status (*join)(struct terp_session *session,
                             const struct terp_chunk *chunk, uint64_t n,
                             const void *const *parts, void *const *dst);

    /* Values of the lattice that a coarse decode fills. */
    enum terp_status (*gather)(struct terp_session *session,
                               const struct terp_coarse *coarse,
                               int value_nbytes, uint64_t n,
                               const void *const *src, void *const *dst);

    /* The values that are left without copies along some dimensions, and copies
     * put back among them in place. */
    enum terp_status (*leave_out)(struct terp_session *session,
                                  const struct terp_chunk *chunk, unsigned dims,
                                  uint64_t n, const void *const *src,
                                  void *const *left);
    enum terp_status (*put_back)(struct terp_session *session,
                                 const struct terp_chunk *chunk, unsigned dims,
                                 uint64_t n, void *const *values);

    /* Searches a chunk, whose stream without references has so many bytes, for
     * references; then, once `decoded` has the values that refer to none as a
     * decoder has them, or is NULL where all bits come back, finds how values
     * differ from their sources. found_ret goes to forget() in any case. */
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

    /* Values for the markers of chunks that were decoded, little-endian, which
     * get the chunk's byte order. status_ret[k] is TERP_ERR_CORRUPT where they
     * are not as many as the references, or one has no source that is before it
     * and no marker. */
    enum terp_status (*follow)(struct terp_session *session,
                               const struct terp_chunk *chunk, uint64_t n,
                               const struct terp_followed *followed,
                               enum terp_status *status_ret);

    /* ---- streams ---- */

    /* Puts streams together: copies the pieces of each to its place, one behind
     * the other, and gives it its checksum. */
    enum terp_status (*assemble)(struct terp_session *session, uint64_t n,
                                 const struct terp_assembly *assemblies);
};

/* The CPU engine, which is compiled once for each instruction set that it makes
 * use of. All make the same bytes. codec/api/processor.h tells which of them a
 * processor runs; of the others, builds have those that cpu/CMakeLists.txt
 * names. */
extern const struct terp_engine terp_cpu_baseline, terp_cpu_avx2;

/* A thread's part of a batch: chunks [first, end), with `nthreads` for each. No
 * two threads have the same number, which is below that of threads and below
 * that of chunks. */
struct terp_cpu_batch_part {
    uint64_t first, end;
    int nthreads, thread;
};

typedef void
terp_cpu_batch_task(void *batch, struct terp_cpu_batch_part part);

/* Splits `nchunks` among at most `nthreads` threads; where there are more
 * threads than chunks, each chunk gets several. Returns when all are done. */
void
terp_cpu_batch(terp_cpu_batch_task *task, void *batch, uint64_t nchunks,
               int nthreads);

/* ---- the CUDA engine ---- */

/* Counts changes of what follows, and of the structs of terp.h. */
#define TERP_CUDA_ABI 9

/* The name of the shared object, and of its only exported function. */
#define TERP_CUDA_LIBRARY "libterp_cuda.so"
#define TERP_CUDA_OPEN "terp_cuda_open"

/* TERP_ENGINE_AUTO takes the device for calls that have at least this many
 * bytes of values on the host: the fewest with which it was measured, and it
 * was faster (doc/design/06-cuda-engine.md, "Figures"). */
#define TERP_AUTO_MIN_NBYTES (UINT64_C(1) << 14)

/* An opened device: its tables, streams and working memory. A process may open
 * several, also of one GPU; they share nothing but the GPU. */
struct terp_cuda_device;

struct terp_cuda_options {
    int device; /* its CUDA ordinal; -1: TERP_DEVICE or the rank names it */
    /* What the engine may hold of the device's memory for itself; what
     * `allocate` gives does not count. 0: as much as there is. */
    uint64_t memory_limit_nbytes;
};

/* What a call works on. */
struct terp_cuda_call {
    enum terp_memory memory;
    /* Device memory: `stream` is a cudaStream_t of the caller's, of any
     * context; NULL is the legacy default stream of the context that is
     * current in the calling thread, or else of the device. The call's work
     * begins after what is in it when the call is made. */
    bool has_stream;
    void *stream;
    uint64_t step; /* decode: every step-th value of each dimension, a power of
                      two; 0: all */
    /* encode: of host memory as large as chunks. NULL: the C library */
    const struct terp_allocator *allocator;
};

/* Batches of whole streams, frame, checksum and stored form included.
 *
 * Pointers are of one kind of memory, as terp_encode_batch says; arguments
 * were checked: nchunks > 0, the chunk is valid, the bound is one where the
 * type has one. Any thread may call at any time, but `close`, which nothing
 * may run beside. All work is done when a call returns. Nothing here leaves an
 * error behind in the host's own use of CUDA, changes a thread's current
 * context, or makes a context on another device.
 *
 * What a call returns when it could not do its work:
 *   TERP_ERR_MEMORY   There was too little memory for this call, also for
 *                     fewer chunks at once and after all that the device kept
 *                     was released. The next call may succeed.
 *   TERP_ERR_DEVICE   CUDA failed in this call. The next call may succeed,
 *                     unless the device is lost.
 *   TERP_ERR_ARGUMENT call->stream is captured, or is no stream.
 * A device is lost when an error has ended its context: a kernel of anyone in
 * this process that failed, or cudaDeviceReset. Each later call fails then
 * with TERP_ERR_DEVICE, and it can only be closed. */
struct terp_cuda_engine {
    /* Chooses a device and makes ready to use it. TERP_ERR_DEVICE: no device
     * that can be used; TERP_ERR_MEMORY: it has no memory left. `*name_ret` is
     * its name and place, for people, until it is closed; `*reason_ret` says
     * why it failed, until the thread's next call. */
    enum terp_status (*open)(const struct terp_cuda_options *options,
                             struct terp_cuda_device **device_ret,
                             const char **name_ret, const char **reason_ret);

    /* Releases the working memory that no running call uses. */
    void (*trim)(struct terp_cuda_device *device);

    /* Releases all that `open` and calls made, but for what `allocate` gave.
     * NULL is let pass. */
    void (*close)(struct terp_cuda_device *device);

    /* Whether the device is lost. True stays true. */
    bool (*is_lost)(const struct terp_cuda_device *device);

    /* TERP_OK: dst_nbytes_ret[i] is the stream's size, or 0 for a chunk that
     * is left to the CPU, whose dst[i] may have been written. What
     * terp_is_the_cpus tells is always left to it.
     * Where the result is no TERP_OK, all dst[i] and dst_nbytes_ret[i] are
     * unspecified.
     */
    enum terp_status (*encode)(struct terp_cuda_device *device,
                               const struct terp_cuda_call *call,
                               const struct terp_params *params,
                               const struct terp_chunk *chunk, uint64_t nchunks,
                               const void *const *src, void *const *dst,
                               uint64_t *dst_nbytes_ret);

    /* TERP_OK: status_ret[i] is what terp_decode_batch says of src[i], or
     * TERP_ERR_DEVICE for a stream that is left to the CPU: which the device
     * does not decode, or of which the CPU says best what is wrong. With
     * call->step dst[i] is the chunk of every step-th value, of a stream with
     * prefixes no more than that is read, and all that are wrong are left.
     * Where the result is no TERP_OK, all dst[i] and status_ret[i] are
     * unspecified. */
    enum terp_status (*decode)(struct terp_cuda_device *device,
                               const struct terp_cuda_call *call,
                               const struct terp_chunk *chunk, uint64_t nchunks,
                               const void *const *src,
                               const uint64_t *src_nbytes, void *const *dst,
                               enum terp_status *status_ret);

    /* Whether `at` lies in memory of a device, this one or another. */
    bool (*has)(struct terp_cuda_device *device, const void *at);

    /* Device memory, for callers that code from or to the host by way of it,
     * aligned for everything. */
    enum terp_status (*allocate)(struct terp_cuda_device *device,
                                 uint64_t nbytes, void **at_ret);
    void (*release)(struct terp_cuda_device *device, void *at);

    /* Copies n parts, nbytes[i] from src[i] to dst[i], on host or device.
     * Needs no device memory. */
    enum terp_status (*copy)(struct terp_cuda_device *device,
                             const struct terp_cuda_call *call, uint64_t n,
                             void *const *dst, const void *const *src,
                             const uint64_t *nbytes);

    /* Copies chunks of an array, both on the device: `gather`, from the array
     * `src` to chunks one behind the other at `dst`, padded; or back. */
    enum terp_status (*move)(struct terp_cuda_device *device,
                             const struct terp_cuda_call *call,
                             const struct terp_array *array, uint64_t first,
                             uint64_t n, const void *src, void *dst,
                             bool gather);

    /* Why the last call of this thread failed, until its next. */
    const char *(*reason)(void);
};

/* The engine's functions, which are the library's and never change: it may be
 * called many times, from several loaders. TERP_ERR_ARGUMENT: another `abi`
 * than the library's. */
typedef enum terp_status
terp_cuda_open_function(unsigned abi,
                        const struct terp_cuda_engine **engine_ret);

TERP_C_END

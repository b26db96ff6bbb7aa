/* The terp codec: one chunk of floating-point values in, one stream out.
 *
 * All functions are re-entrant: any thread may call any of them at any time,
 * but for terp_context_destroy. What is kept between calls belongs to a
 * context: the CUDA device, once a call has asked for it. Sizes of chunks and
 * streams are 64-bit. Streams are described in doc/format.md.
 *
 * A call takes at most 16 KiB of the stack of its thread, where it opens no
 * device: the rest of its memory is allocated.
 *
 * Structs that begin with `size` may grow in later versions. The caller sets
 * it to the struct's sizeof; 0 stands for the struct of version 1.0. A size
 * that the library does not know is TERP_ERR_ARGUMENT.
 */
#ifndef TERP_H
#define TERP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "terp_status.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default) /* what libterp.so shows */
#endif

/* The version of this header, and of the library that is linked. */
#define TERP_VERSION_MAJOR 1
#define TERP_VERSION_MINOR 0
#define TERP_VERSION_PATCH 0
#define TERP_VERSION "1.0.0"
const char *
terp_version(void);

#define TERP_MAX_RANK 4

/* Values are pinned. Integers are coded by an absolute bound of at least 1,
 * rounded down; under any other bound every one of them comes back. A complex
 * value is a real and an imaginary part, which have one fill value; the bound
 * is one for the modulus of the error, and a relative one of the larger range
 * of both parts. */
enum terp_type {
    TERP_FLOAT32 = 0, /* IEEE 754 binary32 */
    TERP_FLOAT64 = 1, /* IEEE 754 binary64 */
    TERP_BYTES = 2,   /* anything else: stored as it is */
    TERP_INT8 = 3,
    TERP_INT16 = 4,
    TERP_INT32 = 5,
    TERP_INT64 = 6,
    TERP_UINT8 = 7,
    TERP_UINT16 = 8,
    TERP_UINT32 = 9,
    TERP_UINT64 = 10,
    TERP_FLOAT16 = 11,   /* IEEE 754 binary16 */
    TERP_BFLOAT16 = 12,  /* the upper half of a float32 */
    TERP_COMPLEX64 = 13, /* two float32 */
    TERP_COMPLEX128 = 14,
    TERP_NTYPES
};

enum terp_bound_mode {
    TERP_BOUND_ABSOLUTE = 1, /* |x - x'| <= bound */
    TERP_BOUND_RELATIVE = 2, /* |x - x'| <= bound * (max - min) of the
                                chunk's valid values, in float64 */
    /* |x - x'| <= bound * |x| of each value; zeros, and signs, are kept. The
     * bound is below 1. With a floor, |x - x'| <= max(floor, bound * |x|);
     * zeros and signs of small values then need not stay. */
    TERP_BOUND_POINTWISE = 3,
    /* The PSNR in dB, 20 log10((max - min) / RMSE) of the chunk's valid
     * values, is at least this, and at most 0.5 dB more where some bound gives
     * that; the encoder looks for it, which takes it some times as long. */
    TERP_BOUND_PSNR = 4,
    TERP_NBOUND_MODES
};

/* How codes become bytes. AUTO is this version's default, RATIO, or HUFFMAN
 * where an encoder finds it smaller; SPEED is what is fastest, HUFFMAN. */
enum terp_pipeline {
    TERP_PIPELINE_AUTO = 0,
    TERP_PIPELINE_HUFFMAN = 1, /* dictionary codebook per tile */
    /* 2 is none: before 1.0 it was a Huffman code of the chunk's own. */
    TERP_PIPELINE_SPEED = 3,
    TERP_PIPELINE_RATIO = 4, /* contexts, and words for runs of zeros */
    TERP_NPIPELINES
};

enum terp_predictor {
    TERP_PREDICTOR_AUTO = 0, /* the tuner chooses */
    TERP_PREDICTOR_SPLINE = 1,
    TERP_PREDICTOR_LORENZO = 2,
    TERP_NPREDICTORS
};

/* How hard an encoder looks for the smallest stream. Any decoder reads all. */
enum terp_effort {
    TERP_EFFORT_DEFAULT = 0, /* what estimates tell is best */
    TERP_EFFORT_FAST = 1,    /* the chunk is its own domain */
    /* All domains, and predictors and pipelines that are left open, are tried;
     * up to thirty times as slow, on the CPU and on a device. */
    TERP_EFFORT_BEST = 2,
    TERP_NEFFORTS
};

/* Whether decoded values keep signs, beside the bound. */
enum terp_keep_sign {
    TERP_KEEP_SIGN_NONE = 0,
    /* A chunk without values below 0 decodes to none below 0, a chunk without
     * values above 0 to none above 0. */
    TERP_KEEP_SIGN_OF_CHUNK = 1,
    /* No value at or above 0 decodes to one below 0, no value at or below 0 to
     * one above 0. */
    TERP_KEEP_SIGN_OF_VALUES = 2,
    TERP_NKEEP_SIGNS
};

/* What people call each: "auto", "huffman", ... NULL: this version of terp has
 * no such number. No bound is bound mode 0. */
const char *
terp_type_name(enum terp_type type);
const char *
terp_bound_mode_name(enum terp_bound_mode bound_mode);
const char *
terp_pipeline_name(enum terp_pipeline pipeline);
const char *
terp_predictor_name(enum terp_predictor predictor);
const char *
terp_effort_name(enum terp_effort effort);

/* Who codes. The bytes are the same. */
enum terp_engine_kind {
    TERP_ENGINE_CPU = 0,
    TERP_ENGINE_CUDA = 1, /* the device, as long as it works */
    TERP_ENGINE_AUTO = 2  /* the device, where it pays */
};

/* Where the chunks and streams of a call are. */
enum terp_memory {
    TERP_MEMORY_HOST = 0,  /* in any memory that the CPU reads and writes */
    TERP_MEMORY_DEVICE = 1 /* on the device of the call's context */
};

/* What to do. `bound_mode` must be said, and `bound` is finite and above zero,
 * and below one for TERP_BOUND_POINTWISE; or it is the absolute bound 0: then
 * every bit comes back, by a prediction of its own, whatever `predictor` says.
 * Values whose bits equal `fill_bits` (float32: the low 32 bits) are kept
 * exactly and ignored by prediction and value range, when `has_fill`, and so
 * are those of `missing_bits`, when `has_missing`; if one
 * is a zero, those of either sign. */
struct terp_params {
    size_t size;
    enum terp_bound_mode bound_mode;
    double bound;
    enum terp_pipeline pipeline;
    enum terp_predictor predictor;
    bool has_fill;
    uint64_t fill_bits;
    enum terp_effort effort;
    /* TERP_BOUND_POINTWISE: finite, the least bound of any value, absolute; 0:
     * there is none. 0 with other bounds. */
    double floor;
    /* Another fill value. Where there are two, no chunk is searched for others
     * that nobody has told. */
    bool has_missing;
    uint64_t missing_bits;
    /* Limits of decoded values, beside the bound. With `has_valid_range` a
     * value at valid_min or above does not decode to one below valid_min, nor a
     * value at valid_max or below to one above valid_max; infinite ones are no
     * limit, and valid_min is at most valid_max. Complex values have no limits.
     * The CPU looks after limits of what a device has encoded, and encodes
     * chunks that are on the device; a chunk that keeps its limits anyway has
     * the same stream as without. */
    enum terp_keep_sign keep_sign;
    bool has_valid_range;
    double valid_min, valid_max;
};

/* Whether terp_encode takes them: TERP_OK, TERP_ERR_BOUND, or
 * TERP_ERR_ARGUMENT for a member with an unknown value. `*reason_ret`, which
 * is static, names the member then; `reason_ret` may be NULL. */
enum terp_status
terp_params_check(const struct terp_params *params, const char **reason_ret);

/* What a chunk is: `rank` dims in C order, slowest first, no zeros. With
 * `stack`, dims[0] counts bricks and each brick of dims[1..] is a domain of
 * its own. `big_endian` is the byte order of the values in memory.
 * TERP_BYTES: rank 1, dims[0] bytes. */
struct terp_chunk {
    enum terp_type type;
    bool big_endian;
    bool stack;
    int rank;
    uint64_t dims[TERP_MAX_RANK];
};

/* Of something that terp_inspect did not count. */
#define TERP_COUNT_UNKNOWN UINT64_MAX

/* What a stream holds; filled in by terp_inspect, but for `size`. */
struct terp_info {
    size_t size;
    struct terp_chunk chunk;
    uint64_t chunk_nbytes;
    uint64_t stream_nbytes;
    int version;           /* of the stream's format */
    const char *pipeline;  /* "raw", "constant", "huffman", ... */
    const char *predictor; /* "none", "spline", "lorenzo", "lossless" */
    double bound;          /* absolute; 0 for raw, constant and lossless, and
                              where pointwise_bound is not 0 */
    uint64_t nescapes;
    uint64_t nspecials;
    uint64_t ntiles;
    uint64_t ntiles_zero;
    uint64_t index_nbytes;           /* places of tiles and partitions */
    uint64_t ntiles_with_entry[256]; /* huffman, ratio: tiles per
                                        dictionary id */
    /* In what shape the encoder predicted the chunk: its own, another one of as
     * many values, or a smaller one where a dimension is left out, along which
     * nothing changes. */
    struct terp_chunk domain;
    /* Relative to each value; 0 where the bound is another one. */
    double pointwise_bound;
    double floor; /* of that; 0: there is none */
    /* Of how many first bytes a stream says that they suffice for steps of 2, 4
     * and 8 (terp_decode_coarse), with a checksum each; 0 where it has no table
     * of these. */
    uint64_t prefix_nbytes[3];
};

/* Makes `chunk_ret` of an array's dims: drops unit dims, folds ranks above
 * four into the slowest. TERP_ERR_ARGUMENT when a dim is 0, or the number of
 * bytes does not fit 63 bits. */
enum terp_status
terp_chunk_make(enum terp_type type, int ndims, const uint64_t *dims,
                struct terp_chunk *chunk_ret);

/* Bytes of the uncompressed chunk; 0 when the chunk is not valid. */
uint64_t
terp_chunk_nbytes(const struct terp_chunk *chunk);

/* Capacity that always suffices for terp_encode. */
uint64_t
terp_encode_bound(const struct terp_chunk *chunk);

/* Compresses `src` (terp_chunk_nbytes bytes) into `dst`.
 *
 * Data that does not compress is stored, so only a wrong argument, a bound
 * that is no bound, a lack of memory or a `dst_cap_nbytes` below
 * terp_encode_bound can fail. The bytes do not depend on `nthreads` (at
 * least 1). `src` is aligned to its type and does not overlap `dst`. Source:
 * doc/design/README.md. */
enum terp_status
terp_encode(const struct terp_params *params, const struct terp_chunk *chunk,
            const void *src, void *dst, uint64_t dst_cap_nbytes,
            uint64_t *dst_nbytes_ret, int nthreads);

/* Reads the frame of a stream (its checksum is verified), so that a caller
 * can allocate info_ret->chunk_nbytes before terp_decode. Counts of tiles
 * and escapes cost a pass over the index, no decoding.
 *
 * It takes some MiB of memory, or some bytes for each of the stream's: a few
 * bytes can announce a chunk of any size. What would take more to count is
 * TERP_COUNT_UNKNOWN: `nspecials`, or all that is about zero tiles, entries and
 * the index. */
enum terp_status
terp_inspect(const void *src, uint64_t src_nbytes, struct terp_info *info_ret);

/* The chunk that a stream's frame announces, and nothing else: the checksum
 * is not verified. For the destination of terp_decode, terp_decode_batch. */
enum terp_status
terp_decoded_chunk(const void *src, uint64_t src_nbytes,
                   struct terp_chunk *chunk_ret);

/* terp_chunk_nbytes of terp_decoded_chunk. */
enum terp_status
terp_decoded_nbytes(const void *src, uint64_t src_nbytes, uint64_t *nbytes_ret);

/* Decompresses a stream into `dst`, which is aligned to the type of its
 * values. Any `src` is safe to pass; on an error the contents of `dst` are
 * unspecified. */
enum terp_status
terp_decode(const void *src, uint64_t src_nbytes, void *dst,
            uint64_t dst_cap_nbytes, uint64_t *dst_nbytes_ret, int nthreads);

/* ---- every 2nd, 4th, 8th... value ---- */

/* The chunk of the values whose every coordinate is a multiple of `step`, also
 * among the bricks of a stack: dims are divided by it, and rounded up. `step`
 * is a power of two, else this is TERP_ERR_ARGUMENT, as for a chunk that is not
 * valid. */
enum terp_status
terp_coarse_chunk(const struct terp_chunk *chunk, uint64_t step,
                  struct terp_chunk *coarse_ret);

/* A stream's first bytes that tell what it holds, and how much of it every
 * step-th value takes: so many, or all that it has. */
#define TERP_STREAM_HEAD_NBYTES 128

/* As terp_decode of those values alone, bit for bit, which `dst` holds:
 * terp_chunk_nbytes of their chunk. `src_nbytes` may be as few as
 * terp_coarse_nbytes tells. Of a stream of the spline predictor finer
 * levels are left out, so that it takes some percent of the time with a step
 * of 4; memory goes, beside that for these values, by the chunk's tiles, and a
 * bit for each of its values where some are special or signs are mixed. Any
 * other stream is decoded whole, and takes the memory for that; and so are
 * chunks of one dimension that were predicted in another shape.
 * `step` is a power of two, else TERP_ERR_ARGUMENT; a step beyond all dims
 * leaves the first value. */
enum terp_status
terp_decode_coarse(const void *src, uint64_t src_nbytes, uint64_t step,
                   void *dst, uint64_t dst_cap_nbytes, uint64_t *dst_nbytes_ret,
                   int nthreads);

/* How many of the first bytes of a stream terp_decode_coarse needs, by its
 * first TERP_STREAM_HEAD_NBYTES, or all that it has. These have a checksum of
 * their own, so that the rest need not be read, and is not looked at.
 * UINT64_MAX: it needs the whole stream. */
enum terp_status
terp_coarse_nbytes(const void *src, uint64_t src_nbytes, uint64_t step,
                   uint64_t *nbytes_ret);

/* ---- contexts ---- */

/* Host memory that the process's own context keeps at most: about what a chunk
 * of 2^24 float32 takes. */
#define TERP_RESERVE_NBYTES (UINT64_C(128) << 20)

/* What calls share: the CUDA device that they use, and where working memory
 * comes from. Any number of threads may use one context. NULL is the process's
 * own, for which all of the options below are the default ones; it is never
 * destroyed. */
struct terp_context;

struct terp_context_options {
    size_t size;
    int nthreads; /* of the CPU, for calls that ask for 0; 0: 1 */
    /* A CUDA ordinal; or -1, the default: TERP_DEVICE in the environment, or
     * the process's rank on its machine, tells (doc/cd_values.md). */
    int device;
    /* What the engine may hold of the device's memory; 0: as much as it has. */
    uint64_t device_memory_limit_nbytes;
    /* Host memory in proportion to chunks, aligned to 64 bytes; NULL where
     * there is none. Both NULL: the C library's. They are called by the thread
     * that calls terp, or by one that works for it. */
    void *(*allocate)(void *arg, size_t nbytes);
    void (*release)(void *arg, void *at);
    void *allocator_arg;
    /* Host memory that is kept from call to call, at most, in blocks of 4 MiB
     * and more; TERP_RESERVE_NBYTES is the default. Not of an allocator's. */
    uint64_t reserve_limit_nbytes;
};

/* Makes a context; `options` NULL: the default ones. The device is opened by
 * the first call that uses it. */
enum terp_status
terp_context_make(const struct terp_context_options *options,
                  struct terp_context **context_ret);

/* Gives back what the context keeps between calls: memory of the host, and of
 * the device, that no running call uses. */
void
terp_context_trim(struct terp_context *context);

/* No call may be running, or come later. NULL is let pass. */
void
terp_context_destroy(struct terp_context *context);

/* ---- batches ---- */

/* How to run a batch; NULL: as {.size = 0}, one thread of the CPU.
 *
 * With TERP_ENGINE_CUDA and TERP_ENGINE_AUTO a call that the device fails in is
 * done by the CPU, also where chunks are on the device. A device that is lost,
 * or cannot be opened, is replaced by the CPU for the rest of the context's
 * life; chunks in its memory are lost with it. AUTO also leaves small batches
 * on the host to the CPU, and the first ones. */
struct terp_run_options {
    size_t size;
    struct terp_context *context;
    enum terp_engine_kind engine;
    enum terp_memory memory;
    int nthreads; /* of the CPU, shared by the chunks; 0: the context's */
    /* TERP_MEMORY_DEVICE: the call's work begins after what is in `stream`, a
     * cudaStream_t of the caller's, when the call is made. */
    bool has_stream;
    void *stream;
};

/* How a batch ran; filled in by the call, but for `size`. */
struct terp_run_result {
    size_t size;
    enum terp_engine_kind used; /* CPU or CUDA */
    const char *device;         /* which one, for people; NULL: none. Valid as
                                   long as the context */
    const char *reason;         /* why not the device, or what was wrong with
                                   the arguments; NULL: nothing. Valid until the
                                   thread's next call of a batch */
};

/* Compresses `nchunks` chunks of one shape: src[i], terp_chunk_nbytes bytes,
 * into dst[i], terp_encode_bound bytes; dst_nbytes_ret[i] is the stream's
 * size. All src[i] and dst[i] are in options->memory and do not overlap, src[i]
 * is aligned to its type, and dst[i] to 16 bytes on the device; the arrays
 * are on the host. What writes src[i] on the device has finished before the
 * call, or is in options->stream, and the streams are complete when it
 * returns. `result` may be NULL.
 *
 * Fails as terp_encode does, and with TERP_ERR_DEVICE where the memory is the
 * device's and no device works; no stream is valid then. */
enum terp_status
terp_encode_batch(const struct terp_run_options *options,
                  const struct terp_params *params,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, void *const *dst,
                  uint64_t *dst_nbytes_ret, struct terp_run_result *result);

/* Decompresses `nchunks` streams of chunks like `chunk`: src[i], src_nbytes[i]
 * bytes, into dst[i], terp_chunk_nbytes bytes. Memory as above, with src[i]
 * aligned to 16 bytes on the device, and dst[i] to its type.
 *
 * status_ret[i] is what terp_decode says of src[i], or TERP_ERR_ARGUMENT for
 * an intact stream of another chunk. Returns TERP_OK, or the first of these
 * that is not; where no stream could be tried (TERP_ERR_ARGUMENT,
 * TERP_ERR_DEVICE), all have the status that is returned. Any contents of
 * src[i] are safe. dst[i] is unspecified where status_ret[i] is an error. */
enum terp_status
terp_decode_batch(const struct terp_run_options *options,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, const uint64_t *src_nbytes,
                  void *const *dst, enum terp_status *status_ret,
                  struct terp_run_result *result);

/* As terp_decode_batch of every step-th value, as terp_decode_coarse has them:
 * dst[i] holds the chunk of these. The CPU has what the device leaves, and all
 * that lies on the host where it may choose. */
enum terp_status
terp_decode_coarse_batch(const struct terp_run_options *options,
                         const struct terp_chunk *chunk, uint64_t step,
                         uint64_t nchunks, const void *const *src,
                         const uint64_t *src_nbytes, void *const *dst,
                         enum terp_status *status_ret,
                         struct terp_run_result *result);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif

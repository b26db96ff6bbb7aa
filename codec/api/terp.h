/* The terp codec: encodes a chunk of floating-point values to a stream, and
 * decodes it.
 *
 * All functions are re-entrant: any thread may call any function at any time,
 * except terp_context_destroy. State that lasts from call to call belongs to a
 * context: the CUDA device, after a call has used it, and reserved memory.
 * Sizes of chunks and streams are 64-bit. doc/format.md describes streams.
 *
 * A call takes at most 16 KiB of its thread's stack, unless it opens a device;
 * all other memory is allocated.
 *
 * Structs that begin with `size` may grow in later versions. The caller sets
 * `size` to the struct's sizeof; 0 stands for the struct of version 1.0. For a
 * size that the library does not know, a call returns TERP_ERR_ARGUMENT. */
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
#pragma GCC visibility push(default) /* exported by libterp.so */
#endif

/* The version of this header; terp_version returns that of the linked
 * library. */
#define TERP_VERSION_MAJOR 2
#define TERP_VERSION_MINOR 0
#define TERP_VERSION_PATCH 0
#define TERP_VERSION "2.0.0"
const char *
terp_version(void);

/* The instruction set of the CPU engine in this process, "baseline" or "avx2":
 * the one that the variable TERP_CPU named at the first call of the codec, or
 * else the best one that both the build and the processor have. */
const char *
terp_cpu_instructions(void);

#define TERP_MAX_RANK 4

/* Types of values. The numbers are pinned. Integers are coded under an absolute
 * bound of at least 1, which is rounded down; under any other bound they are
 * lossless. A complex value is a real and an imaginary part with one fill
 * value. Its bound limits the modulus of the error; a relative bound refers to
 * the larger range of the two parts. */
enum terp_type {
    TERP_FLOAT32 = 0, /* IEEE 754 binary32 */
    TERP_FLOAT64 = 1, /* IEEE 754 binary64 */
    TERP_BYTES = 2,   /* anything else: stored unchanged */
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
    TERP_BOUND_RELATIVE = 2, /* |x - x'| <= bound * (max - min) of the chunk's
                                valid values, in float64 */
    /* |x - x'| <= bound * |x| for each value; zeros and signs are kept. The
     * bound must be below 1. With a floor, |x - x'| <= max(floor, bound * |x|);
     * then zeros and signs of small values may change. */
    TERP_BOUND_POINTWISE = 3,
    /* The PSNR in dB, 20 log10((max - min) / RMSE) over the chunk's valid
     * values, is at least the bound, and at most 0.5 dB more if some absolute
     * bound gives that. The encoder searches for that bound by encoding the
     * chunk several times. */
    TERP_BOUND_PSNR = 4,
    TERP_NBOUND_MODES
};

/* How codes become bytes. AUTO: RATIO, or HUFFMAN when the encoder finds that
 * smaller; later versions may choose otherwise. SPEED: the fastest pipeline;
 * HUFFMAN for bounds relative to each value, a PSNR and limits, and where the
 * caller forbids version 2 of the format. */
enum terp_pipeline {
    TERP_PIPELINE_AUTO = 0,
    TERP_PIPELINE_HUFFMAN = 1, /* each tile selects a codebook of the
                                  dictionary */
    /* 2 is not used: before 1.0 it was a Huffman code of the chunk's own. */
    TERP_PIPELINE_SPEED = 3,
    TERP_PIPELINE_RATIO = 4, /* contexts, and codewords for runs of zeros */
    TERP_NPIPELINES
};

enum terp_predictor {
    TERP_PREDICTOR_AUTO = 0, /* the tuner chooses */
    TERP_PREDICTOR_SPLINE = 1,
    TERP_PREDICTOR_LORENZO = 2,
    TERP_NPREDICTORS
};

/* How hard an encoder searches for the smallest stream. Decoders read all
 * streams. */
enum terp_effort {
    TERP_EFFORT_DEFAULT = 0, /* follows estimates */
    TERP_EFFORT_FAST = 1,    /* does not search for another domain */
    /* Tries all domains, and all predictors and pipelines that the caller
     * leaves open. Takes up to thirty times as long, on the CPU and on a
     * device. */
    TERP_EFFORT_BEST = 2,
    TERP_NEFFORTS
};

/* Whether decoded values keep their signs, besides the bound. */
enum terp_keep_sign {
    TERP_KEEP_SIGN_NONE = 0,
    /* A chunk without values below 0 decodes without values below 0, and
     * likewise above 0. */
    TERP_KEEP_SIGN_OF_CHUNK = 1,
    /* A value >= 0 does not decode to one below 0; a value <= 0 does not decode
     * to one above 0. */
    TERP_KEEP_SIGN_OF_VALUES = 2,
    TERP_NKEEP_SIGNS
};

/* Names for people: "auto", "huffman", ... NULL: this version of terp does not
 * know the number. The bound mode 0 is "none". */
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

/* The engine that codes. Both write the same bytes. */
enum terp_engine_kind {
    TERP_ENGINE_CPU = 0,
    TERP_ENGINE_CUDA = 1, /* the device; the CPU if it fails */
    TERP_ENGINE_AUTO = 2  /* the device where that is faster */
};

/* The memory that holds the chunks and streams of a call. */
enum terp_memory {
    TERP_MEMORY_HOST = 0,  /* memory that the CPU reads and writes */
    TERP_MEMORY_DEVICE = 1 /* memory of the device of the call's context */
};

/* Parameters of an encoder. `bound_mode` must be set. `bound` must be finite
 * and positive, and below 1 for TERP_BOUND_POINTWISE; or it is the absolute
 * bound 0, which means lossless, with a predictor of its own, whatever
 * `predictor` says. With `has_fill`, values whose bits equal `fill_bits`
 * (float32: the low 32 bits) are stored exactly, and prediction and value range
 * ignore them; with `has_missing` the same holds for `missing_bits`. A fill
 * value of 0 stands for zeros of either sign. */
struct terp_params {
    size_t size;
    enum terp_bound_mode bound_mode;
    double bound;
    enum terp_pipeline pipeline;
    enum terp_predictor predictor;
    bool has_fill;
    uint64_t fill_bits;
    enum terp_effort effort;
    /* With TERP_BOUND_POINTWISE: the least absolute bound of any value, finite
     * and positive; 0: no floor. With other bounds it must be 0. */
    double floor;
    /* Another fill value. With both, the encoder searches for no others. Those
     * count for the range unless they are usual ones, such as -999 or 1e20. */
    bool has_missing;
    uint64_t missing_bits;
    /* Limits of decoded values, besides the bound. With `has_valid_range`, a
     * value >= valid_min does not decode to one below valid_min, and a value <=
     * valid_max does not decode to one above valid_max. An infinite limit has
     * no effect; valid_min must be at most valid_max. Complex values have no
     * limits. If chunks are in host memory, a device encodes them without
     * limits, and the CPU checks the streams; if they are in device memory, the
     * CPU encodes them. A chunk that keeps its limits anyway has the same
     * stream as without limits. */
    enum terp_keep_sign keep_sign;
    bool has_valid_range;
    double valid_min, valid_max;
    /* The newest version of the format that a stream may have: 0 is this
     * library's own, 2. An encoder writes version 2 only where that saves at
     * least 2 %. Every version of terp reads version 1; terp 1 refuses version
     * 2. */
    int format;
};

/* Checks parameters: returns TERP_OK, TERP_ERR_BOUND, or TERP_ERR_ARGUMENT for
 * a member with an unknown value. On failure *reason_ret is a static text that
 * names the member; `reason_ret` may be NULL. */
enum terp_status
terp_params_check(const struct terp_params *params, const char **reason_ret);

/* The shape of a chunk: `rank` dims in C order, slowest first; no dim is 0.
 * With `stack`, dims[0] counts bricks, and each brick of dims[1..] is predicted
 * alone. `big_endian` is the byte order of the values in memory. TERP_BYTES:
 * rank 1, dims[0] bytes. */
struct terp_chunk {
    enum terp_type type;
    bool big_endian;
    bool stack;
    int rank;
    uint64_t dims[TERP_MAX_RANK];
};

/* A number that terp_inspect did not count. */
#define TERP_COUNT_UNKNOWN UINT64_MAX

/* The contents of a stream. terp_inspect fills in all members except `size`. */
struct terp_info {
    size_t size;
    struct terp_chunk chunk;
    uint64_t chunk_nbytes;
    uint64_t stream_nbytes;
    int version;           /* version of the stream's format */
    const char *pipeline;  /* "raw", "constant", "huffman", ... */
    const char *predictor; /* "none", "spline", "lorenzo", "lossless" */
    double bound;          /* absolute; 0 for raw, constant and lossless, and if
                              pointwise_bound is not 0 */
    uint64_t nescapes;
    uint64_t nspecials;
    uint64_t ntiles;
    uint64_t ntiles_zero;
    uint64_t index_nbytes;           /* bytes of the index of tiles */
    uint64_t ntiles_with_entry[256]; /* huffman, ratio: tiles of each entry */
    /* The shape in which the encoder predicted the chunk: the chunk's own;
     * another with as many values; or a smaller one, without dimensions along
     * which nothing changes. */
    struct terp_chunk domain;
    /* The pointwise bound; 0 if the bound is not pointwise. */
    double pointwise_bound;
    double floor; /* the floor of pointwise_bound; 0: none */
    /* How many of the stream's first bytes suffice for the steps 2, 4 and 8
     * (terp_decode_coarse). Each prefix has its own checksum. 0: the stream has
     * no table of prefixes. */
    uint64_t prefix_nbytes[3];
};

/* Makes a chunk from the dims of an array: drops dims of 1, and merges the
 * slowest dims if more than four remain. TERP_ERR_ARGUMENT: a dim is 0, or the
 * number of bytes exceeds 63 bits. */
enum terp_status
terp_chunk_make(enum terp_type type, int ndims, const uint64_t *dims,
                struct terp_chunk *chunk_ret);

/* Bytes of the uncompressed chunk; 0 if the chunk is invalid. */
uint64_t
terp_chunk_nbytes(const struct terp_chunk *chunk);

/* The capacity that terp_encode needs; 0 if the chunk is invalid. */
uint64_t
terp_encode_bound(const struct terp_chunk *chunk);

/* Compresses `src` (terp_chunk_nbytes bytes) into `dst`.
 *
 * Data that does not compress is stored. So a call fails only for an invalid
 * argument or bound, for lack of memory, for a chunk above TERP_MAX_MEMORY, or
 * for a `dst_cap_nbytes` below terp_encode_bound. The bytes do not depend on
 * `nthreads` (at least 1). `src` must be aligned to its type and must not
 * overlap `dst`. Source: doc/design/README.md. */
enum terp_status
terp_encode(const struct terp_params *params, const struct terp_chunk *chunk,
            const void *src, void *dst, uint64_t dst_cap_nbytes,
            uint64_t *dst_nbytes_ret, int nthreads);

/* Describes a stream, for example so that a caller can allocate
 * info_ret->chunk_nbytes before terp_decode. Verifies the checksum. Counting
 * tiles and escapes reads the index and decodes nothing.
 *
 * The call takes some MiB of memory, or some bytes for each byte of the stream,
 * because a few bytes can announce a chunk of any size. Numbers that would need
 * more are TERP_COUNT_UNKNOWN: `nspecials`, or all numbers about zero tiles,
 * entries and the index. */
enum terp_status
terp_inspect(const void *src, uint64_t src_nbytes, struct terp_info *info_ret);

/* Reads the chunk that a stream's frame announces, to allocate the destination
 * of terp_decode or terp_decode_batch. Does not verify the checksum. */
enum terp_status
terp_decoded_chunk(const void *src, uint64_t src_nbytes,
                   struct terp_chunk *chunk_ret);

/* Reads the size in bytes of the chunk that terp_decoded_chunk returns. */
enum terp_status
terp_decoded_nbytes(const void *src, uint64_t src_nbytes, uint64_t *nbytes_ret);

/* Decompresses a stream into `dst`, which must be aligned to the type of its
 * values. Any contents of `src` are safe. On an error the contents of `dst` are
 * unspecified. */
enum terp_status
terp_decode(const void *src, uint64_t src_nbytes, void *dst,
            uint64_t dst_cap_nbytes, uint64_t *dst_nbytes_ret, int nthreads);

/* ---- every 2nd, 4th, 8th... value ---- */

/* The chunk of the values whose coordinates are all multiples of `step`; in a
 * stack also the numbers of the bricks. Dims are divided by `step` and rounded
 * up. TERP_ERR_ARGUMENT: `step` is not a power of two, or the chunk is
 * invalid. */
enum terp_status
terp_coarse_chunk(const struct terp_chunk *chunk, uint64_t step,
                  struct terp_chunk *coarse_ret);

/* This many first bytes of a stream (or the whole stream, if it is shorter)
 * suffice for terp_decoded_chunk and terp_coarse_nbytes. */
#define TERP_STREAM_HEAD_NBYTES 128

/* Decodes only the values of terp_coarse_chunk, bit for bit as terp_decode
 * does; `dst` holds that chunk. `src_nbytes` may be as small as
 * terp_coarse_nbytes tells.
 *
 * For a stream of the spline predictor, finer levels are left out: with a step
 * of 4 the call takes some percent of the time. Its memory is in proportion to
 * the decoded values and to the chunk's tiles, plus one bit for each value of
 * the chunk if some values are special or signs are mixed. Any other stream is
 * decoded whole and takes the memory for that; so is a chunk of one dimension
 * that was predicted in another shape.
 *
 * TERP_ERR_ARGUMENT: `step` is not a power of two. A step beyond all dims
 * leaves the first value. */
enum terp_status
terp_decode_coarse(const void *src, uint64_t src_nbytes, uint64_t step,
                   void *dst, uint64_t dst_cap_nbytes, uint64_t *dst_nbytes_ret,
                   int nthreads);

/* How many of a stream's first bytes terp_decode_coarse needs. Reads the first
 * TERP_STREAM_HEAD_NBYTES, or the whole stream if it is shorter. The prefix has
 * a checksum of its own, so the rest of the stream is neither needed nor
 * verified. UINT64_MAX: the whole stream is needed. */
enum terp_status
terp_coarse_nbytes(const void *src, uint64_t src_nbytes, uint64_t step,
                   uint64_t *nbytes_ret);

/* ---- contexts ---- */

/* The default of reserve_limit_nbytes: about the working memory of a chunk of
 * 2^24 float32. */
#define TERP_RESERVE_NBYTES (UINT64_C(128) << 20)

/* State that calls share: the CUDA device, and the source of working memory.
 * Any number of threads may use one context. NULL is the process's own context,
 * which has the default options and is never destroyed. */
struct terp_context;

struct terp_context_options {
    size_t size;
    int nthreads; /* CPU threads of calls with nthreads 0; 0: 1 */
    /* The CUDA ordinal of the device; -1, the default: the variable
     * TERP_DEVICE, or the process's number on its machine, decides
     * (doc/cd_values.md). */
    int device;
    /* The most device memory that the engine may hold; 0: all of it. */
    uint64_t device_memory_limit_nbytes;
    /* The allocator of host memory in proportion to chunks; it returns memory
     * aligned to 64 bytes, or NULL. Both NULL: the C library's. The thread that
     * calls terp, or a thread that works for it, calls them. */
    void *(*allocate)(void *arg, size_t nbytes);
    void (*release)(void *arg, void *at);
    void *allocator_arg;
    /* The most host memory that is kept from call to call, in blocks of 4 MiB
     * and more; the default is TERP_RESERVE_NBYTES. Memory of an allocator is
     * not kept. */
    uint64_t reserve_limit_nbytes;
};

/* Makes a context; `options` NULL: the default options. The first call that
 * uses the device opens it. */
enum terp_status
terp_context_make(const struct terp_context_options *options,
                  struct terp_context **context_ret);

/* Releases the host and device memory that the context keeps between calls and
 * that no running call uses. */
void
terp_context_trim(struct terp_context *context);

/* Destroys a context. No call may use it at the same time or later. NULL is
 * ignored. */
void
terp_context_destroy(struct terp_context *context);

/* ---- batches ---- */

/* How to run a batch; NULL: as {.size = 0}, one CPU thread.
 *
 * With TERP_ENGINE_CUDA and TERP_ENGINE_AUTO, the CPU repeats a call in which
 * the device fails, also for chunks in device memory. If the device is lost or
 * cannot be opened, the CPU replaces it for the rest of the context's life;
 * chunks in the memory of a lost device are lost, too. AUTO also leaves small
 * batches in host memory, and the first ones, to the CPU. */
struct terp_run_options {
    size_t size;
    struct terp_context *context;
    enum terp_engine_kind engine;
    enum terp_memory memory;
    int nthreads; /* CPU threads for all chunks; 0: the context's */
    /* For TERP_MEMORY_DEVICE: a cudaStream_t of the caller's. The call's work
     * begins after the work that is in the stream when the call is made. */
    bool has_stream;
    void *stream;
};

/* How a batch ran. The call fills in all members except `size`. */
struct terp_run_result {
    size_t size;
    enum terp_engine_kind used; /* CPU or CUDA */
    const char *device;         /* the device, for people; NULL: none. Valid as
                                   long as the context */
    const char *reason;         /* why the device was not used, or which
                                   argument is invalid; NULL: neither. Valid
                                   until the thread's next call of a batch */
};

/* Compresses `nchunks` chunks of one shape: src[i], terp_chunk_nbytes bytes,
 * into dst[i], terp_encode_bound bytes; dst_nbytes_ret[i] is the stream's size.
 * All src[i] and dst[i] are in options->memory and must not overlap; src[i]
 * must be aligned to its type, dst[i] on the device to 16 bytes. The arrays of
 * pointers and sizes are in host memory. Work that writes src[i] on the device
 * must have finished before the call or be in options->stream. The streams are
 * complete when the call returns. `result` may be NULL.
 *
 * Fails as terp_encode does, and with TERP_ERR_DEVICE if the memory is the
 * device's and no device works. Then no stream is valid. */
enum terp_status
terp_encode_batch(const struct terp_run_options *options,
                  const struct terp_params *params,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, void *const *dst,
                  uint64_t *dst_nbytes_ret, struct terp_run_result *result);

/* Decompresses `nchunks` streams of chunks like `chunk`: src[i], src_nbytes[i]
 * bytes, into dst[i], terp_chunk_nbytes bytes. The rules for memory are those
 * of terp_encode_batch, but on the device src[i] must be aligned to 16 bytes,
 * and dst[i] to its type.
 *
 * status_ret[i] is the status of terp_decode for src[i], or TERP_ERR_ARGUMENT
 * for an intact stream of another chunk. Returns TERP_OK, or the first status
 * that is not TERP_OK. If no stream could be tried (TERP_ERR_ARGUMENT,
 * TERP_ERR_DEVICE), all have the returned status. Any contents of src[i] are
 * safe. If status_ret[i] is an error, the contents of dst[i] are
 * unspecified. */
enum terp_status
terp_decode_batch(const struct terp_run_options *options,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, const uint64_t *src_nbytes,
                  void *const *dst, enum terp_status *status_ret,
                  struct terp_run_result *result);

/* As terp_decode_batch, but decodes every step-th value as terp_decode_coarse
 * does: dst[i] holds the chunk of terp_coarse_chunk. The CPU decodes the
 * streams that the device does not, and with TERP_ENGINE_AUTO all streams in
 * host memory. */
enum terp_status
terp_decode_coarse_batch(const struct terp_run_options *options,
                         const struct terp_chunk *chunk, uint64_t step,
                         uint64_t nchunks, const void *const *src,
                         const uint64_t *src_nbytes, void *const *dst,
                         enum terp_status *status_ret,
                         struct terp_run_result *result);

/* ---- settings ---- */

/* The most words that terp_settings_read writes, and the bytes of the longest
 * text of terp_settings_write, with its final 0. */
#define TERP_SETTINGS_MAX_NWORDS 15
#define TERP_SETTINGS_TEXT_NBYTES 512

/* Reads settings as text, such as mode="rel", bound=1e-3, and writes them as
 * the parameters (cd_values) of the HDF5 filter. doc/cd_values.md describes
 * both. The text "" is lossless. TERP_ERR_PARAMS: `text` is not valid, and
 * *reason_ret is a static sentence that says why; `reason_ret` may be NULL. */
enum terp_status
terp_settings_read(const char *text,
                   unsigned cd_values_ret[TERP_SETTINGS_MAX_NWORDS],
                   size_t *cd_nelmts_ret, const char **reason_ret);

/* Writes parameters of the filter as text, also parameters that a file keeps.
 * The same settings have the same text, and terp_settings_read reads it as the
 * same settings. The type, the dims, the members and the fill value of a file's
 * parameters belong to its dataset and are left out. A text cannot hold bounds
 * of members. The errors are those of terp_settings_read, and
 * TERP_ERR_BOUND. */
enum terp_status
terp_settings_write(size_t cd_nelmts, const unsigned *cd_values,
                    char text_ret[TERP_SETTINGS_TEXT_NBYTES],
                    const char **reason_ret);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif

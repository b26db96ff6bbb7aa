/* The terp codec: one chunk of floating-point values in, one stream out.
 *
 * All functions are re-entrant: any thread may call any of them at any time.
 * Nothing is kept between calls but the CUDA engine, once it was asked for.
 * Sizes of chunks and streams are 64-bit. Streams are described in
 * doc/format.md.
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

#define TERP_MAX_RANK 4

/* Largest number of bytes by which a stream can exceed its chunk. */
#define TERP_MAX_FRAME_NBYTES 64

enum terp_type {
    TERP_FLOAT32 = 0, /* IEEE 754 binary32 */
    TERP_FLOAT64 = 1, /* IEEE 754 binary64 */
    TERP_BYTES = 2    /* anything else: stored as it is */
};

enum terp_bound_mode {
    TERP_BOUND_ABSOLUTE = 1, /* |x - x'| <= bound */
    TERP_BOUND_RELATIVE = 2  /* |x - x'| <= bound * (max - min) of the
                                chunk's valid values, in float64 */
};

/* How codes become bytes. AUTO is this version's default, RATIO. */
enum terp_pipeline {
    TERP_PIPELINE_AUTO = 0,
    TERP_PIPELINE_HUFFMAN = 1, /* dictionary codebook per tile */
    TERP_PIPELINE_CUSTOM = 2,  /* codebook from the chunk's own histogram */
    TERP_PIPELINE_SPEED = 3,   /* bit planes, no entropy coder */
    TERP_PIPELINE_RATIO = 4    /* contexts, and words for runs of zeros */
};

enum terp_predictor {
    TERP_PREDICTOR_AUTO = 0, /* the tuner chooses */
    TERP_PREDICTOR_SPLINE = 1,
    TERP_PREDICTOR_LORENZO = 2
};

/* Who codes. The bytes are the same. */
enum terp_engine_kind {
    TERP_ENGINE_CPU = 0,
    TERP_ENGINE_CUDA = 1, /* the device, as long as it works */
    TERP_ENGINE_AUTO = 2  /* the device, where it pays */
};

/* Where the chunks and streams of a call are. */
enum terp_memory {
    TERP_MEMORY_HOST = 0,  /* in any memory that the CPU reads and writes */
    TERP_MEMORY_DEVICE = 1 /* on the device that this process uses */
};

/* What to do. `bound` is finite and above zero. Values whose bits equal
 * `fill_bits` (float32: the low 32 bits) are kept exactly and ignored by
 * prediction and value range, when `has_fill`. */
struct terp_params {
    enum terp_bound_mode bound_mode;
    double bound;
    enum terp_pipeline pipeline;
    enum terp_predictor predictor;
    bool has_fill;
    uint64_t fill_bits;
};

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

/* What a stream holds; filled in by terp_inspect. */
struct terp_info {
    struct terp_chunk chunk;
    uint64_t chunk_nbytes;
    uint64_t stream_nbytes;
    int version;
    const char *pipeline;  /* "raw", "constant", "huffman", ... */
    const char *predictor; /* "none", "spline", "lorenzo" */
    double bound;          /* absolute; 0 for raw and constant */
    uint64_t nescapes;
    uint64_t nspecials;
    uint64_t ntiles;
    uint64_t ntiles_zero;
    uint64_t index_nbytes;           /* places of tiles and partitions */
    uint64_t ntiles_with_entry[256]; /* huffman, ratio: tiles per
                                        dictionary id */
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
 * doc/design.md. */
enum terp_status
terp_encode(const struct terp_params *params, const struct terp_chunk *chunk,
            const void *src, void *dst, uint64_t dst_cap_nbytes,
            uint64_t *dst_nbytes_ret, int nthreads);

/* Reads the frame of a stream (its checksum is verified), so that a caller
 * can allocate info_ret->chunk_nbytes before terp_decode. Counts of tiles
 * and escapes cost a pass over the index, no decoding. */
enum terp_status
terp_inspect(const void *src, uint64_t src_nbytes, struct terp_info *info_ret);

/* The distribution of dictionary entry `entry`, "cauchy", "laplace" or
 * "gaussian", and in *place_ret its place among those; NULL if this version
 * has no such entry. */
const char *
terp_entry_family(int entry, int *place_ret);

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

/* How to run a batch and, when the call returns, how it ran.
 *
 * With TERP_ENGINE_CUDA and TERP_ENGINE_AUTO a device that fails, in this call
 * or an earlier one, is replaced by the CPU for the rest of the process; so is
 * one that is not there. AUTO also leaves small batches on the host to the
 * CPU, and the first ones. TERP_DEVICE in the environment, or the process's
 * rank on its machine, tells which device is used (doc/cd_values.md). */
struct terp_run {
    enum terp_engine_kind engine;
    enum terp_memory memory;
    int nthreads; /* of the CPU, shared by the chunks; at least 1 */
    /* Filled in by the call: */
    enum terp_engine_kind used; /* CPU or CUDA */
    const char *device;         /* which one, for people; NULL, or static */
    const char *reason;         /* why not the device; NULL, or static */
};

/* Compresses `nchunks` chunks of one shape: src[i], terp_chunk_nbytes bytes,
 * into dst[i], terp_encode_bound bytes; dst_nbytes_ret[i] is the stream's
 * size. All src[i] and dst[i] are in run->memory and do not overlap, src[i]
 * is aligned to its type, and dst[i] to 16 bytes on the device; the arrays
 * are on the host. What writes src[i] on the device has finished before the
 * call, and the streams are complete when it returns.
 *
 * Fails as terp_encode does, and with TERP_ERR_DEVICE where the memory is the
 * device's and no device works; no stream is valid then. */
enum terp_status
terp_encode_batch(struct terp_run *run, const struct terp_params *params,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, void *const *dst,
                  uint64_t *dst_nbytes_ret);

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
terp_decode_batch(struct terp_run *run, const struct terp_chunk *chunk,
                  uint64_t nchunks, const void *const *src,
                  const uint64_t *src_nbytes, void *const *dst,
                  enum terp_status *status_ret);

#ifdef __cplusplus
}
#endif

#endif

/* What the stages of the CUDA engine share.
 *
 * A call works on a batch of chunks of one shape. Its stages are kernels whose
 * blockIdx.y is the chunk and whose blockIdx.x cuts the chunk's work; between
 * them nothing returns to the host. Each stage reads what it needs to know
 * from the chunk's state and does nothing where the state says that it does
 * not apply, or that the chunk failed. */
#pragma once

#include "codec/format/frame.h"
#include "codec/format/layout.h"
#include "codec/format/lossless.h"
#include "codec/format/low_bits.h"
#include "codec/model/exact.h"
#include "codec/model/plan.h"
#include "codec/model/range.h"
#include "codec/model/sample.h"
#include "gpu/engine/form.cuh"
#include "gpu/engine/platform.cuh"

/* A chunk's counters of blocks that are done, and its flags. Each has one
 * owner. */
enum cuda_progress {
    CUDA_PROGRESS_SCAN,
    CUDA_PROGRESS_ISOLATE,
    CUDA_PROGRESS_NOT_ISOLATED, /* flags */
    CUDA_PROGRESS_FIND_RUNS,    /* specials */
    CUDA_PROGRESS_CHOOSE_MASK_DELTA,
    CUDA_PROGRESS_MEASURE_RUNS,
    CUDA_PROGRESS_MASK,
    CUDA_PROGRESS_TAILS,
    CUDA_PROGRESS_ESCAPES,
    CUDA_PROGRESS_CHECKSUM,
    CUDA_PROGRESS_LISTED, /* escapes */
    CUDA_PROGRESS_INTEGERS,
    CUDA_NPROGRESS
};

/* What the model of the lossless prediction says besides `exact`. */
struct cuda_lossless {
    int64_t center;
    enum terp_lossless_form form;
    unsigned dims;
};

/* encode, lossless: a value in runs, and the range of all others. */
struct cuda_common {
    uint64_t bits;
    unsigned long long min_key, max_key; /* see predict/extremes.cuh */
    unsigned long long nspecials;
    bool is_asked, is_done; /* whether it is one; no more are looked for */
};

/* encode: what is known of integers so far (struct terp_integers). */
struct cuda_integers {
    unsigned long long min_complement, max, scale;
    bool any;
};

/* What a stream's model says. */
struct cuda_model {
    int step_slack_log2;
    int wide;                /* codes; codec/format/low_bits.h */
    int tail_nbits;          /* lorenzo; encode: if that predicts */
    struct terp_exact exact; /* the same; lossless: of integers */
    double step;             /* of ratio one */
    double reference;
    struct terp_level_plan plan[TERP_MAX_LEVELS + 1]; /* [0] is not used */
    unsigned lorenzo_dims;
    struct cuda_lossless lossless;
};

/* A chunk on its way. The host fills in the first part, all else is zero when
 * a call begins. */
struct cuda_chunk {
    const void *src; /* encode: what is coded; decode: the stream */
    /* encode: values in their own byte order; decode: not read, where those
     * of the values go that are wanted, if these are not all */
    const void *original;
    void *dst; /* encode: the stream; decode: what was coded goes there */
    /* The chunk's own values, in the host's byte order; encode: they are only
     * read. What is coded is the same unless logarithms are. */
    void *values;
    uint64_t src_nbytes; /* decode: of the stream, or the prefix that is read */
    /* decode: what the frame says. encode: coding and prediction follow. */
    enum terp_coding coding;
    enum terp_prediction prediction; /* none: constant or raw */
    bool has_specials;
    double bound; /* absolute; encode: CUDA_BOUNDS_GIVEN, of both parts; 0:
                     there is none; CUDA_BOUNDS_OF_RANGES, a part */

    /* TERP_OK as long as the chunk is worth going on with. TERP_ERR_CAPACITY
     * (encode): to be stored raw. TERP_ERR_DEVICE: left to the CPU. */
    enum terp_status status;
    /* decode: the same before verify, and then its own, so that it may run
     * beside all else. It comes before the status. */
    enum terp_status checksum_status;

    /* scan (encode) */
    unsigned long long min_key, max_key; /* as their owner orders values */
    unsigned long long inner_min_key, inner_max_key; /* next to these */
    unsigned long long nmin, nmax;                   /* values at these */
    unsigned long long nspecials; /* decode: values in runs */
    double min, max;              /* of values that are not special */
    uint64_t fills[TERP_NFILLS];
    unsigned progress[CUDA_NPROGRESS];
    unsigned escape_nbytes; /* encode: likely, of a number */

    struct cuda_model model;
    /* encode, of samples: means are taken if they are smaller */
    unsigned long long differences_sum, means_sum;
    double grid_step, grid_inverse;     /* encode: of ratio one, in the type */
    uint64_t spline_cost, lorenzo_cost; /* encode: as the tuner has them */

    /* encode, lossless; counters of blocks that are done, as `progress` */
    unsigned common_progress, prices_progress, references_progress;
    struct cuda_common common;
    unsigned long long nunpredictable; /* by the first choice of a step */
    unsigned long long zeros_saved;    /* bits of differences, by zeros */

    uint64_t constant_bits; /* of what carries the value, when coding is
                               constant */
    /* encode: the caller's, of what has a carrier, or that of the numbers that
     * integers are */
    double carrier_bound;
    struct terp_carrier_head carrier;  /* of integers */
    struct terp_integer_limits limits; /* decode, the same */
    struct cuda_integers integers;

    /* Sections, as bytes of the stream. Each begins where the last ends. */
    uint64_t model_end;
    uint64_t specials_end;        /* encode: then that of tails */
    uint64_t signs_at, signs_end; /* decode: the section of signs */
    uint64_t tails_at;            /* of groups, behind all widths */
    uint64_t shifts_at;           /* lossless: numbers of groups; encode: */
    uint64_t shift_numbers_at; /* their shifts, if there are any, and zeros */
    bool has_shifts;
    uint64_t remainders_at, remainders_nbytes; /* the same */
    unsigned long long nescapes;
    unsigned number_nbytes;  /* of an escape; 0: a word */
    unsigned numbers_nbytes; /* encode: a bit for each that some escape needs */
    uint64_t escapes_end;
    uint64_t low_bits_nbytes; /* encode */
    uint64_t low_records_nbytes;
    uint64_t payload_at;
    uint64_t stream_nbytes;
    unsigned long long checksum; /* of blocks that are done */
    /* encode; with counters of blocks that are done, as `progress` */
    struct terp_prefix prefix[TERP_NPREFIXES];
    unsigned long long prefix_checksum[TERP_NPREFIXES];
    unsigned prefix_progress[TERP_NPREFIXES];

    /* tiles */
    unsigned long long ntiles_best[TERP_NENTRIES]; /* that would select it */
    unsigned long long width_nbits[8];             /* by width of palette */

    /* encode, where the domain was looked for: what the host is told of it
     * (enum terp_domain_verdict); a flat chunk may have rows: the host looks */
    unsigned domain_verdict;
    int domain_nslow;
    bool is_periodic;
    /* the same: what else may be made of the chunk */
    bool may_be_copies, may_repeat, may_be_lossless;
    uint64_t nscanned_specials; /* encode: before prediction adds some */

    /* encode, where other values are coded: the range of the chunk's own, and
     * what is coded instead. */
    double own_min, own_max;
    uint64_t own_fills[TERP_NFILLS];
    unsigned long long least_key; /* the complement of a magnitude's bits */
    bool measures_again;          /* since a fill value had that */
    enum cuda_form form;          /* that the chunk asks for */
    struct terp_magnitudes magnitudes;
    struct terp_pointwise how;
    struct terp_pointwise_head head;           /* decode: too */
    unsigned long long nsigns[1 + TERP_NDIMS]; /* see sections/signs.cu */
};

/* What the host fills in. */
#define CUDA_HOST_NBYTES offsetof(struct cuda_chunk, min_key)
static_assert(CUDA_HOST_NBYTES % 8 == 0 && sizeof(struct cuda_chunk) % 8 == 0,
              "a state is copied by words");

/* Tables that follow from the dictionary, in device memory, made once a
 * context. */
struct cuda_decode_table;
struct cuda_token_decode_table;
struct cuda_tables {
    const uint16_t *d_cost; /* [TERP_NROWS][TERP_ENTRY_STRIDE] */
    const uint16_t
        *d_half_octave_cost;     /* [TERP_NHALF_OCTAVES][TERP_ENTRY_STRIDE] */
    const uint8_t *d_code_nbits; /* [TERP_NSYMBOLS][TERP_ENTRY_STRIDE] */
    const uint32_t *d_codewords; /* [TERP_NENTRIES][TERP_NSYMBOLS],
                                packed */
    const struct cuda_decode_table *d_decode_tables; /* [TERP_NENTRIES] */
    /* The same of tokens. */
    const uint8_t *d_token_nbits;      /* [TERP_NTOKENS][TERP_ENTRY_STRIDE] */
    const uint32_t *d_token_codewords; /* [TERP_NENTRIES][TERP_NTOKENS] */
    const uint32_t *d_token_parts;     /* gpu/entropy/tokens_encode.cuh */
    const struct cuda_token_decode_table
        *d_token_decode_tables; /* [TERP_NENTRIES] */
};

#define CUDA_PARTITION_MAX_NBYTES \
    (TERP_PARTITION_NTILES * TERP_CODEWORDS_MAX_NBYTES)

/* Escapes are counted in ranges of this many points in level order
 * (codec/format/layout.h; C order for lorenzo). */
#define CUDA_RANGE_NVALUES 1024

/* Where a chunk's scratch memory holds what, in bytes from its begin. All are
 * multiples of 256. */
#define CUDA_LEVEL_NCOSTS (3 * TERP_NCLASSES * TERP_NCLASSES)
struct cuda_regions {
    /* Zeroed when a call begins. */
    uint64_t ranges;         /* u64[nranges + 1]: escapes, later their first */
    uint64_t frequency;      /* u64[TERP_NSYMBOLS]: custom, of non-zero tiles;
                                before, counters of tune, which ends with zeros */
    uint64_t lossless_tuner; /* encode, lossless, else empty:
                                struct cuda_lossless_tuner */
    uint64_t context_counts; /* ratio, else empty: gpu/entropy/contexts.cuh */
    uint64_t zeroed_nbytes;
    /* Not zeroed. */
    uint64_t work; /* T[nvalues] in level order; lorenzo: integers.
                      encode: scratch of partitions in the end */
    uint64_t
        lattice; /* T[nlattice], see codec/format/layout.h. encode: scratch of
                    special values when predicted, as large as staging */
    uint64_t symbols;  /* u16[nvalues] in tile order */
    uint64_t coded;    /* ratio, else empty: u16[nvalues] in context order */
    uint64_t contexts; /* ratio, else empty: u8[nvalues] in tile order */
    uint64_t mask;     /* u64 words, a bit a value in C order: special */
    uint64_t runs;     /* decode: of special values; as large as mask */
    uint64_t tune; /* u64[nlevels + 1][CUDA_LEVEL_NCOSTS]: costs, see its owner.
                      decode: few escapes, gpu/sections/escapes.cuh */
    uint64_t cost; /* u32[ntiles][TERP_NENTRIES]: struct cuda_tile_cost;
                      then of any coding see gpu/sections/index.cuh */
    uint64_t entry;    /* u8[ntiles] */
    uint64_t nonzero;  /* u8[ntiles]: 1, the tile has words */
    uint64_t nbytes;   /* u16[ntiles], before reduction */
    uint64_t begin;    /* decode: u64[npartitions + 1] in the payload; when
                          tiles are decoded, and in encode, escapes of groups
                          of ranges */
    uint64_t reduced;  /* decode: u8[npartitions] */
    uint64_t staging;  /* CUDA_PARTITION_MAX_NBYTES a partition, or more:
                          terp_tile_max_nbytes a tile; until all is predicted
                          it serves others as scratch */
    uint64_t codebook; /* custom: the codebook, 32 KiB */
    /* Where chunks may have low bits, else empty, see
       gpu/sections/low_bits.cuh. */
    uint64_t low_tiles; /* struct cuda_low_tile[ntiles] */
    uint64_t low_bits;  /* encode: LOW_SLOT_NBYTES a tile */
    /* The same, see gpu/sections/tails.cuh. */
    uint64_t tail_widths; /* u8[ntiles][LOW_TILE_NGROUPS] */
    uint64_t tail_begins; /* u64[ntiles] */
    /* Where there may be lossless predictions, else empty:
       gpu/sections/ranks.cuh, shifts.cuh, remainders.cu. */
    uint64_t ranks;        /* u64[ntiles + 1] */
    uint64_t shift_groups; /* u64[ntiles * SHIFT_TILE_NGROUPS] */
    uint64_t shift_spans;  /* u64[ntiles] */
    uint64_t remainders;   /* u64[ntiles + 1]: where those of each tile begin */
    /* encode, the same: T[nvalues] of points that are not special, in C order;
       gpu/predict/references_find.cu */
    uint64_t differences;
    uint64_t samples;
    uint64_t swapped; /* the values of big-endian chunks, else empty */
    uint64_t carried; /* what carries values of types that are not coded, else
                         empty */
    uint64_t coded_values; /* T[nvalues] of what is coded instead of values,
                              where that is needed, else empty */
    uint64_t unwanted;     /* the values where not all are wanted, else empty */
    /* Where there may be signs, else empty: gpu/sections/signs.cuh. */
    uint64_t signs;       /* u64 words, a bit a value in C order: negative */
    uint64_t sign_pieces; /* encode: u32, see gpu/predict/pointwise.cu.
                             decode: sums of the mask delta */
    /* decode, where levels are left out, else empty: `mask` and `signs` of the
       lattice. */
    uint64_t lattice_mask, lattice_signs;
    uint64_t signs_zeroed;  /* of their tiles: zeroed when a call begins, */
    uint64_t signs_scratch; /* and not */
    uint64_t stride;        /* of chunks */
};

#define CUDA_FRAME_NBYTES 144
static_assert(CUDA_FRAME_NBYTES >
                  TERP_FRAME_MAX_NBYTES + CUDA_CARRIER_HEAD_MAX_NBYTES,
              "A batch has room for any frame, the head of a carrier, and the "
              "first byte of a form's.");

/* encode: whose bound a chunk's relative one is. */
enum cuda_bounds {
    CUDA_BOUNDS_OWN = 0,
    /* Chunks are pairs, the parts of complex values: what their ranges mean
     * for both. */
    CUDA_BOUNDS_OF_PAIRS,
    CUDA_BOUNDS_GIVEN, /* the host knows what they mean */
    /* Each chunk's, which the host gives as a part of half its range. */
    CUDA_BOUNDS_OF_RANGES
};

static inline bool
cuda_bounds_come_from_host(enum cuda_bounds bounds)
{
    return bounds == CUDA_BOUNDS_GIVEN || bounds == CUDA_BOUNDS_OF_RANGES;
}

struct cuda_batch {
    int nchunks;
    bool decode;
    /* Streams are parts of others: they have no prefixes, and nobody asks for
     * their checksums. */
    bool is_part;
    enum cuda_bounds bounds;
    struct terp_chunk chunk;   /* the shape of all */
    struct terp_params params; /* encode */
    /* encode: asked for; decode: ratio if there may be such streams, which
     * are refused otherwise, else raw. */
    enum terp_coding coding;
    int value_nbytes;   /* of what is coded */
    int carrier_nbytes; /* of what carries the chunks' values */
    int own_nbytes;     /* of these */
    /* What is coded. Chunks that ask for another form, and streams of another
     * one, are left out. */
    enum cuda_form form;
    double pointwise_bound, floor; /* encode */
    double caller_bound;           /* encode: what a form's head says it is */
    /* encode, integers: the caller's bound, and values that are not looked at
     */
    uint64_t integer_bound;
    int nfills;
    uint64_t fill[2];
    /* encode: codes may be wide; decode: there may be such streams, which are
     * refused otherwise. */
    bool may_have_low_bits;
    /* encode: all are coded losslessly, but for constant ones; decode: there
     * may be such streams, which are refused otherwise. */
    bool may_be_lossless;
    /* encode: domains are to be looked for. Where there is one already, the
     * layout is that of the domain, and `frame` tells it. */
    bool finds_domains;
    bool finds_more;
    bool has_domain;
    /* decode: levels that are left out (codec/model/coarse.h), and the tiles of
     * the others. Behind the layout stands that of the lattice that is left.
     * Streams of other predictions than splines are refused then. */
    int nskipped;
    uint64_t lattice_ntiles;
    /* decode: where a table of prefixes has the one that tells these tiles: a
     * stream with a table is read and verified up to there. 0: all are read
     * whole. */
    uint64_t prefix_at;
    /* decode: of the values that are made, every so many-th of each dimension
     * is wanted; 0: all are */
    uint64_t wanted_step;
    uint64_t dims_end; /* where the frame of a raw or constant stream ends */
    uint64_t frame_nbytes; /* of a coded stream's frame, the bound being last */
    unsigned carrier_head_nbytes; /* behind a frame, but for a scale */
    uint64_t model_at;            /* behind both, and the head of a form */
    /* encode: of a spline's stream, which has this table besides, in front of
     * the form's head; and the tiles of each prefix */
    unsigned prefixes_nbytes;
    uint64_t prefix_ntiles[TERP_NPREFIXES];
    uint8_t frame[CUDA_FRAME_NBYTES]; /* of one, but for the bound */
    uint64_t raw_nbytes; /* of a raw stream: coded ones are shorter */
    uint64_t nvalues, ntiles, npartitions, nranges;
    const struct terp_layout *h_layout, *d_layout;
    struct cuda_chunk *d_chunks;
    struct cuda_chunk *d_sign_chunks; /* of signs' tiles, where there may be
                                         some */
    struct cuda_chunk *h_chunks; /* pinned: the device may read it at once */
    struct cuda_tables tables;
    struct cuda_regions at;
    uint8_t *d_scratch;
};

/* A region of a chunk's scratch memory; of the block's own one. */
template <typename T>
static __device__ __forceinline__ T *
region(const struct cuda_batch &batch, unsigned chunk, uint64_t at)
{
    return (T *)(batch.d_scratch + chunk * batch.at.stride + at);
}

template <typename T>
static __device__ __forceinline__ T *
region(const struct cuda_batch &batch, uint64_t at)
{
    return region<T>(batch, blockIdx.y, at);
}

/* Begins a kernel whose blocks are of a chunk each: blockIdx.y. */
static __device__ __forceinline__ struct cuda_chunk &
begin_chunk(const struct cuda_batch &batch)
{
    begin_kernel();
    return batch.d_chunks[blockIdx.y];
}

/* What carries a chunk's values: these, where their type is coded as it is. */
template <typename T>
static __device__ __forceinline__ T *
carried_values(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return batch.carrier_head_nbytes > 0 ? region<T>(batch, batch.at.carried)
                                         : (T *)chunk.values;
}

/* encode: bytes of the scale that a chunk's stream tells, in a carrier's head.
 */
static __device__ __forceinline__ unsigned
cuda_scale_nbytes(const struct cuda_batch &batch,
                  const struct cuda_chunk &chunk)
{
    return cuda_form_is_of_integers(batch.form)
               ? (unsigned)(bit_width(chunk.carrier.scale) + 7) / 8
               : 0;
}

/* encode: bytes of the table of prefixes that a chunk's stream has at first. */
static __device__ __forceinline__ unsigned
cuda_prefixes_nbytes(const struct cuda_batch &batch,
                     const struct cuda_chunk &chunk)
{
    return chunk.prediction == TERP_PREDICTION_SPLINE ? batch.prefixes_nbytes
                                                      : 0;
}

/* decode: bytes of a stream, or of its prefix, that are read. A prefix that is
 * too long, or too short, is 0. */
static inline TERP_HOST_DEVICE uint64_t
cuda_read_nbytes(const struct cuda_batch &batch, const uint8_t *stream,
                 uint64_t nbytes)
{
    if (batch.prefix_at == 0 || nbytes < batch.prefix_at + TERP_PREFIX_NBYTES ||
        (stream[TERP_FRAME_PREDICTION_AT] & TERP_FRAME_PREFIXES) == 0)
        return nbytes;
    const uint64_t read_nbytes = load_le(stream + batch.prefix_at, 4);
    return read_nbytes >= TERP_PREFIX_MIN_NBYTES && read_nbytes <= nbytes
               ? read_nbytes
               : 0;
}

/* encode: bits below symbols, as the tuner takes them. */
static __device__ __forceinline__ int
cuda_nbits_below(const struct cuda_model &model)
{
    return terp_unit_nbits(model.wide) + model.tail_nbits;
}

/* ---- stages: each launches its kernels on the stream ---- */

typedef cudaError_t
cuda_stage(const struct cuda_batch *batch, cudaStream_t stream);

/* In either direction, of lossless predictions whose mask is known: how many
 * points are not special before each tile of them. */
cuda_stage cuda_ranks_find;

/* Blocks for so many shares of a chunk's work, where those of all chunks are to
 * be `most`. */
static inline uint64_t
cuda_nblocks(const struct cuda_batch *batch, uint64_t nshares, uint64_t most)
{
    most /= (unsigned)batch->nchunks;
    return min_u64(nshares, most > 1 ? most : 1);
}

/* Launches a kernel whose first parameter is the batch: `nblocks` blocks for
 * each chunk, blockIdx.y. */
template <typename... Expected, typename... Actual>
static inline cudaError_t
launch_stage(const struct cuda_batch *batch, cudaStream_t stream,
             void (*kernel)(Expected...), uint64_t nblocks, dim3 block,
             Actual... arguments)
{
    return launch(kernel, dim3((unsigned)nblocks, (unsigned)batch->nchunks),
                  block, 0, stream, *batch, arguments...);
}

/* With so many bytes of dynamic shared memory, which may be more than kernels
 * have without asking for it: 0, or the same in all calls, since these may come
 * from several threads. */
template <typename... Expected, typename... Actual>
static inline cudaError_t
launch_shared(const struct cuda_batch *batch, cudaStream_t stream,
              void (*kernel)(Expected...), uint64_t nblocks, dim3 block,
              size_t shared_nbytes, Actual... arguments)
{
    cudaError_t error = cudaSuccess;

    if (shared_nbytes > 0)
        error = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
            (int)shared_nbytes);
    return error == cudaSuccess
               ? launch(kernel,
                        dim3((unsigned)nblocks, (unsigned)batch->nchunks),
                        block, shared_nbytes, stream, *batch, arguments...)
               : error;
}

/* A stage's launches, one after another, up to the first that fails. */
struct stage_launches {
    const struct cuda_batch *batch;
    cudaStream_t stream;
    cudaError_t error = cudaSuccess;

    template <typename... Expected, typename... Actual>
    void add(void (*kernel)(Expected...), uint64_t nblocks, dim3 block,
             Actual... arguments)
    {
        if (error == cudaSuccess)
            error = launch_stage(batch, stream, kernel, nblocks, block,
                                 arguments...);
    }

    /* That of two kernels which is for the type of what is coded. */
    template <typename... Expected, typename... Actual>
    void add_typed(void (*of_float)(Expected...),
                   void (*of_double)(Expected...), uint64_t nblocks, dim3 block,
                   Actual... arguments)
    {
        add(batch->value_nbytes == 8 ? of_double : of_float, nblocks, block,
            arguments...);
    }

    /* Those of another stage, on this batch or on one beside it. */
    void add_stage(cuda_stage *stage, const struct cuda_batch *of)
    {
        if (error == cudaSuccess)
            error = stage(of, stream);
    }
};

/* That of four kernels, or functions, which is for values of so many bytes. */
template <typename Function>
static inline Function *
cuda_of_width(int value_nbytes, Function *of_1, Function *of_2, Function *of_4,
              Function *of_8)
{
    return value_nbytes == 1   ? of_1
           : value_nbytes == 2 ? of_2
           : value_nbytes == 4 ? of_4
                               : of_8;
}

/* encode, in this order */

/* Byte order of values: src to the region `swapped`, which becomes src. */
cuda_stage cuda_swap_src;

/* What carries the values: to the region carried, which is src. Of integers
 * carrier, carrier_bound and form; those that ask for another one:
 * TERP_ERR_DEVICE. */
cuda_stage cuda_carry;

/* Special values and range: min, max, nspecials, fills, has_specials, bound,
 * coding (constant: also constant_bits), step_slack_log2, step, reference,
 * escape_nbytes. */
cuda_stage cuda_scan;

/* What is coded instead of values: to the region coded_values, which becomes
 * src; what cuda_scan finds, of that; how, head; signs. Chunks that ask for
 * another form: TERP_ERR_DEVICE. */
cuda_stage cuda_pointwise_code;

/* domain_verdict, domain_nslow, is_periodic, may_be_copies, may_repeat,
 * may_be_lossless: for the host. No other stage reads them. */
cuda_stage cuda_find_domains;

/* The model's exact quants, wide and tail_nbits. */
cuda_stage cuda_low_bits_find;

/* prediction, the model's plan and lorenzo_dims. */
cuda_stage cuda_tune;

/* The model's wide and tail_nbits, of lorenzo's differences. */
cuda_stage cuda_lorenzo_low_bits;

/* Lossless predictions: values in runs are taken for fill values; fills and all
 * that cuda_scan finds of others. Prediction and model. Integers to work; their
 * differences; values that integers do not reproduce join the special ones.
 * Groups; symbols in tile order, and `ranges`. */
cuda_stage cuda_lossless_find_common;
cuda_stage cuda_lossless_tune;
cuda_stage cuda_lossless_quantize;
cuda_stage cuda_shifts_find;

/* Symbols in tile order, and `ranges`. Spline: reconstructions in work and
 * lattice. Lorenzo: integers in work; values that they do not reproduce join
 * the special ones (mask, nspecials, has_specials). */
cuda_stage cuda_spline_quantize;
cuda_stage cuda_lorenzo_quantize;

/* Ratio: symbols in context order to the region `coded`, where tiles are made
 * of them (coded_symbols, gpu/entropy/contexts.cuh). Takes up `staging` until
 * it is done. */
cuda_stage cuda_context_sort;

/* What tiles are made of: a predictor's symbols, whose codes may be wide, to
 * symbols of tiles, in place. Low bits to the region low_bits. In place of tile
 * order it must not run beside escapes. */
cuda_stage cuda_low_bits_split;

/* Where codes may be wide: where low bits go, and their section's size. It may
 * run beside the tiles. */
cuda_stage cuda_low_bits_place;

/* The section of specials at model_end of dst; specials_end. Of constant
 * chunks too, whose stream it completes but for frame, value and checksum. */
cuda_stage cuda_specials_write;

/* The section of signs, of chunks whose signs are mixed, at specials_end of
 * dst, which becomes their end. */
cuda_stage cuda_signs_write;

/* The section of tails at specials_end of dst, which becomes their end. */
cuda_stage cuda_tails_write;

/* The sections of shifts and of remainders at specials_end of dst, which
 * becomes their end. */
cuda_stage cuda_shifts_write;
cuda_stage cuda_remainders_write;

/* Chunks whose values may repeat earlier ones: TERP_ERR_DEVICE, once the
 * lengths of streams are known. */
cuda_stage cuda_references_ask;

/* Sums `ranges`; nescapes; the section of escapes at specials_end of dst;
 * escapes_end. */
cuda_stage cuda_escapes_write;

/* Codebooks; tiles in staging. May run beside special values and escapes,
 * which write nothing that it needs but the status. */
cuda_stage cuda_tiles_encode;

/* Partitions in staging. Escapes no longer need the region `work`. */
cuda_stage cuda_partitions_encode;

/* Frame, model up to model_end, and behind low bits index, codebooks, payload;
 * or the raw chunk. stream_nbytes. */
cuda_stage cuda_stream_write;

/* The section of low bits at escapes_end of dst. Not for batches of
 * CUDA_SMALL_CHUNK_NPARTITIONS or less, to whose streams cuda_stream_write has
 * added it. */
cuda_stage cuda_low_bits_write;

/* The table of prefixes, or the stream without it where that is short, and
 * checksums into the streams, but for those of CUDA_SHORT_NBYTES or less,
 * which the host seals. Not for batches of CUDA_SMALL_CHUNK_NPARTITIONS or
 * less, whose streams cuda_stream_write has sealed. */
#define CUDA_SMALL_CHUNK_NPARTITIONS 4
#define CUDA_SHORT_NBYTES 256
cuda_stage cuda_seal;

/* decode, in this order, but for cuda_verify, which runs beside all else. The
 * frames have been read; raw streams are passed over. */

/* checksum_status: TERP_ERR_CHECKSUM. Streams of CUDA_SHORT_NBYTES or less are
 * passed over. Needs what the host fills in and zeroed progress, writes only
 * this field, CUDA_PROGRESS_CHECKSUM and the region `cost`, which no other
 * stage of decoding uses: it may run beside all of them, since each of them is
 * safe with any stream. */
cuda_stage cuda_verify;

/* Head and model; walks over the section of specials (runs, specials_end), of
 * signs (signs_at, signs_end), of tails
 * (tails_at, tail_widths, tail_begins), of escapes (nescapes, escapes_end) and
 * of low bits (low_tiles), and reads the index of tiles (nonzero, entry,
 * nbytes, begin, reduced; payload_at; books). Constant: its value. It looks at
 * frames itself, by h_chunks: states may be set up meanwhile. */
cuda_stage cuda_model_read;

/* Of lossless streams, once there is a mask: ranks; walks over the sections of
 * shifts (shifts_at, shift_groups), of remainders (remainders_at and _nbytes)
 * and of escapes, and reads the index of tiles. */
cuda_stage cuda_lossless_read;

/* Where levels are left out: the model becomes that of the lattice, sections
 * that of tiles that are read. */
cuda_stage cuda_coarsen;

/* The mask, where has_specials. Values need it, and symbols in context order:
 * it may run beside what comes before these. */
cuda_stage cuda_specials_mask;

/* The section of signs to the region of signs. */
cuda_stage cuda_signs_read;

/* Where levels are left out: mask and signs of the lattice. */
cuda_stage cuda_coarsen_bits;

/* Symbols in tile order; `ranges`, or the list of escapes. Those in context
 * order go to the region `coded`, and nothing tells of their escapes, nor of
 * those of wide codes. */
cuda_stage cuda_tiles_decode;

/* Symbols of tiles to a predictor's, in place, where codes are wide. Of those
 * in tile order, what tells of their escapes. */
cuda_stage cuda_low_bits_join;

/* Symbols in context order to tile order, and what tells of their escapes. */
cuda_stage cuda_context_restore;

/* Tails into work. */
cuda_stage cuda_tails_place;

/* Differences of lossless predictions into work. */
cuda_stage cuda_shifts_place;

/* Coarse levels of splines, whose escapes it finds itself: all are placed
 * meanwhile. It launches nothing if there are none. */
bool
cuda_spline_begins(const struct cuda_batch *batch);
cuda_stage cuda_spline_begin;

/* For max_cluster_nblocks, of the current context's device. */
unsigned
cuda_spline_find_clusters(void);

/* Sums `ranges`, or reads the list; escaped words into work; checks their
 * number. */
cuda_stage cuda_escapes_place;

/* Values in C order into dst; splines: what cuda_spline_begin has left. */
cuda_stage cuda_spline_reconstruct;
cuda_stage cuda_lorenzo_reconstruct;

/* Integers into work, and their values into dst but for those that have
 * remainders; these. */
cuda_stage cuda_lossless_reconstruct;
cuda_stage cuda_remainders_place;

/* Logarithms in dst to what is carried. */
cuda_stage cuda_pointwise_decode;

/* What is carried to values, but for constant chunks. */
cuda_stage cuda_uncarry;

/* Special values, and the value of a constant chunk, into values: where levels
 * are left out, those of the lattice. */
cuda_stage cuda_specials_read;

cuda_stage cuda_swap_dst;

/* Those that are wanted, where these are not all that were made. */
cuda_stage cuda_wanted_gather;

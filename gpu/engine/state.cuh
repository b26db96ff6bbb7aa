/* The data that the stages of the CUDA engine share, and the list of stages.
 *
 * A call works on a batch of chunks of one shape. Its stages are kernels:
 * blockIdx.y is the chunk, and blockIdx.x divides the chunk's work. Of all
 * results only the plans of large chunks return to the host between two stages
 * (struct cuda_plans). Each chunk has a state in device
 * memory (struct cuda_chunk). A stage reads its parameters from the state and
 * does nothing if the state says that the stage does not apply or that the
 * chunk failed.
 *
 * Three arrays of values occur, and one array may be all three:
 *   own values      those of the caller, in the host's byte order;
 *   carrier         the float32 or float64 values that stand for 16-bit floats
 *                   or integers (codec/model/carrier.h), else the own values;
 *   coded values    the input of prediction: the carrier, or its logarithms or
 *                   rounded values under a pointwise bound.
 * enum cuda_form says how coded values follow from own values. */
#pragma once

#include "codec/format/frame.h"
#include "codec/format/layout.h"
#include "codec/format/lossless.h"
#include "codec/format/low_bits.h"
#include "codec/format/sections.h"
#include "codec/model/exact.h"
#include "codec/model/plan.h"
#include "codec/model/range.h"
#include "codec/model/sample.h"
#include "gpu/engine/form.cuh"
#include "gpu/engine/platform.cuh"

/* A chunk's counters of finished blocks (see is_last_block), and two words that
 * are used otherwise: a set of flags and a number of list entries. One file
 * owns each of them. */
enum cuda_progress {
    CUDA_PROGRESS_SCAN,
    CUDA_PROGRESS_ISOLATE,
    CUDA_PROGRESS_NOT_ISOLATED, /* flags, no counter */
    CUDA_PROGRESS_MASK,
    CUDA_PROGRESS_TAILS,
    CUDA_PROGRESS_ESCAPES,
    CUDA_PROGRESS_CHECKSUM,
    CUDA_PROGRESS_LISTED, /* entries in the list of escapes */
    CUDA_PROGRESS_INTEGERS,
    CUDA_NPROGRESS
};

/* The model of the lossless prediction, apart from cuda_model.exact. */
struct cuda_lossless {
    int64_t center;
    enum terp_lossless_form form;
    unsigned dims;
};

/* encode, lossless: a candidate for a value that fills long runs, and the range
 * of all other values. */
struct cuda_common {
    uint64_t bits;                       /* of the candidate */
    unsigned long long min_key, max_key; /* see predict/extremes.cuh */
    unsigned long long nspecials;
    bool is_found, is_done; /* the value is common enough; the search ended */
};

/* encode: facts about integer values (struct terp_integers), combined over the
 * blocks that have finished. */
struct cuda_integers {
    unsigned long long min_complement, max, scale;
    bool any;
};

/* encode: the progress of gpu/sections/specials_write.cu, and its counts of
 * special values. */
struct cuda_specials {
    unsigned ntaken, nfinished;               /* shares of work */
    unsigned nsteps;                          /* steps that have ended */
    unsigned long long nruns[2 + TERP_NDIMS]; /* by kind */
    /* For each different special value, a color: 1 + its first position; 0:
     * none. More colors than TERP_SPECIALS_MAX_NCOLORS are too many. */
    unsigned long long first[TERP_SPECIALS_MAX_NCOLORS + 1];
};

/* The model of a stream (doc/format.md): how values are predicted and
 * quantized. */
struct cuda_model {
    int step_slack_log2;
    int wide;       /* 0, or 1 + the unit's bits; codec/format/low_bits.h */
    int tail_nbits; /* lorenzo; while encoding: if lorenzo is chosen */
    struct terp_exact exact; /* lorenzo; lossless: of integers */
    double step;             /* quantization step of a level with ratio 1 */
    double reference;
    struct terp_level_plan plan[TERP_MAX_LEVELS + 1]; /* [0] is not used */
    unsigned lorenzo_dims;
    struct cuda_lossless lossless;
};

/* The extremes of a chunk's values, while a scan looks for them. Keys are
 * integers that are ordered as values are. */
struct cuda_extremes {
    unsigned long long min_key, max_key;
    unsigned long long inner_min_key, inner_max_key; /* the next ones inside */
};

/* Facts that the device finds for the host, which chooses among encodings. */
struct cuda_chunk_facts {
    /* If batch.encoding.finds_domains: the verdict is an enum
     * terp_domain_verdict. is_periodic: a chunk of one dimension seems to have
     * rows, and the host will search for their length. */
    unsigned domain_verdict;
    int domain_nslow;
    bool is_periodic;
    /* Alternative encodings that may be smaller: without copies along a
     * dimension, with references to earlier values, lossless, or with ranks of
     * few different values. */
    bool may_be_copies, may_repeat, may_be_lossless, may_be_few;
    bool may_be_splines;        /* of integers */
    uint64_t nscanned_specials; /* before prediction adds some */
};

/* The state of a chunk. The host fills in the members up to min_key; the device
 * zeroes all others when a call begins. Offsets (`_at`, `_end`) count bytes
 * from the stream's first byte. */
struct cuda_chunk {
    const void *src; /* encode: coded values; decode: the stream */
    /* encode: the caller's values in the caller's byte order. decode: if the
     * caller wants only every n-th value, the place for them; it is written,
     * never read. */
    const void *original;
    void *dst; /* encode: the stream; decode: receives coded values */
    /* Own values; an encoder only reads them. Equal to src (encode) or dst
     * (decode) unless a carrier or logarithms are coded. */
    void *values;
    uint64_t src_nbytes; /* decode: of the stream, or of the prefix to read */
    /* decode: from the frame; encode: stages set coding and prediction */
    enum terp_coding coding;
    enum terp_prediction prediction; /* none: constant or raw */
    bool has_specials;
    /* Absolute. encode: an input if batch.encoding.has_bounds, where 0 means
     * that the bound follows from the parameters. */
    double bound;

    /* TERP_OK while stages go on with the chunk. TERP_ERR_CAPACITY (encode):
     * the chunk will be stored raw. TERP_ERR_DEVICE: the CPU codes the
     * chunk. */
    enum terp_status status;
    /* decode: the status at the beginning, then the result of cuda_verify,
     * which alone writes it, beside all other stages. If this is an error, the
     * host gets it in place of `status`. */
    enum terp_status checksum_status;

    struct cuda_extremes scan;     /* encode */
    unsigned long long nmin, nmax; /* how many values equal min and max */
    unsigned long long nspecials;  /* decode: values in runs */
    double min, max;               /* of values that are not special */
    uint64_t fills[TERP_NFILLS];
    unsigned progress[CUDA_NPROGRESS];
    unsigned escape_nbytes; /* encode: expected bytes of an escaped number */

    struct cuda_model model;
    /* encode, sums over samples: means are coded if their sum is smaller */
    unsigned long long differences_sum, means_sum;
    /* encode: the step of a level with ratio 1 as a value of the coded type,
     * and its inverse */
    double grid_step, grid_inverse;
    uint64_t spline_cost, lorenzo_cost; /* encode: estimates of the tuner */

    struct cuda_specials specials; /* encode */
    /* encode, lossless: more counters of finished blocks, as in `progress` */
    unsigned common_progress, prices_progress, references_progress;
    struct cuda_common common;
    unsigned long long nunpredictable; /* by the first choice of a step */
    unsigned long long zeros_saved;    /* bits of differences, by zeros */

    uint64_t constant_bits; /* coding constant: the carrier's one value */
    /* encode: the caller's bound for types with a carrier; for integers the
     * bound of the numbers that they become */
    double carrier_bound;
    struct terp_carrier_head carrier;  /* of integers */
    struct terp_integer_limits limits; /* decode: of integers */
    struct cuda_integers integers;

    /* Sections of the stream. Each begins where the one before it ends. */
    uint64_t model_end;
    uint64_t specials_end; /* encode: each stage that appends a section up to
                              escapes moves it to the section's end */
    uint64_t signs_at, signs_end; /* decode: the section of signs */
    uint64_t tails_at;            /* tails of groups, behind all widths */
    uint64_t shifts_at;           /* lossless: the groups' numbers */
    uint64_t shift_numbers_at;    /* encode: shifts and zeros of the groups */
    bool has_shifts;
    uint64_t remainders_at, remainders_nbytes; /* lossless */
    unsigned long long nescapes;
    unsigned number_nbytes;  /* of an escaped number; 0: a word of the type */
    unsigned numbers_nbytes; /* encode: bit n is set if an escape's number needs
                                n bytes; bit 0 if an escape has no number */
    uint64_t escapes_end;
    uint64_t low_bits_nbytes; /* encode */
    uint64_t low_records_nbytes;
    uint64_t payload_at;
    uint64_t stream_nbytes;
    unsigned long long checksum; /* sum over finished blocks */
    /* encode: prefixes, with a counter of finished blocks for each */
    struct terp_prefix prefix[TERP_NPREFIXES];
    unsigned long long prefix_checksum[TERP_NPREFIXES];
    unsigned prefix_progress[TERP_NPREFIXES];

    /* tiles */
    unsigned long long ntiles_best[TERP_NENTRIES]; /* by the tile's best entry
                                                      of all */
    unsigned long long width_nbits[8]; /* payload bits, by palette width */

    struct cuda_chunk_facts facts; /* encode */

    struct terp_bound_range bound_range; /* encode: of valid values */

    /* encode, pointwise bounds: the range of own values, and how they become
     * coded values */
    double own_min, own_max;
    uint64_t own_fills[TERP_NFILLS];
    unsigned long long least_key; /* complement of the least magnitude's bits */
    bool needs_remeasure; /* a fill value was the least magnitude: read again */
    enum cuda_form form;  /* the form that suits the chunk */
    struct terp_magnitudes magnitudes;
    struct terp_pointwise how;
    struct terp_pointwise_head head;           /* decode: too */
    unsigned long long nsigns[1 + TERP_NDIMS]; /* see sections/signs.cu */
};

/* Bytes of the members that the host fills in. */
#define CUDA_HOST_NBYTES offsetof(struct cuda_chunk, scan)
static_assert(CUDA_HOST_NBYTES % 8 == 0 && sizeof(struct cuda_chunk) % 8 == 0,
              "a state is copied by words");

/* Tables derived from the dictionary of codebooks, in device memory. They are
 * made once per context. An entry is a codebook of the dictionary. */
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
    /* the tables of tokens */
    const uint8_t *d_token_nbits;      /* [TERP_NTOKENS][TERP_ENTRY_STRIDE] */
    const uint32_t *d_token_codewords; /* [TERP_NENTRIES][TERP_NTOKENS] */
    const uint32_t *d_token_parts;     /* gpu/entropy/tokens_encode.cuh */
    const struct cuda_token_decode_table
        *d_token_decode_tables; /* [TERP_NENTRIES] */
};

/* The most bytes of a partition's codewords: the region `staging` has as much
 * for each partition. */
#define CUDA_PARTITION_MAX_NBYTES \
    (TERP_PARTITION_NTILES * TERP_CODEWORDS_MAX_NBYTES)

/* Values of a range: escapes are counted by ranges, so that a scan of the
 * counts gives each range its first escape. Ranges follow level order
 * (codec/format/layout.h), or C order for lorenzo. A range is a block's work in
 * gpu/sections/escapes.cu; the region `ranges` has 8 bytes for each. */
#define CUDA_RANGE_NVALUES 1024

/* Room for costs that the tuner keeps for a level. gpu/predict/tuner_plan.cuh
 * counts them and asserts that they fit; a decoder keeps a list of escapes in
 * the same region (gpu/sections/escapes.cuh), which must fit too. */
#define CUDA_LEVEL_NCOSTS (3 * TERP_NCLASSES * TERP_NCLASSES)

/* The regions of a chunk's scratch memory, as offsets in bytes from its
 * beginning. All are multiples of 256. T is the type of coded values. A region
 * with a condition is empty for other batches. Several regions serve another
 * stage once their contents have been used. */
struct cuda_regions {
    /* Zeroed when a call begins. */
    uint64_t ranges;    /* u64[nranges + 1]: escapes of each range, later the
                           number of its first escape */
    uint64_t frequency; /* custom: u64[TERP_NSYMBOLS], of non-zero tiles. First
                           the tuner's counters, which it zeroes at its end */
    uint64_t lossless_tuner; /* encode, lossless: struct cuda_lossless_tuner */
    uint64_t context_counts; /* ratio: see gpu/entropy/contexts.cuh */
    uint64_t zeroed_nbytes;  /* of the regions so far */
    /* Not zeroed. */
    uint64_t work;     /* T[nvalues] in level order; lorenzo: integers.
                          encode: last scratch of cuda_partitions_encode */
    uint64_t lattice;  /* T[nlattice], see codec/format/layout.h. encode: after
                          prediction scratch of cuda_specials_write, as large as
                          staging */
    uint64_t symbols;  /* u16[nvalues] in tile order */
    uint64_t coded;    /* ratio: u16[nvalues] in context order */
    uint64_t contexts; /* ratio: u8[nvalues] in tile order */
    uint64_t mask;     /* u64 words, a bit a value in C order: special */
    uint64_t runs;     /* decode: runs of special values; as large as mask */
    uint64_t tune;     /* encode: u64[nlevels + 1][CUDA_LEVEL_NCOSTS], the
                          tuner's costs. decode: the list of escapes, see
                          gpu/sections/escapes.cuh */
    uint64_t cost;     /* u32[ntiles][TERP_NENTRIES]: struct cuda_tile_cost;
                          then scratch, see gpu/sections/index.cuh */
    uint64_t entry;    /* u8[ntiles] */
    uint64_t nonzero;  /* u8[ntiles]: 1 if the tile has codewords */
    uint64_t nbytes;   /* u16[ntiles], before reduction */
    uint64_t begin;    /* decode: u64[npartitions + 1], offsets in the payload;
                          in encode, and after tiles are decoded, the sums that
                          number the escapes of groups of ranges */
    uint64_t reduced;  /* decode: u8[npartitions] */
    uint64_t staging;  /* bytes of tiles: CUDA_PARTITION_MAX_NBYTES a partition
                          or terp_tile_max_nbytes a tile, whichever is more.
                          Scratch of other stages up to the tiles */
    uint64_t codebook; /* custom: the codebook, 32 KiB */
    /* If chunks may have low bits: gpu/sections/low_bits.cuh. */
    uint64_t low_tiles; /* struct cuda_low_tile[ntiles] */
    uint64_t low_bits;  /* encode: LOW_SLOT_NBYTES a tile */
    /* If chunks may have low bits: gpu/sections/tails.cuh. */
    uint64_t tail_widths; /* u8[ntiles][TERP_LOW_TILE_NGROUPS] */
    uint64_t tail_begins; /* u64[ntiles] */
    /* If chunks may be lossless: gpu/sections/valid_points.cuh, shifts.cuh,
       remainders.cu. */
    uint64_t valid_before; /* u64[ntiles + 1] */
    uint64_t shift_groups; /* u64[ntiles * SHIFT_TILE_NGROUPS] */
    uint64_t shift_spans;  /* u64[ntiles] */
    uint64_t remainders;   /* u64[ntiles + 1]: where each tile's ones begin */
    /* encode, if chunks may be lossless: T[nvalues] of points that are not
       special, in C order; gpu/predict/references_find.cu. */
    uint64_t differences;
    uint64_t samples;
    uint64_t swapped;      /* big-endian chunks: own values */
    uint64_t carried;      /* types with a carrier: the carrier */
    uint64_t coded_values; /* T[nvalues]: coded values, if they are neither own
                              values nor carrier */
    uint64_t unwanted;     /* if the caller wants every n-th value: all values
                              that the decoder makes */
    /* If chunks may have signs: gpu/sections/signs.cuh. */
    uint64_t signs;       /* u64 words, a bit a value in C order: negative */
    uint64_t sign_pieces; /* encode: u32, see gpu/predict/pointwise.cu.
                             decode: sums of the mask delta */
    /* decode, if levels are left out: mask and signs of the lattice. */
    uint64_t lattice_mask, lattice_signs;
    uint64_t signs_zeroed;  /* the regions of the signs' tiles: zeroed when a
                               call begins */
    uint64_t signs_scratch; /* and not zeroed */
    uint64_t stride;        /* from one chunk's scratch to the next one's */
};

/* Bytes of cuda_batch.frame. The assertion below lists the contents. The batch
 * is a kernel parameter, so it should stay small. */
#define CUDA_FRAME_NBYTES 144
static_assert(CUDA_FRAME_NBYTES >
                  TERP_FRAME_MAX_NBYTES + CUDA_CARRIER_HEAD_MAX_NBYTES,
              "A batch must hold any frame, the head of a carrier, and the "
              "first byte of a form's head.");

/* How an encoder works on all chunks of a batch. */
struct cuda_batch_encoding {
    struct terp_params params;
    bool measures;    /* only the ranges are found */
    bool has_markers; /* terp_source.has_markers */
    bool has_bounds;  /* the host sets cuda_chunk.bound */
    double pointwise_bound, floor;
    double caller_bound; /* in the form's head */
    /* Integers: the caller's bound, and values that are excluded from the
     * search for range and common divisor. */
    uint64_t integer_bound;
    int nfills;
    uint64_t fill[TERP_NFILLS];
    bool finds_domains; /* search for a better domain, for the host */
    bool finds_more;    /* find other alternative encodings as well */
    /* Bytes of the table of prefixes, which only streams of splines have, in
     * front of the form's head; and the tiles of each prefix. */
    unsigned prefixes_nbytes;
    uint64_t prefix_ntiles[TERP_NPREFIXES];
};

/* How a decoder works on all streams of a batch. */
struct cuda_batch_decoding {
    /* The number of finest levels to leave out (codec/model/coarse.h), and the
     * tiles of all other levels. d_layout[1] is then the layout of the lattice
     * that remains. The batch refuses streams of other predictions than
     * splines. */
    int nskipped;
    uint64_t lattice_ntiles;
    /* The offset, in a stream's table of prefixes, of the prefix that holds
     * lattice_ntiles tiles: a stream with a table is read and verified up to
     * that prefix's end. 0: streams are read whole. */
    uint64_t prefix_at;
    /* The caller wants every wanted_step-th of the decoded values in each
     * dimension; 0: all. */
    uint64_t wanted_step;
};

/* Kinds of plans by which level 1 of a chunk of three dimensions is made, if
 * its shape allows marching; a bit each. CUDA_UNEVEN: the values do not allow
 * even tiles (march.cuh). CUDA_STEPS, CUDA_LONG_STEPS: the level does not
 * march. */
enum cuda_march {
    CUDA_MARCH_CUBIC = 1,
    CUDA_MARCH_NATURAL = 2,
    CUDA_MARCH_LONG = 4,
    CUDA_MARCH_BLENDED = 8,
    CUDA_MARCH_LINEAR = 16,
    CUDA_UNEVEN = 32,
    CUDA_STEPS = 64,
    CUDA_LONG_STEPS = 128
};

/* The predictions, and the plans of splines, that chunks of a batch have. Once
 * the host knows them, it launches no kernel that would find nothing to do. */
struct cuda_plans {
    unsigned is_known;         /* if 0, the other members mean nothing */
    unsigned lorenzo, splines; /* whether any chunk has the prediction */
    /* By levels, a bit each; bit 31 stands for all levels from there on:
     * whether any chunk has a long spline or the mean there, or another spline.
     */
    unsigned long_levels, other_levels;
    unsigned marches; /* of enum cuda_march */
};

static inline TERP_HOST_DEVICE unsigned
cuda_level_bit(int l)
{
    return 1u << (l < 31 ? l : 31);
}

/* Whether chunks may have any kind in `mask`. `of`: the member of `plans` that
 * lists these kinds. */
static inline bool
cuda_plans_may_have(const struct cuda_plans &plans, unsigned of, unsigned mask)
{
    return plans.is_known == 0 || (of & mask) != 0;
}

/* The facts that all chunks of a batch share; a parameter of every kernel.
 * Where a chunk turns out to contradict them (another form, another kind of
 * stream), its status becomes TERP_ERR_DEVICE and the host codes it in another
 * batch. */
struct cuda_batch {
    int nchunks;
    bool decodes; /* else encodes */
    /* The streams lie inside other streams: they have no tables of prefixes,
     * and their checksums are neither written nor verified. */
    bool is_part;
    struct cuda_batch_encoding encoding;
    struct cuda_batch_decoding decoding;
    struct terp_chunk chunk; /* the shape of all chunks */
    /* encode: the coding to use. decode: ratio if streams of ratio may occur,
     * else raw; the batch then refuses streams of ratio. */
    enum terp_coding coding;
    int value_nbytes;   /* of a coded value */
    int carrier_nbytes; /* of a carrier's value */
    int own_nbytes;     /* of an own value */
    enum cuda_form form;
    /* encode: codes may be wide. decode: streams with wide codes may occur; if
     * false, the batch refuses them. */
    bool may_have_low_bits;
    /* encode: all chunks are coded losslessly, except constant ones. decode:
     * lossless streams may occur; if false, the batch refuses them. */
    bool may_be_lossless;
    bool has_domain;   /* encode: chunks are coded in a domain of another shape:
                          layout and frame are the domain's */
    uint64_t dims_end; /* where the frame of a raw or constant stream ends */
    uint64_t frame_nbytes; /* of a coded stream's frame, whose last field is
                              the bound */
    unsigned carrier_head_nbytes; /* behind the frame, without a scale */
    uint64_t model_at; /* behind frame, carrier's head and form's head */
    uint8_t frame[CUDA_FRAME_NBYTES]; /* of every stream, without the bound */
    uint64_t raw_nbytes; /* of a raw stream; a coded stream must be shorter */
    uint64_t nvalues, ntiles, npartitions, nranges;
    const struct terp_layout *h_layout, *d_layout;
    struct cuda_chunk *d_chunks;      /* [nchunks] */
    struct cuda_chunk *d_sign_chunks; /* [nchunks]: states of the signs' tiles,
                                         if chunks may have signs */
    struct cuda_chunk *h_chunks;      /* [nchunks], pinned: kernels access it */
    struct cuda_plans plans;
    struct cuda_plans *h_plans; /* pinned; see cuda_plans_tell */
    struct cuda_tables tables;
    struct cuda_regions at;
    uint8_t *d_scratch;
};

/* A region of a chunk's scratch memory. Example: region<uint8_t>(batch, 3,
 * batch.at.entry) is the array of entries of chunk 3; without a number it is
 * that of the block's chunk, blockIdx.y. T is the type of the region's items;
 * struct cuda_regions names it. */
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

/* Begins a kernel: waits for the kernels before it and returns the state of
 * the block's chunk, blockIdx.y. */
static __device__ __forceinline__ struct cuda_chunk &
begin_chunk(const struct cuda_batch &batch)
{
    begin_kernel();
    return batch.d_chunks[blockIdx.y];
}

/* Whether a chunk is coded with a prediction, or with any prediction. Constant
 * and stored chunks are not, nor chunks that have failed. */
static __device__ __forceinline__ bool
is_predicted_by(const struct cuda_chunk &chunk, enum terp_prediction prediction)
{
    return chunk.status == TERP_OK && chunk.prediction == prediction;
}

static __device__ __forceinline__ bool
is_predicted(const struct cuda_chunk &chunk)
{
    return chunk.status == TERP_OK && chunk.prediction != TERP_PREDICTION_NONE;
}

/* A chunk's carrier: the region `carried`, or the own values of types without a
 * carrier. T is float or double. */
template <typename T>
static __device__ __forceinline__ T *
carried_values(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return batch.carrier_head_nbytes > 0 ? region<T>(batch, batch.at.carried)
                                         : (T *)chunk.values;
}

/* encode: bytes of the scale in the carrier's head; only integers have it. */
static __device__ __forceinline__ unsigned
cuda_scale_nbytes(const struct cuda_batch &batch,
                  const struct cuda_chunk &chunk)
{
    return cuda_form_is_of_integers(batch.form)
               ? (unsigned)(bit_width(chunk.carrier.scale) + 7) / 8
               : 0;
}

/* encode: bytes of the table of prefixes in a chunk's stream. cuda_seal may
 * remove the table later. */
static __device__ __forceinline__ unsigned
cuda_prefixes_nbytes(const struct cuda_batch &batch,
                     const struct cuda_chunk &chunk)
{
    return chunk.prediction == TERP_PREDICTION_SPLINE
               ? batch.encoding.prefixes_nbytes
               : 0;
}

/* decode: how many bytes of a stream are read: the whole stream, or the prefix
 * of the levels to decode. 0: the prefix's length is not valid. */
static inline TERP_HOST_DEVICE uint64_t
cuda_read_nbytes(const struct cuda_batch &batch, const uint8_t *stream,
                 uint64_t nbytes)
{
    if (batch.decoding.prefix_at == 0 ||
        nbytes < batch.decoding.prefix_at + TERP_PREFIX_NBYTES ||
        (stream[TERP_FRAME_PREDICTION_AT] & TERP_FRAME_PREFIXES) == 0)
        return nbytes;
    const uint64_t read_nbytes = load_le(stream + batch.decoding.prefix_at, 4);
    return read_nbytes >= TERP_PREFIX_MIN_NBYTES && read_nbytes <= nbytes
               ? read_nbytes
               : 0;
}

/* encode: bits of a code that its symbol leaves out, for the tuner's costs. */
static __device__ __forceinline__ int
cuda_nbits_below(const struct cuda_model &model)
{
    return terp_unit_nbits(model.wide) + model.tail_nbits;
}

/* ---- stages ---- */

/* Launches the stage's kernels on the stream. */
typedef cudaError_t
cuda_stage(const struct cuda_batch *batch, cudaStream_t stream);

/* Both directions, for lossless predictions whose mask is known: counts the
 * points before each tile that are not special, in the region `valid_before`.
 */
cuda_stage cuda_valid_points_count;

/* Blocks per chunk for `nshares` shares of its work, so that all chunks
 * together have at most `most` blocks, but each chunk has one. */
static inline uint64_t
cuda_nblocks(const struct cuda_batch *batch, uint64_t nshares, uint64_t most)
{
    most /= (unsigned)batch->nchunks;
    return min_u64(nshares, most > 1 ? most : 1);
}

/* Launches a kernel whose first parameter is the batch, on a grid (nblocks,
 * nchunks). Expected are the kernel's parameter types, Actual those of
 * `arguments`, which follow the batch; both are deduced, and each argument is
 * converted to its parameter's type. Example: launch_stage(batch, stream,
 * kernel, batch->ntiles, 256, 7) runs kernel(*batch, 7) with a block of 256
 * threads for each tile of each chunk. */
template <typename... Expected, typename... Actual>
static inline cudaError_t
launch_stage(const struct cuda_batch *batch, cudaStream_t stream,
             void (*kernel)(Expected...), uint64_t nblocks, dim3 block,
             Actual... arguments)
{
    return launch(kernel, dim3((unsigned)nblocks, (unsigned)batch->nchunks),
                  block, 0, stream, *batch, arguments...);
}

/* launch_stage with `shared_nbytes` bytes of dynamic shared memory, also more
 * than the 48 KiB that need no attribute. All calls for a kernel must pass the
 * same number or 0: the attribute belongs to the kernel, and threads may
 * launch it at once. */
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

/* The instances of a kernel for both types of coded values. */
#define CUDA_TYPED(kernel) kernel<float>, kernel<double>

/* The launches of a stage, one after another. After the first error it launches
 * nothing more and keeps the error. */
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

    /* Launches the kernel for the type of coded values. Example:
     * add_typed(CUDA_TYPED(sum_rows), 1, 256). */
    template <typename... Expected, typename... Actual>
    void add_typed(void (*of_float)(Expected...),
                   void (*of_double)(Expected...), uint64_t nblocks, dim3 block,
                   Actual... arguments)
    {
        add(batch->value_nbytes == 8 ? of_double : of_float, nblocks, block,
            arguments...);
    }

    /* Runs another stage, on this batch or on a related one. */
    void add_stage(cuda_stage *stage, const struct cuda_batch *of)
    {
        if (error == cudaSuccess)
            error = stage(of, stream);
    }
};

/* Stages of encoding, in their order (gpu/engine/sequence.cu). Each comment
 * names the members of the state and the regions that the stage writes. */

/* Big-endian chunks: own values from src to the region `swapped`, which
 * becomes src. */
cuda_stage cuda_swap_src;

/* Types with a carrier: the carrier to the region `carried`, which becomes src.
 * For integers also carrier, carrier_bound and form, and TERP_ERR_DEVICE if
 * the batch has another form. */
cuda_stage cuda_carry;

/* Finds special values and the range: min, max, nspecials, fills, has_specials,
 * bound, coding (for constant also constant_bits), step_slack_log2, step,
 * reference, escape_nbytes. */
cuda_stage cuda_scan;

/* Pointwise bounds: coded values to the region `coded_values`, which becomes
 * src; sets all that cuda_scan sets, for coded values; how, head; signs.
 * TERP_ERR_DEVICE if the chunk needs another form than the batch's. */
cuda_stage cuda_pointwise_code;

/* Sets `facts` for the host, except nscanned_specials. No other stage reads
 * them. */
cuda_stage cuda_find_domains;

/* The model's exact, wide and tail_nbits. */
cuda_stage cuda_low_bits_find;

/* prediction, the model's plan and lorenzo_dims. */
cuda_stage cuda_tune;

/* The model's wide and tail_nbits for lorenzo, from its differences. */
cuda_stage cuda_lorenzo_low_bits;

/* Tells the host the plans of all chunks while the device goes on: writes
 * h_plans, and is_known last. decode: it runs after cuda_model_read. */
cuda_stage cuda_plans_tell;

/* Lossless predictions. find_common: finds values in long runs and makes them
 * fill values; sets fills and all that cuda_scan sets for the other values.
 * tune: prediction and model. quantize: integers to work, then their
 * differences; values that integers do not reproduce become special.
 * shifts_find: groups of shifts, symbols in tile order, and `ranges`. */
cuda_stage cuda_lossless_find_common;
cuda_stage cuda_lossless_tune;
cuda_stage cuda_lossless_quantize;
cuda_stage cuda_shifts_find;

/* Symbols in tile order, and `ranges`. Spline: reconstructions in work and
 * lattice; cuda_spline_begin makes the coarse levels before. Lorenzo: integers
 * in work; values that integers do not reproduce become special (mask,
 * nspecials, has_specials). */
cuda_stage cuda_spline_quantize;
cuda_stage cuda_lorenzo_quantize;

/* Ratio: writes symbols in context order to the region `coded`; tiles are made
 * from them (coded_symbols, gpu/entropy/contexts.cuh). Uses `staging` as
 * scratch. */
cuda_stage cuda_context_sort;

/* Wide codes: replaces a predictor's symbols by symbols of tiles, in place, and
 * writes low bits to the region low_bits. If the symbols are in tile order,
 * the stage must not run beside escapes, which read them. */
cuda_stage cuda_low_bits_split;

/* Wide codes: finds the place of each tile's low bits, and the size of their
 * section. It may run beside the tiles. */
cuda_stage cuda_low_bits_place;

/* Writes the section of specials at model_end of dst; specials_end. It does so
 * for constant chunks too, whose stream then lacks only frame, value and
 * checksum. */
cuda_stage cuda_specials_write;

/* Each appends its section to dst at specials_end and moves that to the
 * section's end. Only chunks with mixed signs have a section of signs. */
cuda_stage cuda_signs_write;
cuda_stage cuda_tails_write;
cuda_stage cuda_shifts_write;
cuda_stage cuda_remainders_write;

/* Lossless: sets facts.may_repeat if the chunk's values may repeat earlier
 * values. It needs the lengths of streams. */
cuda_stage cuda_references_find;

/* Sums `ranges`; nescapes; writes the section of escapes at specials_end of
 * dst; escapes_end. */
cuda_stage cuda_escapes_write;

/* Selects or makes codebooks and encodes tiles to staging. It may run beside
 * the stages of special values and escapes: of their results it reads only the
 * status. */
cuda_stage cuda_tiles_encode;

/* Partitions in staging. Overwrites `work`: escapes must be written before. */
cuda_stage cuda_partitions_encode;

/* Writes the frame and the model up to model_end, then, behind the low bits,
 * the index, codebooks and payload; sets stream_nbytes. A chunk whose stream
 * would be no shorter than a raw one gets the coding raw and no stream. */
cuda_stage cuda_stream_write;

/* Writes the section of low bits at escapes_end of dst. Batches of up to
 * CUDA_SMALL_CHUNK_NPARTITIONS do not run it: cuda_stream_write wrote the
 * section. */
cuda_stage cuda_low_bits_write;

/* The most partitions of a chunk whose stream one block writes and seals
 * (gpu/sections/stream_small.cu, which divides its 1024 threads among them). 4
 * partitions are 262144 values, a chunk of 64^3. Streams of larger chunks go
 * through cuda_low_bits_write and cuda_seal as well. */
#define CUDA_SMALL_CHUNK_NPARTITIONS 4

/* The most bytes of a stream whose checksum the host computes and verifies.
 * Above, XXH3 has the one algorithm that gpu/block/checksum.cuh implements, and
 * asserts. end_chunks copies shorter streams to the host with a thread a byte.
 */
#define CUDA_SHORT_NBYTES 256

/* Writes the table of prefixes, or removes it from short streams; writes the
 * checksums, except into streams of up to CUDA_SHORT_NBYTES, which the host
 * seals. Batches of up to CUDA_SMALL_CHUNK_NPARTITIONS do not run it:
 * cuda_stream_write has sealed their streams. */
cuda_stage cuda_seal;

/* Stages of decoding, in their order, except cuda_verify, which runs beside all
 * others. begin_chunks has read the frames. The stages skip raw streams, whose
 * values the host copies. */

/* checksum_status: TERP_ERR_CHECKSUM. It skips streams of up to
 * CUDA_SHORT_NBYTES. It reads the host's members of the state and writes only
 * checksum_status, CUDA_PROGRESS_CHECKSUM and the region `cost`, which no
 * other stage of decoding uses. So it may run beside all of them: each is safe
 * with any bytes. */
cuda_stage cuda_verify;

/* Reads head and model; finds the sections of specials (runs, specials_end),
 * signs (signs_at, signs_end), tails (tails_at, tail_widths, tail_begins),
 * escapes (nescapes, escapes_end) and low bits (low_tiles); reads the index of
 * tiles (nonzero, entry, nbytes, begin, reduced; payload_at; codebooks).
 * Constant: reads its value. It reads frames itself, by way of h_chunks, since
 * begin_chunks may still be setting up states. */
cuda_stage cuda_model_read;

/* Lossless streams, after the mask is made: counts valid points; finds the
 * sections of shifts (shifts_at, shift_groups), remainders (remainders_at,
 * remainders_nbytes) and escapes, and reads the index of tiles. */
cuda_stage cuda_lossless_read;

/* If levels are left out: replaces the model by the lattice's, and the sections
 * by those of the tiles to read. */
cuda_stage cuda_coarsen;

/* The mask, if has_specials. It must precede cuda_context_restore and the
 * reconstruction, and may run beside all stages before them. */
cuda_stage cuda_specials_mask;

/* The section of signs to the region `signs`. */
cuda_stage cuda_signs_read;

/* If levels are left out: mask and signs of the lattice. */
cuda_stage cuda_coarsen_bits;

/* Symbols in tile order, and `ranges` or the list of escapes; or symbols in
 * context order to the region `coded`. Escapes of symbols in context order and
 * of wide codes are counted later. */
cuda_stage cuda_tiles_decode;

/* Wide codes: symbols of tiles to a predictor's, in place. Counts or lists the
 * escapes of symbols in tile order. */
cuda_stage cuda_low_bits_join;

/* Symbols from context order to tile order; counts or lists their escapes. */
cuda_stage cuda_context_restore;

/* Tails into work. */
cuda_stage cuda_tails_place;

/* Differences of lossless predictions into work. */
cuda_stage cuda_shifts_place;

/* Both directions: makes the coarse levels of splines. A decoder finds their
 * escapes itself, and places all escapes at the same time; cuda_spline_begins
 * says whether the stage launches anything. */
bool
cuda_spline_begins(const struct cuda_batch *batch);
cuda_stage cuda_spline_begin;

/* Sums `ranges`, or reads the list; escaped words into work; checks their
 * number. */
cuda_stage cuda_escapes_place;

/* Coded values in C order into dst. Splines: only the levels that
 * cuda_spline_begin has left. */
cuda_stage cuda_spline_reconstruct;
cuda_stage cuda_lorenzo_reconstruct;

/* Lossless: integers into work, and values into dst. Values that have
 * remainders follow in cuda_remainders_place. */
cuda_stage cuda_lossless_reconstruct;
cuda_stage cuda_remainders_place;

/* Pointwise bounds: logarithms in dst to the carrier. */
cuda_stage cuda_pointwise_decode;

/* The carrier to own values, except of constant chunks. */
cuda_stage cuda_uncarry;

/* Writes special values, or the value of a constant chunk, into own values; if
 * levels are left out, those of the lattice. */
cuda_stage cuda_specials_read;

/* Big-endian chunks: own values to the caller's byte order. */
cuda_stage cuda_swap_dst;

/* If the caller wants every n-th of the decoded values: copies them. */
cuda_stage cuda_wanted_gather;

/* Describes a stream without decoding it. */
#include "codec/api/inspect.h"

#include "codebooks/codebooks.h"
#include "codec/api/calls.h"
#include "codec/api/processor.h"
#include "codec/compose/stream.h"
#include "codec/format/held.h"

const char *
terp_entry_family(int entry, int *place_ret)
{
    static const char *const families[] = {"cauchy", "laplace", "gaussian"};

    if (entry < 0 || entry >= TERP_NENTRIES)
        return NULL;
    *place_ret = entry % TERP_FAMILY_NENTRIES;
    return families[entry / TERP_FAMILY_NENTRIES];
}

static const char *
name_of_coding(enum terp_coding coding)
{
    return coding == TERP_CODING_RAW ? "raw"
           : coding == TERP_CODING_CONSTANT
               ? "constant"
               : terp_pipeline_name((enum terp_pipeline)(coding - 1));
}

static void
set_coding(const struct terp_frame *frame, struct terp_info *info)
{
    info->pipeline = name_of_coding(frame->coding);
    info->predictor =
        frame->prediction == TERP_PREDICTION_NONE ? "none"
        : frame->prediction == TERP_PREDICTION_LOSSLESS
            ? "lossless"
            : terp_predictor_name((enum terp_predictor)frame->prediction);
    info->domain = frame->domain;
}

static void
set_prefixes(const struct terp_frame *frame, struct terp_info *info)
{
    _Static_assert(sizeof info->prefix_nbytes / sizeof *info->prefix_nbytes ==
                       TERP_NPREFIXES,
                   "terp_info has all prefixes.");
    for (int i = 0; i < TERP_NPREFIXES && frame->has_prefixes; i++)
        info->prefix_nbytes[i] = frame->prefix[i].nbytes;
}

/* Reads all inner streams of a stream that holds others. The values are the
 * last one. */
static enum terp_status
find_values(const struct terp_frame *frame, const uint8_t *body,
            uint64_t body_nbytes, struct terp_part *values_ret)
{
    struct terp_held held;
    enum terp_status st = TERP_OK;

    terp_held_begin(frame, &held);
    for (int i = 0; st == TERP_OK && i < held.nparts; i++) {
        uint64_t nbytes = 0;
        st = terp_held_read(&held, body, body_nbytes, values_ret, &nbytes);
        body += nbytes;
        body_nbytes -= nbytes;
    }
    return st;
}

static enum terp_status
inspect_columns(const struct terp_frame *frame, const uint8_t *body,
                uint64_t body_nbytes, bool sets_coding, struct terp_info *info,
                struct terp_stream_facts *facts);

/* Describes a stream that is not complex. A stream with references, copies or
 * ranks, or on a grid, is described by its inner stream of values or numbers.
 */
static enum terp_status
inspect_one(const struct terp_frame *frame, const uint8_t *body,
            uint64_t body_nbytes, bool sets_coding, struct terp_info *info,
            struct terp_stream_facts *facts)
{
    struct terp_part values;

    facts->codings |= 1u << frame->coding;
    if (frame->coding == TERP_CODING_REFERENCES ||
        frame->coding == TERP_CODING_COPIES ||
        frame->coding == TERP_CODING_RANKS ||
        frame->coding == TERP_CODING_GRID) {
        const enum terp_status st =
            find_values(frame, body, body_nbytes, &values);
        if (st != TERP_OK)
            return st;
        info->bound = values.frame.bound;
        return inspect_one(&values.frame, values.body, values.body_nbytes,
                           sets_coding, info, facts);
    }
    if (frame->coding == TERP_CODING_COLUMNS)
        return inspect_columns(frame, body, body_nbytes, sets_coding, info,
                               facts);
    if (sets_coding)
        set_coding(frame, info);
    return frame->coding == TERP_CODING_RAW
               ? TERP_OK
               : terp_processor_engine()->inspect(frame, body, body_nbytes,
                                                  info, &facts->fills);
}

static uint64_t
sum_of_counts(uint64_t a, uint64_t b)
{
    return a == TERP_COUNT_UNKNOWN || b == TERP_COUNT_UNKNOWN
               ? TERP_COUNT_UNKNOWN
               : a + b;
}

static void
add_counts(struct terp_info *info, const struct terp_info *more)
{
    info->nescapes = sum_of_counts(info->nescapes, more->nescapes);
    info->nspecials = sum_of_counts(info->nspecials, more->nspecials);
    info->ntiles = sum_of_counts(info->ntiles, more->ntiles);
    info->ntiles_zero = sum_of_counts(info->ntiles_zero, more->ntiles_zero);
    info->index_nbytes = sum_of_counts(info->index_nbytes, more->index_nbytes);
    for (int i = 0; i < TERP_NENTRIES; i++)
        info->ntiles_with_entry[i] = sum_of_counts(info->ntiles_with_entry[i],
                                                   more->ntiles_with_entry[i]);
}

/* Describes a stream of columns. Counts are sums over all groups. The bound is
 * the largest bound of a group; a lossless group has the bound 0. Coding and
 * domain are those of the first group. */
static enum terp_status
inspect_columns(const struct terp_frame *frame, const uint8_t *body,
                uint64_t body_nbytes, bool sets_coding, struct terp_info *info,
                struct terp_stream_facts *facts)
{
    struct terp_held held;
    struct terp_part group;
    enum terp_status st = TERP_OK;

    terp_held_begin(frame, &held);
    for (int g = 0; st == TERP_OK && g < held.nparts; g++) {
        struct terp_info own = {0};
        uint64_t nbytes = 0;
        st = terp_held_read(&held, body, body_nbytes, &group, &nbytes);
        if (st != TERP_OK)
            break;
        own.bound = group.frame.bound;
        st = inspect_one(&group.frame, group.body, group.body_nbytes, true,
                         &own, facts);
        info->bound = own.bound > info->bound ? own.bound : info->bound;
        body += nbytes;
        body_nbytes -= nbytes;
        add_counts(info, &own);
        if (g == 0 && sets_coding) {
            info->pipeline = own.pipeline;
            info->predictor = own.predictor;
            info->domain = own.domain;
        }
    }
    return st;
}

/* Describes a stream of complex values. Counts are sums over both parts. Coding
 * and domain are those of the real parts, or of the imaginary parts if only
 * those are predicted. */
static enum terp_status
inspect_parts(const struct terp_open_stream *stream, struct terp_info *info,
              struct terp_stream_facts *facts)
{
    struct terp_part parts[TERP_NPARTS];
    double bound = 0;
    bool any = false;
    enum terp_status st =
        terp_parts_read(&stream->frame.chunk, stream->frame.version,
                        stream->body, stream->body_nbytes, &bound, parts);

    for (int i = 0; st == TERP_OK && i < TERP_NPARTS; i++) {
        const struct terp_frame *frame = &parts[i].frame;
        const bool is_predicted = frame->prediction != TERP_PREDICTION_NONE;
        struct terp_info part = {0};
        const bool sets_coding = i == 0 || (is_predicted && !any);
        any |= is_predicted;
        st = inspect_one(frame, parts[i].body, parts[i].body_nbytes,
                         sets_coding, &part, facts);
        if (sets_coding) {
            info->pipeline = part.pipeline;
            info->predictor = part.predictor;
            info->domain = part.domain;
        }
        add_counts(info, &part);
        if (part.pointwise_bound != 0)
            info->pointwise_bound = part.pointwise_bound;
    }
    if (any && info->pointwise_bound == 0)
        info->bound = bound;
    return st;
}

enum terp_status
terp_do_inspect(const struct terp_open_stream *stream, const void *src,
                uint64_t src_nbytes, struct terp_info *info_ret,
                struct terp_stream_facts *facts_ret)
{
    const struct terp_frame *frame = &stream->frame;

    *info_ret = (struct terp_info){
        .size = info_ret->size,
        .chunk = frame->chunk,
        .chunk_nbytes = terp_chunk_nbytes(&frame->chunk),
        .stream_nbytes = src_nbytes,
        .version = ((const uint8_t *)src)[TERP_FRAME_VERSION_AT],
        .bound = frame->bound};
    *facts_ret = (struct terp_stream_facts){0};
    set_prefixes(frame, info_ret);
    facts_ret->codings = 1u << frame->coding;
    if (frame->coding == TERP_CODING_PARTS)
        return inspect_parts(stream, info_ret, facts_ret);
    return inspect_one(frame, stream->body, stream->body_nbytes, true, info_ret,
                       facts_ret);
}

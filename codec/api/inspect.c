/* What a stream tells of itself. */
#include "codec/api/inspect.h"

#include "codebooks/codebooks.h"
#include "codec/api/context.h"
#include "codec/api/stream.h"
#include "codec/format/base.h"

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
    return coding == TERP_CODING_RAW        ? "raw"
           : coding == TERP_CODING_CONSTANT ? "constant"
                                            : terp_pipeline_names[coding - 1];
}

enum terp_status
terp_inspect(const void *src, uint64_t src_nbytes, struct terp_info *info_ret)
{
    struct terp_stream stream;
    const struct terp_frame *frame = &stream.frame;

    if (!terp_size_is_known(info_ret->size, sizeof *info_ret))
        return TERP_ERR_ARGUMENT;
    enum terp_status st = terp_stream_open(src, src_nbytes, &stream);
    if (st != TERP_OK)
        return st;
    *info_ret = (struct terp_info){
        .size = info_ret->size,
        .chunk = frame->chunk,
        .domain = frame->domain,
        .chunk_nbytes = terp_chunk_nbytes(&frame->chunk),
        .stream_nbytes = src_nbytes,
        .version = ((const uint8_t *)src)[TERP_FRAME_VERSION_AT],
        .pipeline = name_of_coding(frame->coding),
        .predictor = frame->prediction == TERP_PREDICTION_NONE
                         ? "none"
                         : terp_predictor_names[frame->prediction],
        .bound = frame->bound};
    return frame->coding == TERP_CODING_RAW
               ? TERP_OK
               : terp_cpu_inspect(frame, stream.body, stream.body_nbytes,
                                  info_ret);
}

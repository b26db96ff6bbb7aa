#include "codebooks/codebooks.h"
#include "codec/engine.h"
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

enum terp_status
terp_inspect(const void *src, uint64_t src_nbytes, struct terp_info *info_ret)
{
    static const char *const pipelines[] = {"raw",    "constant", "huffman",
                                            "custom", "speed",    "ratio"};
    static const char *const predictors[] = {"none", "spline", "lorenzo"};
    struct terp_frame frame;
    int frame_nbytes;
    enum terp_status st =
        terp_frame_read(src, src_nbytes, &frame, &frame_nbytes);

    if (st == TERP_OK)
        st = terp_frame_verify(src, src_nbytes);
    if (st != TERP_OK)
        return st;
    memset(info_ret, 0, sizeof *info_ret);
    info_ret->chunk = frame.chunk;
    info_ret->chunk_nbytes = terp_chunk_nbytes(&frame.chunk);
    info_ret->stream_nbytes = src_nbytes;
    info_ret->version = TERP_FORMAT_VERSION;
    info_ret->pipeline = pipelines[frame.coding];
    info_ret->predictor = predictors[frame.prediction];
    info_ret->bound = frame.bound;
    if (frame.coding == TERP_CODING_RAW)
        return TERP_OK;
    return terp_cpu_inspect(&frame, (const uint8_t *)src + frame_nbytes,
                            src_nbytes - (uint64_t)frame_nbytes, info_ret);
}

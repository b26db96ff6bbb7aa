/* Names of what callers choose, and texts of result codes: all for people. */
#include "codec/api/terp.h"

const char *const terp_bound_mode_names[TERP_NBOUND_MODES + 1] = {
    "none", [TERP_BOUND_ABSOLUTE] = "absolute",
    [TERP_BOUND_RELATIVE] = "relative", [TERP_BOUND_POINTWISE] = "pointwise",
    [TERP_BOUND_PSNR] = "psnr"};

const char *const terp_pipeline_names[TERP_NPIPELINES + 1] = {
    [TERP_PIPELINE_AUTO] = "auto",
    [TERP_PIPELINE_HUFFMAN] = "huffman",
    [TERP_PIPELINE_CUSTOM] = "custom",
    [TERP_PIPELINE_SPEED] = "speed",
    [TERP_PIPELINE_RATIO] = "ratio"};

const char *const terp_predictor_names[TERP_NPREDICTORS + 1] = {
    [TERP_PREDICTOR_AUTO] = "auto",
    [TERP_PREDICTOR_SPLINE] = "spline",
    [TERP_PREDICTOR_LORENZO] = "lorenzo"};

const char *const terp_effort_names[TERP_NEFFORTS + 1] = {
    [TERP_EFFORT_DEFAULT] = "default",
    [TERP_EFFORT_FAST] = "fast",
    [TERP_EFFORT_BEST] = "best"};

const char *
terp_status_text(enum terp_status status)
{
    static const char *const texts[] = {
        [TERP_OK] = "success",
        [TERP_ERR_ARGUMENT] = "invalid argument",
        [TERP_ERR_BOUND] = ("the error bound must be a finite number above "
                            "zero, a pointwise one below one"),
        [TERP_ERR_PARAMS] = "cd_values are not valid terp parameters",
        [TERP_ERR_MEMORY] = "out of memory",
        [TERP_ERR_CAPACITY] = "the destination buffer is too small",
        [TERP_ERR_MAGIC] = "the data is not a terp stream",
        [TERP_ERR_VERSION] =
            "the stream was written by a newer version of terp",
        [TERP_ERR_TRUNCATED] = "the stream is truncated",
        [TERP_ERR_CHECKSUM] =
            "the stream is damaged: its checksum does not match",
        [TERP_ERR_CORRUPT] =
            "the stream is malformed: its contents contradict each other",
        [TERP_ERR_DEVICE] = "the CUDA device failed, or there is none",
        [TERP_ERR_HDF5] = "HDF5 failed"};

    return (unsigned)status < sizeof texts / sizeof *texts ? texts[status]
                                                           : "unknown status";
}

/* Names of types, bound modes, pipelines, predictors and efforts, and texts of
 * result codes, for people. */
#include "codec/api/terp.h"

#define NAME_OF(names, number) \
    name_of(names, sizeof names / sizeof *names, (unsigned)(number))

static const char *
name_of(const char *const *names, size_t nnames, unsigned number)
{
    return number < nnames ? names[number] : NULL;
}

const char *
terp_type_name(enum terp_type type)
{
    static const char *const names[] = {
        [TERP_FLOAT32] = "float32",      [TERP_FLOAT64] = "float64",
        [TERP_BYTES] = "bytes",          [TERP_INT8] = "int8",
        [TERP_INT16] = "int16",          [TERP_INT32] = "int32",
        [TERP_INT64] = "int64",          [TERP_UINT8] = "uint8",
        [TERP_UINT16] = "uint16",        [TERP_UINT32] = "uint32",
        [TERP_UINT64] = "uint64",        [TERP_FLOAT16] = "float16",
        [TERP_BFLOAT16] = "bfloat16",    [TERP_COMPLEX64] = "complex64",
        [TERP_COMPLEX128] = "complex128"};

    return NAME_OF(names, type);
}

const char *
terp_bound_mode_name(enum terp_bound_mode bound_mode)
{
    static const char *const names[] = {
        "none", [TERP_BOUND_ABSOLUTE] = "absolute",
        [TERP_BOUND_RELATIVE] = "relative",
        [TERP_BOUND_POINTWISE] = "pointwise", [TERP_BOUND_PSNR] = "psnr"};

    return NAME_OF(names, bound_mode);
}

const char *
terp_pipeline_name(enum terp_pipeline pipeline)
{
    static const char *const names[] = {[TERP_PIPELINE_AUTO] = "auto",
                                        [TERP_PIPELINE_HUFFMAN] = "huffman",
                                        [TERP_PIPELINE_SPEED] = "speed",
                                        [TERP_PIPELINE_RATIO] = "ratio"};

    return NAME_OF(names, pipeline);
}

const char *
terp_predictor_name(enum terp_predictor predictor)
{
    static const char *const names[] = {[TERP_PREDICTOR_AUTO] = "auto",
                                        [TERP_PREDICTOR_SPLINE] = "spline",
                                        [TERP_PREDICTOR_LORENZO] = "lorenzo"};

    return NAME_OF(names, predictor);
}

const char *
terp_effort_name(enum terp_effort effort)
{
    static const char *const names[] = {[TERP_EFFORT_DEFAULT] = "default",
                                        [TERP_EFFORT_FAST] = "fast",
                                        [TERP_EFFORT_BEST] = "best"};

    return NAME_OF(names, effort);
}

const char *
terp_status_text(enum terp_status status)
{
    static const char *const texts[] = {
        [TERP_OK] = "success",
        [TERP_ERR_ARGUMENT] = "invalid argument",
        [TERP_ERR_BOUND] =
            ("the bound must be finite and positive (0 is allowed in absolute "
             "mode only, and a pointwise bound must be below 1)"),
        [TERP_ERR_PARAMS] = "cd_values are not valid terp parameters",
        [TERP_ERR_MEMORY] = "out of memory",
        [TERP_ERR_CAPACITY] = "the destination buffer is too small",
        [TERP_ERR_MAGIC] = "the data is not a terp stream",
        [TERP_ERR_VERSION] =
            ("the stream was written by a newer version of terp, or by one "
             "before 1.0"),
        [TERP_ERR_TRUNCATED] = "the stream is truncated",
        [TERP_ERR_CHECKSUM] =
            "the stream is damaged: its checksum does not match",
        [TERP_ERR_CORRUPT] =
            "the stream is malformed: its contents contradict each other",
        [TERP_ERR_DEVICE] = "the CUDA device failed, or there is none",
        [TERP_ERR_HDF5] = "HDF5 failed",
        [TERP_ERR_LIMIT] =
            "the call needs more memory than TERP_MAX_MEMORY allows"};

    return (unsigned)status < sizeof texts / sizeof *texts ? texts[status]
                                                           : "unknown status";
}

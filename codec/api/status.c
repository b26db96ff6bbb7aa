/* What result codes say to people. */
#include "codec/api/terp_status.h"

const char *
terp_status_text(enum terp_status status)
{
    switch (status) {
    case TERP_OK:
        return "success";
    case TERP_ERR_ARGUMENT:
        return "invalid argument";
    case TERP_ERR_BOUND:
        return "the error bound must be a finite number above zero";
    case TERP_ERR_PARAMS:
        return "cd_values are not valid terp parameters";
    case TERP_ERR_MEMORY:
        return "out of memory";
    case TERP_ERR_CAPACITY:
        return "the destination buffer is too small";
    case TERP_ERR_MAGIC:
        return "the data is not a terp stream";
    case TERP_ERR_VERSION:
        return "the stream was written by a newer version of terp";
    case TERP_ERR_TRUNCATED:
        return "the stream is truncated";
    case TERP_ERR_CHECKSUM:
        return "the stream is damaged: its checksum does not match";
    case TERP_ERR_CORRUPT:
        return "the stream is malformed: its contents contradict each other";
    case TERP_ERR_DEVICE:
        return "the CUDA device failed, or there is none";
    case TERP_ERR_HDF5:
        return "HDF5 failed";
    }
    return "unknown status";
}

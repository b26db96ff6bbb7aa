/* Replaces loader.c on systems for which the CUDA engine is not built: Windows,
 * macOS. */
#include "codec/api/loader.h"

const char *
terp_cuda_ended(void)
{
    return NULL;
}

const struct terp_cuda_engine *
terp_cuda_load(const char **reason_ret)
{
    *reason_ret = "terp has no CUDA engine for this system";
    return NULL;
}

bool
terp_cuda_end_at_exit(void)
{
    return true;
}

/* Prints which engine a program that links libterp_codec.a uses. With an
 * argument, changes to that folder first. */
#define _POSIX_C_SOURCE 200809L /* for chdir */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "codec/api/terp.h"

int
main(int argc, char **argv)
{
    static const float values[64];
    static uint8_t stream[4096];
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 1, {64}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 1e-3};
    const struct terp_run_options options = {.size = sizeof options,
                                             .engine = TERP_ENGINE_CUDA};
    struct terp_run_result result = {.size = sizeof result};
    const void *src = values;
    void *dst = stream;
    uint64_t nbytes;

    if ((argc > 1 && chdir(argv[1]) != 0) ||
        terp_encode_bound(&chunk) > sizeof stream ||
        terp_encode_batch(&options, &params, &chunk, 1, &src, &dst, &nbytes,
                          &result) != TERP_OK)
        return EXIT_FAILURE;
    if (result.used == TERP_ENGINE_CUDA)
        printf("cuda: %s\n", result.device);
    else
        printf("cpu: %s\n", result.reason);
    return EXIT_SUCCESS;
}

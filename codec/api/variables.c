/* Reads environment variables. */
#include "codec/api/variables.h"

#include <stdlib.h>
#include <string.h>

#include "codec/api/processor.h"

bool
terp_variable_nthreads(int *nthreads_ret)
{
    const char *text = getenv("TERP_NUM_THREADS");
    char *end;

    *nthreads_ret = 1;
    if (text == NULL || *text == '\0')
        return true;
    long number = strtol(text, &end, 10);
    if (*end != '\0' || number < 0 || number > TERP_MAX_NTHREADS)
        return false;
    *nthreads_ret = number == 0 ? terp_processor_count() : (int)number;
    return true;
}

bool
terp_variable_engine(enum terp_engine_kind *engine_ret)
{
    static const char *const names[] = {[TERP_ENGINE_CPU] = "cpu",
                                        [TERP_ENGINE_CUDA] = "cuda",
                                        [TERP_ENGINE_AUTO] = "auto"};
    const char *text = getenv("TERP_ENGINE");

    *engine_ret = TERP_ENGINE_CPU;
    if (text == NULL || *text == '\0')
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) != 0)
            continue;
        *engine_ret = (enum terp_engine_kind)i;
        return true;
    }
    return false;
}

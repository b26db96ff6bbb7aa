/* What each fuzz target has. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Survives NDEBUG. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/* Declarations for every fuzz target. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* assert that also works with NDEBUG. */
#define CHECK(condition)                                               \
    do {                                                               \
        if (!(condition)) {                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, \
                    #condition);                                       \
            abort();                                                   \
        }                                                              \
    } while (0)

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/* Optional in a target. Returns the new length of `data`, at most
 * max_nbytes. */
size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t nbytes, size_t max_nbytes,
                        unsigned seed);

/* libFuzzer's own mutations. */
size_t
LLVMFuzzerMutate(uint8_t *data, size_t nbytes, size_t max_nbytes);

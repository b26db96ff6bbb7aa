/* What each fuzz target has. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Survives NDEBUG. */
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

/* Targets may have one: the length that `data` then has, at most max_nbytes. */
size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t nbytes, size_t max_nbytes,
                        unsigned seed);

/* libFuzzer's own mutations. */
size_t
LLVMFuzzerMutate(uint8_t *data, size_t nbytes, size_t max_nbytes);

/* Floating-point environments that a host may have. */
#pragma once

#include <stdbool.h>

enum test_environment {
    TEST_ENVIRONMENT_DEFAULT,
    TEST_ENVIRONMENT_FLUSH, /* subnormal numbers are zero, as -ffast-math has */
    TEST_ENVIRONMENT_UPWARD,
    TEST_ENVIRONMENT_DOWNWARD,
    TEST_ENVIRONMENT_TOWARDZERO,
    TEST_ENVIRONMENT_ERRORS, /* invalid operations, divisions by zero and
                                overflow end the process, as gfortran's
                                -ffpe-trap has it */
    TEST_ENVIRONMENT_TRAPS,  /* every exception does */
    TEST_NENVIRONMENTS
};

extern const char *const test_environment_name[TEST_NENVIRONMENTS];

/* Sets the calling thread's environment, with no exception seen. False where
 * the system has no such one; the thread has the default one then. */
bool
test_environment_set(enum test_environment environment);

/* Whether the thread has this environment, and has seen no exception. */
bool
test_environment_is(enum test_environment environment);

/* Floating-point environments that a host program may run with. */
#pragma once

#include <stdbool.h>

enum test_environment {
    TEST_ENVIRONMENT_DEFAULT,
    TEST_ENVIRONMENT_FLUSH, /* subnormal numbers are zero, as by -ffast-math */
    TEST_ENVIRONMENT_UPWARD,
    TEST_ENVIRONMENT_DOWNWARD,
    TEST_ENVIRONMENT_TOWARDZERO,
    TEST_ENVIRONMENT_ERRORS, /* invalid operations, divisions by zero and
                                overflow end the process, as with gfortran's
                                -ffpe-trap */
    TEST_ENVIRONMENT_TRAPS,  /* every exception ends the process */
    TEST_NENVIRONMENTS
};

extern const char *const test_environment_name[TEST_NENVIRONMENTS];

/* Sets the calling thread's environment and clears its exception flags. If the
 * system lacks this environment, returns false and sets the default one. */
bool
test_environment_set(enum test_environment environment);

/* Whether the thread has this environment and clear exception flags. */
bool
test_environment_is(enum test_environment environment);

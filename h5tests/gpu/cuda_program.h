/* Shared by programs that check the device. */
#pragma once

#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "codec/api/terp.h"

/* A program may set this. It is called before the program stops, and prints
 * more. */
static void (*tell_more)(void);

/* Exits at once, because other threads may be in calls. */
static inline void
stop(const char *what, const char *why)
{
    printf("FAILED: %s: %s\n", what, why);
    if (tell_more != NULL)
        tell_more();
    fflush(stdout);
    _Exit(EXIT_FAILURE);
}

static inline void
check_cuda(const char *what, cudaError_t error)
{
    if (error != cudaSuccess)
        stop(what, cudaGetErrorString(error));
}

static inline void
check_status(const char *what, enum terp_status st)
{
    if (st != TERP_OK)
        stop(what, terp_status_text(st));
}

/* Seconds from an arbitrary start. */
static inline double
now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

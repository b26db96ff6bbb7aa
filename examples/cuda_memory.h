/* Device memory for the MPI programs. They open the CUDA runtime at run time,
 * so they are built without CUDA. */
#pragma once

#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define CUDA_MEMCPY_DEFAULT 4 /* between any memories */

/* The runtime's functions, which return 0 for success. */
static struct {
    int (*count)(int *ndevices_ret);
    int (*set)(int device);
    int (*malloc)(void **at_ret, size_t nbytes);
    int (*free)(void *at);
    int (*copy)(void *dst, const void *src, size_t nbytes, int kind);
} cuda;

static bool
cuda_find(void *library, const char *name, void *function_ret)
{
    void *symbol = dlsym(library, name);

    memcpy(function_ret, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Opens the runtime (libcudart.so), and takes the device that terp takes: that
 * of the process's rank on its machine. All processes call this. */
static bool
cuda_open(const char *runtime)
{
    void *library = dlopen(runtime, RTLD_NOW | RTLD_LOCAL);
    int ndevices = 0, local_rank;
    MPI_Comm machine;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                        &machine);
    MPI_Comm_rank(machine, &local_rank);
    MPI_Comm_free(&machine);
    return library != NULL &&
           cuda_find(library, "cudaGetDeviceCount", (void *)&cuda.count) &&
           cuda_find(library, "cudaSetDevice", (void *)&cuda.set) &&
           cuda_find(library, "cudaMalloc", (void *)&cuda.malloc) &&
           cuda_find(library, "cudaFree", (void *)&cuda.free) &&
           cuda_find(library, "cudaMemcpy", (void *)&cuda.copy) &&
           cuda.count(&ndevices) == 0 && ndevices > 0 &&
           cuda.set(local_rank % ndevices) == 0;
}

/* Copies between the host and the device, in either direction. */
static bool
cuda_copy(void *dst, const void *src, size_t nbytes)
{
    return cuda.copy(dst, src, nbytes, CUDA_MEMCPY_DEFAULT) == 0;
}

/* Allocates device memory with a copy of `values`; NULL on failure. */
static void *
cuda_make(const void *values, size_t nbytes)
{
    void *at = NULL;

    return cuda.malloc(&at, nbytes) == 0 && cuda_copy(at, values, nbytes)
               ? at
               : NULL;
}

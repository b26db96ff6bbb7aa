/* Buffers on the host, or on the device through a CUDA runtime that the
 * environment names. */
#include "h5tests/support/cuda_buffer.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"

#define GUARD_NBYTES 256
#define GUARD 0x5A

#define MEMCPY_DEFAULT 4 /* cudaMemcpyDefault: between any memories */

/* The runtime's functions return 0 for success. */
typedef int
cuda_malloc_function(void **at_ret, size_t nbytes);
typedef int
cuda_free_function(void *at);
typedef int
cuda_memcpy_function(void *dst, const void *src, size_t nbytes, int kind);

static cuda_malloc_function *cuda_malloc;
static cuda_free_function *cuda_free;
static cuda_memcpy_function *cuda_memcpy;

static void
find(void *library, const char *name, void *function_ret)
{
    void *symbol = dlsym(library, name);

    if (symbol == NULL)
        fail_msg("no %s in TERP_TEST_CUDART", name);
    memcpy(function_ret, &symbol, sizeof symbol);
}

/* Opens the runtime: libcudart.so, or the emulated engine, which exports the
 * same functions. */
static void
open_runtime(void)
{
    const char *name = getenv("TERP_TEST_CUDART");

    if (cuda_memcpy != NULL)
        return;
    if (name == NULL)
        fail_msg("TERP_TEST_CUDART does not name the CUDA runtime");
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fail_msg("%s", dlerror());
    find(library, "cudaMalloc", (void *)&cuda_malloc);
    find(library, "cudaFree", (void *)&cuda_free);
    find(library, "cudaMemcpy", (void *)&cuda_memcpy);
}

static void
copy(const struct cuda_buffer *buffer, void *dst, const void *src,
     uint64_t nbytes)
{
    if (buffer->memory == TERP_MEMORY_HOST)
        memcpy(dst, src, nbytes);
    else
        assert_int_equal(cuda_memcpy(dst, src, nbytes, MEMCPY_DEFAULT), 0);
}

/* aligned_alloc requires a multiple of the alignment. */
static uint64_t
round_up(uint64_t nbytes)
{
    return (nbytes + GUARD_NBYTES - 1) / GUARD_NBYTES * GUARD_NBYTES;
}

static uint64_t
allocated_nbytes(const struct cuda_buffer *buffer)
{
    return (uint64_t)(buffer->bytes - buffer->begin) + buffer->nbytes +
           GUARD_NBYTES;
}

struct cuda_buffer
cuda_buffer_make(enum terp_memory memory, const void *bytes, uint64_t nbytes,
                 uint64_t offset)
{
    struct cuda_buffer buffer = {.memory = memory, .nbytes = nbytes};
    uint64_t all_nbytes = GUARD_NBYTES + offset + nbytes + GUARD_NBYTES;
    uint8_t *guarded = terp_case_alloc(all_nbytes);
    void *begin = NULL;

    memset(guarded, GUARD, all_nbytes);
    if (bytes != NULL)
        memcpy(guarded + GUARD_NBYTES + offset, bytes, nbytes);
    if (memory == TERP_MEMORY_DEVICE) {
        open_runtime();
        assert_int_equal(cuda_malloc(&begin, all_nbytes), 0);
    } else {
        begin = aligned_alloc(GUARD_NBYTES, round_up(all_nbytes));
        assert_non_null(begin);
    }
    buffer.begin = begin;
    buffer.bytes = buffer.begin + GUARD_NBYTES + offset;
    copy(&buffer, buffer.begin, guarded, all_nbytes);
    free(guarded);
    return buffer;
}

uint8_t *
cuda_buffer_read(const struct cuda_buffer *buffer)
{
    uint64_t all_nbytes = allocated_nbytes(buffer);
    uint64_t at = (uint64_t)(buffer->bytes - buffer->begin);
    uint8_t *guarded = terp_case_alloc(all_nbytes);

    copy(buffer, guarded, buffer->begin, all_nbytes);
    for (uint64_t i = 0; i < all_nbytes; i++)
        if ((i < at || i >= at + buffer->nbytes) && guarded[i] != GUARD)
            fail_msg("byte %lld of a buffer of %llu is overwritten",
                     (long long)(i - at), (unsigned long long)buffer->nbytes);
    memmove(guarded, guarded + at, buffer->nbytes);
    return guarded;
}

void
cuda_buffer_free(struct cuda_buffer *buffer)
{
    if (buffer->memory == TERP_MEMORY_DEVICE)
        assert_int_equal(cuda_free(buffer->begin), 0);
    else
        free(buffer->begin);
    buffer->begin = NULL;
}

/* Buffers on the host or the device, with guard bytes on both sides. */
#pragma once

#include <stdint.h>

#include "codec/api/terp.h"

struct cuda_buffer {
    enum terp_memory memory;
    uint8_t *begin;  /* start of the allocation */
    uint8_t *bytes;  /* start of the test's bytes */
    uint64_t nbytes; /* size of the test's bytes */
};

/* Allocates a buffer of `nbytes`, `offset` bytes after a multiple of 256. Its
 * contents are `bytes`, or undefined if that is NULL. Fails the running test
 * without memory. */
struct cuda_buffer
cuda_buffer_make(enum terp_memory memory, const void *bytes, uint64_t nbytes,
                 uint64_t offset);

/* Copies the contents to host memory, which the caller frees. Fails the running
 * test if a guard byte has changed. */
uint8_t *
cuda_buffer_read(const struct cuda_buffer *buffer);

void
cuda_buffer_free(struct cuda_buffer *buffer);

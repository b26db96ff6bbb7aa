/* Memory of the host or of the device, with guards on both sides. */
#pragma once

#include <stdint.h>

#include "codec/api/terp.h"

struct cuda_buffer {
    enum terp_memory memory;
    uint8_t *begin;  /* of the allocation */
    uint8_t *bytes;  /* what a test hands out */
    uint64_t nbytes; /* of these */
};

/* A buffer of `nbytes`, `offset` bytes after a multiple of 256; its contents
 * are `bytes`, or where that is NULL unspecified. Fails the running test where
 * there is no memory. */
struct cuda_buffer
cuda_buffer_make(enum terp_memory memory, const void *bytes, uint64_t nbytes,
                 uint64_t offset);

/* A copy of the contents on the host, which the caller frees. Fails the
 * running test where a guard was overwritten. */
uint8_t *
cuda_buffer_read(const struct cuda_buffer *buffer);

void
cuda_buffer_free(struct cuda_buffer *buffer);

/* What targets that read a stream have in common: an input is a stream, of
 * which the checksum's bytes say how to try it, since the one that it should
 * have is put in their place. So each execution gets past the checksum, and
 * streams that programs wrote are tried in all ways. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/api/terp.h"

/* Of 16 inputs one has large chunks, and one threads; small chunks are what
 * makes executions many. */
#define FUZZ_SMALL_NBYTES (UINT64_C(8) << 10)
#define FUZZ_LARGE_NBYTES (UINT64_C(64) << 10)

struct fuzz_stream {
    uint8_t *bytes; /* exactly as many, so that ASan sees a step too far */
    uint64_t nbytes;
    /* What the input chooses. */
    uint64_t max_chunk_nbytes; /* decode no larger chunk */
    uint64_t step; /* 2 to 16: of each dimension every step-th value */
    int nthreads;  /* 1, or sometimes 2 */
    bool again;    /* decode once more, over other bytes */
    bool sealed;   /* the checksums hold: most often */
    uint8_t other; /* for the target */
};

/* The caller frees `bytes`. */
struct fuzz_stream
fuzz_stream_make(const uint8_t *data, size_t nbytes);

/* A mutation of a stream; see LLVMFuzzerCustomMutator of libFuzzer. */
size_t
fuzz_stream_mutate(uint8_t *data, size_t nbytes, size_t max_nbytes,
                   unsigned seed);

/* A mutation of a stream's body, no longer than it was: of a seed always the
 * same. Streams that have no frame keep their bytes. */
size_t
fuzz_stream_vary(uint8_t *data, size_t nbytes, uint64_t seed);

/* Copies every step-th value of each dimension. */
void
fuzz_take(const struct terp_chunk *chunk, const uint8_t *values, uint64_t step,
          uint8_t *taken);

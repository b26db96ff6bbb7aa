/* Shared by the targets that read streams. An input is a stream whose checksum
 * field holds options for the target; the right checksum then replaces the
 * field. So each execution passes the checksum, and streams of real programs
 * are tried with all options. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/api/terp.h"

/* One of 16 inputs allows large chunks, and one uses threads: small chunks give
 * many executions a second. */
#define FUZZ_SMALL_NBYTES (UINT64_C(8) << 10)
#define FUZZ_LARGE_NBYTES (UINT64_C(64) << 10)

struct fuzz_stream {
    uint8_t *bytes; /* allocated exactly, for ASan */
    uint64_t nbytes;
    /* The options of the input: */
    uint64_t max_chunk_nbytes; /* decode no larger chunk */
    uint64_t step; /* 2 to 16: decode every step-th value of each dimension */
    int nthreads;  /* 1, sometimes 2 */
    bool again;    /* decode again, over other contents of the buffer */
    bool sealed;   /* correct all checksums; set for most inputs */
    uint8_t other; /* further bits for the target */
};

/* The caller frees `bytes`. */
struct fuzz_stream
fuzz_stream_make(const uint8_t *data, size_t nbytes);

/* Mutates a stream, as libFuzzer's LLVMFuzzerCustomMutator. */
size_t
fuzz_stream_mutate(uint8_t *data, size_t nbytes, size_t max_nbytes,
                   unsigned seed);

/* Mutates a stream's body without making it longer. The same seed gives the
 * same mutation. A stream without a valid frame stays unchanged. */
size_t
fuzz_stream_vary(uint8_t *data, size_t nbytes, uint64_t seed);

/* Copies every step-th value of each dimension. */
void
fuzz_take(const struct terp_chunk *chunk, const uint8_t *values, uint64_t step,
          uint8_t *taken);

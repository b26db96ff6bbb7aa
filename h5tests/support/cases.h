/* Encodes and decodes one chunk and checks every promise. A broken promise
 * fails the running cmocka test with a message that names the case. */
#pragma once

#include "h5tests/support/modes.h"

struct terp_stream {
    uint8_t *bytes; /* the caller frees */
    uint64_t nbytes;
};

/* malloc, but fails the test instead of returning NULL. */
void *
terp_case_alloc(uint64_t nbytes);

/* Whether this run tries case i. A run tries about one case in `every`, or all
 * if `every` is 1; one in N of these with the environment variable
 * TERP_TEST_FEWER=N. The variable TERP_TEST_SEED, or else the date, is the seed
 * of the choice, and standard error reports the seed. Thread-safe. */
bool
terp_case_is_drawn(uint64_t i, uint64_t every);

/* The factor by which terp_case_taken tries fewer cases with a sanitizer; 1
 * without one. */
unsigned
terp_case_fewer(void);

/* Whether this run tries the next case of a large set: about one in `every`,
 * chosen as by terp_case_is_drawn, fewer with a sanitizer, all with
 * TERP_TEST_ALL. Unlike there, TERP_TEST_FEWER=N also draws one in N if `every`
 * is 1. */
bool
terp_case_taken(unsigned every);

/* A chunk of `rank` dims, at most four, that is not a stack. */
struct terp_chunk
terp_case_chunk(enum terp_type type, int rank, const uint64_t *dims);

/* Encodes with the given mode into a buffer of terp_encode_bound bytes, then
 * shrinks the buffer to the stream, so that a sanitizer detects reads beyond
 * it. */
struct terp_stream
terp_case_encode(const struct terp_params *params,
                 const struct terp_chunk *chunk, const uint8_t *values,
                 int nthreads);

/* The absolute bound that `params` promise for `values`, computed from their
 * range without the codec. Returns 0 for lossless coding, and for a pointwise
 * bound without a floor. */
double
terp_case_bound(const struct terp_params *params,
                const struct terp_chunk *chunk, const uint8_t *values);

/* Fails unless every value of `decoded` is within `bound` of the value in
 * `values`, or within the pointwise bound, and non-finite values and fill
 * values have the same bits. */
void
terp_case_compare(const char *name, const struct terp_params *params,
                  const struct terp_chunk *chunk, const uint8_t *values,
                  const uint8_t *decoded, double bound);

/* The number of bits of a stream's tails; 0 without tails. */
int
terp_case_tail_nbits(const struct terp_stream *stream);

/* Copies every step-th value of each dimension. Returns the number of bytes. */
uint64_t
terp_case_take(const struct terp_chunk *chunk, const uint8_t *values,
               uint64_t step, uint8_t *taken_ret);

/* Corrects the checksums of a stream that was changed, also those of
 * prefixes. */
void
terp_case_seal(struct terp_stream *stream);

/* Fails unless decoding every step-th value gives the values that `decoded` has
 * there. `decoded` is the decoded whole stream, or NULL if the stream is
 * invalid. */
enum terp_status
terp_case_check_coarse(const char *name, const struct terp_stream *stream,
                       const uint8_t *decoded, uint64_t step, int nthreads);

/* Encodes, inspects, decodes, compares. Returns the stream's size. */
uint64_t
terp_case_check(const char *name, const struct terp_params *params,
                const struct terp_chunk *chunk, const uint8_t *values);

/* Fails unless three threads encode to the same stream as one thread, and three
 * threads and one decode it to the same bytes. */
void
terp_case_check_threads(const struct terp_params *params,
                        const struct terp_chunk *chunk, const uint8_t *values);

/* One chunk encoded and decoded with every promise checked. A broken promise
 * fails the running cmocka test with a message that names the case. */
#pragma once

#include "h5tests/support/modes.h"

struct terp_stream {
    uint8_t *bytes; /* the caller frees */
    uint64_t nbytes;
};

/* malloc that fails the test instead of returning NULL. */
void *
terp_case_alloc(uint64_t nbytes);

/* Whether case i is one of those that a run tries, about one in `every`. The
 * number TERP_TEST_SEED draws them, or without it the day, and standard error
 * has that number. Any thread may call it. */
bool
terp_case_is_drawn(uint64_t i, uint64_t every);

/* Whether a run tries the next case of a product of many: about one in `every`,
 * drawn as above, fewer under a sanitizer, all where TERP_TEST_ALL is set. */
bool
terp_case_taken(unsigned every);

/* A chunk of `rank` dims, at most four, that is no stack. */
struct terp_chunk
terp_case_chunk(enum terp_type type, int rank, const uint64_t *dims);

/* Encodes with the given mode into a buffer of terp_encode_bound bytes, then
 * shrinks it to the stream, so that a sanitizer sees any byte read behind. */
struct terp_stream
terp_case_encode(const struct terp_params *params,
                 const struct terp_chunk *chunk, const uint8_t *values,
                 int nthreads);

/* The absolute bound that `params` promise for `values`: computed here from
 * their range, without the codec. 0 when all must be exact, or the bound is
 * relative to each value. */
double
terp_case_bound(const struct terp_params *params,
                const struct terp_chunk *chunk, const uint8_t *values);

/* Fails unless every value of `decoded` is within `bound` of `values`, or
 * within the bound relative to it, and
 * non-finite values and the fill value are the same bit for bit. */
void
terp_case_compare(const char *name, const struct terp_params *params,
                  const struct terp_chunk *chunk, const uint8_t *values,
                  const uint8_t *decoded, double bound);

/* The bits of the tails that a stream's differences have; 0 for none. */
int
terp_case_tail_nbits(const struct terp_stream *stream);

/* Copies every step-th value of each dimension; returns their bytes. */
uint64_t
terp_case_take(const struct terp_chunk *chunk, const uint8_t *values,
               uint64_t step, uint8_t *taken_ret);

/* Makes the checksums of a stream right that was changed; those of prefixes,
 * too, where it has such. */
void
terp_case_seal(struct terp_stream *stream);

/* Fails unless decoding every step-th value gives those of `decoded`, which is
 * what the whole stream decodes to, or NULL where it does not. */
enum terp_status
terp_case_check_coarse(const char *name, const struct terp_stream *stream,
                       const uint8_t *decoded, uint64_t step, int nthreads);

/* Encodes, inspects, decodes, compares. Returns the stream's size. */
uint64_t
terp_case_check(const char *name, const struct terp_params *params,
                const struct terp_chunk *chunk, const uint8_t *values);

/* Fails unless three threads make the stream that one makes, and both decode it
 * to the same bytes. */
void
terp_case_check_threads(const struct terp_params *params,
                        const struct terp_chunk *chunk, const uint8_t *values);

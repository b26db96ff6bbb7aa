/* Remembers recently decoded streams in a hash table. The key is the address at
 * which HDF5 got the decoded values, because HDF5 often passes the same buffer
 * back. */
#include "filter/plugin/history.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "codec/format/types.h"

/* Values that are compared in place of a whole chunk, because HDF5 may pass a
 * copy at another address, as it does when it flushes its cache. One equal
 * sample that differs from the sample before it makes a stream a candidate; 256
 * of 8 bytes cost 2 KiB for each remembered stream. take_samples and
 * count_equal depend on the number. */
#define NSAMPLES 256

/* Bounds the cd_values of a remembered stream: TERP_CD_MAX_NWORDS are fewer. A
 * chunk with more words is not remembered. */
#define MAX_NWORDS 512

/* Bounds the number of remembered streams. TERP_HISTORY_NBYTES / NSLOTS is 8
 * KiB: only where streams are shorter on average does the table fill up first.
 */
#define NSLOTS 8192

/* A stream lies in one of NPROBES slots from its hash on. Where all are taken,
 * the oldest stream in them is dropped. */
#define NPROBES 16

/* Bounds the wait for the lock, in calls of sched_yield. Threads hold the lock
 * for moments only. A wait of this length means that the process is a forked
 * child, in which no thread will release the lock. */
#define MAX_NTRIES 10000

struct terp_remembered {
    int nusers;   /* the table, and calls that use the stream */
    uint64_t age; /* larger: newer */
    struct terp_chunk chunk;
    const void *values; /* address of the decoded values; HDF5 owns them */
    uint64_t nsamples;
    uint64_t samples[NSAMPLES];
    size_t nwords;
    uint64_t stream_nbytes;
    unsigned words[]; /* the stream's bytes follow them */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_lost; /* in a forked child: the lock stays taken */
static struct terp_remembered *slots[NSLOTS];
static uint64_t nremembered, total_nbytes, age;

static bool
take_lock(void)
{
    for (int i = 0; i < MAX_NTRIES && !atomic_load(&is_lost); i++) {
        if (pthread_mutex_trylock(&lock) == 0)
            return true;
        sched_yield();
    }
    atomic_store(&is_lost, true);
    return false;
}

/* ---- the table; callers hold the lock ---- */

static uint64_t
nbytes_of(const struct terp_remembered *one)
{
    return sizeof *one + one->nwords * sizeof *one->words + one->stream_nbytes;
}

/* Ends `nuses` uses, and frees the stream after the last one. */
static void
release(struct terp_remembered *one, int nuses)
{
    one->nusers -= nuses;
    if (one->nusers == 0)
        free(one);
}

/* Empties a slot. The caller ends the table's use of the returned stream. */
static struct terp_remembered *
empty_slot(struct terp_remembered **slot)
{
    struct terp_remembered *one = *slot;

    nremembered--;
    total_nbytes -= nbytes_of(one);
    *slot = NULL;
    return one;
}

/* The slot to reuse first: an empty one, or the one with the older stream. */
static struct terp_remembered **
older(struct terp_remembered **a, struct terp_remembered **b)
{
    return *a == NULL || (*b != NULL && (*a)->age <= (*b)->age) ? a : b;
}

/* The slot of the stream that was decoded to the address `values`; else the
 * slot to reuse for it. */
static struct terp_remembered **
find_slot(const void *values)
{
    const uint64_t hash =
        (uint64_t)(uintptr_t)values / 16 * UINT64_C(0x9E3779B97F4A7C15);
    const uint64_t first = hash >> 32;
    struct terp_remembered **found = &slots[first % NSLOTS];

    for (uint64_t i = 0; i < NPROBES; i++) {
        struct terp_remembered **slot = &slots[(first + i) % NSLOTS];
        if (*slot != NULL && (*slot)->values == values)
            return slot;
        found = older(found, slot);
    }
    return found;
}

/* The slot of the oldest stream; the table must not be empty. */
static struct terp_remembered **
find_oldest(void)
{
    struct terp_remembered **oldest = NULL;

    for (int i = 0; i < NSLOTS; i++)
        if (slots[i] != NULL)
            oldest = oldest == NULL ? &slots[i] : older(oldest, &slots[i]);
    return oldest;
}

/* ---- streams ---- */

/* Takes the chunk's first values, which a program that appends does not change,
 * and as many values from the rest of the chunk. */
static uint64_t
take_samples(const struct terp_chunk *chunk, const void *values,
             uint64_t samples_ret[NSAMPLES])
{
    const uint64_t value_nbytes = (uint64_t)terp_value_nbytes(chunk->type);
    const uint64_t nvalues = terp_chunk_nbytes(chunk) / value_nbytes;
    const uint64_t n = min_u64(nvalues, NSAMPLES);
    const uint64_t nfirst = n / 2, nleft = nvalues - nfirst;
    const uint64_t stride = nleft / (n - nfirst);

    memset(samples_ret, 0, NSAMPLES * sizeof *samples_ret);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t k = i - nfirst; /* number among the spread samples */
        const uint64_t at =
            i < nfirst ? i : nfirst + stride * k + k * 7 % stride;
        memcpy(&samples_ret[i], (const uint8_t *)values + at * value_nbytes,
               (size_t)min_u64(value_nbytes, sizeof *samples_ret));
    }
    return n;
}

static bool
is_like(const struct terp_remembered *one, size_t nwords, const unsigned *words,
        const struct terp_chunk *chunk)
{
    return one->nwords == nwords &&
           memcmp(one->words, words, nwords * sizeof *words) == 0 &&
           one->chunk.type == chunk->type &&
           one->chunk.big_endian == chunk->big_endian &&
           terp_chunk_nbytes(&one->chunk) == terp_chunk_nbytes(chunk);
}

void
terp_history_add(size_t nwords, const unsigned *words,
                 const struct terp_chunk *chunk, const void *stream,
                 uint64_t stream_nbytes, const void *values)
{
    if (nwords > MAX_NWORDS || stream_nbytes > TERP_HISTORY_NBYTES / 4)
        return;
    struct terp_remembered *one = malloc(
        sizeof *one + nwords * sizeof *one->words + (size_t)stream_nbytes);
    if (one == NULL)
        return;
    one->nusers = 1;
    one->nwords = nwords;
    memcpy(one->words, words, nwords * sizeof *words);
    one->chunk = *chunk;
    one->values = values;
    one->nsamples = take_samples(chunk, values, one->samples);
    one->stream_nbytes = stream_nbytes;
    memcpy(one->words + nwords, stream, (size_t)stream_nbytes);
    if (!take_lock()) {
        free(one);
        return;
    }
    struct terp_remembered **slot = find_slot(values);
    if (*slot != NULL)
        release(empty_slot(slot), 1);
    one->age = age++;
    *slot = one;
    nremembered++;
    total_nbytes += nbytes_of(one);
    while (total_nbytes > TERP_HISTORY_NBYTES)
        release(empty_slot(find_oldest()), 1);
    pthread_mutex_unlock(&lock);
}

/* Counts equal samples that differ from the sample before. The first sample
 * counts where it differs from 0. */
static uint64_t
count_equal(const struct terp_remembered *one, const uint64_t samples[NSAMPLES])
{
    uint64_t nequal = one->samples[0] == samples[0] && samples[0] != 0;

    for (uint64_t i = 1; i < one->nsamples; i++)
        nequal +=
            (one->samples[i] == samples[i]) & (samples[i] != samples[i - 1]);
    return nequal;
}

/* As terp_history_find; the caller holds the lock. */
static struct terp_remembered *
find_best(size_t nwords, const unsigned *words, const struct terp_chunk *chunk,
          const void *values)
{
    uint64_t samples[NSAMPLES];
    struct terp_remembered *found = NULL;
    uint64_t most = 0;

    (void)take_samples(chunk, values, samples);
    for (int i = 0; i < NSLOTS; i++) {
        struct terp_remembered *one = slots[i];
        if (one == NULL || !is_like(one, nwords, words, chunk))
            continue;
        const bool is_there = one->values == values;
        const uint64_t nequal = count_equal(one, samples);
        if (nequal == 0 && !is_there)
            continue;
        if (found == NULL || nequal > most ||
            (nequal == most && found->values != values &&
             (is_there || one->age > found->age))) {
            most = nequal;
            found = one;
        }
    }
    return found;
}

struct terp_remembered *
terp_history_find(size_t nwords, const unsigned *words,
                  const struct terp_chunk *chunk, const void *values)
{
    struct terp_remembered *found = NULL;

    if (nwords > MAX_NWORDS || !take_lock())
        return NULL;
    if (nremembered > 0)
        found = find_best(nwords, words, chunk, values);
    if (found != NULL)
        found->nusers++;
    pthread_mutex_unlock(&lock);
    return found;
}

const void *
terp_history_stream(const struct terp_remembered *remembered,
                    uint64_t *nbytes_ret)
{
    *nbytes_ret = remembered->stream_nbytes;
    return remembered->words + remembered->nwords;
}

void
terp_history_end(struct terp_remembered *remembered, const void *values)
{
    int nuses = 1;

    if (!take_lock())
        return;
    struct terp_remembered **slot = find_slot(values);
    if (*slot == remembered && remembered->values == values) {
        (void)empty_slot(slot);
        nuses++;
    }
    release(remembered, nuses);
    pthread_mutex_unlock(&lock);
}

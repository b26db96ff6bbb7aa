/* Encodes windows of a transfer's chunks, and finds the streams of values. */
#include "vol/ahead.h"

#include <stdlib.h>
#include <string.h>

#include "filter/h5/batch.h"
#include "filter/plugin/call.h"
#include "vol/plan.h"

/* A transfer. Chunks [first, first + n) of its block, the window, are encoded.
 * Their streams stay in memory until HDF5 has asked for them.
 * HDF5 has asked for `nasked` chunks since, and probably asks for chunk `next`
 * next. */
struct vol_ahead {
    struct terp_prepared prepared;
    struct vol_ahead *before; /* of other datasets of the same call */
    struct terp_h5_block block;
    unsigned words[TERP_CD_MAX_NWORDS];
    size_t nwords;
    struct terp_params params;
    const void *src;       /* in the run's memory */
    const uint8_t *values; /* in host memory */
    struct terp_run_options options;
    struct terp_run run;
    struct terp_h5_batch batch;
    uint64_t nchunks, first, n, nasked, next, ntaken;
    bool has_failed; /* nothing more is encoded */
};

/* ---- values ---- */

/* Whether a chunk's values are those that HDF5 hands over. */
static bool
has_values(const struct vol_ahead *ahead, uint64_t number,
           const uint8_t *values)
{
    const struct terp_array *array = &ahead->block.array;
    const uint64_t value_nbytes = (uint64_t)array->value_nbytes;
    const uint64_t length = array->chunk[array->rank - 1];
    const uint64_t nrows = terp_array_chunk_nvalues(array) / length;

    for (uint64_t row = 0; row < nrows; row++) {
        uint64_t at;
        const uint64_t n = terp_array_row(array, number, row, &at);
        if (memcmp(values, ahead->values + at * value_nbytes,
                   n * value_nbytes) != 0)
            return false;
        values += n * value_nbytes;
        for (uint64_t i = n; i < length; i++) {
            if (memcmp(values, array->pad, value_nbytes) != 0)
                return false;
            values += value_nbytes;
        }
    }
    return true;
}

/* ---- windows ---- */

/* Encodes the next window. */
static void
encode_window(struct vol_ahead *ahead)
{
    const uint64_t first = ahead->first + ahead->n;
    const uint64_t n =
        min_u64(ahead->batch.cap_nchunks, ahead->nchunks - first);

    ahead->first = ahead->next = first;
    ahead->n = ahead->nasked = 0;
    if (terp_h5_batch_encode(&ahead->batch, &ahead->block, &ahead->params,
                             first, n, ahead->src) == TERP_OK)
        ahead->n = n;
    else
        ahead->has_failed = true;
}

/* The number of the chunk with these values, from the window; the number after
 * the window: there is none. */
static uint64_t
find(const struct vol_ahead *ahead, const void *values)
{
    const uint64_t end = ahead->first + ahead->n;

    for (uint64_t i = ahead->next; i < end; i++)
        if (has_values(ahead, i, values))
            return i;
    for (uint64_t i = ahead->first; i < ahead->next; i++)
        if (has_values(ahead, i, values))
            return i;
    return end;
}

/* HDF5 asks for chunks in the order of the dataset. So once it has asked for as
 * many as the window has, the next window is encoded. */
static bool
take_of(struct vol_ahead *ahead, size_t nwords, const unsigned *words,
        const void *values, void *stream, uint64_t *nbytes_ret)
{
    /* Another dataset of the call may have the same values. */
    if (ahead->ntaken == ahead->nchunks || nwords != ahead->nwords ||
        memcmp(words, ahead->words, nwords * sizeof *words) != 0)
        return false;
    uint64_t number = find(ahead, values);
    if (number == ahead->first + ahead->n && ahead->nasked >= ahead->n &&
        number < ahead->nchunks && !ahead->has_failed) {
        encode_window(ahead);
        number = find(ahead, values);
    }
    ahead->nasked++;
    if (number == ahead->first + ahead->n)
        return false;
    const uint64_t i = number - ahead->first;
    *nbytes_ret = ahead->batch.stream_nbytes[i];
    memcpy(stream, ahead->batch.host_stream[i], *nbytes_ret);
    ahead->next = number + 1;
    ahead->ntaken++;
    return true;
}

static bool
take(struct terp_prepared *prepared, size_t nwords, const unsigned *words,
     const void *values, void *stream, uint64_t *nbytes_ret)
{
    struct vol_ahead *ahead = (struct vol_ahead *)prepared;

    for (; ahead != NULL; ahead = ahead->before)
        if (take_of(ahead, nwords, words, values, stream, nbytes_ret))
            return true;
    return false;
}

/* ---- transfers ---- */

static void
say(const void *caller, const struct vol_ahead *ahead, const char *reason)
{
    struct terp_call call;

    terp_call_begin(caller, &call);
    if (reason != NULL)
        terp_call_say(&call, "connector: HDF5 writes it: %s", reason);
    else
        terp_call_say(&call,
                      "connector: %llu of %llu chunks were encoded ahead, "
                      "%d threads%s",
                      (unsigned long long)ahead->ntaken,
                      (unsigned long long)ahead->nchunks,
                      ahead->options.nthreads,
                      ahead->run.engine == TERP_ENGINE_CPU ? "" : ", CUDA");
    terp_host_close(&call.host);
}

static void
free_one(struct vol_ahead *ahead)
{
    if (ahead->batch.run != NULL)
        terp_h5_batch_free(&ahead->batch);
    free(ahead);
}

void
vol_ahead_add(const void *caller, const struct vol_transfer *transfer,
              const void *values, struct vol_ahead **ahead)
{
    struct vol_selection selection;

    if (!transfer->dataset->is_shared || transfer->src == NULL)
        return;
    const struct vol_plan *plan = vol_plan_of(caller, transfer);
    if (plan == NULL)
        return;
    struct vol_ahead *made = calloc(1, sizeof *made);
    if (made == NULL)
        return;
    const char *reason =
        vol_plan_block(plan, transfer, true, &made->block, &selection);
    if (reason != NULL) {
        say(caller, made, reason);
        free(made);
        return;
    }
    const uint64_t skipped_nbytes =
        selection.at * (uint64_t)made->block.array.value_nbytes;
    made->prepared.take = take;
    made->before = *ahead;
    made->nwords = terp_cd_persist(&plan->cd, made->words);
    made->params = terp_cd_new_params(&plan->cd);
    terp_cd_copy_fills(&plan->cd, &made->params);
    made->src = (const uint8_t *)transfer->src + skipped_nbytes;
    made->values = (const uint8_t *)values + skipped_nbytes;
    made->nchunks = terp_array_nchunks(&made->block.array);
    if (vol_batches_start(caller, transfer, &made->block, &made->options,
                          &made->run, &made->batch) != TERP_OK) {
        free_one(made);
        return;
    }
    *ahead = made;
}

void
vol_ahead_begin(struct vol_ahead *ahead)
{
    terp_prepared_offer(ahead == NULL ? NULL : &ahead->prepared);
}

void
vol_ahead_end(const void *caller, struct vol_ahead *ahead)
{
    terp_prepared_offer(NULL);
    while (ahead != NULL) {
        struct vol_ahead *before = ahead->before;
        say(caller, ahead, NULL);
        free_one(ahead);
        ahead = before;
    }
}

/* Signal handlers of the host run in the host's threads, never in terp's. */
#define _DEFAULT_SOURCE /* for setitimer */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

/* The number of signals to handle. */
#define NSIGNALS 200

#define INTERVAL_US 200

static pthread_t caller;
static atomic_int nhandled, nelsewhere;

static void
note_signal(int signal)
{
    (void)signal;
    atomic_fetch_add(&nhandled, 1);
    if (!pthread_equal(pthread_self(), caller))
        atomic_fetch_add(&nelsewhere, 1);
}

static void
set_blocked(int how)
{
    sigset_t alarm;

    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(how, &alarm, NULL);
}

struct work {
    struct terp_chunk chunk;
    const uint8_t *values;
    bool is_batch, failed;
};

/* Encodes and decodes with several threads until enough signals arrived. */
static void *
code(void *arg)
{
    struct work *work = arg;
    const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 1e-3};
    const struct terp_run_options options = {.size = sizeof options,
                                             .nthreads = 4};
    const uint64_t nbytes = terp_chunk_nbytes(&work->chunk);
    uint8_t *stream = malloc(terp_encode_bound(&work->chunk));
    uint8_t *decoded = malloc(nbytes);
    const void *src[2] = {work->values, work->values};
    void *dst[2] = {stream, malloc(terp_encode_bound(&work->chunk))};
    uint64_t stream_nbytes[2], got;

    caller = pthread_self();
    set_blocked(SIG_UNBLOCK);
    while (!work->failed && atomic_load(&nhandled) < NSIGNALS) {
        work->failed = terp_encode_batch(&options, &params, &work->chunk,
                                         work->is_batch ? 2 : 1, src, dst,
                                         stream_nbytes, NULL) != TERP_OK ||
                       terp_decode(stream, stream_nbytes[0], decoded, nbytes,
                                   &got, 4) != TERP_OK;
    }
    set_blocked(SIG_BLOCK);
    free(stream);
    free(dst[1]);
    free(decoded);
    return NULL;
}

static void
check(bool is_batch)
{
    const struct itimerval often = {{0, INTERVAL_US}, {0, INTERVAL_US}};
    const struct itimerval never = {{0, 0}, {0, 0}};
    struct work work = {
        {TERP_FLOAT32, false, false, 3, {80, 80, 80}}, NULL, is_batch, false};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&work.chunk));
    struct sigaction action = {.sa_handler = note_signal,
                               .sa_flags = SA_RESTART};
    pthread_t thread;

    terp_field_make(TERP_FIELD_ROUGH, &work.chunk, values);
    work.values = values;
    atomic_store(&nhandled, 0);
    atomic_store(&nelsewhere, 0);
    /* The system prefers the main thread for signals, so the main thread blocks
     * them. */
    set_blocked(SIG_BLOCK);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, code, &work), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    free(values);
    assert_false(work.failed);
    assert_true(atomic_load(&nhandled) >= NSIGNALS);
    assert_int_equal(atomic_load(&nelsewhere), 0);
}

static void
threads_of_a_chunk_handle_no_signal(void **state)
{
    (void)state;
    check(false);
}

static void
threads_of_a_batch_handle_no_signal(void **state)
{
    (void)state;
    check(true);
}

static void
signals_that_the_host_blocks_stay_so(void **state)
{
    sigset_t before, after;

    (void)state;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    check(true);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (int signal = 1; signal < NSIG; signal++)
        if (signal != SIGALRM)
            assert_int_equal(sigismember(&after, signal),
                             sigismember(&before, signal));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_chunk_handle_no_signal),
        cmocka_unit_test(threads_of_a_batch_handle_no_signal),
        cmocka_unit_test(signals_that_the_host_blocks_stay_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

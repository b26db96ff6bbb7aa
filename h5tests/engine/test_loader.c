/* How the codec searches for the CUDA engine when a system call fails, and what
 * it reports. A process searches once, so each case runs in a child. The linker
 * redirects the system's functions here. */
#define _DEFAULT_SOURCE /* for setenv */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codec/api/loader.h"
#include "h5tests/support/cmocka_all.h"

static struct {
    bool atfork_fails, atexit_fails, is_silent;
    void (*at_exit)(void);
    int nopened;
} fake;

int
__wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void),
                      void (*child)(void));
int
__wrap_atexit(void (*function)(void));
void *
__wrap_dlopen(const char *file, int mode);
char *
__wrap_dlerror(void);

int
__wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void),
                      void (*child)(void))
{
    (void)prepare, (void)parent, (void)child;
    return fake.atfork_fails;
}

int
__wrap_atexit(void (*function)(void))
{
    fake.at_exit = function;
    return fake.atexit_fails;
}

/* A call that opens nothing. */
void *
__wrap_dlopen(const char *file, int mode)
{
    (void)file, (void)mode;
    fake.nopened++;
    return NULL;
}

char *
__wrap_dlerror(void)
{
    static char text[] = "there is no such file";
    return fake.is_silent ? NULL : text;
}

/* Whether a child that loads the engine gets `reason` after so many tries. */
static void
check_load(const char *reason, int nopened)
{
    const pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        const char *said = NULL;
        const bool none = terp_cuda_load(&said) == NULL;
        /* The second call must not search again. */
        const bool again = none && terp_cuda_load(&said) == NULL;
        if (!again || said == NULL || strcmp(said, reason) != 0 ||
            fake.nopened != nopened) {
            fprintf(stderr, "%s, %d tries\n", said == NULL ? "?" : said,
                    fake.nopened);
            _exit(1);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void
reset(void)
{
    memset(&fake, 0, sizeof fake);
    unsetenv("TERP_CUDA_LIBRARY");
}

/* If no engine is near this program (test_places.py), the system's search
 * follows. */
static void
library_that_is_nowhere_is_told(void **state)
{
    (void)state;
    reset();
    check_load("there is no such file", 1);
    setenv("TERP_CUDA_LIBRARY", "", 1); /* as if the variable were unset */
    check_load("there is no such file", 1);
    setenv("TERP_CUDA_LIBRARY", "/elsewhere", 1);
    check_load("there is no such file", 1);
    reset();
    fake.is_silent = true;
    check_load("no libterp_cuda.so", 1);
}

static void
lack_of_memory_is_told(void **state)
{
    (void)state;
    reset();
    fake.atfork_fails = true;
    check_load("out of memory", 0);
}

static void
end_of_the_process_is_told(void **state)
{
    const pid_t child = fork();
    int status;

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        reset();
        const char *said = NULL;
        bool good = terp_cuda_ended() == NULL && terp_cuda_end_at_exit() &&
                    fake.at_exit != NULL;
        if (good)
            fake.at_exit();
        good = good && terp_cuda_end_at_exit() && terp_cuda_ended() != NULL &&
               terp_cuda_load(&said) == NULL && said == terp_cuda_ended() &&
               strcmp(said, "the process is ending") == 0 && fake.nopened == 0;
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    reset();
    fake.atexit_fails = true;
    assert_false(terp_cuda_end_at_exit());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_that_is_nowhere_is_told),
        cmocka_unit_test(lack_of_memory_is_told),
        cmocka_unit_test(end_of_the_process_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

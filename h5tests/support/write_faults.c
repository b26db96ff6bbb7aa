/* A library for LD_PRELOAD that makes the n-th write to a file of an unchanged
 * program fail, write less or write something else. Environment variables:
 * - TEST_FAULT: "ENOSPC": the n-th write and all later ones fail, as on a full
 *   disk; "EIO": only the n-th fails; "short": from the n-th on, each writes at
 *   most half of its bytes; "flip": from the n-th on, each pwrite of 4 KiB or
 *   more writes a wrong byte; anything else: no faults;
 * - TEST_FAULT_AT: n, counted from 1;
 * - TEST_FAULT_FILES: a substring of the paths of the files;
 * - TEST_FAULT_COUNT: a file that gets the number of writes at exit. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long ncalls;

static bool
is_meant(int fd)
{
    const char *part = getenv("TEST_FAULT_FILES");
    char link[64], path[PATH_MAX];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0 || part == NULL)
        return false;
    path[n] = 0;
    return strstr(path, part) != NULL;
}

/* How many of `nbytes` may be written; -1 with errno for none. */
static ssize_t
allowed(int fd, size_t nbytes)
{
    const char *kind = getenv("TEST_FAULT"), *at = getenv("TEST_FAULT_AT");

    if (kind == NULL || at == NULL || !is_meant(fd))
        return (ssize_t)nbytes;
    pthread_mutex_lock(&lock);
    const unsigned long call = ++ncalls, first = strtoul(at, NULL, 10);
    pthread_mutex_unlock(&lock);
    if (strcmp(kind, "ENOSPC") == 0 && call >= first)
        errno = ENOSPC;
    else if (strcmp(kind, "EIO") == 0 && call == first)
        errno = EIO;
    else if (strcmp(kind, "short") == 0 && call >= first && nbytes > 1)
        return (ssize_t)(nbytes / 2);
    else
        return (ssize_t)nbytes;
    return -1;
}

static struct iovec
part_of(const void *bytes, ssize_t nbytes)
{
    struct iovec part = {.iov_len = (size_t)nbytes};

    memcpy(&part.iov_base, &bytes, sizeof bytes);
    return part;
}

/* Calls writev, because this library replaces write. */
ssize_t
write(int fd, const void *bytes, size_t nbytes)
{
    const ssize_t n = allowed(fd, nbytes);
    const struct iovec part = part_of(bytes, n);

    return n < 0 ? -1 : writev(fd, &part, 1);
}

/* A copy with a wrong byte, if that is the fault of this write; free it. NULL:
 * none. */
static char *
flipped(int fd, const void *bytes, size_t nbytes)
{
    const char *kind = getenv("TEST_FAULT"), *at = getenv("TEST_FAULT_AT");

    if (kind == NULL || at == NULL || strcmp(kind, "flip") != 0 ||
        nbytes < 4096 || !is_meant(fd) || ncalls < strtoul(at, NULL, 10))
        return NULL;
    char *copy = malloc(nbytes);
    if (copy != NULL) {
        memcpy(copy, bytes, nbytes);
        copy[nbytes / 2] ^= 1;
    }
    return copy;
}

ssize_t
pwrite(int fd, const void *bytes, size_t nbytes, off_t at)
{
    const ssize_t n = allowed(fd, nbytes);
    char *wrong = flipped(fd, bytes, nbytes);
    const struct iovec part = part_of(wrong != NULL ? wrong : bytes, n);
    const ssize_t written = n < 0 ? -1 : pwritev(fd, &part, 1, at);

    free(wrong);
    return written;
}

/* Programs with 64-bit offsets call this function through a macro. */
ssize_t
pwrite64(int fd, const void *bytes, size_t nbytes, off_t at)
{
    return pwrite(fd, bytes, nbytes, at);
}

__attribute__((destructor)) static void
tell_count(void)
{
    const char *path = getenv("TEST_FAULT_COUNT");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;

    if (file == NULL)
        return;
    fprintf(file, "%lu\n", ncalls);
    fclose(file);
}

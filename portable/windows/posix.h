/* The functions of POSIX that terp uses and that Windows has under other names,
 * or for paths that are not UTF-8. The compiler includes this header first. */
#pragma once

#define _POSIX_C_SOURCE 200809L /* strndup */

#include <direct.h>
#include <io.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* A file's size and its identity, which Windows' own stat lacks. */
struct terp_stat {
    uint64_t st_dev, st_ino, st_size;
    unsigned st_mode;
    struct timespec st_mtim;
};

int
terp_stat(const char *path, struct terp_stat *stat_ret);

FILE *
terp_fopen(const char *path, const char *mode);

int
terp_unlink(const char *path);

int
terp_access(const char *path, int mode);

int
terp_mkdir(const char *path);

/* Renames a file, and replaces an existing one. */
int
terp_rename(const char *from, const char *to);

/* The caller frees the path. */
char *
terp_realpath(const char *path);

int
terp_mkstemp(char *pattern);

#define stat terp_stat
#define fopen terp_fopen
#define unlink terp_unlink
#define access terp_access
#define mkdir(path, mode) terp_mkdir(path)
#define rename terp_rename
#define realpath(path, resolved) terp_realpath(path)
#define mkstemp terp_mkstemp
#define fsync _commit
#define umask(mask) 0 /* permissions are those of the folder */
#define fchmod(file, mode) ((void)(file), (void)(mode))

/* HDF5's file descriptors belong to its own C library, so files cannot be read
 * without HDF5. Windows has no link to the running program. */
static inline ssize_t
pread(int file, void *to, size_t nbytes, off_t at)
{
    (void)file, (void)to, (void)nbytes, (void)at;
    return -1;
}

static inline int
setenv(const char *name, const char *value, int overwrite)
{
    (void)overwrite;
    return _putenv_s(name, value);
}

static inline int
unsetenv(const char *name)
{
    return _putenv_s(name, "");
}

static inline ssize_t
readlink(const char *path, char *to, size_t nbytes)
{
    (void)path, (void)to, (void)nbytes;
    return -1;
}

/* terp repack: finds the files of a run over many files. */
#pragma once

#include <stddef.h>

#include "tools/repack/request.h"

struct repack_file {
    char *in, *out; /* equal in place; out is NULL where trouble is set */
    char *trouble;  /* why it cannot be copied, else NULL */
    uint64_t nbytes;
    uint64_t device, inode;
    size_t number; /* in the order of the command line */
};

struct repack_files {
    struct repack_file *at; /* in the order of the command line, then of paths;
                               no file twice */
    size_t n, cap;
    uint64_t nothers; /* files in directories that are not HDF5 */
    uint64_t nlinks;  /* symbolic links in directories; they are not followed */
};

/* Finds the files that the operands name: files, patterns of the shell, and all
 * HDF5 files below directories. Without --output-dir and --in-place the
 * operands are IN and OUT. A file or directory that cannot be read gets into
 * the list, with its trouble. Prints an error and returns false without memory,
 * and if two files would get the same output. Free the list in any case. */
bool
repack_files_find(const struct repack_request *request,
                  struct repack_files *files_ret);

void
repack_files_free(struct repack_files *files);

/* Creates the directories of a path. False: errno says why. */
bool
repack_files_make_directories(const char *path);

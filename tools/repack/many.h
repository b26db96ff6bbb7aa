/* terp repack: copies many files, several at once, and prints a summary. */
#pragma once

#include "tools/repack/copy.h"
#include "tools/repack/files.h"

/* A run over files, and its end. */
struct repack_many {
    const struct repack_request *request;
    struct repack_files files;
    struct repack_outcome *outcomes; /* of each file */
    uint64_t nof_state[REPACK_NSTATES];
    uint64_t in_nbytes, out_nbytes; /* of files that did not fail */
    double seconds;
};

/* "copied", "done", "unchanged", "failed" or "stopped". */
const char *
repack_state_name(enum repack_state state);

/* Copies the files of the request. Returns the exit code of the program. */
int
repack_many(struct repack_request *request);

/* Prints the summary as JSON; with jansson only. */
void
repack_many_print_json(const struct repack_many *many);

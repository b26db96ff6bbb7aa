/* Symbols of a program that is linked with libhdf5.a and exports none of it.
 * The dynamic loader does not find such symbols. The symbol table in the
 * program's file does, unless the file was stripped. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether `address` is in the running program itself, not in a library. */
bool
terp_program_holds(const void *address);

/* Counts the libraries that the process has unloaded so far. False where the
 * loader does not tell. */
bool
terp_program_count_unloaded(uint64_t *n_ret);

/* The address of the program's global function or variable `name`; NULL when
 * the file's symbol table does not name it. Reads the table from its start,
 * which takes about 100 us where HDF5 is most of the program. */
void *
terp_program_find(const char *name);

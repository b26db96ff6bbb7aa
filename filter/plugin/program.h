/* Symbols of a program that holds HDF5 itself, linked from libhdf5.a, and
 * exports none of it: the dynamic loader does not know them, but the program's
 * file does, unless it was stripped. */
#pragma once

#include <stdbool.h>

/* Whether `address` lies in the running program, and not in a library. */
bool
terp_program_holds(const void *address);

/* The address of the program's global function or variable `name`; NULL when
 * its file tells none. Reads the symbol table of the file from its start, which
 * takes about 100 us where HDF5 is most of the program. */
void *
terp_program_find(const char *name);

/* Privileged programs run with more rights than the user who started them:
 * setuid, setgid or with capabilities. In such a program, neither the
 * environment nor the location of a file, which that user chose, may decide
 * which code is run or which file is read. */
#pragma once

#include <stdbool.h>

/* Whether this program is privileged. */
bool
terp_is_privileged(void);

/* As getenv, for a variable that names code or a file. Returns NULL in a
 * privileged program. */
const char *
terp_getenv_of_file(const char *name);

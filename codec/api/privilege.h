/* Programs that run with more rights than who started them has: setuid, setgid
 * or with capabilities. Neither the environment nor the place of a file that
 * the starter chose may tell them which code to run or which file to read. */
#pragma once

#include <stdbool.h>

/* Whether this is such a program. */
bool
terp_is_privileged(void);

/* As getenv, of a variable that names code or a file; NULL in such programs. */
const char *
terp_getenv_of_file(const char *name);

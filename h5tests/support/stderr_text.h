/* Captures what a program prints to stderr between two calls. */
#pragma once

#include <stdio.h>
#include <unistd.h>

#include "h5tests/support/cmocka_all.h"

/* Redirects stderr to a temporary file. Returns the handle that undoes it. */
static inline int
redirect_stderr(FILE **file_ret)
{
    int kept = dup(STDERR_FILENO);

    *file_ret = tmpfile();
    assert_non_null(*file_ret);
    assert_true(kept >= 0);
    assert_true(dup2(fileno(*file_ret), STDERR_FILENO) >= 0);
    return kept;
}

static inline void
restore_stderr(int kept, FILE *file, char *text, size_t text_cap_nbytes)
{
    fflush(stderr);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    rewind(file);
    text[fread(text, 1, text_cap_nbytes - 1, file)] = '\0';
    fclose(file);
}

/* What terp uses of POSIX's fnmatch.h, on Windows. */
#pragma once

#define FNM_NOMATCH 1

/* Whether the text matches the pattern, in which *, ?, [...] and \ mean what
 * they do in a shell; 0: yes. There are no flags: a slash is like others. */
int
fnmatch(const char *pattern, const char *text, int flags);

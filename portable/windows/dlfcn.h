/* What terp uses of POSIX's dlfcn.h, on Windows. */
#pragma once

#define RTLD_LAZY 1
#define RTLD_NOLOAD 4
#define RTLD_DEFAULT NULL /* all modules of the process */

typedef struct {
    const char *dli_fname; /* in UTF-8; kept as long as the process */
    void *dli_fbase;
} Dl_info;

/* The module that the address lies in; 0 where it lies in none. */
int
dladdr(const void *address, Dl_info *info);

/* A module that is there already, of which one handle more is given out; NULL
 * names the program. */
void *
dlopen(const char *path, int mode);

void *
dlsym(void *module, const char *name);

int
dlclose(void *module);

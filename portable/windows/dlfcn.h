/* The part of POSIX's dlfcn.h that terp uses, for Windows. */
#pragma once

#define RTLD_LAZY 1
#define RTLD_NOLOAD 4
#define RTLD_DEFAULT NULL /* all modules of the process */

typedef struct {
    const char *dli_fname; /* in UTF-8; never freed */
    void *dli_fbase;
} Dl_info;

/* Finds the module that contains an address; returns 0 if there is none. */
int
dladdr(const void *address, Dl_info *info);

/* Returns another handle of a module that is already loaded; NULL names the
 * program. */
void *
dlopen(const char *path, int mode);

void *
dlsym(void *module, const char *name);

int
dlclose(void *module);

/* Finds modules and their symbols by Windows' functions. */
#include <dlfcn.h>

#include <stdlib.h>
#include <string.h>
#include <windows.h>
/* windows.h must come first. */
#include <psapi.h>

#define MAX_PATH_NBYTES 4096
#define MAX_NMODULES 1024

/* Keeps this module loaded, like the linker option nodelete on other systems:
 * threads may still run in it when a program closes its plugins. */
__attribute__((constructor)) static void
stay_loaded(void)
{
    HMODULE self;

    GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN |
                           GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                       (const wchar_t *)(uintptr_t)&stay_loaded, &self);
}

/* Returns a copy of a text that is never freed; equal texts share one copy. A
 * process has few modules, so this needs little memory. */
static const char *
keep(const char *text)
{
    static struct kept {
        struct kept *next;
        char text[];
    } * first;
    static SRWLOCK lock = SRWLOCK_INIT;
    struct kept *kept;

    AcquireSRWLockExclusive(&lock);
    for (kept = first; kept != NULL; kept = kept->next)
        if (strcmp(kept->text, text) == 0)
            break;
    if (kept == NULL &&
        (kept = malloc(sizeof *kept + strlen(text) + 1)) != NULL) {
        strcpy(kept->text, text);
        kept->next = first;
        first = kept;
    }
    ReleaseSRWLockExclusive(&lock);
    return kept == NULL ? NULL : kept->text;
}

int
dladdr(const void *address, Dl_info *info)
{
    wchar_t path[MAX_PATH_NBYTES];
    char text[MAX_PATH_NBYTES];
    HMODULE module;

    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                            address, &module) ||
        GetModuleFileNameW(module, path, MAX_PATH_NBYTES) == 0 ||
        WideCharToMultiByte(CP_UTF8, 0, path, -1, text, sizeof text, NULL,
                            NULL) == 0)
        return 0;
    info->dli_fbase = module;
    info->dli_fname = keep(text);
    return info->dli_fname != NULL;
}

void *
dlopen(const char *path, int mode)
{
    wchar_t wide[MAX_PATH_NBYTES];
    HMODULE module = NULL;

    (void)mode;
    if (path != NULL &&
        MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, MAX_PATH_NBYTES) == 0)
        return NULL;
    GetModuleHandleExW(0, path == NULL ? NULL : wide, &module);
    return module;
}

static void *
find_in(HMODULE module, const char *name)
{
    FARPROC function = GetProcAddress(module, name);
    void *symbol;

    /* ISO C cannot cast a function pointer to an object pointer. */
    memcpy(&symbol, &function, sizeof symbol);
    return symbol;
}

void *
dlsym(void *module, const char *name)
{
    HMODULE modules[MAX_NMODULES];
    DWORD nbytes;
    void *symbol = NULL;

    if (module != RTLD_DEFAULT)
        return find_in(module, name);
    if (!EnumProcessModules(GetCurrentProcess(), modules, sizeof modules,
                            &nbytes))
        return NULL;
    for (size_t i = 0;
         symbol == NULL && i < MAX_NMODULES && i < nbytes / sizeof *modules;
         i++)
        symbol = find_in(modules[i], name);
    return symbol;
}

int
dlclose(void *module)
{
    return FreeLibrary(module) ? 0 : -1;
}

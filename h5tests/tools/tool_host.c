/* Runs the Python package's tool without Python, on systems that have none:
 *
 *   tool_host HDF5 TERP_TOOL COMMAND...
 *
 * opens the two libraries, the first one with global symbols, and calls
 * main. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
/* windows.h must come before this header. */
#include <shellapi.h>
#define OPEN(path) (void *)LoadLibraryA(path)
#define FIND(library, name) (void *)GetProcAddress(library, name)
#else
#include <dlfcn.h>
#define OPEN(path) dlopen(path, RTLD_LAZY | RTLD_GLOBAL)
#define FIND(library, name) dlsym(library, name)
#endif

/* The command's words in UTF-8, as Python passes them. */
static char **
words_of_program(int argc, char **argv)
{
#ifdef _WIN32
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &argc);

    for (int i = 0; i < argc; i++) {
        int nbytes =
            WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
        argv[i] = malloc((size_t)nbytes);
        WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, argv[i], nbytes, NULL,
                            NULL);
    }
#else
    (void)argc;
#endif
    return argv;
}

int
main(int argc, char **argv)
{
    argv = words_of_program(argc, argv);
    int (*tool)(int argc, char **argv);
    void *hdf5 = argc > 3 ? OPEN(argv[1]) : NULL;
    void *library = hdf5 != NULL ? OPEN(argv[2]) : NULL;
    void *function = library != NULL ? FIND(library, "main") : NULL;

    if (function == NULL) {
        fprintf(stderr, "tool_host: one of the libraries cannot be opened\n");
        return 3;
    }
    memcpy(&tool, &function, sizeof tool);
    return tool(argc - 2, argv + 2);
}

/* Names of unfinished files, which identify the process that writes them. */
#define _GNU_SOURCE /* gethostname, mkstemp, readlink */
#include "tools/common/unfinished.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <signal.h>
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#define MARK ".part-"

/* Limit for the host in a file name: hosts may have 64 characters, file names
 * at most 255. */
#define MAX_HOST_NBYTES 16

/* "HOST-MACHINE-": the prefix of unfinished files whose process this machine
 * can check. */
struct origin {
    char text[MAX_HOST_NBYTES + 32];
};

/* ---- process information of Linux ---- */

/* Reads up to `cap` - 1 bytes of a system file as text; "" on failure. */
static void
read_text(const char *path, char *text, size_t cap)
{
    FILE *file = fopen(path, "rb");
    size_t n = file == NULL ? 0 : fread(text, 1, cap - 1, file);

    text[n] = '\0';
    if (file != NULL)
        fclose(file);
}

/* The start time of a process in the system's unit, and its state; 0 and '\0'
 * if unknown. */
static uint64_t
start_of(unsigned pid, char *state_ret)
{
    char path[64], text[1024];
    uint64_t start = 0;

    *state_ret = '\0';
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    read_text(path, text, sizeof text);
    /* The program's name, in parentheses, may contain any character. Of the
     * words behind it, the 20th is the start time. */
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] == '\0')
        return 0;
    *state_ret = at[2];
    for (int i = 0; i < 20 && at != NULL; i++)
        at = strchr(at + 1, ' ');
    if (at != NULL)
        start = strtoull(at, NULL, 10);
    return start;
}

/* ---- identity of processes ---- */

static void
get_host(char *name, size_t cap)
{
#ifdef _WIN32
    DWORD size = (DWORD)cap;
    const bool known = GetComputerNameA(name, &size);
#else
    const bool known = gethostname(name, cap - 1) == 0;
#endif
    name[cap - 1] = '\0';
    if (!known)
        name[0] = '\0';
}

/* Identifies the machine since its last start, and its list of processes:
 * containers have lists of their own on the same machine. */
static void
find_origin(struct origin *origin_ret)
{
    char host[256], boot[64], processes[64] = "", all[512];

    get_host(host, sizeof host);
    read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
#ifndef _WIN32
    const ssize_t n =
        readlink("/proc/self/ns/pid", processes, sizeof processes - 1);
    processes[n < 0 ? 0 : n] = '\0';
#endif
    snprintf(all, sizeof all, "%s/%s/%s", host, boot, processes);
    const uint64_t machine = XXH64(all, strlen(all), 0);
    for (char *at = host; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && *at != '.')
            *at = '_';
    snprintf(origin_ret->text, sizeof origin_ret->text, "%.*s-%012llx-",
             MAX_HOST_NBYTES, host, (unsigned long long)(machine >> 16));
}

/* Whether the process with this number and start time certainly ended. */
static bool
is_gone(unsigned pid, uint64_t start)
{
#ifdef _WIN32
    HANDLE process = OpenProcess(SYNCHRONIZE, FALSE, pid);

    (void)start;
    if (process == NULL)
        return GetLastError() == ERROR_INVALID_PARAMETER;
    const bool gone = WaitForSingleObject(process, 0) == WAIT_OBJECT_0;
    CloseHandle(process);
    return gone;
#else
    char state;

    /* /proc may hide processes of other users; kill reports that they exist. */
    if (pid == 0 || pid > INT32_MAX)
        return false;
    if (kill((pid_t)pid, 0) != 0)
        return errno == ESRCH;
    const uint64_t now = start_of(pid, &state);
    if (now != 0 && start != 0 && now != start)
        return true; /* another process has the number now */
    return state == 'Z' || state == 'X';
#endif
}

/* ---- file names ---- */

int
tool_unfinished_make(const char *out, char *path_ret, size_t path_cap)
{
    const unsigned pid = (unsigned)getpid();
    struct origin origin;
    char state;

    find_origin(&origin);
    const int length =
        snprintf(path_ret, path_cap, "%s" MARK "%s%x-%llx-XXXXXX", out,
                 origin.text, pid, (unsigned long long)start_of(pid, &state));
    if (length < 0 || (size_t)length >= path_cap) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return mkstemp(path_ret);
}

/* Whether the text after MARK was written by tool_unfinished_make: host,
 * machine, process, start, and six characters. */
static bool
is_of_ours(const char *text)
{
    const char *machine = text + strcspn(text, "-");
    unsigned long long numbers[3];
    char rest[8];

    return sscanf(machine, "-%12llx-%llx-%llx-%7[A-Za-z0-9]", &numbers[0],
                  &numbers[1], &numbers[2], rest) == 4 &&
           strlen(rest) == 6 && strcmp(strrchr(text, '-') + 1, rest) == 0;
}

bool
tool_unfinished_is(const char *path)
{
    bool found = false;

    for (const char *at = path; (at = strstr(at, MARK)) != NULL; at++)
        found |= is_of_ours(at + strlen(MARK));
    return found;
}

/* Removes the file if its process has ended, or reports it. */
static void
sweep_one(const struct origin *origin, const char *path, const char *text,
          tool_unfinished_report *report, void *context)
{
    const size_t n = strlen(origin->text);
    unsigned long long start;
    unsigned pid;

    if (!is_of_ours(text))
        return;
    if (strncmp(text, origin->text, n) != 0)
        report(context, path);
    else if (sscanf(text + n, "%x-%llx-", &pid, &start) == 2 &&
             is_gone(pid, start))
        unlink(path);
}

void
tool_unfinished_sweep(const char *out, tool_unfinished_report *report,
                      void *context)
{
    const char *slash = strrchr(out, '/');
    const char *name = slash == NULL ? out : slash + 1;
    const size_t name_nbytes = strlen(name);
    char path[4096];
    struct dirent *entry;
    struct origin origin;

    const int folder_nbytes =
        snprintf(path, sizeof path, "%.*s", (int)(name - out), out);
    if (folder_nbytes < 0 || (size_t)folder_nbytes >= sizeof path)
        return;
    find_origin(&origin);
    DIR *folder = opendir(folder_nbytes == 0 ? "." : path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const char *found = entry->d_name;
        if (strncmp(found, name, name_nbytes) != 0 ||
            strncmp(found + name_nbytes, MARK, strlen(MARK)) != 0)
            continue;
        const int n =
            snprintf(path + folder_nbytes, sizeof path - (size_t)folder_nbytes,
                     "%s", found);
        if (n > 0 && (size_t)n < sizeof path - (size_t)folder_nbytes)
            sweep_one(&origin, path, found + name_nbytes + strlen(MARK), report,
                      context);
    }
    if (folder != NULL)
        closedir(folder);
}

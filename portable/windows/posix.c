/* Functions for files whose paths are in UTF-8. */
#include "portable/windows/posix.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <wchar.h>
#include <windows.h>

#define MAX_PATH_NBYTES 4096

/* Windows counts units of 100 ns since 1601. */
#define TICKS_PER_SECOND UINT64_C(10000000)
#define SECONDS_TO_1970 UINT64_C(11644473600)

static bool
widen(const char *path, wchar_t wide[MAX_PATH_NBYTES])
{
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide,
                            MAX_PATH_NBYTES) > 0)
        return true;
    errno = EINVAL;
    return false;
}

static int
fail(void)
{
    switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
        errno = ENOENT;
        break;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        errno = EACCES;
        break;
    default:
        errno = EIO;
    }
    return -1;
}

int
terp_stat(const char *path, struct terp_stat *stat_ret)
{
    wchar_t wide[MAX_PATH_NBYTES];
    BY_HANDLE_FILE_INFORMATION found;

    if (!widen(path, wide))
        return -1;
    /* The flag is needed to open folders. */
    HANDLE file = CreateFileW(
        wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
        OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return fail();
    bool is_known = GetFileInformationByHandle(file, &found);
    const bool is_folder =
        is_known && (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    const bool is_disk = GetFileType(file) == FILE_TYPE_DISK;
    int code = is_known ? 0 : fail();
    CloseHandle(file);
    if (!is_known)
        return code;
    uint64_t ticks = (uint64_t)found.ftLastWriteTime.dwHighDateTime << 32 |
                     found.ftLastWriteTime.dwLowDateTime;
    *stat_ret = (struct terp_stat){
        .st_dev = found.dwVolumeSerialNumber,
        .st_ino = (uint64_t)found.nFileIndexHigh << 32 | found.nFileIndexLow,
        .st_size = (uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow,
        .st_mode = is_folder ? S_IFDIR
                   : is_disk ? S_IFREG
                             : S_IFCHR,
        .st_mtim = {(time_t)(ticks / TICKS_PER_SECOND - SECONDS_TO_1970),
                    (long)(ticks % TICKS_PER_SECOND * 100)}};
    return 0;
}

int
terp_rename(const char *from, const char *to)
{
    wchar_t wide_from[MAX_PATH_NBYTES], wide_to[MAX_PATH_NBYTES];

    if (!widen(from, wide_from) || !widen(to, wide_to))
        return -1;
    return MoveFileExW(wide_from, wide_to,
                       MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)
               ? 0
               : fail();
}

#define MAX_MODE_LENGTH 8

/* Drops 'e' from the mode: on Windows, child processes inherit no open files by
 * default. */
FILE *
terp_fopen(const char *path, const char *mode)
{
    wchar_t wide[MAX_PATH_NBYTES], wide_mode[MAX_MODE_LENGTH];
    size_t length = 0;

    for (; *mode != '\0' && length + 1 < MAX_MODE_LENGTH; mode++)
        if (*mode != 'e')
            wide_mode[length++] = (wchar_t)*mode;
    wide_mode[length] = L'\0';
    return widen(path, wide) ? _wfopen(wide, wide_mode) : NULL;
}

int
terp_unlink(const char *path)
{
    wchar_t wide[MAX_PATH_NBYTES];

    return widen(path, wide) ? _wunlink(wide) : -1;
}

int
terp_access(const char *path, int mode)
{
    wchar_t wide[MAX_PATH_NBYTES];

    return widen(path, wide) ? _waccess(wide, mode) : -1;
}

int
terp_mkdir(const char *path)
{
    wchar_t wide[MAX_PATH_NBYTES];

    return widen(path, wide) ? _wmkdir(wide) : -1;
}

char *
terp_realpath(const char *path)
{
    wchar_t wide[MAX_PATH_NBYTES], full[MAX_PATH_NBYTES];
    char *text = malloc(MAX_PATH_NBYTES);

    if (text != NULL && widen(path, wide) &&
        _wfullpath(full, wide, MAX_PATH_NBYTES) != NULL &&
        WideCharToMultiByte(CP_UTF8, 0, full, -1, text, MAX_PATH_NBYTES, NULL,
                            NULL) > 0)
        return text;
    free(text);
    return NULL;
}

/* Names differ by process and time; a name that exists is skipped. */
int
terp_mkstemp(char *pattern)
{
    char *digits = pattern + strlen(pattern) - strlen("XXXXXX");
    wchar_t wide[MAX_PATH_NBYTES];
    LARGE_INTEGER now;
    int file = -1;

    QueryPerformanceCounter(&now);
    uint64_t number = (uint64_t)now.QuadPart ^ GetCurrentProcessId() << 8;
    for (int i = 0; file < 0 && i < 100; i++) {
        snprintf(digits, sizeof "XXXXXX", "%06x",
                 (unsigned)(number + (unsigned)i) & 0xffffff);
        if (!widen(pattern, wide))
            return -1;
        file = _wopen(wide, _O_RDWR | _O_CREAT | _O_EXCL | _O_BINARY,
                      _S_IREAD | _S_IWRITE);
        if (file < 0 && errno != EEXIST)
            return -1;
    }
    return file;
}

/* terp repack: finds files by their signature, and the paths of their copies.
 */
#define _POSIX_C_SOURCE 200809L /* lstat, strdup */
#include "tools/repack/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifndef _WIN32
#include <glob.h>
#endif

#include "tools/common/text.h"
#include "tools/common/unfinished.h"

#ifdef _WIN32
#define lstat stat
#define IS_LINK(mode) false
#else
#define IS_LINK(mode) S_ISLNK(mode)
#endif

struct search {
    const struct repack_request *request;
    struct repack_files *files;
    bool has_directory; /* --output-dir exists: do not search it */
    struct stat directory;
    bool failed; /* without memory */
};

/* ---- paths ---- */

/* "folder/name", without a slash where the folder is "" or ends with one. NULL
 * without memory. */
static char *
join(const char *folder, const char *name)
{
    const size_t n = strlen(folder), nbytes = n + strlen(name) + 2;
    char *path = malloc(nbytes);

    if (path != NULL)
        snprintf(path, nbytes, "%s%s%s", folder,
                 n == 0 || folder[n - 1] == '/' ? "" : "/", name);
    return path;
}

/* Whether a path goes up, so that DIR cannot hold it. */
static bool
goes_up(const char *path)
{
    for (const char *at = path; at != NULL; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0'))
            return true;
    }
    return false;
}

static bool
is_absolute(const char *path)
{
    return path[0] == '/'
#ifdef _WIN32
           || path[0] == '\\' || (path[0] != '\0' && path[1] == ':')
#endif
        ;
}

/* The path of an operand below DIR: a relative path as it is; of another one
 * its last name. */
static const char *
kept_path(const char *operand)
{
    if (is_absolute(operand) || goes_up(operand)) {
        const char *slash = strrchr(operand, '/');
        const char *name = slash == NULL ? operand : slash + 1;
        return strcmp(name, "..") == 0 ? "" : name;
    }
    while (operand[0] == '.' && (operand[1] == '/' || operand[1] == '\0')) {
        operand++;
        while (*operand == '/')
            operand++;
    }
    return operand;
}

/* A copy of an operand without slashes at its end. */
static char *
trimmed(const char *operand)
{
    char *path = strdup(operand);
    size_t n = path == NULL ? 0 : strlen(path);

    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    return path;
}

bool
repack_files_make_directories(const char *path)
{
    char *copy = strdup(path);
    bool ok = copy != NULL;

    for (char *at = copy; ok && (at = strchr(at + 1, '/')) != NULL;) {
        *at = '\0';
        ok = mkdir(copy, 0777) == 0 || errno == EEXIST;
        *at = '/';
    }
    free(copy);
    return ok;
}

/* ---- the list ---- */

/* Adds a file, and takes ownership of its paths. */
static void
add(struct search *search, struct repack_file file)
{
    struct repack_files *files = search->files;

    if (files->n == files->cap) {
        const size_t cap = files->cap == 0 ? 64 : 2 * files->cap;
        struct repack_file *more = realloc(files->at, cap * sizeof *more);
        if (more != NULL) {
            files->at = more;
            files->cap = cap;
        }
    }
    if (files->n == files->cap || file.in == NULL ||
        (file.out == NULL && file.trouble == NULL)) {
        search->failed = true;
        free(file.in);
        free(file.out);
        free(file.trouble);
        return;
    }
    file.number = files->n;
    files->at[files->n++] = file;
}

static void
add_trouble(struct search *search, const char *path, int error)
{
    add(search, (struct repack_file){.in = strdup(path),
                                     .trouble = strdup(strerror(error))});
}

/* Adds a file whose copy is `kept` below DIR. */
static void
add_file(struct search *search, const char *path, const char *kept,
         const struct stat *found)
{
    add(search, (struct repack_file){
                    .in = strdup(path),
                    .out = search->request->directory == NULL /* in place */
                               ? strdup(path)
                               : join(search->request->directory, kept),
                    .nbytes = (uint64_t)found->st_size,
                    .device = (uint64_t)found->st_dev,
                    .inode = (uint64_t)found->st_ino});
}

/* ---- directories ---- */

/* Whether the file has HDF5's signature: at the beginning or, behind a user
 * block, at 512, 1024, 2048... bytes. -1: errno says why it is unknown. */
static int
has_signature(const char *path, uint64_t nbytes)
{
    static const char signature[] = "\x89HDF\r\n\x1a\n";
    const size_t n = sizeof signature - 1;
    char bytes[sizeof signature];
    FILE *file = fopen(path, "rb");
    bool found = false;

    if (file == NULL)
        return -1;
    for (uint64_t at = 0; !found && at + n <= nbytes;
         at = at == 0 ? 512 : 2 * at)
        found = fseeko(file, (off_t)at, SEEK_SET) == 0 &&
                fread(bytes, n, 1, file) == 1 &&
                memcmp(bytes, signature, n) == 0;
    fclose(file);
    return found;
}

static void
add_if_hdf5(struct search *search, const char *path, const char *kept,
            const struct stat *found)
{
    const int is_hdf5 = has_signature(path, (uint64_t)found->st_size);

    if (is_hdf5 < 0)
        add_trouble(search, path, errno);
    else if (is_hdf5 == 0 || tool_unfinished_is(path))
        search->files->nothers++;
    else
        add_file(search, path, kept, found);
}

/* Whether a directory is the one that --output-dir names. */
static bool
is_output(const struct search *search, const struct stat *found)
{
    return search->has_directory && found->st_dev == search->directory.st_dev &&
           found->st_ino == search->directory.st_ino;
}

static void
search_directory(struct search *search, const char *path, const char *kept);

static void
search_entry(struct search *search, const char *path, const char *kept)
{
    struct stat found;

    if (lstat(path, &found) != 0)
        add_trouble(search, path, errno);
    else if (IS_LINK(found.st_mode))
        search->files->nlinks++;
    else if (S_ISREG(found.st_mode))
        add_if_hdf5(search, path, kept, &found);
    else if (S_ISDIR(found.st_mode) && !is_output(search, &found))
        search_directory(search, path, kept);
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
free_names(char **names)
{
    for (size_t i = 0; names != NULL && names[i] != NULL; i++)
        free(names[i]);
    free(names);
}

/* Adds a name to `n` names, which end with NULL. Without memory frees them and
 * returns NULL. */
static char **
add_name(char **names, size_t n, const char *name)
{
    char **more = realloc(names, (n + 2) * sizeof *more);

    if (more == NULL) {
        free_names(names);
        return NULL;
    }
    more[n] = name == NULL ? NULL : strdup(name);
    more[n + 1] = NULL;
    if (name != NULL && more[n] == NULL) {
        free_names(more);
        return NULL;
    }
    return more;
}

/* The names in a directory, in order; NULL follows the last one. NULL: errno
 * says why. */
static char **
list_directory(const char *path)
{
    DIR *folder = opendir(path);
    char **names = folder == NULL ? NULL : add_name(NULL, 0, NULL);
    struct dirent *entry;
    size_t n = 0;

    while (names != NULL && (entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            names = add_name(names, n++, entry->d_name);
    if (names != NULL)
        qsort(names, n, sizeof *names, compare_names);
    if (folder != NULL)
        closedir(folder);
    return names;
}

static void
search_directory(struct search *search, const char *path, const char *kept)
{
    char **names = list_directory(path);

    if (names == NULL) {
        add_trouble(search, path, errno);
        return;
    }
    for (size_t i = 0; names[i] != NULL; i++) {
        char *entry = join(path, names[i]), *below = join(kept, names[i]);
        if (entry != NULL && below != NULL)
            search_entry(search, entry, below);
        else
            search->failed = true;
        free(entry);
        free(below);
    }
    free_names(names);
}

/* ---- operands ---- */

/* Whether an operand was found. */
static bool
search_operand(struct search *search, const char *operand)
{
    char *path = trimmed(operand);
    struct stat found;
    bool exists = true;

    if (path == NULL)
        search->failed = true;
    else if (stat(path, &found) != 0)
        exists = false;
    else if (S_ISDIR(found.st_mode) && is_output(search, &found))
        add(search, (struct repack_file){
                        .in = strdup(path),
                        .trouble = strdup("the directory of the copies")});
    else if (S_ISDIR(found.st_mode))
        search_directory(search, path, kept_path(path));
    else
        add_file(search, path, kept_path(path), &found);
    free(path);
    return exists;
}

/* Searches for the files that a pattern of the shell names. False if there are
 * none. */
static bool
search_pattern(struct search *search, const char *pattern)
{
#ifdef _WIN32
    (void)search, (void)pattern;
    return false;
#else
    glob_t found;
    const bool ok = glob(pattern, 0, NULL, &found) == 0;

    for (size_t i = 0; ok && i < found.gl_pathc; i++)
        if (!search_operand(search, found.gl_pathv[i]))
            add_trouble(search, found.gl_pathv[i], errno);
    globfree(&found);
    return ok;
#endif
}

static void
search_operands(struct search *search)
{
    const struct repack_request *request = search->request;

    for (int i = 0; i < request->noperands; i++) {
        const char *operand = request->operands[i];
        if (search_operand(search, operand))
            continue;
        const int error = errno;
        if (!search_pattern(search, operand))
            add_trouble(search, operand, error);
    }
}

/* ---- files that are named twice ---- */

static int
compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int
compare_places(const void *a, const void *b)
{
    const struct repack_file *one = a, *other = b;

    return compare_numbers(one->number, other->number);
}

/* By output, and files of the same output by number. In place, by the
 * file: it may have several paths. */
static int
compare_outputs(const void *a, const void *b)
{
    const struct repack_file *one = a, *other = b;
    int order = 0;

    if (one->out == NULL || other->out == NULL)
        order = (one->out == NULL) - (other->out == NULL);
    else if (strcmp(one->out, one->in) == 0)
        order = one->device != other->device
                    ? compare_numbers(one->device, other->device)
                    : compare_numbers(one->inode, other->inode);
    else
        order = strcmp(one->out, other->out);
    return order != 0 ? order : compare_places(a, b);
}

static bool
is_same_file(const struct repack_file *a, const struct repack_file *b)
{
    return a->device == b->device && a->inode == b->inode;
}

static void
free_file(struct repack_file *file)
{
    free(file->in);
    free(file->out);
    free(file->trouble);
}

/* Leaves out files that occur twice. False: prints which files would get the
 * same output. */
static bool
drop_repetitions(const struct repack_request *request,
                 struct repack_files *files)
{
    size_t n = 0;
    bool ok = true;

    if (files->n == 0)
        return true;
    qsort(files->at, files->n, sizeof *files->at, compare_outputs);
    for (size_t i = 0; i < files->n; i++) {
        struct repack_file *file = &files->at[i];
        struct repack_file *last = n == 0 ? NULL : &files->at[n - 1];
        const bool repeats = last != NULL && file->out != NULL &&
                             last->out != NULL &&
                             (request->target == REPACK_IN_PLACE
                                  ? is_same_file(file, last)
                                  : strcmp(file->out, last->out) == 0);
        if (repeats && !is_same_file(file, last)) {
            fprintf(stderr,
                    "terp repack: %s and %s would both become %s; name them by "
                    "paths relative to a common directory\n",
                    tool_shown(last->in), tool_shown(file->in),
                    tool_shown(file->out));
            ok = false;
        }
        if (repeats)
            free_file(file);
        else
            files->at[n++] = *file;
    }
    files->n = n;
    qsort(files->at, n, sizeof *files->at, compare_places);
    return ok;
}

/* ---- */

bool
repack_files_find(const struct repack_request *request,
                  struct repack_files *files_ret)
{
    struct search search = {.request = request, .files = files_ret};

    *files_ret = (struct repack_files){0};
    if (request->target == REPACK_TO_OUT) {
        add(&search, (struct repack_file){.in = strdup(request->path_in),
                                          .out = strdup(request->path_out)});
    } else {
        search.has_directory = request->directory != NULL &&
                               stat(request->directory, &search.directory) == 0;
        search_operands(&search);
    }
    if (search.failed) {
        fprintf(stderr, "terp repack: not enough memory\n");
        return false;
    }
    return drop_repetitions(request, files_ret);
}

void
repack_files_free(struct repack_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        free_file(&files->at[i]);
    free(files->at);
}

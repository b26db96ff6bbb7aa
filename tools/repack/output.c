/* terp repack: writes the output beside OUT and renames it to OUT when it is
 * complete. */
#define _GNU_SOURCE /* realpath, readlink, fchown, lstat */
#include "tools/repack/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/xattr.h>
#endif

#include "tools/common/text.h"
#include "tools/common/unfinished.h"
#include "tools/repack/lists.h"

/* HDF5's limit for attributes in old object headers is 64 KiB; the rest is for
 * the message that describes the attribute. Above this limit of terp_lost, the
 * output gets new object headers. */
#define MAX_OLD_ATTRIBUTE_NBYTES 60000

/* Linux follows as many symbolic links; find_target fails beyond. */
#define MAX_NLINKS 40

/* The unfinished file. It gets OUT's name when it is complete; otherwise it is
 * removed when the program ends. */
static char unfinished_path[4096];
static volatile sig_atomic_t has_unfinished;

/* The state of the output. */
static struct {
    int file;        /* open until the file has its owner, so that nobody can
                        exchange it before; or -1 */
    char *path;      /* of OUT, after all symbolic links */
    bool exists;     /* OUT existed before the run */
    struct stat old; /* of the existing OUT */
} output = {.file = -1};

void
repack_output_remove(void)
{
    if (has_unfinished)
        unlink(unfinished_path);
    has_unfinished = 0;
}

static void
end_by_signal(int number)
{
    repack_output_remove();
    signal(number, SIG_DFL);
    raise(number);
}

static void
watch_ends(void)
{
    signal(SIGINT, end_by_signal);
    signal(SIGTERM, end_by_signal);
#ifndef _WIN32
    signal(SIGHUP, end_by_signal);
    signal(SIGPIPE, end_by_signal);
    /* Without the signal, write() fails at the limit of a file's size. */
    signal(SIGXFSZ, SIG_IGN);
#endif
    atexit(repack_output_remove);
}

static void
warn_of_unfinished(void *context, const char *path)
{
    const struct repack *repack = context;

    fprintf(stderr,
            "terp %s: %s: unfinished output of a run on another machine, or "
            "of a run before this machine started; remove it unless that run "
            "is active\n",
            repack->request.command, tool_shown(path));
}

/* The path that writing to OUT creates or replaces: the target where OUT is a
 * symbolic link, even of a missing file. Free the result. NULL: errno says why.
 */
static char *
find_target(const char *path)
{
#ifdef _WIN32
    return strdup(path);
#else
    char target[4096];
    char *at = strdup(path);

    for (int i = 0; at != NULL && i <= MAX_NLINKS; i++) {
        const ssize_t n = readlink(at, target, sizeof target - 1);
        if (n < 0)
            return at; /* not a link, perhaps a missing file */
        target[n] = '\0';
        /* A relative target starts from the folder of the link. */
        const char *slash = target[0] == '/' ? NULL : strrchr(at, '/');
        const int folder_nbytes = slash == NULL ? 0 : (int)(slash + 1 - at);
        char *next = malloc((size_t)folder_nbytes + (size_t)n + 1);
        if (next != NULL)
            sprintf(next, "%.*s%s", folder_nbytes, at, target);
        free(at);
        at = next;
    }
    free(at);
    errno = ELOOP;
    return NULL;
#endif
}

/* Whether a copy can replace the file at `path` and stand for it under all of
 * its names. Links would not lead to the copy, and only root can give it to
 * another user. */
static bool
check_in_place(struct repack *repack, const char *path)
{
#ifndef _WIN32
    struct stat link;

    if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode))
        return repack_fail(repack, path,
                           "a symbolic link; name the file to which it leads");
    if (output.old.st_nlink > 1)
        return repack_fail(repack, path,
                           "has %lu hard links; the others would still lead to "
                           "the old file: use --output-dir",
                           (unsigned long)output.old.st_nlink);
    if (geteuid() != 0 && geteuid() != output.old.st_uid)
        return repack_fail(repack, path, "belongs to another user");
#else
    (void)repack, (void)path;
#endif
    return true;
}

/* Finds out what OUT is, and its path. */
static bool
find_out(struct repack *repack, const struct stat *stat_in)
{
    const char *path = repack->request.path_out;
    const bool in_place = repack->request.target == REPACK_IN_PLACE;

    output.exists = stat(path, &output.old) == 0;
    if (!output.exists && errno != ENOENT)
        return repack_fail(repack, path, "%s", strerror(errno));
    if (in_place && !check_in_place(repack, path))
        return false;
    if (!in_place && output.exists && output.old.st_dev == stat_in->st_dev &&
        output.old.st_ino == stat_in->st_ino)
        return repack_fail(repack, path, "IN and OUT are the same file");
    if (output.exists && !S_ISREG(output.old.st_mode))
        return repack_fail(repack, path, "not a regular file");
    if (output.exists && access(path, W_OK) != 0)
        return repack_fail(repack, path, "%s", strerror(errno));
    output.path = output.exists ? realpath(path, NULL) : find_target(path);
    return output.path != NULL ||
           repack_fail(repack, path, "%s", strerror(errno));
}

bool
repack_output_begin(struct repack *repack, const struct stat *stat_in)
{
    watch_ends();
    if (!find_out(repack, stat_in))
        return false;
    tool_unfinished_sweep(output.path, warn_of_unfinished, repack);
    has_unfinished = 1; /* before a signal can come between */
    output.file = tool_unfinished_make(output.path, unfinished_path,
                                       sizeof unfinished_path);
    if (output.file < 0) {
        has_unfinished = 0;
        return repack_fail(repack, repack->request.path_out, "%s",
                           strerror(errno));
    }
#ifdef _WIN32 /* Windows does not rename an open file */
    close(output.file);
    output.file = -1;
#endif
    return true;
}

#ifdef __linux__
/* Whether a copy in place takes over this extended attribute: the user's own,
 * and access lists. The system sets the others for each new file. */
static bool
is_kept(const char *name)
{
    return strncmp(name, "user.", 5) == 0 ||
           strcmp(name, "system.posix_acl_access") == 0;
}

static bool
copy_extended(const char *from, int to, const char *name)
{
    const ssize_t nbytes = getxattr(from, name, NULL, 0);
    void *value = nbytes < 0 ? NULL : malloc((size_t)nbytes + 1);
    const bool ok = value != NULL &&
                    getxattr(from, name, value, (size_t)nbytes) == nbytes &&
                    fsetxattr(to, name, value, (size_t)nbytes, 0) == 0;

    free(value);
    return ok;
}

/* Copies the extended attributes of a file. False: errno says why not. */
static bool
copy_all_extended(const char *from, int to)
{
    const ssize_t nbytes = listxattr(from, NULL, 0);
    char *names = nbytes > 0 ? malloc((size_t)nbytes) : NULL;
    ssize_t n = names == NULL ? 0 : listxattr(from, names, (size_t)nbytes);
    bool ok = nbytes <= 0 || (names != NULL && n >= 0);

    for (const char *name = names; ok && name != NULL && name - names < n;
         name += strlen(name) + 1)
        ok = !is_kept(name) || copy_extended(from, to, name);
    free(names);
    return ok || errno == ENOTSUP;
}
#endif

#ifndef _WIN32
/* Gives the copy the owner, the permissions and the extended attributes of the
 * file that it replaces. */
static bool
take_over(const struct repack *repack)
{
    return fchown(output.file, output.old.st_uid, output.old.st_gid) == 0 &&
           fchmod(output.file, output.old.st_mode & 07777) == 0
#ifdef __linux__
           && copy_all_extended(repack->request.path_in, output.file)
#endif
        ;
}
#endif

/* Gives the file the owner and permissions of the existing OUT. A new file gets
 * the usual permissions, and the owner of the input where the user may set it.
 * In place everything must stay; false: errno says why not. */
static bool
set_rights(const struct repack *repack, const struct stat *stat_in)
{
#ifndef _WIN32
    const mode_t mask = umask(0);
    struct stat made;
    bool ok = true;

    (void)umask(mask);
    if (output.file < 0 || fstat(output.file, &made) != 0)
        return repack->request.target != REPACK_IN_PLACE;
    if (repack->request.target == REPACK_IN_PLACE) {
        ok = take_over(repack);
    } else {
        if (output.exists) {
            if (fchown(output.file, output.old.st_uid, output.old.st_gid) != 0)
                (void)!fchown(output.file, (uid_t)-1, output.old.st_gid);
        } else if (stat_in->st_uid != made.st_uid) {
            (void)!fchown(output.file, stat_in->st_uid, stat_in->st_gid);
        }
        (void)fchmod(output.file,
                     output.exists ? output.old.st_mode & 0777 : 0666 & ~mask);
    }
    close(output.file);
    output.file = -1;
    return ok;
#else
    (void)repack, (void)stat_in;
    return true;
#endif
}

/* Writes the folder of a path to the disk, so that a file that was renamed is
 * there after a failure of power. Some file systems cannot; then the old file
 * or the new one is there. */
static void
sync_folder(const char *path)
{
#ifndef _WIN32
    const char *slash = strrchr(path, '/');
    char *folder =
        slash == NULL ? strdup(".") : strndup(path, (size_t)(slash + 1 - path));
    const int file = folder == NULL ? -1 : open(folder, O_RDONLY);

    if (file >= 0) {
        (void)fsync(file);
        close(file);
    }
    free(folder);
#else
    (void)path;
#endif
}

/* Object headers before HDF5 1.8 limit attributes to 64 KiB. */
static bool
has_long_notes(const struct repack *repack)
{
    for (const struct repack_object *object = repack->first_object;
         object != NULL; object = object->next)
        if (object->losses.nchunks > 0 &&
            tool_lost_nbytes(&object->losses.noted) > MAX_OLD_ATTRIBUTE_NBYTES)
            return true;
    return false;
}

/* Creates the output with the creation properties of the input and with object
 * headers of the same version, so that the same programs can read it. */
bool
repack_output_create(struct repack *repack)
{
    hid_t fcpl = repack_file_list(repack->in);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5F_info2_t info;
    H5O_info_t root;
    H5F_libver_t low = H5F_LIBVER_EARLIEST;

    /* Shared messages and file space strategies need a new superblock, but no
     * new object headers. */
    if (H5Fget_info2(repack->in, &info) >= 0 && info.super.version >= 2 &&
        H5Oget_info2(repack->in, &root, H5O_INFO_HDR) >= 0 &&
        root.hdr.version >= 2)
        low = info.super.version == 2 ? H5F_LIBVER_V18 : H5F_LIBVER_V110;
    if (low == H5F_LIBVER_EARLIEST && has_long_notes(repack))
        low = H5F_LIBVER_V18;
    if (fcpl < 0) {
        H5Pclose(fapl);
        return repack_fail(repack, repack->request.path_in, NULL);
    }
    H5Pset_libver_bounds(fapl, low, H5F_LIBVER_LATEST);
    H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
    /* Write values at once: HDF5 1.10.8 does not report a failed write of what
     * its buffers hold when it closes a dataset. */
    H5Pset_sieve_buf_size(fapl, 0);
    H5Pset_cache(fapl, 0, 0, 0, 0); /* no cache of chunks */
    repack->out = H5Fcreate(unfinished_path, H5F_ACC_TRUNC, fcpl, fapl);
    H5Pclose(fapl);
    H5Pclose(fcpl);
    return repack->out >= 0 ||
           repack_fail(repack, repack->request.path_out, NULL);
}

/* Copies the user block: bytes of the user in front of the HDF5 data. */
static bool
copy_userblock(struct repack *repack, hsize_t nbytes)
{
    const struct repack_request *request = &repack->request;
    char bytes[512]; /* user blocks are multiples of 512 bytes */
    bool ok = true;

    FILE *in = fopen(request->path_in, "rb");
    FILE *out = fopen(unfinished_path, "r+b");
    for (hsize_t at = 0; in != NULL && out != NULL && at < nbytes && ok;
         at += sizeof bytes)
        ok = fread(bytes, sizeof bytes, 1, in) == 1 &&
             fwrite(bytes, sizeof bytes, 1, out) == 1;
    ok = ok && in != NULL && out != NULL;
    if (in != NULL)
        fclose(in);
    if (out != NULL && (fflush(out) != 0 || fsync(fileno(out)) != 0))
        ok = false;
    if (out != NULL)
        fclose(out);
    return ok || repack_fail(repack, request->path_out, "%s", strerror(errno));
}

bool
repack_output_finish(struct repack *repack, const struct stat *stat_in)
{
    const struct repack_request *request = &repack->request;
    hid_t fcpl = H5Fget_create_plist(repack->out);
    hsize_t userblock_nbytes = 0;
    struct stat now;

    H5Pget_userblock(fcpl, &userblock_nbytes);
    H5Pclose(fcpl);
    if (H5Fflush(repack->out, H5F_SCOPE_GLOBAL) < 0 ||
        H5Fclose(repack->out) < 0)
        return repack_fail(repack, request->path_out, NULL);
    if (!copy_userblock(repack, userblock_nbytes))
        return false;
    if (stat(request->path_in, &now) != 0 || now.st_ino != stat_in->st_ino ||
        now.st_size != stat_in->st_size ||
        now.st_mtim.tv_sec != stat_in->st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != stat_in->st_mtim.tv_nsec)
        return repack_fail(repack, request->path_in,
                           "the file changed during the run; "
                           "repeat the run");
    if (!set_rights(repack, stat_in))
        return repack_fail(repack, request->path_out,
                           "its owner, permissions or extended attributes "
                           "cannot be kept: %s",
                           strerror(errno));
#ifdef _WIN32 /* Windows does not replace an open file */
    if (request->target == REPACK_IN_PLACE) {
        tool_close(repack->in);
        repack->in = -1;
    }
#endif
    if (rename(unfinished_path, output.path) != 0)
        return repack_fail(repack, request->path_out, "%s", strerror(errno));
    has_unfinished = 0;
    if (request->target == REPACK_IN_PLACE)
        sync_folder(output.path);
    free(output.path);
    output.path = NULL;
    return true;
}

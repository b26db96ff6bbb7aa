/* Reads HDF5's error stack. */
#include "tools/common/reason.h"

#include <stdio.h>
#include <string.h>

#include "codec/api/terp.h"

/* Version of the HDF5 that is linked: the one of the headers, or h5py's. */
static unsigned version[3] = {H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE};

void
tool_hdf5_quiet(void)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    (void)H5get_libversion(&version[0], &version[1], &version[2]);
}

struct message {
    char *text;
    size_t cap;
};

static bool
is_of_missing_filter(const char *text)
{
    return strncmp(text, "required filter ", 16) == 0;
}

/* Keeps the first message. Only a later message of HDF5 1.14 names a missing
 * filter, so that message replaces the first. */
static herr_t
keep_first(unsigned n, const H5E_error2_t *error, void *context)
{
    struct message *message = context;
    if (error->desc != NULL && (n == 0 || is_of_missing_filter(error->desc)))
        snprintf(message->text, message->cap, "%s", error->desc);
    return 0;
}

/* Shortens "file write failed: time = ..., errno = 28, error message = 'No
 * space left on device', buf = ..." to "file write failed: No space left on
 * device". */
static void
shorten(char *text)
{
    static const char mark[] = "error message = '";
    char *colon = strstr(text, ": time = ");
    char *system = strstr(text, mark);

    if (colon == NULL || system == NULL)
        return;
    system += sizeof mark - 1;
    size_t length = strcspn(system, "'");
    memmove(colon + 2, system, length);
    colon[2 + length] = '\0';
}

/* Whether HDF5's message means that a newer HDF5 wrote the object: versions,
 * kinds or flags that have changed with HDF5's releases. Others, such as
 * versions of heaps, never changed; a wrong one is damage. */
static bool
is_of_newer_hdf5(const char *text)
{
    static const char *const texts[] = {
        "bad superblock version number",
        "wrong version number in dataspace message",
        "bad version number for message",
        "bad version number for hyperslab selection",
        "bad version number for point selection",
        "unknown object header status flag",
        "unknown message with 'fail if unknown' flag",
        "unknown datatype class found",
        "unknown chunk index type"};
    static const char begin[] = "bad version number for ";
    static const char end[] = " message";
    const size_t nbytes = strlen(text);

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strncmp(text, texts[i], strlen(texts[i])) == 0)
            return true;
    return strncmp(text, begin, sizeof begin - 1) == 0 &&
           nbytes >= sizeof end - 1 &&
           strcmp(text + nbytes - (sizeof end - 1), end) == 0;
}

static void
read_innermost(char *text_ret, size_t text_cap)
{
    struct message message = {text_ret, text_cap};

    snprintf(text_ret, text_cap, "HDF5 failed without a reason");
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &message);
    shorten(text_ret);
}

void
tool_hdf5_reason(char *text_ret, size_t text_cap)
{
    char innermost[256];

    read_innermost(innermost, sizeof innermost);
    if (is_of_missing_filter(innermost))
        snprintf(text_ret, text_cap,
                 "%.150s; set HDF5_PLUGIN_PATH to the directory that holds it",
                 innermost);
    else if (is_of_newer_hdf5(innermost))
        snprintf(text_ret, text_cap,
                 "needs a newer HDF5 than terp's %u.%u.%u (%.150s)", version[0],
                 version[1], version[2], innermost);
    else
        snprintf(text_ret, text_cap, "%s", innermost);
}

/* Whether the latest failure was at something that a later HDF5 added to the
 * file format. */
static bool
is_older(void)
{
    char innermost[256];

    read_innermost(innermost, sizeof innermost);
    return is_of_newer_hdf5(innermost);
}

struct tool_trouble
tool_hdf5_trouble(void)
{
    struct tool_trouble trouble = {.is_newer = is_older()};

    tool_hdf5_reason(trouble.reason, sizeof trouble.reason);
    return trouble;
}

static herr_t
find_lack(unsigned n, const H5E_error2_t *error, void *context)
{
    bool *lacks = context;

    (void)n;
    *lacks |= error->maj_num == H5E_RESOURCE ||
              (error->desc != NULL &&
               (strstr(error->desc, terp_status_text(TERP_ERR_MEMORY)) ||
                strstr(error->desc, terp_status_text(TERP_ERR_LIMIT))));
    return 0;
}

bool
tool_hdf5_lacks_memory(void)
{
    bool lacks = false;

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_lack, &lacks);
    return lacks;
}

hid_t
tool_hdf5_hold(void)
{
    return H5Eget_current_stack();
}

void
tool_hdf5_release(hid_t stack)
{
    if (stack >= 0)
        H5Eset_current_stack(stack);
}

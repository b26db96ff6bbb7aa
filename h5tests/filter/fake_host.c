/* Built in two ways: with HDF5's names and a dataset of 8 x 8 x 8 float32; or
 * with FAKE_VTK, VTK's names and a dataset of 100 big-endian float64. */
#include "h5tests/filter/fake_host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/h5z_terp.h"

#ifdef FAKE_VTK
#define FAKE(name) vtkhdf5_##name
#define FAKE_NBYTES 8
#define FAKE_EQUAL F64BE
#else
#define FAKE(name) name
#define FAKE_NBYTES 4
#define FAKE_EQUAL F32LE
#endif

#define EXPORT __attribute__((visibility("default")))

/* Ids that only this library understands. */
enum {
    DCPL = 1000 + FAKE_NBYTES,
    TYPE,
    SPACE,
    F32LE,
    F64LE,
    F32BE,
    F64BE
};

static herr_t
call_set_local(const H5Z_class2_t *filter);
static size_t
call_filter(const H5Z_class2_t *filter, unsigned flags, size_t nbytes,
            size_t *buf_size, void **buf);
static void *
allocate(size_t nbytes);

EXPORT extern struct fake_host fake_host;
struct fake_host fake_host = {
    .set_local = call_set_local, .filter = call_filter, .allocate = allocate};

EXPORT hid_t FAKE(H5E_ERR_CLS_g);
EXPORT hid_t FAKE(H5E_PLINE_g);
EXPORT hid_t FAKE(H5E_SETLOCAL_g);
EXPORT hid_t FAKE(H5E_CANTFILTER_g);
hid_t FAKE(H5E_ERR_CLS_g) = 1, FAKE(H5E_PLINE_g) = 2, FAKE(H5E_SETLOCAL_g) = 3,
      FAKE(H5E_CANTFILTER_g) = 4;

EXPORT hid_t FAKE(H5T_IEEE_F32LE_g);
EXPORT hid_t FAKE(H5T_IEEE_F64LE_g);
EXPORT hid_t FAKE(H5T_IEEE_F32BE_g);
EXPORT hid_t FAKE(H5T_IEEE_F64BE_g);
hid_t FAKE(H5T_IEEE_F32LE_g) = F32LE, FAKE(H5T_IEEE_F64LE_g) = F64LE,
      FAKE(H5T_IEEE_F32BE_g) = F32BE, FAKE(H5T_IEEE_F64BE_g) = F64BE;

/* After a tail call, the caller would seem to be the test. */
static herr_t
call_set_local(const H5Z_class2_t *filter)
{
    volatile herr_t result = filter->set_local(DCPL, TYPE, SPACE);
    return result;
}

static size_t
call_filter(const H5Z_class2_t *filter, unsigned flags, size_t nbytes,
            size_t *buf_size, void **buf)
{
    volatile size_t result = filter->filter(
        flags, fake_host.nwords, fake_host.words, nbytes, buf_size, buf);
    return result;
}

static void *
allocate(size_t nbytes)
{
    return malloc(nbytes);
}

EXPORT herr_t FAKE(H5Pget_filter_by_id2)(hid_t, H5Z_filter_t, unsigned *,
                                         size_t *, unsigned *, size_t, char *,
                                         unsigned *);
herr_t
FAKE(H5Pget_filter_by_id2)(hid_t dcpl, H5Z_filter_t id, unsigned *flags,
                           size_t *nwords, unsigned *words, size_t n,
                           char *name, unsigned *config)
{
    (void)n, (void)name, (void)config;
    if (dcpl != DCPL || id != H5Z_FILTER_TERP)
        return -1;
    *flags = 0;
    for (size_t i = 0; i < fake_host.nwords && i < *nwords; i++)
        words[i] = fake_host.words[i];
    *nwords = fake_host.nwords;
    return 0;
}

EXPORT herr_t FAKE(H5Pmodify_filter)(hid_t, H5Z_filter_t, unsigned, size_t,
                                     const unsigned *);
herr_t
FAKE(H5Pmodify_filter)(hid_t dcpl, H5Z_filter_t id, unsigned flags,
                       size_t nwords, const unsigned *words)
{
    (void)flags;
    if (dcpl != DCPL || id != H5Z_FILTER_TERP || fake_host.keeps_words)
        return -1;
    fake_host.nwords = nwords;
    memcpy(fake_host.words, words, nwords * sizeof *words);
    return 0;
}

EXPORT H5Z_filter_t FAKE(H5Pget_filter2)(hid_t, unsigned, unsigned *, size_t *,
                                         unsigned *, size_t, char *,
                                         unsigned *);
H5Z_filter_t
FAKE(H5Pget_filter2)(hid_t dcpl, unsigned at, unsigned *flags, size_t *nwords,
                     unsigned *words, size_t n, char *name, unsigned *config)
{
    (void)flags, (void)nwords, (void)words, (void)n, (void)name, (void)config;
    return dcpl == DCPL && at == 0 ? H5Z_FILTER_TERP : -1;
}

EXPORT herr_t FAKE(H5Pfill_value_defined)(hid_t, H5D_fill_value_t *);
herr_t
FAKE(H5Pfill_value_defined)(hid_t dcpl, H5D_fill_value_t *status)
{
    *status = H5D_FILL_VALUE_DEFAULT;
    return dcpl == DCPL ? 0 : -1;
}

EXPORT herr_t FAKE(H5Pget_fill_value)(hid_t, hid_t, void *);
herr_t
FAKE(H5Pget_fill_value)(hid_t dcpl, hid_t type, void *fill)
{
    (void)dcpl, (void)type, (void)fill;
    return -1;
}

EXPORT H5T_class_t FAKE(H5Tget_class)(hid_t);
H5T_class_t
FAKE(H5Tget_class)(hid_t type)
{
    return type == TYPE ? H5T_FLOAT : H5T_NO_CLASS;
}

EXPORT htri_t FAKE(H5Tequal)(hid_t, hid_t);
htri_t
FAKE(H5Tequal)(hid_t a, hid_t b)
{
    return a != TYPE ? -1 : b == FAKE_EQUAL;
}

EXPORT int FAKE(H5Sget_simple_extent_ndims)(hid_t);
int
FAKE(H5Sget_simple_extent_ndims)(hid_t space)
{
    return space != SPACE ? -1 : FAKE_NBYTES == 4 ? 3 : 1;
}

EXPORT int FAKE(H5Sget_simple_extent_dims)(hid_t, hsize_t *, hsize_t *);
int
FAKE(H5Sget_simple_extent_dims)(hid_t space, hsize_t *dims, hsize_t *max)
{
    (void)max;
    for (int i = 0; i < (FAKE_NBYTES == 4 ? 3 : 1); i++)
        dims[i] = FAKE_NBYTES == 4 ? 8 : 100;
    return space == SPACE ? 1 : -1;
}

EXPORT void *FAKE(H5allocate_memory)(size_t, hbool_t);
void *
FAKE(H5allocate_memory)(size_t nbytes, hbool_t clear)
{
    if (fake_host.lacks_memory)
        return NULL;
    fake_host.nallocated++;
    return clear ? calloc(nbytes, 1) : malloc(nbytes);
}

EXPORT herr_t FAKE(H5free_memory)(void *);
herr_t
FAKE(H5free_memory)(void *memory)
{
    fake_host.nreleased++;
    free(memory);
    return 0;
}

EXPORT herr_t FAKE(H5Epush2)(hid_t, const char *, const char *, unsigned, hid_t,
                             hid_t, hid_t, const char *, ...);
herr_t
FAKE(H5Epush2)(hid_t stack, const char *file, const char *function,
               unsigned line, hid_t class_id, hid_t major, hid_t minor,
               const char *format, ...)
{
    va_list arguments;

    (void)stack, (void)file, (void)function, (void)line;
    if (class_id != 1 || major != 2 || minor < 3)
        return -1;
    if (fake_host.drops)
        return 0;
    fake_host.nerrors++;
    va_start(arguments, format);
    /* clang-tidy loses track in a file that is built more than once. */
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
    vsnprintf(fake_host.error, sizeof fake_host.error, format, arguments);
    va_end(arguments);
    return 0;
}

EXPORT ssize_t FAKE(H5Eget_num)(hid_t);
ssize_t
FAKE(H5Eget_num)(hid_t stack)
{
    return stack == H5E_DEFAULT ? fake_host.nerrors : -1;
}

EXPORT herr_t FAKE(H5Eauto_is_v2)(hid_t, unsigned *);
herr_t
FAKE(H5Eauto_is_v2)(hid_t stack, unsigned *is_v2)
{
    *is_v2 = 1;
    return stack == H5E_DEFAULT ? 0 : -1;
}

/* Replaces the function that prints the error stack. */
static herr_t
print_nothing(hid_t stack, void *data)
{
    (void)stack, (void)data;
    return 0;
}

EXPORT herr_t FAKE(H5Eget_auto2)(hid_t, H5E_auto2_t *, void **);
herr_t
FAKE(H5Eget_auto2)(hid_t stack, H5E_auto2_t *print, void **data)
{
    *print = fake_host.prints ? print_nothing : NULL;
    *data = NULL;
    return stack == H5E_DEFAULT ? 0 : -1;
}

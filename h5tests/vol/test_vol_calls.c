#define _GNU_SOURCE /* for dladdr and setenv */
/* The connector's callbacks on top of a fake connector. Each passes its
 * arguments on, with objects replaced by those below. If a function of HDF5 or
 * an allocation fails, the callback fails too, and nothing stays open. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/h5z_terp.h"
#include "filter/plugin/host.h"
#include "h5tests/support/allocations.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/h5_files.h"
#include "h5tests/support/stderr_text.h"
#include "h5tests/vol/fake_below.h"
#include "vol/info.h"
#include "vol/object.h"
#include "vol/pass.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- functions that are not in the library's table ---- */

bool
__wrap_terp_host_find_id(const struct terp_host *, const char *, hid_t *);
bool
__real_terp_host_find(const struct terp_host *, const char *, void *);
bool
__wrap_terp_host_find(const struct terp_host *, const char *, void *);
const struct vol_library *
__real_vol_library_of(const void *);
const struct vol_library *
__wrap_vol_library_of(const void *);
int
__real_dladdr(const void *, Dl_info *);
int
__wrap_dladdr(const void *, Dl_info *);

/* The library that the process seems to contain: at address `base`, without the
 * functions `missing` and `missing_too`. */
static struct {
    bool is_fake;
    const char *missing, *missing_too;
    const void *base;
} host;

static hid_t float_type;

bool
__wrap_terp_host_find_id(const struct terp_host *at, const char *variable,
                         hid_t *id_ret)
{
    (void)at;
    *id_ret = float_type;
    return strcmp(variable, "H5T_IEEE_F32LE_g") == 0 &&
           !fake_below_fails(variable);
}

const struct vol_library *
__wrap_vol_library_of(const void *caller)
{
    (void)caller;
    return fake_below_fails("vol_library_of") ? NULL : &fake_below.library;
}

bool
__wrap_terp_host_find(const struct terp_host *at, const char *name,
                      void *function_ret)
{
#define FIND(result, function, parameters) \
    if (strcmp(name, #function) == 0)      \
        memcpy(function_ret, &fake_below.library.function, sizeof(void *));

    if (!host.is_fake)
        return fake_below_find(name, function_ret) ||
               __real_terp_host_find(at, name, function_ret);
    if ((host.missing != NULL && strcmp(name, host.missing) == 0) ||
        (host.missing_too != NULL && strcmp(name, host.missing_too) == 0))
        return false;
    VOL_PASS_FUNCTIONS(FIND)
    VOL_PLAIN_FUNCTIONS(FIND)
    FIND(herr_t, H5VLstart_lib_state, (void))
    FIND(herr_t, H5VLfinish_lib_state, (void))
    if (strcmp(name, "H5Epush2") == 0)
        return false;
    return strcmp(name, "H5Pset_fapl_mpio") != 0;
}

int
__wrap_dladdr(const void *at, Dl_info *info_ret)
{
    const int found = __real_dladdr(at, info_ret);

    if (host.base == NULL)
        return found;
    if (host.base == (const void *)1)
        return 0;
    info_ret->dli_fbase = (void *)host.base;
    return 1;
}

/* ---- calls that are passed on ---- */

static const struct vol_class *const calls = &vol_pass_class;
static const struct vol_loc loc, other_loc;

static struct vol_object *
make_object(void)
{
    const struct vol_object like = {.library = &fake_below.library,
                                    .vol = FAKE_ANOTHER,
                                    .is_shared = true,
                                    .reads_together = true};

    return vol_object_make(&like, fake_object_make(H5I_INVALID_HID));
}

static void
free_object(struct vol_object *object)
{
    free(object->under);
    vol_object_free(object);
    fake_below.nobjects--;
}

static int
reset(void **state)
{
    (void)state;
    fake_below_reset();
    memset(&host, 0, sizeof host);
    return 0;
}

#define W(x) ((uintptr_t)(x))

/* The last call below was `name` on `under`, with these arguments. */
static void
check_call(const char *name, const void *under, int n, const uintptr_t *words)
{
    const struct fake_call *last = &fake_below.last;

    assert_string_equal(last->name, name);
    assert_ptr_equal(last->under, under);
    assert_int_equal(last->vol, FAKE_ANOTHER);
    assert_int_equal(last->narguments, n);
    for (int i = 0; i < n; i++)
        if (last->arguments[i] != words[i])
            fail_msg("%s: argument %d is another one", name, i);
}

/* The connector wraps a request of the connector below. */
static void
take_request(void **req)
{
    struct vol_object *request = *req;

    assert_non_null(request);
    assert_int_equal(request->vol, FAKE_ANOTHER);
    *req = NULL;
    free_object(request);
}

/* (callback, name below, arguments, their words below): calls it once with
 * success and once with a failure. The object is `on`. */
#define CHECK_PASS(callback, name, arguments, ...)              \
    do {                                                        \
        const uintptr_t words[] = {__VA_ARGS__};                \
        fake_below.fail_at = UINT64_MAX;                        \
        assert_true(calls->callback arguments >= 0);            \
        check_call(#name, on->under, (int)COUNT(words), words); \
        fake_below.fail_at = fake_below.ncalls;                 \
        assert_true(calls->callback arguments < 0);             \
    } while (0)

#define CHECK_ASYNC(callback, name, arguments, ...)             \
    do {                                                        \
        const uintptr_t words[] = {__VA_ARGS__};                \
        fake_below.fail_at = UINT64_MAX;                        \
        assert_true(calls->callback arguments >= 0);            \
        check_call(#name, on->under, (int)COUNT(words), words); \
        take_request(&request);                                 \
        fake_below.fail_at = fake_below.ncalls;                 \
        assert_true(calls->callback arguments < 0);             \
        take_request(&request);                                 \
    } while (0)

#define CHECK_MAKER(callback, name, arguments, ...)             \
    do {                                                        \
        const uintptr_t words[] = {__VA_ARGS__};                \
        fake_below.fail_at = UINT64_MAX;                        \
        struct vol_object *made = calls->callback arguments;    \
        assert_non_null(made);                                  \
        assert_int_equal(made->vol, FAKE_ANOTHER);              \
        check_call(#name, on->under, (int)COUNT(words), words); \
        take_request(&request);                                 \
        free_object(made);                                      \
        fake_below.fail_at = fake_below.ncalls;                 \
        assert_null(calls->callback arguments);                 \
        take_request(&request);                                 \
    } while (0)

/* A call that fails keeps the object; a call that succeeds ends it. */
#define CHECK_CLOSE(callback, name)                             \
    do {                                                        \
        struct vol_object *closed = make_object();              \
        const void *under = closed->under;                      \
        const uintptr_t words[] = {5, W(&request)};             \
        fake_below.fail_at = fake_below.ncalls;                 \
        assert_true(calls->callback(closed, 5, &request) < 0);  \
        take_request(&request);                                 \
        fake_below.fail_at = UINT64_MAX;                        \
        assert_true(calls->callback(closed, 5, &request) >= 0); \
        check_call(#name, under, 2, words);                     \
        take_request(&request);                                 \
    } while (0)

#define CHECK_GET(callback, name)                                        \
    CHECK_ASYNC(callback, name, (on, &value, 5, &request), W(&value), 5, \
                W(&request))
#define CHECK_AT(callback, name)                                          \
    CHECK_ASYNC(callback, name, (on, &loc, &value, 5, &request), W(&loc), \
                W(&value), 5, W(&request))
#define CHECK_OPEN(callback, name)                                         \
    CHECK_MAKER(callback, name, (on, &loc, text, 4, 5, &request), W(&loc), \
                W(text), 4, 5, W(&request))

static void
call_is_handed_on_with_its_arguments(void **state)
{
    struct vol_object *on = make_object(), *to = make_object();
    void *request = NULL;
    const char *text = "text";
    char *told;
    int value, result;
    uint64_t flags;
    H5I_type_t type;

    (void)state;
    fake_below.makes_requests = true;
    CHECK_MAKER(attr.create, H5VLattr_create,
                (on, &loc, text, 1, 2, 3, 4, 5, &request), W(&loc), W(text), 1,
                2, 3, 4, 5, W(&request));
    CHECK_OPEN(attr.open, H5VLattr_open);
    CHECK_ASYNC(attr.read, H5VLattr_read, (on, 1, &value, 5, &request), 1,
                W(&value), 5, W(&request));
    CHECK_ASYNC(attr.write, H5VLattr_write, (on, 1, &value, 5, &request), 1,
                W(&value), 5, W(&request));
    CHECK_GET(attr.get, H5VLattr_get);
    CHECK_AT(attr.specific, H5VLattr_specific);
    CHECK_GET(attr.optional, H5VLattr_optional);
    CHECK_CLOSE(attr.close, H5VLattr_close);
    CHECK_OPEN(dataset.open, H5VLdataset_open);
    CHECK_GET(dataset.get, H5VLdataset_get);
    CHECK_GET(dataset.specific, H5VLdataset_specific);
    CHECK_GET(dataset.optional, H5VLdataset_optional);
    CHECK_CLOSE(dataset.close, H5VLdataset_close);
    CHECK_MAKER(datatype.commit, H5VLdatatype_commit,
                (on, &loc, text, 1, 2, 3, 4, 5, &request), W(&loc), W(text), 1,
                2, 3, 4, 5, W(&request));
    CHECK_OPEN(datatype.open, H5VLdatatype_open);
    CHECK_GET(datatype.get, H5VLdatatype_get);
    CHECK_GET(datatype.specific, H5VLdatatype_specific);
    CHECK_GET(datatype.optional, H5VLdatatype_optional);
    CHECK_CLOSE(datatype.close, H5VLdatatype_close);
    struct vol_file_get largest = {.op = 9};
    CHECK_ASYNC(file.get, H5VLfile_get, (on, &largest, 5, &request),
                W(&largest), 5, W(&request));
    CHECK_GET(file.optional, H5VLfile_optional);
    CHECK_CLOSE(file.close, H5VLfile_close);
    CHECK_MAKER(group.create, H5VLgroup_create,
                (on, &loc, text, 1, 2, 3, 5, &request), W(&loc), W(text), 1, 2,
                3, 5, W(&request));
    CHECK_OPEN(group.open, H5VLgroup_open);
    CHECK_GET(group.get, H5VLgroup_get);
    CHECK_GET(group.optional, H5VLgroup_optional);
    CHECK_CLOSE(group.close, H5VLgroup_close);
    CHECK_AT(link.get, H5VLlink_get);
    CHECK_AT(link.specific, H5VLlink_specific);
    CHECK_AT(link.optional, H5VLlink_optional);
    CHECK_MAKER(object.open, H5VLobject_open, (on, &loc, &type, 5, &request),
                W(&loc), W(&type), 5, W(&request));
    struct vol_object_get name = {.op = VOL_OBJECT_GET_NAME};
    CHECK_ASYNC(object.get, H5VLobject_get, (on, &loc, &name, 5, &request),
                W(&loc), W(&name), 5, W(&request));
    CHECK_AT(object.specific, H5VLobject_specific);
    CHECK_AT(object.optional, H5VLobject_optional);
    CHECK_PASS(introspect.opt_query, H5VLintrospect_opt_query,
               (on, 1, 2, &flags), 1, 2, W(&flags));
    CHECK_PASS(request.wait, H5VLrequest_wait, (on, 7, &value), 7, W(&value));
    CHECK_PASS(request.notify, H5VLrequest_notify, (on, NULL, &value), 0,
               W(&value));
    CHECK_PASS(request.cancel, H5VLrequest_cancel, (on, &value), W(&value));
    CHECK_PASS(request.specific, H5VLrequest_specific, (on, &value), W(&value));
    CHECK_PASS(request.optional, H5VLrequest_optional, (on, &value), W(&value));
    CHECK_PASS(blob.put, H5VLblob_put, (on, text, 4, &value, &flags), W(text),
               4, W(&value), W(&flags));
    CHECK_PASS(blob.get, H5VLblob_get, (on, text, &value, 4, &flags), W(text),
               W(&value), 4, W(&flags));
    CHECK_PASS(blob.specific, H5VLblob_specific, (on, &value, &flags),
               W(&value), W(&flags));
    CHECK_PASS(blob.optional, H5VLblob_optional, (on, &value, &flags),
               W(&value), W(&flags));
    CHECK_PASS(token.cmp, H5VLtoken_cmp, (on, text, &flags, &result), W(text),
               W(&flags), W(&result));
    CHECK_PASS(token.to_str, H5VLtoken_to_str, (on, H5I_GROUP, &flags, &told),
               H5I_GROUP, W(&flags), W(&told));
    CHECK_PASS(token.from_str, H5VLtoken_from_str,
               (on, H5I_GROUP, text, &flags), H5I_GROUP, W(text), W(&flags));
    CHECK_GET(optional, H5VLoptional);
    free_object(on);
    free_object(to);
    assert_int_equal(fake_below.nobjects, 0);
}

/* If a call has two objects, either may be missing. */
static void
second_object_is_replaced_too(void **state)
{
    struct vol_object *on = make_object(), *to = make_object();
    void *request = NULL;
    const char *text = "text";

    (void)state;
    fake_below.makes_requests = true;
#define CHECK_TWO(callback, name)                                             \
    do {                                                                      \
        CHECK_ASYNC(callback, name,                                           \
                    (on, &loc, to, &other_loc, 1, 2, 5, &request), W(&loc),   \
                    W(to->under), W(&other_loc), 1, 2, 5, W(&request));       \
        CHECK_ASYNC(callback, name,                                           \
                    (on, &loc, NULL, &other_loc, 1, 2, 5, &request), W(&loc), \
                    0, W(&other_loc), 1, 2, 5, W(&request));                  \
        fake_below.fail_at = UINT64_MAX;                                      \
        assert_true(calls->callback(NULL, &loc, to, &other_loc, 1, 2, 5,      \
                                    &request) >= 0);                          \
        assert_null(fake_below.last.under);                                   \
        assert_true(fake_below.last.arguments[1] == W(to->under));            \
        take_request(&request);                                               \
    } while (0)
    CHECK_TWO(link.copy, H5VLlink_copy);
    CHECK_TWO(link.move, H5VLlink_move);
    CHECK_ASYNC(object.copy, H5VLobject_copy,
                (on, &loc, text, to, &other_loc, NULL, 1, 2, 5, &request),
                W(&loc), W(text), W(to->under), W(&other_loc), 0, 1, 2, 5,
                W(&request));

    struct vol_link_create link = {VOL_LINK_CREATE_HARD,
                                   {.hard = {.object = to}}};
    CHECK_ASYNC(link.create, H5VLlink_create,
                (&link, on, &loc, 1, 2, 5, &request), W(to->under), W(&loc), 1,
                2, 5, W(&request));
    assert_ptr_equal(link.args.hard.object, to);
    fake_below.fail_at = UINT64_MAX;
    assert_true(calls->link.create(&link, NULL, &loc, 1, 2, 5, &request) >= 0);
    assert_null(fake_below.last.under);
    take_request(&request);
    link.op = 1; /* a soft link, whose arguments are not objects */
    CHECK_ASYNC(link.create, H5VLlink_create,
                (&link, on, &loc, 1, 2, 5, &request), W(to), W(&loc), 1, 2, 5,
                W(&request));

    struct vol_group_specific mount = {VOL_GROUP_MOUNT, {.mount = {"at", to}}};
    CHECK_ASYNC(group.specific, H5VLgroup_specific, (on, &mount, 5, &request),
                W(to->under), 5, W(&request));
    assert_ptr_equal(mount.args.mount.child, to);
    mount.op = 1;
    CHECK_ASYNC(group.specific, H5VLgroup_specific, (on, &mount, 5, &request),
                W(to), 5, W(&request));

    struct vol_file_specific equal = {VOL_FILE_IS_EQUAL,
                                      {.is_equal = {.other = to}}};
    CHECK_ASYNC(file.specific, H5VLfile_specific, (on, &equal, 5, &request),
                W(to->under), 5, W(&request));
    assert_ptr_equal(equal.args.is_equal.other, to);

    void *file = NULL;
    struct vol_file_specific reopen = {VOL_FILE_REOPEN,
                                       {.reopen = {.file = &file}}};
    fake_below.fail_at = UINT64_MAX;
    assert_true(calls->file.specific(on, &reopen, 5, NULL) >= 0);
    assert_int_equal(((struct vol_object *)file)->vol, FAKE_ANOTHER);
    free_object(file);
    fake_below.fail_at = fake_below.ncalls;
    assert_true(calls->file.specific(on, &reopen, 5, NULL) < 0);
    free_object(on);
    free_object(to);
    assert_int_equal(fake_below.nobjects, 0);
}

static void
request_ends_with_its_own(void **state)
{
    struct vol_object *request = make_object();

    void *none = NULL;

    (void)state;
    /* A call that makes no object returns none. */
    assert_true(calls->optional(request, NULL, 5, &none) >= 0);
    assert_null(none);
    fake_below.fail_at = fake_below.ncalls;
    assert_true(calls->request.free(request) < 0);
    assert_int_equal(fake_below.nobjects, 1);
    assert_true(calls->request.free(request) >= 0);
    assert_int_equal(fake_below.nobjects, 0);
}

/* ---- objects that HDF5 wraps ---- */

static void
wrapped_object_is_one_of_ours(void **state)
{
    struct vol_object *on = make_object();
    void *context = NULL;

    (void)state;
    assert_ptr_equal(calls->wrap.get_object(on), on->under);
    assert_true(calls->wrap.get_wrap_ctx(on, &context) >= 0);
    struct fake_object *made = fake_object_make(H5I_INVALID_HID);
    struct vol_object *wrapped =
        calls->wrap.wrap_object(made, H5I_GROUP, context);
    assert_ptr_equal(wrapped->under, made);
    assert_int_equal(wrapped->vol, FAKE_ANOTHER);
    assert_true(wrapped->is_shared);
    assert_true(wrapped->reads_together);
    fake_below.fail_at = fake_below.ncalls;
    assert_null(calls->wrap.wrap_object(made, H5I_GROUP, context));
    fake_below.fail_at = fake_below.ncalls;
    assert_null(calls->wrap.unwrap_object(wrapped));
    assert_ptr_equal(calls->wrap.unwrap_object(wrapped), made);
    free(made);
    fake_below.nobjects--;
    assert_true(calls->wrap.free_wrap_ctx(context) >= 0);

    /* There is no context if the one below fails, or without memory. */
    fake_below.fail_at = fake_below.ncalls;
    assert_true(calls->wrap.get_wrap_ctx(on, &context) < 0);
    assert_null(context);
    /* The first allocation is of the context below. */
    terp_allocations_start(1, UINT64_MAX);
    assert_true(calls->wrap.get_wrap_ctx(on, &context) < 0);
    assert_int_equal(terp_allocations_stop().nleaked, 0);
    assert_null(context);

    /* Where the object below has none, no memory is needed, and the context
     * outlives the object. */
    on->vol = FAKE_NATIVE;
    on->may_write = true;
    terp_allocations_start(0, UINT64_MAX);
    assert_true(calls->wrap.get_wrap_ctx(on, &context) >= 0);
    assert_int_equal(terp_allocations_stop().ncalls, 0);
    free_object(on);
    made = fake_object_make(H5I_INVALID_HID);
    wrapped = calls->wrap.wrap_object(made, H5I_GROUP, context);
    assert_int_equal(wrapped->vol, FAKE_NATIVE);
    assert_true(wrapped->is_shared);
    assert_false(wrapped->may_write);
    free_object(wrapped);
    assert_true(calls->wrap.free_wrap_ctx(context) >= 0);
    assert_int_equal(fake_below.nobjects, 0);
    assert_int_equal(fake_below.nstacks, 0);
}

static void
connector_tells_of_itself_and_of_those_below(void **state)
{
    struct vol_object *on = make_object();
    const struct vol_class *found = NULL;
    struct vol_info info = {&fake_below.library, FAKE_ANOTHER, NULL};
    const uintptr_t words[] = {1, W(&found)};
    uint64_t flags = 0;

    (void)state;
    assert_true(calls->introspect.get_conn_cls(on, 0, &found) >= 0);
    assert_ptr_equal(found, calls);
    assert_true(calls->introspect.get_conn_cls(on, 1, &found) >= 0);
    check_call("H5VLintrospect_get_conn_cls", on->under, 2, words);
    assert_true(calls->introspect.get_cap_flags(NULL, &flags) >= 0);
    assert_true(flags == VOL_CAPABILITIES);
    assert_true(calls->introspect.get_cap_flags(&info, &flags) >= 0);
    assert_string_equal(fake_below.last.name, "H5VLintrospect_get_cap_flags");
    assert_true(calls->terminate() >= 0);
    free_object(on);
}

/* ---- files ---- */

/* All calls on files that have properties, and what they make. */
static herr_t
use_file(int call)
{
    struct vol_file_specific named = {
        call == 2 ? VOL_FILE_IS_ACCESSIBLE : VOL_FILE_DELETE,
        {.named = {"name", H5P_FILE_ACCESS_DEFAULT}}};
    void *request = NULL, *file;
    herr_t result;

    if (call < 2) {
        file = call == 0
                   ? calls->file.create("name", 1, 2, H5P_FILE_ACCESS_DEFAULT,
                                        5, &request)
                   : calls->file.open("name", 1, H5P_FILE_ACCESS_DEFAULT, 5,
                                      &request);
        if (file != NULL)
            assert_int_equal(((struct vol_object *)file)->vol, fake_below.vol);
        if (file != NULL)
            free_object(file);
        result = file == NULL ? -1 : 0;
    } else {
        result = calls->file.specific(NULL, &named, 5, &request);
        assert_int_equal(named.args.named.fapl, H5P_FILE_ACCESS_DEFAULT);
    }
    if (request != NULL)
        free_object(request);
    return result;
}

/* Whether a file exists, whether its info can be freed, whether it can be
 * written, and whether the filter is available. */
static bool
is_of_no_file(const char *function)
{
    static const char *const functions[] = {"H5Idec_ref", "H5VLfile_get",
                                            "H5VLfree_connector_info",
                                            "H5Zfilter_avail", "H5Zregister"};

    for (size_t i = 0; i < COUNT(functions); i++)
        if (strcmp(function, functions[i]) == 0)
            return true;
    return false;
}

static void
files_are_shared_through_mpi(void **state)
{
    static const struct {
        bool is_parallel, is_mpi, is_above, is_shared;
    } cases[] = {{false, true, true, false},
                 {true, false, false, false},
                 {true, true, false, true},
                 {true, false, true, true}};
    struct vol_info info = {&fake_below.library, FAKE_ANOTHER, NULL};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        fake_below_reset();
        fake_below.library.is_parallel = cases[i].is_parallel;
        fake_below.is_mpi = cases[i].is_mpi;
        fake_below.info = cases[i].is_above ? &info : NULL;
        struct vol_object *file =
            calls->file.open("name", 1, H5P_FILE_ACCESS_DEFAULT, 5, NULL);
        assert_non_null(file);
        assert_int_equal(file->is_shared, cases[i].is_shared);
        free_object(file);
    }
}

static void
file_that_is_open_for_reading_is_not_written(void **state)
{
    void *request = NULL;

    (void)state;
    for (int only_reads = 0; only_reads < 2; only_reads++) {
        fake_below_reset();
        fake_below.is_read_only = only_reads;
        struct vol_object *file =
            calls->file.open("name", 1, H5P_FILE_ACCESS_DEFAULT, 5, &request);
        assert_non_null(file);
        assert_int_equal(file->may_write, !only_reads);
        assert_int_equal(vol_object_may_write(file, H5I_GROUP, 5), !only_reads);
        file->fileno++;
        assert_false(vol_object_may_write(file, H5I_GROUP, 5));
        free_object(file);
    }
}

static void
failure_for_a_file_is_its_error(void **state)
{
    struct vol_info info = {&fake_below.library, FAKE_ANOTHER, NULL};
    char text[] = "below";

    (void)state;
    for (int call = 0; call < 4; call++)
        for (int with = 0; with < 3; with++) {
            uint64_t ncalls = 1, n = 0;
            for (; n <= ncalls; n++) {
                fake_below_reset();
                info.under = with == 2 ? text : NULL;
                fake_below.info = with == 0 ? NULL : &info;
                fake_below.makes_requests = true;
                fake_below.fail_at = n;
                herr_t result = use_file(call);
                ncalls = fake_below.ncalls;
                const bool may_fail = fake_below.failed != NULL &&
                                      !is_of_no_file(fake_below.failed);
                if ((result < 0) != may_fail)
                    fail_msg("call %d gives %d after %s failed", call, result,
                             fake_below.failed);
                if (result >= 0)
                    assert_int_equal(fake_below.vol,
                                     with == 0 ? FAKE_NATIVE : FAKE_ANOTHER);
                assert_int_equal(fake_below.nobjects, 0);
                assert_int_equal(fake_below.nstacks, 0);
                /* The info of the connector below is kept. */
                assert_in_range(fake_below.nids, 0, with != 0);
            }
        }
}

/* ---- infos ---- */

static void
info_is_copied_compared_and_freed(void **state)
{
    char under[] = "a", other[] = "b";
    struct vol_info a = {&fake_below.library, FAKE_ANOTHER, under};
    struct vol_info b = {&fake_below.library, FAKE_ANOTHER, other};
    struct vol_info native = {&fake_below.library, FAKE_NATIVE, NULL};
    int result = 7;

    (void)state;
    struct vol_info *copy = calls->info.copy(&a);
    assert_true(calls->info.cmp(&result, copy, &a) >= 0 && result == 0);
    assert_true(calls->info.cmp(&result, &a, &b) >= 0 && result < 0);
    assert_true(calls->info.cmp(&result, &a, &native) >= 0 && result > 0);
    assert_true(calls->info.cmp(&result, NULL, NULL) >= 0 && result == 0);
    assert_true(calls->info.cmp(&result, &a, NULL) >= 0 && result > 0);
    assert_true(calls->info.cmp(&result, NULL, &a) >= 0 && result < 0);
    fake_below.fail_at = fake_below.ncalls;
    assert_true(calls->info.cmp(&result, &a, &b) < 0);
    assert_true(calls->info.free(copy) >= 0);
    for (int n = 0; n < 2; n++) {
        copy = calls->info.copy(&a);
        fake_below.fail_at = fake_below.ncalls + (uint64_t)n;
        assert_true(calls->info.free(copy) < 0);
    }
    fake_below.fail_at = fake_below.ncalls;
    assert_null(calls->info.copy(&a));
    terp_allocations_start(0, UINT64_MAX);
    assert_null(calls->info.copy(&a));
    assert_int_equal(terp_allocations_stop().nleaked, 0);
    assert_int_equal(fake_below.nids, 0);
    assert_int_equal(fake_below.nobjects, 0);
    assert_int_equal(fake_below.nstacks, 0);
}

static void
info_of_a_text_is_its_text(void **state)
{
    static const struct {
        const char *text, *back;
    } texts[] = {{"under_vol=0;under_info={}", NULL},
                 {"under_vol=517;under_info={a;{b}}", NULL},
                 {"under_vol=517", "under_vol=517;under_info={}"}};

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        for (uint64_t n = 0, ncalls = 1; n <= ncalls; n++) {
            void *info = NULL;
            char *text = NULL;
            fake_below_reset();
            fake_below.fail_at = n;
            herr_t result = calls->info.from_str(texts[i].text, &info);
            if (result >= 0)
                result = calls->info.to_str(info, &text);
            ncalls = fake_below.ncalls;
            assert_int_equal(result < 0, fake_below.failed != NULL);
            if (result >= 0)
                assert_string_equal(text, texts[i].back == NULL
                                              ? texts[i].text
                                              : texts[i].back);
            fake_below.fail_at = UINT64_MAX;
            if (text != NULL)
                fake_below.library.H5free_memory(text);
            if (info != NULL)
                assert_true(calls->info.free(info) >= 0);
            if (fake_below.nids != 0 || fake_below.nobjects != 0)
                fail_msg("%s: %d ids, %d objects stay after %s", texts[i].text,
                         fake_below.nids, fake_below.nobjects,
                         fake_below.failed);
        }
}

static void
text_that_is_no_info_is_refused(void **state)
{
    static const char *const wrong[] = {"x",
                                        "under",
                                        "under_vol=",
                                        "under_vol=x",
                                        "under_vol=-1",
                                        "under_vol=65536",
                                        "under_vol=0;",
                                        "under_vol=0;under_info={",
                                        "under_vol=0;under_info=(a}",
                                        "under_vol=0;under_info={a"};
    void *info = &info;

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_true(calls->info.from_str(wrong[i], &info) < 0);
    assert_true(calls->info.from_str(NULL, &info) >= 0);
    assert_null(info);
    assert_true(calls->info.from_str("", &info) >= 0);
    assert_null(info);
    for (uint64_t n = 0; n < 2; n++) {
        terp_allocations_start(n, UINT64_MAX);
        herr_t result =
            calls->info.from_str("under_vol=517;under_info={}", &info);
        struct terp_allocations used = terp_allocations_stop();
        assert_int_equal(result < 0, n < used.ncalls);
        if (info != NULL)
            assert_true(calls->info.free(info) >= 0);
    }
    assert_int_equal(fake_below.nids, 0);
}

/* ---- datasets that rules compress ---- */

static const struct creation {
    const char *rules, *name;
    hid_t space; /* which: the rank, or below */
    bool is_wide, is_chunked, is_filtered, is_compact, is_external;
    bool is_compressed;
    bool is_shared, is_collective;
} creations[] = {
    {"*=abs:1e-2", "rho", .space = 3, .is_compressed = true},
    {"*=abs:1e-2", "/rho", .space = 3, .is_compressed = true},
    {"*=abs:1e-2", NULL, .space = 3, .is_compressed = true},
    {"rho=abs:1e-2", NULL, .space = 3},
    {"*=none", NULL, .space = 3},
    {"*=abs:1e-2", "rho", .space = 3, .is_chunked = true,
     .is_compressed = true},
    {"*=abs:1e-2,chunk", "rho", .space = 3, .is_chunked = true,
     .is_compressed = true},
    {"*=abs:1e-2,chunk:8x4x16", "rho", .space = 3, .is_compressed = true},
    {"*=abs:1e-2,chunk:8x4", "rho", .space = 3},
    {"*=abs:1e-2", "rho", .space = 3, .is_filtered = true},
    {"*=abs:1e-2,replace-filters", "rho", .space = 3, .is_filtered = true,
     .is_compressed = true},
    {"*=abs:1e-2", "rho", .space = 3, .is_compact = true},
    {"*=abs:1e-2", "rho", .space = 3, .is_external = true},
    {"*=abs:1e-2", "rho", .space = 3, .is_wide = true},
    {"*=abs:1e-2", "rho", .space = 1},
    {"*=abs:1e-2,small", "rho", .space = 1, .is_compressed = true},
    {"*=abs:1e-2", "rho", .space = 0},
    {"other=abs:1e-2", "rho", .space = 3},
    {"*=wrong", "rho", .space = 3},
    {"", "rho", .space = 3},
    {NULL, "rho", .space = 3},
    {"*=abs:1e-2", "rho", .space = 3, .is_shared = true},
    {"*=abs:1e-2", "rho", .space = 3, .is_shared = true, .is_collective = true,
     .is_compressed = true},
    /* HDF5 refuses independent writes through the program's filter, too. */
    {"*=abs:1e-2,replace-filters", "rho", .space = 3, .is_filtered = true,
     .is_shared = true, .is_compressed = true},
    /* AMReX stores several components in one line. */
    {"*=rel:1e-2,small", "data:datatype=0", .space = 1},
    {"*=rel:1e-2,small", "/data:datatype=11", .space = 1},
    {"*=rel:1e-2,small,components", "data:datatype=0", .space = 1,
     .is_compressed = true},
    {"*=pwr:1e-2,small", "data:datatype=0", .space = 1, .is_compressed = true},
    {"*=abs:1e-2,small", "data:datatype=0", .space = 1, .is_compressed = true},
    {"*=rel:1e-2,small", "mydata:datatype=0", .space = 1,
     .is_compressed = true},
};

static hid_t
make_dcpl(const struct creation *creation)
{
    static const hsize_t chunk[] = {4, 8, 8};
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    if (creation->is_chunked || creation->is_filtered)
        H5Pset_chunk(dcpl, 3, chunk);
    if (creation->is_filtered)
        H5Pset_shuffle(dcpl);
    if (creation->is_compact)
        H5Pset_layout(dcpl, H5D_COMPACT);
    if (creation->is_external)
        H5Pset_external(dcpl, "nowhere.raw", 0, H5F_UNLIMITED);
    return dcpl;
}

/* Whether the created dataset is compressed. Fails unless it was created. */
static bool
is_compressed(const struct vol_object *made)
{
    const struct fake_object *below = made->under;
    hid_t dcpl = H5Dget_create_plist(below->id);
    unsigned flags;
    size_t nwords = 0;
    const bool is = H5Pget_nfilters(dcpl) == 1 &&
                    H5Pget_filter2(dcpl, 0, &flags, &nwords, NULL, 0, NULL,
                                   NULL) == H5Z_FILTER_TERP;

    H5Pclose(dcpl);
    return is;
}

static void
check_creation(const struct creation *creation)
{
    static const hsize_t dims[] = {16, 16, 16};
    const struct vol_loc at = {.obj_type = H5I_FILE, .type = VOL_BY_SELF};
    hid_t file = h5_file_new(), dcpl = make_dcpl(creation);
    hid_t space = creation->space == 0
                      ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple((int)creation->space, dims, NULL);
    hid_t type = creation->is_wide ? H5T_STD_I16LE : H5T_IEEE_F32LE;

    if (creation->rules == NULL)
        unsetenv("TERP_RULES");
    else
        setenv("TERP_RULES", creation->rules, 1);
    if (creation->is_collective)
        setenv("TERP_RULES_MPI", "collective", 1);
    else
        unsetenv("TERP_RULES_MPI");
    float_type = H5T_IEEE_F32LE;
    for (uint64_t n = 0, ncalls = 1; n <= ncalls; n++) {
        fake_below_reset();
        struct vol_object parent = {.library = &fake_below.library,
                                    .vol = FAKE_NATIVE,
                                    .under = fake_object_make(file),
                                    .is_shared = creation->is_shared};
        H5Iinc_ref(file);
        fake_below.fail_at = n == 0 ? UINT64_MAX : n - 1;
        struct vol_object *made = calls->dataset.create(
            &parent, &at, creation->name, H5P_LINK_CREATE_DEFAULT, type, space,
            dcpl, H5P_DATASET_ACCESS_DEFAULT, H5P_DATASET_XFER_DEFAULT, NULL);
        ncalls = fake_below.ncalls;
        fake_below.fail_at = UINT64_MAX;
        if (n == 0)
            assert_int_equal(is_compressed(made), creation->is_compressed);
        if (made != NULL) {
            /* A rule that cannot be applied is ignored. */
            if (!creation->is_compressed)
                assert_false(is_compressed(made));
            assert_true(calls->dataset.close(made, 0, NULL) >= 0);
            if (creation->name != NULL)
                assert_true(H5Ldelete(file, creation->name, H5P_DEFAULT) >= 0);
        } else {
            assert_string_equal(fake_below.failed, "H5VLdataset_create");
            assert_false(creation->is_compressed);
        }
        free(parent.under);
        H5Idec_ref(file);
        if (fake_below.nids != 0 || fake_below.nobjects != 1)
            fail_msg("%s: %d ids, %d objects stay after %s", creation->rules,
                     fake_below.nids, fake_below.nobjects, fake_below.failed);
    }
    H5Sclose(space);
    H5Pclose(dcpl);
    assert_int_equal(H5Fget_obj_count(file, H5F_OBJ_ALL), 1);
    H5Fclose(file);
}

static void
failure_leaves_a_dataset_without_its_rule(void **state)
{
    (void)state;
    for (int verbose = 0; verbose < 2; verbose++)
        for (size_t i = 0; i < COUNT(creations); i++) {
            FILE *said;
            char text[64];
            setenv("TERP_VERBOSE", verbose ? "1" : "0", 1);
            int kept = redirect_stderr(&said);
            check_creation(&creations[i]);
            restore_stderr(kept, said, text, sizeof text);
            if (!verbose)
                assert_string_equal(text, "");
        }
    unsetenv("TERP_VERBOSE");
    unsetenv("TERP_RULES");
}

/* ---- the library that calls the connector ---- */

#define NLIBRARIES 16

static void
library_is_found_with_all_functions_or_not(void **state)
{
    static const char bases[NLIBRARIES + 2];
    FILE *said;
    char text[200];

    (void)state;
    host.is_fake = true;
    host.base = &bases[0];
    /* Each function is looked up. */
#define CHECK_MISSING(result, name, parameters) \
    host.missing = #name;                       \
    assert_null(__real_vol_library_of(bases));
    setenv("TERP_VERBOSE", "0", 1);
    int kept = redirect_stderr(&said);
    VOL_PASS_FUNCTIONS(CHECK_MISSING)
    VOL_PLAIN_FUNCTIONS(CHECK_MISSING)
    restore_stderr(kept, said, text, sizeof text);
    assert_string_equal(text, "");
    for (int i = 0; i < 2; i++) {
        if (i == 0)
            setenv("TERP_VERBOSE", "1", 1);
        else
            unsetenv("TERP_VERBOSE");
        host.missing = "H5Tget_size";
        kept = redirect_stderr(&said);
        assert_null(__real_vol_library_of(bases));
        restore_stderr(kept, said, text, sizeof text);
        assert_non_null(strstr(text, "no H5Tget_size"));
    }
    kept = redirect_stderr(&said);
    assert_true(calls->initialize(0) >= 0);
    restore_stderr(kept, said, text, sizeof text);
    assert_string_equal(text, "");

    host.missing = "H5VLfinish_lib_state";
    host.missing_too = "H5VLclose_lib_context";
    kept = redirect_stderr(&said);
    assert_null(__real_vol_library_of(bases));
    restore_stderr(kept, said, text, sizeof text);
    assert_non_null(strstr(text, "no H5VLstart_lib_state"));

    host.missing = host.missing_too = NULL;
    for (uint64_t n = 0; n < 2; n++) {
        fake_below.fail_at = fake_below.ncalls + n;
        assert_null(__real_vol_library_of(bases));
        assert_int_equal(fake_below.nstacks, 0);
    }
    const struct vol_library *library = __real_vol_library_of(bases);
    assert_non_null(library);
    assert_ptr_equal(__real_vol_library_of(bases), library);
    assert_int_equal(library->native, FAKE_NATIVE);
    assert_false(library->is_parallel);

    /* HDF5 was opened again: the native connector's id is looked up again
     * unless it is still valid. */
    for (uint64_t n = 1; n < 4; n++) {
        fake_below.fail_at = fake_below.ncalls + n;
        assert_true(calls->initialize(0) >= 0);
        assert_int_equal(fake_below.nstacks, 0);
    }
    fake_below.fail_at = UINT64_MAX;
    for (int i = 1; i < NLIBRARIES; i++) {
        host.base = &bases[i];
        assert_non_null(__real_vol_library_of(bases));
    }
    host.base = &bases[NLIBRARIES];
    kept = redirect_stderr(&said);
    assert_null(__real_vol_library_of(bases));
    restore_stderr(kept, said, text, sizeof text);
    assert_non_null(strstr(text, "space for another libhdf5"));
    host.base = (const void *)1; /* in no module */
    kept = redirect_stderr(&said);
    assert_null(__real_vol_library_of(bases));
    restore_stderr(kept, said, text, sizeof text);
}

int
H5PLget_plugin_type(void);
const void *
H5PLget_plugin_info(void);

static void
too_old_hdf5_is_told_no_filter_has_this_number(void **state)
{
    FILE *said;
    char text[300];

    (void)state;
    assert_int_equal(H5PLget_plugin_type(), VOL_PLUGIN_TYPE);
    host.is_fake = true;
    assert_ptr_equal(H5PLget_plugin_info(), calls);
    host.missing = "H5Dread_multi";
    host.missing_too = "H5get_libversion";
    setenv("HDF5_VOL_CONNECTOR", "terp", 1);
    int silent = redirect_stderr(&said);
    assert_ptr_not_equal(H5PLget_plugin_info(), calls);
    restore_stderr(silent, said, text, sizeof text);
    assert_string_equal(text, ""); /* of an unknown version */
    host.missing_too = NULL;
    const char *const names[] = {NULL, "other", "terp", "terp", "terp", "terp"};
    const char *const verbose[] = {NULL, NULL, "0", NULL, "1", NULL};
    for (size_t i = 0; i < COUNT(names); i++) {
        if (names[i] == NULL)
            unsetenv("HDF5_VOL_CONNECTOR");
        else
            setenv("HDF5_VOL_CONNECTOR", names[i], 1);
        if (verbose[i] == NULL)
            unsetenv("TERP_VERBOSE");
        else
            setenv("TERP_VERBOSE", verbose[i], 1);
        int kept = redirect_stderr(&said);
        const struct vol_class *class = H5PLget_plugin_info();
        restore_stderr(kept, said, text, sizeof text);
        assert_int_equal(class->value, -1);
        /* Once. */
        assert_int_equal(
            strstr(text, "is too old for terp's connector") != NULL, i == 3);
    }
    unsetenv("HDF5_VOL_CONNECTOR");
    unsetenv("TERP_VERBOSE");
}

#define CALL_TEST(test) cmocka_unit_test_setup(test, reset)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CALL_TEST(call_is_handed_on_with_its_arguments),
        CALL_TEST(second_object_is_replaced_too),
        CALL_TEST(request_ends_with_its_own),
        CALL_TEST(wrapped_object_is_one_of_ours),
        CALL_TEST(connector_tells_of_itself_and_of_those_below),
        CALL_TEST(files_are_shared_through_mpi),
        CALL_TEST(file_that_is_open_for_reading_is_not_written),
        CALL_TEST(failure_for_a_file_is_its_error),
        CALL_TEST(info_is_copied_compared_and_freed),
        CALL_TEST(info_of_a_text_is_its_text),
        CALL_TEST(text_that_is_no_info_is_refused),
        CALL_TEST(failure_leaves_a_dataset_without_its_rule),
        CALL_TEST(library_is_found_with_all_functions_or_not),
        CALL_TEST(too_old_hdf5_is_told_no_filter_has_this_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

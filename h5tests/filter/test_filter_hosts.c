/* The plugin in programs with several libhdf5, with a renamed one, with one
 * inside the program, and with one that hides its functions. This program links
 * no libhdf5. TEST_PLUGIN names the plugin, TEST_HOSTS the directory of the
 * fake hosts. */
#define _GNU_SOURCE /* for dup2 and setenv */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/cd_values.h"
#include "codec/format/frame.h"
#include "h5tests/filter/fake_host.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/stderr_text.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const unsigned typed[] = {1, 1, 2};
static const char *const host_files[] = {"/libfake_hdf5.so",
                                         "/libfake_vtkhdf5.so"};
static const H5Z_class2_t *filter;
static struct fake_host *hosts[2];

/* The path that the environment variable `variable` and `file` give. */
static void *
open_file(const char *variable, const char *file, int flags)
{
    const char *start = getenv(variable);
    char path[4096];

    snprintf(path, sizeof path, "%s%s", start == NULL ? "" : start, file);
    return dlopen(path, flags);
}

/* The symbol `name` of the library. */
static void *
open_symbol(const char *variable, const char *file, const char *name)
{
    void *module = open_file(variable, file, RTLD_LAZY | RTLD_LOCAL);
    void *symbol = module == NULL ? NULL : dlsym(module, name);

    if (symbol == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return symbol;
}

static void
host_reset(struct fake_host *host)
{
    memcpy(host->words, typed, sizeof typed);
    host->nwords = COUNT(typed);
    host->nallocated = host->nreleased = 0;
    host->error[0] = '\0';
    host->nerrors = 0;
    host->prints = true;
    host->drops = host->lacks_memory = host->keeps_words = false;
}

/* A buffer of 64 bytes more than the chunk, as HDF5 allocates it. */
static void *
buffer_new(const struct fake_host *host, size_t nbytes, size_t *buf_size_ret)
{
    *buf_size_ret = nbytes + 64;
    unsigned char *buf = host->allocate(*buf_size_ret);
    assert_non_null(buf);
    for (size_t i = 0; i < *buf_size_ret; i++)
        buf[i] = (unsigned char)(i * 37 % 251);
    return buf;
}

static void
each_host_is_asked_for_its_own_dataset(void **state)
{
    (void)state;
    /* Hosts take turns: what one host reports must not affect the other. */
    for (int i = 0; i < 4; i++) {
        struct fake_host *host = hosts[i % 2];
        struct terp_cd cd;
        const char *reason;
        host_reset(host);
        assert_true(host->set_local(filter) >= 0);
        assert_int_equal(terp_cd_parse(host->nwords, host->words, &cd, &reason),
                         TERP_OK);
        assert_true(cd.persisted);
        assert_int_equal(cd.pass, TERP_PASS_NONE);
        assert_int_equal(cd.chunk.type,
                         i % 2 == 0 ? TERP_FLOAT32 : TERP_FLOAT64);
        assert_int_equal(cd.chunk.big_endian, i % 2);
        assert_int_equal(cd.chunk.rank, i % 2 == 0 ? 3 : 1);
        assert_int_equal(cd.chunk.dims[0], i % 2 == 0 ? 8 : 100);
    }
}

static void
buffers_belong_to_the_host_that_calls(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        size_t nbytes = i == 0 ? 8 * 8 * 8 * 4 : 100 * 8, buf_size;
        host_reset(hosts[i]);
        host_reset(hosts[1 - i]);
        assert_true(hosts[i]->set_local(filter) >= 0);
        void *buf = buffer_new(hosts[i], nbytes, &buf_size);
        size_t stored = hosts[i]->filter(filter, 0, nbytes, &buf_size, &buf);
        assert_true(stored > 0 && stored <= buf_size);
        assert_int_equal(
            hosts[i]->filter(filter, H5Z_FLAG_REVERSE, stored, &buf_size, &buf),
            nbytes);
        assert_true(nbytes <= buf_size);
        assert_int_equal(hosts[i]->nallocated, 2);
        assert_int_equal(hosts[i]->nreleased, 2);
        assert_int_equal(hosts[1 - i]->nallocated, 0);
        free(buf);
    }
}

static void
errors_go_to_the_host_that_calls(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        host_reset(hosts[i]);
        host_reset(hosts[1 - i]);
        hosts[i]->words[0] = TERP_BOUND_RELATIVE;
        hosts[i]->words[1] = 0;
        assert_true(hosts[i]->set_local(filter) < 0);
        assert_non_null(strstr(hosts[i]->error, "(bound)"));
        assert_string_equal(hosts[1 - i]->error, "");
    }
}

/* Reads a constant chunk with the host's cd_values. Returns its size. */
static size_t
read_constant(const struct terp_chunk *chunk)
{
    const struct terp_frame frame = {.chunk = *chunk,
                                     .coding = TERP_CODING_CONSTANT};
    size_t buf_size = TERP_FRAME_MAX_NBYTES + 8;
    uint8_t *bytes = hosts[0]->allocate(buf_size);
    void *buf = bytes;

    assert_non_null(bytes);
    const size_t n = (size_t)terp_frame_write(&frame, bytes);
    const size_t nbytes = n + (chunk->type == TERP_FLOAT32 ? 4 : 8);
    memset(bytes + n, 0, 8);
    terp_frame_seal(bytes, nbytes);
    const size_t got =
        hosts[0]->filter(filter, H5Z_FLAG_REVERSE, nbytes, &buf_size, &buf);
    free(buf);
    return got;
}

/* In a collective read HDF5's buffer has space for a chunk of the dataset, and
 * HDF5 reads all of it, even if the file lies about the chunk's size. */
static void
buffer_stays_as_large_where_hosts_do_not_tell_their_datasets(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const size_t nbytes = i == 0 ? 8 * 8 * 8 * 4 : 100 * 8;
        size_t buf_size;
        host_reset(hosts[i]);
        assert_true(hosts[i]->set_local(filter) >= 0);
        void *buf = buffer_new(hosts[i], nbytes, &buf_size);
        size_t stored = hosts[i]->filter(filter, 0, nbytes, &buf_size, &buf);
        assert_true(stored > 0);
        const size_t large_nbytes = 8 * nbytes;
        unsigned char *large = hosts[i]->allocate(large_nbytes);
        assert_non_null(large);
        memset(large, 0xAA, large_nbytes);
        memcpy(large, buf, stored);
        free(buf);
        buf = large;
        buf_size = large_nbytes;
        assert_int_equal(
            hosts[i]->filter(filter, H5Z_FLAG_REVERSE, stored, &buf_size, &buf),
            nbytes);
        assert_true(buf_size >= large_nbytes);
        for (size_t j = nbytes; j < large_nbytes; j++)
            assert_int_equal(((unsigned char *)buf)[j], 0);
        free(buf);
    }
}

/* The chunk size in a dataset's cd_values limits what streams may announce. */
static void
announced_size_is_checked_where_words_tell_it(void **state)
{
    const struct terp_chunk own = {TERP_FLOAT32, false, false, 3, {8, 8, 8}};
    const struct terp_chunk small = {TERP_FLOAT32, false, false, 1, {4}};
    const struct terp_chunk huge = {
        TERP_FLOAT64, false, false, 1, {UINT64_C(1) << 30}};

    (void)state;
    host_reset(hosts[0]); /* the user's cd_values, which have no chunk size */
    assert_int_equal(read_constant(&own), 2048);
    assert_int_equal(read_constant(&small), 16);
    assert_int_equal(read_constant(&huge), 0);
    assert_non_null(strstr(hosts[0]->error, "announces a chunk of 8589934592"));
    hosts[0]->nwords = 1; /* no words of terp */
    assert_int_equal(read_constant(&own), 2048);
    host_reset(hosts[0]);
    assert_true(hosts[0]->set_local(filter) >= 0);
    assert_int_equal(read_constant(&own), 2048);
    assert_int_equal(read_constant(&small), 0);
    assert_non_null(strstr(hosts[0]->error, "where 2048 are expected"));
    assert_int_equal(read_constant(&huge), 0);
    /* No message; only the result shows it. */
    hosts[0]->prints = false;
    setenv("TERP_VERBOSE", "0", 1);
    assert_int_equal(read_constant(&small), 0);
    unsetenv("TERP_VERBOSE");
}

/* With TERP_VERBOSE, messages tell what the plugin does, also about a second
 * fill value. */
static void
missing_value_is_told(void **state)
{
    static const unsigned words[] = {TERP_BOUND_ABSOLUTE + 0x40000, 1, 2,
                                     (unsigned)-9999, 0};
    char text[4096];
    FILE *file;

    (void)state;
    host_reset(hosts[0]);
    memcpy(hosts[0]->words, words, sizeof words);
    hosts[0]->nwords = COUNT(words);
    setenv("TERP_VERBOSE", "1", 1);
    int kept = redirect_stderr(&file);
    const herr_t created = hosts[0]->set_local(filter);
    restore_stderr(kept, file, text, sizeof text);
    unsetenv("TERP_VERBOSE");
    assert_true(created >= 0);
    assert_non_null(strstr(text, "missing value -9999"));
}

/* Invalid values of TERP_NUM_THREADS and TERP_ENGINE are reported where
 * messages go. */
static void
wrong_environment_is_told(void **state)
{
    static const struct {
        const char *threads, *engine, *says;
    } cases[] = {{"", "", NULL},
                 {"0", "cpu", NULL},
                 {"1024", "auto", NULL},
                 {"many", "cpu", "TERP_NUM_THREADS must be a number"},
                 {"2 or 3", "cpu", "TERP_NUM_THREADS must be a number"},
                 {"-1", "cpu", "TERP_NUM_THREADS must be a number"},
                 {"1025", "cpu", "TERP_NUM_THREADS must be a number"},
                 {"1", "abacus", "TERP_ENGINE must be"}};

    (void)state;
    setenv("TERP_VERBOSE", "1", 1);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[4096];
        FILE *file;
        host_reset(hosts[0]);
        setenv("TERP_NUM_THREADS", cases[i].threads, 1);
        setenv("TERP_ENGINE", cases[i].engine, 1);
        int kept = redirect_stderr(&file);
        const herr_t created = hosts[0]->set_local(filter);
        restore_stderr(kept, file, text, sizeof text);
        assert_true(created >= 0);
        assert_int_equal(strstr(text, "TERP_NUM_THREADS") != NULL ||
                             strstr(text, "TERP_ENGINE") != NULL,
                         cases[i].says != NULL);
        if (cases[i].says != NULL)
            assert_non_null(strstr(text, cases[i].says));
    }
    unsetenv("TERP_VERBOSE");
    unsetenv("TERP_NUM_THREADS");
    unsetenv("TERP_ENGINE");
}

/* Only the return value tells HDF5 to store the chunk unfiltered. */
static void
skipped_chunk_is_left_alone(void **state)
{
    size_t buf_size, nbytes = 1000;

    (void)state;
    host_reset(hosts[0]);
    void *buf = buffer_new(hosts[0], nbytes, &buf_size);
    void *copy = malloc(buf_size), *before = buf;
    assert_non_null(copy);
    memcpy(copy, buf, buf_size);
    assert_int_equal(
        hosts[0]->filter(filter, H5Z_FLAG_OPTIONAL, nbytes, &buf_size, &buf),
        0);
    assert_non_null(strstr(hosts[0]->error, "passes through"));
    assert_ptr_equal(buf, before);
    assert_int_equal(buf_size, nbytes + 64);
    assert_memory_equal(buf, copy, buf_size);

    /* Now an error, because the bytes are not a stream. */
    assert_int_equal(
        hosts[0]->filter(filter, H5Z_FLAG_REVERSE, nbytes, &buf_size, &buf), 0);
    assert_non_null(strstr(hosts[0]->error, "not a terp stream"));
    assert_ptr_equal(buf, before);
    assert_int_equal(buf_size, nbytes + 64);
    assert_memory_equal(buf, copy, buf_size);
    free(buf);
    free(copy);
}

/* If HDF5 has no memory for a chunk, writing fails, or passes the chunk through
 * if the filter is optional. Reading fails. No data is lost. */
static void
chunk_without_memory_is_an_error(void **state)
{
    const size_t nbytes = 8 * 8 * 8 * 4;
    size_t buf_size;

    (void)state;
    for (int i = 0; i < 2; i++) { /* the second time with messages */
        if (i == 1)
            setenv("TERP_VERBOSE", "1", 1);
        host_reset(hosts[0]);
        assert_true(hosts[0]->set_local(filter) >= 0);
        void *buf = buffer_new(hosts[0], nbytes, &buf_size), *before = buf;
        hosts[0]->lacks_memory = true;
        assert_int_equal(hosts[0]->filter(filter, 0, nbytes, &buf_size, &buf),
                         0);
        assert_non_null(strstr(hosts[0]->error, "cannot write a chunk"));
        assert_non_null(strstr(hosts[0]->error, "out of memory"));
        assert_int_equal(hosts[0]->filter(filter, H5Z_FLAG_OPTIONAL, nbytes,
                                          &buf_size, &buf),
                         0);
        assert_non_null(strstr(hosts[0]->error, "passes through"));
        assert_ptr_equal(buf, before);
        hosts[0]->lacks_memory = false;
        size_t stored = hosts[0]->filter(filter, 0, nbytes, &buf_size, &buf);
        assert_true(stored > 0);
        hosts[0]->lacks_memory = true;
        before = buf;
        assert_int_equal(
            hosts[0]->filter(filter, H5Z_FLAG_REVERSE, stored, &buf_size, &buf),
            0);
        assert_non_null(strstr(hosts[0]->error, "cannot read a chunk"));
        assert_ptr_equal(buf, before);
        hosts[0]->lacks_memory = false;
        assert_int_equal(
            hosts[0]->filter(filter, H5Z_FLAG_REVERSE, stored, &buf_size, &buf),
            nbytes);
        free(buf);
    }
    unsetenv("TERP_VERBOSE");
}

/* Creating a dataset fails if it cannot store terp's cd_values. */
static void
words_that_cannot_be_kept_are_an_error(void **state)
{
    (void)state;
    host_reset(hosts[0]);
    hosts[0]->keeps_words = true;
    assert_true(hosts[0]->set_local(filter) < 0);
    assert_non_null(strstr(hosts[0]->error, "cannot store the cd_values"));
}

/* Tries to read 1000 invalid streams of different sizes, in a thread. */
static void *
read_no_stream(void *host)
{
    for (size_t nbytes = 1000; nbytes < 2000; nbytes++) {
        size_t buf_size;
        void *buf = buffer_new(host, nbytes, &buf_size);
        assert_int_equal(
            ((const struct fake_host *)host)
                ->filter(filter, H5Z_FLAG_REVERSE, nbytes, &buf_size, &buf),
            0);
        free(buf);
    }
    return NULL;
}

static void
read_cut_stream(struct fake_host *host)
{
    size_t buf_size;
    void *buf = buffer_new(host, 2, &buf_size);

    assert_int_equal(host->filter(filter, H5Z_FLAG_REVERSE, 2, &buf_size, &buf),
                     0);
    free(buf);
}

static size_t
count_lines(const char *text, const char *says)
{
    size_t nlines = 0;

    while ((text = strstr(text, says)) != NULL) {
        nlines++;
        text += strlen(says);
    }
    return nlines;
}

/* Here HDF5 prints the errors, or the user wants silence. */
static void
error_is_not_printed_where_it_need_not_be(void **state)
{
    char text[4096];
    FILE *file;

    (void)state;
    host_reset(hosts[0]);
    int kept = redirect_stderr(&file);
    read_no_stream(hosts[0]);
    hosts[0]->drops = true;
    setenv("TERP_VERBOSE", "0", 1);
    read_no_stream(hosts[0]);
    unsetenv("TERP_VERBOSE");
    restore_stderr(kept, file, text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(hosts[0]->nerrors, 1000);
}

/* One cause while HDF5 drops errors, then another after the program has
 * switched printing off. */
static void
error_that_nobody_would_print_is_printed_once_a_cause(void **state)
{
    pthread_t threads[4];
    char text[4096];
    FILE *file;

    (void)state;
    host_reset(hosts[0]);
    hosts[0]->drops = true;
    int kept = redirect_stderr(&file);
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, read_no_stream, hosts[0]), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    hosts[0]->drops = hosts[0]->prints = false;
    for (int i = 0; i < 3; i++)
        read_cut_stream(hosts[0]);
    restore_stderr(kept, file, text, sizeof text);
    assert_int_equal(count_lines(text, "H5Z-TERP: "), 2);
    assert_int_equal(count_lines(text, "not a terp stream"), 1);
    assert_int_equal(count_lines(text, "truncated"), 1);
    assert_int_equal(hosts[0]->nerrors, 3);
}

/* The cd_values give a chunk of 2048 bytes, but HDF5 passes another number. */
static void
chunk_of_another_size_is_framed(void **state)
{
    static const size_t sizes[] = {1, 2047, 2049, 5000};

    char text[4096];
    FILE *file;

    (void)state;
    host_reset(hosts[0]);
    setenv("TERP_VERBOSE", "1", 1);
    int kept = redirect_stderr(&file);
    assert_true(hosts[0]->set_local(filter) >= 0);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        size_t buf_size, copy_size;
        void *buf = buffer_new(hosts[0], sizes[i], &buf_size);
        void *copy = buffer_new(hosts[0], sizes[i], &copy_size);
        size_t stored = hosts[0]->filter(filter, 0, sizes[i], &buf_size, &buf);
        assert_true(stored > sizes[i] &&
                    stored <= sizes[i] + TERP_MAX_FRAME_NBYTES);
        assert_true(stored <= buf_size);
        assert_int_equal(
            hosts[0]->filter(filter, H5Z_FLAG_REVERSE, stored, &buf_size, &buf),
            sizes[i]);
        assert_memory_equal(buf, copy, sizes[i]);
        free(buf);
        free(copy);
    }
    restore_stderr(kept, file, text, sizeof text);
    unsetenv("TERP_VERBOSE");
    assert_int_equal(
        count_lines(text, "differs from the size in the cd_values"),
        COUNT(sizes));
}

/* Called from this program, which contains no HDF5. */
static void
host_without_functions_stores_and_reads(void **state)
{
    size_t buf_size, copy_size, nbytes = 2000;
    void *buf = buffer_new(hosts[0], nbytes, &buf_size);
    void *copy = buffer_new(hosts[0], nbytes, &copy_size);

    (void)state;
    assert_true(filter->can_apply(1, 2, 3) > 0);
    assert_true(filter->set_local(1, 2, 3) >= 0);
    size_t stored =
        filter->filter(0, COUNT(typed), typed, nbytes, &buf_size, &buf);
    assert_true(stored > nbytes);
    assert_int_equal(filter->filter(H5Z_FLAG_REVERSE, COUNT(typed), typed,
                                    stored, &buf_size, &buf),
                     nbytes);
    assert_memory_equal(buf, copy, nbytes);
    assert_int_equal(
        filter->filter(H5Z_FLAG_OPTIONAL, 0, NULL, nbytes, &buf_size, &buf), 0);
    assert_memory_equal(buf, copy, nbytes);
    free(buf);
    free(copy);
}

/* hdf5plugin calls this after it has loaded the plugin. */
static void
loader_of_hdf5plugin_is_told_all_is_well(void **state)
{
    int (*init)(const char *);

    (void)state;
    void *symbol = open_symbol("TEST_PLUGIN", "", "init_filter");
    memcpy(&init, &symbol, sizeof symbol);
    assert_int_equal(init("libhdf5.so"), 0);
}

/* The last test: a library that has called the plugin can be unloaded, because
 * the plugin keeps no handle of it. */
static void
hosts_are_let_go(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(host_files); i++) {
        void *module =
            open_file("TEST_HOSTS", host_files[i], RTLD_LAZY | RTLD_NOLOAD);
        assert_non_null(module);
        /* Closes it as often as this program opened it. */
        assert_int_equal(dlclose(module), 0);
        assert_int_equal(dlclose(module), 0);
        assert_null(
            open_file("TEST_HOSTS", host_files[i], RTLD_LAZY | RTLD_NOLOAD));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_host_is_asked_for_its_own_dataset),
        cmocka_unit_test(buffers_belong_to_the_host_that_calls),
        cmocka_unit_test(
            buffer_stays_as_large_where_hosts_do_not_tell_their_datasets),
        cmocka_unit_test(errors_go_to_the_host_that_calls),
        cmocka_unit_test(announced_size_is_checked_where_words_tell_it),
        cmocka_unit_test(missing_value_is_told),
        cmocka_unit_test(wrong_environment_is_told),
        cmocka_unit_test(skipped_chunk_is_left_alone),
        cmocka_unit_test(chunk_without_memory_is_an_error),
        cmocka_unit_test(words_that_cannot_be_kept_are_an_error),
        cmocka_unit_test(error_is_not_printed_where_it_need_not_be),
        cmocka_unit_test(error_that_nobody_would_print_is_printed_once_a_cause),
        cmocka_unit_test(chunk_of_another_size_is_framed),
        cmocka_unit_test(host_without_functions_stores_and_reads),
        cmocka_unit_test(loader_of_hdf5plugin_is_told_all_is_well),
        cmocka_unit_test(hosts_are_let_go),
    };
    const void *(*get_info)(void);

    void *symbol = open_symbol("TEST_PLUGIN", "", "H5PLget_plugin_info");
    memcpy(&get_info, &symbol, sizeof symbol);
    filter = get_info();
    for (int i = 0; i < 2; i++)
        hosts[i] = open_symbol("TEST_HOSTS", host_files[i], "fake_host");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The plugin reports which engine it has used, and its bytes do not depend on
 * the engine. The environment chooses the engine. TEST_SAID is the expected
 * message for each chunk, or several with "|" between them. */
#define _GNU_SOURCE /* for dup2 and strsep */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/h5_files.h"
#include "h5tests/support/stderr_text.h"

/* Small chunks, for filter_engine_small. */
static const struct h5_shape shape = {3, {10, 12, 14}, {10, 12, 14}};

static void
check_said(const char *text, const char *action)
{
    const char *line = strstr(text, action), *said = getenv("TEST_SAID");
    char copy[1024] = "", expected[256] = "", *rest = expected, *one;

    if (line != NULL)
        snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\n"), line);
    snprintf(expected, sizeof expected, "%s", said);
    while ((one = strsep(&rest, "|")) != NULL)
        if (strstr(copy, one) != NULL)
            return;
    fail_msg("\"%s\" is not said of \"%s\" in:\n%s", said, action, text);
}

/* The program contains a loader of its own. If the environment names the
 * engine, both loaders find the same one. */
static void
encode_by_program(const struct terp_run_options *run, const struct terp_cd *cd,
                  const float *values, void *stream, uint64_t *nbytes_ret)
{
    struct terp_run_result result = {.size = sizeof result};
    const char *said = getenv("TEST_SAID");
    const void *src = values;

    assert_int_equal(terp_encode_batch(run, &cd->params, &cd->chunk, 1, &src,
                                       &stream, nbytes_ret, &result),
                     TERP_OK);
    if (getenv("TERP_CUDA_LIBRARY") != NULL && said != NULL &&
        strstr(said, "engine cuda") != NULL)
        assert_int_equal(result.used, TERP_ENGINE_CUDA);
}

static void
chunk_has_the_bytes_of_the_cpu_whoever_codes_it(void **state)
{
    unsigned words[H5Z_TERP_MAX_NWORDS];
    struct H5Z_terp_config config = {.bound_mode = H5Z_TERP_RELATIVE,
                                     .bound = 1e-3};
    const hsize_t start[] = {0, 0, 0};
    size_t nbytes = h5_shape_nvalues(&shape) * sizeof(float), stored;
    float *values = malloc(nbytes), *back = malloc(nbytes);
    float *decoded = malloc(nbytes);
    struct terp_run_options by_program = {.engine = TERP_ENGINE_CUDA};
    struct terp_cd cd;
    uint64_t got, got_by_program;
    bool skipped;
    FILE *file_of_text;
    char text[8192];

    (void)state;
    assert_true(values != NULL && back != NULL && decoded != NULL);
    size_t nwords = H5Z_terp_cd_values(&config, words);
    hid_t file = h5_file_new();
    hid_t dcpl = h5_dcpl_new(&shape, H5Z_FLAG_MANDATORY, nwords, words);

    int kept = redirect_stderr(&file_of_text);
    hid_t dataset =
        h5_dataset_new(file, "field", H5T_NATIVE_FLOAT, &shape, dcpl);
    assert_true(dataset >= 0);
    h5_dataset_cd(dataset, &cd);
    terp_field_make(TERP_FIELD_ROUGH, &cd.chunk, (uint8_t *)values);
    uint8_t *program_stream = malloc(terp_encode_bound(&cd.chunk));
    assert_non_null(program_stream);
    assert_int_equal(terp_context_make(NULL, &by_program.context), TERP_OK);
    h5_write(dataset, H5T_NATIVE_FLOAT, values);
    encode_by_program(&by_program, &cd, values, program_stream,
                      &got_by_program);
    terp_context_destroy(by_program.context);
    h5_read(dataset, H5T_NATIVE_FLOAT, back);
    restore_stderr(kept, file_of_text, text, sizeof text);
    check_said(text, "write: ");
    check_said(text, "read: ");
    const char *cpu = getenv("TERP_CPU");
    assert_int_equal(strstr(text, "TERP_CPU names no instruction set") != NULL,
                     cpu != NULL && strcmp(cpu, "abacus") == 0);

    uint8_t *bytes = h5_chunk_bytes(dataset, start, &stored, &skipped);
    uint8_t *stream = malloc(terp_encode_bound(&cd.chunk));
    assert_non_null(stream);
    assert_int_equal(terp_encode(&cd.params, &cd.chunk, values, stream,
                                 terp_encode_bound(&cd.chunk), &got, 1),
                     TERP_OK);
    assert_int_equal(stored, got);
    assert_memory_equal(bytes, stream, got);
    assert_int_equal(got_by_program, got);
    assert_memory_equal(program_stream, stream, got);
    assert_int_equal(terp_decode(stream, got, decoded, nbytes, &got, 1),
                     TERP_OK);
    assert_memory_equal(back, decoded, nbytes);

    free(program_stream);
    free(stream);
    free(bytes);
    free(decoded);
    free(back);
    free(values);
    H5Pclose(dcpl);
    H5Dclose(dataset);
    H5Fclose(file);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunk_has_the_bytes_of_the_cpu_whoever_codes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

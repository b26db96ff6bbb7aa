/* Calls take little stack. A host may call from threads with small stacks, as
 * musl's are by default, and a large frame may skip the guard page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/rewrite.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/painted.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The promise of terp.h. */
#define MAX_NBYTES (16 << 10)

/* The stack of the measuring threads, large enough to show by how much a call
 * exceeds the promise. */
#define STACK_NBYTES ((uint64_t)256 << 10)

static const struct bound {
    enum terp_bound_mode mode;
    double bound, floor;
} bounds[] = {
    {TERP_BOUND_ABSOLUTE, 1e-3, 0},    {TERP_BOUND_RELATIVE, 1e-2, 0},
    {TERP_BOUND_RELATIVE, 1e-5, 0},    {TERP_BOUND_POINTWISE, 1e-2, 0},
    {TERP_BOUND_POINTWISE, 1e-7, 0},   {TERP_BOUND_POINTWISE, 1e-3, 1e-4},
    {TERP_BOUND_PSNR, 60, 0},          {TERP_BOUND_ABSOLUTE, 0, 0},
    {TERP_BOUND_ABSOLUTE, 0x1p-40, 0}, {TERP_BOUND_ABSOLUTE, 3, 0},
};

static const struct terp_chunk shapes[] = {
    {TERP_FLOAT32, false, false, 1, {6001}},
    {TERP_FLOAT32, false, false, 2, {50, 130}},
    {TERP_FLOAT32, true, false, 3, {20, 21, 22}},
    {TERP_FLOAT32, false, true, 4, {3, 12, 13, 14}},
    {TERP_FLOAT32, false, false, 4, {9, 10, 11, 12}},
};

enum operation {
    ENCODE,
    ENCODE_BATCH,
    DECODE,
    DECODE_COARSE,
    DECODE_BATCH,
    INSPECT,
    REWRITE,
    NOPERATIONS
};

static const char *const operation_names[NOPERATIONS] = {
    "terp_encode",        "terp_encode_batch", "terp_decode",
    "terp_decode_coarse", "terp_decode_batch", "terp_inspect",
    "terp_rewrite_encode"};

struct call {
    enum operation operation;
    struct terp_chunk chunk;
    struct terp_params params;
    int nthreads;
    const void *values;
    void *stream, *decoded, *again;
    uint64_t cap_nbytes, stream_nbytes;
    /* Allocations of the reserve do not matter here. */
    struct terp_info info;
    struct terp_run run;
    enum terp_status st;
};

static void
do_call(void *arg)
{
    struct call *call = arg;
    const uint64_t nbytes = terp_chunk_nbytes(&call->chunk);
    const struct terp_run_options options = {.size = sizeof options,
                                             .nthreads = call->nthreads};
    enum terp_status status;
    uint64_t got;
    bool changed;

    switch (call->operation) {
    case ENCODE:
        call->st =
            terp_encode(&call->params, &call->chunk, call->values, call->stream,
                        call->cap_nbytes, &call->stream_nbytes, call->nthreads);
        break;
    case ENCODE_BATCH:
        call->st = terp_encode_batch(&options, &call->params, &call->chunk, 1,
                                     &call->values, &call->stream,
                                     &call->stream_nbytes, NULL);
        break;
    case DECODE:
        call->st = terp_decode(call->stream, call->stream_nbytes, call->decoded,
                               nbytes, &got, call->nthreads);
        break;
    case DECODE_COARSE:
        call->st =
            terp_decode_coarse(call->stream, call->stream_nbytes, 2,
                               call->decoded, nbytes, &got, call->nthreads);
        break;
    case DECODE_BATCH:
        call->st = terp_decode_batch(
            &options, &call->chunk, 1, (const void *const *)&call->stream,
            &call->stream_nbytes, &call->decoded, &status, NULL);
        break;
    case INSPECT:
        call->st = terp_inspect(call->stream, call->stream_nbytes, &call->info);
        break;
    default:
        call->st = terp_run_begin(&options, NULL, &call->run);
        if (call->st == TERP_OK)
            call->st =
                terp_rewrite_encode(&call->run, &call->params, &call->chunk,
                                    call->stream, call->stream_nbytes,
                                    call->decoded, call->again, &got, &changed);
        call->st = terp_run_end(&call->run, call->st, NULL);
    }
}

/* The largest stack of each operation so far, and in which case. */
static struct {
    uint64_t nbytes;
    char where[200];
} deepest[NOPERATIONS];

static void
measure(struct call *call, const char *field)
{
    for (int i = 0; i < NOPERATIONS; i++) {
        call->operation = (enum operation)i;
        if (i == REWRITE) /* encoding again after a partial change */
            memcpy(call->decoded, call->values,
                   terp_chunk_nbytes(&call->chunk) / 4);
        const uint64_t nbytes = painted_run(do_call, call, STACK_NBYTES);
        assert_int_equal(call->st, TERP_OK);
        if (nbytes <= deepest[i].nbytes)
            continue;
        deepest[i].nbytes = nbytes;
        snprintf(deepest[i].where, sizeof deepest[i].where,
                 "%s, %s, rank %d, %s %g, pipeline %d, predictor %d, effort "
                 "%d, signs %d, threads %d",
                 field, terp_type_name(call->chunk.type), call->chunk.rank,
                 terp_bound_mode_name(call->params.bound_mode),
                 call->params.bound, (int)call->params.pipeline,
                 (int)call->params.predictor, (int)call->params.effort,
                 (int)call->params.keep_sign, call->nthreads);
    }
}

static void
measure_case(enum terp_type type, const struct terp_chunk *shape,
             enum terp_field field, const struct bound *bound, unsigned turn)
{
    const struct terp_mode *mode = &terp_mode[turn % TERP_NMODES];
    struct call call = {
        .chunk = *shape,
        .params = {.bound_mode = bound->mode,
                   .bound = bound->bound,
                   .floor = bound->floor,
                   .pipeline = mode->pipeline,
                   .predictor = mode->predictor,
                   .effort = (enum terp_effort)(turn / 7 % TERP_NEFFORTS),
                   .size = sizeof call.params,
                   .keep_sign = (enum terp_keep_sign)(turn % TERP_NKEEP_SIGNS),
                   .has_valid_range = turn % 4 == 0,
                   .valid_min = -0.5,
                   .valid_max = 0.75},
        .nthreads = 1 + (int)(turn / 3 % 2),
        .info = {.size = sizeof call.info}};

    call.chunk.type = type;
    call.cap_nbytes = terp_encode_bound(&call.chunk);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&call.chunk));
    call.values = values;
    call.stream = terp_case_alloc(call.cap_nbytes);
    call.again = terp_case_alloc(call.cap_nbytes);
    call.decoded = terp_case_alloc(terp_chunk_nbytes(&call.chunk));
    terp_field_make(field, &call.chunk, values);
    measure(&call, terp_field_name[field]);
    free(values);
    free(call.stream);
    free(call.again);
    free(call.decoded);
}

static void
calls_take_little_of_the_stack(void **state)
{
    unsigned turn = 0;
    bool is_good = true;

    (void)state;
    for (int type = 0; type < TERP_NTYPES; type++)
        for (int field = 0; field < TERP_NNAMED_FIELDS; field++)
            for (size_t b = 0; b < COUNT(bounds); b++, turn++) {
                if (type == TERP_BYTES || !terp_case_taken(5))
                    continue;
                measure_case((enum terp_type)type,
                             &shapes[turn % COUNT(shapes)],
                             (enum terp_field)field, &bounds[b], turn);
            }
    for (int i = 0; i < NOPERATIONS; i++) {
        print_message("%s: %d bytes of stack (%s)\n", operation_names[i],
                      (int)deepest[i].nbytes, deepest[i].where);
        is_good &= deepest[i].nbytes <= MAX_NBYTES;
    }
    assert_true(is_good);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_take_little_of_the_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The filter's callbacks. Only here do HDF5's result codes 0 and -1 appear.
 *
 * Three things are kept between calls: the codec's CUDA engine, where
 * TERP_ENGINE selects it; which causes were printed; and recently decoded
 * streams (history.c). All are initialized statically, because HDF5 opens every
 * plugin in its folders and may call from several threads. */
#include "filter/plugin/h5z_terp.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <H5PLextern.h>

#include "codec/api/inspect.h"
#include "codec/api/processor.h"
#include "codec/api/text.h"
#include "codec/format/base.h"
#include "codec/format/environment.h"
#include "filter/plugin/coding.h"
#include "filter/plugin/dataset.h"
#include "filter/plugin/marks.h"
#include "filter/plugin/opened.h"
#include "filter/plugin/overwrite.h"
#include "filter/plugin/pipeline.h"

_Static_assert(H5Z_TERP_ABSOLUTE == TERP_BOUND_ABSOLUTE &&
                   H5Z_TERP_RELATIVE == TERP_BOUND_RELATIVE &&
                   H5Z_TERP_POINTWISE == TERP_BOUND_POINTWISE &&
                   H5Z_TERP_PSNR == TERP_BOUND_PSNR &&
                   H5Z_TERP_PIPELINE_AUTO == TERP_PIPELINE_AUTO &&
                   H5Z_TERP_PIPELINE_HUFFMAN == TERP_PIPELINE_HUFFMAN &&
                   H5Z_TERP_PIPELINE_SPEED == TERP_PIPELINE_SPEED &&
                   H5Z_TERP_PIPELINE_RATIO == TERP_PIPELINE_RATIO &&
                   H5Z_TERP_NPIPELINES == TERP_NPIPELINES &&
                   H5Z_TERP_PREDICTOR_AUTO == TERP_PREDICTOR_AUTO &&
                   H5Z_TERP_PREDICTOR_SPLINE == TERP_PREDICTOR_SPLINE &&
                   H5Z_TERP_PREDICTOR_LORENZO == TERP_PREDICTOR_LORENZO &&
                   H5Z_TERP_NPREDICTORS == TERP_NPREDICTORS &&
                   H5Z_TERP_EFFORT_DEFAULT == TERP_EFFORT_DEFAULT &&
                   H5Z_TERP_EFFORT_FAST == TERP_EFFORT_FAST &&
                   H5Z_TERP_EFFORT_BEST == TERP_EFFORT_BEST &&
                   H5Z_TERP_NEFFORTS == TERP_NEFFORTS &&
                   H5Z_TERP_KEEP_SIGN_NONE == TERP_KEEP_SIGN_NONE &&
                   H5Z_TERP_KEEP_SIGN_OF_CHUNK == TERP_KEEP_SIGN_OF_CHUNK &&
                   H5Z_TERP_KEEP_SIGN_OF_VALUES == TERP_KEEP_SIGN_OF_VALUES &&
                   H5Z_TERP_NKEEP_SIGNS == TERP_NKEEP_SIGNS &&
                   H5Z_TERP_MAX_NLOGICAL == TERP_MAX_RANK - 1,
               "the installed header and the codec use the same numbers");

/* Bounds the memory that a damaged or hostile stream can demand where cd_values
 * do not tell the chunk's size: the largest chunk before HDF5 2.0. Only streams
 * that are smaller than their chunk need the bound (may_announce). */
#define MAX_UNKNOWN_NBYTES UINT64_C(0xFFFFFFFF)

/* What happened to the dataset or chunk of a message. */
enum outcome {
    REFUSED, /* the dataset is not created */
    WARNED,  /* the dataset is created, and not compressed */
    SKIPPED, /* the chunk is stored uncompressed */
    FAILED   /* the chunk is not written or read */
};

/* Bounds the table of causes that were printed. Causes are string literals of
 * this file and of the codec, which have fewer; a cause that does not fit is
 * not printed. */
#define MAX_NCAUSES 64

/* Whether this is the first call with `cause` in the process, in any thread. */
static bool
is_first(const char *cause)
{
    static _Atomic(const char *) met[MAX_NCAUSES];

    for (size_t i = 0; i < MAX_NCAUSES; i++) {
        const char *found = NULL;
        if (atomic_compare_exchange_strong(&met[i], &found, cause))
            return true;
        if (found == cause)
            return false;
    }
    return false;
}

/* Puts a message on HDF5's error stack, unless it is a warning, and prints it
 * when verbose. Otherwise a message that HDF5 does not print goes to stderr
 * once for each `cause`, because thousands of chunks may share it. `cause` has
 * static storage: it is compared by its address. */
__attribute__((format(printf, 6, 7))) static void
report(const struct terp_call *call, enum outcome outcome, const char *cause,
       const char *function, unsigned line, const char *format, ...)
{
    char text[256];
    va_list arguments;
    bool is_shown = outcome == SKIPPED;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    terp_call_say(call, "%s", text);
    if (outcome != WARNED)
        is_shown |= terp_host_push(
            &call->host, "filter/plugin/h5z_terp.c", function, line,
            outcome == REFUSED ? "H5E_SETLOCAL_g" : "H5E_CANTFILTER_g", text);
    if (!is_shown && !call->verbose && !call->quiet && is_first(cause))
        fprintf(stderr,
                "H5Z-TERP: %s (printed once; TERP_VERBOSE=1 prints it each "
                "time, TERP_VERBOSE=0 never)\n",
                text);
}

#define REPORT(call, outcome, cause, ...) \
    report(call, outcome, cause, __func__, __LINE__, __VA_ARGS__)

/* Accepts every dataset: HDF5 runs an optional filter whatever this returns,
 * and h5repack applies a mandatory filter to every dataset of a file. */
static htri_t
can_apply(hid_t dcpl, hid_t type, hid_t space)
{
    (void)dcpl, (void)type, (void)space;
    return 1;
}

TERP_GUARDED void
say_words(const struct terp_call *call, const struct terp_cd *cd, bool fits)
{
    char dims[128] = "", floor[64] = "", missing[64] = "", limits[96] = "";
    char number[TERP_TEXT_NUMBER_NBYTES], other[TERP_TEXT_NUMBER_NBYTES];
    char type[96];
    const bool by_member = cd->pass == TERP_PASS_BY_MEMBER;
    const int rank = by_member ? cd->compound.rank : cd->chunk.rank;
    const uint64_t *shape = by_member ? cd->compound.dims : cd->chunk.dims;
    size_t at = 0;

    if (!terp_cd_is_coded(cd)) {
        terp_call_say(call, "set_local: data will pass through: %s",
                      terp_pass_text(cd->pass));
        return;
    }
    if (by_member)
        snprintf(type, sizeof type,
                 "compound of %u members in %u bytes, %d with bounds of their "
                 "own,",
                 cd->compound.nmembers, cd->compound.value_nbytes, cd->nrules);
    else
        snprintf(type, sizeof type, "%s%s,", terp_type_name(cd->chunk.type),
                 cd->chunk.big_endian ? " big-endian" : "");
    for (int i = 0; i < rank && at < sizeof dims; i++)
        at += (size_t)snprintf(dims + at, sizeof dims - at, "%s%" PRIu64,
                               i == 0 ? "" : "x", shape[i]);
    if (cd->params.floor > 0)
        snprintf(floor, sizeof floor, ", floor %s",
                 terp_text_number(cd->params.floor, 17, number));
    if (cd->has_missing)
        snprintf(missing, sizeof missing, ", missing value %s",
                 terp_text_number(cd->missing, 17, number));
    if (cd->params.has_valid_range)
        snprintf(limits, sizeof limits, ", valid range %s to %s",
                 terp_text_number(cd->params.valid_min, 17, number),
                 terp_text_number(cd->params.valid_max, 17, other));
    terp_call_say(call, "set_local: %s %s %s, %s bound %s%s%s%s%s%s%s", type,
                  cd->chunk.stack ? "stack" : "chunk", dims,
                  terp_bound_mode_name(cd->params.bound_mode),
                  terp_text_number(cd->params.bound, 17, number), floor,
                  cd->params.has_fill ? ", fill value" : "", missing, limits,
                  cd->params.keep_sign == TERP_KEEP_SIGN_NONE ? ""
                                                              : ", signs kept",
                  fits ? "" : "; the logical dims do not divide the chunk");
}

/* Removes useless filters before terp. Where another filter prevents
 * compression, prints which one, and data passes through uncompressed; where
 * terp is mandatory and a filter after it would damage streams, the dataset is
 * refused. */
static herr_t
arrange_filters(const struct terp_call *call, hid_t dcpl, unsigned flags,
                const struct terp_cd *cd)
{
    char name[TERP_PIPELINE_NAME_NBYTES];
    const char *reason;

    if (terp_cd_is_coded(cd) && !terp_pipeline_clear(&call->host, dcpl)) {
        reason = "cannot remove the other filters before terp";
        REPORT(call, REFUSED, reason, "%s", reason);
        return -1;
    }
    if (cd->pass != TERP_PASS_NOT_FIRST && cd->pass != TERP_PASS_BEHIND)
        return 0;
    (void)terp_pipeline_check(&call->host, dcpl, name);
    if (cd->pass == TERP_PASS_NOT_FIRST) {
        REPORT(call, WARNED, "not first",
               "a dataset is not compressed by terp: %s comes before it; put "
               "terp first, or leave the other filter out",
               name);
        return 0;
    }
    if (flags & H5Z_FLAG_OPTIONAL) {
        REPORT(call, WARNED, "behind",
               "a dataset is not compressed by terp: %s comes after it, and "
               "does not preserve the bytes of streams; leave it out",
               name);
        return 0;
    }
    reason = "a filter after terp";
    REPORT(call, REFUSED, reason,
           "%s comes after terp, and does not preserve the bytes of streams: "
           "leave it out",
           name);
    return -1;
}

/* Replaces the user's words by words that also describe this dataset. */
static herr_t
localize(const struct terp_call *call, hid_t dcpl, hid_t type, hid_t space)
{
    unsigned words[TERP_CD_MAX_NWORDS], flags;
    size_t nwords;
    struct terp_environment host;
    struct terp_cd cd;
    const char *reason;
    bool unmatched;

    if (!terp_dataset_get_words(&call->host, dcpl, &flags, &nwords, words)) {
        terp_call_say(call, "set_local: %s",
                      terp_pass_text(TERP_PASS_UNKNOWN_LAYOUT));
        return 0;
    }
    if (terp_cd_parse(nwords, words, &cd, &reason) != TERP_OK) {
        REPORT(call, REFUSED, reason, "%s", reason);
        return -1;
    }
    bool fits =
        terp_dataset_describe(&call->host, dcpl, type, space, &cd, &unmatched);
    if (unmatched) {
        reason = "cd_values have a bound for a member that the compound lacks";
        REPORT(call, REFUSED, reason, "%s", reason);
        return -1;
    }
    if (arrange_filters(call, dcpl, flags, &cd) < 0)
        return -1;
    nwords = terp_cd_persist(&cd, words);
    if (!terp_dataset_set_words(&call->host, dcpl, flags, nwords, words)) {
        reason = "cannot store the cd_values";
        REPORT(call, REFUSED, reason, "%s", reason);
        return -1;
    }
    terp_environment_enter(&host);
    say_words(call, &cd, fits);
    terp_environment_leave(&host);
    return 0;
}

static herr_t
set_local(hid_t dcpl, hid_t type, hid_t space)
{
    struct terp_call call;

    terp_call_begin(__builtin_return_address(0), &call);
    herr_t result = localize(&call, dcpl, type, space);
    terp_host_close(&call.host);
    return result;
}

/* Replaces HDF5's buffer by `data`, a buffer of `cap_nbytes`. */
static void
exchange(const struct terp_call *call, void *data, size_t cap_nbytes,
         size_t *buf_size, void **buf)
{
    terp_host_release(&call->host, *buf);
    *buf = data;
    *buf_size = cap_nbytes;
}

TERP_GUARDED void
say_info(const struct terp_call *call, const struct terp_run_result *result,
         const char *action, const struct terp_info *info,
         uint64_t stream_nbytes)
{
    const char *more = result->device != NULL ? result->device : result->reason;

    const uint64_t hundredths =
        (uint64_t)(100. * (double)info->chunk_nbytes / (double)stream_nbytes +
                   .5);
    terp_call_say(call,
                  "%s: %" PRIu64 " bytes, stored %" PRIu64 ", ratio %" PRIu64
                  ".%02u, pipeline %s, predictor %s, engine %s%s%s%s%s, "
                  "threads %d, instructions %s",
                  action, info->chunk_nbytes, stream_nbytes, hundredths / 100,
                  (unsigned)(hundredths % 100), info->pipeline, info->predictor,
                  result->used == TERP_ENGINE_CUDA ? "cuda" : "cpu",
                  more != NULL ? " (" : "",
                  result->reason != NULL ? "not cuda: " : "",
                  more != NULL ? more : "", more != NULL ? ")" : "",
                  call->options.nthreads, terp_processor_instructions());
}

static void
say_container(const struct terp_call *call,
              const struct terp_run_result *result, const char *action,
              const struct terp_coded *coded)
{
    terp_call_say(call,
                  "%s: %" PRIu64 " bytes, stored %" PRIu64
                  ", %u members, engine %s, threads %d, instructions %s",
                  action, coded->chunk_nbytes, coded->nbytes,
                  coded->container.nmembers,
                  result->used == TERP_ENGINE_CUDA ? "cuda" : "cpu",
                  call->options.nthreads, terp_processor_instructions());
}

/* Prints the properties of the stream to which a chunk was encoded, or from
 * which it was decoded (`is_decoded`). */
static void
say_coded(const struct terp_call *call, const struct terp_run_result *result,
          const char *action, const struct terp_coded *coded, bool is_decoded)
{
    struct terp_info info = {.size = sizeof info};
    struct terp_environment host;

    if (coded->is_container) {
        say_container(call, result, action, coded);
        return;
    }
    if ((is_decoded
             ? terp_inspect_decoded(&coded->frame, coded->src, coded->nbytes,
                                    &info)
             : terp_inspect(coded->src, coded->nbytes, &info)) != TERP_OK)
        return;
    terp_environment_enter(&host);
    say_info(call, result, action, &info, coded->nbytes);
    terp_environment_leave(&host);
}

static void
say_written(const struct terp_call *call, const struct terp_run_result *result,
            const void *stream, uint64_t stream_nbytes)
{
    struct terp_coded coded;

    if (call->verbose &&
        terp_coding_read(stream, stream_nbytes, &coded) == TERP_OK)
        say_coded(call, result, "write", &coded, false);
}

/* Why a chunk of `nbytes` is not compressed; NULL when it is. */
static const char *
reason_to_pass(enum terp_status st, const struct terp_cd *cd,
               const char *parse_reason, size_t nbytes)
{
    if (st != TERP_OK)
        return parse_reason;
    if (!cd->persisted)
        return terp_pass_text(TERP_PASS_UNKNOWN_LAYOUT);
    if (!terp_cd_is_coded(cd))
        return terp_pass_text(cd->pass);
    if (terp_chunk_nbytes(&cd->chunk) != nbytes)
        return "the chunk's size differs from the size in the cd_values";
    return NULL;
}

/* Sets parameters for bytes that are stored unchanged. */
static void
set_bytes(struct terp_cd *cd, size_t nbytes)
{
    memset(cd, 0, sizeof *cd); /* a copy would take more of the stack */
    cd->params.bound_mode = TERP_BOUND_ABSOLUTE;
    cd->chunk =
        (struct terp_chunk){.type = TERP_BYTES, .rank = 1, .dims = {nbytes}};
}

/* The stream that stands for a marked chunk, or 0. A mark of another process is
 * coded like values, because other processes would wait for ever if the filter
 * failed here; the connector then fails after the call. */
static size_t
write_marked(const struct terp_call *call, size_t nbytes, size_t *buf_size,
             void **buf)
{
    static const char reason[] = "processes write to the same chunk, in spite "
                                 "of TERP_MPI_WRITES=disjoint";
    void *stream;
    uint64_t stream_nbytes = 0;
    const enum terp_mark mark =
        terp_marks_take(*buf, nbytes, &stream, &stream_nbytes);

    if (mark == TERP_MARK_FOUND) {
        say_written(call, terp_marks_offered()->result, stream, stream_nbytes);
        exchange(call, stream, stream_nbytes, buf_size, buf);
    } else if (mark == TERP_MARK_FOREIGN) {
        REPORT(call, SKIPPED, reason, "the values of a chunk are lost: %s",
               reason);
    }
    return stream_nbytes;
}

/* A chunk that cannot be compressed is still stored: HDF5 skips an optional
 * filter, and a mandatory one stores the bytes in a frame of terp. */
static size_t
write_chunk(const struct terp_call *call, unsigned flags, size_t cd_nelmts,
            const unsigned *cd_values, size_t nbytes, size_t *buf_size,
            void **buf)
{
    struct terp_cd cd;
    const char *reason;
    void *stream = NULL;
    uint64_t stream_nbytes = 0;
    struct terp_run_result result = {.size = sizeof result};
    const struct terp_words words = {cd_nelmts, cd_values};
    bool is_rewrite;
    uint64_t old_nbytes = 0;
    const size_t marked_nbytes = write_marked(call, nbytes, buf_size, buf);

    if (marked_nbytes > 0)
        return marked_nbytes;
    enum terp_status st = terp_cd_parse(cd_nelmts, cd_values, &cd, &reason);
    if (st == TERP_OK)
        old_nbytes = terp_overwrite_take(&cd, cd_nelmts, cd_values, *buf);
    reason = reason_to_pass(st, &cd, reason, nbytes);
    if (reason == NULL) {
        st = terp_coding_encode(call, &words, &cd, *buf, &stream,
                                &stream_nbytes, &is_rewrite, &result);
        if (st == TERP_OK && is_rewrite)
            terp_call_say(call,
                          "write: this chunk was written before; unchanged "
                          "values stay as they are");
        if (st != TERP_OK)
            reason = terp_status_text(st);
    }
    if (reason != NULL && (flags & H5Z_FLAG_OPTIONAL)) {
        REPORT(call, SKIPPED, reason, "a chunk of %zu bytes passes through: %s",
               nbytes, reason);
        return 0;
    }
    if (reason != NULL) {
        set_bytes(&cd, nbytes);
        terp_call_say(call, "write: %zu bytes pass through in a frame: %s",
                      nbytes, reason);
        st = terp_coding_encode(call, &words, &cd, *buf, &stream,
                                &stream_nbytes, &is_rewrite, &result);
    }
    if (st == TERP_OK && stream_nbytes < old_nbytes) {
        terp_coding_store_raw(&cd.chunk, *buf, stream, &stream_nbytes);
        terp_call_say(call,
                      "write: netCDF does not shorten the chunk's file, so the "
                      "values are stored uncompressed");
        if (stream_nbytes < old_nbytes) {
            terp_host_release(&call->host, stream);
            st = TERP_ERR_CAPACITY;
        }
    }
    if (st != TERP_OK) {
        reason = terp_status_text(st);
        REPORT(call, FAILED, reason, "cannot write a chunk of %zu bytes: %s",
               nbytes, reason);
        return 0;
    }
    say_written(call, &result, stream, stream_nbytes);
    /* HDF5 gets the stream's size as the size of the buffer, too: where HDF5's
     * nbit does nothing, it passes on the whole buffer. */
    exchange(call, stream, stream_nbytes, buf_size, buf);
    return stream_nbytes;
}

/* Whether the chunk that a stream of `nbytes` announces is plausible. A damaged
 * or hostile stream must neither demand too much memory nor give HDF5 fewer
 * bytes than HDF5 expects. `expected_nbytes` is 0 where cd_values do not tell.
 */
static bool
may_announce(const struct terp_chunk *announced, uint64_t expected_nbytes,
             size_t nbytes)
{
    uint64_t announced_nbytes = terp_chunk_nbytes(announced);

    if (expected_nbytes == 0)
        return announced_nbytes <= nbytes ||
               announced_nbytes <= MAX_UNKNOWN_NBYTES;
    if (announced_nbytes == expected_nbytes)
        return true;
    /* The words are another dataset's, because set_local could not replace
     * them; the values are then stored in a frame. */
    return announced_nbytes <= nbytes && announced->type == TERP_BYTES;
}

/* Whether the announced chunk has the size of the dataset's chunks, as far as
 * HDF5 tells which dataset it reads: HDF5 would read beyond the end of a
 * shorter chunk, and return foreign memory. Enlarges *buffer_nbytes to the
 * largest chunk of any dataset that may be the one. Where HDF5 does not tell,
 * as in MPI programs, enlarges it to the size of HDF5's buffer: in a collective
 * call that has space for a chunk of the dataset. Uncompressed data is never
 * refused, because HDF5 copies such a dataset without opening it. */
static bool
is_whole_chunk(const struct terp_call *call, enum terp_pass pass,
               size_t cd_nelmts, const unsigned *cd_values,
               uint64_t chunk_nbytes, uint64_t buf_nbytes,
               uint64_t *expected_nbytes, uint64_t *buffer_nbytes,
               bool *may_be_written_ret)
{
    uint64_t largest_nbytes;
    const bool words_agree = *expected_nbytes == chunk_nbytes;
    const enum terp_opened opened =
        terp_opened_find(&call->host, words_agree, cd_nelmts, cd_values,
                         chunk_nbytes, &largest_nbytes, may_be_written_ret);

    if (opened == TERP_OPENED_UNKNOWN && buf_nbytes > largest_nbytes)
        largest_nbytes = buf_nbytes;
    if (largest_nbytes > *buffer_nbytes)
        *buffer_nbytes = largest_nbytes;
    if (opened != TERP_OPENED_OTHER ||
        (pass != TERP_PASS_NONE && pass != TERP_PASS_BY_MEMBER))
        return true;
    *expected_nbytes = largest_nbytes;
    return false;
}

/* Where every value of a chunk that HDF5 decodes will be replaced, gives HDF5
 * memory for the values. False: the stream must be decoded. */
static bool
skip_decoding(const struct terp_call *call, uint64_t chunk_nbytes,
              size_t *buf_size, void **buf)
{
    const struct terp_marks *marks = terp_marks_offered();

    if (marks == NULL || !marks->replace_all || chunk_nbytes == 0)
        return false;
    void *values = terp_host_allocate(&call->host, chunk_nbytes);
    if (values == NULL)
        return false;
    /* Where processes break their promise, HDF5 may store the memory. */
    memset(values, 0, chunk_nbytes);
    exchange(call, values, chunk_nbytes, buf_size, buf);
    return true;
}

static size_t
read_chunk(const struct terp_call *call, size_t cd_nelmts,
           const unsigned *cd_values, size_t nbytes, size_t *buf_size,
           void **buf)
{
    struct terp_cd cd = {.pass = TERP_PASS_NONE};
    struct terp_coded coded;
    uint64_t expected_nbytes = 0, buffer_nbytes = 0;
    struct terp_run_result result = {.size = sizeof result};
    const struct terp_words words = {cd_nelmts, cd_values};
    bool may_be_written = false;
    void *values = NULL;

    /* What is stored is enough to decode; the words only check it. */
    const bool is_known =
        terp_cd_parse(cd_nelmts, cd_values, &cd, NULL) == TERP_OK &&
        cd.persisted && terp_cd_is_coded(&cd);
    if (is_known)
        expected_nbytes = terp_chunk_nbytes(&cd.chunk);
    if (skip_decoding(call, expected_nbytes, buf_size, buf))
        return expected_nbytes;

    enum terp_status st = terp_coding_read(*buf, nbytes, &coded);
    if (st == TERP_OK)
        buffer_nbytes = coded.chunk_nbytes;
    if (st == TERP_OK &&
        (!may_announce(&coded.chunk, expected_nbytes, nbytes) ||
         !is_whole_chunk(call, cd.pass, cd_nelmts, cd_values,
                         coded.chunk_nbytes, *buf_size, &expected_nbytes,
                         &buffer_nbytes, &may_be_written))) {
        REPORT(call, FAILED, "another size",
               "a stream of %zu bytes announces a chunk of %" PRIu64
               " bytes where %" PRIu64 " are expected",
               nbytes, coded.chunk_nbytes,
               expected_nbytes == 0 ? MAX_UNKNOWN_NBYTES : expected_nbytes);
        return 0;
    }
    if (st == TERP_OK)
        st = terp_coding_decode(call, &coded, is_known ? &cd : NULL,
                                buffer_nbytes, &values, &result);
    if (st != TERP_OK) {
        const char *reason = terp_status_text(st);
        REPORT(call, FAILED, reason,
               "cannot read a chunk of %" PRIu64
               " bytes from a stream of %zu: %s",
               coded.chunk_nbytes == 0 ? expected_nbytes : coded.chunk_nbytes,
               nbytes, reason);
        return 0;
    }
    terp_overwrite_note(&cd, cd_nelmts, cd_values, values, nbytes);
    if (call->verbose)
        say_coded(call, &result, "read", &coded, true);
    if (is_known && may_be_written)
        terp_coding_remember(&words, &cd, &coded, values);
    exchange(call, values, buffer_nbytes, buf_size, buf);
    return coded.chunk_nbytes;
}

/* Keeps the C library from returning memory to the system after each chunk.
 * HDF5 and the filter allocate several buffers as large as a chunk, and release
 * all of them. glibc then gives back the end of the heap if it is larger than a
 * threshold, and the next chunk has a page fault for each 4 KiB. The faults
 * took a fifth of the time of writing chunks of 1 MiB. When a program releases
 * a large block, glibc raises the threshold to twice its size, at most to 64
 * MiB (mallopt(3), M_MMAP_THRESHOLD). So this function allocates and releases
 * an unused block of eight times a chunk.
 *
 * Where HDF5 gets marks, chunks are hardly touched, and fresh memory is better:
 * HDF5 asks for zeros, and the C library would have to clear used memory. */
static void
keep_heap(size_t chunk_nbytes)
{
    static atomic_size_t kept_nbytes;
    const size_t max_nbytes = ((size_t)32 << 20) - (64 << 10);
    const size_t nbytes =
        chunk_nbytes < max_nbytes / 8 ? 8 * chunk_nbytes : max_nbytes;

    if (nbytes <= atomic_load(&kept_nbytes) || terp_marks_offered() != NULL)
        return;
    atomic_store(&kept_nbytes, nbytes);
    void *volatile block = malloc(nbytes); /* a compiler may not drop it */
    free(block);
}

static size_t
filter(unsigned flags, size_t cd_nelmts, const unsigned *cd_values,
       size_t nbytes, size_t *buf_size, void **buf)
{
    struct terp_call call;
    size_t result;

    terp_call_begin(__builtin_return_address(0), &call);
    if (flags & H5Z_FLAG_REVERSE)
        result = read_chunk(&call, cd_nelmts, cd_values, nbytes, buf_size, buf);
    else
        result = write_chunk(&call, flags, cd_nelmts, cd_values, nbytes,
                             buf_size, buf);
    keep_heap(result > nbytes ? result : nbytes);
    terp_host_close(&call.host);
    return result;
}

/* The name is stored in every file. It uses only letters that HDF5 allows in
 * the canonical names of H5Z_class3_t, so that it never has to change. */
static const H5Z_class2_t filter_class = {
    H5Z_CLASS_T_VERS, H5Z_FILTER_TERP, 1,         1,
    "H5Z-TERP",       can_apply,       set_local, filter,
};

const void *
terp_filter_class(void)
{
    terp_opened_forget();
    return &filter_class;
}

/* The plugin's entry points; a program that is linked with the filter has
 * none. */
#ifndef TERP_LINKED
#define EXPORT __attribute__((visibility("default")))

EXPORT H5PL_type_t
H5PLget_plugin_type(void)
{
    return H5PL_TYPE_FILTER;
}

EXPORT const void *
H5PLget_plugin_info(void)
{
    return terp_filter_class();
}

/* hdf5plugin's loader passes the library whose functions the plugin should use.
 * The path is not needed: every call finds its library. */
EXPORT int
init_filter(const char *libhdf5_path);

EXPORT int
init_filter(const char *libhdf5_path)
{
    (void)libhdf5_path;
    return 0;
}
#endif

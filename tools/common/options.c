/* Parses arguments of options that several commands have. */
#include "tools/common/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "codec/api/processor.h"
#include "codec/api/terp.h"
#include "codec/api/text.h"
#include "codec/format/base.h"
#include "filter/plugin/h5z_terp.h"
#include "tools/common/text.h"
#include "tools/common/tool.h"

/* Bounds a list of names; all are shorter. */
#define MAX_HELP_NBYTES 256

const char *
tool_type_name(int type)
{
    return terp_type_name((enum terp_type)type);
}

const char *
tool_pipeline_name(int pipeline)
{
    return terp_pipeline_name((enum terp_pipeline)pipeline);
}

const char *
tool_predictor_name(int predictor)
{
    return terp_predictor_name((enum terp_predictor)predictor);
}

const char *
tool_effort_name(int effort)
{
    return terp_effort_name((enum terp_effort)effort);
}

const char *
tool_keep_sign_name(int keep_sign)
{
    static const char *const names[] = {[TERP_KEEP_SIGN_NONE] = "none",
                                        [TERP_KEEP_SIGN_OF_CHUNK] = "chunk",
                                        [TERP_KEEP_SIGN_OF_VALUES] = "values"};

    return keep_sign >= 0 && keep_sign < TERP_NKEEP_SIGNS ? names[keep_sign]
                                                          : NULL;
}

/* A list such as "auto, huffman or ratio". Free it; NULL without memory. */
static char *
list_names(const char *(*name_of)(int))
{
    char *list = calloc(1, MAX_HELP_NBYTES);
    size_t at = 0;
    int last = 0;

    for (int i = 0; i < TOOL_MAX_NNAMES; i++)
        if (name_of(i) != NULL)
            last = i;
    for (int i = 0; list != NULL && i <= last && at < MAX_HELP_NBYTES; i++)
        if (name_of(i) != NULL)
            at += (size_t)snprintf(list + at, MAX_HELP_NBYTES - at, "%s%s",
                                   at == 0     ? ""
                                   : i == last ? " or "
                                               : ", ",
                                   name_of(i));
    return list;
}

unsigned
tool_option_name(struct argp_state *state, const char *noun, const char *text,
                 const char *(*name_of)(int))
{
    for (int i = 0; i < TOOL_MAX_NNAMES; i++)
        if (name_of(i) != NULL && strcmp(text, name_of(i)) == 0)
            return (unsigned)i;
    char *names = list_names(name_of);
    argp_error(state, "unknown %s '%s'; give %s", noun, text,
               names == NULL ? "another one" : names);
    free(names); /* not reached: argp_error has ended the program */
    return 0;
}

char *
tool_option_help(int key, const char *text, void *input)
{
    static const struct {
        const char *help;
        const char *(*name_of)(int);
    } lists[] = {{TOOL_HELP_PIPELINES, tool_pipeline_name},
                 {TOOL_HELP_PREDICTORS, tool_predictor_name},
                 {TOOL_HELP_EFFORTS, tool_effort_name}};
    const char *(*name_of)(int) = NULL;

    (void)key;
    (void)input;
    for (size_t i = 0; text != NULL && i < sizeof lists / sizeof *lists; i++)
        if (strcmp(text, lists[i].help) == 0)
            name_of = lists[i].name_of;
    if (name_of == NULL)
        return (char *)text; /* argp prints it unchanged */
    return list_names(name_of);
}

double
tool_option_number(struct argp_state *state, const char *text, const char *noun)
{
    double value;

    if (!terp_text_read_number(text, &value) || !is_bound(value))
        argp_error(state, "the %s '%s' must be a finite number above 0", noun,
                   text);
    return value;
}

double
tool_option_pointwise(struct argp_state *state, const char *text)
{
    double value =
        tool_option_number(state, text, "bound relative to each value");

    if (value >= 1)
        argp_error(state,
                   "the bound relative to each value '%s' must be below 1",
                   text);
    return value;
}

int
tool_option_count(struct argp_state *state, const char *text, const char *noun,
                  int max)
{
    char *end;
    long count = strtol(text, &end, 10);

    if (end == text || *end != '\0' || count < 1 || count > max)
        argp_error(state, "the number of %s '%s' must be 1 to %d", noun, text,
                   max);
    return (int)count;
}

double
tool_option_digits(struct argp_state *state, const char *text)
{
    return H5Z_terp_bound_of_digits((unsigned)tool_option_count(
        state, text, "digits", H5Z_TERP_MAX_NDIGITS));
}

double
tool_option_bits(struct argp_state *state, const char *text)
{
    return H5Z_terp_bound_of_bits(
        (unsigned)tool_option_count(state, text, "bits", H5Z_TERP_MAX_NBITS));
}

unsigned
tool_option_format(struct argp_state *state, const char *text)
{
    if (strcmp(text, "1") != 0)
        argp_error(state, "--format must be 1");
    return 1;
}

unsigned
tool_option_keep_sign(struct argp_state *state, const char *text)
{
    return text == NULL ? TERP_KEEP_SIGN_OF_VALUES
                        : tool_option_name(state, "value of --keep-sign", text,
                                           tool_keep_sign_name);
}

/* A number up to `end`; `without` for an empty text. */
static double
read_end(struct argp_state *state, const char *text, const char *end,
         double without)
{
    char *stop;
    const double value = strtod(text, &stop);

    if (text == end)
        return without;
    if (stop != end || isnan(value))
        argp_error(state, "the end '%.*s' of the valid range must be a number",
                   (int)(end - text), text);
    return value;
}

void
tool_option_valid_range(struct argp_state *state, const char *text,
                        double *min_ret, double *max_ret)
{
    const char *colon = strchr(text, ':');

    if (colon == NULL || strlen(text) == 1) {
        argp_error(state,
                   "the valid range '%s' must have a colon and a number, as "
                   "0:1, 0: and :1",
                   text);
        return; /* argp_error has ended the program */
    }
    *min_ret = read_end(state, text, colon, -INFINITY);
    *max_ret = read_end(state, colon + 1, colon + strlen(colon), INFINITY);
    if (*min_ret > *max_ret)
        argp_error(state, "the valid range %s ends below its beginning", text);
}

int
tool_option_nthreads(struct argp_state *state, const char *text)
{
    return tool_option_count(state, text, "threads", TERP_MAX_NTHREADS);
}

int
tool_option_njobs(struct argp_state *state, const char *text)
{
    return tool_option_count(state, text, "jobs", TERP_MAX_NTHREADS);
}

void
tool_option_shape(struct argp_state *state, const char *text, unsigned max_rank,
                  struct tool_shape *shape_ret)
{
    const char *at = text;

    shape_ret->rank = 0;
    for (;;) {
        char *end;
        errno = 0;
        unsigned long long dim = strtoull(at, &end, 10);
        if (!isdigit((unsigned char)*at) || dim == 0 || dim > UINT32_MAX ||
            errno != 0)
            argp_error(state,
                       "the shape '%s' must be numbers above 0, such as "
                       "64x64x64",
                       text);
        if (shape_ret->rank == max_rank)
            argp_error(state, "the shape '%s' has more than %u dimensions",
                       text, max_rank);
        shape_ret->dims[shape_ret->rank++] = dim;
        if (*end == '\0')
            return;
        at = *end == 'x' ? end + 1 : end;
    }
}

bool
tool_directory_make(const char *command, const char *path)
{
    if (path == NULL || mkdir(path, 0777) == 0 || errno == EEXIST)
        return true;
    fprintf(stderr, "terp %s: %s: %s\n", command, tool_shown(path),
            strerror(errno));
    return false;
}

void
tool_option_missing(struct argp_state *state, const char *option,
                    const char *library)
{
    argp_failure(state, TOOL_TROUBLE, 0,
                 "%s: this program was built without %s", option, library);
}

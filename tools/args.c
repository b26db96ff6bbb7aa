/* terp args: prints the filter's parameters for other programs. */
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/api/cd_values.h"
#include "codec/api/text.h"
#include "filter/plugin/h5z_terp.h"
#include "tools/common/options.h"
#include "tools/common/tool.h"

enum {
    KEY_BITS = 256, /* has no letter */
    KEY_DIGITS,
    KEY_EFFORT,
    KEY_FLOOR,
    KEY_FORMAT,
    KEY_FROM_CD,
    KEY_KEEP_SIGN,
    KEY_MISSING,
    KEY_PWR,
    KEY_TEXT,
    KEY_VALID_RANGE
};

static const struct argp_option options[] = {
    {"abs", 'a', "X", 0, "Limit each error to X", 1},
    {"rel", 'r', "X", 0, "Limit each error to X times the range of its chunk",
     1},
    {"pwr", KEY_PWR, "X", 0, TOOL_HELP_PWR, 1},
    {"digits", KEY_DIGITS, "D", 0, TOOL_HELP_DIGITS, 1},
    {"bits", KEY_BITS, "B", 0, TOOL_HELP_BITS, 1},
    {"floor", KEY_FLOOR, "X", 0, TOOL_HELP_FLOOR, 1},
    {"psnr", 's', "DB", 0,
     "Give each chunk a measured PSNR of DB to DB + 0.5; `terp repack --psnr` "
     "refers to the dataset instead",
     1},
    {"lossless", 'l', NULL, 0, "Keep every bit", 1},
    {"pipeline", 'p', "NAME", 0, TOOL_HELP_PIPELINES, 2},
    {"predictor", 'd', "NAME", 0, TOOL_HELP_PREDICTORS, 2},
    {"effort", KEY_EFFORT, "NAME", 0, TOOL_HELP_EFFORTS, 2},
    {"format", KEY_FORMAT, "1", 0, TOOL_HELP_FORMAT, 2},
    {"missing", KEY_MISSING, "X", 0,
     "Treat X like the dataset's fill value: keep it bit for bit, and do not "
     "count it for the range",
     2},
    {"valid-range", KEY_VALID_RANGE, "MIN:MAX", 0, TOOL_HELP_VALID_RANGE, 2},
    {"keep-sign", KEY_KEEP_SIGN, "WHICH", OPTION_ARG_OPTIONAL,
     TOOL_HELP_KEEP_SIGN, 2},
    {"brick", 'b', "AxBxC", 0,
     "Each chunk is a stack of bricks of this shape, slowest dimension first",
     2},
    {"chunk", 'c', "AxBxC", 0,
     "Shape of the chunks, for programs whose HDF5 tells the filter nothing",
     3},
    {"type", 't', "NAME", 0,
     "With --chunk: float32 (default), float64, float16, bfloat16, complex64, "
     "complex128, int8 to int64, or uint8 to uint64",
     3},
    {"text", KEY_TEXT, "TEXT", 0,
     "Take all settings from a text, such as 'mode=\"rel\", bound=1e-3'", 4},
    {"from-cd", KEY_FROM_CD, "N,N,...", 0,
     "Print the text of these parameters, such as 2,1,3, and no other line", 4},
    {0}};

static const char doc[] =
    "Prints the parameters of the terp filter for h5repack, h5py and C."
    "\v"
    "Examples:\n"
    "  terp args --rel 1e-3\n"
    "      errors up to a thousandth of the range of their chunk\n"
    "  terp args --abs 0.05 --pipeline huffman\n"
    "      errors up to 0.05, and faster on a GPU\n"
    "  terp args --pwr 1e-3\n"
    "      errors up to a thousandth of each value\n"
    "  terp args --pwr 1e-3 --floor 1e-9\n"
    "      errors up to a thousandth of each value, or up to 1e-9 if that is "
    "larger\n"
    "  terp args --rel 1e-3 --effort best\n"
    "      the smallest file, in up to thirty times the time\n"
    "  terp args --psnr 60\n"
    "      a PSNR of 60 dB in each chunk; the filter finds the bound\n"
    "  terp args --lossless\n"
    "      every bit stays, also of NaN and -0.0\n"
    "  terp args --rel 1e-4 --brick 64x64x64\n"
    "      1-D chunks of 64^3 values or a multiple, as AMReX writes\n"
    "  terp args --from-cd 2,1,3\n"
    "      mode=\"rel\", bound=0.001\n"
    "\n"
    "Give exactly one of --abs, --rel, --pwr, --digits, --bits, --psnr and "
    "--lossless, or --text, or --from-cd. Words that h5repack accepts encode "
    "the number: a decimal "
    "mantissa and exponent if they are exact, else the two words of a "
    "double.\n"
    "\n"
    "With --chunk the parameters are complete, like those in a file. Programs "
    "that contain their own hidden HDF5 need this, such as openPMD-api's "
    "wheels and other stripped programs; in other programs it does no harm. "
    "The filter cannot check shape and type then: give those of the dataset, "
    "whose values must be little-endian.\n"
    "\n"
    "Exit codes: 0 done; 2 wrong usage.";

/* What the options say. */
struct request {
    struct terp_cd cd;
    const char *bound_text;
    const char *text;    /* of --text */
    const char *from_cd; /* of --from-cd */
    bool has_settings;   /* options that --text replaces */
    struct tool_shape brick, chunk;
    unsigned type;
    bool has_type;
};

static void
set_bound(struct argp_state *state, enum terp_bound_mode mode, const char *text,
          double bound)
{
    struct request *request = state->input;

    if (request->bound_text != NULL)
        argp_error(state, "give only one of --abs, --rel, --pwr, --digits, "
                          "--bits, --psnr and --lossless");
    request->bound_text = text;
    request->cd.params.bound_mode = mode;
    request->cd.params.bound = bound;
}

static void
set_missing(struct argp_state *state, const char *text)
{
    struct request *request = state->input;

    if (!terp_text_read_number(text, &request->cd.missing))
        argp_error(state, "the missing value '%s' must be a finite number",
                   text);
    request->cd.has_missing = true;
}

static void
set_brick(struct argp_state *state, const char *text)
{
    struct request *request = state->input;
    struct terp_cd *cd = &request->cd;

    tool_option_shape(state, text, TERP_MAX_RANK - 1, &request->brick);
    cd->nlogical = (int)request->brick.rank;
    for (int i = 0; i < cd->nlogical; i++)
        cd->logical[i] = request->brick.dims[i];
}

/* The types whose values terp codes. */
static const char *
type_name(int type)
{
    return type == TERP_BYTES ? NULL : tool_type_name(type);
}

/* Takes over an option that belongs to the settings; ARGP_ERR_UNKNOWN: the
 * option belongs to something else. */
static error_t
parse_setting(int key, char *arg, struct argp_state *state)
{
    struct terp_params *params = &((struct request *)state->input)->cd.params;

    switch (key) {
    case 'a':
        set_bound(state, TERP_BOUND_ABSOLUTE, arg,
                  tool_option_number(state, arg, "absolute bound"));
        return 0;
    case 'r':
        set_bound(state, TERP_BOUND_RELATIVE, arg,
                  tool_option_number(state, arg, "relative bound"));
        return 0;
    case 's':
        set_bound(state, TERP_BOUND_PSNR, arg,
                  tool_option_number(state, arg, "PSNR"));
        return 0;
    case 'l':
        set_bound(state, TERP_BOUND_ABSOLUTE, "0", 0);
        return 0;
    case KEY_PWR:
        set_bound(state, TERP_BOUND_POINTWISE, arg,
                  tool_option_pointwise(state, arg));
        return 0;
    case KEY_DIGITS:
        set_bound(state, TERP_BOUND_POINTWISE, arg,
                  tool_option_digits(state, arg));
        return 0;
    case KEY_BITS:
        set_bound(state, TERP_BOUND_POINTWISE, arg,
                  tool_option_bits(state, arg));
        return 0;
    case KEY_MISSING:
        set_missing(state, arg);
        return 0;
    case KEY_FORMAT:
        params->format = (int)tool_option_format(state, arg);
        return 0;
    case KEY_KEEP_SIGN:
        params->keep_sign =
            (enum terp_keep_sign)tool_option_keep_sign(state, arg);
        return 0;
    case KEY_VALID_RANGE:
        params->has_valid_range = true;
        tool_option_valid_range(state, arg, &params->valid_min,
                                &params->valid_max);
        return 0;
    case KEY_FLOOR:
        params->floor = tool_option_number(state, arg, "floor");
        return 0;
    case 'p':
        params->pipeline = (enum terp_pipeline)tool_option_name(
            state, "pipeline", arg, tool_pipeline_name);
        return 0;
    case 'd':
        params->predictor = (enum terp_predictor)tool_option_name(
            state, "predictor", arg, tool_predictor_name);
        return 0;
    case KEY_EFFORT:
        params->effort = (enum terp_effort)tool_option_name(
            state, "effort", arg, tool_effort_name);
        return 0;
    case 'b':
        set_brick(state, arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void
check_request(struct argp_state *state, const struct request *request)
{
    const bool has_chunk = request->chunk.rank > 0;
    const bool has_more =
        request->has_settings || has_chunk || request->has_type;

    if (request->from_cd != NULL && (has_more || request->text != NULL))
        argp_error(state, "--from-cd takes no other option");
    if (request->text != NULL && request->has_settings)
        argp_error(state, "with --text, give no other option than --chunk and "
                          "--type");
    if (request->has_type && !has_chunk)
        argp_error(state, "--type needs --chunk");
    if (request->text != NULL || request->from_cd != NULL)
        return;
    if (request->bound_text == NULL)
        argp_error(state, "give one of --abs, --rel, --pwr, --digits, --bits, "
                          "--psnr and --lossless, or --text, or --from-cd");
    if (request->cd.params.floor > 0 &&
        request->cd.params.bound_mode != TERP_BOUND_POINTWISE)
        argp_error(state, "--floor needs --pwr, --digits or --bits");
}

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    if (parse_setting(key, arg, state) == 0) {
        request->has_settings = true;
        return 0;
    }
    switch (key) {
    case 'c':
        tool_option_shape(state, arg, H5S_MAX_RANK, &request->chunk);
        return 0;
    case 't':
        request->type = tool_option_name(state, "type", arg, type_name);
        request->has_type = true;
        return 0;
    case KEY_TEXT:
        request->text = arg;
        return 0;
    case KEY_FROM_CD:
        request->from_cd = arg;
        return 0;
    case ARGP_KEY_END:
        check_request(state, request);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The words of a request; 0 if there are none, and then prints why. */
static size_t
make_words(const struct request *request, unsigned *words)
{
    const char *reason = "a brick is too large";
    struct terp_cd cd;
    size_t nwords;

    if (request->text != NULL) {
        if (terp_settings_read(request->text, words, &nwords, &reason) ==
            TERP_OK)
            return nwords;
    } else {
        nwords = terp_cd_write(&request->cd, false, words);
        if (nwords > 0 && terp_cd_parse(nwords, words, &cd, &reason) == TERP_OK)
            return nwords;
    }
    fprintf(stderr, "terp args: %s\n", reason);
    return 0;
}

/* Reads words between commas, of which there may be none. Returns false if the
 * text is another one. */
static bool
read_words(const char *text, unsigned words_ret[TERP_CD_MAX_NWORDS],
           size_t *nwords_ret)
{
    *nwords_ret = 0;
    while (*text != '\0') {
        char *end;
        errno = 0;
        const unsigned long long word = strtoull(text, &end, 10);
        if (!isdigit((unsigned char)*text) || errno != 0 || word > UINT32_MAX ||
            *nwords_ret == TERP_CD_MAX_NWORDS ||
            (*end != '\0' && (*end != ',' || end[1] == '\0')))
            return false;
        words_ret[(*nwords_ret)++] = (unsigned)word;
        text = end + (*end == ',');
    }
    return true;
}

/* --from-cd */
static int
print_text(const char *from_cd)
{
    unsigned words[TERP_CD_MAX_NWORDS];
    char text[TERP_SETTINGS_TEXT_NBYTES];
    const char *reason = "--from-cd takes numbers, such as 2,1,3";
    size_t nwords;

    if (!read_words(from_cd, words, &nwords) ||
        terp_settings_write(nwords, words, text, &reason) != TERP_OK) {
        fprintf(stderr, "terp args: %s\n", reason);
        return TOOL_TROUBLE;
    }
    printf("%s\n", text);
    return TOOL_OK;
}

/* Completes the words to those that the filter would store in a file. */
static size_t
complete_words(const struct request *request, unsigned *words, size_t nwords)
{
    struct terp_cd cd;

    if (terp_cd_parse(nwords, words, &cd, NULL) != TERP_OK)
        return 0;
    cd.pass = TERP_PASS_NONE;
    if (!terp_cd_apply_dims(&cd, (enum terp_type)request->type, false,
                            (int)request->chunk.rank, request->chunk.dims)) {
        fprintf(stderr, "terp args: the chunk must be a multiple of the "
                        "brick\n");
        return 0;
    }
    if (cd.pass != TERP_PASS_NONE) {
        fprintf(stderr, "terp args: the chunk is too large\n");
        return 0;
    }
    return terp_cd_persist(&cd, words);
}

static void
print_words(const unsigned *words, size_t nwords, const char *separator)
{
    for (size_t i = 0; i < nwords; i++)
        printf("%s%u", i == 0 ? "" : separator, words[i]);
}

int
tool_args(int argc, char **argv)
{
    static const struct argp parser = {.options = options,
                                       .parser = parse_option,
                                       .doc = doc,
                                       .help_filter = tool_option_help};
    struct request request = {0};
    unsigned words[TERP_CD_MAX_NWORDS];

    argp_parse(&parser, argc, argv, 0, NULL, &request);
    if (request.from_cd != NULL)
        return print_text(request.from_cd);
    size_t nwords = make_words(&request, words);
    if (nwords == 0)
        return TOOL_TROUBLE;
    if (request.chunk.rank > 0) {
        nwords = complete_words(&request, words, nwords);
        if (nwords == 0)
            return TOOL_TROUBLE;
    }
    printf("h5repack  h5repack -f UD=%d,0,%zu,", H5Z_FILTER_TERP, nwords);
    print_words(words, nwords, ",");
    printf(" in.h5 out.h5\nh5py      compression=%d, compression_opts=(",
           H5Z_FILTER_TERP);
    print_words(words, nwords, ", ");
    printf(")\nC         H5Pset_filter(dcpl, %d, H5Z_FLAG_MANDATORY, %zu, "
           "(const unsigned[]){",
           H5Z_FILTER_TERP, nwords);
    print_words(words, nwords, ", ");
    printf("});\n");
    if (request.chunk.rank > 0) {
        printf("openPMD   {\"hdf5\": {\"dataset\": {\"chunks\": [");
        for (unsigned i = 0; i < request.chunk.rank; i++)
            printf("%s%llu", i == 0 ? "" : ", ",
                   (unsigned long long)request.chunk.dims[i]);
        printf("], \"permanent_filters\": {\"id\": %d, \"flags\": "
               "\"mandatory\", \"cd_values\": [",
               H5Z_FILTER_TERP);
        print_words(words, nwords, ", ");
        printf("]}}}}\n");
    }
    return TOOL_OK;
}

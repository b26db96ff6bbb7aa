/* terp args: prints the filter's parameters for other programs. */
#include <argp.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/api/cd_values.h"
#include "codec/api/text.h"
#include "codec/format/base.h"
#include "filter/plugin/h5z_terp.h"
#include "tools/common/options.h"
#include "tools/common/tool.h"

enum {
    KEY_BITS = 256, /* has no letter */
    KEY_DIGITS,
    KEY_EFFORT,
    KEY_FLOOR,
    KEY_FORMAT,
    KEY_KEEP_SIGN,
    KEY_MISSING,
    KEY_PWR,
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
    "\n"
    "Give exactly one of --abs, --rel, --pwr, --digits, --bits, --psnr and "
    "--lossless. Words that h5repack accepts encode the number: a decimal "
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

struct request {
    unsigned bound_mode;
    const char *bound_text, *floor_text;
    char made_text[16]; /* text of a derived bound */
    const char *missing_text;
    double bound, floor, missing;
    bool has_valid_range;
    double valid_min, valid_max;
    char min_text[32], max_text[32];
    unsigned pipeline, predictor, effort, keep_sign, format;
    struct tool_shape brick, chunk;
    unsigned type;
};

static void
set_bound(struct argp_state *state, unsigned mode, const char *text,
          double bound)
{
    struct request *request = state->input;

    if (request->bound_text != NULL)
        argp_error(state, "give only one of --abs, --rel, --pwr, --digits, "
                          "--bits, --psnr and --lossless");
    request->bound_mode = mode;
    request->bound_text = text;
    request->bound = bound;
}

static double
read_missing(struct argp_state *state, const char *text)
{
    double value;

    if (!terp_text_read_number(text, &value))
        argp_error(state, "'%s' must be a finite number", text);
    return value;
}

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case 'a':
        set_bound(state, TERP_BOUND_ABSOLUTE, arg,
                  tool_option_number(state, arg));
        return 0;
    case 'r':
        set_bound(state, TERP_BOUND_RELATIVE, arg,
                  tool_option_number(state, arg));
        return 0;
    case 's':
        set_bound(state, TERP_BOUND_PSNR, arg, tool_option_number(state, arg));
        return 0;
    case 'l':
        set_bound(state, TERP_BOUND_ABSOLUTE, "0", 0);
        return 0;
    case KEY_PWR:
        set_bound(state, TERP_BOUND_POINTWISE, arg,
                  tool_option_pointwise(state, arg));
        return 0;
    case KEY_DIGITS:
        /* A text that parses to exactly this number. */
        snprintf(request->made_text, sizeof request->made_text, "%g",
                 tool_option_digits(state, arg));
        set_bound(state, TERP_BOUND_POINTWISE, request->made_text,
                  tool_option_digits(state, arg));
        return 0;
    case KEY_BITS:
        set_bound(state, TERP_BOUND_POINTWISE, "exact",
                  tool_option_bits(state, arg));
        return 0;
    case KEY_MISSING:
        request->missing_text = arg;
        request->missing = read_missing(state, arg);
        return 0;
    case KEY_FORMAT:
        request->format = tool_option_format(state, arg);
        return 0;
    case KEY_KEEP_SIGN:
        request->keep_sign = tool_option_keep_sign(state, arg);
        return 0;
    case KEY_VALID_RANGE:
        request->has_valid_range = true;
        tool_option_valid_range(state, arg, &request->valid_min,
                                &request->valid_max);
        snprintf(request->min_text, sizeof request->min_text, "%.*s",
                 (int)strcspn(arg, ":"), arg);
        snprintf(request->max_text, sizeof request->max_text, "%s",
                 strchr(arg, ':') + 1);
        return 0;
    case KEY_FLOOR:
        request->floor_text = arg;
        request->floor = tool_option_number(state, arg);
        return 0;
    case 'p':
        request->pipeline =
            tool_option_name(state, "pipeline", arg, tool_pipeline_name);
        return 0;
    case 'd':
        request->predictor =
            tool_option_name(state, "predictor", arg, tool_predictor_name);
        return 0;
    case KEY_EFFORT:
        request->effort =
            tool_option_name(state, "effort", arg, tool_effort_name);
        return 0;
    case 'b':
        tool_option_shape(state, arg, TERP_MAX_RANK - 1, &request->brick);
        return 0;
    case 'c':
        tool_option_shape(state, arg, H5S_MAX_RANK, &request->chunk);
        return 0;
    case 't':
        request->type = tool_option_name(state, "type", arg, tool_type_name);
        if (request->type == TERP_BYTES)
            argp_error(state, "terp does not compress bytes");
        return 0;
    case ARGP_KEY_END:
        if (request->bound_text == NULL)
            argp_error(state, "give one of --abs, --rel, --pwr, --digits, "
                              "--bits, --psnr and --lossless");
        if (request->floor > 0 && request->bound_mode != TERP_BOUND_POINTWISE)
            argp_error(state, "--floor needs --pwr, --digits or --bits");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Splits a decimal such as "12.50e-3" into mantissa * 10^-exponent, without
 * needless zeros. False if the mantissa exceeds 32 bits, or the text is not a
 * plain decimal, such as a hexadecimal number. */
static bool
split_decimal(const char *text, uint32_t *mantissa_ret, int32_t *exponent_ret)
{
    uint64_t mantissa = 0;
    long exponent = 0;
    long nzeros = 0; /* zeros since the last other digit */
    bool point = false;

    text += *text == '+';
    for (; isdigit((unsigned char)*text) || (*text == '.' && !point); text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        exponent += point;
        nzeros++;
        if (*text == '0')
            continue;
        for (; nzeros > 0 && mantissa <= UINT32_MAX; nzeros--)
            mantissa *= 10;
        nzeros = 0;
        mantissa += (uint64_t)(*text - '0');
        if (mantissa > UINT32_MAX)
            return false;
    }
    exponent -= nzeros;
    if (*text == 'e' || *text == 'E') {
        char *end;
        long typed = strtol(text + 1, &end, 10);
        if (labs(typed) > 1000)
            return false;
        exponent -= typed;
        text = end;
    }
    if (*text != '\0' || labs(exponent) > 2000)
        return false;
    /* Prefer a larger mantissa to a negative exponent, 100 to 1e2: h5repack
     * would need the exponent -2 as 4294967294. */
    while (exponent < 0 && mantissa * 10 <= UINT32_MAX) {
        mantissa *= 10;
        exponent++;
    }
    *mantissa_ret = (uint32_t)mantissa;
    *exponent_ret = (int32_t)exponent;
    return true;
}

/* Whether the filter would parse the words into this request. */
static bool
reads_back(const struct request *request, const unsigned *words, size_t nwords)
{
    struct terp_cd cd;

    if (terp_cd_parse(nwords, words, &cd, NULL) != TERP_OK ||
        double_bits(cd.params.bound) != double_bits(request->bound) ||
        double_bits(cd.params.floor) != double_bits(request->floor) ||
        cd.has_missing != (request->missing_text != NULL) ||
        double_bits(cd.missing) != double_bits(request->missing) ||
        (unsigned)cd.params.bound_mode != request->bound_mode ||
        (unsigned)cd.params.pipeline != request->pipeline ||
        (unsigned)cd.params.predictor != request->predictor ||
        (unsigned)cd.params.effort != request->effort ||
        (unsigned)cd.params.keep_sign != request->keep_sign ||
        (unsigned)cd.params.format != request->format ||
        cd.params.has_valid_range != request->has_valid_range ||
        double_bits(cd.params.valid_min) != double_bits(request->valid_min) ||
        double_bits(cd.params.valid_max) != double_bits(request->valid_max) ||
        (unsigned)cd.nlogical != request->brick.rank)
        return false;
    for (unsigned i = 0; i < request->brick.rank; i++)
        if (cd.logical[i] != request->brick.dims[i])
            return false;
    return true;
}

/* The two words of a decimal; false if it does not fit. */
static bool
decimal_words(const char *text, unsigned *words)
{
    uint32_t mantissa;
    int32_t exponent;

    if (!split_decimal(text, &mantissa, &exponent))
        return false;
    words[0] = mantissa;
    words[1] = (uint32_t)exponent;
    return true;
}

/* The two words of a signed decimal, whose mantissa carries the sign; false if
 * it does not fit. */
static bool
signed_decimal_words(const char *text, unsigned *words)
{
    const bool is_negative = *text == '-';

    if (!decimal_words(text + is_negative, words) || words[0] > INT32_MAX)
        return false;
    words[0] = is_negative ? 0u - words[0] : words[0];
    return true;
}

static void
exact_words(double value, unsigned *words)
{
    words[0] = (uint32_t)double_bits(value);
    words[1] = (uint32_t)(double_bits(value) >> 32);
}

/* The numbers of a request in the order of the words: bound, floor, missing
 * value, valid range. */
struct number {
    const char *text;
    double value;
    bool is_signed;
};
#define MAX_NNUMBERS 5 /* with all of them */

static size_t
list_numbers(const struct request *request, struct number *numbers)
{
    size_t n = 0;

    numbers[n++] = (struct number){request->bound_text, request->bound, false};
    if (request->floor > 0)
        numbers[n++] =
            (struct number){request->floor_text, request->floor, false};
    if (request->missing_text != NULL)
        numbers[n++] =
            (struct number){request->missing_text, request->missing, true};
    if (request->has_valid_range) {
        numbers[n++] =
            (struct number){request->min_text, request->valid_min, true};
        numbers[n++] =
            (struct number){request->max_text, request->valid_max, true};
    }
    return n;
}

/* Writes the numbers as decimals if they parse to the same doubles, else as the
 * two words of each double. Returns the number of words; 0 if neither parses to
 * the request. */
static size_t
make_words(const struct request *request, unsigned *words)
{
    struct number numbers[MAX_NNUMBERS];
    const size_t nnumbers = list_numbers(request, numbers);
    size_t nwords = 1 + 2 * nnumbers;
    bool is_decimal = true;

    words[0] = request->bound_mode |
               request->pipeline << TERP_CD_PIPELINE_SHIFT |
               request->predictor << TERP_CD_PREDICTOR_SHIFT |
               request->effort << TERP_CD_EFFORT_SHIFT |
               request->keep_sign << TERP_CD_KEEP_SIGN_SHIFT |
               (request->format > 0 ? TERP_CD_FORMAT_1 : 0) |
               (request->floor > 0 ? TERP_CD_FLOOR : 0) |
               (request->missing_text != NULL ? TERP_CD_MISSING : 0) |
               (request->has_valid_range ? TERP_CD_VALID_RANGE : 0);
    if (request->brick.rank > 0)
        words[nwords++] = request->brick.rank;
    for (unsigned i = 0; i < request->brick.rank; i++)
        words[nwords++] = (unsigned)request->brick.dims[i];
    for (size_t i = 0; i < nnumbers && is_decimal; i++)
        is_decimal = (numbers[i].is_signed
                          ? signed_decimal_words
                          : decimal_words)(numbers[i].text, words + 1 + 2 * i);
    if (is_decimal && reads_back(request, words, nwords))
        return nwords;
    words[0] |= TERP_CD_EXACT;
    for (size_t i = 0; i < nnumbers; i++)
        exact_words(numbers[i].value, words + 1 + 2 * i);
    return reads_back(request, words, nwords) ? nwords : 0;
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
    size_t nwords = make_words(&request, words);
    if (nwords == 0) {
        fprintf(stderr, "terp args: no parameters express the bound %s\n",
                request.bound_text);
        return TOOL_TROUBLE;
    }
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

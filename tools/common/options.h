/* Options that several commands have. */
#pragma once

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include <hdf5.h>

/* Dims, slowest first; rank 0: not given. */
struct tool_shape {
    unsigned rank;
    uint64_t dims[H5S_MAX_RANK];
};

/* Names of the codec's numbers, which are below TOOL_MAX_NNAMES; NULL for
 * unused numbers. */
#define TOOL_MAX_NNAMES 16
const char *
tool_type_name(int type);
const char *
tool_pipeline_name(int pipeline);
const char *
tool_predictor_name(int predictor);
const char *
tool_effort_name(int effort);
/* The names "none", "chunk" and "values" of enum terp_keep_sign. */
const char *
tool_keep_sign_name(int keep_sign);

/* The number whose name is `text`, for a function like the ones above. For
 * other texts prints an error with `noun` and exits. */
unsigned
tool_option_name(struct argp_state *state, const char *noun, const char *text,
                 const char *(*name_of)(int));

#define TOOL_HELP_PWR "Limit each value's error to X times that value"
#define TOOL_HELP_DIGITS \
    "Keep D significant digits of every value: --pwr with half of 10^-D"
#define TOOL_HELP_BITS "Keep B bits of every mantissa: --pwr with half of 2^-B"
#define TOOL_HELP_FLOOR \
    "With --pwr, always allow errors up to X: the larger bound counts"

#define TOOL_HELP_KEEP_SIGN                                                \
    "Keep signs: \"values\" (if WHICH is missing) keeps the sign of each " \
    "value; \"chunk\" keeps the sign of chunks whose values all have one " \
    "sign; \"none\""
#define TOOL_HELP_FORMAT \
    "Write only streams that terp 1 reads: version 1 of the format"
#define TOOL_HELP_VALID_RANGE                                            \
    "Keep values from MIN to MAX within MIN and MAX; MIN or MAX may be " \
    "missing"

/* A help_filter for commands with these help texts: each becomes a list such as
 * "auto, huffman or ratio". */
#define TOOL_HELP_PIPELINES "pipelines"
#define TOOL_HELP_PREDICTORS "predictors"
#define TOOL_HELP_EFFORTS "efforts"
char *
tool_option_help(int key, const char *text, void *input);

/* A finite number above zero; otherwise prints an error and exits. `noun` says
 * what the number is: "relative bound". */
double
tool_option_number(struct argp_state *state, const char *text,
                   const char *noun);

/* A pointwise bound: a number above 0 and below 1; otherwise prints an error
 * and exits. */
double
tool_option_pointwise(struct argp_state *state, const char *text);

/* A number of `noun`, 1 to `max`; otherwise prints an error and exits. */
int
tool_option_count(struct argp_state *state, const char *text, const char *noun,
                  int max);

/* The bound relative to each value that keeps a number of decimal digits, 1 to
 * 15, or of mantissa bits, 1 to 52: half a unit of the last one. */
double
tool_option_digits(struct argp_state *state, const char *text);
double
tool_option_bits(struct argp_state *state, const char *text);

/* 1, the only format that can be named; otherwise prints an error and exits. */
unsigned
tool_option_format(struct argp_state *state, const char *text);

/* A number of enum terp_keep_sign; NULL means TERP_KEEP_SIGN_OF_VALUES. */
unsigned
tool_option_keep_sign(struct argp_state *state, const char *text);

/* Parses MIN:MAX; a missing end is infinite. Prints an error and exits if the
 * text is wrong. */
void
tool_option_valid_range(struct argp_state *state, const char *text,
                        double *min_ret, double *max_ret);

/* A number of threads; otherwise prints an error and exits. */
int
tool_option_nthreads(struct argp_state *state, const char *text);

/* A number of files at once; otherwise prints an error and exits. */
int
tool_option_njobs(struct argp_state *state, const char *text);

/* Dims such as 64x64x64, at most max_rank; otherwise prints an error and exits.
 */
void
tool_option_shape(struct argp_state *state, const char *text, unsigned max_rank,
                  struct tool_shape *shape_ret);

/* Creates the directory unless it exists or `path` is NULL. False: prints why.
 */
bool
tool_directory_make(const char *command, const char *path);

/* Reports that this program was built without `library`, and exits. */
void
tool_option_missing(struct argp_state *state, const char *option,
                    const char *library);

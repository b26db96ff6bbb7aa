/* What options of several commands have in common. */
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

/* The codec's names by their numbers, which are below TOOL_MAX_NNAMES; NULL:
 * there is no such number. */
#define TOOL_MAX_NNAMES 16
const char *
tool_type_name(int type);
const char *
tool_pipeline_name(int pipeline);
const char *
tool_predictor_name(int predictor);
const char *
tool_effort_name(int effort);
/* "none", "chunk" and "values" of enum terp_keep_sign. */
const char *
tool_keep_sign_name(int keep_sign);

/* The number whose name is `text`, of functions like these; otherwise says that
 * there is no such `what`, and exits. */
unsigned
tool_option_name(struct argp_state *state, const char *what, const char *text,
                 const char *(*name_of)(int));

#define TOOL_HELP_PWR "Bound the error of each value by X times that value"
#define TOOL_HELP_DIGITS \
    "Keep D significant digits of every value: --pwr with half of 10^-D"
#define TOOL_HELP_BITS "Keep B bits of every mantissa: --pwr with half of 2^-B"
#define TOOL_HELP_FLOOR \
    "With --pwr, allow every error of up to X: the bound is the larger one"

#define TOOL_HELP_KEEP_SIGN                                                \
    "Keep signs beside the bound: of all \"values\" (if not given), of a " \
    "\"chunk\" whose values have one sign, or \"none\""
#define TOOL_HELP_VALID_RANGE                                                 \
    "Let no value from MIN to MAX become one below MIN or above MAX; either " \
    "may be left out"

/* The help_filter of commands with options whose help is this: it becomes
 * "auto, huffman, ... or ratio". */
#define TOOL_HELP_PIPELINES "pipelines"
#define TOOL_HELP_PREDICTORS "predictors"
#define TOOL_HELP_EFFORTS "efforts"
char *
tool_option_help(int key, const char *text, void *input);

/* A finite number above zero; otherwise says so, and exits. */
double
tool_option_number(struct argp_state *state, const char *text);

/* The same, and below one: a bound relative to each value. */
double
tool_option_pointwise(struct argp_state *state, const char *text);

/* The bound relative to each value that keeps so many decimal digits, 1 to 15,
 * or bits of the mantissa, 1 to 52: half of the last one of any value. */
double
tool_option_digits(struct argp_state *state, const char *text);
double
tool_option_bits(struct argp_state *state, const char *text);

/* One of enum terp_keep_sign; `text` NULL is that of all values. */
unsigned
tool_option_keep_sign(struct argp_state *state, const char *text);

/* The ends of MIN:MAX, infinite where there is none; otherwise says what is
 * wrong, and exits. */
void
tool_option_valid_range(struct argp_state *state, const char *text,
                        double *min_ret, double *max_ret);

/* A number of threads; otherwise says that it is none, and exits. */
int
tool_option_nthreads(struct argp_state *state, const char *text);

/* Dims such as 64x64x64, at most max_rank of them; otherwise says so, and
 * exits. */
void
tool_option_shape(struct argp_state *state, const char *text, unsigned max_rank,
                  struct tool_shape *shape_ret);

/* Makes the directory, unless it is there or NULL; otherwise says why not. */
bool
tool_directory_make(const char *command, const char *path);

/* For an option that this program was built without: says so, and exits. */
void
tool_option_missing(struct argp_state *state, const char *option,
                    const char *library);

/* terp repack and terp preview: parse the options. */
#define _POSIX_C_SOURCE 200809L /* strndup */
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/processor.h"
#include "codec/api/text.h"
#include "tools/common/limit.h"
#include "tools/common/tool.h"
#include "tools/repack/request.h"

enum {
    KEY_AMREX = 256, /* has no letter */
    KEY_BITS,
    KEY_DIGITS,
    KEY_EFFORT,
    KEY_FLOOR,
    KEY_FORMAT,
    KEY_IN_PLACE,
    KEY_JOBS,
    KEY_KEEP_SIGN,
    KEY_MASK,
    KEY_MASK_FILL,
    KEY_MEMBER,
    KEY_NO_AMREX,
    KEY_NO_CF,
    KEY_OUTPUT_DIR,
    KEY_PWR,
    KEY_RECORD,
    KEY_REDO,
    KEY_REST,
    KEY_SALVAGE,
    KEY_VALID_RANGE
};

static const struct argp_option options[] = {
    {"rel", 'r', "X", 0,
     "Limit each error to X times the range of the dataset's valid values", 1},
    {"abs", 'a', "X", 0, "Limit each error to X", 1},
    {"pwr", KEY_PWR, "X", 0, TOOL_HELP_PWR, 1},
    {"digits", KEY_DIGITS, "D", 0, TOOL_HELP_DIGITS, 1},
    {"bits", KEY_BITS, "B", 0, TOOL_HELP_BITS, 1},
    {"floor", KEY_FLOOR, "X", 0, TOOL_HELP_FLOOR, 1},
    {"psnr", 's', "DB", 0,
     "Choose the bound so that errors spread evenly within it give the "
     "dataset a PSNR of DB; `terp args --psnr` refers to each chunk instead",
     1},
    {"lossless", 'l', NULL, 0, "Keep every bit", 1},
    {"dataset", 'd', "GLOB=BOUND", 0,
     "Set the bound of datasets that GLOB matches: rel:X, abs:X, pwr:X, "
     "pwr:X:FLOOR, digits:D, bits:B, psnr:DB, X (as rel:X), lossless, or none "
     "(copy them); the last match counts",
     1},
    {"member", KEY_MEMBER, "NAME=BOUND", 0,
     "Set the bound of member NAME of compound values, such as position or "
     "position.x; rel:X refers to the member's range in each chunk",
     1},
    {"keep-sign", KEY_KEEP_SIGN, "WHICH", OPTION_ARG_OPTIONAL,
     REPACK_HELP_KEEP_SIGN, 1},
    {"valid-range", KEY_VALID_RANGE, "MIN:MAX", 0, REPACK_HELP_VALID_RANGE, 1},
    {"mask", KEY_MASK, "[GLOB=]VAR[:VALUE]", 0,
     "Keep values bit for bit, and do not count them for the range, where the "
     "dataset VAR has VALUE: a number, or \"fill\" for its fill value; without "
     "VALUE, where it is not 0. Applies to datasets that GLOB matches (without "
     "GLOB: all) and whose last dimensions are those of VAR",
     1},
    {"mask-fill", KEY_MASK_FILL, NULL, 0,
     "Replace the values that --mask finds by the fill value of their dataset",
     1},
    {"rest", KEY_REST, "NAME", 0,
     "Filters for what terp does not compress, such as strings and small "
     "datasets: keep (default) its own, or deflate, after shuffle",
     1},
    {"chunk", 'c', "auto|AxBxC", 0,
     "Give datasets new chunks, also where they have chunks. auto: terp "
     "chooses "
     "a shape for each dataset; AxBxC: this shape, for datasets of as many "
     "dimensions",
     2},
    {"amrex", KEY_AMREX, NULL, 0,
     "Fail unless IN has levels of an AMReX plotfile or a Chombo file. Also "
     "without this option terp compresses levels box by box, and a relative "
     "bound refers to the range of each component on a level",
     2},
    {"no-amrex", KEY_NO_AMREX, NULL, 0,
     "Compress levels as lines of values, with one bound for all components",
     2},
    {"pipeline", 'p', "NAME", 0, TOOL_HELP_PIPELINES, 2},
    {"effort", KEY_EFFORT, "NAME", 0, TOOL_HELP_EFFORTS, 2},
    {"format", KEY_FORMAT, "1", 0, TOOL_HELP_FORMAT, 2},
    {"threads", 't', "N", 0,
     "Number of threads that compress (default: the number of CPUs)", 3},
    {"engine", 'e', "NAME", 0,
     "cpu, cuda, or auto (default): with large files the GPU helps the CPU", 3},
    {"output-dir", KEY_OUTPUT_DIR, "DIR", 0,
     "Copy many files to DIR and keep their paths; search directories for HDF5 "
     "files",
     4},
    {"in-place", KEY_IN_PLACE, NULL, 0,
     "Replace each file by its copy, after a comparison of both", 4},
    {"jobs", KEY_JOBS, "N", 0,
     "With --output-dir or --in-place: number of files at once (default 1), "
     "which share the threads",
     4},
    {"redo", KEY_REDO, NULL, 0,
     "With --output-dir or --in-place: do not skip files that an earlier run "
     "with the same options has copied",
     4},
    {"json", 'j', NULL, 0, "Print a JSON summary; `man terp` has the keys", 4},
    {"record", KEY_RECORD, NULL, 0,
     "Read each compressed dataset back, and write attributes with terp's "
     "version, the bound, the largest error and the PSNR",
     5},
    {"no-cf", KEY_NO_CF, NULL, 0,
     "In files of the CF conventions, do not write the attributes "
     "lossy_compression, which tell the error of each variable",
     5},
    {"salvage", KEY_SALVAGE, NULL, 0,
     "Copy a damaged file: values of damaged chunks become the fill value; "
     "the output and an attribute of the dataset list them",
     5},
    {"trusted", TOOL_KEY_TRUSTED, NULL, 0, TOOL_HELP_TRUSTED, 5},
    {"verbose", 'v', NULL, 0, "Print how each dataset is copied", 5},
    {0}};

static const char doc[] =
    "Copies the HDF5 file IN to OUT and compresses its numbers. With "
    "--output-dir or --in-place it does so for many files."
    "\v"
    "Examples:\n"
    "  terp repack in.h5 out.h5 --rel 1e-3\n"
    "      errors up to a thousandth of each dataset's range\n"
    "  terp repack in.h5 out.h5 --pwr 1e-2\n"
    "      errors up to a hundredth of each value: for data of many "
    "magnitudes\n"
    "  terp repack in.h5 out.h5 --pwr 1e-2 --floor 1e-6\n"
    "      the same, but errors may always reach 1e-6\n"
    "  terp repack in.h5 out.h5 --psnr 70 --dataset '*/mask=none'\n"
    "      a PSNR of about 70 dB; datasets named mask are copied\n"
    "  terp repack in.h5 out.h5 --dataset rho=abs:0.05 -d 'fields/*=1e-4'\n"
    "      compress only the named datasets\n"
    "  terp repack in.h5 out.h5 --lossless --dataset 'fields/*=1e-4'\n"
    "      lossless, except for the named datasets\n"
    "  terp repack in.nc out.nc --rel 1e-3 --mask land:1 --mask-fill\n"
    "      write fill values where the variable land is 1\n"
    "  terp repack in.h5 out.h5 --lossless --member velocity=1e-3\n"
    "      lossless, except for the member velocity of tables\n"
    "  terp repack in.h5 out.h5 --rel 1e-3 --chunk auto --verbose\n"
    "      replace the chunks by chunks that compress well\n"
    "  terp repack in.h5 out.h5 --rel 1e-3 --effort best\n"
    "      the smallest file, in up to thirty times the time\n"
    "  terp repack damaged.h5 out.h5 --dataset '*=none' --salvage\n"
    "      copy the undamaged chunks without compression\n"
    "  terp repack plt00100.h5 small.h5 --rel 1e-3\n"
    "      a bound for each component of an AMReX plotfile, by its range\n"
    "  terp repack runs --output-dir small --rel 1e-3 --jobs 4\n"
    "      all HDF5 files below runs, to small/runs\n"
    "  terp repack 'runs/*.h5' --in-place --rel 1e-3\n"
    "      replace files\n"
    "\n"
    "The copy keeps groups, links, attributes, types, dimension scales and "
    "references.\n"
    "\n"
    "Lossless unless --dataset names them: integers, enumerations, compound "
    "values, arrays and coordinates. Of compound values that --dataset names, "
    "integers stay lossless unless --member names them. Coordinates are "
    "datasets that CF's attributes mark as "
    "latitude, longitude, time or axis, datasets that other datasets name as "
    "coordinates, bounds or cell measures, and meshes of UGRID.\n"
    "\n"
    "Copied unless --dataset names them: datasets of fewer than 4096 values, "
    "and dimension scales. Always copied: datasets of strings and of "
    "other types that hold no numbers, empty and virtual datasets, datasets in "
    "external "
    "files, and datasets that terp does not make smaller.\n"
    "\n"
    "Terp replaces the filters of a dataset, unless they made it smaller. "
    "Chunks keep their shape, unless they are smaller than 4 KiB; a dataset "
    "without chunks gets chunks of about 64x64x64 values.\n"
    "\n"
    "A relative bound of 16-bit floats and of complex values refers to the "
    "range of each chunk. Levels of AMReX plotfiles and of Chombo files are "
    "compressed box by box; relative bounds and --psnr refer to the range of "
    "each component. If another dataset seems to hold several fields, and the "
    "bound leaves little of one, terp prints the ranges of the fields.\n"
    "\n"
    "--lossless keeps every bit, also of NaN and -0.0.\n"
    "\n"
    "Data that is never negative stays so. Values within the range of the "
    "attributes valid_range, valid_min and valid_max stay within it.\n"
    "\n"
    "Fill values, NaN and infinite values stay bit for bit, and do not count "
    "for the range. --psnr derives the bound from the range and from the mean "
    "square bound^2 / 3 of errors spread evenly within the bound.\n"
    "\n"
    "OUT appears when it is complete. Until then, and after a failure, an "
    "existing OUT stays unchanged.\n"
    "\n"
    "With --output-dir or --in-place, IN may be files, directories and "
    "patterns. terp skips files that an earlier run with the same options has "
    "done, goes on after a failure, and ends with a summary.\n"
    "\n"
    "Exit codes: 0 done; 1 done with --salvage, and values are lost; 2 wrong "
    "usage, or a file cannot be read or written.";

static struct repack_bound
read_rel(struct argp_state *state, const char *text)
{
    const double rel = tool_option_number(state, text, "relative bound");

    if (rel >= 1)
        argp_error(state, "the relative bound %s must be below 1", text);
    return (struct repack_bound){REPACK_REL, rel, 0, "relative", rel};
}

static struct repack_bound
read_abs(struct argp_state *state, const char *text)
{
    const double bound = tool_option_number(state, text, "absolute bound");

    return (struct repack_bound){REPACK_ABS, bound, 0, "absolute", bound};
}

static struct repack_bound
read_pwr(struct argp_state *state, const char *text)
{
    const double pwr = tool_option_pointwise(state, text);

    return (struct repack_bound){REPACK_PWR, pwr, 0, "pointwise", pwr};
}

static struct repack_bound
read_digits(struct argp_state *state, const char *text)
{
    return (struct repack_bound){REPACK_PWR, tool_option_digits(state, text), 0,
                                 "digits", strtod(text, NULL)};
}

static struct repack_bound
read_bits(struct argp_state *state, const char *text)
{
    return (struct repack_bound){REPACK_PWR, tool_option_bits(state, text), 0,
                                 "bits", strtod(text, NULL)};
}

/* Parses "X" or "X:FLOOR". */
static struct repack_bound
read_pwr_floor(struct argp_state *state, char *text)
{
    char *colon = strchr(text, ':');

    if (colon == NULL)
        return read_pwr(state, text);
    *colon = '\0';
    struct repack_bound bound = read_pwr(state, text);
    bound.floor = tool_option_number(state, colon + 1, "floor");
    *colon = ':';
    return bound;
}

/* Errors spread evenly in [-b, b] have the mean square b^2 / 3, so that PSNR =
 * 20 log10(range / (b / sqrt(3))). */
static struct repack_bound
read_psnr(struct argp_state *state, const char *text)
{
    double psnr = tool_option_number(state, text, "PSNR");
    double rel = sqrt(3) * pow(10, -psnr / 20);

    if (rel >= 1 || rel < 1e-300)
        argp_error(state, "the PSNR %s dB must be between 4.8 and 6000", text);
    return (struct repack_bound){REPACK_REL, rel, 0, "psnr", psnr};
}

static const struct repack_bound lossless = {REPACK_ABS, 0, 0, "lossless", 0};

static struct repack_bound
read_any(struct argp_state *state, char *text)
{
    if (strncmp(text, "abs:", 4) == 0)
        return read_abs(state, text + 4);
    if (strncmp(text, "rel:", 4) == 0)
        return read_rel(state, text + 4);
    if (strncmp(text, "pwr:", 4) == 0)
        return read_pwr_floor(state, text + 4);
    if (strncmp(text, "digits:", 7) == 0)
        return read_digits(state, text + 7);
    if (strncmp(text, "bits:", 5) == 0)
        return read_bits(state, text + 5);
    if (strncmp(text, "psnr:", 5) == 0)
        return read_psnr(state, text + 5);
    if (strcmp(text, "lossless") == 0)
        return lossless;
    if (strcmp(text, "none") == 0)
        return (struct repack_bound){REPACK_KEEP, 0, 0, NULL, 0};
    if (isalpha((unsigned char)*text))
        argp_error(state, "unknown bound '%s'; --help lists the bounds", text);
    return read_rel(state, text);
}

static void
set_bound(struct argp_state *state, struct repack_bound bound)
{
    struct repack_request *request = state->input;
    if (request->bound.mode != REPACK_KEEP)
        argp_error(state, "give only one of --rel, --abs, --pwr, --digits, "
                          "--bits, --psnr and --lossless");
    bound.floor = request->bound.floor;
    request->bound = bound;
}

static void
set_levels(struct argp_state *state, enum repack_levels levels)
{
    struct repack_request *request = state->input;

    if (request->levels != REPACK_LEVELS_FOUND && request->levels != levels)
        argp_error(state, "give only one of --amrex and --no-amrex");
    request->levels = levels;
}

static void
add_rule(struct argp_state *state, char *text)
{
    struct repack_request *request = state->input;
    struct repack_rule *rule = &request->rules[request->nrules++];
    /* The last '=' separates: names of datasets may contain '='. */
    char *equals = strrchr(text, '=');

    if (equals == NULL || equals == text) {
        argp_error(state, "--dataset '%s' must be GLOB=BOUND", text);
        return;
    }
    rule->text = text;
    rule->glob = strndup(text, (size_t)(equals - text));
    if (rule->glob == NULL)
        argp_failure(state, TOOL_TROUBLE, ENOMEM, "--dataset");
    rule->bound = read_any(state, equals + 1);
}

/* Parses what follows the last colon, if it is a value. */
static void
read_mask_value(struct repack_mask_rule *mask)
{
    char *colon = strrchr(mask->variable, ':');

    if (colon == NULL)
        return;
    if (strcmp(colon + 1, "fill") == 0)
        mask->kind = REPACK_MASK_FILL;
    else if (terp_text_read_number(colon + 1, &mask->number))
        mask->kind = REPACK_MASK_EQUAL;
    else
        return;
    *colon = '\0';
}

static void
add_mask(struct argp_state *state, const char *text)
{
    struct repack_request *request = state->input;
    struct repack_mask_rule *mask = &request->masks[request->nmasks++];
    const char *equals = strrchr(text, '=');
    const char *variable = equals == NULL ? text : equals + 1;

    *mask =
        (struct repack_mask_rule){.text = text, .variable = strdup(variable)};
    if (equals != NULL)
        mask->glob = strndup(text, (size_t)(equals - text));
    if (mask->variable == NULL || (equals != NULL && mask->glob == NULL)) {
        argp_failure(state, TOOL_TROUBLE, ENOMEM, "--mask");
        return;
    }
    read_mask_value(mask);
    if (*mask->variable == '\0' || equals == text)
        argp_error(state, "--mask '%s' must be [GLOB=]VARIABLE[:VALUE]", text);
}

/* Refuses a wrong number of operands, and options that contradict each other.
 */
static void
check_files(struct argp_state *state, const struct repack_request *request)
{
    const bool is_of_many = repack_is_of_many(request);

    if (is_of_many && request->noperands == 0)
        argp_error(state, "give at least one file or directory");
    if (!is_of_many && request->noperands > 2)
        argp_error(state, "too many files; give IN and OUT, or --output-dir "
                          "or --in-place");
    if (!is_of_many && request->noperands < 2)
        argp_error(state, "give two files, IN and OUT");
    if (!is_of_many && (request->njobs > 1 || request->redo))
        argp_error(state, "--jobs and --redo need --output-dir or --in-place");
    if (request->target == REPACK_IN_PLACE && request->salvage)
        argp_error(state, "--salvage needs OUT or --output-dir: --in-place "
                          "would remove the damaged file");
}

static void
add_member(struct argp_state *state, char *text)
{
    struct repack_request *request = state->input;
    char *equals = strrchr(text, '=');

    if (equals == NULL || equals == text) {
        argp_error(state, "--member '%s' must be NAME=BOUND", text);
        return;
    }
    if (request->nmembers == H5Z_TERP_MAX_NBOUNDED) {
        argp_error(state, "at most %d members may have bounds",
                   H5Z_TERP_MAX_NBOUNDED);
        return;
    }
    struct repack_member *member = &request->members[request->nmembers++];
    member->text = text;
    member->name = strndup(text, (size_t)(equals - text));
    if (member->name == NULL)
        argp_failure(state, TOOL_TROUBLE, ENOMEM, "--member");
    member->bound = read_any(state, equals + 1);
    if (member->bound.mode == REPACK_KEEP || member->bound.floor > 0)
        argp_error(state,
                   "--member '%s': members have no floor, and \"none\" is "
                   "lossless",
                   text);
}

static void
check_request(struct argp_state *state, const struct repack_request *request)
{
    check_files(state, request);
    if (request->bound.mode == REPACK_KEEP && request->nrules == 0 &&
        request->nmembers == 0)
        argp_error(state, "give a bound: --rel, --abs, --pwr, --digits, "
                          "--bits, --psnr, --lossless, --dataset or --member");
    if (request->fills_masked && request->nmasks == 0)
        argp_error(state, "--mask-fill needs --mask");
    if (request->bound.floor > 0 && request->bound.mode != REPACK_PWR)
        argp_error(state, "--floor needs --pwr, --digits or --bits");
}

/* Options of both repack and preview. */
static error_t
parse_shared_option(int key, char *arg, struct argp_state *state)
{
    struct repack_request *request = state->input;

    switch (key) {
    case 't':
        request->nthreads = tool_option_nthreads(state, arg);
        return 0;
    case TOOL_KEY_TRUSTED:
        request->is_trusted = true;
        return 0;
    case 'v':
        request->verbose = true;
        return 0;
    case ARGP_KEY_ARG:
        request->operands[request->noperands++] = arg;
        if (state->arg_num < 2)
            *(state->arg_num == 0 ? &request->path_in : &request->path_out) =
                arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void
set_target(struct argp_state *state, enum repack_target target,
           const char *directory)
{
    struct repack_request *request = state->input;

    if (request->target != REPACK_TO_OUT && request->target != target)
        argp_error(state, "give only one of --output-dir and --in-place");
    request->target = target;
    request->directory = directory;
}

static const char *
rest_name(int rest)
{
    static const char *const names[TOOL_MAX_NNAMES] = {"keep", "deflate"};

    return names[rest];
}

static const char *
engine_name(int engine)
{
    static const char *const names[TOOL_MAX_NNAMES] = {"cpu", "cuda", "auto"};

    return names[engine];
}

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct repack_request *request = state->input;

    switch (key) {
    case 'r':
        set_bound(state, read_rel(state, arg));
        return 0;
    case 'a':
        set_bound(state, read_abs(state, arg));
        return 0;
    case KEY_PWR:
        set_bound(state, read_pwr(state, arg));
        return 0;
    case KEY_DIGITS:
        set_bound(state, read_digits(state, arg));
        return 0;
    case KEY_BITS:
        set_bound(state, read_bits(state, arg));
        return 0;
    case KEY_FLOOR:
        request->bound.floor = tool_option_number(state, arg, "floor");
        return 0;
    case KEY_KEEP_SIGN:
        request->limits.keep_sign =
            (enum terp_keep_sign)tool_option_keep_sign(state, arg);
        return 0;
    case KEY_VALID_RANGE:
        repack_limits_read_range(state, arg, &request->limits);
        return 0;
    case 's':
        set_bound(state, read_psnr(state, arg));
        return 0;
    case 'l':
        set_bound(state, lossless);
        return 0;
    case 'd':
        add_rule(state, arg);
        return 0;
    case KEY_MEMBER:
        add_member(state, arg);
        return 0;
    case 'c':
        request->chunk.rank = 0;
        request->chunk_auto = strcmp(arg, "auto") == 0;
        if (!request->chunk_auto)
            tool_option_shape(state, arg, H5S_MAX_RANK, &request->chunk);
        return 0;
    case 'p':
        request->pipeline =
            tool_option_name(state, "pipeline", arg, tool_pipeline_name);
        return 0;
    case KEY_RECORD:
        request->record = true;
        return 0;
    case KEY_MASK:
        add_mask(state, arg);
        return 0;
    case KEY_MASK_FILL:
        request->fills_masked = true;
        return 0;
    case KEY_NO_CF:
        request->leaves_out_cf = true;
        return 0;
    case KEY_SALVAGE:
        request->salvage = true;
        return 0;
    case KEY_REST:
        request->deflates_rest =
            tool_option_name(state, "value of --rest", arg, rest_name) > 0;
        return 0;
    case KEY_EFFORT:
        request->effort =
            tool_option_name(state, "effort", arg, tool_effort_name);
        return 0;
    case KEY_FORMAT:
        request->format = tool_option_format(state, arg);
        return 0;
    case 'e':
        request->engine = tool_option_name(state, "engine", arg, engine_name);
        return 0;
    case KEY_OUTPUT_DIR:
        if (*arg == '\0')
            argp_error(state, "--output-dir needs the name of a directory");
        set_target(state, REPACK_TO_DIRECTORY, arg);
        return 0;
    case KEY_IN_PLACE:
        set_target(state, REPACK_IN_PLACE, NULL);
        return 0;
    case KEY_JOBS:
        request->njobs = tool_option_njobs(state, arg);
        return 0;
    case KEY_REDO:
        request->redo = true;
        return 0;
    case 'j':
#ifdef TERP_HAVE_JANSSON
        request->json = true;
#else
        tool_option_missing(state, "--json", "jansson");
#endif
        return 0;
    case KEY_AMREX:
        set_levels(state, REPACK_LEVELS_NEEDED);
        return 0;
    case KEY_NO_AMREX:
        set_levels(state, REPACK_LEVELS_AS_LINES);
        return 0;
    case ARGP_KEY_END:
        check_request(state, request);
        return 0;
    default:
        return parse_shared_option(key, arg, state);
    }
}

bool
repack_request_read(int argc, char **argv, struct repack_request *request_ret)
{
    static const struct argp parser = {.options = options,
                                       .parser = parse_option,
                                       .args_doc = "IN OUT\n"
                                                   "IN... --output-dir=DIR\n"
                                                   "IN... --in-place",
                                       .doc = doc,
                                       .help_filter = tool_option_help};

    *request_ret = (struct repack_request){.command = "repack",
                                           .nthreads = terp_processor_count(),
                                           .njobs = 1,
                                           .engine = TERP_ENGINE_AUTO,
                                           .limits = REPACK_LIMITS_DEFAULT};
    request_ret->rules = calloc((size_t)argc, sizeof *request_ret->rules);
    request_ret->masks = calloc((size_t)argc, sizeof *request_ret->masks);
    request_ret->operands = calloc((size_t)argc, sizeof(char *));
    if (request_ret->rules == NULL || request_ret->masks == NULL ||
        request_ret->operands == NULL)
        return false;
    argp_parse(&parser, argc, argv, 0, NULL, request_ret);
    return true;
}

/* ---- preview ---- */

static const struct argp_option preview_options[] = {
    {"step", 's', "N", 0,
     "Keep every N-th value of each dimension; N is a power of two (default 4)",
     1},
    {"threads", 't', "N", 0,
     "Number of threads that decode (default: the number of CPUs)", 2},
    {"trusted", TOOL_KEY_TRUSTED, NULL, 0, TOOL_HELP_TRUSTED, 3},
    {"verbose", 'v', NULL, 0, "Print how each dataset is copied", 3},
    {0}};

static const char preview_doc[] =
    "Copies the HDF5 file IN to OUT and keeps every N-th value of each "
    "dimension."
    "\v"
    "Examples:\n"
    "  terp preview in.h5 small.h5\n"
    "      every 4th value of each dimension: a 64th of a cube\n"
    "  terp preview in.h5 small.h5 --step 16\n"
    "      every 16th value of each dimension\n"
    "\n"
    "OUT has the values that a reader of IN gets. Where the predictor is "
    "spline, terp decodes only the coarse levels of its datasets, in a few "
    "percent of the time for all values.\n"
    "\n"
    "The copy keeps groups, links, attributes, types and references. Dimension "
    "scales are datasets, and keep every N-th value too. Preview multiplies "
    "openPMD's gridSpacing by N. Levels of AMReX plotfiles and of Chombo files "
    "keep all values, because every N-th value would not make boxes. Copied "
    "whole: datasets without dimensions, and datasets of references, of "
    "sequences of varying length, and of compounds with strings. OUT uses "
    "shuffle and deflate, which any HDF5 reads.\n"
    "\n"
    "OUT appears when it is complete. Until then, and after a failure, an "
    "existing OUT stays unchanged.\n"
    "\n"
    "Exit codes: 0 done; 2 wrong usage, or a file cannot be read or written.";

static uint64_t
read_step(struct argp_state *state, const char *text)
{
    char *end;
    const unsigned long long step = strtoull(text, &end, 10);

    if (end == text || *end != '\0' || *text == '-' || step == 0 ||
        (step & (step - 1)) != 0)
        argp_error(state, "the step '%s' must be a power of two", text);
    return step;
}

static error_t
parse_preview_option(int key, char *arg, struct argp_state *state)
{
    struct repack_request *request = state->input;

    switch (key) {
    case 's':
        request->step = read_step(state, arg);
        return 0;
    case ARGP_KEY_END:
        if (request->noperands > 2)
            argp_error(state, "too many files; give IN and OUT");
        if (request->noperands < 2)
            argp_error(state, "give two files, IN and OUT");
        return 0;
    default:
        return parse_shared_option(key, arg, state);
    }
}

bool
repack_request_read_preview(int argc, char **argv,
                            struct repack_request *request_ret)
{
    static const struct argp parser = {.options = preview_options,
                                       .parser = parse_preview_option,
                                       .args_doc = "IN OUT",
                                       .doc = preview_doc};

    *request_ret = (struct repack_request){.command = "preview",
                                           .nthreads = terp_processor_count(),
                                           .engine = TERP_ENGINE_CPU,
                                           .step = 4};
    request_ret->operands = calloc((size_t)argc, sizeof(char *));
    if (request_ret->operands == NULL)
        return false;
    argp_parse(&parser, argc, argv, 0, NULL, request_ret);
    return true;
}

void
repack_request_free(struct repack_request *request)
{
    for (int i = 0; i < request->nrules; i++)
        free(request->rules[i].glob);
    for (int i = 0; i < request->nmasks; i++) {
        free(request->masks[i].glob);
        free(request->masks[i].variable);
    }
    free(request->rules);
    free(request->masks);
    free(request->operands);
    for (int i = 0; i < request->nmembers; i++)
        free(request->members[i].name);
}

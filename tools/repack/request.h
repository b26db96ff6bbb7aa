/* terp repack and terp preview: the parsed command line. */
#pragma once

#include "codec/api/terp.h"
#include "filter/plugin/h5z_terp.h"
#include "tools/common/options.h"
#include "tools/repack/limits.h"

enum repack_mode {
    REPACK_KEEP, /* do not compress */
    REPACK_ABS,  /* absolute; 0: lossless */
    REPACK_REL,  /* times the range of the dataset's valid values */
    REPACK_PWR   /* times each value */
};

struct repack_bound {
    enum repack_mode mode;
    double number;
    double floor;     /* for REPACK_PWR; 0: none */
    const char *kind; /* option of the bound, for --record */
    double given;     /* argument of this option */
};

/* --dataset GLOB=BOUND. */
struct repack_rule {
    const char *text;
    char *glob;
    struct repack_bound bound;
    bool used;
};

/* Which values of a variable mask others. */
enum repack_mask_kind {
    REPACK_MASK_NONZERO,
    REPACK_MASK_EQUAL, /* to a number */
    REPACK_MASK_FILL   /* fill values and NaN */
};

/* --mask [GLOB=]VARIABLE[:VALUE]. */
struct repack_mask_rule {
    const char *text;
    char *glob; /* of the datasets; NULL: all */
    char *variable;
    enum repack_mask_kind kind;
    double number;
};

/* --member NAME=BOUND. */
struct repack_member {
    const char *text;
    char *name;
    struct repack_bound bound;
    bool used;
    bool takes_bound; /* it has numbers, or the bound is lossless */
};

/* Whether levels of plotfiles are compressed box by box. */
enum repack_levels {
    REPACK_LEVELS_FOUND,  /* if the file has levels */
    REPACK_LEVELS_NEEDED, /* the same; fail without levels */
    REPACK_LEVELS_AS_LINES
};

/* Where repack writes its copies. */
enum repack_target {
    REPACK_TO_OUT,       /* one file */
    REPACK_TO_DIRECTORY, /* many files, into a tree of directories */
    REPACK_IN_PLACE      /* many files; each copy replaces its file */
};

struct repack_request {
    const char *command; /* "repack" or "preview" */
    char **operands;     /* files, directories and patterns */
    int noperands;
    enum repack_target target;
    const char *directory; /* for REPACK_TO_DIRECTORY */
    int njobs;             /* number of files at once */
    bool redo;             /* also copy files that are done */
    bool json;
    const char *path_in, *path_out; /* the files of one copy */
    uint64_t step;                  /* preview: a power of two; repack: 0 */
    struct repack_bound bound;      /* where no rule matches */
    struct repack_rule *rules;
    int nrules;
    struct repack_mask_rule *masks;
    int nmasks;
    bool fills_masked; /* replace masked values by the fill value */
    struct repack_member members[H5Z_TERP_MAX_NBOUNDED];
    int nmembers;
    bool deflates_rest; /* deflate what terp does not compress */
    bool chunk_auto;
    struct tool_shape chunk;
    unsigned pipeline, effort, format;
    enum terp_engine_kind engine;
    int nthreads;
    enum repack_levels levels;
    struct repack_limits limits;
    bool leaves_out_cf; /* write none of CF's attributes */
    bool record;        /* write attributes that describe the compression */
    bool salvage;       /* replace damaged chunks by fill values */
    bool is_trusted;    /* no limits derived from the size of IN */
    bool verbose;
};

/* Parses the options; ends the program if one is wrong. False without memory.
 * Free the request in any case. */
bool
repack_request_read(int argc, char **argv, struct repack_request *request_ret);

/* Parses the options of terp preview. */
bool
repack_request_read_preview(int argc, char **argv,
                            struct repack_request *request_ret);

/* Whether the request may concern many files. */
static inline bool
repack_is_of_many(const struct repack_request *request)
{
    return request->target != REPACK_TO_OUT;
}

void
repack_request_free(struct repack_request *request);

/* terp repack and terp preview: what the command line asks for. */
#pragma once

#include "codec/api/terp.h"
#include "tools/common/options.h"
#include "tools/repack/limits.h"

enum repack_mode {
    REPACK_KEEP, /* do not compress */
    REPACK_ABS,  /* the bound itself, 0 for lossless */
    REPACK_REL,  /* times the range of the dataset's valid values */
    REPACK_PWR   /* times each value */
};

struct repack_bound {
    enum repack_mode mode;
    double number;
    double floor;     /* of REPACK_PWR; 0: none */
    const char *kind; /* of bound that was asked for, for --record */
    double asked;     /* its number */
};

/* --dataset GLOB=BOUND. */
struct repack_rule {
    const char *text;
    char *glob;
    struct repack_bound bound;
    bool used;
};

/* Which datasets are compressed box by box: levels of plotfiles. */
enum repack_levels {
    REPACK_LEVELS_FOUND,  /* those that there are */
    REPACK_LEVELS_NEEDED, /* the same, and there must be some */
    REPACK_LEVELS_AS_LINES
};

struct repack_request {
    const char *command; /* "repack" or "preview" */
    const char *path_in, *path_out;
    uint64_t step;             /* preview: a power of two; repack: 0 */
    struct repack_bound bound; /* where no rule says otherwise */
    struct repack_rule *rules;
    int nrules;
    bool deflates_rest; /* what terp does not compress */
    bool chunk_auto;
    struct tool_shape chunk;
    unsigned pipeline, effort;
    enum terp_engine_kind engine;
    int nthreads;
    enum repack_levels levels;
    struct repack_limits limits;
    bool record;     /* attributes tell how each dataset was compressed */
    bool salvage;    /* damaged chunks become fill values */
    bool is_trusted; /* IN: without limits by its size */
    bool verbose;
};

/* Reads the options, and ends the program where they are wrong. False without
 * memory. The request is to be freed in any case. */
bool
repack_request_read(int argc, char **argv, struct repack_request *request_ret);

/* The same of terp preview, which keeps what it copies. */
bool
repack_request_read_preview(int argc, char **argv,
                            struct repack_request *request_ret);

void
repack_request_free(struct repack_request *request);

/* What the parts of terp advise share: a sample of a dataset, and what terp
 * makes of it. */
#pragma once

#include "tools/common/fields.h"
#include "tools/repack/amrex.h"

enum {
    ADVISE_MAX_BOXES = 16,
    ADVISE_NBOUNDS = 4,
    ADVISE_NPIPELINES = 2,
    ADVISE_NCHOICES = ADVISE_NBOUNDS * ADVISE_NPIPELINES
};

/* A chunk of the dataset, or a part of one that is large. */
struct advise_box {
    struct terp_chunk chunk;
    uint64_t nvalues;
    void *values;
};

struct advise_sample {
    char component[AMREX_MAX_NAME_NBYTES];   /* of a level; else "" */
    char note[TOOL_MAX_RANGES_NBYTES + 256]; /* what the user should know */
    enum terp_type type;
    struct terp_params params; /* fill values, the floor of bounds, limits */
    struct tool_grid grid;     /* of boxes; the sample has some of them */
    int nboxes;
    struct advise_box boxes[ADVISE_MAX_BOXES];
    bool has_unwritten; /* the dataset has boxes that were never written, of
                           which none is in the sample */
    uint64_t nvalues, nvalid;
    double min, max; /* of valid values; see tool_range_trim */
    uint64_t nleft_out;
    char reason[512]; /* why there is none, or nothing to measure; or "" */
    bool damaged;     /* reading failed */
};

/* Reads boxes spread evenly over what was written of the dataset, which is not
 * empty and of a float type: about a million values, whatever its size. Free in
 * any case. */
void
advise_sample_read(const struct tool_dataset *dataset,
                   struct advise_sample *sample);

/* The same of a component of a level of a plotfile, in chunks as `terp repack`
 * makes them there. */
void
advise_sample_read_component(const struct tool_dataset *dataset,
                             const struct amrex_level *level,
                             uint64_t component, struct advise_sample *sample);

void
advise_sample_free(struct advise_sample *sample);

/* What one bound and pipeline make of a sample. Speeds are by the clock, of
 * several threads together, in MB of values a second. */
struct advise_choice {
    double relative, bound; /* bound = relative * range of the sample */
    double pointwise;       /* the bound is relative to each value: above 0,
                               and those are NAN */
    enum terp_pipeline pipeline;
    double ratio, psnr; /* PSNR is infinite where nothing changes */
    double write_speed, read_speed;
};

/* Encodes and decodes the sample in every way, with bounds relative to the
 * sample's range, or `pointwise` to each value, by so many threads. False, with
 * `reason` set, if the codec fails. */
bool
advise_measure(struct advise_sample *sample, bool pointwise, int nthreads,
               struct advise_choice choices_ret[ADVISE_NCHOICES]);

/* Draws the choices into a PNG file in `directory`, named after the dataset.
 * Returns its path, which the caller frees, or NULL with a reason. Only in
 * builds with cairo. */
typedef char *
advise_plot(const char *directory, const char *path,
            const struct advise_sample *sample,
            const struct advise_choice choices[ADVISE_NCHOICES],
            char *reason_ret, size_t reason_cap);
advise_plot advise_plot_choices;

/* A way to print the results. `begin` returns the state that the other
 * functions get; `end` frees it. */
struct advise_report {
    void *(*begin)(const char *path, int nthreads);
    /* `choices` is NULL where nothing was measured, because of `reason`;
     * `picture`, the path of a file, where none was drawn. */
    void (*add)(void *report, const char *path,
                const struct tool_dataset *dataset,
                const struct advise_sample *sample,
                const struct advise_choice *choices, const char *picture,
                const char *reason);
    void (*end)(void *report, int nthreads);
};

extern const struct advise_report advise_report_text;
extern const struct advise_report advise_report_json; /* with jansson only */

/* terp advise: a sample of a dataset, and measurements of it. */
#pragma once

#include "tools/common/fields.h"
#include "tools/repack/amrex.h"

enum {
    ADVISE_MAX_BOXES = 16,
    ADVISE_NBOUNDS = 4,
    ADVISE_NPIPELINES = 2,
    ADVISE_NCHOICES = ADVISE_NBOUNDS * ADVISE_NPIPELINES
};

/* A chunk of the dataset, or a section of a large chunk. */
struct advise_box {
    struct terp_chunk chunk;
    uint64_t nvalues;
    void *values;
};

struct advise_sample {
    char component[AMREX_MAX_NAME_NBYTES];   /* name of a level's component,
                                                else "" */
    char note[TOOL_MAX_RANGES_NBYTES + 256]; /* for the user, or "" */
    enum terp_type type;
    struct terp_params params; /* fill values, floor and limits */
    struct tool_grid grid;     /* grid of boxes; the sample has some of them */
    int nboxes;
    struct advise_box boxes[ADVISE_MAX_BOXES];
    bool has_unwritten; /* the sample leaves out boxes that were never
                           written */
    uint64_t nvalues, nvalid;
    double min, max; /* of valid values; see tool_range_trim */
    uint64_t nleft_out;
    char reason[512]; /* why the sample is empty or cannot be measured; or "" */
    bool damaged;     /* reading failed */
};

/* Reads about a million values, in boxes spread evenly over the stored values
 * of a nonempty float dataset. Free in any case. */
void
advise_sample_read(const struct tool_dataset *dataset,
                   struct advise_sample *sample);

/* Reads a sample of one component of a level, in the chunks that terp repack
 * would choose. Free in any case. */
void
advise_sample_read_component(const struct tool_dataset *dataset,
                             const struct amrex_level *level,
                             uint64_t component, struct advise_sample *sample);

void
advise_sample_free(struct advise_sample *sample);

/* Measurements of one bound and pipeline. Speeds are values in MB per second of
 * wall-clock time, of all threads together. */
struct advise_choice {
    double relative, bound; /* bound = relative * range of the sample */
    double pointwise;       /* above 0: the bound is relative to each value, and
                               the two bounds above are NAN */
    enum terp_pipeline pipeline;
    double ratio, psnr; /* psnr is infinite where no value changes */
    double write_speed, read_speed;
};

/* Encodes and decodes the sample with all bounds and pipelines on `nthreads`
 * threads. Bounds are relative to the sample's range, or with `pointwise` to
 * each value. False, with `reason` set, if the codec fails. */
bool
advise_measure(struct advise_sample *sample, bool pointwise, int nthreads,
               struct advise_choice choices_ret[ADVISE_NCHOICES]);

/* Draws the choices into a PNG file in `directory`, named after the dataset.
 * Returns its path, which the caller frees. NULL: *reason_ret says why. Only in
 * builds with cairo. */
typedef char *
advise_plot(const char *directory, const char *path,
            const struct advise_sample *sample,
            const struct advise_choice choices[ADVISE_NCHOICES],
            char *reason_ret, size_t reason_cap);
advise_plot advise_plot_choices;

/* An output format. `begin` returns the state for the other functions; `end`
 * frees it. */
struct advise_report {
    void *(*begin)(const char *path, int nthreads);
    /* `choices` is NULL where `reason` prevented the measurement; `picture` is
     * the path of the picture, or NULL. */
    void (*add)(void *report, const char *path,
                const struct tool_dataset *dataset,
                const struct advise_sample *sample,
                const struct advise_choice *choices, const char *picture,
                const char *reason);
    void (*end)(void *report, int nthreads);
};

extern const struct advise_report advise_report_text;
extern const struct advise_report advise_report_json; /* with jansson only */

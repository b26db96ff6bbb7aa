/* Finds datasets that hold several fields, from samples of their values. */
#include "tools/common/fields.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/base.h"
#include "tools/common/chunk_shape.h"
#include "tools/common/range.h"

/* Size of a sample. It has NRUNS runs of RUN_NVALUES values, or of
 * SLICE_NVALUES values in each slice of the first dimension. HDF5 decodes a
 * whole chunk for each run; datasets with chunks above LARGE_CHUNK_NBYTES get
 * one run, so that sampling stays quick. */
#define NRUNS 8
#define RUN_NVALUES ((uint64_t)4096)
#define SLICE_NVALUES ((uint64_t)1024)
#define LARGE_CHUNK_NBYTES ((uint64_t)32 << 20)

/* Interleaved fields must explain MIN_EXPLAINED of the variance of the values'
 * logarithms. A multiple of the period explains the same share; so the shortest
 * period wins that explains NEARLY as much as the best one. */
#define MIN_EXPLAINED 0.25
#define NEARLY 0.95

/* Slices of the first dimension may also be one field whose magnitude changes
 * along the dimension. They count as fields only if there are at most
 * MAX_NOUTER slices, and one is MIN_OUTER_JUMP octaves above or below the one
 * before. */
#define MAX_NOUTER 16
#define MIN_OUTER_JUMP 6

/* Fields whose ranges differ by a smaller factor can share a bound. */
#define MIN_RANGE_FACTOR 16

/* With fewer values per field in the sample, means are too uncertain. */
#define MIN_FIELD_NVALUES 32

/* With MIN_NGRADUAL or more columns, magnitudes that change gradually from one
 * column to the next belong to one field. The bend of a column is its distance
 * from the middle of its neighbours. A step by a factor of 3 has two bends of
 * 1/3 of the larger side; a wave of eight columns bends by at most 0.3 of the
 * largest side. In logarithms a bend of 1 is a step by a factor of 4. */
#define MIN_NGRADUAL 8
#define MAX_BEND (1.0 / 3)
#define MAX_LOG2_BEND 1

/* Values of a field that differ by less than ROUNDING units in the last place
 * are one value that was rounded. */
#define ROUNDING 64

/* A run of successive values of the dataset. */
struct run {
    uint64_t at;             /* position of the first value in the dataset */
    uint64_t begin, nvalues; /* in the sample */
};

struct sample {
    const struct tool_dataset *dataset;
    bool wide;
    uint64_t cap, nvalues;
    void *values;
    double *log2s; /* of the magnitudes; NAN for values that do not count */
    uint64_t fills[1 + TOOL_MAX_NMISSING];
    int nfills;
    int nruns;
    struct run runs[NRUNS * MAX_NOUTER];
};

static bool
make_sample(const struct tool_dataset *dataset, uint64_t cap,
            struct sample *sample)
{
    double missing[TOOL_MAX_NMISSING];
    const bool wide = tool_type(dataset->type) == TERP_FLOAT64;
    const int nmissing = tool_missing_values(dataset, wide, missing);

    *sample = (struct sample){.dataset = dataset, .wide = wide, .cap = cap};
    sample->values = calloc(cap, wide ? sizeof(double) : sizeof(float));
    sample->log2s = calloc(cap, sizeof *sample->log2s);
    if (tool_fill_bits(dataset, wide, &sample->fills[0]))
        sample->nfills++;
    for (int i = 0; i < nmissing; i++)
        sample->fills[sample->nfills++] = tool_number_bits(wide, missing[i]);
    return sample->values != NULL && sample->log2s != NULL;
}

static void
free_sample(struct sample *sample)
{
    free(sample->values);
    free(sample->log2s);
}

static bool
is_valid(const struct sample *sample, uint64_t i)
{
    bool valid = isfinite(tool_value_at(sample->wide, sample->values, i));

    for (int j = 0; j < sample->nfills; j++)
        valid &= tool_value_bits(sample->wide, sample->values, i) !=
                 sample->fills[j];
    return valid;
}

/* Adds the box where `grid` stands; its values are contiguous in the dataset.
 */
static bool
add_run(struct sample *sample, const struct tool_grid *grid)
{
    const struct tool_dataset *dataset = sample->dataset;
    const size_t value_nbytes = sample->wide ? sizeof(double) : sizeof(float);
    uint64_t begin = 0;

    for (int d = 0; d < grid->rank; d++)
        begin = begin * grid->dims[d] + grid->at[d];
    if (grid->nvalues > sample->cap - sample->nvalues ||
        !tool_box_read(
            dataset, sample->wide ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT, grid,
            NULL, (char *)sample->values + sample->nvalues * value_nbytes))
        return false;
    for (uint64_t i = 0; i < grid->nvalues; i++) {
        const uint64_t k = sample->nvalues + i;
        const double value = tool_value_at(sample->wide, sample->values, k);
        sample->log2s[k] =
            value != 0 && is_valid(sample, k) ? log2(fabs(value)) : (double)NAN;
    }
    sample->runs[sample->nruns++] =
        (struct run){begin, sample->nvalues, grid->nvalues};
    sample->nvalues += grid->nvalues;
    return true;
}

/* A grid of runs of about `nvalues` contiguous values; with `outer`, a run
 * stays within one index of the first dimension. */
static struct tool_grid
grid_of_runs(const struct tool_dataset *dataset, uint64_t nvalues, bool outer)
{
    hsize_t step[H5S_MAX_RANK];

    for (int d = dataset->rank - 1; d >= 0; d--) {
        step[d] = outer && d == 0 ? 1 : min_u64(dataset->dims[d], nvalues);
        nvalues = step[d] < dataset->dims[d] ? 1 : nvalues / step[d];
        if (nvalues == 0)
            nvalues = 1;
    }
    return tool_grid_of(dataset, step);
}

/* Sums over the values of a field in the sample. */
struct field {
    uint64_t nlogs;
    double sum; /* of logarithms */
};

/* The mean of the logarithms. A field without logarithms is all zeros. */
static double
mean_log2(const struct field *field)
{
    return field->nlogs > 0 ? field->sum / (double)field->nlogs
                            : (double)-INFINITY;
}

/* Whether the magnitude `b` is near the middle between `a` and `c`: in
 * logarithms, in values, or in values that change sign. All are logarithms. */
static bool
is_on_the_way(double a, double b, double c)
{
    const double largest = fmax(fmax(a, b), c);
    const double x = exp2(a - largest), y = exp2(b - largest),
                 z = exp2(c - largest);

    return isinf(largest) || fabs(b - (a + c) / 2) <= MAX_LOG2_BEND ||
           fabs(y - (x + z) / 2) <= MAX_BEND ||
           fabs(y - fabs(x - z) / 2) <= MAX_BEND;
}

/* Whether magnitudes change gradually along all `n` columns, as along a
 * dimension of one field. */
static bool
is_gradual(const struct field *fields, uint64_t n)
{
    bool gradual = n >= MIN_NGRADUAL;

    for (uint64_t c = 1; gradual && c + 1 < n; c++)
        gradual =
            is_on_the_way(mean_log2(&fields[c - 1]), mean_log2(&fields[c]),
                          mean_log2(&fields[c + 1]));
    return gradual;
}

/* The share of the variance of logarithms that lies between `n` fields; 0 if
 * they seem to be one field. With distance 1 the fields are interleaved; else
 * each field has `distance` successive values, and no run has values of two
 * fields. *jump_ret is the largest difference between the means of two
 * neighbours. */
static double
explained(const struct sample *sample, uint64_t n, uint64_t distance,
          double *jump_ret)
{
    struct field fields[TOOL_MAX_NFIELDS] = {{0, 0}};
    double total = 0, squares = 0, between = 0;
    uint64_t nvalid = 0;

    for (int r = 0; r < sample->nruns; r++) {
        const struct run *run = &sample->runs[r];
        uint64_t c = run->at / distance % n;
        for (uint64_t i = 0; i < run->nvalues; i++) {
            const double value = sample->log2s[run->begin + i];
            if (!isnan(value)) {
                fields[c].sum += value;
                fields[c].nlogs++;
                squares += value * value;
            }
            if (distance == 1 && ++c == n)
                c = 0;
        }
    }
    *jump_ret = 0;
    for (uint64_t c = 0; c < n; c++) {
        nvalid += fields[c].nlogs;
        total += fields[c].sum;
        if (c > 0 && fields[c - 1].nlogs > 0 && fields[c].nlogs > 0)
            *jump_ret =
                fmax(*jump_ret,
                     fabs(fields[c].sum / (double)fields[c].nlogs -
                          fields[c - 1].sum / (double)fields[c - 1].nlogs));
    }
    if (nvalid < n * MIN_FIELD_NVALUES || is_gradual(fields, n))
        return 0;
    const double mean = total / (double)nvalid;
    const double variance = squares / (double)nvalid - mean * mean;
    for (uint64_t c = 0; c < n; c++)
        if (fields[c].nlogs > 0)
            between +=
                fields[c].sum *
                (fields[c].sum / (double)fields[c].nlogs / (double)nvalid);
    between -= mean * mean;
    return variance > 1e-9 ? between / variance : 0;
}

/* The number of interleaved fields; 0 if there is one. */
static uint64_t
find_period(const struct sample *sample)
{
    const struct tool_dataset *dataset = sample->dataset;
    double best = 0, jump, by[TOOL_MAX_NFIELDS + 1];

    if (dataset->rank > 1) {
        const uint64_t last = dataset->dims[dataset->rank - 1];
        return explained(sample, last, 1, &jump) >= MIN_EXPLAINED ? last : 0;
    }
    for (uint64_t n = 2; n <= TOOL_MAX_NFIELDS; n++) {
        by[n] = explained(sample, n, 1, &jump);
        best = fmax(best, by[n]);
    }
    for (uint64_t n = 2; best >= MIN_EXPLAINED && n <= TOOL_MAX_NFIELDS; n++)
        if (by[n] >= NEARLY * best)
            return n;
    return 0;
}

static void
find_ranges(const struct sample *sample, uint64_t n, uint64_t distance,
            struct tool_fields *fields)
{
    for (uint64_t c = 0; c < n; c++) {
        fields->nsampled[c] = 0;
        fields->min[c] = INFINITY;
        fields->max[c] = -INFINITY;
    }
    for (int r = 0; r < sample->nruns; r++) {
        const struct run *run = &sample->runs[r];
        for (uint64_t i = 0; i < run->nvalues; i++) {
            const uint64_t k = run->begin + i;
            const uint64_t c =
                (run->at + (distance == 1 ? i : 0)) / distance % n;
            const double value = tool_value_at(sample->wide, sample->values, k);
            if (!is_valid(sample, k))
                continue;
            fields->nsampled[c]++;
            fields->min[c] = fmin(fields->min[c], value);
            fields->max[c] = fmax(fields->max[c], value);
        }
    }
    for (uint64_t c = 0; c < n; c++)
        if (fields->max[c] - fields->min[c] <=
            ROUNDING * (sample->wide ? DBL_EPSILON : (double)FLT_EPSILON) *
                fmax(fabs(fields->min[c]), fabs(fields->max[c])))
            fields->min[c] = fields->max[c];
    fields->n = (int)n;
}

/* Reads `n` of the runs, spread evenly. */
static bool
read_runs(struct sample *sample, struct tool_grid *grid, uint64_t first,
          uint64_t nruns, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        grid->next = first + (2 * i + 1) * nruns / (2 * n);
        if (!tool_grid_next(grid) || !add_run(sample, grid))
            return false;
    }
    return true;
}

/* Finds fields that are interleaved along the last dimension. */
static bool
find_inner(const struct tool_dataset *dataset, uint64_t nruns,
           struct tool_fields *fields)
{
    struct tool_grid grid = grid_of_runs(dataset, RUN_NVALUES, false);
    const uint64_t nboxes = tool_grid_nboxes(&grid);
    const uint64_t n = min_u64(nruns, nboxes);
    struct sample sample;
    uint64_t period = 0;

    if (make_sample(dataset, n * tool_grid_cap(&grid), &sample) &&
        read_runs(&sample, &grid, 0, nboxes, n))
        period = find_period(&sample);
    if (period > 0)
        find_ranges(&sample, period, 1, fields);
    free_sample(&sample);
    return period > 0;
}

/* Finds fields that are slices of the first dimension. */
static void
find_outer(const struct tool_dataset *dataset, struct tool_fields *fields)
{
    struct tool_grid grid = grid_of_runs(dataset, SLICE_NVALUES, true);
    const uint64_t nfields = dataset->dims[0];
    const uint64_t nboxes = tool_grid_nboxes(&grid) / nfields;
    const uint64_t n = min_u64(NRUNS, nboxes);
    struct sample sample;
    bool ok = make_sample(dataset, nfields * n * tool_grid_cap(&grid), &sample);

    for (uint64_t c = 0; ok && c < nfields; c++)
        ok = read_runs(&sample, &grid, c * nboxes, nboxes, n);
    const uint64_t distance = dataset->nvalues / nfields;
    double jump = 0;
    if (ok && explained(&sample, nfields, distance, &jump) >= MIN_EXPLAINED &&
        jump >= MIN_OUTER_JUMP)
        find_ranges(&sample, nfields, distance, fields);
    fields->outer = true;
    free_sample(&sample);
}

static bool
may_be_fields(hsize_t n, hsize_t most)
{
    return n >= 2 && n <= most;
}

struct tool_fields
tool_fields_find(const struct tool_dataset *dataset)
{
    struct tool_fields fields = {0};
    const int rank = dataset->rank;
    const bool is_large =
        dataset->chunked && dataset->chunk_nbytes > LARGE_CHUNK_NBYTES;
    hsize_t max_dims[H5S_MAX_RANK];

    if (tool_type(dataset->type) == TERP_BYTES || rank == 0 ||
        dataset->nvalues < TOOL_MIN_NVALUES ||
        H5Sget_simple_extent_dims(dataset->space, NULL, max_dims) < 0 ||
        H5Aexists(dataset->id, "DIMENSION_LIST") > 0)
        return fields;
    if ((rank == 1 ||
         may_be_fields(dataset->dims[rank - 1], TOOL_MAX_NFIELDS)) &&
        find_inner(dataset, is_large ? 1 : NRUNS, &fields))
        return fields;
    if (rank > 1 && may_be_fields(dataset->dims[0], MAX_NOUTER) &&
        max_dims[0] == dataset->dims[0] && !is_large)
        find_outer(dataset, &fields);
    return fields;
}

double
tool_fields_least(const struct tool_fields *fields)
{
    double least = INFINITY, most = 0;

    for (int c = 0; c < fields->n; c++) {
        const double range = fields->max[c] - fields->min[c];
        if (fields->nsampled[c] >= MIN_FIELD_NVALUES && range > 0) {
            least = fmin(least, range);
            most = fmax(most, range);
        }
    }
    return most >= MIN_RANGE_FACTOR * least ? least : (double)INFINITY;
}

/* Limit of ranges in a message: the first ones and the last one. */
#define MAX_NSHOWN 12

void
tool_ranges_text(int n, const double *ranges, const char *const *names,
                 char text_ret[TOOL_MAX_RANGES_NBYTES])
{
    size_t at = 0;

    text_ret[0] = '\0';
    for (int i = 0; i < n; i++) {
        const bool is_cut = n > MAX_NSHOWN && i == MAX_NSHOWN - 1;
        const char *before = i == 0       ? ""
                             : is_cut     ? " ... "
                             : i == n - 1 ? " and "
                                          : ", ";
        if (is_cut)
            i = n - 1;
        at += (size_t)snprintf(
            text_ret + at, TOOL_MAX_RANGES_NBYTES - at, "%s%.40s%s%.3g", before,
            names != NULL ? names[i] : "", names != NULL ? " " : "", ranges[i]);
    }
}

void
tool_fields_text(const struct tool_fields *fields,
                 char text_ret[TOOL_MAX_RANGES_NBYTES])
{
    double ranges[TOOL_MAX_NFIELDS];

    for (int c = 0; c < fields->n; c++)
        ranges[c] = fields->max[c] >= fields->min[c]
                        ? fields->max[c] - fields->min[c]
                        : 0;
    tool_ranges_text(fields->n, ranges, NULL, text_ret);
}

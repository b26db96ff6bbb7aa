/* terp advise: reads a sample of a dataset, and finds its range. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/base.h"
#include "codec/model/fills.h"
#include "tools/advise/advise.h"
#include "tools/common/chunk_shape.h"
#include "tools/common/line_chunk.h"
#include "tools/common/range.h"
#include "tools/common/stored.h"

/* A sample of this size has nearly the ratio of the whole dataset, and coding
 * it in a dozen ways takes about a second. */
#define SAMPLE_NVALUES ((uint64_t)1 << 20)

/* The same for each component of a level; a level has many components. */
#define COMPONENT_NVALUES ((uint64_t)1 << 18)

/* Chooses as boxes the chunks that the dataset has or would get. Halves a box
 * along its longest dimension until it fits into the sample. Returns the number
 * of values in a box. */
static uint64_t
choose_boxes(const struct tool_dataset *dataset, struct tool_grid *grid_ret)
{
    static const struct terp_params params = {.size = sizeof params,
                                              .bound_mode = TERP_BOUND_RELATIVE,
                                              .bound = 1e-3};
    const bool keeps = dataset->chunked && !tool_chunk_is_tiny(dataset);
    hsize_t shape[H5S_MAX_RANK];
    uint64_t nvalues;

    if (!keeps && dataset->rank == 1)
        shape[0] = tool_chunk_of_line(dataset, params);
    else if (!keeps)
        tool_chunk_shape(dataset->rank, dataset->dims, shape);
    *grid_ret = tool_grid_of(dataset, keeps ? dataset->chunk_dims : shape);
    hsize_t *step = grid_ret->step;
    for (int i = 0; i < dataset->rank; i++)
        step[i] = min_u64(step[i], dataset->dims[i]);
    while ((nvalues = tool_grid_cap(grid_ret)) > SAMPLE_NVALUES) {
        int longest = 0;
        for (int i = 1; i < dataset->rank; i++)
            if (step[i] > step[longest])
                longest = i;
        step[longest] = div_up(step[longest], 2);
    }
    return nvalues;
}

/* Reads the grid's box as a chunk of the given shape. */
static bool
read_values(const struct tool_dataset *dataset, struct advise_sample *sample,
            const struct terp_chunk *chunk)
{
    struct advise_box *box = &sample->boxes[sample->nboxes];
    const bool wide = sample->type == TERP_FLOAT64;

    box->chunk = *chunk;
    box->nvalues = sample->grid.nvalues;
    box->values = calloc(box->nvalues, dataset->value_nbytes);
    if (box->values == NULL)
        return false;
    sample->nboxes++;
    return tool_box_read(dataset, wide ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT,
                         &sample->grid, NULL, box->values);
}

/* Reads box `n` of the grid. */
static bool
read_box(const struct tool_dataset *dataset, struct advise_sample *sample,
         uint64_t n)
{
    struct tool_grid *grid = &sample->grid;
    uint64_t dims[H5S_MAX_RANK];
    struct terp_chunk chunk;

    grid->next = n;
    tool_grid_next(grid);
    for (int i = 0; i < grid->rank; i++)
        dims[i] = grid->count[i];
    return terp_chunk_make(sample->type, grid->rank, dims, &chunk) == TERP_OK &&
           read_values(dataset, sample, &chunk);
}

/* Reads the box at the middle of chunk `n`. */
static bool
read_chunk(const struct tool_dataset *dataset, struct advise_sample *sample,
           uint64_t n)
{
    struct tool_grid chunk = tool_grid_of(dataset, dataset->chunk_dims);
    const struct tool_grid *grid = &sample->grid;
    uint64_t number = 0;

    chunk.next = n;
    tool_grid_next(&chunk);
    for (int i = 0; i < grid->rank; i++)
        number = number * div_up(grid->dims[i], grid->step[i]) +
                 (chunk.at[i] + chunk.count[i] / 2) / grid->step[i];
    return read_box(dataset, sample, number);
}

/* Finds the first box from number `n` to before `end` that has stored values.
 */
static bool
find_written(const struct tool_dataset *dataset, struct advise_sample *sample,
             uint64_t n, uint64_t end, uint64_t *found_ret)
{
    struct tool_grid grid = sample->grid;

    for (grid.next = n; grid.next < end;) {
        *found_ret = grid.next;
        tool_grid_next(&grid);
        if (tool_box_is_written(dataset, &grid))
            return true;
        sample->has_unwritten = true;
    }
    return false;
}

/* Reads at most `nwanted` boxes, spread evenly over the stored values. */
static bool
read_boxes(const struct tool_dataset *dataset, struct advise_sample *sample,
           uint64_t nwanted)
{
    const uint64_t nboxes = tool_grid_nboxes(&sample->grid);

    if (!dataset->chunked && !tool_box_is_written(dataset, &sample->grid))
        return true;
    struct tool_stored stored = tool_stored_find(dataset);
    /* A box covers many tiny chunks. */
    const bool by_chunks = stored.listed && !tool_chunk_is_tiny(dataset);
    const uint64_t n = by_chunks ? stored.n : nboxes;
    bool ok = true;

    nwanted = min_u64(nwanted, n);
    sample->has_unwritten = tool_stored_nabsent(&stored) > 0;
    for (uint64_t i = 0; ok && i < nwanted; i++) {
        const uint64_t begin = i * n / nwanted, end = (i + 1) * n / nwanted;
        const uint64_t middle = (2 * i + 1) * n / (2 * nwanted);
        uint64_t found;
        if (by_chunks)
            ok = read_chunk(dataset, sample, stored.numbers[middle]);
        else if (find_written(dataset, sample, middle, end, &found) ||
                 find_written(dataset, sample, begin, middle, &found))
            ok = read_box(dataset, sample, found);
    }
    tool_stored_free(&stored);
    return ok;
}

/* Adds the fill value for boxes that were never written, unless the creator has
 * declared it: declared fill values do not count. */
static void
add_unwritten(const struct advise_sample *sample, struct tool_range *range)
{
    if (!sample->has_unwritten || sample->params.has_fill)
        return;
    for (int i = 0; i < TERP_FILL_MIN_REPEATS; i++)
        tool_range_add(range, 0, false);
}

static void
find_range(struct advise_sample *sample)
{
    const bool wide = sample->type == TERP_FLOAT64;
    struct tool_range range = tool_range_begin(sample->type);
    uint64_t nall;

    for (int i = 0; i < sample->nboxes; i++) {
        const struct advise_box *box = &sample->boxes[i];
        for (uint64_t k = 0; k < box->nvalues; k++) {
            double value = tool_value_at(wide, box->values, k);
            const uint64_t bits = tool_value_bits(wide, box->values, k);
            const struct terp_params *params = &sample->params;
            if (isfinite(value) &&
                !(params->has_fill && bits == params->fill_bits) &&
                !(params->has_missing && bits == params->missing_bits))
                tool_range_add(&range, value, false);
        }
        sample->nvalues += box->nvalues;
    }
    sample->nvalid = range.nvalues;
    tool_range_trim(&range, &sample->min, &sample->max, &sample->nleft_out);
    add_unwritten(sample, &range);
    tool_range_trim(&range, &sample->min, &sample->max, &nall);
}

static struct advise_sample
begin_sample(const struct tool_dataset *dataset)
{
    struct advise_sample sample = {
        .type = tool_type(dataset->type),
        .params.size = sizeof sample.params,
    };
    const bool wide = sample.type == TERP_FLOAT64;
    double missing;

    sample.params.has_fill =
        tool_fill_bits(dataset, wide, &sample.params.fill_bits);
    sample.params.has_missing = tool_second_fill(dataset, wide, &missing);
    if (sample.params.has_missing)
        sample.params.missing_bits = tool_number_bits(wide, missing);
    return sample;
}

static void
end_sample(struct advise_sample *sample)
{
    find_range(sample);
    if (sample->nboxes == 0)
        snprintf(sample->reason, sizeof sample->reason, "no values are stored");
    else if (sample->nvalid == 0)
        snprintf(sample->reason, sizeof sample->reason,
                 "no valid values in the sample");
    else if (!(sample->max > sample->min))
        snprintf(sample->reason, sizeof sample->reason,
                 "all values of the sample are equal");
    else if (!isfinite(sample->max - sample->min))
        snprintf(sample->reason, sizeof sample->reason,
                 "the range exceeds float64");
}

static void
note_damage(struct advise_sample *sample)
{
    tool_hdf5_reason(sample->reason, sizeof sample->reason);
    sample->damaged = true;
}

/* Notes where the dataset seems to hold several fields, and a relative bound
 * would leave little of one. */
static void
note_fields(const struct tool_dataset *dataset, struct advise_sample *sample)
{
    const struct tool_fields fields = tool_fields_find(dataset);
    char ranges[TOOL_MAX_RANGES_NBYTES];

    if (fields.n == 0 || !isfinite(tool_fields_least(&fields)))
        return;
    tool_fields_text(&fields, ranges);
    snprintf(sample->note, sizeof sample->note,
             "it seems to hold %d fields with the ranges %s: a bound relative "
             "to the range of all fields leaves little of the smallest; a "
             "bound relative to each value (--pwr) suits all",
             fields.n, ranges);
}

void
advise_sample_read(const struct tool_dataset *dataset,
                   struct advise_sample *sample)
{
    *sample = begin_sample(dataset);
    const uint64_t nwanted =
        SAMPLE_NVALUES / choose_boxes(dataset, &sample->grid);
    if (!read_boxes(dataset, sample, min_u64(nwanted, ADVISE_MAX_BOXES))) {
        note_damage(sample);
        return;
    }
    note_fields(dataset, sample);
    end_sample(sample);
}

/* Reads the chunk in the middle of one component of a box, or a line of values
 * if no whole chunk lies in the component or chunks are too long. */
static bool
read_middle(const struct tool_dataset *dataset, const struct amrex_level *level,
            const struct amrex_box *box, uint64_t component,
            struct advise_sample *sample)
{
    const uint64_t begin = box->begin + component * box->nvalues;
    const uint64_t end = begin + box->nvalues, length = level->chunk_nvalues;
    const uint64_t at = div_up(begin + box->nvalues / 2, length) * length;
    struct tool_grid *grid = &sample->grid;
    struct terp_chunk chunk;

    grid->count[0] = min_u64(min_u64(length, box->nvalues), SAMPLE_NVALUES);
    grid->at[0] = end - grid->count[0];
    chunk = (struct terp_chunk){
        .type = sample->type, .rank = 1, .dims = {grid->count[0]}};
    for (int back = 0; back < 2; back++) {
        const uint64_t from = at - (uint64_t)back * length;
        if (grid->count[0] < length || at < length * (uint64_t)back ||
            from < begin || from + length > end)
            continue;
        grid->at[0] = from;
        amrex_level_shape(level, sample->type, from, &chunk);
        break;
    }
    grid->nvalues = grid->count[0];
    return read_values(dataset, sample, &chunk);
}

/* Reads the middle planes of one component of a box, most often all: they are a
 * part of a container. */
static bool
read_planes(const struct tool_dataset *dataset, const struct amrex_box *box,
            uint64_t component, struct advise_sample *sample)
{
    const uint64_t plane = box->dims[1] * box->dims[2];
    const uint64_t nplanes = min_u64(box->dims[0], SAMPLE_NVALUES / plane);
    struct tool_grid *grid = &sample->grid;
    struct terp_chunk chunk = {.type = sample->type,
                               .rank = 3,
                               .dims = {nplanes, box->dims[1], box->dims[2]}};

    grid->at[0] = box->begin + component * box->nvalues +
                  (box->dims[0] - nplanes) / 2 * plane;
    grid->count[0] = nplanes * plane;
    if (nplanes == 0) {
        grid->count[0] = SAMPLE_NVALUES;
        chunk = (struct terp_chunk){
            .type = sample->type, .rank = 1, .dims = {SAMPLE_NVALUES}};
    }
    grid->nvalues = grid->count[0];
    return read_values(dataset, sample, &chunk);
}

void
advise_sample_read_component(const struct tool_dataset *dataset,
                             const struct amrex_level *level,
                             uint64_t component, struct advise_sample *sample)
{
    *sample = begin_sample(dataset);
    /* tool_grid_of copies the steps of all ranks. */
    const hsize_t step[H5S_MAX_RANK] = {
        level->has_parts
            ? div_up(level->nvalues, level->ncomponents * level->nboxes)
            : level->chunk_nvalues};
    const uint64_t n = min_u64(min_u64(ADVISE_MAX_BOXES, level->nboxes),
                               div_up(COMPONENT_NVALUES, step[0]));

    sample->grid = tool_grid_of(dataset, step);
    for (uint64_t i = 0; i < n; i++) {
        const struct amrex_box *box =
            &level->boxes[(2 * i + 1) * level->nboxes / (2 * n)];
        if (!(level->has_parts
                  ? read_planes(dataset, box, component, sample)
                  : read_middle(dataset, level, box, component, sample))) {
            note_damage(sample);
            return;
        }
    }
    end_sample(sample);
}

void
advise_sample_free(struct advise_sample *sample)
{
    for (int i = 0; i < sample->nboxes; i++)
        free(sample->boxes[i].values);
}

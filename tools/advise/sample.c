/* terp advise: reads a sample of a dataset, and finds its range. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "tools/advise/advise.h"
#include "tools/common/chunk_shape.h"
#include "tools/common/range.h"

/* A sample of this size has about the ratio of the whole dataset, and is coded
 * in a dozen ways in about a second. */
#define SAMPLE_NVALUES ((uint64_t)1 << 20)

/* Boxes are the chunks that the dataset has or would get. One that is larger
 * than the whole sample is halved along its longest dimension until it fits.
 * Returns the values of a box. */
static uint64_t
choose_boxes(const struct tool_dataset *dataset, struct advise_sample *sample)
{
    uint64_t nvalues = 1;

    if (dataset->chunked)
        memcpy(sample->box_dims, dataset->chunk_dims, sizeof sample->box_dims);
    else
        tool_chunk_shape(dataset->rank, dataset->dims, sample->box_dims);
    for (int i = 0; i < dataset->rank; i++) {
        sample->box_dims[i] = min_u64(sample->box_dims[i], dataset->dims[i]);
        nvalues *= sample->box_dims[i];
    }
    while (nvalues > SAMPLE_NVALUES) {
        int longest = 0;
        for (int i = 1; i < dataset->rank; i++)
            if (sample->box_dims[i] > sample->box_dims[longest])
                longest = i;
        nvalues /= sample->box_dims[longest];
        sample->box_dims[longest] = div_up(sample->box_dims[longest], 2);
        nvalues *= sample->box_dims[longest];
    }
    return nvalues;
}

/* Finds the corner and the shape of box number `n`, in C order; at the edge of
 * the dataset boxes are cut. */
static void
place_box(const struct tool_dataset *dataset,
          const struct advise_sample *sample, uint64_t n, hsize_t *at,
          hsize_t *count)
{
    for (int i = dataset->rank - 1; i >= 0; i--) {
        uint64_t dim = dataset->dims[i], box_dim = sample->box_dims[i];
        uint64_t nboxes = div_up(dim, box_dim);
        at[i] = n % nboxes * box_dim;
        count[i] = min_u64(box_dim, dim - at[i]);
        n /= nboxes;
    }
}

static bool
read_box(const struct tool_dataset *dataset, struct advise_sample *sample,
         uint64_t n)
{
    struct advise_box *box = &sample->boxes[sample->nboxes];
    bool wide = sample->type == TERP_FLOAT64;
    hsize_t at[H5S_MAX_RANK] = {0}, count[H5S_MAX_RANK] = {1};
    uint64_t dims[H5S_MAX_RANK] = {1};

    place_box(dataset, sample, n, at, count);
    box->nvalues = 1;
    for (int i = 0; i < dataset->rank; i++) {
        dims[i] = count[i];
        box->nvalues *= count[i];
    }
    box->values = calloc(box->nvalues, dataset->value_nbytes);
    if (box->values == NULL)
        return false;
    sample->nboxes++;
    return terp_chunk_make(sample->type, dataset->rank, dims, &box->chunk) ==
               TERP_OK &&
           tool_box_read(dataset->id,
                         wide ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT,
                         dataset->rank, at, NULL, count, box->values);
}

static void
find_range(struct advise_sample *sample)
{
    const bool wide = sample->type == TERP_FLOAT64;
    struct tool_range range = TOOL_RANGE_EMPTY;

    for (int i = 0; i < sample->nboxes; i++) {
        const struct advise_box *box = &sample->boxes[i];
        for (uint64_t k = 0; k < box->nvalues; k++) {
            double value = tool_value_at(wide, box->values, k);
            if (isfinite(value) && !(sample->params.has_fill &&
                                     tool_value_bits(wide, box->values, k) ==
                                         sample->params.fill_bits))
                tool_range_add(&range, value, false);
        }
        sample->nvalues += box->nvalues;
    }
    sample->nvalid = range.nvalues;
    tool_range_trim(&range, &sample->min, &sample->max, &sample->nleft_out);
}

void
advise_sample_read(const struct tool_dataset *dataset,
                   struct advise_sample *sample, bool *damaged_ret)
{
    uint64_t nwanted, nboxes = 1;

    *sample = (struct advise_sample){.type = tool_type(dataset->type)};
    *damaged_ret = false;
    sample->params.has_fill = tool_fill_bits(
        dataset->id, sample->type == TERP_FLOAT64, &sample->params.fill_bits);
    nwanted = SAMPLE_NVALUES / choose_boxes(dataset, sample);
    for (int i = 0; i < dataset->rank; i++)
        nboxes *= div_up(dataset->dims[i], sample->box_dims[i]);
    nwanted = min_u64(min_u64(nwanted, ADVISE_MAX_BOXES), nboxes);
    for (uint64_t i = 0; i < nwanted; i++)
        if (!read_box(dataset, sample, (2 * i + 1) * nboxes / (2 * nwanted))) {
            tool_hdf5_reason(sample->reason, sizeof sample->reason);
            *damaged_ret = true;
            return;
        }
    find_range(sample);
    if (sample->nvalid == 0)
        snprintf(sample->reason, sizeof sample->reason,
                 "no valid values in the sample");
    else if (!(sample->max > sample->min))
        snprintf(sample->reason, sizeof sample->reason,
                 "the same value all over the sample");
    else if (!isfinite(sample->max - sample->min))
        snprintf(sample->reason, sizeof sample->reason,
                 "a range beyond what a float64 holds");
}

void
advise_sample_free(struct advise_sample *sample)
{
    for (int i = 0; i < sample->nboxes; i++)
        free(sample->boxes[i].values);
}

/* Chooses the length of chunks for datasets of one dimension: encodes a chunk
 * of each candidate length. */
#include "tools/common/line_chunk.h"

#include <math.h>
#include <stdlib.h>

#include "codec/format/base.h"
#include "tools/common/chunk_shape.h"
#include "tools/common/fields.h"
#include "tools/common/range.h"

/* Candidate lengths. 5040 is the least common multiple of all record lengths up
 * to ten, so that a multiple of it holds whole records. 64^3 is the size of
 * boxes. */
#define RECORD_NVALUES ((hsize_t)5040)
#define BOX_NVALUES ((hsize_t)64 * 64 * 64)

/* Another length replaces equal shares only if it saves 3 %; smaller gains may
 * be chance. */
#define GAIN 0.97

static void
set_fills(const struct tool_dataset *dataset, struct terp_params *params)
{
    const enum terp_type type = tool_type(dataset->type);
    const bool wide = type == TERP_FLOAT64;
    double missing;

    if (type == TERP_BYTES)
        return;
    params->has_fill = tool_fill_bits(dataset, wide, &params->fill_bits);
    params->has_missing = tool_second_fill(dataset, wide, &missing);
    if (params->has_missing)
        params->missing_bits = tool_number_bits(wide, missing);
}

/* A dataset, and how its values are read and encoded. */
struct line {
    const struct tool_dataset *dataset;
    hid_t type;
    struct terp_params params;
};

/* Encoded bytes per value of the `length` values at `at`; infinite on failure.
 */
static double
code(const struct line *line, hsize_t at, hsize_t length)
{
    struct tool_grid box = tool_grid_of(line->dataset, &length);
    const uint64_t dims[] = {length};
    struct terp_chunk chunk;
    uint64_t nbytes = 0;
    double result = INFINITY;

    box.at[0] = at;
    box.count[0] = box.nvalues = length;
    if (at + length > line->dataset->dims[0] ||
        terp_chunk_make(tool_coded_type(line->type), 1, dims, &chunk) !=
            TERP_OK)
        return INFINITY;
    const uint64_t cap = terp_encode_bound(&chunk);
    void *values = calloc(length, H5Tget_size(line->type));
    void *stream = malloc(cap);
    if (values != NULL && stream != NULL &&
        tool_box_read(line->dataset, line->type, &box, NULL, values) &&
        terp_encode(&line->params, &chunk, values, stream, cap, &nbytes, 1) ==
            TERP_OK)
        result = (double)nbytes / (double)length;
    free(values);
    free(stream);
    return result;
}

/* The encoded size of a chunk of this length, relative to the same values in
 * chunks of equal shares. Compares the chunk nearest to the middle of the
 * dataset. */
static double
compare(const struct line *line, hsize_t length, hsize_t equal)
{
    const hsize_t n = line->dataset->dims[0];
    hsize_t at = n / 2 / length * length;

    if (at + (length > equal ? length : equal) > n)
        at = at > length ? at - length : 0;
    const double other = code(line, at, length);
    return isfinite(other) ? other / code(line, at, equal) : (double)INFINITY;
}

static hsize_t
round_up(hsize_t length, hsize_t to)
{
    return (length + to - 1) / to * to;
}

/* Fills in the candidate lengths; returns their number. */
static int
list_lengths(const struct tool_dataset *dataset, hsize_t equal,
             hsize_t lengths_ret[3])
{
    const struct tool_fields fields = tool_fields_find(dataset);
    int n = 0;

    lengths_ret[n++] = round_up(equal, RECORD_NVALUES);
    if (fields.n > 0)
        lengths_ret[n++] = round_up(equal, 16 * (hsize_t)fields.n);
    lengths_ret[n++] = BOX_NVALUES;
    return n;
}

hsize_t
tool_chunk_of_line(const struct tool_dataset *dataset,
                   struct terp_params params)
{
    struct line line = {dataset, -1, params};
    hsize_t equal, lengths[3];

    tool_chunk_shape(1, dataset->dims, &equal);
    hsize_t best = equal;
    if (equal >= dataset->dims[0] || H5Dget_storage_size(dataset->id) == 0)
        return equal;
    line.type = H5Tget_native_type(dataset->type, H5T_DIR_ASCEND);
    if (line.type >= 0 &&
        tool_coded_type(line.type) == tool_coded_type(dataset->type)) {
        const int n = list_lengths(dataset, equal, lengths);
        double least = GAIN;
        set_fills(dataset, &line.params);
        for (int i = 0; i < n; i++) {
            const double gain =
                lengths[i] == equal ? 1 : compare(&line, lengths[i], equal);
            if (gain < least) {
                best = lengths[i];
                least = gain;
            }
        }
    }
    tool_close(line.type);
    return best;
}

/* terp repack --salvage: finds damaged chunks before the copy starts, so that
 * the copy never reads them. */
#include "tools/repack/salvage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/check.h"
#include "tools/common/limit.h"
#include "tools/common/text.h"

/* ---- the fill value ---- */

/* The type of the real and imaginary component of a complex value; close it.
 * Negative for other types. */
static hid_t
component_type(hid_t type)
{
    const enum terp_type coded = tool_coded_type(type);

    if (coded != TERP_COMPLEX64 && coded != TERP_COMPLEX128)
        return -1;
    return H5Tget_class(type) == H5T_COMPOUND ? H5Tget_member_type(type, 0)
                                              : H5Tget_super(type);
}

/* The number that replaces lost values where the creator set no fill value: the
 * number of an attribute, or NaN, or 0 for integers. */
static double
number_for(const struct tool_dataset *in)
{
    const H5T_class_t class = H5Tget_class(in->type);
    double missing[TOOL_MAX_NMISSING];

    if ((class == H5T_FLOAT || class == H5T_INTEGER) &&
        tool_missing_values(in, tool_type(in->type) != TERP_FLOAT32, missing) >
            0)
        return missing[0];
    return class == H5T_INTEGER ? 0 : (double)NAN;
}

/* Sets `value` to the fill value; it is zeroed and has capacity for two
 * doubles. */
static bool
find_fill(const struct tool_dataset *in, void *value)
{
    const H5T_class_t class = H5Tget_class(in->type);
    H5D_fill_value_t status;

    if (H5Pfill_value_defined(in->dcpl, &status) < 0)
        return false;
    if (status == H5D_FILL_VALUE_USER_DEFINED)
        return H5Pget_fill_value(in->dcpl, in->type, value) >= 0;
    const double number = number_for(in);
    const double components[2] = {number, number};
    hid_t component = component_type(in->type);
    bool ok = true;
    if (component >= 0 || class == H5T_FLOAT || class == H5T_INTEGER) {
        memcpy(value, components, sizeof components);
        ok =
            H5Tconvert(H5T_NATIVE_DOUBLE, component >= 0 ? component : in->type,
                       component >= 0 ? 2 : 1, value, NULL, H5P_DEFAULT) >= 0;
    }
    tool_close(component);
    return ok;
}

/* The fill value as the dataset stores it; free it. NULL without memory, or
 * where HDF5 fails. */
static void *
make_fill(const struct tool_dataset *in)
{
    const size_t nbytes = in->value_nbytes + 2 * sizeof(double);
    void *value = calloc(1, nbytes);

    /* Values with addresses have no replacement but zeros. */
    if (value != NULL && !in->has_addresses && !find_fill(in, value)) {
        free(value);
        return NULL;
    }
    return value;
}

/* ---- finding losses ---- */

struct finding {
    struct repack *repack;
    struct repack_object *object;
    bool ok;
};

static bool
add_loss(struct repack_losses *losses, const struct tool_grid *box,
         const char *reason)
{
    char values[TOOL_MAX_SELECTION_NBYTES];

    if (losses->nchunks == losses->cap) {
        const uint64_t cap = losses->cap == 0 ? 16 : 2 * losses->cap;
        struct tool_grid *more =
            realloc(losses->boxes, cap * sizeof *losses->boxes);
        if (more == NULL)
            return false;
        losses->boxes = more;
        losses->cap = cap;
    }
    tool_selection_text(box, values);
    if (!tool_lost_add(&losses->noted, values, reason))
        return false;
    losses->boxes[losses->nchunks++] = *box;
    return true;
}

static void
take_chunk(void *context, const struct tool_grid *box,
           enum tool_check_kind kind, const char *reason)
{
    struct finding *finding = context;
    struct repack *repack = finding->repack;
    struct repack_object *object = finding->object;

    if (kind == TOOL_CHECK_UNTRIED)
        finding->ok = repack_fail(repack, object->path, "%s", reason);
    if (kind != TOOL_CHECK_DAMAGED)
        return;
    if (!add_loss(&object->losses, box, reason)) {
        finding->ok = repack_fail(repack, object->path, "%s",
                                  terp_status_text(TERP_ERR_MEMORY));
        return;
    }
    const struct tool_lost *noted = &object->losses.noted;
    printf("%s[%s]: DAMAGED: %s\n", tool_shown(object->path),
           noted->values[noted->n - 1], tool_shown(reason));
    repack->nlost++;
}

static bool
find_in(struct repack *repack, struct tool_checker *checker,
        struct repack_object *object)
{
    struct repack_losses *losses = &object->losses;
    struct finding finding = {repack, object, true};
    struct tool_dataset in;
    char reason[512];

    if (!tool_dataset_open(repack->in, object->path, &in))
        return repack_fail(repack, object->path, NULL);
    (void)tool_lost_read(in.id, &losses->noted);
    if (tool_limit_take(&in, TOOL_LIMIT_ALL, reason, sizeof reason))
        (void)tool_check_chunks(checker, &in, take_chunk, &finding);
    else
        finding.ok = repack_fail(repack, object->path, "%s", reason);
    if (finding.ok && losses->nchunks > 0) {
        losses->fill = make_fill(&in);
        if (losses->fill == NULL)
            finding.ok =
                repack_fail(repack, object->path,
                            "cannot make a fill value for lost values");
    }
    tool_dataset_close(&in);
    return finding.ok;
}

bool
repack_salvage_find(struct repack *repack)
{
    const struct repack_request *request = &repack->request;
    struct tool_checker *checker =
        tool_checker_start(request->nthreads, TOOL_CHECK_READS_REST);
    bool ok = checker != NULL ||
              repack_fail(repack, request->path_in, "not enough memory");

    for (struct repack_object *object = repack->first_object;
         ok && object != NULL; object = object->next)
        if (object->type == H5O_TYPE_DATASET)
            ok = find_in(repack, checker, object);
    tool_checker_end(checker);
    return ok;
}

/* ---- replacing losses ---- */

/* The intersection of `a` and `b`; false where it is empty. */
static bool
intersect(const struct tool_grid *a, const struct tool_grid *b, hsize_t *at_ret,
          hsize_t *count_ret)
{
    for (int i = 0; i < a->rank; i++) {
        const hsize_t a_end = a->at[i] + a->count[i];
        const hsize_t b_end = b->at[i] + b->count[i];
        const hsize_t at = a->at[i] > b->at[i] ? a->at[i] : b->at[i];
        const hsize_t end = a_end < b_end ? a_end : b_end;
        if (at >= end)
            return false;
        at_ret[i] = at;
        count_ret[i] = end - at;
    }
    return true;
}

/* Removes the lost values from the selections in the file and in memory, and
 * adds them to the selection `lost` in memory. */
static bool
take_out(const struct repack_losses *losses, const struct tool_grid *box,
         hid_t in_file, hid_t in_memory, hid_t lost)
{
    hsize_t at[H5S_MAX_RANK], count[H5S_MAX_RANK];
    bool ok = true;

    for (uint64_t i = 0; ok && i < losses->nchunks; i++) {
        if (!intersect(&losses->boxes[i], box, at, count))
            continue;
        ok = H5Sselect_hyperslab(in_file, H5S_SELECT_NOTB, at, NULL, count,
                                 NULL) >= 0;
        for (int d = 0; d < box->rank; d++)
            at[d] -= box->at[d];
        ok = ok &&
             H5Sselect_hyperslab(in_memory, H5S_SELECT_NOTB, at, NULL, count,
                                 NULL) >= 0 &&
             H5Sselect_hyperslab(lost, H5S_SELECT_OR, at, NULL, count, NULL) >=
                 0;
    }
    return ok;
}

bool
repack_salvage_read(const struct repack_object *object,
                    const struct tool_dataset *in, hid_t type,
                    const struct tool_grid *box, void *values)
{
    const struct repack_losses *losses = &object->losses;
    hid_t in_file = -1, in_memory = -1, lost = -1;

    if (losses->nchunks == 0)
        return tool_box_read(in->id, type, box, NULL, values);
    bool ok = tool_box_select(in->id, box, NULL, &in_file, &in_memory);
    lost = ok ? H5Scopy(in_memory) : -1;
    ok = lost >= 0 && H5Sselect_none(lost) >= 0 &&
         H5Sselect_all(in_memory) >= 0 &&
         take_out(losses, box, in_file, in_memory, lost);
    if (ok && H5Sget_select_npoints(in_memory) > 0)
        ok =
            H5Dread(in->id, type, in_memory, in_file, H5P_DEFAULT, values) >= 0;
    if (ok && H5Sget_select_npoints(lost) > 0)
        ok = H5Dfill(in->has_addresses ? NULL : losses->fill, in->type, values,
                     type, lost) >= 0;
    tool_close(lost);
    tool_close(in_memory);
    tool_close(in_file);
    return ok;
}

bool
repack_salvage_lacks(const struct repack_object *object, int rank,
                     const hsize_t *at)
{
    const struct repack_losses *losses = &object->losses;

    for (uint64_t i = 0; i < losses->nchunks; i++)
        if (memcmp(losses->boxes[i].at, at, (size_t)rank * sizeof *at) == 0)
            return true;
    return false;
}

bool
repack_salvage_fill(const struct repack_object *object,
                    const struct tool_dataset *in, hid_t out)
{
    const struct repack_losses *losses = &object->losses;
    const uint64_t nvalues = in->chunk_nbytes / in->value_nbytes;
    uint8_t *values = NULL;
    bool ok = true;

    if (losses->nchunks > 0)
        values = malloc(in->chunk_nbytes);
    for (uint64_t i = 0; values != NULL && i < nvalues; i++)
        memcpy(values + i * in->value_nbytes, losses->fill, in->value_nbytes);
    for (uint64_t i = 0; ok && i < losses->nchunks; i++) {
        hid_t in_file = -1, in_memory = -1;
        ok = values != NULL &&
             tool_box_select(out, &losses->boxes[i], NULL, &in_file,
                             &in_memory) &&
             H5Dwrite(out, in->type, in_memory, in_file, H5P_DEFAULT, values) >=
                 0;
        tool_close(in_file);
        tool_close(in_memory);
    }
    free(values);
    return ok;
}

bool
repack_salvage_note(struct repack *repack, const struct repack_object *object,
                    hid_t in, hid_t out)
{
    const struct repack_losses *losses = &object->losses;

    if (losses->nchunks == 0)
        return true;
    hid_t type = H5Dget_type(in);
    const bool ok =
        type >= 0 &&
        tool_lost_write(out, &losses->noted, type,
                        tool_type_has_addresses(type) ? NULL : losses->fill);
    tool_close(type);
    return ok || repack_fail(repack, object->path, NULL);
}

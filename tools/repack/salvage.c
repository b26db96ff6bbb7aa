/* terp repack --salvage: finds damaged chunks before the copy starts, so that
 * the copy never reads them. */
#include "tools/repack/salvage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/check.h"
#include "tools/common/limit.h"
#include "tools/common/text.h"
#include "tools/repack/fill.h"

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
        losses->fill = repack_fill_value(&in);
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
        return tool_box_read(in, type, box, NULL, values);
    tool_box_clear(in, type, box, values);
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

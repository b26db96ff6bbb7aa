/* terp repack --record and --in-place: reads the output back like any program
 * and compares it with the input like terp compare. */
#include "tools/repack/record.h"

#include <math.h>
#include <stdio.h>

#include "tools/common/record.h"
#include "tools/compare/compare.h"
#include "tools/repack/mask.h"

static void
fill_in(const struct repack_bound *bound, const struct terp_cd *cd,
        const struct compare_result *result, struct tool_record *record)
{
    const bool is_absolute = cd->pass == TERP_PASS_NONE &&
                             cd->params.bound_mode == TERP_BOUND_ABSOLUTE;

    snprintf(record->implementation, sizeof record->implementation, "terp %s",
             TERP_VERSION);
    snprintf(record->bound_kind, sizeof record->bound_kind, "%s", bound->kind);
    record->bound = bound->given;
    /* The bound of all chunks. Chunks of an AMReX level have their own bounds.
     */
    record->absolute_bound = is_absolute ? cd->params.bound : (double)NAN;
    record->floor = bound->floor > 0 ? bound->floor : (double)NAN;
    /* Values that are not numbers, and values that are kept, are equal bit for
     * bit. */
    record->max_error = isnan(result->max_error) ? 0 : result->max_error;
    record->psnr = result->psnr;
}

/* A compare_exempt. */
static void
exempt_masked(void *context, const struct tool_grid *box, uint8_t *flags_ret)
{
    repack_mask_box(context, box, flags_ret);
}

static bool
check_result(struct repack *repack, const struct repack_object *object,
             const struct compare_result *result)
{
    if (!result->compared)
        return repack_fail(repack, object->path, "%s", result->reason);
    return result->verdict < COMPARE_EXCEEDED ||
           repack_fail(repack, object->path,
                       "values in the output exceed the bound");
}

/* Compares the members of compound values. */
static bool
check_members(struct repack *repack, const struct repack_object *object,
              const struct tool_dataset *in, const struct tool_dataset *out)
{
    const struct compare_bounds none = {0};
    struct terp_member_walk walk = {.at = 0};
    struct tool_dataset in_member, out_member;
    char path[TOOL_MEMBER_PATH_NBYTES];
    bool ok = true;

    while (ok && terp_member_next(&out->cd.compound, &walk)) {
        struct compare_result result = compare_new_result(object->path);
        if (!compare_member(in, out, &walk, &in_member, &out_member, path))
            continue;
        compare_values(&in_member, &out_member, &none, NULL, &result);
        tool_close(out_member.type);
        ok = check_result(repack, object, &result);
    }
    return ok;
}

static bool
measure(struct repack *repack, const struct repack_object *object,
        const struct tool_dataset *in, const struct tool_dataset *out,
        struct tool_record *record)
{
    const bool is_filled =
        object->plan.mask != NULL && repack->request.fills_masked;
    struct repack_mask mask = {0};
    struct compare_bounds none = {0};
    struct compare_result result = compare_new_result(object->path);

    if (is_filled) {
        mask = *object->plan.mask;
        none.exempt = exempt_masked;
        none.context = &mask;
    }
    compare_values(in, out, &none, NULL, &result);
    if (!check_result(repack, object, &result))
        return false;
    fill_in(&object->plan.bound, &out->cd, &result, record);
    return true;
}

/* Compares the dataset, and writes a record if the user requested it: of one
 * bound, so not of compound values. */
static bool
check(struct repack *repack, const struct repack_object *object, hid_t in,
      hid_t out)
{
    struct tool_dataset original = {
        .id = -1, .space = -1, .dcpl = -1, .type = -1};
    struct tool_dataset copy = original;
    struct tool_record record = {.bound = NAN};
    bool ok = (tool_dataset_of(in, &original) && tool_dataset_of(out, &copy)) ||
              repack_fail(repack, object->path, NULL);

    if (ok && compare_has_members(&original, &copy))
        ok = check_members(repack, object, &original, &copy);
    else
        ok = ok && measure(repack, object, &original, &copy, &record) &&
             (!repack->request.record || tool_record_write(out, &record) ||
              repack_fail(repack, object->path, NULL));
    tool_dataset_close(&original);
    tool_dataset_close(&copy);
    return ok;
}

bool
repack_record(struct repack *repack, const struct repack_object *object,
              hid_t in, hid_t out)
{
    if (!tool_record_remove(out))
        return repack_fail(repack, object->path, NULL);
    /* Lost values cannot be compared; terp_lost lists them. In place, nobody
     * can compare the files later. */
    return (!repack->request.record &&
            repack->request.target != REPACK_IN_PLACE) ||
           object->losses.nchunks > 0 || check(repack, object, in, out);
}

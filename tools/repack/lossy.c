/* terp repack: adds up the errors of lossy copies. */
#include "tools/repack/lossy.h"

#include <math.h>
#include <stdio.h>

#include "tools/common/cf.h"
#include "tools/common/text.h"

/* The errors that the filter's parameters allow. A bound relative to a chunk's
 * range, and a PSNR, limit no error by a number that is known here. */
static struct tool_cf_errors
errors_of(const struct tool_dataset *dataset)
{
    const struct terp_params *params = &dataset->cd.params;

    if (tool_is_lossless(dataset))
        return (struct tool_cf_errors){0, 0};
    if (params->bound_mode == TERP_BOUND_ABSOLUTE)
        return (struct tool_cf_errors){params->bound, 0};
    if (params->bound_mode == TERP_BOUND_POINTWISE)
        return (struct tool_cf_errors){params->floor, params->bound};
    return (struct tool_cf_errors){NAN, NAN};
}

/* The errors before this copy: noted, or by the filter of a file without
 * notes. */
static struct tool_cf_errors
earlier_errors(const struct tool_dataset *in)
{
    struct tool_cf_errors errors = {0, 0};

    if (!tool_cf_read(in->id, &errors) && in->has_terp &&
        in->params_error == NULL)
        errors = errors_of(in);
    return errors;
}

/* If x becomes y within a1 + r1 |x|, and y becomes z within a2 + r2 |y|, then
 * |y| is at most |x| + a1 + r1 |x|. NAN stays NAN. */
static struct tool_cf_errors
sum(struct tool_cf_errors first, struct tool_cf_errors second)
{
    return (struct tool_cf_errors){
        first.absolute + second.absolute + second.relative * first.absolute,
        first.relative + second.relative + second.relative * first.relative};
}

static bool
write_note(struct repack *repack, const struct repack_object *object,
           const struct tool_dataset *in, const struct tool_dataset *out)
{
    if (tool_is_lossless(out))
        return true;
    if (tool_cf_is_of_others(in->id)) {
        fprintf(stderr,
                "terp repack: %s: its attribute lossy_compression names "
                "another program, and stays: nothing notes the new error\n",
                tool_shown(object->path));
        return true;
    }
    repack->has_notes = true;
    return tool_cf_write(out->id, sum(earlier_errors(in), errors_of(out))) ||
           repack_fail(repack, object->path, NULL);
}

bool
repack_lossy_note(struct repack *repack, const struct repack_object *object,
                  hid_t in, hid_t out)
{
    struct tool_dataset original = {
        .id = -1, .space = -1, .dcpl = -1, .type = -1};
    struct tool_dataset copy = original;

    if (repack->request.leaves_out_cf || !tool_cf_is_file(repack->in))
        return true;
    bool ok = (tool_dataset_of(in, &original) && tool_dataset_of(out, &copy)) ||
              repack_fail(repack, object->path, NULL);
    ok = ok && write_note(repack, object, &original, &copy);
    tool_dataset_close(&original);
    tool_dataset_close(&copy);
    return ok;
}

/* Whether objects of the file track the order of their attributes. */
static bool
has_order(const struct repack *repack)
{
    hid_t root = H5Gopen2(repack->out, "/", H5P_DEFAULT);
    hid_t gcpl = root < 0 ? -1 : H5Gget_create_plist(root);
    unsigned order = 0;

    if (gcpl >= 0)
        H5Pget_attr_creation_order(gcpl, &order);
    tool_close(gcpl);
    tool_close(root);
    return (order & H5P_CRT_ORDER_TRACKED) != 0;
}

bool
repack_lossy_finish(struct repack *repack)
{
    return !repack->has_notes ||
           tool_cf_make_container(repack->out, has_order(repack)) ||
           repack_fail(repack, "/terp_compression_info",
                       "another object has this name; rename it, or use "
                       "--no-cf");
}

/* terp repack: reads masks, and finds the datasets to which they belong. */
#include "tools/repack/mask.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/text.h"
#include "codec/format/base.h"
#include "tools/common/limit.h"
#include "tools/common/range.h"
#include "tools/common/text.h"

/* ---- reading ---- */

/* Fill values of a variable of numbers, as doubles. */
struct fills {
    int n;
    double at[TOOL_MAX_NMISSING + 1];
};

static struct fills
fills_of(const struct tool_dataset *in)
{
    struct fills fills;
    uint64_t bits;

    fills.n = tool_missing_values(in, true, fills.at);
    if (tool_fill_bits(in, true, &bits))
        fills.at[fills.n++] = tool_value_at(true, &bits, 0);
    return fills;
}

static bool
is_masked(const struct repack_mask_rule *rule, const struct fills *fills,
          double value)
{
    bool is_fill = isnan(value);

    switch (rule->kind) {
    case REPACK_MASK_NONZERO:
        return value != 0;
    case REPACK_MASK_EQUAL:
        /* A number such as 0.1 has another value as a float32. */
        return value == rule->number || value == (double)(float)rule->number;
    default:
        for (int i = 0; i < fills->n; i++)
            is_fill |= value == fills->at[i];
        return is_fill;
    }
}

/* Reads numbers or members of an enumeration as doubles. Free them. NULL where
 * HDF5 fails. */
static double *
read_numbers(const struct tool_dataset *in)
{
    const bool is_enum = H5Tget_class(in->type) == H5T_ENUM;
    const size_t value_nbytes = in->value_nbytes > 8 ? in->value_nbytes : 8;
    double *values = calloc(in->nvalues, value_nbytes);
    hid_t super = is_enum ? H5Tget_super(in->type) : -1;

    if (values != NULL &&
        (H5Dread(in->id, is_enum ? in->type : H5T_NATIVE_DOUBLE, H5S_ALL,
                 H5S_ALL, H5P_DEFAULT, values) < 0 ||
         (is_enum && H5Tconvert(super, H5T_NATIVE_DOUBLE, in->nvalues, values,
                                NULL, H5P_DEFAULT) < 0))) {
        free(values);
        values = NULL;
    }
    tool_close(super);
    return values;
}

/* A mask of none or of all values is probably the wrong number. */
static void
warn_of_mask(const struct repack_mask *mask, uint64_t nmasked, uint64_t n)
{
    if (nmasked == 0 || nmasked == n)
        fprintf(stderr, "terp repack: %s: --mask %s masks %s\n",
                tool_shown(mask->rule->variable), tool_shown(mask->rule->text),
                nmasked == 0 ? "no value" : "all values");
}

static bool
fill_in(struct repack *repack, const struct tool_dataset *in,
        struct repack_mask *mask)
{
    const struct fills fills = fills_of(in);
    double *values = read_numbers(in);
    uint64_t nmasked = 0;

    mask->flags = calloc(in->nvalues, 1);
    if (values == NULL || mask->flags == NULL) {
        free(values);
        return repack_fail(repack, mask->rule->variable, NULL);
    }
    for (uint64_t i = 0; i < in->nvalues; i++) {
        mask->flags[i] = is_masked(mask->rule, &fills, values[i]);
        nmasked += mask->flags[i];
    }
    free(values);
    warn_of_mask(mask, nmasked, in->nvalues);
    while (mask->nleading + 1 < in->rank && in->dims[mask->nleading] == 1)
        mask->nleading++;
    mask->rank = in->rank - mask->nleading;
    for (int i = 0; i < mask->rank; i++)
        mask->dims[i] = in->dims[mask->nleading + i];
    return true;
}

static bool
read_mask(struct repack *repack, const struct repack_mask_rule *rule,
          struct repack_mask *mask)
{
    struct tool_dataset in;
    char reason[512];
    bool ok;

    mask->rule = rule;
    if (!tool_dataset_open(repack->in, rule->variable, &in))
        return repack_fail(repack, rule->variable,
                           "--mask %s: the file has no such dataset",
                           rule->text);
    mask->variable = in.id;
    H5Iinc_ref(in.id);
    const H5T_class_t class = H5Tget_class(in.type);
    if ((class != H5T_INTEGER && class != H5T_FLOAT && class != H5T_ENUM) ||
        in.rank == 0 || in.nvalues == 0)
        ok = repack_fail(repack, rule->variable,
                         "--mask %s: a mask must be an array of numbers",
                         rule->text);
    else if (!tool_limit_take(&in, TOOL_LIMIT_ALL, reason, sizeof reason))
        ok = repack_fail(repack, rule->variable, "%s", reason);
    else
        ok = fill_in(repack, &in, mask);
    tool_dataset_close(&in);
    return ok;
}

bool
repack_masks_read(struct repack *repack)
{
    const struct repack_request *request = &repack->request;
    bool ok = true;

    if (request->nmasks == 0)
        return true;
    repack->masks = calloc((size_t)request->nmasks, sizeof *repack->masks);
    if (repack->masks == NULL)
        return repack_fail(repack, request->path_in, "not enough memory");
    for (int i = 0; i < request->nmasks; i++)
        repack->masks[i].variable = -1;
    for (int i = 0; ok && i < request->nmasks; i++)
        ok = read_mask(repack, &request->masks[i], &repack->masks[i]);
    return ok;
}

bool
repack_masks_check(struct repack *repack)
{
    for (int i = 0; i < repack->request.nmasks; i++)
        if (!repack->masks[i].used)
            return repack_fail(repack, repack->request.path_in,
                               "--mask %s: no dataset that terp compresses "
                               "with loss has its dimensions",
                               repack->request.masks[i].text);
    return true;
}

void
repack_masks_free(struct repack *repack)
{
    for (int i = 0; repack->masks != NULL && i < repack->request.nmasks; i++) {
        tool_close(repack->masks[i].variable);
        free(repack->masks[i].flags);
    }
    free(repack->masks);
    repack->masks = NULL;
}

/* ---- dimensions ---- */

/* The addresses of the dimension scales of each dimension, the first one of
 * each; 0 where there is none. False without the attribute that holds them. */
static bool
read_scales(hid_t dataset, int rank, hobj_ref_t *scales_ret)
{
    static const char name[] = "DIMENSION_LIST";
    hvl_t lists[H5S_MAX_RANK];
    hid_t attribute =
        H5Aexists(dataset, name) > 0 ? H5Aopen(dataset, name, H5P_DEFAULT) : -1;
    hid_t space = attribute < 0 ? -1 : H5Aget_space(attribute);
    hid_t type = H5Tvlen_create(H5T_STD_REF_OBJ);
    const bool ok = space >= 0 && H5Sget_simple_extent_npoints(space) == rank &&
                    H5Aread(attribute, type, lists) >= 0;

    for (int i = 0; ok && i < rank; i++)
        scales_ret[i] = lists[i].len > 0 ? *(const hobj_ref_t *)lists[i].p : 0;
    if (ok)
        (void)H5Dvlen_reclaim(type, space, H5P_DEFAULT, lists);
    tool_close(type);
    tool_close(space);
    tool_close(attribute);
    return ok;
}

/* Whether dimension scales contradict that the dimensions are the same: two
 * grids of one shape may be different grids. */
static bool
has_other_scales(const struct repack_mask *mask,
                 const struct tool_dataset *dataset)
{
    const int nouter = dataset->rank - mask->rank;
    hobj_ref_t own[H5S_MAX_RANK], of_mask[H5S_MAX_RANK];

    if (!read_scales(dataset->id, dataset->rank, own) ||
        !read_scales(mask->variable, mask->nleading + mask->rank, of_mask))
        return false;
    for (int i = 0; i < mask->rank; i++) {
        const hobj_ref_t a = own[nouter + i], b = of_mask[mask->nleading + i];
        if (a != 0 && b != 0 && a != b)
            return true;
    }
    return false;
}

static bool
fits(const struct repack_mask *mask, const struct tool_dataset *dataset)
{
    const int nouter = dataset->rank - mask->rank;

    if (nouter < 0)
        return false;
    for (int i = 0; i < mask->rank; i++)
        if (dataset->dims[nouter + i] != mask->dims[i])
            return false;
    return !has_other_scales(mask, dataset);
}

/* ---- datasets ---- */

static bool
is_same_object(hid_t a, hid_t b)
{
    H5O_info_t one, other;

    return H5Oget_info2(a, &one, H5O_INFO_BASIC) >= 0 &&
           H5Oget_info2(b, &other, H5O_INFO_BASIC) >= 0 &&
           one.addr == other.addr;
}

bool
repack_mask_find(struct repack *repack, const struct repack_object *object,
                 const struct tool_dataset *dataset,
                 const struct repack_mask **mask_ret)
{
    if (tool_type(dataset->type) == TERP_BYTES)
        return true;
    for (int i = 0; i < repack->request.nmasks; i++) {
        struct repack_mask *mask = &repack->masks[i];
        const char *glob = mask->rule->glob;
        if (glob != NULL && !terp_text_matches(glob, object->path))
            continue;
        if (fits(mask, dataset) &&
            !(glob == NULL && is_same_object(mask->variable, dataset->id))) {
            mask->used = true;
            *mask_ret = mask;
        } else if (glob != NULL) {
            return repack_fail(repack, object->path,
                               "--mask %s: its last dimensions are not those "
                               "of the mask",
                               mask->rule->text);
        }
    }
    return true;
}

void
repack_mask_box(const struct repack_mask *mask, const struct tool_grid *box,
                uint8_t *flags_ret)
{
    const int nouter = box->rank - mask->rank;
    const uint64_t nrow = box->count[box->rank - 1];
    uint64_t at[H5S_MAX_RANK] = {0};

    for (uint64_t row = 0; row < box->nvalues / nrow; row++) {
        uint64_t place = 0;
        for (int i = nouter; i < box->rank; i++)
            place = place * mask->dims[i - nouter] + box->at[i] + at[i];
        memcpy(flags_ret + row * nrow, mask->flags + place, nrow);
        for (int i = box->rank - 2; i >= 0; i--) {
            if (++at[i] < box->count[i])
                break;
            at[i] = 0;
        }
    }
}

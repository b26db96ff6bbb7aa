/* terp repack: translates references to objects of the input into references to
 * their counterparts in the output. */
#include "tools/repack/references.h"

#include <stdio.h>
#include <string.h>

#include "tools/common/walk.h"
#include "tools/repack/regions.h"
#include "tools/repack/types.h"

/* Opens the counterpart of an object of the input. -1: the output lacks it, and
 * the reference counts as lost; below -1: HDF5 fails. */
static hid_t
open_counterpart(struct repack *repack, const struct repack_object *object)
{
    if (object->made) {
        hid_t id = H5Oopen_by_addr(repack->out, object->out_address);
        return id < 0 ? -2 : id;
    }
    repack->nlost_references++;
    return -1;
}

/* Opens the counterpart of an object that has no link and was not listed: a
 * committed type without links exists as long as objects use it. */
static hid_t
open_unlisted(struct repack *repack, const hobj_ref_t *reference)
{
    hid_t in = H5Rdereference2(repack->in, H5P_DEFAULT, H5R_OBJECT, reference);
    hid_t out = -1;

    if (in >= 0 && H5Iget_type(in) == H5I_DATATYPE) {
        out = repack_type(repack, "a type without links", in);
        out = out < 0 ? -2 : out;
    }
    tool_close(in);
    return out;
}

/* Replaces a reference to an object of the input by a reference to its
 * counterpart. Zeros are HDF5's null reference. Members of compound values may
 * be unaligned; so the reference is copied out and back. */
static bool
translate_object(struct repack *repack, void *value)
{
    hobj_ref_t reference;

    memcpy(&reference, value, sizeof reference);
    const struct repack_object *object =
        reference == 0 ? NULL : repack_find_object(repack, reference);
    hid_t target = object != NULL   ? open_counterpart(repack, object)
                   : reference != 0 ? open_unlisted(repack, &reference)
                                    : -1;
    reference = 0;
    const bool ok = target == -1 ||
                    (target >= 0 &&
                     H5Rcreate(&reference, target, ".", H5R_OBJECT, -1) >= 0);
    memcpy(value, &reference, sizeof reference);
    tool_close(target);
    return ok;
}

/* Creates the reference to the region of the counterpart. A region that cannot
 * be translated counts as lost. */
static bool
make_region(struct repack *repack, hid_t target, hid_t space,
            hdset_reg_ref_t *reference_ret)
{
    const uint64_t step = repack->request.step;
    hid_t there =
        step > 1 ? repack_region(space, target, step) : H5Scopy(space);
    bool ok = true;

    if (there >= 0)
        ok = H5Rcreate(reference_ret, target, ".", H5R_DATASET_REGION, there) >=
             0;
    else
        repack->nlost_references++;
    tool_close(there);
    return ok;
}

static bool
translate_region(struct repack *repack, void *value)
{
    const hdset_reg_ref_t null = {0};
    hdset_reg_ref_t reference;
    H5O_info_t info;
    bool ok = true;
    hid_t target = -1, space = -1, in = -1;

    if (memcmp(value, &null, sizeof null) == 0)
        return true;
    memcpy(&reference, value, sizeof reference);
    in = H5Rdereference2(repack->in, H5P_DEFAULT, H5R_DATASET_REGION,
                         &reference);
    if (in >= 0 && tool_object_info(in, &info)) {
        const struct repack_object *object =
            repack_find_object(repack, info.addr);
        space = H5Rget_region(repack->in, H5R_DATASET_REGION, &reference);
        target = object == NULL ? -1 : open_counterpart(repack, object);
        ok = space >= 0 && target >= -1;
    }
    memset(&reference, 0, sizeof reference);
    if (target >= 0)
        ok = ok && make_region(repack, target, space, &reference);
    memcpy(value, &reference, sizeof reference);
    tool_close(target);
    tool_close(space);
    tool_close(in);
    return ok;
}

/* Translates the references in members of compound values. */
static bool
translate_members(struct repack *repack, hid_t type, size_t nvalues,
                  uint8_t *values)
{
    size_t value_nbytes = H5Tget_size(type);
    int nmembers = H5Tget_nmembers(type);
    bool ok = true;

    for (int i = 0; ok && i < nmembers; i++) {
        hid_t member = H5Tget_member_type(type, (unsigned)i);
        size_t at = H5Tget_member_offset(type, (unsigned)i);
        if (H5Tdetect_class(member, H5T_REFERENCE) > 0)
            for (size_t j = 0; ok && j < nvalues; j++)
                ok = repack_translate(repack, member, 1,
                                      values + j * value_nbytes + at);
        H5Tclose(member);
    }
    return ok;
}

bool
repack_translate(struct repack *repack, hid_t type, size_t nvalues,
                 void *values)
{
    size_t value_nbytes = H5Tget_size(type);
    uint8_t *at = values, *end = at + nvalues * value_nbytes;
    hid_t super = -1;
    hvl_t sequence;
    bool ok = true;

    if (H5Tdetect_class(type, H5T_REFERENCE) <= 0)
        return true;
    switch (H5Tget_class(type)) {
    case H5T_REFERENCE:
        if (H5Tequal(type, H5T_STD_REF_OBJ) > 0)
            for (; ok && at < end; at += value_nbytes)
                ok = translate_object(repack, at);
        else if (H5Tequal(type, H5T_STD_REF_DSETREG) > 0)
            for (; ok && at < end; at += value_nbytes)
                ok = translate_region(repack, at);
        else {
            snprintf(repack->reason, sizeof repack->reason,
                     "terp cannot copy the references that HDF5 1.12 added");
            ok = false;
        }
        break;
    case H5T_COMPOUND:
        ok = translate_members(repack, type, nvalues, values);
        break;
    case H5T_ARRAY:
        super = H5Tget_super(type);
        ok = repack_translate(
            repack, super, nvalues * value_nbytes / H5Tget_size(super), values);
        break;
    case H5T_VLEN:
        super = H5Tget_super(type);
        for (; ok && at < end; at += value_nbytes) {
            memcpy(&sequence, at, sizeof sequence);
            ok = repack_translate(repack, super, sequence.len, sequence.p);
        }
        break;
    default:
        break;
    }
    tool_close(super);
    return ok;
}

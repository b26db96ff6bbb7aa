/* terp repack: finds or creates the types of the output. */
#include "tools/repack/types.h"

#include "tools/common/copies.h"
#include "tools/common/walk.h"
#include "tools/repack/lists.h"

hid_t
repack_type(struct repack *repack, const char *path, hid_t type)
{
    H5O_info_t info;

    if (H5Tcommitted(type) <= 0)
        return tool_type_copy(type);
    if (!tool_object_info(type, &info))
        return -1;
    /* Datasets and attributes can use a committed type that has lost its last
     * link. The walk over links has not listed it. */
    struct repack_object *object = repack_find_object(repack, info.addr);
    if (object == NULL)
        object = repack_add_object(repack, &info, path);
    if (object == NULL)
        return -1;
    if (object->made && object->unlinked < 0)
        return H5Oopen_by_addr(repack->out, object->out_address);
    if (object->made) {
        H5Iinc_ref(object->unlinked);
        return object->unlinked;
    }

    hid_t tcpl = repack_type_list(type);
    hid_t id = tool_type_copy(type);
    if (tcpl >= 0 && id >= 0 &&
        H5Tcommit_anon(repack->out, id, tcpl, H5P_DEFAULT) >= 0 &&
        tool_object_info(id, &info)) {
        object->made = true;
        object->out_address = info.addr;
        object->unlinked = id;
        H5Iinc_ref(id);
    } else if (id >= 0) {
        H5Tclose(id);
        id = -1;
    }
    tool_close(tcpl);
    return id;
}

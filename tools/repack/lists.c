/* terp repack: copies creation property lists property by property. */
#include "tools/repack/lists.h"

#include <stdlib.h>

#include "tools/common/h5file.h"

/* ---- properties of all objects ---- */

/* Whether an object has no times. For object headers before HDF5 1.8, the
 * property list does not show it. */
static bool
lacks_times(hid_t object)
{
    H5O_info_t info;

    return H5Oget_info2(object, &info, H5O_INFO_HDR | H5O_INFO_TIME) >= 0 &&
           info.hdr.version == 1 && info.ctime == 0;
}

bool
repack_list_object(hid_t object, hid_t in, hid_t out)
{
    unsigned order, max_compact, min_dense;
    hbool_t tracks;

    return H5Pget_attr_creation_order(in, &order) >= 0 &&
           H5Pset_attr_creation_order(out, order) >= 0 &&
           H5Pget_attr_phase_change(in, &max_compact, &min_dense) >= 0 &&
           H5Pset_attr_phase_change(out, max_compact, min_dense) >= 0 &&
           H5Pget_obj_track_times(in, &tracks) >= 0 &&
           H5Pset_obj_track_times(out, tracks && !lacks_times(object)) >= 0;
}

/* The parameters of a filter; free them. NULL without memory. */
static unsigned *
get_filter(hid_t in, unsigned i, H5Z_filter_t *filter_ret, unsigned *flags_ret,
           size_t *nwords_ret)
{
    unsigned config;
    size_t nwords = 0;

    if (H5Pget_filter2(in, i, flags_ret, &nwords, NULL, 0, NULL, &config) < 0)
        return NULL;
    *nwords_ret = nwords;
    unsigned *words = calloc(nwords + 1, sizeof *words);
    if (words == NULL)
        return NULL;
    *filter_ret =
        H5Pget_filter2(in, i, flags_ret, &nwords, words, 0, NULL, &config);
    return words;
}

bool
repack_list_filters(hid_t in, hid_t out)
{
    const int nfilters = H5Pget_nfilters(in);
    bool ok = nfilters >= 0;

    for (int i = 0; ok && i < nfilters; i++) {
        H5Z_filter_t filter = H5Z_FILTER_ERROR;
        unsigned flags = 0;
        size_t nwords = 0;
        unsigned *words = get_filter(in, (unsigned)i, &filter, &flags, &nwords);
        ok = words != NULL && filter != H5Z_FILTER_ERROR &&
             H5Pset_filter(out, filter, flags & H5Z_FLAG_OPTIONAL, nwords,
                           words) >= 0;
        free(words);
    }
    return ok;
}

hid_t
repack_list_end(hid_t list, bool ok)
{
    if (ok || list < 0)
        return list;
    H5Pclose(list);
    return -1;
}

/* ---- groups and files ---- */

static bool
copy_group(hid_t group, hid_t in, hid_t out)
{
    unsigned order, max_compact, min_dense, nlinks, name_nbytes;
    size_t heap_nbytes;

    return repack_list_object(group, in, out) &&
           H5Pget_link_creation_order(in, &order) >= 0 &&
           H5Pset_link_creation_order(out, order) >= 0 &&
           H5Pget_link_phase_change(in, &max_compact, &min_dense) >= 0 &&
           H5Pset_link_phase_change(out, max_compact, min_dense) >= 0 &&
           H5Pget_est_link_info(in, &nlinks, &name_nbytes) >= 0 &&
           H5Pset_est_link_info(out, nlinks, name_nbytes) >= 0 &&
           H5Pget_local_heap_size_hint(in, &heap_nbytes) >= 0 &&
           H5Pset_local_heap_size_hint(out, heap_nbytes) >= 0 &&
           repack_list_filters(in, out);
}

hid_t
repack_group_list(hid_t in)
{
    hid_t out = H5Pcreate(H5P_GROUP_CREATE);
    hid_t gcpl = H5Gget_create_plist(in);
    const bool ok = out >= 0 && gcpl >= 0 && copy_group(in, gcpl, out);

    tool_close(gcpl);
    return repack_list_end(out, ok);
}

/* Copies the settings of messages that objects share. */
static bool
copy_shared(hid_t in, hid_t out)
{
    unsigned nindexes = 0, types, nbytes, max_list, min_btree;

    if (H5Pget_shared_mesg_nindexes(in, &nindexes) < 0 ||
        H5Pset_shared_mesg_nindexes(out, nindexes) < 0)
        return false;
    for (unsigned i = 0; i < nindexes; i++)
        if (H5Pget_shared_mesg_index(in, i, &types, &nbytes) < 0 ||
            H5Pset_shared_mesg_index(out, i, types, nbytes) < 0)
            return false;
    return H5Pget_shared_mesg_phase_change(in, &max_list, &min_btree) >= 0 &&
           H5Pset_shared_mesg_phase_change(out, max_list, min_btree) >= 0;
}

static bool
copy_space(hid_t in, hid_t out)
{
    H5F_fspace_strategy_t strategy;
    hbool_t persists;
    hsize_t threshold, page_nbytes;

    return H5Pget_file_space_strategy(in, &strategy, &persists, &threshold) >=
               0 &&
           H5Pset_file_space_strategy(out, strategy, persists, threshold) >=
               0 &&
           H5Pget_file_space_page_size(in, &page_nbytes) >= 0 &&
           H5Pset_file_space_page_size(out, page_nbytes) >= 0;
}

static bool
copy_file(hid_t in, hid_t out)
{
    hsize_t userblock_nbytes;
    size_t address_nbytes, size_nbytes;
    unsigned group_k, node_k, chunk_k;

    return H5Pget_userblock(in, &userblock_nbytes) >= 0 &&
           H5Pset_userblock(out, userblock_nbytes) >= 0 &&
           H5Pget_sizes(in, &address_nbytes, &size_nbytes) >= 0 &&
           H5Pset_sizes(out, address_nbytes, size_nbytes) >= 0 &&
           H5Pget_sym_k(in, &group_k, &node_k) >= 0 &&
           H5Pset_sym_k(out, group_k, node_k) >= 0 &&
           H5Pget_istore_k(in, &chunk_k) >= 0 &&
           H5Pset_istore_k(out, chunk_k) >= 0 && copy_shared(in, out) &&
           copy_space(in, out);
}

/* HDF5's list of a file lacks the properties of its root group. */
hid_t
repack_file_list(hid_t in)
{
    hid_t out = H5Pcreate(H5P_FILE_CREATE);
    hid_t fcpl = H5Fget_create_plist(in);
    hid_t root = H5Gopen2(in, "/", H5P_DEFAULT);
    hid_t gcpl = root < 0 ? -1 : H5Gget_create_plist(root);
    const bool ok = out >= 0 && fcpl >= 0 && gcpl >= 0 &&
                    copy_file(fcpl, out) && copy_group(root, gcpl, out);

    tool_close(gcpl);
    tool_close(root);
    tool_close(fcpl);
    return repack_list_end(out, ok);
}

/* ---- types and attributes ---- */

hid_t
repack_type_list(hid_t in)
{
    hid_t out = H5Pcreate(H5P_DATATYPE_CREATE);
    hid_t tcpl = H5Tget_create_plist(in);
    const bool ok = out >= 0 && tcpl >= 0 && repack_list_object(in, tcpl, out);

    tool_close(tcpl);
    return repack_list_end(out, ok);
}

hid_t
repack_attribute_list(hid_t in)
{
    hid_t out = H5Pcreate(H5P_ATTRIBUTE_CREATE);
    hid_t acpl = H5Aget_create_plist(in);
    H5T_cset_t charset;
    const bool ok = out >= 0 && acpl >= 0 &&
                    H5Pget_char_encoding(acpl, &charset) >= 0 &&
                    H5Pset_char_encoding(out, charset) >= 0;

    tool_close(acpl);
    return repack_list_end(out, ok);
}

/* Asks HDF5 for open datasets, and what their chunks are.
 *
 * All that is asked is in memory, and answered at once by HDF5's own connector.
 * Another one may wait for what the thread does that has called: datasets of
 * such a one are not asked. */
#include "filter/plugin/opened.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "filter/plugin/h5z_terp.h"
#include "filter/types.h"

/* H5VL_SUBCLS_DATASET of HDF5 1.12 and later. */
#define SUBCLASS_DATASET 5

/* Functions of the host. */
struct asked {
    hid_t (*get_dcpl)(hid_t), (*get_type)(hid_t);
    herr_t (*close_list)(hid_t), (*close_type)(hid_t);
    H5D_layout_t (*get_layout)(hid_t);
    int (*get_chunk)(hid_t, int, hsize_t *), (*count_filters)(hid_t);
    H5Z_filter_t (*get_filter)(hid_t, unsigned, unsigned *, size_t *,
                               unsigned *, size_t, char *, unsigned *);
    size_t (*get_size)(hid_t);
    H5T_class_t (*get_class)(hid_t);
    htri_t (*detect)(hid_t, H5T_class_t), (*is_variable)(hid_t);
    /* Of an HDF5 that has connectors, from 1.12 on. */
    ssize_t (*get_connector)(hid_t, char *, size_t);
    herr_t (*query)(hid_t, int, int, uint64_t *);
};

static bool
find_functions(const struct terp_host *host, struct asked *asked)
{
    if (!terp_host_find(host, "H5VLget_connector_name", &asked->get_connector))
        asked->get_connector = NULL;
    else if (!terp_host_find(host, "H5VLquery_optional", &asked->query))
        return false;
    return terp_host_find(host, "H5Dget_create_plist", &asked->get_dcpl) &&
           terp_host_find(host, "H5Dget_type", &asked->get_type) &&
           terp_host_find(host, "H5Pclose", &asked->close_list) &&
           terp_host_find(host, "H5Tclose", &asked->close_type) &&
           terp_host_find(host, "H5Pget_layout", &asked->get_layout) &&
           terp_host_find(host, "H5Pget_chunk", &asked->get_chunk) &&
           terp_host_find(host, "H5Pget_nfilters", &asked->count_filters) &&
           terp_host_find(host, "H5Pget_filter2", &asked->get_filter) &&
           terp_host_find(host, "H5Tget_size", &asked->get_size) &&
           terp_host_find(host, "H5Tget_class", &asked->get_class) &&
           terp_host_find(host, "H5Tdetect_class", &asked->detect) &&
           terp_host_find(host, "H5Tis_variable_str", &asked->is_variable);
}

/* ---- one dataset ---- */

/* What is known of one. */
struct dataset {
    bool is_asked, is_virtual, has_terp;
    size_t nwords; /* of terp */
    unsigned words[TERP_CD_MAX_NWORDS];
    uint64_t nbytes; /* of a chunk, where terp has it; 0: not known */
};

/* Whether values have in the file the size that their type has in memory. */
static bool
has_size_of_file(const struct asked *asked, hid_t type)
{
    switch ((int)asked->get_class(type)) {
    case H5T_INTEGER:
    case H5T_FLOAT:
    case H5T_BITFIELD:
    case H5T_OPAQUE:
    case H5T_ENUM:
    case TERP_H5T_COMPLEX:
        return true;
    case H5T_STRING:
        return asked->is_variable(type) == 0;
    case H5T_COMPOUND:
    case H5T_ARRAY:
        return asked->detect(type, H5T_STRING) == 0 &&
               asked->detect(type, H5T_VLEN) == 0 &&
               asked->detect(type, H5T_REFERENCE) == 0;
    default:
        return false;
    }
}

static uint64_t
read_chunk_nbytes(const struct asked *asked, hid_t id, hid_t dcpl)
{
    hsize_t dims[H5S_MAX_RANK];
    const int rank = asked->get_chunk(dcpl, H5S_MAX_RANK, dims);
    const hid_t type = asked->get_type(id);
    uint64_t nbytes =
        type >= 0 && has_size_of_file(asked, type) ? asked->get_size(type) : 0;

    if (type >= 0)
        asked->close_type(type);
    for (int d = 0; d < rank; d++)
        if (!mul_fits(nbytes, dims[d], &nbytes))
            return 0;
    return rank > 0 ? nbytes : 0;
}

/* How many bytes more terp has by the filters before it; false where that
 * depends on the values. */
static bool
add_filter(H5Z_filter_t filter, uint64_t *more_nbytes)
{
    if (filter == H5Z_FILTER_FLETCHER32)
        *more_nbytes += 4;
    return filter == H5Z_FILTER_FLETCHER32 || filter == H5Z_FILTER_SHUFFLE;
}

static bool
may_ask(const struct asked *asked, hid_t id)
{
    char name[8] = "";
    uint64_t flags = 0;

    if (asked->get_connector == NULL)
        return true;
    if (asked->get_connector(id, name, sizeof name) < 0)
        return false;
    return strcmp(name, "native") == 0 ||
           (strcmp(name, "terp") == 0 &&
            asked->query(id, SUBCLASS_DATASET, TERP_OPENED_QUERY, &flags) >=
                0 &&
            flags == TERP_OPENED_ABOVE_NATIVE);
}

/* Fills in where terp is among the filters of `dcpl`, and what a chunk is. */
static void
read_filters(const struct asked *asked, hid_t id, hid_t dcpl,
             struct dataset *dataset)
{
    const int n = asked->count_filters(dcpl);
    uint64_t more_nbytes = 0;
    unsigned flags, config;
    bool is_known = true;

    for (int i = 0; i < n && !dataset->has_terp; i++) {
        dataset->nwords = TERP_CD_MAX_NWORDS;
        const H5Z_filter_t filter =
            asked->get_filter(dcpl, (unsigned)i, &flags, &dataset->nwords,
                              dataset->words, 0, NULL, &config);
        dataset->has_terp = filter == H5Z_FILTER_TERP;
        if (!dataset->has_terp)
            is_known = add_filter(filter, &more_nbytes) && is_known;
    }
    if (!dataset->has_terp || !is_known)
        return;
    const uint64_t nbytes = read_chunk_nbytes(asked, id, dcpl);
    dataset->nbytes = nbytes > 0 ? nbytes + more_nbytes : 0;
}

static void
read_dataset(const struct asked *asked, hid_t id, struct dataset *dataset)
{
    *dataset = (struct dataset){.nbytes = 0};
    const hid_t dcpl = may_ask(asked, id) ? asked->get_dcpl(id) : -1;
    if (dcpl < 0)
        return;
    const H5D_layout_t layout = asked->get_layout(dcpl);
    dataset->is_asked = true;
    dataset->is_virtual = layout == H5D_VIRTUAL;
    if (layout == H5D_CHUNKED)
        read_filters(asked, id, dcpl, dataset);
    asked->close_list(dcpl);
}

static bool
has_words(const struct dataset *dataset, size_t nwords, const unsigned *words)
{
    const uint64_t n = min_u64(nwords, TERP_CD_MAX_NWORDS);

    return dataset->has_terp && dataset->nwords == nwords &&
           (n == 0 || memcmp(dataset->words, words, n * sizeof *words) == 0);
}

/* Whether its words say a size that its chunks have not. */
static bool
is_lie(const struct dataset *dataset)
{
    struct terp_cd cd;

    return dataset->has_terp &&
           terp_cd_parse(min_u64(dataset->nwords, TERP_CD_MAX_NWORDS),
                         dataset->words, &cd, NULL) == TERP_OK &&
           cd.persisted && cd.pass == TERP_PASS_NONE &&
           terp_chunk_nbytes(&cd.chunk) != dataset->nbytes;
}

/* ---- the datasets that are open ---- */

/* Room for the ids of datasets. It is kept from call to call: taken anew for
 * each chunk it would make the allocator give the memory of chunks back to the
 * system, and ask for it again. */
struct room {
    size_t cap, n;
    hid_t ids[];
};

#define MIN_NIDS 64

static _Atomic(struct room *) kept;

static herr_t
take_id(hid_t id, void *data)
{
    struct room *room = data;

    if (room->n == room->cap)
        return 1;
    room->ids[room->n++] = id;
    return 0;
}

/* What is looked for: datasets, or files. */
struct sort {
    H5I_type_t type;
    unsigned kind; /* the same for H5Fget_obj_ids */
};

static const struct sort datasets = {H5I_DATASET, H5F_OBJ_DATASET},
                         files = {H5I_FILE, H5F_OBJ_FILE};

/* Fills the room; false where HDF5 does not tell. H5Fget_obj_ids asks the
 * connectors of files, where there are any. */
static bool
fill_room(const struct terp_host *host, const struct sort *sort,
          struct room *room)
{
    herr_t (*iterate)(int, herr_t (*)(hid_t, void *), void *);
    ssize_t (*get_ids)(hid_t, unsigned, size_t, hid_t *);

    room->n = 0;
    const bool is_hidden = !terp_host_exports(host, "H5Fget_obj_ids");
    if ((is_hidden || terp_host_exports(host, "H5Iiterate")) &&
        terp_host_find(host, "H5Iiterate", &iterate))
        return iterate((int)sort->type, take_id, room) >= 0;
    if (!terp_host_find(host, "H5Fget_obj_ids", &get_ids))
        return false;
    const ssize_t n =
        get_ids((hid_t)H5F_OBJ_ALL, sort->kind, room->cap, room->ids);
    room->n = n < 0 ? 0 : (size_t)n;
    return n >= 0;
}

/* The ids of what is open, to be given back; NULL: HDF5 does not tell. */
static struct room *
take_room(const struct terp_host *host, const struct sort *sort)
{
    struct room *room = atomic_exchange(&kept, NULL);

    for (size_t cap = MIN_NIDS;; cap = 8 * room->cap) {
        if (room == NULL || room->n == room->cap) {
            free(room);
            room = malloc(sizeof *room + cap * sizeof *room->ids);
            if (room == NULL)
                return NULL;
            room->cap = cap;
        }
        if (!fill_room(host, sort, room)) {
            free(room);
            return NULL;
        }
        if (room->n < room->cap)
            return room;
    }
}

static void
give_room(struct room *room)
{
    free(atomic_exchange(&kept, room));
}

__attribute__((destructor)) static void
free_room(void)
{
    give_room(NULL);
}

/* ---- files ---- */

/* H5F_ACC_RDWR, whose macro would call H5open. */
#define MAY_WRITE 0x0001u

/* True also where HDF5 does not tell, or where another connector than HDF5's
 * own would have to. */
static bool
may_write_file(herr_t (*get_intent)(hid_t, unsigned *),
               ssize_t (*get_connector)(hid_t, char *, size_t), hid_t id)
{
    char name[8] = "";
    unsigned intent;

    if (get_connector != NULL && (get_connector(id, name, sizeof name) < 0 ||
                                  strcmp(name, "native") != 0))
        return true;
    return get_intent(id, &intent) < 0 || (intent & MAY_WRITE) != 0;
}

/* Whether any open file may be written. */
static bool
may_write_any(const struct terp_host *host)
{
    herr_t (*get_intent)(hid_t, unsigned *);
    ssize_t (*get_connector)(hid_t, char *, size_t);

    if (!terp_host_find(host, "H5Fget_intent", &get_intent))
        return true;
    if (!terp_host_find(host, "H5VLget_connector_name", &get_connector))
        get_connector = NULL;
    struct room *room = take_room(host, &files);
    bool may = room == NULL || room->n == 0;
    for (size_t i = 0; !may && i < room->n; i++)
        may = may_write_file(get_intent, get_connector, room->ids[i]);
    if (room != NULL)
        give_room(room);
    return may;
}

/* ---- datasets that were looked at ---- */

/* More than a process has been seen to hold of libhdf5. */
#define MAX_NHOSTS 16

/* HDF5 numbers datasets as they are opened. Of each host the newest dataset
 * that was looked at is kept: the words of no dataset up to it lie. With it, in
 * the lowest bit, whether a file could be written then: a file that is opened
 * later gets a newer dataset before a chunk of it can be read. */
static struct {
    _Atomic(void *) module;
    _Atomic(uint64_t) newest;
} looked[MAX_NHOSTS];

static uint64_t
pack_looked(hid_t newest, bool may_write)
{
    return (uint64_t)newest << 1 | may_write;
}

static _Atomic(uint64_t) *
find_looked(void *module)
{
    for (int i = 0; i < MAX_NHOSTS; i++) {
        void *found = NULL;
        if (atomic_compare_exchange_strong(&looked[i].module, &found, module) ||
            found == module)
            return &looked[i].newest;
    }
    return NULL;
}

void
terp_opened_forget(void)
{
    for (int i = 0; i < MAX_NHOSTS; i++)
        atomic_store(&looked[i].newest, 0);
}

static hid_t
find_newest(const struct room *room)
{
    hid_t newest = 0;

    for (size_t i = 0; i < room->n; i++)
        if (room->ids[i] > newest)
            newest = room->ids[i];
    return newest;
}

/* Whether none of the datasets behind `before`, or of all where that one is
 * closed, has words that lie. Then *newest_ret is the last one. */
static bool
are_true(const struct asked *asked, const struct room *room, hid_t before,
         hid_t *newest_ret)
{
    struct dataset dataset;

    *newest_ret = find_newest(room);
    for (size_t i = 0; i < room->n; i++) {
        if (*newest_ret > before && room->ids[i] <= before)
            continue;
        read_dataset(asked, room->ids[i], &dataset);
        if (is_lie(&dataset))
            return false;
    }
    return true;
}

/* ---- the dataset that is read ---- */

/* Looks at all datasets with these words. */
static enum terp_opened
find_all(const struct asked *asked, const struct room *room, size_t cd_nelmts,
         const unsigned *cd_values, uint64_t chunk_nbytes,
         uint64_t *largest_nbytes)
{
    enum terp_opened found = TERP_OPENED_UNKNOWN;
    bool is_any_other = false; /* which may be meant */
    struct dataset dataset;

    for (size_t i = 0; i < room->n; i++) {
        read_dataset(asked, room->ids[i], &dataset);
        const bool is_meant = has_words(&dataset, cd_nelmts, cd_values);
        is_any_other |= !dataset.is_asked || dataset.is_virtual ||
                        (is_meant && dataset.nbytes == 0);
        if (!is_meant || dataset.nbytes == 0)
            continue;
        if (dataset.nbytes == chunk_nbytes)
            found = TERP_OPENED_FITS;
        else if (found == TERP_OPENED_UNKNOWN)
            found = TERP_OPENED_OTHER;
        if (dataset.nbytes > *largest_nbytes)
            *largest_nbytes = dataset.nbytes;
    }
    return found == TERP_OPENED_OTHER && is_any_other ? TERP_OPENED_UNKNOWN
                                                      : found;
}

/* Looks at as few as is needed. */
static enum terp_opened
find_in_room(const struct terp_host *host, const struct room *room,
             bool true_so_far, size_t cd_nelmts, const unsigned *cd_values,
             uint64_t chunk_nbytes, uint64_t *largest_nbytes,
             bool *may_be_written)
{
    _Atomic(uint64_t) *last = true_so_far ? find_looked(host->module) : NULL;
    const uint64_t packed = last == NULL ? 0 : atomic_load(last);
    const hid_t before = (hid_t)(packed >> 1);
    struct asked asked;
    hid_t newest;

    if (true_so_far && before > 0 && find_newest(room) == before) {
        *may_be_written = (packed & 1) != 0;
        return TERP_OPENED_FITS;
    }
    if (true_so_far)
        *may_be_written = may_write_any(host);
    if (true_so_far && room->n == 0) {
        if (last != NULL)
            atomic_store(last, 0);
        return TERP_OPENED_FITS;
    }
    if (!find_functions(host, &asked))
        return TERP_OPENED_UNKNOWN;
    if (!true_so_far || !are_true(&asked, room, before, &newest))
        return find_all(&asked, room, cd_nelmts, cd_values, chunk_nbytes,
                        largest_nbytes);
    if (last != NULL)
        atomic_store(last, pack_looked(newest, *may_be_written));
    return TERP_OPENED_FITS;
}

enum terp_opened
terp_opened_find(const struct terp_host *host, bool true_so_far,
                 size_t cd_nelmts, const unsigned *cd_values,
                 uint64_t chunk_nbytes, uint64_t *largest_nbytes_ret,
                 bool *may_be_written_ret)
{
    *largest_nbytes_ret = 0;
    *may_be_written_ret = true;
    /* What a program hides takes longer to find than a chunk takes. */
    if (true_so_far && !terp_host_exports(host, "H5Fget_obj_ids"))
        return TERP_OPENED_UNKNOWN;
    struct room *room = take_room(host, &datasets);
    if (room == NULL)
        return TERP_OPENED_UNKNOWN;
    const enum terp_opened found =
        find_in_room(host, room, true_so_far, cd_nelmts, cd_values,
                     chunk_nbytes, largest_nbytes_ret, may_be_written_ret);
    give_room(room);
    return found;
}

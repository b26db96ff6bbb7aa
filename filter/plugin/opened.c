/* Asks HDF5 for its open datasets and the sizes of their chunks.
 *
 * HDF5's own connector answers from memory, or reads the file, for which it may
 * wait for all processes that have the file open through MPI. Another connector
 * might wait for work of the very thread that called the filter, so its
 * datasets are not asked for anything. */
#include "filter/plugin/opened.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "filter/plugin/h5z_terp.h"
#include "filter/types.h"

/* H5VL_SUBCLS_DATASET of HDF5 1.12 and later. */
#define SUBCLASS_DATASET 5

/* Functions of the host that tell about a dataset. */
struct calls {
    hid_t (*get_dcpl)(hid_t), (*get_type)(hid_t);
    herr_t (*close_list)(hid_t), (*close_type)(hid_t);
    H5D_layout_t (*get_layout)(hid_t);
    int (*get_chunk)(hid_t, int, hsize_t *), (*count_filters)(hid_t);
    H5Z_filter_t (*get_filter)(hid_t, unsigned, unsigned *, size_t *,
                               unsigned *, size_t, char *, unsigned *);
    size_t (*get_size)(hid_t);
    H5T_class_t (*get_class)(hid_t);
    htri_t (*detect)(hid_t, H5T_class_t), (*is_variable)(hid_t);
    /* Of HDF5 1.12 and later, which has connectors; else NULL. */
    ssize_t (*get_connector)(hid_t, char *, size_t);
    herr_t (*query)(hid_t, int, int, uint64_t *);
};

static bool
find_functions(const struct terp_host *host, struct calls *calls)
{
    if (!terp_host_find(host, "H5VLget_connector_name", &calls->get_connector))
        calls->get_connector = NULL;
    else if (!terp_host_find(host, "H5VLquery_optional", &calls->query))
        return false;
    return terp_host_find(host, "H5Dget_create_plist", &calls->get_dcpl) &&
           terp_host_find(host, "H5Dget_type", &calls->get_type) &&
           terp_host_find(host, "H5Pclose", &calls->close_list) &&
           terp_host_find(host, "H5Tclose", &calls->close_type) &&
           terp_host_find(host, "H5Pget_layout", &calls->get_layout) &&
           terp_host_find(host, "H5Pget_chunk", &calls->get_chunk) &&
           terp_host_find(host, "H5Pget_nfilters", &calls->count_filters) &&
           terp_host_find(host, "H5Pget_filter2", &calls->get_filter) &&
           terp_host_find(host, "H5Tget_size", &calls->get_size) &&
           terp_host_find(host, "H5Tget_class", &calls->get_class) &&
           terp_host_find(host, "H5Tdetect_class", &calls->detect) &&
           terp_host_find(host, "H5Tis_variable_str", &calls->is_variable);
}

/* ---- one dataset ---- */

struct dataset {
    bool is_known; /* HDF5 told the members below */
    bool is_virtual, has_terp;
    size_t nwords; /* terp's cd_values */
    unsigned words[TERP_CD_MAX_NWORDS];
    uint64_t nbytes; /* of a chunk as terp gets it; 0: not known */
};

/* Whether a value has the same size in the file as in memory. */
static bool
has_size_of_file(const struct calls *calls, hid_t type)
{
    switch ((int)calls->get_class(type)) {
    case H5T_INTEGER:
    case H5T_FLOAT:
    case H5T_BITFIELD:
    case H5T_OPAQUE:
    case H5T_ENUM:
    case TERP_H5T_COMPLEX:
        return true;
    case H5T_STRING:
        return calls->is_variable(type) == 0;
    case H5T_COMPOUND:
    case H5T_ARRAY:
        return calls->detect(type, H5T_STRING) == 0 &&
               calls->detect(type, H5T_VLEN) == 0 &&
               calls->detect(type, H5T_REFERENCE) == 0;
    default:
        return false;
    }
}

static uint64_t
read_chunk_nbytes(const struct calls *calls, hid_t id, hid_t dcpl)
{
    hsize_t dims[H5S_MAX_RANK];
    const int rank = calls->get_chunk(dcpl, H5S_MAX_RANK, dims);
    const hid_t type = calls->get_type(id);
    uint64_t nbytes =
        type >= 0 && has_size_of_file(calls, type) ? calls->get_size(type) : 0;

    if (type >= 0)
        calls->close_type(type);
    for (int d = 0; d < rank; d++)
        if (!mul_fits(nbytes, dims[d], &nbytes))
            return 0;
    return rank > 0 ? nbytes : 0;
}

/* Adds the bytes that a filter before terp appends to a chunk. False where
 * their number depends on the values. */
static bool
add_filter(H5Z_filter_t filter, uint64_t *more_nbytes)
{
    if (filter == H5Z_FILTER_FLETCHER32)
        *more_nbytes += 4;
    return filter == H5Z_FILTER_FLETCHER32 || filter == H5Z_FILTER_SHUFFLE;
}

/* Whether HDF5's own connector, or terp's directly above it, holds the
 * dataset. */
static bool
may_call(const struct calls *calls, hid_t id)
{
    char name[8] = "";
    uint64_t flags = 0;

    if (calls->get_connector == NULL)
        return true;
    if (calls->get_connector(id, name, sizeof name) < 0)
        return false;
    return strcmp(name, "native") == 0 ||
           (strcmp(name, "terp") == 0 &&
            calls->query(id, SUBCLASS_DATASET, TERP_OPENED_QUERY, &flags) >=
                0 &&
            flags == TERP_OPENED_ABOVE_NATIVE);
}

/* Reads terp's cd_values, and the size of a chunk as terp gets it. */
static void
read_filters(const struct calls *calls, hid_t id, hid_t dcpl,
             struct dataset *dataset)
{
    const int n = calls->count_filters(dcpl);
    uint64_t more_nbytes = 0;
    unsigned flags, config;
    bool is_known = true;

    for (int i = 0; i < n && !dataset->has_terp; i++) {
        dataset->nwords = TERP_CD_MAX_NWORDS;
        const H5Z_filter_t filter =
            calls->get_filter(dcpl, (unsigned)i, &flags, &dataset->nwords,
                              dataset->words, 0, NULL, &config);
        dataset->has_terp = filter == H5Z_FILTER_TERP;
        if (!dataset->has_terp)
            is_known = add_filter(filter, &more_nbytes) && is_known;
    }
    if (!dataset->has_terp || !is_known)
        return;
    const uint64_t nbytes = read_chunk_nbytes(calls, id, dcpl);
    dataset->nbytes = nbytes > 0 ? nbytes + more_nbytes : 0;
}

static void
read_dataset(const struct calls *calls, hid_t id, struct dataset *dataset)
{
    *dataset = (struct dataset){.nbytes = 0};
    const hid_t dcpl = may_call(calls, id) ? calls->get_dcpl(id) : -1;
    if (dcpl < 0)
        return;
    const H5D_layout_t layout = calls->get_layout(dcpl);
    dataset->is_known = true;
    dataset->is_virtual = layout == H5D_VIRTUAL;
    if (layout == H5D_CHUNKED)
        read_filters(calls, id, dcpl, dataset);
    calls->close_list(dcpl);
}

static bool
has_words(const struct dataset *dataset, size_t nwords, const unsigned *words)
{
    const uint64_t n = min_u64(nwords, TERP_CD_MAX_NWORDS);

    return dataset->has_terp && dataset->nwords == nwords &&
           (n == 0 || memcmp(dataset->words, words, n * sizeof *words) == 0);
}

/* Whether the dataset's cd_values tell another size than its chunks have. */
static bool
has_false_words(const struct dataset *dataset)
{
    struct terp_cd cd;

    return dataset->has_terp &&
           terp_cd_parse(min_u64(dataset->nwords, TERP_CD_MAX_NWORDS),
                         dataset->words, &cd, NULL) == TERP_OK &&
           cd.persisted && terp_cd_is_coded(&cd) &&
           terp_chunk_nbytes(&cd.chunk) != dataset->nbytes;
}

/* ---- ids of open datasets and files ---- */

/* A list of ids. One list is kept between calls: if each chunk allocated its
 * own, the allocator would return the memory of chunks to the system, and take
 * it again. */
struct list {
    size_t cap, n;
    hid_t ids[];
};

/* Ids that a new list has space for: 512 bytes. A process with more open
 * datasets enlarges its list eightfold at a time, once. */
#define MIN_NIDS 64

static _Atomic(struct list *) kept;

static herr_t
take_id(hid_t id, void *data)
{
    struct list *list = data;

    if (list->n == list->cap)
        return 1;
    list->ids[list->n++] = id;
    return 0;
}

/* A kind of object, for both functions that list ids. */
struct kind {
    H5I_type_t type; /* for H5Iiterate */
    unsigned flag;   /* for H5Fget_obj_ids */
};

static const struct kind datasets = {H5I_DATASET, H5F_OBJ_DATASET},
                         files = {H5I_FILE, H5F_OBJ_FILE};

/* Fills the list; false where HDF5 does not tell. H5Iiterate goes first,
 * because H5Fget_obj_ids calls the connectors of files. */
static bool
fill_list(const struct terp_host *host, const struct kind *kind,
          struct list *list)
{
    herr_t (*iterate)(int, herr_t (*)(hid_t, void *), void *);
    ssize_t (*get_ids)(hid_t, unsigned, size_t, hid_t *);

    list->n = 0;
    const bool is_hidden = !terp_host_exports(host, "H5Fget_obj_ids");
    if ((is_hidden || terp_host_exports(host, "H5Iiterate")) &&
        terp_host_find(host, "H5Iiterate", &iterate))
        return iterate((int)kind->type, take_id, list) >= 0;
    if (!terp_host_find(host, "H5Fget_obj_ids", &get_ids))
        return false;
    const ssize_t n =
        get_ids((hid_t)H5F_OBJ_ALL, kind->flag, list->cap, list->ids);
    list->n = n < 0 ? 0 : (size_t)n;
    return n >= 0;
}

/* The ids of all open objects of a kind, for give_list; NULL: HDF5 does not
 * tell. */
static struct list *
take_list(const struct terp_host *host, const struct kind *kind)
{
    struct list *list = atomic_exchange(&kept, NULL);

    for (size_t cap = MIN_NIDS;; cap = 8 * list->cap) {
        if (list == NULL || list->n == list->cap) {
            free(list);
            list = malloc(sizeof *list + cap * sizeof *list->ids);
            if (list == NULL)
                return NULL;
            list->cap = cap;
        }
        if (!fill_list(host, kind, list)) {
            free(list);
            return NULL;
        }
        if (list->n < list->cap)
            return list;
    }
}

static void
give_list(struct list *list)
{
    free(atomic_exchange(&kept, list));
}

__attribute__((destructor)) static void
free_list(void)
{
    give_list(NULL);
}

/* ---- files ---- */

/* H5F_ACC_RDWR; HDF5's macro would call H5open. */
#define MAY_WRITE 0x0001u

/* Whether the file may be written. True also where HDF5 does not tell, or where
 * another connector than HDF5's own holds the file. */
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
    struct list *list = take_list(host, &files);
    bool may = list == NULL || list->n == 0;
    for (size_t i = 0; !may && i < list->n; i++)
        may = may_write_file(get_intent, get_connector, list->ids[i]);
    if (list != NULL)
        give_list(list);
    return may;
}

/* Whether files may be open through MPI. With H5Pset_all_coll_metadata_ops a
 * request for a dataset's properties waits for all processes, but only
 * processes that decode a chunk make it. A program that holds a parallel HDF5
 * itself counts as one that uses MPI. */
static bool
may_be_in_mpi(const struct terp_host *host)
{
    int (*is_initialized)(int *), flag = 0;

    return terp_host_exports(host, "H5Pset_fapl_mpio") &&
           (host->is_program ||
            !terp_host_find(host, "MPI_Initialized", &is_initialized) ||
            (is_initialized(&flag) == 0 && flag != 0));
}

/* ---- datasets that were checked ---- */

/* Bounds the libhdf5 of one process whose checks are remembered: more than any
 * process has been seen to hold. Without an entry each chunk checks all
 * datasets. */
#define MAX_NHOSTS 16

/* The newest checked dataset of each host. HDF5's ids grow as datasets are
 * opened, so all datasets up to this id were checked, and no cd_values of
 * theirs are false. The lowest bit holds whether a file could be written at
 * that time. The bit stays right for these datasets: a file that is opened
 * later has chunks to read only once a dataset of it, with a newer id, is
 * opened. */
static struct {
    _Atomic(void *) module;
    _Atomic(uint64_t) newest; /* id << 1 | whether a file could be written */
} checked[MAX_NHOSTS];

static uint64_t
pack_checked(hid_t newest, bool may_write)
{
    return (uint64_t)newest << 1 | may_write;
}

static _Atomic(uint64_t) *
find_checked(void *module)
{
    for (int i = 0; i < MAX_NHOSTS; i++) {
        void *found = NULL;
        if (atomic_compare_exchange_strong(&checked[i].module, &found,
                                           module) ||
            found == module)
            return &checked[i].newest;
    }
    return NULL;
}

void
terp_opened_forget(void)
{
    for (int i = 0; i < MAX_NHOSTS; i++)
        atomic_store(&checked[i].newest, 0);
}

static hid_t
find_newest(const struct list *list)
{
    hid_t newest = 0;

    for (size_t i = 0; i < list->n; i++)
        if (list->ids[i] > newest)
            newest = list->ids[i];
    return newest;
}

/* Whether the cd_values of all datasets that are newer than `before` are true;
 * of all datasets where `before` is no longer open. *newest_ret is the newest.
 */
static bool
have_true_words(const struct calls *calls, const struct list *list,
                hid_t before, hid_t *newest_ret)
{
    struct dataset dataset;

    *newest_ret = find_newest(list);
    for (size_t i = 0; i < list->n; i++) {
        if (*newest_ret > before && list->ids[i] <= before)
            continue;
        read_dataset(calls, list->ids[i], &dataset);
        if (has_false_words(&dataset))
            return false;
    }
    return true;
}

/* ---- the dataset that HDF5 reads ---- */

/* Compares the chunks of all datasets with these cd_values. */
static enum terp_opened
find_all(const struct calls *calls, const struct list *list, size_t cd_nelmts,
         const unsigned *cd_values, uint64_t chunk_nbytes,
         uint64_t *largest_nbytes)
{
    enum terp_opened found = TERP_OPENED_UNKNOWN;
    bool is_any_other = false; /* HDF5 may be reading one that is not known */
    struct dataset dataset;

    for (size_t i = 0; i < list->n; i++) {
        read_dataset(calls, list->ids[i], &dataset);
        const bool is_match = has_words(&dataset, cd_nelmts, cd_values);
        is_any_other |= !dataset.is_known || dataset.is_virtual ||
                        (is_match && dataset.nbytes == 0);
        if (!is_match || dataset.nbytes == 0)
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

/* Checks as few datasets as possible. */
static enum terp_opened
find_in_list(const struct terp_host *host, const struct list *list,
             bool words_agree, size_t cd_nelmts, const unsigned *cd_values,
             uint64_t chunk_nbytes, uint64_t *largest_nbytes,
             bool *may_be_written)
{
    _Atomic(uint64_t) *last = words_agree ? find_checked(host->module) : NULL;
    const uint64_t packed = last == NULL ? 0 : atomic_load(last);
    const hid_t before = (hid_t)(packed >> 1);
    struct calls calls;
    hid_t newest;

    if (words_agree && before > 0 && find_newest(list) == before) {
        *may_be_written = (packed & 1) != 0;
        return TERP_OPENED_FITS;
    }
    if (words_agree)
        *may_be_written = may_write_any(host);
    if (words_agree && list->n == 0) {
        if (last != NULL)
            atomic_store(last, 0);
        return TERP_OPENED_FITS;
    }
    if (words_agree && may_be_in_mpi(host)) {
        if (last != NULL)
            atomic_store(last,
                         pack_checked(find_newest(list), *may_be_written));
        return TERP_OPENED_UNKNOWN;
    }
    if (!find_functions(host, &calls))
        return TERP_OPENED_UNKNOWN;
    if (!words_agree || !have_true_words(&calls, list, before, &newest))
        return find_all(&calls, list, cd_nelmts, cd_values, chunk_nbytes,
                        largest_nbytes);
    if (last != NULL)
        atomic_store(last, pack_checked(newest, *may_be_written));
    return TERP_OPENED_FITS;
}

enum terp_opened
terp_opened_find(const struct terp_host *host, bool words_agree,
                 size_t cd_nelmts, const unsigned *cd_values,
                 uint64_t chunk_nbytes, uint64_t *largest_nbytes_ret,
                 bool *may_be_written_ret)
{
    *largest_nbytes_ret = 0;
    *may_be_written_ret = true;
    /* Finding a function that a program hides takes longer than a chunk. */
    if (words_agree && !terp_host_exports(host, "H5Fget_obj_ids"))
        return TERP_OPENED_UNKNOWN;
    struct list *list = take_list(host, &datasets);
    if (list == NULL)
        return TERP_OPENED_UNKNOWN;
    const enum terp_opened found =
        find_in_list(host, list, words_agree, cd_nelmts, cd_values,
                     chunk_nbytes, largest_nbytes_ret, may_be_written_ret);
    give_list(list);
    return found;
}

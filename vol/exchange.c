/* Tells processes of each other's boxes, and exchanges the parts of chunks. */
#include "vol/exchange.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/call.h"
#include "vol/messages.h"
#include "vol/plan.h"

/* Bounds the values of a process's chunks where TERP_MAX_MEMORY does not. */
#define MAX_NBYTES (UINT64_C(1) << 30)

/* ---- boxes ---- */

/* The values from `begin` to before `end`. */
struct box {
    uint64_t begin[H5S_MAX_RANK], end[H5S_MAX_RANK];
};

/* The values that are in both boxes. */
static struct box
meet(int rank, const struct box *a, const struct box *b)
{
    struct box both = {.begin = {0}};

    for (int d = 0; d < rank; d++) {
        both.begin[d] = a->begin[d] > b->begin[d] ? a->begin[d] : b->begin[d];
        both.end[d] = min_u64(a->end[d], b->end[d]);
    }
    return both;
}

static uint64_t
count_values(int rank, const struct box *box)
{
    uint64_t n = 1;

    for (int d = 0; d < rank; d++)
        n *= box->end[d] > box->begin[d] ? box->end[d] - box->begin[d] : 0;
    return n;
}

static uint64_t
count_both(int rank, const struct box *a, const struct box *b)
{
    const struct box both = meet(rank, a, b);

    return count_values(rank, &both);
}

/* The chunks that the box touches. */
static struct box
chunks_around(const struct terp_h5_block *block, const struct box *box)
{
    struct box around = {.begin = {0}};

    for (int d = 0; d < block->rank; d++) {
        const uint64_t length = block->chunk[d];
        around.begin[d] = box->begin[d] / length * length;
        around.end[d] =
            min_u64(div_up(box->end[d], length) * length, block->dims[d]);
    }
    return around;
}

/* The chunks whose first value is in the box. These form a box, and where boxes
 * fill chunks, each chunk belongs to one of them. */
static struct box
chunks_of(const struct terp_h5_block *block, const struct box *box)
{
    struct box chunks = {.begin = {0}};

    for (int d = 0; d < block->rank; d++) {
        const uint64_t length = block->chunk[d];
        chunks.begin[d] = div_up(box->begin[d], length) * length;
        chunks.end[d] =
            min_u64(div_up(box->end[d], length) * length, block->dims[d]);
    }
    return chunks;
}

/* The chunks of a box that is made of whole chunks. */
static uint64_t
count_chunks(const struct terp_h5_block *block, const struct box *box)
{
    uint64_t n = 1;

    for (int d = 0; d < block->rank; d++)
        n *= box->end[d] > box->begin[d]
                 ? div_up(box->end[d] - box->begin[d], block->chunk[d])
                 : 0;
    return n;
}

/* An array in memory that has the values of a box. */
struct field {
    uint8_t *at; /* of the box's first value */
    struct box box;
    uint64_t stride[H5S_MAX_RANK]; /* in bytes; the last is a value's size */
};

static struct field
make_field(int rank, const struct box *box, uint64_t value_nbytes, uint8_t *at)
{
    struct field field = {.at = at, .box = *box};
    uint64_t stride = value_nbytes;

    for (int d = rank - 1; d >= 0; d--) {
        field.stride[d] = stride;
        stride *= box->end[d] - box->begin[d];
    }
    return field;
}

/* The place of the box's row number `row` in a field. */
static uint8_t *
find_row(int rank, const struct field *field, const struct box *box,
         uint64_t row)
{
    uint8_t *at =
        field->at + (box->begin[rank - 1] - field->box.begin[rank - 1]) *
                        field->stride[rank - 1];

    for (int d = rank - 2; d >= 0; d--) {
        const uint64_t length = box->end[d] - box->begin[d];
        at += (box->begin[d] - field->box.begin[d] + row % length) *
              field->stride[d];
        row /= length;
    }
    return at;
}

/* Copies the values of a box from field to field. */
static void
copy_box(int rank, const struct box *box, const struct field *from,
         const struct field *to)
{
    const uint64_t n = count_values(rank, box);
    const uint64_t length = box->end[rank - 1] - box->begin[rank - 1];

    for (uint64_t row = 0; n > 0 && row < n / length; row++)
        memcpy(find_row(rank, to, box, row), find_row(rank, from, box, row),
               length * to->stride[rank - 1]);
}

/* ---- what the processes write ---- */

enum state {
    NOTHING,
    BOX,  /* all values in the box */
    OTHER /* some values in the box */
};

/* All that a process knows. */
struct view {
    const struct vol_library *library;
    const struct vol_messages *messages;
    struct terp_h5_block block; /* rank, dims and chunk */
    uint64_t value_nbytes;
    int nprocesses, me;
    uint64_t *all;     /* the state and the box of each process */
    size_t nwords;     /* of each */
    struct box around; /* the chunks that this process touches */
    struct box chunks; /* those that belong to it */
    struct field own;  /* its values */
    struct vol_parcels sent, received;
    struct vol_state state; /* for a request of metadata */
    bool has_state;
};

static enum state
state_of(const struct view *view, int process)
{
    return (enum state)view->all[(size_t)process * view->nwords];
}

static struct box
box_of(const struct view *view, int process)
{
    const uint64_t *words = view->all + (size_t)process * view->nwords + 1;
    const size_t nbytes = (size_t)view->block.rank * sizeof *words;
    struct box box;

    memcpy(box.begin, words, nbytes);
    memcpy(box.end, words + view->block.rank, nbytes);
    return box;
}

/* The smallest box around values that are no box: at worst the dataset. */
static void
read_bounds(const struct view *view, const struct vol_transfer *transfer,
            struct box *box)
{
    const bool is_known = transfer->file_space > VOL_SPACE_PLIST &&
                          view->library->H5Sget_select_bounds(
                              transfer->file_space, (hsize_t *)box->begin,
                              (hsize_t *)box->end) >= 0;

    for (int d = 0; d < view->block.rank; d++) {
        box->begin[d] = is_known ? box->begin[d] : 0;
        box->end[d] = is_known ? box->end[d] + 1 : view->block.dims[d];
    }
}

/* Reads what this process writes. */
static enum state
read_own(const struct vol_plan *plan, const struct vol_transfer *transfer,
         struct view *view)
{
    struct vol_selection selection;
    struct field *own = &view->own;

    if (vol_selection_is_empty(transfer)) {
        memset(&own->box, 0, sizeof own->box);
        return NOTHING;
    }
    if (transfer->src == NULL ||
        vol_plan_selection(plan, transfer, &selection) != NULL ||
        selection.file.rank != view->block.rank) {
        read_bounds(view, transfer, &own->box);
        return OTHER;
    }
    for (int d = 0; d < view->block.rank; d++) {
        own->box.begin[d] = selection.file.offset[d];
        own->box.end[d] = selection.file.offset[d] + selection.file.count[d];
    }
    *own = make_field(view->block.rank, &own->box, view->value_nbytes,
                      (uint8_t *)transfer->src +
                          selection.at * view->value_nbytes);
    for (int d = 0; !selection.is_dense && d < view->block.rank - 1; d++)
        own->stride[d] = selection.stride[d] * view->value_nbytes;
    return BOX;
}

/* Tells the other processes. */
static bool
tell(enum state state, struct view *view)
{
    const int rank = view->block.rank;
    uint64_t mine[1 + 2 * H5S_MAX_RANK] = {state};

    memcpy(mine + 1, view->own.box.begin, (size_t)rank * sizeof *mine);
    memcpy(mine + 1 + rank, view->own.box.end, (size_t)rank * sizeof *mine);
    return vol_messages_gather(view->messages, mine,
                               view->nwords * sizeof *mine, view->all);
}

/* Whether another process touches a chunk that this one touches. */
static bool
shares(const struct view *view)
{
    bool any = false;

    for (int i = 0; !any && i < view->nprocesses; i++) {
        const struct box other = box_of(view, i);
        any = i != view->me && state_of(view, i) != NOTHING &&
              count_both(view->block.rank, &view->around, &other) > 0;
    }
    return any;
}

/* Whether the processes' values fill this one's chunks, each place once. Each
 * process checks that no other one writes the same values. */
static bool
fill_chunks(const struct view *view)
{
    const int rank = view->block.rank;
    const struct box mine = box_of(view, view->me);
    uint64_t n = 0;

    for (int i = 0; i < view->nprocesses; i++) {
        const struct box other = box_of(view, i);
        if (state_of(view, i) == NOTHING)
            continue;
        if (i != view->me && count_both(rank, &mine, &other) > 0)
            return false;
        n += count_both(rank, &view->around, &other);
    }
    return n == count_values(rank, &view->around);
}

/* Whether a chunk at the dataset's end lacks values. */
static bool
has_end(const struct view *view)
{
    bool any = false;

    for (int d = 0; d < view->block.rank; d++)
        any |= view->around.end[d] == view->block.dims[d] &&
               view->block.dims[d] % view->block.chunk[d] != 0;
    return any;
}

/* With collective reading of metadata this is a call of all processes. */
static bool
has_no_chunks(const struct vol_transfer *transfer)
{
    const struct vol_object *dataset = transfer->dataset;
    hsize_t nbytes = 1;
    struct vol_dataset_get get = {VOL_DATASET_GET_STORAGE_SIZE,
                                  {.out = &nbytes}};

    return dataset->library->H5VLdataset_get(dataset->under, dataset->vol, &get,
                                             transfer->dxpl, NULL) >= 0 &&
           nbytes == 0;
}

/* ---- the exchange ---- */

/* The values that process `from` has for `to`. */
static struct box
part_of(const struct view *view, int from, int to)
{
    const struct box box = box_of(view, from), other = box_of(view, to);
    const struct box chunks = chunks_of(&view->block, &other);

    return meet(view->block.rank, &box, &chunks);
}

/* Makes room for the parts that this process sends, or else for those that it
 * gets. */
static bool
make_parcels(const struct view *view, bool is_sent, struct vol_parcels *parcels)
{
    uint64_t nbytes = 0;

    for (int i = 0; i < view->nprocesses; i++) {
        const struct box part =
            is_sent ? part_of(view, view->me, i) : part_of(view, i, view->me);
        if (i == view->me)
            continue;
        parcels->at[i] = (int)nbytes;
        parcels->nbytes[i] =
            (int)(count_values(view->block.rank, &part) * view->value_nbytes);
        nbytes += (uint64_t)parcels->nbytes[i];
    }
    parcels->data = malloc(nbytes + 1);
    return parcels->data != NULL;
}

/* Makes the spaces of the process's chunks. */
static bool
make_spaces(const struct vol_transfer *transfer, const struct view *view,
            struct vol_exchange *exchange)
{
    const struct vol_library *library = view->library;
    hsize_t begin[H5S_MAX_RANK], count[H5S_MAX_RANK];

    exchange->file = vol_dataset_id(transfer->dataset, VOL_DATASET_GET_SPACE,
                                    transfer->dxpl);
    if (exchange->file < 0)
        return false;
    if (count_values(view->block.rank, &view->chunks) == 0) {
        exchange->memory = library->H5Scopy(exchange->file);
        return exchange->memory >= 0 &&
               library->H5Sselect_none(exchange->memory) >= 0 &&
               library->H5Sselect_none(exchange->file) >= 0;
    }
    for (int d = 0; d < view->block.rank; d++) {
        begin[d] = view->chunks.begin[d];
        count[d] = view->chunks.end[d] - begin[d];
    }
    /* HDF5 goes from value to value where the shapes differ. */
    exchange->memory = library->H5Screate_simple(view->block.rank, count, NULL);
    return exchange->memory >= 0 &&
           library->H5Sselect_hyperslab(exchange->file, H5S_SELECT_SET, begin,
                                        NULL, count, NULL) >= 0;
}

/* Gets all that the exchange needs, so that only MPI can fail later. */
static bool
prepare(const struct vol_transfer *transfer, uint64_t held_nbytes,
        struct view *view, struct vol_exchange *exchange)
{
    const uint64_t cap_nbytes =
        min_u64(min_u64(vol_batches_held_cap(), MAX_NBYTES), INT_MAX);
    const uint64_t nbytes =
        count_values(view->block.rank, &view->chunks) * view->value_nbytes;
    /* Parcels have parts of the process's values, and of its chunks. */
    const uint64_t all_nbytes =
        2 * nbytes +
        count_values(view->block.rank, &view->own.box) * view->value_nbytes;

    if (held_nbytes > cap_nbytes || all_nbytes > cap_nbytes - held_nbytes)
        return false;
    exchange->nbytes = nbytes;
    exchange->values = malloc(nbytes + 1);
    return exchange->values != NULL && make_parcels(view, true, &view->sent) &&
           make_parcels(view, false, &view->received) &&
           make_spaces(transfer, view, exchange);
}

/* Sends and gets the parts, which for a process that shares no chunks are none.
 */
static bool
move_parts(struct view *view, bool is_shared, struct vol_exchange *exchange)
{
    const int rank = view->block.rank;
    const struct field chunks =
        make_field(rank, &view->chunks, view->value_nbytes, exchange->values);

    for (int i = 0; is_shared && i < view->nprocesses; i++) {
        const struct box part = part_of(view, view->me, i);
        const struct field parcel =
            make_field(rank, &part, view->value_nbytes,
                       view->sent.data + view->sent.at[i]);
        copy_box(rank, &part, &view->own, i == view->me ? &chunks : &parcel);
    }
    if (!vol_messages_exchange(view->messages, &view->sent, &view->received))
        return false;
    for (int i = 0; is_shared && i < view->nprocesses; i++) {
        const struct box part = part_of(view, i, view->me);
        const struct field parcel =
            make_field(rank, &part, view->value_nbytes,
                       view->received.data + view->received.at[i]);
        if (i != view->me)
            copy_box(rank, &part, &parcel, &chunks);
    }
    return true;
}

/* Whether all processes that share chunks can exchange parts, and the exchange
 * gives one of them several chunks. HDF5 exchanges the parts of one chunk as
 * fast. */
static bool
agree(const struct view *view, bool is_shared, bool is_ready)
{
    enum {
        UNABLE = 1,
        SEVERAL = 2
    };
    const bool has_several = count_chunks(&view->block, &view->chunks) > 1;
    const uint8_t mine = !is_shared    ? 0
                         : !is_ready   ? UNABLE
                         : has_several ? SEVERAL
                                       : 0;
    uint8_t any;

    return vol_messages_any(view->messages, mine, &any) && any == SEVERAL;
}

static void
say(const void *caller, const struct view *view)
{
    uint64_t sent_nbytes = 0, received_nbytes = 0;
    struct terp_call call;

    for (int i = 0; i < view->nprocesses; i++) {
        sent_nbytes += (uint64_t)view->sent.nbytes[i];
        received_nbytes += (uint64_t)view->received.nbytes[i];
    }
    terp_call_begin(caller, &call);
    terp_call_say(&call,
                  "connector: parts of chunks were exchanged, %llu bytes sent, "
                  "%llu received",
                  (unsigned long long)sent_nbytes,
                  (unsigned long long)received_nbytes);
    terp_host_close(&call.host);
}

/* ---- the view ---- */

static bool
read_dims(const struct vol_transfer *transfer, struct view *view)
{
    const hid_t space = vol_dataset_id(transfer->dataset, VOL_DATASET_GET_SPACE,
                                       transfer->dxpl);
    const bool good =
        space >= 0 &&
        view->library->H5Sget_simple_extent_ndims(space) == view->block.rank &&
        view->library->H5Sget_simple_extent_dims(space, view->block.dims,
                                                 NULL) >= 0;

    if (space >= 0)
        view->library->H5Sclose(space);
    return good;
}

/* Gets all that telling others needs, so that only MPI can fail later. False:
 * HDF5 or malloc fails. */
static bool
open_view(const struct vol_plan *plan, const struct vol_transfer *transfer,
          struct view *view)
{
    const struct vol_object *dataset = transfer->dataset;
    const int n = vol_messages_nprocesses(dataset->messages);

    view->block.rank = plan->rank;
    memcpy(view->block.chunk, plan->chunk, sizeof plan->chunk);
    view->value_nbytes = (uint64_t)terp_value_nbytes(plan->cd.chunk.type);
    view->nprocesses = n;
    view->me = vol_messages_rank(dataset->messages);
    view->nwords = 1 + 2 * (size_t)plan->rank;
    view->all = malloc((size_t)n * view->nwords * sizeof *view->all);
    view->sent.nbytes = calloc(4 * (size_t)n, sizeof(int));
    if (view->all == NULL || view->sent.nbytes == NULL ||
        !read_dims(transfer, view))
        return false;
    view->sent.at = view->sent.nbytes + n;
    view->received.nbytes = view->sent.at + n;
    view->received.at = view->received.nbytes + n;
    view->has_state = vol_state_open(view->library, &view->state);
    return view->has_state;
}

static void
close_state(struct view *view)
{
    if (view->has_state)
        vol_state_close(&view->state);
    view->has_state = false;
}

static void
close_view(struct view *view)
{
    close_state(view);
    free(view->all);
    free(view->sent.nbytes);
    free(view->sent.data);
    free(view->received.data);
}

/* Asks all processes whether they can list their values. True: all can. */
static bool
all_can_tell(const struct view *view, bool can_tell)
{
    uint8_t any_cannot;

    return vol_messages_any(view->messages, !can_tell, &any_cannot) &&
           any_cannot == 0;
}

/* Whether the box of this process's values is made of whole chunks. */
static bool
is_whole(const struct view *view)
{
    const int rank = view->block.rank;

    return count_values(rank, &view->own.box) ==
           count_values(rank, &view->around);
}

/* Exchanges parts of chunks. All processes can list their values. */
static bool
make(const void *caller, uint64_t held_nbytes, const struct vol_plan *plan,
     struct view *view, struct vol_transfer *transfer,
     struct vol_exchange *exchange)
{
    const enum state state = read_own(plan, transfer, view);

    if (!tell(state, view))
        return false;
    view->around = chunks_around(&view->block, &view->own.box);
    view->chunks = chunks_of(&view->block, &view->own.box);
    const bool is_shared = state != NOTHING && shares(view);
    /* HDF5 reads chunks that it gets in parts, or at the dataset's end. The
     * filter then has their earlier streams and padding, of which marks know
     * nothing. Processes that read metadata together all ask. */
    const bool is_new =
        (is_shared || has_end(view) || transfer->dataset->reads_together) &&
        has_no_chunks(transfer);
    close_state(view);
    const bool is_ready = is_shared && state == BOX && !transfer->on_device &&
                          is_new && fill_chunks(view) &&
                          prepare(transfer, held_nbytes, view, exchange);
    if (!agree(view, is_shared, is_ready) ||
        !move_parts(view, is_shared, exchange) || !is_shared)
        return !is_shared && state == BOX && is_whole(view) &&
               (!has_end(view) || is_new);
    say(caller, view);
    transfer->type = plan->type;
    transfer->mem_space = exchange->memory;
    transfer->file_space = exchange->file;
    transfer->src = exchange->values;
    return true;
}

bool
vol_exchange_make(const void *caller, uint64_t held_nbytes,
                  struct vol_transfer *transfer, struct vol_exchange *exchange)
{
    const struct vol_object *dataset = transfer->dataset;
    const struct vol_plan *plan =
        vol_plan_of_dataset(caller, transfer->dataset, transfer->dxpl);
    struct view view = {.library = dataset->library,
                        .messages = dataset->messages};

    *exchange = (struct vol_exchange){.memory = H5I_INVALID_HID,
                                      .file = H5I_INVALID_HID};
    const bool can_tell =
        plan != NULL && plan->may_write && open_view(plan, transfer, &view);
    const bool may_mark =
        all_can_tell(&view, can_tell) &&
        make(caller, held_nbytes, plan, &view, transfer, exchange);
    if (transfer->src != exchange->values)
        vol_exchange_close(view.library, exchange);
    close_view(&view);
    return may_mark;
}

void
vol_exchange_close(const struct vol_library *library,
                   struct vol_exchange *exchange)
{
    if (exchange->memory >= 0)
        library->H5Sclose(exchange->memory);
    if (exchange->file >= 0)
        library->H5Sclose(exchange->file);
    free(exchange->values);
    *exchange = (struct vol_exchange){.memory = H5I_INVALID_HID,
                                      .file = H5I_INVALID_HID};
}

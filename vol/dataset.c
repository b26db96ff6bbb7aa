/* Creates datasets by rules, and writes and reads them in batches; passes
 * everything else to the connector below. */
#include "vol/dataset.h"

#include <stdio.h>
#include <stdlib.h>

#include "filter/plugin/call.h"
#include "filter/plugin/prepared.h"
#include "vol/ahead.h"
#include "vol/batches.h"
#include "vol/border.h"
#include "vol/create.h"
#include "vol/dense.h"
#include "vol/device.h"
#include "vol/exchange.h"
#include "vol/marks.h"
#include "vol/pending.h"
#include "vol/plan.h"

void *
vol_dataset_create(void *at, const struct vol_loc *loc, const char *name,
                   hid_t lcpl, hid_t type, hid_t space, hid_t dcpl, hid_t dapl,
                   hid_t dxpl, void **req)
{
    const void *caller = __builtin_return_address(0);
    const struct vol_object *parent = at;
    const struct vol_library *library = parent->library;
    struct vol_creation creation = {parent, loc,  name, type,
                                    space,  dcpl, dapl, dxpl};
    void *under = NULL;

    if (vol_create_apply(caller, &creation)) {
        under = library->H5VLdataset_create(
            parent->under, loc, parent->vol, name, lcpl, type, space,
            creation.dcpl, creation.dapl, dxpl, req);
        vol_create_close(&creation);
        if (under == NULL)
            vol_create_give_up(caller, name);
    }
    if (under == NULL)
        under = library->H5VLdataset_create(parent->under, loc, parent->vol,
                                            name, lcpl, type, space, dcpl, dapl,
                                            dxpl, req);
    vol_object_take_request(parent, req);
    struct vol_object *dataset = vol_object_make(parent, under);
    vol_plan_begin(caller, dataset, dxpl);
    return dataset;
}

void *
vol_dataset_open(void *at, const struct vol_loc *loc, const char *name,
                 hid_t dapl, hid_t dxpl, void **req)
{
    const void *caller = __builtin_return_address(0);
    const struct vol_object *parent = at;
    void *under = parent->library->H5VLdataset_open(
        parent->under, loc, parent->vol, name, dapl, dxpl, req);

    vol_object_take_request(parent, req);
    struct vol_object *dataset = vol_object_make(parent, under);
    vol_plan_begin(caller, dataset, dxpl);
    return dataset;
}

/* One call of H5Dwrite or H5Dread, or of H5Dwrite_multi or H5Dread_multi. */
struct request {
    size_t count;
    void **datasets;
    hid_t *types, *mem_spaces, *file_spaces;
    hid_t dxpl;
    const void *const *src; /* values to write, or NULL */
    void *const *dst;       /* memory for values to read, or NULL */
};

/* What the connector below must move of a dataset. */
struct part {
    hid_t none; /* a space to close; negative: none */
    struct vol_staged staged;
    struct vol_dense dense;
    struct vol_border border;
};

/* The datasets of a request that the connector below must move. */
struct rest {
    size_t count;
    void **under;
    hid_t *types, *mem_spaces, *file_spaces;
    const void **src;
    void **dst;
    struct part *parts;   /* of each dataset */
    uint64_t held_nbytes; /* of copies that TERP_MAX_MEMORY includes */
    bool has_failed;
    struct vol_ahead *ahead;
    /* Of the only dataset: a copy of its values, chunks of several processes'
     * values, and marks in place of these. */
    struct vol_dense copy;
    struct vol_exchange exchange;
    struct vol_marks *marks;
    /* The members above of a request for one dataset, which takes part in a
     * call of all processes even if memory is short. */
    struct {
        void *under, *dst;
        hid_t ids[3];
        const void *src;
        struct part part;
    } one;
};

static void
free_rest(size_t count, struct rest *rest)
{
    if (count == 1)
        return;
    free((void *)rest->under);
    free(rest->types);
    free((void *)rest->src);
    free((void *)rest->dst);
    free(rest->parts);
}

static bool
make_rest(size_t count, struct rest *rest)
{
    *rest = (struct rest){.under = &rest->one.under,
                          .types = rest->one.ids,
                          .src = &rest->one.src,
                          .dst = &rest->one.dst,
                          .parts = &rest->one.part};
    if (count != 1) {
        rest->under = (void **)malloc(count * sizeof *rest->under);
        rest->types = malloc(3 * count * sizeof *rest->types);
        rest->src = (const void **)malloc(count * sizeof *rest->src);
        rest->dst = (void **)malloc(count * sizeof *rest->dst);
        rest->parts = calloc(count, sizeof *rest->parts);
    }
    if (rest->under == NULL || rest->types == NULL || rest->src == NULL ||
        rest->dst == NULL || rest->parts == NULL) {
        free_rest(count, rest);
        return false;
    }
    rest->copy.space = H5I_INVALID_HID;
    rest->exchange.memory = rest->exchange.file = H5I_INVALID_HID;
    for (size_t i = 0; i < count; i++) {
        struct part *part = &rest->parts[i];
        part->none = part->dense.space = H5I_INVALID_HID;
        part->border.memory = part->border.file = H5I_INVALID_HID;
    }
    rest->mem_spaces = rest->types + count;
    rest->file_spaces = rest->mem_spaces + count;
    return true;
}

/* A space in which nothing is selected. A process that has read its values in
 * batches takes part in a collective call of HDF5 with it, since other
 * processes wait for the call. Negative: HDF5 reads the values again. */
static hid_t
select_none(const struct vol_transfer *transfer)
{
    const struct vol_library *library = transfer->dataset->library;
    hid_t space = vol_dataset_id(transfer->dataset, VOL_DATASET_GET_SPACE,
                                 transfer->dxpl);

    if (space >= 0 && library->H5Sselect_none(space) < 0) {
        library->H5Sclose(space);
        return H5I_INVALID_HID;
    }
    return space;
}

/* Dataset i of a request. */
static struct vol_transfer
transfer_of(const void *caller, const struct request *request, size_t i)
{
    struct vol_transfer transfer = {
        .dataset = request->datasets[i],
        .type = request->types[i],
        .mem_space = request->mem_spaces[i],
        .file_space = request->file_spaces[i],
        .dxpl = request->dxpl,
        .src = request->src == NULL ? NULL : request->src[i],
        .dst = request->dst == NULL ? NULL : request->dst[i]};

    transfer.on_device = vol_device_has(
        caller, transfer.src != NULL ? transfer.src : transfer.dst);
    return transfer;
}

/* Copies the transfer's values to the host, for the connector below to move
 * (VOL_LEFT). If the copy would be too large, the connector below moves the
 * values in parts. The values of a shared dataset stay in one part, because all
 * processes must call HDF5 equally often for it. */
static enum vol_moved
stage(const void *caller, const struct vol_transfer *transfer,
      struct rest *rest)
{
    struct vol_staged *staged = &rest->parts[rest->count].staged;
    const bool fits = vol_device_fits(transfer, rest->held_nbytes);

    if (!fits && !transfer->dataset->is_shared) {
        const enum vol_moved moved = vol_device_move_parts(caller, transfer);
        if (moved != VOL_LEFT)
            return moved;
    }
    if (!vol_device_stage(caller, transfer, staged))
        return VOL_FAILED;
    rest->held_nbytes += fits ? staged->nbytes : 0;
    return VOL_LEFT;
}

/* Reads a mode of transfer properties by a function that only HDF5 for MPI has.
 * False: unknown. */
static bool
read_mode(const void *caller, const char *function, hid_t dxpl, int *mode_ret)
{
    herr_t (*get_mode)(hid_t, int *);
    struct terp_host host;

    terp_host_open(caller, &host);
    const bool is_known = terp_host_find(&host, function, &get_mode);
    terp_host_close(&host);
    return is_known && get_mode(dxpl, mode_ret) >= 0;
}

/* Whether HDF5 moves the values independently of other processes. */
static bool
is_independent(const void *caller, hid_t dxpl)
{
    int mode;

    return read_mode(caller, "H5Pget_dxpl_mpio", dxpl, &mode) &&
           mode == 0; /* H5FD_MPIO_INDEPENDENT */
}

/* Whether all processes call HDF5 together. */
static bool
is_collective(const void *caller, hid_t dxpl)
{
    int mode;

    return read_mode(caller, "H5Pget_dxpl_mpio", dxpl, &mode) &&
           mode == 1; /* H5FD_MPIO_COLLECTIVE */
}

/* Whether HDF5 has moved the values collectively, as the call asked. */
static bool
was_collective(const void *caller, hid_t dxpl)
{
    int mode;

    return read_mode(caller, "H5Pget_mpio_actual_io_mode", dxpl, &mode) &&
           mode != 0; /* H5D_MPIO_NO_COLLECTIVE */
}

/* Frees the memory that no write needs once there are marks. */
static void
free_copies(const struct vol_library *library, struct rest *rest)
{
    vol_dense_free(library, &rest->copy);
    vol_exchange_close(library, &rest->exchange);
}

/* Whether no other process writes to the chunks of the request's only dataset.
 * The processes tell each other, or the user says so. */
static bool
writes_alone(const void *caller, const struct request *request,
             struct vol_transfer *transfer, struct rest *rest)
{
    const struct vol_object *first = request->datasets[0];
    const struct vol_library *library = first->library;

    if (request->count != 1 || request->src == NULL || !first->is_shared)
        return false;
    if (first->messages == NULL)
        return vol_marks_are_wanted() && !is_independent(caller, request->dxpl);
    if (!is_collective(caller, request->dxpl))
        return false;
    if (vol_dense_make(caller, transfer, true, 0, &rest->copy))
        *transfer = rest->copy.transfer;
    const bool is_alone =
        vol_exchange_make(caller, rest->copy.nbytes, transfer, &rest->exchange);
    if (rest->exchange.values != NULL)
        vol_dense_free(library, &rest->copy);
    rest->held_nbytes = rest->copy.nbytes + rest->exchange.nbytes;
    return is_alone;
}

/* Lets HDF5 write marks instead of values. False: HDF5 needs the values. */
static bool
mark(const void *caller, const struct vol_transfer *transfer, struct rest *rest)
{
    rest->marks = vol_marks_make(caller, transfer);
    rest->src[0] = vol_marks_values(rest->marks, &rest->mem_spaces[0],
                                    &rest->file_spaces[0]);
    rest->under[0] = transfer->dataset->under;
    rest->types[0] = transfer->type;
    rest->count = rest->src[0] != NULL;
    return rest->count == 1;
}

/* Moves a transfer in batches, or its whole chunks: *transfer then is the
 * border, which HDF5 must move. */
static enum vol_moved
move_whole_chunks(const void *caller, struct vol_transfer *transfer,
                  struct rest *rest)
{
    struct vol_border *border = &rest->parts[rest->count].border;

    if (!vol_border_make(caller, transfer, border))
        return vol_batches_move(caller, transfer);
    const enum vol_moved moved = vol_batches_move(caller, &border->inner);
    if (moved == VOL_MOVED) {
        *transfer = border->transfer;
        return VOL_LEFT;
    }
    vol_border_close(transfer->dataset->library, border);
    return moved;
}

/* Moves a transfer in batches; a write by way of a copy of its values where
 * these have gaps or another type. HDF5 gets the copy of a shared dataset's
 * values, some chunks of which are encoded ahead. */
static enum vol_moved
move_batch(const void *caller, struct vol_transfer *transfer, struct rest *rest)
{
    struct vol_dense *dense = &rest->parts[rest->count].dense;

    if (!vol_dense_make(caller, transfer, false, rest->held_nbytes, dense))
        return move_whole_chunks(caller, transfer, rest);
    const enum vol_moved moved = vol_batches_move(caller, &dense->transfer);
    if (moved == VOL_LEFT && transfer->dataset->is_shared) {
        *transfer = dense->transfer;
        rest->held_nbytes += dense->nbytes;
    } else {
        vol_dense_free(transfer->dataset->library, dense);
    }
    return moved;
}

/* Lets a process whose transfer has failed take part in a collective call of
 * HDF5, for which other processes wait. False: there is none, or HDF5 fails. */
static bool
take_part(const struct vol_transfer *transfer, struct rest *rest)
{
    const struct vol_library *library = transfer->dataset->library;
    hid_t errors = library->H5Eget_current_stack();

    rest->has_failed = true;
    if (transfer->dataset->is_shared)
        rest->parts[rest->count].none = select_none(transfer);
    library->H5Eset_current_stack(errors);
    return rest->parts[rest->count].none >= 0;
}

/* Moves the datasets that can go in batches, and lists the rest, with values in
 * host memory. */
static herr_t
move_batches(const void *caller, const struct request *request, bool may_mark,
             struct rest *rest)
{
    for (size_t i = 0; i < request->count; i++) {
        struct vol_transfer transfer = transfer_of(caller, request, i);
        if (request->src != NULL)
            vol_dense_convert_nothing(caller, &transfer);
        if (may_mark && writes_alone(caller, request, &transfer, rest) &&
            mark(caller, &transfer, rest)) {
            free_copies(transfer.dataset->library, rest);
            rest->held_nbytes = 0;
            break;
        }
        const enum vol_moved moved = move_batch(caller, &transfer, rest);
        if (moved == VOL_FAILED)
            return -1;
        if (moved == VOL_MOVED && !transfer.dataset->is_shared)
            continue;
        const void *src = transfer.src;
        struct part *part = &rest->parts[rest->count];
        if (moved == VOL_MOVED)
            part->none = select_none(&transfer);
        if (part->none < 0 && transfer.on_device) {
            const enum vol_moved in_parts = stage(caller, &transfer, rest);
            if (in_parts == VOL_FAILED && !take_part(&transfer, rest))
                return -1;
            if (in_parts == VOL_MOVED)
                continue;
            src = part->staged.values;
            transfer.dst = part->staged.values;
        }
        if (part->none < 0)
            vol_ahead_add(caller, &transfer, src, &rest->ahead);
        rest->under[rest->count] = transfer.dataset->under;
        rest->types[rest->count] = transfer.type;
        rest->mem_spaces[rest->count] =
            part->none < 0 ? transfer.mem_space : part->none;
        rest->file_spaces[rest->count] =
            part->none < 0 ? transfer.file_space : part->none;
        rest->src[rest->count] = src;
        rest->dst[rest->count] = transfer.dst;
        rest->count++;
    }
    return 0;
}

/* Closes spaces, copies values that were read to the device, and frees the host
 * copies. */
static herr_t
end_rest(const void *caller, const struct vol_library *library,
         struct rest *rest, herr_t result)
{
    bool is_copied = true;

    for (size_t i = 0; i < rest->count; i++) {
        struct part *part = &rest->parts[i];
        if (part->none >= 0)
            library->H5Sclose(part->none);
        vol_dense_free(library, &part->dense);
        vol_border_close(library, &part->border);
    }
    free_copies(library, rest);
    for (size_t i = 0; i < rest->count; i++)
        is_copied &= vol_device_unstage(caller, is_copied && result >= 0,
                                        &rest->parts[i].staged);
    return is_copied ? result : -1;
}

/* Names the remedy where a write failed that HDF5 refuses: an independent write
 * through MPI to a dataset with filters, which a rule may have set. */
static void
say_independent(const void *caller, const struct request *request)
{
    const struct vol_object *first = request->datasets[0];
    const struct vol_library *library = first->library;
    hid_t errors = library->H5Eget_current_stack();

    for (size_t i = 0; i < request->count; i++) {
        const struct vol_object *dataset = request->datasets[i];
        /* Other processes may not take part in reading the properties. */
        if (dataset->reads_together)
            continue;
        hid_t dcpl =
            vol_dataset_id(dataset, VOL_DATASET_GET_DCPL, request->dxpl);
        const bool has_filters =
            dcpl >= 0 && library->H5Pget_nfilters(dcpl) > 0;
        if (dcpl >= 0)
            library->H5Pclose(dcpl);
        if (!dataset->is_shared || !has_filters ||
            !is_independent(caller, request->dxpl) ||
            terp_verbosity() == TERP_VERBOSITY_QUIET)
            continue;
        char *path = vol_object_path(dataset, H5I_DATASET, request->dxpl);
        fprintf(stderr,
                "H5Z-TERP: %s: HDF5 refuses independent writes through MPI to "
                "a compressed dataset; write it collectively "
                "(H5Pset_dxpl_mpio), or give it the bound \"none\" in "
                "TERP_RULES\n",
                path == NULL ? "a dataset" : path);
        free(path);
    }
    library->H5Eset_current_stack(errors);
}

static herr_t
serve(const void *caller, const struct request *request, bool may_mark,
      void **req)
{
    const struct vol_object *first = request->datasets[0];
    const struct vol_library *library = first->library;
    struct rest rest;

    if (!make_rest(request->count, &rest))
        return -1;
    herr_t result = move_batches(caller, request, may_mark, &rest);
    const hid_t errors =
        rest.has_failed ? library->H5Eget_current_stack() : H5I_INVALID_HID;
    vol_ahead_begin(rest.ahead);
    terp_prepared_hold(rest.held_nbytes + vol_marks_begin(rest.marks));
    if (result >= 0 && rest.count > 0 && request->src != NULL)
        result = library->H5VLdataset_write(
            rest.count, rest.under, first->vol, rest.types, rest.mem_spaces,
            rest.file_spaces, request->dxpl, rest.src, req);
    else if (result >= 0 && rest.count > 0)
        result = library->H5VLdataset_read(
            rest.count, rest.under, first->vol, rest.types, rest.mem_spaces,
            rest.file_spaces, request->dxpl, rest.dst, req);
    if (rest.has_failed) {
        result = -1;
        library->H5Eset_current_stack(errors);
    }
    terp_prepared_hold(0);
    vol_ahead_end(caller, rest.ahead);
    const enum vol_marked marked =
        rest.marks == NULL
            ? VOL_MARKED
            : vol_marks_end(caller, library, result >= 0,
                            was_collective(caller, request->dxpl), rest.marks);
    if (marked == VOL_OVERLAPPED)
        result = -1;
    if (result < 0 && request->src != NULL)
        say_independent(caller, request);
    vol_object_take_request(first, req);
    result = end_rest(caller, library, &rest, result);
    free_rest(request->count, &rest);
    return marked == VOL_UNMARKED ? serve(caller, request, false, req) : result;
}

/* Begins the transfers, if all of them can go on after the call. */
static bool
begin(const void *caller, const struct request *request, void **req)
{
    struct vol_transfer *transfers = malloc(request->count * sizeof *transfers);

    if (transfers == NULL)
        return false;
    for (size_t i = 0; i < request->count; i++) {
        transfers[i] = transfer_of(caller, request, i);
        transfers[i].is_pending = true;
    }
    const enum vol_moved moved =
        vol_pending_begin(caller, request->count, transfers, req);
    free(transfers);
    return moved == VOL_MOVED;
}

/* With `waits`, completes the pending transfers that a transfer of the dataset
 * may see: terp leaves small datasets to HDF5, so that calls on small datasets
 * do not wait. A virtual dataset has values of datasets in any files. Fails if
 * an earlier write of the dataset's file failed. */
static herr_t
settle_dataset(const void *caller, struct vol_object *dataset, hid_t dxpl,
               bool waits)
{
    const enum vol_sight sight = waits && vol_pending_any()
                                     ? vol_plan_sight(caller, dataset, dxpl)
                                     : VOL_SEES_NOTHING;

    if (sight == VOL_SEES_FILE)
        return vol_pending_settle(dataset, H5I_DATASET, dxpl);
    if (sight == VOL_SEES_ALL)
        vol_pending_settle_all(dataset->library);
    return vol_pending_check(dataset, H5I_DATASET, dxpl);
}

static herr_t
settle(const void *caller, const struct request *request, bool waits)
{
    herr_t result = 0;

    for (size_t i = 0; result >= 0 && i < request->count; i++)
        result =
            settle_dataset(caller, request->datasets[i], request->dxpl, waits);
    return result;
}

herr_t
vol_dataset_read(size_t count, void **datasets, hid_t *types, hid_t *mem_spaces,
                 hid_t *file_spaces, hid_t dxpl, void **buffers, void **req)
{
    const void *caller = __builtin_return_address(0);
    const struct request request = {count,       datasets, types, mem_spaces,
                                    file_spaces, dxpl,     NULL,  buffers};

    if (settle(caller, &request, true) < 0)
        return -1;
    return req != NULL && begin(caller, &request, req)
               ? 0
               : serve(caller, &request, true, req);
}

herr_t
vol_dataset_write(size_t count, void **datasets, hid_t *types,
                  hid_t *mem_spaces, hid_t *file_spaces, hid_t dxpl,
                  const void **buffers, void **req)
{
    const void *caller = __builtin_return_address(0);
    const struct request request = {count,       datasets, types,   mem_spaces,
                                    file_spaces, dxpl,     buffers, NULL};
    const struct vol_object *dataset = datasets[0];

    vol_pending_progress(dataset->library);
    if (settle(caller, &request, false) < 0)
        return -1;
    if ((req != NULL || vol_pending_is_wanted()) &&
        begin(caller, &request, req))
        return 0;
    return settle(caller, &request, true) < 0
               ? -1
               : serve(caller, &request, true, req);
}

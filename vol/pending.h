/* Transfers of datasets that have begun and are not complete, of event sets and
 * of TERP_ASYNC.
 *
 * A thread encodes or decodes (filter/h5/coder.h). It calls no function of
 * HDF5. The program's own threads call HDF5, inside their calls, in the order
 * in which the operations began. So it works with every build of HDF5, and a
 * thread that waits while it holds HDF5's lock waits for nothing that needs the
 * lock. Each libhdf5 has its own operations. */
#pragma once

#include "vol/batches.h"
#include "vol/request.h"

/* Whether TERP_ASYNC is set. */
bool
vol_pending_is_wanted(void);

/* Whether anything is pending, of any library. */
bool
vol_pending_any(void);

/* Begins the transfers of one call, of one library, all or none. The values to
 * write are copied, or if they are on the device encoded. VOL_LEFT: the caller
 * must move them now. `req` NULL: nobody waits for the transfers. */
enum vol_moved
vol_pending_begin(const void *caller, size_t n, struct vol_transfer *transfers,
                  void **req);

/* Completes what the thread is done with, in order. */
void
vol_pending_progress(const struct vol_library *library);

/* Completes everything of the object's file. Fails, once for a write, if a
 * write of the file failed for which nobody waits. `type` is the H5I_type_t of
 * the object. */
herr_t
vol_pending_settle(const struct vol_object *object, int type, hid_t dxpl);
/* As vol_pending_settle for all files. */
herr_t
vol_pending_settle_files(const struct vol_library *library);
/* Only fails as vol_pending_settle does. */
herr_t
vol_pending_check(const struct vol_object *object, int type, hid_t dxpl);

/* Completes everything of the library. */
void
vol_pending_settle_all(const struct vol_library *library);

/* Whether a file waits to be closed. */
bool
vol_pending_has_closed_file(const struct vol_library *library);

/* Closes a dataset or a file, and frees the object. A dataset with pending
 * operations is closed later. So is a file with pending operations, if `req` is
 * given and the program has opened the file once: HDF5 closes one of several
 * handles only while the handle has an id. If a write to the file failed and
 * the program has not waited for the write, the call closes the file, keeps the
 * object and fails. A second call then frees the object. */
herr_t
vol_pending_close(struct vol_object *object, int type, hid_t dxpl, void **req);

/* Callbacks of the connector's class, for its own requests. */
herr_t
vol_pending_wait(struct vol_request *request, uint64_t timeout_ns,
                 int *status_ret);
herr_t
vol_pending_cancel(struct vol_request *request, int *status_ret);
/* Operations of the request that are pending remain so. */
void
vol_pending_free(struct vol_request *request);

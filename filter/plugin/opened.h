/* What HDF5 says of the chunks of datasets that the program has open.
 *
 * HDF5 tells a filter nothing of the dataset whose chunk it reads, and takes
 * what the filter gives for a whole chunk: of a shorter one it reads what is
 * behind it in memory. cd_values and streams are what a file says, and may be
 * made to deceive. */
#pragma once

#include "codec/api/cd_values.h"
#include "filter/plugin/host.h"

/* What H5VLquery_optional asks terp's connector, and its answer where HDF5's
 * own connector is the next one: the calls of others may wait for another
 * thread.
 */
#define TERP_OPENED_QUERY 46117
#define TERP_OPENED_ABOVE_NATIVE 1u

enum terp_opened {
    TERP_OPENED_UNKNOWN, /* the dataset may be one that is not known */
    TERP_OPENED_FITS,    /* an open dataset has chunks of this size */
    TERP_OPENED_OTHER    /* all that may be meant have chunks of another size */
};

/* Looks for datasets with these cd_values of terp whose chunks, as the filter
 * has them, are `chunk_nbytes` long. *largest_nbytes_ret is the size of the
 * largest chunk of any with these cd_values, 0 where none is known. Where the
 * words are `true_so_far`, because they tell that size themselves, only
 * datasets are looked at that were not open before. *may_be_written_ret: some
 * open file may be written, or HDF5 does not tell. Safe for threads. */
enum terp_opened
terp_opened_find(const struct terp_host *host, bool true_so_far,
                 size_t cd_nelmts, const unsigned *cd_values,
                 uint64_t chunk_nbytes, uint64_t *largest_nbytes_ret,
                 bool *may_be_written_ret);

/* To be called when an HDF5 gets the filter: one that was closed before numbers
 * its datasets anew, so that all are looked at again. Safe for threads. */
void
terp_opened_forget(void);

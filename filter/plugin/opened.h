/* Reads the chunk sizes of the program's open datasets from HDF5.
 *
 * HDF5 does not tell a filter whose chunk it reads, and does not check how many
 * bytes the filter returns: of a chunk that is too short, HDF5 reads the memory
 * after its end. cd_values and streams come from the file, and a hostile file
 * may lie in both. So the sizes of the open datasets are the check. */
#pragma once

#include "codec/api/cd_values.h"
#include "filter/plugin/host.h"

/* The number of a query to terp's connector (H5VLquery_optional), and the
 * answer where HDF5's own connector is directly below it. Calls of any other
 * connector might wait for another thread. */
#define TERP_OPENED_QUERY 46117
#define TERP_OPENED_ABOVE_NATIVE 1u

enum terp_opened {
    TERP_OPENED_UNKNOWN, /* the dataset may be one that HDF5 does not tell */
    TERP_OPENED_FITS,    /* a matching dataset has chunks of this size */
    TERP_OPENED_OTHER    /* all matching datasets have another chunk size */
};

/* Looks for open datasets with these cd_values of terp whose chunks, as the
 * filter gets them, have `chunk_nbytes`. *largest_nbytes_ret is the size of the
 * largest chunk of such a dataset; 0: none is known. `words_agree`: the
 * cd_values themselves tell the size `chunk_nbytes`; then only datasets that
 * were opened since the last call are checked, and none in a program that uses
 * MPI. *may_be_written_ret: some open file may be written, or HDF5 does not
 * tell. Safe for threads. */
enum terp_opened
terp_opened_find(const struct terp_host *host, bool words_agree,
                 size_t cd_nelmts, const unsigned *cd_values,
                 uint64_t chunk_nbytes, uint64_t *largest_nbytes_ret,
                 bool *may_be_written_ret);

/* Makes the next call check all datasets. Called when an HDF5 loads the filter:
 * an HDF5 that was closed and opened again also restarts its ids. Safe for
 * threads. */
void
terp_opened_forget(void);

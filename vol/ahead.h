/* Encodes the chunks of a write ahead of HDF5, for files that several processes
 * write together. HDF5 exchanges values between the processes and hands each
 * chunk to the filter of one of them. A chunk that one process writes as a
 * whole stays in this process, so its stream can be made before, in a batch.
 * The filter compares values: where HDF5 hands over other values, it encodes
 * them as always. */
#pragma once

#include "filter/plugin/prepared.h"
#include "vol/batches.h"

/* What is encoded ahead for the datasets of one call of H5Dwrite. */
struct vol_ahead;

/* Adds a transfer that HDF5 will write from `values` in host memory;
 * transfer->src may be in device memory. Does nothing where nothing can be
 * encoded ahead, or memory is short. *ahead starts as NULL. */
void
vol_ahead_add(const void *caller, const struct vol_transfer *transfer,
              const void *values, struct vol_ahead **ahead);

/* Offers the streams to the filter's calls in this thread. NULL is allowed. */
void
vol_ahead_begin(struct vol_ahead *ahead);

/* Ends the offer and frees `ahead`. NULL is allowed. */
void
vol_ahead_end(const void *caller, struct vol_ahead *ahead);

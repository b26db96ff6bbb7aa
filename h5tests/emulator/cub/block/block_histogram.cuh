/* cub::BlockHistogram: counts of items in shared (or global) memory, to be
 * read after a __syncthreads. */
#pragma once

#include "cub/emulated.cuh"

namespace cub
{

enum BlockHistogramAlgorithm {
    BLOCK_HISTO_SORT,
    BLOCK_HISTO_ATOMIC
};

template <typename T, int BLOCK_DIM_X, int NITEMS, int NBINS,
          BlockHistogramAlgorithm = BLOCK_HISTO_SORT>
struct BlockHistogram {
    using TempStorage = emulated_storage;
    TempStorage *storage;
    emulator_place place;

    BlockHistogram(TempStorage &storage_,
                   emulator_place place_ = emulator_here())
        : storage(&storage_), place(place_)
    {
    }

    template <typename Count> void InitHistogram(Count *counts)
    {
        for (unsigned bin = emulator_rank(); bin < NBINS; bin += BLOCK_DIM_X)
            counts[bin] = 0;
    }

    template <typename Count> void Composite(T (&items)[NITEMS], Count *counts)
    {
        struct part {
            T *items;
        } mine = {items};
        emulator_place at = place;
        TempStorage *used = storage;
        emulator_meet(EMULATOR_BLOCK, "Composite", place, mine,
                      [=](part **parts, unsigned n) {
                          emulator_use_storage(used, at);
                          for (unsigned i = 0; i < n * NITEMS; i++)
                              counts[parts[i / NITEMS]->items[i % NITEMS]]++;
                      });
    }

    template <typename Count> void Histogram(T (&items)[NITEMS], Count *counts)
    {
        InitHistogram(counts);
        __syncthreads();
        Composite(items, counts);
    }
};

} // namespace cub

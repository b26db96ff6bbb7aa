/* cub::WarpReduce: the first lane of a (logical) warp gets the result. */
#pragma once

#include "cub/emulated.cuh"

namespace cub
{

template <typename T, int LOGICAL_WARP_THREADS = 32> struct WarpReduce {
    using TempStorage = emulated_storage;
    emulator_place place;

    WarpReduce(TempStorage &, emulator_place place_ = emulator_here())
        : place(place_)
    {
    }

    template <typename Op> T Reduce(T in, Op op)
    {
        T total = emulated_scan<T>(EMULATOR_WARP, "Reduce", place, nullptr,
                                   LOGICAL_WARP_THREADS, &in, nullptr, 1, op,
                                   false, nullptr);
        return emulator_rank() % LOGICAL_WARP_THREADS == 0
                   ? total
                   : emulator_poison<T>();
    }

    T Sum(T in)
    {
        return Reduce(in, emulated_plus<T>());
    }
};

} // namespace cub

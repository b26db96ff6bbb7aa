/* cub::WarpScan: one item a lane. */
#pragma once

#include "cub/emulated.cuh"

namespace cub
{

template <typename T, int LOGICAL_WARP_THREADS = 32> struct WarpScan {
    using TempStorage = emulated_storage;
    emulator_place place;

    WarpScan(TempStorage &, emulator_place place_ = emulator_here())
        : place(place_)
    {
    }

    template <typename Op>
    T scan(const char *name, T *in, T *out, int nitems, Op op,
           bool is_exclusive, const T *initial)
    {
        return emulated_scan(EMULATOR_WARP, name, place, nullptr,
                             LOGICAL_WARP_THREADS, in, out, nitems, op,
                             is_exclusive, initial);
    }

    void ExclusiveSum(T in, T &out)
    {
        T zero = T(0);
        scan("ExclusiveSum", &in, &out, 1, emulated_plus<T>(), true, &zero);
    }

    template <typename Op> void ExclusiveScan(T in, T &out, T initial, Op op)
    {
        scan("ExclusiveScan", &in, &out, 1, op, true, &initial);
    }

    template <typename Op> void ExclusiveScan(T in, T &out, Op op)
    {
        scan("ExclusiveScan", &in, &out, 1, op, true, nullptr);
    }

    void ExclusiveSum(T in, T &out, T &aggregate)
    {
        T zero = T(0);
        aggregate =
            scan("ExclusiveSum", &in, &out, 1, emulated_plus<T>(), true, &zero);
    }

    template <typename Op>
    void ExclusiveScan(T in, T &out, T initial, Op op, T &aggregate)
    {
        aggregate = scan("ExclusiveScan", &in, &out, 1, op, true, &initial);
    }

    template <typename Op> void ExclusiveScan(T in, T &out, Op op, T &aggregate)
    {
        aggregate = scan("ExclusiveScan", &in, &out, 1, op, true, nullptr);
    }

    void InclusiveSum(T in, T &out)
    {
        scan("InclusiveSum", &in, &out, 1, emulated_plus<T>(), false, nullptr);
    }

    template <typename Op> void InclusiveScan(T in, T &out, Op op)
    {
        scan("InclusiveScan", &in, &out, 1, op, false, nullptr);
    }

    void InclusiveSum(T in, T &out, T &aggregate)
    {
        aggregate = scan("InclusiveSum", &in, &out, 1, emulated_plus<T>(),
                         false, nullptr);
    }

    template <typename Op> void InclusiveScan(T in, T &out, Op op, T &aggregate)
    {
        aggregate = scan("InclusiveScan", &in, &out, 1, op, false, nullptr);
    }
};

} // namespace cub

/* cub::BlockScan: one item a thread, or an array of them. */
#pragma once

#include "cub/emulated.cuh"

namespace cub
{

enum BlockScanAlgorithm {
    BLOCK_SCAN_RAKING,
    BLOCK_SCAN_RAKING_MEMOIZE,
    BLOCK_SCAN_WARP_SCANS
};

template <typename T, int BLOCK_DIM_X, BlockScanAlgorithm = BLOCK_SCAN_RAKING,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1>
struct BlockScan {
    using TempStorage = emulated_storage;
    TempStorage *storage;
    emulator_place place;

    BlockScan(TempStorage &storage_, emulator_place place_ = emulator_here())
        : storage(&storage_), place(place_)
    {
    }

    template <typename Op>
    T scan(const char *name, T *in, T *out, int nitems, Op op,
           bool is_exclusive, const T *initial)
    {
        return emulated_scan(EMULATOR_BLOCK, name, place, storage,
                             BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, in, out,
                             nitems, op, is_exclusive, initial);
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

    template <int N> void ExclusiveSum(T (&in)[N], T (&out)[N])
    {
        T zero = T(0);
        scan("ExclusiveSum", in, out, N, emulated_plus<T>(), true, &zero);
    }

    template <int N, typename Op>
    void ExclusiveScan(T (&in)[N], T (&out)[N], T initial, Op op)
    {
        scan("ExclusiveScan", in, out, N, op, true, &initial);
    }

    template <int N, typename Op>
    void ExclusiveScan(T (&in)[N], T (&out)[N], Op op)
    {
        scan("ExclusiveScan", in, out, N, op, true, nullptr);
    }

    template <int N> void ExclusiveSum(T (&in)[N], T (&out)[N], T &aggregate)
    {
        T zero = T(0);
        aggregate =
            scan("ExclusiveSum", in, out, N, emulated_plus<T>(), true, &zero);
    }

    template <int N, typename Op>
    void ExclusiveScan(T (&in)[N], T (&out)[N], T initial, Op op, T &aggregate)
    {
        aggregate = scan("ExclusiveScan", in, out, N, op, true, &initial);
    }

    template <int N, typename Op>
    void ExclusiveScan(T (&in)[N], T (&out)[N], Op op, T &aggregate)
    {
        aggregate = scan("ExclusiveScan", in, out, N, op, true, nullptr);
    }

    template <int N> void InclusiveSum(T (&in)[N], T (&out)[N])
    {
        scan("InclusiveSum", in, out, N, emulated_plus<T>(), false, nullptr);
    }

    template <int N, typename Op>
    void InclusiveScan(T (&in)[N], T (&out)[N], Op op)
    {
        scan("InclusiveScan", in, out, N, op, false, nullptr);
    }

    template <int N> void InclusiveSum(T (&in)[N], T (&out)[N], T &aggregate)
    {
        aggregate = scan("InclusiveSum", in, out, N, emulated_plus<T>(), false,
                         nullptr);
    }

    template <int N, typename Op>
    void InclusiveScan(T (&in)[N], T (&out)[N], Op op, T &aggregate)
    {
        aggregate = scan("InclusiveScan", in, out, N, op, false, nullptr);
    }
};

} // namespace cub

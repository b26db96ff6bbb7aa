/* cub::BlockReduce: thread 0 alone gets the result. */
#pragma once

#include "cub/emulated.cuh"

namespace cub
{

enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
    BLOCK_REDUCE_RAKING,
    BLOCK_REDUCE_WARP_REDUCTIONS
};

template <typename T, int BLOCK_DIM_X,
          BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1>
struct BlockReduce {
    using TempStorage = emulated_storage;
    TempStorage *storage;
    emulator_place place;

    BlockReduce(TempStorage &storage_, emulator_place place_ = emulator_here())
        : storage(&storage_), place(place_)
    {
    }

    template <typename Op> T reduce(const char *name, T *in, int nitems, Op op)
    {
        T total = emulated_scan<T>(EMULATOR_BLOCK, name, place, storage,
                                   BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, in,
                                   nullptr, nitems, op, false, nullptr);
        return emulator_rank() == 0 ? total : emulator_poison<T>();
    }

    template <typename Op> T Reduce(T in, Op op)
    {
        return reduce("Reduce", &in, 1, op);
    }

    template <typename Op> T Reduce(T in, Op op, int nvalid)
    {
        return reduce("Reduce", &in, emulator_rank() < (unsigned)nvalid, op);
    }

    template <int N, typename Op> T Reduce(T (&in)[N], Op op)
    {
        return reduce("Reduce", in, N, op);
    }

    T Sum(T in)
    {
        return reduce("Sum", &in, 1, emulated_plus<T>());
    }

    T Sum(T in, int nvalid)
    {
        return reduce("Sum", &in, emulator_rank() < (unsigned)nvalid,
                      emulated_plus<T>());
    }

    template <int N> T Sum(T (&in)[N])
    {
        return reduce("Sum", in, N, emulated_plus<T>());
    }
};

} // namespace cub

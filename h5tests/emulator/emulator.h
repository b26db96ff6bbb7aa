/* The device side of the emulator. It runs one block at a time, with a fiber
 * for each thread.
 *
 * The fibers of a block run one after another; each runs until it waits at a
 * barrier or ends. Threads, and the blocks of a grid, start in ascending order
 * in one launch and in descending order in the next. So code that lacks a
 * barrier gives different results. Accesses beyond a block's dynamic shared
 * memory end the program.
 *
 * The emulator cannot show: races inside a statement, between lanes that a warp
 * primitive happens to order, or between blocks that run at the same time; the
 * memory model; limits of registers and of static shared memory; speed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define __align__(nbytes) alignas(nbytes)

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
        : x(x_), y(y_), z(z_)
    {
    }
    constexpr dim3(uint3 from) : x(from.x), y(from.y), z(from.z)
    {
    }
};

/* Set whenever a fiber resumes. __thread is read without a function call. */
extern __thread uint3 threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

/* The position of a barrier in the source, for reports. */
struct emulator_place {
    const char *file;
    int line;
};

inline emulator_place
emulator_here(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return {file, line};
}

/* The group of threads that wait for each other. */
enum emulator_group {
    EMULATOR_BLOCK,
    EMULATOR_WARP
};

/* Waits until every live thread of the group has posted an item under the same
 * name from the same place. The last to arrive calls finish(argument, items,
 * nitems). items[i] belongs to thread i of the group and lies on that thread's
 * stack; it is null if that thread has ended. */
void
emulator_meet(emulator_group group, const char *name, emulator_place place,
              void *item,
              void (*finish)(void *argument, void **items, unsigned nitems),
              void *argument);

template <typename Item, typename Finish>
void
emulator_meet(emulator_group group, const char *name, emulator_place place,
              Item &item, Finish finish)
{
    emulator_meet(
        group, name, place, &item,
        [](void *argument, void **items, unsigned nitems) {
            (*static_cast<Finish *>(argument))(reinterpret_cast<Item **>(items),
                                               nitems);
        },
        &finish);
}

/* Reports that a block uses a collective's storage again without __syncthreads
 * since its last use, and aborts. */
void
emulator_use_storage(const void *storage, emulator_place place);

/* The running block's dynamic shared memory, aligned to 16 bytes. */
unsigned char *
emulator_dynamic_shared(void);

/* What each thread of a grid runs: a kernel with its arguments. (Not a
 * std::function, because clang-tidy would spend as long on <functional> as on
 * the rest of a CUDA file.) */
class emulator_work
{
  public:
    virtual ~emulator_work() = default;
    virtual void run() const = 0;
};

/* Runs a grid on the calling thread. */
void
emulator_run_grid(dim3 grid, dim3 block, size_t shared_nbytes,
                  const emulator_work &kernel);

/* A value that no kernel should read. */
template <typename T>
T
emulator_poison()
{
    T value;
    __builtin_memset(static_cast<void *>(&value), 0xA5, sizeof value);
    return value;
}

#include "emulator_intrinsics.h"

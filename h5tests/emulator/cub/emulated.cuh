/* The block and warp collectives of CUB that terp's kernels use, with CUB's
 * own names and arguments: the last thread to arrive does the work for all, in
 * the order of the threads. Results that CUB leaves undefined are poison. */
#pragma once

#include "cuda_runtime.h"
#include <algorithm>
#include <type_traits>
#include <vector>

namespace cub
{

struct NullType {
};

struct emulated_storage {
    char used;
};

/* One thread's part of a reduction or scan. */
template <typename T> struct emulated_part {
    T *in, *out;
    int nitems;
    T result; /* aggregate of all */
};

template <typename T> struct emulated_plus {
    T operator()(const T &a, const T &b) const
    {
        return (T)(a + b);
    }
};

/* Scans the parts of threads first to end in order; the first output of an
 * exclusive scan is `initial` where there is one, else poison. */
template <typename T, typename Op>
void
emulated_scan(emulated_part<T> **parts, unsigned first, unsigned end, Op op,
              bool is_exclusive, const T *initial)
{
    bool has_running = initial != nullptr;
    bool has_total = false;
    T running = has_running ? *initial : emulator_poison<T>();
    T total = emulator_poison<T>();
    for (unsigned i = first; i < end; i++)
        for (int k = 0; parts[i] != nullptr && k < parts[i]->nitems; k++) {
            T item = parts[i]->in[k];
            T next = has_running ? (T)op(running, item) : item;
            if (parts[i]->out != nullptr)
                parts[i]->out[k] = is_exclusive ? running : next;
            running = next;
            has_running = true;
            total = has_total ? (T)op(total, item) : item;
            has_total = true;
        }
    for (unsigned i = first; i < end; i++)
        if (parts[i] != nullptr)
            parts[i]->result = total;
}

/* Scans the whole block, or each group of `width` lanes of a warp. */
template <typename T, typename Op>
T
emulated_scan(emulator_group group, const char *name, emulator_place place,
              const void *storage, unsigned width, T *in, T *out, int nitems,
              Op op, bool is_exclusive, const T *initial)
{
    emulated_part<T> mine = {in, out, nitems, emulator_poison<T>()};
    emulator_meet(group, name, place, mine,
                  [&](emulated_part<T> **parts, unsigned n) {
                      if (group == EMULATOR_BLOCK)
                          emulator_use_storage(storage, place);
                      for (unsigned i = 0; i < n; i += width)
                          emulated_scan(parts, i, std::min(n, i + width), op,
                                        is_exclusive, initial);
                  });
    return mine.result;
}

} // namespace cub

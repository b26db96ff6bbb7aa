/* cub::BlockRadixSort with CUB's names and arguments: a stable sort of unsigned
 * keys. Thread t's items come before those of thread t + 1. The last thread to
 * arrive sorts for all. */
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

template <typename Key, int BLOCK_DIM_X, int NITEMS, typename Value = NullType>
struct BlockRadixSort {
    static_assert(std::is_unsigned<Key>::value, "other keys are not emulated");
    static constexpr int KEY_NBITS = 8 * (int)sizeof(Key);

    using TempStorage = emulated_storage;
    TempStorage *storage;
    emulator_place place;

    BlockRadixSort(TempStorage &storage_,
                   emulator_place place_ = emulator_here())
        : storage(&storage_), place(place_)
    {
    }

    void sort(const char *name, Key *keys, Value *values, int begin_bit,
              int end_bit, bool is_descending)
    {
        struct pair {
            Key key;
            Value value;
        };
        struct part {
            Key *keys;
            Value *values;
        } mine = {keys, values};
        emulator_place at = place;
        TempStorage *used = storage;
        Key mask = (Key)((Key)(~(Key)0 >> (KEY_NBITS - end_bit + begin_bit))
                         << begin_bit);
        emulator_meet(
            EMULATOR_BLOCK, name, place, mine, [=](part **parts, unsigned n) {
                emulator_use_storage(used, at);
                std::vector<pair> pairs;
                for (unsigned i = 0; i < n * NITEMS; i++) {
                    const part *from = parts[i / NITEMS];
                    pairs.push_back({from->keys[i % NITEMS],
                                     from->values == nullptr
                                         ? Value()
                                         : from->values[i % NITEMS]});
                }
                std::stable_sort(pairs.begin(), pairs.end(),
                                 [=](const pair &a, const pair &b) {
                                     Key x = a.key & mask;
                                     Key y = b.key & mask;
                                     return is_descending ? x > y : x < y;
                                 });
                for (unsigned i = 0; i < n * NITEMS; i++) {
                    const part *to = parts[i / NITEMS];
                    to->keys[i % NITEMS] = pairs[i].key;
                    if (to->values != nullptr)
                        to->values[i % NITEMS] = pairs[i].value;
                }
            });
    }

    void Sort(Key (&keys)[NITEMS], int begin_bit = 0, int end_bit = KEY_NBITS)
    {
        sort("Sort", keys, nullptr, begin_bit, end_bit, false);
    }

    void Sort(Key (&keys)[NITEMS], Value (&values)[NITEMS], int begin_bit = 0,
              int end_bit = KEY_NBITS)
    {
        sort("Sort", keys, values, begin_bit, end_bit, false);
    }

    void SortDescending(Key (&keys)[NITEMS], int begin_bit = 0,
                        int end_bit = KEY_NBITS)
    {
        sort("SortDescending", keys, nullptr, begin_bit, end_bit, true);
    }

    void SortDescending(Key (&keys)[NITEMS], Value (&values)[NITEMS],
                        int begin_bit = 0, int end_bit = KEY_NBITS)
    {
        sort("SortDescending", keys, values, begin_bit, end_bit, true);
    }
};

} // namespace cub

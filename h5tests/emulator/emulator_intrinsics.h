/* The built-in device functions that terp's kernels use. */
#pragma once

#include "emulator.h"

/* Barriers of a block. */

void
__syncthreads(emulator_place place = emulator_here());

inline int
emulator_vote(emulator_group group, const char *name, emulator_place place,
              bool predicate, int *any_ret, int *all_ret)
{
    struct vote {
        bool predicate;
        int ntrue, any, all;
    } mine = {predicate, 0, 0, 0};
    emulator_meet(group, name, place, mine, [](vote **items, unsigned n) {
        int ntrue = 0;
        int nlive = 0;
        for (unsigned i = 0; i < n; i++) {
            nlive += items[i] != nullptr;
            ntrue += items[i] != nullptr && items[i]->predicate;
        }
        for (unsigned i = 0; i < n; i++)
            if (items[i] != nullptr) {
                items[i]->ntrue = ntrue;
                items[i]->any = ntrue > 0;
                items[i]->all = ntrue == nlive;
            }
    });
    *any_ret = mine.any;
    *all_ret = mine.all;
    return mine.ntrue;
}

int
__syncthreads_count(int predicate, emulator_place place = emulator_here());
int
__syncthreads_or(int predicate, emulator_place place = emulator_here());
int
__syncthreads_and(int predicate, emulator_place place = emulator_here());

/* Warp primitives. All lanes take part, because the mask is full. */

void
emulator_check_mask(unsigned mask, emulator_place place);
void
__syncwarp(unsigned mask = 0xFFFFFFFF, emulator_place place = emulator_here());
unsigned
__ballot_sync(unsigned mask, int predicate,
              emulator_place place = emulator_here());

inline int
__any_sync(unsigned mask, int predicate, emulator_place place = emulator_here())
{
    int any, all;
    emulator_check_mask(mask, place);
    emulator_vote(EMULATOR_WARP, "__any_sync", place, predicate != 0, &any,
                  &all);
    return any;
}

inline int
__all_sync(unsigned mask, int predicate, emulator_place place = emulator_here())
{
    int any, all;
    emulator_check_mask(mask, place);
    emulator_vote(EMULATOR_WARP, "__all_sync", place, predicate != 0, &any,
                  &all);
    return all;
}

/* Each lane gets the value of lane `from`, or poison if that lane has ended. */
template <typename T>
T
emulator_shuffle(const char *name, emulator_place place, T value, unsigned from)
{
    struct exchange {
        T value, result;
        unsigned from;
    } mine = {value, value, from};
    emulator_meet(EMULATOR_WARP, name, place, mine,
                  [](exchange **items, unsigned n) {
                      for (unsigned i = 0; i < n; i++) {
                          if (items[i] == nullptr)
                              continue;
                          unsigned at = items[i]->from;
                          items[i]->result = at < n && items[at] != nullptr
                                                 ? items[at]->value
                                                 : emulator_poison<T>();
                      }
                  });
    return mine.result;
}

/* The running thread's number in its block. */
inline unsigned
emulator_rank(void)
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

/* A width of less than 32 splits the warp into groups of that many lanes. */
template <typename T>
T
__shfl_sync(unsigned mask, T value, int from, int width = 32,
            emulator_place place = emulator_here())
{
    unsigned lane = emulator_rank() % 32;
    unsigned w = (unsigned)width;
    emulator_check_mask(mask, place);
    return emulator_shuffle("__shfl_sync", place, value,
                            lane / w * w + (unsigned)from % w);
}

template <typename T>
T
__shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
               emulator_place place = emulator_here())
{
    unsigned lane = emulator_rank() % 32;
    emulator_check_mask(mask, place);
    return emulator_shuffle("__shfl_up_sync", place, value,
                            lane % (unsigned)width < delta ? lane
                                                           : lane - delta);
}

template <typename T>
T
__shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 emulator_place place = emulator_here())
{
    unsigned lane = emulator_rank() % 32;
    unsigned w = (unsigned)width;
    emulator_check_mask(mask, place);
    return emulator_shuffle("__shfl_down_sync", place, value,
                            lane % w + delta < w ? lane + delta : lane);
}

template <typename T>
T
__shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                emulator_place place = emulator_here())
{
    unsigned lane = emulator_rank() % 32;
    unsigned w = (unsigned)width;
    unsigned from = lane ^ (unsigned)bits;
    emulator_check_mask(mask, place);
    return emulator_shuffle("__shfl_xor_sync", place, value,
                            from / w <= lane / w ? from : lane);
}

template <typename T>
unsigned
__match_any_sync(unsigned mask, T value, emulator_place place = emulator_here())
{
    struct match {
        T value;
        unsigned lanes;
    } mine = {value, 0};
    emulator_check_mask(mask, place);
    emulator_meet(EMULATOR_WARP, "__match_any_sync", place, mine,
                  [](match **items, unsigned n) {
                      for (unsigned i = 0; i < n; i++)
                          for (unsigned k = 0; k < n; k++)
                              if (items[i] != nullptr && items[k] != nullptr &&
                                  items[i]->value == items[k]->value)
                                  items[i]->lanes |= 1U << k;
                  });
    return mine.lanes;
}

/* Gives the warp's threads `all`, joined with the values of all of them. */
template <typename Join>
unsigned
emulator_reduce(const char *name, unsigned mask, emulator_place place,
                unsigned value, unsigned all, Join join)
{
    emulator_check_mask(mask, place);
    emulator_meet(EMULATOR_WARP, name, place, value,
                  [&](unsigned **items, unsigned n) {
                      for (unsigned i = 0; i < n; i++)
                          if (items[i] != nullptr)
                              all = join(all, *items[i]);
                      for (unsigned i = 0; i < n; i++)
                          if (items[i] != nullptr)
                              *items[i] = all;
                  });
    return value;
}

inline unsigned
__reduce_add_sync(unsigned mask, unsigned value,
                  emulator_place place = emulator_here())
{
    return emulator_reduce("__reduce_add_sync", mask, place, value, 0,
                           [](unsigned a, unsigned b) { return a + b; });
}

inline unsigned
__reduce_min_sync(unsigned mask, unsigned value,
                  emulator_place place = emulator_here())
{
    return emulator_reduce(
        "__reduce_min_sync", mask, place, value, 0xFFFFFFFF,
        [](unsigned a, unsigned b) { return a < b ? a : b; });
}

inline unsigned
__reduce_or_sync(unsigned mask, unsigned value,
                 emulator_place place = emulator_here())
{
    return emulator_reduce("__reduce_or_sync", mask, place, value, 0,
                           [](unsigned a, unsigned b) { return a | b; });
}

/* Atomics on integers of 32 and 64 bits; each returns the old value. */

template <typename T, typename Update>
T
emulator_atomic(T *at, Update update)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "32 or 64 bits");
    static_assert((T)1 / 2 == 0, "integers only");
    T old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(at, &old, update(old), false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}

#define EMULATOR_ATOMICS(T)                                                   \
    inline T atomicAdd(T *at, T x)                                            \
    {                                                                         \
        return emulator_atomic(at, [x](T old) { return (T)(old + x); });      \
    }                                                                         \
    inline T atomicMin(T *at, T x)                                            \
    {                                                                         \
        return emulator_atomic(at, [x](T old) { return x < old ? x : old; }); \
    }                                                                         \
    inline T atomicMax(T *at, T x)                                            \
    {                                                                         \
        return emulator_atomic(at, [x](T old) { return x > old ? x : old; }); \
    }                                                                         \
    inline T atomicOr(T *at, T x)                                             \
    {                                                                         \
        return emulator_atomic(at, [x](T old) { return old | x; });           \
    }                                                                         \
    inline T atomicAnd(T *at, T x)                                            \
    {                                                                         \
        return emulator_atomic(at, [x](T old) { return old & x; });           \
    }                                                                         \
    inline T atomicXor(T *at, T x)                                            \
    {                                                                         \
        return emulator_atomic(at, [x](T old) { return old ^ x; });           \
    }                                                                         \
    inline T atomicExch(T *at, T x)                                           \
    {                                                                         \
        return emulator_atomic(at, [x](T) { return x; });                     \
    }                                                                         \
    inline T atomicCAS(T *at, T expected, T x)                                \
    {                                                                         \
        return emulator_atomic(                                               \
            at, [=](T old) { return old == expected ? x : old; });            \
    }
EMULATOR_ATOMICS(int)
EMULATOR_ATOMICS(unsigned)
EMULATOR_ATOMICS(unsigned long long)
#undef EMULATOR_ATOMICS

inline void
__threadfence(void)
{
}

inline void
__threadfence_system(void)
{
}

/* Bit functions. */

inline int
__popc(unsigned x)
{
    return __builtin_popcount(x);
}

inline int
__popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}

inline int
__clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((unsigned)x);
}

inline int
__clzll(long long x)
{
    return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}

inline int
__ffs(int x)
{
    return __builtin_ffs(x);
}

inline int
__ffsll(long long x)
{
    return __builtin_ffsll(x);
}

inline unsigned long long
__brevll(unsigned long long x)
{
    unsigned long long reversed = 0;
    for (int i = 0; i < 64; i++)
        reversed |= (x >> i & 1) << (63 - i);
    return reversed;
}

/* Byte i of the result is the byte of (high, low) that nibble i selects, or
 * copies of that byte's sign if the nibble's top bit is set. */
inline unsigned
__byte_perm(unsigned low, unsigned high, unsigned selector)
{
    uint64_t bytes = (uint64_t)high << 32 | low;
    unsigned result = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned nibble = selector >> (4 * i) & 15;
        unsigned byte = (unsigned)(bytes >> (8 * (nibble & 7)) & 255);
        if (nibble & 8)
            byte = byte & 128 ? 255 : 0;
        result |= byte << (8 * i);
    }
    return result;
}

inline unsigned
__funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    uint64_t both = (uint64_t)high << 32 | low;
    return (unsigned)(both << (shift & 31) >> 32);
}

inline unsigned
__funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    uint64_t both = (uint64_t)high << 32 | low;
    return (unsigned)(both >> (shift & 31));
}

template <typename To, typename From>
To
emulator_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "same bits");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

inline unsigned
__float_as_uint(float x)
{
    return emulator_bits<unsigned>(x);
}

inline float
__uint_as_float(unsigned x)
{
    return emulator_bits<float>(x);
}

inline double
__longlong_as_double(long long x)
{
    return emulator_bits<double>(x);
}

template <typename T>
T
__ldg(const T *at)
{
    return *at;
}

/* In CUDA the functions below are outside of any namespace. */
#define EMULATOR_MIN_MAX(T)   \
    inline T min(T a, T b)    \
    {                         \
        return b < a ? b : a; \
    }                         \
    inline T max(T a, T b)    \
    {                         \
        return a < b ? b : a; \
    }
EMULATOR_MIN_MAX(int)
EMULATOR_MIN_MAX(unsigned)
EMULATOR_MIN_MAX(long)
EMULATOR_MIN_MAX(unsigned long)
EMULATOR_MIN_MAX(long long)
EMULATOR_MIN_MAX(unsigned long long)
#undef EMULATOR_MIN_MAX

#define EMULATOR_VECTORS(T, name)                     \
    struct alignas(2 * sizeof(T)) name##2             \
    {                                                 \
        T x, y;                                       \
    };                                                \
    struct alignas(16) name##4                        \
    {                                                 \
        T x, y, z, w;                                 \
    };                                                \
    inline name##2 make_##name##2(T x, T y)           \
    {                                                 \
        return {x, y};                                \
    }                                                 \
    inline name##4 make_##name##4(T x, T y, T z, T w) \
    {                                                 \
        return {x, y, z, w};                          \
    }
EMULATOR_VECTORS(int, int)
EMULATOR_VECTORS(unsigned, uint)
EMULATOR_VECTORS(float, float)
EMULATOR_VECTORS(double, double)
EMULATOR_VECTORS(unsigned long long, ulonglong)
#undef EMULATOR_VECTORS

/* XXH3 with 64 bits and a seed, for more than 240 bytes, by many threads. The
 * library that the CPU engine uses has no code for devices. Source: the
 * specification of xxHash (Yann Collet, doc/xxhash_spec.md of the reference
 * implementation, "XXH3").
 *
 * XXH3 adds one stripe of 64 bytes after another to eight accumulators and
 * scrambles them at the end of each block of 16 stripes. What a stripe adds
 * does not depend on the accumulators. Threads therefore sum up all blocks in
 * parallel, and only the scrambling goes from block to block. */
#pragma once

#include "gpu/engine/platform.cuh"

/* The sizes and primes of the specification. A stripe has a word of 8 bytes for
 * each of XXH3_NLANES accumulators. Inputs shorter than XXH3_MIN_NBYTES are
 * hashed in another way, which the device does not need. */
#define XXH3_NLANES 8
#define XXH3_STRIPE_NBYTES (8 * XXH3_NLANES)
#define XXH3_BLOCK_NSTRIPES 16
#define XXH3_BLOCK_NBYTES (XXH3_STRIPE_NBYTES * XXH3_BLOCK_NSTRIPES)
#define XXH3_MIN_NBYTES 241
#define XXH3_SECRET_NWORDS 24

#define XXH3_PRIME32_1 UINT64_C(0x9E3779B1)
#define XXH3_PRIME32_2 UINT64_C(0x85EBCA77)
#define XXH3_PRIME32_3 UINT64_C(0xC2B2AE3D)
#define XXH3_PRIME64_1 UINT64_C(0x9E3779B185EBCA87)
#define XXH3_PRIME64_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define XXH3_PRIME64_3 UINT64_C(0x165667B19E3779F9)
#define XXH3_PRIME64_4 UINT64_C(0x85EBCA77C2B2AE63)
#define XXH3_PRIME64_5 UINT64_C(0x27D4EB2F165667C5)

/* The default secret of 192 bytes, as little-endian words, followed by the
 * first values of the accumulators. One load per thread fetches both. */
#define XXH3_TABLE_NWORDS (XXH3_SECRET_NWORDS + XXH3_NLANES)
static __device__ const uint64_t xxh3_table[XXH3_TABLE_NWORDS] = {
    0xBE4BA423396CFEB8, 0x1CAD21F72C81017C, 0xDB979083E96DD4DE,
    0x1F67B3B7A4A44072, 0x78E5C0CC4EE679CB, 0x2172FFCC7DD05A82,
    0x8E2443F7744608B8, 0x4C263A81E69035E0, 0xCB00C391BB52283C,
    0xA32E531B8B65D088, 0x4EF90DA297486471, 0xD8ACDEA946EF1938,
    0x3F349CE33F76FAA8, 0x1D4F0BC7C7BBDCF9, 0x3159B4CD4BE0518A,
    0x647378D9C97E9FC8, 0xC3EBD33483ACC5EA, 0xEB6313FAFFA081C5,
    0x49DAF0B751DD0D17, 0x9E68D429265516D3, 0xFCA1477D58BE162B,
    0xCE31D07AD1B8F88F, 0x280416958F3ACB45, 0x7E404BBBCAFBD7AF,
    XXH3_PRIME32_3,     XXH3_PRIME64_1,     XXH3_PRIME64_2,
    XXH3_PRIME64_3,     XXH3_PRIME64_4,     XXH3_PRIME32_2,
    XXH3_PRIME64_5,     XXH3_PRIME32_1};

/* A block of threads derives the secret from the seed. The secret is visible
 * after the next barrier. */
static __device__ __forceinline__ void
xxh3_make_secret(uint64_t seed, uint64_t s_secret[XXH3_TABLE_NWORDS])
{
    unsigned i = threadIdx.x;

    if (i < XXH3_TABLE_NWORDS) {
        uint64_t word = xxh3_table[i];
        if (i < XXH3_SECRET_NWORDS)
            word = i % 2 == 0 ? word + seed : word - seed;
        s_secret[i] = word;
    }
}

/* Returns eight bytes of the secret, from any byte on. */
static __device__ __forceinline__ uint64_t
xxh3_key(const uint64_t *secret, unsigned byte)
{
    unsigned shift = 8 * (byte % 8);
    uint64_t low = secret[byte / 8];

    return shift == 0 ? low
                      : low >> shift | secret[byte / 8 + 1] << (64 - shift);
}

/* Loads eight bytes of the input from any address. An aligned address needs
 * only one load. */
static __device__ __forceinline__ uint64_t
xxh3_load(const uint8_t *at)
{
    uint64_t word = 0;

    if ((uintptr_t)at % 8 == 0)
        return *(const uint64_t *)at;
#pragma unroll
    for (int i = 0; i < 8; i++)
        word |= (uint64_t)at[i] << (8 * i);
    return word;
}

/* Returns the summand of a lane of a stripe for its own accumulator. The lane
 * also adds its input to the accumulator of its neighbour. */
static __device__ __forceinline__ uint64_t
xxh3_product(uint64_t input, uint64_t key)
{
    uint64_t mixed = input ^ key;
    return (mixed & 0xFFFFFFFF) * (mixed >> 32);
}

/* Returns how many whole blocks precede the block that holds the last byte. */
static __device__ __forceinline__ uint64_t
xxh3_nblocks(uint64_t nbytes)
{
    return (nbytes - 1) / XXH3_BLOCK_NBYTES;
}

/* A warp sums up `nstripes` stripes, at most a block. Returns their sum for
 * accumulator lane % 8. A lane reads word lane % 8 of every fourth stripe;
 * key[i] belongs to its i-th stripe. */
static __device__ __forceinline__ uint64_t
xxh3_sum_stripes(const uint8_t *input, unsigned nstripes,
                 const uint64_t key[XXH3_BLOCK_NSTRIPES / 4])
{
    unsigned lane = threadIdx.x % 32;
    uint64_t products = 0, inputs = 0;

#pragma unroll
    for (unsigned i = 0; i < XXH3_BLOCK_NSTRIPES / 4; i++) {
        if (4 * i + lane / XXH3_NLANES < nstripes) {
            uint64_t word = xxh3_load(input + 8 * (32 * i + lane));
            products += xxh3_product(word, key[i]);
            inputs += word;
        }
    }
    products += __shfl_xor_sync(FULL_WARP_MASK, inputs, 1);
    products += __shfl_xor_sync(FULL_WARP_MASK, products, 8);
    products += __shfl_xor_sync(FULL_WARP_MASK, products, 16);
    return products;
}

/* Finds the keys that xxh3_sum_stripes needs. */
static __device__ __forceinline__ void
xxh3_stripe_keys(const uint64_t *secret, uint64_t key[XXH3_BLOCK_NSTRIPES / 4])
{
    unsigned lane = threadIdx.x % 32;

#pragma unroll
    for (unsigned i = 0; i < XXH3_BLOCK_NSTRIPES / 4; i++)
        key[i] = secret[4 * i + lane / XXH3_NLANES + lane % XXH3_NLANES];
}

/* Returns the first value of accumulator lane % 8. */
static __device__ __forceinline__ uint64_t
xxh3_first(const uint64_t *secret)
{
    return secret[XXH3_SECRET_NWORDS + threadIdx.x % XXH3_NLANES];
}

/* Scrambles an accumulator (value.x is its low half), to which the sum of a
 * block has been added, and adds the sum of the next block. Each block of a
 * stream waits for this step of the block before. The function works on halves,
 * so a step takes no more than a shift, an xor and a multiply-add of 64 bits.
 */
static __device__ __forceinline__ uint2
xxh3_scramble_add(uint2 value, uint2 key, uint2 next_sum)
{
    const uint32_t prime = (uint32_t)XXH3_PRIME32_1;
    uint32_t low = value.x ^ value.y >> 15 ^ key.x;
    uint32_t carried = (value.y ^ key.y) * prime + next_sum.y;
    uint64_t next =
        (uint64_t)low * prime + ((uint64_t)carried << 32 | next_sum.x);

    return make_uint2((uint32_t)next, (uint32_t)(next >> 32));
}

/* Where in the secret the keys of the scrambling, of the last stripe and of the
 * final mixing begin, in bytes. */
#define XXH3_SCRAMBLE_AT (8 * XXH3_SECRET_NWORDS - XXH3_STRIPE_NBYTES)
#define XXH3_LAST_STRIPE_AT (XXH3_SCRAMBLE_AT - 7)
#define XXH3_END_AT 11

static __device__ __forceinline__ uint64_t
xxh3_mul_high(uint64_t a, uint64_t b)
{
    uint64_t al = a & 0xFFFFFFFF, ah = a >> 32;
    uint64_t bl = b & 0xFFFFFFFF, bh = b >> 32;
    uint64_t middle = (al * bl >> 32) + (ah * bl & 0xFFFFFFFF) + al * bh;
    return ah * bh + (ah * bl >> 32) + (middle >> 32);
}

/* A warp turns the accumulators into the hash, which all lanes get. `value` is
 * accumulator lane % 8. */
static __device__ __forceinline__ uint64_t
xxh3_end(uint64_t value, const uint64_t *secret, uint64_t nbytes)
{
    uint64_t mixed =
        value ^ xxh3_key(secret, XXH3_END_AT + 8 * (threadIdx.x % XXH3_NLANES));
    uint64_t other = __shfl_xor_sync(FULL_WARP_MASK, mixed, 1);
    uint64_t folded = mixed * other ^ xxh3_mul_high(mixed, other);
    /* Both lanes of a pair hold the same number, so only pairs are added. */
    folded += __shfl_xor_sync(FULL_WARP_MASK, folded, 2);
    folded += __shfl_xor_sync(FULL_WARP_MASK, folded, 4);
    uint64_t hash = nbytes * XXH3_PRIME64_1 + folded;
    hash ^= hash >> 37;
    hash *= UINT64_C(0x165667919E3779F9);
    return hash ^ hash >> 32;
}

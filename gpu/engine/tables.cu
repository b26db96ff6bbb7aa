/* Makes the tables on the host and copies them to the device in one transfer.
 */
#include "gpu/engine/tables.cuh"

#include <stdlib.h>

#include "gpu/engine/places.cuh"
#include "gpu/entropy/codebooks.cuh"
#include "gpu/entropy/decode_table.cuh"
#include "gpu/entropy/token_decode_table.cuh"
#include "gpu/entropy/tokens_encode.cuh"

/* The place of a table of `nitems` items of type T at offset *at of the memory
 * at `begin`. Moves *at behind the table, to a multiple of 256 bytes, which is
 * cudaMalloc's alignment. */
template <typename T>
static T *
place(uint8_t *begin, uint64_t *at, uint64_t nitems)
{
    /* `begin` may be NULL. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return (T *)((uintptr_t)begin + place_take(at, nitems * sizeof(T)));
}

/* Points `tables` into the memory at `begin`, on the host or the device.
 * Returns the bytes of all tables. */
static uint64_t
place_all(struct cuda_tables *tables, uint8_t *begin)
{
    uint64_t at = 0;

    tables->d_cost =
        place<uint16_t>(begin, &at, TERP_NROWS * TERP_ENTRY_STRIDE);
    tables->d_half_octave_cost =
        place<uint16_t>(begin, &at, TERP_NHALF_OCTAVES * TERP_ENTRY_STRIDE);
    tables->d_code_nbits =
        place<uint8_t>(begin, &at, TERP_NSYMBOLS * TERP_ENTRY_STRIDE);
    tables->d_codewords =
        place<uint32_t>(begin, &at, (uint64_t)TERP_NENTRIES * TERP_NSYMBOLS);
    tables->d_decode_tables =
        place<struct cuda_decode_table>(begin, &at, TERP_NENTRIES);
    tables->d_token_nbits =
        place<uint8_t>(begin, &at, TERP_NTOKENS * TERP_ENTRY_STRIDE);
    tables->d_token_codewords =
        place<uint32_t>(begin, &at, (uint64_t)TERP_NENTRIES * TERP_NTOKENS);
    tables->d_token_parts = place<uint32_t>(begin, &at, TOKEN_NPARTS);
    tables->d_token_decode_tables =
        place<struct cuda_token_decode_table>(begin, &at, TERP_NENTRIES);
    return at;
}

static void
fill(const struct cuda_tables *tables)
{
    static_assert(sizeof terp_entry_cost ==
                      TERP_NROWS * TERP_ENTRY_STRIDE * sizeof(uint16_t),
                  "The dictionary's costs must have the copy's size.");
    memcpy((void *)tables->d_cost, terp_entry_cost, sizeof terp_entry_cost);
    static_assert(sizeof terp_entry_half_octave_cost ==
                      TERP_NHALF_OCTAVES * TERP_ENTRY_STRIDE * sizeof(uint16_t),
                  "The costs of half octaves must have the copy's size.");
    memcpy((void *)tables->d_half_octave_cost, terp_entry_half_octave_cost,
           sizeof terp_entry_half_octave_cost);
    memcpy((void *)tables->d_code_nbits, terp_entry_code_nbits,
           (size_t)TERP_NSYMBOLS * TERP_ENTRY_STRIDE);
    memcpy((void *)tables->d_token_nbits, terp_entry_token_nbits,
           (size_t)TERP_NTOKENS * TERP_ENTRY_STRIDE);
    cuda_codewords_fill((uint32_t *)tables->d_codewords);
    cuda_decode_tables_fill(
        (struct cuda_decode_table *)tables->d_decode_tables);
    cuda_token_codewords_fill((uint32_t *)tables->d_token_codewords);
    cuda_token_parts_fill((uint32_t *)tables->d_token_parts);
    cuda_token_decode_tables_fill(
        (struct cuda_token_decode_table *)tables->d_token_decode_tables);
}

cudaError_t
cuda_tables_make(struct cuda_tables *tables, uint8_t **d_memory_ret,
                 cudaStream_t stream)
{
    uint64_t nbytes = place_all(tables, NULL);
    uint8_t *h_memory = (uint8_t *)calloc(1, nbytes);

    *d_memory_ret = NULL;
    if (h_memory == NULL)
        return cudaErrorMemoryAllocation;
    place_all(tables, h_memory);
    fill(tables);
    cudaError_t error = cudaMalloc((void **)d_memory_ret, nbytes);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(*d_memory_ret, h_memory, nbytes,
                                cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    place_all(tables, *d_memory_ret);
    free(h_memory);
    return error;
}

/* Mutations that know the layout of inputs in fuzz/choices.h. */
#include "codec/format/base.h"
#include "fuzz/choices.h"
#include "fuzz/streams.h"
#include "fuzz/target.h"

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t nbytes, size_t max_nbytes,
                        unsigned seed)
{
    uint64_t random = seed * UINT64_C(0x9E3779B97F4A7C15) >> 8;
    size_t at = FUZZ_NCHOICES;

    if (nbytes < FUZZ_NCHOICES || random % 16 == 0)
        return LLVMFuzzerMutate(data, nbytes, max_nbytes);
    random /= 16;
    at += 4 * (size_t)(data[FUZZ_NWORDS] % (FUZZ_MAX_NWORDS + 1));
    for (int i = data[FUZZ_NATTRIBUTES] % (FUZZ_MAX_NATTRIBUTES + 1);
         i > 0 && at + FUZZ_ATTRIBUTE_NBYTES <= nbytes; i--)
        at += (size_t)FUZZ_ATTRIBUTE_NBYTES + data[at + 3];
    if (at > nbytes)
        at = nbytes;
    const uint64_t part = random % 8;
    random /= 8;
    if (part < 2) { /* a choice */
        uint8_t *choice = data + random % FUZZ_NCHOICES;
        random /= FUZZ_NCHOICES;
        if (random % 2 == 0)
            *choice = (uint8_t)(random / 2);
        else
            *choice ^= (uint8_t)(1u << random / 2 % 8);
        return nbytes;
    }
    if (part < 4 && at > FUZZ_NCHOICES) { /* words and attributes */
        (void)LLVMFuzzerMutate(data + FUZZ_NCHOICES, at - FUZZ_NCHOICES,
                               at - FUZZ_NCHOICES);
        return nbytes;
    }
    return at + fuzz_stream_mutate(data + at, nbytes - at, max_nbytes - at,
                                   (unsigned)random);
}

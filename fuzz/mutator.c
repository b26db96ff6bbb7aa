/* The custom mutator of targets whose inputs are streams. */
#include "fuzz/streams.h"
#include "fuzz/target.h"

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t nbytes, size_t max_nbytes,
                        unsigned seed)
{
    return fuzz_stream_mutate(data, nbytes, max_nbytes, seed);
}

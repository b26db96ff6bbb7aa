/* The decoder of decoder/terp_decode.c and the codec decode any bytes to the
 * same values, or both refuse the bytes. */
#include "fuzz/streams.h"
#include "fuzz/target.h"
#include "h5tests/support/reader.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct fuzz_stream stream = fuzz_stream_make(data, nbytes);
    bool decoded;

    CHECK(reader_agrees(stream.bytes, nbytes, stream.max_chunk_nbytes, false,
                        &decoded));
    free(stream.bytes);
    return 0;
}

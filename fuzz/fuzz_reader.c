/* The decoder of decoder/terp_decode.c and the codec's say the same of any
 * bytes: the same values, or none. */
#include <stdlib.h>
#include <string.h>

#include "codec/format/frame.h"
#include "h5tests/support/reader.h"

#define MAX_CHUNK_NBYTES (16u << 10)

/* Survives NDEBUG. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    bool decoded;

    if (nbytes < TERP_FRAME_DIMS_AT)
        return 0;
    /* With a checksum that holds, to get at what lies behind it. */
    uint8_t *sealed = malloc(nbytes);
    CHECK(sealed != NULL);
    memcpy(sealed, data, nbytes);
    terp_frame_seal(sealed, nbytes);
    CHECK(reader_agrees(sealed, nbytes, MAX_CHUNK_NBYTES, false, &decoded));
    free(sealed);
    return 0;
}

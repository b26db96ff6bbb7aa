/* Any bytes are safe to decode: terp_decode, terp_inspect and
 * terp_decoded_nbytes agree with each other, stay inside their buffers (ASan)
 * and ask for little memory (libFuzzer's -malloc_limit_mb); what they return
 * depends neither on the number of threads nor on what was in `dst`. */
#include <stdlib.h>
#include <string.h>

#include "codec/api/terp.h"
#include "codec/format/frame.h"

#define MAX_CHUNK_NBYTES (64u << 10)

/* Survives NDEBUG. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

static void
decode(const uint8_t *src, size_t src_nbytes)
{
    uint64_t announced_nbytes = 0, one_nbytes = 0, two_nbytes = 0;
    struct terp_info info = {.size = sizeof info};
    enum terp_status sized =
        terp_decoded_nbytes(src, src_nbytes, &announced_nbytes);
    enum terp_status inspected = terp_inspect(src, src_nbytes, &info);

    CHECK((sized == TERP_OK) == (announced_nbytes != 0));
    if (inspected == TERP_OK)
        CHECK(sized == TERP_OK && info.chunk_nbytes == announced_nbytes &&
              info.stream_nbytes == src_nbytes);
    if (announced_nbytes > MAX_CHUNK_NBYTES) {
        CHECK(terp_decode(src, src_nbytes, NULL, 0, &one_nbytes, 1) != TERP_OK);
        return;
    }
    uint8_t *one = malloc(announced_nbytes + 1);
    uint8_t *two = malloc(announced_nbytes + 1);
    CHECK(one != NULL && two != NULL);
    memset(one, 0x00, announced_nbytes + 1);
    memset(two, 0xFF, announced_nbytes + 1);
    enum terp_status decoded =
        terp_decode(src, src_nbytes, one, announced_nbytes, &one_nbytes, 1);
    CHECK(terp_decode(src, src_nbytes, two, announced_nbytes, &two_nbytes, 2) ==
          decoded);
    if (decoded == TERP_OK) {
        CHECK(inspected == TERP_OK);
        CHECK(one_nbytes == announced_nbytes && two_nbytes == one_nbytes);
        CHECK(memcmp(one, two, one_nbytes) == 0);
        CHECK(terp_decode(src, src_nbytes, one, announced_nbytes - 1,
                          &one_nbytes, 1) == TERP_ERR_CAPACITY);
    }
    CHECK(one[announced_nbytes] == 0x00 && two[announced_nbytes] == 0xFF);
    free(one);
    free(two);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    decode(data, nbytes);
    if (nbytes >= TERP_FRAME_DIMS_AT) {
        /* With a checksum that holds, to get at what lies behind it. */
        uint8_t *sealed = malloc(nbytes);
        CHECK(sealed != NULL);
        memcpy(sealed, data, nbytes);
        terp_frame_seal(sealed, nbytes);
        decode(sealed, nbytes);
        free(sealed);
    }
    return 0;
}

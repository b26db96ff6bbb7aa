/* Any bytes are safe to inspect, however large the announced chunk is.
 * terp_inspect agrees with the frame. */
#include <string.h>

#include "codec/api/terp.h"
#include "fuzz/streams.h"
#include "fuzz/target.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct fuzz_stream stream = fuzz_stream_make(data, nbytes);
    struct terp_info info = {.size = sizeof info};
    uint64_t announced_nbytes = 0, ntiles = 0;
    const enum terp_status sized =
        terp_decoded_nbytes(stream.bytes, nbytes, &announced_nbytes);

    if (terp_inspect(stream.bytes, nbytes, &info) == TERP_OK) {
        CHECK(sized == TERP_OK && info.size == sizeof info);
        CHECK(info.chunk_nbytes == announced_nbytes);
        CHECK(info.stream_nbytes == nbytes);
        CHECK(terp_chunk_nbytes(&info.chunk) == announced_nbytes);
        /* Copies and complex values report the bound of their inner stream. */
        CHECK(terp_chunk_nbytes(&info.domain) > 0 &&
              terp_chunk_nbytes(&info.domain) <= announced_nbytes);
        CHECK(info.pipeline != NULL && info.predictor != NULL);
        for (int i = 0; i < 256; i++)
            ntiles += info.ntiles_with_entry[i];
        CHECK(info.ntiles_zero == TERP_COUNT_UNKNOWN
                  ? ntiles == 0
                  : ntiles + info.ntiles_zero <= info.ntiles);
        CHECK(info.index_nbytes == TERP_COUNT_UNKNOWN ||
              info.index_nbytes <= nbytes);
    }
    free(stream.bytes);
    return 0;
}

/* Writes and finds marks of chunks. */
#include "filter/plugin/marks.h"

#include <string.h>

/* "terpmark", and the number and the name in the byte order of the host: marks
 * do not leave the machines of one program. */
static const uint8_t beginning[8] = {'t', 'e', 'r', 'p', 'm', 'a', 'r', 'k'};

static _Thread_local struct terp_marks *offered;

void
terp_marks_write(const struct terp_marks *marks, uint32_t number,
                 uint8_t mark_ret[TERP_MARK_NBYTES])
{
    memcpy(mark_ret, beginning, 8);
    memcpy(mark_ret + 8, &marks->name, 4);
    memcpy(mark_ret + 12, &number, 4);
}

void
terp_marks_offer(struct terp_marks *marks)
{
    offered = marks;
}

const struct terp_marks *
terp_marks_offered(void)
{
    return offered;
}

enum terp_mark
terp_marks_take(const void *chunk, uint64_t nbytes, void **stream_ret,
                uint64_t *stream_nbytes_ret)
{
    uint32_t name, number;

    if (offered == NULL || nbytes < TERP_MARK_NBYTES ||
        memcmp(chunk, beginning, 8) != 0)
        return TERP_MARK_NONE;
    memcpy(&name, (const uint8_t *)chunk + 8, 4);
    memcpy(&number, (const uint8_t *)chunk + 12, 4);
    if (name != offered->name || number >= offered->nchunks ||
        offered->stream[number] == NULL) {
        offered->nforeign++;
        return TERP_MARK_FOREIGN;
    }
    *stream_ret = offered->stream[number];
    *stream_nbytes_ret = offered->stream_nbytes[number];
    offered->stream[number] = NULL;
    offered->ntaken++;
    return TERP_MARK_FOUND;
}

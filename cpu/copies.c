/* Finds copies, leaves them out, and puts them back. */
#include "cpu/copies.h"

#include <string.h>

#include "codec/format/copies.h"
#include "codec/format/types.h"
#include "cpu/pipeline.h"

/* An array [nouter][extent][inner_nbytes]: a dimension among the others. */
struct axis {
    uint64_t nouter, extent, inner_nbytes;
};

/* Dimension d where those of `single` have one point. */
static struct axis
axis_of(const struct terp_chunk *chunk, int d, unsigned single)
{
    struct axis axis = {1, terp_extent_of(chunk, d),
                        (uint64_t)terp_value_nbytes(chunk->type)};

    for (int e = 0; e < chunk->rank; e++)
        if ((single >> e & 1) == 0 && e < d)
            axis.inner_nbytes *= terp_extent_of(chunk, e);
        else if ((single >> e & 1) == 0 && e > d)
            axis.nouter *= terp_extent_of(chunk, e);
    return axis;
}

/* ---- encoding ---- */

static bool
is_copied(const struct axis *axis, const uint8_t *values)
{
    for (uint64_t o = 0; o < axis->nouter; o++) {
        const uint8_t *first = values + o * axis->extent * axis->inner_nbytes;
        for (uint64_t j = 1; j < axis->extent; j++)
            if (memcmp(first, first + j * axis->inner_nbytes,
                       axis->inner_nbytes) != 0)
                return false;
    }
    return true;
}

unsigned
terp_cpu_copies_find(const struct terp_chunk *chunk, const void *src)
{
    unsigned dims = 0;

    for (int d = 0; d < chunk->rank && !chunk->stack; d++) {
        const struct axis axis = axis_of(chunk, d, 0);
        if (axis.extent > 1 && is_copied(&axis, src))
            dims |= 1u << d;
    }
    return dims;
}

/* Takes the first point along all of some dimensions. */
static void
leave_out(const struct terp_chunk *chunk, unsigned dims, const void *src,
          uint8_t *left)
{
    const uint8_t *from = src;
    unsigned single = 0;

    for (int d = 0; d < chunk->rank; d++) {
        if ((dims >> d & 1) == 0)
            continue;
        const struct axis axis = axis_of(chunk, d, single);
        for (uint64_t o = 0; o < axis.nouter; o++)
            memmove(left + o * axis.inner_nbytes,
                    from + o * axis.extent * axis.inner_nbytes,
                    axis.inner_nbytes);
        from = left;
        single |= 1u << d;
    }
}

/* Keeps the stream if it is shorter. */
static void
write_stream(const struct terp_chunk *chunk, unsigned dims,
             const uint8_t *values, uint64_t values_nbytes, uint8_t *dst,
             uint64_t *nbytes)
{
    const struct terp_frame frame = {.chunk = *chunk,
                                     .coding = TERP_CODING_COPIES};
    const struct terp_chunk left = terp_copies_chunk(chunk, dims);
    const uint64_t most_nbytes =
        (uint64_t)terp_frame_nbytes(&frame) + 1 + values_nbytes;

    if (most_nbytes >= *nbytes)
        return;
    struct writer writer = {dst + terp_frame_write(&frame, dst), dst + *nbytes,
                            false};
    write_le(&writer, dims, 1);
    terp_parts_write(&writer, &left, values, values_nbytes, true);
    *nbytes = (uint64_t)(writer.at - dst);
    terp_frame_seal(dst, *nbytes);
}

enum terp_status
terp_cpu_copies_encode(const struct terp_cpu_call *call,
                       const struct terp_params *params,
                       const struct terp_chunk *chunk, unsigned dims,
                       const void *src, uint8_t *dst, uint64_t *nbytes)
{
    const struct terp_cpu_call own = {call->nthreads, call->allocator, true,
                                      call->limits};
    const struct terp_chunk left = terp_copies_chunk(chunk, dims);
    uint8_t *values =
        terp_allocate(call->allocator, terp_chunk_nbytes(chunk) / 2);
    uint8_t *stream = terp_allocate(call->allocator, terp_encode_bound(&left));
    uint64_t stream_nbytes;
    enum terp_status st =
        values == NULL || stream == NULL ? TERP_ERR_MEMORY : TERP_OK;

    if (st == TERP_OK) {
        leave_out(chunk, dims, src, values);
        st = terp_cpu_encode(&own, params, &left, values, stream,
                             &stream_nbytes);
    }
    if (st == TERP_OK)
        write_stream(chunk, dims, stream, stream_nbytes, dst, nbytes);
    terp_release(call->allocator, stream);
    terp_release(call->allocator, values);
    return st == TERP_ERR_CAPACITY ? TERP_OK : st;
}

/* ---- decoding ---- */

/* Puts copies back along all of some dimensions, the last value first: none is
 * written over that is still to be read. */
static void
put_back(const struct terp_chunk *chunk, unsigned dims, uint8_t *values)
{
    unsigned single = dims;

    for (int d = 0; d < chunk->rank; d++) {
        if ((dims >> d & 1) == 0)
            continue;
        const struct axis axis = axis_of(chunk, d, single);
        for (uint64_t o = axis.nouter; o-- > 0;) {
            const uint8_t *from = values + o * axis.inner_nbytes;
            uint8_t *to = values + o * axis.extent * axis.inner_nbytes;
            for (uint64_t j = axis.extent; j-- > 0;)
                if (to + j * axis.inner_nbytes != from)
                    memcpy(to + j * axis.inner_nbytes, from, axis.inner_nbytes);
        }
        single &= ~(1u << d);
    }
}

enum terp_status
terp_cpu_copies_decode(const struct terp_cpu_call *call,
                       const struct terp_chunk *chunk, const uint8_t *body,
                       uint64_t body_nbytes, void *dst)
{
    struct terp_copies copies;
    enum terp_status st = terp_copies_read(chunk, body, body_nbytes, &copies);

    if (st == TERP_OK)
        st = terp_cpu_decode(call, &copies.values.frame, copies.values.body,
                             copies.values.body_nbytes, 1, dst);
    if (st == TERP_OK)
        put_back(chunk, copies.dims, dst);
    return st;
}

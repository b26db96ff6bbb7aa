/* Streams for the targets that read them: how an input becomes a stream, and
 * mutations that know the frame, so that most mutated streams have a valid
 * frame. */
#include "fuzz/streams.h"

#include <string.h>

#include "codec/format/base.h"
#include "codec/format/frame.h"
#include "codec/format/types.h"
#include "fuzz/target.h"

/* ---- from an input to a stream ---- */

/* Corrects the checksums of all prefixes. */
static void
seal_prefixes(uint8_t *stream, size_t nbytes)
{
    uint32_t told[TERP_NPREFIXES];
    struct terp_frame frame;
    int frame_nbytes;

    if (terp_frame_read(stream, nbytes, &frame, &frame_nbytes) != TERP_OK ||
        !frame.has_prefixes)
        return;
    for (int i = 0; i < TERP_NPREFIXES; i++) {
        told[i] = frame.prefix[i].nbytes;
        if (told[i] < TERP_PREFIX_MIN_NBYTES || told[i] > nbytes)
            return;
    }
    terp_frame_seal_prefixes(stream, frame_nbytes, told);
}

struct fuzz_stream
fuzz_stream_make(const uint8_t *data, size_t nbytes)
{
    struct fuzz_stream stream = {.bytes = malloc(nbytes), .nbytes = nbytes};
    uint64_t choices = 0;

    CHECK(stream.bytes != NULL || nbytes == 0);
    if (nbytes > 0)
        memcpy(stream.bytes, data, nbytes);
    if (nbytes >= TERP_FRAME_DIMS_AT)
        choices = load_le(data + TERP_FRAME_CHECKSUM_AT, 8);
    stream.nthreads = (choices & 15) == 1 ? 2 : 1;
    stream.max_chunk_nbytes =
        (choices >> 4 & 15) == 1 ? FUZZ_LARGE_NBYTES : FUZZ_SMALL_NBYTES;
    stream.step = UINT64_C(2) << (choices >> 8 & 3);
    stream.again = (choices >> 10 & 3) == 1;
    stream.sealed = nbytes >= TERP_FRAME_DIMS_AT && (choices >> 12 & 63) != 1;
    stream.other = (uint8_t)(choices >> 24);
    if (stream.sealed) {
        seal_prefixes(stream.bytes, nbytes);
        terp_frame_seal(stream.bytes, nbytes);
    }
    return stream;
}

/* ---- values ---- */

void
fuzz_take(const struct terp_chunk *chunk, const uint8_t *values, uint64_t step,
          uint8_t *taken)
{
    const uint64_t nbytes = (uint64_t)terp_value_nbytes(chunk->type);
    const uint64_t nvalues = terp_chunk_nbytes(chunk) / nbytes;

    for (uint64_t v = 0; v < nvalues; v++) {
        uint64_t left = v;
        bool is_taken = true;
        for (int i = chunk->rank - 1; i >= 0; left /= chunk->dims[i--])
            is_taken &= left % chunk->dims[i] % step == 0;
        if (is_taken) {
            memcpy(taken, values + v * nbytes, nbytes);
            taken += nbytes;
        }
    }
}

/* ---- mutations ---- */

static uint32_t
next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

static uint32_t
random_below(uint64_t *random, uint64_t n)
{
    return (uint32_t)(next_random(random) % n);
}

/* A number below n. It is below 2 as often as from 2 to 4, from 4 to 8 and so
 * on, because the first bytes of a section say how to read the rest. */
static size_t
random_place(uint64_t *random, size_t n)
{
    const uint32_t width = random_below(random, (uint64_t)bit_width(n) + 1);

    return random_below(random, (UINT64_C(1) << width) + 1) % n;
}

/* Chooses dims for `nvalues` values: factors in a random order. */
static void
shape(uint64_t *random, uint64_t nvalues, struct terp_chunk *chunk)
{
    chunk->rank = 1 + (int)random_below(random, TERP_MAX_RANK);
    chunk->stack = chunk->rank > 1 && random_below(random, 4) == 0;
    for (int i = 0; i + 1 < chunk->rank; i++) {
        uint64_t dim = 1 + random_below(random, nvalues < 40 ? nvalues : 40);
        while (nvalues % dim != 0)
            dim--;
        chunk->dims[i] = dim;
        nvalues /= dim;
    }
    chunk->dims[chunk->rank - 1] = nvalues;
}

static double
random_bound(uint64_t *random)
{
    const int exponent = random_below(random, 4) == 0
                             ? (int)random_below(random, 2046) - 1022
                             : (int)random_below(random, 40) - 30;
    const uint64_t fraction =
        (uint64_t)next_random(random) << 21 & ((UINT64_C(1) << 52) - 1);

    return double_of_bits((uint64_t)(exponent + 1023) << 52 | fraction);
}

/* Changes one member of the frame. The result may be invalid. */
static void
change_frame(uint64_t *random, uint64_t nbytes, struct terp_frame *frame)
{
    const uint64_t nvalues = terp_chunk_nbytes(&frame->chunk) /
                             (uint64_t)terp_value_nbytes(frame->chunk.type);
    const int at = (int)random_below(random, (uint64_t)frame->chunk.rank);

    if (nvalues == 0) /* an earlier change may have made the chunk invalid */
        return;
    switch (random_below(random, 12)) {
    case 0:
        frame->chunk.type =
            (enum terp_type)random_below(random, (uint64_t)TERP_NTYPES);
        break;
    case 1:
        frame->chunk.big_endian = !frame->chunk.big_endian;
        break;
    case 2:
        frame->chunk.stack = frame->chunk.rank > 1 && !frame->chunk.stack;
        frame->domain.rank = 0;
        break;
    case 3:
        frame->chunk.dims[at] = 1 + random_place(random, 256);
        frame->domain.rank = 0;
        break;
    case 4:
        shape(random, nvalues, &frame->chunk);
        break;
    case 5:
        shape(random, nvalues, &frame->domain);
        break;
    case 6:
        frame->domain.rank = 0;
        break;
    case 7:
        do
            frame->coding = (enum terp_coding)random_below(random, 16);
        while (!terp_coding_is_valid(frame->coding));
        break;
    case 8:
        frame->prediction = (enum terp_prediction)random_below(
            random, (uint64_t)TERP_NPREDICTIONS);
        break;
    case 9:
        if (random_below(random, 2) == 0)
            frame->has_specials = !frame->has_specials;
        else
            frame->is_pointwise = !frame->is_pointwise;
        break;
    case 10:
        frame->bound = random_below(random, 16) > 0 ? random_bound(random) : 0;
        break;
    default:
        frame->has_prefixes = frame->prediction == TERP_PREDICTION_SPLINE &&
                              random_below(random, 4) > 0;
        for (int i = 0; i < TERP_NPREFIXES; i++)
            frame->prefix[i].nbytes =
                (uint32_t)(TERP_PREFIX_MIN_NBYTES +
                           (nbytes > TERP_PREFIX_MIN_NBYTES
                                ? random_below(random,
                                               nbytes - TERP_PREFIX_MIN_NBYTES +
                                                   1)
                                : random_below(random, 64)));
        break;
    }
}

/* Writes the changed frame in front of the old body. */
static size_t
mutate_frame(uint64_t *random, uint8_t *data, size_t nbytes, size_t max_nbytes,
             struct terp_frame *frame, size_t body_at)
{
    uint8_t head[TERP_FRAME_MAX_NBYTES];
    const size_t body_nbytes = nbytes - body_at;

    for (uint32_t n = 1 + random_below(random, 3); n > 0; n--)
        change_frame(random, nbytes, frame);
    const size_t table_nbytes = frame->has_prefixes ? TERP_PREFIXES_NBYTES : 0;
    const size_t table_at = (size_t)terp_frame_nbytes(frame);
    const size_t head_nbytes = table_at + table_nbytes;
    if (head_nbytes + body_nbytes > max_nbytes)
        return nbytes;
    CHECK((size_t)terp_frame_write(frame, head) == table_at);
    memset(head + table_at, 0, table_nbytes);
    for (int i = 0; i < TERP_NPREFIXES && frame->has_prefixes; i++) {
        head[TERP_FRAME_PREDICTION_AT] |= TERP_FRAME_PREFIXES;
        store_le(head + table_at + i * TERP_PREFIX_NBYTES,
                 frame->prefix[i].nbytes, 4);
    }
    memmove(data + head_nbytes, data + body_at, body_nbytes);
    memcpy(data + TERP_FRAME_DIMS_AT, head + TERP_FRAME_DIMS_AT,
           head_nbytes - TERP_FRAME_DIMS_AT);
    memcpy(data, head, TERP_FRAME_CHECKSUM_AT);
    return head_nbytes + body_nbytes;
}

/* Overwrites a few bytes. */
static void
overwrite(uint64_t *random, uint8_t *data, size_t nbytes)
{
    static const uint8_t telling[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};

    for (uint32_t n = 1 + random_below(random, 4); n > 0; n--) {
        uint8_t *at = data + random_place(random, nbytes);
        switch (random_below(random, 4)) {
        case 0:
            *at = telling[random_below(random, sizeof telling)];
            break;
        case 1:
            *at = (uint8_t)next_random(random);
            break;
        case 2:
            *at = (uint8_t)(*at + random_below(random, 9) - 4);
            break;
        default:
            *at ^= (uint8_t)(1u << random_below(random, 8));
            break;
        }
    }
}

/* Copies a range of bytes over another range. */
static void
copy_piece(uint64_t *random, uint8_t *data, size_t nbytes)
{
    const size_t n = 1 + random_place(random, nbytes);
    const size_t from = random_below(random, nbytes - n + 1);
    const size_t to = random_below(random, nbytes - n + 1);

    memmove(data + to, data + from, n);
}

static size_t
mutate_body(uint64_t *random, uint8_t *data, size_t nbytes, size_t max_nbytes)
{
    const size_t at = nbytes > 0 ? random_place(random, nbytes) : 0;
    size_t kept;

    switch (nbytes > 0 ? random_below(random, 8) : 7) {
    case 0:
    case 1:
    case 2:
        overwrite(random, data, nbytes);
        return nbytes;
    case 3:
        copy_piece(random, data, nbytes);
        return nbytes;
    case 4: /* libFuzzer mutates the next bytes, without moving the rest */
        kept = nbytes - at < 16 ? nbytes - at : 16;
        (void)LLVMFuzzerMutate(data + at, kept, kept);
        return nbytes;
    case 5:
        return nbytes - at; /* cut off the end */
    case 6:                 /* the rest may move */
        return at + LLVMFuzzerMutate(data + at, nbytes - at, max_nbytes - at);
    default:
        return LLVMFuzzerMutate(data, nbytes, max_nbytes);
    }
}

size_t
fuzz_stream_vary(uint8_t *data, size_t nbytes, uint64_t seed)
{
    uint64_t random = seed;
    struct terp_frame frame;
    int frame_nbytes;

    (void)next_random(&random);
    if (terp_frame_read(data, nbytes, &frame, &frame_nbytes) != TERP_OK ||
        (size_t)frame_nbytes == nbytes)
        return nbytes;
    uint8_t *body = data + frame_nbytes;
    const size_t body_nbytes = nbytes - (size_t)frame_nbytes;
    switch (random_below(&random, 8)) {
    case 0:
        return nbytes - 1 - random_place(&random, body_nbytes);
    case 1:
        copy_piece(&random, body, body_nbytes);
        return nbytes;
    default:
        overwrite(&random, body, body_nbytes);
        return nbytes;
    }
}

size_t
fuzz_stream_mutate(uint8_t *data, size_t nbytes, size_t max_nbytes,
                   unsigned seed)
{
    uint64_t random = seed;
    struct terp_frame frame;
    int frame_nbytes;

    (void)next_random(&random);
    if (random_below(&random, 16) == 0 ||
        terp_frame_read(data, nbytes, &frame, &frame_nbytes) != TERP_OK)
        return LLVMFuzzerMutate(data, nbytes, max_nbytes);
    const size_t body_at = (size_t)frame_nbytes;
    if (random_below(&random, 2) == 0)
        store_le(data + TERP_FRAME_CHECKSUM_AT, next_random(&random), 4);
    if (random_below(&random, 6) == 0)
        nbytes =
            mutate_frame(&random, data, nbytes, max_nbytes, &frame, body_at);
    else
        nbytes = body_at + mutate_body(&random, data + body_at,
                                       nbytes - body_at, max_nbytes - body_at);
    return nbytes;
}

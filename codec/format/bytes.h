/* A cursor that writes or reads bytes and never leaves its buffer. */
#pragma once

#include "codec/format/base.h"

/* Once something does not fit, `overflow` stays true and nothing more is
 * written. */
struct writer {
    uint8_t *at, *end;
    bool overflow;
};

/* Once a read goes beyond the end, `underflow` stays true. */
struct reader {
    const uint8_t *at, *end;
    bool underflow;
};

/* Reserves `nbytes` and returns a pointer to them; NULL when they do not
 * fit. */
static inline TERP_HOST_DEVICE uint8_t *
writer_take(struct writer *writer, uint64_t nbytes)
{
    if (writer->overflow || nbytes > (uint64_t)(writer->end - writer->at)) {
        writer->overflow = true;
        return NULL;
    }
    writer->at += nbytes;
    return writer->at - nbytes;
}

/* Returns a pointer to the next `nbytes` and skips them; NULL when they are
 * missing. */
static inline TERP_HOST_DEVICE const uint8_t *
reader_take(struct reader *reader, uint64_t nbytes)
{
    if (reader->underflow || nbytes > (uint64_t)(reader->end - reader->at)) {
        reader->underflow = true;
        return NULL;
    }
    reader->at += nbytes;
    return reader->at - nbytes;
}

static inline TERP_HOST_DEVICE void
write_le(struct writer *writer, uint64_t word, int nbytes)
{
    uint8_t *at = writer_take(writer, (uint64_t)nbytes);
    if (at != NULL)
        store_le(at, word, nbytes);
}

static inline TERP_HOST_DEVICE uint64_t
read_le(struct reader *reader, int nbytes)
{
    const uint8_t *at = reader_take(reader, (uint64_t)nbytes);
    return at == NULL ? 0 : load_le(at, nbytes);
}

static inline TERP_HOST_DEVICE void
write_raw(struct writer *writer, const void *src, uint64_t nbytes)
{
    uint8_t *at = writer_take(writer, nbytes);
    if (at != NULL)
        memcpy(at, src, nbytes);
}

/* ULEB128: seven bits a byte, low ones first, the high bit says "more". */
static inline TERP_HOST_DEVICE void
write_uleb(struct writer *writer, uint64_t value)
{
    do {
        uint64_t more = value > 0x7F ? 0x80 : 0;
        write_le(writer, (value & 0x7F) | more, 1);
        value >>= 7;
    } while (value != 0);
}

/* A value above 63 bits counts as an underflow: terp writes none. */
static inline TERP_HOST_DEVICE uint64_t
read_uleb(struct reader *reader)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
        uint64_t byte = read_le(reader, 1);
        value |= (byte & 0x7F) << shift;
        if (byte < 0x80)
            return value;
    }
    reader->underflow = true;
    return 0;
}

/* Bit i of a bit map, low bit first. */
static inline TERP_HOST_DEVICE bool
bit_at(const uint8_t *bitmap, uint64_t i)
{
    return bitmap[i / 8] >> (i % 8) & 1;
}

/* The number of bits that `value` needs; 0 for 0. */
static inline TERP_HOST_DEVICE int
bit_width(uint64_t value)
{
#ifdef __CUDA_ARCH__
    return 64 - __clzll((long long)value);
#else
    return value == 0 ? 0 : 64 - __builtin_clzll(value);
#endif
}

static inline TERP_HOST_DEVICE uint64_t
packed_nbytes(uint64_t nvalues, int width)
{
    return div_up(nvalues * (uint64_t)width, 8);
}

/* Stores a bit field of `width` (at most 56) bits, low bit first, at bit
 * `first_bit` of `bytes`. The bytes must be zero before the first field. */
static inline TERP_HOST_DEVICE void
pack_bits(uint8_t *bytes, uint64_t first_bit, int width, uint64_t value)
{
    uint8_t *at = bytes + first_bit / 8;
    int shift = (int)(first_bit % 8);
    for (value <<= shift, width += shift; width > 0; width -= 8, value >>= 8)
        *at++ |= (uint8_t)value;
}

/* Reserves zeroed bytes for `nvalues` fields; NULL when they do not fit. */
static inline TERP_HOST_DEVICE uint8_t *
writer_take_packed(struct writer *writer, uint64_t nvalues, int width)
{
    uint64_t nbytes = packed_nbytes(nvalues, width);
    uint8_t *at = writer_take(writer, nbytes);
    if (at != NULL)
        memset(at, 0, nbytes);
    return at;
}

static inline TERP_HOST_DEVICE uint64_t
unpack_bits(const uint8_t *bytes, uint64_t first_bit, int width)
{
    int shift = (int)(first_bit % 8);
    uint64_t word = load_le(bytes + first_bit / 8, (shift + width + 7) / 8);
    return word >> shift & (((uint64_t)1 << width) - 1);
}

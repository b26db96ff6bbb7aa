/* Writes and reads the index of tiles: which tiles are not zero, and where the
 * bytes of each begin in the payload. */
#include "cpu/sections/index.h"

#include <stdlib.h>

#include "codec/format/sections.h"

enum terp_status
terp_cpu_tile_index_make(uint64_t nsymbols, struct cpu_tile_index *index_ret)
{
    struct cpu_tile_index index = {
        .nsymbols = nsymbols, .ntiles = div_up(nsymbols, TERP_TILE_NSYMBOLS)};
    index.npartitions = div_up(index.ntiles, TERP_PARTITION_NTILES);
    uint64_t bitmap_nbytes = div_up(index.ntiles, 8);
    uint64_t nbytes = 8 * (index.npartitions + 1) + 2 * index.ntiles +
                      index.ntiles + bitmap_nbytes + index.npartitions +
                      TERP_BITMAP_MAX_NBYTES(bitmap_nbytes);

    index.memory = calloc(1, nbytes);
    if (index.memory == NULL)
        return TERP_ERR_MEMORY;
    index.begin = index.memory;
    index.nbytes = (uint16_t *)(index.begin + index.npartitions + 1);
    index.entry = (uint8_t *)(index.nbytes + index.ntiles);
    index.nonzero = index.entry + index.ntiles;
    index.reduced = (bool *)(index.nonzero + bitmap_nbytes);
    index.scratch = (uint8_t *)(index.reduced + index.npartitions);
    *index_ret = index;
    return TERP_OK;
}

void
terp_cpu_tile_index_free(struct cpu_tile_index *index)
{
    free(index->memory);
}

void
terp_cpu_tile_index_write_nonzero(struct writer *writer,
                                  struct cpu_tile_index *index)
{
    terp_bitmap_write(writer, index->nonzero, div_up(index->ntiles, 8),
                      index->scratch);
}

enum terp_status
terp_cpu_tile_index_read_nonzero(struct reader *reader,
                                 struct cpu_tile_index *index)
{
    terp_bitmap_read(reader, index->nonzero, div_up(index->ntiles, 8),
                     index->scratch);
    if (reader->underflow)
        return TERP_ERR_CORRUPT;
    for (uint64_t i = index->ntiles; i % 8 != 0; i++)
        if (bit_at(index->nonzero, i))
            return TERP_ERR_CORRUPT;
    return TERP_OK;
}

/* ---- lengths and offsets ---- */

static unsigned
min_nbytes(const struct cpu_tile_index *index, enum terp_coding coding,
           uint64_t tile)
{
    return terp_tile_min_nbytes(coding,
                                terp_tile_nsymbols(index->nsymbols, tile));
}

static uint64_t
count_nonzero(const struct cpu_tile_index *index, uint64_t partition)
{
    uint64_t nnonzero = 0;
    for (uint64_t i = cpu_first_tile(partition);
         i < cpu_end_tile(index, partition); i++)
        nnonzero += bit_at(index->nonzero, i);
    return nnonzero;
}

static int
length_width(const struct cpu_tile_index *index, enum terp_coding coding,
             uint64_t partition)
{
    unsigned all = 0;
    for (uint64_t i = cpu_first_tile(partition);
         i < cpu_end_tile(index, partition); i++)
        if (bit_at(index->nonzero, i))
            all |= index->nbytes[i] - min_nbytes(index, coding, i);
    return bit_width(all);
}

static void
write_lengths(struct writer *writer, const struct cpu_tile_index *index,
              enum terp_coding coding, uint64_t partition)
{
    int width = length_width(index, coding, partition);
    uint64_t packed = 0;
    uint8_t *at =
        writer_take_packed(writer, count_nonzero(index, partition), width);

    if (at == NULL)
        return;
    for (uint64_t i = cpu_first_tile(partition);
         i < cpu_end_tile(index, partition); i++) {
        if (!bit_at(index->nonzero, i))
            continue;
        pack_bits(at, packed, width,
                  index->nbytes[i] - min_nbytes(index, coding, i));
        packed += (uint64_t)width;
    }
}

void
terp_cpu_tile_index_write_places(struct writer *writer,
                                 const struct cpu_tile_index *index,
                                 enum terp_coding coding)
{
    bool first = true;

    for (uint64_t p = 0; p < index->npartitions; p++) {
        unsigned width = (unsigned)length_width(index, coding, p);
        if (count_nonzero(index, p) > 0)
            write_le(writer, terp_partition_control(width, index->reduced[p]),
                     1);
    }
    int offset_nbytes = terp_offset_nbytes(index->begin[index->npartitions]);
    if (offset_nbytes > 0)
        write_le(writer, (uint64_t)offset_nbytes, 1);
    for (uint64_t p = 0; p < index->npartitions; p++) {
        if (count_nonzero(index, p) > 0 && !first)
            write_le(writer, index->begin[p], offset_nbytes);
        first = first && count_nonzero(index, p) == 0;
    }
    for (uint64_t p = 0; p < index->npartitions; p++)
        write_lengths(writer, index, coding, p);
}

uint64_t
terp_cpu_tile_index_end(const struct cpu_tile_index *index, uint64_t ntiles)
{
    const uint64_t p = (ntiles - 1) / TERP_PARTITION_NTILES;
    uint64_t end = index->begin[p];

    if (index->reduced[p])
        return index->begin[p + 1];
    for (uint64_t i = cpu_first_tile(p); i < ntiles; i++)
        end += index->nbytes[i];
    return end;
}

static enum terp_status
read_lengths(struct reader *reader, struct cpu_tile_index *index,
             enum terp_coding coding, uint64_t partition, int width,
             unsigned max_nbytes, bool is_whole)
{
    uint64_t packed = 0, nbytes = 0;
    const uint8_t *at = reader_take(
        reader, packed_nbytes(count_nonzero(index, partition), width));

    if (at == NULL)
        return TERP_ERR_CORRUPT;
    for (uint64_t i = cpu_first_tile(partition);
         i < cpu_end_tile(index, partition); i++) {
        if (!bit_at(index->nonzero, i))
            continue;
        uint64_t length =
            unpack_bits(at, packed, width) + min_nbytes(index, coding, i);
        packed += (uint64_t)width;
        if (length > max_nbytes)
            return TERP_ERR_CORRUPT;
        index->nbytes[i] = (uint16_t)length;
        nbytes += length;
    }
    /* A partition that is not reduced is as long as its tiles together. */
    const uint64_t end = index->begin[partition + 1];
    const bool is_cut = !is_whole && end == index->begin[index->npartitions];
    return index->reduced[partition] || is_cut ||
                   end - index->begin[partition] == nbytes
               ? TERP_OK
               : TERP_ERR_CORRUPT;
}

/* Reads the offsets of the partitions that have tiles; a partition without
 * tiles begins where the next one does. The lengths of tiles come after the
 * offsets, and the payload after these: so the widths of all lengths are read
 * first, to find where the payload begins. */
static enum terp_status
read_offsets(struct reader *reader, struct cpu_tile_index *index,
             const uint8_t *controls, uint64_t nfull, bool is_whole)
{
    uint64_t lengths_nbytes = 0, full = 0;

    for (uint64_t p = 0; p < index->npartitions; p++) {
        uint64_t nnonzero = count_nonzero(index, p);
        if (nnonzero == 0)
            continue;
        unsigned control = controls[full++];
        int width = (int)(control & TERP_CONTROL_WIDTH);
        if (width > TERP_LENGTH_MAX_NBITS)
            return TERP_ERR_CORRUPT;
        lengths_nbytes += packed_nbytes(nnonzero, width);
        if (control & TERP_CONTROL_REDUCED)
            index->reduced[p] = true;
    }
    int offset_nbytes = (int)read_le(reader, 1);
    if (offset_nbytes < 1 || offset_nbytes > TERP_OFFSET_MAX_NBYTES)
        return TERP_ERR_CORRUPT;
    const uint8_t *offsets =
        reader_take(reader, (nfull - 1) * (uint64_t)offset_nbytes);
    if (offsets == NULL ||
        lengths_nbytes > (uint64_t)(reader->end - reader->at))
        return TERP_ERR_CORRUPT;
    const uint64_t payload_nbytes =
        (uint64_t)(reader->end - reader->at) - lengths_nbytes;
    uint64_t next = is_whole ? payload_nbytes : UINT64_MAX;
    index->begin[index->npartitions] = payload_nbytes;
    for (uint64_t p = index->npartitions; p-- > 0;) {
        if (count_nonzero(index, p) > 0) {
            full--;
            uint64_t at =
                full == 0
                    ? 0
                    : load_le(offsets + (full - 1) * (uint64_t)offset_nbytes,
                              offset_nbytes);
            if (at > next)
                return TERP_ERR_CORRUPT;
            next = at;
        }
        index->begin[p] = min_u64(next, payload_nbytes);
    }
    return TERP_OK;
}

enum terp_status
terp_cpu_tile_index_read_places(struct reader *reader,
                                struct cpu_tile_index *index,
                                enum terp_coding coding, unsigned max_nbytes,
                                bool is_whole)
{
    const uint8_t *places = reader->at;
    uint64_t nfull = 0, full = 0;

    for (uint64_t p = 0; p < index->npartitions; p++)
        nfull += count_nonzero(index, p) > 0;
    if (nfull == 0)
        return reader->at == reader->end ? TERP_OK : TERP_ERR_CORRUPT;
    const uint8_t *controls = reader_take(reader, nfull);
    if (controls == NULL)
        return TERP_ERR_CORRUPT;
    enum terp_status st =
        read_offsets(reader, index, controls, nfull, is_whole);
    for (uint64_t p = 0; st == TERP_OK && p < index->npartitions; p++) {
        if (count_nonzero(index, p) == 0)
            continue;
        int width = (int)(controls[full++] & TERP_CONTROL_WIDTH);
        st =
            read_lengths(reader, index, coding, p, width, max_nbytes, is_whole);
    }
    index->index_nbytes = (uint64_t)(reader->at - places);
    return st;
}

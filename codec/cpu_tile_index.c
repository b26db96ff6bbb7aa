#include "cpu_tile_index.h"

#include <stdlib.h>

enum terp_status
cpu_tile_index_make(uint64_t nsymbols, struct cpu_tile_index *index_ret)
{
    struct cpu_tile_index index = {
        .ntiles = div_up(nsymbols, TERP_TILE_NSYMBOLS)};
    index.npartitions = div_up(index.ntiles, TERP_PARTITION_NTILES);
    uint64_t bitmap_nbytes = div_up(index.ntiles, 8);
    uint64_t nbytes = 8 * (index.npartitions + 1) + 2 * index.ntiles +
                      index.ntiles + bitmap_nbytes +
                      div_up(index.npartitions, 8) +
                      TERP_BITMAP_MAX_NBYTES(bitmap_nbytes);

    index.memory = calloc(1, nbytes);
    if (index.memory == NULL)
        return TERP_ERR_MEMORY;
    index.begin = index.memory;
    index.nbytes = (uint16_t *)(index.begin + index.npartitions + 1);
    index.entry = (uint8_t *)(index.nbytes + index.ntiles);
    index.nonzero = index.entry + index.ntiles;
    index.reduced = index.nonzero + bitmap_nbytes;
    index.scratch = index.reduced + div_up(index.npartitions, 8);
    *index_ret = index;
    return TERP_OK;
}

void
cpu_tile_index_free(struct cpu_tile_index *index)
{
    free(index->memory);
}

static bool
can_reduce(enum terp_coding coding)
{
    return coding != TERP_CODING_SPEED;
}

void
cpu_tile_index_write_nonzero(struct writer *writer,
                             struct cpu_tile_index *index)
{
    terp_bitmap_write(writer, index->nonzero, div_up(index->ntiles, 8),
                      index->scratch);
}

enum terp_status
cpu_tile_index_read_nonzero(struct reader *reader,
                            struct cpu_tile_index *index)
{
    terp_bitmap_read(reader, index->nonzero, div_up(index->ntiles, 8),
                     index->scratch);
    if (reader->underflow)
        return TERP_ERR_CORRUPT;
    for (uint64_t i = index->ntiles; i % 8 != 0; i++)
        if (cpu_bit_at(index->nonzero, i))
            return TERP_ERR_CORRUPT;
    return TERP_OK;
}

void
cpu_tile_index_write_places(struct writer *writer,
                            const struct cpu_tile_index *index,
                            enum terp_coding coding)
{
    uint64_t nnonzero = 0, packed = 0;
    unsigned all = 0;

    for (uint64_t i = 0; i < index->ntiles; i++) {
        nnonzero += cpu_bit_at(index->nonzero, i);
        all |= index->nbytes[i];
    }
    if (nnonzero == 0)
        return;
    int width = bit_width(all);
    write_le(writer, (uint64_t)width, 1);
    uint64_t nbytes = packed_nbytes(nnonzero, width);
    uint8_t *lengths = writer_take(writer, nbytes);
    if (lengths == NULL)
        return;
    memset(lengths, 0, nbytes);
    for (uint64_t i = 0; i < index->ntiles; i++) {
        if (!cpu_bit_at(index->nonzero, i))
            continue;
        pack_bits(lengths, packed, width, index->nbytes[i]);
        packed += (uint64_t)width;
    }
    int offset_nbytes =
        (int)div_up((uint64_t)bit_width(index->begin[index->npartitions]), 8);
    write_le(writer, (uint64_t)offset_nbytes, 1);
    for (uint64_t p = 1; p < index->npartitions; p++)
        write_le(writer, index->begin[p], offset_nbytes);
    if (!can_reduce(coding))
        return;
    uint64_t reduced_nbytes = div_up(index->npartitions, 8);
    uint8_t *at = writer_take(writer, reduced_nbytes);
    if (at != NULL)
        memcpy(at, index->reduced, reduced_nbytes);
}

/* A partition that is not reduced is as long as its tiles. */
static enum terp_status
check_places(const struct cpu_tile_index *index)
{
    for (uint64_t p = 0; p < index->npartitions; p++) {
        uint64_t first = p * TERP_PARTITION_NTILES, nbytes = 0;
        uint64_t end = min_u64(first + TERP_PARTITION_NTILES, index->ntiles);
        for (uint64_t i = first; i < end; i++)
            nbytes += index->nbytes[i];
        if (index->begin[p] > index->begin[p + 1])
            return TERP_ERR_CORRUPT;
        if (!cpu_bit_at(index->reduced, p) &&
            index->begin[p + 1] - index->begin[p] != nbytes)
            return TERP_ERR_CORRUPT;
    }
    return TERP_OK;
}

enum terp_status
cpu_tile_index_read_places(struct reader *reader, struct cpu_tile_index *index,
                           enum terp_coding coding, uint16_t max_nbytes)
{
    const uint8_t *places = reader->at;
    uint64_t nnonzero = 0, packed = 0;

    for (uint64_t i = 0; i < index->ntiles; i++)
        nnonzero += cpu_bit_at(index->nonzero, i);
    if (nnonzero == 0)
        return reader->at == reader->end ? TERP_OK : TERP_ERR_CORRUPT;
    int width = (int)read_le(reader, 1);
    if (width > 16)
        return TERP_ERR_CORRUPT;
    const uint8_t *lengths =
        reader_take(reader, packed_nbytes(nnonzero, width));
    if (lengths == NULL)
        return TERP_ERR_CORRUPT;
    for (uint64_t i = 0; i < index->ntiles; i++) {
        if (!cpu_bit_at(index->nonzero, i))
            continue;
        index->nbytes[i] = (uint16_t)unpack_bits(lengths, packed, width);
        packed += (uint64_t)width;
        if (index->nbytes[i] == 0 || index->nbytes[i] > max_nbytes)
            return TERP_ERR_CORRUPT;
    }
    int offset_nbytes = (int)read_le(reader, 1);
    if (offset_nbytes > 8)
        return TERP_ERR_CORRUPT;
    for (uint64_t p = 1; p < index->npartitions; p++)
        index->begin[p] = read_le(reader, offset_nbytes);
    if (can_reduce(coding)) {
        uint64_t reduced_nbytes = div_up(index->npartitions, 8);
        const uint8_t *at = reader_take(reader, reduced_nbytes);
        if (at != NULL)
            memcpy(index->reduced, at, reduced_nbytes);
    }
    if (reader->underflow)
        return TERP_ERR_CORRUPT;
    index->begin[0] = 0;
    index->begin[index->npartitions] = (uint64_t)(reader->end - reader->at);
    index->index_nbytes = (uint64_t)(reader->at - places);
    return check_places(index);
}

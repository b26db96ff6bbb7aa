/* Writes and reads the section of low bits. Workers take tiles: first they find
 * the size of each tile's low bits, then they write these to their places. */
#include "cpu/sections/low_bits.h"

#include "codec/format/low_bits.h"
#include "cpu/sections/low_bits_tile.h"

/* Fewer tiles than this are not worth waking the pool for. */
#define MIN_NTILES_SHARED 4

/* The task that the threads share. */
struct task {
    uint64_t nsymbols; /* of all tiles */
    uint64_t nwanted;  /* the first symbols, which are decoded */
    uint16_t *symbols;
    struct cpu_low_scratch *scratch; /* per worker */
    struct cpu_low_tile *tiles;
    void (*work)(const struct task *task, uint64_t tile,
                 struct cpu_low_scratch *scratch);
    uint8_t *to;         /* writing: the bytes after all records */
    const uint8_t *from; /* reading: the same */
    uint8_t *records;
};

uint64_t
terp_cpu_place_groups(const uint8_t *widths, uint64_t nnumbers,
                      uint64_t *begin_ret)
{
    uint64_t nbytes = 0;

    for (uint64_t g = 0; g < terp_low_ngroups(nnumbers); g++) {
        begin_ret[g] = nbytes;
        nbytes += terp_low_group_nbytes(nnumbers, g, widths[g]);
    }
    return nbytes;
}

static uint64_t
ntiles_of(uint64_t nsymbols)
{
    return div_up(nsymbols, TERP_TILE_NSYMBOLS);
}

static unsigned
tile_nsymbols(uint64_t nsymbols, uint64_t tile)
{
    return (unsigned)min_u64(TERP_TILE_NSYMBOLS,
                             nsymbols - tile * TERP_TILE_NSYMBOLS);
}

/* Allocates the state of `ntiles` tiles, and scratch memory per worker. */
static bool
make_tiles(struct task *task, struct cpu_pool *pool, uint64_t ntiles)
{
    const uint64_t nworkers = (uint64_t)terp_cpu_pool_nworkers(pool);

    task->tiles = terp_cpu_memory_make(
        pool, ntiles * sizeof *task->tiles + nworkers * sizeof *task->scratch);
    if (task->tiles == NULL)
        return false;
    task->scratch = (struct cpu_low_scratch *)(task->tiles + ntiles);
    return true;
}

static void
do_tiles(void *arg, struct cpu_share share)
{
    const struct task *task = arg;

    for (uint64_t t = share.first; t < share.end; t++)
        task->work(task, t, &task->scratch[share.worker]);
}

static void
for_tiles(struct task *task, struct cpu_pool *pool, uint64_t ntiles,
          void (*work)(const struct task *task, uint64_t tile,
                       struct cpu_low_scratch *scratch))
{
    task->work = work;
    terp_cpu_pool_run(pool, do_tiles, task, ntiles, MIN_NTILES_SHARED);
}

/* ---- writing ---- */

static void
measure_tile(const struct task *task, uint64_t t,
             struct cpu_low_scratch *scratch)
{
    terp_cpu_low_tile_measure(task->symbols + t * TERP_TILE_NSYMBOLS,
                              tile_nsymbols(task->nsymbols, t), scratch,
                              &task->tiles[t]);
}

static void
split_tile(const struct task *task, uint64_t t, struct cpu_low_scratch *scratch)
{
    terp_cpu_low_tile_split(&task->tiles[t], tile_nsymbols(task->nsymbols, t),
                            scratch, task->records, task->to,
                            task->symbols + t * TERP_TILE_NSYMBOLS);
}

enum terp_status
terp_cpu_low_bits_split(struct cpu_pool *pool, uint64_t nsymbols,
                        uint16_t *symbols, struct writer *writer)
{
    const uint64_t ntiles = ntiles_of(nsymbols);
    uint64_t records_nbytes = 0, nbytes = 0;
    struct task task = {.nsymbols = nsymbols, .symbols = symbols};

    if (!make_tiles(&task, pool, ntiles))
        return TERP_ERR_MEMORY;
    for_tiles(&task, pool, ntiles, measure_tile);
    uint8_t *kinds = writer_take_packed(writer, ntiles, TERP_LOW_KIND_NBITS);
    for (uint64_t t = 0; t < ntiles; t++) {
        struct cpu_low_tile *tile = &task.tiles[t];
        const unsigned kind = terp_cpu_low_tile_kind(tile);
        tile->record_at = records_nbytes;
        tile->at = nbytes;
        records_nbytes += terp_low_record_nbytes(
            kind, terp_cpu_low_tile_ngroups(tile_nsymbols(nsymbols, t)));
        nbytes += tile->numbers_nbytes + tile->list_nbytes;
        if (kinds != NULL)
            pack_bits(kinds, t * TERP_LOW_KIND_NBITS, TERP_LOW_KIND_NBITS,
                      kind);
    }
    task.records = writer_take(writer, records_nbytes);
    task.to = writer_take(writer, nbytes);
    if (!writer->overflow)
        for_tiles(&task, pool, ntiles, split_tile);
    terp_cpu_memory_free(pool, task.tiles);
    return writer->overflow ? TERP_ERR_CAPACITY : TERP_OK;
}

/* ---- reading ---- */

static unsigned
kind_at(const uint8_t *kinds, uint64_t tile)
{
    return (unsigned)unpack_bits(kinds, tile * TERP_LOW_KIND_NBITS,
                                 TERP_LOW_KIND_NBITS);
}

/* Reads the record of the next tile. False if the record is not valid. */
static bool
read_record(struct reader *records, unsigned kind, unsigned nsymbols,
            struct cpu_low_tile *tile_ret)
{
    const uint8_t *at = reader_take(
        records,
        terp_low_record_nbytes(kind, terp_cpu_low_tile_ngroups(nsymbols)));

    return at != NULL && terp_cpu_low_tile_read(at, kind, nsymbols, tile_ret);
}

enum terp_status
terp_cpu_low_bits_read(struct reader *reader, uint64_t nsymbols,
                       struct cpu_low_bits_section *section_ret)
{
    const uint64_t ntiles = ntiles_of(nsymbols);
    uint64_t nbytes = 0;

    section_ret->kinds =
        reader_take(reader, packed_nbytes(ntiles, TERP_LOW_KIND_NBITS));
    if (section_ret->kinds == NULL)
        return TERP_ERR_CORRUPT;
    section_ret->records = reader->at;
    for (uint64_t t = 0; t < ntiles; t++) {
        struct cpu_low_tile tile;
        if (!read_record(reader, kind_at(section_ret->kinds, t),
                         tile_nsymbols(nsymbols, t), &tile))
            return TERP_ERR_CORRUPT;
        nbytes += tile.numbers_nbytes + tile.list_nbytes;
    }
    section_ret->at = reader_take(reader, nbytes);
    return section_ret->at == NULL ? TERP_ERR_CORRUPT : TERP_OK;
}

static void
join_tile(const struct task *task, uint64_t t, struct cpu_low_scratch *scratch)
{
    struct cpu_low_tile *tile = &task->tiles[t];

    tile->is_valid = terp_cpu_low_tile_join(
        tile, tile_nsymbols(task->nsymbols, t), tile_nsymbols(task->nwanted, t),
        task->from + tile->at, scratch, task->symbols + t * TERP_TILE_NSYMBOLS);
}

enum terp_status
terp_cpu_low_bits_join(struct cpu_pool *pool, uint64_t nsymbols,
                       uint64_t nwanted,
                       const struct cpu_low_bits_section *section,
                       uint16_t *symbols)
{
    const uint64_t ntiles = ntiles_of(nwanted);
    struct reader records = {section->records, section->at, false};
    struct task task = {.nsymbols = nsymbols,
                        .nwanted = nwanted,
                        .symbols = symbols,
                        .from = section->at};
    uint64_t nbytes = 0;
    bool valid = true;

    if (!make_tiles(&task, pool, ntiles))
        return TERP_ERR_MEMORY;
    for (uint64_t t = 0; t < ntiles; t++) {
        valid &= read_record(&records, kind_at(section->kinds, t),
                             tile_nsymbols(nsymbols, t), &task.tiles[t]);
        task.tiles[t].at = nbytes;
        nbytes += task.tiles[t].numbers_nbytes + task.tiles[t].list_nbytes;
    }
    if (valid)
        for_tiles(&task, pool, ntiles, join_tile);
    for (uint64_t t = 0; valid && t < ntiles; t++)
        valid = task.tiles[t].is_valid;
    terp_cpu_memory_free(pool, task.tiles);
    return valid ? TERP_OK : TERP_ERR_CORRUPT;
}

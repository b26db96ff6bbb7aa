/* Decodes streams that hold other streams; an engine decodes plain streams.
 * Streams of one shape are decoded together: their parts are read, parts of one
 * shape are decoded as a batch, and the values are put together. */
#include "codec/compose/decode.h"

#include <stdlib.h>

#include "codec/format/columns.h"
#include "codec/format/held.h"
#include "codec/format/ranks.h"
#include "codec/format/references.h"

_Static_assert(TERP_PEEK_NBYTES >= TERP_HELD_HEAD_NBYTES,
               "One peek shows the head of a part.");

/* ---- lists of streams ---- */

/* A subset of a batch's streams: at[k] is the index in the batch of stream k.
 */
struct list {
    const struct terp_coder *coder;
    uint64_t n, *at;
    struct terp_open_stream *streams;
    void **dst;
    enum terp_status *status;
};

/* Allocates a list for `cap` streams. Call free_list() also after a failure. */
static bool
make_list(const struct terp_coder *coder, uint64_t cap, struct list *list)
{
    uint8_t *memory =
        terp_items_allocate(cap, sizeof *list->streams + sizeof *list->at +
                                     sizeof *list->dst + sizeof *list->status);

    *list = (struct list){.coder = coder,
                          .streams = (struct terp_open_stream *)memory};
    if (memory == NULL)
        return false;
    list->at = (uint64_t *)(list->streams + cap);
    list->dst = (void **)(list->at + cap);
    list->status = (enum terp_status *)(list->dst + cap);
    return true;
}

static void
free_list(struct list *list)
{
    free(list->streams);
}

static void
add(struct list *list, uint64_t at, const struct terp_open_stream *stream,
    void *dst)
{
    list->at[list->n] = at;
    list->streams[list->n] = *stream;
    list->dst[list->n] = dst;
    list->status[list->n++] = TERP_OK;
}

static enum terp_status
decode_values(const struct terp_coder *coder, uint64_t n,
              const struct terp_open_stream *streams, uint64_t step,
              void *const *dst, enum terp_status *status_ret);

/* Decodes the streams of a list and empties the list. status[at[k]] gets the
 * status of stream k, unless it has an error already. */
static enum terp_status
decode_list(struct list *list, uint64_t step, enum terp_status *status)
{
    const uint64_t n = list->n;
    const enum terp_status st =
        n == 0 ? TERP_OK
               : decode_values(list->coder, n, list->streams, step, list->dst,
                               list->status);

    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        if (status[list->at[k]] == TERP_OK)
            status[list->at[k]] = list->status[k];
    list->n = 0;
    return st;
}

/* ---- parts of streams ---- */

/* Streams of one shape that hold other streams, and where their values go. */
struct holders {
    const struct terp_coder *coder;
    const struct terp_chunk *chunk;
    uint64_t n;
    void *const *dst;
    enum terp_status *status; /* not TERP_OK: the stream is skipped */
    struct holder {
        struct terp_held held;
        struct terp_open_stream *part;
        const uint8_t *next; /* where the next part begins */
        uint64_t left_nbytes;
        uint8_t *lists; /* references: distances, then differences; ranks: the
                           table, then the ranks */
    } * holders;
    struct terp_open_stream *parts; /* of all streams */
};

/* The most parts that a stream of a frame may have. */
static uint64_t
max_nparts(const struct terp_frame *frame)
{
    return frame->coding == TERP_CODING_COLUMNS
               ? (uint64_t)terp_columns_n(&frame->chunk)
               : TERP_HELD_MAX_NPARTS;
}

/* Reads the next part of a stream. `seen` is a host copy of its first bytes. */
static enum terp_status
read_part(struct holder *holder, const uint8_t *seen)
{
    struct terp_open_stream *open = &holder->part[holder->held.next];
    struct terp_part part;
    uint64_t nbytes;
    const enum terp_status st = terp_held_read(
        &holder->held, seen, holder->left_nbytes, &part, &nbytes);

    if (st != TERP_OK)
        return st;
    open->frame = part.frame;
    open->body = holder->next + (part.body - seen);
    open->body_nbytes = part.body_nbytes;
    open->whole = NULL;
    holder->next += nbytes;
    holder->left_nbytes -= nbytes;
    return TERP_OK;
}

/* Whether a stream has a part that is not read yet. */
static bool
has_more(const struct holders *it, uint64_t i)
{
    const struct terp_held *held = &it->holders[i].held;

    return it->status[i] == TERP_OK && held->next < held->nparts;
}

/* Reads the next part of every stream that has one. */
static enum terp_status
read_next_parts(struct holders *it, const void **at, uint64_t *nbytes,
                const uint8_t **seen, uint8_t *buffer)
{
    const struct terp_coder *coder = it->coder;
    uint64_t n = 0;

    for (uint64_t i = 0; i < it->n; i++) {
        const struct holder *holder = &it->holders[i];
        if (!has_more(it, i))
            continue;
        at[n] = holder->next;
        nbytes[n++] = min_u64(holder->left_nbytes, TERP_PEEK_NBYTES);
    }
    const enum terp_status st =
        n == 0
            ? TERP_OK
            : coder->engine->peek(coder->session, n, at, nbytes, buffer, seen);
    for (uint64_t i = 0, k = 0; st == TERP_OK && i < it->n; i++)
        if (has_more(it, i))
            it->status[i] = read_part(&it->holders[i], seen[k++]);
    return st;
}

static enum terp_status
read_holders(struct holders *it, const struct terp_open_stream *streams)
{
    const size_t n = (size_t)it->n;
    uint8_t *memory =
        terp_items_allocate(it->n, sizeof(void *) + sizeof(uint64_t) +
                                       sizeof(uint8_t *) + TERP_PEEK_NBYTES);
    enum terp_status st = TERP_OK;

    const uint64_t most = max_nparts(&streams[0].frame);
    it->holders = terp_items_allocate(it->n, sizeof *it->holders);
    it->parts = terp_items_allocate(it->n * most, sizeof *it->parts);
    if (memory == NULL || it->holders == NULL || it->parts == NULL) {
        free(memory);
        return TERP_ERR_MEMORY;
    }
    const void **at = (const void **)memory;
    uint64_t *nbytes = (uint64_t *)(at + n);
    const uint8_t **seen = (const uint8_t **)(nbytes + n);
    for (uint64_t i = 0; i < it->n; i++) {
        struct holder *holder = &it->holders[i];
        terp_held_begin(&streams[i].frame, &holder->held);
        holder->part = it->parts + i * most;
        holder->next = streams[i].body;
        holder->left_nbytes = streams[i].body_nbytes;
        it->status[i] = TERP_OK;
    }
    for (uint64_t p = 0; st == TERP_OK && p < most; p++)
        st = read_next_parts(it, at, nbytes, seen, (uint8_t *)(seen + n));
    free(memory);
    return st;
}

/* ---- copies ---- */

/* Decodes the streams that have the same copied dimensions as stream `first`,
 * and restores the copies. */
static enum terp_status
decode_alike(struct holders *it, uint64_t first, struct list *list, bool *done)
{
    const unsigned dims = it->holders[first].held.dims;
    const struct terp_coder *coder = it->coder;
    uint64_t n = 0;

    for (uint64_t i = first; i < it->n; i++)
        if (it->status[i] == TERP_OK && it->holders[i].held.dims == dims) {
            add(list, i, &it->holders[i].part[0], it->dst[i]);
            done[i] = true;
        }
    enum terp_status st = decode_list(list, 1, it->status);
    for (uint64_t i = first; st == TERP_OK && i < it->n; i++)
        if (it->status[i] == TERP_OK && it->holders[i].held.dims == dims)
            list->dst[n++] = it->dst[i];
    return st == TERP_OK && n > 0
               ? coder->engine->put_back(coder->session, it->chunk, dims, n,
                                         list->dst)
               : st;
}

static enum terp_status
decode_copies(struct holders *it)
{
    bool *done = terp_items_allocate(it->n, sizeof *done);
    struct list list;
    enum terp_status st = TERP_ERR_MEMORY;

    if (make_list(it->coder, it->n, &list) && done != NULL)
        st = TERP_OK;
    for (uint64_t i = 0; st == TERP_OK && i < it->n; i++)
        if (it->status[i] == TERP_OK && !done[i])
            st = decode_alike(it, i, &list, done);
    free_list(&list);
    free(done);
    return st;
}

/* ---- references ---- */

/* Bytes of a stream's list of distances, and of both its lists. */
static uint64_t
distances_nbytes(const struct holder *holder)
{
    return terp_aligned_nbytes(4 * holder->held.nreferences);
}

static uint64_t
lists_nbytes(const struct holder *holder)
{
    return distances_nbytes(holder) +
           terp_aligned_nbytes(8 * holder->held.nreferences);
}

/* Decodes the lists of distances and differences, consecutive streams with
 * equally many references as one batch, then the values of all streams. */
static enum terp_status
decode_parts(struct holders *it, struct list *list)
{
    enum terp_status st = TERP_OK;

    for (int p = 0; p < TERP_REFERENCES_NPARTS; p++) {
        uint64_t nreferences = 0;
        for (uint64_t i = 0; st == TERP_OK && i < it->n; i++) {
            const struct holder *holder = &it->holders[i];
            void *const to[] = {holder->lists,
                                holder->lists + distances_nbytes(holder),
                                it->dst[i]};
            if (it->status[i] != TERP_OK)
                continue;
            if (p != TERP_REFERENCES_VALUES &&
                holder->held.nreferences != nreferences)
                st = decode_list(list, 1, it->status);
            nreferences = holder->held.nreferences;
            add(list, i, &holder->part[p], to[p]);
        }
        if (st == TERP_OK)
            st = decode_list(list, 1, it->status);
    }
    return st;
}

/* Replaces every marker by the value that its reference yields. */
static enum terp_status
follow(struct holders *it, struct list *list)
{
    const struct terp_coder *coder = it->coder;
    struct terp_followed *followed =
        terp_items_allocate(it->n, sizeof *followed);
    uint64_t n = 0;

    if (followed == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t i = 0; i < it->n; i++) {
        const struct holder *holder = &it->holders[i];
        if (it->status[i] != TERP_OK)
            continue;
        list->at[n] = i;
        followed[n++] = (struct terp_followed){
            holder->held.marker, holder->held.nreferences, holder->lists,
            holder->lists + distances_nbytes(holder), it->dst[i]};
    }
    const enum terp_status st =
        n == 0 ? TERP_OK
               : coder->engine->follow(coder->session, it->chunk, n, followed,
                                       list->status);
    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        it->status[list->at[k]] = list->status[k];
    free(followed);
    return st;
}

static enum terp_status
decode_references(struct holders *it)
{
    struct list list;
    uint64_t nbytes = 0;

    for (uint64_t i = 0; i < it->n; i++)
        if (it->status[i] == TERP_OK)
            nbytes += lists_nbytes(&it->holders[i]);
    uint8_t *lists =
        nbytes == 0 ? NULL : terp_coder_allocate(it->coder, nbytes);
    uint8_t *next = lists;
    for (uint64_t i = 0; lists != NULL && i < it->n; i++) {
        it->holders[i].lists = next;
        if (it->status[i] == TERP_OK)
            next += lists_nbytes(&it->holders[i]);
    }
    enum terp_status st =
        make_list(it->coder, it->n, &list) && (lists != NULL || nbytes == 0)
            ? TERP_OK
            : TERP_ERR_MEMORY;
    if (st == TERP_OK && nbytes > 0)
        st = decode_parts(it, &list);
    if (st == TERP_OK && nbytes > 0)
        st = follow(it, &list);
    free_list(&list);
    terp_coder_release(it->coder, lists);
    return st;
}

/* ---- ranks ---- */

/* The chunk to which a part is decoded: every step-th rank, but the whole
 * table.
 */
static struct terp_chunk
ranks_chunk(const struct holders *it, const struct holder *holder,
            enum terp_ranks_part part, uint64_t step)
{
    const struct terp_chunk chunk = terp_ranks_chunk(
        it->chunk, part, holder->held.ntable, holder->held.number_nbytes);

    return part == TERP_RANKS_TABLE ? chunk
                                    : terp_coarse_chunk_of(&chunk, step);
}

static uint64_t
ranks_nbytes(const struct holders *it, const struct holder *holder,
             enum terp_ranks_part part, uint64_t step)
{
    const struct terp_chunk chunk = ranks_chunk(it, holder, part, step);

    return terp_aligned_nbytes(terp_chunk_nbytes(&chunk));
}

/* Decodes tables and ranks, as a batch where neighbours have tables of as many
 * values, and numbers of as many bytes. */
static enum terp_status
decode_rank_parts(struct holders *it, uint64_t step, struct list *list)
{
    enum terp_status st = TERP_OK;

    for (int p = 0; p < TERP_RANKS_NPARTS; p++) {
        const bool is_table = p == TERP_RANKS_TABLE;
        uint64_t ntable = 0;
        int number_nbytes = 0;
        for (uint64_t i = 0; st == TERP_OK && i < it->n; i++) {
            const struct holder *holder = &it->holders[i];
            uint8_t *to = holder->lists;
            if (it->status[i] != TERP_OK)
                continue;
            if (!is_table)
                to += ranks_nbytes(it, holder, TERP_RANKS_TABLE, step);
            if (list->n > 0 && (holder->held.ntable != ntable ||
                                holder->held.number_nbytes != number_nbytes))
                st = decode_list(list, is_table ? 1 : step, it->status);
            ntable = holder->held.ntable;
            number_nbytes = holder->held.number_nbytes;
            if (st == TERP_OK)
                add(list, i, &holder->part[p], to);
        }
        if (st == TERP_OK)
            st = decode_list(list, is_table ? 1 : step, it->status);
    }
    return st;
}

/* Puts values in the places of all ranks and numbers of grids. */
static enum terp_status
unrank(struct holders *it, uint64_t step, struct list *list)
{
    const struct terp_coder *coder = it->coder;
    const struct terp_chunk coarse = terp_coarse_chunk_of(it->chunk, step);
    struct terp_ranked *ranked = terp_items_allocate(it->n, sizeof *ranked);
    uint64_t n = 0;

    if (ranked == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t i = 0; i < it->n; i++) {
        const struct holder *holder = &it->holders[i];
        if (it->status[i] != TERP_OK)
            continue;
        list->at[n] = i;
        ranked[n++] = (struct terp_ranked){
            holder->held.ntable,
            holder->lists,
            holder->lists + ranks_nbytes(it, holder, TERP_RANKS_TABLE, step),
            it->dst[i],
            holder->held.number_nbytes,
            step,
            holder->held.grid};
    }
    const enum terp_status st =
        n == 0 ? TERP_OK
               : coder->engine->unrank(coder->session, &coarse, n, ranked,
                                       list->status);
    for (uint64_t k = 0; st == TERP_OK && k < n; k++)
        it->status[list->at[k]] = list->status[k];
    free(ranked);
    return st;
}

static enum terp_status
decode_ranks(struct holders *it, uint64_t step)
{
    struct list list;
    uint64_t nbytes = 0;

    for (uint64_t i = 0; i < it->n; i++)
        for (int p = 0; it->status[i] == TERP_OK && p < TERP_RANKS_NPARTS; p++)
            nbytes += ranks_nbytes(it, &it->holders[i], (enum terp_ranks_part)p,
                                   step);
    uint8_t *lists =
        nbytes == 0 ? NULL : terp_coder_allocate(it->coder, nbytes);
    uint8_t *next = lists;
    for (uint64_t i = 0; lists != NULL && i < it->n; i++) {
        it->holders[i].lists = next;
        for (int p = 0; it->status[i] == TERP_OK && p < TERP_RANKS_NPARTS; p++)
            next += ranks_nbytes(it, &it->holders[i], (enum terp_ranks_part)p,
                                 step);
    }
    enum terp_status st =
        make_list(it->coder, it->n, &list) && (lists != NULL || nbytes == 0)
            ? TERP_OK
            : TERP_ERR_MEMORY;
    if (st == TERP_OK && nbytes > 0)
        st = decode_rank_parts(it, step, &list);
    if (st == TERP_OK && nbytes > 0)
        st = unrank(it, step, &list);
    free_list(&list);
    terp_coder_release(it->coder, lists);
    return st;
}

/* ---- columns ---- */

/* Decodes the groups of all streams to their columns, as a batch where
 * neighbours have one shape. */
static enum terp_status
decode_groups(struct holders *it, uint8_t *columns, struct list *list)
{
    const uint64_t nbytes = terp_chunk_nbytes(it->chunk);
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < it->n; i++) {
        const struct holder *holder = &it->holders[i];
        uint8_t *to = columns + i * terp_aligned_nbytes(nbytes);
        for (int g = 0; st == TERP_OK && it->status[i] == TERP_OK &&
                        g < holder->held.nparts;
             g++) {
            const struct terp_chunk *group = &holder->part[g].frame.chunk;
            if (list->n > 0 &&
                !terp_chunks_are_alike(&list->streams[0].frame.chunk, group))
                st = decode_list(list, 1, it->status);
            if (st == TERP_OK && it->status[i] == TERP_OK)
                add(list, i, &holder->part[g], to);
            to += terp_chunk_nbytes(group);
        }
    }
    return st == TERP_OK ? decode_list(list, 1, it->status) : st;
}

static enum terp_status
decode_columns(struct holders *it)
{
    const struct terp_coder *coder = it->coder;
    const uint64_t stride = terp_aligned_nbytes(terp_chunk_nbytes(it->chunk));
    uint8_t *columns = terp_coder_allocate(coder, it->n * stride);
    const void **whole = terp_items_allocate(it->n, sizeof *whole);
    struct list list;
    enum terp_status st = TERP_ERR_MEMORY;
    uint64_t n = 0;

    if (make_list(coder, it->n * (uint64_t)terp_columns_n(it->chunk), &list) &&
        columns != NULL && whole != NULL)
        st = decode_groups(it, columns, &list);
    for (uint64_t i = 0; st == TERP_OK && i < it->n; i++) {
        if (it->status[i] != TERP_OK)
            continue;
        whole[n] = columns + i * stride;
        list.dst[n++] = it->dst[i];
    }
    if (st == TERP_OK && n > 0)
        st = coder->engine->put_together(coder->session, it->chunk, n, whole,
                                         list.dst);
    free_list(&list);
    free(whole);
    terp_coder_release(coder, columns);
    return st;
}

/* ---- complex values ---- */

static enum terp_status
decode_complex(struct holders *it, uint64_t step)
{
    const struct terp_coder *coder = it->coder;
    const struct terp_chunk coarse = terp_coarse_chunk_of(it->chunk, step);
    const uint64_t part_nbytes = terp_chunk_nbytes(&coarse) / TERP_NPARTS;
    uint8_t *values =
        terp_coder_allocate(coder, it->n * TERP_NPARTS * part_nbytes);
    const void **joined = terp_items_allocate(it->n, sizeof *joined);
    struct list list;
    enum terp_status st = TERP_ERR_MEMORY;
    uint64_t n = 0;

    if (make_list(coder, TERP_NPARTS * it->n, &list) && values != NULL &&
        joined != NULL)
        st = TERP_OK;
    for (uint64_t i = 0; st == TERP_OK && i < it->n; i++)
        for (uint64_t k = 0; it->status[i] == TERP_OK && k < TERP_NPARTS; k++)
            add(&list, i, &it->holders[i].part[k],
                values + (TERP_NPARTS * i + k) * part_nbytes);
    if (st == TERP_OK)
        st = decode_list(&list, step, it->status);
    for (uint64_t i = 0; st == TERP_OK && i < it->n; i++) {
        if (it->status[i] != TERP_OK)
            continue;
        joined[n] = values + TERP_NPARTS * i * part_nbytes;
        list.dst[n++] = it->dst[i];
    }
    if (st == TERP_OK && n > 0)
        st = coder->engine->join(coder->session, &coarse, n, joined, list.dst);
    free_list(&list);
    free(joined);
    terp_coder_release(coder, values);
    return st;
}

/* ---- streams ---- */

/* Decodes streams of one coding that hold other streams: every step-th value of
 * complex streams, of ranks and of grids, all values of other streams. */
static enum terp_status
decode_holders(const struct list *list, uint64_t step, void *const *dst)
{
    struct holders it = {.coder = list->coder,
                         .chunk = &list->streams[0].frame.chunk,
                         .n = list->n,
                         .dst = dst,
                         .status = list->status};
    const enum terp_coding coding = list->streams[0].frame.coding;
    enum terp_status st = read_holders(&it, list->streams);

    if (st == TERP_OK)
        st = coding == TERP_CODING_PARTS     ? decode_complex(&it, step)
             : coding == TERP_CODING_RANKS   ? decode_ranks(&it, step)
             : coding == TERP_CODING_GRID    ? decode_ranks(&it, step)
             : coding == TERP_CODING_COPIES  ? decode_copies(&it)
             : coding == TERP_CODING_COLUMNS ? decode_columns(&it)
                                             : decode_references(&it);
    free(it.parts);
    free(it.holders);
    return st;
}

/* Decodes every step-th value of streams of columns, with copies or with
 * references: decodes all values, then gathers every step-th. */
static enum terp_status
decode_coarse(const struct list *list, const struct terp_coarse *coarse)
{
    const struct terp_coder *coder = list->coder;
    const int value_nbytes =
        terp_value_nbytes(list->streams[0].frame.chunk.type);
    const uint64_t nbytes = coarse->nvalues * (uint64_t)value_nbytes;
    const uint64_t stride = terp_aligned_nbytes(nbytes);
    void **whole = terp_items_allocate(2 * list->n, sizeof *whole);
    uint8_t *values = terp_coder_allocate(coder, list->n * stride);
    enum terp_status st = TERP_ERR_MEMORY;
    uint64_t n = 0;

    if (whole != NULL && values != NULL) {
        for (uint64_t k = 0; k < list->n; k++)
            whole[k] = values + k * stride;
        st = decode_holders(list, 1, whole);
    }
    for (uint64_t k = 0; st == TERP_OK && k < list->n; k++) {
        if (list->status[k] != TERP_OK)
            continue;
        whole[n] = whole[k];
        whole[list->n + n++] = list->dst[k];
    }
    if (st == TERP_OK && n > 0)
        st = coder->engine->gather(coder->session, coarse, value_nbytes, n,
                                   (const void *const *)whole, whole + list->n);
    free(whole);
    terp_coder_release(coder, values);
    return st;
}

/* Decodes streams of one kind (kind_of). */
static enum terp_status
decode_coding(const struct list *list, uint64_t step)
{
    const struct terp_coder *coder = list->coder;
    const struct terp_frame *frame = &list->streams[0].frame;
    struct terp_coarse coarse;

    if (frame->coding == TERP_CODING_PARTS ||
        frame->coding == TERP_CODING_RANKS || frame->coding == TERP_CODING_GRID)
        return decode_holders(list, step, list->dst);
    if (!terp_coding_holds(frame->coding))
        return coder->engine->decode(coder->session, step, list->n,
                                     list->streams, list->dst, list->status);
    terp_coarse_make(frame, step, &coarse);
    return coarse.is_all ? decode_holders(list, 1, list->dst)
                         : decode_coarse(list, &coarse);
}

/* The group of streams that a stream is decoded with: TERP_CODING_RAW stands
 * for all streams that hold no others. */
static enum terp_coding
kind_of(enum terp_coding coding)
{
    return terp_coding_holds(coding) ? coding : TERP_CODING_RAW;
}

static enum terp_status
decode_values(const struct terp_coder *coder, uint64_t n,
              const struct terp_open_stream *streams, uint64_t step,
              void *const *dst, enum terp_status *status_ret)
{
    static const enum terp_coding kinds[] = {
        TERP_CODING_RAW,   TERP_CODING_COPIES, TERP_CODING_REFERENCES,
        TERP_CODING_RANKS, TERP_CODING_GRID,   TERP_CODING_COLUMNS,
        TERP_CODING_PARTS};
    struct list list;
    enum terp_status st =
        make_list(coder, n, &list) ? TERP_OK : TERP_ERR_MEMORY;

    for (size_t c = 0; c < sizeof kinds / sizeof kinds[0]; c++) {
        list.n = 0;
        for (uint64_t k = 0; st == TERP_OK && k < n; k++)
            if (kind_of(streams[k].frame.coding) == kinds[c])
                add(&list, k, &streams[k], dst[k]);
        if (st == TERP_OK && list.n > 0)
            st = decode_coding(&list, step);
        for (uint64_t k = 0; st == TERP_OK && k < list.n; k++)
            status_ret[list.at[k]] = list.status[k];
    }
    free_list(&list);
    return st;
}

enum terp_status
terp_chunks_decode(const struct terp_coder *coder, uint64_t n,
                   const struct terp_open_stream *streams, uint64_t step,
                   void *const *dst, enum terp_status *status_ret)
{
    return decode_values(coder, n, streams, step, dst, status_ret);
}

enum terp_status
terp_chunk_decode(const struct terp_coder *coder,
                  const struct terp_open_stream *stream, uint64_t step,
                  void *dst)
{
    enum terp_status status;
    const enum terp_status st =
        decode_values(coder, 1, stream, step, &dst, &status);

    return st == TERP_OK ? status : st;
}

enum terp_status
terp_frames_read(const struct terp_coder *coder, uint64_t n,
                 const void *const *streams, const uint64_t *nbytes,
                 struct terp_open_stream *streams_ret)
{
    uint8_t *memory = terp_items_allocate(
        n, sizeof(uint64_t) + sizeof(uint8_t *) + TERP_PEEK_NBYTES);
    enum terp_status st = TERP_ERR_MEMORY;

    if (memory == NULL)
        return st;
    uint64_t *head_nbytes = (uint64_t *)memory;
    const uint8_t **seen = (const uint8_t **)(head_nbytes + n);
    for (uint64_t k = 0; k < n; k++)
        head_nbytes[k] = min_u64(nbytes[k], TERP_PEEK_NBYTES);
    st = coder->engine->peek(coder->session, n, streams, head_nbytes,
                             (uint8_t *)(seen + n), seen);
    for (uint64_t k = 0; st == TERP_OK && k < n; k++) {
        struct terp_open_stream *stream = &streams_ret[k];
        int frame_nbytes = 0;
        st = terp_frame_read(seen[k], nbytes[k], &stream->frame, &frame_nbytes);
        stream->whole = streams[k];
        stream->body = stream->whole + frame_nbytes;
        stream->body_nbytes = nbytes[k] - (uint64_t)frame_nbytes;
    }
    free(memory);
    return st;
}

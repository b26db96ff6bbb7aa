/* Lists the pieces of a stream, and lets an engine assemble them. */
#include "codec/compose/pieces.h"

#include <stdlib.h>

void
terp_pieces_begin(struct terp_pieces *pieces)
{
    pieces->writer = (struct writer){pieces->host,
                                     pieces->host + sizeof pieces->host, false};
    pieces->begin = pieces->host;
    pieces->n = 0;
    pieces->nbytes = 0;
    pieces->dst = NULL;
}

static void
add(struct terp_pieces *pieces, const void *at, uint64_t nbytes,
    bool is_on_host)
{
    if (nbytes == 0)
        return;
    assert(pieces->n < TERP_MAX_NPIECES);
    pieces->piece[pieces->n++] = (struct terp_piece){at, nbytes, is_on_host};
    pieces->nbytes += nbytes;
}

static void
add_host_bytes(struct terp_pieces *pieces)
{
    add(pieces, pieces->begin, (uint64_t)(pieces->writer.at - pieces->begin),
        true);
    pieces->begin = pieces->writer.at;
}

void
terp_pieces_add_frame(struct terp_pieces *pieces,
                      const struct terp_frame *frame)
{
    writer_take(&pieces->writer,
                (uint64_t)terp_frame_write(frame, pieces->writer.at));
}

void
terp_pieces_add(struct terp_pieces *pieces, const void *at, uint64_t nbytes)
{
    add_host_bytes(pieces);
    add(pieces, at, nbytes, false);
}

void
terp_pieces_add_part(struct terp_pieces *pieces, const struct terp_chunk *chunk,
                     struct terp_coded_part part, bool is_last)
{
    const uint64_t common_nbytes = terp_part_common_nbytes(chunk);
    const bool is_stored = part.stream_nbytes == 0;

    if (!is_last)
        terp_part_write_nbytes(&pieces->writer, chunk,
                               is_stored ? terp_stored_nbytes(chunk)
                                         : part.stream_nbytes);
    if (is_stored) {
        write_le(&pieces->writer, TERP_CODING_RAW, TERP_PART_NKEPT);
        terp_pieces_add(pieces, part.at, terp_chunk_nbytes(chunk));
        return;
    }
    terp_pieces_add(pieces, part.at + TERP_FRAME_CODING_AT, TERP_PART_NKEPT);
    terp_pieces_add(pieces, part.at + common_nbytes,
                    part.stream_nbytes - common_nbytes);
}

void
terp_pieces_raise_version(const struct terp_coder *coder,
                          struct terp_pieces *pieces,
                          struct terp_coded_part part)
{
    uint8_t *version = &pieces->host[TERP_FRAME_VERSION_AT];

    if (!coder->engine->is_device && part.stream_nbytes > 0 &&
        part.at[TERP_FRAME_VERSION_AT] > *version)
        *version = part.at[TERP_FRAME_VERSION_AT];
}

uint64_t
terp_pieces_end(struct terp_pieces *pieces)
{
    add_host_bytes(pieces);
    return pieces->nbytes;
}

enum terp_status
terp_pieces_write(const struct terp_coder *coder, uint64_t n,
                  const struct terp_pieces *pieces)
{
    struct terp_assembly one, *list = &one;
    enum terp_status st = TERP_ERR_MEMORY;
    uint64_t nstreams = 0;

    if (n > 1)
        list = terp_items_allocate(n, sizeof *list);
    for (uint64_t k = 0; list != NULL && k < n; k++)
        if (pieces[k].dst != NULL)
            list[nstreams++] = (struct terp_assembly){
                pieces[k].n, pieces[k].piece, pieces[k].dst, pieces[k].nbytes};
    if (list != NULL)
        st = nstreams == 0
                 ? TERP_OK
                 : coder->engine->assemble(coder->session, nstreams, list);
    if (n > 1)
        free(list);
    return st;
}

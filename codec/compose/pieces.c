/* Lists the pieces of a stream, and has an engine copy them. */
#include "codec/compose/pieces.h"

void
terp_pieces_begin(struct terp_pieces *pieces)
{
    pieces->writer = (struct writer){pieces->host,
                                     pieces->host + sizeof pieces->host, false};
    pieces->begin = pieces->host;
    pieces->n = 0;
    pieces->nbytes = 0;
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

uint64_t
terp_pieces_end(struct terp_pieces *pieces)
{
    add_host_bytes(pieces);
    return pieces->nbytes;
}

enum terp_status
terp_pieces_seal(const struct terp_coder *coder,
                 const struct terp_pieces *pieces, void *dst)
{
    enum terp_status st =
        coder->engine->append(coder->session, pieces->n, pieces->piece, dst);

    return st == TERP_OK
               ? coder->engine->seal(coder->session, dst, pieces->nbytes)
               : st;
}

/* Takes compound values apart, codes each member, and puts them together; and
 * changes members of chunks of numbers. */
#include "filter/container.h"

#include "codec/api/memory.h"
#include "codec/api/rewrite.h"
#include "codec/format/base.h"
#include "codec/format/frame.h"
#include "codec/format/types.h"
#include "codec/model/bound.h"

/* The head begins as a frame does, with a version that no stream has, so that
 * it can be sealed and verified like a stream. Bytes 6 and 7, where a frame has
 * its coding and prediction, are 0. */
static const uint8_t begin[8] = {'T', 'E', 'R', 'P', 'R', 1, 0, 0};
#define CONTAINER_VERSION_AT 5
enum {
    HEAD_NVALUES_AT = TERP_FRAME_DIMS_AT,
    HEAD_NMEMBERS_AT = HEAD_NVALUES_AT + 8,
    HEAD_VALUE_NBYTES_AT = HEAD_NMEMBERS_AT + 4,
    HEAD_MEMBERS_AT = HEAD_VALUE_NBYTES_AT + 4
};
_Static_assert(TERP_FORMAT_VERSION < 'R', "streams have lower versions");

/* An entry of the head: the member's bytes in a value, and its stream's. */
#define ENTRY_STREAM_AT 4
#define ENTRY_NBYTES 12

static uint64_t
head_nbytes(uint32_t nmembers)
{
    return HEAD_MEMBERS_AT + (uint64_t)nmembers * ENTRY_NBYTES;
}

/* ---- the head ---- */

bool
terp_container_is(const void *src, uint64_t src_nbytes)
{
    return src_nbytes >= CONTAINER_VERSION_AT &&
           memcmp(src, begin, CONTAINER_VERSION_AT) == 0;
}

/* Whether the members fill a value, and the streams the rest of the bytes. */
static bool
members_fit(const struct terp_container *container)
{
    const uint8_t *at = container->src + HEAD_MEMBERS_AT;
    uint64_t value_nbytes = 0;
    uint64_t left = container->nbytes - head_nbytes(container->nmembers);

    for (uint32_t i = 0; i < container->nmembers; i++, at += ENTRY_NBYTES) {
        const uint64_t member_nbytes = load_le(at, 4);
        const uint64_t stream_nbytes = load_le64(at + ENTRY_STREAM_AT);
        if (member_nbytes == 0 || stream_nbytes > left)
            return false;
        value_nbytes += member_nbytes;
        left -= stream_nbytes;
    }
    return value_nbytes == container->value_nbytes && left == 0;
}

enum terp_status
terp_container_read(const void *src, uint64_t src_nbytes,
                    struct terp_container *container_ret)
{
    const uint8_t *bytes = src;
    struct terp_container container = {.src = src, .nbytes = src_nbytes};
    uint64_t chunk_nbytes;

    if (!terp_container_is(src, src_nbytes))
        return TERP_ERR_MAGIC;
    if (src_nbytes < HEAD_MEMBERS_AT)
        return TERP_ERR_TRUNCATED;
    if (bytes[CONTAINER_VERSION_AT] != begin[CONTAINER_VERSION_AT])
        return TERP_ERR_VERSION;
    container.nvalues = load_le64(bytes + HEAD_NVALUES_AT);
    container.nmembers = (uint32_t)load_le(bytes + HEAD_NMEMBERS_AT, 4);
    container.value_nbytes = (uint32_t)load_le(bytes + HEAD_VALUE_NBYTES_AT, 4);
    if (container.nmembers == 0 ||
        container.nmembers > TERP_COMPOUND_MAX_NMEMBERS)
        return TERP_ERR_CORRUPT;
    if (src_nbytes < head_nbytes(container.nmembers))
        return TERP_ERR_TRUNCATED;
    const enum terp_status st =
        terp_frame_verify(src, head_nbytes(container.nmembers));
    if (st != TERP_OK)
        return st;
    if (memcmp(bytes, begin, sizeof begin) != 0 || container.nvalues == 0 ||
        !mul_fits(container.nvalues, container.value_nbytes, &chunk_nbytes) ||
        !members_fit(&container))
        return TERP_ERR_CORRUPT;
    *container_ret = container;
    return TERP_OK;
}

bool
terp_container_next(const struct terp_container *container,
                    struct terp_container_walk *walk)
{
    if (walk->next == container->nmembers)
        return false;
    const uint8_t *entry =
        container->src + HEAD_MEMBERS_AT + (uint64_t)walk->next * ENTRY_NBYTES;
    walk->stream = walk->next == 0
                       ? container->src + head_nbytes(container->nmembers)
                       : walk->stream + walk->stream_nbytes;
    walk->stream_nbytes = load_le64(entry + ENTRY_STREAM_AT);
    walk->at += walk->nbytes;
    walk->nbytes = (uint32_t)load_le(entry, 4);
    walk->next++;
    return true;
}

/* ---- members in memory ---- */

/* Copies blocks of `nbytes`; the compiler unrolls constant sizes. */
static inline __attribute__((always_inline)) void
copy_blocks(uint8_t *dst, uint64_t dst_stride, const uint8_t *src,
            uint64_t src_stride, uint64_t n, size_t nbytes)
{
    for (uint64_t i = 0; i < n; i++)
        memcpy(dst + i * dst_stride, src + i * src_stride, nbytes);
}

static void
copy_strided(uint8_t *dst, uint64_t dst_stride, const uint8_t *src,
             uint64_t src_stride, uint64_t n, size_t nbytes)
{
    if (nbytes == 4)
        copy_blocks(dst, dst_stride, src, src_stride, n, 4);
    else if (nbytes == 8)
        copy_blocks(dst, dst_stride, src, src_stride, n, 8);
    else
        copy_blocks(dst, dst_stride, src, src_stride, n, nbytes);
}

/* The bytes of the largest member in a value. */
static uint32_t
largest_member(const struct terp_container *container)
{
    struct terp_container_walk walk = {.next = 0};
    uint32_t largest_nbytes = 0;

    while (terp_container_next(container, &walk))
        if (walk.nbytes > largest_nbytes)
            largest_nbytes = walk.nbytes;
    return largest_nbytes;
}

/* ---- decoding ---- */

/* Decodes the stream of a member into `buffer`, which holds its values.
 * `expected` is its chunk by the cd_values, or NULL. */
static enum terp_status
decode_member(struct terp_run *run, const struct terp_container_walk *walk,
              const struct terp_chunk *expected, uint64_t nbytes, void *buffer)
{
    const void *stream = walk->stream;
    struct terp_read_frame frame;
    enum terp_status status; /* of the only chunk, as the result is */

    const enum terp_status st = terp_frame_read(
        walk->stream, walk->stream_nbytes, &frame.frame, &frame.nbytes);
    if (st != TERP_OK)
        return st;
    const struct terp_chunk *chunk = &frame.frame.chunk;
    if (terp_chunk_nbytes(chunk) != nbytes ||
        (expected != NULL && !terp_chunks_are_alike(chunk, expected)))
        return TERP_ERR_CORRUPT;
    return terp_run_decode(run, chunk, &frame, 1, 1, &stream,
                           &walk->stream_nbytes, &buffer, &status);
}

/* `buffer` is NULL where the chunk has one value. */
static enum terp_status
decode_members(struct terp_run *run, const struct terp_container *container,
               const struct terp_compound *compound, uint8_t *values,
               void *buffer)
{
    struct terp_container_walk walk = {.next = 0};
    struct terp_member_walk listed = {.at = 0};
    enum terp_status st = TERP_OK;

    while (st == TERP_OK && terp_container_next(container, &walk)) {
        struct terp_chunk expected;
        if (compound != NULL) {
            if (!terp_member_next(compound, &listed) ||
                listed.nbytes != walk.nbytes)
                return TERP_ERR_CORRUPT;
            st = terp_member_chunk(compound, &listed.member, &expected);
        }
        /* The only value's members need not be spread. */
        void *to = buffer == NULL ? values + walk.at : buffer;
        if (st == TERP_OK)
            st = decode_member(run, &walk, compound != NULL ? &expected : NULL,
                               container->nvalues * walk.nbytes, to);
        if (st == TERP_OK && to == buffer)
            copy_strided(values + walk.at, container->value_nbytes, buffer,
                         walk.nbytes, container->nvalues, walk.nbytes);
    }
    return st;
}

enum terp_status
terp_container_decode(struct terp_run *run,
                      const struct terp_container *container,
                      const struct terp_compound *compound, void *values)
{
    void *buffer = NULL;

    if (compound != NULL &&
        (compound->nmembers != container->nmembers ||
         terp_compound_nvalues(compound) != container->nvalues))
        return TERP_ERR_CORRUPT;
    enum terp_status st =
        container->nvalues == 1
            ? TERP_OK
            : terp_memory_make(
                  run, container->nvalues * largest_member(container), &buffer);
    if (st != TERP_OK)
        return st;
    st = decode_members(run, container, compound, values, buffer);
    terp_memory_free(run, buffer);
    return st;
}

/* ---- streams that exist ---- */

/* Writes the head but for the members. */
static void
begin_head(uint64_t nvalues, uint32_t nmembers, uint32_t value_nbytes,
           uint8_t *dst)
{
    memcpy(dst, begin, sizeof begin);
    store_le(dst + HEAD_NVALUES_AT, nvalues, 8);
    store_le(dst + HEAD_NMEMBERS_AT, nmembers, 4);
    store_le(dst + HEAD_VALUE_NBYTES_AT, value_nbytes, 4);
}

/* Writes the entry of member `i`. */
static void
write_entry(uint8_t *dst, uint32_t i, uint32_t nbytes, uint64_t stream_nbytes)
{
    uint8_t *entry = dst + HEAD_MEMBERS_AT + (uint64_t)i * ENTRY_NBYTES;

    store_le(entry, nbytes, 4);
    store_le(entry + ENTRY_STREAM_AT, stream_nbytes, 8);
}

uint64_t
terp_container_join_nbytes(const struct terp_container_member *members,
                           uint32_t nmembers)
{
    uint64_t nbytes = head_nbytes(nmembers);

    for (uint32_t i = 0; i < nmembers; i++)
        nbytes += members[i].stream_nbytes;
    return nbytes;
}

void
terp_container_join(uint64_t nvalues,
                    const struct terp_container_member *members,
                    uint32_t nmembers, void *dst)
{
    uint64_t at = head_nbytes(nmembers);
    uint32_t value_nbytes = 0;

    for (uint32_t i = 0; i < nmembers; i++) {
        const struct terp_container_member *member = &members[i];
        write_entry(dst, i, member->nbytes, member->stream_nbytes);
        memcpy((uint8_t *)dst + at, member->stream, member->stream_nbytes);
        at += member->stream_nbytes;
        value_nbytes += member->nbytes;
    }
    begin_head(nvalues, nmembers, value_nbytes, dst);
    terp_frame_seal(dst, head_nbytes(nmembers));
}

/* ---- changed chunks of numbers ---- */

uint64_t
terp_container_change_bound(const struct terp_container *before)
{
    return terp_container_chunk_nbytes(before) + head_nbytes(before->nmembers) +
           (uint64_t)before->nmembers * TERP_MAX_FRAME_NBYTES;
}

/* A chunk of numbers whose members are encoded again. */
struct change {
    struct terp_run *run;
    const struct terp_params *params;
    const struct terp_chunk *chunk;
    const struct terp_container *before;
    const uint8_t *values;
    uint8_t *old, *new; /* the values of a member */
    bool is_like;       /* `values` are like those of `before` */
    bool is_rewrite;
};

/* The parameters of a member. Its stream tells no bound where it is constant
 * or lossless; its values then get no error. They get none either if `before`
 * may be of another chunk, whose members have other places. */
static struct terp_params
params_of_member(const struct change *change, const struct terp_frame *frame)
{
    struct terp_params params = *change->params;
    const double bound = frame->is_pointwise ? 0 : frame->bound;

    if (!change->is_like)
        return terp_params_lossless(&params);
    if (params.bound_mode == TERP_BOUND_ABSOLUTE && bound < params.bound)
        params.bound = bound;
    return params;
}

/* Decodes a member to `old`, and copies its values to `new`. */
static enum terp_status
take_member(struct change *change, const struct terp_container_walk *walk)
{
    const struct terp_container *before = change->before;
    const enum terp_status st = decode_member(
        change->run, walk, NULL, before->nvalues * walk->nbytes, change->old);

    if (st == TERP_OK)
        copy_strided(change->new, walk->nbytes, change->values + walk->at,
                     before->value_nbytes, before->nvalues, walk->nbytes);
    return st;
}

/* Sets change->is_like: whether most values that differ from the value before
 * them are unchanged. Equal values tell nothing: many chunks are 0. */
static enum terp_status
compare_members(struct change *change)
{
    const uint64_t size = (uint64_t)terp_value_nbytes(change->chunk->type);
    struct terp_container_walk walk = {.next = 0};
    uint64_t nvarying = 0, nsame = 0;

    while (terp_container_next(change->before, &walk)) {
        const uint64_t nbytes = change->before->nvalues * walk.nbytes;
        const enum terp_status st = take_member(change, &walk);
        if (st != TERP_OK)
            return st;
        for (uint64_t at = size; at + size <= nbytes; at += size)
            if (memcmp(change->old + at, change->old + at - size, size) != 0) {
                nvarying++;
                nsame += memcmp(change->old + at, change->new + at, size) == 0;
            }
    }
    change->is_like = nsame > nvarying / 2;
    return TERP_OK;
}

static enum terp_status
change_member(struct change *change, const struct terp_container_walk *walk,
              uint8_t *dst, uint64_t *nbytes_ret)
{
    const struct terp_container *before = change->before;
    const uint64_t nbytes = before->nvalues * walk->nbytes;
    struct terp_read_frame frame;
    bool is_rewrite;

    enum terp_status st = terp_frame_read(walk->stream, walk->stream_nbytes,
                                          &frame.frame, &frame.nbytes);
    if (st == TERP_OK &&
        (frame.frame.chunk.type != change->chunk->type ||
         frame.frame.chunk.big_endian != change->chunk->big_endian))
        st = TERP_ERR_CORRUPT;
    if (st == TERP_OK)
        st = take_member(change, walk);
    if (st != TERP_OK)
        return st;
    if (memcmp(change->new, change->old, nbytes) == 0) {
        memcpy(dst, walk->stream, walk->stream_nbytes);
        *nbytes_ret = walk->stream_nbytes;
        change->is_rewrite = true;
        return TERP_OK;
    }
    const struct terp_params params = params_of_member(change, &frame.frame);
    st = terp_rewrite_encode(change->run, &params, &frame.frame.chunk,
                             walk->stream, walk->stream_nbytes, change->new,
                             dst, nbytes_ret, &is_rewrite);
    change->is_rewrite |= is_rewrite;
    return st;
}

static enum terp_status
change_members(struct change *change, uint8_t *dst, uint64_t *nbytes_ret)
{
    const struct terp_container *before = change->before;
    struct terp_container_walk walk = {.next = 0};
    uint64_t at = head_nbytes(before->nmembers);

    begin_head(before->nvalues, before->nmembers, before->value_nbytes, dst);
    while (terp_container_next(before, &walk)) {
        uint64_t stream_nbytes;
        const enum terp_status st =
            change_member(change, &walk, dst + at, &stream_nbytes);
        if (st != TERP_OK)
            return st;
        write_entry(dst, walk.next - 1, walk.nbytes, stream_nbytes);
        at += stream_nbytes;
    }
    terp_frame_seal(dst, head_nbytes(before->nmembers));
    *nbytes_ret = at;
    return TERP_OK;
}

enum terp_status
terp_container_change(struct terp_run *run, const struct terp_params *params,
                      const struct terp_chunk *chunk,
                      const struct terp_container *before, const void *values,
                      void *dst, uint64_t *dst_nbytes_ret, bool *is_rewrite_ret)
{
    const uint64_t nbytes = before->nvalues * largest_member(before);
    struct change change = {.run = run,
                            .params = params,
                            .chunk = chunk,
                            .before = before,
                            .values = values};
    void *old = NULL, *new = NULL;

    *is_rewrite_ret = false;
    if (terp_container_chunk_nbytes(before) != terp_chunk_nbytes(chunk))
        return TERP_ERR_CORRUPT;
    enum terp_status st = terp_memory_make(run, nbytes, &old);
    if (st == TERP_OK)
        st = terp_memory_make(run, nbytes, &new);
    if (st == TERP_OK) {
        change.old = old;
        change.new = new;
        st = compare_members(&change);
    }
    if (st == TERP_OK) {
        st = change_members(&change, dst, dst_nbytes_ret);
    }
    terp_memory_free(run, old);
    terp_memory_free(run, new);
    *is_rewrite_ret = change.is_rewrite;
    return st;
}

/* ---- encoding ---- */

uint64_t
terp_container_bound(const struct terp_compound *compound)
{
    const uint64_t nvalues = terp_compound_nvalues(compound);
    const uint64_t more_nbytes =
        head_nbytes(compound->nmembers) +
        (uint64_t)compound->nmembers * TERP_MAX_FRAME_NBYTES;

    return nvalues == 0 ? 0 : nvalues * compound->value_nbytes + more_nbytes;
}

/* The state of encoding. */
struct encoding {
    struct terp_run *run;
    const struct terp_cd *cd;
    const uint8_t *values;
    uint64_t nvalues;
    bool is_padded;
    void *buffer; /* the values of a member */
    bool is_rewrite;
};

static bool
is_zero(const uint8_t *bytes, uint64_t nbytes)
{
    for (uint64_t i = 0; i < nbytes; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Whether the chunk seems to end in values that nobody wrote. HDF5 pads the
 * chunks at a dataset's end with the fill value or with zeros. */
static bool
is_padded(const uint8_t *values, uint64_t nvalues, uint32_t value_nbytes)
{
    const uint8_t *last = values + (nvalues - 1) * value_nbytes;

    return is_zero(last, value_nbytes) ||
           (nvalues > 1 &&
            memcmp(last - value_nbytes, last, value_nbytes) == 0);
}

/* Makes what pads a member its fill value where the range matters: a fill value
 * does not widen it, and comes back bit for bit. */
static void
set_padding(const struct encoding *encoding,
            const struct terp_member_walk *walk, struct terp_params *params)
{
    const uint8_t *last =
        encoding->values +
        (encoding->nvalues - 1) * encoding->cd->compound.value_nbytes +
        walk->at;
    const int nbytes = terp_part_nbytes(walk->member.type);
    uint64_t bits = 0;

    if ((params->bound_mode != TERP_BOUND_RELATIVE &&
         params->bound_mode != TERP_BOUND_PSNR) ||
        (terp_type_nparts(walk->member.type) > 1 &&
         memcmp(last, last + nbytes, (size_t)nbytes) != 0))
        return;
    for (int i = 0; i < nbytes; i++)
        bits |= (uint64_t)last[walk->member.big_endian ? nbytes - 1 - i : i]
                << 8 * i;
    params->has_fill = true;
    params->fill_bits = bits;
}

static enum terp_status
encode_member(struct encoding *encoding, const struct terp_member_walk *walk,
              const struct terp_container_walk *before, void *dst,
              uint64_t *nbytes_ret)
{
    struct terp_params params =
        terp_cd_member_params(encoding->cd, &walk->member);
    const uint64_t value_nbytes = encoding->cd->compound.value_nbytes;
    const void *const src = encoding->buffer;
    struct terp_chunk chunk;
    bool is_rewrite = false;

    enum terp_status st =
        terp_member_chunk(&encoding->cd->compound, &walk->member, &chunk);
    if (st != TERP_OK)
        return st;
    copy_strided(encoding->buffer, walk->nbytes, encoding->values + walk->at,
                 value_nbytes, encoding->nvalues, walk->nbytes);
    if (encoding->is_padded)
        set_padding(encoding, walk, &params);
    if (before == NULL || !terp_params_may_lose(chunk.type, &params))
        return terp_run_encode(encoding->run, &params, &chunk, 1, &src, &dst,
                               nbytes_ret);
    st = terp_rewrite_encode(encoding->run, &params, &chunk, before->stream,
                             before->stream_nbytes, src, dst, nbytes_ret,
                             &is_rewrite);
    encoding->is_rewrite |= is_rewrite;
    return st;
}

static enum terp_status
encode_members(struct encoding *encoding, const struct terp_container *before,
               uint8_t *dst, uint64_t *nbytes_ret)
{
    const struct terp_compound *compound = &encoding->cd->compound;
    struct terp_member_walk walk = {.at = 0};
    struct terp_container_walk old = {.next = 0};
    uint64_t at = head_nbytes(compound->nmembers);

    begin_head(encoding->nvalues, compound->nmembers, compound->value_nbytes,
               dst);
    for (uint32_t i = 0; terp_member_next(compound, &walk); i++) {
        uint64_t stream_nbytes;
        const bool has_old =
            before != NULL && terp_container_next(before, &old);
        const enum terp_status st = encode_member(
            encoding, &walk, has_old ? &old : NULL, dst + at, &stream_nbytes);
        if (st != TERP_OK)
            return st;
        write_entry(dst, i, walk.nbytes, stream_nbytes);
        at += stream_nbytes;
    }
    terp_frame_seal(dst, head_nbytes(compound->nmembers));
    *nbytes_ret = at;
    return TERP_OK;
}

enum terp_status
terp_container_encode(struct terp_run *run, const struct terp_cd *cd,
                      const void *values, const struct terp_container *before,
                      void *dst, uint64_t *dst_nbytes_ret, bool *is_rewrite_ret)
{
    const struct terp_compound *compound = &cd->compound;
    struct encoding encoding = {.run = run,
                                .cd = cd,
                                .values = values,
                                .nvalues = terp_compound_nvalues(compound)};
    struct terp_member_walk walk = {.at = 0};
    uint32_t largest_nbytes = 0;

    *is_rewrite_ret = false;
    if (encoding.nvalues == 0)
        return TERP_ERR_ARGUMENT;
    while (terp_member_next(compound, &walk))
        if (walk.nbytes > largest_nbytes)
            largest_nbytes = walk.nbytes;
    encoding.is_padded =
        is_padded(values, encoding.nvalues, compound->value_nbytes);
    enum terp_status st = terp_memory_make(
        run, encoding.nvalues * largest_nbytes, &encoding.buffer);
    if (st != TERP_OK)
        return st;
    st = encode_members(&encoding, before, dst, dst_nbytes_ret);
    terp_memory_free(run, encoding.buffer);
    *is_rewrite_ret = encoding.is_rewrite;
    return st;
}

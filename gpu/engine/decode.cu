/* Decodes complete streams, each in the form and domain that the stream states.
 * The first call assumes that all streams are like the first one. Further calls
 * decode the streams that the first call has left, after the host has read the
 * beginnings of those streams. */
#include "gpu/engine/decode.cuh"

#include "codec/format/types.h"

/* How a stream is decoded that the first call has left. */
struct order {
    bool is_wanted;
    struct terp_chunk domain;
    enum cuda_form form;
    bool decodes_all = false; /* see cuda_call */
};

/* The bytes of a stream's beginning that say how to decode the stream: the
 * frame, the carrier's head, and the first byte of a form's head. */
#define BEGIN_NBYTES (TERP_FRAME_MAX_NBYTES + CUDA_CARRIER_HEAD_MAX_NBYTES + 1)

/* Copies the beginnings of streams to the host. */
static enum terp_status
fetch(struct terp_session *session, const struct cuda_part &part)
{
    if (!part.call.src_on_host)
        return cuda_session_fetch(session, part.call.nchunks, part.dst,
                                  part.src, part.src_nbytes);
    for (uint64_t i = 0; i < part.call.nchunks; i++)
        memcpy(part.dst[i], part.src[i], part.src_nbytes[i]);
    return TERP_OK;
}

static bool
orders_are_equal(const struct order *a, const struct order *b)
{
    return a->is_wanted == b->is_wanted && a->form == b->form &&
           a->decodes_all == b->decodes_all &&
           terp_shapes_are_equal(&a->domain, &b->domain);
}

/* Decodes all streams from `first` on whose orders equal that of stream
 * `first`. Clears is_wanted of their orders. */
static enum terp_status
code_part(struct terp_session *session, const struct cuda_call *call,
          struct order *orders, uint64_t first)
{
    const struct order like = orders[first];
    struct cuda_part part(*call);

    if (!part.is_made())
        return TERP_ERR_MEMORY;
    part.call.form = like.form;
    part.call.decodes_all = like.decodes_all;
    if (!terp_shapes_are_equal(&like.domain, call->chunk))
        part.call.domain = &like.domain;
    for (uint64_t i = first; i < call->nchunks; i++)
        if (orders_are_equal(&orders[i], &like)) {
            part.add(*call, i);
            orders[i].is_wanted = false;
        }
    const enum terp_status st = cuda_call_do(session, &part.call);
    if (st == TERP_OK)
        part.return_status(*call);
    return st;
}

static enum terp_status
decode_orders(struct terp_session *session, const struct cuda_call *call,
              struct order *orders)
{
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < call->nchunks; i++)
        if (orders[i].is_wanted)
            st = code_part(session, call, orders, i);
    return st;
}

/* Whether a plain stream has a form. Constant streams have one only for
 * integers, where the carrier's head states it. */
static bool
has_form(const struct terp_frame *frame)
{
    return frame->coding != TERP_CODING_RAW &&
           !terp_coding_holds(frame->coding) &&
           frame->coding != TERP_CODING_SPEED &&
           (frame->coding != TERP_CODING_CONSTANT ||
            terp_type_is_integer(frame->chunk.type));
}

/* The form of a stream, from its frame and the `left_nbytes` bytes behind it at
 * `head`. */
static enum cuda_form
form_of_stream(const struct terp_frame *frame, const uint8_t *head,
               uint64_t left_nbytes)
{
    const unsigned carrier = cuda_carrier_head_nbytes(frame->chunk.type);

    if (terp_type_is_integer(frame->chunk.type))
        return left_nbytes > 0 ? cuda_form_of_carrier((enum terp_carrier_form)(
                                     head[0] & TERP_CARRIER_FORM))
                               : CUDA_VALUES;
    return frame->is_pointwise && left_nbytes > carrier
               ? cuda_form_of_head(head[carrier])
               : CUDA_VALUES;
}

/* Whether values of a type can have a form. A damaged stream may state any
 * form. */
static bool
form_is_of_type(enum cuda_form form, enum terp_type type)
{
    return cuda_form_is_of_integers(form) == terp_type_is_integer(type);
}

/* The form to try first: the form of the first coded stream, if streams are in
 * host memory. Otherwise the form for which streams of the type were last
 * decoded a second time. */
static enum cuda_form
form_of_streams(const struct terp_cuda_device *device,
                const struct cuda_call *call)
{
    const bool on_host = call->src_on_host;
    const enum terp_type type = call->chunk->type;
    struct terp_frame frame;
    int nbytes;

    for (uint64_t i = 0; on_host && i < call->nchunks; i++) {
        const uint8_t *bytes = (const uint8_t *)call->src[i];
        if (terp_frame_read(bytes, call->src_nbytes[i], &frame, &nbytes) !=
                TERP_OK ||
            !terp_chunks_are_alike(&frame.chunk, call->chunk) ||
            !has_form(&frame))
            continue;
        const enum cuda_form form = form_of_stream(
            &frame, bytes + nbytes, call->src_nbytes[i] - (uint64_t)nbytes);
        if (form_is_of_type(form, type))
            return form;
    }
    return terp_type_is_integer(type) ? cuda_form_of_integers(device, type)
           : on_host                  ? CUDA_VALUES
                                      : device->last_form[type].load();
}

/* The order for a stream that the first call has left: wanted if the stream is
 * of the call's chunk and plain, but has another form or domain, or must be
 * decoded completely because its prediction has no levels to leave out. `bytes`
 * is the stream's beginning. */
static struct order
order_of_frame(const struct cuda_call *call, const uint8_t *bytes,
               uint64_t nbytes)
{
    const struct terp_chunk *chunk = call->chunk;
    struct order order = {};
    struct terp_frame frame;
    int frame_nbytes;

    if (terp_frame_read(bytes, nbytes, &frame, &frame_nbytes) != TERP_OK ||
        !terp_chunks_are_alike(&frame.chunk, chunk) ||
        terp_coding_holds(frame.coding) || frame.coding == TERP_CODING_SPEED ||
        (frame.coding == TERP_CODING_CONSTANT && !has_form(&frame)))
        return order;
    order.domain = frame.domain;
    order.form = has_form(&frame)
                     ? form_of_stream(&frame, bytes + frame_nbytes,
                                      nbytes - (uint64_t)frame_nbytes)
                     : call->form;
    order.decodes_all = call->step > 1 &&
                        frame.coding != TERP_CODING_CONSTANT &&
                        frame.prediction != TERP_PREDICTION_SPLINE;
    if (form_is_of_type(order.form, chunk->type) &&
        (order.decodes_all || order.form != call->form ||
         !terp_shapes_are_equal(&frame.domain, chunk)))
        order.is_wanted = true;
    return order;
}

/* Decodes the streams that the first call has left because of their form or
 * domain. */
static enum terp_status
decode_left(struct terp_session *session, const struct cuda_call *call)
{
    const uint64_t n = call->nchunks;
    const cuda_host_array<struct order> orders(n);
    const cuda_host_array<uint8_t> frames(n * BEGIN_NBYTES);
    struct cuda_part left(*call);

    if (!left.is_made() || orders == NULL || frames == NULL)
        return TERP_ERR_MEMORY;
    for (uint64_t i = 0; i < n; i++) {
        if (call->status[i] != TERP_ERR_DEVICE || call->src_nbytes[i] == 0)
            continue;
        const uint64_t k = left.call.nchunks;
        left.add(*call, i);
        left.dst[k] = frames + i * BEGIN_NBYTES;
        left.src_nbytes[k] = min_u64(call->src_nbytes[i], BEGIN_NBYTES);
    }
    const enum terp_status st = fetch(session, left);
    if (st != TERP_OK)
        return st;
    for (uint64_t k = 0; k < left.call.nchunks; k++) {
        struct order *order = &orders[left.at[k]];
        *order = order_of_frame(call, (const uint8_t *)left.dst[k],
                                left.src_nbytes[k]);
        if (order->is_wanted)
            session->device->last_form[call->chunk->type] = order->form;
    }
    return decode_orders(session, call, orders);
}

enum terp_status
cuda_decode(struct terp_session *session, struct cuda_call *call)
{
    call->form = form_of_streams(session->device, call);
    enum terp_status st = cuda_call_do(session, call);
    for (uint64_t i = 0; st == TERP_OK && i < call->nchunks; i++)
        if (call->status[i] == TERP_ERR_DEVICE)
            return decode_left(session, call);
    return st;
}

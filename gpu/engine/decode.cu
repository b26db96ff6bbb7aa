/* Decodes complete streams, each in the form and domain that the stream states.
 * The first call assumes that all streams are like the first one. Further calls
 * decode the streams that the first call has left, after the host has read the
 * beginnings of those streams. */
#include "gpu/engine/decode.cuh"

#include <new>

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

/* Some streams of a call, as a call of their own. */
struct part {
    struct cuda_call call;
    uint64_t n;
    uint64_t *at; /* their numbers in the first call */
    const void **src;
    uint64_t *src_nbytes;
    void **dst;
    enum terp_status *status;
};

static void
free_part(struct part *part)
{
    delete[] part->at;
    delete[] part->src;
    delete[] part->src_nbytes;
    delete[] part->dst;
    delete[] part->status;
}

/* Makes a part with space for all chunks of `call`, to be decoded as `order`
 * says. Call free_part also after a failure. */
static bool
make_part(const struct cuda_call *call, const struct order *order,
          struct part *part)
{
    const size_t n = (size_t)call->nchunks;

    *part = {};
    part->call = *call;
    part->call.form = order->form;
    part->call.decodes_all = order->decodes_all;
    if (!terp_shapes_are_equal(&order->domain, call->chunk))
        part->call.domain = &order->domain;
    part->at = new (std::nothrow) uint64_t[n];
    part->call.src = part->src = new (std::nothrow) const void *[n];
    part->call.src_nbytes = part->src_nbytes = new (std::nothrow) uint64_t[n];
    part->call.dst = part->dst = new (std::nothrow) void *[n];
    part->call.status = part->status = new (std::nothrow) enum terp_status[n];
    return part->at != NULL && part->src != NULL && part->src_nbytes != NULL &&
           part->dst != NULL && part->status != NULL;
}

static void
add_to_part(const struct cuda_call *call, uint64_t i, struct part *part)
{
    part->at[part->n] = i;
    part->src[part->n] = call->src[i];
    part->src_nbytes[part->n] = call->src_nbytes[i];
    part->dst[part->n] = call->dst[i];
    part->call.nchunks = ++part->n;
}

/* Copies the beginnings of streams to the host. */
static enum terp_status
fetch(struct terp_session *session, bool on_host, const struct part *part)
{
    if (!on_host)
        return cuda_session_fetch(session, part->n, part->dst, part->src,
                                  part->src_nbytes);
    for (uint64_t i = 0; i < part->n; i++)
        memcpy(part->dst[i], part->src[i], part->src_nbytes[i]);
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
    struct part part;
    enum terp_status st = TERP_ERR_MEMORY;

    if (make_part(call, &like, &part)) {
        for (uint64_t i = first; i < call->nchunks; i++)
            if (orders_are_equal(&orders[i], &like)) {
                add_to_part(call, i, &part);
                orders[i].is_wanted = false;
            }
        st = cuda_call_do(session, &part.call);
        for (uint64_t i = 0; st == TERP_OK && i < part.n; i++)
            call->status[part.at[i]] = part.status[i];
    }
    free_part(&part);
    return st;
}

static enum terp_status
code_again(struct terp_session *session, const struct cuda_call *call,
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
                                      : device->form_seen[type].load();
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
decode_again(struct terp_session *session, const struct cuda_call *call)
{
    struct terp_cuda_device *device = session->device;
    const size_t n = (size_t)call->nchunks;
    const struct order own = {true, *call->chunk, call->form};
    struct order *orders = new (std::nothrow) struct order[n]();
    uint8_t *frames = new (std::nothrow) uint8_t[n * BEGIN_NBYTES];
    struct part left;
    enum terp_status st = TERP_ERR_MEMORY;

    if (make_part(call, &own, &left) && orders != NULL && frames != NULL) {
        for (uint64_t i = 0; i < call->nchunks; i++) {
            if (call->status[i] != TERP_ERR_DEVICE || call->src_nbytes[i] == 0)
                continue;
            add_to_part(call, i, &left);
            left.dst[left.n - 1] = frames + i * BEGIN_NBYTES;
            left.src_nbytes[left.n - 1] =
                min_u64(call->src_nbytes[i], BEGIN_NBYTES);
        }
        st = fetch(session, call->src_on_host, &left);
        for (uint64_t i = 0; st == TERP_OK && i < left.n; i++)
            orders[left.at[i]] = order_of_frame(
                call, (const uint8_t *)left.dst[i], left.src_nbytes[i]);
        for (uint64_t i = 0; st == TERP_OK && i < left.n; i++)
            if (orders[left.at[i]].is_wanted)
                device->form_seen[call->chunk->type] = orders[left.at[i]].form;
        if (st == TERP_OK)
            st = code_again(session, call, orders);
    }
    free_part(&left);
    delete[] frames;
    delete[] orders;
    return st;
}

enum terp_status
cuda_decode(struct terp_session *session, struct cuda_call *call)
{
    call->form = form_of_streams(session->device, call);
    enum terp_status st = cuda_call_do(session, call);
    for (uint64_t i = 0; st == TERP_OK && i < call->nchunks; i++)
        if (call->status[i] == TERP_ERR_DEVICE)
            return decode_again(session, call);
    return st;
}

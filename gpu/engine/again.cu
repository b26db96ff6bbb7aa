/* Chunks that are coded again: in the form that they ask for, in the domain
 * that was found, or as their streams tell; or in all ways that are to be
 * tried. */
#include "gpu/engine/again.cuh"

#include <new>

#include "codec/format/types.h"
#include "codec/model/lag_errors.h"
#include "codec/model/repeats.h"
#include "gpu/engine/array.cuh"
#include "gpu/engine/copies.cuh"
#include "gpu/engine/references.cuh"
#include "gpu/predict/pointwise.cuh"

/* How a chunk is to be coded again. */
enum order_kind {
    NOT_AGAIN,
    INSTEAD,
    IF_SMALLER
};

struct order {
    enum order_kind how;
    struct terp_trial trial;
    enum cuda_form form;
    bool decodes_all = false; /* as of cuda_call */
};

/* The begin of a stream, which tells how it is to be decoded: its frame, the
 * head of a carrier, and the first byte of a form's. */
#define BEGIN_NBYTES (TERP_FRAME_MAX_NBYTES + CUDA_CARRIER_HEAD_MAX_NBYTES + 1)

/* Values that are tried at once, at most, but for one chunk. */
#define TRIAL_NBYTES (UINT64_C(256) << 20)

/* Some chunks of a call, as a call. */
struct part {
    struct cuda_call call;
    struct terp_params params;
    uint64_t n;
    uint64_t *at; /* which */
    const void **src;
    uint64_t *src_nbytes;
    void **dst;
    uint64_t *dst_nbytes;
    double *bounds;
    struct cuda_found_domain *found;
    enum terp_status *status;
};

static void
free_part(struct part *part)
{
    delete[] part->at;
    delete[] part->src;
    delete[] part->src_nbytes;
    delete[] part->dst;
    delete[] part->dst_nbytes;
    delete[] part->bounds;
    delete[] part->found;
    delete[] part->status;
}

/* With room for all chunks of `call`, to be coded as `order` says. */
static bool
make_part(const struct cuda_call *call, const struct order *order,
          struct part *part)
{
    const size_t n = (size_t)call->nchunks;

    *part = {};
    part->call = *call;
    part->call.form = order->form;
    part->call.decodes_all = order->decodes_all;
    if (!terp_shapes_are_equal(&order->trial.domain, call->chunk))
        part->call.domain = &order->trial.domain;
    if (call->params != NULL) {
        part->params = *call->params;
        part->params.predictor = order->trial.predictor;
        part->params.pipeline = order->trial.pipeline;
        part->call.params = &part->params;
    }
    part->at = new (std::nothrow) uint64_t[n];
    part->call.src = part->src = new (std::nothrow) const void *[n];
    part->call.src_nbytes = part->src_nbytes = new (std::nothrow) uint64_t[n];
    part->call.dst = part->dst = new (std::nothrow) void *[n];
    part->call.dst_nbytes = part->dst_nbytes = new (std::nothrow) uint64_t[n];
    part->call.bounds = part->bounds = new (std::nothrow) double[n];
    part->call.found = part->found =
        new (std::nothrow) struct cuda_found_domain[n]();
    part->call.status = part->status = new (std::nothrow) enum terp_status[n];
    return part->at != NULL && part->src != NULL && part->src_nbytes != NULL &&
           part->dst != NULL && part->dst_nbytes != NULL &&
           part->bounds != NULL && part->found != NULL && part->status != NULL;
}

static void
add_to_part(const struct cuda_call *call, uint64_t i, struct part *part)
{
    part->at[part->n] = i;
    part->src[part->n] = call->src[i];
    part->src_nbytes[part->n] = call->params == NULL ? call->src_nbytes[i] : 0;
    part->dst[part->n] = call->dst[i];
    if (cuda_bounds_come_from_host(call->bounds_are))
        part->bounds[part->n] = call->bounds[i];
    part->call.nchunks = ++part->n;
}

static enum terp_status
copy(struct terp_cuda_device *device, const struct terp_cuda_call *where,
     uint64_t n, void *const *dst, const void *const *src,
     const uint64_t *nbytes)
{
    if (where->memory == TERP_MEMORY_DEVICE)
        return cuda_array_copy(device, where, n, dst, src, nbytes);
    for (uint64_t i = 0; i < n; i++)
        memcpy(dst[i], src[i], nbytes[i]);
    return TERP_OK;
}

/* Codes the chunks of a call. */
typedef enum terp_status
encode_function(struct terp_cuda_device *device,
                const struct terp_cuda_call *where, struct cuda_call *call);

/* Codes the chunks of a part where the smaller stream of two is to be kept. */
static enum terp_status
encode_trial(struct terp_cuda_device *device,
             const struct terp_cuda_call *where, const struct cuda_call *call,
             struct part *part, encode_function *encode)
{
    const uint64_t stride = (terp_encode_bound(call->chunk) + 15) / 16 * 16;
    void *memory = NULL;
    enum terp_status st = TERP_OK;

    if (call->host)
        memory = terp_allocate(call->allocator, part->n * stride);
    else
        cuda_array_allocate(device, part->n * stride, &memory);
    for (uint64_t i = 0; i < part->n; i++)
        part->dst[i] = (uint8_t *)memory + i * stride;
    if (memory != NULL)
        st = encode(device, where, &part->call);
    for (uint64_t i = 0; st == TERP_OK && i < part->n; i++) {
        uint64_t at = part->at[i], own_nbytes = call->dst_nbytes[at];
        /* Without memory, or what the CPU is to do in one domain, it does in
         * both. */
        if (memory == NULL || part->dst_nbytes[i] == 0) {
            call->dst_nbytes[at] = 0;
        } else if (own_nbytes != 0 && part->dst_nbytes[i] < own_nbytes) {
            const void *from = part->dst[i];
            st = copy(device, where, 1, &call->dst[at], &from,
                      &part->dst_nbytes[i]);
            call->dst_nbytes[at] = part->dst_nbytes[i];
        }
    }
    if (call->host)
        terp_release(call->allocator, memory);
    else if (memory != NULL)
        cuda_array_release(device, memory);
    return st;
}

static bool
orders_are_equal(const struct order *a, const struct order *b)
{
    return a->how == b->how && a->form == b->form &&
           a->decodes_all == b->decodes_all &&
           a->trial.predictor == b->trial.predictor &&
           a->trial.pipeline == b->trial.pipeline &&
           terp_shapes_are_equal(&a->trial.domain, &b->trial.domain);
}

/* Whether references are worth a search, where all bits come back, is asked of
 * a stream's length: of that which is kept. */
static void
learn_of_repeats(const struct cuda_call *call, const struct part *part)
{
    if (!terp_may_refer_exactly(call->params, call->chunk->type))
        return;
    for (uint64_t i = 0; i < part->n; i++) {
        const uint64_t at = part->at[i], nbytes = call->dst_nbytes[at];
        if (nbytes != 0 && nbytes == part->dst_nbytes[i])
            call->found[at].may_repeat = part->found[i].may_repeat;
    }
}

/* All chunks from the first on that have the same order, as many as one trial
 * holds. Their orders are taken back. */
static enum terp_status
code_part(struct terp_cuda_device *device, const struct terp_cuda_call *where,
          const struct cuda_call *call, struct order *orders, uint64_t first)
{
    const struct order like = orders[first];
    const uint64_t most =
        like.how == INSTEAD ? UINT64_MAX
                            : TRIAL_NBYTES / terp_chunk_nbytes(call->chunk) + 1;
    struct part part;
    enum terp_status st = TERP_ERR_MEMORY;

    if (make_part(call, &like, &part)) {
        for (uint64_t i = first; i < call->nchunks && part.n < most; i++)
            if (orders_are_equal(&orders[i], &like)) {
                add_to_part(call, i, &part);
                orders[i].how = NOT_AGAIN;
            }
        st = like.how == IF_SMALLER
                 ? encode_trial(device, where, call, &part, cuda_call_do)
                 : cuda_call_do(device, where, &part.call);
        for (uint64_t i = 0; st == TERP_OK && i < part.n; i++)
            if (call->params == NULL)
                call->status[part.at[i]] = part.status[i];
            else if (like.how == INSTEAD)
                call->dst_nbytes[part.at[i]] = part.dst_nbytes[i];
        if (st == TERP_OK && call->params != NULL)
            learn_of_repeats(call, &part);
    }
    free_part(&part);
    return st;
}

static enum terp_status
code_again(struct terp_cuda_device *device, const struct terp_cuda_call *where,
           const struct cuda_call *call, struct order *orders)
{
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < call->nchunks; i++)
        if (orders[i].how != NOT_AGAIN)
            st = code_part(device, where, call, orders, i);
    return st;
}

/* ---- forms ---- */

/* What integers of a type are taken to be coded as: as those that were last
 * coded again. */
static enum cuda_form
form_of_integers(const struct terp_cuda_device *device, enum terp_type type)
{
    const enum cuda_form seen = device->form_seen[type].load();

    return cuda_form_is_of_integers(seen) ? seen
           : terp_part_nbytes(type) <= 4  ? CUDA_INTS_F32
                                          : CUDA_INTS_F64;
}

/* The form that most chunks of an encoder's call have. */
static enum cuda_form
expected_form(const struct terp_cuda_device *device,
              const struct cuda_call *call)
{
    const enum terp_type type = call->chunk->type;

    return terp_type_is_integer(type)
               ? form_of_integers(device, type)
               : cuda_form_of_floats(
                     call->params,
                     terp_value_nbytes(cuda_carrier_type(CUDA_VALUES, type)));
}

/* Codes all chunks that ask for the same other form as chunk `first` does, and
 * learns of them what the call has learnt of the others. */
static enum terp_status
encode_in_form(struct terp_cuda_device *device,
               const struct terp_cuda_call *where, const struct cuda_call *call,
               uint64_t first)
{
    const struct order own = {
        INSTEAD,
        {*call->chunk, call->params->predictor, call->params->pipeline},
        call->found[first].form};
    struct part part;
    enum terp_status st = TERP_ERR_MEMORY;

    if (make_part(call, &own, &part)) {
        for (uint64_t i = first; i < call->nchunks; i++)
            if (call->dst_nbytes[i] == 0 && call->found[i].form == own.form)
                add_to_part(call, i, &part);
        st = cuda_call_do(device, where, &part.call);
        for (uint64_t i = 0; st == TERP_OK && i < part.n; i++) {
            call->dst_nbytes[part.at[i]] = part.dst_nbytes[i];
            call->found[part.at[i]] = part.found[i];
        }
    }
    free_part(&part);
    return st;
}

/* Codes the chunks that ask for another form than the call has, each in its
 * own.
 */
static enum terp_status
encode_in_forms(struct terp_cuda_device *device,
                const struct terp_cuda_call *where,
                const struct cuda_call *call)
{
    enum terp_status st = TERP_OK;
    unsigned done = 1u << call->form; /* what is left has another reason */

    for (uint64_t i = 0; st == TERP_OK && i < call->nchunks; i++) {
        const unsigned form = 1u << call->found[i].form;
        if (call->dst_nbytes[i] != 0 || done & form)
            continue;
        done |= form;
        if (terp_type_is_integer(call->chunk->type))
            device->form_seen[call->chunk->type] = call->found[i].form;
        st = encode_in_form(device, where, call, i);
    }
    return st;
}

/* ---- domains ---- */

/* A flat chunk, on the host. */
struct flat_chunk {
    const void *values; /* what is coded */
    uint64_t nvalues;
    const struct cuda_found_domain *found;
};

template <typename T>
static void
flat_errors(void *arg, uint64_t lag, uint64_t set,
            struct terp_lag_errors *errors_ret)
{
    const struct flat_chunk *flat = (const struct flat_chunk *)arg;
    typename value_traits<T>::WORD fills[TERP_NFILLS];

    for (int i = 0; i < TERP_NFILLS; i++)
        fills[i] = (typename value_traits<T>::WORD)(
            cuda_form_is_pointwise(flat->found->form)
                ? terp_slot_of_fill(false, 0, sizeof(T))
                : flat->found->fills[i]);
    lag_errors_of_samples((const T *)flat->values, flat->nvalues, fills, lag,
                          set, 1 / flat->found->step, errors_ret);
}

template <typename V, typename C, enum cuda_form form>
static void
code_values(const struct flat_chunk *flat, C *coded)
{
    const coder_of<V, C, form> coder(flat->found->how);
    const V *values = (const V *)flat->values;
    typename value_traits<V>::WORD fills[TERP_NFILLS];

    for (int i = 0; i < TERP_NFILLS; i++)
        fills[i] = (typename value_traits<V>::WORD)flat->found->fills[i];
    for (uint64_t i = 0; i < flat->nvalues; i++)
        coded[i] = is_special(values[i], fills) ? (C)NAN : coder(values[i]);
}

template <typename V>
static void
code_values_of(const struct flat_chunk *flat, void *coded)
{
    switch (flat->found->form) {
    case CUDA_LOG_F32:
        code_values<V, float, CUDA_LOG_F32>(flat, (float *)coded);
        break;
    case CUDA_LOG_F64:
        code_values<V, double, CUDA_LOG_F64>(flat, (double *)coded);
        break;
    case CUDA_FLOORED_F32:
        code_values<V, float, CUDA_FLOORED_F32>(flat, (float *)coded);
        break;
    case CUDA_FLOORED_F64:
        code_values<V, double, CUDA_FLOORED_F64>(flat, (double *)coded);
        break;
    default:
        code_values<V, V, CUDA_ROUNDED>(flat, (V *)coded);
        break;
    }
}

/* What carries a 16-bit float, or an integer that is no fill value. */
static uint64_t
carry_value(const struct cuda_call *call, const struct flat_chunk *flat,
            uint64_t word)
{
    const enum terp_type type = call->chunk->type;
    const struct terp_params *params = call->params;

    if (terp_type_is_half(type))
        return terp_carried_half(type, (uint16_t)word,
                                 params->bound_mode == TERP_BOUND_POINTWISE);
    const struct terp_carrier_head *head = &flat->found->carrier;
    const uint64_t lowest = terp_lowest_integer(type);
    const int64_t n = terp_integer_number(
        terp_integer_distance(word, terp_part_nbytes(type), lowest),
        head->offset - lowest, head->scale);
    return head->form == TERP_CARRIER_INTS_F32 ? bits_of((float)n)
                                               : bits_of((double)n);
}

/* What carries the values of a flat chunk, in a new block. */
static void *
carry_flat(const struct cuda_call *call, const struct flat_chunk *flat)
{
    const struct terp_params *params = call->params;
    const int own_nbytes = terp_value_nbytes(call->chunk->type);
    const int nbytes = terp_value_nbytes(
        cuda_carrier_type(flat->found->form, call->chunk->type));
    const uint64_t ones = UINT64_MAX >> (64 - 8 * own_nbytes);
    uint8_t *carried = (uint8_t *)terp_allocate(
        call->allocator, flat->nvalues * (uint64_t)nbytes);

    for (uint64_t i = 0; carried != NULL && i < flat->nvalues; i++) {
        const uint64_t word =
            load_value((const uint8_t *)flat->values + i * (uint64_t)own_nbytes,
                       own_nbytes);
        const bool is_fill =
            terp_type_is_integer(call->chunk->type) &&
            ((params->has_fill && word == (params->fill_bits & ones)) ||
             (params->has_missing && word == (params->missing_bits & ones)));
        store_value(
            carried + i * (uint64_t)nbytes,
            is_fill ? (nbytes == 4 ? bits_of((float)NAN) : bits_of((double)NAN))
                    : carry_value(call, flat, word),
            nbytes);
    }
    return carried;
}

/* What the device has coded instead of what carries a flat chunk's values. */
static void
code_flat(enum terp_type carrier, const struct flat_chunk *flat, void *coded)
{
    if (carrier == TERP_FLOAT32)
        code_values_of<float>(flat, coded);
    else
        code_values_of<double>(flat, coded);
}

/* Searches for rows of a flat chunk, as the CPU engine does. */
static enum terp_status
find_rows(struct terp_cuda_device *device, const struct terp_cuda_call *where,
          const struct cuda_call *call, uint64_t i)
{
    struct cuda_found_domain *found = &call->found[i];
    const enum terp_type type = call->chunk->type;
    const bool wide = cuda_form_type(found->form, type) == TERP_FLOAT64;
    uint64_t nbytes = terp_chunk_nbytes(call->chunk);
    const int own_nbytes = terp_value_nbytes(type);
    struct flat_chunk flat = {call->src[i], nbytes / (uint64_t)own_nbytes,
                              found};
    void *values = NULL, *carried = NULL, *coded = NULL;
    enum terp_status st = TERP_OK;

    if (!call->host || call->chunk->big_endian) {
        values = terp_allocate(call->allocator, nbytes);
        if (values == NULL)
            return TERP_ERR_MEMORY;
        st = copy(device, where, 1, &values, &flat.values, &nbytes);
        flat.values = values;
    }
    if (call->chunk->big_endian)
        terp_swap_values(values, flat.nvalues, own_nbytes);
    if (st == TERP_OK && !terp_type_is_plain(type)) {
        carried = carry_flat(call, &flat);
        st = carried == NULL ? TERP_ERR_MEMORY : TERP_OK;
        flat.values = carried;
    }
    if (st == TERP_OK && cuda_form_is_pointwise(found->form)) {
        coded = terp_allocate(call->allocator, flat.nvalues * (wide ? 8 : 4));
        if (coded != NULL)
            code_flat(cuda_carrier_type(found->form, type), &flat, coded);
        st = coded == NULL ? TERP_ERR_MEMORY : TERP_OK;
        flat.values = coded;
    }
    if (st == TERP_OK)
        st = terp_domain_find(
            call->chunk,
            terp_price_of_anchor(found->min, found->max, found->step),
            wide ? flat_errors<double> : flat_errors<float>, &flat,
            &found->domain, &found->verdict);
    terp_release(call->allocator, coded);
    terp_release(call->allocator, carried);
    terp_release(call->allocator, values);
    return st;
}

/* The order of a chunk that was coded in its own shape, in one round of trials.
 * False if no later one has any. */
static bool
order_of_round(const struct cuda_call *call,
               const struct cuda_found_domain *found, int round,
               struct order *order_ret)
{
    const uint64_t nvalues = terp_chunk_nbytes(call->chunk) /
                             (uint64_t)terp_value_nbytes(call->chunk->type);
    const struct terp_params params =
        cuda_coded_params(call->params, found->form);
    struct terp_trial trials[TERP_MAX_NTRIALS];
    int n = terp_trials_make(&params, call->chunk,
                             terp_domain_is_open(call->chunk, nvalues, &params),
                             &found->domain, found->verdict, trials);
    if (found->asks_for_huffman)
        n = terp_trials_add_huffman(call->chunk, found->verdict, trials, n);
    const bool is_instead = found->verdict == TERP_DOMAIN_TAKE &&
                            call->params->effort != TERP_EFFORT_BEST;

    order_ret->how = NOT_AGAIN;
    order_ret->form = found->form;
    if (found->is_constant || round >= n)
        return false;
    if (is_instead || round > 0) {
        order_ret->how = is_instead ? INSTEAD : IF_SMALLER;
        order_ret->trial = trials[round];
    }
    return true;
}

/* Codes the chunks anew for which another domain was found, or whose caller
 * wants all to be tried. */
static enum terp_status
encode_again(struct terp_cuda_device *device,
             const struct terp_cuda_call *where, const struct cuda_call *call)
{
    struct order *orders =
        new (std::nothrow) struct order[(size_t)call->nchunks]();
    enum terp_status st = orders == NULL ? TERP_ERR_MEMORY : TERP_OK;
    bool more = true;

    for (uint64_t i = 0; st == TERP_OK && i < call->nchunks; i++)
        if (call->dst_nbytes[i] != 0 && call->found[i].is_periodic)
            st = find_rows(device, where, call, i);
    for (int round = 0; st == TERP_OK && more; round++) {
        more = false;
        for (uint64_t i = 0; i < call->nchunks; i++)
            /* What is left to the CPU needs no more. */
            if (call->dst_nbytes[i] != 0)
                more |=
                    order_of_round(call, &call->found[i], round, &orders[i]);
        st = code_again(device, where, call, orders);
    }
    delete[] orders;
    return st;
}

/* ---- encoding ---- */

/* What ranges of pairs, which the device has found, mean for their bounds: it
 * has taken the same. */
static void
take_bounds_of_pairs(struct cuda_call *call)
{
    for (uint64_t i = 0; i < call->nchunks; i += TERP_NPARTS) {
        const struct cuda_found_domain *found = &call->found[i];
        const double min[TERP_NPARTS] = {found[0].min, found[1].min};
        const double max[TERP_NPARTS] = {found[0].max, found[1].max};
        call->bounds[i] = call->bounds[i + 1] =
            terp_bound_of_parts(call->params->bound, min, max);
    }
    call->bounds_are = CUDA_BOUNDS_GIVEN;
}

static enum terp_status
encode_all(struct terp_cuda_device *device, const struct terp_cuda_call *where,
           struct cuda_call *call);

/* Codes the chunks again that is_wanted(i) tells, a portion at a time, after
 * change(part) has changed what the portion is asked for, and keeps the smaller
 * streams. */
template <typename Wanted, typename Change>
static enum terp_status
encode_otherwise(struct terp_cuda_device *device,
                 const struct terp_cuda_call *where,
                 const struct cuda_call *call, Wanted is_wanted, Change change)
{
    const struct order own = {
        IF_SMALLER,
        {*call->chunk, call->params->predictor, call->params->pipeline},
        CUDA_VALUES};
    const uint64_t most = TRIAL_NBYTES / terp_chunk_nbytes(call->chunk) + 1;
    const auto is_coded_again = [&](uint64_t i) {
        return call->dst_nbytes[i] != 0 && is_wanted(i);
    };
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < call->nchunks;) {
        if (!is_coded_again(i)) {
            i++;
            continue;
        }
        struct part part;
        st = TERP_ERR_MEMORY;
        if (make_part(call, &own, &part)) {
            change(&part);
            for (; i < call->nchunks && part.n < most; i++)
                if (is_coded_again(i))
                    add_to_part(call, i, &part);
            st = encode_trial(device, where, call, &part, encode_all);
        }
        free_part(&part);
    }
    return st;
}

/* Codes the chunks of which nothing may be lost again so, a portion at a time,
 * and keeps the smaller streams. */
static enum terp_status
encode_losslessly(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where,
                  const struct cuda_call *call)
{
    return encode_otherwise(
        device, where, call,
        [=](uint64_t i) {
            return call->found[i].may_be_lossless &&
                   !call->found[i].may_be_copies;
        },
        [](struct part *part) {
            part->params.bound_mode = TERP_BOUND_ABSOLUTE;
            part->params.bound = part->call.caller_bound = 0;
            part->call.bounds_are = CUDA_BOUNDS_OWN;
        });
}

/* What chunks may be besides. */
static enum terp_status
encode_more(struct terp_cuda_device *device, const struct terp_cuda_call *where,
            const struct cuda_call *call)
{
    const bool exactly =
        terp_may_refer_exactly(call->params, call->chunk->type);
    const bool is_pointwise = call->params->bound_mode == TERP_BOUND_POINTWISE;
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < call->nchunks; i++) {
        const struct cuda_found_domain *found = &call->found[i];
        if (call->dst_nbytes[i] == 0)
            continue;
        if (found->may_be_copies)
            st = cuda_copies_encode(device, where, call, i, encode_all);
        else if (found->may_repeat)
            st = cuda_references_encode(device, where, call, i,
                                        {exactly        ? 0
                                         : is_pointwise ? call->params->bound
                                                        : found->bound,
                                         is_pointwise},
                                        cuda_encode, cuda_decode);
    }
    return st == TERP_OK ? encode_losslessly(device, where, call) : st;
}

/* Each chunk in the form that it asks for, in its own shape and then in what
 * was found to be better. What is found goes to call->found, if the caller has
 * such. */
static enum terp_status
encode_all(struct terp_cuda_device *device, const struct terp_cuda_call *where,
           struct cuda_call *call)
{
    struct cuda_found_domain *own = NULL;

    if (call->found == NULL)
        call->found = own = new (
            std::nothrow) struct cuda_found_domain[(size_t)call->nchunks]();
    if (call->found == NULL)
        return TERP_ERR_MEMORY;
    call->form = expected_form(device, call);
    enum terp_status st = cuda_call_do(device, where, call);
    if (st == TERP_OK && call->bounds_are == CUDA_BOUNDS_OF_PAIRS)
        take_bounds_of_pairs(call);
    if (st == TERP_OK)
        st = encode_in_forms(device, where, call);
    if (st == TERP_OK)
        st = encode_again(device, where, call);
    if (st == TERP_OK && !call->is_plain)
        st = encode_more(device, where, call);
    if (own != NULL)
        call->found = NULL;
    delete[] own;
    return st;
}

/* Codes all chunks again without the floor, and keeps the smaller streams:
 * codec/compose/bounds.c does the same. */
static enum terp_status
encode_without_floor(struct terp_cuda_device *device,
                     const struct terp_cuda_call *where,
                     const struct cuda_call *call)
{
    return encode_otherwise(
        device, where, call, [](uint64_t) { return true; },
        [](struct part *part) { part->params.floor = 0; });
}

enum terp_status
cuda_encode(struct terp_cuda_device *device, const struct terp_cuda_call *where,
            struct cuda_call *call)
{
    const struct terp_params *params = call->params;
    enum terp_status st = encode_all(device, where, call);

    return st == TERP_OK && params->bound_mode == TERP_BOUND_POINTWISE &&
                   params->floor > 0 && params->effort != TERP_EFFORT_FAST
               ? encode_without_floor(device, where, call)
               : st;
}

/* ---- decoding ---- */

/* Whether a stream has a form: a constant one says what carries integers. */
static bool
has_form(const struct terp_frame *frame)
{
    return frame->coding != TERP_CODING_RAW &&
           frame->coding < TERP_CODING_COPIES &&
           (frame->coding != TERP_CODING_CONSTANT ||
            terp_type_is_integer(frame->chunk.type));
}

/* The form that a stream's frame and what stands behind it tell. */
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

/* Whether values of a type are decoded in a form: a stream may tell any. */
static bool
form_is_of_type(enum cuda_form form, enum terp_type type)
{
    return cuda_form_is_of_integers(form) == terp_type_is_integer(type);
}

/* The form of the first stream in host memory that is coded; that of streams
 * in device memory is taken to be like that of others before. */
static enum cuda_form
form_of_streams(const struct terp_cuda_device *device,
                const struct cuda_call *call, bool on_host)
{
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
    return terp_type_is_integer(type) ? form_of_integers(device, type)
           : on_host                  ? CUDA_VALUES
                                      : device->form_seen[type].load();
}

/* To decode a stream in the form and domain that it tells, if it is otherwise
 * like the call's; or all of it, where it has no levels that could be left out.
 */
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
        frame.coding >= TERP_CODING_COPIES ||
        (frame.coding == TERP_CODING_CONSTANT && !has_form(&frame)))
        return order;
    order.trial.domain = frame.domain;
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
        order.how = INSTEAD;
    return order;
}

/* Decodes what was left because it has another form or domain. */
static enum terp_status
decode_again(struct terp_cuda_device *device,
             const struct terp_cuda_call *where, const struct cuda_call *call)
{
    const size_t n = (size_t)call->nchunks;
    const struct order own = {
        INSTEAD,
        {*call->chunk, TERP_PREDICTOR_AUTO, TERP_PIPELINE_AUTO},
        call->form};
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
        st = copy(device, where, left.n, left.dst, left.src, left.src_nbytes);
        for (uint64_t i = 0; st == TERP_OK && i < left.n; i++)
            orders[left.at[i]] = order_of_frame(
                call, (const uint8_t *)left.dst[i], left.src_nbytes[i]);
        for (uint64_t i = 0; st == TERP_OK && i < left.n; i++)
            if (orders[left.at[i]].how == INSTEAD)
                device->form_seen[call->chunk->type] = orders[left.at[i]].form;
        if (st == TERP_OK)
            st = code_again(device, where, call, orders);
    }
    free_part(&left);
    delete[] frames;
    delete[] orders;
    return st;
}

enum terp_status
cuda_decode(struct terp_cuda_device *device, const struct terp_cuda_call *where,
            struct cuda_call *call)
{
    call->form =
        form_of_streams(device, call, where->memory == TERP_MEMORY_HOST);
    enum terp_status st = cuda_call_do(device, where, call);
    for (uint64_t i = 0; st == TERP_OK && i < call->nchunks; i++)
        if (call->status[i] == TERP_ERR_DEVICE)
            return decode_again(device, where, call);
    return st;
}

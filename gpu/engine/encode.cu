/* Attempts to encode chunks in the session's memory or the caller's. */
#include <new>

#include <string.h>

#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "codec/model/lag_errors.h"
#include "codec/model/repeats.h"
#include "gpu/engine/decode.cuh"
#include "gpu/engine/session.cuh"
#include "gpu/predict/pointwise.cuh"

/* The facts that an encoding keeps about a chunk between attempts. */
struct encoded_chunk {
    struct cuda_found_domain found; /* the results of the first attempt */
    struct terp_facts facts;
};

struct terp_encoding {
    struct terp_session *session;
    const struct terp_source *source;
    struct terp_params params; /* of the carrier's values */
    double caller_bound;
    /* the source's bounds differ from the bound of `params` */
    bool has_bounds;
    bool has_begun; /* the first attempt was made */
    cuda_host_array<struct encoded_chunk> chunks;
    /* The chunks of one call of the device: `ks` has their numbers in the
     * attempt; the other arrays go to struct cuda_call. */
    uint64_t n;
    cuda_host_array<uint64_t> ks;
    cuda_host_array<const void *> src;
    cuda_host_array<void *> dst;
    cuda_host_array<double> bounds;
    cuda_host_array<uint64_t> nbytes;
    cuda_host_array<struct cuda_found_domain> found;
    /* the latest results for all chunks of an attempt */
    cuda_host_array<struct cuda_found_domain> seen;

    terp_encoding(struct terp_session *session_of,
                  const struct terp_source *source_of)
        : session(session_of), source(source_of), params(*source_of->params),
          caller_bound(0), has_bounds(false), has_begun(false),
          chunks(source->n), n(0), ks(source->n), src(source->n),
          dst(source->n), bounds(source->n), nbytes(source->n),
          found(source->n), seen(source->n)
    {
    }
    /* False: an allocation failed. */
    bool is_made() const
    {
        return chunks != NULL && ks != NULL && src != NULL && dst != NULL &&
               bounds != NULL && nbytes != NULL && found != NULL &&
               seen != NULL;
    }
};

/* ---- domains ---- */

/* A chunk of one dimension in host memory. A search for its rows needs it
 * there. */
struct line_chunk {
    const void *values; /* coded values, once find_rows has made them */
    uint64_t nvalues;
    const struct cuda_found_domain *found;
};

template <typename T>
static void
line_errors(void *arg, uint64_t lag, uint64_t set,
            struct terp_lag_errors *errors_ret)
{
    const struct line_chunk *line = (const struct line_chunk *)arg;
    typename value_traits<T>::WORD fills[TERP_NFILLS];

    for (int i = 0; i < TERP_NFILLS; i++)
        fills[i] = (typename value_traits<T>::WORD)(
            cuda_form_is_pointwise(line->found->form)
                ? terp_slot_of_fill(false, 0, sizeof(T))
                : line->found->fills[i]);
    lag_errors_of_samples((const T *)line->values, line->nvalues, fills, lag,
                          set, 1 / line->found->step, errors_ret);
}

template <typename V, typename C, enum cuda_form form>
static void
code_values(const struct line_chunk *line, void *coded)
{
    const coder_of<V, C, form> coder(line->found->how);
    const V *values = (const V *)line->values;
    typename value_traits<V>::WORD fills[TERP_NFILLS];

    for (int i = 0; i < TERP_NFILLS; i++)
        fills[i] = (typename value_traits<V>::WORD)line->found->fills[i];
    for (uint64_t i = 0; i < line->nvalues; i++)
        ((C *)coded)[i] =
            is_special(values[i], fills) ? (C)NAN : coder(values[i]);
}

/* Converts the carrier, of type V, of a chunk of one dimension to coded values,
 * with the device's arithmetic. Pointwise bounds only. */
template <typename V>
static void
code_line(const struct line_chunk *line, void *coded)
{
    const enum cuda_form form = line->found->form;
    auto *const code =
        form == CUDA_LOG_F32       ? code_values<V, float, CUDA_LOG_F32>
        : form == CUDA_LOG_F64     ? code_values<V, double, CUDA_LOG_F64>
        : form == CUDA_FLOORED_F32 ? code_values<V, float, CUDA_FLOORED_F32>
        : form == CUDA_FLOORED_F64 ? code_values<V, double, CUDA_FLOORED_F64>
                                   : code_values<V, V, CUDA_ROUNDED>;

    code(line, coded);
}

/* The carrier's bits for a 16-bit float, or for an integer that is not a fill
 * value. */
static uint64_t
carry_value(const struct terp_encoding *encoding, const struct line_chunk *line,
            uint64_t word)
{
    const enum terp_type type = encoding->source->chunk->type;
    const struct terp_params *params = &encoding->params;

    if (terp_type_is_half(type))
        return terp_carried_half(type, (uint16_t)word,
                                 params->bound_mode == TERP_BOUND_POINTWISE);
    const struct terp_carrier_head *head = &line->found->carrier;
    const uint64_t lowest = terp_lowest_integer(type);
    const int64_t n = terp_integer_number(
        terp_integer_distance(word, terp_part_nbytes(type), lowest),
        head->offset - lowest, head->scale);
    return head->form == TERP_CARRIER_INTS_F32 ? bits_of((float)n)
                                               : bits_of((double)n);
}

/* Returns the carrier of a chunk of one dimension in a new block; NULL: memory
 * is short. Fill values become NaN. */
static void *
carry_line(const struct terp_encoding *encoding, const struct line_chunk *line)
{
    const struct terp_params *params = &encoding->params;
    const enum terp_type type = encoding->source->chunk->type;
    const int own_nbytes = terp_value_nbytes(type);
    const int nbytes =
        terp_value_nbytes(cuda_carrier_type(line->found->form, type));
    const uint64_t ones = UINT64_MAX >> (64 - 8 * own_nbytes);
    uint8_t *carried = (uint8_t *)terp_allocate(
        encoding->session->where->allocator, line->nvalues * (uint64_t)nbytes);

    for (uint64_t i = 0; carried != NULL && i < line->nvalues; i++) {
        const uint64_t word =
            load_value((const uint8_t *)line->values + i * (uint64_t)own_nbytes,
                       own_nbytes);
        const bool is_fill =
            terp_type_is_integer(type) &&
            ((params->has_fill && word == (params->fill_bits & ones)) ||
             (params->has_missing && word == (params->missing_bits & ones)));
        store_value(
            carried + i * (uint64_t)nbytes,
            is_fill ? (nbytes == 4 ? bits_of((float)NAN) : bits_of((double)NAN))
                    : carry_value(encoding, line, word),
            nbytes);
    }
    return carried;
}

/* Searches a chunk of one dimension for rows, as the CPU engine does, and sets
 * found->domain and found->verdict. The search runs on the host: it copies the
 * chunk there and converts it to coded values. */
static enum terp_status
find_rows(const struct terp_encoding *encoding, uint64_t i,
          struct cuda_found_domain *found)
{
    struct terp_session *session = encoding->session;
    const struct terp_allocator *allocator = session->where->allocator;
    const struct terp_chunk *chunk = encoding->source->chunk;
    const enum terp_type type = chunk->type;
    const bool wide = cuda_form_type(found->form, type) == TERP_FLOAT64;
    uint64_t nbytes = terp_chunk_nbytes(chunk);
    const int own_nbytes = terp_value_nbytes(type);
    struct line_chunk line = {encoding->source->src[i],
                              nbytes / (uint64_t)own_nbytes, found};
    void *values = NULL, *carried = NULL, *coded = NULL;
    enum terp_status st = TERP_OK;

    if (!cuda_session_is_host(session, line.values) || chunk->big_endian) {
        values = terp_allocate(allocator, nbytes);
        if (values == NULL)
            return TERP_ERR_MEMORY;
        st = cuda_session_fetch(session, 1, &values, &line.values, &nbytes);
        line.values = values;
    }
    if (chunk->big_endian)
        terp_swap_values(values, line.nvalues, own_nbytes);
    if (st == TERP_OK && !terp_type_is_plain(type)) {
        carried = carry_line(encoding, &line);
        st = carried == NULL ? TERP_ERR_MEMORY : TERP_OK;
        line.values = carried;
    }
    if (st == TERP_OK && cuda_form_is_pointwise(found->form)) {
        coded = terp_allocate(allocator, line.nvalues * (wide ? 8 : 4));
        if (coded != NULL &&
            cuda_carrier_type(found->form, type) == TERP_FLOAT32)
            code_line<float>(&line, coded);
        else if (coded != NULL)
            code_line<double>(&line, coded);
        st = coded == NULL ? TERP_ERR_MEMORY : TERP_OK;
        line.values = coded;
    }
    if (st == TERP_OK)
        st = terp_domain_find(
            chunk, terp_price_of_anchor(found->min, found->max, found->step),
            wide ? line_errors<double> : line_errors<float>, &line,
            &found->domain, &found->verdict);
    terp_release(allocator, coded);
    terp_release(allocator, carried);
    terp_release(allocator, values);
    return st;
}

/* ---- attempts ---- */

/* One attempt at chunks of an encoding. Chunk k of the attempt is chunk at[k]
 * of the source. */
struct attempt {
    struct terp_encoding *encoding;
    const struct terp_plan *plan;
    uint64_t n;
    const uint64_t *at;
    void *const *dst;
    uint64_t *nbytes; /* 0: the device has not coded the chunk */
};

/* Codes the chunks that encoding->ks lists, all in one form. */
static enum terp_status
code_listed(const struct attempt *attempt, enum cuda_form form)
{
    struct terp_encoding *encoding = attempt->encoding;
    const struct terp_source *source = encoding->source;
    const struct terp_trial *trial = &attempt->plan->trial;
    struct terp_params params = encoding->params;
    struct cuda_call call = {};

    for (uint64_t j = 0; j < encoding->n; j++) {
        const uint64_t k = encoding->ks[j];
        encoding->src[j] = source->src[attempt->at[k]];
        encoding->dst[j] = attempt->dst[k];
        if (source->bounds != NULL)
            encoding->bounds[j] = source->bounds[attempt->at[k]];
    }
    params.predictor = trial->predictor;
    params.pipeline = trial->pipeline;
    call.chunk = source->chunk;
    if (!terp_shapes_are_equal(&trial->domain, source->chunk))
        call.domain = &trial->domain;
    call.params = &params;
    call.caller_bound = encoding->caller_bound;
    call.is_part = source->is_part;
    call.has_markers = source->has_markers;
    call.bounds = encoding->has_bounds ? (double *)encoding->bounds : NULL;
    call.form = form;
    call.nchunks = encoding->n;
    call.src = encoding->src;
    call.dst = encoding->dst;
    call.dst_nbytes = encoding->nbytes;
    call.found = encoding->found;
    call.src_on_host = cuda_session_is_host(encoding->session, call.src[0]);
    call.dst_on_host = cuda_session_is_host(encoding->session, call.dst[0]);
    const enum terp_status st = cuda_call_do(encoding->session, &call);
    for (uint64_t j = 0; st == TERP_OK && j < encoding->n; j++) {
        attempt->nbytes[encoding->ks[j]] = encoding->nbytes[j];
        encoding->seen[encoding->ks[j]] = encoding->found[j];
    }
    return st;
}

/* The form that most chunks probably need. The device finds out the form that a
 * chunk needs; code_in_forms then codes chunks of other forms a second time. */
static enum cuda_form
expected_form(const struct terp_encoding *encoding)
{
    const enum terp_type type = encoding->source->chunk->type;

    return terp_type_is_integer(type)
               ? cuda_form_of_integers(encoding->session->device, type)
               : cuda_form_of_floats(
                     &encoding->params,
                     terp_value_nbytes(cuda_carrier_type(CUDA_VALUES, type)));
}

/* Codes the chunks of an attempt, those of one form together. form_of(k) is
 * the form of chunk k; forms whose bits are set in `done` are left out. */
template <typename Form>
static enum terp_status
code_by_form(const struct attempt *attempt, unsigned done, Form form_of)
{
    struct terp_encoding *encoding = attempt->encoding;
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < attempt->n; i++) {
        const enum cuda_form form = form_of(i);
        if (done & 1u << form)
            continue;
        done |= 1u << form;
        encoding->n = 0;
        for (uint64_t k = i; k < attempt->n; k++)
            if (form_of(k) == form)
                encoding->ks[encoding->n++] = k;
        st = code_listed(attempt, form);
    }
    return st;
}

/* Codes all chunks in the expected form, then the chunks that need another form
 * in that form. */
static enum terp_status
code_in_forms(const struct attempt *attempt)
{
    const struct terp_encoding *encoding = attempt->encoding;
    const enum terp_type type = encoding->source->chunk->type;
    const enum cuda_form expected = expected_form(encoding);

    enum terp_status st =
        code_by_form(attempt, 0, [=](uint64_t) { return expected; });
    if (st == TERP_OK)
        st = code_by_form(attempt, 1u << expected, [=](uint64_t k) {
            return attempt->nbytes[k] != 0 ? expected : encoding->seen[k].form;
        });
    for (uint64_t k = 0; st == TERP_OK && k < attempt->n; k++)
        if (terp_type_is_integer(type) && encoding->seen[k].form != expected)
            encoding->session->device->last_form[type] = encoding->seen[k].form;
    return st;
}

/* Codes each chunk in the form that the first attempt has found for it. */
static enum terp_status
code_in_known_forms(const struct attempt *attempt)
{
    return code_by_form(attempt, 0, [=](uint64_t k) {
        return attempt->encoding->chunks[attempt->at[k]].found.form;
    });
}

/* ---- facts ---- */

static bool
is_exact(const struct terp_encoding *encoding)
{
    const struct terp_source *source = encoding->source;

    return terp_may_refer_exactly(source->params, source->chunk->type);
}

/* Finds the dimensions along which all values are copies. If no dimension has
 * copies though samples suggested some, or if memory is short, the chunk is
 * left to the CPU: the CPU would try other encodings, which the device has not
 * examined. */
static enum terp_status
find_copies(const struct attempt *attempt, uint64_t k)
{
    const struct terp_source *source = attempt->encoding->source;
    const uint64_t i = attempt->at[k];
    unsigned *dims = &attempt->encoding->chunks[i].facts.copied;
    enum terp_status st = cuda_values_find_copies(
        attempt->encoding->session, source->chunk, source->src[i], dims);

    if (st == TERP_ERR_MEMORY || (st == TERP_OK && *dims == 0)) {
        attempt->nbytes[k] = 0;
        st = TERP_OK;
    }
    return st;
}

/* Fills in the facts about other encodings: the members of struct terp_facts
 * from `bound` on. */
static enum terp_status
find_more(const struct attempt *attempt, uint64_t k)
{
    const struct terp_encoding *encoding = attempt->encoding;
    const struct terp_source *source = encoding->source;
    struct encoded_chunk *chunk = &encoding->chunks[attempt->at[k]];
    const struct cuda_found_domain *found = &chunk->found;
    struct terp_facts *facts = &chunk->facts;
    const uint64_t none =
        terp_slot_of_fill(false, 0, terp_value_nbytes(source->chunk->type));

    facts->bound = is_exact(encoding) ? 0
                   : source->params->bound_mode == TERP_BOUND_POINTWISE
                       ? source->params->bound
                       : found->bound;
    for (int i = 0; i < TERP_NFILLS; i++) {
        facts->fill_bits[i] = found->fills[i];
        facts->has_fill[i] = found->fills[i] != none;
    }
    facts->may_repeat = found->device.may_repeat;
    facts->may_be_lossless = found->device.may_be_lossless;
    facts->may_be_few = found->device.may_be_few;
    return found->device.may_be_copies ? find_copies(attempt, k) : TERP_OK;
}

/* Fills in the facts of a chunk that the first attempt has coded in its own
 * shape. */
static enum terp_status
find_facts(const struct attempt *attempt, uint64_t k)
{
    const struct terp_encoding *encoding = attempt->encoding;
    const struct terp_source *source = encoding->source;
    const uint64_t i = attempt->at[k];
    struct encoded_chunk *chunk = &encoding->chunks[i];
    struct cuda_found_domain *found = &chunk->found;
    struct terp_facts *facts = &chunk->facts;
    const uint64_t nvalues = terp_chunk_nvalues(source->chunk);
    enum terp_status st = TERP_OK;

    *found = encoding->seen[k];
    if (attempt->nbytes[k] == 0) {
        facts->is_settled = true;
        return TERP_OK;
    }
    if (found->device.is_periodic)
        st = find_rows(encoding, i, found);
    const struct terp_params coded =
        cuda_coded_params(&encoding->params, found->form);
    facts->is_settled = found->is_constant;
    facts->is_exact = terp_is_lossless(&coded);
    facts->is_open = terp_domain_is_open(source->chunk, nvalues, &coded);
    facts->domain = found->domain;
    facts->verdict = found->verdict;
    facts->huffman_may_be_smaller = found->huffman_may_be_smaller;
    facts->lorenzo_may_be_smaller =
        found->lorenzo_may_be_smaller && !facts->is_exact;
    facts->splines_may_be_smaller = found->splines_may_be_smaller;
    return st == TERP_OK && source->wants_more ? find_more(attempt, k) : st;
}

/* ---- an encoding ---- */

/* Takes the source's own absolute bounds. If all are equal they become the
 * bound of the parameters where that is possible, because the facts about the
 * batch depend on it. */
static void
take_bounds(struct terp_encoding *encoding, struct terp_params *given)
{
    const struct terp_source *source = encoding->source;
    bool are_equal = source->bounds != NULL, are_zero = are_equal;

    for (uint64_t i = 0; are_equal && i < source->n; i++) {
        are_equal = source->bounds[i] == source->bounds[0];
        are_zero &= source->bounds[i] == 0;
    }
    if (source->bounds == NULL ||
        (are_equal && are_zero && given->bound_mode != TERP_BOUND_RELATIVE))
        return;
    if (are_equal && !are_zero && given->bound_mode == TERP_BOUND_ABSOLUTE)
        *given = terp_params_under(given, source->bounds[0]);
    else
        encoding->has_bounds = true;
}

enum terp_status
cuda_encoding_begin(struct terp_session *session,
                    const struct terp_source *source,
                    struct terp_encoding **encoding_ret)
{
    struct terp_encoding *encoding =
        new (std::nothrow) terp_encoding(session, source);
    struct terp_params given = *source->params;

    if (encoding == NULL || !encoding->is_made()) {
        delete encoding;
        return TERP_ERR_MEMORY;
    }
    take_bounds(encoding, &given);
    encoding->caller_bound = given.bound;
    encoding->params = terp_type_is_half(source->chunk->type)
                           ? terp_params_of_halves(source->chunk->type, &given)
                           : given;
    *encoding_ret = encoding;
    return TERP_OK;
}

void
cuda_encoding_end(struct terp_encoding *encoding)
{
    delete encoding;
}

enum terp_status
cuda_encoding_encode(struct terp_encoding *encoding,
                     const struct terp_plan *plan, uint64_t n,
                     const uint64_t *at, void *const *dst,
                     const uint64_t *cap_nbytes, uint64_t *nbytes_ret,
                     struct terp_facts *facts_ret)
{
    const struct attempt attempt = {encoding, plan, n, at, dst, nbytes_ret};
    const bool is_first = !encoding->has_begun;
    enum terp_status st =
        is_first ? code_in_forms(&attempt) : code_in_known_forms(&attempt);

    encoding->has_begun = true;
    for (uint64_t k = 0; st == TERP_OK && k < n; k++) {
        if (is_first)
            st = find_facts(&attempt, k);
        facts_ret[k] = encoding->chunks[at[k]].facts;
        if (is_exact(encoding))
            facts_ret[k].may_repeat = encoding->source->wants_more &&
                                      encoding->seen[k].device.may_repeat;
        if (nbytes_ret[k] == 0)
            nbytes_ret[k] = TERP_LEFT_NBYTES;
        else if (encoding->seen[k].is_raw || nbytes_ret[k] >= cap_nbytes[k])
            nbytes_ret[k] = 0;
    }
    return st;
}

/* Functions of the engine's table that search for references: values that
 * repeat earlier values, and how they differ from their sources. */
#include <new>

#include "codec/format/references.h"
#include "codec/format/types.h"
#include "codec/model/repeats.h"
#include "gpu/engine/places.cuh"
#include "gpu/engine/session.cuh"
#include "gpu/predict/references_search.cuh"

/* A searched chunk, and the results of the search. */
struct finding {
    struct terp_session *session;
    struct cuda_referring of;
    struct terp_reference_bound bound; /* 0: all bits are kept */
    uint64_t stream_nbytes;            /* without references */
    uint64_t marker;
    struct cuda_search search;
    struct cuda_seen seen;
    /* Memory of the session: `kept` is needed until the end, `scratch` during
     * the search alone; `lists` holds the distances and differences. */
    uint8_t *kept, *scratch, *lists;
    /* where `kept` has the copy of a chunk in host memory */
    uint64_t original_at;
    uint64_t *differences;
};

static uint64_t
chunk_nbytes(const struct finding *it)
{
    return it->of.nvalues * (uint64_t)it->of.value_nbytes;
}

/* ---- memory ---- */

/* Sets the pointers into `kept`. Returns the size of `kept`; to learn the size,
 * call this first with `kept` NULL. */
static uint64_t
lay_out_kept(struct finding *it, bool is_host)
{
    const uint64_t n = it->of.nvalues;
    struct cuda_search *search = &it->search;
    uint64_t at = 0;

    search->seen =
        (struct cuda_seen *)(it->kept + place_take(&at, sizeof *search->seen));
    search->values = it->kept + place_take(&at, chunk_nbytes(it));
    search->sources = (uint32_t *)(it->kept + place_take(&at, 4 * n));
    search->points = (uint32_t *)(it->kept + place_take(&at, 4 * n));
    it->original_at = place_take(&at, is_host ? chunk_nbytes(it) : 0);
    return at;
}

static uint64_t
lay_out_scratch(struct finding *it)
{
    const uint64_t n = it->of.nvalues;
    const int table_nbits = cuda_search_table_nbits(n);
    struct cuda_search *search = &it->search;
    uint64_t at = 0;
    const auto take = [&](uint64_t nbytes) {
        return it->scratch + place_take(&at, nbytes);
    };

    search->table_nbits = table_nbits;
    search->words = (uint64_t *)take(8 * n);
    search->usable = take(n);
    search->keys = (uint32_t *)take(4 * n);
    search->hints = (uint32_t *)take(4 * n);
    search->table = (uint32_t *)take(UINT64_C(8) << table_nbits);
    search->tiles = (struct terp_reference_tile *)take(
        div_up(n, TERP_REFERENCE_TILE_NVALUES) * sizeof *search->tiles);
    search->changed = (uint32_t *)take(32 * 4);
    search->nbefore = (uint64_t *)take(8 * div_up(n, CUDA_LIST_NVALUES));
    return at;
}

static bool
make_memory(struct finding *it, bool is_host)
{
    struct terp_session *session = it->session;

    it->kept =
        (uint8_t *)cuda_session_allocate(session, lay_out_kept(it, is_host));
    it->scratch =
        (uint8_t *)cuda_session_allocate(session, lay_out_scratch(it));
    lay_out_kept(it, is_host);
    lay_out_scratch(it);
    return it->kept != NULL && it->scratch != NULL;
}

static void
release(struct finding *it, uint8_t **memory)
{
    if (*memory != NULL)
        cuda_session_release(it->session, *memory);
    *memory = NULL;
}

/* ---- the search ---- */

static void
compare(struct cuda_work &work, struct finding *it, const void *src,
        bool is_host)
{
    it->of.original = src;
    if (is_host) {
        it->of.original = it->kept + it->original_at;
        work.copy(it->kept + it->original_at, src, chunk_nbytes(it));
    }
    it->seen = CUDA_SEEN_NOTHING;
    work.copy(it->search.seen, &it->seen, sizeof it->seen);
    work.add(cuda_references_compare, &it->of, it->marker, &it->search);
    work.copy(&it->seen, it->search.seen, sizeof it->seen);
}

/* Whether the search is possible: some bits serve as a marker because no value
 * has them, and some value may be a source. */
static bool
is_searched(struct finding *it)
{
    if (it->of.is_float)
        return !it->seen.has_marker && it->seen.nusable > 0;
    it->marker = it->seen.missing;
    return it->marker <= UINT64_MAX >> (64 - 8 * it->of.value_nbytes) &&
           it->seen.missing < it->of.nvalues && it->seen.nusable > 0;
}

static void
search(struct cuda_work &work, struct finding *it)
{
    const int word_nbits = 8 * it->of.value_nbytes - it->of.is_float;
    struct terp_repeats repeats = {};
    int near_nbits = -1;

    if (it->bound.bound > 0 && it->bound.of_each) {
        near_nbits = terp_repeats_near_nbits_of_each(it->bound.bound,
                                                     it->of.value_nbytes);
    } else if (it->bound.bound > 0) {
        const double most = terp_reference_float(it->of.type, it->seen.most);
        near_nbits = terp_repeats_near_nbits(it->bound.bound, -most, most,
                                             it->of.value_nbytes);
    }
    repeats.words = it->search.words;
    repeats.usable = it->search.usable;
    repeats.nvalues = it->of.nvalues;
    repeats.value_nbits = 16 * 8 * it->stream_nbytes / it->seen.nusable;
    repeats.hints = it->search.hints;
    repeats.sources = it->search.sources;
    terp_repeats_set_bits(&repeats, word_nbits, near_nbits);
    work.add(cuda_references_search, &repeats, &it->search);
    work.copy(&it->seen, it->search.seen, sizeof it->seen);
}

/* Searches for references. *found_ret is set if they would make a smaller
 * stream. */
static enum terp_status
find_references(struct finding *it, const void *src, bool is_host,
                bool *found_ret)
{
    enum terp_status st =
        cuda_session_do(it->session, "comparing values", [=](cuda_work &work) {
            compare(work, it, src, is_host);
        });

    *found_ret = st == TERP_OK && is_searched(it);
    if (!*found_ret)
        return st;
    st = cuda_session_do(it->session, "looking for repeated values",
                         [=](cuda_work &work) { search(work, it); });
    *found_ret = st == TERP_OK &&
                 terp_references_pay(it->seen.saved / 16, it->stream_nbytes,
                                     it->bound.bound);
    return st;
}

/* Replaces referring values by markers, and lists the distances. */
static enum terp_status
list(struct finding *it, struct terp_found_references *found_ret)
{
    const uint64_t n = it->seen.nreferences;
    const uint64_t differences_at = place_aligned(4 * n);

    release(it, &it->scratch);
    it->lists =
        (uint8_t *)cuda_session_allocate(it->session, differences_at + 8 * n);
    if (it->lists == NULL)
        return TERP_ERR_MEMORY;
    it->differences = (uint64_t *)(it->lists + differences_at);
    found_ret->marker = it->marker;
    found_ret->nreferences = n;
    found_ret->values = it->search.values;
    found_ret->distances = it->lists;
    found_ret->differences = it->differences;
    return cuda_session_start(
        it->session, "listing references", [=](cuda_work &work) {
            work.add(cuda_references_list, &it->of, it->marker, &it->search, n,
                     (uint32_t *)it->lists);
        });
}

static struct cuda_referring
referring_of(const struct terp_chunk *chunk, const struct terp_params *params)
{
    struct cuda_referring of = {};

    of.type = chunk->type;
    of.value_nbytes = terp_value_nbytes(chunk->type);
    const uint64_t ones = UINT64_MAX >> (64 - 8 * of.value_nbytes);
    of.nvalues = terp_chunk_nvalues(chunk);
    of.is_float = !terp_type_is_integer(chunk->type);
    of.big_endian = chunk->big_endian;
    of.infinity = terp_references_infinity(chunk->type);
    of.fill[0] = params->fill_bits & ones;
    of.fill[1] = params->missing_bits & ones;
    of.has_fill[0] = params->has_fill;
    of.has_fill[1] = params->has_missing;
    return of;
}

enum terp_status
cuda_search(struct terp_session *session, const struct terp_chunk *chunk,
            const struct terp_params *params, struct terp_reference_bound bound,
            const void *src, uint64_t stream_nbytes,
            struct terp_found_references *found_ret)
{
    const struct cuda_referring of = referring_of(chunk, params);
    const bool is_host = cuda_session_is_host(session, src);
    bool found = false;

    *found_ret = {};
    if (of.nvalues >= TERP_NO_SOURCE || (!of.is_float && params->has_missing))
        return TERP_OK;
    struct finding *it = new (std::nothrow) struct finding();
    if (it == NULL)
        return TERP_ERR_MEMORY;
    found_ret->own = it;
    it->session = session;
    it->of = of;
    it->bound = bound;
    it->stream_nbytes = stream_nbytes;
    it->marker = terp_references_marker_of_floats(of.value_nbytes);
    enum terp_status st = make_memory(it, is_host) ? TERP_OK : TERP_ERR_MEMORY;
    if (st == TERP_OK)
        st = find_references(it, src, is_host, &found);
    return st == TERP_OK && found ? list(it, found_ret) : st;
}

enum terp_status
cuda_search_differ(struct terp_session *session,
                   const struct terp_found_references *found,
                   const void *decoded)
{
    const struct finding *it = (const struct finding *)found->own;
    const void *values = decoded != NULL ? decoded : it->search.values;

    return cuda_session_start(
        session, "listing differences", [=](cuda_work &work) {
            work.add(cuda_references_differ, &it->of, it->bound, &it->search,
                     values, it->seen.nreferences, it->differences);
        });
}

void
cuda_search_forget(struct terp_session *session,
                   const struct terp_found_references *found)
{
    struct finding *it = (struct finding *)found->own;

    (void)session;
    if (it == NULL)
        return;
    release(it, &it->lists);
    release(it, &it->scratch);
    release(it, &it->kept);
    delete it;
}

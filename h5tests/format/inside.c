#include "h5tests/format/inside.h"

#include <inttypes.h>

// NOLINTNEXTLINE(bugprone-suspicious-include)
#include "decoder/terp_decode.c"

/* Finds the word lengths of an entry's codebook. */
static void
find_word_nbits(struct call *call, int entry, bool of_tokens,
                uint8_t *nbits_ret)
{
    if (setjmp(call->refused) != 0)
        return;
    const struct codebook *book =
        codebook_of_entry(call, (uint64_t)entry, of_tokens);
    const uint16_t *symbol = book->symbol;

    for (int length = 1; length <= WORD_MAX_NBITS; length++)
        for (int i = 0; i < book->nwords[length]; i++)
            nbits_ret[*symbol++] = (uint8_t)length;
}

void
reader_word_nbits(int entry, bool of_tokens, uint8_t *nbits_ret)
{
    struct call call;

    memset(&call, 0, sizeof call);
    find_word_nbits(&call, entry, of_tokens, nbits_ret);
    release(&call);
}

uint64_t
reader_checksum(const uint8_t *bytes, size_t nbytes, uint64_t seed)
{
    return checksum(bytes, nbytes, seed);
}

static bool
is_any(const uint64_t *numbers, uint64_t n)
{
    uint64_t any = 0;
    for (uint64_t i = 0; i < n; i++)
        any |= numbers[i];
    return any != 0;
}

/* A property of a stream, which a line of the output names. */
struct kind {
    const char *name;
    bool holds;
};

static void
write_kinds(const struct stream *s, FILE *file)
{
    const struct model *model = &s->model;
    const struct exact *exact = &model->exact;
    const bool is_lossless = s->prediction == LOSSLESS;
    const bool has_tails = model->has_tails;
    const bool is_exact = exact->is_set && !is_lossless;
    const bool has_specials = s->flags & HAS_SPECIALS;
    const bool has_groups = s->domain.nvalues > GROUP_NVALUES;
    const bool is_stack = s->domain.nbricks > 1;
    const uint64_t ndifferences = s->domain.nvalues - s->specials.nspecials;
    const uint64_t ngroups =
        is_lossless ? divided_up(ndifferences, GROUP_NVALUES) : 0;
    const uint64_t ndims = s->domain.slowest + 1;
    const struct kind kinds[] = {
        {"low bits, specials", model->wide > 0 && has_specials},
        {"low bits, exact", model->wide > 0 && is_exact},
        {"low bits, stack", model->wide > 0 && is_stack},
        {"low bits, several groups", model->wide > 0 && has_groups},
        {"exact, steps", is_exact && exact->limit > 0},
        {"exact, values", is_exact && exact->limit == 0},
        {"exact, zeros", is_exact && exact->zeros > 0},
        {"exact, means", is_exact && model->has_means},
        {"exact, specials", is_exact && has_specials},
        {"tails, means", has_tails && model->has_means},
        {"tails, exact", has_tails && is_exact},
        {"tails, not exact", has_tails && !is_exact},
        {"tails, stack", has_tails && is_stack},
        {"tails, specials", has_tails && has_specials},
        {"tails, several groups", has_tails && has_groups},
        {"lossless, specials", is_lossless && has_specials},
        {"lossless, stack", is_lossless && is_stack},
        {"lossless, shifts", is_any(s->shifts.shift, ngroups)},
        {"lossless, zeros", is_any(s->shifts.zeros, ngroups)},
        {"lossless, no dimensions", is_lossless && model->mask == 0},
        {"lossless, twice", model->twice != 0},
        {"lossless, center", model->center != 0},
        {"lossless, counted", is_lossless && exact->limit == 0},
        {"lossless, escapes", is_lossless && s->escapes.n > 0},
        {"floor", s->pointwise.joint > 0},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].holds)
            fprintf(file, "%" PRIu64 ": %s\n", s->carrier_width, kinds[i].name);
    if (model->wide > 0)
        fprintf(file,
                "%" PRIu64 ": low bits, coding %" PRIu64 ", prediction %" PRIu64
                "\n",
                s->carrier_width, s->coding, s->prediction);
    if (has_tails)
        fprintf(file, "%" PRIu64 ": tails, coding %" PRIu64 "\n",
                s->carrier_width, s->coding);
    if (is_lossless)
        fprintf(file, "%" PRIu64 ": lossless, form %" PRIu64 "\n",
                s->carrier_width, model->form);
    if (s->flags & IS_POINTWISE)
        fprintf(file,
                "%" PRIu64 ": pointwise, form %" PRIu64 ", signs %" PRIu64 "\n",
                s->carrier_width, s->pointwise.form, s->pointwise.signs);
    if (s->chunk.type > TYPE_BYTES)
        fprintf(file, "type %" PRIu64 ", carrier %" PRIu64 "\n", s->chunk.type,
                s->carrier.number);
    for (uint64_t level = 1; level <= s->nlevels; level++) {
        const struct level_plan *plan = &model->plan[level];
        if (plan->spline == MEAN)
            fprintf(file, "mean, %" PRIu64 " dimensions\n", ndims);
        else if (plan->spline == LONG)
            fprintf(file, "long, %s, %" PRIu64 " dimensions\n",
                    plan->priorities == BLENDS_ALL ? "blends" : "averages",
                    ndims);
    }
}

static void
write_kinds_of_stream(struct call *call, const uint8_t *stream, size_t nbytes,
                      FILE *file)
{
    struct stream s;

    if (setjmp(call->refused) != 0)
        return;
    enter(call, stream, nbytes);
    take_frame(call, &s, NULL, CODING_RAW);
    fprintf(file, "coding %" PRIu64 ", prediction %" PRIu64 "\n", s.coding,
            s.prediction);
    if (s.prediction != NO_PREDICTION) {
        decode_sections(&s);
        write_kinds(&s, file);
    } else
        fprintf(file, "coding %" PRIu64 ", type %" PRIu64 "\n", s.coding,
                s.chunk.type);
}

void
reader_write_kinds(const uint8_t *stream, size_t nbytes, FILE *file)
{
    struct call call;

    memset(&call, 0, sizeof call);
    write_kinds_of_stream(&call, stream, nbytes, file);
    release(&call);
}

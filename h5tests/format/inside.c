#include "h5tests/format/inside.h"

#include <inttypes.h>

// NOLINTNEXTLINE(bugprone-suspicious-include)
#include "decoder/terp_decode.c"

void
reader_word_nbits(int entry, bool of_tokens, uint8_t *nbits_ret)
{
    const struct codebook *book = dictionary((uint64_t)entry, of_tokens);
    const uint16_t *symbol = book->symbol;

    for (int length = 1; length <= WORD_MAX_NBITS; length++)
        for (int i = 0; i < book->nwords[length]; i++)
            nbits_ret[*symbol++] = (uint8_t)length;
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

/* A line each of what holds. */
struct kind {
    const char *name;
    bool holds;
};

static void
write_kinds(FILE *file)
{
    const bool is_lossless = s.prediction == LOSSLESS;
    const bool has_tails = s.tail_nbits > 0;
    const bool is_exact = s.unit > 0 && !is_lossless;
    const bool has_specials = s.flags & HAS_SPECIALS;
    const bool has_groups = s.nvalues > 256;
    const uint64_t ngroups =
        is_lossless ? DIVIDED_UP(s.nvalues - s.nspecials, 256) : 0;
    const struct kind kinds[] = {
        {"low bits, specials", s.wide > 0 && has_specials},
        {"low bits, exact", s.wide > 0 && is_exact},
        {"low bits, stack", s.wide > 0 && s.nbricks > 1},
        {"low bits, several groups", s.wide > 0 && has_groups},
        {"exact, steps", is_exact && s.limit > 0},
        {"exact, values", is_exact && s.limit == 0},
        {"exact, zeros", is_exact && s.zeros > 0},
        {"exact, means", is_exact && s.has_means},
        {"exact, specials", is_exact && has_specials},
        {"tails, means", has_tails && s.has_means},
        {"tails, exact", has_tails && is_exact},
        {"tails, not exact", has_tails && !is_exact},
        {"tails, stack", has_tails && s.nbricks > 1},
        {"tails, specials", has_tails && has_specials},
        {"tails, several groups", has_tails && has_groups},
        {"lossless, specials", is_lossless && has_specials},
        {"lossless, stack", is_lossless && s.nbricks > 1},
        {"lossless, shifts", is_any(s.group_shift, ngroups)},
        {"lossless, zeros", is_any(s.group_zeros, ngroups)},
        {"lossless, no dimensions", is_lossless && s.mask == 0},
        {"lossless, twice", s.twice != 0},
        {"lossless, center", s.lossless_center != 0},
        {"lossless, counted", is_lossless && s.limit == 0},
        {"lossless, escapes", is_lossless && s.nescapes > 0},
        {"floor", s.joint > 0},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].holds)
            fprintf(file, "%" PRIu64 ": %s\n", s.carried, kinds[i].name);
    if (s.wide > 0)
        fprintf(file,
                "%" PRIu64 ": low bits, coding %" PRIu64 ", prediction %" PRIu64
                "\n",
                s.carried, s.coding, s.prediction);
    if (has_tails)
        fprintf(file, "%" PRIu64 ": tails, coding %" PRIu64 "\n", s.carried,
                s.coding);
    if (is_lossless)
        fprintf(file, "%" PRIu64 ": lossless, form %" PRIu64 "\n", s.carried,
                s.lossless_form);
    if (s.flags & IS_POINTWISE)
        fprintf(file,
                "%" PRIu64 ": pointwise, form %" PRIu64 ", signs %" PRIu64 "\n",
                s.carried, s.form, s.signs);
    if (s.chunk.type > BYTES)
        fprintf(file, "type %" PRIu64 ", carrier %" PRIu64 "\n", s.chunk.type,
                s.carrier);
    for (uint64_t level = 1; level <= s.nlevels; level++)
        if (s.plan[level].spline == MEAN)
            fprintf(file, "mean, %" PRIu64 " dimensions\n", s.slowest + 1);
        else if (s.plan[level].spline == LONG)
            fprintf(file, "long, %s, %" PRIu64 " dimensions\n",
                    s.plan[level].priorities == 255 ? "blends" : "averages",
                    s.slowest + 1);
}

void
reader_write_kinds(const uint8_t *stream, size_t nbytes, FILE *file)
{
    struct terp_reader_chunk chunk = {0};

    if (setjmp(refused) != 0)
        return;
    enter(stream, nbytes);
    take_head(&chunk, RAW);
    fprintf(file, "coding %" PRIu64 ", prediction %" PRIu64 "\n", s.coding,
            s.prediction);
    if (s.prediction != 0) {
        read_sections();
        write_kinds(file);
    } else
        fprintf(file, "coding %" PRIu64 ", type %" PRIu64 "\n", s.coding,
                chunk.type);
    terp_reader_decode(NULL, 0, &chunk, NULL, 0); /* which releases memory */
}

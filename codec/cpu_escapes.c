#include "cpu_escapes.h"

static uint64_t
next_escape(const struct cpu_escapes *escapes, uint64_t from)
{
    return cpu_find_escape(escapes->symbols, from, escapes->nvalues);
}

static uint8_t *
word_at(const struct cpu_escapes *escapes, uint64_t i)
{
    return (uint8_t *)escapes->words +
           i * (uint64_t)escapes->stages->value_nbytes;
}

static struct cpu_grid
grid_of(const struct cpu_escapes *escapes)
{
    struct cpu_grid none = {.step = 0};
    return escapes->quantizer == NULL
               ? none
               : escapes->stages->grid(escapes->quantizer);
}

/* The number that stands for the word at `i`; false if none does. */
static bool
number_at(const struct cpu_escapes *escapes, const struct cpu_grid *grid,
          uint64_t i, uint64_t *number_ret)
{
    const uint8_t *word = word_at(escapes, i);
    int nbytes = escapes->stages->value_nbytes;
    int64_t signed_word;

    if (escapes->quantizer == NULL) {
        uint64_t bits = load_le(word, nbytes);
        signed_word = nbytes == 4 ? (int32_t)bits : (int64_t)bits;
    } else if (!escapes->stages->to_grid(word, grid, &signed_word)) {
        return false;
    }
    *number_ret = zigzag(signed_word);
    return true;
}

/* How many escapes there are; and bytes that hold every number, 0 if some word
 * has none. */
static uint64_t
survey(const struct cpu_escapes *escapes, const struct cpu_grid *grid,
       int *number_nbytes_ret)
{
    uint64_t n = 0, all = 1; /* a byte at least */
    bool fits = true;

    for (uint64_t i = next_escape(escapes, 0); i < escapes->nvalues;
         i = next_escape(escapes, i + 1)) {
        uint64_t number = 0;
        fits = fits && number_at(escapes, grid, i, &number);
        all |= number;
        n++;
    }
    *number_nbytes_ret = fits ? (bit_width(all) + 7) / 8 : 0;
    return n;
}

void
cpu_escapes_write(const struct cpu_escapes *escapes, struct writer *writer)
{
    struct cpu_grid grid = grid_of(escapes);
    int number_nbytes;

    uint64_t left = survey(escapes, &grid, &number_nbytes);
    int nbytes =
        number_nbytes == 0 ? escapes->stages->value_nbytes : number_nbytes;
    write_uleb(writer, left);
    if (left == 0)
        return;
    write_le(writer, (uint64_t)number_nbytes, 1);
    uint8_t *at = writer_take(writer, left * (uint64_t)nbytes);
    for (uint64_t i = 0; at != NULL && left > 0; i++, left--) {
        uint64_t bits = 0;
        i = next_escape(escapes, i);
        if (number_nbytes == 0)
            bits = load_le(word_at(escapes, i), nbytes);
        else
            (void)number_at(escapes, &grid, i, &bits);
        store_le(at, bits, nbytes);
        at += nbytes;
    }
}

enum terp_status
cpu_escapes_read(struct reader *reader, uint64_t nvalues, int value_nbytes,
                 struct cpu_escape_section *section_ret)
{
    struct cpu_escape_section section = {.nescapes = read_uleb(reader)};

    if (section.nescapes > 0)
        section.number_nbytes = (int)read_le(reader, 1);
    if (reader->underflow || section.nescapes > nvalues ||
        section.number_nbytes > value_nbytes)
        return TERP_ERR_CORRUPT;
    int nbytes =
        section.number_nbytes == 0 ? value_nbytes : section.number_nbytes;
    section.at = reader_take(reader, section.nescapes * (uint64_t)nbytes);
    *section_ret = section;
    return section.at == NULL ? TERP_ERR_CORRUPT : TERP_OK;
}

enum terp_status
cpu_escapes_place(const struct cpu_escapes *escapes,
                  const struct cpu_escape_section *section)
{
    struct cpu_grid grid = grid_of(escapes);
    int value_nbytes = escapes->stages->value_nbytes;
    int nbytes =
        section->number_nbytes == 0 ? value_nbytes : section->number_nbytes;
    const uint8_t *at = section->at;
    uint64_t n = 0;

    for (uint64_t i = next_escape(escapes, 0); i < escapes->nvalues;
         i = next_escape(escapes, i + 1), at += nbytes) {
        if (n++ == section->nescapes)
            return TERP_ERR_CORRUPT;
        uint64_t bits = load_le(at, nbytes);
        int64_t signed_word = unzigzag(bits);
        if (section->number_nbytes == 0)
            store_le(word_at(escapes, i), bits, value_nbytes);
        else if (escapes->quantizer == NULL)
            store_le(word_at(escapes, i), (uint64_t)signed_word, value_nbytes);
        else
            escapes->stages->from_grid(signed_word, &grid, word_at(escapes, i));
    }
    return n == section->nescapes ? TERP_OK : TERP_ERR_CORRUPT;
}

#include "cpu_specials.h"

#include <stdlib.h>

/* Different values that are told apart by runs. With more, every value is
 * written out. */
#define MAX_PALETTE 15

/* Numbers are packed in groups, each with its own width. */
#define GROUP_NNUMBERS 64

/* Of one run: values before it since the last run, its length less one and,
 * with a palette, which value it repeats. */
struct run {
    uint64_t gap, more;
    int color;
};

struct runs {
    struct run *run; /* NULL: only count */
    uint64_t nruns;
    uint64_t nspecials;
    uint64_t palette[MAX_PALETTE];
    int ncolors; /* MAX_PALETTE + 1: too many */
};

static int
color_of(struct runs *runs, uint64_t bits)
{
    for (int c = 0; c < runs->ncolors && c < MAX_PALETTE; c++)
        if (runs->palette[c] == bits)
            return c;
    if (runs->ncolors < MAX_PALETTE)
        runs->palette[runs->ncolors] = bits;
    if (runs->ncolors <= MAX_PALETTE)
        runs->ncolors++;
    return runs->ncolors - 1;
}

/* First i >= at with mask bit `set`, or nvalues. */
static uint64_t
find_bit(const uint64_t *mask, uint64_t at, uint64_t nvalues, bool set)
{
    while (at < nvalues) {
        uint64_t word = set ? mask[at / 64] : ~mask[at / 64];
        word >>= at % 64;
        if (word != 0)
            return min_u64(nvalues, at + (uint64_t)__builtin_ctzll(word));
        at += 64 - at % 64;
    }
    return nvalues;
}

/* Runs of specials; `by_color`: of equal specials. */
static void
find_runs(const uint64_t *mask, const uint8_t *values, uint64_t nvalues,
          int value_nbytes, bool by_color, struct runs *runs)
{
    uint64_t end = 0; /* of the last run */

    for (;;) {
        uint64_t first = find_bit(mask, end, nvalues, true);
        if (first == nvalues)
            return;
        uint64_t stop = find_bit(mask, first, nvalues, false);
        int color = 0;
        if (by_color) {
            const uint8_t *value = values + first * (uint64_t)value_nbytes;
            uint64_t i = first + 1;
            while (i < stop && memcmp(values + i * (uint64_t)value_nbytes,
                                      value, (size_t)value_nbytes) == 0)
                i++;
            stop = i;
            color = color_of(runs, load_le(value, value_nbytes));
            if (color == MAX_PALETTE)
                return;
        }
        if (runs->run != NULL)
            runs->run[runs->nruns] =
                (struct run){first - end, stop - first - 1, color};
        runs->nruns++;
        runs->nspecials += stop - first;
        end = stop;
    }
}

static uint64_t
number_of(const struct run *run, int field)
{
    return field == 0   ? run->gap
           : field == 1 ? run->more
                        : (uint64_t)run->color;
}

static void
write_field(struct writer *writer, const struct runs *runs, int field)
{
    for (uint64_t first = 0; first < runs->nruns; first += GROUP_NNUMBERS) {
        uint64_t n = min_u64(GROUP_NNUMBERS, runs->nruns - first), all = 0;
        for (uint64_t i = 0; i < n; i++)
            all |= number_of(&runs->run[first + i], field);
        int width = bit_width(all);
        write_le(writer, (uint64_t)width, 1);
        uint64_t nbytes = packed_nbytes(n, width);
        uint8_t *at = writer_take(writer, nbytes);
        if (at == NULL)
            return;
        memset(at, 0, nbytes);
        for (uint64_t i = 0; i < n; i++)
            pack_bits(at, i * (uint64_t)width, width,
                      number_of(&runs->run[first + i], field));
    }
}

static void
write_palette(struct writer *writer, const struct runs *runs, int value_nbytes)
{
    for (int c = 0; c < runs->ncolors; c++)
        write_le(writer, runs->palette[c], value_nbytes);
}

static void
write_all(struct writer *writer, const uint64_t *mask, const uint8_t *values,
          uint64_t nvalues, int value_nbytes)
{
    for (uint64_t i = find_bit(mask, 0, nvalues, true); i < nvalues;
         i = find_bit(mask, i + 1, nvalues, true)) {
        uint8_t *at = writer_take(writer, (uint64_t)value_nbytes);
        if (at == NULL)
            return;
        memcpy(at, values + i * (uint64_t)value_nbytes, (size_t)value_nbytes);
    }
}

enum terp_status
cpu_specials_write(struct writer *writer, const uint64_t *mask,
                   const void *values, uint64_t nvalues, int value_nbytes)
{
    struct runs colored = {0}, runs = {0};

    find_runs(mask, values, nvalues, value_nbytes, true, &colored);
    bool has_palette = colored.ncolors <= MAX_PALETTE;
    runs.ncolors = has_palette ? colored.ncolors : 0;
    find_runs(mask, values, nvalues, value_nbytes, false, &runs);
    /* Runs that break at every change of value may cost more than they
     * save: then values are written out as well. */
    has_palette &= colored.nruns <= 2 * runs.nruns + 8;
    uint64_t nruns = has_palette ? colored.nruns : runs.nruns;
    runs = (struct runs){0};
    runs.run = malloc(nruns * sizeof *runs.run + 1);
    if (runs.run == NULL)
        return TERP_ERR_MEMORY;
    find_runs(mask, values, nvalues, value_nbytes, has_palette, &runs);

    write_uleb(writer, runs.nruns);
    write_le(writer, (uint64_t)runs.ncolors, 1);
    write_field(writer, &runs, 0);
    write_field(writer, &runs, 1);
    if (runs.ncolors > 1)
        write_field(writer, &runs, 2);
    if (has_palette)
        write_palette(writer, &runs, value_nbytes);
    else
        write_all(writer, mask, values, nvalues, value_nbytes);
    free(runs.run);
    return writer->overflow ? TERP_ERR_CAPACITY : TERP_OK;
}

static void
read_field(struct reader *reader, struct run *run, uint64_t nruns, int field)
{
    for (uint64_t first = 0; first < nruns; first += GROUP_NNUMBERS) {
        uint64_t n = min_u64(GROUP_NNUMBERS, nruns - first);
        int width = (int)read_le(reader, 1);
        if (width > 56)
            reader->underflow = true;
        const uint8_t *at = reader_take(reader, packed_nbytes(n, width));
        if (at == NULL)
            return;
        for (uint64_t i = 0; i < n; i++) {
            uint64_t value = unpack_bits(at, i * (uint64_t)width, width);
            if (field == 0)
                run[first + i].gap = value;
            else if (field == 1)
                run[first + i].more = value;
            else
                run[first + i].color = (int)(value & 0xFF);
        }
    }
}

/* Checks that the runs stay within the chunk; counts their values. */
static bool
check_runs(const struct runs *runs, uint64_t nvalues, uint64_t *nspecials_ret)
{
    uint64_t left = nvalues;

    *nspecials_ret = 0;
    for (uint64_t i = 0; i < runs->nruns; i++) {
        const struct run *run = &runs->run[i];
        if (run->gap > left || run->more >= left - run->gap ||
            run->color > (runs->ncolors > 0 ? runs->ncolors - 1 : 0))
            return false;
        left -= run->gap + run->more + 1;
        *nspecials_ret += run->more + 1;
    }
    return true;
}

static void
put_back(const struct runs *runs, const uint8_t *exact, uint8_t *values,
         int value_nbytes)
{
    uint8_t *at = values;
    size_t nbytes = (size_t)value_nbytes;

    for (uint64_t i = 0; i < runs->nruns; i++) {
        const struct run *run = &runs->run[i];
        at += run->gap * nbytes;
        for (uint64_t j = 0; j <= run->more; j++, at += nbytes) {
            if (runs->ncolors > 0) {
                memcpy(at, exact + (size_t)run->color * nbytes, nbytes);
            } else {
                memcpy(at, exact, nbytes);
                exact += nbytes;
            }
        }
    }
}

enum terp_status
cpu_specials_read(struct reader *reader, void *values, uint64_t nvalues,
                  int value_nbytes, uint64_t *nspecials_ret)
{
    struct runs runs = {.nruns = read_uleb(reader)};
    enum terp_status st = TERP_ERR_CORRUPT;

    runs.ncolors = (int)read_le(reader, 1);
    /* A group of runs takes at least a byte. */
    if (reader->underflow || runs.ncolors > MAX_PALETTE ||
        runs.nruns > nvalues ||
        runs.nruns / GROUP_NNUMBERS > (uint64_t)(reader->end - reader->at))
        return TERP_ERR_CORRUPT;
    runs.run = calloc(runs.nruns + 1, sizeof *runs.run);
    if (runs.run == NULL)
        return TERP_ERR_MEMORY;
    read_field(reader, runs.run, runs.nruns, 0);
    read_field(reader, runs.run, runs.nruns, 1);
    if (runs.ncolors > 1)
        read_field(reader, runs.run, runs.nruns, 2);
    if (!reader->underflow && check_runs(&runs, nvalues, nspecials_ret)) {
        uint64_t nexact =
            runs.ncolors > 0 ? (uint64_t)runs.ncolors : *nspecials_ret;
        const uint8_t *exact =
            reader_take(reader, nexact * (uint64_t)value_nbytes);
        if (exact != NULL) {
            st = TERP_OK;
            if (values != NULL)
                put_back(&runs, exact, values, value_nbytes);
        }
    }
    free(runs.run);
    return st;
}

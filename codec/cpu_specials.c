#include "cpu_specials.h"

/* Different values that are told apart by runs. With more, every value is
 * written out. */
#define MAX_PALETTE 15

/* Numbers are packed in groups, each with its own width. */
#define GROUP_NNUMBERS 64

/* Values before a run since the last one, its length less one and, with
 * colors, which of them it repeats. */
struct run {
    uint64_t gap, more, color;
};
enum field {
    FIELD_GAP,
    FIELD_MORE,
    FIELD_COLOR,
    NFIELDS
};

static uint64_t
number_of(const struct run *run, int field)
{
    return field == FIELD_GAP    ? run->gap
           : field == FIELD_MORE ? run->more
                                 : run->color;
}

/* A walk over runs of specials or, `by_color`, of equal specials. Colors are
 * added as they are met. */
struct walk {
    const uint64_t *mask;
    const uint8_t *values;
    uint64_t nvalues;
    int value_nbytes;
    bool by_color;
    uint64_t palette[MAX_PALETTE];
    int ncolors;  /* MAX_PALETTE + 1: too many */
    uint64_t end; /* of the last run */
};

static int
color_of(struct walk *walk, uint64_t bits)
{
    for (int c = 0; c < walk->ncolors && c < MAX_PALETTE; c++)
        if (walk->palette[c] == bits)
            return c;
    if (walk->ncolors < MAX_PALETTE)
        walk->palette[walk->ncolors] = bits;
    if (walk->ncolors <= MAX_PALETTE)
        walk->ncolors++;
    return walk->ncolors - 1;
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

static bool
next_run(struct walk *walk, struct run *run_ret)
{
    size_t nbytes = (size_t)walk->value_nbytes;
    uint64_t first = find_bit(walk->mask, walk->end, walk->nvalues, true);

    if (first == walk->nvalues)
        return false;
    uint64_t stop = find_bit(walk->mask, first, walk->nvalues, false);
    *run_ret = (struct run){.gap = first - walk->end};
    if (walk->by_color) {
        const uint8_t *value = walk->values + first * nbytes;
        uint64_t i = first + 1;
        while (i < stop &&
               memcmp(walk->values + i * nbytes, value, nbytes) == 0)
            i++;
        stop = i;
        run_ret->color =
            (uint64_t)color_of(walk, load_le(value, walk->value_nbytes));
    }
    run_ret->more = stop - first - 1;
    walk->end = stop;
    return true;
}

/* Of the whole walk, or up to the first color too many. Rewinds. */
static uint64_t
count_runs(struct walk *walk)
{
    struct run run;
    uint64_t nruns = 0;

    while (walk->ncolors <= MAX_PALETTE && next_run(walk, &run))
        nruns++;
    walk->end = 0;
    return nruns;
}

static void
write_field(struct writer *writer, struct walk walk, int field)
{
    uint64_t numbers[GROUP_NNUMBERS], n;
    struct run run;

    do {
        uint64_t all = 0;
        for (n = 0; n < GROUP_NNUMBERS && next_run(&walk, &run); n++) {
            numbers[n] = number_of(&run, field);
            all |= numbers[n];
        }
        if (n == 0)
            return;
        int width = bit_width(all);
        write_le(writer, (uint64_t)width, 1);
        uint64_t nbytes = packed_nbytes(n, width);
        uint8_t *at = writer_take(writer, nbytes);
        if (at == NULL)
            return;
        memset(at, 0, nbytes);
        for (uint64_t i = 0; i < n; i++)
            pack_bits(at, i * (uint64_t)width, width, numbers[i]);
    } while (n == GROUP_NNUMBERS);
}

static void
write_all(struct writer *writer, struct walk walk)
{
    struct run run;

    while (next_run(&walk, &run)) {
        uint64_t nbytes = (run.more + 1) * (uint64_t)walk.value_nbytes;
        uint8_t *at = writer_take(writer, nbytes);
        if (at == NULL)
            return;
        memcpy(at,
               walk.values + walk.end * (uint64_t)walk.value_nbytes - nbytes,
               nbytes);
    }
}

enum terp_status
cpu_specials_write(struct writer *writer, const uint64_t *mask,
                   const void *values, uint64_t nvalues, int value_nbytes)
{
    struct walk walk = {.mask = mask,
                        .values = values,
                        .nvalues = nvalues,
                        .value_nbytes = value_nbytes,
                        .by_color = true};
    uint64_t nruns = count_runs(&walk);

    if (walk.ncolors > MAX_PALETTE) {
        walk.ncolors = 0;
        walk.by_color = false;
        nruns = count_runs(&walk);
    }
    write_uleb(writer, nruns);
    write_le(writer, (uint64_t)walk.ncolors, 1);
    for (int field = 0; field < (walk.ncolors > 1 ? NFIELDS : FIELD_COLOR);
         field++)
        write_field(writer, walk, field);
    for (int c = 0; c < walk.ncolors; c++)
        write_le(writer, walk.palette[c], value_nbytes);
    if (walk.ncolors == 0)
        write_all(writer, walk);
    return writer->overflow ? TERP_ERR_CAPACITY : TERP_OK;
}

/* A list of numbers, read one by one. */
struct list {
    struct reader reader;
    uint64_t nnumbers, at;
    const uint8_t *group;
    int width;
};

static void
start_group(struct list *list)
{
    uint64_t n = min_u64(GROUP_NNUMBERS, list->nnumbers - list->at);
    list->width = (int)read_le(&list->reader, 1);
    if (list->width > 56)
        list->reader.underflow = true;
    list->group = reader_take(&list->reader, packed_nbytes(n, list->width));
}

/* The list that begins at `reader`, which goes on behind it. */
static struct list
list_at(struct reader *reader, uint64_t nnumbers)
{
    struct list list = {.reader = *reader, .nnumbers = nnumbers};
    struct list skipped = list;

    for (; skipped.at < nnumbers && !skipped.reader.underflow;
         skipped.at += GROUP_NNUMBERS)
        start_group(&skipped);
    *reader = skipped.reader;
    return list;
}

/* Only of a list that was read to its end without an underflow. */
static uint64_t
next_number(struct list *list)
{
    uint64_t i = list->at % GROUP_NNUMBERS;

    if (i == 0)
        start_group(list);
    list->at++;
    return unpack_bits(list->group, i * (uint64_t)list->width, list->width);
}

static void
fill_values(uint8_t *values, uint64_t nvalues, const uint8_t *value,
            size_t nbytes)
{
    for (uint64_t i = 0; i < nvalues; i++)
        memcpy(values + i * nbytes, value, nbytes);
}

enum terp_status
cpu_specials_read(struct reader *reader, void *values, uint64_t nvalues,
                  int value_nbytes, uint64_t *nspecials_ret)
{
    size_t nbytes = (size_t)value_nbytes;
    uint64_t nruns = read_uleb(reader), ncolors = read_le(reader, 1);
    uint64_t end = 0; /* of the last run */
    struct list lists[NFIELDS];

    *nspecials_ret = 0;
    if (reader->underflow || ncolors > MAX_PALETTE || nruns > nvalues)
        return TERP_ERR_CORRUPT;
    for (int field = 0; field < (ncolors > 1 ? NFIELDS : FIELD_COLOR); field++)
        lists[field] = list_at(reader, nruns);
    const uint8_t *palette = reader_take(reader, ncolors * nbytes);
    if (palette == NULL)
        return TERP_ERR_CORRUPT;
    for (uint64_t i = 0; i < nruns; i++) {
        uint64_t gap = next_number(&lists[FIELD_GAP]);
        uint64_t more = next_number(&lists[FIELD_MORE]);
        uint64_t color = ncolors > 1 ? next_number(&lists[FIELD_COLOR]) : 0;
        if (gap >= nvalues - end || more >= nvalues - end - gap ||
            (ncolors > 0 && color >= ncolors))
            return TERP_ERR_CORRUPT;
        uint8_t *at =
            values == NULL ? NULL : (uint8_t *)values + (end + gap) * nbytes;
        if (ncolors == 0) {
            const uint8_t *exact = reader_take(reader, (more + 1) * nbytes);
            if (exact == NULL)
                return TERP_ERR_CORRUPT;
            if (at != NULL)
                memcpy(at, exact, (more + 1) * nbytes);
        } else if (at != NULL) {
            fill_values(at, more + 1, palette + color * nbytes, nbytes);
        }
        end += gap + more + 1;
        *nspecials_ret += more + 1;
    }
    return TERP_OK;
}

#include "cpu/sections/specials.h"

#include <stdlib.h>

/* Different values that are told apart by runs. With more, every value is
 * written out. */
#define MAX_PALETTE 15

/* Where the byte of the number of colors has the dimension of a lag. */
#define LAG_SHIFT 4

/* With a lag, specials are counted in a mask. Where none is asked for, it is
 * made for at most so many values, 2 MiB, or so many for each byte of the
 * stream: a few bytes can claim any number. */
#define COUNT_MAX_NVALUES (UINT64_C(1) << 24)
#define COUNT_NVALUES_PER_BYTE 32

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

/* A mask, or with a lag what differs between it and itself so much before. */
struct bits {
    const uint64_t *words;
    uint64_t nvalues, lag;
};

static uint64_t
word_of(const struct bits *bits, uint64_t i)
{
    uint64_t at = bits->lag / 64, word = bits->words[i];
    int shift = (int)(bits->lag % 64);

    if (bits->lag > 0 && i >= at)
        word ^= bits->words[i - at] << shift;
    if (shift > 0 && i > at)
        word ^= bits->words[i - at - 1] >> (64 - shift);
    return word;
}

/* First i >= at whose bit is `set`, or the number of values. */
static uint64_t
find_bit(const struct bits *bits, uint64_t at, bool set)
{
    while (at < bits->nvalues) {
        uint64_t word = word_of(bits, at / 64);
        word = (set ? word : ~word) >> at % 64;
        if (word != 0)
            return min_u64(bits->nvalues, at + (uint64_t)__builtin_ctzll(word));
        at += 64 - at % 64;
    }
    return bits->nvalues;
}

/* A walk over runs of specials or, `by_color`, of equal specials. Colors are
 * added as they are met. */
struct walk {
    struct bits bits;
    const uint8_t *values;
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

static bool
next_run(struct walk *walk, struct run *run_ret)
{
    size_t nbytes = (size_t)walk->value_nbytes;
    uint64_t first = find_bit(&walk->bits, walk->end, true);

    if (first == walk->bits.nvalues)
        return false;
    uint64_t stop = find_bit(&walk->bits, first, false);
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

/* Of a walk with one color: the dimension whose lag leaves the fewest runs, 0
 * for none. */
static int
choose_lag(struct walk *walk, const struct terp_layout *layout,
           uint64_t *nruns_inout)
{
    struct walk tried = *walk;
    int best = 0;

    for (int d = 1; d <= TERP_NDIMS; d++) {
        tried.bits.lag = terp_mask_delta_distance(layout, d);
        uint64_t nruns = tried.bits.lag == 0 ? UINT64_MAX : count_runs(&tried);
        if (nruns >= *nruns_inout)
            continue;
        *nruns_inout = nruns;
        walk->bits.lag = tried.bits.lag;
        best = d;
    }
    return best;
}

enum terp_status
terp_cpu_specials_write(struct writer *writer, const uint64_t *mask,
                        const void *values, const struct terp_layout *layout,
                        int value_nbytes)
{
    struct walk walk = {.bits = {mask, layout->nvalues, 0},
                        .values = values,
                        .value_nbytes = value_nbytes,
                        .by_color = true};
    uint64_t nruns = count_runs(&walk);
    int lagged = 0;

    if (walk.ncolors > MAX_PALETTE) {
        walk.ncolors = 0;
        walk.by_color = false;
        nruns = count_runs(&walk);
    } else if (walk.ncolors == 1) {
        walk.by_color = false;
        lagged = choose_lag(&walk, layout, &nruns);
    }
    write_uleb(writer, nruns);
    write_le(writer, (uint64_t)(walk.ncolors | lagged << LAG_SHIFT), 1);
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

/* The head of a section. */
struct head {
    uint64_t nruns, ncolors, lag;
    int nfields;
};

static bool
read_head(struct reader *reader, const struct terp_layout *layout,
          struct head *head_ret)
{
    uint64_t nruns = read_uleb(reader), byte = read_le(reader, 1);
    uint64_t ncolors = byte & MAX_PALETTE, lagged = byte >> LAG_SHIFT;
    bool valid =
        !reader->underflow && nruns <= layout->nvalues && lagged <= TERP_NDIMS;

    *head_ret = (struct head){.nruns = nruns,
                              .ncolors = ncolors,
                              .nfields = ncolors > 1 ? NFIELDS : FIELD_COLOR};
    if (valid && lagged > 0) {
        head_ret->lag = terp_mask_delta_distance(layout, (int)lagged);
        valid = ncolors == 1 && head_ret->lag > 0;
    }
    return valid;
}

static void
set_bits(uint64_t *words, uint64_t begin, uint64_t end)
{
    uint64_t first = begin / 64, last = (end - 1) / 64;
    uint64_t from = UINT64_MAX << begin % 64;
    uint64_t to = UINT64_MAX >> (63 - (end - 1) % 64);

    if (first == last) {
        words[first] |= from & to;
        return;
    }
    words[first] |= from;
    for (uint64_t i = first + 1; i < last; i++)
        words[i] = UINT64_MAX;
    words[last] |= to;
}

/* Differences become the mask, and counted. */
static uint64_t
sum_up(uint64_t *words, uint64_t nvalues, uint64_t lag)
{
    const struct bits bits = {words, nvalues, lag};
    uint64_t nwords = div_up(nvalues, 64), nspecials = 0;

    for (uint64_t i = 0; i < nwords; i++) {
        words[i] = word_of(&bits, i);
        if (i == nwords - 1)
            words[i] &= UINT64_MAX >> (63 - (nvalues - 1) % 64);
        nspecials += (uint64_t)__builtin_popcountll(words[i]);
    }
    return nspecials;
}

/* All that stands in the section but the values, which are passed over. */
static bool
read_runs(struct reader *reader, const struct terp_layout *layout,
          const struct head *head, int value_nbytes, uint64_t *mask,
          uint64_t *nspecials_ret)
{
    uint64_t end = 0, nspecials = 0;
    struct list lists[NFIELDS];

    for (int field = 0; field < head->nfields; field++)
        lists[field] = list_at(reader, head->nruns);
    if (reader->underflow)
        return false;
    for (uint64_t i = 0; i < head->nruns; i++) {
        uint64_t gap = next_number(&lists[FIELD_GAP]);
        uint64_t more = next_number(&lists[FIELD_MORE]);
        uint64_t left = layout->nvalues - end;
        if (gap >= left || more >= left - gap)
            return false;
        if (head->nfields > FIELD_COLOR &&
            next_number(&lists[FIELD_COLOR]) >= head->ncolors)
            return false;
        if (mask != NULL)
            set_bits(mask, end + gap, end + gap + more + 1);
        end += gap + more + 1;
        nspecials += more + 1;
    }
    reader_take(reader, (head->ncolors > 0 ? head->ncolors : nspecials) *
                            (uint64_t)value_nbytes);
    *nspecials_ret = head->lag == 0 ? nspecials
                     : mask == NULL ? TERP_COUNT_UNKNOWN
                                    : sum_up(mask, layout->nvalues, head->lag);
    return !reader->underflow;
}

enum terp_status
terp_cpu_specials_read(struct reader *reader, const struct terp_layout *layout,
                       int value_nbytes, uint64_t **mask_ret,
                       uint64_t *nspecials_ret)
{
    uint64_t *mask = NULL;
    struct head head;

    *nspecials_ret = 0;
    if (!read_head(reader, layout, &head))
        return TERP_ERR_CORRUPT;
    const uint64_t left_nbytes = (uint64_t)(reader->end - reader->at);
    if (mask_ret != NULL ||
        (head.lag > 0 &&
         (layout->nvalues <= COUNT_MAX_NVALUES ||
          layout->nvalues / COUNT_NVALUES_PER_BYTE <= left_nbytes))) {
        mask = calloc(div_up(layout->nvalues, 64), 8);
        if (mask == NULL)
            return TERP_ERR_MEMORY;
    }
    bool valid =
        read_runs(reader, layout, &head, value_nbytes, mask, nspecials_ret);
    if (valid && mask_ret != NULL)
        *mask_ret = mask;
    else
        free(mask);
    return valid ? TERP_OK : TERP_ERR_CORRUPT;
}

static void
fill_values(uint8_t *values, uint64_t nvalues, const uint8_t *value,
            size_t nbytes)
{
    for (uint64_t i = 0; i < nvalues; i++)
        memcpy(values + i * nbytes, value, nbytes);
}

static void
place_colors(struct list *lists, uint64_t nruns, const uint8_t *palette,
             size_t nbytes, uint8_t *values)
{
    for (uint64_t i = 0; i < nruns; i++) {
        uint64_t gap = next_number(&lists[FIELD_GAP]);
        uint64_t n = next_number(&lists[FIELD_MORE]) + 1;
        uint64_t color = next_number(&lists[FIELD_COLOR]);
        values += gap * nbytes;
        fill_values(values, n, palette + color * nbytes, nbytes);
        values += n * nbytes;
    }
}

void
terp_cpu_specials_place(struct reader *reader, const struct terp_layout *layout,
                        int value_nbytes, const uint64_t *mask, void *values)
{
    const struct bits bits = {mask, layout->nvalues, 0};
    size_t nbytes = (size_t)value_nbytes;
    struct list lists[NFIELDS];
    struct head head;

    read_head(reader, layout, &head);
    for (int field = 0; field < head.nfields; field++)
        lists[field] = list_at(reader, head.nruns);
    const uint8_t *words = reader->at;
    if (head.ncolors > 1) {
        place_colors(lists, head.nruns, words, nbytes, values);
        return;
    }
    for (uint64_t end = 0;;) {
        uint64_t begin = find_bit(&bits, end, true);
        end = find_bit(&bits, begin, false);
        if (begin == end)
            return;
        uint8_t *at = (uint8_t *)values + begin * nbytes;
        if (head.ncolors == 1) {
            fill_values(at, end - begin, words, nbytes);
        } else {
            memcpy(at, words, (end - begin) * nbytes);
            words += (end - begin) * nbytes;
        }
    }
}

/* Writes and reads the section of special values. A walk over the mask finds
 * one run after another. Each list of the section walks anew, so that no run
 * has to be stored. */
#include "cpu/sections/specials.h"

#include <stdlib.h>

#include "codec/format/lossless.h"
#include "codec/format/sections.h"
#include "codec/model/coarse.h"
#include "cpu/entropy/rows.h"
#include "cpu/sections/mask.h"

/* Bounds the memory of terp_inspect: with a mask delta, special values can
 * only be counted in a mask, and a few bytes can claim any number of values.
 * If the caller wants no mask, it is made for at most COUNT_MAX_NVALUES (2
 * MiB), or COUNT_NVALUES_PER_BYTE for each byte of the stream. Streams with
 * a section of shifts are always long enough: what that section holds
 * depends on the count. */
#define COUNT_MAX_NVALUES (UINT64_C(1) << 24)
#define COUNT_NVALUES_PER_BYTE 512
_Static_assert(COUNT_NVALUES_PER_BYTE * 5 >= TERP_SHIFT_GROUP_NVALUES * 8,
               "A group's shift has five bits at least.");

/* The numbers of a run, by enum terp_specials_field. */
struct run {
    uint64_t number[TERP_SPECIALS_NFIELDS];
};

/* The first i >= at whose bit equals `set`; the number of values if there is
 * none. */
static uint64_t
find_bit(const struct cpu_mask *bits, uint64_t at, bool set)
{
    while (at < bits->nvalues) {
        uint64_t word = cpu_mask_word(bits, at / 64);
        word = (set ? word : ~word) >> at % 64;
        if (word != 0)
            return min_u64(bits->nvalues, at + (uint64_t)__builtin_ctzll(word));
        at += 64 - at % 64;
    }
    return bits->nvalues;
}

/* A walk over runs of special values or, `by_color`, over runs of equal special
 * values. Each new color is added to the palette. */
struct walk {
    struct cpu_mask bits;
    const uint8_t *values;
    int value_nbytes;
    bool by_color;
    uint64_t palette[TERP_SPECIALS_MAX_NCOLORS];
    int ncolors;  /* TERP_SPECIALS_MAX_NCOLORS + 1: too many */
    uint64_t end; /* of the last run */
    /* The end of the special values around the run: with many colors each run
     * would search it anew. */
    uint64_t stop;
};

static int
color_of(struct walk *walk, uint64_t bits)
{
    for (int c = 0; c < walk->ncolors; c++)
        if (walk->palette[c] == bits)
            return c;
    /* The walk ends at the first color that exceeds the palette. */
    if (walk->ncolors < TERP_SPECIALS_MAX_NCOLORS)
        walk->palette[walk->ncolors] = bits;
    return walk->ncolors++;
}

/* Counts how many of n values, from the first on, equal the first. Most values
 * equal their successor, so many are compared at once. */
static uint64_t
find_other(const uint8_t *values, uint64_t n, size_t nbytes)
{
    const uint64_t nat_once = 64;
    uint64_t i = 1;

    while (n - i >= nat_once &&
           memcmp(values + (i - 1) * nbytes, values + i * nbytes,
                  nat_once * nbytes) == 0)
        i += nat_once;
    while (i < n && memcmp(values + i * nbytes, values, nbytes) == 0)
        i++;
    return i;
}

static bool
next_run(struct walk *walk, struct run *run_ret)
{
    size_t nbytes = (size_t)walk->value_nbytes;
    uint64_t first = walk->end;

    if (first >= walk->stop) {
        first = find_bit(&walk->bits, first, true);
        if (first == walk->bits.nvalues)
            return false;
        walk->stop = find_bit(&walk->bits, first, false);
    }
    uint64_t stop = walk->stop;
    *run_ret = (struct run){{0}};
    run_ret->number[TERP_SPECIALS_GAP] = first - walk->end;
    if (walk->by_color) {
        const uint8_t *value = walk->values + first * nbytes;
        stop = find_other(value, stop - first, nbytes) + first;
        run_ret->number[TERP_SPECIALS_COLOR] =
            (uint64_t)color_of(walk, load_value(value, walk->value_nbytes));
    }
    run_ret->number[TERP_SPECIALS_MORE] = stop - first - 1;
    walk->end = stop;
    return true;
}

/* Counts the runs of the whole walk, or up to the first color too many; then
 * rewinds the walk. */
static uint64_t
count_runs(struct walk *walk)
{
    struct run run;
    uint64_t nruns = 0;

    while (walk->ncolors <= TERP_SPECIALS_MAX_NCOLORS && next_run(walk, &run))
        nruns++;
    walk->end = walk->stop = 0;
    return nruns;
}

static void
write_field(struct writer *writer, struct walk walk, int field)
{
    uint64_t numbers[TERP_SPECIALS_GROUP_NNUMBERS], n;
    struct run run;

    do {
        uint64_t all = 0;
        for (n = 0; n < TERP_SPECIALS_GROUP_NNUMBERS && next_run(&walk, &run);
             n++) {
            numbers[n] = run.number[field];
            all |= numbers[n];
        }
        if (n == 0)
            return;
        int width = bit_width(all);
        write_le(writer, (uint64_t)width, 1);
        uint8_t *at = writer_take_packed(writer, n, width);
        if (at == NULL)
            return;
        for (uint64_t i = 0; i < n; i++)
            pack_bits(at, i * (uint64_t)width, width, numbers[i]);
    } while (n == TERP_SPECIALS_GROUP_NNUMBERS);
}

static void
write_all(struct writer *writer, struct walk walk)
{
    uint64_t value_nbytes = (uint64_t)walk.value_nbytes;
    struct run run;

    while (next_run(&walk, &run) && !writer->overflow) {
        uint64_t n = run.number[TERP_SPECIALS_MORE] + 1;
        for (uint64_t i = walk.end - n; i < walk.end; i++)
            write_le(
                writer,
                load_value(walk.values + i * value_nbytes, walk.value_nbytes),
                walk.value_nbytes);
    }
}

/* Counts the runs of a walk without colors: each begins at a set bit after a
 * clear one. */
static uint64_t
count_begins(const struct cpu_mask *bits)
{
    const uint64_t last = (bits->nvalues - 1) / 64;
    uint64_t before = 0, nruns = 0;

    for (uint64_t i = 0; i <= last; i++) {
        uint64_t word = cpu_mask_word(bits, i);
        if (i == last)
            word &= UINT64_MAX >> (63 - (bits->nvalues - 1) % 64);
        nruns += (uint64_t)__builtin_popcountll(word & ~(word << 1 | before));
        before = word >> 63;
    }
    return nruns;
}

/* The dimension whose mask delta leaves the fewest runs of a walk with one
 * color; 0 if none leaves fewer. */
static int
choose_mask_delta(struct walk *walk, const struct terp_layout *layout,
                  uint64_t *nruns_inout)
{
    struct walk tried = *walk;
    int best = 0;

    for (int d = 1; d <= TERP_NDIMS; d++) {
        tried.bits.mask_delta = terp_mask_delta_distance(layout, d);
        uint64_t nruns =
            tried.bits.mask_delta == 0 ? UINT64_MAX : count_begins(&tried.bits);
        if (nruns >= *nruns_inout)
            continue;
        *nruns_inout = nruns;
        walk->bits.mask_delta = tried.bits.mask_delta;
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
    int mask_delta_dim = 0;

    if (walk.ncolors > TERP_SPECIALS_MAX_NCOLORS) {
        walk.ncolors = 0;
        walk.by_color = false;
        nruns = count_begins(&walk.bits);
    } else if (walk.ncolors == 1) {
        walk.by_color = false;
        mask_delta_dim = choose_mask_delta(&walk, layout, &nruns);
    }
    terp_specials_write_head(writer, nruns, walk.ncolors, mask_delta_dim);
    for (int field = 0; field < terp_specials_nfields(walk.ncolors); field++)
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
    uint64_t n =
        min_u64(TERP_SPECIALS_GROUP_NNUMBERS, list->nnumbers - list->at);
    list->width = (int)read_le(&list->reader, 1);
    if (list->width > TERP_SPECIALS_MAX_NBITS)
        list->reader.underflow = true;
    list->group = reader_take(&list->reader, packed_nbytes(n, list->width));
}

/* The list at `reader`; the reader moves past it. */
static struct list
list_at(struct reader *reader, uint64_t nnumbers)
{
    struct list list = {.reader = *reader, .nnumbers = nnumbers};
    struct list skipped = list;

    for (; skipped.at < nnumbers && !skipped.reader.underflow;
         skipped.at += TERP_SPECIALS_GROUP_NNUMBERS)
        start_group(&skipped);
    *reader = skipped.reader;
    return list;
}

/* Reads a number. The list was skipped before without an underflow, so its
 * numbers are complete. */
static uint64_t
next_number(struct list *list)
{
    uint64_t i = list->at % TERP_SPECIALS_GROUP_NNUMBERS;

    if (i == 0)
        start_group(list);
    list->at++;
    return unpack_bits(list->group, i * (uint64_t)list->width, list->width);
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

/* Reads the section after its head, except the values, which are skipped. */
static bool
read_runs(struct reader *reader, const struct terp_layout *layout,
          const struct terp_specials_head *head, int value_nbytes,
          uint64_t *mask, uint64_t *nspecials_ret)
{
    uint64_t end = 0, nspecials = 0;
    struct list lists[TERP_SPECIALS_NFIELDS];

    for (int field = 0; field < head->nfields; field++)
        lists[field] = list_at(reader, head->nruns);
    if (reader->underflow)
        return false;
    for (uint64_t i = 0; i < head->nruns; i++) {
        uint64_t gap = next_number(&lists[TERP_SPECIALS_GAP]);
        uint64_t more = next_number(&lists[TERP_SPECIALS_MORE]);
        uint64_t left = layout->nvalues - end;
        if (gap >= left || more >= left - gap)
            return false;
        if (head->nfields > TERP_SPECIALS_COLOR &&
            next_number(&lists[TERP_SPECIALS_COLOR]) >= (uint64_t)head->ncolors)
            return false;
        if (mask != NULL)
            set_bits(mask, end + gap, end + gap + more + 1);
        end += gap + more + 1;
        nspecials += more + 1;
    }
    reader_take(reader,
                (head->ncolors > 0 ? (uint64_t)head->ncolors : nspecials) *
                    (uint64_t)value_nbytes);
    *nspecials_ret =
        head->mask_delta_distance == 0 ? nspecials
        : mask == NULL
            ? TERP_COUNT_UNKNOWN
            : cpu_mask_sum_up(mask, layout->nvalues, head->mask_delta_distance);
    return !reader->underflow;
}

enum terp_status
terp_cpu_specials_read(struct reader *reader, const struct terp_layout *layout,
                       int value_nbytes, uint64_t **mask_ret,
                       uint64_t *nspecials_ret)
{
    uint64_t *mask = NULL;
    struct terp_specials_head head;

    *nspecials_ret = 0;
    if (!terp_specials_read_head(reader, layout, &head))
        return TERP_ERR_CORRUPT;
    const uint64_t left_nbytes = (uint64_t)(reader->end - reader->at);
    if (mask_ret != NULL ||
        (head.mask_delta_distance > 0 &&
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

/* ---- restoring values ---- */

/* A walk over the runs of a section that was read before. */
struct placing {
    struct cpu_mask bits;
    struct terp_specials_head head;
    struct list lists[TERP_SPECIALS_NFIELDS];
    const uint8_t *palette; /* or, without a palette, the run's values */
    uint64_t begin, end;    /* of the run */
    uint64_t color;
    int value_nbytes;
};

static void
start_placing(struct reader *reader, const struct terp_layout *layout,
              int value_nbytes, const uint64_t *mask,
              struct placing *placing_ret)
{
    *placing_ret = (struct placing){.bits = {mask, layout->nvalues, 0},
                                    .value_nbytes = value_nbytes};
    terp_specials_read_head(reader, layout, &placing_ret->head);
    for (int field = 0; field < placing_ret->head.nfields; field++)
        placing_ret->lists[field] = list_at(reader, placing_ret->head.nruns);
    placing_ret->palette = reader->at;
}

int
terp_cpu_specials_colors(struct reader *reader,
                         const struct terp_layout *layout, int value_nbytes,
                         uint64_t *colors_ret)
{
    struct placing placing;

    start_placing(reader, layout, value_nbytes, NULL, &placing);
    for (int i = 0; i < placing.head.ncolors; i++)
        colors_ret[i] =
            load_le(placing.palette + i * value_nbytes, value_nbytes);
    return placing.head.ncolors;
}

static bool
next_placed_run(struct placing *placing)
{
    const struct terp_specials_head *head = &placing->head;

    if (head->ncolors == 0)
        placing->palette +=
            (placing->end - placing->begin) * (uint64_t)placing->value_nbytes;
    placing->begin = find_bit(&placing->bits, placing->end, true);
    if (placing->begin == placing->bits.nvalues)
        return false;
    if (head->ncolors > 1) {
        placing->end = placing->begin +
                       next_number(&placing->lists[TERP_SPECIALS_MORE]) + 1;
        placing->color = next_number(&placing->lists[TERP_SPECIALS_COLOR]);
    } else {
        placing->end = find_bit(&placing->bits, placing->begin, false);
    }
    return true;
}

/* The bits of the value at `i` of the run. */
static uint64_t
placed_value(const struct placing *placing, uint64_t i)
{
    const uint64_t number =
        placing->head.ncolors > 0 ? placing->color : i - placing->begin;

    return load_le(placing->palette + number * (uint64_t)placing->value_nbytes,
                   placing->value_nbytes);
}

/* With a constant size, compilers make vectors of the loop. */
static inline __attribute__((always_inline)) void
fill_values(uint8_t *values, uint64_t n, uint64_t bits, int value_nbytes)
{
    for (uint64_t i = 0; i < n; i++)
        store_value(values + i * (uint64_t)value_nbytes, bits, value_nbytes);
}

/* Places one value that all special points share: works on words of the mask,
 * without a branch per run. */
#define NLANES 32

static inline __attribute__((always_inline)) void
fill_marked(const uint64_t *mask, uint64_t nvalues, uint64_t bits,
            int value_nbytes, uint8_t *values)
{
    const uint64_t nbytes = (uint64_t)value_nbytes;

    for (uint64_t at = 0; at < nvalues; at += NLANES) {
        const uint32_t marked = (uint32_t)(mask[at / 64] >> at % 64);
        uint8_t *lanes = values + at * nbytes;
        if (marked == UINT32_MAX) {
            fill_values(lanes, NLANES, bits, value_nbytes);
        } else if (marked != 0 && at + NLANES <= nvalues) {
            for (uint64_t j = 0; j < NLANES; j++) {
                const uint64_t its =
                    load_value(lanes + j * nbytes, value_nbytes);
                store_value(lanes + j * nbytes,
                            marked & UINT32_C(1) << j ? bits : its,
                            value_nbytes);
            }
        } else {
            for (uint32_t left = marked; left != 0; left &= left - 1)
                store_value(lanes + (uint64_t)__builtin_ctz(left) * nbytes,
                            bits, value_nbytes);
        }
    }
}

void
terp_cpu_specials_place(struct reader *reader, const struct terp_layout *layout,
                        int value_nbytes, const uint64_t *mask, void *values)
{
    size_t nbytes = (size_t)value_nbytes;
    struct placing placing;

    start_placing(reader, layout, value_nbytes, mask, &placing);
    if (placing.head.ncolors == 1) {
        const uint64_t bits = load_le(placing.palette, value_nbytes);
        if (value_nbytes == 4)
            fill_marked(mask, layout->nvalues, bits, 4, values);
        else if (value_nbytes == 8)
            fill_marked(mask, layout->nvalues, bits, 8, values);
        else
            fill_marked(mask, layout->nvalues, bits, value_nbytes, values);
        return;
    }
    while (next_placed_run(&placing)) {
        const uint64_t n = placing.end - placing.begin;
        uint8_t *at = (uint8_t *)values + placing.begin * nbytes;
        if (placing.head.ncolors > 0) {
            const uint64_t bits = placed_value(&placing, placing.begin);
            fill_values(at, n, bits, value_nbytes);
        } else {
            memcpy(at, placing.palette, n * nbytes);
            if (TERP_HOST_IS_BIG_ENDIAN)
                terp_swap_values(at, n, value_nbytes);
        }
    }
}

void
terp_cpu_specials_place_coarse(struct reader *reader,
                               const struct terp_layout *whole,
                               const struct terp_layout *lattice, int nskipped,
                               int value_nbytes, const uint64_t *mask,
                               const uint64_t *lattice_mask, void *values)
{
    uint64_t at[TERP_NDIMS], i = 0;
    struct placing placing;

    start_placing(reader, whole, value_nbytes, mask, &placing);
    uint64_t brick = cpu_find_row(lattice->dims, 0, at);
    for (; i < lattice->nvalues; brick += cpu_next_row(lattice->dims, at)) {
        uint64_t from = terp_coarse_row_begin(whole, nskipped, brick, at);
        for (uint64_t x = 0; x < lattice->dims[0];
             x++, i++, from += (uint64_t)1 << nskipped) {
            if ((lattice_mask[i / 64] >> i % 64 & 1) == 0)
                continue;
            while (placing.end <= from && next_placed_run(&placing)) {
            }
            store_value((uint8_t *)values + i * (uint64_t)value_nbytes,
                        placed_value(&placing, from), value_nbytes);
        }
    }
}

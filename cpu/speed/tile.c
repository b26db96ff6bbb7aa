/* Heads, widths and exceptions of tiles, which both sizes of integers share. */
#include "cpu/speed/tile.h"

#include <math.h>

void
terp_cpu_speed_set_step(struct cpu_speed_numbers *numbers, uint64_t step_bits)
{
    const double first = double_of_bits(step_bits);

    if (!terp_speed_has_float_steps(numbers->type)) {
        numbers->whole_step = step_bits;
        numbers->per_whole_step = 1 / (double)step_bits;
        return;
    }
    for (int level = 0; level < TERP_SPEED_NLEVELS; level++) {
        const double step = first * terp_speed_factor(level);
        numbers->step[level] =
            numbers->word_nbytes == 4 ? (double)(float)step : step;
        numbers->per_step[level] =
            numbers->word_nbytes == 4
                ? (double)(float)(1 / numbers->step[level])
                : 1 / numbers->step[level];
    }
}

/* ---- heads ---- */

static enum terp_status
read_widths(const struct terp_speed_box *box, int most, const uint8_t *at,
            uint8_t widths_ret[TERP_SPEED_NGROUPS], struct cpu_speed_tile *tile,
            uint64_t *nunits_ret)
{
    const int ngroups = terp_speed_row_ngroups(box);
    uint64_t sum = 0;
    int largest = 0, beyond = 0;

    memset(widths_ret, 0, TERP_SPEED_NGROUPS);
    for (int s = 0; s < box->nslabs; s++) {
        uint8_t *widths = widths_ret + s * TERP_SPEED_NCOLUMNS;
        const int used = terp_speed_row_ncolumns(box, s, 0);
        for (int x = 0; x < ngroups; x++) {
            const int i = s * ngroups + x;
            widths[x] = tile->widths == TERP_SPEED_WIDTHS_OF_4
                            ? at[i / 2] >> 4 * (i % 2) & 15
                            : at[i];
            sum += widths[x];
            largest = widths[x] > largest ? widths[x] : largest;
            beyond |= x >= used ? widths[x] : 0;
        }
    }
    *nunits_ret = sum;
    return largest <= most && beyond == 0 ? TERP_OK : TERP_ERR_CORRUPT;
}

/* Bytes of exceptions; 0: they do not fit. */
static uint64_t
exceptions_nbytes(const struct cpu_speed_numbers *numbers,
                  const struct terp_speed_box *box, int nlisted,
                  const uint8_t *at, uint64_t left_nbytes)
{
    const uint64_t nstates = (uint64_t)terp_speed_states_nbytes(box);
    const uint8_t *states = at + numbers->word_nbytes;
    uint64_t nbytes = (uint64_t)numbers->word_nbytes + nstates, nmixed = 0;

    if (left_nbytes < nbytes)
        return 0;
    for (uint64_t i = 0; i < 4 * nstates; i++)
        nmixed += (states[i / 4] >> 2 * (i % 4) & 3) == TERP_SPEED_MIXED;
    return nbytes + 2 * nmixed +
           (uint64_t)nlisted * (2 + (uint64_t)numbers->value_nbytes);
}

enum terp_status
terp_cpu_speed_tile_read(const struct cpu_speed_numbers *numbers,
                         const struct terp_speed_box *box, const uint8_t *tile,
                         uint64_t nbytes,
                         uint8_t widths_ret[TERP_SPEED_NGROUPS],
                         struct cpu_speed_tile *tile_ret)
{
    const int word_nbytes = numbers->word_nbytes;
    const uint64_t head = (uint64_t)terp_speed_tile_head_nbytes(word_nbytes);
    struct cpu_speed_tile read;
    uint64_t nunits = 0;

    if (nbytes < head)
        return TERP_ERR_CORRUPT;
    read.widths = tile[0] & TERP_SPEED_WIDTHS;
    read.level = tile[0] >> TERP_SPEED_LEVEL_SHIFT & 3;
    read.is_exact = tile[0] & TERP_SPEED_EXACT;
    read.has_exceptions = tile[0] & TERP_SPEED_EXCEPTIONS;
    read.nlisted = (int)load_le(tile + TERP_SPEED_NLISTED_AT, 2);
    read.base = load_le(tile + terp_speed_base_at(word_nbytes), word_nbytes);
    const bool is_bits = numbers->kind == TERP_SPEED_BITS || read.is_exact;
    if (tile[0] & TERP_SPEED_UNUSED || tile[1] != 0 ||
        (word_nbytes == 8 && load_le(tile + 4, 4) != 0) ||
        read.widths >= TERP_SPEED_NWIDTHS ||
        (read.is_exact && numbers->kind == TERP_SPEED_BITS) ||
        (is_bits && (read.level != 0 || read.has_exceptions)) ||
        (!terp_speed_has_float_steps(numbers->type) && read.level != 0) ||
        read.nlisted > (read.has_exceptions ? TERP_SPEED_MAX_NLISTED : 0))
        return TERP_ERR_CORRUPT;
    const uint64_t widths_nbytes =
        (uint64_t)terp_speed_widths_nbytes(box, read.widths);
    if (nbytes - head < widths_nbytes)
        return TERP_ERR_CORRUPT;
    if (read.widths == TERP_SPEED_NO_WIDTHS)
        memset(widths_ret, 0, TERP_SPEED_NGROUPS);
    else if (read_widths(box,
                         is_bits ? 8 * numbers->value_nbytes : 8 * word_nbytes,
                         tile + head, widths_ret, &read, &nunits) != TERP_OK)
        return TERP_ERR_CORRUPT;
    read.packed_at = head + widths_nbytes;
    read.exceptions_at = read.packed_at + 2 * nunits;
    uint64_t used = read.exceptions_at;
    if (nbytes < used)
        return TERP_ERR_CORRUPT;
    if (read.has_exceptions) {
        const uint64_t more = exceptions_nbytes(numbers, box, read.nlisted,
                                                tile + used, nbytes - used);
        if (more == 0)
            return TERP_ERR_CORRUPT;
        used += more;
    }
    if (terp_speed_aligned(used) != nbytes)
        return TERP_ERR_CORRUPT;
    *tile_ret = read;
    return TERP_OK;
}

/* ---- exceptions ---- */

/* A position in a tile: group 64 s + x, row r, is 16 times the group plus r. */
static bool
has_place(const struct terp_speed_box *box, int group, int r)
{
    return group % TERP_SPEED_NCOLUMNS <
           terp_speed_row_ncolumns(box, group / TERP_SPEED_NCOLUMNS, r);
}

static const uint8_t *
value_at(const struct cpu_speed_numbers *numbers,
         const struct terp_speed_box *box, const void *values, int group, int r)
{
    return cpu_speed_row(numbers, box, values, group / TERP_SPEED_NCOLUMNS, r) +
           (uint64_t)(group % TERP_SPEED_NCOLUMNS * numbers->value_nbytes);
}

static uint64_t
bits_at(const struct cpu_speed_numbers *numbers,
        const struct terp_speed_box *box, const void *values, int group, int r)
{
    return load_value(value_at(numbers, box, values, group, r),
                      numbers->value_nbytes);
}

/* The bits of the first exception. */
static uint64_t
first_of(const struct cpu_speed_numbers *numbers,
         const struct terp_speed_box *box, const void *values,
         const uint16_t masks[TERP_SPEED_NGROUPS])
{
    for (int g = 0; g < TERP_SPEED_NGROUPS; g++)
        if (masks[g] != 0)
            return bits_at(numbers, box, values, g, __builtin_ctz(masks[g]));
    return 0;
}

/* The rows of a group whose exceptions have these bits. */
static unsigned
mask_of(const struct cpu_speed_numbers *numbers,
        const struct terp_speed_box *box, const void *values, int group,
        unsigned mask, uint64_t bits)
{
    unsigned same = 0;

    for (unsigned left = mask; left != 0; left &= left - 1) {
        const int r = __builtin_ctz(left);
        if (bits_at(numbers, box, values, group, r) == bits)
            same |= 1u << r;
    }
    return same;
}

int
terp_cpu_speed_count_listed(const struct cpu_speed_numbers *numbers,
                            const struct terp_speed_box *box,
                            const void *values,
                            const uint16_t masks[TERP_SPEED_NGROUPS])
{
    const uint64_t fill = first_of(numbers, box, values, masks);
    int n = 0;

    for (int g = 0; g < TERP_SPEED_NGROUPS; g++)
        if (masks[g] != 0)
            n += __builtin_popcount(
                masks[g] ^ mask_of(numbers, box, values, g, masks[g], fill));
    return n;
}

/* The rows that a group has. */
static unsigned
rows_of(const struct terp_speed_box *box, int group)
{
    unsigned rows = 0;

    for (int r = 0; r < TERP_SPEED_NROWS; r++)
        rows |= has_place(box, group, r) ? 1u << r : 0;
    return rows;
}

uint64_t
terp_cpu_speed_exceptions_write(const struct cpu_speed_numbers *numbers,
                                const struct terp_speed_box *box,
                                const void *values,
                                const uint16_t masks[TERP_SPEED_NGROUPS],
                                uint8_t *tile, uint64_t nbytes)
{
    const uint64_t fill = first_of(numbers, box, values, masks);
    const int ngroups = terp_speed_row_ngroups(box);
    const int nstates = terp_speed_states_nbytes(box);
    uint16_t position[TERP_SPEED_MAX_NLISTED];
    int nlisted = 0;

    store_le(tile + nbytes, fill, numbers->word_nbytes);
    nbytes += (uint64_t)numbers->word_nbytes;
    uint8_t *states = tile + nbytes;
    memset(states, 0, (size_t)nstates);
    nbytes += (uint64_t)nstates;
    for (int s = 0; s < box->nslabs; s++)
        for (int x = 0; x < box->ncolumns; x++) {
            const int g = s * TERP_SPEED_NCOLUMNS + x, i = s * ngroups + x;
            if (masks[g] == 0)
                continue;
            const unsigned same =
                mask_of(numbers, box, values, g, masks[g], fill);
            const unsigned state = same == 0                 ? TERP_SPEED_NONE
                                   : same == rows_of(box, g) ? TERP_SPEED_ALL
                                                             : TERP_SPEED_MIXED;
            states[i / 4] |= (uint8_t)(state << 2 * (i % 4));
            if (state == TERP_SPEED_MIXED) {
                store_le(tile + nbytes, same, 2);
                nbytes += 2;
            }
            for (unsigned left = masks[g] ^ same; left != 0; left &= left - 1)
                position[nlisted++] =
                    (uint16_t)(g * TERP_SPEED_NROWS + __builtin_ctz(left));
        }
    for (int i = 0; i < nlisted; i++, nbytes += 2)
        store_le(tile + nbytes, position[i], 2);
    for (int i = 0; i < nlisted; i++) {
        store_le(tile + nbytes,
                 bits_at(numbers, box, values, position[i] / TERP_SPEED_NROWS,
                         position[i] % TERP_SPEED_NROWS),
                 numbers->value_nbytes);
        nbytes += (uint64_t)numbers->value_nbytes;
    }
    store_le(tile + TERP_SPEED_NLISTED_AT, (uint64_t)nlisted, 2);
    return nbytes;
}

static void
place_value(const struct cpu_speed_numbers *numbers,
            const struct terp_speed_box *box, void *values, int group, int r,
            uint64_t bits)
{
    store_value((uint8_t *)values + (value_at(numbers, box, values, group, r) -
                                     (const uint8_t *)values),
                bits, numbers->value_nbytes);
}

enum terp_status
terp_cpu_speed_exceptions_place(const struct cpu_speed_numbers *numbers,
                                const struct terp_speed_box *box,
                                const struct cpu_speed_tile *read,
                                const uint8_t *tile, void *values)
{
    const int ngroups = terp_speed_row_ngroups(box);
    const uint8_t *at = tile + read->exceptions_at;
    const uint64_t fill = load_le(at, numbers->word_nbytes);
    const uint8_t *states = at + numbers->word_nbytes;
    const uint8_t *mixed = states + terp_speed_states_nbytes(box);
    int before = -1;

    for (int s = 0; s < box->nslabs; s++)
        for (int x = 0; x < ngroups; x++) {
            const int g = s * TERP_SPEED_NCOLUMNS + x, i = s * ngroups + x;
            const int state = states[i / 4] >> 2 * (i % 4) & 3;
            unsigned mask = 0;
            if (state > TERP_SPEED_MIXED ||
                (x >= terp_speed_row_ncolumns(box, s, 0) &&
                 state != TERP_SPEED_NONE))
                return TERP_ERR_CORRUPT;
            if (state == TERP_SPEED_ALL)
                mask = 0xFFFF;
            if (state == TERP_SPEED_MIXED) {
                mask = (unsigned)load_le(mixed, 2);
                mixed += 2;
            }
            for (; mask != 0; mask &= mask - 1)
                if (has_place(box, g, __builtin_ctz(mask)))
                    place_value(numbers, box, values, g, __builtin_ctz(mask),
                                fill);
        }
    for (int i = 0; i < read->nlisted; i++) {
        const int position = (int)load_le(mixed + 2 * i, 2);
        const int g = position / TERP_SPEED_NROWS,
                  r = position % TERP_SPEED_NROWS;
        if (position <= before || position >= TERP_SPEED_TILE_NVALUES ||
            !has_place(box, g, r))
            return TERP_ERR_CORRUPT;
        before = position;
        place_value(
            numbers, box, values, g, r,
            load_le(mixed + 2 * read->nlisted + i * numbers->value_nbytes,
                    numbers->value_nbytes));
    }
    return TERP_OK;
}

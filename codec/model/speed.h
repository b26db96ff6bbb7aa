/* The parameters with which an encoder codes tiles of coding SPEED. Both
 * engines choose the same ones. doc/format.md, "Speed". */
#pragma once

#include "codec/format/speed.h"
#include "codec/model/bound.h"

/* The parameters of all tiles of a chunk. */
struct terp_speed_choice {
    struct terp_speed_head head;
    double bound; /* that the frame tells: the caller's, of integers whole */
    /* Of floats: the largest error of a coded value. An error that is rounded
     * to at most this is below the bound. Of integers: the bound. */
    double most;
    uint64_t whole_most;
};

/* The largest number of a type that is at most `value`, which is positive and
 * finite. */
static inline double
terp_speed_at_most(double value, bool is_double)
{
    if (is_double)
        return value;
    uint32_t bits;
    float near = (float)(value < 0x1p127 ? value : 0x1p127);
    if ((double)near <= value)
        return near;
    memcpy(&bits, &near, sizeof bits);
    bits--;
    memcpy(&near, &bits, sizeof bits);
    return near;
}

/* The largest number of a type below a positive one. */
static inline double
terp_speed_before(double value, bool is_double)
{
    if (is_double)
        return double_of_bits(double_bits(value) - 1);
    float near = (float)value;
    uint32_t bits;
    memcpy(&bits, &near, sizeof bits);
    bits--;
    memcpy(&near, &bits, sizeof bits);
    return near;
}

/* Chooses the parameters under an absolute bound. */
static inline struct terp_speed_choice
terp_speed_choose(enum terp_type type, double bound)
{
    const bool is_double = terp_part_nbytes(type) == 8;
    struct terp_speed_choice choice = {{TERP_SPEED_BITS, 0}, 0, 0, 0};

    if (!is_bound(bound))
        return choice;
    if (terp_type_is_integer(type)) {
        const uint64_t most = UINT64_C(1) << (is_double ? 61 : 31);
        if (bound < 1)
            return choice;
        choice.head.kind = TERP_SPEED_STEPS;
        choice.whole_most = bound < (double)most ? (uint64_t)bound : most;
        choice.bound = (double)choice.whole_most;
        choice.head.step_bits = 2 * choice.whole_most + 1;
        return choice;
    }
    const double largest = is_double ? 0x1p1020 : 0x1p125;
    const double least = is_double ? 0x1p-1020 : 0x1p-124;
    if (bound < least)
        return choice;
    const double within = bound < largest ? bound : largest;
    choice.head.kind = TERP_SPEED_STEPS;
    choice.bound = bound;
    choice.head.step_bits = double_bits(
        terp_speed_at_most(2 * within * (1 - TERP_SPEED_SLACK), is_double));
    choice.most =
        terp_speed_before(terp_speed_at_most(within, is_double), is_double);
    return choice;
}

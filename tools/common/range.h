/* Access to values of either float type, and their range. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Value `i` of an array of doubles (`wide`) or floats. */
static inline double
tool_value_at(bool wide, const void *values, uint64_t i)
{
    return wide ? ((const double *)values)[i]
                : (double)((const float *)values)[i];
}

static inline uint64_t
tool_value_bits(bool wide, const void *values, uint64_t i)
{
    uint64_t bits = 0;

    if (wide)
        memcpy(&bits, (const double *)values + i, 8);
    else
        memcpy(&bits, (const float *)values + i, 4);
    return bits;
}

/* The bits of a number as such a value. */
static inline uint64_t
tool_number_bits(bool wide, double number)
{
    const float narrow = (float)number;

    return tool_value_bits(wide, wide ? (const void *)&number : &narrow, 0);
}

/* The low or the high end of a range. */
struct tool_range_end {
    double value, next; /* the outermost value, and the next; else infinite */
    uint64_t nvalues;   /* how often `value` was met */
    bool changed;       /* a copy has not kept it everywhere */
};

struct tool_range {
    uint64_t nvalues;
    struct tool_range_end low, high;
};

#define TOOL_RANGE_EMPTY                                               \
    ((struct tool_range){.low = {.value = INFINITY, .next = INFINITY}, \
                         .high = {.value = -INFINITY, .next = -INFINITY}})

/* Adds a value to a high end (`sign` 1) or a low one (-1), whose values are
 * compared with their sign reversed. */
static inline void
tool_range_end_add(struct tool_range_end *end, double value, bool changed,
                   double sign)
{
    if (!(sign * value >= sign * end->next))
        return;
    if (sign * value > sign * end->value)
        *end = (struct tool_range_end){value, end->value, 0, false};
    if (value == end->value) {
        end->nvalues++;
        end->changed |= changed;
    } else {
        end->next = value;
    }
}

/* Adds a value. `changed`: a copy holds another value in its place. */
static inline void
tool_range_add(struct tool_range *range, double value, bool changed)
{
    range->nvalues++;
    tool_range_end_add(&range->low, value, changed, -1);
    tool_range_end_add(&range->high, value, changed, 1);
}

/* Adds what `other` has met. */
void
tool_range_merge(struct tool_range *range, const struct tool_range *other);

/* The range without what looks like a fill value that nobody declared, by the
 * codec's own rule (codec/model/bound.h): an outermost value that repeats, and
 * is far from the others. A value that a copy has changed is none.
 * *nleft_out_ret counts the values that are outside the range then. */
void
tool_range_trim(const struct tool_range *range, double *min_ret,
                double *max_ret, uint64_t *nleft_out_ret);

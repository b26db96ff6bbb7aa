/* Access to floats and doubles, and their range. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "codec/api/terp.h"

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

/* The bits of a number as a double (`wide`) or float. */
static inline uint64_t
tool_number_bits(bool wide, double number)
{
    const float narrow = (float)number;

    return tool_value_bits(wide, wide ? (const void *)&number : &narrow, 0);
}

/* The low or high end of a range. */
struct tool_range_end {
    double value, next; /* the outermost value, and the next one; infinite if
                           missing */
    uint64_t nvalues;   /* occurrences of `value` */
    bool changed;       /* a copy has changed one of them */
};

struct tool_range {
    enum terp_type type; /* of the values */
    uint64_t nvalues;
    struct tool_range_end low, high;
};

static inline struct tool_range
tool_range_begin(enum terp_type type)
{
    return (struct tool_range){.type = type,
                               .low = {.value = INFINITY, .next = INFINITY},
                               .high = {.value = -INFINITY, .next = -INFINITY}};
}

/* Adds a value to a high end (`sign` 1) or a low end (`sign` -1, which reverses
 * the comparison). */
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

/* Adds a value. `changed`: the copy has another value. */
static inline void
tool_range_add(struct tool_range *range, double value, bool changed)
{
    range->nvalues++;
    tool_range_end_add(&range->low, value, changed, -1);
    tool_range_end_add(&range->high, value, changed, 1);
}

/* Adds the values of `other`. */
void
tool_range_merge(struct tool_range *range, const struct tool_range *other);

/* The range without values that must be an undeclared fill value, by the
 * codec's rule (codec/model/fills.h): an outermost value that is a usual fill
 * value, repeats and is far from the others. A value that a copy changed is not
 * a fill value. *nleft_out_ret counts the values outside the range. */
void
tool_range_trim(const struct tool_range *range, double *min_ret,
                double *max_ret, uint64_t *nleft_out_ret);

/* Access to values of either float type, and their range. */
#ifndef TERP_TOOLS_COMMON_RANGE_H
#define TERP_TOOLS_COMMON_RANGE_H

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

/* Adds a value. `changed`: a copy holds another value in its place. */
static inline void
tool_range_add(struct tool_range *range, double value, bool changed)
{
    struct tool_range_end *low = &range->low, *high = &range->high;

    range->nvalues++;
    if (value <= low->next) {
        if (value < low->value)
            *low = (struct tool_range_end){value, low->value, 0, false};
        if (value == low->value) {
            low->nvalues++;
            low->changed |= changed;
        } else {
            low->next = value;
        }
    }
    if (value >= high->next) {
        if (value > high->value)
            *high = (struct tool_range_end){value, high->value, 0, false};
        if (value == high->value) {
            high->nvalues++;
            high->changed |= changed;
        } else {
            high->next = value;
        }
    }
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

#endif

/* Merges ranges of values, and excludes usual fill values. */
#include "tools/common/range.h"

#include "codec/model/fills.h"

/* Whether the value at an end must be a fill value. `distance` is its distance
 * from the next value, `others` the range of all other values. */
static bool
is_fill(enum terp_type type, const struct tool_range_end *end, double distance,
        double others)
{
    return end->nvalues >= TERP_FILL_MIN_REPEATS && !end->changed &&
           distance > TERP_FILL_DISTANCE * others &&
           terp_is_usual_fill(type, end->value);
}

/* Merges `other` into `end`; `sign` as in tool_range_end_add. */
static void
merge_end(struct tool_range_end *end, const struct tool_range_end *other,
          double sign)
{
    if (sign * other->value > sign * end->value) {
        double was = end->value;
        *end = *other;
        end->next = sign * fmax(sign * was, sign * end->next);
    } else if (other->value == end->value) {
        end->nvalues += other->nvalues;
        end->changed |= other->changed;
        end->next = sign * fmax(sign * end->next, sign * other->next);
    } else {
        end->next = sign * fmax(sign * end->next, sign * other->value);
    }
}

void
tool_range_merge(struct tool_range *range, const struct tool_range *other)
{
    range->nvalues += other->nvalues;
    merge_end(&range->low, &other->low, -1);
    merge_end(&range->high, &other->high, 1);
}

void
tool_range_trim(const struct tool_range *range, double *min_ret,
                double *max_ret, uint64_t *nleft_out_ret)
{
    const struct tool_range_end *low = &range->low, *high = &range->high;
    double inner = high->next - low->next;

    *min_ret = low->value;
    *max_ret = high->value;
    *nleft_out_ret = 0;
    if (!(inner > 0)) /* too few values to decide */
        return;
    if (is_fill(range->type, low, low->next - low->value, inner)) {
        *min_ret = low->next;
        *nleft_out_ret += low->nvalues;
    }
    if (is_fill(range->type, high, high->value - high->next, inner)) {
        *max_ret = high->next;
        *nleft_out_ret += high->nvalues;
    }
}

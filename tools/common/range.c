#include "tools/common/range.h"

/* How far a fill value is from the others, in their own range. */
#define FILL_DISTANCE 10

/* Adds `other`, whose values have `sign` (1: the high end, -1: the low). */
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
    if (!(inner > 0)) /* too few values to tell */
        return;
    if (low->nvalues > 1 && !low->changed &&
        low->next - low->value > FILL_DISTANCE * inner) {
        *min_ret = low->next;
        *nleft_out_ret += low->nvalues;
    }
    if (high->nvalues > 1 && !high->changed &&
        high->value - high->next > FILL_DISTANCE * inner) {
        *max_ret = high->next;
        *nleft_out_ret += high->nvalues;
    }
}

/* The widths of Lorenzo's differences of sampled values: the part of the search
 * for low bits and tails that depends on the type of values. */
#pragma once

#include "codec/format/layout.h"
#include "codec/model/quantizer.h"

/* The bits of the difference, along `dims`, of the value at `at`. Returns -1 if
 * the difference is not known: behind the last value, and next to a special
 * value, because another value will stand in its place. If `exact` has a
 * significand, the integers are exact quants. */
TERP_TYPED(T)
TERP_INLINE int
sample_difference_width(const T *values, const TERP_WORD *fills,
                        const struct terp_layout *layout, uint64_t at,
                        unsigned dims, TERP_STRUCT(constants) k,
                        struct terp_exact exact,
                        TERP_STRUCT(exact_quants) of_exact)
{
    uint64_t stride[TERP_NDIMS], inner = 1;
    TERP_WORD sum = 0;

    if (at >= layout->nvalues)
        return -1;
    for (int d = 0; d < TERP_NDIMS; d++) {
        stride[d] = inner;
        if (at / inner % layout->dims[d] == 0)
            dims &= ~(1u << d);
        inner *= layout->dims[d];
    }
    for (unsigned corner = 0; corner < TERP_NCLASSES; corner++) {
        const T *value = values + at;
        bool is_taken = false, fits;
        if ((corner & ~dims) != 0)
            continue;
        for (int d = 0; d < TERP_NDIMS; d++) {
            value -= corner >> d & 1 ? stride[d] : 0;
            is_taken ^= corner >> d & 1;
        }
        if (is_special(*value, fills))
            return -1;
        const TERP_WORD quant =
            (TERP_WORD)(exact.significand > 0
                            ? TERP_CALL(nearest_exact_quant)(*value, of_exact,
                                                             &fits)
                            : (TERP_INT)TERP_CALL(nearest_quant)(*value, k,
                                                                 &fits));
        if (!fits)
            return -1;
        sum += is_taken ? 0 - quant : quant;
    }
    const TERP_WORD opposite = 0 - sum;
    return bit_width(sum < opposite ? sum : opposite);
}

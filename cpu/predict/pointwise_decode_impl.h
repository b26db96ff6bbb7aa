/* The loops of cpu/predict/pointwise_impl.h that make values from coded values.
 * The includer defines CODED, the type of coded values; VALUE_OF, the function
 * that maps a logarithm to a value; and DECODE_LOG and DECODE_FLOORED, the
 * names of the loops. Example: with CODED float, VALUE_OF VALUE_OF_F32 and
 * DECODE_LOG decode_log_f32, this header defines decode_log_f32(), which maps
 * float logarithms to values. Values may overwrite the coded values: loops read
 * a copy. */

static void
DECODE_LOG(const void *coded, uint64_t nvalues, int center, void *dst)
{
    const CODED *logarithms = coded;
    T *values = dst;
    CODED block[BLOCK_NVALUES];

    for (uint64_t at = 0; at < nvalues; at += BLOCK_NVALUES) {
        const uint64_t n = min_u64(BLOCK_NVALUES, nvalues - at);
        memcpy(block, logarithms + at, n * sizeof *block);
        for (uint64_t j = 0; j < n; j++)
            values[at + j] = VALUE_OF(block[j], center);
    }
}

static void
DECODE_FLOORED(const void *coded, uint64_t nvalues,
               const struct terp_pointwise_head *head, void *dst)
{
    typedef __typeof__((T)1 * (CODED)1) wider;
    const CODED *coded_values = coded;
    T *values = dst;
    const wider slope =
        (wider)terp_floor_slope(terp_pointwise_joint(head->floor, head->bound));
    const CODED shift = (CODED)head->shift;
    const int center = head->center;
    CODED block[BLOCK_NVALUES];

    for (uint64_t at = 0; at < nvalues; at += BLOCK_NVALUES) {
        const uint64_t n = min_u64(BLOCK_NVALUES, nvalues - at);
        memcpy(block, coded_values + at, n * sizeof *block);
        for (uint64_t j = 0; j < n; j++) {
            const CODED y = (CODED)fabs((double)block[j]);
            const T power = VALUE_OF(y - shift, center);
            const T value = y <= (CODED)TERP_LOG2_E ? (T)(y * slope) : power;
            values[at + j] = block[j] < 0 ? -value : value;
        }
    }
}

#undef CODED
#undef VALUE_OF
#undef DECODE_LOG
#undef DECODE_FLOORED

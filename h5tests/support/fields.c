/* Makes the contents of test chunks in integer arithmetic. */
#include "h5tests/support/fields.h"

#include "h5tests/support/values.h"

const char *const terp_field_name[TERP_NNAMED_FIELDS] = {
    "constant", "ramp",     "smooth",    "rough",   "noise",    "spikes",
    "steps",    "integers", "denormals", "huge",    "outliers", "coast",
    "gaps",     "maps",     "fine",      "rounded", "sines",    "mirrors",
    "grids",    "decades",  "profile"};

/* Fraction bits of fixed-point numbers. */
#define FRACTION_NBITS 30
#define ONE (INT64_C(1) << FRACTION_NBITS)

uint64_t
terp_field_mix(uint64_t counter)
{
    uint64_t word = counter * UINT64_C(0x9E3779B97F4A7C15);

    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

/* The coordinates of a value in its domain. */
struct place {
    int rank;
    uint64_t brick;
    uint64_t at[TERP_MAX_RANK], n[TERP_MAX_RANK];
    uint64_t index;
};

static struct place
place_of(const struct terp_chunk *chunk, uint64_t index)
{
    struct place place = {.index = index};
    int first = chunk->stack ? 1 : 0;
    uint64_t rest = index;

    place.rank = chunk->rank - first;
    for (int i = place.rank - 1; i >= 0; i--) {
        place.n[i] = chunk->dims[first + i];
        place.at[i] = rest % place.n[i];
        rest /= place.n[i];
    }
    place.brick = rest;
    return place;
}

/* 4 u (1 - u) for u in [0, 1]: 0 at the ends, ONE in the middle. */
static int64_t
parabola(int64_t u)
{
    return u * (ONE - u) / (ONE / 4);
}

/* A product of parabolas. Each dim has `nwaves` arcs of alternating sign. */
static int64_t
waves(const struct place *place, int64_t nwaves)
{
    int64_t product = ONE;

    for (int i = 0; i < place->rank; i++) {
        uint64_t position =
            (2 * place->at[i] + 1) * (uint64_t)nwaves * (ONE / 2);
        int64_t u = (int64_t)(position / place->n[i]);
        int64_t arc = parabola(u % ONE);
        product = product / 2 * (u / ONE % 2 ? -arc : arc) / (ONE / 2);
    }
    return product;
}

/* A sum over dims of sines, approximated by parabolas and their squares. */
static int64_t
sines(const struct place *place)
{
    int64_t sum = 0;

    for (int i = 0; i < place->rank; i++) {
        const int64_t u = (int64_t)place->at[i] * (ONE / 16) * (3 + i);
        const int64_t arc = parabola(u % ONE);
        const int64_t half = arc / 40 * (31 + 9 * (arc / (ONE / 64)) / 64);
        sum += u / ONE % 2 ? -half : half;
    }
    return sum / 4;
}

static int64_t
smooth(const struct place *place)
{
    int64_t phase = (int64_t)(place->brick % 4);
    return (3 * waves(place, 1 + phase) - waves(place, 3)) / 4;
}

static int64_t
noise(const struct place *place)
{
    return (int64_t)(terp_field_mix(place->index) >> (63 - FRACTION_NBITS)) -
           ONE;
}

static int64_t
map(const struct place *place)
{
    struct place first = *place;

    first.index = place->brick;
    for (int i = 1; i < place->rank; i++)
        first.index = first.index * place->n[i] + place->at[i];
    return noise(&first);
}

static bool
chance(const struct place *place, uint64_t one_in)
{
    return terp_field_mix(~place->index) % one_in == 0;
}

static int64_t
ramp(const struct place *place)
{
    int64_t sum = (int64_t)place->brick;
    for (int i = 0; i < place->rank; i++)
        sum += (int64_t)place->at[i] * (i + 1);
    return sum;
}

static int64_t
steps(const struct place *place)
{
    uint64_t cell = place->brick;
    for (int i = 0; i < place->rank; i++)
        cell = cell * 31 + place->at[i] / 5;
    return (int64_t)(terp_field_mix(cell) % 5);
}

static double
fraction(int64_t fixed)
{
    return (double)fixed * (1.0 / (double)ONE);
}

static double
fine(const struct place *place)
{
    return fraction(smooth(place) + noise(place) / 64) / 3;
}

static double
mirrors(enum terp_type type, const struct place *place)
{
    const int last = place->rank - 1;
    const uint64_t x = place->at[last], n = place->n[last];
    const uint64_t nlast = terp_field_mix(place->index) % 8;
    struct place mirrored = *place;

    if (2 * x < n)
        return fraction(noise(place)) / 3;
    mirrored.index += n - 1 - 2 * x;
    const double value = fraction(noise(&mirrored)) / 3;
    return terp_type_is_integer(type) ? value
           : type == TERP_FLOAT64     ? -value * (1 + 0x1p-50 * (double)nlast)
                                      : -value;
}

static double
profile(const struct place *place)
{
    struct place first = *place;

    first.index -= place->at[place->rank - 1];
    first.at[place->rank - 1] = 0;
    return fraction(smooth(&first) + noise(&first) / 64);
}

static double
grids(const struct place *place)
{
    const uint64_t slice = place->index / 512;
    const double first = (double)(terp_field_mix(slice) >> 42);
    const double nsteps = (double)(terp_field_mix(~place->index) % 64);

    return 1 + first * 0x1p-23 + nsteps * (slice % 2 ? 0x1p-10 : 0x1p-12);
}

static double
decades(const struct place *place)
{
    const int nbits = (int)(terp_field_mix(~place->index) % 40);

    return fraction(noise(place)) / 3 / (double)(UINT64_C(1) << nbits);
}

static double
huge(enum terp_type type, const struct place *place)
{
    double largest =
        type == TERP_FLOAT64 ? 0x1.FFFFFFFFFFFFFp1023 : 0x1.FFFFFEp127;
    int64_t value = smooth(place);

    if (chance(place, 19))
        return value < 0 ? -largest : largest;
    return fraction(value) * (type == TERP_FLOAT64 ? 0x1p1023 : 0x1p127);
}

static int
mantissa_nbits(enum terp_type type)
{
    return type == TERP_FLOAT64    ? 52
           : type == TERP_FLOAT16  ? 10
           : type == TERP_BFLOAT16 ? 7
                                   : 23;
}

/* Special values of IEEE 754: quiet and signalling NaN with payloads,
 * infinities, -0.0. Integers get any value. */
static uint64_t
special_bits(enum terp_type type, uint64_t word)
{
    int fraction_nbits = mantissa_nbits(type);
    uint64_t sign = UINT64_C(1) << (8 * value_nbytes(type) - 1);
    uint64_t infinity = sign - (UINT64_C(1) << fraction_nbits);
    uint64_t payload = word >> 8 & ((UINT64_C(1) << fraction_nbits) - 1);

    if (terp_type_is_integer(type))
        return word & (sign | (sign - 1));
    if (word % 4 == 0)
        return sign;
    if (word % 4 == 1)
        return infinity | (word >> 8 & 1 ? sign : 0);
    return infinity | payload | 1 | (word >> 4 & 1 ? sign : 0);
}

static uint64_t
field_bits(enum terp_field field, enum terp_type type,
           const struct place *place)
{
    double value = 0;

    switch (field) {
    case TERP_FIELD_CONSTANT:
        value = 0.1;
        break;
    case TERP_FIELD_RAMP:
        value = (double)ramp(place) * 0.25;
        break;
    case TERP_FIELD_SMOOTH:
        value = fraction(smooth(place));
        break;
    case TERP_FIELD_GAPS:
        if (chance(place, 7))
            return special_bits(type, terp_field_mix(place->index + 1));
        value = fraction(smooth(place) + noise(place) / 64);
        break;
    case TERP_FIELD_MAPS:
        value = fraction(map(place) + noise(place) / 64);
        break;
    case TERP_FIELD_ROUGH:
        value = fraction(smooth(place) + noise(place) / 64);
        break;
    case TERP_FIELD_NOISE:
        value = fraction(noise(place));
        break;
    case TERP_FIELD_SPIKES:
        value = chance(place, 61) ? fraction(noise(place)) * 0x1p20 : 0;
        break;
    case TERP_FIELD_STEPS:
        value = (double)steps(place) * 100;
        break;
    case TERP_FIELD_INTEGERS:
        value = (double)(smooth(place) * 20 / ONE +
                         (int64_t)(terp_field_mix(place->index) % 5));
        break;
    case TERP_FIELD_DENORMALS:
        value = type == TERP_FLOAT64
                    ? (double)(smooth(place) + noise(place) / 64) * 0x1p-1074
                    : (double)((smooth(place) + noise(place) / 64) / 256) *
                          0x1p-149;
        break;
    case TERP_FIELD_HUGE:
        value = huge(type, place);
        break;
    case TERP_FIELD_OUTLIERS:
        value = chance(place, 97) ? 1e20 : 1 + fraction(noise(place) / 1024);
        break;
    case TERP_FIELD_COAST:
        /* Land is where slow waves are high; its edge is ragged. */
        value = waves(place, 2) + noise(place) / 32 > ONE / 16
                    ? 1e20
                    : 10 + fraction(smooth(place));
        break;
    case TERP_FIELD_FINE:
        value = fine(place);
        break;
    case TERP_FIELD_ROUNDED:
        return value_to_bits(type, fine(place)) &
               ~((UINT64_C(1) << (type == TERP_FLOAT64 ? 29 : 12)) - 1);
    case TERP_FIELD_SINES:
        value = fraction(sines(place));
        break;
    case TERP_FIELD_MIRRORS:
        value = mirrors(type, place);
        break;
    case TERP_FIELD_GRIDS:
        value = grids(place);
        break;
    case TERP_FIELD_DECADES:
        value = decades(place);
        break;
    case TERP_FIELD_PROFILE:
        value = profile(place);
        break;
    case TERP_NNAMED_FIELDS:
        break;
    }
    return value_to_bits(type, value);
}

void
terp_field_make(enum terp_field field, const struct terp_chunk *chunk,
                uint8_t *values_ret)
{
    const enum terp_type part = terp_type_of_part(chunk->type);
    const uint64_t nparts = (uint64_t)terp_type_nparts(chunk->type);
    uint64_t nvalues = chunk_nvalues(chunk) / nparts;

    for (uint64_t i = 0; i < nvalues; i++) {
        struct place place = place_of(chunk, i);
        value_put(chunk, values_ret, nparts * i,
                  field_bits(field, part, &place));
        if (nparts == 1)
            continue;
        place = place_of(chunk, nvalues - 1 - i);
        value_put(chunk, values_ret, 2 * i + 1,
                  field_bits(field, part, &place));
    }
}

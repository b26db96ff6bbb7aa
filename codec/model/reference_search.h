/* The search for values that repeat earlier ones, which every engine does
 * alike. Fields are often symmetric, by mirrors and transpositions, and parts
 * of them are what other parts were: so points after one another refer to
 * points that are as far from one another, in either direction.
 *
 * Points that may be alike have the same key, and each is told the first one
 * that has its key, its hint. Then tiles of values are gone through, each on
 * its own, so that they may be done in any order. Last, who refers to a point
 * that refers itself takes that one's source instead. */
#ifndef TERP_CODEC_MODEL_REFERENCE_SEARCH_H
#define TERP_CODEC_MODEL_REFERENCE_SEARCH_H

#include "codec/model/reference_samples.h"

/* No point has this for a source. */
#define TERP_NO_SOURCE UINT32_MAX

/* Values that are gone through by one thread, and those before them, by which
 * it finds out what these refer to. */
#define TERP_REFERENCE_TILE_NVALUES 1024
#define TERP_REFERENCE_WARM_UP_NVALUES 256

/* Values as they are compared: magnitudes by their bits, or integers from the
 * least on. A point that is not usable neither refers nor is referred to. */
struct terp_repeats {
    const uint64_t *words;
    const uint8_t *usable;
    uint64_t nvalues;     /* fewer than TERP_NO_SOURCE */
    uint64_t value_nbits; /* of a value without references, in 1/16 bit */
    int near_nbits;       /* words that differ by no more bits are alike */
    bool lone;            /* values are told apart by themselves */
    bool exact;           /* the bits in which they differ have to come back */
    const uint32_t *hints;
    uint32_t *sources;
};

/* ---- keys ---- */

/* What a point has in common with those that it may repeat: of a value that is
 * not told apart by itself also the values beside it, in either order. 0: there
 * is none. */
static inline TERP_HOST_DEVICE uint32_t
terp_reference_key(const struct terp_repeats *r, uint64_t i)
{
    uint64_t key = 0;

    if (!r->usable[i])
        return 0;
    key = terp_window_key(key, r->words[i] >> r->near_nbits);
    if (!r->lone) {
        if (i == 0 || i + 1 == r->nvalues || !r->usable[i - 1] ||
            !r->usable[i + 1])
            return 0;
        const uint64_t a = r->words[i - 1] >> r->near_nbits;
        const uint64_t b = r->words[i + 1] >> r->near_nbits;
        key = terp_window_key(key, a < b ? a : b);
        key = terp_window_key(key, a < b ? b : a);
    }
    return (uint32_t)(terp_reference_mixed(key) >> 32) | 1;
}

/* ---- matches ---- */

/* The bits in which two words differ. */
static inline TERP_HOST_DEVICE int
terp_reference_difference_nbits(const struct terp_repeats *r, uint64_t i,
                                uint64_t j)
{
    const uint64_t a = r->words[i], b = r->words[j];

    return bit_width(a > b ? a - b : b - a);
}

/* Whether point i may refer to what stands at `match`. */
static inline TERP_HOST_DEVICE bool
terp_reference_fits(const struct terp_repeats *r, uint64_t i, uint64_t match)
{
    return match < i && r->usable[match] &&
           terp_reference_difference_nbits(r, i, match) <= r->near_nbits;
}

/* What a point repeats. */
struct terp_match {
    uint64_t at;
    int64_t stride; /* to where the next one may be; 0: unknown */
    bool found, follows;
};

/* What point i repeats, and whether that follows from what the point before it
 * repeats, if that does. */
static inline TERP_HOST_DEVICE struct terp_match
terp_reference_match(const struct terp_repeats *r, uint64_t i,
                     const struct terp_match *before)
{
    const int64_t strides[] = {before->stride, 1, -1};
    struct terp_match match = {0, 0, false, false};

    if (!r->usable[i])
        return match;
    for (int j = 0; before->found && j < 3; j++) {
        match.at = before->at + (uint64_t)strides[j];
        match.stride = strides[j];
        match.found = true;
        match.follows = j == 0;
        if (strides[j] != 0 && terp_reference_fits(r, i, match.at))
            return match;
    }
    match.at = r->hints[i];
    match.found = terp_reference_fits(r, i, match.at);
    match.follows = false;
    if (!match.found)
        return match;
    if (!r->lone)
        match.stride = terp_reference_fits(r, i + 1, match.at + 1) ? 1 : -1;
    else
        match.stride = before->found ? (int64_t)(match.at - before->at) : 0;
    return match;
}

/* What a reference saves, in 1/16 bit. */
static inline TERP_HOST_DEVICE int64_t
terp_reference_gain(const struct terp_repeats *r, uint64_t i,
                    const struct terp_match *match)
{
    const int left =
        r->exact ? terp_reference_difference_nbits(r, i, match->at) : 0;
    const int64_t gain = (int64_t)r->value_nbits - 16 * (left + (left > 0)) -
                         TERP_REFERENCE_NBITS;

    return match->follows ? gain
                          : gain - TERP_REFERENCE_JUMP_NBITS -
                                16 * bit_width(i - match->at);
}

/* Points of a tile that refer one after another are a run, which is kept if it
 * saves more than it costs. The runs at both ends of a tile may go on in the
 * tiles beside it. */
struct terp_reference_tile {
    uint64_t lead_nvalues;  /* of the run at the begin; or of all the tile */
    uint64_t trail_nvalues; /* of the run at the end, unless that is all */
    int64_t lead_gain, trail_gain; /* in 1/16 bit */
    uint64_t saved;                /* by the runs between */
    bool is_lead_kept, is_trail_kept;
};

static inline TERP_HOST_DEVICE uint64_t
terp_reference_tile_nvalues(const struct terp_repeats *r, uint64_t tile)
{
    return min_u64(r->nvalues - tile * TERP_REFERENCE_TILE_NVALUES,
                   TERP_REFERENCE_TILE_NVALUES);
}

static inline TERP_HOST_DEVICE void
terp_reference_drop(const struct terp_repeats *r, uint64_t first, uint64_t n)
{
    for (uint64_t i = first; i < first + n; i++)
        r->sources[i] = TERP_NO_SOURCE;
}

/* Has sources for the points of a tile, of which some may refer themselves. */
static inline TERP_HOST_DEVICE struct terp_reference_tile
terp_reference_search_tile(const struct terp_repeats *r, uint64_t tile)
{
    const uint64_t first = tile * TERP_REFERENCE_TILE_NVALUES;
    const uint64_t n = terp_reference_tile_nvalues(r, tile);
    struct terp_reference_tile t = {0, 0, 0, 0, 0, false, false};
    struct terp_match match = {0, 0, false, false};
    uint64_t run_nvalues = 0;
    int64_t gain = 0;

    for (uint64_t i = first - min_u64(first, TERP_REFERENCE_WARM_UP_NVALUES);
         i < first; i++)
        match = terp_reference_match(r, i, &match);
    for (uint64_t k = 0; k < n; k++) {
        const uint64_t i = first + k;
        const bool goes_on = match.found;
        match = terp_reference_match(r, i, &match);
        if (match.found && !goes_on && k > 0 && match.stride != 0 &&
            r->usable[i - 1] &&
            terp_reference_fits(r, i - 1, match.at - (uint64_t)match.stride)) {
            /* Keys tell of a run at its second point. */
            r->sources[i - 1] = (uint32_t)(match.at - (uint64_t)match.stride);
            gain += (int64_t)r->value_nbits - TERP_REFERENCE_NBITS;
            run_nvalues++;
        }
        r->sources[i] = match.found ? (uint32_t)match.at : TERP_NO_SOURCE;
        if (match.found) {
            gain += terp_reference_gain(r, i, &match);
            run_nvalues++;
        }
        if (match.found && k + 1 < n)
            continue;
        if (run_nvalues == k + match.found) {
            t.lead_nvalues = run_nvalues;
            t.lead_gain = gain;
        } else if (match.found) {
            t.trail_nvalues = run_nvalues;
            t.trail_gain = gain;
        } else if (gain > 0) {
            t.saved += (uint64_t)gain;
        } else {
            terp_reference_drop(r, i - run_nvalues, run_nvalues);
        }
        run_nvalues = 0;
        gain = 0;
    }
    return t;
}

/* Tells of the runs at the ends of tiles, which go on from one to the next,
 * whether they are kept. Returns what all runs save, in 1/16 bit. */
static inline TERP_HOST_DEVICE uint64_t
terp_reference_join_tiles(const struct terp_repeats *r, uint64_t ntiles,
                          struct terp_reference_tile *tiles)
{
    uint64_t saved = 0, begin = 0;
    int64_t gain = 0;

    /* A run that ends in tile i is the end of tile begin - 1, tiles, and the
     * begin of tile i. */
    for (uint64_t i = 0; i <= ntiles; i++) {
        if (i < ntiles) {
            saved += tiles[i].saved;
            gain += tiles[i].lead_gain;
            if (tiles[i].lead_nvalues == terp_reference_tile_nvalues(r, i))
                continue;
        }
        for (uint64_t k = begin; k <= i && gain > 0; k++) {
            if (k < ntiles)
                tiles[k].is_lead_kept = true;
            if (k > 0)
                tiles[k - 1].is_trail_kept = true;
        }
        saved += gain > 0 ? (uint64_t)gain : 0;
        begin = i + 1;
        gain = i < ntiles ? tiles[i].trail_gain : 0;
    }
    return saved;
}

static inline TERP_HOST_DEVICE void
terp_reference_drop_ends(const struct terp_repeats *r, uint64_t tile,
                         const struct terp_reference_tile *t)
{
    const uint64_t first = tile * TERP_REFERENCE_TILE_NVALUES;
    const uint64_t n = terp_reference_tile_nvalues(r, tile);

    if (!t->is_lead_kept)
        terp_reference_drop(r, first, t->lead_nvalues);
    if (!t->is_trail_kept)
        terp_reference_drop(r, first + n - t->trail_nvalues, t->trail_nvalues);
}

#endif

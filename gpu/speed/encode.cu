/* Encodes chunks as streams of coding SPEED, in one kernel: tiles take their
 * places by a look-back over the tiles before them, and the last tile that ends
 * completes the stream. */
#include "gpu/speed/tile.cuh"

/* Shared memory of a tile. `words` holds the tile's integers first, and then
 * its bytes. */
template <typename Word> struct encoding_memory {
    alignas(16) uint8_t bytes[TERP_SPEED_TILE_MAX_NBYTES(sizeof(Word)) + 16];
    block_scan<int, SPEED_NTHREADS> scan, exceptions_scan;
    unsigned long long sums[SPEED_NTHREADS / 32];
    unsigned long long place;
    Word base, other;
    struct terp_speed_box box;
    unsigned tile, first, first_coded;
    /* Of a tile with exceptions: `fill`, the value of the first exception; for
     * each group, a bit for each row that is an exception (mask), and for each
     * row with the fill value (same); the counts EXCEPTIONS_ of the groups
     * before each group, and of all groups. */
    Word fill;
    uint16_t mask[SPEED_NTHREADS], same[SPEED_NTHREADS];
    int before[SPEED_NTHREADS], all;
};

/* The tile of a block. */
template <typename Word> struct tile_at_work {
    const struct speed_job &job;
    const struct speed_numbers &numbers;
    encoding_memory<Word> &s;
    const struct terp_speed_box &box; /* s.box */
    const uint8_t *column; /* the first value of the thread's group */
    uint64_t row_nbytes;
    int nrows;
};

/* Returns the tile of the block. Functions that are not inlined call this,
 * because a tile as their argument would go through local memory. */
template <typename Word>
static __device__ __forceinline__ tile_at_work<Word>
tile_of_block(const struct speed_job &job, const struct speed_chunk &chunk,
              encoding_memory<Word> &s)
{
    const int slab = (int)threadIdx.x / SPEED_NCOLUMNS,
              x = (int)threadIdx.x % SPEED_NCOLUMNS;
    const uint64_t value_nbytes = (uint64_t)job.value_nbytes;

    return {job,
            chunk.numbers,
            s,
            s.box,
            (const uint8_t *)chunk.src +
                (s.box.first + (uint64_t)slab * s.box.slab + (uint64_t)x) *
                    value_nbytes,
            s.box.row * value_nbytes,
            speed_group_nrows(s.box, slab, x)};
}

template <typename Word>
static __device__ __forceinline__ Word
bits_at(const tile_at_work<Word> &it, int r)
{
    return speed_value_bits<Word>(it.job,
                                  it.column + (uint64_t)r * it.row_nbytes);
}

/* The thread's group in shared memory. */
template <typename Word>
static __device__ __forceinline__ Word *
shared_group(const tile_at_work<Word> &it)
{
    return (Word *)it.s.bytes +
           threadIdx.x / SPEED_NCOLUMNS * TERP_SPEED_SLAB_NVALUES +
           threadIdx.x % SPEED_NCOLUMNS;
}

/* The two functions below leave the integers in shared memory, so that fast
 * tiles have theirs in registers. */

/* Codes a tile by its bits. */
template <typename Word>
static __device__ __noinline__ void
take_bits(const struct speed_job &job, const struct speed_chunk &chunk,
          encoding_memory<Word> &s)
{
    const tile_at_work<Word> it = tile_of_block(job, chunk, s);
    Word *group = shared_group(it);

    for (int r = 0; r < SPEED_NROWS; r++)
        group[r * SPEED_NCOLUMNS] =
            r < it.nrows ? speed_word_of_bits(it.job, bits_at(it, r)) : 0;
}

/* An integer that holds two counts of a tile, so that one scan makes both. The
 * lower 16 bits count exceptions that the tile lists. The upper 16 bits count
 * groups in which some rows have the fill value and others do not. */
#define EXCEPTIONS_MIXED (1 << 16)
#define EXCEPTIONS_NLISTED 0xFFFF
#define EXCEPTIONS_MIXED_SHIFT 16

/* Returns the state of a group in the stream: whether none, some or all of its
 * rows have the fill value. `same`: a bit for each row that has it. */
static __device__ __forceinline__ unsigned
state_of_group(unsigned same, int nrows)
{
    return same == 0                   ? TERP_SPEED_NONE
           : same == (1u << nrows) - 1 ? TERP_SPEED_ALL
                                       : TERP_SPEED_MIXED;
}

/* Lowers *s_first to the place of the first row of the block whose bit in
 * `rows` is set. `rows` has a bit for each row of the thread's group. The place
 * of row r of thread t is t * SPEED_NROWS + r. */
static __device__ __forceinline__ void
note_first(unsigned *s_first, unsigned rows)
{
    const unsigned lanes = __ballot_sync(FULL_WARP_MASK, rows != 0);

    if (rows != 0 && threadIdx.x % 32 == (unsigned)__ffs((int)lanes) - 1)
        atomicMin(s_first,
                  threadIdx.x * SPEED_NROWS + (unsigned)__ffs((int)rows) - 1);
}

/* Finds a tile's level and its exceptions, or makes it exact. Returns the flags
 * of the tile's first byte. Areas of missing values have many tiles with
 * exceptions. */
template <typename Word, bool IS_PLAIN, int NUNROLLED = IS_PLAIN ? 8 : 1>
static __device__ __noinline__ int
take_exceptions(const struct speed_job &job, const struct speed_chunk &chunk,
                encoding_memory<Word> &s)
{
    const tile_at_work<Word> it = tile_of_block(job, chunk, s);
    const int nlevels =
        terp_speed_has_float_steps(it.job.type) ? TERP_SPEED_NLEVELS : 1;
    const unsigned rows = (1u << it.nrows) - 1;
    Word *group = shared_group(it);
    unsigned mask = 0, same = 0;
    int level = 0, all;

    for (;; level++) {
        bool is_missed = false;
        mask = 0;
#pragma unroll NUNROLLED
        for (int r = 0; r < SPEED_NROWS; r++) {
            const Word bits = r < it.nrows ? bits_at(it, r) : 0;
            Word word = 0;
            enum speed_outcome outcome = SPEED_CODED;
            if (r < it.nrows)
                outcome = speed_quantize<Word, IS_PLAIN>(it.job, it.numbers,
                                                         level, bits, &word);
            group[r * SPEED_NCOLUMNS] = outcome == SPEED_CODED ? word : bits;
            is_missed |= outcome == SPEED_MISSED;
            mask |= outcome != SPEED_CODED ? 1u << r : 0;
        }
        if (!__syncthreads_or(is_missed) || level == nlevels - 1)
            break;
    }
    if (threadIdx.x == 0)
        it.s.first = it.s.first_coded = TERP_SPEED_TILE_NVALUES;
    if (!__syncthreads_or((rows & ~mask) != 0)) { /* none is coded */
#pragma unroll NUNROLLED
        for (int r = 0; r < SPEED_NROWS; r++)
            if (r < it.nrows)
                group[r * SPEED_NCOLUMNS] =
                    speed_word_of_bits(it.job, group[r * SPEED_NCOLUMNS]);
        return TERP_SPEED_EXACT;
    }
    note_first(&it.s.first, mask);
    note_first(&it.s.first_coded, rows & ~mask);
    __syncthreads();
    if (it.s.first == TERP_SPEED_TILE_NVALUES) /* no exceptions at this level */
        return level << TERP_SPEED_LEVEL_SHIFT;
    const unsigned of_first = it.s.first / SPEED_NROWS;
    const Word fill =
        ((const Word *)
             it.s.bytes)[of_first / SPEED_NCOLUMNS * TERP_SPEED_SLAB_NVALUES +
                         it.s.first % SPEED_NROWS * SPEED_NCOLUMNS +
                         of_first % SPEED_NCOLUMNS];
#pragma unroll NUNROLLED
    for (int r = 0; r < SPEED_NROWS; r++)
        if (mask >> r & 1 && group[r * SPEED_NCOLUMNS] == fill)
            same |= 1u << r;
    int first = SPEED_NROWS;
    if ((rows & ~mask) != 0)
        first = __ffs((int)(rows & ~mask)) - 1;
    if (it.s.first_coded / SPEED_NROWS == threadIdx.x)
        it.s.other = group[first * SPEED_NCOLUMNS];
    const bool is_mixed = state_of_group(same, it.nrows) == TERP_SPEED_MIXED;
    const int before_group = scan_block(
        it.s.exceptions_scan,
        __popc(mask ^ same) + (is_mixed ? EXCEPTIONS_MIXED : 0), &all);
    if ((all & EXCEPTIONS_NLISTED) > TERP_SPEED_MAX_NLISTED) {
        take_bits(job, chunk, s);
        return TERP_SPEED_EXACT;
    }
    Word before =
        first < SPEED_NROWS ? group[first * SPEED_NCOLUMNS] : it.s.other;
#pragma unroll NUNROLLED
    for (int r = 0; r < SPEED_NROWS; r++) {
        if (mask >> r & 1)
            group[r * SPEED_NCOLUMNS] = before;
        else if (r < it.nrows)
            before = group[r * SPEED_NCOLUMNS];
    }
    it.s.mask[threadIdx.x] = (uint16_t)mask;
    it.s.same[threadIdx.x] = (uint16_t)same;
    it.s.before[threadIdx.x] = before_group;
    if (threadIdx.x == 0) {
        it.s.fill = fill;
        it.s.all = all;
    }
    return TERP_SPEED_EXCEPTIONS | level << TERP_SPEED_LEVEL_SHIFT;
}

/* The bytes that exceptions add to a tile. */
template <typename Word>
static __device__ __forceinline__ int
exceptions_nbytes(const tile_at_work<Word> &it)
{
    const int nlisted = it.s.all & EXCEPTIONS_NLISTED;
    const int nmixed = it.s.all >> EXCEPTIONS_MIXED_SHIFT;

    return (int)sizeof(Word) + terp_speed_states_nbytes(&it.box) + 2 * nmixed +
           nlisted * (2 + it.job.value_nbytes);
}

static __device__ __forceinline__ void
put_bytes(uint8_t *s_at, uint64_t value, int nbytes)
{
    for (int i = 0; i < nbytes; i++)
        s_at[i] = (uint8_t)(value >> 8 * i);
}

/* Appends exceptions to a tile of `nbytes` bytes. */
template <typename Word>
static __device__ __noinline__ void
write_exceptions(const struct speed_job &job, const struct speed_chunk &chunk,
                 encoding_memory<Word> &memory, int nbytes)
{
    const tile_at_work<Word> it = tile_of_block(job, chunk, memory);
    uint8_t *bytes = it.s.bytes;
    const int s = (int)threadIdx.x / SPEED_NCOLUMNS,
              x = (int)threadIdx.x % SPEED_NCOLUMNS;
    const unsigned mask = it.s.mask[threadIdx.x], same = it.s.same[threadIdx.x];
    const int ngroups = terp_speed_row_ngroups(&it.box);
    const int value_nbytes = it.job.value_nbytes;
    const unsigned state = state_of_group(same, it.nrows);
    const int mixed = it.s.before[threadIdx.x] >> EXCEPTIONS_MIXED_SHIFT;
    int listed = it.s.before[threadIdx.x] & EXCEPTIONS_NLISTED;
    const int nlisted = it.s.all & EXCEPTIONS_NLISTED;

    if (threadIdx.x == 0) {
        put_bytes(bytes + TERP_SPEED_NLISTED_AT, (uint64_t)nlisted, 2);
        put_bytes(bytes + nbytes, it.s.fill, (int)sizeof(Word));
    }
    nbytes += (int)sizeof(Word);
    unsigned states = state;
    states |= __shfl_down_sync(FULL_WARP_MASK, state, 1) << 2;
    states |= __shfl_down_sync(FULL_WARP_MASK, state, 2) << 4;
    states |= __shfl_down_sync(FULL_WARP_MASK, state, 3) << 6;
    if (s < it.box.nslabs && x < ngroups && x % 4 == 0)
        bytes[nbytes + (s * ngroups + x) / 4] = (uint8_t)states;
    nbytes += terp_speed_states_nbytes(&it.box);
    if (state == TERP_SPEED_MIXED)
        put_bytes(bytes + nbytes + 2 * mixed, same, 2);
    nbytes += 2 * (it.s.all >> EXCEPTIONS_MIXED_SHIFT);
    for (unsigned left = mask ^ same; left != 0; left &= left - 1, listed++) {
        const int r = __ffs((int)left) - 1;
        put_bytes(bytes + nbytes + 2 * listed,
                  threadIdx.x * SPEED_NROWS + (unsigned)r, 2);
        put_bytes(bytes + nbytes + 2 * nlisted + value_nbytes * listed,
                  bits_at(it, r), value_nbytes);
    }
}

/* Replaces integers by their differences as zigzag numbers; returns the bits
 * that any of them has. HAS_BELOW: a slab of a volume that is not the first
 * one. HAS_LAST: rows have the row before as a neighbour. `last`: the
 * difference along columns of the row before the first one. */
template <bool IS_WHOLE, bool HAS_BELOW, bool HAS_LAST, typename Word>
static __device__ __forceinline__ Word
difference_group(const Word *s_group, int x, int nrows, Word last,
                 int unused_nbits, Word words[SPEED_NROWS])
{
    typedef typename speed_word<Word>::integer integer;
    Word common = 0;

#pragma unroll
    for (int r = 0; r < SPEED_NROWS; r++) {
        Word d = words[r];
        if (x > 0)
            d -= s_group[r * SPEED_NCOLUMNS - 1];
        if (HAS_BELOW) {
            d -= s_group[(r - SPEED_NROWS) * SPEED_NCOLUMNS];
            if (x > 0)
                d += s_group[(r - SPEED_NROWS) * SPEED_NCOLUMNS - 1];
        }
        Word e = d;
        if (HAS_LAST) {
            e -= last;
            last = d;
        }
        const integer i = (integer)(e << unused_nbits) >> unused_nbits;
        e = (Word)i << 1 ^ (Word)(i >> (8 * (int)sizeof(Word) - 1));
        if (!IS_WHOLE && r >= nrows)
            e = 0;
        words[r] = e;
        common |= e;
    }
    return common;
}

template <bool IS_WHOLE, typename Word>
static __device__ __forceinline__ Word
take_differences(enum terp_speed_shape shape, const Word *s_group, int nrows,
                 int unused_nbits, Word words[SPEED_NROWS])
{
    const int s = (int)threadIdx.x / SPEED_NCOLUMNS,
              x = (int)threadIdx.x % SPEED_NCOLUMNS;
    Word last = threadIdx.x == 0 ? words[0] : 0; /* the base is no difference */

    if (shape == TERP_SPEED_VOLUME)
        return s == 0 ? difference_group<IS_WHOLE, false, true>(
                            s_group, x, nrows, last, unused_nbits, words)
                      : difference_group<IS_WHOLE, true, true>(
                            s_group, x, nrows, last, unused_nbits, words);
    if (s > 0) {
        last = s_group[-SPEED_NCOLUMNS];
        if (x > 0)
            last -= s_group[-SPEED_NCOLUMNS - 1];
    }
    return shape == TERP_SPEED_PLANE || x == 0
               ? difference_group<false, false, true>(s_group, x, nrows, last,
                                                      unused_nbits, words)
               : difference_group<false, false, false>(s_group, x, nrows, last,
                                                       unused_nbits, words);
}

/* Packs a group in units of 16 bits, which it fills. The width is below 16. */
template <typename Word>
static __device__ __forceinline__ void
pack_narrow(uint16_t *s_units, int width, const Word words[SPEED_NROWS])
{
    uint32_t kept = 0;
    int nbits = 0;

#pragma unroll
    for (int r = 0; r < SPEED_NROWS; r++) {
        kept |= (uint32_t)words[r] << nbits;
        nbits += width;
        if (nbits >= 16) {
            *s_units++ = (uint16_t)kept;
            kept >>= 16;
            nbits -= 16;
        }
    }
}

/* The same for any width. */
template <typename Word>
static __device__ __forceinline__ void
pack(uint16_t *s_units, int width, const Word words[SPEED_NROWS])
{
    uint64_t kept = 0;
    int nbits = 0;
    const auto put = [&](uint64_t bits,
                         int more_nbits) { /* up to 32 bits */
                                           kept |= bits << nbits;
                                           nbits += more_nbits;
#pragma unroll
                                           for (int i = 0; i < 2; i++)
                                               if (nbits >= 16) {
                                                   *s_units++ = (uint16_t)kept;
                                                   kept >>= 16;
                                                   nbits -= 16;
                                               }
    };

#pragma unroll
    for (int r = 0; r < SPEED_NROWS; r++) {
        uint64_t word = words[r];
        int left = width;
        if (sizeof(Word) == 8 && left > 32) {
            put((uint32_t)word, 32);
            word >>= 32;
            left -= 32;
        }
        put(word, left);
    }
}

/* Publishes how many bytes a tile has, for the tiles behind it. */
static __device__ __forceinline__ void
publish_size(unsigned long long *states, unsigned tile, int nbytes)
{
    atomicExch(&states[tile], SPEED_OWN | terp_speed_aligned((uint64_t)nbytes));
}

/* The bytes of all tiles before this one: the first warp looks back, at 32
 * tiles at once. */
static __device__ __forceinline__ unsigned long long
look_back(unsigned long long *states, unsigned tile, unsigned long long nbytes)
{
    unsigned long long before = 0;
    long long at = (long long)tile - 1 - (long long)threadIdx.x;

    for (bool goes_on = tile > 0; goes_on;) {
        const unsigned long long state =
            at >= 0 ? atomicAdd(&states[at], 0ull) : SPEED_ALL;
        if (__any_sync(FULL_WARP_MASK, state == 0))
            continue;
        const unsigned ends =
            __ballot_sync(FULL_WARP_MASK, (state & SPEED_ALL) != 0);
        const unsigned stop = ends != 0 ? (unsigned)__ffs((int)ends) - 1 : 31;
        before += warp_sum(threadIdx.x <= stop ? state & SPEED_NBYTES : 0ull);
        goes_on = ends == 0;
        at -= 32;
    }
    if (threadIdx.x == 0)
        atomicExch(&states[tile], SPEED_ALL | (before + nbytes));
    return before;
}

/* Writes what precedes the index, and what the stream's size is. */
static __device__ __noinline__ void
complete(const struct speed_job &job, const struct speed_chunk &chunk,
         struct speed_progress *progress, unsigned long long tiles_nbytes)
{
    const uint64_t ntiles = job.grid.ntiles;
    const uint64_t *words = (const uint64_t *)chunk.head;
    const uint64_t seed = words[0];
    uint64_t sum = 0;

    if (atomicAdd(&progress->is_long, 0u) != 0) {
        speed_tell(job, 0);
        return;
    }
    speed_tell(job,
               chunk.index_at + terp_speed_index_nbytes(ntiles) + tiles_nbytes);
    for (unsigned i = 2; i < chunk.index_at / 8; i++)
        sum += terp_speed_hash_word(words[i], seed, i - 2);
    sum = terp_speed_hash_tile(sum, 0, ntiles) +
          atomicAdd(&progress->checksum, 0ull);
    uint64_t *dst = (uint64_t *)chunk.dst;
    for (unsigned i = 0; i < chunk.index_at / 8; i++)
        dst[i] = i == 1 && !job.is_part ? sum : words[i];
    if (ntiles % 2 != 0)
        ((uint32_t *)(chunk.dst + chunk.index_at))[ntiles] = 0;
}

/* Encodes a tile of a chunk. Grid: tiles, chunks. A tile's number is drawn, so
 * that all tiles before it have begun. */
template <typename Word, bool IS_PLAIN>
static __global__ void
__launch_bounds__(SPEED_NTHREADS, sizeof(Word) == 4 ? 6 : 3)
    encode_tiles(const __grid_constant__ struct speed_job job)
{
    typedef speed_word<Word> of;
    typedef typename of::real real;
    typedef typename of::integer integer;
    __shared__ encoding_memory<Word> s;

    begin_kernel();
    const struct speed_chunk &chunk =
        job.chunks == NULL ? job.chunk : job.chunks[blockIdx.y];
    struct speed_progress *progress = &job.progress[blockIdx.y];
    unsigned long long *states = job.states + blockIdx.y * job.grid.ntiles;
    if (threadIdx.x == 0) { /* one thread divides by the dims */
        s.tile = atomicAdd(&progress->next, 1u);
        terp_speed_box_make(&job.grid, s.tile, &s.box);
    }
    __syncthreads();
    const unsigned tile = s.tile;
    const int slab = (int)threadIdx.x / SPEED_NCOLUMNS,
              x = (int)threadIdx.x % SPEED_NCOLUMNS;
    const tile_at_work<Word> it = tile_of_block(job, chunk, s);
    const bool has_steps = chunk.numbers.kind == TERP_SPEED_STEPS;
    /* the same in all threads */
    const bool is_whole = it.box.shape == TERP_SPEED_VOLUME &&
                          it.box.ncolumns == SPEED_NCOLUMNS &&
                          it.box.nrows == SPEED_NROWS &&
                          it.box.nslabs == TERP_SPEED_NSLABS;
    Word words[SPEED_NROWS];
    int flags = 0;
    bool is_slow = true;
    if (IS_PLAIN && is_whole)
        speed_load_group<Word, true>(job.big_endian, it.column, it.row_nbytes,
                                     it.nrows, words);
    else if (IS_PLAIN)
        speed_load_group<Word, false>(job.big_endian, it.column, it.row_nbytes,
                                      it.nrows, words);
    if (IS_PLAIN && has_steps) {
        const real step = (real)chunk.numbers.step[0];
        const real per_step = (real)chunk.numbers.per_step[0];
        const real most = (real)chunk.numbers.most;
        bool is_bad = false;
        for (int i = 0; i < chunk.numbers.nfills; i++)
#pragma unroll
            for (int r = 0; r < SPEED_NROWS; r++)
                is_bad |= r < it.nrows &&
                          of::bits_of(of::real_of(words[r]) + (real)0) ==
                              (Word)chunk.numbers.fill[i];
#pragma unroll
        for (int r = 0; r < SPEED_NROWS; r++) {
            const real value = of::real_of(words[r]);
            const Word q = of::bits_of(value * per_step + of::rounder()) -
                           of::bits_of(of::rounder());
            const real error = value - (real)(integer)q * step;
            is_bad |= !(of::magnitude(error) <= most);
            words[r] = q;
        }
        is_slow = __syncthreads_or(is_bad) != 0;
    } else if (IS_PLAIN) {
#pragma unroll
        for (int r = 0; r < SPEED_NROWS; r++)
            words[r] = speed_key(words[r]);
        is_slow = false;
    }
    Word *group = shared_group(it);
    if (is_slow) {
        if (has_steps)
            flags = take_exceptions<Word, IS_PLAIN>(job, chunk, s);
        else
            take_bits(job, chunk, s);
#pragma unroll
        for (int r = 0; r < SPEED_NROWS; r++)
            words[r] = group[r * SPEED_NCOLUMNS];
    } else {
#pragma unroll
        for (int r = 0; r < SPEED_NROWS; r++)
            group[r * SPEED_NCOLUMNS] = words[r];
    }
    const int nbits = !has_steps || flags & TERP_SPEED_EXACT
                          ? 8 * job.value_nbytes
                          : 8 * (int)sizeof(Word);
    if (threadIdx.x == 0)
        s.base = words[0];
    __syncthreads();
    const int unused_nbits = IS_PLAIN ? 0 : 8 * (int)sizeof(Word) - nbits;
    const Word common =
        is_whole
            ? take_differences<true>(TERP_SPEED_VOLUME, (const Word *)group,
                                     it.nrows, unused_nbits, words)
            : take_differences<false>(it.box.shape, (const Word *)group,
                                      it.nrows, unused_nbits, words);
    const int width = of::width(common);
    int nunits;
    const int first_unit = scan_block(s.scan, width, &nunits);
    const bool is_wide = __syncthreads_or(width > 15) != 0;
    /* all integers in shared memory are read */
    const int form = nunits == 0 ? TERP_SPEED_NO_WIDTHS
                     : is_wide   ? TERP_SPEED_WIDTHS_OF_8
                                 : TERP_SPEED_WIDTHS_OF_4;
    const int head_nbytes = terp_speed_tile_head_nbytes((int)sizeof(Word));
    const int ngroups = terp_speed_row_ngroups(&it.box);
    const int next_width = __shfl_down_sync(FULL_WARP_MASK, width, 1);
    if (nunits > 0 && slab < it.box.nslabs && x < ngroups) {
        const int at = slab * ngroups + x;
        if (is_wide)
            s.bytes[head_nbytes + at] = (uint8_t)width;
        else if (x % 2 == 0)
            s.bytes[head_nbytes + at / 2] = (uint8_t)(width | next_width << 4);
    }
    const int packed_at = head_nbytes + terp_speed_widths_nbytes(&it.box, form);
    const int exceptions_at = packed_at + 2 * nunits;
    int nbytes = exceptions_at;
    if (flags & TERP_SPEED_EXCEPTIONS)
        nbytes += exceptions_nbytes(it);
    /* The tiles behind wait for the size; packing needs time. */
    if (threadIdx.x == 0)
        publish_size(states, tile, nbytes);
    if (threadIdx.x < (unsigned)head_nbytes / 4) {
        uint32_t *head = (uint32_t *)s.bytes;
        const int base_at = terp_speed_base_at((int)sizeof(Word)) / 4;
        const int i = (int)threadIdx.x;
        head[i] = i == 0 ? (uint32_t)(flags | form)
                  : i < base_at
                      ? 0
                      : (uint32_t)((uint64_t)s.base >> 32 * (i - base_at));
    }
    uint16_t *units = (uint16_t *)(s.bytes + packed_at) + first_unit;
    if (is_wide)
        pack(units, width, words);
    else if (nunits > 0)
        pack_narrow(units, width, words);
    if (flags & TERP_SPEED_EXCEPTIONS) {
        __syncthreads(); /* the head has a place for how many are listed */
        write_exceptions(job, chunk, s, exceptions_at);
    }
    if (threadIdx.x < TERP_SPEED_ALIGN_NBYTES &&
        nbytes % TERP_SPEED_ALIGN_NBYTES != 0 &&
        nbytes % TERP_SPEED_ALIGN_NBYTES + (int)threadIdx.x <
            TERP_SPEED_ALIGN_NBYTES)
        s.bytes[nbytes + (int)threadIdx.x] = 0;
    nbytes = (int)terp_speed_aligned((uint64_t)nbytes);
    if (threadIdx.x < 32) {
        const unsigned long long before =
            look_back(states, tile, (unsigned long long)nbytes);
        if (threadIdx.x == 0)
            s.place = before;
    }
    __syncthreads();
    const uint64_t tiles_at =
        chunk.index_at + terp_speed_index_nbytes(job.grid.ntiles);
    const unsigned long long place = s.place;
    const bool fits =
        tiles_at + place + (unsigned long long)nbytes < job.cap_nbytes;
    const uint64_t seed = *(const uint64_t *)chunk.head;
    const uint64_t *from = (const uint64_t *)s.bytes;
    unsigned long long *to =
        (unsigned long long *)(chunk.dst + tiles_at + place);
    unsigned long long sum = 0;
    for (int i = (int)threadIdx.x; i < nbytes / 8; i += SPEED_NTHREADS) {
        const uint64_t word = from[i];
        sum += terp_speed_hash_word(word, seed, (uint64_t)i);
        if (fits)
            speed_store(&to[i], (unsigned long long)word);
    }
    sum = speed_block_sum(sum, s.sums);
    if (threadIdx.x != 0)
        return;
    if (fits)
        ((uint32_t *)(chunk.dst + chunk.index_at))[tile] =
            (uint32_t)(place / TERP_SPEED_ALIGN_NBYTES);
    else
        atomicOr(&progress->is_long, 1u);
    atomicAdd(&progress->checksum,
              (unsigned long long)terp_speed_hash_tile(
                  sum, place / TERP_SPEED_ALIGN_NBYTES, tile));
    __threadfence();
    if (atomicAdd(&progress->ndone, 1u) == job.grid.ntiles - 1)
        complete(job, chunk, progress,
                 atomicAdd(&states[job.grid.ntiles - 1], 0ull) & SPEED_NBYTES);
}

cudaError_t
cuda_speed_launch_encode(const struct speed_job *job, unsigned nchunks,
                         cudaStream_t stream)
{
    const dim3 grid((unsigned)job->grid.ntiles, nchunks);
    const bool is_plain = terp_type_is_plain(job->type);
    auto *kernel = terp_speed_word_nbytes(job->type) == 4
                       ? (is_plain ? encode_tiles<uint32_t, true>
                                   : encode_tiles<uint32_t, false>)
                       : (is_plain ? encode_tiles<uint64_t, true>
                                   : encode_tiles<uint64_t, false>);

    return launch(kernel, grid, dim3(SPEED_NTHREADS), 0, stream, *job);
}

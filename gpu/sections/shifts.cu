/* The section of shifts: symbols and numbers to differences. Points are taken
 * in C order, by segments of rows: where they stand among those that are not
 * special tells their group. cpu/sections/shifts.c does the same. */
#include "gpu/sections/shifts.cuh"

#include "gpu/predict/lorenzo_shape.cuh"

/* ---- reading ---- */

/* Differences to where integers will be; those of special points and escapes
 * are anything. Grid: (shares of segments, chunks). */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS) place_shifts(const struct cuda_batch batch)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const struct terp_layout *layout = batch.d_layout;
    const unsigned lane = threadIdx.x % 32;
    struct segment segment;

    if (!chunk_is_lossless(chunk))
        return;
    const struct valid_points points = valid_points_of(batch, chunk);
    const uint64_t *groups =
        region<uint64_t>(batch, blockIdx.y, batch.at.shift_groups);
    const uint16_t *symbols =
        region<uint16_t>(batch, blockIdx.y, batch.at.symbols);
    const uint8_t *numbers = (const uint8_t *)chunk.src + chunk.shifts_at;
    word_of<T> *quants = region<word_of<T>>(batch, blockIdx.y, batch.at.work);
    for (uint64_t block = blockIdx.x; find_segment(layout, block, &segment);
         block += gridDim.x) {
        uint64_t rank = rank_at(points, segment.at + segment.x);
        for (uint64_t first = 0; first < segment.nx; first += 32) {
            const uint64_t x = segment.x + first + lane, at = segment.at + x;
            const bool valid =
                first + lane < segment.nx && is_valid(points, at);
            const unsigned all = __ballot_sync(FULL_WARP_MASK, valid);
            if (valid) {
                const uint64_t own =
                    rank + (unsigned)__popc(all & ((1u << lane) - 1));
                const struct shift_group group =
                    shift_group_of(groups[own / TERP_SHIFT_GROUP_NVALUES]);
                const int64_t code =
                    (int64_t)symbols[tiled_at(segment.tiled, layout->rank,
                                              layout->dims[0], x)] -
                    TERP_RADIUS;
                const uint64_t number = load_bits(
                    numbers + group.begin,
                    own % TERP_SHIFT_GROUP_NVALUES * (unsigned)group.shift,
                    group.shift);
                quants[at] =
                    (word_of<T>)(terp_join_shift(code, number, group.shift)
                                 << group.nzeros);
            }
            rank += (unsigned)__popc(all);
        }
    }
}

cudaError_t
cuda_shifts_place(const struct cuda_batch *batch, cudaStream_t stream)
{
    if (!batch->may_be_lossless)
        return cudaSuccess;
    return launch_stage(
        batch, stream,
        batch->value_nbytes == 8 ? place_shifts<double> : place_shifts<float>,
        nblocks_for(batch, nblocks_of_segments(batch->h_layout)),
        LORENZO_NTHREADS);
}

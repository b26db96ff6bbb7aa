/* Measures for terp's pipeline what Shah et al., "Lightweight Huffman coding
 * for efficient GPU compression", ICS 2023, measured for theirs: the time to
 * select codebooks from a dictionary, and the time to build a codebook from a
 * chunk's histogram, each beside the time of a whole chunk. Prints CSV. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/cuda_books_host.h"
#include "bench/cuda_stages.cuh"
#include "gpu/entropy/codebooks.cuh"

static const uint64_t extents[] = {64, 128, 256};

static void
print_us(uint64_t extent, const char *where, const char *what, double seconds)
{
    printf("%llu,%s,%s,%.2f\n", (unsigned long long)extent, where, what,
           seconds * 1e6);
    fflush(stdout);
}

/* ---- stages ---- */

static bench_stage *const before_tiles[] = {cuda_swap_src,
                                            cuda_scan,
                                            cuda_tune,
                                            cuda_spline_begin,
                                            cuda_spline_quantize,
                                            cuda_lorenzo_quantize,
                                            cuda_specials_write,
                                            cuda_escapes_write,
                                            NULL};
static bench_stage *const histogram[] = {cuda_tiles_histogram, NULL};
static bench_stage *const select_entries[] = {cuda_entries_select, NULL};

static double
time_histogram(const struct bench_chunks *chunks, struct bench_stages *stages)
{
    *stages = bench_stages_begin(chunks, false);
    bench_stages_run(stages, before_tiles);
    return bench_stages_time_all(stages, histogram);
}

static void
measure_device(struct bench_chunks *chunks)
{
    uint64_t extent = chunks->chunk.dims[0];
    struct bench_stages stages;

    chunks->params.pipeline = TERP_PIPELINE_HUFFMAN;
    double histogram_s = time_histogram(chunks, &stages);
    print_us(extent, "device", "histograms and costs of tiles", histogram_s);
    bench_stages_run(&stages, histogram);
    print_us(extent, "device", "select entries",
             bench_stages_time_all(&stages, select_entries));
    uint64_t nvalues = stages.batch->nvalues;
    uint16_t *symbols = (uint16_t *)bench_stages_region(
        &stages, stages.batch->at.symbols, nvalues * sizeof *symbols);
    bench_stages_end(&stages);

    struct books_times times = books_time_host(symbols, nvalues);
    print_us(extent, "host", "costs of tiles and select entries",
             times.select_s);
    print_us(extent, "host", "build a code", times.build_s);
    free(symbols);
}

/* ---- whole chunks ---- */

static void
time_encode(void *arg, uint64_t i)
{
    struct bench_chunks *chunks = (struct bench_chunks *)arg;

    bench_encode(chunks, i % chunks->nsets, TERP_ENGINE_CUDA);
}

static void
time_decode(void *arg, uint64_t i)
{
    struct bench_chunks *chunks = (struct bench_chunks *)arg;

    bench_decode(chunks, i % chunks->nsets, TERP_ENGINE_CUDA);
}

static void
measure_whole(struct bench_chunks *chunks, enum terp_pipeline pipeline,
              const char *name)
{
    uint64_t extent = chunks->chunk.dims[0];
    char what[64];

    chunks->params.pipeline = pipeline;
    snprintf(what, sizeof what, "compress a chunk (%s)", name);
    print_us(extent, "device", what, bench_time(time_encode, chunks).median_s);
    snprintf(what, sizeof what, "decompress a chunk (%s)", name);
    print_us(extent, "device", what, bench_time(time_decode, chunks).median_s);
}

int
main(int argc, char **argv)
{
    if (argc != 2)
        bench_fail("usage", "cuda_books FIELD_NxNxN.f32");
    struct bench_field field = bench_field_read(argv[1]);
    puts("extent,where,what,us");
    for (uint64_t extent : extents) {
        if (extent > field.extent)
            continue;
        struct bench_chunks chunks = bench_chunks_make(
            &field, TERP_FLOAT32, extent, 1, 1, TERP_MEMORY_DEVICE);
        measure_whole(&chunks, TERP_PIPELINE_HUFFMAN, "huffman");
        measure_device(&chunks);
        bench_chunks_free(&chunks);
    }
    free(field.values);
    return EXIT_SUCCESS;
}

/* Measures whether it pays to compress the messages of MPI processes, for
 * point-to-point messages and for a scatter, as Shah et al. did (Lightweight
 * Huffman Coding for Efficient GPU Compression, ICS 2023, section 5).
 *
 *     mpirun -n 2 mpi_messages [PIPELINE [ENGINE [MAX_MIB [FIELD]]]]
 *
 * PIPELINE: ratio (default) or huffman. ENGINE: cpu (default) or cuda. MAX_MIB:
 * the largest message, 64 by default. FIELD: a file of 256^3 float32 values; a
 * formula by default. Prints CSV with the columns of `head`.
 *
 * In the ring, every process sends a block of the field to the next process.
 * In the scatter, the first process has a block for each process, and
 * compresses one block after another. Processes of one machine send through its
 * memory, which is faster than any codec. So `pays_below_gb_s` is computed from
 * the codec's time and the bytes: compression pays where the network carries
 * less than this from a process in a second. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terp.h"

#define FIELD_DIM 256 /* values along each dimension: the largest message */
#define RELATIVE_BOUND 1e-3 /* of the range of a message */
#define NREPS 7             /* exchanges; the median of their times counts */

static const char head[] =
    "operation,processes,pipeline,engine,message_mib,ratio,plain_ms,encode_ms,"
    "transfer_ms,decode_ms,total_ms,speedup,pays_below_gb_s";

/* 1 to 64 MiB. */
static const uint64_t shapes[][3] = {
    {64, 64, 64},    {64, 64, 128},   {64, 128, 128},  {128, 128, 128},
    {128, 128, 256}, {128, 256, 256}, {256, 256, 256},
};

static int process, nprocesses;

/* One size of message, the same for all processes. */
struct message {
    struct terp_chunk chunk;
    struct terp_params params;
    struct terp_run_options run;
    struct terp_run_result result;
    uint64_t nbytes, cap_nbytes;
    float *values, *received;
    uint8_t *all; /* on the first process: the values for all processes */
    uint8_t *stream, *received_stream; /* streams for all processes */
    int *stream_nbytes, *stream_at;    /* of each process */
};

/* The timed steps, in the order of one exchange. */
enum {
    PLAIN,
    ENCODE,
    TRANSFER,
    DECODE,
    NTIMES
};

static void
need(int done, const char *what)
{
    if (done)
        return;
    fprintf(stderr, "mpi_messages: cannot %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *
allocate(uint64_t nbytes)
{
    void *memory = malloc(nbytes);
    need(memory != NULL, "get memory");
    return memory;
}

static float *
make_field(const char *path)
{
    const size_t n = FIELD_DIM;
    float *field = allocate(n * n * n * sizeof *field);

    if (path != NULL) {
        FILE *file = fopen(path, "rb");
        need(file != NULL &&
                 fread(field, sizeof *field, n * n * n, file) == n * n * n,
             "read the field");
        fclose(file);
        return field;
    }
    for (size_t i = 0; i < n * n * n; i++) {
        double x = (double)(i % n), y = (double)(i / n % n);
        double z = (double)(i / n / n);
        field[i] = (float)(sin(0.11 * x + 0.02 * z) * cos(0.07 * y) +
                           0.3 * sin(0.09 * z * cos(0.01 * x)));
    }
    return field;
}

static void
make_message(const float *field, const uint64_t *dims,
             enum terp_pipeline pipeline, enum terp_engine_kind engine,
             struct message *message_ret)
{
    struct message m = {
        .params = {.bound_mode = TERP_BOUND_RELATIVE,
                   .bound = RELATIVE_BOUND,
                   .pipeline = pipeline},
        .run = {.engine = engine, .nthreads = 1},
    };
    const size_t row = (size_t)dims[2];

    need(terp_chunk_make(TERP_FLOAT32, 3, dims, &m.chunk) == TERP_OK,
         "describe the message");
    m.nbytes = terp_chunk_nbytes(&m.chunk);
    /* MPI counts the bytes of all streams together in an int. */
    m.cap_nbytes = terp_encode_bound(&m.chunk);
    need(m.cap_nbytes * (uint64_t)nprocesses <= INT32_MAX, "send that much");
    m.values = allocate(m.nbytes);
    m.received = allocate(m.nbytes);
    m.all = process == 0 ? allocate(m.nbytes * (uint64_t)nprocesses) : NULL;
    m.stream = allocate(m.cap_nbytes * (uint64_t)nprocesses);
    m.received_stream = allocate(m.cap_nbytes);
    m.stream_nbytes = allocate((uint64_t)nprocesses * sizeof(int));
    m.stream_at = allocate((uint64_t)nprocesses * sizeof(int));
    for (int p = 0; p < nprocesses; p++)
        m.stream_at[p] = (int)(m.cap_nbytes * (uint64_t)p);
    for (uint64_t z = 0; z < dims[0]; z++)
        for (uint64_t y = 0; y < dims[1]; y++)
            memcpy(m.values + (z * dims[1] + y) * row,
                   field + (z * FIELD_DIM + y) * FIELD_DIM,
                   row * sizeof(float));
    for (int p = 0; process == 0 && p < nprocesses; p++)
        memcpy(m.all + m.nbytes * (uint64_t)p, m.values, m.nbytes);
    *message_ret = m;
}

static void
free_message(struct message *m)
{
    free(m->values);
    free(m->received);
    free(m->all);
    free(m->stream);
    free(m->received_stream);
    free(m->stream_nbytes);
    free(m->stream_at);
}

static void
encode(struct message *m, int nth_stream)
{
    const void *src = m->values;
    void *dst = m->stream + m->stream_at[nth_stream];
    uint64_t nbytes;

    need(terp_encode_batch(&m->run, &m->params, &m->chunk, 1, &src, &dst,
                           &nbytes, &m->result) == TERP_OK,
         "compress");
    m->stream_nbytes[nth_stream] = (int)nbytes;
}

static void
decode(struct message *m, int stream_nbytes)
{
    const void *src = m->received_stream;
    void *dst = m->received;
    uint64_t nbytes = (uint64_t)stream_nbytes;
    enum terp_status st;

    need(terp_decode_batch(&m->run, &m->chunk, 1, &src, &nbytes, &dst, &st,
                           &m->result) == TERP_OK,
         "decompress");
}

/* Every process sends to the next one. */
static void
send_ring(struct message *m)
{
    MPI_Sendrecv(m->values, (int)m->nbytes, MPI_BYTE,
                 (process + 1) % nprocesses, 0, m->received, (int)m->nbytes,
                 MPI_BYTE, (process + nprocesses - 1) % nprocesses, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int
send_ring_streams(struct message *m)
{
    MPI_Status status;
    int received_nbytes;

    MPI_Sendrecv(
        m->stream, m->stream_nbytes[0], MPI_BYTE, (process + 1) % nprocesses, 0,
        m->received_stream, (int)m->cap_nbytes, MPI_BYTE,
        (process + nprocesses - 1) % nprocesses, 0, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &received_nbytes);
    return received_nbytes;
}

/* The first process sends to every process, including itself. */
static void
send_scatter(struct message *m)
{
    MPI_Scatter(m->all, (int)m->nbytes, MPI_BYTE, m->received, (int)m->nbytes,
                MPI_BYTE, 0, MPI_COMM_WORLD);
}

static int
send_scatter_streams(struct message *m)
{
    int received_nbytes;

    MPI_Scatter(m->stream_nbytes, 1, MPI_INT, &received_nbytes, 1, MPI_INT, 0,
                MPI_COMM_WORLD);
    MPI_Scatterv(m->stream, m->stream_nbytes, m->stream_at, MPI_BYTE,
                 m->received_stream, received_nbytes, MPI_BYTE, 0,
                 MPI_COMM_WORLD);
    return received_nbytes;
}

struct operation {
    const char *name;
    bool from_first; /* the first process encodes for all */
    void (*send)(struct message *m);
    int (*send_streams)(struct message *m); /* returns bytes received */
};

static const struct operation operations[] = {
    {"ring", false, send_ring, send_ring_streams},
    {"scatter", true, send_scatter, send_scatter_streams},
};

/* A step begins at the same time on all processes, so that its time does not
 * include the wait for a process that is slow in the step before. */
static double
start_step(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

/* Stores the seconds of repetition `nth`. */
static void
exchange(struct message *m, const struct operation *operation, int nth,
         double seconds[NTIMES][NREPS])
{
    double begin = start_step();
    operation->send(m);
    seconds[PLAIN][nth] = MPI_Wtime() - begin;

    begin = start_step();
    if (!operation->from_first)
        encode(m, 0);
    for (int p = 0; operation->from_first && process == 0 && p < nprocesses;
         p++)
        encode(m, p);
    seconds[ENCODE][nth] = MPI_Wtime() - begin;

    begin = start_step();
    int received_nbytes = operation->send_streams(m);
    seconds[TRANSFER][nth] = MPI_Wtime() - begin;

    begin = start_step();
    decode(m, received_nbytes);
    seconds[DECODE][nth] = MPI_Wtime() - begin;
}

/* Checks that the received values differ from the sent ones within the bound.
 */
static void
check(const struct message *m)
{
    size_t nvalues = m->nbytes / sizeof(float);
    double low = INFINITY, high = -INFINITY, error = 0;

    for (size_t i = 0; i < nvalues; i++) {
        low = fmin(low, (double)m->values[i]);
        high = fmax(high, (double)m->values[i]);
        error =
            fmax(error, fabs((double)m->values[i] - (double)m->received[i]));
    }
    need(error <= RELATIVE_BOUND * (high - low), "keep the bound");
}

static int
compare_numbers(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return first < second ? -1 : first > second;
}

/* Median over the repetitions of the slowest process's time. */
static double
summarize(double *seconds)
{
    MPI_Allreduce(MPI_IN_PLACE, seconds, NREPS, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    qsort(seconds, NREPS, sizeof *seconds, compare_numbers);
    return seconds[NREPS / 2];
}

static void
measure(const struct operation *operation, struct message *m,
        const char *pipeline, const char *engine)
{
    double seconds[NTIMES][NREPS], t[NTIMES];

    /* A first exchange, not timed: touches memory and opens the device. */
    exchange(m, operation, 0, seconds);
    check(m);
    for (int i = 0; i < NREPS; i++)
        exchange(m, operation, i, seconds);
    for (int i = 0; i < NTIMES; i++)
        t[i] = summarize(seconds[i]);
    if (process != 0)
        return;
    need(strcmp(engine, "cuda") != 0 || m->result.used == TERP_ENGINE_CUDA,
         "use the GPU");
    double total = t[ENCODE] + t[TRANSFER] + t[DECODE];
    /* Messages that leave a process: in a scatter, all but its own. */
    double nsent = operation->from_first ? nprocesses - 1 : 1;
    double saved_nbytes =
        nsent * (double)(m->nbytes - (uint64_t)m->stream_nbytes[0]);
    printf("%s,%d,%s,%s,%g,%.1f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f\n",
           operation->name, nprocesses, pipeline, engine,
           (double)m->nbytes / (1 << 20),
           (double)m->nbytes / m->stream_nbytes[0], 1e3 * t[PLAIN],
           1e3 * t[ENCODE], 1e3 * t[TRANSFER], 1e3 * t[DECODE], 1e3 * total,
           t[PLAIN] / total, 1e-9 * saved_nbytes / (t[ENCODE] + t[DECODE]));
    fflush(stdout);
}

/* The number of `text` among the first `nnames` names. */
static int
find_name(const char *const *names, int nnames, const char *text)
{
    for (int i = 0; i < nnames; i++)
        if (names[i] != NULL && strcmp(names[i], text) == 0)
            return i;
    need(0, "read the command line: [PIPELINE [ENGINE [MAX_MIB [FIELD]]]]");
    return 0;
}

int
main(int argc, char **argv)
{
    static const char *const pipelines[] = {
        [TERP_PIPELINE_HUFFMAN] = "huffman", [TERP_PIPELINE_RATIO] = "ratio"};
    static const char *const engines[] = {
        [TERP_ENGINE_CPU] = "cpu", [TERP_ENGINE_CUDA] = "cuda"};
    const char *pipeline = argc > 1 ? argv[1] : "ratio";
    const char *engine = argc > 2 ? argv[2] : "cpu";
    double max_mib = argc > 3 ? atof(argv[3]) : 64;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocesses);
    need(nprocesses > 1, "send to another process: there is one only");
    int pipeline_id =
        find_name(pipelines, sizeof pipelines / sizeof *pipelines, pipeline);
    int engine_id =
        find_name(engines, sizeof engines / sizeof *engines, engine);
    float *field = make_field(argc > 4 ? argv[4] : NULL);

    if (process == 0)
        puts(head);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct message message;
        if ((double)(shapes[i][0] * shapes[i][1] * shapes[i][2] *
                     sizeof(float)) > max_mib * (1 << 20))
            break;
        make_message(field, shapes[i], (enum terp_pipeline)pipeline_id,
                     (enum terp_engine_kind)engine_id, &message);
        for (size_t o = 0; o < sizeof operations / sizeof *operations; o++)
            measure(&operations[o], &message, pipeline, engine);
        free_message(&message);
    }
    free(field);
    MPI_Finalize();
    return 0;
}

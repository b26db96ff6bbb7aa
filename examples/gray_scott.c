/* A small simulation that writes its output through the terp filter.
 *
 * Two substances diffuse and react in a periodic box (P. Gray and S. K.
 * Scott, 1984; the patterns are J. E. Pearson's, Science 261, 1993):
 *
 *     du/dt = Du lap(u) - u v^2 + F (1 - u)
 *     dv/dt = Dv lap(v) + u v^2 - (F + k) v
 *
 * With the seven-point Laplacian on a grid of spacing 1, forward Euler is
 * stable for dt <= 1 / (6 Du). The program links no library of terp: HDF5 finds
 * the filter by its number, through HDF5_PLUGIN_PATH. */
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5z_terp.h"

/* Du, Dv, F, k and dt of the equations. */
#define DIFFUSION_U 0.16
#define DIFFUSION_V 0.08
#define FEED 0.035
#define KILL 0.060
#define TIME_STEP 0.5

#define NDROPS 12            /* drops of v at the start */
#define LARGEST_CHUNK_DIM 64 /* a larger chunk hardly gives a better ratio */

struct run {
    int size; /* points along each of three dimensions */
    int nsteps;
    int noutputs; /* spread evenly over the steps, the last after all steps */
    double relative_bound; /* 0: uncompressed */
};

struct state {
    float *u, *v;
};

/* A box of u with drops of v, at the same positions in every run. */
static void
start(const struct run *run, struct state *state)
{
    int n = run->size;
    double drop[NDROPS][3];
    double radius = n / 16.0;
    unsigned random = 1;

    for (int s = 0; s < NDROPS; s++)
        for (int d = 0; d < 3; d++) {
            random = random * 1664525u + 1013904223u;
            drop[s][d] = (double)(random >> 8) / (1 << 24) * n;
        }
    for (int z = 0; z < n; z++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++) {
                size_t at =
                    ((size_t)z * (size_t)n + (size_t)y) * (size_t)n + (size_t)x;
                double amount = 0;
                for (int s = 0; s < NDROPS; s++) {
                    /* Distance to the drop's nearest periodic image. */
                    double dz = remainder(z - drop[s][0], n);
                    double dy = remainder(y - drop[s][1], n);
                    double dx = remainder(x - drop[s][2], n);
                    amount += exp(-(dx * dx + dy * dy + dz * dz) /
                                  (2 * radius * radius));
                }
                amount = fmin(amount, 1);
                state->u[at] = (float)(1 - 0.5 * amount);
                state->v[at] = (float)(0.25 * amount);
            }
}

static void
step(int size, const struct state *now, struct state *next)
{
    const float du = (float)DIFFUSION_U, dv = (float)DIFFUSION_V;
    const float feed = (float)FEED, decay = (float)(FEED + KILL);
    const float dt = (float)TIME_STEP;
    size_t n = (size_t)size;

    for (size_t z = 0; z < n; z++)
        for (size_t y = 0; y < n; y++) {
            /* Rows of the point's neighbours along z and y. */
            size_t row = (z * n + y) * n;
            size_t below = ((z + n - 1) % n * n + y) * n;
            size_t above = ((z + 1) % n * n + y) * n;
            size_t front = (z * n + (y + n - 1) % n) * n;
            size_t back = (z * n + (y + 1) % n) * n;
            for (size_t x = 0; x < n; x++) {
                size_t left = row + (x == 0 ? n - 1 : x - 1);
                size_t right = row + (x == n - 1 ? 0 : x + 1);
                float u = now->u[row + x], v = now->v[row + x];
                float lap_u = now->u[left] + now->u[right] + now->u[front + x] +
                              now->u[back + x] + now->u[below + x] +
                              now->u[above + x] - 6 * u;
                float lap_v = now->v[left] + now->v[right] + now->v[front + x] +
                              now->v[back + x] + now->v[below + x] +
                              now->v[above + x] - 6 * v;
                float reaction = u * v * v;
                next->u[row + x] =
                    u + dt * (du * lap_u - reaction + feed * (1 - u));
                next->v[row + x] = v + dt * (dv * lap_v + reaction - decay * v);
            }
        }
}

static void
need(long long result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "gray_scott: cannot %s\n", what);
    exit(1);
}

static void
write_number(hid_t object, const char *name, double value)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(object, name, H5T_IEEE_F64LE, space,
                                 H5P_DEFAULT, H5P_DEFAULT);
    need(H5Awrite(attribute, H5T_NATIVE_DOUBLE, &value), "write an attribute");
    H5Aclose(attribute);
    H5Sclose(space);
}

/* Datasets are stored in compressed cubes of at most 64^3 points. */
static hid_t
make_dcpl(const struct run *run)
{
    hsize_t dim = (hsize_t)(run->size < LARGEST_CHUNK_DIM ? run->size
                                                          : LARGEST_CHUNK_DIM);
    hsize_t chunk[3] = {dim, dim, dim};
    struct H5Z_terp_config config = {.bound_mode = H5Z_TERP_RELATIVE,
                                     .bound = run->relative_bound};
    unsigned cd_values[H5Z_TERP_MAX_NWORDS];
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    H5Pset_chunk(dcpl, 3, chunk);
    if (run->relative_bound > 0) {
        need(H5Zfilter_avail(H5Z_FILTER_TERP) > 0 ? 0 : -1,
             "find the terp filter: HDF5_PLUGIN_PATH must name the directory "
             "that holds it");
        /* All that a simulation adds. H5Pset_terp_rel() does the same. */
        size_t nwords = H5Z_terp_cd_values(&config, cd_values);
        need(H5Pset_filter(dcpl, H5Z_FILTER_TERP, H5Z_FLAG_MANDATORY, nwords,
                           cd_values),
             "add the terp filter");
    }
    return dcpl;
}

static void
write_field(hid_t group, const char *name, const char *description,
            const struct run *run, const float *values)
{
    hsize_t size = (hsize_t)run->size, dims[3] = {size, size, size};
    hid_t space = H5Screate_simple(3, dims, NULL);
    hid_t dcpl = make_dcpl(run);
    hid_t field = H5Dcreate2(group, name, H5T_IEEE_F32LE, space, H5P_DEFAULT,
                             dcpl, H5P_DEFAULT);
    hid_t text = H5Tcopy(H5T_C_S1), scalar = H5Screate(H5S_SCALAR);

    need(field, "create a dataset");
    need(H5Dwrite(field, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                  values),
         "write a dataset");
    H5Tset_size(text, strlen(description));
    hid_t attribute = H5Acreate2(field, "description", text, scalar,
                                 H5P_DEFAULT, H5P_DEFAULT);
    need(H5Awrite(attribute, text, description), "write an attribute");
    H5Aclose(attribute);
    H5Sclose(scalar);
    H5Tclose(text);
    H5Dclose(field);
    H5Pclose(dcpl);
    H5Sclose(space);
}

static void
write_output(hid_t file, const struct run *run, int nth_step,
             const struct state *state)
{
    char name[32];

    snprintf(name, sizeof name, "step_%06d", nth_step);
    hid_t group = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    need(group, "create a group");
    write_number(group, "time", nth_step * TIME_STEP);
    write_field(group, "u", "concentration of the substance fed", run,
                state->u);
    write_field(group, "v", "concentration of the substance produced", run,
                state->v);
    H5Gclose(group);
}

static void
simulate(const struct run *run, hid_t file, struct state *now,
         struct state *next)
{
    int nwritten = 0;

    start(run, now);
    for (int i = 1; i <= run->nsteps; i++) {
        step(run->size, now, next);
        struct state swap = *now;
        *now = *next;
        *next = swap;
        if ((long long)i * run->noutputs / run->nsteps > nwritten) {
            write_output(file, run, i, now);
            nwritten++;
        }
    }
}

static int
usage(void)
{
    fprintf(stderr,
            "usage: gray_scott FILE [SIZE [STEPS [OUTPUTS [BOUND]]]]\n"
            "Simulates a box of SIZE^3 points (64) for STEPS steps (400), and "
            "writes OUTPUTS\n"
            "times (4) to FILE through the terp filter, with the relative "
            "bound BOUND (1e-3).\n"
            "BOUND 0 writes uncompressed data without the filter.\n");
    return 2;
}

int
main(int argc, char **argv)
{
    if (argc < 2 || argc > 6 || argv[1][0] == '-')
        return usage();
    struct run run = {.size = argc > 2 ? atoi(argv[2]) : 64,
                      .nsteps = argc > 3 ? atoi(argv[3]) : 400,
                      .noutputs = argc > 4 ? atoi(argv[4]) : 4,
                      .relative_bound = argc > 5 ? atof(argv[5]) : 1e-3};
    if (run.size < 3 || run.size > 1024 || run.nsteps < 1 || run.noutputs < 1 ||
        run.noutputs > run.nsteps || !(run.relative_bound >= 0))
        return usage();

    size_t nvalues = (size_t)run.size * (size_t)run.size * (size_t)run.size;
    float *values = malloc(4 * nvalues * sizeof *values);
    if (values == NULL) {
        fprintf(stderr, "gray_scott: not enough memory\n");
        return 1;
    }
    struct state now = {values, values + nvalues};
    struct state next = {values + 2 * nvalues, values + 3 * nvalues};

    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    need(file, "create the file");
    write_number(file, "diffusion_u", DIFFUSION_U);
    write_number(file, "diffusion_v", DIFFUSION_V);
    write_number(file, "feed", FEED);
    write_number(file, "kill", KILL);
    write_number(file, "time_step", TIME_STEP);
    simulate(&run, file, &now, &next);
    need(H5Fclose(file), "complete the file");
    free(values);
    return 0;
}

/* Writes a field with ADIOS2, compressed by terp, and reads it back:
 *
 *   ADIOS2_PLUGIN_PATH=/usr/local/lib ./adios2_write field.bp 1e-3
 *
 * Each step has two blocks, as two ranks would write them. The program ends
 * with status 1 if an error exceeds the bound. */
#include <adios2.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

static const std::size_t nx = 40, ny = 50, nz = 60;
static const std::size_t nsteps = 3;

static double
value(std::size_t step, std::size_t i)
{
    const double x = static_cast<double>(i / (ny * nz)),
                 y = static_cast<double>(i / nz % ny),
                 z = static_cast<double>(i % nz);

    return std::sin(0.1 * x + 0.2 * static_cast<double>(step)) *
               std::cos(0.2 * y) +
           0.01 * z;
}

static void
write(adios2::ADIOS &adios, const std::string &path, const std::string &bound)
{
    adios2::IO io = adios.DeclareIO("writer");
    io.SetEngine("BP5");
    auto rho = io.DefineVariable<double>("rho", {2 * nx, ny, nz}, {0, 0, 0},
                                         {nx, ny, nz});
    rho.AddOperation("plugin", {{"PluginName", "terp"},
                                {"PluginLibrary", "terp_adios2"},
                                {"abs", bound}});
    adios2::Engine engine = io.Open(path, adios2::Mode::Write);
    for (std::size_t step = 0; step < nsteps; step++) {
        engine.BeginStep();
        for (std::size_t block = 0; block < 2; block++) {
            std::vector<double> values(nx * ny * nz);
            for (std::size_t i = 0; i < values.size(); i++)
                values[i] = value(step, block * values.size() + i);
            rho.SetSelection({{block * nx, 0, 0}, {nx, ny, nz}});
            engine.Put(rho, values.data(), adios2::Mode::Sync);
        }
        engine.EndStep();
    }
    engine.Close();
}

/* The largest error. Reading needs no parameters: each block names its
 * operator. */
static double
read(adios2::ADIOS &adios, const std::string &path)
{
    adios2::IO io = adios.DeclareIO("reader");
    adios2::Engine engine = io.Open(path, adios2::Mode::Read);
    double error = 0;

    for (std::size_t step = 0; engine.BeginStep() == adios2::StepStatus::OK;
         step++) {
        auto rho = io.InquireVariable<double>("rho");
        std::vector<double> values(2 * nx * ny * nz);
        engine.Get(rho, values.data(), adios2::Mode::Sync);
        engine.EndStep();
        for (std::size_t i = 0; i < values.size(); i++)
            error = std::max(error, std::fabs(values[i] - value(step, i)));
    }
    engine.Close();
    return error;
}

int
main(int argc, char **argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: adios2_write FILE BOUND\n");
        return 2;
    }
    try {
        adios2::ADIOS adios;
        write(adios, argv[1], argv[2]);
        const double error = read(adios, argv[1]);
        std::printf("largest error %g, bound %s\n", error, argv[2]);
        return error <= std::stod(argv[2]) ? 0 : 1;
    } catch (const std::exception &problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 1;
    }
}

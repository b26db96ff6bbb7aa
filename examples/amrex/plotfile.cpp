// Writes a plotfile of two levels through AMReX, with five components of very
// different ranges. Boxes have one size; with boxes=mixed, several sizes on
// level 1.
//
//     mpiexec -n 2 plotfile name=plt layout=multi boxes=mixed ncells=128
//         compression=TERP_REL@1e-3 [particles=100000]
//
// examples/amrex/check.py compares two of these files.
#include <AMReX.H>
#include <AMReX_MultiFab.H>
#include <AMReX_ParmParse.H>
#include <AMReX_Particles.H>
#include <AMReX_PlotFileUtil.H>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

using namespace amrex;

static const std::array<Real, 5> scales = {1.0, 1e7, 1e-9, 1e9, 1.0};
static const std::array<Real, 5> offsets = {2.0, 3e7, 0.0, 0.0, 0.0};

static Real
value(int component, Real x, Real y, Real z)
{
    Real wave = 0;
    for (int k = 1; k <= 16; k *= 2) // smaller waves are weaker
        wave += std::pow(k, -1.5) * std::sin(6.3 * k * x + component) *
                std::cos(5.9 * k * y - component) *
                std::sin(6.1 * k * z + 9 * x * y);
    if (component == 4)
        wave = std::max(wave, 0.0); // many values are 0
    return offsets[component] + scales[component] * wave;
}

// Boxes with sides of 8, 16 or 32 cells, as from AMReX's clustering of cells.
static BoxArray
mixed_boxes(const Box &region)
{
    const int sides[] = {8, 16, 32};
    unsigned state = 3;
    auto side = [&](int left) {
        state = state * 1103515245u + 12345u;
        return std::min(left, sides[(state >> 16) % 3]);
    };
    const IntVect end = region.bigEnd() + 1;
    BoxList boxes;
    int dz, dy, dx;
    for (int z = region.smallEnd(2); z < end[2]; z += dz) {
        dz = side(end[2] - z);
        for (int y = region.smallEnd(1); y < end[1]; y += dy) {
            dy = side(end[1] - y);
            for (int x = region.smallEnd(0); x < end[0]; x += dx) {
                dx = side(end[0] - x);
                boxes.push_back(
                    Box(IntVect(x, y, z),
                        IntVect(x + dx - 1, y + dy - 1, z + dz - 1)));
            }
        }
    }
    return BoxArray(boxes);
}

static BoxArray
equal_boxes(const Box &region)
{
    BoxArray boxes(region);
    boxes.maxSize(32);
    return boxes;
}

static MultiFab
fields(const BoxArray &boxes, const Geometry &geometry)
{
    MultiFab fab(boxes, DistributionMapping(boxes), int(scales.size()), 0);
    const auto size = geometry.CellSizeArray();
    for (MFIter it(fab); it.isValid(); ++it) {
        const auto cells = fab.array(it);
        LoopOnCpu(it.validbox(), int(scales.size()),
                  [&](int i, int j, int k, int n) {
                      cells(i, j, k, n) =
                          value(n, (i + 0.5) * size[0], (j + 0.5) * size[1],
                                (k + 0.5) * size[2]);
                  });
    }
    return fab;
}

static void
write_particles(const std::string &name, const Geometry &geometry,
                const MultiFab &fab, Long count, const std::string &compression)
{
    using Particles = ParticleContainer<4, 0>;
    Particles particles(geometry, fab.DistributionMap(), fab.boxArray());
    Particles::ParticleInitData data = {{{1.0, 2.0, 3.0, 4.0}}, {}, {}, {}};
    particles.InitRandom(count, 451, data, false);
    for (ParIter<4, 0> it(particles, 0); it.isValid(); ++it) {
        auto &tile = it.GetArrayOfStructs();
        for (auto &particle : tile)
            for (int n = 0; n < 4; n++)
                particle.rdata(n) =
                    value(n, particle.pos(0), particle.pos(1), particle.pos(2));
    }
    particles.CheckpointHDF5(name, "particles", false, {"a", "b", "c", "d"}, {},
                             compression);
}

static void
write()
{
    std::string name = "plt", layout = "multi", boxes = "mixed";
    std::string compression = "None@0";
    int ncells = 128;
    Long nparticles = 0;
    ParmParse input;
    input.query("name", name);
    input.query("layout", layout);
    input.query("boxes", boxes);
    input.query("compression", compression);
    input.query("ncells", ncells);
    input.query("particles", nparticles);

    const Box domain(IntVect(0), IntVect(ncells - 1));
    const Box middle(IntVect(ncells / 2), IntVect(ncells / 2 + ncells - 1));
    const RealBox cube({0, 0, 0}, {1, 1, 1});
    const Vector<Geometry> geometry = {
        Geometry(domain, cube, CoordSys::cartesian, {0, 0, 0}),
        Geometry(refine(domain, 2), cube, CoordSys::cartesian, {0, 0, 0})};
    MultiFab coarse = fields(equal_boxes(domain), geometry[0]);
    MultiFab fine =
        fields(boxes == "mixed" ? mixed_boxes(middle) : equal_boxes(middle),
               geometry[1]);
    const Vector<const MultiFab *> levels = {&coarse, &fine};
    const Vector<std::string> names = {"density", "Temp", "phi", "xmom",
                                       "tracer"};

    const auto begin = std::chrono::steady_clock::now();
    if (layout == "multi")
        WriteMultiLevelPlotfileHDF5MultiDset(name, 2, levels, names, geometry,
                                             0.0, {0, 0}, {IntVect(2)},
                                             compression);
    else
        WriteMultiLevelPlotfileHDF5SingleDset(name, 2, levels, names, geometry,
                                              0.0, {0, 0}, {IntVect(2)},
                                              compression);
    const std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - begin;
    Print() << "seconds " << taken.count() << "\n";
    if (nparticles > 0)
        write_particles(name + "_particles", geometry[0], coarse, nparticles,
                        compression);
}

int
main(int argc, char *argv[])
{
    Initialize(argc, argv);
    write();
    Finalize();
}

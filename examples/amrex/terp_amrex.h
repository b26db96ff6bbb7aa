// terp in the functions of AMReX that write plotfiles in HDF5. A copy of
// AMReX's AMReX_PlotFileUtilHDF5.cpp includes this file, and calls one of the
// two functions before a dataset is created (doc/simulations.md tells where).
//
// A compression of "TERP_REL@1e-3" bounds each error by 1e-3 of the range of
// its component, "TERP_PWR@1e-3" by 1e-3 of the value itself.
#ifndef TERP_AMREX_H
#define TERP_AMREX_H

#include <AMReX_BoxArray.H>
#include <AMReX_MultiFab.H>
#include <h5z_terp.h>

#include <cmath>
#include <numeric>
#include <string>

namespace terp
{

// AMReX prints HDF5's errors and goes on. A run whose output cannot be written
// ends here.
inline void
check(herr_t status)
{
    if (status < 0)
        amrex::Abort("terp: no filter; is the folder of its plugin in "
                     "HDF5_PLUGIN_PATH?");
}

// For a dataset of one component (multi dset): `mode` and `bound` stand before
// and after the "@", `data` are the cells of the level. Collective, since the
// range is that of all processes. A component that is not finite is lossless.
inline void
compress_component(hid_t dcpl, const std::string &mode, double bound,
                   const amrex::MultiFab &data, int component)
{
    if (mode == "TERP_PWR") {
        H5Premove_filter(dcpl, H5Z_FILTER_ALL);
        check(H5Pset_terp_pwr(dcpl, bound));
    } else if (mode == "TERP_REL") {
        const double range = data.max(component) - data.min(component);
        H5Premove_filter(dcpl, H5Z_FILTER_ALL);
        check(std::isfinite(range) && range > 0
                  ? H5Pset_terp_abs(dcpl, bound * range)
                  : H5Pset_terp_lossless(dcpl));
    }
}

// For a dataset of all components of a level (single dset): no chunk may hold
// values of two components, or its range is that of both, so that chunks are as
// long as the greatest common divisor of the boxes.
inline void
compress_level(hid_t dcpl, const std::string &mode, double bound,
               const amrex::BoxArray &boxes)
{
    if (mode == "TERP_PWR") {
        H5Premove_filter(dcpl, H5Z_FILTER_ALL);
        check(H5Pset_terp_pwr(dcpl, bound));
    } else if (mode == "TERP_REL") {
        hsize_t chunk = 0;
        for (int i = 0; i < boxes.size(); i++)
            chunk = std::gcd(chunk, hsize_t(boxes[i].numPts()));
        if (chunk < 512)
            amrex::Abort("terp: no chunk of 512 values or more divides the "
                         "boxes; write a dataset for each component");
        H5Pset_chunk(dcpl, 1, &chunk);
        H5Premove_filter(dcpl, H5Z_FILTER_ALL);
        check(H5Pset_terp_rel(dcpl, bound));
    }
}

} // namespace terp

#endif

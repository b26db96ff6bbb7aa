// Adds terp to AMReX's functions that write plotfiles in HDF5. A copy of
// AMReX's AMReX_PlotFileUtilHDF5.cpp includes this file, and calls one of the
// two functions before it creates a dataset (doc/simulations.md tells where).
//
// The compression "TERP_REL@1e-3" limits each error to 1e-3 of the component's
// range, and "TERP_PWR@1e-3" to 1e-3 of the value.
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

// Ends the run where the filter cannot be used, because AMReX itself prints
// HDF5's errors and continues.
inline void
check(herr_t status)
{
    if (status < 0)
        amrex::Abort("terp: HDF5 does not find the filter; add the folder of "
                     "the plugin to HDF5_PLUGIN_PATH");
}

// For a dataset of one component ("multi dset"). `mode` and `bound` are the
// texts before and after the "@"; `data` is the level's cells. Collective: the
// range is over all processes. Where the range is 0 or not finite, the
// component is compressed lossless.
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

// For a dataset of all components of a level ("single dset"). A chunk must not
// hold values of two components, because its range would be that of both. So
// the chunk's length is the greatest common divisor of the boxes' sizes.
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
            amrex::Abort("terp: chunks that divide all boxes have fewer than "
                         "512 values; write a dataset for each component");
        H5Pset_chunk(dcpl, 1, &chunk);
        H5Premove_filter(dcpl, H5Z_FILTER_ALL);
        check(H5Pset_terp_rel(dcpl, bound));
    }
}

} // namespace terp

#endif

// Writes a compressed dataset by h5cpp (that of ESS and DESY), and reads it.
//
//     h5cpp_write FILE
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include <h5cpp/hdf5.hpp>

#include <h5z_terp.h>

// A bound relative to each chunk's range. Other functions of h5z_terp.h set
// other bounds in the same way.
class TerpRel : public hdf5::filter::Filter
{
  public:
    explicit TerpRel(double bound)
        : hdf5::filter::Filter(H5Z_FILTER_TERP), bound_(bound)
    {
    }

    void operator()(const hdf5::property::DatasetCreationList &dcpl,
                    hdf5::filter::Availability) const override
    {
        if (H5Pset_terp_rel(static_cast<hid_t>(dcpl), bound_) < 0)
            throw std::runtime_error("HDF5 does not find terp: is "
                                     "HDF5_PLUGIN_PATH set?");
    }

  private:
    double bound_;
};

int
main(int argc, char **argv)
{
    const std::size_t n = 64;
    std::vector<float> field(n * n * n), got(n * n * n);

    if (argc != 2) {
        std::fputs("usage: h5cpp_write FILE\n", stderr);
        return 2;
    }
    for (std::size_t i = 0; i < field.size(); i++)
        field[i] =
            static_cast<float>(std::sin(0.1 * static_cast<double>(i % n)) *
                               std::cos(0.002 * static_cast<double>(i / n)));
    {
        hdf5::file::File file =
            hdf5::file::create(argv[1], hdf5::file::AccessFlags::Truncate);
        hdf5::property::DatasetCreationList dcpl;
        dcpl.layout(hdf5::property::DatasetLayout::Chunked);
        dcpl.chunk({n / 2, n, n});
        TerpRel(1e-3)(dcpl, hdf5::filter::Availability::Mandatory);
        hdf5::node::Dataset dataset(file.root(), "field",
                                    hdf5::datatype::create<float>(),
                                    hdf5::dataspace::Simple({n, n, n}),
                                    hdf5::property::LinkCreationList(), dcpl);
        dataset.write(field);
    }

    hdf5::file::File file =
        hdf5::file::open(argv[1], hdf5::file::AccessFlags::ReadOnly);
    hdf5::node::Dataset dataset = file.root().get_dataset("field");
    dataset.read(got);
    const auto ends = std::minmax_element(field.begin(), field.end());
    double largest = 0;
    for (std::size_t i = 0; i < field.size(); i++)
        largest = std::max(largest,
                           std::fabs(static_cast<double>(field[i]) - got[i]));
    const double ratio =
        static_cast<double>(field.size() * sizeof(float)) /
        static_cast<double>(H5Dget_storage_size(static_cast<hid_t>(dataset)));
    std::printf("ratio %.1f, largest error %.3g\n", ratio, largest);
    return largest <= 1e-3 * (*ends.second - *ends.first) && ratio > 4 ? 0 : 1;
}

// Writes a compressed dataset by HighFive, and reads it.
//
//     highfive_write FILE
//
// HighFive calls apply() of each property that is added to a creation list.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include <highfive/H5File.hpp>

#include <h5z_terp.h>

// A bound relative to each chunk's range. Other functions of h5z_terp.h set
// other bounds in the same way.
class TerpRel
{
  public:
    explicit TerpRel(double bound) : bound_(bound)
    {
    }

    void apply(hid_t dcpl) const
    {
        if (H5Pset_terp_rel(dcpl, bound_) < 0)
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
        std::fputs("usage: highfive_write FILE\n", stderr);
        return 2;
    }
    for (std::size_t i = 0; i < field.size(); i++)
        field[i] =
            static_cast<float>(std::sin(0.1 * static_cast<double>(i % n)) *
                               std::cos(0.002 * static_cast<double>(i / n)));

    {
        HighFive::File file(argv[1], HighFive::File::Truncate);
        HighFive::DataSetCreateProps props;
        props.add(HighFive::Chunking({n / 2, n, n}));
        props.add(TerpRel(1e-3));
        file.createDataSet<float>("field", HighFive::DataSpace({n, n, n}),
                                  props)
            .write_raw(field.data());
    }

    HighFive::File file(argv[1], HighFive::File::ReadOnly);
    HighFive::DataSet dataset = file.getDataSet("field");
    dataset.read_raw(got.data());
    const auto ends = std::minmax_element(field.begin(), field.end());
    double largest = 0;
    for (std::size_t i = 0; i < field.size(); i++)
        largest = std::max(largest,
                           std::fabs(static_cast<double>(field[i]) - got[i]));
    const double ratio = static_cast<double>(field.size() * sizeof(float)) /
                         static_cast<double>(dataset.getStorageSize());
    std::printf("ratio %.1f, largest error %.3g\n", ratio, largest);
    return largest <= 1e-3 * (*ends.second - *ends.first) && ratio > 4 ? 0 : 1;
}

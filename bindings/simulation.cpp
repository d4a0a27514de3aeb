#include <vector>

#include "arrays.h"
#include "petamap/simulation/noise.h"

namespace nb = nanobind;
using namespace petamap::bindings;
namespace simulation = petamap::simulation;

namespace {

simulation::Stream stream_of(const std::uint32_t* words) {
    return {{words[0], words[1], words[2], words[3]}};
}

void gaussians(In<std::uint32_t> words, std::int64_t group, Out<double> out) {
    require(words.shape(0) == 4 && out.shape(0) % simulation::kGroup == 0, "4 words, whole groups");
    const simulation::Stream stream = stream_of(words.data());
    nb::gil_scoped_release release;
    simulation::gaussian_groups(stream, group, out.shape(0) / simulation::kGroup, out.data());
}

void add_noise(In<double, 2> filters, In<double, 2> interpolation, In<std::uint32_t, 2> words,
               std::int64_t start, double scale, Out<double> out, int n_threads) {
    require(filters.shape(0) >= 1 && filters.shape(1) >= 1, "a filter a level");
    require(words.shape(0) == filters.shape(0) && words.shape(1) == 4, "a stream a level");
    require(interpolation.shape(0) == simulation::kTaps && interpolation.shape(1) == simulation::kFactor,
            "weights of the taps at each phase");
    std::vector<simulation::Stream> streams;
    for (std::size_t level = 0; level < words.shape(0); ++level)
        streams.push_back(stream_of(words.data() + 4 * level));
    const simulation::Cascade cascade{static_cast<std::int64_t>(filters.shape(0)),
                                      static_cast<std::int64_t>(filters.shape(1)) - 1, filters.data(),
                                      interpolation.data()};
    nb::gil_scoped_release release;
    simulation::add_noise(cascade, streams.data(), start, out.shape(0), scale, out.data(), n_threads);
}

}  // namespace

NB_MODULE(_simulation, module) {
    module.attr("GROUP") = simulation::kGroup;
    module.attr("FACTOR") = simulation::kFactor;
    module.attr("TAPS") = simulation::kTaps;
    module.def("gaussians", &gaussians, nb::arg("words").noconvert(), nb::arg("group"),
               nb::arg("out").noconvert());
    module.def("add_noise", &add_noise, nb::arg("filters").noconvert(), nb::arg("interpolation").noconvert(),
               nb::arg("words").noconvert(), nb::arg("start"), nb::arg("scale"), nb::arg("out").noconvert(),
               nb::arg("n_threads"));
}

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "../arrays.h"
#include "petamap/simulation/noise.h"
#include "petamap/simulation/philox.h"
#include "petamap/simulation/sky.h"

namespace nb = nanobind;
using namespace bindings;
namespace simulation = petamap::simulation;

namespace {

simulation::Stream stream_of(const std::uint32_t* words) {
    return {{words[0], words[1], words[2], words[3]}};
}

void gaussians(In<std::uint32_t> words, std::int64_t group, Out<double> out) {
    require(words.shape(0) == 4 && out.shape(0) % simulation::kGroup == 0, "4 words, whole groups");
    const simulation::Stream stream = stream_of(words.data());
    nb::gil_scoped_release release;
    simulation::draw_gaussians(stream, group, out.shape(0) / simulation::kGroup, out.data());
}

void add_noise(In<double, 2> filters, In<double, 2> interpolation, In<std::uint32_t, 2> words,
               std::int64_t start, double scale, Out<double> out, int n_threads) {
    require(filters.shape(0) >= 1 && filters.shape(0) <= 64 && filters.shape(1) >= 1,
            "filters: of 1 to 64 levels");
    require(start >= -(std::int64_t{1} << 60) && start <= std::int64_t{1} << 60, "start: up to 2^60");
    require_threads(n_threads);
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

template <typename T>
const T* data_or_null(const std::optional<In<T>>& array) {
    return array ? array->data() : nullptr;
}

void add_skies(const std::vector<In<double, 2>>& values, In<std::int32_t, 2> pixels,
               std::optional<In<double, 2>> weights, std::optional<In<std::uint32_t>> angles,
               std::optional<In<float>> gains, double intensity, double efficiency,
               const std::vector<Out<double>>& outs, int n_threads) {
    const std::size_t n = pixels.shape(0), n_neighbours = pixels.shape(1);
    require(n_neighbours == 1 || n_neighbours == 4, "one or four pixels a sample");
    require((!angles || angles->shape(0) == n) && (!gains || gains->shape(0) == n),
            "as many angles and gains as pixels");
    require(!weights || (weights->shape(0) == n && weights->shape(1) == n_neighbours), "a weight a pixel");
    require(values.size() == outs.size(), "a time stream a map");
    require_threads(n_threads);
    std::vector<simulation::SkyMap> maps;
    std::vector<double*> to;
    for (std::size_t k = 0; k < values.size(); ++k) {
        const std::size_t n_stokes = values[k].shape(1);
        require((n_stokes == 1 || n_stokes == 3) && n_stokes == values[0].shape(1),
                "one or three components, the same of all");
        require(angles || n_stokes == 1, "angles for polarization");
        require(outs[k].shape(0) == n, "as many samples as pixels");
        maps.push_back(
            {values[k].data(), static_cast<std::int64_t>(values[k].shape(0)), static_cast<int>(n_stokes)});
        to.push_back(outs[k].data());
    }
    const simulation::Samples samples{static_cast<std::int64_t>(n),
                                      static_cast<int>(n_neighbours),
                                      pixels.data(),
                                      weights ? weights->data() : nullptr,
                                      data_or_null(angles),
                                      data_or_null(gains),
                                      intensity,
                                      efficiency};
    nb::gil_scoped_release release;
    simulation::add_skies(maps.data(), static_cast<int>(maps.size()), samples, to.data(), n_threads);
}

void add_point_sources(In<double, 2> sources, In<double> amplitudes, In<double> sigmas,
                       In<double, 2> directions, std::optional<In<float>> gains, Out<double> out,
                       int n_threads) {
    require(sources.shape(1) == 3 && directions.shape(1) == 3, "vectors of three components");
    require(amplitudes.shape(0) == sources.shape(0) && sigmas.shape(0) == sources.shape(0),
            "an amplitude and a width a source");
    require(directions.shape(0) == out.shape(0) && (!gains || gains->shape(0) == out.shape(0)),
            "a direction and a gain a sample");
    require_threads(n_threads);
    const simulation::PointSources all{static_cast<std::int64_t>(sources.shape(0)), sources.data(),
                                       amplitudes.data(), sigmas.data()};
    nb::gil_scoped_release release;
    simulation::add_point_sources(all, directions.data(), data_or_null(gains), out.shape(0), out.data(),
                                  n_threads);
}

void philox4x32(In<std::uint32_t, 2> counters, In<std::uint32_t> key, Out<std::uint32_t, 2> out) {
    require(counters.shape(1) == 4 && out.shape(1) == 4 && key.shape(0) == 2, "4 words a counter, 2 a key");
    require(counters.shape(0) == out.shape(0), "as many outputs as counters");
    const std::uint32_t* in = counters.data();
    std::uint32_t* words = out.data();
    const simulation::PhiloxKey key_words{key.data()[0], key.data()[1]};
    nb::gil_scoped_release release;
    for (std::size_t i = 0; i < 4 * counters.shape(0); i += 4) {
        const auto block = simulation::philox4x32({in[i], in[i + 1], in[i + 2], in[i + 3]}, key_words);
        for (int word = 0; word < 4; ++word) words[i + word] = block[word];
    }
}

}  // namespace

NB_MODULE(_simulation, module) {
    module.def("philox4x32", bindings::apart(philox4x32), nb::arg("counters").noconvert(),
               nb::arg("key").noconvert(), nb::arg("out").noconvert());
    module.attr("GROUP") = simulation::kGroup;
    module.attr("FACTOR") = simulation::kFactor;
    module.attr("TAPS") = simulation::kTaps;
    module.def("gaussians", bindings::apart(gaussians), nb::arg("words").noconvert(), nb::arg("group"),
               nb::arg("out").noconvert());
    module.def("add_noise", bindings::apart(add_noise), nb::arg("filters").noconvert(),
               nb::arg("interpolation").noconvert(), nb::arg("words").noconvert(), nb::arg("start"),
               nb::arg("scale"), nb::arg("out").noconvert(), nb::arg("n_threads"));
    module.def("add_skies", bindings::apart(add_skies), nb::arg("values").noconvert(),
               nb::arg("pixels").noconvert(), nb::arg("weights").noconvert().none(),
               nb::arg("angles").noconvert().none(), nb::arg("gains").noconvert().none(),
               nb::arg("intensity"), nb::arg("efficiency"), nb::arg("outs").noconvert(),
               nb::arg("n_threads"));
    module.def("add_point_sources", bindings::apart(add_point_sources), nb::arg("sources").noconvert(),
               nb::arg("amplitudes").noconvert(), nb::arg("sigmas").noconvert(),
               nb::arg("directions").noconvert(), nb::arg("gains").noconvert().none(),
               nb::arg("out").noconvert(), nb::arg("n_threads"));
}

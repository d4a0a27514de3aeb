#include <nanobind/stl/optional.h>

#include "petamap/mapmaking/weights.h"
#include "petamap/planning/holders.h"
#include "petamap/planning/pixel_coverage.h"
#include "pointing_views.h"

namespace nb = nanobind;
using namespace bindings;
namespace planning = petamap::planning;

namespace {

// Regions that are summed have rows of hits and weights.
planning::RegionSums region_sums(const In<std::int32_t>& summed, int n_stokes, double scale,
                                 Out<std::int64_t, 2>& sums, int shift) {
    require(n_stokes >= 1 && n_stokes <= 3, "n_stokes: 1 to 3");
    require(length(sums.shape(1)) == petamap::mapmaking::weights_row(n_stokes), "sums: rows of weights");
    require(sums.shape(0) < std::size_t{1} << 31, "sums: up to 2^31 pixels");
    const auto n = static_cast<std::int64_t>(sums.shape(0) >> shift);
    for (std::size_t i = 0; i < summed.shape(0); ++i)
        require(summed.data()[i] < n, "sums: rows of all regions");
    return {summed.data(), n_stokes, scale, sums.data()};
}

// Detectors that look where each one does: of `alike` all of its line of sight, else it alone.
std::vector<std::vector<std::int64_t>> looking(const petamap::pointing::CompressedPointing& pointing,
                                               bool alike) {
    std::vector<std::vector<std::int64_t>> found(static_cast<std::size_t>(pointing.n_det));
    std::vector<std::vector<std::int64_t>> of_sights(found.size());
    for (std::int64_t d = 0; d < pointing.n_det; ++d)
        of_sights[static_cast<std::size_t>(pointing.sight_of[d])].push_back(d);
    for (std::int64_t d = 0; d < pointing.n_det; ++d) {
        auto& own = found[static_cast<std::size_t>(d)];
        own = {d};
        if (alike) own = of_sights[static_cast<std::size_t>(pointing.sight_of[d])];
    }
    return found;
}

// Rows of `ranges`: detector, start, stop; of `alike`, of all detectors of its line of sight. counts[i]
// pixels of range i stand in `seen`, one range after the other. Returns the samples outside the map that were
// seen on the way, where there are `sums`.
std::int64_t cover_pixels(const PointingArguments& arguments, In<double> grid_numbers, int shift,
                          In<std::int32_t> chosen, const PointingArguments& sparse_arguments,
                          In<double> scan_grid, std::optional<In<std::uint8_t>> near, std::int64_t stride,
                          In<std::int64_t, 2> ranges, Out<std::int32_t> seen, Out<std::int64_t> counts,
                          bool alike, std::optional<In<std::int32_t>> summed,
                          std::optional<Out<std::int64_t, 2>> sums, int n_stokes, double scale) {
    const auto pointing = compressed_pointing(arguments);
    const auto sparse = compressed_pointing(sparse_arguments);
    const auto grid = petamap::sky::Grid::from(grid_numbers.data(), grid_numbers.shape(0));
    planning::SparseScan scan{&sparse, petamap::sky::Grid::from(scan_grid.data(), scan_grid.shape(0)),
                              near ? near->data() : nullptr, stride};
    const planning::SkySample sample{shift, chosen.data()};
    require(ranges.shape(1) == 3 && counts.shape(0) == ranges.shape(0), "ranges of shape (n, 3)");
    require(stride >= 1 && shift >= 0 && shift < 31, "a stride and a shift");
    require(static_cast<std::int64_t>(chosen.shape(0)) == ((grid.n_pix - 1) >> shift) + 1, "all regions");
    require(!near || static_cast<std::int64_t>(near->shape(0)) == scan.grid.n_pix, "one flag a coarse pixel");
    require(summed.has_value() == sums.has_value(), "summed: with sums");
    require(!sums || summed->shape(0) == chosen.shape(0), "summed: all regions");
    planning::RegionSums totals;
    if (sums) totals = region_sums(*summed, n_stokes, scale, *sums, shift);
    const std::int64_t* rows = ranges.data();
    std::int64_t most = 0;
    for (std::size_t i = 0; i < ranges.shape(0); ++i) {
        const std::int64_t* row = rows + 3 * i;
        require(row[0] >= 0 && row[0] < pointing.n_det, "ranges: detectors that there are");
        require(!near || row[0] < sparse.n_det, "ranges: detectors of the sparse pointing");
        require(row[1] >= 0 && row[1] <= row[2] && row[2] <= pointing.n_samp,
                "ranges: samples that there are");
        most += row[2] - row[1];
        require(most <= length(seen.shape(0)), "seen: room for every sample");
    }
    std::int32_t* out = seen.data();
    std::int64_t* count = counts.data();
    const std::size_t n = ranges.shape(0);
    const auto detectors = looking(pointing, alike);
    nb::gil_scoped_release release;
    std::vector<std::int32_t> pixels;
    for (std::size_t i = 0; i < n; ++i) {
        const auto& own = detectors[static_cast<std::size_t>(rows[3 * i])];
        planning::cover_pixels(pointing, grid, sample, scan, own, rows[3 * i + 1], rows[3 * i + 2], pixels,
                               sums ? &totals : nullptr);
        out = std::copy(pixels.begin(), pixels.end(), out);
        count[i] = static_cast<std::int64_t>(pixels.size());
    }
    return totals.outside;
}

planning::HeldPixels held_pixels(const In<std::int32_t>& pixels, const In<std::int64_t>& ranks,
                                 const In<std::int64_t>& begins, const In<std::int64_t>& ends,
                                 std::int64_t n_pixels) {
    const std::size_t n = ranks.shape(0);
    require(begins.shape(0) == n && ends.shape(0) == n, "begins, ends: of each rank's run");
    for (std::size_t i = 0; i < n; ++i) {
        require(begins.data()[i] >= 0 && begins.data()[i] <= ends.data()[i] &&
                    ends.data()[i] <= length(pixels.shape(0)),
                "begins, ends: pixels that there are");
        require(ranks.data()[i] >= (i ? ranks.data()[i - 1] : 0) && ranks.data()[i] < std::int64_t{1} << 31,
                "ranks: increasing, less than 2^31");
    }
    for (std::size_t i = 0; i < pixels.shape(0); ++i)
        require(pixels.data()[i] >= 0 && pixels.data()[i] < n_pixels, "pixels: less than their number");
    return {pixels.data(), ranks.data(), begins.data(), ends.data(), length(n)};
}

// counts[p] ranks hold pixel p.
void count_holders(In<std::int32_t> pixels, In<std::int64_t> ranks, In<std::int64_t> begins,
                   In<std::int64_t> ends, Out<std::int64_t> counts) {
    const auto n = length(counts.shape(0));
    const auto held = held_pixels(pixels, ranks, begins, ends, n);
    nb::gil_scoped_release release;
    std::int64_t* count = counts.data();
    std::fill_n(count, n, 0);
    planning::for_each_holder(held, n, [&](std::int32_t pixel, std::int32_t) { ++count[pixel]; });
}

// The ranks that hold pixel p, increasing, go to holders[places[p]] and what follows; places[p] becomes
// their end.
void fill_holders(In<std::int32_t> pixels, In<std::int64_t> ranks, In<std::int64_t> begins,
                  In<std::int64_t> ends, Out<std::int64_t> places, Out<std::int32_t> holders) {
    const auto n = length(places.shape(0)), most = length(holders.shape(0));
    const auto held = held_pixels(pixels, ranks, begins, ends, n);
    for (std::int64_t i = 0; i < n; ++i) require(places.data()[i] >= 0, "places: not negative");
    bool fits = true;
    {
        nb::gil_scoped_release release;
        std::int64_t* place = places.data();
        std::int32_t* holder = holders.data();
        planning::for_each_holder(held, n, [&](std::int32_t pixel, std::int32_t rank) {
            if (place[pixel] < most)
                holder[place[pixel]++] = rank;
            else
                fits = false;
        });
    }
    require(fits, "holders: room for all");
}

}  // namespace

NB_MODULE(_planning, module) {
    module.def(
        "cover_pixels", bindings::apart(cover_pixels), nb::arg("arguments"), nb::arg("grid").noconvert(),
        nb::arg("shift"), nb::arg("chosen").noconvert(), nb::arg("sparse_arguments"),
        nb::arg("scan_grid").noconvert(), nb::arg("near").noconvert().none(), nb::arg("stride"),
        nb::arg("ranges").noconvert(), nb::arg("seen").noconvert(), nb::arg("counts").noconvert(),
        nb::arg("alike"), nb::arg("summed").noconvert().none() = nb::none(),
        nb::arg("sums").noconvert().none() = nb::none(), nb::arg("n_stokes") = 1, nb::arg("scale") = 1.0);
    module.def("count_holders", bindings::apart(count_holders), nb::arg("pixels").noconvert(),
               nb::arg("ranks").noconvert(), nb::arg("begins").noconvert(), nb::arg("ends").noconvert(),
               nb::arg("counts").noconvert());
    module.def("fill_holders", bindings::apart(fill_holders), nb::arg("pixels").noconvert(),
               nb::arg("ranks").noconvert(), nb::arg("begins").noconvert(), nb::arg("ends").noconvert(),
               nb::arg("places").noconvert(), nb::arg("holders").noconvert());
}

// Visits and baselines: functions of the module of map-making.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>

#include "../arrays.h"
#include "petamap/mapmaking/baselines.h"
#include "sample_views.h"

namespace bindings {

inline petamap::mapmaking::VisitSamples visit_samples(const petamap::mapmaking::Samples& samples,
                                                      std::size_t n, std::int64_t first, std::int64_t step,
                                                      bool constant, const In<std::int32_t>& pixel_rows) {
    require(step > 0 && first >= 0, "samples between knots");
    return {samples, length(n), first, step, constant, pixel_rows.data(), nullptr};
}

inline std::pair<std::int64_t, std::int64_t> count_visits(In<std::int32_t> pixels,
                                                          In<std::int32_t> pixel_rows, std::int64_t first,
                                                          std::int64_t step, Out<std::uint8_t> seen_rows,
                                                          Out<std::uint8_t> seen_slots) {
    const auto from = visit_samples({pixels.data(), nullptr, nullptr, 1, 1}, pixels.shape(0), first, step,
                                    false, pixel_rows);
    nanobind::gil_scoped_release release;
    const auto counts = petamap::mapmaking::count_visits(from, seen_rows.data(), seen_slots.data());
    return {counts.pixels, counts.gaps};
}

inline void compress(In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles, MaybeIn<float> gains,
                     double intensity, double efficiency, int n_stokes, In<std::int32_t> pixel_rows,
                     MaybeIn<std::int32_t> gap_rows, std::int64_t first, std::int64_t step, bool constant,
                     double weight, Out<std::int32_t, 2> visits, Out<std::int32_t, 2> gaps,
                     Out<std::int64_t, 2> counts, Out<double, 2> products) {
    const std::size_t n = pixels.shape(0);
    require(n_stokes == 1 || angles, "polarization needs angles");
    require(length(visits.shape(1)) == petamap::mapmaking::visit_size(n_stokes), "the values of a visit");
    require(length(gaps.shape(1)) == petamap::mapmaking::visit_size(1), "the values of a visit of a gap");
    auto from = visit_samples(samples_of(pixels, angles, gains, intensity, efficiency, n), n, first, step,
                              constant, pixel_rows);
    from.gap_rows = data_or_null(gap_rows);
    const std::int64_t n_intervals = n == 0 ? 0 : (first + length(n) - 1) / step - first / step + 1;
    require(counts.shape(1) == 2 && length(counts.shape(0)) >= n_intervals, "two counts an interval");
    require(products.shape(1) == 3 && length(products.shape(0)) >= n_intervals, "three products an interval");
    const petamap::mapmaking::VisitCounts room{length(visits.shape(0)), length(gaps.shape(0))};
    petamap::mapmaking::VisitCounts found;
    {
        nanobind::gil_scoped_release release;
        found = petamap::mapmaking::compress(
            from, n_stokes, weight, {visits.data(), gaps.data(), room, counts.data(), products.data()});
    }
    require(found.pixels == room.pixels && found.gaps == room.gaps, "room for the visits there are");
}

inline void write_responses(In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles, MaybeIn<float> gains,
                            double intensity, double efficiency, Out<double, 2> out) {
    const std::size_t n = pixels.shape(0);
    const int n_stokes = static_cast<int>(out.shape(1));
    require(n_stokes >= 1 && n_stokes <= 3, "1 to 3 Stokes parameters");
    require(n_stokes == 1 || angles, "polarization needs angles");
    same_shape({{out.shape(0), n}});
    const auto samples = samples_of(pixels, angles, gains, intensity, efficiency, n);
    nanobind::gil_scoped_release release;
    petamap::mapmaking::write_responses(samples, length(n), n_stokes, out.data());
}

inline petamap::mapmaking::Visits visits_of(const In<std::int64_t>& knots, const In<std::int64_t>& firsts,
                                            const In<std::int32_t, 2>& table, int n_stokes) {
    require(knots.shape(0) > 0 && firsts.shape(0) > 0, "a knot more than there are");
    require(knots.data()[knots.shape(0) - 1] == length(firsts.shape(0)) - 1, "the first visit of each knot");
    require(firsts.data()[firsts.shape(0) - 1] == length(table.shape(0)), "the visits there are");
    require(length(table.shape(1)) == petamap::mapmaking::visit_size(n_stokes), "the values of a visit");
    return {{knots.data(), knots.shape(0)}, firsts.data(), table.data(), n_stokes};
}

inline void merge(In<std::int64_t> knots, In<std::int64_t> firsts, In<std::int32_t, 2> visits, int n_stokes,
                  In<std::int32_t> groups, Out<std::int32_t, 2> to, Out<std::int64_t> to_firsts) {
    same_shape({{to.shape(0), visits.shape(0)}, {to.shape(1), visits.shape(1)}});
    same_shape({{to_firsts.shape(0), firsts.shape(0)}});
    const auto all = visits_of(knots, firsts, visits, n_stokes);
    nanobind::gil_scoped_release release;
    petamap::mapmaking::merge(all, groups.data(), to.data(), to_firsts.data());
}

inline void add_to_baselines(In<std::int64_t> knots, In<std::int64_t> firsts, In<std::int32_t, 2> visits,
                             In<double, 3> from, Out<double, 2> to, int n_threads) {
    const auto all = visits_of(knots, firsts, visits, static_cast<int>(from.shape(1)));
    same_shape({{from.shape(2), to.shape(1)}, {to.shape(0), firsts.shape(0) - 1}});
    require(is_width(to.shape(1)), "1, 2, 4 or 8 columns");
    nanobind::gil_scoped_release release;
    petamap::mapmaking::add_to_baselines(all, from.data(), static_cast<int>(to.shape(1)), to.data(),
                                         n_threads);
}

inline void add_from_baselines(In<std::int64_t> knots, In<std::int64_t> firsts, In<std::int32_t, 2> visits,
                               In<double, 2> from, In<double> scales, Out<std::int64_t, 4> sums) {
    const auto all = visits_of(knots, firsts, visits, static_cast<int>(sums.shape(2)));
    same_shape({{sums.shape(3), from.shape(1)}, {from.shape(0), firsts.shape(0) - 1}});
    same_shape({{scales.shape(0), from.shape(1)}});
    require(is_width(from.shape(1)), "1, 2, 4 or 8 columns");
    nanobind::gil_scoped_release release;
    petamap::mapmaking::add_from_baselines(all, from.data(), static_cast<int>(from.shape(1)), scales.data(),
                                           length(sums.shape(1)), sums.data(),
                                           static_cast<int>(sums.shape(0)));
}

inline void add_to_gaps(In<std::int64_t> knots, In<std::int64_t> firsts, In<std::int32_t, 2> visits,
                        In<double, 2> from, Out<double, 3> gaps, int n_threads) {
    const auto all = visits_of(knots, firsts, visits, 1);
    same_shape({{gaps.shape(1), 1}, {gaps.shape(2), from.shape(1)}, {from.shape(0), firsts.shape(0) - 1}});
    require(is_width(from.shape(1)), "1, 2, 4 or 8 columns");
    nanobind::gil_scoped_release release;
    petamap::mapmaking::add_to_gaps(all, from.data(), static_cast<int>(from.shape(1)), gaps.data(),
                                    n_threads);
}

inline void solve_baselines(In<std::int64_t> knots, In<double, 2> factor, Out<double, 2> values,
                            Out<double> largest, int n_threads) {
    same_shape({{factor.shape(0), values.shape(0)}, {largest.shape(0), values.shape(1)}});
    require(factor.shape(1) == petamap::mapmaking::kBaselineBand + 1 && is_width(values.shape(1)),
            "a row of the factor a knot");
    nanobind::gil_scoped_release release;
    petamap::mapmaking::solve_baselines({knots.data(), knots.shape(0)}, factor.data(),
                                        static_cast<int>(values.shape(1)), values.data(), largest.data(),
                                        n_threads);
}

inline void bind_baselines(nanobind::module_& module) {
    module.attr("BASELINE_BAND") = petamap::mapmaking::kBaselineBand;
    module.def("count_visits", count_visits, nanobind::arg("pixels").noconvert(),
               nanobind::arg("pixel_rows").noconvert(), nanobind::arg("first"), nanobind::arg("step"),
               nanobind::arg("seen_rows").noconvert(), nanobind::arg("seen_slots").noconvert());
    module.def("compress", compress, nanobind::arg("pixels").noconvert(),
               nanobind::arg("angles").noconvert().none(), nanobind::arg("gains").noconvert().none(),
               nanobind::arg("intensity"), nanobind::arg("efficiency"), nanobind::arg("n_stokes"),
               nanobind::arg("pixel_rows").noconvert(), nanobind::arg("gap_rows").noconvert().none(),
               nanobind::arg("first"), nanobind::arg("step"), nanobind::arg("constant"),
               nanobind::arg("weight"), nanobind::arg("visits").noconvert(),
               nanobind::arg("gaps").noconvert(), nanobind::arg("counts").noconvert(),
               nanobind::arg("products").noconvert());
    module.def("write_responses", write_responses, nanobind::arg("pixels").noconvert(),
               nanobind::arg("angles").noconvert().none(), nanobind::arg("gains").noconvert().none(),
               nanobind::arg("intensity"), nanobind::arg("efficiency"), nanobind::arg("out").noconvert());
    module.def("merge", merge, nanobind::arg("knots").noconvert(), nanobind::arg("firsts").noconvert(),
               nanobind::arg("visits").noconvert(), nanobind::arg("n_stokes"),
               nanobind::arg("groups").noconvert(), nanobind::arg("out").noconvert(),
               nanobind::arg("out_firsts").noconvert());
    module.def("add_to_baselines", add_to_baselines, nanobind::arg("knots").noconvert(),
               nanobind::arg("firsts").noconvert(), nanobind::arg("visits").noconvert(),
               nanobind::arg("given").noconvert(), nanobind::arg("out").noconvert(),
               nanobind::arg("n_threads"));
    module.def("add_from_baselines", add_from_baselines, nanobind::arg("knots").noconvert(),
               nanobind::arg("firsts").noconvert(), nanobind::arg("visits").noconvert(),
               nanobind::arg("given").noconvert(), nanobind::arg("scales").noconvert(),
               nanobind::arg("sums").noconvert());
    module.def("add_to_gaps", add_to_gaps, nanobind::arg("knots").noconvert(),
               nanobind::arg("firsts").noconvert(), nanobind::arg("visits").noconvert(),
               nanobind::arg("given").noconvert(), nanobind::arg("gaps").noconvert(),
               nanobind::arg("n_threads"));
    module.def("solve_baselines", solve_baselines, nanobind::arg("knots").noconvert(),
               nanobind::arg("factor").noconvert(), nanobind::arg("values").noconvert(),
               nanobind::arg("largest").noconvert(), nanobind::arg("n_threads"));
}

}  // namespace bindings

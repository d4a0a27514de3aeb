// Visits and baselines: functions of the module of map-making.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <utility>

#include "../arrays.h"
#include "petamap/mapmaking/baselines.h"
#include "sample_views.h"

namespace bindings {

inline petamap::mapmaking::VisitSamples visit_samples(const petamap::mapmaking::Samples& samples,
                                                      const In<std::int32_t>& pixels, std::int64_t first,
                                                      std::int64_t step, bool constant,
                                                      const In<std::int32_t>& pixel_rows) {
    require(step > 0 && first >= 0 && first <= std::int64_t{1} << 53, "first, step: samples between knots");
    require_pixels(pixels, pixel_rows.shape(0));
    return {samples, length(pixels.shape(0)), first, step, constant, pixel_rows.data(), nullptr, 0, 0};
}

inline std::pair<std::int64_t, std::int64_t> count_visits(In<std::int32_t> pixels,
                                                          In<std::int32_t> pixel_rows, std::int64_t first,
                                                          std::int64_t step, Out<std::uint8_t> seen_rows,
                                                          Out<std::uint8_t> seen_slots) {
    auto from =
        visit_samples({pixels.data(), nullptr, nullptr, 1, 1}, pixels, first, step, false, pixel_rows);
    from.n_rows = length(seen_rows.shape(0));
    from.n_slots = length(seen_slots.shape(0));
    petamap::mapmaking::VisitCounts counts;
    {
        nanobind::gil_scoped_release release;
        counts = petamap::mapmaking::count_visits(from, seen_rows.data(), seen_slots.data());
    }
    require(!counts.outside, "seen_rows, seen_slots: a place for each row and each slot");
    return {counts.pixels, counts.gaps};
}

inline void compress(In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles, MaybeIn<float> gains,
                     double intensity, double efficiency, int n_stokes, In<std::int32_t> pixel_rows,
                     MaybeIn<std::int32_t> gap_rows, std::int64_t first, std::int64_t step, bool constant,
                     double weight, Out<std::int32_t, 2> visits, Out<std::int32_t, 2> gaps,
                     Out<std::int64_t, 2> counts, Out<double, 2> products) {
    const std::size_t n = pixels.shape(0);
    require_stokes(n_stokes, angles.has_value());
    require(length(visits.shape(1)) == petamap::mapmaking::visit_size(n_stokes), "the values of a visit");
    require(length(gaps.shape(1)) == petamap::mapmaking::visit_size(1), "the values of a visit of a gap");
    auto from = visit_samples(samples_of(pixels, angles, gains, intensity, efficiency, n), pixels, first,
                              step, constant, pixel_rows);
    from.gap_rows = data_or_null(gap_rows);
    from.n_slots = gap_rows ? length(gap_rows->shape(0)) : 0;
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
    require(!found.outside, "gap_rows: a row for each slot");
    require(found.pixels == room.pixels && found.gaps == room.gaps, "room for the visits there are");
}

inline void write_responses(In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles, MaybeIn<float> gains,
                            double intensity, double efficiency, Out<double, 2> out) {
    const std::size_t n = pixels.shape(0);
    const int n_stokes = static_cast<int>(out.shape(1));
    require_stokes(n_stokes, angles.has_value());
    same_shape({{out.shape(0), n}});
    const auto samples = samples_of(pixels, angles, gains, intensity, efficiency, n);
    nanobind::gil_scoped_release release;
    petamap::mapmaking::write_responses(samples, length(n), n_stokes, out.data());
}

// Visits of whole streams, checked once: passes over them are many.
class VisitLists {
  public:
    VisitLists(In<std::int64_t> knots, In<std::int64_t> firsts, In<std::int32_t, 2> table, int n_stokes)
        : knots_(std::move(knots)),
          firsts_(std::move(firsts)),
          table_(std::move(table)),
          n_stokes_(n_stokes) {
        require(n_stokes >= 1 && n_stokes <= 3, "n_stokes: 1 to 3");
        require(length(table_.shape(1)) == petamap::mapmaking::visit_size(n_stokes),
                "visits: the values of each");
        require(are_offsets(knots_, n_knots()) && knots_.data()[n_streams()] == n_knots(),
                "knots: the first one of each stream, and their number");
        require(are_offsets(firsts_, length(table_.shape(0))) &&
                    firsts_.data()[n_knots()] == length(table_.shape(0)),
                "firsts: the first visit of each knot, and their number");
        for (std::int64_t s = 0; s < n_streams(); ++s) {
            const std::int64_t end = knots_.data()[s + 1];
            require(end == knots_.data()[s] || firsts_.data()[end - 1] == firsts_.data()[end],
                    "firsts: no visit after the last knot of a stream");
        }
        for (std::size_t i = 0; i < table_.shape(0); ++i) {
            const std::int32_t row = table_.data()[i * table_.shape(1)];
            require(row >= 0, "visits: rows from 0 on");
            n_rows_ = std::max(n_rows_, row + std::int64_t{1});
        }
    }

    petamap::mapmaking::Visits view() const {
        return {{knots_.data(), knots_.shape(0)}, firsts_.data(), table_.data(), n_stokes_};
    }
    std::int64_t n_streams() const { return length(knots_.shape(0)) - 1; }
    std::int64_t n_knots() const { return length(firsts_.shape(0)) - 1; }
    // Vectors of so many rows have all that visits see.
    std::int64_t n_rows() const { return n_rows_; }

    void require_rows(std::size_t n_rows, std::size_t n_stokes) const {
        require(n_rows_ <= length(n_rows), "visits: rows that there are");
        require(n_stokes_ == length(n_stokes), "visits: of as many Stokes parameters");
    }
    void require_knots(std::size_t n_knots_given, std::size_t width) const {
        require(length(n_knots_given) == n_knots(), "a row of values for each knot");
        require(is_width(width), "1, 2, 4 or 8 columns");
    }
    const In<std::int32_t, 2>& table() const { return table_; }

  private:
    In<std::int64_t> knots_, firsts_;
    In<std::int32_t, 2> table_;
    int n_stokes_;
    std::int64_t n_rows_ = 0;
};

inline void merge(const VisitLists& visits, In<std::int32_t> groups, Out<std::int32_t, 2> to,
                  Out<std::int64_t> to_firsts) {
    const auto& table = visits.table();
    same_shape({{to.shape(0), table.shape(0)}, {to.shape(1), table.shape(1)}});
    require(length(to_firsts.shape(0)) == visits.n_knots() + 1, "out_firsts: one for each knot, and the end");
    require(length(groups.shape(0)) >= visits.n_rows(), "groups: one for each row");
    nanobind::gil_scoped_release release;
    petamap::mapmaking::merge(visits.view(), groups.data(), to.data(), to_firsts.data());
}

inline void add_to_baselines(const VisitLists& visits, In<double, 3> from, Out<double, 2> to, int n_threads) {
    visits.require_rows(from.shape(0), from.shape(1));
    visits.require_knots(to.shape(0), to.shape(1));
    same_shape({{from.shape(2), to.shape(1)}});
    require_threads(n_threads);
    nanobind::gil_scoped_release release;
    petamap::mapmaking::add_to_baselines(visits.view(), from.data(), static_cast<int>(to.shape(1)), to.data(),
                                         n_threads);
}

inline void add_from_baselines(const VisitLists& visits, In<double, 2> from, In<double> scales,
                               Out<std::int64_t, 4> sums) {
    visits.require_rows(sums.shape(1), sums.shape(2));
    visits.require_knots(from.shape(0), from.shape(1));
    same_shape({{sums.shape(3), from.shape(1)}, {scales.shape(0), from.shape(1)}});
    require(sums.shape(0) >= 1 && sums.shape(0) <= 4096, "sums: of 1 to 4096 threads");
    nanobind::gil_scoped_release release;
    petamap::mapmaking::add_from_baselines(visits.view(), from.data(), static_cast<int>(from.shape(1)),
                                           scales.data(), length(sums.shape(1)), sums.data(),
                                           static_cast<int>(sums.shape(0)));
}

inline void add_to_gaps(const VisitLists& visits, In<double, 2> from, Out<double, 3> gaps, int n_threads) {
    visits.require_rows(gaps.shape(0), 1);
    visits.require_knots(from.shape(0), from.shape(1));
    same_shape({{gaps.shape(1), 1}, {gaps.shape(2), from.shape(1)}});
    require_threads(n_threads);
    nanobind::gil_scoped_release release;
    petamap::mapmaking::add_to_gaps(visits.view(), from.data(), static_cast<int>(from.shape(1)), gaps.data(),
                                    n_threads);
}

inline std::int64_t factorize_baselines(In<std::int64_t> knots, In<double, 2> priors, In<double> diagonal,
                                        In<double> beside, Out<double, 2> factor) {
    constexpr std::size_t kRow = petamap::mapmaking::kBaselineBand + 1;
    require(factor.shape(1) == kRow && priors.shape(1) == kRow, "factor, priors: the band");
    same_shape({{diagonal.shape(0), factor.shape(0)}, {beside.shape(0), factor.shape(0)}});
    require(are_offsets(knots, length(factor.shape(0))),
            "knots: the first one of each stream, and their number");
    require(priors.shape(0) + 1 == knots.shape(0), "priors: one for each stream");
    nanobind::gil_scoped_release release;
    return petamap::mapmaking::factorize_baselines({knots.data(), knots.shape(0)}, priors.data(),
                                                   diagonal.data(), beside.data(), factor.data());
}

inline void solve_baselines(In<std::int64_t> knots, In<double, 2> factor, Out<double, 2> values,
                            Out<double> largest, int n_threads) {
    same_shape({{factor.shape(0), values.shape(0)}, {largest.shape(0), values.shape(1)}});
    require(factor.shape(1) == petamap::mapmaking::kBaselineBand + 1 && is_width(values.shape(1)),
            "factor: a row for each knot");
    require(are_offsets(knots, length(values.shape(0))),
            "knots: the first one of each stream, and their number");
    require_threads(n_threads);
    nanobind::gil_scoped_release release;
    petamap::mapmaking::solve_baselines({knots.data(), knots.shape(0)}, factor.data(),
                                        static_cast<int>(values.shape(1)), values.data(), largest.data(),
                                        n_threads);
}

inline void multiply_bands(In<std::int64_t> knots, In<double, 2> lags, In<double, 2> from, Out<double, 2> to,
                           int n_threads) {
    same_shape(
        {{from.shape(0), to.shape(0)}, {from.shape(1), to.shape(1)}, {lags.shape(0) + 1, knots.shape(0)}});
    require(lags.shape(1) == petamap::mapmaking::kBaselineBand + 1 && is_width(to.shape(1)),
            "lags: those of a band for each stream");
    require(are_offsets(knots, length(to.shape(0))), "knots: the first one of each stream, and their number");
    require_threads(n_threads);
    nanobind::gil_scoped_release release;
    petamap::mapmaking::multiply_bands({knots.data(), knots.shape(0)}, lags.data(), from.data(),
                                       static_cast<int>(to.shape(1)), to.data(), n_threads);
}

inline void bind_baselines(nanobind::module_& module) {
    module.attr("BASELINE_BAND") = petamap::mapmaking::kBaselineBand;
    module.def("count_visits", bindings::apart(count_visits), nanobind::arg("pixels").noconvert(),
               nanobind::arg("pixel_rows").noconvert(), nanobind::arg("first"), nanobind::arg("step"),
               nanobind::arg("seen_rows").noconvert(), nanobind::arg("seen_slots").noconvert());
    module.def("compress", bindings::apart(compress), nanobind::arg("pixels").noconvert(),
               nanobind::arg("angles").noconvert().none(), nanobind::arg("gains").noconvert().none(),
               nanobind::arg("intensity"), nanobind::arg("efficiency"), nanobind::arg("n_stokes"),
               nanobind::arg("pixel_rows").noconvert(), nanobind::arg("gap_rows").noconvert().none(),
               nanobind::arg("first"), nanobind::arg("step"), nanobind::arg("constant"),
               nanobind::arg("weight"), nanobind::arg("visits").noconvert(),
               nanobind::arg("gaps").noconvert(), nanobind::arg("counts").noconvert(),
               nanobind::arg("products").noconvert());
    module.def("write_responses", bindings::apart(write_responses), nanobind::arg("pixels").noconvert(),
               nanobind::arg("angles").noconvert().none(), nanobind::arg("gains").noconvert().none(),
               nanobind::arg("intensity"), nanobind::arg("efficiency"), nanobind::arg("out").noconvert());
    nanobind::class_<VisitLists>(module, "VisitLists")
        .def(nanobind::init<In<std::int64_t>, In<std::int64_t>, In<std::int32_t, 2>, int>(),
             nanobind::arg("knots").noconvert(), nanobind::arg("firsts").noconvert(),
             nanobind::arg("visits").noconvert(), nanobind::arg("n_stokes"));
    module.def("merge", bindings::apart(merge), nanobind::arg("visits"), nanobind::arg("groups").noconvert(),
               nanobind::arg("out").noconvert(), nanobind::arg("out_firsts").noconvert());
    module.def("add_to_baselines", bindings::apart(add_to_baselines), nanobind::arg("visits"),
               nanobind::arg("given").noconvert(), nanobind::arg("out").noconvert(),
               nanobind::arg("n_threads"));
    module.def("add_from_baselines", bindings::apart(add_from_baselines), nanobind::arg("visits"),
               nanobind::arg("given").noconvert(), nanobind::arg("scales").noconvert(),
               nanobind::arg("sums").noconvert());
    module.def("add_to_gaps", bindings::apart(add_to_gaps), nanobind::arg("visits"),
               nanobind::arg("given").noconvert(), nanobind::arg("gaps").noconvert(),
               nanobind::arg("n_threads"));
    module.def("factorize_baselines", bindings::apart(factorize_baselines),
               nanobind::arg("knots").noconvert(), nanobind::arg("priors").noconvert(),
               nanobind::arg("diagonal").noconvert(), nanobind::arg("beside").noconvert(),
               nanobind::arg("factor").noconvert());
    module.def("multiply_bands", bindings::apart(multiply_bands), nanobind::arg("knots").noconvert(),
               nanobind::arg("lags").noconvert(), nanobind::arg("given").noconvert(),
               nanobind::arg("out").noconvert(), nanobind::arg("n_threads"));
    module.def("solve_baselines", bindings::apart(solve_baselines), nanobind::arg("knots").noconvert(),
               nanobind::arg("factor").noconvert(), nanobind::arg("values").noconvert(),
               nanobind::arg("largest").noconvert(), nanobind::arg("n_threads"));
}

}  // namespace bindings

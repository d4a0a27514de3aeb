// The terms of templates, as Python hands them over.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "../arrays.h"
#include "petamap/mapmaking/template_table.h"

namespace bindings {

// Functions, how many, the first harmonic, samples, edges, whether linear; values, turns, bins and knots.
using TermArguments = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, In<std::int64_t>,
                                 bool, std::optional<In<double, 2>>, std::optional<In<std::uint32_t>>,
                                 std::optional<In<std::int32_t>>, std::optional<In<std::int32_t>>>;

// Keeps the arrays of the terms. `streams`: (n_segments, 4) first term, terms, first place, shift; `rows`:
// at the places of each stream, the first row of each of its terms.
class TemplateTable {
  public:
    TemplateTable(std::vector<TermArguments> terms, In<std::int64_t, 2> streams, In<std::int64_t> rows,
                  double scale, double sum_scale)
        : arguments_(std::move(terms)), scale_(scale), sum_scale_(sum_scale) {
        static_assert(sizeof(Stream) == 4 * sizeof(std::int64_t));
        require(streams.shape(1) == 4, "4 numbers a stream");
        const auto* first = reinterpret_cast<const Stream*>(streams.data());
        streams_.assign(first, first + streams.shape(0));
        rows_.assign(rows.data(), rows.data() + rows.shape(0));
        for (const auto& one : arguments_) {
            terms_.push_back(term_of(one));
            if (terms_.back().functions == Functions::kPixels)
                n_pixels_ = std::min(n_pixels_, length(std::get<6>(one)->shape(1)));
        }
        for (const Stream& stream : streams_) check(stream);
    }

    petamap::mapmaking::Templates view() const { return {terms_, streams_, rows_, scale_, sum_scale_}; }
    std::int64_t n_rows() const { return n_rows_; }
    std::int64_t n_streams() const { return length(streams_.size()); }
    // Pixels that all maps of templates have.
    std::int64_t n_pixels() const { return n_pixels_; }

  private:
    using Term = petamap::mapmaking::Term;
    using Stream = petamap::mapmaking::Templates::Stream;
    using Functions = petamap::mapmaking::Functions;

    static Term term_of(const TermArguments& given) {
        const auto& [functions, n, first, n_samp, edges, linear, values, turns, bins, knots] = given;
        const std::span<const std::int64_t> ends{edges.data(), edges.shape(0)};
        require(functions >= 0 && functions <= 5, "terms: functions that there are");
        require(n >= 1 && n < std::int64_t{1} << 31 && first >= 0 && first <= 1 << 20,
                "terms: how many functions, and the first of them");
        require(ends.size() >= 2 && std::is_sorted(ends.begin(), ends.end()), "increasing edges of cells");
        require(n_samp >= 0 && ends.front() >= 0 && ends.back() <= n_samp, "cells within the samples");
        const auto kind = static_cast<Functions>(functions);
        const auto samples = static_cast<std::size_t>(n_samp);
        if (kind == Functions::kLegendre)
            require(values && values->shape(0) >= 1 && values->shape(1) == samples,
                    "terms: an argument of each sample");
        if (kind == Functions::kFourier) require(turns && turns->shape(0) == samples, "an angle a sample");
        if (kind == Functions::kBins) {
            require(bins && bins->shape(0) == samples, "a bin a sample");
            const auto inside = [n = n](std::int32_t bin) { return bin >= 0 && bin < n; };
            require(std::all_of(bins->data(), bins->data() + samples, inside), "bins that there are");
        }
        if (kind == Functions::kColumns)
            require(values && values->shape(1) == (knots ? knots->shape(0) : samples) &&
                        values->shape(0) == static_cast<std::size_t>(n),
                    "a column a function");
        if (knots) check_knots({knots->data(), knots->shape(0)}, n_samp);
        if (kind == Functions::kPixels)
            require(values && values->shape(0) == 1 && values->shape(1) >= 1 && n == 1, "a value a pixel");
        return {kind,
                n,
                first,
                n_samp,
                values ? values->data() : nullptr,
                turns ? turns->data() : nullptr,
                bins ? bins->data() : nullptr,
                ends,
                linear,
                knots ? std::span<const std::int32_t>{knots->data(), knots->shape(0)}
                      : std::span<const std::int32_t>{}};
    }

    static void check_knots(std::span<const std::int32_t> knots, std::int64_t n_samp) {
        const auto after = [](std::int32_t one, std::int32_t next) { return next <= one; };
        require(knots.size() >= 2 && knots.front() == 0 && knots.back() == n_samp - 1 &&
                    std::adjacent_find(knots.begin(), knots.end(), after) == knots.end(),
                "increasing knots from the first sample to the last");
    }

    void check(const Stream& stream) {
        const std::int64_t n_places = length(rows_.size()), n_terms = length(terms_.size());
        require(stream.n_terms >= 0 && stream.n_terms <= std::min(n_terms, n_places), "streams: their terms");
        require(stream.first_term >= 0 && stream.first_term <= n_terms - stream.n_terms,
                "streams: terms that there are");
        require(stream.first_place >= 0 && stream.first_place <= n_places - stream.n_terms,
                "streams: a row of each term");
        require(std::abs(stream.shift) <= std::int64_t{1} << 53, "streams: shifts of up to 2^53");
        for (std::int64_t k = 0; k < stream.n_terms; ++k) {
            const std::int64_t row = rows_[stream.first_place + k];
            require(row >= 0 && row <= std::int64_t{1} << 40, "rows: 0 to 2^40");
            n_rows_ = std::max(n_rows_, row + terms_[stream.first_term + k].n_amplitudes());
        }
    }

    std::vector<TermArguments> arguments_;
    std::vector<Term> terms_;
    std::vector<Stream> streams_;
    std::vector<std::int64_t> rows_;
    double scale_, sum_scale_;
    std::int64_t n_rows_ = 0, n_pixels_ = std::numeric_limits<std::int64_t>::max();
};

// What kernels take of a table, if there is one, with as many rows as there are unknowns, for samples of
// `n_local` pixels and of streams of which there are at least `n_streams`.
class TemplateView {
  public:
    TemplateView(const TemplateTable* table, std::int64_t n_rows, std::int64_t n_local,
                 std::int64_t n_streams) {
        if (!table) return;
        require(table->n_streams() >= n_streams, "templates: of each stream");
        require(table->n_rows() <= n_rows, "a row an amplitude");
        require(table->n_pixels() >= n_local, "a value a pixel");
        view_ = table->view();
    }
    const petamap::mapmaking::Templates* get() const { return view_ ? &*view_ : nullptr; }

  private:
    std::optional<petamap::mapmaking::Templates> view_;
};

}  // namespace bindings

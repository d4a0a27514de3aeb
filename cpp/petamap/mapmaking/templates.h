// The functions of templates over runs of samples: added to streams, and summed.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "petamap/mapmaking/blocks.h"
#include "petamap/mapmaking/project.h"
#include "petamap/mapmaking/template_table.h"
#include "petamap/sky/trig.h"

namespace petamap::mapmaking {

// Calls visit.dense(row, function, at, n) with the values of one function at samples [at, at + n) of the
// block, and visit.binned(row, bins, weights, at, n) with those of bins, of which the first has the row.
template <class Visit>
class TemplateRuns {
  public:
    TemplateRuns(const Templates& templates, const Block& block, const Samples& samples, Visit& visit)
        : templates_(templates),
          stream_(templates.streams[block.stream]),
          samples_(samples),
          visit_(visit),
          shift_(block.first + stream_.shift) {}

    // Of inputs [begin, begin + n).
    void of(std::int64_t begin, std::int64_t n) {
        for (std::int64_t done = begin; done < begin + n; done += kChunk) {
            const std::int64_t end = std::min(done + kChunk, begin + n);
            for (std::int64_t k = 0; k < stream_.n_terms; ++k)
                of_term(templates_.terms[stream_.first_term + k], templates_.rows[stream_.first_place + k],
                        done, end);
        }
    }

  private:
    void of_term(const Term& term, std::int64_t row, std::int64_t begin, std::int64_t end) {
        const auto& edges = term.edges;
        const std::int64_t first = std::max(begin + shift_, edges.front());
        auto cell = std::upper_bound(edges.begin(), edges.end(), first) - edges.begin() - 1;
        for (std::int64_t at = first; at < end + shift_; ++cell) {
            if (cell + 1 >= static_cast<std::int64_t>(edges.size())) return;
            const std::int64_t stop = std::min(end + shift_, edges[cell + 1]), n = stop - at;
            const std::int64_t own = row + cell * term.n_functions();
            if (!term.linear) {
                fill(at, n, [](std::int64_t) { return 1.0; });
                of_cell(term, own, at, n);
            } else {
                const double length = static_cast<double>(edges[cell + 1] - edges[cell]);
                const auto after = [=, from = edges[cell]](std::int64_t i) {
                    return static_cast<double>(at + i - from) / length;
                };
                fill(at, n, [&](std::int64_t i) { return 1.0 - after(i); });
                of_cell(term, own, at, n);
                fill(at, n, after);
                of_cell(term, own + term.n_functions(), at, n);
            }
            at = stop;
        }
    }

    template <class Weight>
    void fill(std::int64_t at, std::int64_t n, const Weight& weight) {
        const std::int32_t* pixels = samples_.pixels + at - shift_;
        for (std::int64_t i = 0; i < n; ++i)
            weights_[i] = pixels[i] >= 0 ? weight(i) * templates_.scale : 0.0;
    }

    void of_cell(const Term& term, std::int64_t row, std::int64_t at, std::int64_t n) {
        const std::int64_t there = at - shift_;
        switch (term.functions) {
            case Functions::kConstant:
                return visit_.dense(row, weights_, there, n);
            case Functions::kLegendre:
                return polynomials(term, row, at, n);
            case Functions::kFourier:
                return harmonics(term, row, at, n);
            case Functions::kBins:
                return visit_.binned(row, term.bins + at, weights_, there, n);
            case Functions::kColumns:
                for (std::int64_t k = 0; k < term.n; ++k) {
                    column(term, k, at, n);
                    visit_.dense(row + k, values_[0], there, n);
                }
                return;
            case Functions::kPixels: {
                const std::int32_t* pixels = samples_.pixels + there;
                for (std::int64_t i = 0; i < n; ++i)
                    values_[0][i] = term.values[std::max(pixels[i], 0)] * weights_[i];
                return visit_.dense(row, values_[0], there, n);
            }
        }
    }

    void column(const Term& term, std::int64_t k, std::int64_t at, std::int64_t n) {
        const auto& knots = term.knots;
        if (knots.empty()) {
            const double* values = term.values + k * term.n_samp + at;
            for (std::int64_t i = 0; i < n; ++i) values_[0][i] = values[i] * weights_[i];
            return;
        }
        const double* values = term.values + k * static_cast<std::int64_t>(knots.size());
        auto knot = std::upper_bound(knots.begin() + 1, knots.end() - 1, at) - knots.begin() - 1;
        for (std::int64_t i = 0; i < n; ++knot) {
            const std::int64_t from = knots[knot] - at, to = knots[knot + 1] - at;
            const bool last = knot + 2 == static_cast<std::int64_t>(knots.size());
            const double before = values[knot];
            const double slope = (values[knot + 1] - before) / static_cast<double>(to - from);
            for (const std::int64_t end = last ? n : std::min(n, to); i < end; ++i)
                values_[0][i] = (before + slope * static_cast<double>(i - from)) * weights_[i];
        }
    }

    // (k + 1) P_k+1 = (2 k + 1) x P_k - k P_k-1
    void polynomials(const Term& term, std::int64_t row, std::int64_t at, std::int64_t n) {
        const double* x = term.values + at;
        double *before = values_[0], *now = values_[1];
        std::copy_n(weights_, n, now);
        std::fill_n(before, n, 0.0);
        for (std::int64_t k = 0; k < term.first + term.n; ++k) {
            if (k >= term.first) visit_.dense(row + k - term.first, now, at - shift_, n);
            const double next = static_cast<double>(2 * k + 1) / static_cast<double>(k + 1);
            const double last = static_cast<double>(k) / static_cast<double>(k + 1);
            for (std::int64_t i = 0; i < n; ++i) before[i] = next * x[i] * now[i] - last * before[i];
            std::swap(before, now);
        }
    }

    // cos and sin of the harmonics, in turn
    void harmonics(const Term& term, std::int64_t row, std::int64_t at, std::int64_t n) {
        for (std::int64_t k = 0; k < term.n; ++k) {
            const auto harmonic = static_cast<std::uint32_t>(term.first + k);
            for (std::int64_t i = 0; i < n; ++i) turns_[i] = term.turns[at + i] * harmonic;
            sky::cos_sin(turns_, n, values_[0], values_[1]);
            for (auto& values : values_)
                for (std::int64_t i = 0; i < n; ++i) values[i] *= weights_[i];
            visit_.dense(row + 2 * k, values_[0], at - shift_, n);
            visit_.dense(row + 2 * k + 1, values_[1], at - shift_, n);
        }
    }

    const Templates& templates_;
    const Templates::Stream& stream_;
    const Samples& samples_;
    Visit& visit_;
    std::int64_t shift_;
    alignas(64) double weights_[kChunk], values_[2][kChunk];
    alignas(64) std::uint32_t turns_[kChunk];
};

// Round the sum of a run to an integer; unlike those of `to_fixed`, it may be as large as 2^62.
inline std::int64_t to_wide(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

// The sum of products in an order that no instruction set changes.
inline double ordered_dot(const double* a, const double* b, std::int64_t n) {
    std::array<double, 8> lanes{};
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (std::int64_t lane = 0; lane < 8; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
    for (; i < n; ++i) lanes[i % 8] += a[i] * b[i];
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// time.of(column)[i - first] += T a for samples i; amplitudes: [row][width].
struct AddTemplates {
    const double* amplitudes;
    double* time;
    std::int64_t stride, first;
    int width;

    void dense(std::int64_t row, const double* function, std::int64_t at, std::int64_t n) const {
        for (int column = 0; column < width; ++column) {
            const double amplitude = amplitudes[row * width + column];
            double* to = time + column * stride + at - first;
            for (std::int64_t i = 0; i < n; ++i) to[i] += amplitude * function[i];
        }
    }
    void binned(std::int64_t row, const std::int32_t* bins, const double* weights, std::int64_t at,
                std::int64_t n) const {
        for (int column = 0; column < width; ++column)
            for (std::int64_t i = 0; i < n; ++i)
                time[column * stride + at - first + i] +=
                    amplitudes[(row + bins[i]) * width + column] * weights[i];
    }
};

// use(row, column, value) with the sums T^T time over runs of samples; one at a time of those of bins.
template <class Use>
struct SumTemplates {
    const double* time;
    std::int64_t stride, first;
    int width;
    const Use& use;

    void dense(std::int64_t row, const double* function, std::int64_t at, std::int64_t n) const {
        for (int column = 0; column < width; ++column)
            use(row, column, ordered_dot(function, time + column * stride + at - first, n));
    }
    void binned(std::int64_t row, const std::int32_t* bins, const double* weights, std::int64_t at,
                std::int64_t n) const {
        for (int column = 0; column < width; ++column) {
            const double* from = time + column * stride + at - first;
            for (std::int64_t i = 0; i < n; ++i) use(row + bins[i], column, weights[i] * from[i]);
        }
    }
};

// Clang before 17 does not find this itself.
template <class Use>
SumTemplates(const double*, std::int64_t, std::int64_t, int, const Use&) -> SumTemplates<Use>;

}  // namespace petamap::mapmaking

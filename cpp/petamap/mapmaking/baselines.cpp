#include "petamap/mapmaking/baselines.h"

#include <algorithm>
#include <vector>

#include "petacomm/base/columns.h"
#include "petamap/mapmaking/project.h"

namespace petamap::mapmaking {
namespace {

using petacomm::for_width, petacomm::load_columns, petacomm::store_columns;
using petacomm::RealColumns, petacomm::WholeColumns;

constexpr std::int64_t kFactorRow = kBaselineBand + 1;

// Adds samples to the visit at hand, and begins another where pixel or baseline change.
template <int kStokes>
class Compressor {
  public:
    Compressor(std::int64_t first, std::int64_t step, double weight, const VisitTable& out)
        : first_(first),
          step_(step),
          per_step_(1.0 / static_cast<double>(step)),
          weight_(weight),
          out_(out) {}

    void add(std::int64_t i, std::int32_t pixel, const double* response) {
        const std::int64_t position = first_ + i, within = position & (step_ - 1);
        if (within == 0 || pixel != pixel_ || i == 0) begin(position, pixel);
        const double after = weight_ * ((static_cast<double>(within) + 0.5) * per_step_);
        const double before = weight_ - after;
        for (int k = 0; k < kStokes; ++k) {
            sums_[2 * k] += before * response[k];
            sums_[2 * k + 1] += after * response[k];
        }
        weights_[0] += before;
        weights_[1] += after;
        products_[0] += before * before;
        products_[1] += before * after;
        products_[2] += after * after;
    }

    std::int64_t finish() {
        if (n_ > 0) flush();
        return n_;
    }

  private:
    static constexpr int kValues = visit_values(kStokes);

    void begin(std::int64_t position, std::int32_t pixel) {
        if (n_ > 0) flush();
        out_.positions[n_] = position;
        out_.pixels[n_] = pixel_ = pixel;
        std::fill_n(sums_, 2 * kStokes, 0.0);
        std::fill_n(weights_, 2, 0.0);
        std::fill_n(products_, 3, 0.0);
        ++n_;
    }

    void flush() {
        double* values = out_.values + (n_ - 1) * kValues;
        std::copy_n(sums_, 2 * kStokes, values);
        if (pixel_ < 0) std::copy_n(weights_, 2, values);
        for (int k = 0; k < 3; ++k) values[2 * kStokes + k] = products_[k] / weight_;
    }

    std::int64_t first_, step_, n_ = 0;
    std::int32_t pixel_ = 0;
    double per_step_, weight_;
    double sums_[2 * kStokes] = {}, weights_[2] = {}, products_[3] = {};
    VisitTable out_;
};

template <int kStokes>
std::int64_t compress_of(const Samples& samples, std::int64_t n, const std::int32_t* table,
                         std::int64_t first, std::int64_t step, double weight, const VisitTable& out) {
    Compressor<kStokes> compressor(first, step, weight, out);
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const Response<kStokes> response(samples, done, count);
        for (std::int64_t i = 0; i < count; ++i) {
            double each[kStokes];
            response.of(i, samples.gains ? samples.gains[done + i] : 1.0, each);
            const std::int32_t pixel = samples.pixels[done + i];
            compressor.add(done + i, pixel < 0 ? pixel : table[pixel], each);
        }
    }
    return compressor.finish();
}

// Call work(std::integral_constant<int, n>) for the number of Stokes parameters n.
template <class Work>
auto for_stokes(int n_stokes, const Work& work) {
    switch (n_stokes) {
        case 1:
            return work(std::integral_constant<int, 1>{});
        case 2:
            return work(std::integral_constant<int, 2>{});
        default:
            return work(std::integral_constant<int, 3>{});
    }
}

template <int kStokes, int kWidth>
void gather_stream(const Visits& visits, std::int64_t begin, std::int64_t end, const double* from,
                   double* to) {
    using Real = RealColumns<kWidth>;
    std::int64_t i = begin;
    while (i < end) {
        const std::int64_t interval = visits.before[i];
        Real before{}, after{};
        for (; i < end && visits.before[i] == interval; ++i) {
            const double* row = from + std::int64_t{visits.rows[i]} * kStokes * kWidth;
            const float* weights = visits.weights + i * 2 * kStokes;
            for (int k = 0; k < kStokes; ++k) {
                const Real value = load_columns<Real>(row + k * kWidth);
                before += static_cast<double>(weights[2 * k]) * value;
                after += static_cast<double>(weights[2 * k + 1]) * value;
            }
        }
        double* knot = to + interval * kWidth;
        store_columns(knot, load_columns<Real>(knot) + before);
        store_columns(knot + kWidth, load_columns<Real>(knot + kWidth) + after);
    }
}

template <int kStokes, int kWidth>
void scatter_stream(const Visits& visits, std::int64_t begin, std::int64_t end, const double* from,
                    RealColumns<kWidth> scale, std::int64_t* sums) {
    using Real = RealColumns<kWidth>;
    using Whole = WholeColumns<kWidth>;
    for (std::int64_t i = begin; i < end; ++i) {
        const double* knot = from + visits.before[i] * kWidth;
        const Real before = load_columns<Real>(knot) * scale;
        const Real after = load_columns<Real>(knot + kWidth) * scale;
        const float* weights = visits.weights + i * 2 * kStokes;
        std::int64_t* row = sums + std::int64_t{visits.rows[i]} * kStokes * kWidth;
        for (int k = 0; k < kStokes; ++k) {
            const Real value = static_cast<double>(weights[2 * k]) * before +
                               static_cast<double>(weights[2 * k + 1]) * after;
            std::int64_t* sum = row + k * kWidth;
            store_columns(sum, load_columns<Whole>(sum) + petacomm::to_fixed<kWidth>(value));
        }
    }
}

template <int kWidth>
RealColumns<kWidth> solve_stream(std::int64_t n, const double* factor, double* y) {
    using Real = RealColumns<kWidth>;
    for (std::int64_t i = 0; i < n; ++i) {
        const double* row = factor + i * kFactorRow;
        Real value = load_columns<Real>(y + i * kWidth);
        // the value just found last, so that all else is done while it is waited for
        for (std::int64_t k = std::min<std::int64_t>(i, kBaselineBand); k > 0; --k)
            value -= row[k] * load_columns<Real>(y + (i - k) * kWidth);
        store_columns(y + i * kWidth, value * row[0]);
    }
    Real largest{};
    for (std::int64_t i = n - 1; i >= 0; --i) {
        const double* row = factor + i * kFactorRow;
        const Real value = load_columns<Real>(y + i * kWidth) * row[0];
        store_columns(y + i * kWidth, value);
        largest = petacomm::larger(largest, petacomm::size_of(value));
        for (std::int64_t k = 1; k <= std::min<std::int64_t>(i, kBaselineBand); ++k) {
            double* earlier = y + (i - k) * kWidth;
            store_columns(earlier, load_columns<Real>(earlier) - row[k] * value);
        }
    }
    return largest;
}

}  // namespace

std::int64_t compress(const Samples& samples, std::int64_t n, int n_stokes, const std::int32_t* table,
                      std::int64_t first, std::int64_t step, double weight, const VisitTable& out) {
    return for_stokes(n_stokes, [&](auto stokes) {
        return compress_of<stokes>(samples, n, table, first, step, weight, out);
    });
}

void add_to_baselines(const Visits& visits, const double* from, int width, double* to, int n_threads) {
    const std::int64_t n_streams = static_cast<std::int64_t>(visits.bounds.size()) - 1;
    for_stokes(visits.n_stokes, [&](auto stokes) {
        for_width(width, [&](auto columns) {
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
            for (std::int64_t s = 0; s < n_streams; ++s) {
                const auto at = static_cast<std::size_t>(s);
                gather_stream<stokes, columns>(visits, visits.bounds[at], visits.bounds[at + 1], from, to);
            }
        });
    });
}

void add_from_baselines(const Visits& visits, const double* from, int width, const double* scales,
                        std::int64_t n_rows, std::int64_t* sums, int n_threads) {
    const std::int64_t n_streams = static_cast<std::int64_t>(visits.bounds.size()) - 1;
    for_stokes(visits.n_stokes, [&](auto stokes) {
        for_width(width, [&](auto columns) {
            const auto scale = load_columns<RealColumns<columns>>(scales);
#pragma omp parallel for num_threads(n_threads) schedule(static)
            for (int part = 0; part < n_threads; ++part)
                for (std::int64_t s = part; s < n_streams; s += n_threads) {
                    const auto at = static_cast<std::size_t>(s);
                    scatter_stream<stokes, columns>(visits, visits.bounds[at], visits.bounds[at + 1], from,
                                                    scale, sums + part * n_rows * stokes * columns);
                }
        });
    });
}

void solve_baselines(std::span<const std::int64_t> knots, const double* factor, int width, double* y,
                     double* largest, int n_threads) {
    const std::int64_t n_streams = static_cast<std::int64_t>(knots.size()) - 1;
    std::vector<double> most(static_cast<std::size_t>(n_streams * width));
    for_width(width, [&](auto columns) {
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
        for (std::int64_t s = 0; s < n_streams; ++s) {
            const std::int64_t first = knots[static_cast<std::size_t>(s)];
            const std::int64_t n = knots[static_cast<std::size_t>(s) + 1] - first;
            store_columns(most.data() + s * columns,
                          solve_stream<columns>(n, factor + first * kFactorRow, y + first * columns));
        }
    });
    std::fill_n(largest, width, 0.0);
    for (std::size_t i = 0; i < most.size(); ++i) {
        double& column = largest[i % static_cast<std::size_t>(width)];
        column = std::max(column, most[i]);
    }
}

}  // namespace petamap::mapmaking

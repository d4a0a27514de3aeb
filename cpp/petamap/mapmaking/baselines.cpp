#include "petamap/mapmaking/baselines.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "petacomm/base/columns.h"
#include "petamap/mapmaking/project.h"

namespace petamap::mapmaking {
namespace {

using petacomm::for_width, petacomm::load_columns, petacomm::store_columns;
using petacomm::RealColumns, petacomm::WholeColumns;

constexpr std::int64_t kFactorRow = kBaselineBand + 1;

std::int32_t to_bits(double weight) { return std::bit_cast<std::int32_t>(static_cast<float>(weight)); }
double to_weight(std::int32_t bits) { return static_cast<double>(std::bit_cast<float>(bits)); }

// Adds samples to the visit at hand, and begins another where pixel or interval change. With t the time since
// the knot before, in steps, weights are w (sum - sum of t) on that knot and w (sum of t) on the one after.
template <int kStokes>
class Compressor {
  public:
    Compressor(std::int64_t first, std::int64_t step, double weight, const std::int32_t* table,
               const VisitTable& out)
        : position_(first),
          step_(step),
          interval_(first / step),
          first_interval_(interval_),
          per_step_(1.0 / static_cast<double>(step)),
          weight_(weight),
          table_(table),
          out_(out) {}

    void add(std::int32_t local, const double* response) {
        const std::int32_t pixel = local < 0 ? local : table_[local];
        const std::int64_t within = position_++ & (step_ - 1);
        if (within == 0) next_interval();
        if (pixel != pixel_) {
            flush();
            pixel_ = pixel;
        }
        const double t = (static_cast<double>(within) + 0.5) * per_step_;
        n_ += 1;
        time_ += t;
        squares_ += t * t;
        for (int k = 0; k < kStokes; ++k) {
            sums_[2 * k] += response[k];
            sums_[2 * k + 1] += t * response[k];
        }
    }

    VisitCounts finish() {
        end_interval();
        return counts_;
    }

  private:
    void next_interval() {
        end_interval();
        interval_ = (position_ - 1) / step_;
    }

    void end_interval() {
        flush();
        double* products = out_.products + 3 * (interval_ - first_interval_);
        for (int k = 0; k < 3; ++k) {
            products[k] += products_[k];
            products_[k] = 0.0;
        }
    }

    void flush() {
        if (n_ == 0) return;
        if (pixel_ >= 0) {
            write(out_.pixels + counts_.pixels++ * visit_size(kStokes), pixel_, kStokes, sums_);
        } else if (out_.gaps) {
            const double sums[2] = {n_, time_};
            write(out_.gaps + counts_.gaps++ * visit_size(1), ~pixel_, 1, sums);
        }
        if (pixel_ >= 0 || !out_.gaps) {
            products_[0] += weight_ * (n_ - 2 * time_ + squares_);
            products_[1] += weight_ * (time_ - squares_);
            products_[2] += weight_ * squares_;
        }
        n_ = time_ = squares_ = 0.0;
        std::fill_n(sums_, 2 * kStokes, 0.0);
    }

    void write(std::int32_t* row, std::int32_t number, int n, const double* sums) const {
        row[0] = static_cast<std::int32_t>(interval_);
        row[1] = number;
        for (int k = 0; k < n; ++k) {
            const double after = weight_ * sums[2 * k + 1];
            row[2 + k] = to_bits(weight_ * sums[2 * k] - after);
            row[2 + n + k] = to_bits(after);
        }
    }

    std::int64_t position_, step_, interval_, first_interval_;
    double per_step_, weight_;
    const std::int32_t* table_;
    VisitTable out_;
    std::int32_t pixel_ = 0;
    double n_ = 0.0, time_ = 0.0, squares_ = 0.0;
    double sums_[2 * kStokes] = {}, products_[3] = {};
    VisitCounts counts_ = {0, 0};
};

template <int kStokes>
VisitCounts compress_of(const Samples& samples, std::int64_t n, const std::int32_t* table, std::int64_t first,
                        std::int64_t step, double weight, const VisitTable& out) {
    Compressor<kStokes> compressor(first, step, weight, table, out);
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const Response<kStokes> response(samples, done, count);
        for (std::int64_t i = 0; i < count; ++i) {
            double each[kStokes];
            response.of(i, samples.gains ? samples.gains[done + i] : 1.0, each);
            compressor.add(samples.pixels[done + i], each);
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

template <int kStokes>
std::int64_t merge_stream(const std::int32_t* from, const std::int32_t* end, const std::int32_t* groups,
                          std::int32_t* to) {
    constexpr int kSize = visit_size(kStokes);
    std::int64_t n = 0;
    while (from != end) {
        std::int32_t* row = to + n++ * kSize;
        row[0] = from[0];
        row[1] = groups[from[1]];
        double sums[2 * kStokes] = {};
        for (; from != end && from[0] == row[0] && groups[from[1]] == row[1]; from += kSize)
            for (int k = 0; k < 2 * kStokes; ++k) sums[k] += to_weight(from[2 + k]);
        for (int k = 0; k < 2 * kStokes; ++k) row[2 + k] = to_bits(sums[k]);
    }
    return n;
}

template <int kStokes, int kWidth>
void gather_stream(const std::int32_t* visit, const std::int32_t* end, const double* from, double* to) {
    using Real = RealColumns<kWidth>;
    while (visit != end) {
        const std::int32_t interval = visit[0];
        Real before[kStokes] = {}, after[kStokes] = {};  // a chain of additions each, not one for all
        for (; visit != end && visit[0] == interval; visit += visit_size(kStokes)) {
            const double* row = from + std::int64_t{visit[1]} * kStokes * kWidth;
            for (int k = 0; k < kStokes; ++k) {
                const Real value = load_columns<Real>(row + k * kWidth);
                before[k] += to_weight(visit[2 + k]) * value;
                after[k] += to_weight(visit[2 + kStokes + k]) * value;
            }
        }
        for (int k = 1; k < kStokes; ++k) {
            before[0] += before[k];
            after[0] += after[k];
        }
        double* knot = to + std::int64_t{interval} * kWidth;
        store_columns(knot, load_columns<Real>(knot) + before[0]);
        store_columns(knot + kWidth, load_columns<Real>(knot + kWidth) + after[0]);
    }
}

template <int kStokes, int kWidth>
void scatter_stream(const std::int32_t* visit, const std::int32_t* end, const double* from,
                    RealColumns<kWidth> scale, std::int64_t* sums) {
    using Real = RealColumns<kWidth>;
    using Whole = WholeColumns<kWidth>;
    for (; visit != end; visit += visit_size(kStokes)) {
        const double* knot = from + std::int64_t{visit[0]} * kWidth;
        const Real before = load_columns<Real>(knot) * scale;
        const Real after = load_columns<Real>(knot + kWidth) * scale;
        std::int64_t* row = sums + std::int64_t{visit[1]} * kStokes * kWidth;
        for (int k = 0; k < kStokes; ++k) {
            const Real value = to_weight(visit[2 + k]) * before + to_weight(visit[2 + kStokes + k]) * after;
            std::int64_t* sum = row + k * kWidth;
            store_columns(sum, load_columns<Whole>(sum) + petacomm::to_fixed<kWidth>(value));
        }
    }
}

// The knots of a stream, on the way to L L^T x = y.
template <int kWidth>
class BandSolver {
  public:
    using Real = RealColumns<kWidth>;

    BandSolver() = default;
    BandSolver(std::int64_t n, const double* factor, double* y) : n_(n), factor_(factor), y_(y) {}

    std::int64_t size() const { return n_; }
    Real largest() const { return largest_; }

    void forward(std::int64_t i) {
        const double* row = factor_ + i * kFactorRow;
        Real value = load_columns<Real>(y_ + i * kWidth);
        // the value just found last, so that all else is done while it is waited for
        for (std::int64_t k = std::min<std::int64_t>(i, kBaselineBand); k > 0; --k)
            value -= row[k] * load_columns<Real>(y_ + (i - k) * kWidth);
        store_columns(y_ + i * kWidth, value * row[0]);
    }

    void backward(std::int64_t i) {
        const double* row = factor_ + i * kFactorRow;
        const Real value = load_columns<Real>(y_ + i * kWidth) * row[0];
        store_columns(y_ + i * kWidth, value);
        largest_ = petacomm::larger(largest_, petacomm::size_of(value));
        for (std::int64_t k = 1; k <= std::min<std::int64_t>(i, kBaselineBand); ++k) {
            double* earlier = y_ + (i - k) * kWidth;
            store_columns(earlier, load_columns<Real>(earlier) - row[k] * value);
        }
    }

  private:
    std::int64_t n_ = 0;
    const double* factor_ = nullptr;
    double* y_ = nullptr;
    Real largest_{};
};

// Solve some streams in turns: each value waits for the one before, those of other streams do not.
template <int kWidth, std::size_t kStreams>
void solve_streams(std::array<BandSolver<kWidth>, kStreams>& streams) {
    std::int64_t common = streams[0].size();
    for (const auto& one : streams) common = std::min(common, one.size());
    for (std::int64_t i = 0; i < common; ++i)
        for (auto& one : streams) one.forward(i);
    for (auto& one : streams)
        for (std::int64_t i = common; i < one.size(); ++i) one.forward(i);
    for (std::int64_t i = 0; i < common; ++i)
        for (auto& one : streams) one.backward(one.size() - 1 - i);
    for (auto& one : streams)
        for (std::int64_t i = one.size() - common - 1; i >= 0; --i) one.backward(i);
}

}  // namespace

VisitCounts compress(const Samples& samples, std::int64_t n, int n_stokes, const std::int32_t* table,
                     std::int64_t first, std::int64_t step, double weight, const VisitTable& out) {
    return for_stokes(n_stokes, [&](auto stokes) {
        return compress_of<stokes>(samples, n, table, first, step, weight, out);
    });
}

std::int64_t merge(const Visits& visits, const std::int32_t* groups, std::int32_t* table,
                   std::int64_t* bounds) {
    return for_stokes(visits.n_stokes, [&](auto stokes) {
        constexpr std::int64_t kSize = visit_size(stokes);
        bounds[0] = 0;
        for (std::size_t s = 0; s + 1 < visits.bounds.size(); ++s)
            bounds[s + 1] = bounds[s] + merge_stream<stokes>(visits.table + visits.bounds[s] * kSize,
                                                             visits.table + visits.bounds[s + 1] * kSize,
                                                             groups, table + bounds[s] * kSize);
        return bounds[visits.bounds.size() - 1];
    });
}

void add_to_baselines(const Visits& visits, const double* from, int width, double* to, int n_threads) {
    const std::int64_t n_streams = static_cast<std::int64_t>(visits.bounds.size()) - 1;
    for_stokes(visits.n_stokes, [&](auto stokes) {
        constexpr std::int64_t kSize = visit_size(stokes);
        for_width(width, [&](auto columns) {
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
            for (std::int64_t s = 0; s < n_streams; ++s) {
                const auto at = static_cast<std::size_t>(s);
                gather_stream<stokes, columns>(visits.table + visits.bounds[at] * kSize,
                                               visits.table + visits.bounds[at + 1] * kSize, from,
                                               to + visits.knots[at] * columns);
            }
        });
    });
}

void add_from_baselines(const Visits& visits, const double* from, int width, const double* scales,
                        std::int64_t n_rows, std::int64_t* sums, int n_threads) {
    const std::int64_t n_streams = static_cast<std::int64_t>(visits.bounds.size()) - 1;
    for_stokes(visits.n_stokes, [&](auto stokes) {
        constexpr std::int64_t kSize = visit_size(stokes);
        for_width(width, [&](auto columns) {
            const auto scale = load_columns<RealColumns<columns>>(scales);
#pragma omp parallel for num_threads(n_threads) schedule(static)
            for (int part = 0; part < n_threads; ++part)
                for (std::int64_t s = part; s < n_streams; s += n_threads) {
                    const auto at = static_cast<std::size_t>(s);
                    scatter_stream<stokes, columns>(visits.table + visits.bounds[at] * kSize,
                                                    visits.table + visits.bounds[at + 1] * kSize,
                                                    from + visits.knots[at] * columns, scale,
                                                    sums + part * n_rows * stokes * columns);
                }
        });
    });
}

void solve_baselines(std::span<const std::int64_t> knots, const double* factor, int width, double* y,
                     double* largest, int n_threads) {
    const std::int64_t n_streams = static_cast<std::int64_t>(knots.size()) - 1;
    std::vector<double> most(static_cast<std::size_t>(n_streams * width));
    for_width(width, [&](auto columns) {
        constexpr std::size_t kTogether = columns == 1 ? 4 : columns == 2 ? 2 : 1;
        constexpr auto kStride = static_cast<std::int64_t>(kTogether);
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
        for (std::int64_t group = 0; group < n_streams; group += kStride) {
            const auto solver = [&](std::int64_t s) {
                const auto at = static_cast<std::size_t>(s);
                return BandSolver<columns>(knots[at + 1] - knots[at], factor + knots[at] * kFactorRow,
                                           y + knots[at] * columns);
            };
            const auto write = [&](std::int64_t s, const BandSolver<columns>& solved) {
                store_columns(most.data() + s * columns, solved.largest());
            };
            if (group + kStride <= n_streams) {
                std::array<BandSolver<columns>, kTogether> streams;
                for (std::size_t k = 0; k < kTogether; ++k)
                    streams[k] = solver(group + static_cast<std::int64_t>(k));
                solve_streams(streams);
                for (std::size_t k = 0; k < kTogether; ++k)
                    write(group + static_cast<std::int64_t>(k), streams[k]);
            } else {
                for (std::int64_t s = group; s < n_streams; ++s) {
                    std::array one{solver(s)};
                    solve_streams(one);
                    write(s, one[0]);
                }
            }
        }
    });
    std::fill_n(largest, width, 0.0);
    for (std::size_t i = 0; i < most.size(); ++i) {
        double& column = largest[i % static_cast<std::size_t>(width)];
        column = std::max(column, most[i]);
    }
}

}  // namespace petamap::mapmaking

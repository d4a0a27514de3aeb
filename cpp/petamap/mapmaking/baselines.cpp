#include "petamap/mapmaking/baselines.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <vector>

#include "petacomm/base/columns.h"
#include "petacomm/base/threads.h"
#include "petamap/mapmaking/project.h"

namespace petamap::mapmaking {
namespace {

using petacomm::for_width, petacomm::load, petacomm::store;
using petacomm::RealColumns, petacomm::WholeColumns;

constexpr std::int64_t kFactorRow = kBaselineBand + 1;

std::int32_t to_bits(double weight) { return std::bit_cast<std::int32_t>(static_cast<float>(weight)); }
double to_number(std::int32_t bits) { return static_cast<double>(std::bit_cast<float>(bits)); }

// Calls end() where a visit ends, and next_interval() where an interval does.
template <class Visitor>
void walk(const VisitSamples& from, Visitor& visitor) {
    std::int64_t within = from.first % from.step - 1;
    std::int32_t here = 0;
    for (std::int64_t done = 0; done < from.n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, from.n - done);
        visitor.begin_chunk(done, count);
        for (std::int64_t i = 0; i < count; ++i) {
            if (++within == from.step) within = 0;
            const std::int32_t local = from.samples.pixels[done + i];
            const std::int32_t row = local < 0 ? local : from.pixel_rows[local];
            const bool interval_ends = within == 0 && done + i > 0;
            if (row != here || interval_ends || done + i == 0) {
                if (done + i > 0) visitor.end(here);
                if (interval_ends) visitor.next_interval();
                here = row;
            }
            visitor.add(i, within);
        }
    }
    if (from.n > 0) visitor.end(here);
}

class Counter {
  public:
    Counter(const VisitSamples& from, std::uint8_t* rows, std::uint8_t* slots)
        : from_(from), rows_(rows), slots_(slots) {}

    void begin_chunk(std::int64_t, std::int64_t) {}
    void add(std::int64_t, std::int64_t) {}
    void next_interval() {}
    // other threads write the same value
    void end(std::int32_t row) {
        (row < 0 ? counts.gaps : counts.pixels) += 1;
        if (row < 0 ? ~row >= from_.n_slots : row >= from_.n_rows) {
            counts.outside = true;
            return;
        }
        std::atomic_ref(row < 0 ? slots_[~row] : rows_[row]).store(1, std::memory_order_relaxed);
    }

    VisitCounts counts = {0, 0};

  private:
    const VisitSamples& from_;
    std::uint8_t *rows_, *slots_;
};

// Time counts from the knot before, in steps, and is 0 where baselines are constant.
template <int kStokes>
class Compressor {
  public:
    Compressor(const VisitSamples& from, double weight, const VisitTable& out)
        : from_(from),
          per_step_(from.constant ? 0.0 : 1.0 / static_cast<double>(from.step)),
          weight_(weight),
          out_(out) {}

    void begin_chunk(std::int64_t begin, std::int64_t n) {
        response_ = Response<kStokes>(from_.samples, begin, n);
        gains_ = from_.samples.gains ? from_.samples.gains + begin : nullptr;
    }

    void add(std::int64_t i, std::int64_t within) {
        const double t = (static_cast<double>(within) + 0.5) * per_step_;
        n_ += 1;
        time_ += t;
        squares_ += t * t;
        double each[kStokes];
        response_.of(i, gains_ ? gains_[i] : 1.0, each);
        for (int k = 0; k < kStokes; ++k) sums_[k] += each[k];
    }

    void next_interval() { ++interval_; }

    void end(std::int32_t row) {
        std::int64_t* counts = out_.counts + 2 * interval_;
        if (row >= 0) {
            if (counts_.pixels++ < out_.room.pixels) write(row);
            ++counts[0];
        } else if (from_.gap_rows) {
            if (~row >= from_.n_slots)
                counts_.outside = true;
            else if (counts_.gaps++ < out_.room.gaps) {
                std::int32_t* visit = out_.gaps + (counts_.gaps - 1) * visit_size(1);
                visit[0] = from_.gap_rows[~row];
                write_sums<1>(visit + 1, &n_);
            }
            ++counts[1];
        }
        if (row >= 0 || !from_.gap_rows) {
            double* products = out_.products + 3 * interval_;
            products[0] += weight_ * (n_ - 2 * time_ + squares_);
            products[1] += weight_ * (time_ - squares_);
            products[2] += weight_ * squares_;
        }
        n_ = time_ = squares_ = 0.0;
        std::fill_n(sums_, kStokes, 0.0);
    }

    VisitCounts counts() const { return counts_; }

  private:
    void write(std::int32_t row) const {
        std::int32_t* visit = out_.pixels + (counts_.pixels - 1) * visit_size(kStokes);
        visit[0] = row;
        write_sums<kStokes>(visit + 1, sums_);
    }

    template <int kSums>
    void write_sums(std::int32_t* to, const double* sums) const {
        to[0] = to_bits(time_ / n_);
        for (int k = 0; k < kSums; ++k) to[1 + k] = to_bits(weight_ * sums[k]);
    }

    const VisitSamples& from_;
    double per_step_, weight_;
    VisitTable out_;
    Response<kStokes> response_{};
    const float* gains_ = nullptr;
    std::int64_t interval_ = 0;
    double n_ = 0.0, time_ = 0.0, squares_ = 0.0;
    double sums_[kStokes] = {};
    VisitCounts counts_ = {0, 0};
};

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

// Write the visits of an interval with the rows `groups`; return the end of what is written. Times are
// averaged by the sizes of what visits sum, of which one alone tells nothing where it is 0.
template <int kStokes>
std::int32_t* merge_interval(const std::int32_t* from, const std::int32_t* end, const std::int32_t* groups,
                             std::int32_t* to) {
    constexpr int kSize = visit_size(kStokes);
    while (from != end) {
        const std::int32_t group = groups[from[0]];
        double sums[kStokes] = {}, time = 0.0, sizes = 0.0;
        for (; from != end && groups[from[0]] == group; from += kSize) {
            double square = 0.0;
            for (int k = 0; k < kStokes; ++k) {
                const double sum = to_number(from[2 + k]);
                sums[k] += sum;
                square += sum * sum;
            }
            const double size = std::sqrt(square);
            time += size * to_number(from[1]);
            sizes += size;
        }
        to[0] = group;
        to[1] = to_bits(sizes > 0 ? time / sizes : 0.0);
        for (int k = 0; k < kStokes; ++k) to[2 + k] = to_bits(sums[k]);
        to += kSize;
    }
    return to;
}

template <int kStokes, int kWidth>
void gather_stream(const Visits& visits, std::int64_t knot, std::int64_t end, const double* from,
                   double* to) {
    using Real = RealColumns<kWidth>;
    constexpr int kSize = visit_size(kStokes);
    const std::int32_t* visit = visits.table + visits.firsts[knot] * kSize;
    for (; knot < end; ++knot) {
        const std::int32_t* last = visits.table + visits.firsts[knot + 1] * kSize;
        if (visit == last) continue;
        Real before{}, after{};
        for (; visit != last; visit += kSize) {
            const double* row = from + std::int64_t{visit[0]} * kStokes * kWidth;
            const double time = to_number(visit[1]);
            Real value = to_number(visit[2]) * load<Real>(row);
            for (int k = 1; k < kStokes; ++k) value += to_number(visit[2 + k]) * load<Real>(row + k * kWidth);
            before += (1 - time) * value;
            after += time * value;
        }
        double* at = to + knot * kWidth;
        store(at, load<Real>(at) + before);
        store(at + kWidth, load<Real>(at + kWidth) + after);
    }
}

template <int kStokes, int kWidth>
void scatter_stream(const Visits& visits, std::int64_t knot, std::int64_t end, const double* from,
                    RealColumns<kWidth> scale, std::int64_t* sums) {
    using Real = RealColumns<kWidth>;
    using Whole = WholeColumns<kWidth>;
    constexpr int kSize = visit_size(kStokes);
    const std::int32_t* visit = visits.table + visits.firsts[knot] * kSize;
    const auto add = [](std::int64_t* sum, Real value) {
        store(sum, load<Whole>(sum) + petacomm::to_fixed<kWidth>(value));
    };
    for (; knot + 1 < end; ++knot) {  // no visit comes after the last knot
        const std::int32_t* last = visits.table + visits.firsts[knot + 1] * kSize;
        const Real before = load<Real>(from + knot * kWidth) * scale;
        const Real after = load<Real>(from + (knot + 1) * kWidth) * scale;
        for (; visit != last; visit += kSize) {
            std::int64_t* row = sums + std::int64_t{visit[0]} * kStokes * kWidth;
            const double time = to_number(visit[1]);
            const Real value = (1 - time) * before + time * after;
            for (int k = 0; k < kStokes; ++k) add(row + k * kWidth, to_number(visit[2 + k]) * value);
        }
    }
}

template <int kWidth>
void scatter_to_gaps(const Visits& visits, std::int64_t knot, std::int64_t end, const double* from,
                     double* gaps) {
    using Real = RealColumns<kWidth>;
    constexpr int kSize = visit_size(1);
    for (; knot + 1 < end; ++knot) {
        const auto before = load<Real>(from + knot * kWidth);
        const auto after = load<Real>(from + (knot + 1) * kWidth);
        for (std::int64_t i = visits.firsts[knot]; i < visits.firsts[knot + 1]; ++i) {
            const std::int32_t* visit = visits.table + i * kSize;
            double* gap = gaps + std::int64_t{visit[0]} * kWidth;
            const double time = to_number(visit[1]);
            store(gap, load<Real>(gap) + to_number(visit[2]) * ((1 - time) * before + time * after));
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
        Real value = load<Real>(y_ + i * kWidth);
        // the value just found last, so that all else is done while it is waited for
        for (std::int64_t k = std::min<std::int64_t>(i, kBaselineBand); k > 0; --k)
            value -= row[k] * load<Real>(y_ + (i - k) * kWidth);
        store(y_ + i * kWidth, value * row[0]);
    }

    void backward(std::int64_t i) {
        const double* row = factor_ + i * kFactorRow;
        const Real value = load<Real>(y_ + i * kWidth) * row[0];
        store(y_ + i * kWidth, value);
        largest_ = petacomm::larger(largest_, petacomm::size_of(value));
        for (std::int64_t k = 1; k <= std::min<std::int64_t>(i, kBaselineBand); ++k) {
            double* earlier = y_ + (i - k) * kWidth;
            store(earlier, load<Real>(earlier) - row[k] * value);
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

VisitCounts count_visits(const VisitSamples& from, std::uint8_t* seen_rows, std::uint8_t* seen_slots) {
    Counter counter(from, seen_rows, seen_slots);
    walk(from, counter);
    return counter.counts;
}

VisitCounts compress(const VisitSamples& from, int n_stokes, double weight, const VisitTable& out) {
    return for_stokes(n_stokes, [&](auto stokes) {
        Compressor<stokes> compressor(from, weight, out);
        walk(from, compressor);
        return compressor.counts();
    });
}

void write_responses(const Samples& samples, std::int64_t n, int n_stokes, double* out) {
    for_stokes(n_stokes, [&](auto stokes) {
        for (std::int64_t begin = 0; begin < n; begin += kChunk) {
            const std::int64_t count = std::min(kChunk, n - begin);
            const Response<stokes> response(samples, begin, count);
            for (std::int64_t i = 0; i < count; ++i)
                response.of(i, samples.gains ? samples.gains[begin + i] : 1.0, out + (begin + i) * stokes);
        }
    });
}

void merge(const Visits& visits, const std::int32_t* groups, std::int32_t* table, std::int64_t* firsts) {
    for_stokes(visits.n_stokes, [&](auto stokes) {
        constexpr std::int64_t kSize = visit_size(stokes);
        std::int32_t* to = table;
        firsts[0] = 0;
        for (std::int64_t knot = 0; knot < visits.knots.back(); ++knot) {
            to = merge_interval<stokes>(visits.table + visits.firsts[knot] * kSize,
                                        visits.table + visits.firsts[knot + 1] * kSize, groups, to);
            firsts[knot + 1] = (to - table) / kSize;
        }
    });
}

void add_to_baselines(const Visits& visits, const double* from, int width, double* to, int n_threads) {
    const std::int64_t n_streams = static_cast<std::int64_t>(visits.knots.size()) - 1;
    for_stokes(visits.n_stokes, [&](auto stokes) {
        for_width(width, [&](auto columns) {
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
            for (std::int64_t s = 0; s < n_streams; ++s) {
                const auto at = static_cast<std::size_t>(s);
                gather_stream<stokes, columns>(visits, visits.knots[at], visits.knots[at + 1], from, to);
            }
        });
    });
}

void add_from_baselines(const Visits& visits, const double* from, int width, const double* scales,
                        std::int64_t n_rows, std::int64_t* sums, int n_threads) {
    const std::int64_t n_streams = static_cast<std::int64_t>(visits.knots.size()) - 1;
    for_stokes(visits.n_stokes, [&](auto stokes) {
        for_width(width, [&](auto columns) {
            const auto scale = load<RealColumns<columns>>(scales);
#pragma omp parallel for num_threads(n_threads) schedule(static)
            for (int part = 0; part < n_threads; ++part)
                for (std::int64_t s = part; s < n_streams; s += n_threads) {
                    const auto at = static_cast<std::size_t>(s);
                    scatter_stream<stokes, columns>(visits, visits.knots[at], visits.knots[at + 1], from,
                                                    scale, sums + part * n_rows * stokes * columns);
                }
        });
    });
}

void add_to_gaps(const Visits& visits, const double* from, int width, double* gaps, int n_threads) {
    const std::int64_t n_streams = static_cast<std::int64_t>(visits.knots.size()) - 1;
    for_width(width, [&](auto columns) {
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
        for (std::int64_t s = 0; s < n_streams; ++s) {
            const auto at = static_cast<std::size_t>(s);
            scatter_to_gaps<columns>(visits, visits.knots[at], visits.knots[at + 1], from, gaps);
        }
    });
}

namespace {

// Row by row: L(i, j) = (A(i, j) - sum over m < j of L(i, m) L(j, m)) / L(j, j), all within the band. Returns
// the first row without a positive diagonal, or -1.
std::int64_t factorize_stream(std::int64_t n, const double* prior, const double* diagonal,
                              const double* beside, double* factor) {
    for (std::int64_t i = 0; i < n; ++i) {
        double* row = factor + i * kFactorRow;
        const std::int64_t band = std::min<std::int64_t>(i, kBaselineBand);
        std::fill(row, row + kFactorRow, 0.0);
        for (std::int64_t lag = band; lag >= 0; --lag) {
            const double* above = row - lag * kFactorRow;  // row j
            double value = prior[lag];
            if (lag == 0) value += diagonal[i];
            if (lag == 1) value += beside[i - 1];
            for (std::int64_t m = lag + 1; m <= band; ++m) value -= row[m] * above[m - lag];
            if (lag > 0) row[lag] = value * above[0];
            if (lag == 0 && !(value > 0)) return i;
            if (lag == 0) row[0] = 1 / std::sqrt(value);
        }
    }
    return -1;
}

// The number of threads that multiply bands with all knots.
int band_threads(std::span<const std::int64_t> knots, int width, int n_threads) {
    return petacomm::threads_for((knots.back() - knots.front()) * width * (2 * kBaselineBand + 1), n_threads);
}

}  // namespace

std::int64_t factorize_baselines(std::span<const std::int64_t> knots, const double* priors,
                                 const double* diagonal, const double* beside, double* factor) {
    for (std::size_t s = 0; s + 1 < knots.size(); ++s, priors += kFactorRow) {
        const std::int64_t knot = knots[s];
        const std::int64_t row = factorize_stream(knots[s + 1] - knot, priors, diagonal + knot, beside + knot,
                                                  factor + knot * kFactorRow);
        if (row >= 0) return knot + row;
    }
    return -1;
}

void multiply_bands(std::span<const std::int64_t> knots, const double* lags, const double* from, int width,
                    double* to, int n_threads) {
    const std::int64_t n_streams = static_cast<std::int64_t>(knots.size()) - 1;
    const int n_needed = band_threads(knots, width, n_threads);
    for_width(width, [&](auto columns) {
        using Real = RealColumns<columns>;
#pragma omp parallel for num_threads(n_needed) schedule(static)
        for (std::int64_t s = 0; s < n_streams; ++s) {
            const std::int64_t begin = knots[static_cast<std::size_t>(s)];
            const std::int64_t end = knots[static_cast<std::size_t>(s) + 1];
            const double* own = lags + s * kFactorRow;
            for (std::int64_t i = begin; i < end; ++i) {
                Real sum = own[0] * load<Real>(from + i * columns);
                for (std::int64_t lag = 1; lag <= kBaselineBand; ++lag) {
                    if (i - lag >= begin) sum += own[lag] * load<Real>(from + (i - lag) * columns);
                    if (i + lag < end) sum += own[lag] * load<Real>(from + (i + lag) * columns);
                }
                store(to + i * columns, sum);
            }
        }
    });
}

void solve_baselines(std::span<const std::int64_t> knots, const double* factor, int width, double* y,
                     double* largest, int n_threads) {
    const std::int64_t n_streams = static_cast<std::int64_t>(knots.size()) - 1;
    const int n_needed = band_threads(knots, width, n_threads);
    std::vector<double> most(static_cast<std::size_t>(n_streams * width));
    for_width(width, [&](auto columns) {
        constexpr std::size_t kTogether = columns == 1 ? 4 : columns == 2 ? 2 : 1;
        constexpr auto kStride = static_cast<std::int64_t>(kTogether);
        const auto solver = [&](std::int64_t s) {
            const auto at = static_cast<std::size_t>(s);
            return BandSolver<columns>(knots[at + 1] - knots[at], factor + knots[at] * kFactorRow,
                                       y + knots[at] * columns);
        };
        const auto write = [&](std::int64_t s, const BandSolver<columns>& solved) {
            store(most.data() + s * columns, solved.largest());
        };
#pragma omp parallel for num_threads(n_needed) schedule(static)
        for (std::int64_t group = 0; group < n_streams; group += kStride) {
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

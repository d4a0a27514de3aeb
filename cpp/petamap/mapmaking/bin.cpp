#include "petamap/mapmaking/bin.h"

#include <algorithm>
#include <cmath>

#include "petacomm/base/all_within.h"
#include "petamap/mapmaking/largest_size.h"
#include "petamap/mapmaking/project.h"
#include "petamap/mapmaking/project_columns.h"
#include "petamap/mapmaking/templates.h"
#include "petamap/mapmaking/term_rows.h"
#include "petamap/mapmaking/vectors.h"

namespace petamap::mapmaking {

bool pixels_within(const std::int32_t* pixels, std::int64_t n, std::int64_t low, std::int64_t end) {
    return petacomm::all_within(pixels, static_cast<std::size_t>(n), low, end);
}

namespace {

// Two words of one value: whole multiples of the unit, and what is left over in units of 2^-low_bits.
[[gnu::always_inline]] inline void two_words(double value, double low_scale, std::int64_t& high,
                                             std::int64_t& low) {
    const double whole = petacomm::to_whole<1>(value);
    high = to_fixed(whole);
    low = to_fixed((value - whole) * low_scale);
}

// The words of a chunk of samples: of each Stokes parameter two words of both signals.
template <int kStokes>
class SignalWords {
  public:
    SignalWords(const Samples& samples, std::int64_t begin, std::int64_t n, const Signals& signals,
                double scale, double low_scale) {
        const double *filtered = signals.filtered + begin, *data = signals.data + begin;
        const double weight = signals.weight;
        for_gains(samples.gains, [&](auto gains) __attribute__((always_inline)) {
            petacomm::for_lanes(n, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
                constexpr int kLanes = lanes();
                using Real = petacomm::Reals<kLanes>;
                const Real pair[2] = {petacomm::load<Real>(filtered + i) * scale,
                                      petacomm::load<Real>(data + i) * weight * scale};
                filtered_.template see<kLanes>(pair[0]);
                data_.template see<kLanes>(pair[1]);
                Real each[kStokes];
                respond<kStokes, kLanes>(samples, begin + i, each);
                const auto gain = gains.template of<kLanes>(begin + i);
                for (int k = 0; k < kStokes; ++k) {
                    petacomm::Wholes<kLanes> made[4];
                    for (int which = 0; which < 2; ++which) {
                        const Real value = pair[which] * (gain * each[k]);
                        const Real whole = petacomm::to_whole<kLanes>(value);
                        made[2 * which] = petacomm::to_fixed<kLanes>(whole);
                        made[2 * which + 1] = petacomm::to_fixed<kLanes>((value - whole) * low_scale);
                    }
                    terms_.template keep<kLanes>(i, 4 * k, made);
                }
            });
        });
    }

    // Add those of sample i to the row of its pixel.
    [[gnu::always_inline]] void add(std::int64_t i, std::int64_t* row) const { terms_.add(i, row); }

    // The largest size of signals; no number if a filtered one is none.
    double largest() const { return std::max(filtered_.propagating_nan(), data_.ignoring_nan()); }

  private:
    TermRows<4 * kStokes> terms_;
    LargestSize filtered_, data_;
};

template <int kStokes>
bool add_signals_of(const Samples& samples, const Signals& signals, double scale, double low_scale,
                    const SignalSums& to, double* most) {
    const auto& [sums, gap_sums, n_pixels, n_gaps] = to;
    constexpr std::int64_t kRow = 4 * kStokes;
    const double* filtered = signals.filtered;
    const std::int64_t n = signals.n;
    double largest = 0, rest = 0;
    const Ahead<std::int64_t, kRow> ahead(samples.pixels, n, sums);
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + done;
        if (!pixels_within(pixels, count, -n_gaps, n_pixels)) return false;
        const SignalWords<kStokes> chunk(samples, done, count, signals, scale, low_scale);
        const double most_here = chunk.largest();
        largest = std::max(largest, most_here);
        rest += most_here - most_here;
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            const std::int64_t pixel = pixels[i];
            if (pixel < 0) {
                std::int64_t high, low;
                two_words(filtered[done + i] * scale, low_scale, high, low);
                gap_sums[2 * ~pixel] += high;
                gap_sums[2 * ~pixel + 1] += low;
            } else {
                chunk.add(i, sums + pixel * kRow);
            }
        }
    }
    *most = largest + rest;
    return true;
}

// The same for several columns.
template <int kStokes, int kWidth>
bool add_columns_of(const Samples& samples, const Signals& signals, double scale, double low_scale,
                    const SignalSums& to, double* most) {
    const auto& [sums, gap_sums, n_pixels, n_gaps] = to;
    using Real = RealColumns<kWidth>;
    constexpr std::int64_t kRow = 4 * kStokes * kWidth;
    const std::int64_t n = signals.n;
    const Streams<const double> filtered{signals.filtered, n}, data{signals.data, n};
    const Ahead<std::int64_t, kRow> ahead(samples.pixels, n, sums);
    // two words of a value, as `two_words` makes them
    const auto add = [low_scale](Real value, std::int64_t* words) {
        const Real whole = petacomm::to_whole<kWidth>(value);
        const auto high = petacomm::to_fixed<kWidth>(whole);
        const auto low = petacomm::to_fixed<kWidth>((value - whole) * low_scale);
        add_columns<kWidth>(words, high);
        add_columns<kWidth>(words + kWidth, low);
    };
    Real largest{}, rest{};
    Chunk<kWidth> firsts, seconds;
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + done;
        if (!pixels_within(pixels, count, -n_gaps, n_pixels)) return false;
        const Response<kStokes> response(samples, done, count);
        firsts.read(count, filtered.from(done));
        seconds.read(count, data.from(done));
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            const Real first = load<Real>(firsts.values + i * kWidth) * scale;
            const Real second = load<Real>(seconds.values + i * kWidth) * signals.weight * scale;
            rest += first - first;
            largest = petacomm::larger(largest,
                                       petacomm::larger(petacomm::size_of(first), petacomm::size_of(second)));
            const std::int64_t pixel = pixels[i];
            if (pixel < 0) {
                add(first, gap_sums + 2 * kWidth * ~pixel);
                continue;
            }
            double each[kStokes];
            response.of(i, samples.gains ? samples.gains[done + i] : 1.0, each);
            std::int64_t* row = sums + pixel * kRow;
            for (int k = 0; k < kStokes; ++k, row += 4 * kWidth) {
                add(first * each[k], row);
                add(second * each[k], row + 2 * kWidth);
            }
        }
    }
    store(most, largest + rest);
    return true;
}

}  // namespace

void scan(const Samples& samples, std::int64_t n, int n_stokes, const double* map, const double* gaps,
          double* time) {
    const auto scan = n_stokes == 1 ? gather<1> : n_stokes == 2 ? gather<2> : gather<3>;
    scan(samples, 0, n, map, gaps, time);
}

void add_template_signals(const Templates& templates, const Block& block, const Samples& samples,
                          const double* filtered, int width, double scale, int low_bits, std::int64_t* sums) {
    const double low_scale = std::ldexp(1.0, low_bits);
    const auto add = [&, scale = scale * templates.sum_scale](std::int64_t row, int column, double value) {
        const std::int64_t high = to_wide(value * scale);
        sums[2 * row * width + column] += high;
        sums[(2 * row + 1) * width + column] +=
            to_fixed((value * scale - static_cast<double>(high)) * low_scale);
    };
    SumTemplates sum{filtered, block.n_out, block.n_left, width, add};
    TemplateRuns(templates, block, samples, sum).of(block.n_left, block.n_out);
}

void scan_templates(const Templates& templates, const Block& block, const Samples& samples,
                    const double* amplitudes, std::int64_t begin, std::int64_t n, double* time) {
    AddTemplates add{amplitudes, time, n, begin, 1};
    TemplateRuns(templates, block, samples, add).of(begin, n);
}

void settle_words(const std::int64_t* words, int n_copies, std::int64_t n, int n_values, int width,
                  double unit, int low_bits, double* values, int n_threads) {
    const double low_unit = std::ldexp(1.0, -low_bits);
    const auto value = [=](std::int64_t high, std::int64_t low) {
        const std::int64_t carry = low >> low_bits;  // first, so that the sum is rounded once
        const double rest = static_cast<double>(low - carry * (std::int64_t{1} << low_bits)) * low_unit;
        return (static_cast<double>(high + carry) + rest) * unit;
    };
    const std::int64_t stride = std::int64_t{2} * n_values * width;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (std::int64_t i = 0; i < n; ++i) {
        for (int number = 0; number < n_values; ++number) {
            const std::int64_t* row = words + i * stride + 2 * number * width;
            for (int column = 0; column < width; ++column) {
                std::int64_t high = 0, low = 0;
                for (int copy = 0; copy < n_copies; ++copy) {
                    high += row[copy * n * stride + column];
                    low += row[copy * n * stride + width + column];
                }
                values[(number * n + i) * width + column] = value(high, low);
            }
        }
    }
}

bool add_signals(const Samples& samples, int n_stokes, const Signals& signals, double scale, int low_bits,
                 const SignalSums& sums, double* largest) {
    bool fits = true;
    petacomm::for_width(signals.width, [&](auto width) {
        const auto pick = [n_stokes](auto one, auto two, auto three) {
            return n_stokes == 1 ? one : n_stokes == 2 ? two : three;
        };
        const auto add = width == 1 ? pick(add_signals_of<1>, add_signals_of<2>, add_signals_of<3>)
                                    : pick(add_columns_of<1, width()>, add_columns_of<2, width()>,
                                           add_columns_of<3, width()>);
        fits = add(samples, signals, scale, std::ldexp(1.0, low_bits), sums, largest);
    });
    return fits;
}

}  // namespace petamap::mapmaking

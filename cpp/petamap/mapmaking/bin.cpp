#include "petamap/mapmaking/bin.h"

#include <algorithm>
#include <cmath>

#include "petamap/mapmaking/project.h"
#include "petamap/mapmaking/vectors.h"

namespace petamap::mapmaking {
namespace {

// An atomic addition costs several plain ones, so a lone thread does without.
template <bool kShared>
inline void add(std::int64_t& sum, std::int64_t value) {
    if constexpr (kShared)
        __atomic_fetch_add(&sum, value, __ATOMIC_RELAXED);
    else
        sum += value;
}

template <int kStokes, bool kShared>
void add_weights_of(const Samples& samples, std::int64_t begin, std::int64_t n, double weight, double scale,
                    std::int64_t* weights) {
    constexpr int kRow = triangle(kStokes);
    const Ahead<std::int64_t> ahead(samples.pixels + begin, n, weights, kRow);
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + begin + done;
        const Response<kStokes> response(samples, begin + done, count);
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            if (pixels[i] < 0) continue;
            double each[kStokes];
            response.of(i, samples.gains ? samples.gains[begin + done + i] : 1.0, each);
            std::int64_t* sum = weights + pixels[i] * std::int64_t{kRow};
            for (int j = 0; j < kStokes; ++j)
                for (int k = j; k < kStokes; ++k, ++sum)
                    add<kShared>(*sum, to_fixed(weight * each[j] * each[k] * scale));
        }
    }
}

// Two words of one value: whole multiples of the unit, and what is left over in units of 2^-low_bits.
inline void two_words(double value, double low_scale, std::int64_t& high, std::int64_t& low) {
    high = to_fixed(value);
    low = to_fixed((value - static_cast<double>(high)) * low_scale);
}

// The words of a chunk of samples, before they are added to the pixels: [Stokes parameter][word][sample], so
// that they are made eight samples at a time.
template <int kStokes>
struct SignalWords {
    alignas(64) std::int64_t words[kStokes][4][kChunk];
    double largest = 0;

    SignalWords(const Samples& samples, std::int64_t begin, std::int64_t n, const double* filtered,
                const double* weighted, double scale, double low_scale) {
        const Response<kStokes> response(samples, begin, n);
        const float* gains = samples.gains ? samples.gains + begin : nullptr;
#pragma omp simd reduction(max : largest)
        for (std::int64_t i = 0; i < n; ++i) {
            const double first = filtered[begin + i] * scale, second = weighted[begin + i] * scale;
            const double size = std::max(std::fabs(first), std::fabs(second));
            largest = largest < size ? size : largest;
            double each[kStokes];
            response.of(i, gains ? gains[i] : 1.0, each);
            for (int k = 0; k < kStokes; ++k) {
                two_words(first * each[k], low_scale, words[k][0][i], words[k][1][i]);
                two_words(second * each[k], low_scale, words[k][2][i], words[k][3][i]);
            }
        }
    }
};

template <int kStokes>
double add_signals_of(const Samples& samples, std::int64_t n, const double* filtered, const double* weighted,
                      double scale, int low_bits, std::int64_t* sums, std::int64_t* gap_sums) {
    constexpr std::int64_t kRow = 4 * kStokes;
    const double low_scale = std::ldexp(1.0, low_bits);
    double largest = 0;
    const Ahead<std::int64_t> ahead(samples.pixels, n, sums, kRow);
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + done;
        const SignalWords<kStokes> chunk(samples, done, count, filtered, weighted, scale, low_scale);
        largest = std::max(largest, chunk.largest);
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            const std::int64_t pixel = pixels[i];
            if (pixel < 0) {
                std::int64_t high, low;
                two_words(filtered[done + i] * scale, low_scale, high, low);
                gap_sums[2 * ~pixel] += high;
                gap_sums[2 * ~pixel + 1] += low;
            } else {
                std::int64_t* row = sums + pixel * kRow;
                for (int k = 0; k < kStokes; ++k)
                    for (int word = 0; word < 4; ++word) row[4 * k + word] += chunk.words[k][word][i];
            }
        }
    }
    return largest;
}

}  // namespace

void add_hits(const Samples& samples, std::int64_t begin, std::int64_t n, bool shared, std::int64_t* hits) {
    const std::int32_t* pixels = samples.pixels + begin;
    for (std::int64_t i = 0; i < n; ++i) {
        if (pixels[i] < 0) continue;
        shared ? add<true>(hits[pixels[i]], 1) : add<false>(hits[pixels[i]], 1);
    }
}

void add_weights(const Samples& samples, std::int64_t begin, std::int64_t n, int n_stokes, double weight,
                 double scale, bool shared, std::int64_t* weights) {
    const auto pick = [n_stokes](auto one, auto two, auto three) {
        return n_stokes == 1 ? one : n_stokes == 2 ? two : three;
    };
    const auto add = shared
                         ? pick(add_weights_of<1, true>, add_weights_of<2, true>, add_weights_of<3, true>)
                         : pick(add_weights_of<1, false>, add_weights_of<2, false>, add_weights_of<3, false>);
    add(samples, begin, n, weight, scale, weights);
}

void scan(const Samples& samples, std::int64_t n, int n_stokes, const double* map, const double* gaps,
          double* time) {
    const auto scan = n_stokes == 1 ? gather<1> : n_stokes == 2 ? gather<2> : gather<3>;
    scan(samples, 0, n, map, gaps, time);
}

void settle_words(const std::int64_t* words, std::int64_t n, double unit, int low_bits, double* first,
                  double* second, int n_threads) {
    const double low_unit = std::ldexp(1.0, -low_bits);
    const auto value = [=](std::int64_t high, std::int64_t low) {
        const std::int64_t carry = low >> low_bits;  // first, so that the sum is rounded once
        const double rest = static_cast<double>(low - carry * (std::int64_t{1} << low_bits)) * low_unit;
        return (static_cast<double>(high + carry) + rest) * unit;
    };
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (std::int64_t i = 0; i < n; ++i) {
        first[i] = value(words[4 * i], words[4 * i + 1]);
        second[i] = value(words[4 * i + 2], words[4 * i + 3]);
    }
}

double add_signals(const Samples& samples, std::int64_t n, int n_stokes, const double* filtered,
                   const double* weighted, double scale, int low_bits, std::int64_t* sums,
                   std::int64_t* gap_sums) {
    const auto add = n_stokes == 1   ? add_signals_of<1>
                     : n_stokes == 2 ? add_signals_of<2>
                                     : add_signals_of<3>;
    return add(samples, n, filtered, weighted, scale, low_bits, sums, gap_sums);
}

}  // namespace petamap::mapmaking

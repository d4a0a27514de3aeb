#include "petamap/noise/convolver.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "petacomm/base/simd.h"

namespace petamap::noise {

using petacomm::ComplexLanes, petacomm::kLanes, petacomm::Lanes, petacomm::load, petacomm::store,
    petacomm::transpose;

namespace {

constexpr double kHalfRoot = std::numbers::sqrt2 / 2;

// exp(-2 pi i k / n), exact in the octants, so that tables are symmetric to the bit.
void unit_root(std::size_t k, std::size_t n, double& re, double& im) {
    k %= n;
    if (8 * k > n && 8 * k < 7 * n) {  // rotate by quarter turns into the first octant's neighbourhood
        double inner_re, inner_im;
        if (8 * k <= 3 * n) {
            unit_root((4 * k + 3 * n) % (4 * n), 4 * n, inner_re, inner_im);
            re = inner_im, im = -inner_re;
        } else if (8 * k <= 5 * n) {
            unit_root((4 * k + 2 * n) % (4 * n), 4 * n, inner_re, inner_im);
            re = -inner_re, im = -inner_im;
        } else {
            unit_root((4 * k + n) % (4 * n), 4 * n, inner_re, inner_im);
            re = -inner_im, im = inner_re;
        }
        return;
    }
    const double turns =
        (2 * k <= n) ? static_cast<double>(k) : static_cast<double>(k) - static_cast<double>(n);
    const double angle = 2 * std::numbers::pi * turns / static_cast<double>(n);
    re = std::cos(angle), im = -std::sin(angle);
}

inline ComplexLanes times_minus_i(ComplexLanes a) { return {a.im, -a.re}; }

inline void transform4(ComplexLanes& x0, ComplexLanes& x1, ComplexLanes& x2, ComplexLanes& x3) {
    const ComplexLanes even_sum = x0 + x2, even_difference = x0 - x2;
    const ComplexLanes odd_sum = x1 + x3, odd_difference = times_minus_i(x1 - x3);
    x0 = even_sum + odd_sum;
    x1 = even_difference + odd_difference;
    x2 = even_sum - odd_sum;
    x3 = even_difference - odd_difference;
}

template <std::size_t kRadix>
inline void transform(ComplexLanes (&x)[kRadix]) {
    if constexpr (kRadix == 2) {
        const ComplexLanes sum = x[0] + x[1];
        x[1] = x[0] - x[1];
        x[0] = sum;
    } else if constexpr (kRadix == 4) {
        transform4(x[0], x[1], x[2], x[3]);
    } else {
        ComplexLanes odd[4];
        for (int j = 0; j < 4; ++j) {
            odd[j] = x[j] - x[j + 4];
            x[j] = x[j] + x[j + 4];
        }
        const ComplexLanes first = odd[1], third = odd[3];
        odd[1] = {(first.re + first.im) * kHalfRoot, (first.im - first.re) * kHalfRoot};
        odd[2] = times_minus_i(odd[2]);
        odd[3] = {(third.im - third.re) * kHalfRoot, (third.re + third.im) * -kHalfRoot};
        transform4(x[0], x[1], x[2], x[3]);
        transform4(odd[0], odd[1], odd[2], odd[3]);
        const ComplexLanes even[4] = {x[0], x[1], x[2], x[3]};
        for (int j = 0; j < 4; ++j) {
            x[2 * j] = even[j];
            x[2 * j + 1] = odd[j];
        }
    }
}

// A backward transform is a forward one with real and imaginary parts exchanged.
template <std::size_t kRadix>
inline void transform_back(ComplexLanes (&x)[kRadix]) {
    for (auto& value : x) value = {value.im, value.re};
    transform<kRadix>(x);
    for (auto& value : x) value = {value.im, value.re};
}

template <std::size_t kRadix>
void split(double* re, double* im, std::size_t length, const double* twiddle) {
    const std::size_t part = length / kRadix;
    for (std::size_t j = 0; j < part; j += kLanes, twiddle += (kRadix - 1) * 2 * kLanes) {
        ComplexLanes x[kRadix];
        for (std::size_t k = 0; k < kRadix; ++k) x[k] = {load(re + k * part + j), load(im + k * part + j)};
        transform<kRadix>(x);
        for (std::size_t k = 0; k < kRadix; ++k) {
            if (k > 0) {
                const double* factor = twiddle + (k - 1) * 2 * kLanes;
                x[k] = x[k] * ComplexLanes{load(factor), load(factor + kLanes)};
            }
            store(re + k * part + j, x[k].re);
            store(im + k * part + j, x[k].im);
        }
    }
}

template <std::size_t kRadix>
void join(double* re, double* im, std::size_t length, const double* twiddle) {
    const std::size_t part = length / kRadix;
    for (std::size_t j = 0; j < part; j += kLanes, twiddle += (kRadix - 1) * 2 * kLanes) {
        ComplexLanes x[kRadix];
        for (std::size_t k = 0; k < kRadix; ++k) {
            x[k] = {load(re + k * part + j), load(im + k * part + j)};
            if (k > 0) {
                const double* factor = twiddle + (k - 1) * 2 * kLanes;
                x[k] = x[k] * ComplexLanes{load(factor), -load(factor + kLanes)};
            }
        }
        transform_back<kRadix>(x);
        for (std::size_t k = 0; k < kRadix; ++k) {
            store(re + k * part + j, x[k].re);
            store(im + k * part + j, x[k].im);
        }
    }
}

inline void transpose_both(ComplexLanes (&x)[8]) {
    Lanes re[8], im[8];
    for (int k = 0; k < 8; ++k) re[k] = x[k].re, im[k] = x[k].im;
    transpose(re);
    transpose(im);
    for (int k = 0; k < 8; ++k) x[k] = {re[k], im[k]};
}

// 64 points as 8 x 8, in registers all the way.
template <bool kMultiply>
void convolve64(double* re, double* im, const double* spectrum, const double* twiddle) {
    ComplexLanes x[8];
    for (int k = 0; k < 8; ++k) x[k] = {load(re + 8 * k), load(im + 8 * k)};
    transform<8>(x);
    for (int k = 1; k < 8; ++k)
        x[k] = x[k] * ComplexLanes{load(twiddle + 16 * k), load(twiddle + 16 * k + 8)};
    transpose_both(x);
    transform<8>(x);
    if constexpr (kMultiply) {
        for (int k = 0; k < 8; ++k) {
            const Lanes factor = load(spectrum + 8 * k);
            x[k] = {x[k].re * factor, x[k].im * factor};
        }
        transform_back<8>(x);
        transpose_both(x);
        for (int k = 1; k < 8; ++k)
            x[k] = x[k] * ComplexLanes{load(twiddle + 16 * k), -load(twiddle + 16 * k + 8)};
        transform_back<8>(x);
    }
    for (int k = 0; k < 8; ++k) store(re + 8 * k, x[k].re), store(im + 8 * k, x[k].im);
}

petacomm::AlignedVector<double> twiddles(std::size_t length, std::size_t radix) {
    const std::size_t part = length / radix;
    petacomm::AlignedVector<double> table(2 * part * (radix - 1));
    for (std::size_t j = 0; j < part; ++j)
        for (std::size_t k = 1; k < radix; ++k) {
            double* lanes = table.data() + ((j / kLanes) * (radix - 1) + k - 1) * 2 * kLanes + j % kLanes;
            unit_root(j * k, length, lanes[0], lanes[kLanes]);
        }
    return table;
}

// Eight where the parts are small; four where they lie so far apart that they compete for the same cache
// sets.
std::size_t radix_for(std::size_t length) {
    const std::size_t rest = length / Convolver::kMinimum;
    if (rest < 8 || rest == 16) return rest < 4 ? 2 : 4;
    return length > 4096 ? 4 : 8;
}

}  // namespace

Convolver::Convolver(std::size_t n) : n_(n), base_twiddle_(128) {
    if (n < kMinimum || (n & (n - 1)) != 0)
        throw std::invalid_argument("length must be a power of two >= 64");
    for (std::size_t k = 0; k < 8; ++k)
        for (std::size_t j = 0; j < 8; ++j)
            unit_root(j * k, 64, base_twiddle_[16 * k + j], base_twiddle_[16 * k + 8 + j]);
    for (std::size_t length = n; length > kMinimum; length /= levels_.back().radix) {
        const std::size_t radix = radix_for(length);
        levels_.push_back({length, radix, twiddles(length, radix)});
    }
}

template <bool kMultiply>
void Convolver::recurse(std::size_t level, double* re, double* im, const double* spectrum) const {
    if (level == levels_.size()) return convolve64<kMultiply>(re, im, spectrum, base_twiddle_.data());
    const auto& [length, radix, twiddle] = levels_[level];
    const auto pick = [radix = radix](auto* two, auto* four, auto* eight) {
        return radix == 8 ? eight : radix == 4 ? four : two;
    };
    pick(split<2>, split<4>, split<8>)(re, im, length, twiddle.data());
    for (std::size_t k = 0; k < radix; ++k) {
        const std::size_t offset = k * (length / radix);
        recurse<kMultiply>(level + 1, re + offset, im + offset, spectrum + (kMultiply ? offset : 0));
    }
    if constexpr (kMultiply) pick(join<2>, join<4>, join<8>)(re, im, length, twiddle.data());
}

void Convolver::spectrum(std::span<const double> lags, double* spectrum) const {
    if (2 * (lags.size() - 1) >= n_) throw std::invalid_argument("kernel longer than the transform");
    std::vector<double> zero(n_, 0.0);
    for (std::size_t i = 0; i < n_; ++i) spectrum[i] = 0;
    const double scale = 1 / static_cast<double>(n_);
    for (std::size_t lag = 0; lag < lags.size(); ++lag)
        spectrum[lag] = spectrum[(n_ - lag) % n_] = lags[lag] * scale;
    recurse<false>(0, spectrum, zero.data(), nullptr);
}

void Convolver::convolve(double* a, double* b, const double* spectrum) const {
    recurse<true>(0, a, b, spectrum);
}

}  // namespace petamap::noise

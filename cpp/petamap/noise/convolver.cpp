#include "petamap/noise/convolver.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "petacomm/base/simd.h"

namespace petamap::noise {

using petacomm::ComplexReals, petacomm::Reals, petacomm::load, petacomm::store, petacomm::transpose;

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

template <int kLanes>
inline ComplexReals<kLanes> load_complex(const double* re, const double* im) {
    return {load<Reals<kLanes>>(re), load<Reals<kLanes>>(im)};
}

template <int kLanes>
inline void store_complex(double* re, double* im, ComplexReals<kLanes> value) {
    store(re, value.re);
    store(im, value.im);
}

template <class Complex>
inline Complex times_minus_i(Complex a) {
    return {a.im, -a.re};
}

template <class Complex>
inline void add_and_subtract(Complex& a, Complex& b) {
    const Complex sum = a + b;
    b = a - b;
    a = sum;
}

// All of a transform of four points but its last additions, of x0 and x1 and of x2 and x3.
template <class Complex>
inline void begin_transform4(Complex& x0, Complex& x1, Complex& x2, Complex& x3) {
    add_and_subtract(x0, x2);
    add_and_subtract(x1, x3);
    x3 = times_minus_i(x3);
}

template <class Complex>
inline void transform4(Complex& x0, Complex& x1, Complex& x2, Complex& x3) {
    begin_transform4(x0, x1, x2, x3);
    const Complex even_sum = x0, odd_sum = x1, even_difference = x2, odd_difference = x3;
    x0 = even_sum + odd_sum;
    x1 = even_difference + odd_difference;
    x2 = even_sum - odd_sum;
    x3 = even_difference - odd_difference;
}

// The first additions of a transform of eight points, after which its halves are transforms of four.
template <class Complex>
inline void begin_transform8(Complex (&x)[8]) {
    for (int j = 0; j < 4; ++j) add_and_subtract(x[j], x[j + 4]);
}

template <class Complex>
inline void turn_differences(Complex* odd) {
    const Complex first = odd[1], third = odd[3];
    odd[1] = {(first.re + first.im) * kHalfRoot, (first.im - first.re) * kHalfRoot};
    odd[2] = times_minus_i(odd[2]);
    odd[3] = {(third.im - third.re) * kHalfRoot, (third.re + third.im) * -kHalfRoot};
}

template <class Complex>
inline void end_transform8(Complex (&x)[8]) {
    turn_differences(x + 4);
    transform4(x[0], x[1], x[2], x[3]);
    transform4(x[4], x[5], x[6], x[7]);
    const Complex all[8] = {x[0], x[4], x[1], x[5], x[2], x[6], x[3], x[7]};
    for (int j = 0; j < 8; ++j) x[j] = all[j];
}

template <class Complex, std::size_t kRadix>
inline void transform(Complex (&x)[kRadix]) {
    if constexpr (kRadix == 2) {
        add_and_subtract(x[0], x[1]);
    } else if constexpr (kRadix == 4) {
        transform4(x[0], x[1], x[2], x[3]);
    } else {
        begin_transform8(x);
        end_transform8(x);
    }
}

// A backward transform is a forward one with real and imaginary parts exchanged.
template <class Complex, std::size_t kRadix>
inline void exchange_parts(Complex (&x)[kRadix]) {
    for (auto& value : x) value = {value.im, value.re};
}

template <class Complex, std::size_t kRadix>
inline void transform_back(Complex (&x)[kRadix]) {
    exchange_parts(x);
    transform(x);
    exchange_parts(x);
}

// A transform of eight points, a product and a transform back. Where a pair's sum and difference are
// multiplied by s and t, and added and subtracted again, that is a product with s + t and s - t: `spectrum`
// has these, of points j and j + 4, at every `stride`.
template <int kLanes>
inline void convolve8(ComplexReals<kLanes> (&x)[8], const double* spectrum, std::size_t stride) {
    using Complex = ComplexReals<kLanes>;
    begin_transform8(x);
    turn_differences(x + 4);
    begin_transform4(x[0], x[1], x[2], x[3]);
    begin_transform4(x[4], x[5], x[6], x[7]);
    const Complex pairs[4][2] = {{x[0], x[1]}, {x[4], x[5]}, {x[2], x[3]}, {x[6], x[7]}};
    for (std::size_t j = 0; j < 4; ++j) {
        const auto sum = load<Reals<kLanes>>(spectrum + j * stride);
        const auto difference = load<Reals<kLanes>>(spectrum + (j + 4) * stride);
        const auto& [a, b] = pairs[j];
        x[j] = {sum * a.re + difference * b.re, sum * a.im + difference * b.im};
        x[j + 4] = {difference * a.re + sum * b.re, difference * a.im + sum * b.im};
    }
    exchange_parts(x);
    end_transform8(x);
    exchange_parts(x);
}

// The factors of places j, j + 1, ... of part k, from a table of Convolver.
template <int kLanes>
inline ComplexReals<kLanes> factor(const double* twiddle, std::size_t radix, std::size_t j, std::size_t k) {
    const double* eight = twiddle + ((j / 8) * (radix - 1) + k - 1) * 16 + j % 8;
    return load_complex<kLanes>(eight, eight + 8);
}

template <class Complex>
inline Complex times_conjugate(Complex a, Complex b) {
    return {a.re * b.re + a.im * b.im, a.im * b.re - a.re * b.im};
}

template <int kLanes, std::size_t kRadix>
void split(double* re, double* im, std::size_t length, const double* twiddle) {
    const std::size_t part = length / kRadix;
    for (std::size_t j = 0; j < part; j += kLanes) {
        ComplexReals<kLanes> x[kRadix];
        for (std::size_t k = 0; k < kRadix; ++k)
            x[k] = load_complex<kLanes>(re + k * part + j, im + k * part + j);
        transform(x);
        for (std::size_t k = 0; k < kRadix; ++k) {
            if (k > 0) x[k] = x[k] * factor<kLanes>(twiddle, kRadix, j, k);
            store_complex<kLanes>(re + k * part + j, im + k * part + j, x[k]);
        }
    }
}

template <int kLanes, std::size_t kRadix>
void join(double* re, double* im, std::size_t length, const double* twiddle) {
    const std::size_t part = length / kRadix;
    for (std::size_t j = 0; j < part; j += kLanes) {
        ComplexReals<kLanes> x[kRadix];
        for (std::size_t k = 0; k < kRadix; ++k) {
            x[k] = load_complex<kLanes>(re + k * part + j, im + k * part + j);
            if (k > 0) x[k] = times_conjugate(x[k], factor<kLanes>(twiddle, kRadix, j, k));
        }
        transform_back(x);
        for (std::size_t k = 0; k < kRadix; ++k)
            store_complex<kLanes>(re + k * part + j, im + k * part + j, x[k]);
    }
}

// 8 x 8 numbers between two transforms over their rows: eight lanes keep them in registers.
struct Square {
    alignas(64) double re[64], im[64];
};

// Write eight rows of kLanes columns from `column` on as the same columns' transpose.
template <int kLanes>
inline void store_transposed(const ComplexReals<kLanes> (&x)[8], std::size_t column, Square& to) {
    for (std::size_t first = 0; first < 8; first += kLanes) {
        Reals<kLanes> re[kLanes], im[kLanes];
        for (std::size_t k = 0; k < kLanes; ++k) re[k] = x[first + k].re, im[k] = x[first + k].im;
        transpose(re);
        transpose(im);
        for (std::size_t k = 0; k < kLanes; ++k)
            store_complex<kLanes>(to.re + 8 * (column + k) + first, to.im + 8 * (column + k) + first,
                                  {re[k], im[k]});
    }
}

// 64 points as 8 x 8.
template <int kLanes, bool kMultiply>
void convolve64(double* re, double* im, const double* spectrum, const double* twiddle) {
    using Complex = ComplexReals<kLanes>;
    Square middle, last;
    for (std::size_t j = 0; j < 8; j += kLanes) {
        Complex x[8];
        for (std::size_t k = 0; k < 8; ++k) x[k] = load_complex<kLanes>(re + 8 * k + j, im + 8 * k + j);
        transform(x);
        for (std::size_t k = 1; k < 8; ++k) x[k] = x[k] * factor<kLanes>(twiddle, 8, j, k);
        store_transposed<kLanes>(x, j, middle);
    }
    for (std::size_t j = 0; j < 8; j += kLanes) {
        Complex x[8];
        for (std::size_t k = 0; k < 8; ++k)
            x[k] = load_complex<kLanes>(middle.re + 8 * k + j, middle.im + 8 * k + j);
        if constexpr (kMultiply) {
            convolve8<kLanes>(x, spectrum + j, 8);
            store_transposed<kLanes>(x, j, last);
        } else {
            transform(x);
            for (std::size_t k = 0; k < 8; ++k) store_complex<kLanes>(re + 8 * k + j, im + 8 * k + j, x[k]);
        }
    }
    if constexpr (kMultiply)
        for (std::size_t j = 0; j < 8; j += kLanes) {
            Complex x[8];
            for (std::size_t k = 0; k < 8; ++k) {
                x[k] = load_complex<kLanes>(last.re + 8 * k + j, last.im + 8 * k + j);
                if (k > 0) x[k] = times_conjugate(x[k], factor<kLanes>(twiddle, 8, j, k));
            }
            transform_back(x);
            for (std::size_t k = 0; k < 8; ++k) store_complex<kLanes>(re + 8 * k + j, im + 8 * k + j, x[k]);
        }
}

petacomm::AlignedVector<double> twiddles(std::size_t length, std::size_t radix) {
    const std::size_t part = length / radix;
    petacomm::AlignedVector<double> table(2 * part * (radix - 1));
    for (std::size_t j = 0; j < part; ++j)
        for (std::size_t k = 1; k < radix; ++k) {
            double* eight = table.data() + ((j / 8) * (radix - 1) + k - 1) * 16 + j % 8;
            unit_root(j * k, length, eight[0], eight[8]);
        }
    return table;
}

// Eight where the parts are small; four where they lie so far apart that they compete for the same cache
// sets, unless eights alone do: 32768 points in three eights take 0.93 of the time of four, four, eight and
// four.
std::size_t radix_for(std::size_t length) {
    const std::size_t rest = length / Convolver::kMinimum;
    if (rest < 8 || rest == 16) return rest < 4 ? 2 : 4;
    return length > 4096 && rest != 512 ? 4 : 8;
}

}  // namespace

Convolver::Convolver(std::size_t n) : Convolver(n, petacomm::kNativeLanes) {}

Convolver::Convolver(std::size_t n, int lanes) : n_(n), lanes_(lanes), base_twiddle_(twiddles(64, 8)) {
    if (n < kMinimum || n > kMaximum || (n & (n - 1)) != 0)
        throw std::invalid_argument("length must be a power of two >= 64, and at most 2^26");
    if (lanes != 2 && lanes != 4 && lanes != 8) throw std::invalid_argument("2, 4 or 8 lanes");
    for (std::size_t length = n; length > kMinimum; length /= levels_.back().radix) {
        const std::size_t radix = radix_for(length);
        levels_.push_back({length, radix, twiddles(length, radix)});
    }
}

template <int kLanes, bool kMultiply>
void Convolver::recurse(std::size_t level, double* re, double* im, const double* spectrum) const {
    if (level == levels_.size()) return convolve64<kLanes, kMultiply>(re, im, spectrum, base_twiddle_.data());
    const auto& [length, radix, twiddle] = levels_[level];
    const auto* const factors = twiddle.data();
    if (radix == 8) split<kLanes, 8>(re, im, length, factors);
    if (radix == 4) split<kLanes, 4>(re, im, length, factors);
    if (radix == 2) split<kLanes, 2>(re, im, length, factors);
    for (std::size_t k = 0; k < radix; ++k) {
        const std::size_t offset = k * (length / radix);
        recurse<kLanes, kMultiply>(level + 1, re + offset, im + offset, spectrum + (kMultiply ? offset : 0));
    }
    if constexpr (kMultiply) {
        if (radix == 8) join<kLanes, 8>(re, im, length, factors);
        if (radix == 4) join<kLanes, 4>(re, im, length, factors);
        if (radix == 2) join<kLanes, 2>(re, im, length, factors);
    }
}

template <bool kMultiply>
void Convolver::recurse_all(double* re, double* im, const double* spectrum) const {
    if (lanes_ == 2) return recurse<2, kMultiply>(0, re, im, spectrum);
    if (lanes_ == 4) return recurse<4, kMultiply>(0, re, im, spectrum);
    recurse<8, kMultiply>(0, re, im, spectrum);
}

void Convolver::spectrum(std::span<const double> lags, double* spectrum) const {
    std::vector<double> scratch(n_);
    this->spectrum(lags, spectrum, scratch.data());
}

void Convolver::spectrum(std::span<const double> lags, double* spectrum, double* scratch) const {
    if (2 * (lags.size() - 1) >= n_) throw std::invalid_argument("kernel longer than the transform");
    for (std::size_t i = 0; i < n_; ++i) spectrum[i] = scratch[i] = 0;
    const double scale = 1 / static_cast<double>(n_);
    for (std::size_t lag = 0; lag < lags.size(); ++lag)
        spectrum[lag] = spectrum[(n_ - lag) % n_] = lags[lag] * scale;
    recurse_all<false>(spectrum, scratch, nullptr);
    for (std::size_t base = 0; base < n_; base += kMinimum)  // as convolve8 takes it
        for (std::size_t i = base; i < base + kMinimum / 2; ++i) {
            const double first = spectrum[i], second = spectrum[i + kMinimum / 2];
            spectrum[i] = first + second;
            spectrum[i + kMinimum / 2] = first - second;
        }
}

void Convolver::convolve(double* a, double* b, const double* spectrum) const {
    recurse_all<true>(a, b, spectrum);
}

}  // namespace petamap::noise

// Circular convolution of real blocks with a real, even kernel: the N^-1 of map-making and the filters of
// noise.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "petacomm/base/aligned.h"

namespace petamap::noise {

// Convolves two real blocks at once by one complex transform of length n: they are its real and imaginary
// part, and a real, even kernel has a real spectrum, so they never mix. Decimation in frequency forward and
// in time backward, so nothing is ever reordered; the transform recurses depth first, so that a part which
// fits in a cache is transformed, multiplied and transformed back before the next part is touched. The bits
// of the result depend on the data and n alone, not on the instruction set. A Convolver is immutable: threads
// share one.
class Convolver {
  public:
    static constexpr std::size_t kMinimum = 64, kMaximum = std::size_t{1} << 26;

    // n: a power of two, from kMinimum to kMaximum. lanes: numbers in a vector, 2, 4 or 8; by default those
    // of a register.
    explicit Convolver(std::size_t n);
    Convolver(std::size_t n, int lanes);

    std::size_t size() const { return n_; }

    // The spectrum, in this class's own order and with the factor 1/n, of the even kernel with the given lags
    // 0..n_lag (2 n_lag < n). spectrum: n values.
    void spectrum(std::span<const double> lags, double* spectrum) const;
    // The same, with n values of memory to work in.
    void spectrum(std::span<const double> lags, double* spectrum, double* scratch) const;

    // Replace a[0..n) and b[0..n) by their circular convolutions with the kernel.
    void convolve(double* a, double* b, const double* spectrum) const;

  private:
    struct Level {
        std::size_t length;                       // length of the parts this level splits
        std::size_t radix;                        // into how many
        petacomm::AlignedVector<double> twiddle;  // [(j / 8) * (radix - 1) + k - 1][re 8, im 8]
    };

    template <int kLanes, bool kMultiply>
    void recurse(std::size_t level, double* re, double* im, const double* spectrum) const;
    template <bool kMultiply>
    void recurse_all(double* re, double* im, const double* spectrum) const;

    std::size_t n_;
    int lanes_;
    std::vector<Level> levels_;
    petacomm::AlignedVector<double> base_twiddle_;  // that of 64 points in 8 parts
};

}  // namespace petamap::noise

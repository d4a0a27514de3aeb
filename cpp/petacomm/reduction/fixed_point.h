// Values as integers in units of a power of two, so that their sums do not depend on the order of the terms.
#pragma once

#include <cstdint>

namespace petacomm {

// The largest |values[i]|, 0 without values, infinity if any is not finite.
template <typename T>
double largest(const T* values, std::int64_t n, int n_threads);

// words[i] = values[i] / unit, rounded to nearest even; |values[i] / unit| < 2^62, and 1 / unit is finite.
template <typename T>
void to_fixed(const T* values, std::int64_t n, double unit, std::int64_t* words, int n_threads);

// values[i] = words[i] * unit, rounded to nearest.
template <typename T>
void from_fixed(const std::int64_t* words, std::int64_t n, double unit, T* values, int n_threads);

}  // namespace petacomm

#include "petamap/base/exact.h"

#include <cmath>

namespace petamap::base {

// Slice by slice from the top: adding and subtracting 1.5 x 2^(52 + w) rounds to a multiple of 2^w, and what
// is left is exact. A chunk's slices (at most 2^32 each, 2^10 of them) add up in a double without rounding.
void ExactSum::add(double* values, std::size_t n) {
    double largest = 0;
    bool all_finite = true;
    for (std::size_t i = 0; i < n; ++i) {
        const double size = std::fabs(values[i]);
        all_finite &= size < 0x1p900;
        largest = largest > size ? largest : size;
    }
    if (!all_finite) {
        finite = false;
        return;
    }
    while (largest >= 0x1p-992) {
        const int limb = (std::ilogb(largest) - kLowest) / kBits;
        const int weight = kLowest + limb * kBits;
        const double magic = std::ldexp(1.5, 52 + weight);
        double slices = 0;
        largest = 0;
#pragma omp simd reduction(+ : slices) reduction(max : largest)
        for (std::size_t i = 0; i < n; ++i) {
            const double slice = (values[i] + magic) - magic;
            values[i] -= slice;
            slices += slice;
            const double size = std::fabs(values[i]);
            largest = largest > size ? largest : size;
        }
        limbs[limb] += static_cast<std::int64_t>(std::ldexp(slices, -weight));
    }
}

}  // namespace petamap::base

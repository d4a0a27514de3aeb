// Sums of doubles without rounding, as integers: the order of the terms, the threads and the ranks cannot
// matter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace petacomm {

// The sum as limbs: limb i counts multiples of 2^(32 i - 992). A chunk adds less than 2^42 to a limb, so
// limbs of 2^21 chunks and ranks (2 10^9 terms) add as integers before they must be normalised. Terms below
// 2^-992 count as zero, and there must be none above 2^900.
struct ExactSum {
    static constexpr int kLimbs = 60, kBits = 32, kLowest = -992;
    std::array<std::int64_t, kLimbs> limbs{};
    bool finite = true;
    // Added to the highest limb, it says that a value was not finite: 2^31 terms below 2^900 leave that limb
    // below 2^35, and 2^14 ranks may add it.
    static constexpr std::int64_t kNotFinite = std::int64_t{1} << 48;

    // Values that may be added to a sum at once. Chunks need not be the same on every machine.
    static constexpr std::size_t kChunk = 1024;

    void add(const ExactSum& other) {
        for (int i = 0; i < kLimbs; ++i) limbs[i] += other.limbs[i];
        finite = finite && other.finite;
    }
};

// Add n rows of `width` (1, 2, 4 or 8) columns, at most kChunk rows, to the sum of each column. The values
// are used up; there must be room for a multiple of 16 of them.
void add_exactly(double* values, std::size_t n, int width, ExactSum* sums);

}  // namespace petacomm

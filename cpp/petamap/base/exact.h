// Sums of doubles without rounding, as integers: the order of the terms, the threads and the ranks cannot
// matter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace petamap::base {

// The sum as limbs: limb i counts multiples of 2^(32 i - 992). A chunk adds less than 2^42 to a limb, so
// limbs of 2^21 chunks and ranks (2 10^9 terms) add as integers before they must be normalised. Terms below
// 2^-992 count as zero, and there must be none above 2^900.
struct ExactSum {
    static constexpr int kLimbs = 60, kBits = 32, kLowest = -992;
    std::array<std::int64_t, kLimbs> limbs{};
    bool finite = true;

    // Add up to kChunk values; they are used up. Chunks need not be the same on every machine.
    static constexpr std::size_t kChunk = 1024;
    void add(double* values, std::size_t n);

    void add(const ExactSum& other) {
        for (int i = 0; i < kLimbs; ++i) limbs[i] += other.limbs[i];
        finite = finite && other.finite;
    }
};

}  // namespace petamap::base

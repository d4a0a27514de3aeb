// Standard normal numbers, each a function of its stream and index alone.
//
// Philox words become two uniform numbers of 52 bits, these two normal numbers by the method of Box and
// Muller. All in one branch-free loop body that vectorises, without libm, so that the bits are the same on
// every machine. Largest value 8.6 sigma.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "petamap/simulation/turn.h"

namespace petamap::simulation {

// Words 0, 1 key Philox, words 2, 3 are the upper half of its counter; the index is the lower half.
struct Stream {
    std::uint32_t words[4];
};

// Numbers are made in groups: kPairs cosines, then kPairs sines.
constexpr std::int64_t kPairs = 32;
constexpr std::int64_t kGroup = 2 * kPairs;

namespace detail {

struct Words {
    std::uint64_t word[4];  // 32 bits each
};

// Philox4x32-10 on words held in 64 bits, where products need no widening.
inline Words philox(std::uint64_t index, const Stream& stream) {
    constexpr std::uint64_t kLow = 0xFFFFFFFF;
    std::uint64_t c0 = index & kLow, c1 = index >> 32, c2 = stream.words[2], c3 = stream.words[3];
    std::uint64_t key0 = stream.words[0], key1 = stream.words[1];
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t product0 = 0xD2511F53 * c0, product1 = 0xCD9E8D57 * c2;
        c0 = (product1 >> 32) ^ c1 ^ key0;
        c2 = (product0 >> 32) ^ c3 ^ key1;
        c1 = product1 & kLow;
        c3 = product0 & kLow;
        key0 = (key0 + 0x9E3779B9) & kLow;
        key1 = (key1 + 0xBB67AE85) & kLow;
    }
    return {{c0, c1, c2, c3}};
}

// log(u) for normal u > 0: u = 2^k m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)).
inline double log(double u) {
    constexpr std::uint64_t kRootHalf = 0x3FE6A09E667F3BCD;
    const std::uint64_t shifted = std::bit_cast<std::uint64_t>(u) - kRootHalf;
    const std::uint64_t power = shifted & 0xFFF0000000000000;
    const double m = std::bit_cast<double>(std::bit_cast<std::uint64_t>(u) - power);
    // the exponent as a double by placing it in the last bits of 1.5 * 2^52
    const std::uint64_t exponent = static_cast<std::uint64_t>(static_cast<std::int64_t>(power) >> 52);
    const double k = std::bit_cast<double>(0x4338000000000000 + exponent) - 0x1.8p52;
    const double s = (m - 1) / (m + 1), square = s * s;
    double series = 1.0 / 23;  // s^2 < 0.0295: the next term is below 1e-18
    for (int odd = 21; odd >= 3; odd -= 2) series = series * square + 1.0 / odd;
    return k * 0x1.62e42fefa39efp-1 + 2 * (s + s * (square * series));
}

}  // namespace detail

// The pair number `index` of a stream.
inline void gaussian_pair(const Stream& stream, std::uint64_t index, double& first, double& second) {
    const auto [word] = detail::philox(index, stream);
    const double u = one_to_two(word[1] << 32 | word[0]) - (1 - 0x1p-53);
    const double radius = std::sqrt(-2 * detail::log(u));
    double cosine, sine;
    cos_sin(word[3] << 32 | word[2], cosine, sine);
    first = radius * cosine;
    second = radius * sine;
}

// Numbers [kGroup * group, kGroup * (group + n_groups)) of a stream.
inline void gaussian_groups(const Stream& stream, std::int64_t group, std::int64_t n_groups, double* out) {
    for (std::int64_t i = 0; i < n_groups; ++i) {
        const std::uint64_t base = static_cast<std::uint64_t>((group + i) * kPairs);
        double* numbers = out + i * kGroup;
#pragma omp simd
        for (std::int64_t pair = 0; pair < kPairs; ++pair)
            gaussian_pair(stream, base + static_cast<std::uint64_t>(pair), numbers[pair],
                          numbers[kPairs + pair]);
    }
}

}  // namespace petamap::simulation

// Standard normal numbers, each a function of its stream and index alone.
//
// Philox words become two uniform numbers of 52 bits, these two normal numbers by the method of Box and
// Muller. Without branches and libm, on vectors of any number of lanes, so that the bits are the same on
// every machine. Largest value 8.6 sigma.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "petamap/simulation/noise.h"
#include "petamap/simulation/turn.h"

namespace petamap::simulation {

namespace detail {

template <int kLanes>
struct Words {
    Bits<kLanes> word[4];  // 32 bits each
};

// Philox4x32-10 on words held in 64 bits, where products need no widening.
template <int kLanes>
[[gnu::always_inline]] inline Words<kLanes> philox(Bits<kLanes> index, const Stream& stream) {
    using Word = Bits<kLanes>;
    using petacomm::multiply_words;
    constexpr std::uint64_t kLow = 0xFFFFFFFF;
    Word c0 = index & kLow, c1 = index >> 32, c2 = Word{} + stream.words[2], c3 = Word{} + stream.words[3];
    const Word factor0 = Word{} + 0xD2511F53, factor1 = Word{} + 0xCD9E8D57;
    std::uint64_t key0 = stream.words[0], key1 = stream.words[1];
    for (int round = 0; round < 10; ++round) {
        const Word product0 = multiply_words<kLanes>(factor0, c0);
        const Word product1 = multiply_words<kLanes>(factor1, c2);
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
template <int kLanes>
[[gnu::always_inline]] inline Reals<kLanes> log(Reals<kLanes> u) {
    using Real = Reals<kLanes>;
    using Word = Bits<kLanes>;
    constexpr std::uint64_t kRootHalf = 0x3FE6A09E667F3BCD, kSign = 0x8000000000000000;
    const Word power = (std::bit_cast<Word>(u) - kRootHalf) & 0xFFF0000000000000;
    const Real m = std::bit_cast<Real>(std::bit_cast<Word>(u) - power);
    // the exponent, with 2^11 more so that it is positive, as a double: in the last bits of 1.5 * 2^52
    const Word exponent = (power ^ kSign) >> 52;
    const Real k = std::bit_cast<Real>(0x4338000000000000 + exponent) - (0x1.8p52 + 2048);
    const Real s = (m - 1) / (m + 1), square = s * s;
    Real series = (1.0 / 23) * square + 1.0 / 21;  // s^2 < 0.0295: the next term is below 1e-18
    for (int odd = 19; odd >= 3; odd -= 2) series = series * square + 1.0 / odd;
    return k * 0x1.62e42fefa39efp-1 + 2 * (s + s * (square * series));
}

}  // namespace detail

// The pairs with the numbers `index` of a stream.
template <int kLanes>
[[gnu::always_inline]] inline void gaussian_pairs(const Stream& stream, Bits<kLanes> index,
                                                  Reals<kLanes>& first, Reals<kLanes>& second) {
    const auto [word] = detail::philox<kLanes>(index, stream);
    const Reals<kLanes> u = one_to_two<kLanes>(word[1] << 32 | word[0]) - (1 - 0x1p-53);
    const Reals<kLanes> radius = petacomm::square_root<kLanes>(-2 * detail::log<kLanes>(u));
    Reals<kLanes> cosine, sine;
    cos_sin<kLanes>(word[3] << 32 | word[2], cosine, sine);
    first = radius * cosine;
    second = radius * sine;
}

// Numbers [kGroup * group, kGroup * (group + n_groups)) of a stream.
template <int kLanes = petacomm::kNativeLanes>
void gaussian_groups(const Stream& stream, std::int64_t group, std::int64_t n_groups, double* out) {
    Bits<kLanes> index;
    for (int lane = 0; lane < kLanes; ++lane)
        index[lane] = static_cast<std::uint64_t>(group * kPairs) + static_cast<std::uint64_t>(lane);
    for (std::int64_t i = 0; i < n_groups; ++i, out += kGroup)
        for (std::int64_t pair = 0; pair < kPairs; pair += kLanes, index += kLanes) {
            Reals<kLanes> first, second;
            gaussian_pairs<kLanes>(stream, index, first, second);
            petacomm::store(out + pair, first);
            petacomm::store(out + kPairs + pair, second);
        }
}

}  // namespace petamap::simulation

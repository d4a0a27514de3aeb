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

// Registers side by side: each operation of one waits for the one before, and the others use the time.
template <class Register, int kWays>
struct Ways {
    Register way[kWays];

    [[gnu::always_inline]] Register& operator[](int i) { return way[i]; }
    [[gnu::always_inline]] const Register& operator[](int i) const { return way[i]; }
};

template <int kLanes, int kWays>
struct Words {
    Ways<Bits<kLanes>, kWays> word[4];  // 32 bits each
};

template <int kWays, class Work>
[[gnu::always_inline]] inline void each_way(const Work& work) {
#pragma GCC unroll 8
    for (int way = 0; way < kWays; ++way) work(way);
}

// Philox4x32-10 on words held in 64 bits, where products need no widening.
template <int kLanes, int kWays>
[[gnu::always_inline]] inline Words<kLanes, kWays> philox(const Ways<Bits<kLanes>, kWays>& index,
                                                          const Stream& stream) {
    using Word = Bits<kLanes>;
    using petacomm::multiply_words;
    constexpr std::uint64_t kLow = 0xFFFFFFFF;
    Words<kLanes, kWays> c;
    each_way<kWays>([&](int way) __attribute__((always_inline)) {
        c.word[0][way] = index[way] & kLow;
        c.word[1][way] = index[way] >> 32;
        c.word[2][way] = Word{} + stream.words[2];
        c.word[3][way] = Word{} + stream.words[3];
    });
    const Word factor0 = Word{} + 0xD2511F53, factor1 = Word{} + 0xCD9E8D57;
    std::uint64_t key0 = stream.words[0], key1 = stream.words[1];
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
        each_way<kWays>([&](int way) __attribute__((always_inline)) {
            const Word product0 = multiply_words<kLanes>(factor0, c.word[0][way]);
            const Word product1 = multiply_words<kLanes>(factor1, c.word[2][way]);
            c.word[0][way] = (product1 >> 32) ^ c.word[1][way] ^ key0;
            c.word[2][way] = (product0 >> 32) ^ c.word[3][way] ^ key1;
            c.word[1][way] = product1 & kLow;
            c.word[3][way] = product0 & kLow;
        });
        key0 = (key0 + 0x9E3779B9) & kLow;
        key1 = (key1 + 0xBB67AE85) & kLow;
    }
    return c;
}

// log(u) for normal u > 0: u = 2^k m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)).
template <int kLanes, int kWays>
[[gnu::always_inline]] inline void log(Ways<Reals<kLanes>, kWays>& u) {
    using Real = Reals<kLanes>;
    using Word = Bits<kLanes>;
    constexpr std::uint64_t kRootHalf = 0x3FE6A09E667F3BCD, kSign = 0x8000000000000000;
    Ways<Real, kWays> k, s, square, series;
    each_way<kWays>([&](int way) __attribute__((always_inline)) {
        const Word power = (std::bit_cast<Word>(u[way]) - kRootHalf) & 0xFFF0000000000000;
        const Real m = std::bit_cast<Real>(std::bit_cast<Word>(u[way]) - power);
        // the exponent, with 2^11 more so that it is positive, as a double: in the last bits of 1.5 * 2^52
        const Word exponent = (power ^ kSign) >> 52;
        k[way] = std::bit_cast<Real>(0x4338000000000000 + exponent) - (0x1.8p52 + 2048);
        s[way] = (m - 1) / (m + 1);
        square[way] = s[way] * s[way];
        series[way] = (1.0 / 23) * square[way] + 1.0 / 21;  // s^2 < 0.0295: the next term is below 1e-18
    });
#pragma GCC unroll 10
    for (int odd = 19; odd >= 3; odd -= 2)
        each_way<kWays>([&](int way) __attribute__((always_inline)) {
            series[way] = series[way] * square[way] + 1.0 / odd;
        });
    each_way<kWays>([&](int way) __attribute__((always_inline)) {
        u[way] = k[way] * 0x1.62e42fefa39efp-1 + 2 * (s[way] + s[way] * (square[way] * series[way]));
    });
}

}  // namespace detail

// The pairs with the numbers `index` of a stream.
template <int kLanes, int kWays>
[[gnu::always_inline]] inline void gaussian_pairs(const Stream& stream,
                                                  const detail::Ways<Bits<kLanes>, kWays>& index,
                                                  double* first, double* second) {
    using detail::each_way;
    const auto words = detail::philox<kLanes, kWays>(index, stream);
    detail::Ways<Reals<kLanes>, kWays> u;
    each_way<kWays>([&](int way) __attribute__((always_inline)) {
        u[way] = one_to_two<kLanes>(words.word[1][way] << 32 | words.word[0][way]) - (1 - 0x1p-53);
    });
    detail::log<kLanes, kWays>(u);
    each_way<kWays>([&](int way) __attribute__((always_inline)) {
        const Reals<kLanes> radius = petacomm::square_root<kLanes>(-2 * u[way]);
        Reals<kLanes> cosine, sine;
        cos_sin<kLanes>(words.word[3][way] << 32 | words.word[2][way], cosine, sine);
        petacomm::store(first + way * kLanes, radius * cosine);
        petacomm::store(second + way * kLanes, radius * sine);
    });
}

// Numbers [kGroup * group, kGroup * (group + n_groups)) of a stream.
template <int kLanes = petacomm::kNativeLanes, int kWays = 4>
void gaussian_groups(const Stream& stream, std::int64_t group, std::int64_t n_groups, double* out) {
    constexpr int kAtOnce = kLanes * kWays;
    detail::Ways<Bits<kLanes>, kWays> index;
    for (int way = 0; way < kWays; ++way)
        for (int lane = 0; lane < kLanes; ++lane)
            index[way][lane] =
                static_cast<std::uint64_t>(group * kPairs) + static_cast<std::uint64_t>(way * kLanes + lane);
    for (std::int64_t i = 0; i < n_groups; ++i, out += kGroup)
        for (std::int64_t pair = 0; pair < kPairs; pair += kAtOnce) {
            gaussian_pairs<kLanes, kWays>(stream, index, out + pair, out + kPairs + pair);
            for (int way = 0; way < kWays; ++way) index[way] += static_cast<std::uint64_t>(kAtOnce);
        }
}

}  // namespace petamap::simulation

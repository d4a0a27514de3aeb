// Cosine and sine of an angle held as an unsigned 64-bit fraction of a turn, to the last digits, without
// branches or libm.
#pragma once

#include <bit>
#include <cstdint>

#include "petacomm/base/simd.h"

namespace petamap::simulation {

using petacomm::Bits, petacomm::Reals;

// The upper 52 of 64 bits as a number in [1, 2).
template <int kLanes>
[[gnu::always_inline]] inline Reals<kLanes> one_to_two(Bits<kLanes> bits) {
    return std::bit_cast<Reals<kLanes>>((bits >> 12) | 0x3FF0000000000000);
}

template <int kLanes>
[[gnu::always_inline]] inline void cos_sin(Bits<kLanes> turn, Reals<kLanes>& cosine, Reals<kLanes>& sine) {
    using Real = Reals<kLanes>;
    using Word = Bits<kLanes>;
    // a quadrant, and an angle within an eighth turn of its middle
    const Word quadrant = turn + 0x2000000000000000;
    const Real x = (one_to_two<kLanes>(quadrant << 2) - 1.5) * 0x1.921fb54442d18p+0, square = x * x;
    Real s = (-1.0 / 1307674368000) * square + 1.0 / 6227020800;
    s = s * square - 1.0 / 39916800;
    s = s * square + 1.0 / 362880;
    s = s * square - 1.0 / 5040;
    s = s * square + 1.0 / 120;
    s = s * square - 1.0 / 6;
    s = x + x * (square * s);
    Real c = (1.0 / 20922789888000) * square - 1.0 / 87178291200;
    c = c * square + 1.0 / 479001600;
    c = c * square - 1.0 / 3628800;
    c = c * square + 1.0 / 40320;
    c = c * square - 1.0 / 720;
    c = c * square + 1.0 / 24;
    c = c * square - 0.5;
    c = c * square + 1;

    // exchange the two in odd quadrants; the cosine is negative in quadrants 1 and 2, the sine in 2 and 3
    constexpr std::uint64_t kSign = 0x8000000000000000;
    const Word odd = -((quadrant >> 62) & 1);
    const Word c_bits = std::bit_cast<Word>(c), s_bits = std::bit_cast<Word>(s);
    cosine = std::bit_cast<Real>(((s_bits & odd) | (c_bits & ~odd)) ^ ((quadrant ^ quadrant << 1) & kSign));
    sine = std::bit_cast<Real>(((c_bits & odd) | (s_bits & ~odd)) ^ (quadrant & kSign));
}

}  // namespace petamap::simulation

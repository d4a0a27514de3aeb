// Cosine and sine of an angle held as an unsigned 64-bit fraction of a turn, to the last digits, without
// branches or libm.
#pragma once

#include <bit>
#include <cstdint>

namespace petamap::simulation {

// The upper 52 of 64 bits as a number in [1, 2).
inline double one_to_two(std::uint64_t bits) {
    return std::bit_cast<double>((bits >> 12) | 0x3FF0000000000000);
}

inline void cos_sin(std::uint64_t turn, double& cosine, double& sine) {
    // a quadrant, and an angle within an eighth turn of its middle
    const std::uint64_t quadrant = turn + 0x2000000000000000;
    const double x = (one_to_two(quadrant << 2) - 1.5) * 0x1.921fb54442d18p+0, square = x * x;
    double s = -1.0 / 1307674368000;
    s = s * square + 1.0 / 6227020800;
    s = s * square - 1.0 / 39916800;
    s = s * square + 1.0 / 362880;
    s = s * square - 1.0 / 5040;
    s = s * square + 1.0 / 120;
    s = s * square - 1.0 / 6;
    s = x + x * (square * s);
    double c = 1.0 / 20922789888000;
    c = c * square - 1.0 / 87178291200;
    c = c * square + 1.0 / 479001600;
    c = c * square - 1.0 / 3628800;
    c = c * square + 1.0 / 40320;
    c = c * square - 1.0 / 720;
    c = c * square + 1.0 / 24;
    c = c * square - 0.5;
    c = c * square + 1;

    // exchange the two in odd quadrants; the cosine is negative in quadrants 1 and 2, the sine in 2 and 3
    constexpr std::uint64_t kSign = 0x8000000000000000;
    const std::uint64_t odd = -((quadrant >> 62) & 1);
    const std::uint64_t c_bits = std::bit_cast<std::uint64_t>(c), s_bits = std::bit_cast<std::uint64_t>(s);
    cosine = std::bit_cast<double>(((s_bits & odd) | (c_bits & ~odd)) ^ ((quadrant ^ quadrant << 1) & kSign));
    sine = std::bit_cast<double>(((c_bits & odd) | (s_bits & ~odd)) ^ (quadrant & kSign));
}

}  // namespace petamap::simulation

// Cosine and sine of an angle held as an unsigned 32-bit fraction of a turn: no range reduction, no branches.
#pragma once

#include <cstdint>

namespace petamap::base {

// Polynomials on a quarter turn around zero (|x| <= pi/4); errors below 3e-14, far below the 7e-10 rad that
// the angle itself resolves.
inline void cos_sin(std::uint32_t angle, double& cosine, double& sine) {
    constexpr double kUnit = 1.4629180792671596e-09;  // 2 pi / 2^32
    const std::uint32_t quadrant = (angle + 0x20000000u) >> 30;
    const double x = static_cast<double>(static_cast<std::int32_t>(angle - (quadrant << 30))) * kUnit;
    const double x2 = x * x;
    const double s =
        x + x * x2 *
                (-1.0 / 6 + x2 * (1.0 / 120 + x2 * (-1.0 / 5040 +
                                                    x2 * (1.0 / 362880 + x2 * (-1.0 / 39916800 +
                                                                               x2 * (1.0 / 6227020800.0))))));
    const double c =
        1 +
        x2 * (-1.0 / 2 +
              x2 * (1.0 / 24 +
                    x2 * (-1.0 / 720 +
                          x2 * (1.0 / 40320 + x2 * (-1.0 / 3628800 +
                                                    x2 * (1.0 / 479001600 + x2 * (-1.0 / 87178291200.0)))))));
    const bool exchanged = quadrant & 1;
    const double cosine_size = exchanged ? s : c, sine_size = exchanged ? c : s;
    cosine = (quadrant == 1 || quadrant == 2) ? -cosine_size : cosine_size;
    sine = (quadrant & 2) ? -sine_size : sine_size;
}

}  // namespace petamap::base

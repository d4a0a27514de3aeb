// Cosine and sine of an angle held as an unsigned 32-bit fraction of a turn: no range reduction, no branches.
#pragma once

#include <cstdint>

namespace petamap::sky {

// Polynomials of least largest error on a quarter turn around zero (|x| <= pi/4): 2.3e-15 from the sine,
// 4e-16 from the cosine, far below the 7e-10 rad that the angle itself resolves. Inlined by order: where a
// compiler calls it, it makes no vectors of the loop.
[[gnu::always_inline]] inline void cos_sin(std::uint32_t angle, double& cosine, double& sine) {
    constexpr double kUnit = 1.4629180792671596e-09;  // 2 pi / 2^32
    const std::uint32_t quadrant = (angle + 0x20000000u) >> 30;
    const double x = static_cast<double>(static_cast<std::int32_t>(angle - (quadrant << 30))) * kUnit;
    const double x2 = x * x;
    const double s = x + x * x2 *
                             (-0.16666666666606086 +
                              x2 * (0.008333333321928494 +
                                    x2 * (-0.00019841262368092247 +
                                          x2 * (2.755509930766086e-06 + x2 * -2.4745486405134562e-08))));
    const double c =
        1 + x2 * (-0.49999999999999967 +
                  x2 * (0.041666666666624705 +
                        x2 * (-0.001388888888148434 +
                              x2 * (2.480158235728784e-05 +
                                    x2 * (-2.755580798600823e-07 + x2 * 2.066244614338455e-09)))));
    const bool exchanged = quadrant & 1;
    const double cosine_size = exchanged ? s : c, sine_size = exchanged ? c : s;
    cosine = (quadrant == 1 || quadrant == 2) ? -cosine_size : cosine_size;
    sine = (quadrant & 2) ? -sine_size : sine_size;
}

}  // namespace petamap::sky

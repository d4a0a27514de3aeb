// Cosine and sine of an angle held as an unsigned 32-bit fraction of a turn: no range reduction, no branches.
#pragma once

#include <bit>
#include <cstdint>

namespace petamap::sky {

// Polynomials of least largest error on a quarter turn around zero (|x| <= pi/4): 2.3e-15 from the sine,
// 4e-16 from the cosine, far below the 7e-10 rad that the angle itself resolves. Inlined by order: where a
// compiler calls it, it makes no vectors of the loop.
[[gnu::always_inline]] inline void cos_sin(std::uint32_t angle, double& cosine, double& sine) {
    constexpr double kUnit = 1.4629180792671596e-09;   // 2 pi / 2^32
    const std::uint32_t turned = angle + 0x20000000u;  // the quadrant in the upper two bits
    const double x = static_cast<double>(static_cast<std::int32_t>(angle - (turned & 0xC0000000u))) * kUnit;
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
    // Exchanged in odd quadrants; the cosine is negative in quadrants 1 and 2, the sine in 2 and 3.
    const auto odd = static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(turned << 1) >> 31});
    const auto sign = [](std::uint32_t word) { return std::uint64_t{word & 0x80000000u} << 32; };
    const std::uint64_t c_bits = std::bit_cast<std::uint64_t>(c), s_bits = std::bit_cast<std::uint64_t>(s);
    const std::uint64_t exchange = (c_bits ^ s_bits) & odd;
    cosine = std::bit_cast<double>(c_bits ^ exchange ^ sign(turned ^ turned << 1));
    sine = std::bit_cast<double>(s_bits ^ exchange ^ sign(turned));
}

}  // namespace petamap::sky

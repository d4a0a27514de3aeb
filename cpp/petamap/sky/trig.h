// Cosine and sine of an angle held as an unsigned 32-bit fraction of a turn: no range reduction, no branches.
#pragma once

#include <bit>
#include <cstdint>

#include "petacomm/base/simd.h"

namespace petamap::sky {

// Of angles in the upper 32 bits of words. Polynomials of least largest error on a quarter turn around zero
// (|x| <= pi/4): 2.3e-15 from the sine, 4e-16 from the cosine, far below the 7e-10 rad that the angle itself
// resolves. Inlined by order: where a compiler calls it, it makes no vectors of the loop.
template <int kLanes>
[[gnu::always_inline]] inline void cos_sin(petacomm::Bits<kLanes> angle, petacomm::Reals<kLanes>& cosine,
                                           petacomm::Reals<kLanes>& sine) {
    using Real = petacomm::Reals<kLanes>;
    using Words = petacomm::Bits<kLanes>;
    const Words turned = angle + 0x2000000000000000;  // the quadrant in the upper two bits
    // the rest are the digits of a number in [1, 2), which takes no conversion of integers
    const Real quarters = std::bit_cast<Real>((turned << 2 >> 12) | 0x3FF0000000000000) - 1.5;
    const Real x = quarters * 1.5707963267948966, x2 = x * x;
    const Real s = x + x * x2 *
                           (-0.16666666666606086 +
                            x2 * (0.008333333321928494 +
                                  x2 * (-0.00019841262368092247 +
                                        x2 * (2.755509930766086e-06 + x2 * -2.4745486405134562e-08))));
    const Real c = 1 + x2 * (-0.49999999999999967 +
                             x2 * (0.041666666666624705 +
                                   x2 * (-0.001388888888148434 +
                                         x2 * (2.480158235728784e-05 +
                                               x2 * (-2.755580798600823e-07 + x2 * 2.066244614338455e-09)))));
    // Exchanged in odd quadrants; the cosine is negative in quadrants 1 and 2, the sine in 2 and 3.
    constexpr std::uint64_t kSign = 0x8000000000000000;
    const auto odd = std::bit_cast<petacomm::Wholes<kLanes>>(turned << 1) < 0;
    const Real first = odd ? s : c, second = odd ? c : s;
    cosine = std::bit_cast<Real>(std::bit_cast<Words>(first) ^ ((turned ^ turned << 1) & kSign));
    sine = std::bit_cast<Real>(std::bit_cast<Words>(second) ^ (turned & kSign));
}

[[gnu::always_inline]] inline void cos_sin(std::uint32_t angle, double& cosine, double& sine) {
    cos_sin<1>(std::uint64_t{angle} << 32, cosine, sine);
}

}  // namespace petamap::sky

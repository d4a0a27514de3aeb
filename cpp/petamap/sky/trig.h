// Cosine and sine of an angle held as an unsigned 32-bit fraction of a turn: no range reduction, no branches.
#pragma once

#include <array>
#include <cstdint>
#include <numbers>

#include "petacomm/base/simd.h"

namespace petamap::sky {

namespace detail {

// Cosine and sine of the 512 parts of a turn, in turn. Sums of Taylor's series, from the smallest term on: to
// the last digit, and by no library, so the same bits on every machine.
struct UnitCircle {
    static constexpr int kParts = 512, kOctant = kParts / 8;

    alignas(64) double values[2 * kParts];

    constexpr UnitCircle() : values{} {
        double cosine[kOctant + 1] = {}, sine[kOctant + 1] = {};
        for (int i = 0; i <= kOctant; ++i) {
            const double x = 2 * std::numbers::pi * i / kParts, square = x * x;
            double c = 0, s = 0;
            for (int k = 20; k >= 2; k -= 2) {
                c = (1 - c) * square / (k * (k - 1));
                s = (1 - s) * square / (k * (k + 1));
            }
            cosine[i] = 1 - c;
            sine[i] = x - x * s;
        }
        for (int i = 0; i < kParts; ++i) {
            const int quadrant = i / (2 * kOctant), rest = i % (2 * kOctant), mirrored = 2 * kOctant - rest;
            double c = rest <= kOctant ? cosine[rest] : sine[mirrored];
            double s = rest <= kOctant ? sine[rest] : cosine[mirrored];
            for (int turn = 0; turn < quadrant; ++turn) {
                const double before = c;
                c = -s;
                s = before;
            }
            values[2 * i] = c;
            values[2 * i + 1] = s;
        }
    }

    // Those of the part of a turn nearest to an angle.
    [[gnu::always_inline]] const double* nearest(std::uint32_t angle) const {
        return values + 2 * ((angle + (1U << 22)) >> 23);
    }
    // Those of a number of parts, of any size and sign.
    [[gnu::always_inline]] const double* part(std::int64_t number) const {
        return values + 2 * (number & (kParts - 1));
    }
};

inline constexpr UnitCircle kUnitCircle;

}  // namespace detail

// Those of the nearest part of a turn, and a rotation by the rest x, |x| <= pi/512. Of that, polynomials of
// least largest error: 4.5e-15 from the sine, 1e-17 from the cosine, far below the 7e-10 rad that the angle
// itself resolves. Inlined by order: where a compiler calls it, it makes no vectors of the loop.
template <int kLanes>
[[gnu::always_inline]] inline void cos_sin(const std::uint32_t* angles, petacomm::Reals<kLanes>& cosine,
                                           petacomm::Reals<kLanes>& sine) {
    using Real = petacomm::Reals<kLanes>;
    Real c, s;
    const auto at = [=](int lane)
                        __attribute__((always_inline)) { return detail::kUnitCircle.nearest(angles[lane]); };
    petacomm::collect_pairs<kLanes>(at, c, s);
    // in units of 2 pi / 2^41, with a sign
    const Real x = petacomm::load_lower<kLanes, 9>(angles), x2 = x * x;
    const Real small_sine = x * (0x1.921fb5443c717p-39 + x2 * -0x1.4abb9b6187e11p-118);
    const Real less = x2 * (-0x1.3bd3cc9be3b30p-78 + x2 * 0x1.03c1db247a094p-158);  // cos(x) - 1
    cosine = c + (c * less - s * small_sine);
    sine = s + (s * less + c * small_sine);
}

// Of angles in radians, |x| < 10^5, to the last digits; nan where they are not finite. What is left of the
// nearest part of a turn is exact: the first two summands of a part have 29 bits, numbers of parts 24.
template <int kLanes>
[[gnu::always_inline]] inline void cos_sin_of_radians(petacomm::Reals<kLanes> angle,
                                                      petacomm::Reals<kLanes>& cosine,
                                                      petacomm::Reals<kLanes>& sine) {
    using Real = petacomm::Reals<kLanes>;
    constexpr double kPartsPerRadian = 0x1.45f306dc9c883p+6;
    constexpr double kPart[] = {0x1.921fb54p-7, 0x1.10b4612p-37, -0x1.676733ae8fe48p-67};
    const Real number = petacomm::to_whole<kLanes>(angle * kPartsPerRadian);
    std::int64_t numbers[kLanes];
    petacomm::store(numbers, petacomm::to_fixed<kLanes>(number));
    Real c, s;
    const auto at = [&](int lane)
                        __attribute__((always_inline)) { return detail::kUnitCircle.part(numbers[lane]); };
    petacomm::collect_pairs<kLanes>(at, c, s);
    const Real x = ((angle - number * kPart[0]) - number * kPart[1]) - number * kPart[2], x2 = x * x;
    const Real small_sine = x + x * (x2 * (-1.0 / 6 + x2 * (1.0 / 120)));
    const Real less = x2 * (-0.5 + x2 * (1.0 / 24));  // cos(x) - 1
    cosine = c + (c * less - s * small_sine);
    sine = s + (s * less + c * small_sine);
}

// Of n angles.
[[gnu::always_inline]] inline void cos_sin(const std::uint32_t* angles, std::int64_t n, double* cosine,
                                           double* sine) {
    petacomm::for_lanes(n, [=](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        petacomm::Reals<lanes()> c, s;
        cos_sin<lanes()>(angles + i, c, s);
        petacomm::store(cosine + i, c);
        petacomm::store(sine + i, s);
    });
}

}  // namespace petamap::sky

// The angle of a vector, without branches or tables, so that a loop over many vectorises.
#pragma once

#include <cmath>
#include <numbers>

namespace petamap::sky {

namespace detail {

// (atan(r)/r - 1) / r^2 as a polynomial in r^2 for |r| <= tan(pi/8): interpolated at Chebyshev nodes,
// relative error of atan below 5e-18.
[[gnu::always_inline]] inline double atan_tail(double square) {
    constexpr double kCoefficients[] = {-0x1.5555555555555p-2, 0x1.999999999934cp-3,  -0x1.2492492436201p-3,
                                        0x1.c71c71853d7fap-4,  -0x1.745d0b28a7e37p-4, 0x1.3b1263064f6b9p-4,
                                        -0x1.10fa77b1a6d57p-4, 0x1.dfe6497e96323p-5,  -0x1.a0999c632b6edp-5,
                                        0x1.4162c02b1dda3p-5,  -0x1.3a31b1c0fd3b6p-6};
    double sum = kCoefficients[10];
    for (int i = 9; i >= 0; --i) sum = sum * square + kCoefficients[i];
    return sum;
}

// |atan2(y, x)|, in [0, pi]; 0 for the zero vector.
[[gnu::always_inline]] inline double absolute_angle(double y, double x) {
    // pi/4 in two parts, the first short enough that its small multiples are exact.
    constexpr double kEighthHigh = 0x1.921fb54442d00p-1, kEighthLow = 0x1.8469898cc5170p-49;
    constexpr double kTanEighth = 0x1.a827999fcef32p-2;  // tan(pi/8)
    const double along = std::fabs(x), across = std::fabs(y);
    const bool steep = across > along;
    const double small = steep ? along : across, large = steep ? across : along;
    const bool middle = small > kTanEighth * large;
    const double numerator = middle ? small - large : small;
    const double denominator = middle ? small + large : large;
    const double ratio = numerator / (denominator > 0 ? denominator : 1.0);
    const double square = ratio * ratio;
    const double angle = ratio + ratio * (square * atan_tail(square));
    // Unfold the octants: the result is eighths * pi/4 + sign * angle.
    double eighths = middle ? 1.0 : 0.0, sign = 1.0;
    eighths = steep ? 2.0 - eighths : eighths;
    sign = steep ? -sign : sign;
    eighths = x < 0 ? 4.0 - eighths : eighths;
    sign = x < 0 ? -sign : sign;
    return eighths * kEighthHigh + (eighths * kEighthLow + sign * angle);
}

}  // namespace detail

// atan2(y, x) to about one unit in the last place, in [-pi, pi]; 0 for the zero vector. Finite arguments
// only.
[[gnu::always_inline]] inline double angle_of(double y, double x) {
    return std::copysign(detail::absolute_angle(y, x), y);
}

// The angle in quarter turns, in [0, 4).
[[gnu::always_inline]] inline double quarter_turns_of(double y, double x) {
    constexpr double kPerRadian = 2 * std::numbers::inv_pi;
    const double turns = detail::absolute_angle(y, x) * kPerRadian;
    const double positive = y < 0 ? 4.0 - turns : turns;
    return positive < 4.0 ? positive : 0.0;
}

}  // namespace petamap::sky

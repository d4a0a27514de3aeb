// Response angles: turns as an unsigned 32-bit fraction, which wraps at no cost.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace petamap::pointing {

// Turns, |turns| < 2^18, to the nearest turn / 2^32, wrapped: the low bits of the sum with a large number.
[[gnu::always_inline]] inline std::uint32_t wrapped(double turns) {
    constexpr double kScale = 4294967296.0, kMagic = 6755399441055744.0;  // 2^32, 1.5 * 2^52
    return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(turns * kScale + kMagic));
}

// The response angle of a polarization angle, radians: twice as large.
[[gnu::always_inline]] inline std::uint32_t response_angle(double psi) {
    return wrapped(psi * 0.31830988618379067);  // 1 / pi
}

// atan2(sine, cosine) / pi, which is twice the angle in turns, to 2e-11: the polynomial interpolates
// atan(t) / (pi t) at the Chebyshev nodes of t^2 in [0, 1].
[[gnu::always_inline]] inline double twice_the_angle(double sine, double cosine) {
    const double a = std::fabs(cosine), b = std::fabs(sine);
    const double larger = a > b ? a : b, smaller = a > b ? b : a;
    const double t = smaller / (larger > 0.0 ? larger : 1.0);
    const double x = t * t;
    double p = -0.00021116529152073513;
    p = p * x + 0.0015063962880542835;
    p = p * x - 0.005038311121337857;
    p = p * x + 0.010767219284366036;
    p = p * x - 0.01717494437405795;
    p = p * x + 0.02300832434424492;
    p = p * x - 0.028565676477975994;
    p = p * x + 0.03530668734911824;
    p = p * x - 0.04546678971585549;
    p = p * x + 0.06366166243512578;
    p = p * x - 0.10610328889329496;
    p = p * x + 0.3183098861612873;
    double turns = p * t;
    turns = b > a ? 0.5 - turns : turns;
    turns = cosine < 0.0 ? 1.0 - turns : turns;
    return sine < 0.0 ? -turns : turns;
}

}  // namespace petamap::pointing

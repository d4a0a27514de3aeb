// The boresight between two knots: a segment of smooth rotation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "petamap/pointing/boresight.h"
#include "petamap/pointing/quaternion.h"

namespace petamap::pointing {

// q(u) = base * exp(c1 u + c2 u^2 + c3 u^3) between two knots, u from 0 to 1.
struct Segment {
    Quaternion base;
    Vector c1, c2, c3;
};

// A piece of the boresight; samples count from its first one.
struct Piece {
    const double* boresight;  // (knots.n, 4)
    Knots knots;
    int degree;  // of the rotation vector between knots: 1 is SLERP; 3 needs 4 knots
    std::int64_t first, stop;

    // Knots at every sample, up to `end`, need no interpolation.
    bool at_full_rate(std::int64_t end) const { return knots.at_every_sample() && knots.n >= end; }

    // The segment of an interval, of a detector's quaternions.
    Segment segment(std::int64_t interval, const Quaternion& detector) const;
};

// The cubic through the rotation vectors, seen from knot i, of the 4 knots about the interval: exact for a
// constant rotation, and of fourth order in the spacing otherwise.
inline Segment cubic_segment(const double* boresight, std::int64_t n_knots, std::int64_t i) {
    const std::int64_t first = std::clamp<std::int64_t>(i - 1, 0, n_knots - 4);
    const Quaternion base = at(boresight, i);
    Vector f[4];
    for (int j = 0; j < 4; ++j) f[j] = logarithm(conjugate(base) * at(boresight, first + j));
    const Vector d1 = f[1] - f[0], d2 = f[2] - 2.0 * f[1] + f[0];
    const Vector d3 = f[3] - 3.0 * f[2] + 3.0 * f[1] - f[0];
    const Vector a3 = (1.0 / 6.0) * d3, a2 = 0.5 * (d2 - d3), a1 = d1 - 0.5 * d2 + (1.0 / 3.0) * d3;
    const auto shift = static_cast<double>(i - first);
    return {base, a1 + 2.0 * shift * a2 + 3.0 * shift * shift * a3, a2 + 3.0 * shift * a3, a3};
}

inline Segment linear_segment(const double* boresight, std::int64_t i) {
    const Quaternion base = at(boresight, i);
    return {base, logarithm(conjugate(base) * at(boresight, i + 1)), {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
}

// base * exp(c) * detector = (base * detector) * exp(detector^-1 c detector): one product a sample.
inline Segment Piece::segment(std::int64_t interval, const Quaternion& detector) const {
    const bool cubic = degree == 3 && knots.n >= 4;
    const Segment s =
        cubic ? cubic_segment(boresight, knots.n, interval) : linear_segment(boresight, interval);
    const Quaternion back = conjugate(detector);
    return {s.base * detector, rotate(back, s.c1), rotate(back, s.c2), rotate(back, s.c3)};
}

// The piece that a sample lies in; the last one also serves what lies beyond it.
inline Piece piece_of(const Boresight& b, std::int64_t sample) {
    std::int64_t low = 0, high = b.n_pieces;  // the last piece that begins at or before the sample
    while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (b.ranges[2 * middle] <= sample ? low : high) = middle;
    }
    const std::int64_t *range = b.ranges + 2 * low, *next = range + 2;
    const double* how = b.interpolation + 3 * low;
    return {b.knots + 4 * range[1],
            {next[1] - range[1], how[0], how[1]},
            static_cast<int>(how[2]),
            range[0],
            low + 1 < b.n_pieces ? next[0] : std::numeric_limits<std::int64_t>::max()};
}

// Taylor series of cos(h) and sin(h)/h in h^2, to 1e-12 at a right angle of h and 1e-16 below half of it.
[[gnu::always_inline]] inline double cosine_of(double h2) {
    return 1.0 + h2 * (-1.0 / 2 +
                       h2 * (1.0 / 24 +
                             h2 * (-1.0 / 720 +
                                   h2 * (1.0 / 40320 + h2 * (-1.0 / 3628800 +
                                                             h2 * (1.0 / 479001600 +
                                                                   h2 * (-1.0 / 87178291200. +
                                                                         h2 * (1.0 / 20922789888000.))))))));
}

[[gnu::always_inline]] inline double sinc_of(double h2) {
    return 1.0 +
           h2 * (-1.0 / 6 +
                 h2 * (1.0 / 120 + h2 * (-1.0 / 5040 +
                                         h2 * (1.0 / 362880 + h2 * (-1.0 / 39916800 +
                                                                    h2 * (1.0 / 6227020800. +
                                                                          h2 * (-1.0 / 1307674368000.)))))));
}

// The quaternion of a segment at u.
[[gnu::always_inline]] inline Quaternion interpolate(const Segment& s, double u) {
    const double hx = u * (s.c1.x + u * (s.c2.x + u * s.c3.x));
    const double hy = u * (s.c1.y + u * (s.c2.y + u * s.c3.y));
    const double hz = u * (s.c1.z + u * (s.c2.z + u * s.c3.z));
    const double h2 = hx * hx + hy * hy + hz * hz;
    const double scale = sinc_of(h2);
    return s.base * Quaternion{scale * hx, scale * hy, scale * hz, cosine_of(h2)};
}

}  // namespace petamap::pointing

// The boresight between two knots: a segment of smooth rotation.
#pragma once

#include <cstdint>

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
    bool at_full_rate(std::int64_t end) const {
        return knots.spacing == 1.0 && knots.offset == 0.0 && knots.n >= end;
    }

    // The segment of an interval, of a detector's quaternions.
    Segment segment(std::int64_t interval, const Quaternion& detector) const;
};

// The last piece also serves what lies beyond it.
Piece piece_of(const Boresight& boresight, std::int64_t sample);

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

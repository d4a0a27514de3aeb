#include "petamap/pointing/segment.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace petamap::pointing {
namespace {

// The cubic through the rotation vectors, seen from knot i, of the 4 knots about the interval: exact for a
// constant rotation, and of fourth order in the spacing otherwise.
Segment cubic_segment(const double* boresight, std::int64_t n_knots, std::int64_t i) {
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

Segment linear_segment(const double* boresight, std::int64_t i) {
    const Quaternion base = at(boresight, i);
    return {base, logarithm(conjugate(base) * at(boresight, i + 1)), {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
}

}  // namespace

double Knots::position(std::int64_t sample) const { return (static_cast<double>(sample) - offset) / spacing; }

std::int64_t Knots::interval_of(std::int64_t sample) const {
    const auto i = static_cast<std::int64_t>(std::floor(position(sample)));
    return std::clamp<std::int64_t>(i, 0, n - 2);
}

std::int64_t Knots::interval_begin(std::int64_t interval) const {
    if (interval == 0) return 0;
    const double knot = offset + static_cast<double>(interval) * spacing;
    std::int64_t begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(knot)));
    while (begin > 0 && interval_of(begin - 1) >= interval) --begin;
    while (interval_of(begin) < interval) ++begin;
    return begin;
}

std::int64_t Knots::interval_end(std::int64_t interval, std::int64_t sample, std::int64_t stop) const {
    if (interval == n - 2) return stop;
    const double knot = offset + static_cast<double>(interval + 1) * spacing;
    std::int64_t end = std::clamp(static_cast<std::int64_t>(std::ceil(knot)), sample + 1, stop);
    while (end > sample + 1 && interval_of(end - 1) > interval) --end;
    while (end < stop && interval_of(end) == interval) ++end;
    return end;
}

// base * exp(c) * detector = (base * detector) * exp(detector^-1 c detector): one product a sample.
Segment Piece::segment(std::int64_t interval, const Quaternion& detector) const {
    const bool cubic = degree == 3 && knots.n >= 4;
    const Segment s =
        cubic ? cubic_segment(boresight, knots.n, interval) : linear_segment(boresight, interval);
    const Quaternion back = conjugate(detector);
    return {s.base * detector, rotate(back, s.c1), rotate(back, s.c2), rotate(back, s.c3)};
}

Piece piece_of(const Boresight& b, std::int64_t sample) {
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

}  // namespace petamap::pointing

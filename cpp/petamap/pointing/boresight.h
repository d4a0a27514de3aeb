// The boresight of the telescope at its knots, and which samples each interval between knots serves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace petamap::pointing {

// Values at uniform knots: knot k stands at sample offset + k * spacing.
struct Knots {
    std::int64_t n = 0;
    double spacing = 1.0;
    double offset = 0.0;

    // Knot k stands at sample k: none lies between.
    bool at_every_sample() const { return spacing == 1.0 && offset == 0.0; }
    double position(std::int64_t sample) const;
    // The knot before a sample; the first and last intervals also serve what lies beyond them.
    std::int64_t interval_of(std::int64_t sample) const;
    // The first sample >= 0 of an interval that has one.
    std::int64_t interval_begin(std::int64_t interval) const;
    // The end of the run of samples that share the interval of `sample`, at most `stop`.
    std::int64_t interval_end(std::int64_t interval, std::int64_t sample, std::int64_t stop) const;
};

inline double Knots::position(std::int64_t sample) const {
    return (static_cast<double>(sample) - offset) / spacing;
}

inline std::int64_t Knots::interval_of(std::int64_t sample) const {
    const auto i = static_cast<std::int64_t>(std::floor(position(sample)));
    return std::clamp<std::int64_t>(i, 0, n - 2);
}

inline std::int64_t Knots::interval_begin(std::int64_t interval) const {
    if (interval == 0) return 0;
    const double knot = offset + static_cast<double>(interval) * spacing;
    std::int64_t begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(knot)));
    while (begin > 0 && interval_of(begin - 1) >= interval) --begin;
    while (interval_of(begin) < interval) ++begin;
    return begin;
}

inline std::int64_t Knots::interval_end(std::int64_t interval, std::int64_t sample, std::int64_t stop) const {
    if (interval == n - 2) return stop;
    const double knot = offset + static_cast<double>(interval + 1) * spacing;
    std::int64_t end = std::clamp(static_cast<std::int64_t>(std::ceil(knot)), sample + 1, stop);
    while (end > sample + 1 && interval_of(end - 1) > interval) --end;
    while (end < stop && interval_of(end) == interval) ++end;
    return end;
}

// Boresight quaternions (x, y, z, w) of consecutive ranges of samples, each with uniform knots of its own.
// They are unit, neighbouring knots less than a right angle apart and of like sign.
struct Boresight {
    const double* knots = nullptr;          // (n_knots, 4)
    const std::int64_t* ranges = nullptr;   // (n_pieces + 1, 2): first sample and first knot; the ends
    const double* interpolation = nullptr;  // (n_pieces, 3): spacing, offset from the first sample, degree
    std::int64_t n_pieces = 0;
};

}  // namespace petamap::pointing

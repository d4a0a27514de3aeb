// Short arcs of the sky on which height, longitude and response angle are polynomials of time: far from the
// poles they are smooth, and polynomials take a fraction of the time that rotations and arc tangents take.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>

#include "petamap/pointing/response_angle.h"
#include "petamap/pointing/segment.h"
#include "petamap/sky/angle.h"
#include "petamap/sky/healpix.h"

namespace petamap::pointing {

// An arc as polynomials: factors of the powers of time.
struct Arc {
    static constexpr int kSamples = 64;
    static constexpr int kNodes = 10;
    enum Quantity { kHeight, kLongitude, kAngle, kQuantities };
    // Of HEALPix, in which all of an arc lies: its pixels are found at less cost.
    enum class Zone { kBelt, kCap, kBoth };

    // Where samples lie on an arc, from -1 to 1.
    static constexpr double kMiddle = 0.5 * (kSamples - 1), kHalf = 0.5 * kSamples;
    [[gnu::always_inline]] static constexpr double place_of(std::int32_t sample) {
        return (sample - kMiddle) / kHalf;
    }

    // Knots so near each other that few samples share an interval are better interpolated one by one.
    static bool suit(const Knots& knots) { return knots.spacing >= kSamples / 2; }

    // A quantity where t, from -1 to 1, is on the arc. Two sums: neither waits for the other.
    [[gnu::always_inline]] static double value_at(const double (&factors)[kNodes], double t) {
        const double square = t * t;
        double even = factors[kNodes - 2], odd = factors[kNodes - 1];
        for (int j = kNodes - 2; j > 0; j -= 2) {
            even = even * square + factors[j - 2];
            odd = odd * square + factors[j - 1];
        }
        return even + t * odd;
    }

    template <Zone zone, bool nested>
    [[gnu::always_inline]] static std::int32_t pixel_of(const sky::Healpix& healpix, double height,
                                                        double longitude) {
        const double positive = longitude < 0 ? longitude + 4.0 : longitude;
        const double turns = positive >= 4.0 ? positive - 4.0 : positive, depth = 1 - std::fabs(height);
        if constexpr (zone == Zone::kBelt)
            return sky::number_of(healpix, sky::belt_place<nested>(healpix, height, turns));
        else if constexpr (zone == Zone::kCap)
            return sky::number_of(healpix, sky::cap_place<nested>(healpix, height > 0, depth, turns));
        else
            return sky::healpix_pixel_at<nested>(healpix, height, depth, turns);
    }

    double factors[kQuantities][kNodes];
    Zone zone;
    bool smooth;  // within 2^-36 turns of the arc, and outside the tips of the caps, where a height has too
                  // few digits
};

// Chebyshev's: cos((2 j + 1) pi / 20).
inline constexpr double kNodePlaces[Arc::kNodes] = {
    -0.98768834059513777, -0.8910065241883679, -0.7071067811865476, -0.4539904997395468, -0.15643446504023092,
    0.15643446504023092,  0.4539904997395468,  0.7071067811865476,  0.8910065241883679,  0.98768834059513777};

// So many arcs that are fitted together, as many at once as a `Real` has numbers.
template <int kBatch, class Real = double>
class ArcFits {
  public:
    // Set arc k of the batch: `sample` is its first one, counted as those of the knots.
    void set(int k, const Segment& segment, const Knots& knots, std::int64_t interval, std::int64_t sample);

    // Fit the first n arcs of the batch.
    void fit(int n);

    Arc arc(int k) const {
        Arc arc;
        for (int i = 0; i < Arc::kQuantities; ++i)
            for (int j = 0; j < kNodes; ++j) arc.factors[i][j] = values_[i][j][k];
        arc.zone = zones_[k];
        arc.smooth = smooth_[k];
        return arc;
    }

  private:
    static constexpr int kNodes = Arc::kNodes, kLanes = sizeof(Real) / sizeof(double);

    // Values at the nodes of arcs [k, k + kLanes).
    [[gnu::always_inline]] void load(Arc::Quantity quantity, int k, Real (&values)[kNodes]) const {
#pragma GCC unroll 16
        for (int j = 0; j < kNodes; ++j) memcpy(&values[j], values_[quantity][j] + k, sizeof(Real));
    }
    [[gnu::always_inline]] void store(Arc::Quantity quantity, int k, const Real (&values)[kNodes]) {
#pragma GCC unroll 16
        for (int j = 0; j < kNodes; ++j) memcpy(values_[quantity][j] + k, &values[j], sizeof(Real));
    }

    void sample_nodes();
    void unwrap(Arc::Quantity quantity, double period);
    void fit_polynomial(Arc::Quantity quantity);
    void judge(int n);

    // segments: base, then c1, c2, c3; where in the segment the arc has its middle, and half its length
    alignas(64) double segments_[13][kBatch], middles_[kBatch], halves_[kBatch];
    // at the nodes, then the factors of the powers of time
    alignas(64) double values_[Arc::kQuantities][kNodes][kBatch];
    bool smooth_[kBatch];
    Arc::Zone zones_[kBatch];
};

template <int kBatch, class Real>
void ArcFits<kBatch, Real>::set(int k, const Segment& s, const Knots& knots, std::int64_t interval,
                                std::int64_t sample) {
    const double numbers[13] = {s.base.x, s.base.y, s.base.z, s.base.w, s.c1.x, s.c1.y, s.c1.z,
                                s.c2.x,   s.c2.y,   s.c2.z,   s.c3.x,   s.c3.y, s.c3.z};
    for (int i = 0; i < 13; ++i) segments_[i][k] = numbers[i];
    const double middle = static_cast<double>(sample) + Arc::kMiddle - knots.offset;
    middles_[k] = middle / knots.spacing - static_cast<double>(interval);
    halves_[k] = Arc::kHalf / knots.spacing;
}

template <int kBatch, class Real>
void ArcFits<kBatch, Real>::fit(int n) {
    for (int k = n; k < kBatch; ++k) {  // lanes that nobody looks at
        for (auto& numbers : segments_) numbers[k] = numbers[0];
        middles_[k] = middles_[0];
        halves_[k] = halves_[0];
    }
    sample_nodes();
    unwrap(Arc::kLongitude, 4.0);
    unwrap(Arc::kAngle, 2.0);
    fit_polynomial(Arc::kHeight);
    fit_polynomial(Arc::kLongitude);
    fit_polynomial(Arc::kAngle);
    judge(n);
}

template <int kBatch, class Real>
void ArcFits<kBatch, Real>::sample_nodes() {
    const auto& s = segments_;
    for (int j = 0; j < kNodes; ++j) {
#pragma omp simd
        for (int k = 0; k < kBatch; ++k) {
            const Segment segment = {{s[0][k], s[1][k], s[2][k], s[3][k]},
                                     {s[4][k], s[5][k], s[6][k]},
                                     {s[7][k], s[8][k], s[9][k]},
                                     {s[10][k], s[11][k], s[12][k]}};
            const double u = middles_[k] + halves_[k] * kNodePlaces[j];
            const Sight sight = sight_of(pointing::interpolate(segment, u));
            values_[Arc::kHeight][j][k] = sight.z;
            values_[Arc::kLongitude][j][k] = sky::quarter_turns_of(sight.y, sight.x);
            values_[Arc::kAngle][j][k] = sky::angle_of(sight.sine, sight.cosine) * std::numbers::inv_pi;
        }
    }
}

// Remove whole periods between the nodes of an arc.
template <int kBatch, class Real>
void ArcFits<kBatch, Real>::unwrap(Arc::Quantity quantity, double period) {
    constexpr double kMagic = 0x1.8p52;  // adding it rounds to whole numbers
    for (int k = 0; k < kBatch; k += kLanes) {
        Real values[kNodes];
        load(quantity, k, values);
#pragma GCC unroll 16
        for (int j = 1; j < kNodes; ++j)
            values[j] -= period * (((values[j] - values[0]) / period + kMagic) - kMagic);
        store(quantity, k, values);
    }
}

// Newton's polynomial through the nodes, and then its powers of time. Unrolled, so that all are in registers.
template <int kBatch, class Real>
void ArcFits<kBatch, Real>::fit_polynomial(Arc::Quantity quantity) {
    for (int k = 0; k < kBatch; k += kLanes) {
        Real values[kNodes];
        load(quantity, k, values);
#pragma GCC unroll 16
        for (int step = 1; step < kNodes; ++step)
#pragma GCC unroll 16
            for (int j = kNodes - 1; j >= step; --j)
                values[j] = (values[j] - values[j - 1]) * (1 / (kNodePlaces[j] - kNodePlaces[j - step]));
#pragma GCC unroll 16
        for (int i = kNodes - 2; i >= 0; --i)
#pragma GCC unroll 16
            for (int j = i; j < kNodes - 1; ++j) values[j] -= kNodePlaces[i] * values[j + 1];
        store(quantity, k, values);
    }
}

// The factors of Chebyshev polynomials fall like a geometric series, of which the fit leaves out the rest.
template <int kBatch, class Real>
void ArcFits<kBatch, Real>::judge(int n) {
    constexpr double kTolerance = 0x1p-36, kHighest = 1 << (kNodes - 2), kNext = 1 << (kNodes - 3);
    for (int k = 0; k < n; ++k) {
        bool small = true;
        for (const auto& values : values_)
            small &= std::fabs(values[kNodes - 1][k]) / kHighest +
                         0.125 * std::fabs(values[kNodes - 2][k]) / kNext <
                     kTolerance;
        double swing = 0;  // at most, from the height in the middle
        for (int j = 1; j < kNodes; ++j) swing += std::fabs(values_[Arc::kHeight][j][k]);
        const double height = std::fabs(values_[Arc::kHeight][0][k]);
        smooth_[k] = small && height + swing < 0.99;
        zones_[k] = height + swing < 0.666   ? Arc::Zone::kBelt
                    : height - swing > 0.667 ? Arc::Zone::kCap
                                             : Arc::Zone::kBoth;
    }
}

}  // namespace petamap::pointing

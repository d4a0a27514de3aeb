#include "petamap/pointing/arcs.h"

#include <array>
#include <cmath>
#include <numbers>

#include "petamap/pointing/wrapped.h"
#include "petamap/sky/angle.h"
#include "petamap/sky/healpix.h"

namespace petamap::pointing {
namespace {

constexpr double kLargest = 0.98768834059513777, kSecond = 0.8910065241883679, kThird = 0.7071067811865476,
                 kFourth = 0.4539904997395468, kLeast = 0.15643446504023092;
// Chebyshev's: cos((2 j + 1) pi / 20).
constexpr std::array kNodePlaces = {-kLargest, -kSecond, -kThird, -kFourth, -kLeast,
                                    kLeast,    kFourth,  kThird,  kSecond,  kLargest};

// Where samples lie on an arc, from -1 to 1.
constexpr double kMiddle = 0.5 * (Arcs::kSamples - 1), kHalf = 0.5 * Arcs::kSamples;
constexpr std::array kSamplePlaces = [] {
    std::array<double, Arcs::kSamples> places{};
    for (int k = 0; k < Arcs::kSamples; ++k) places[k] = (k - kMiddle) / kHalf;
    return places;
}();

// Polynomials at all samples of an arc, by the factors of the powers.
template <std::size_t n_out, std::size_t n>
void evaluate(const double (&factors)[n_out][n][Arcs::kBatch], int arc,
              double (&out)[n_out][Arcs::kSamples]) {
    double own[n_out][n];
    for (std::size_t i = 0; i < n_out; ++i)
        for (std::size_t j = 0; j < n; ++j) own[i][j] = factors[i][j][arc];
#pragma omp simd
    for (std::int32_t k = 0; k < Arcs::kSamples; ++k) {
        const double t = kSamplePlaces[k], square = t * t;
        for (std::size_t i = 0; i < n_out; ++i) {
            double even = own[i][n - 2], odd = own[i][n - 1];  // two sums: neither waits for the other
            for (std::size_t j = n - 2; j > 0; j -= 2) {
                even = even * square + own[i][j - 2];
                odd = odd * square + own[i][j - 1];
            }
            out[i][k] = even + t * odd;
        }
    }
}

template <bool nested>
void write_pixels(sky::Healpix healpix, Arcs::Zone zone, const double* heights, const double* longitudes,
                  std::int32_t* pixels) {
    const auto turns_of = [=](std::int32_t k) {
        const double turns = longitudes[k] < 0 ? longitudes[k] + 4.0 : longitudes[k];
        return turns >= 4.0 ? turns - 4.0 : turns;
    };
    switch (zone) {
        case Arcs::Zone::kBelt:
#pragma omp simd
            for (std::int32_t k = 0; k < Arcs::kSamples; ++k)
                pixels[k] =
                    sky::number_of(healpix, sky::belt_place<nested>(healpix, heights[k], turns_of(k)));
            return;
        case Arcs::Zone::kCap:
#pragma omp simd
            for (std::int32_t k = 0; k < Arcs::kSamples; ++k)
                pixels[k] = sky::number_of(
                    healpix,
                    sky::cap_place<nested>(healpix, heights[k] > 0, 1 - std::fabs(heights[k]), turns_of(k)));
            return;
        case Arcs::Zone::kBoth:
#pragma omp simd
            for (std::int32_t k = 0; k < Arcs::kSamples; ++k)
                pixels[k] = sky::healpix_pixel_at<nested>(healpix, heights[k], 1 - std::fabs(heights[k]),
                                                          turns_of(k));
    }
}

}  // namespace

void Arcs::set(int k, const Segment& s, const Knots& knots, std::int64_t interval, std::int64_t sample) {
    const double numbers[13] = {s.base.x, s.base.y, s.base.z, s.base.w, s.c1.x, s.c1.y, s.c1.z,
                                s.c2.x,   s.c2.y,   s.c2.z,   s.c3.x,   s.c3.y, s.c3.z};
    for (int i = 0; i < 13; ++i) segments_[i][k] = numbers[i];
    const double middle = static_cast<double>(sample) + kMiddle - knots.offset;
    middles_[k] = middle / knots.spacing - static_cast<double>(interval);
    halves_[k] = kHalf / knots.spacing;
}

void Arcs::fit(int n) {
    for (int k = n; k < kBatch; ++k) {  // lanes that nobody looks at
        for (auto& numbers : segments_) numbers[k] = numbers[0];
        middles_[k] = middles_[0];
        halves_[k] = halves_[0];
    }
    sample_nodes();
    unwrap(kLongitude, 4.0);
    unwrap(kAngle, 2.0);
    for (const Quantity quantity : {kHeight, kLongitude, kAngle}) fit_polynomial(quantity);
    judge(n);
}

void Arcs::sample_nodes() {
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
            values_[kHeight][j][k] = sight.z;
            values_[kLongitude][j][k] = sky::quarter_turns_of(sight.y, sight.x);
            values_[kAngle][j][k] = sky::angle_of(sight.sine, sight.cosine) * std::numbers::inv_pi;
        }
    }
}

// Remove whole periods between the nodes of an arc.
void Arcs::unwrap(Quantity quantity, double period) {
    auto& values = values_[quantity];
    for (int j = 1; j < kNodes; ++j)
#pragma omp simd
        for (int k = 0; k < kBatch; ++k)
            values[j][k] -= period * std::nearbyint((values[j][k] - values[0][k]) / period);
}

// Newton's polynomial through the nodes, and then its powers of time.
void Arcs::fit_polynomial(Quantity quantity) {
    auto& values = values_[quantity];
    for (int step = 1; step < kNodes; ++step)
        for (int j = kNodes - 1; j >= step; --j) {
            const double inverse = 1 / (kNodePlaces[j] - kNodePlaces[j - step]);
#pragma omp simd
            for (int k = 0; k < kBatch; ++k) values[j][k] = (values[j][k] - values[j - 1][k]) * inverse;
        }
    for (int i = kNodes - 2; i >= 0; --i)
        for (int j = i; j < kNodes - 1; ++j)
#pragma omp simd
            for (int k = 0; k < kBatch; ++k) values[j][k] -= kNodePlaces[i] * values[j + 1][k];
}

// The factors of Chebyshev polynomials fall like a geometric series, of which the fit leaves out the rest.
void Arcs::judge(int n) {
    constexpr double kTolerance = 0x1p-36, kHighest = 1 << (kNodes - 2), kNext = 1 << (kNodes - 3);
    for (int k = 0; k < n; ++k) {
        bool small = true;
        for (const auto& values : values_)
            small &= std::fabs(values[kNodes - 1][k]) / kHighest +
                         0.125 * std::fabs(values[kNodes - 2][k]) / kNext <
                     kTolerance;
        double swing = 0;  // at most, from the height in the middle
        for (int j = 1; j < kNodes; ++j) swing += std::fabs(values_[kHeight][j][k]);
        const double height = std::fabs(values_[kHeight][0][k]);
        smooth_[k] = small && height + swing < 0.99;
        zones_[k] = height + swing < 0.666 ? Zone::kBelt : height - swing > 0.667 ? Zone::kCap : Zone::kBoth;
    }
}

void Arcs::expand(int arc, const sky::Grid& grid, std::int32_t (&pixels)[kSamples],
                  std::uint32_t* angles) const {
    alignas(64) double values[kQuantities][kSamples];
    evaluate(values_, arc, values);
    const bool nested = grid.kind == sky::GridKind::healpix_nest;
    const auto write = nested ? write_pixels<true> : write_pixels<false>;
    write(grid.healpix, zones_[arc], values[kHeight], values[kLongitude], pixels);
    if (!angles) return;
#pragma omp simd
    for (int k = 0; k < kSamples; ++k) angles[k] = wrapped(values[kAngle][k]);
}

}  // namespace petamap::pointing

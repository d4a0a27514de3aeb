// Short arcs of the sky on which height, longitude and response angle are polynomials of time: far from the
// poles they are smooth, and polynomials take a fraction of the time that rotations and arc tangents take.
#pragma once

#include <cstdint>

#include "petamap/pointing/segment.h"
#include "petamap/sky/grid.h"

namespace petamap::pointing {

class Arcs {
  public:
    static constexpr int kSamples = 64;  // of an arc
    static constexpr int kBatch = 8;     // arcs that are fitted together

    // Of HEALPix, in which all of an arc lies: its pixels are found at less cost.
    enum class Zone { kBelt, kCap, kBoth };

    // Knots so near each other that few samples share an interval are better interpolated one by one.
    static bool suit(const Knots& knots) { return knots.spacing >= kSamples / 2; }

    // Set arc k of the batch: `sample` is its first one, counted as those of the knots.
    void set(int k, const Segment& segment, const Knots& knots, std::int64_t interval, std::int64_t sample);

    // Fit the first n arcs of the batch.
    void fit(int n);

    // Whether arc k is so smooth that the fit is within 2^-36 turns of it, and outside the tips of the caps,
    // where a height has too few digits.
    bool smooth(int k) const { return smooth_[k]; }

    // Write pixels of HEALPix and, unless `angles` is null, response angles in turns / 2^32 of the samples of
    // arc k.
    void expand(int k, const sky::Grid& grid, std::int32_t (&pixels)[kSamples], std::uint32_t* angles) const;

  private:
    static constexpr int kNodes = 10;
    enum Quantity { kHeight, kLongitude, kAngle, kQuantities };

    void sample_nodes();
    void unwrap(Quantity quantity, double period);
    void fit_polynomial(Quantity quantity);
    void judge(int n);

    // segments: base, then c1, c2, c3; where in the segment the arc has its middle, and half its length
    alignas(64) double segments_[13][kBatch], middles_[kBatch], halves_[kBatch];
    // at the nodes, then the factors of the powers of time
    alignas(64) double values_[kQuantities][kNodes][kBatch];
    bool smooth_[kBatch];
    Zone zones_[kBatch];
};

}  // namespace petamap::pointing

// What a binned map is made of, added up in one pass over samples that are seen once.
#pragma once

#include <cstdint>

#include "petamap/mapmaking/blocks.h"
#include "petamap/mapmaking/vectors.h"

namespace petamap::mapmaking {

// Values of a row of the sums of a pixel: hits, weights, and two words of each Stokes parameter.
constexpr int binned_row(int n_stokes) { return 1 + triangle(n_stokes) + 2 * n_stokes; }

// Scales of weights and signals, which are multiples of 1/scale; low words are of 2^-low_bits/signal.
struct BinnedScales {
    double weight, signal;
    int low_bits;
};

// Add n samples without gains, where their pixels are not negative: sums[pixel] = hits, the triangle of
// weight * response response^T as `add_weights` has it, and P^T (weight * signal) as `add_signals` has it.
// Returns the largest |weight * signal| * scale of all samples.
double add_binned(const Samples& samples, std::int64_t n, int n_stokes, const double* signal, double weight,
                  const BinnedScales& scales, std::int64_t* sums);

}  // namespace petamap::mapmaking

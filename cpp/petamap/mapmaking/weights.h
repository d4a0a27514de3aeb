// Hits and Stokes weights of pixels.
#pragma once

#include <cstdint>
#include <span>

#include "petamap/mapmaking/blocks.h"
#include "petamap/mapmaking/sample_pixels.h"
#include "petamap/mapmaking/vectors.h"

namespace petamap::mapmaking {

// Numbers in a row of sums: hits, and the upper triangle of the sum of weight * response response^T. Of no
// Stokes parameter there are hits alone.
constexpr int weights_row(int n_stokes) { return 1 + triangle(n_stokes); }

// Add n samples that weigh the same, in multiples of 1/scale. Sums that are too large wrap around: hits say
// so.
void add_weights(const Samples& samples, std::int64_t n, int n_stokes, double weight, double scale,
                 std::int64_t* sums);

// Rows of pixels as the threads keep them, [n_threads][n_local][row].
struct WeightSums {
    std::int64_t* sums;
    std::int64_t n_local;
    int n_stokes, n_threads;
};

// Add the outputs of all blocks, of which the samples of stream s weigh weights[s].
void add_weights(std::span<const Block> blocks, const KeptSamples& source, const double* weights,
                 double scale, const WeightSums& to);
void add_weights(std::span<const Block> blocks, const ExpandedSamples& source, const double* weights,
                 double scale, const WeightSums& to);

}  // namespace petamap::mapmaking

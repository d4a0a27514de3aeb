// P^T N^-1 P in one pass over the time domain, a block at a time in cache.
#pragma once

#include <cstdint>
#include <span>

#include "petamap/mapmaking/blocks.h"
#include "petamap/mapmaking/looks.h"

namespace petamap::mapmaking {

// Sums as the threads keep them: [n_threads][n_local][n_stokes] and [n_threads][n_gaps], integers in
// 1/scale.
struct Sums {
    std::int64_t* pixels;
    std::int64_t* gaps;
    std::int64_t n_local, n_gaps;
};

// sums += P^T N^-1 P (map, gaps). map: [n_local][n_stokes]. scale: such that no sum of a pixel can overflow.
void apply_normal(std::span<const Block> blocks, const KeptLooks& looks, const InverseNoise& noise,
                  int n_stokes, const double* map, const double* gaps, double scale, const Sums& sums,
                  int n_threads);
void apply_normal(std::span<const Block> blocks, const ExpandedLooks& looks, const InverseNoise& noise,
                  int n_stokes, const double* map, const double* gaps, double scale, const Sums& sums,
                  int n_threads);

// time[0..n_out) = N^-1 input for one block; input: its n_in samples.
void filter_block(const Block& block, const InverseNoise& noise, const double* input, double* time);

}  // namespace petamap::mapmaking

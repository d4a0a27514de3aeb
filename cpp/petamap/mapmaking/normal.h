// P^T N^-1 P in one pass over the time domain, a block at a time in cache.
#pragma once

#include <cstdint>
#include <span>

#include "petamap/mapmaking/blocks.h"
#include "petamap/mapmaking/sample_pixels.h"
#include "petamap/mapmaking/template_table.h"

namespace petamap::mapmaking {

// Vectors side by side, [n_local][n_stokes][width] and [n_gaps][width], and the sums on them, [n_copies] of
// the same, integers in 1/scale of each column. Threads that share a copy add to it in turn, a block at a
// time. Sums on gaps may be one for all threads, where each gap is a sample, which is in the output of one
// block. Columns of which the scale is 0 are left out.
struct Maps {
    const double* map;
    const double* gaps;
    std::int64_t* sums;
    std::int64_t* gap_sums;
    const double* scales;  // such that no sum of a pixel can overflow
    std::int64_t n_local, n_gaps;
    int n_stokes, width, n_threads;
    int n_copies;
    bool own_gap_sums;  // of each copy
    const Templates* templates =
        nullptr;  // of which the amplitudes are rows of `gaps`; null where there are none
    const JointBlocks* joint = nullptr;  // null where no noise is shared: all blocks are alone
};

// sums += P^T N^-1 P (map, gaps).
void apply_normal(std::span<const Block> blocks, const KeptSamples& source, const InverseNoise& noise,
                  const Maps& maps);
void apply_normal(std::span<const Block> blocks, const ExpandedSamples& source, const InverseNoise& noise,
                  const Maps& maps);

// time[column][0..n_out) = N^-1 input for one block; input[column]: its n_in samples.
void filter_block(const Block& block, const InverseNoise& noise, const double* input, int n_columns,
                  double* time);

}  // namespace petamap::mapmaking

// Which pixels of a sample of the sky ranges of time see, without expanding what lies far from the sample.
#pragma once

#include <cstdint>
#include <vector>

#include "petamap/pointing/compressed.h"
#include "petamap/sky/grid.h"

namespace petamap::planning {

// Regions of the sky: runs of 2^shift consecutive pixels, which are neighbours where pixels are nested.
struct SkySample {
    int shift = 0;
    const std::int32_t* chosen = nullptr;  // for each region its number among those chosen, or -1
};

// Pointing at every `stride`-th sample alone, and where on a coarser grid a chosen region may be in reach of
// the samples around one. Without `near` all samples are expanded.
struct SparseScan {
    const pointing::CompressedPointing* pointing = nullptr;
    sky::Grid grid;
    const std::uint8_t* near = nullptr;
    std::int64_t stride = 1;
};

// Hits and Stokes weights of the pixels of some regions, by samples that weigh the same: rows as
// mapmaking::add_weights adds to them.
struct RegionSums {
    const std::int32_t* chosen = nullptr;  // for each region its number among those summed, or -1
    int n_stokes = 0;
    double scale = 1;
    std::int64_t* rows = nullptr;  // (regions that are summed * 2^shift, row)
    std::int64_t outside = 0;      // samples outside the map, where all are expanded
};

// Write to `seen` the pixels of the sample that samples [start, stop) of detectors of one line of sight fall
// into, increasing and distinct, numbered (number of the region) * 2^shift + (place in it). Unless `sums` is
// null, add the samples of each of them to it: regions that are summed must be of the sample.
void cover_pixels(const pointing::CompressedPointing& pointing, const sky::Grid& grid,
                  const SkySample& sample, const SparseScan& scan, const std::vector<std::int64_t>& detectors,
                  std::int64_t start, std::int64_t stop, std::vector<std::int32_t>& seen,
                  RegionSums* sums = nullptr);

}  // namespace petamap::planning

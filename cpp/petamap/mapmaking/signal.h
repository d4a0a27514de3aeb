// Signals of a block as they are read, before they are filtered: gaps, and steps of the level.
#pragma once

#include <cstdint>
#include <vector>

namespace petamap::mapmaking {

// Make zeros of the samples with pixel < 0 and divide all by a unit. Returns whether all values are finite.
bool zero_gaps(const std::int32_t* pixels, std::int64_t n, double unit, double* signal);

constexpr std::int64_t kLevelChunk = 32;

// The means of the good samples of chunks, gaps being zero, and whether these are half of a chunk at least.
void chunk_means(const double* signal, const std::int32_t* pixels, std::int64_t n_chunks, double* means,
                 std::uint8_t* valid);

// A step: means on either side of a chunk differ by more than `times` the median of such differences, in no
// more than one of eight chunks. Returns the chunk of the largest difference of each run of them; none where
// fewer than `fewest` differences are known.
struct StepRule {
    double times;
    std::int64_t fewest;
};
std::vector<std::int64_t> level_steps(const double* signal, const std::int32_t* pixels, std::int64_t n,
                                      const StepRule& rule);

}  // namespace petamap::mapmaking

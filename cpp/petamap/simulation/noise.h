// Stationary noise of any spectrum, any range of it made alone.
#pragma once

#include <cstdint>

namespace petamap::simulation {

// Words 0, 1 key Philox, words 2, 3 are the upper half of its counter; the index is the lower half.
struct Stream {
    std::uint32_t words[4];
};

// Numbers are made in groups: kPairs cosines, then kPairs sines.
constexpr std::int64_t kPairs = 32;
constexpr std::int64_t kGroup = 2 * kPairs;

// Write numbers [kGroup * group, kGroup * (group + n_groups)) of a stream, standard normal ones.
void draw_gaussians(const Stream& stream, std::int64_t group, std::int64_t n_groups, double* out);

// A cascade of streams, each at a quarter of the rate of the one before. A level is white noise through a
// short even filter, plus the next level brought up to its rate by a B-spline. So a sample needs a few
// hundred random numbers near it at each rate, whatever the longest time scale, and no history.
constexpr std::int64_t kFactor = 4;
constexpr std::int64_t kTaps = 8;

struct Cascade {
    std::int64_t n_levels = 1;
    std::int64_t half = 0;                  // filters have 2 half + 1 taps
    const double* filters = nullptr;        // (n_levels, half + 1), tap 0 in the middle
    const double* interpolation = nullptr;  // (kTaps, kFactor): weight of low sample q - kTaps/2 + 1 + tap in
                                            // sample kFactor q + phase
};

// out[i] += scale * noise[start + i] for i in [0, n). streams: one a level.
void add_noise(const Cascade& cascade, const Stream* streams, std::int64_t start, std::int64_t n,
               double scale, double* out, int n_threads);

}  // namespace petamap::simulation

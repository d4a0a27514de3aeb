// What detectors see of a sky: map values under the response to (I, Q, U), and point sources.
#pragma once

#include <cstdint>

namespace petamap::simulation {

// A sky on pixels, (n_pix, n_stokes); n_stokes 1 is I, 3 is I, Q, U.
struct SkyMap {
    const double* values = nullptr;
    std::int64_t n_pix = 0;
    int n_stokes = 1;
};

// How samples see it. The value of a sample is the sum of n_neighbours pixels times their weights; the
// response to it is gain (intensity, efficiency cos phi, efficiency sin phi).
struct Samples {
    std::int64_t n = 0;
    int n_neighbours = 1;                   // 1 or 4
    const std::int32_t* pixels = nullptr;   // (n, n_neighbours); -1 lies outside and has value 0
    const double* weights = nullptr;        // (n, n_neighbours); null: 1
    const std::uint32_t* angles = nullptr;  // (n,) phi in turns / 2^32; null where n_stokes is 1
    const float* gains = nullptr;           // (n,); null: 1
    double intensity = 1.0, efficiency = 1.0;
};

// outs[k][i] += what sample i sees of maps[k]; all n_maps have the same components.
void add_skies(const SkyMap* maps, int n_maps, const Samples& samples, double* const* outs, int n_threads);

// Round sources: amplitude exp(-(1 - cos d) / sigma^2) at distance d, a Gaussian of width sigma where that is
// small.
struct PointSources {
    std::int64_t n = 0;
    const double* directions = nullptr;  // (n, 3) unit vectors
    const double* amplitudes = nullptr;  // (n,)
    const double* sigmas = nullptr;      // (n,) radians
};

// out[i] += gain[i] times the sum of sources in direction i. directions: (n, 3) unit vectors.
void add_point_sources(const PointSources& sources, const double* directions, const float* gains,
                       std::int64_t n, double* out, int n_threads);

}  // namespace petamap::simulation

#include "petamap/simulation/sky.h"

#include <algorithm>
#include <cmath>

#include "petamap/sky/trig.h"

namespace petamap::simulation {

namespace {

constexpr std::int64_t kChunk = 256;

// The values of the pixels of samples [begin, begin + count), one array a component.
template <int kStokes, int kNeighbours>
void gather(const SkyMap& map, const Samples& samples, std::int64_t begin, std::int64_t count,
            double (&values)[kStokes][kChunk]) {
    const std::int32_t* pixels = samples.pixels + begin * kNeighbours;
    const double* weights = samples.weights ? samples.weights + begin * kNeighbours : nullptr;
    for (std::int64_t i = 0; i < count; ++i) {
        double sum[kStokes] = {};
        for (int k = 0; k < kNeighbours; ++k) {
            const std::int64_t pixel = pixels[i * kNeighbours + k];
            if (pixel < 0 || pixel >= map.n_pix) continue;
            const double weight = weights ? weights[i * kNeighbours + k] : 1.0;
            for (int s = 0; s < kStokes; ++s) sum[s] += weight * map.values[pixel * kStokes + s];
        }
        for (int s = 0; s < kStokes; ++s) values[s][i] = sum[s];
    }
}

// Angles are turned into their cosine and sine once for all maps.
template <int kStokes, int kNeighbours>
void add_chunk(const SkyMap* maps, int n_maps, const Samples& samples, std::int64_t begin, std::int64_t count,
               double* const* outs) {
    alignas(64) double values[kStokes][kChunk], cosine[kChunk], sine[kChunk];
    if constexpr (kStokes == 3) sky::cos_sin(samples.angles + begin, count, cosine, sine);
    for (int k = 0; k < n_maps; ++k) {
        gather<kStokes, kNeighbours>(maps[k], samples, begin, count, values);
        for (std::int64_t i = 0; i < count; ++i) values[0][i] *= samples.intensity;
        if constexpr (kStokes == 3) {
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i)
                values[0][i] += samples.efficiency * (cosine[i] * values[1][i] + sine[i] * values[2][i]);
        }
        double* out = outs[k] + begin;
        for (std::int64_t i = 0; i < count; ++i)
            out[i] += samples.gains ? samples.gains[begin + i] * values[0][i] : values[0][i];
    }
}

template <int kStokes, int kNeighbours>
void add_all(const SkyMap* maps, int n_maps, const Samples& samples, double* const* outs, int n_threads) {
#pragma omp parallel for schedule(static) num_threads(n_threads) if (n_threads > 1 && samples.n > kChunk)
    for (std::int64_t begin = 0; begin < samples.n; begin += kChunk) {
        const std::int64_t count = std::min(kChunk, samples.n - begin);
        add_chunk<kStokes, kNeighbours>(maps, n_maps, samples, begin, count, outs);
    }
}

}  // namespace

void add_skies(const SkyMap* maps, int n_maps, const Samples& samples, double* const* outs, int n_threads) {
    if (n_maps == 0) return;
    if (maps[0].n_stokes == 1)
        samples.n_neighbours == 1 ? add_all<1, 1>(maps, n_maps, samples, outs, n_threads)
                                  : add_all<1, 4>(maps, n_maps, samples, outs, n_threads);
    else
        samples.n_neighbours == 1 ? add_all<3, 1>(maps, n_maps, samples, outs, n_threads)
                                  : add_all<3, 4>(maps, n_maps, samples, outs, n_threads);
}

void add_point_sources(const PointSources& sources, const double* directions, const float* gains,
                       std::int64_t n, double* out, int n_threads) {
    constexpr double kFarthest = 40;  // exp(-40) is 4e-18
#pragma omp parallel for schedule(static) num_threads(n_threads) if (n_threads > 1 && n > kChunk)
    for (std::int64_t begin = 0; begin < n; begin += kChunk) {
        const std::int64_t count = std::min(kChunk, n - begin);
        for (std::int64_t s = 0; s < sources.n; ++s) {
            const double* source = sources.directions + 3 * s;
            const double scale = 1 / (2 * sources.sigmas[s] * sources.sigmas[s]);
            alignas(64) double exponents[kChunk];
            double nearest = kFarthest;
#pragma omp simd reduction(min : nearest)
            for (std::int64_t i = 0; i < count; ++i) {
                const double* at = directions + 3 * (begin + i);
                const double x = at[0] - source[0], y = at[1] - source[1], z = at[2] - source[2];
                // 1 - cos d is half the square of the chord, which keeps its digits where d is small
                exponents[i] = scale * (x * x + y * y + z * z);
                nearest = std::min(nearest, exponents[i]);
            }
            if (!(nearest < kFarthest)) continue;
            for (std::int64_t i = 0; i < count; ++i) {
                if (!(exponents[i] < kFarthest)) continue;
                const double value = sources.amplitudes[s] * std::exp(-exponents[i]);
                out[begin + i] += gains ? gains[begin + i] * value : value;
            }
        }
    }
}

}  // namespace petamap::simulation

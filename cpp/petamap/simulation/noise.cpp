#include "petamap/simulation/noise.h"

#include <algorithm>
#include <vector>

#include "petacomm/base/simd.h"
#include "petacomm/base/threads.h"
#include "petamap/simulation/gaussian.h"

namespace petamap::simulation {

namespace {

using petacomm::load, petacomm::store;

constexpr std::int64_t kLanes = petacomm::kNativeLanes;
using Lanes = petacomm::Reals<kLanes>;
constexpr std::int64_t kRegisters = 8;
constexpr std::int64_t kTile = kRegisters * kLanes;  // samples of a filtered tile
constexpr std::int64_t kChunk = 16384;  // samples made at once: its streams stay in the second cache

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

// out[0..kTile) = sum_t filter[t] (centre[i - t] + centre[i + t])
void filter_tile(const double* filter, std::int64_t half, const double* centre, double* out) {
    Lanes sum[kRegisters];
    for (std::int64_t i = 0; i < kRegisters; ++i) sum[i] = filter[0] * load<Lanes>(centre + i * kLanes);
    for (std::int64_t t = 1; t <= half; ++t)
        for (std::int64_t i = 0; i < kRegisters; ++i) {
            const double* at = centre + i * kLanes;
            sum[i] += filter[t] * (load<Lanes>(at - t) + load<Lanes>(at + t));
        }
    for (std::int64_t i = 0; i < kRegisters; ++i) store(out + i * kLanes, sum[i]);
}

// out[kFactor q + phase] += sum_tap interpolation[tap][phase] low[q + tap] for q in [0, n_low)
void interpolate(const double* interpolation, const double* low, std::int64_t n_low, double* out) {
    using Phases = petacomm::Reals<kFactor>;
    Phases weights[kTaps];
    for (std::int64_t tap = 0; tap < kTaps; ++tap) weights[tap] = load<Phases>(interpolation + tap * kFactor);
    for (std::int64_t q = 0; q < n_low; ++q) {
        Phases sum{};
        for (std::int64_t tap = 0; tap < kTaps; ++tap) sum += weights[tap] * low[q + tap];
        store(out + kFactor * q, load<Phases>(out + kFactor * q) + sum);
    }
}

struct Workspace {
    std::vector<double> white;
    std::vector<std::vector<double>> levels;
};

// Of this thread: given back at each call, it took 8% of the time. Not inlined, as Clang keeps numbers in
// vector registers 16 to 31 while it asks for memory of the thread, which that overwrites the first time.
[[gnu::noinline]] Workspace& own_workspace() {
    static thread_local Workspace workspace;
    return workspace;
}

// Samples [start, start + n) of a level and all below it; the pointer holds until the next call for that
// level.
const double* make(const Cascade& cascade, const Stream* streams, std::int64_t level, std::int64_t start,
                   std::int64_t n, Workspace& workspace) {
    const std::int64_t half = cascade.half;
    // begin on a low sample, so that interpolation writes whole ones
    const std::int64_t low = floor_divide(start, kFactor), first = low * kFactor;
    const std::int64_t n_padded = round_up(start + n - first, kTile);

    auto& white = workspace.white;
    const std::int64_t group = floor_divide(first - half, kGroup);
    const std::int64_t n_groups = floor_divide(first + n_padded + half - 1, kGroup) - group + 1;
    white.resize(std::max<std::size_t>(white.size(), n_groups * kGroup));
    gaussian_groups(streams[level], group, n_groups, white.data());

    auto& out = workspace.levels[level];
    out.resize(std::max<std::size_t>(out.size(), n_padded));
    const double* centre = white.data() + (first - group * kGroup);
    for (std::int64_t tile = 0; tile < n_padded; tile += kTile)
        filter_tile(cascade.filters + level * (half + 1), half, centre + tile, out.data() + tile);

    if (level + 1 < cascade.n_levels) {
        const std::int64_t n_low = n_padded / kFactor;
        const double* below =
            make(cascade, streams, level + 1, low - kTaps / 2 + 1, n_low + kTaps - 1, workspace);
        interpolate(cascade.interpolation, below, n_low, out.data());
    }
    return out.data() + (start - first);
}

}  // namespace

void draw_gaussians(const Stream& stream, std::int64_t group, std::int64_t n_groups, double* out) {
    gaussian_groups(stream, group, n_groups, out);
}

void add_noise(const Cascade& cascade, const Stream* streams, std::int64_t start, std::int64_t n,
               double scale, double* out, int n_threads) {
    petacomm::Thrown thrown;
    const auto add_chunk = [&](std::int64_t chunk) {
        Workspace& workspace = own_workspace();
        workspace.levels.resize(std::max<std::size_t>(workspace.levels.size(), cascade.n_levels));
        const std::int64_t count = std::min(kChunk, n - chunk);
        const double* noise = make(cascade, streams, 0, start + chunk, count, workspace);
        double* to = out + chunk;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) to[i] += scale * noise[i];
    };
#pragma omp parallel for schedule(dynamic) num_threads(n_threads) if (n_threads > 1 && n > kChunk)
    for (std::int64_t chunk = 0; chunk < n; chunk += kChunk) thrown.keep([&] { add_chunk(chunk); });
    thrown.rethrow();
}

}  // namespace petamap::simulation

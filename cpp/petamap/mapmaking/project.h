// P and its transpose over a run of samples: un-pointing gathers from a map, pointing scatters into sums.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "petamap/mapmaking/blocks.h"
#include "petamap/sky/trig.h"

namespace petamap::mapmaking {

constexpr std::int64_t kChunk = 128;

// Round to an integer by adding 1.5 x 2^52; |value| < 2^51.
inline std::int64_t to_fixed(double value) {
    constexpr double kMagic = 0x1.8p52;
    return std::bit_cast<std::int64_t>(value + kMagic) - std::bit_cast<std::int64_t>(kMagic);
}

// The response of a chunk of samples, but for their gains.
template <int kStokes>
struct Response {
    alignas(64) double cosine[kStokes > 1 ? kChunk : 1], sine[kStokes > 1 ? kChunk : 1];
    double intensity = 1.0;

    Response() = default;
    Response(const Samples& samples, std::int64_t begin, std::int64_t n) : intensity(samples.intensity) {
        if constexpr (kStokes > 1) {
            const std::uint32_t* angles = samples.angles + begin;
            const double efficiency = samples.efficiency;
#pragma omp simd
            for (std::int64_t i = 0; i < n; ++i) {
                double c, s;
                sky::cos_sin(angles[i], c, s);
                cosine[i] = efficiency * c;
                sine[i] = efficiency * s;
            }
        }
    }

    // The response of sample i to each Stokes parameter solved for.
    void of(std::int64_t i, double gain, double* out) const {
        if constexpr (kStokes != 2) out[0] = gain * intensity;
        if constexpr (kStokes > 1) {
            out[kStokes - 2] = gain * cosine[i];
            out[kStokes - 1] = gain * sine[i];
        }
    }
};

// Asks for the rows of pixels long before they are used: the loops' arithmetic then hides the time that
// memory takes. Measured for short rows: 128 samples ahead are too few, 384 no better; what is asked for must
// not fill the nearest cache.
template <class T, std::int64_t kRow>
class Ahead {
  public:
    [[gnu::always_inline]] Ahead(const std::int32_t* pixels, std::int64_t n, const T* rows)
        : pixels_(pixels), n_(n), rows_(rows) {
        for (std::int64_t i = -kDistance; i < std::min<std::int64_t>(0, n - kDistance); ++i) of(i);
    }

    // Sample i is at hand: ask for the one kDistance later. Its row may begin anywhere in a cache line. Gaps
    // ask for the first pixel, which costs less than a branch. Inlined by order: a compiler sees no effect in
    // a call to it.
    [[gnu::always_inline]] void of(std::int64_t i) const {
        if (i + kDistance >= n_) return;
        const T* there = rows_ + std::max(pixels_[i + kDistance], 0) * kRow;
        for (std::int64_t at = 0; at < kRow; at += kLine) __builtin_prefetch(there + at);
        __builtin_prefetch(there + kRow - 1);
    }

  private:
    static constexpr std::int64_t kLine = 64 / sizeof(T), kDistance = kRow <= 2 * kLine ? 256 : 64;
    const std::int32_t* pixels_;
    std::int64_t n_;
    const T* rows_;
};

// time[0..n) = P map for samples [begin, begin + n).
template <int kStokes>
void gather(const Samples& samples, std::int64_t begin, std::int64_t n, const double* map, const double* gaps,
            double* time) {
    const Ahead<double, kStokes> ahead(samples.pixels + begin, n, map);
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + begin + done;
        const Response<kStokes> response(samples, begin + done, count);
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            const std::int64_t pixel = pixels[i];
            if (pixel < 0) {
                time[done + i] = gaps[~pixel];
                continue;
            }
            const double* row = map + pixel * kStokes;
            double value;
            if constexpr (kStokes == 1) value = response.intensity * row[0];
            if constexpr (kStokes == 2) value = response.cosine[i] * row[0] + response.sine[i] * row[1];
            if constexpr (kStokes == 3)
                value =
                    response.intensity * row[0] + (response.cosine[i] * row[1] + response.sine[i] * row[2]);
            time[done + i] = samples.gains ? samples.gains[begin + done + i] * value : value;
        }
    }
}

// sums += P^T time, gap_sums likewise, in units of 1/scale.
template <int kStokes>
void scatter(const Samples& samples, std::int64_t begin, std::int64_t n, const double* time, double scale,
             std::int64_t* sums, std::int64_t* gap_sums) {
    const Ahead<std::int64_t, kStokes> ahead(samples.pixels + begin, n, sums);
    alignas(64) std::int64_t fixed[kStokes][kChunk];
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + begin + done;
        const Response<kStokes> response(samples, begin + done, count);
        const float* gains = samples.gains ? samples.gains + begin + done : nullptr;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) {
            const double value = time[done + i] * scale * (gains ? gains[i] : 1.0);
            if constexpr (kStokes != 2) fixed[0][i] = to_fixed(value * response.intensity);
            if constexpr (kStokes > 1) {
                fixed[kStokes - 2][i] = to_fixed(value * response.cosine[i]);
                fixed[kStokes - 1][i] = to_fixed(value * response.sine[i]);
            }
        }
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            const std::int64_t pixel = pixels[i];
            if (pixel < 0) {
                gap_sums[~pixel] += to_fixed(time[done + i] * scale);
            } else {
                std::int64_t* row = sums + pixel * kStokes;
                for (int k = 0; k < kStokes; ++k) row[k] += fixed[k][i];
            }
        }
    }
}

}  // namespace petamap::mapmaking

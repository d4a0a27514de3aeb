// P and its transpose over a run of samples: un-pointing gathers from a map, pointing scatters into sums.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "petacomm/base/simd.h"
#include "petamap/mapmaking/blocks.h"
#include "petamap/sky/trig.h"

namespace petamap::mapmaking {

constexpr std::int64_t kChunk = 128;

[[gnu::always_inline]] inline std::int64_t to_fixed(double value) { return petacomm::to_fixed<1>(value); }

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
    [[gnu::always_inline]] void of(std::int64_t i, double gain, double* out) const {
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
        const std::int64_t pixel = pixels_[i + kDistance];
        const T* there = rows_ + (pixel & ~(pixel >> 63)) * kRow;
        for (std::int64_t at = 0; at < kRow; at += kLine) __builtin_prefetch(there + at);
        __builtin_prefetch(there + kRow - 1);
    }

  private:
    static constexpr std::int64_t kLine = 64 / sizeof(T), kDistance = kRow <= 2 * kLine ? 256 : 64;
    const std::int32_t* pixels_;
    std::int64_t n_;
    const T* rows_;
};

// Where the values of a chunk of samples lie: the first of a sample's row, and behind it the rest. A gap has
// its one value elsewhere, and the rest of a row that counts nowhere, one of several, since an addition waits
// for the one before. Found without branches: none could foresee whether a sample is a gap.
template <class T, int kStokes>
struct Places {
    static_assert(sizeof(T) == sizeof(std::int64_t) && sizeof(T*) == sizeof(std::int64_t));
    alignas(64) std::int64_t firsts[kChunk], rests[kChunk];  // addresses

    [[gnu::always_inline]] void find(const std::int32_t* pixels, std::int64_t n, T* rows, T* gaps,
                                     T (&nowhere)[8][2]) {
        const auto row_0 = std::bit_cast<std::int64_t>(rows), slot_0 = std::bit_cast<std::int64_t>(gaps);
        const auto nothing = std::bit_cast<std::int64_t>(&nowhere[0][0]);
        constexpr std::int64_t kSize = sizeof(T);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t pixel = pixels[i], gap = pixels[i] >> 31;  // all bits or none
            const std::int64_t row = row_0 + pixel * (kStokes * kSize), slot = slot_0 + ~pixel * kSize;
            firsts[i] = (slot & gap) | (row & ~gap);
            rests[i] = ((nothing + i % 8 * (2 * kSize)) & gap) | ((row + kSize) & ~gap);
        }
    }

    T* first(std::int64_t i) const { return std::bit_cast<T*>(firsts[i]); }
    T* rest(std::int64_t i) const { return std::bit_cast<T*>(rests[i]); }
};

// Call work(gain of a sample) with gains or with ones: loops that ask for each sample whether there are gains
// convert what is no number where there are none, which takes a hundred times as long.
template <class Work>
[[gnu::always_inline]] inline void for_gains(const float* gains, const Work& work) {
    if (gains)
        work([gains](std::int64_t i) { return static_cast<double>(gains[i]); });
    else
        work([](std::int64_t) { return 1.0; });
}

// time[0..n) = P map for samples [begin, begin + n).
template <int kStokes>
void gather(const Samples& samples, std::int64_t begin, std::int64_t n, const double* map, const double* gaps,
            double* time) {
    const Ahead<double, kStokes> ahead(samples.pixels + begin, n, map);
    constexpr double kNowhere[8][2] = {};
    Places<const double, kStokes> places;
    alignas(64) double first[kChunk], rest[kChunk][kStokes > 1 ? kStokes - 1 : 1];
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + begin + done;
        const float* gains = samples.gains ? samples.gains + begin + done : nullptr;
        places.find(pixels, count, map, gaps, kNowhere);
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            first[i] = *places.first(i);
            if constexpr (kStokes > 1) std::memcpy(rest[i], places.rest(i), sizeof(rest[i]));
        }
        const Response<kStokes> response(samples, begin + done, count);
        double* out = time + done;
        for_gains(gains, [&](auto gain_of) {
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i) {
                double value;
                if constexpr (kStokes == 1) value = response.intensity * first[i];
                if constexpr (kStokes == 2)
                    value = response.cosine[i] * first[i] + response.sine[i] * rest[i][0];
                if constexpr (kStokes == 3)
                    value = response.intensity * first[i] +
                            (response.cosine[i] * rest[i][0] + response.sine[i] * rest[i][1]);
                out[i] = pixels[i] < 0 ? first[i] : gain_of(i) * value;
            }
        });
    }
}

// sums += P^T time, gap_sums likewise, in units of 1/scale.
template <int kStokes>
void scatter(const Samples& samples, std::int64_t begin, std::int64_t n, const double* time, double scale,
             std::int64_t* sums, std::int64_t* gap_sums) {
    const Ahead<std::int64_t, kStokes> ahead(samples.pixels + begin, n, sums);
    std::int64_t nowhere[8][2] = {};
    Places<std::int64_t, kStokes> places;
    alignas(64) std::int64_t first[kChunk], rest[kChunk][kStokes > 1 ? kStokes - 1 : 1];
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + begin + done;
        const Response<kStokes> response(samples, begin + done, count);
        const float* gains = samples.gains ? samples.gains + begin + done : nullptr;
        const double* in = time + done;
        for_gains(gains, [&](auto gain_of) {
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i) {
                const double scaled = in[i] * scale, value = scaled * gain_of(i);
                double each;
                if constexpr (kStokes == 2) each = value * response.cosine[i];
                if constexpr (kStokes != 2) each = value * response.intensity;
                first[i] = to_fixed(pixels[i] < 0 ? scaled : each);
                if constexpr (kStokes == 2) rest[i][0] = to_fixed(value * response.sine[i]);
                if constexpr (kStokes == 3) {
                    rest[i][0] = to_fixed(value * response.cosine[i]);
                    rest[i][1] = to_fixed(value * response.sine[i]);
                }
            }
        });
        places.find(pixels, count, sums, gap_sums, nowhere);
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            *places.first(i) += first[i];
            if constexpr (kStokes == 2) *places.rest(i) += rest[i][0];
            if constexpr (kStokes == 3) {
                const auto pair = petacomm::load<petacomm::Wholes<2>>(places.rest(i)) +
                                  petacomm::load<petacomm::Wholes<2>>(rest[i]);
                petacomm::store(places.rest(i), pair);
            }
        }
    }
}

}  // namespace petamap::mapmaking

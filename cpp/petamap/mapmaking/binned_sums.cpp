#include "petamap/mapmaking/binned_sums.h"

#include <algorithm>
#include <cmath>

#include "petamap/mapmaking/project.h"

namespace petamap::mapmaking {
namespace {

// The terms of a chunk of samples, before they are added to the pixels: [term][sample].
template <int kStokes>
struct BinnedTerms {
    static constexpr int kWeights = triangle(kStokes), kTerms = kWeights + 2 * kStokes;
    alignas(64) std::int64_t terms[kTerms][kChunk];
    alignas(64) double sizes[kChunk];

    BinnedTerms(const Samples& samples, std::int64_t begin, std::int64_t n, const double* signal,
                double weight, const BinnedScales& scales, double low_scale) {
        petacomm::for_lanes(n, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
            constexpr int kLanes = lanes();
            using Real = petacomm::Reals<kLanes>;
            Real each[kStokes];
            respond<kStokes, kLanes>(samples, begin + i, each);
            int term = 0;
            for (int j = 0; j < kStokes; ++j)
                for (int k = j; k < kStokes; ++k, ++term)
                    petacomm::store(terms[term] + i,
                                    petacomm::to_fixed<kLanes>(weight * each[j] * each[k] * scales.weight));
            const Real value = petacomm::load<Real>(signal + begin + i) * weight * scales.signal;
            petacomm::store(sizes + i, petacomm::size_of(value));
            for (int k = 0; k < kStokes; ++k, term += 2) {
                const Real one = value * each[k], whole = petacomm::to_whole<kLanes>(one);
                petacomm::store(terms[term] + i, petacomm::to_fixed<kLanes>(whole));
                petacomm::store(terms[term + 1] + i, petacomm::to_fixed<kLanes>((one - whole) * low_scale));
            }
        });
    }
};

template <int kStokes>
double add_binned_of(const Samples& samples, std::int64_t n, const double* signal, double weight,
                     const BinnedScales& scales, std::int64_t* sums) {
    constexpr std::int64_t kRow = binned_row(kStokes);
    const double low_scale = std::ldexp(1.0, scales.low_bits);
    double largest = 0;
    const Ahead<std::int64_t, kRow> ahead(samples.pixels, n, sums);
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + done;
        const BinnedTerms<kStokes> chunk(samples, done, count, signal, weight, scales, low_scale);
        for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, chunk.sizes[i]);
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            if (pixels[i] < 0) continue;
            // without signs, as the sums of a pixel that is hit too often wrap around: its hits show that
            auto* row = reinterpret_cast<std::uint64_t*>(sums + pixels[i] * kRow);
            row[0] += 1;
            for (int term = 0; term < chunk.kTerms; ++term)
                row[1 + term] += static_cast<std::uint64_t>(chunk.terms[term][i]);
        }
    }
    return largest;
}

}  // namespace

double add_binned(const Samples& samples, std::int64_t n, int n_stokes, const double* signal, double weight,
                  const BinnedScales& scales, std::int64_t* sums) {
    const auto add = n_stokes == 1 ? add_binned_of<1> : n_stokes == 2 ? add_binned_of<2> : add_binned_of<3>;
    return add(samples, n, signal, weight, scales, sums);
}

}  // namespace petamap::mapmaking

#include "petamap/mapmaking/binned_sums.h"

#include <algorithm>
#include <cmath>

#include "petamap/mapmaking/largest_size.h"
#include "petamap/mapmaking/project.h"
#include "petamap/mapmaking/term_rows.h"

namespace petamap::mapmaking {
namespace {

// The terms of a chunk of samples as `binned_row` has them, and the largest size of their signals.
template <int kStokes>
struct BinnedTerms {
    TermRows<binned_row(kStokes)> terms;
    LargestSize sizes;

    BinnedTerms(const Samples& samples, std::int64_t begin, std::int64_t n, const double* signal,
                double weight, const BinnedScales& scales, double low_scale) {
        petacomm::for_lanes(n, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
            constexpr int kLanes = lanes();
            using Real = petacomm::Reals<kLanes>;
            Real each[kStokes];
            respond<kStokes, kLanes>(samples, begin + i, each);
            petacomm::Wholes<kLanes> made[binned_row(kStokes)];
            int term = 0;
            made[term++] = petacomm::Wholes<kLanes>{} + 1;
            for (int j = 0; j < kStokes; ++j)
                for (int k = j; k < kStokes; ++k)
                    made[term++] = petacomm::to_fixed<kLanes>(weight * each[j] * each[k] * scales.weight);
            const Real value = petacomm::load<Real>(signal + begin + i) * weight * scales.signal;
            sizes.template see<kLanes>(value);
            for (int k = 0; k < kStokes; ++k) {
                const Real one = value * each[k], whole = petacomm::to_whole<kLanes>(one);
                made[term++] = petacomm::to_fixed<kLanes>(whole);
                made[term++] = petacomm::to_fixed<kLanes>((one - whole) * low_scale);
            }
            terms.template keep<kLanes>(i, made);
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
        largest = std::max(largest, chunk.sizes.ignoring_nan());
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            if (pixels[i] >= 0) chunk.terms.add(i, sums + pixels[i] * kRow);
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

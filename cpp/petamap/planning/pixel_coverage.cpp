#include "petamap/planning/pixel_coverage.h"

#include <algorithm>

#include "petamap/mapmaking/weights.h"

namespace petamap::planning {
namespace {

constexpr std::int64_t kChunk = 2048;

struct Coverage {
    const pointing::CompressedPointing& pointing;
    const sky::Grid& grid;
    const SkySample& sample;
    const std::vector<std::int64_t>& detectors;  // of one line of sight
    std::vector<std::int32_t>& seen;
    RegionSums* sums;

    void add(std::int64_t start, std::int64_t stop) const {
        std::int32_t pixels[kChunk];
        std::uint32_t angles[kChunk];
        std::int32_t last = -1;
        const std::int32_t within = (1 << sample.shift) - 1;
        for (std::int64_t begin = start; begin < stop; begin += kChunk) {
            const std::int64_t end = std::min(begin + kChunk, stop);
            pointing::expand_sight(pointing, pointing.sight_of[detectors[0]], grid, begin, end, pixels,
                                   sums ? angles : nullptr);
            if (sums) sum(pixels, angles, end - begin);
            for (std::int64_t k = 0; k < end - begin; ++k) {
                const std::int32_t pixel = pixels[k];
                if (pixel < 0 || pixel == last) continue;
                last = pixel;
                const std::int32_t region = sample.chosen[pixel >> sample.shift];
                if (region >= 0) seen.push_back((region << sample.shift) + (pixel & within));
            }
        }
    }

    void sum(const std::int32_t* pixels, std::uint32_t* angles, std::int64_t n) const {
        std::int32_t places[kChunk];
        const std::int32_t within = (1 << sample.shift) - 1;
        for (std::int64_t k = 0; k < n; ++k) {
            if (pixels[k] < 0) sums->outside += static_cast<std::int64_t>(detectors.size());
            const std::int32_t region = pixels[k] < 0 ? -1 : sums->chosen[pixels[k] >> sample.shift];
            places[k] = region < 0 ? -1 : (region << sample.shift) + (pixels[k] & within);
        }
        std::uint32_t turned = 0;
        for (const std::int64_t detector : detectors) {
            const std::uint32_t turn = pointing.turns[detector] - turned;
            for (std::int64_t k = 0; k < n && sums->n_stokes > 1; ++k) angles[k] += turn;
            turned = pointing.turns[detector];
            const mapmaking::Samples samples{places, sums->n_stokes > 1 ? angles : nullptr, nullptr, 1.0,
                                             pointing.efficiency[detector]};
            mapmaking::add_weights(samples, n, sums->n_stokes, 1.0, sums->scale, sums->rows);
        }
    }
};

}  // namespace

void cover_pixels(const pointing::CompressedPointing& pointing, const sky::Grid& grid,
                  const SkySample& sample, const SparseScan& scan, const std::vector<std::int64_t>& detectors,
                  std::int64_t start, std::int64_t stop, std::vector<std::int32_t>& seen, RegionSums* sums) {
    seen.clear();
    const Coverage coverage{pointing, grid, sample, detectors, seen, sums};
    if (!scan.near) {
        coverage.add(start, stop);
    } else {
        std::int32_t places[kChunk];
        // a sparse sample stands for those up to half a stride away, and the last one before it
        const std::int64_t half = scan.stride / 2;
        const std::int64_t first = (start + half) / scan.stride, last = (stop - 1 + half) / scan.stride + 1;
        std::int64_t from = start;  // what is in reach and not yet covered: [from, to)
        std::int64_t to = start;
        for (std::int64_t begin = first; begin < last; begin += kChunk) {
            const std::int64_t end = std::min(begin + kChunk, last);
            pointing::expand(*scan.pointing, detectors[0], scan.grid, begin, end, places, nullptr);
            for (std::int64_t k = begin; k < end; ++k) {
                const std::int32_t place = places[k - begin];
                if (place >= 0 && !scan.near[place]) continue;
                const std::int64_t reached = std::max(k * scan.stride - half, start);
                if (reached > to) {
                    coverage.add(from, to);
                    from = reached;
                }
                to = std::min((k + 1) * scan.stride - half, stop);
            }
        }
        coverage.add(from, to);
    }
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
}

}  // namespace petamap::planning

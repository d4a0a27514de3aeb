// Parts of the samples of detectors, each of which has pixels of its own: pixel p of part k has number
// k n_pix + p.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace petamap::mapmaking {

// The part of samples is constant over runs of them.
struct Parts {
    struct Run {
        std::int64_t start;  // first sample of the observation; the run ends where the next one begins
        std::int64_t part;   // -1: in none
    };

    std::span<const std::int64_t> firsts;  // first run of each segment, and the number of runs
    std::span<const Run> runs;             // of each segment by increasing start, the first one at 0
    std::int64_t n_pix;                    // pixels of a part

    // Number samples [start, start + n) of a segment by their parts; those in none lie outside the map.
    void number(std::int64_t segment, std::int64_t start, std::int64_t n, std::int32_t* pixels) const {
        const auto own = runs.subspan(firsts[segment], firsts[segment + 1] - firsts[segment]);
        const auto after = [](std::int64_t sample, const Run& run) { return sample < run.start; };
        auto next = std::upper_bound(own.begin(), own.end(), start, after);
        for (std::int64_t done = 0; done < n; ++next) {
            const std::int64_t end = next == own.end() ? n : std::min(n, next->start - start);
            const std::int64_t part = (next - 1)->part;
            const auto shift = static_cast<std::int32_t>(part * n_pix);
            for (; done < end; ++done)
                pixels[done] = part < 0 ? -1 : pixels[done] < 0 ? pixels[done] : pixels[done] + shift;
        }
    }
};

}  // namespace petamap::mapmaking

// Which ranks hold the pixels of ranges of samples.
#pragma once

#include <cstdint>
#include <vector>

namespace petamap::planning {

// Runs of pixels, each held by a rank. Ranks increase.
struct HeldPixels {
    const std::int32_t* pixels = nullptr;
    const std::int64_t *ranks = nullptr, *begins = nullptr, *ends = nullptr;  // of each run
    std::int64_t n_runs = 0;
};

// Call found(pixel, rank) once for each pixel of `n_pixels` that a rank holds, ranks increasing.
template <class Found>
void for_each_holder(const HeldPixels& held, std::int64_t n_pixels, Found&& found) {
    std::vector<std::int64_t> last(static_cast<std::size_t>(n_pixels), -1);  // rank found to hold each pixel
    for (std::int64_t run = 0; run < held.n_runs; ++run) {
        const std::int64_t rank = held.ranks[run];
        for (std::int64_t i = held.begins[run]; i < held.ends[run]; ++i) {
            const std::int32_t pixel = held.pixels[i];
            if (last[static_cast<std::size_t>(pixel)] == rank) continue;
            last[static_cast<std::size_t>(pixel)] = rank;
            found(pixel, static_cast<std::int32_t>(rank));
        }
    }
}

}  // namespace petamap::planning

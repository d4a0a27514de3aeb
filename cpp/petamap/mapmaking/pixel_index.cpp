#include "petamap/mapmaking/pixel_index.h"

namespace petamap::mapmaking {

void PixelIndex::localize(std::int32_t* pixels, std::int64_t n) const {
    const std::uint64_t* words = words_.data();
    const std::int32_t* before = before_.data();
    for (std::int64_t i = 0; i < n; ++i) {
        if (pixels[i] < 0) continue;
        // whether a pixel is observed cannot be foreseen, so no branch asks
        const auto pixel = static_cast<std::uint32_t>(pixels[i]), place = pixel % 64;
        const std::uint64_t bits = words[pixel / 64], below = bits & ~(~std::uint64_t{0} << place);
        const auto missing = static_cast<std::int32_t>((bits >> place & 1) - 1);  // all bits or none
        pixels[i] = (before[pixel / 64] + std::popcount(below)) | missing;
    }
}

}  // namespace petamap::mapmaking

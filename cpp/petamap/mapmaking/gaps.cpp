#include "petamap/mapmaking/gaps.h"

namespace petamap::mapmaking {

void localize(const PixelIndex& index, const std::uint8_t* flags, std::int64_t n, std::int32_t* pixels) {
    for (std::int64_t i = 0; i < n; ++i) pixels[i] = flags && flags[i] ? -1 : index.local(pixels[i]);
}

void number_gaps(std::int64_t length, std::int64_t position, std::int64_t base, std::int64_t n,
                 std::int32_t* pixels) {
    bool open = false;
    std::int64_t next = base;
    for (std::int64_t i = 0; i < n; ++i) {
        if (pixels[i] >= 0) {
            open = false;
        } else if (length == 0) {
            pixels[i] = ~0;
        } else {
            if (!open || (position + i) % length == 0) ++next;
            open = true;
            pixels[i] = ~static_cast<std::int32_t>(next - 1);
        }
    }
}

}  // namespace petamap::mapmaking

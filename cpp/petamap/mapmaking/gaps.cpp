#include "petamap/mapmaking/gaps.h"

#include <algorithm>

namespace petamap::mapmaking {

void localize(const PixelIndex& index, const std::uint8_t* flags, std::int64_t n, std::int32_t* pixels) {
    for (std::int64_t i = 0; i < n; ++i) pixels[i] = flags && flags[i] ? -1 : index.local(pixels[i]);
}

bool mark_gaps(const std::uint8_t* bits, std::int64_t first, std::int64_t n, std::int32_t* pixels) {
    bool any = false;
    for (std::int64_t i = 0; i < n;) {
        const std::int64_t left_in_byte = 8 - (first + i) % 8, end = std::min(n, i + left_in_byte);
        const unsigned byte = bits[(first + i) / 8] >> (8 - left_in_byte);
        for (std::int64_t bit = 0; byte != 0 && i + bit < end; ++bit) {
            if (!(byte >> bit & 1)) continue;
            pixels[i + bit] = -1;
            any = true;
        }
        i = end;
    }
    return any;
}

void number_gaps(std::int64_t length, std::int64_t position, std::int64_t base, std::int64_t n,
                 std::int32_t* pixels) {
    if (length == 0) {
        for (std::int64_t i = 0; i < n; ++i) pixels[i] = std::max(pixels[i], ~0);
        return;
    }
    // no branch asks whether a sample is in a gap, which cannot be foreseen
    std::int32_t open = 0;
    auto slot = static_cast<std::int32_t>(base) - 1;
    std::int64_t phase = position % length;
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int32_t gap = pixels[i] >> 31;  // all bits or none
        slot -= gap & (~open | -static_cast<std::int32_t>(phase == 0));
        pixels[i] = (~slot & gap) | (pixels[i] & ~gap);
        open = gap;
        phase = phase + 1 == length ? 0 : phase + 1;
    }
}

}  // namespace petamap::mapmaking

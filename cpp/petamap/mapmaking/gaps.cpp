#include "petamap/mapmaking/gaps.h"

#include <algorithm>
#include <bit>

namespace petamap::mapmaking {

void localize(const PixelIndex& index, const std::uint8_t* flags, std::int64_t n, std::int32_t* pixels) {
    for (std::int64_t i = 0; flags && i < n; ++i)
        if (flags[i]) pixels[i] = -1;
    index.localize(pixels, n);
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

namespace {

// Bits [first, first + n) of a bit set, n <= 56, the first one lowest.
std::uint64_t bits_at(const std::uint8_t* bits, std::int64_t first, std::int64_t n) {
    std::uint64_t found = 0;
    for (std::int64_t byte = (first + n - 1) / 8; byte >= first / 8; --byte) found = found << 8 | bits[byte];
    return found >> first % 8 & ((std::uint64_t{1} << n) - 1);
}

}  // namespace

void number_marked_gaps(const std::uint8_t* bits, std::int64_t first, std::int64_t length,
                        std::int64_t position, std::int64_t base, std::int64_t n, std::int32_t* pixels) {
    constexpr std::int64_t kAtOnce = 56;
    auto slot = static_cast<std::int32_t>(base) - 1;
    std::int64_t ended = -1;  // where the last gap ended
    std::int64_t cut = 0;     // where its slot ends at the latest
    for (std::int64_t begin = 0; begin < n; begin += kAtOnce) {
        std::uint64_t marked = bits_at(bits, first + begin, std::min(kAtOnce, n - begin));
        for (; marked != 0; marked &= marked - 1) {
            const std::int64_t i = begin + std::countr_zero(marked);
            if (length > 0 && (i != ended || i >= cut)) {
                ++slot;
                cut = i + (length == 1 ? 1 : length - (position + i) % length);  // divisions take long
            }
            ended = i + 1;
            pixels[i] = length > 0 ? ~slot : ~0;
        }
    }
}

}  // namespace petamap::mapmaking

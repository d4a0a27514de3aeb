#include "petamap/mapmaking/gaps.h"

#include <algorithm>
#include <bit>
#include <cstring>

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

constexpr std::int64_t kWord = 64;

// Gaps of the word of samples from `first` on, a multiple of 64, as far as they lie before `end`.
std::uint64_t word_at(const std::uint8_t* bits, std::int64_t first, std::int64_t end) {
    static_assert(std::endian::native == std::endian::little);
    std::uint64_t word;
    std::memcpy(&word, bits + first / 8, sizeof(word));
    return end - first >= kWord ? word : word & ((std::uint64_t{1} << (end - first)) - 1);
}

// Calls use(first, begins) for each word of samples with the bits of those that begin a slot.
template <class Use>
void for_words(const std::uint8_t* bits, std::int64_t length, std::int64_t begin, std::int64_t end,
               const Use& use) {
    for (std::int64_t first = begin; first < end; first += kWord) {
        const std::uint64_t word = word_at(bits, first, end);
        use(first, length == 1 ? word : word & ~(word << 1));
    }
}

}  // namespace

std::int64_t count_gaps(const std::uint8_t* bits, std::int64_t begin, std::int64_t end) {
    if (begin >= end) return 0;
    const std::int64_t first = begin / kWord * kWord;
    std::int64_t count = -std::popcount(word_at(bits, first, begin));
    for_words(bits, 1, first, end, [&](std::int64_t, std::uint64_t gaps) { count += std::popcount(gaps); });
    return count;
}

std::int64_t count_slots(const std::uint8_t* bits, std::int64_t length, std::int64_t begin,
                         std::int64_t end) {
    std::int64_t count = 0;
    for_words(bits, length, begin, end,
              [&](std::int64_t, std::uint64_t begins) { count += std::popcount(begins); });
    return count;
}

void find_slots(const std::uint8_t* bits, std::int64_t length, std::int64_t begin, std::int64_t end,
                std::int64_t shift, std::int64_t* out) {
    for_words(bits, length, begin, end, [&](std::int64_t first, std::uint64_t begins) {
        for (; begins != 0; begins &= begins - 1) *out++ = shift + first + std::countr_zero(begins);
    });
}

std::int64_t first_slot(const std::uint8_t* bits, std::int64_t length, std::int64_t chunk,
                        const std::int64_t* before, std::int64_t position) {
    const std::int64_t begin = position / chunk * chunk, is_gap = bits[position / 8] >> position % 8 & 1;
    return before[position / chunk] + count_slots(bits, length, begin, position + 1) - is_gap;
}

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

// Turns as an unsigned 32-bit fraction, which wraps at no cost.
#pragma once

#include <bit>
#include <cstdint>

namespace petamap::pointing {

// Turns, |turns| < 2^18, to the nearest turn / 2^32, wrapped: the low bits of the sum with a large number.
[[gnu::always_inline]] inline std::uint32_t wrapped(double turns) {
    constexpr double kScale = 4294967296.0, kMagic = 6755399441055744.0;  // 2^32, 1.5 * 2^52
    return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(turns * kScale + kMagic));
}

}  // namespace petamap::pointing

// Ranges of indices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace petacomm {

// Whether all numbers lie in [low, end). Without branches, so that a compiler makes vectors of the loop: it
// takes a small part of the time of a kernel that looks up what the numbers stand for. Each file has its own,
// of the instructions that it is compiled for.
template <typename T>
static bool all_within(const T* numbers, std::size_t n, std::int64_t low, std::int64_t end) {
    using Unsigned = std::make_unsigned_t<T>;
    constexpr std::int64_t lowest = std::numeric_limits<T>::min(), highest = std::numeric_limits<T>::max();
    if (n == 0) return true;
    if (low >= end || low > highest || end <= lowest) return false;
    if constexpr (sizeof(T) == 8) {
        // SSE2 has no comparison of 64 bits. Where the range is below 2^63, neither difference is negative
        // for the numbers within, and one is for all others.
        const auto first = static_cast<Unsigned>(low), last = static_cast<Unsigned>(end - 1);
        if (last - first <= static_cast<Unsigned>(highest)) {
            Unsigned signs = 0;
            for (std::size_t i = 0; i < n; ++i) {
                const auto number = static_cast<Unsigned>(numbers[i]);
                signs |= (number - first) | (last - number);
            }
            return signs <= static_cast<Unsigned>(highest);
        }
    }
    const auto first = static_cast<Unsigned>(std::max(low, lowest));
    const auto span = static_cast<Unsigned>(static_cast<Unsigned>(std::min(end - 1, highest)) - first);
    Unsigned outside = 0;
    for (std::size_t i = 0; i < n; ++i)
        outside |= static_cast<Unsigned>(static_cast<Unsigned>(numbers[i]) - first) > span;
    return outside == 0;
}

}  // namespace petacomm

// The finalizer of splitmix64 (Steele, Lea, Flood 2014): a hash that spreads neighbouring numbers.
#pragma once

#include <cstdint>

namespace petacomm {

inline std::uint64_t mix(std::int64_t number) {
    auto word = static_cast<std::uint64_t>(number);
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

}  // namespace petacomm

// The finalizer of splitmix64 (Steele, Lea, Flood 2014): a hash that spreads neighbouring numbers.
#pragma once

#include <cstdint>

namespace petacomm {

constexpr std::uint64_t golden_gamma = 0x9E3779B97F4A7C15u;  // by which splitmix64 counts

inline std::uint64_t mix(std::uint64_t word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

}  // namespace petacomm

// Samples, widths and shapes that the map-making functions share.
#pragma once

#include <initializer_list>
#include <utility>

#include "../arrays.h"
#include "petamap/mapmaking/blocks.h"

namespace bindings {

inline petamap::mapmaking::Samples samples_of(const In<std::int32_t>& pixels,
                                              const MaybeIn<std::uint32_t>& angles,
                                              const MaybeIn<float>& gains, double intensity,
                                              double efficiency, std::size_t n) {
    require(pixels.shape(0) == n, "a pixel a sample");
    require(!angles || angles->shape(0) == n, "an angle a sample");
    require(!gains || gains->shape(0) == n, "a gain a sample");
    return {pixels.data(), data_or_null(angles), data_or_null(gains), intensity, efficiency};
}

inline bool is_width(std::size_t n) { return n == 1 || n == 2 || n == 4 || n == 8; }

inline void same_shape(std::initializer_list<std::pair<std::size_t, std::size_t>> lengths) {
    for (const auto& [first, second] : lengths) require(first == second, "vectors of one shape");
}

}  // namespace bindings

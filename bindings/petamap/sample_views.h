// Samples, widths and shapes that the map-making functions share.
#pragma once

#include <initializer_list>
#include <limits>
#include <utility>

#include "../arrays.h"
#include "petamap/mapmaking/bin.h"
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

// Stokes parameters of a map, and angles where they are of polarization.
inline void require_stokes(std::int64_t n_stokes, bool has_angles) {
    require(n_stokes >= 1 && n_stokes <= 3, "n_stokes: 1 to 3");
    require(n_stokes == 1 || has_angles, "angles: of samples that see polarization");
}

template <typename Array>
void require_pixels_from(const Array& pixels, std::int64_t low, std::size_t n, const char* what) {
    require(petamap::mapmaking::pixels_within(pixels.data(), length(pixels.size()), low, length(n)), what);
}

// Pixels below n, and gaps of which there are n_gaps.
inline void require_pixels(const In<std::int32_t>& pixels, std::size_t n, std::size_t n_gaps) {
    require_pixels_from(pixels, -length(n_gaps), n, "pixels: of the map, or gaps that there are");
}

// Pixels below n, all others left out.
template <typename Array>
void require_pixels(const Array& pixels, std::size_t n) {
    require_pixels_from(pixels, std::numeric_limits<std::int32_t>::min(), n, "pixels: of the map");
}

inline void require_low_bits(int low_bits) { require(low_bits >= 0 && low_bits < 63, "low_bits: 0 to 62"); }

inline bool is_width(std::size_t n) { return n == 1 || n == 2 || n == 4 || n == 8; }

inline void same_shape(std::initializer_list<std::pair<std::size_t, std::size_t>> lengths) {
    for (const auto& [first, second] : lengths) require(first == second, "vectors of one shape");
}

}  // namespace bindings

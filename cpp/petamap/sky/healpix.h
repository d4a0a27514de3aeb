// HEALPix (Gorski et al. 2005, ApJ 622, 759): pixel of a direction, inline for loops that vectorise; and,
// over arrays, pixel centres, the other ordering, and interpolation.
#pragma once

#include <cmath>
#include <cstdint>

#include "petamap/sky/angle.h"
#include "petamap/sky/grid.h"

namespace petamap::sky {

// The bits of a 16-bit number moved to the even places of a 32-bit one.
[[gnu::always_inline]] inline std::uint32_t spread_bits(std::uint32_t v) {
    v = (v | (v << 8)) & 0x00FF00FFu;
    v = (v | (v << 4)) & 0x0F0F0F0Fu;
    v = (v | (v << 2)) & 0x33333333u;
    return (v | (v << 1)) & 0x55555555u;
}

// The inverse of spread_bits; the odd places are ignored.
inline std::uint32_t gather_bits(std::uint32_t v) {
    v &= 0x55555555u;
    v = (v | (v >> 1)) & 0x33333333u;
    v = (v | (v >> 2)) & 0x0F0F0F0Fu;
    v = (v | (v >> 4)) & 0x00FF00FFu;
    return (v | (v >> 8)) & 0x0000FFFFu;
}

[[gnu::always_inline]] inline std::int32_t nested_index(std::int32_t face, std::int32_t column,
                                                        std::int32_t row, std::int32_t order) {
    const std::uint32_t inside =
        spread_bits(static_cast<std::uint32_t>(column)) | (spread_bits(static_cast<std::uint32_t>(row)) << 1);
    return static_cast<std::int32_t>((static_cast<std::uint32_t>(face) << (2 * order)) + inside);
}

// The pixel of a direction: -1 where it has no finite, positive length. Both zones are computed and one is
// chosen, so that a loop has no branch; sums are rounded as in the reference library, so that edges fall
// alike.
template <bool nested>
[[gnu::always_inline]] inline std::int32_t healpix_pixel(const Healpix& healpix, double x, double y,
                                                         double z) {
    using Int = std::int32_t;
    const Int n_side = healpix.n_side;
    const double side = n_side;
    const double squared = x * x + y * y + z * z;
    const bool valid = (squared > 0) & (squared < HUGE_VAL);
    const double inverse = 1.0 / std::sqrt(valid ? squared : 1.0);
    x = valid ? x : 1.0;
    y = valid ? y : 0.0;
    const double height = valid ? z * inverse : 0.0, absolute = std::fabs(height);
    const double turns = quarter_turns_of(y, x);

    // Equatorial zone: numbers of the ascending and descending edge lines.
    const double across = side * (0.5 + turns), along = side * height * 0.75;
    const Int up = static_cast<Int>(across - along), down = static_cast<Int>(across + along);

    // Polar caps: numbers of the edge lines within the quarter; 1 - |z| loses digits near the pole.
    const Int whole = static_cast<Int>(turns), quarter = whole < 3 ? whole : 3;
    const double part = turns - quarter;
    const double sine_squared = (x * x + y * y) * (inverse * inverse);
    const double distance =
        side * std::sqrt(3 * (absolute < 0.99 ? 1.0 - absolute : sine_squared / (1.0 + absolute)));
    const Int cap_up = static_cast<Int>(part * distance),
              cap_down = static_cast<Int>((1.0 - part) * distance);

    const bool equatorial = absolute <= 2.0 / 3.0, north = height > 0;
    Int pixel;
    if constexpr (nested) {
        const Int last = n_side - 1, order = healpix.order;
        const Int face_up = up >> order, face_down = down >> order;
        const Int belt_face =
            face_up == face_down ? (face_up | 4) : (face_up < face_down ? face_up : face_down + 8);
        const Int u = cap_up < last ? cap_up : last, d = cap_down < last ? cap_down : last;
        const Int cap_face = north ? quarter : quarter + 8;
        const Int cap_column = north ? last - d : u, cap_row = north ? last - u : d;
        const Int face = equatorial ? belt_face : cap_face;
        const Int column = equatorial ? (down & last) : cap_column;
        const Int row = equatorial ? last - (up & last) : cap_row;
        pixel = nested_index(face, column, row, order);
    } else {
        const Int round = 4 * n_side;
        const Int belt_ring = n_side + 1 + up - down;  // from 1 at z = 2/3
        const Int even = 1 - (belt_ring & 1);
        const Int place = (up + down - n_side + even + 1) >> 1,
                  wrapped = place < round ? place : place - round;
        const Int belt = healpix.n_cap + (belt_ring - 1) * round + wrapped;
        const Int ring = cap_up + cap_down + 1;  // from 1 at the pole
        const Int cap_place = static_cast<Int>(turns * ring), end = 4 * ring - 1;
        const Int in_ring = cap_place < end ? cap_place : end;
        const Int cap = (north ? 2 * ring * (ring - 1) : healpix.n_pix - 2 * ring * (ring + 1)) + in_ring;
        pixel = equatorial ? belt : cap;
    }
    return valid ? pixel : -1;
}

// Unit vectors of the centres of pixels, shape (n, 3). Pixels must lie in [0, n_pix).
void healpix_directions(const Grid& grid, const std::int64_t* pixels, std::int64_t n, double* directions,
                        int n_threads);

// Numbers in the other ordering (ring <-> nested) of pixels in the grid's own. n_side must be a power of two.
void healpix_reordered(const Grid& grid, const std::int64_t* pixels, std::int64_t n, std::int64_t* out,
                       int n_threads);

// Bilinear interpolation: 4 pixels and 4 weights of each direction, shapes (n, 4): two neighbours in the ring
// above and two in the ring below. A direction without finite, positive length gets pixels -1 and weights 0.
void healpix_interpolation(const Grid& grid, const double* directions, std::int64_t n, std::int32_t* pixels,
                           double* weights, int n_threads);

}  // namespace petamap::sky

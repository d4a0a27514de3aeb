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

// Where a pixel lies: its face, and column and row in it; or the number in the ring scheme alone.
template <bool nested>
struct Place;

template <>
struct Place<true> {
    std::int32_t face, column, row;
};

template <>
struct Place<false> {
    std::int32_t number;
};

[[gnu::always_inline]] inline std::int32_t number_of(const Healpix& healpix, Place<true> place) {
    return nested_index(place.face, place.column, place.row, healpix.order);
}

[[gnu::always_inline]] inline std::int32_t number_of(const Healpix& /*healpix*/, Place<false> place) {
    return place.number;
}

// In the equatorial zone, |height| <= 2/3, height being the sine of the latitude and `turns` the longitude in
// quarter turns.
template <bool nested>
[[gnu::always_inline]] inline Place<nested> belt_place(const Healpix& healpix, double height, double turns) {
    using Int = std::int32_t;
    const Int n_side = healpix.n_side;
    const double side = n_side;
    // numbers of the ascending and descending edge lines
    const double across = side * (0.5 + turns), along = side * height * 0.75;
    const Int up = static_cast<Int>(across - along), down = static_cast<Int>(across + along);
    if constexpr (nested) {
        const Int last = n_side - 1, face_up = up >> healpix.order, face_down = down >> healpix.order;
        const Int face =
            face_up == face_down ? (face_up | 4) : (face_up < face_down ? face_up : face_down + 8);
        return {face, down & last, last - (up & last)};
    } else {
        const Int round = 4 * n_side;
        const Int ring = n_side + 1 + up - down;  // from 1 at z = 2/3
        const Int even = 1 - (ring & 1);
        const Int place = (up + down - n_side + even + 1) >> 1,
                  wrapped = place < round ? place : place - round;
        return {healpix.n_cap + (ring - 1) * round + wrapped};
    }
}

// In the polar caps; `depth` is 1 - |height|.
template <bool nested>
[[gnu::always_inline]] inline Place<nested> cap_place(const Healpix& healpix, bool north, double depth,
                                                      double turns) {
    using Int = std::int32_t;
    // numbers of the edge lines within the quarter
    const Int whole = static_cast<Int>(turns), quarter = whole < 3 ? whole : 3;
    const double part = turns - quarter, distance = healpix.n_side * std::sqrt(3 * depth);
    const Int up = static_cast<Int>(part * distance), down = static_cast<Int>((1.0 - part) * distance);
    if constexpr (nested) {
        const Int last = healpix.n_side - 1, u = up < last ? up : last, d = down < last ? down : last;
        return {north ? quarter : quarter + 8, north ? last - d : u, north ? last - u : d};
    } else {
        const Int ring = up + down + 1;  // from 1 at the pole
        const Int place = static_cast<Int>(turns * ring), end = 4 * ring - 1;
        const Int in_ring = place < end ? place : end;
        return {(north ? 2 * ring * (ring - 1) : healpix.n_pix - 2 * ring * (ring + 1)) + in_ring};
    }
}

// The pixel at a height and a longitude; both zones are computed and one is chosen, so that a loop has no
// branch.
template <bool nested>
[[gnu::always_inline]] inline std::int32_t healpix_pixel_at(const Healpix& healpix, double height,
                                                            double depth, double turns) {
    const auto belt = belt_place<nested>(healpix, height, turns);
    const auto cap = cap_place<nested>(healpix, height > 0, depth, turns);
    const bool equatorial = std::fabs(height) <= 2.0 / 3.0;
    if constexpr (nested)
        return number_of(healpix,
                         Place<true>{equatorial ? belt.face : cap.face, equatorial ? belt.column : cap.column,
                                     equatorial ? belt.row : cap.row});
    else
        return equatorial ? belt.number : cap.number;
}

// Squares of lengths below this have fewer digits: what is made of them may lie on no sphere.
constexpr double kShortest = 0x1p-1022;

// The pixel of a direction: -1 where it has no finite, positive length. Sums are rounded as in the reference
// library, so that edges fall alike.
template <bool nested>
[[gnu::always_inline]] inline std::int32_t healpix_pixel(const Healpix& healpix, double x, double y,
                                                         double z) {
    const double squared = x * x + y * y + z * z;
    const bool valid = (squared >= kShortest) & (squared < HUGE_VAL);
    const double inverse = 1.0 / std::sqrt(valid ? squared : 1.0);
    x = valid ? x : 1.0;
    y = valid ? y : 0.0;
    const double height = valid ? z * inverse : 0.0, absolute = std::fabs(height);
    // 1 - |z| loses digits near the pole
    const double sine_squared = (x * x + y * y) * (inverse * inverse);
    const double depth = absolute < 0.99 ? 1.0 - absolute : sine_squared / (1.0 + absolute);
    const std::int32_t pixel = healpix_pixel_at<nested>(healpix, height, depth, quarter_turns_of(y, x));
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

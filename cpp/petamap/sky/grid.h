// A pixelization as the kernels take it, and the pixels of many directions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace petamap::sky {

enum class GridKind : std::int32_t { healpix_ring = 0, healpix_nest = 1, car = 2, tan = 3, numbered = 4 };

struct Healpix {
    std::int32_t n_side, order;  // order = log2(n_side) for nested pixels, else 0
    std::int32_t n_pix, n_cap;   // of all pixels, and of a polar cap
};

// Columns and rows as FITS counts them: pixel centres at whole numbers, the first one 1; degrees.
struct Image {
    double crpix_x, crpix_y, cdelt_x, cdelt_y;
    std::int32_t n_x, n_y;
};

// The description is an array [kind, parameters...], angles in degrees as in FITS:
//   0 HEALPix ring:      n_side
//   1 HEALPix nested:    n_side (a power of two)
//   2 cylindrical (CAR): crval_lon, crpix_x, crpix_y, cdelt_x, cdelt_y, n_x, n_y; CRVAL2 = 0
//   3 gnomonic (TAN):    lon_0, lat_0, crpix_x, crpix_y, cdelt_x, cdelt_y, n_x, n_y
//   4 numbers only:      n_pix; every direction lies outside
struct Grid {
    GridKind kind;
    std::int64_t n_pix;
    Healpix healpix;
    Image image;
    double lon_0, lat_0;  // radians
    // TAN: centre, east and north of the tangent plane.
    double centre[3], east[3], north[3];

    // Throws std::invalid_argument where the description is not one of the above.
    static Grid from(const double* parameters, std::size_t n);
};

// The pixel of each direction, single-threaded and vectorised; vectors need not be of unit length. -1 for a
// direction outside, of zero length, or not finite.
void pixels_of(const Grid& grid, const double* x, const double* y, const double* z, std::int64_t n,
               std::int32_t* pixels);

// The same for directions of shape (n, 3), with threads.
void pixels_of(const Grid& grid, const double* directions, std::int64_t n, std::int32_t* pixels,
               int n_threads);

}  // namespace petamap::sky

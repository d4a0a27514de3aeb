#include "petamap/sky/grid.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "petamap/sky/angle.h"
#include "petamap/sky/healpix.h"

namespace petamap::sky {

namespace {

constexpr double kDegree = std::numbers::pi / 180;
constexpr double kEdge = 1e-9;  // of a pixel

void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

// Also false for NaN.
bool is_count(double value, double most) { return value >= 1 && value <= most && value == std::floor(value); }

Healpix healpix_of(double n_side, bool nested) {
    require(is_count(n_side, 13377), "n_side must be a whole number from 1 to 13377");
    const auto side = static_cast<std::int32_t>(n_side);
    require(!nested || std::has_single_bit(static_cast<std::uint32_t>(side)),
            "n_side must be a power of two");
    return {side, nested ? std::countr_zero(static_cast<std::uint32_t>(side)) : 0, 12 * side * side,
            2 * side * (side - 1)};
}

Image image_of(const double* p) {
    require(std::isfinite(p[0]) && std::isfinite(p[1]), "crpix must be finite");
    require(std::isfinite(1 / p[2]) && std::isfinite(1 / p[3]) && p[2] - p[2] == 0 && p[3] - p[3] == 0,
            "cdelt must be finite and not zero");
    require(is_count(p[4], 0x7FFFFFFF) && is_count(p[5], 0x7FFFFFFF) && p[4] * p[5] <= 0x7FFFFFFF,
            "an image needs 1 to 2^31 - 1 pixels");
    return {p[0], p[1], p[2], p[3], static_cast<std::int32_t>(p[4]), static_cast<std::int32_t>(p[5])};
}

void set_tangent_plane(Grid& grid) {
    const double sin_lon = std::sin(grid.lon_0), cos_lon = std::cos(grid.lon_0);
    const double sin_lat = std::sin(grid.lat_0), cos_lat = std::cos(grid.lat_0);
    const double vectors[3][3] = {{cos_lat * cos_lon, cos_lat * sin_lon, sin_lat},
                                  {-sin_lon, cos_lon, 0},
                                  {-sin_lat * cos_lon, -sin_lat * sin_lon, cos_lat}};
    std::copy_n(vectors[0], 3, grid.centre);
    std::copy_n(vectors[1], 3, grid.east);
    std::copy_n(vectors[2], 3, grid.north);
}

// Row-major number of the pixel at a place counted from the lower left corner of the first pixel, -1 outside.
// Comparisons are false for NaN.
[[gnu::always_inline]] inline std::int32_t image_pixel(const Image& image, double column, double row) {
    const bool inside = (column >= 0) & (column < image.n_x) & (row >= 0) & (row < image.n_y);
    const std::int32_t c = static_cast<std::int32_t>(inside ? column : 0.0);
    const std::int32_t r = static_cast<std::int32_t>(inside ? row : 0.0);
    return inside ? r * image.n_x + c : -1;
}

template <class PixelOf>
inline void for_each(const double* x, const double* y, const double* z, std::int64_t n, std::int32_t* pixels,
                     PixelOf pixel_of) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) pixels[i] = pixel_of(x[i], y[i], z[i]);
}

void car_pixels(const Grid& grid, const double* x, const double* y, const double* z, std::int64_t n,
                std::int32_t* pixels) {
    const Image image = grid.image;
    const double lon_0 = grid.lon_0 / kDegree, period = 360 / std::fabs(image.cdelt_x);
    // Longitudes repeat: the copy nearest the middle of the image is taken.
    const double start = (image.n_x - period) / 2;
    const bool closes = std::fabs(image.n_x - period) < 1e-6 * period;
    for_each(x, y, z, n, pixels, [=](double vx, double vy, double vz) {
        const double squared = vx * vx + vy * vy + vz * vz;
        const bool valid = (squared > 0) & (squared < HUGE_VAL);
        vx = valid ? vx : 1.0;
        vy = valid ? vy : 0.0;
        vz = valid ? vz : 0.0;
        const double lon = angle_of(vy, vx) / kDegree,
                     lat = angle_of(vz, std::sqrt(vx * vx + vy * vy)) / kDegree;
        double column = (lon - lon_0) / image.cdelt_x + image.crpix_x - 0.5;
        column -= period * std::floor((column - start) / period);
        column = (closes & (column < 0)) ? column + period : column;
        column = (closes & (column >= image.n_x)) ? column - period : column;
        column = (closes & (column < 0)) ? 0.0 : column;
        // The outer edges belong to the image: a pole there is not lost to rounding.
        double row = lat / image.cdelt_y + image.crpix_y - 0.5;
        row = ((row < 0) & (row > -kEdge)) ? 0.0 : row;
        row = ((row >= image.n_y) & (row < image.n_y + kEdge)) ? image.n_y - 0.5 : row;
        const std::int32_t pixel = image_pixel(image, column, row);
        return valid ? pixel : -1;
    });
}

void tan_pixels(const Grid& grid, const double* x, const double* y, const double* z, std::int64_t n,
                std::int32_t* pixels) {
    const Image image = grid.image;
    const double cx = grid.centre[0], cy = grid.centre[1], cz = grid.centre[2];
    const double ex = grid.east[0], ey = grid.east[1];
    const double nx = grid.north[0], ny = grid.north[1], nz = grid.north[2];
    for_each(x, y, z, n, pixels, [=](double vx, double vy, double vz) {
        const double depth = vx * cx + vy * cy + vz * cz;
        const bool valid = (depth > 0) & (depth < HUGE_VAL);
        const double scale = 1 / (kDegree * (valid ? depth : 1.0));
        const double column = (vx * ex + vy * ey) * scale / image.cdelt_x + image.crpix_x - 0.5;
        const double row = (vx * nx + vy * ny + vz * nz) * scale / image.cdelt_y + image.crpix_y - 0.5;
        const std::int32_t pixel = image_pixel(image, column, row);
        return valid ? pixel : -1;
    });
}

}  // namespace

Grid Grid::from(const double* p, std::size_t n) {
    require(n >= 2 && is_count(p[0] + 1, 5), "a grid is [kind, parameters...]");
    Grid grid{};
    grid.kind = static_cast<GridKind>(static_cast<std::int32_t>(p[0]));
    const std::size_t sizes[] = {2, 2, 8, 9, 2};
    require(n == sizes[static_cast<std::size_t>(grid.kind)], "wrong number of parameters of a grid");
    switch (grid.kind) {
        case GridKind::healpix_ring:
        case GridKind::healpix_nest:
            grid.healpix = healpix_of(p[1], grid.kind == GridKind::healpix_nest);
            grid.n_pix = grid.healpix.n_pix;
            break;
        case GridKind::car:
        case GridKind::tan: {
            const bool flat = grid.kind == GridKind::tan;
            require(std::isfinite(p[1]) && std::isfinite(p[2]), "the reference point must be finite");
            grid.lon_0 = p[1] * kDegree;
            grid.lat_0 = flat ? p[2] * kDegree : 0.0;
            grid.image = image_of(flat ? p + 3 : p + 2);
            grid.n_pix = static_cast<std::int64_t>(grid.image.n_x) * grid.image.n_y;
            set_tangent_plane(grid);
            break;
        }
        case GridKind::numbered:
            require(is_count(p[1], 0x7FFFFFFF), "numbered pixels need 1 to 2^31 - 1 pixels");
            grid.n_pix = static_cast<std::int64_t>(p[1]);
            break;
    }
    return grid;
}

void pixels_of(const Grid& grid, const double* x, const double* y, const double* z, std::int64_t n,
               std::int32_t* pixels) {
    const Healpix healpix = grid.healpix;
    switch (grid.kind) {
        case GridKind::healpix_ring:
            return for_each(x, y, z, n, pixels, [healpix](double vx, double vy, double vz) {
                return healpix_pixel<false>(healpix, vx, vy, vz);
            });
        case GridKind::healpix_nest:
            return for_each(x, y, z, n, pixels, [healpix](double vx, double vy, double vz) {
                return healpix_pixel<true>(healpix, vx, vy, vz);
            });
        case GridKind::car:
            return car_pixels(grid, x, y, z, n, pixels);
        case GridKind::tan:
            return tan_pixels(grid, x, y, z, n, pixels);
        case GridKind::numbered:
            std::fill_n(pixels, n, -1);
    }
}

void pixels_of(const Grid& grid, const double* directions, std::int64_t n, std::int32_t* pixels,
               int n_threads) {
    constexpr std::int64_t kChunk = 512;
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (std::int64_t begin = 0; begin < n; begin += kChunk) {
        double x[kChunk], y[kChunk], z[kChunk];
        const std::int64_t count = std::min(kChunk, n - begin);
        const double* vector = directions + 3 * begin;
        for (std::int64_t i = 0; i < count; ++i) {
            x[i] = vector[3 * i];
            y[i] = vector[3 * i + 1];
            z[i] = vector[3 * i + 2];
        }
        pixels_of(grid, x, y, z, count, pixels + begin);
    }
}

}  // namespace petamap::sky

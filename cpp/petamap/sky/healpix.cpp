#include "petamap/sky/healpix.h"

#include <numbers>

namespace petamap::sky {

namespace {

using Long = std::int64_t;

struct Ring {
    Long first, count;  // number of the first pixel, number of pixels
    double shift;       // of the first pixel's centre, in pixels from longitude 0
    double z, sine;     // cosine and sine of the colatitude
};

// Ring i of 1 .. 4 n_side - 1, from the north.
Ring ring_of(const Healpix& healpix, Long i) {
    const Long n_side = healpix.n_side;
    if (i >= n_side && i <= 3 * n_side) {
        const double z = static_cast<double>(2 * n_side - i) * (2.0 / (3.0 * static_cast<double>(n_side)));
        return {healpix.n_cap + (i - n_side) * 4 * n_side, 4 * n_side, ((i - n_side) & 1) == 0 ? 0.5 : 0.0, z,
                std::sqrt((1 - z) * (1 + z))};
    }
    const bool north = i < n_side;
    const Long j = north ? i : 4 * n_side - i;  // from the nearer pole
    const double ratio = static_cast<double>(j) / static_cast<double>(n_side), depth = ratio * ratio / 3;
    return {north ? 2 * j * (j - 1) : healpix.n_pix - 2 * j * (j + 1), 4 * j, 0.5,
            north ? 1 - depth : depth - 1, std::sqrt(depth * (2 - depth))};
}

// Rounded down; exact, since the arguments are far below 2^52.
Long square_root(Long v) { return static_cast<Long>(std::sqrt(static_cast<double>(v))); }

Long ring_number(const Healpix& healpix, Long pixel) {
    const Long n_side = healpix.n_side, rest = healpix.n_pix - 1 - pixel;
    if (pixel < healpix.n_cap) return (1 + square_root(1 + 2 * pixel)) / 2;
    if (rest < healpix.n_cap) return 4 * n_side - (1 + square_root(1 + 2 * rest)) / 2;
    return n_side + (pixel - healpix.n_cap) / (4 * n_side);
}

// A face's southern corner lies on ring face_ring * n_side, at a longitude of face_turn eighths of a turn.
Long nested_to_ring(const Healpix& healpix, Long pixel) {
    const Long n_side = healpix.n_side;
    const Long face = pixel >> (2 * healpix.order);
    const auto inside = static_cast<std::uint32_t>(pixel & (n_side * n_side - 1));
    const Long column = gather_bits(inside), row = gather_bits(inside >> 1);
    const Long face_ring = 2 + face / 4, face_turn = 2 * (face % 4) + (face / 4 == 1 ? 0 : 1);
    const Long i = face_ring * n_side - column - row - 1;
    const Ring ring = ring_of(healpix, i);
    const Long unshifted = ring.shift == 0.0 ? 1 : 0;
    const Long place = (face_turn * (ring.count / 4) + column - row - 1 + unshifted + 2 * ring.count) / 2;
    return ring.first + place % ring.count;
}

void centre_of(const Healpix& healpix, Long pixel, double* direction) {
    const Ring ring = ring_of(healpix, ring_number(healpix, pixel));
    const double longitude = 2 * std::numbers::pi * (static_cast<double>(pixel - ring.first) + ring.shift) /
                             static_cast<double>(ring.count);
    direction[0] = ring.sine * std::cos(longitude);
    direction[1] = ring.sine * std::sin(longitude);
    direction[2] = ring.z;
}

// The pixels of a ring left and right of a longitude (in turns), and the weights of linear interpolation.
void in_ring(const Ring& ring, double turns, Long* pixels, double* weights) {
    const double place = turns * static_cast<double>(ring.count) - ring.shift, left = std::floor(place);
    const Long i = static_cast<Long>(left);
    pixels[0] = ring.first + (i + ring.count) % ring.count;
    pixels[1] = ring.first + (i + 1) % ring.count;
    weights[1] = place - left;
    weights[0] = 1 - weights[1];
}

// Above the first ring and below the last, the pole is the mean of the ring's four pixels.
void beyond_ring(const Long* ring_pixels, Long first, double share, Long* pixels, double* weights,
                 double* ring_weights) {
    for (int k = 0; k < 2; ++k) {
        pixels[k] = first + ((ring_pixels[k] - first + 2) & 3);
        weights[k] = 0.25 * share;
        ring_weights[k] = ring_weights[k] * (1 - share) + 0.25 * share;
    }
}

void interpolate(const Healpix& healpix, double height, double sine, double turns, Long* pixels,
                 double* weights) {
    const Long n_side = healpix.n_side, last = 4 * n_side - 1;
    const double absolute = std::fabs(height), side = static_cast<double>(n_side);
    Long above;  // the ring above, 0 for none
    if (absolute <= 2.0 / 3.0) {
        above = static_cast<Long>(side * (2 - 1.5 * height));
    } else {
        const Long from_pole = static_cast<Long>(side * sine * std::sqrt(3 / (1 + absolute)));
        above = height > 0 ? from_pole : last - from_pole;
    }
    const double colatitude = angle_of(sine, height);
    const Ring upper = ring_of(healpix, above > 0 ? above : 1),
               lower = ring_of(healpix, above < last ? above + 1 : last);
    const double upper_colatitude = above > 0 ? angle_of(upper.sine, upper.z) : 0.0;
    const double lower_colatitude = above < last ? angle_of(lower.sine, lower.z) : std::numbers::pi;
    const double share = (colatitude - upper_colatitude) / (lower_colatitude - upper_colatitude);
    in_ring(upper, turns, pixels, weights);
    in_ring(lower, turns, pixels + 2, weights + 2);
    if (above == 0) return beyond_ring(pixels + 2, 0, 1 - share, pixels, weights, weights + 2);
    if (above == last) return beyond_ring(pixels, healpix.n_pix - 4, share, pixels + 2, weights + 2, weights);
    for (int k = 0; k < 2; ++k) {
        weights[k] *= 1 - share;
        weights[2 + k] *= share;
    }
}

Healpix with_order(const Healpix& healpix) {
    Healpix nested = healpix;
    nested.order = 0;
    while ((1 << nested.order) < healpix.n_side) ++nested.order;
    return nested;
}

Long ring_to_nested(const Healpix& nested, Long pixel) {
    double centre[3];
    centre_of(nested, pixel, centre);
    return healpix_pixel<true>(nested, centre[0], centre[1], centre[2]);
}

}  // namespace

void healpix_directions(const Grid& grid, const std::int64_t* pixels, std::int64_t n, double* directions,
                        int n_threads) {
    const bool nested = grid.kind == GridKind::healpix_nest;
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (std::int64_t i = 0; i < n; ++i)
        centre_of(grid.healpix, nested ? nested_to_ring(grid.healpix, pixels[i]) : pixels[i],
                  directions + 3 * i);
}

void healpix_reordered(const Grid& grid, const std::int64_t* pixels, std::int64_t n, std::int64_t* out,
                       int n_threads) {
    const bool nested = grid.kind == GridKind::healpix_nest;
    const Healpix healpix = with_order(grid.healpix);
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (std::int64_t i = 0; i < n; ++i)
        out[i] = nested ? nested_to_ring(healpix, pixels[i]) : ring_to_nested(healpix, pixels[i]);
}

void healpix_interpolation(const Grid& grid, const double* directions, std::int64_t n, std::int32_t* pixels,
                           double* weights, int n_threads) {
    const bool nested = grid.kind == GridKind::healpix_nest;
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (std::int64_t i = 0; i < n; ++i) {
        const double x = directions[3 * i], y = directions[3 * i + 1], z = directions[3 * i + 2];
        const double squared = x * x + y * y + z * z, length = std::sqrt(squared);
        Long found[4] = {-1, -1, -1, -1};
        double shares[4] = {0, 0, 0, 0};
        const bool valid = squared >= kShortest && squared < HUGE_VAL;
        if (valid)
            interpolate(grid.healpix, z / length, std::sqrt(x * x + y * y) / length,
                        quarter_turns_of(y, x) / 4, found, shares);
        for (int k = 0; k < 4; ++k) {
            const Long pixel = valid && nested ? ring_to_nested(grid.healpix, found[k]) : found[k];
            pixels[4 * i + k] = static_cast<std::int32_t>(pixel);
            weights[4 * i + k] = shares[k];
        }
    }
}

}  // namespace petamap::sky

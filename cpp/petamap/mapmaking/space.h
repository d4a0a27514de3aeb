// A space of vectors that conjugate gradients need not search: dot products with it, and steps along it. What
// a column gets does not depend on how many others there are.
#pragma once

#include <cstdint>

namespace petamap::mapmaking {

// Vectors side by side, [n][n_stokes][n_vectors]; n_vectors is a multiple of 8.
struct Space {
    const double* vectors;
    std::int64_t n;
    int n_stokes;
    std::int64_t n_vectors;
};

// Add to sums, [width][2][n_vectors], the dot products of the space with given, [n][n_stokes][width]: two
// words each, multiples of 1 and of 2^-low_bits after scaling. No scaled product may be larger than 2^50.
void space_products(const Space& space, const double* given, int width, const double* space_scales,
                    const double* scales, int low_bits, std::int64_t* sums, int n_threads);

// to, [n][n_stokes][width], += the vectors times amounts, [width][n_vectors]. Writes the largest sum of sizes
// of a row for each column.
void space_add(const Space& space, const double* amounts, int width, double* to, double* largest,
               int n_threads);

}  // namespace petamap::mapmaking

// The vectors of conjugate gradients: one pass over memory a step, dot products exact.
#pragma once

#include <cstdint>

#include "petacomm/base/exact.h"

namespace petamap::mapmaking {

// n rows of n_stokes values of `width` (1, 2, 4 or 8) vectors: [n][n_stokes][width].
struct Rows {
    std::int64_t n;
    int n_stokes, width;
};

// Values of a symmetric n_stokes x n_stokes matrix: the upper triangle, row by row.
constexpr int triangle(int n_stokes) { return n_stokes * (n_stokes + 1) / 2; }

// values[0..n) = 0.
void clear(std::int64_t* values, std::int64_t n, int n_threads);

// out[i] = sum over threads of sums[thread][i], n words each; sums become zero.
void fold(std::int64_t* sums, int n_copies, std::int64_t n, std::int64_t* out, int n_threads);

// In what follows there are a step, an alpha, a beta and a sum for each vector.

// Integers that threads have added up on all rows, one copy behind the other; none where n is 0.
struct Copies {
    std::int64_t* sums = nullptr;
    int n = 0;
};

// q = integers * step; adds p . q to the sums. The integers are summed over the copies, which become zero;
// without copies they are the bits that q holds.
void settle(const Rows& rows, const Copies& copies, const double* p, double* q, const double* step,
            petacomm::ExactSum* sums, int n_threads);

// r -= alpha q; then q = M^-1 r; adds r . q to the sums.
void advance(const Rows& rows, const double* alpha, double* q, const double* inverse, double* r,
             petacomm::ExactSum* sums, int n_threads);

// The same in steps, where another preconditioner makes z = M^-1 r: r -= alpha q; then a . b is added to the
// sums. Rows may have any number of Stokes parameters.
void subtract(const Rows& rows, const double* alpha, const double* q, double* r, int n_threads);
void dots(const Rows& rows, const double* a, const double* b, petacomm::ExactSum* sums, int n_threads);

// x += alpha p, then p = z + beta p; writes the largest sum of sizes |p_I| + |p_Q| + |p_U| of a row, of any
// number of Stokes parameters.
void turn(const Rows& rows, const double* alpha, const double* beta, const double* z, double* x, double* p,
          double* largest, int n_threads);

// Write the largest |value| of each of several vectors of n values; not a number where one is infinite or
// none.
void largest_sizes(std::int64_t n, int width, const double* values, double* largest, int n_threads);

// out = M^-1 in.
void precondition(const Rows& rows, const double* inverse, const double* in, double* out, int n_threads);

// Add to each of two sums a hash of every value of n rows, with the key of its row, its column of n_columns
// and the kind of the rows, 0 or 1, modulo 2^64: no order of rows matters.
void add_hashes(std::int64_t n, int n_columns, int kind, const std::int64_t* keys, const double* values,
                std::uint64_t* sums, int n_threads);

// Replace each symmetric matrix by its inverse and write its reciprocal condition (smallest over largest
// eigenvalue); below rcond_min the inverse is zero.
void invert(std::int64_t n, int n_stokes, double rcond_min, double* matrices, double* rcond, int n_threads);

}  // namespace petamap::mapmaking

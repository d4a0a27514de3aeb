// The vectors of conjugate gradients: one pass over memory a step, dot products exact.
#pragma once

#include <cstdint>

#include "petamap/base/exact.h"

namespace petamap::mapmaking {

// n rows of n_stokes values.
struct Rows {
    std::int64_t n;
    int n_stokes;
};

// Values of a symmetric n_stokes x n_stokes matrix: the upper triangle, row by row.
constexpr int triangle(int n_stokes) { return n_stokes * (n_stokes + 1) / 2; }

// out[i] = sum over threads of sums[thread][i], n words each; sums become zero.
void fold(std::int64_t* sums, int n_copies, std::int64_t n, std::int64_t* out, int n_threads);

// q = sums * step in place (q holds the bits of the integers); returns p . q.
base::ExactSum settle(const Rows& rows, const double* p, double* q, double step, int n_threads);

// x += alpha p, r -= alpha q; returns r . M^-1 r.
base::ExactSum advance(const Rows& rows, double alpha, const double* p, const double* q,
                       const double* inverse, double* x, double* r, int n_threads);

// p = M^-1 r + beta p; returns the largest sum of sizes |p_I| + |p_Q| + |p_U| of a row.
double turn(const Rows& rows, double beta, const double* inverse, const double* r, double* p, int n_threads);

// out = M^-1 in.
void precondition(const Rows& rows, const double* inverse, const double* in, double* out, int n_threads);

// Replace each symmetric matrix by its inverse and write its reciprocal condition (smallest over largest
// eigenvalue); below rcond_min the inverse is zero.
void invert(std::int64_t n, int n_stokes, double rcond_min, double* matrices, double* rcond, int n_threads);

}  // namespace petamap::mapmaking

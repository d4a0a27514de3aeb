// How a mask couples multipoles: sums of products of Wigner 3j symbols.
#pragma once

#include <cstdint>

namespace petamap::spectra {

// With f_s = (l1 l2 l3; s -s 0) and L = l1 + l2 + l3, writes the symmetric matrices
//   out[0] = sum over even L of w[0][l3] f_0^2
//   out[1], out[2] = the same of w[1][l3] f_0 f_2, w[2][l3] f_0 f_2
//   out[3] = the same of w[3][l3] f_2^2
//   out[4] = sum over odd L of w[3][l3] f_2^2
// each (l_max + 1, l_max + 1); f_2 is zero where l1 or l2 is below 2. Of all l1, l2 = 0..l_max, those are
// written of which the larger one is from first to stop - 1: in calls for parts of them, one after the other.
//
// w has shape (4, l_max_w + 1). central[n] = (2n)! / (4^n n!^2) for n = 0..2 l_max.
void coupling(const double* w, std::int64_t l_max_w, const double* central, std::int64_t l_max,
              std::int64_t first, std::int64_t stop, double* out, int n_threads);

}  // namespace petamap::spectra

// Sums over the neighbours of sites on a lattice.
#pragma once

#include <cstdint>

namespace petacomm {

// out[s] = sum over d of links[s, d] field[neighbours[s, d]] for the n sites s in `sites`: 3x3 complex
// matrices times vectors of 3, real and imaginary parts side by side. Terms are added in the order of d.
void hop_sites(const double* links, const std::int32_t* neighbours, std::int64_t n_directions,
               const double* field, const std::int32_t* sites, std::int64_t n, double* out, int n_threads);

}  // namespace petacomm

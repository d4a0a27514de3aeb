// What one pass over the samples adds up for the binned map, the preconditioner and the right-hand side.
#pragma once

#include <cstdint>

#include "petamap/mapmaking/blocks.h"

namespace petamap::mapmaking {

// hits[pixel] += 1 for n samples from `begin`; `shared`: other threads add to them as well.
void add_hits(const Samples& samples, std::int64_t begin, std::int64_t n, bool shared, std::int64_t* hits);

// weights[pixel][triangle] += weight * response response^T, in multiples of 1/scale.
void add_weights(const Samples& samples, std::int64_t begin, std::int64_t n, int n_stokes, double weight,
                 double scale, bool shared, std::int64_t* weights);

// high + low += P^T time: high in multiples of 1/scale, low in multiples of 2^-low_bits/scale; together they
// have room for values whose size is not known before. Rows of n_stokes words. Returns the largest |time| of
// samples that are in a pixel.
double add_signal(const Samples& samples, std::int64_t begin, std::int64_t n, int n_stokes,
                  const double* time, double scale, int low_bits, std::int64_t* high, std::int64_t* low,
                  std::int64_t* gap_high, std::int64_t* gap_low);

// time[0..n) = P (map, gaps).
void scan(const Samples& samples, std::int64_t n, int n_stokes, const double* map, const double* gaps,
          double* time);

}  // namespace petamap::mapmaking

// What one pass over the samples adds up for the binned map and the right-hand side.
#pragma once

#include <cstdint>

#include "petamap/mapmaking/blocks.h"
#include "petamap/mapmaking/template_table.h"

namespace petamap::mapmaking {

// Whether all of n pixels lie in [low, end), to be looked at before they are added to.
bool pixels_within(const std::int32_t* pixels, std::int64_t n, std::int64_t low, std::int64_t end);

// Time streams side by side, filtered and as they were: [width][n] each; the latter weigh `weight`.
struct Signals {
    const double* filtered;
    const double* data;
    double weight;
    std::int64_t n;
    int width;  // 1, 2, 4 or 8
};

// What they are added to, two words of each value.
struct SignalSums {
    std::int64_t* pixels;  // [pixel][n_stokes][filtered high, low, weighted high, low][width]
    std::int64_t* gaps;    // [slot][filtered high, low][width]
    std::int64_t n_pixels, n_gaps;
};

// Add P^T filtered and P^T (weight data), without knowing before how large they are: each as two words,
// multiples of 1/scale and of 2^-low_bits/scale. Writes the largest |value| * scale of each column, which
// must stay below 2^51: not a number where a filtered value is not finite. Returns false where a pixel has no
// sums: it is looked at while it is in the cache anyway.
bool add_signals(const Samples& samples, int n_stokes, const Signals& signals, double scale, int low_bits,
                 const SignalSums& sums, double* largest);

// The same of T^T filtered for a block's outputs, on rows of its amplitudes: sums [row][high, low][width].
void add_template_signals(const Templates& templates, const Block& block, const Samples& samples,
                          const double* filtered, int width, double scale, int low_bits, std::int64_t* sums);

// time[0..n) += T a for n inputs of a block from `begin`; amplitudes: [row].
void scan_templates(const Templates& templates, const Block& block, const Samples& samples,
                    const double* amplitudes, std::int64_t begin, std::int64_t n, double* time);

// The values [value][row][width] of n rows of words [copy][row][value][high, low][width], as `add_signals`
// adds them up in each copy.
void settle_words(const std::int64_t* words, int n_copies, std::int64_t n, int n_values, int width,
                  double unit, int low_bits, double* values, int n_threads);

// time[0..n) = P (map, gaps).
void scan(const Samples& samples, std::int64_t n, int n_stokes, const double* map, const double* gaps,
          double* time);

}  // namespace petamap::mapmaking

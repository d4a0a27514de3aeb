// The noise of a stream as baselines: piecewise linear functions of time with a knot every `step` samples,
// beside white noise. B = F^T W P, from pixels to knots, is kept by visits: the samples of one pixel between
// two knots.
#pragma once

#include <cstdint>
#include <span>

#include "petamap/mapmaking/blocks.h"

namespace petamap::mapmaking {

// Lags of the inverse covariance of baselines, without the first.
constexpr int kBaselineBand = 8;

// A row of a table of visits: the knot before it, in its stream; its row in a vector; then, as the bits of
// floats, its weights on the knot before, one a Stokes parameter, and those on the knot after.
constexpr int visit_size(int n_stokes) { return 2 + 2 * n_stokes; }

// Outputs of compress.
struct VisitTable {
    std::int32_t* pixels;  // room for n rows of n_stokes
    std::int32_t* gaps;    // room for n rows of one parameter, or null: gaps are known
    double* products;      // F^T W F by intervals between knots: before-before, before-after, after-after
};

struct VisitCounts {
    std::int64_t pixels, gaps;
};

// Write the visits of n samples, which begin at `first` in their stream, and add to the products, of which
// the first are those of the interval that the first sample is in. Pixels are those of `table`, one a local
// pixel; gaps are slots, and do not count among the products unless they are known. Steps are powers of two.
VisitCounts compress(const Samples& samples, std::int64_t n, int n_stokes, const std::int32_t* table,
                     std::int64_t first, std::int64_t step, double weight, const VisitTable& out);

// Visits of whole streams, in the order of time, to rows of vectors.
struct Visits {
    std::span<const std::int64_t> bounds;  // [n_streams + 1] visits of each stream
    std::span<const std::int64_t> knots;   // [n_streams + 1] knots of each stream
    const std::int32_t* table;             // [n][visit_size]
    int n_stokes;
};

// Write visits with other rows, `groups` of those they have; neighbours that are the same then become one.
// Write the new bounds, and return the number of visits.
std::int64_t merge(const Visits& visits, const std::int32_t* groups, std::int32_t* table,
                   std::int64_t* bounds);

// to, [n_knots][width], += B from, [n_rows][n_stokes][width].
void add_to_baselines(const Visits& visits, const double* from, int width, double* to, int n_threads);

// sums, [n_threads][n_rows][n_stokes][width], += B^T from, [n_knots][width], in units of 1 / scale.
void add_from_baselines(const Visits& visits, const double* from, int width, const double* scales,
                        std::int64_t n_rows, std::int64_t* sums, int n_threads);

// Solve L L^T x = y in place for each stream. A row of the factor holds L(i, i - k), k = 0 to kBaselineBand;
// the diagonal is stored inverted. Writes the largest size of each column.
void solve_baselines(std::span<const std::int64_t> knots, const double* factor, int width, double* y,
                     double* largest, int n_threads);

}  // namespace petamap::mapmaking

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

// What a visit contributes, per Stokes parameter: its weight on the knot before and on the knot after it. A
// visit of a gap has the first two alone. Then those of F^T W F: before-before, before-after, after-after.
constexpr int visit_values(int n_stokes) { return 2 * n_stokes + 3; }

// Outputs of compress, with room for as many visits as there are samples.
struct VisitTable {
    std::int64_t* positions;  // of the first sample, in its stream
    std::int32_t* pixels;     // or ~slot of a gap
    double* values;           // [n][visit_values]
};

// Write the visits of n samples, which begin at `first` in their stream; return how many there are. Pixels
// are those of the table, one a local pixel; steps are powers of two.
std::int64_t compress(const Samples& samples, std::int64_t n, int n_stokes, const std::int32_t* table,
                      std::int64_t first, std::int64_t step, double weight, const VisitTable& out);

// Visits of whole streams, in the order of time, to rows of vectors.
struct Visits {
    std::span<const std::int64_t> bounds;  // [n_streams + 1] visits of each stream
    std::span<const std::int64_t> knots;   // [n_streams + 1] knots of each stream
    const std::int64_t* before;            // the knot before each visit
    const std::int32_t* rows;
    const float* weights;  // [n][n_stokes][2]
    int n_stokes;
};

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

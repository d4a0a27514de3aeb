// The noise of a stream as baselines: piecewise linear functions of time with a knot every `step` samples, or
// constant from one knot to the next, beside white noise. B = F^T W P, from pixels to knots, is kept by
// visits: the samples of one pixel between two knots.
#pragma once

#include <cstdint>
#include <span>

#include "petamap/mapmaking/blocks.h"

namespace petamap::mapmaking {

// Lags of the inverse covariance of baselines, without the first.
constexpr int kBaselineBand = 8;

// A row of a table of visits: its row in a vector; then, as the bits of floats, the mean time of its samples
// t since the knot before, in steps, and for each Stokes parameter the sum of their responses and weights w.
// So B is P^T W F with F averaged over the samples of a visit: (1 - t) sum on the knot before, t sum on the
// one after. Where responses are equal in a visit nothing is lost; and the model never has more than F^T W F.
constexpr int visit_size(int n_stokes) { return 2 + n_stokes; }

// The samples of which visits are made: pixels are local, gaps are ~slot. `first` is the position of the
// first of them in its stream.
struct VisitSamples {
    Samples samples;
    std::int64_t n, first, step;
    bool constant;
    const std::int32_t* pixel_rows;  // row of each local pixel
    const std::int32_t* gap_rows;    // row of each slot; null where gaps are known to be zero
    std::int64_t n_rows, n_slots;    // that there are
};

struct VisitCounts {
    std::int64_t pixels, gaps;
    bool outside = false;  // whether there are visits of other rows or slots
};

// Return how many visits there are, by the values of pixel_rows; mark the values and the slots that are met.
VisitCounts count_visits(const VisitSamples& from, std::uint8_t* seen_rows, std::uint8_t* seen_slots);

// Outputs of compress. By intervals between knots, beginning with that of the first sample:
struct VisitTable {
    std::int32_t* pixels;
    std::int32_t* gaps;
    VisitCounts room;
    std::int64_t* counts;  // [n][2] visits of pixels and of gaps
    double* products;      // [n][3] F^T W F: before-before, before-after, after-after
};

// Write the visits, and add to counts and products; return the number of visits, of which only those are
// written that there is room for. Gaps do not count among the products unless they are known.
VisitCounts compress(const VisitSamples& from, int n_stokes, double weight, const VisitTable& out);

// Write the responses of samples to each Stokes parameter solved for, [n][n_stokes].
void write_responses(const Samples& samples, std::int64_t n, int n_stokes, double* out);

// Visits of whole streams, in the order of time, to rows of vectors.
struct Visits {
    std::span<const std::int64_t> knots;  // [n_streams + 1] first knot of each stream
    const std::int64_t* firsts;           // [n_knots + 1] first visit of the interval after each knot
    const std::int32_t* table;            // [n][visit_size]
    int n_stokes;
};

// Write visits with other rows, `groups` of those they have; neighbours that are the same then become one.
// Write the new `firsts`.
void merge(const Visits& visits, const std::int32_t* groups, std::int32_t* table, std::int64_t* firsts);

// to, [n_knots][width], += B from, [n_rows][n_stokes][width].
void add_to_baselines(const Visits& visits, const double* from, int width, double* to, int n_threads);

// sums, [n_threads][n_rows][n_stokes][width], += B^T from, [n_knots][width], in units of 1 / scale.
void add_from_baselines(const Visits& visits, const double* from, int width, const double* scales,
                        std::int64_t n_rows, std::int64_t* sums, int n_threads);

// The same of gaps, [n_rows][width], in the order of time: no gap is in two streams.
void add_to_gaps(const Visits& visits, const double* from, int width, double* gaps, int n_threads);

// Write the Cholesky factor of C^-1 + F^T W F of each stream as solve_baselines takes it. priors: lags of
// C^-1, [n_streams][kBaselineBand + 1]; diagonal, beside: F^T W F of a knot with itself and with the next
// one. Returns the first knot at which the matrix of a stream is not positive, or -1.
std::int64_t factorize_baselines(std::span<const std::int64_t> knots, const double* priors,
                                 const double* diagonal, const double* beside, double* factor);

// Write the products of symmetric band Toeplitz matrices, of [n_streams][kBaselineBand + 1] lags, with the
// knots of each stream.
void multiply_bands(std::span<const std::int64_t> knots, const double* lags, const double* from, int width,
                    double* to, int n_threads);

// Solve L L^T x = y in place for each stream. A row of the factor holds L(i, i - k), k = 0 to kBaselineBand;
// the diagonal is stored inverted. Writes the largest size of each column.
void solve_baselines(std::span<const std::int64_t> knots, const double* factor, int width, double* y,
                     double* largest, int n_threads);

}  // namespace petamap::mapmaking

// Templates: unknowns beside the map, each the amplitude of a function of time in a detector's stream.
#pragma once

#include <cstdint>
#include <span>

namespace petamap::mapmaking {

enum class Functions : std::int64_t { kConstant, kLegendre, kFourier, kBins, kColumns, kPixels };

// Functions of the samples of one stationary interval, with amplitudes of their own in each cell of it.
struct Term {
    Functions functions;
    std::int64_t n;              // constants 1, Legendre polynomials, harmonics, bins, columns
    std::int64_t first;          // the first harmonic
    std::int64_t n_samp;         // of the interval
    const double* values;        // [n_samp] argument of polynomials, -1 to 1; or columns, [n][n_samp]; or
                                 // values of the rank's pixels, of which a sample has that it looks at
    const std::uint32_t* turns;  // [n_samp] angle of the first harmonic in turns / 2^32
    const std::int32_t* bins;    // [n_samp]
    std::span<const std::int64_t> edges;  // samples at which cells begin, and the end of the last
    bool linear;                          // amplitudes are those at the edges, and linear between them
    // samples that columns have values of, from the first to the last, linear in between; none: of all
    std::span<const std::int32_t> knots;

    std::int64_t n_functions() const { return functions == Functions::kFourier ? 2 * n : n; }
    std::int64_t n_amplitudes() const {
        return n_functions() * (static_cast<std::int64_t>(edges.size()) - !linear);
    }
};

// The terms of the streams that a rank holds. A function has the values of its term times `scale`, and is
// zero in gaps. Sums over samples are in units larger by 1 / sum_scale than those of pixels.
struct Templates {
    struct Stream {
        std::int64_t first_term, n_terms;
        std::int64_t first_place;  // of its terms among `rows`
        std::int64_t shift;        // sample of the interval minus position among the held samples
    };
    std::span<const Term> terms;
    std::span<const Stream> streams;
    std::span<const std::int64_t> rows;  // first row of the amplitudes of each term of each stream
    double scale, sum_scale;
};

}  // namespace petamap::mapmaking

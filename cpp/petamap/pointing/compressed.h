// Compressed pointing: sparse boresight quaternions to the directions, pixels and response angles of any
// detector and sample range (Borrill, Cantalupo, Kisner et al., "generalized compressed pointing").
#pragma once

#include <cstdint>

#include "petamap/pointing/boresight.h"
#include "petamap/sky/grid.h"

namespace petamap::pointing {

enum class WavePlate : int { none = 0, uniform = 1, sampled = 2 };

// Views of the caller's arrays. A detector's quaternion is boresight * detector: Z points at the sky, X is
// the polarization axis.
struct CompressedPointing {
    Boresight boresight;
    const double* detectors = nullptr;       // (n_det, 4)
    const double* sights = nullptr;          // (n_sight, 4): the same but for a turn about Z
    const std::int64_t* sight_of = nullptr;  // (n_det,): detectors of one sight look at the same places
    const std::uint32_t* turns = nullptr;    // (n_det,): what the turn of each adds to response angles
    const double* efficiency = nullptr;      // (n_det,) e, for those who weigh samples; not used here
    std::int64_t n_det = 0;
    std::int64_t n_samp = 0;
    WavePlate plate = WavePlate::none;
    std::uint64_t plate_phase = 0;        // uniform: angle of sample 0, in turns / 2^64
    std::uint64_t plate_rate = 0;         // uniform: turns / 2^64 a sample
    const double* plate_turns = nullptr;  // sampled: (plate_knots.n,), unwrapped, linear between
    Knots plate_knots;
};

// Write the pixel of samples [start, stop) of a detector and, unless `angles` is null, the response angle phi
// in turns / 2^32: the detector measures I + e (Q cos phi + U sin phi), COSMO. Each sample's numbers depend
// on that sample alone, not on the range asked for.
void expand(const CompressedPointing& pointing, std::int64_t detector, const sky::Grid& grid,
            std::int64_t start, std::int64_t stop, std::int32_t* pixels, std::uint32_t* angles);

// The same of a line of sight: response angles but for the turns of detectors.
void expand_sight(const CompressedPointing& pointing, std::int64_t sight, const sky::Grid& grid,
                  std::int64_t start, std::int64_t stop, std::int32_t* pixels, std::uint32_t* angles);

// The same with unit vectors (stop - start, 3) instead of pixels.
void directions(const CompressedPointing& pointing, std::int64_t detector, std::int64_t start,
                std::int64_t stop, double* vectors, std::uint32_t* angles);

// Quaternions (stop - start, 4) of a detector.
void quaternions(const CompressedPointing& pointing, std::int64_t detector, std::int64_t start,
                 std::int64_t stop, double* out);

}  // namespace petamap::pointing

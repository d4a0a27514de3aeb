// From CompressedPointing.kernel_arguments() in Python to the kernels' view of it. Header-only, so that other
// rooms' bindings can expand pointing inside their own loops.
#pragma once

#include "../arrays.h"
#include "petamap/pointing/compressed.h"

namespace bindings {

// What CompressedPointing.kernel_arguments() returns.
using PointingArguments = nanobind::typed<nanobind::tuple, nanobind::object, nanobind::ellipsis>;

// Pieces cover all samples and knots; each has 2 knots at least, and a positive spacing.
inline void check_pieces(const petamap::pointing::Boresight& b, const In<std::int64_t, 2>& ranges,
                         const In<double, 2>& interpolation, std::int64_t n_knots) {
    require(b.n_pieces > 0 && interpolation.shape(1) == 3, "(spacing, offset, degree) of each piece");
    require(ranges.shape(0) == interpolation.shape(0) + 1 && ranges.shape(1) == 2, "a range of each piece");
    require(b.ranges[0] == 0 && b.ranges[1] == 0 && b.ranges[2 * b.n_pieces + 1] == n_knots,
            "pieces cover all samples and knots");
    for (std::int64_t piece = 0; piece < b.n_pieces; ++piece) {
        const std::int64_t* range = b.ranges + 2 * piece;
        require(range[2] > range[0] && range[3] >= range[1] + 2 && b.interpolation[3 * piece] > 0.0,
                "at least a sample, 2 knots and a positive spacing");
    }
}

// The view points into the arrays of `arguments`: keep the tuple alive while it is used. Takes the GIL.
inline petamap::pointing::CompressedPointing compressed_pointing(const PointingArguments& arguments) {
    namespace nb = nanobind;
    require(arguments.size() == 14, "kernel_arguments() has 14 items");
    const auto knots = nb::cast<In<double, 2>>(arguments[0], false);
    const auto ranges = nb::cast<In<std::int64_t, 2>>(arguments[1], false);
    const auto interpolation = nb::cast<In<double, 2>>(arguments[2], false);
    const auto detectors = nb::cast<In<double, 2>>(arguments[3], false);
    const auto sights = nb::cast<In<double, 2>>(arguments[4], false);
    const auto sight_of = nb::cast<In<std::int64_t>>(arguments[5], false);
    const auto turns = nb::cast<In<std::uint32_t>>(arguments[6], false);
    const auto plate_turns = nb::cast<In<double>>(arguments[10], false);
    const auto efficiency = nb::cast<In<double>>(arguments[13], false);
    petamap::pointing::CompressedPointing p;
    p.boresight = {knots.data(), ranges.data(), interpolation.data(),
                   static_cast<std::int64_t>(interpolation.shape(0))};
    p.detectors = detectors.data();
    p.sights = sights.data();
    p.sight_of = sight_of.data();
    p.turns = turns.data();
    p.n_det = static_cast<std::int64_t>(detectors.shape(0));
    p.plate = static_cast<petamap::pointing::WavePlate>(nb::cast<int>(arguments[7]));
    p.plate_phase = nb::cast<std::uint64_t>(arguments[8]);
    p.plate_rate = nb::cast<std::uint64_t>(arguments[9]);
    p.plate_turns = plate_turns.data();
    p.plate_knots = {static_cast<std::int64_t>(plate_turns.shape(0)), nb::cast<double>(arguments[11]),
                     nb::cast<double>(arguments[12])};
    p.efficiency = efficiency.data();
    require(knots.shape(1) == 4 && detectors.shape(1) == 4 && sights.shape(1) == 4,
            "quaternions have 4 numbers");
    check_pieces(p.boresight, ranges, interpolation, static_cast<std::int64_t>(knots.shape(0)));
    p.n_samp = ranges.data()[2 * p.boresight.n_pieces];
    require(sight_of.shape(0) == detectors.shape(0) && turns.shape(0) == detectors.shape(0) &&
                efficiency.shape(0) == detectors.shape(0),
            "one sight, turn and efficiency a detector");
    const std::int64_t n_sights = static_cast<std::int64_t>(sights.shape(0));
    for (std::int64_t d = 0; d < p.n_det; ++d)
        require(p.sight_of[d] >= 0 && p.sight_of[d] < n_sights, "sights that there are");
    require(p.plate != petamap::pointing::WavePlate::sampled || p.plate_knots.n >= 2,
            "at least 2 plate knots");
    return p;
}

}  // namespace bindings

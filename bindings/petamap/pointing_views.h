// From CompressedPointing.kernel_arguments() in Python to the kernels' view of it. Header-only, so that other
// rooms' bindings can expand pointing inside their own loops.
#pragma once

#include "../arrays.h"
#include "petamap/pointing/compressed.h"

namespace bindings {

// What CompressedPointing.kernel_arguments() returns.
using PointingArguments = nanobind::typed<nanobind::tuple, nanobind::object, nanobind::ellipsis>;

// The view points into the arrays of `arguments`: keep the tuple alive while it is used. Takes the GIL.
inline petamap::pointing::CompressedPointing compressed_pointing(const PointingArguments& arguments) {
    namespace nb = nanobind;
    require(arguments.size() == 14, "kernel_arguments() has 14 items");
    const auto boresight = nb::cast<In<double, 2>>(arguments[0], false);
    const auto detectors = nb::cast<In<double, 2>>(arguments[4], false);
    const auto gamma = nb::cast<In<double>>(arguments[5], false);
    const auto plate_turns = nb::cast<In<double>>(arguments[10], false);
    const auto efficiency = nb::cast<In<double>>(arguments[13], false);
    petamap::pointing::CompressedPointing p;
    p.boresight = boresight.data();
    p.knots = {static_cast<std::int64_t>(boresight.shape(0)), nb::cast<double>(arguments[1]),
               nb::cast<double>(arguments[2])};
    p.degree = nb::cast<int>(arguments[3]);
    p.detectors = detectors.data();
    p.gamma = gamma.data();
    p.n_det = static_cast<std::int64_t>(detectors.shape(0));
    p.n_samp = nb::cast<std::int64_t>(arguments[6]);
    p.plate = static_cast<petamap::pointing::WavePlate>(nb::cast<int>(arguments[7]));
    p.plate_phase = nb::cast<std::uint64_t>(arguments[8]);
    p.plate_rate = nb::cast<std::uint64_t>(arguments[9]);
    p.plate_turns = plate_turns.data();
    p.plate_knots = {static_cast<std::int64_t>(plate_turns.shape(0)), nb::cast<double>(arguments[11]),
                     nb::cast<double>(arguments[12])};
    p.efficiency = efficiency.data();
    require(boresight.shape(1) == 4 && detectors.shape(1) == 4, "quaternions have 4 numbers");
    require(p.knots.n >= 2 && p.knots.spacing > 0.0, "at least 2 knots, a positive spacing");
    require(gamma.shape(0) == detectors.shape(0) && efficiency.shape(0) == detectors.shape(0),
            "one gamma and one efficiency a detector");
    require(p.plate != petamap::pointing::WavePlate::sampled || p.plate_knots.n >= 2,
            "at least 2 plate knots");
    return p;
}

}  // namespace bindings

// From CompressedPointing.kernel_arguments() in Python to the kernels' view of it. Header-only, so that other
// rooms' bindings can expand pointing inside their own loops.
#pragma once

#include <type_traits>

#include "../arrays.h"
#include "petamap/pointing/compressed.h"

namespace bindings {

// What CompressedPointing.kernel_arguments() returns.
using PointingArguments = nanobind::typed<nanobind::tuple, nanobind::object, nanobind::ellipsis>;

// Of knots; a search for the samples of an interval ends where positions keep their digits.
inline void require_spacing(double spacing, double offset) {
    require(spacing >= 0x1p-20 && spacing <= 0x1p53, "interpolation: a positive spacing of the knots");
    require(offset >= -0x1p53 && offset <= 0x1p53, "interpolation: a finite offset of the knots");
}

// Item `i` of the arguments, a number, or an array that is not converted.
template <typename T>
T item_of(const PointingArguments& arguments, std::size_t i) {
    try {
        return nanobind::cast<T>(arguments[i], std::is_arithmetic_v<T>);
    } catch (const nanobind::cast_error&) {
        throw nanobind::type_error("arguments: those of kernel_arguments()");
    }
}

// Pieces cover all samples and knots; each has 2 knots at least, and a positive spacing.
inline void check_pieces(const petamap::pointing::Boresight& b, const In<std::int64_t, 2>& ranges,
                         const In<double, 2>& interpolation, std::int64_t n_knots) {
    require(b.n_pieces > 0 && interpolation.shape(1) == 3, "(spacing, offset, degree) of each piece");
    require(ranges.shape(0) == interpolation.shape(0) + 1 && ranges.shape(1) == 2, "a range of each piece");
    require(b.ranges[0] == 0 && b.ranges[1] == 0 && b.ranges[2 * b.n_pieces + 1] == n_knots,
            "pieces cover all samples and knots");
    for (std::int64_t piece = 0; piece < b.n_pieces; ++piece) {
        const std::int64_t* range = b.ranges + 2 * piece;
        require(range[2] > range[0] && range[3] >= range[1] + 2,
                "ranges: at least a sample and 2 knots of each piece");
        require_spacing(b.interpolation[3 * piece], b.interpolation[3 * piece + 1]);
    }
    require(b.ranges[2 * b.n_pieces] <= std::int64_t{1} << 53, "ranges: up to 2^53 samples");
}

// The view points into the arrays of `arguments`: keep the tuple alive while it is used. Takes the GIL.
inline petamap::pointing::CompressedPointing compressed_pointing(const PointingArguments& arguments) {
    require(arguments.size() == 14, "kernel_arguments() has 14 items");
    const auto knots = item_of<In<double, 2>>(arguments, 0);
    const auto ranges = item_of<In<std::int64_t, 2>>(arguments, 1);
    const auto interpolation = item_of<In<double, 2>>(arguments, 2);
    const auto detectors = item_of<In<double, 2>>(arguments, 3);
    const auto sights = item_of<In<double, 2>>(arguments, 4);
    const auto sight_of = item_of<In<std::int64_t>>(arguments, 5);
    const auto turns = item_of<In<std::uint32_t>>(arguments, 6);
    const auto plate_turns = item_of<In<double>>(arguments, 10);
    const auto efficiency = item_of<In<double>>(arguments, 13);
    petamap::pointing::CompressedPointing p;
    p.boresight = {knots.data(), ranges.data(), interpolation.data(),
                   static_cast<std::int64_t>(interpolation.shape(0))};
    p.detectors = detectors.data();
    p.sights = sights.data();
    p.sight_of = sight_of.data();
    p.turns = turns.data();
    p.n_det = static_cast<std::int64_t>(detectors.shape(0));
    p.plate = static_cast<petamap::pointing::WavePlate>(item_of<int>(arguments, 7));
    p.plate_phase = item_of<std::uint64_t>(arguments, 8);
    p.plate_rate = item_of<std::uint64_t>(arguments, 9);
    p.plate_turns = plate_turns.data();
    p.plate_knots = {static_cast<std::int64_t>(plate_turns.shape(0)), item_of<double>(arguments, 11),
                     item_of<double>(arguments, 12)};
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
    using petamap::pointing::WavePlate;
    require(p.plate == WavePlate::none || p.plate == WavePlate::uniform || p.plate == WavePlate::sampled,
            "arguments: a kind of wave plate");
    if (p.plate == WavePlate::sampled) {
        require(p.plate_knots.n >= 2, "arguments: at least 2 knots of the plate");
        require_spacing(p.plate_knots.spacing, p.plate_knots.offset);
    }
    return p;
}

}  // namespace bindings

// Functions on the bits of gaps.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>

#include "../arrays.h"
#include "petamap/mapmaking/gaps.h"

namespace bindings {

inline std::int64_t require_words(const In<std::uint8_t>& bits) {
    require(bits.shape(0) % 8 == 0, "bits: whole words of 64 samples");
    return 8 * length(bits.shape(0));
}

inline void require_slot_length(std::int64_t slot_length) {
    require(slot_length == 1 || slot_length == 64, "length: 1 or 64");
}

inline void require_chunk(std::int64_t chunk) {
    require(chunk > 0 && chunk % 64 == 0, "chunk: a multiple of 64");
}

// Slots that begin in each chunk of samples.
inline void count_slots(In<std::uint8_t> bits, std::int64_t slot_length, std::int64_t chunk,
                        Out<std::int64_t> counts) {
    const std::int64_t n = require_words(bits);
    require_slot_length(slot_length);
    require_chunk(chunk);
    require(length(counts.shape(0)) == n / chunk + (n % chunk != 0), "counts: one a chunk");
    nanobind::gil_scoped_release release;
    for (std::int64_t k = 0; k < length(counts.shape(0)); ++k)
        counts.data()[k] = petamap::mapmaking::count_slots(bits.data(), slot_length, k * chunk,
                                                           std::min(n, (k + 1) * chunk));
}

inline void find_slots(In<std::uint8_t> bits, std::int64_t slot_length, std::int64_t begin, std::int64_t end,
                       std::int64_t shift, Out<std::int64_t> out) {
    const std::int64_t n = require_words(bits);
    require_slot_length(slot_length);
    require(begin >= 0 && begin % 64 == 0 && begin <= end && end <= n, "begin, end: samples that there are");
    nanobind::gil_scoped_release release;
    const std::int64_t found = petamap::mapmaking::count_slots(bits.data(), slot_length, begin, end);
    require(length(out.shape(0)) == found, "out: one a slot");
    petamap::mapmaking::find_slots(bits.data(), slot_length, begin, end, shift, out.data());
}

inline void first_slots(In<std::uint8_t> bits, std::int64_t slot_length, std::int64_t chunk,
                        In<std::int64_t> before, In<std::int64_t> positions, Out<std::int64_t> slots) {
    const std::int64_t n = require_words(bits);
    require_slot_length(slot_length);
    require_chunk(chunk);
    require(length(before.shape(0)) > n / chunk, "before: of each chunk");
    require(slots.shape(0) == positions.shape(0), "slots: one a position");
    for (std::size_t i = 0; i < positions.shape(0); ++i) {
        const std::int64_t position = positions.data()[i];
        require(position >= 0 && position < n, "positions: of samples that there are");
        slots.data()[i] =
            petamap::mapmaking::first_slot(bits.data(), slot_length, chunk, before.data(), position);
    }
}

// Gaps in each range of samples.
inline void count_gaps(In<std::uint8_t> bits, In<std::int64_t> begins, In<std::int64_t> ends,
                       Out<std::int64_t> counts) {
    const std::int64_t n = require_words(bits);
    require(begins.shape(0) == counts.shape(0) && ends.shape(0) == counts.shape(0), "counts: one a range");
    for (std::size_t i = 0; i < counts.shape(0); ++i) {
        const std::int64_t begin = begins.data()[i], end = ends.data()[i];
        require(begin >= 0 && begin <= end && end <= n, "begins, ends: samples that there are");
        counts.data()[i] = petamap::mapmaking::count_gaps(bits.data(), begin, end);
    }
}

inline void bind_gaps(nanobind::module_& module) {
    namespace nb = nanobind;
    module.def("count_slots", bindings::apart(count_slots), nb::arg("bits").noconvert(), nb::arg("length"),
               nb::arg("chunk"), nb::arg("counts").noconvert());
    module.def("find_slots", bindings::apart(find_slots), nb::arg("bits").noconvert(), nb::arg("length"),
               nb::arg("begin"), nb::arg("end"), nb::arg("shift"), nb::arg("out").noconvert());
    module.def("first_slots", bindings::apart(first_slots), nb::arg("bits").noconvert(), nb::arg("length"),
               nb::arg("chunk"), nb::arg("before").noconvert(), nb::arg("positions").noconvert(),
               nb::arg("slots").noconvert());
    module.def("count_gaps", bindings::apart(count_gaps), nb::arg("bits").noconvert(),
               nb::arg("begins").noconvert(), nb::arg("ends").noconvert(), nb::arg("counts").noconvert());
}

}  // namespace bindings

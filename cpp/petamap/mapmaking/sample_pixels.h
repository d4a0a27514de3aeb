// Pixels and responses of the inputs of a block: read from memory, or expanded from compressed pointing in
// every pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "petamap/mapmaking/blocks.h"
#include "petamap/mapmaking/gaps.h"
#include "petamap/mapmaking/parts.h"
#include "petamap/mapmaking/pixel_index.h"
#include "petamap/pointing/compressed.h"

namespace petamap::mapmaking {

// Kept: arrays over all samples that the rank holds.
struct KeptSamples {
    const std::int32_t* pixels;
    const std::uint32_t* angles;  // may be null
    const float* gains;           // may be null
    const double* responses;      // intensity and efficiency of each stream

    struct Scratch {};

    Samples of(const Block& block, std::size_t /*number*/, Scratch& /*scratch*/) const {
        return {pixels + block.first, angles ? angles + block.first : nullptr,
                gains ? gains + block.first : nullptr, responses[2 * block.stream],
                responses[2 * block.stream + 1]};
    }
};

// Expanded: nothing a sample is kept but a bit that says whether it is a gap.
struct ExpandedSamples {
    struct Stream {
        std::int64_t pointing, detector;
        std::int64_t shift;  // sample of the observation minus position among the held samples
        std::int64_t start;  // first sample of the stream, unknown samples before its interval included
        std::int64_t recorded_start, recorded_stop;  // the samples that were recorded
    };

    std::span<const pointing::CompressedPointing> pointings;
    sky::Grid grid;
    const PixelIndex* index;
    const Stream* streams;
    const double* responses;          // intensity and efficiency of each stream
    const std::uint8_t* gap_bits;     // bit i of byte i / 8; null where there are no gaps
    const std::int64_t* first_slots;  // one a block
    std::int64_t gap_length;
    bool polarized;
    const Parts* parts = nullptr;  // null where all samples see one map

    struct Scratch {
        std::vector<std::int32_t> pixels;
        std::vector<std::uint32_t> angles;
    };

    Samples of(const Block& block, std::size_t number, Scratch& scratch) const {
        const Stream& stream = streams[block.stream];
        const std::int64_t start = block.first + stream.shift;
        scratch.pixels.resize(static_cast<std::size_t>(block.n_in));
        if (polarized) scratch.angles.resize(static_cast<std::size_t>(block.n_in));
        std::int32_t* pixels = scratch.pixels.data();
        std::uint32_t* angles = polarized ? scratch.angles.data() : nullptr;
        const std::int64_t begin = std::clamp(stream.recorded_start - start, std::int64_t{0}, block.n_in);
        const std::int64_t end = std::clamp(stream.recorded_stop - start, begin, block.n_in);
        pointing::expand(pointings[stream.pointing], stream.detector, grid, start + begin, start + end,
                         pixels + begin, angles ? angles + begin : nullptr);
        if (parts && begin < end) parts->number(block.stream, start + begin, end - begin, pixels + begin);
        for (std::int64_t i = begin; i < end; ++i) pixels[i] = index->local(pixels[i]);
        if (gap_bits && mark_gaps(gap_bits, block.first, block.n_in, pixels))
            number_gaps(gap_length, start - stream.start, first_slots[number], block.n_in, pixels);
        return {pixels, angles, nullptr, responses[2 * block.stream], responses[2 * block.stream + 1]};
    }
};

}  // namespace petamap::mapmaking

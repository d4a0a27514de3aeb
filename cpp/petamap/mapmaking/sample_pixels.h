// Pixels and responses of the inputs of a block: read from memory, or expanded from compressed pointing in
// every pass.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "petamap/mapmaking/block_order.h"
#include "petamap/mapmaking/blocks.h"
#include "petamap/mapmaking/gaps.h"
#include "petamap/mapmaking/parts.h"
#include "petamap/mapmaking/pixel_index.h"
#include "petamap/pointing/compressed.h"

namespace petamap::mapmaking {

// Polarization angles of the detector of a stream, radians, in an array that is not the map-maker's.
struct PsiRow {
    const double* psi;         // from sample 0 of the observation on
    std::int64_t shift;        // sample of the observation minus position among the held samples
    std::int64_t start, stop;  // samples that were recorded
};

// Kept: arrays over all samples that the rank holds.
struct KeptSamples {
    const std::int32_t* pixels;
    const std::uint32_t* angles;   // may be null
    std::span<const PsiRow> psi;   // one a stream, or none: read in the place of angles
    const float* gains;            // may be null
    const double* responses;       // intensity and efficiency of each stream
    const std::uint8_t* has_gaps;  // one a block: whether any of its samples is a gap
    const std::int64_t* turns;  // one a block: those of lower turns go first, unless the map stays in cache
    std::span<const Partner> partners;  // one a block, or none

    struct Shared {};
    // Of a block.
    struct Scratch {
        std::vector<std::uint32_t> angles;
    };

    void begin_run(const Block& /*block*/, Shared& /*shared*/) const {}
    Partner partner(std::size_t number) const { return partners.empty() ? Partner{} : partners[number]; }

    Samples of(const Block& block, std::size_t number, Shared& /*shared*/, Scratch& scratch) const {
        return {pixels + block.first,
                psi.empty() ? angles_of(block) : read_angles(block, scratch),
                gains ? gains + block.first : nullptr,
                responses[2 * block.stream],
                responses[2 * block.stream + 1],
                has_gaps[number] != 0};
    }

    BlockOrder order(std::span<const Block> blocks, std::vector<std::int64_t> numbers, int n_threads,
                     bool in_cache) const;

  private:
    const std::uint32_t* angles_of(const Block& block) const {
        return angles ? angles + block.first : nullptr;
    }
    const std::uint32_t* read_angles(const Block& block, Scratch& scratch) const;
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
    std::span<const Stream> streams;
    const double* responses;          // intensity and efficiency of each stream
    const std::uint8_t* gap_bits;     // bit i of byte i / 8; null where there are no gaps
    const std::int64_t* first_slots;  // one a block
    std::int64_t gap_length;
    bool polarized;
    const Parts* parts = nullptr;            // null where all samples see one map
    std::span<const Partner> partners = {};  // one a block, or none

    // What one thread has expanded last, over a range of time: the detectors of one sight have it in common.
    struct Shared {
        std::array<std::int64_t, 3> sight{-1, -1, -1};
        std::int64_t begin = 0, end = 0;    // samples of the observation
        std::vector<std::int32_t> pixels;   // local, but where there are parts
        std::vector<std::uint32_t> angles;  // but for the turns of detectors
    };
    // Of a block.
    struct Scratch {
        std::vector<std::int32_t> pixels;
        std::vector<std::uint32_t> angles;
    };

    // Before the first block of a run: forget what was expanded before that.
    void begin_run(const Block& block, Shared& shared) const;
    Partner partner(std::size_t number) const { return partners.empty() ? Partner{} : partners[number]; }
    // Those of the proposed ones that look along one line of sight at the same times, in one map.
    std::vector<Partner> alike(std::span<const Block> blocks, std::span<const std::int64_t> proposed) const;
    Samples of(const Block& block, std::size_t number, Shared& shared, Scratch& scratch) const;

    // Blocks of the detectors of one sight over one range of time stand in one run.
    BlockOrder order(std::span<const Block> blocks, std::vector<std::int64_t> numbers, int n_threads,
                     bool in_cache) const;

  private:
    const pointing::CompressedPointing& pointing_of(const Stream& stream) const;
    // Streams of which the samples are expanded alike, and no others, have the same.
    std::array<std::int64_t, 3> sight_of(const Stream& stream) const;
    void prepare(const Block& block, Shared& shared) const;
    void expand(const Stream& stream, std::int64_t from, std::int64_t to, Shared& shared) const;
};

}  // namespace petamap::mapmaking

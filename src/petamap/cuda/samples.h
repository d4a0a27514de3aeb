// Pixels and responses of the samples of blocks, in the memory of a device: kept, or expanded for a batch.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "petamap/mapmaking/halves.h"
#include "petamap/sky/grid.h"

namespace petamap::cuda {

using mapmaking::Block;

struct Stream {
    std::int64_t pointing, detector;
    std::int64_t shift;  // sample of the observation minus position among held samples
    std::int64_t start;  // first sample of the stream, unknown ones included
    std::int64_t recorded_start, recorded_stop;  // the samples that were recorded
};

// Compressed pointing of an observation: where its parts begin in the arrays of all.
struct Pointing {
    std::int64_t first_knot, first_range, first_piece, n_pieces;
    std::int64_t first_sight, first_detector;
    std::int64_t plate;  // 0 none, 1 uniform, 2 sampled
    std::uint64_t plate_phase, plate_rate;
    std::int64_t first_turn, n_turns;
    double plate_spacing, plate_offset;
};

struct Expanded {
    std::int32_t pixel;   // local, or negative
    std::uint32_t angle;  // but for the turns of detectors
};

// Every member takes 8 bytes: petamap.cuda.normal_pass writes one such record.
struct Samples {
    const Block* blocks;
    const double* responses;  // intensity and efficiency of each stream
    std::int64_t n_stokes, n_gaps;
    std::int64_t n, n_lag;  // points of a transform, and lags on either side
    // kept, over all samples that are held; null where they are expanded
    const std::int32_t* pixels;
    const std::uint32_t* angles;
    const float* gains;  // null where all are 1
    // expanded
    const Stream* streams;
    const Pointing* pointings;
    const double *knots, *interpolation, *sights, *plate_turns;
    const std::int64_t *ranges, *sight_of;
    const std::uint32_t* turns;
    std::int64_t n_side, order, n_pix, n_cap, nested;
    const std::uint64_t* words;  // a bit a pixel that is seen, and how many are before every 64
    const std::int32_t* before;
    const std::uint8_t* gap_bits;  // of held samples; null where there are no gaps
    std::int64_t gap_length;
    const std::int64_t* first_windows;  // of each block, of 64 inputs each
    std::int32_t* first_slots;          // the first gap in each window
    Expanded* expanded;                 // [block of the batch][stride]
    std::int64_t stride;
};

// The pixel of a sample, or ~slot in a gap, and its response to I, Q and U but for the gain.
struct Sample {
    std::int32_t pixel;
    double gain;
    double response[3];
};

// Call use(k, place) for each Stokes parameter k of I, Q and U that is mapped, and its place in a row. All
// three are written out, so that arrays of them stay in registers.
template <class Use>
inline void for_stokes(const Samples& s, const Use& use) {
    if (s.n_stokes != 2) use(0, 0);
    if (s.n_stokes > 1) {
        use(1, s.n_stokes - 2);
        use(2, s.n_stokes - 1);
    }
}

constexpr std::int64_t kWindow = 64;

inline bool is_marked(const std::uint8_t* bits, std::int64_t sample) {
    return bits[sample / 8] >> (sample % 8) & 1;
}

// Whether an unknown begins with input i of a block: as `mapmaking::number_marked_gaps` has it.
inline bool begins_slot(const Samples& s, const Block& block, std::int64_t i) {
    if (!is_marked(s.gap_bits, block.first + i)) return false;
    if (i == 0 || s.gap_length == 1 || !is_marked(s.gap_bits, block.first + i - 1)) return true;
    const Stream& stream = s.streams[block.stream];
    return (block.first + stream.shift - stream.start + i) % s.gap_length == 0;
}

// How many of samples [first, first + n) are marked.
inline std::int64_t count_marked(const std::uint8_t* bits, std::int64_t first, std::int64_t n) {
    std::int64_t count = 0;
    for (const std::int64_t end = first + n; first < end; first += 8 - first % 8) {
        std::uint64_t byte = bits[first / 8] >> (first % 8);
        if (end - first < 8) byte &= (1u << (end - first)) - 1;
        count += std::popcount(byte);
    }
    return count;
}

// The slot of a marked input.
inline std::int64_t slot_of(const Samples& s, const Block& block, std::int64_t number, std::int64_t i) {
    if (s.gap_length == 0) return 0;
    const std::int64_t begin = i / kWindow * kWindow;
    const std::int64_t slot = s.first_slots[s.first_windows[number] + i / kWindow];
    if (s.gap_length == 1) return slot + count_marked(s.gap_bits, block.first + begin, i - begin);
    std::int64_t begun = 0;
    for (std::int64_t k = begin; k <= i; ++k) begun += begins_slot(s, block, k);
    return slot + begun - 1;
}

inline Sample sample_at(const Samples& s, std::int64_t number, std::int64_t place, std::int64_t i) {
    const Block& block = s.blocks[number];
    Sample sample;
    std::uint32_t angle = 0;
    sample.gain = 1.0;
    if (s.pixels) {
        const std::int64_t held = block.first + i;
        sample.pixel = s.pixels[held];
        if (s.n_stokes > 1) angle = s.angles[held];
        if (s.gains) sample.gain = s.gains[held];
    } else {
        const Expanded expanded = s.expanded[place * s.stride + i];
        const Stream& stream = s.streams[block.stream];
        sample.pixel = expanded.pixel;
        angle = expanded.angle + s.turns[s.pointings[stream.pointing].first_detector + stream.detector];
        if (s.gap_bits && is_marked(s.gap_bits, block.first + i))
            sample.pixel = ~static_cast<std::int32_t>(slot_of(s, block, number, i));
    }
    double sine = 0, cosine = 0;
    if (s.n_stokes > 1) sincospi(angle * 0x1p-31, &sine, &cosine);
    const double efficiency = s.responses[2 * block.stream + 1];
    sample.response[0] = s.responses[2 * block.stream];
    sample.response[1] = efficiency * cosine;
    sample.response[2] = efficiency * sine;
    return sample;
}

}  // namespace petamap::cuda

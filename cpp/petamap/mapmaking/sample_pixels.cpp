#include "petamap/mapmaking/sample_pixels.h"

#include <algorithm>
#include <compare>

#include "petamap/mapmaking/detector_pairs.h"
#include "petamap/pointing/attitudes.h"

namespace petamap::mapmaking {
namespace {

// Samples that a thread keeps expanded, but for longer blocks: 2 MB.
constexpr std::int64_t kMostShared = 1 << 18;

}  // namespace

const pointing::CompressedPointing& ExpandedSamples::pointing_of(const Stream& stream) const {
    return pointings[static_cast<std::size_t>(stream.pointing)];
}

std::array<std::int64_t, 3> ExpandedSamples::sight_of(const Stream& stream) const {
    return {stream.pointing, stream.recorded_start, pointing_of(stream).sight_of[stream.detector]};
}

void ExpandedSamples::begin_run(const Block& block, Shared& shared) const {
    const Stream& stream = streams[static_cast<std::size_t>(block.stream)];
    const std::int64_t start = block.first + stream.shift, past = start - shared.begin;
    if (shared.sight != sight_of(stream) || past < 0 || start > shared.end) {
        shared.sight = sight_of(stream);
        shared.end = start;
    } else {
        const auto keep = [&](auto& values) {
            std::copy_n(values.begin() + past, shared.end - start, values.begin());
        };
        keep(shared.pixels);
        if (polarized) keep(shared.angles);
    }
    shared.begin = start;
}

std::vector<Partner> ExpandedSamples::alike(std::span<const Block> blocks,
                                            std::span<const std::int64_t> proposed) const {
    std::vector<Partner> found(blocks.size());
    for (std::size_t i = 0; i < proposed.size() && !parts; ++i) {
        if (proposed[i] < 0) continue;
        const Block &block = blocks[i], &other = blocks[static_cast<std::size_t>(proposed[i])];
        const Stream& stream = streams[static_cast<std::size_t>(block.stream)];
        const Stream& others = streams[static_cast<std::size_t>(other.stream)];
        if (sight_of(stream) != sight_of(others) || block.first + stream.shift != other.first + others.shift)
            continue;
        const std::uint32_t* turns = pointing_of(stream).turns;
        found[i] = {proposed[i], turns[others.detector] - turns[stream.detector] == kHalfTurn};
    }
    return found;
}

// Expand what is not there of the samples of a block.
void ExpandedSamples::prepare(const Block& block, Shared& shared) const {
    const Stream& stream = streams[static_cast<std::size_t>(block.stream)];
    const std::int64_t start = block.first + stream.shift, stop = start + block.n_in;
    if (shared.sight != sight_of(stream) || start < shared.begin || start > shared.end)
        begin_run(block, shared);
    if (stop <= shared.end) return;
    const auto length = static_cast<std::size_t>(stop - shared.begin);
    if (shared.pixels.size() < length) shared.pixels.resize(length);
    if (polarized && shared.angles.size() < length) shared.angles.resize(length);
    expand(stream, shared.end, stop, shared);
    shared.end = stop;
}

// What lies outside the recorded samples are gaps, which nobody reads here.
void ExpandedSamples::expand(const Stream& stream, std::int64_t from, std::int64_t to, Shared& shared) const {
    const std::int64_t begin = std::clamp(stream.recorded_start, from, to);
    const std::int64_t end = std::clamp(stream.recorded_stop, begin, to);
    std::int32_t* pixels = shared.pixels.data() + (begin - shared.begin);
    std::uint32_t* angles = polarized ? shared.angles.data() + (begin - shared.begin) : nullptr;
    const auto& pointing = pointing_of(stream);
    pointing::expand_sight(pointing, pointing.sight_of[stream.detector], grid, begin, end, pixels, angles);
    if (!parts) index->localize(pixels, end - begin);
}

Samples ExpandedSamples::of(const Block& block, std::size_t number, Shared& shared, Scratch& scratch) const {
    const Stream& stream = streams[static_cast<std::size_t>(block.stream)];
    const std::int64_t start = block.first + stream.shift, n = block.n_in;
    prepare(block, shared);
    const std::int64_t at = start - shared.begin;
    scratch.pixels.assign(shared.pixels.begin() + at, shared.pixels.begin() + at + n);
    std::int32_t* pixels = scratch.pixels.data();
    if (polarized) {
        scratch.angles.resize(static_cast<std::size_t>(n));
        const std::uint32_t turn = pointing_of(stream).turns[stream.detector];
        const std::uint32_t* angles = shared.angles.data() + at;
        std::uint32_t* own = scratch.angles.data();
        for (std::int64_t i = 0; i < n; ++i) own[i] = angles[i] + turn;
    }
    if (parts) {
        const std::int64_t begin = std::clamp(stream.recorded_start - start, std::int64_t{0}, n);
        const std::int64_t end = std::clamp(stream.recorded_stop - start, begin, n);
        if (begin < end) parts->number(block.stream, start + begin, end - begin, pixels + begin);
        index->localize(pixels + begin, end - begin);
    }
    const bool gaps = gap_bits && count_gaps(gap_bits, block.first, block.first + n) > 0;
    if (gaps)
        number_marked_gaps(gap_bits, block.first, gap_length, start - stream.start, first_slots[number], n,
                           pixels);
    return {pixels,
            polarized ? scratch.angles.data() : nullptr,
            nullptr,
            responses[2 * block.stream],
            responses[2 * block.stream + 1],
            gaps};
}

const std::uint32_t* KeptSamples::read_angles(const Block& block, Scratch& scratch) const {
    const PsiRow& row = psi[static_cast<std::size_t>(block.stream)];
    const std::int64_t start = block.first + row.shift, n = block.n_in;
    const std::int64_t begin = std::clamp(row.start - start, std::int64_t{0}, n);
    const std::int64_t end = std::clamp(row.stop - start, begin, n);
    scratch.angles.resize(static_cast<std::size_t>(n));
    std::uint32_t* to = scratch.angles.data();
    std::fill(to, to + begin, 0u);
    if (begin < end) pointing::response_angles(row.psi + start + begin, end - begin, to + begin);
    std::fill(to + end, to + n, 0u);
    return to;
}

BlockOrder KeptSamples::order(std::span<const Block> blocks, std::vector<std::int64_t> numbers, int n_threads,
                              bool in_cache) const {
    // A stream that has its turn gathers again what its first block shares with the one before.
    const auto turn = [&](std::int64_t number) { return in_cache ? 0 : turns[number]; };
    const auto stream = [&](std::int64_t number) { return blocks[static_cast<std::size_t>(number)].stream; };
    std::ranges::stable_sort(numbers, {}, turn);
    BlockOrder order;
    for (auto first = numbers.begin(), end = first; first != numbers.end(); first = end) {
        const std::int64_t length = BlockOrder::run_length(numbers.end() - first, n_threads, in_cache);
        while (end != numbers.end() && end - first < length && turn(*end) == turn(*first) &&
               stream(*end) == stream(*first))
            ++end;
        order.add_run({first, end});
    }
    return order;
}

BlockOrder ExpandedSamples::order(std::span<const Block> blocks, std::vector<std::int64_t> numbers,
                                  int n_threads, bool in_cache) const {
    struct Place {
        std::array<std::int64_t, 3> sight;
        std::int64_t start, stop, block;
        auto operator<=>(const Place&) const = default;
    };
    std::vector<Place> places;
    for (const std::int64_t number : numbers) {
        const Block& block = blocks[static_cast<std::size_t>(number)];
        const Stream& stream = streams[static_cast<std::size_t>(block.stream)];
        const std::int64_t start = block.first + stream.shift;
        places.push_back({sight_of(stream), start, start + block.n_in, number});
    }
    std::sort(places.begin(), places.end());
    BlockOrder order;
    for (auto first = places.begin(), end = first; first != places.end(); first = end) {
        numbers.clear();
        const std::int64_t length = BlockOrder::run_length(places.end() - first, n_threads, in_cache);
        const auto goes_on = [&] {
            if (end == places.end() || end->sight != first->sight) return false;
            if (end == first || (end->start == (end - 1)->start && end - first < 2 * length)) return true;
            return end - first < length && end->stop - first->start <= kMostShared;
        };
        for (; goes_on(); ++end) numbers.push_back(end->block);
        std::sort(numbers.begin(), numbers.end());  // stream by stream
        order.add_run(numbers);
    }
    return order;
}

}  // namespace petamap::mapmaking

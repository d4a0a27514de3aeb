// Blocks of samples with what each sample sees, as Python hands them over: checked once for all passes.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../arrays.h"
#include "part_views.h"
#include "petamap/mapmaking/detector_pairs.h"
#include "petamap/mapmaking/gaps.h"
#include "petamap/mapmaking/sample_pixels.h"
#include "pointing_views.h"

namespace bindings {

inline std::span<const petamap::mapmaking::Block> blocks_of(const In<std::int64_t, 2>& blocks) {
    static_assert(sizeof(petamap::mapmaking::Block) == 6 * sizeof(std::int64_t));
    require(blocks.shape(1) == 6, "blocks: 6 numbers each");
    return {reinterpret_cast<const petamap::mapmaking::Block*>(blocks.data()), blocks.shape(0)};
}

inline void require_outputs(const petamap::mapmaking::Block& block) {
    require(block.n_in >= 0 && block.n_left >= 0 && block.n_out >= 0 && block.n_left <= block.n_in &&
                block.n_out <= block.n_in - block.n_left,
            "blocks: outputs among the inputs");
}

// Outputs lie among the inputs, and with their kernel fit the two halves of a transform.
inline void require_block(const petamap::mapmaking::Block& block,
                          const petamap::mapmaking::InverseNoise& noise, std::int64_t n_kernels) {
    require_outputs(block);
    require(block.kernel >= 0 && block.kernel < n_kernels, "blocks: kernels that there are");
    if (!noise.convolver) return;
    require(block.n_left <= noise.n_lag && block.n_in - block.n_left - block.n_out <= noise.n_lag,
            "blocks: no more inputs before and after the outputs than the kernel has lags");
    require(block.n_out <= 2 * noise.half(), "blocks: no longer than two halves of a transform");
}

// Blocks, the largest number of a pixel, of a gap and of a stream that they meet, and one more.
class BlockTable {
  public:
    std::span<const petamap::mapmaking::Block> blocks() const { return blocks_; }
    std::int64_t n_slots() const { return n_slots_; }
    std::int64_t n_streams() const { return n_streams_; }
    // Pairs of blocks that are visited together.
    std::int64_t n_pairs() const {
        return std::ranges::count_if(partners_, [](const auto& one) { return one.block >= 0; }) / 2;
    }

  protected:
    // Of `n` samples that are held and of so many streams.
    BlockTable(In<std::int64_t, 2> blocks, std::int64_t n, std::size_t n_streams)
        : array_(std::move(blocks)), blocks_(blocks_of(array_)) {
        for (const auto& block : blocks_) {
            require(block.n_in >= 0 && block.n_in < std::int64_t{1} << 31, "blocks: up to 2^31 samples each");
            require(block.first >= 0 && block.n_in <= n && block.first <= n - block.n_in,
                    "blocks: samples that there are");
            require(block.stream >= 0 && block.stream < length(n_streams), "blocks: streams that there are");
            n_streams_ = std::max(n_streams_, block.stream + 1);
        }
    }
    // The proposed partners of the blocks, none by default.
    std::span<const std::int64_t> partners_of(const MaybeIn<std::int64_t>& partners) const {
        if (!partners) return {};
        const std::span<const std::int64_t> proposed(partners->data(), partners->shape(0));
        require(petamap::mapmaking::are_partners(blocks_, proposed),
                "partners: other blocks of the same inputs and outputs, of which each is the other's");
        return proposed;
    }
    void meet_slots(std::int32_t lowest) { n_slots_ = std::max(n_slots_, -std::int64_t{lowest}); }

    std::vector<petamap::mapmaking::Partner> partners_;  // one a block, or none

  private:
    In<std::int64_t, 2> array_;
    std::span<const petamap::mapmaking::Block> blocks_;
    std::int64_t n_slots_ = 0, n_streams_ = 0;
};

inline std::span<const petamap::mapmaking::ExpandedSamples::Stream> streams_of(
    const In<std::int64_t, 2>& streams) {
    using Stream = petamap::mapmaking::ExpandedSamples::Stream;
    static_assert(sizeof(Stream) == 6 * sizeof(std::int64_t));
    constexpr std::int64_t kMost = std::int64_t{1} << 53;
    require(streams.shape(1) == 6, "streams: 6 numbers each");
    const std::span all(reinterpret_cast<const Stream*>(streams.data()), streams.shape(0));
    for (const Stream& stream : all)
        require(std::abs(stream.shift) <= kMost && std::abs(stream.start) <= kMost,
                "streams: shift and start of up to 2^53");
    return all;
}

// Polarization angles of the detector of each stream, in arrays of samples that the table keeps.
class PsiTable {
  public:
    PsiTable(std::vector<In<double>> rows, In<std::int64_t, 2> streams) : arrays_(std::move(rows)) {
        const auto all = streams_of(streams);
        require(arrays_.size() == all.size(), "rows: one of each stream");
        for (std::size_t i = 0; i < all.size(); ++i) {
            const std::int64_t begin = all[i].recorded_start, end = all[i].recorded_stop;
            require(begin >= 0 && end <= length(arrays_[i].shape(0)), "rows: of all that was recorded");
            rows_.push_back({arrays_[i].data(), all[i].shift, begin, end});
        }
    }
    std::span<const petamap::mapmaking::PsiRow> rows() const { return rows_; }

  private:
    std::vector<In<double>> arrays_;
    std::vector<petamap::mapmaking::PsiRow> rows_;
};

// Samples whose pixels and responses are kept. Whoever makes it keeps `psi`, which may be null.
class KeptTable : public BlockTable {
  public:
    KeptTable(In<std::int64_t, 2> blocks, In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles,
              MaybeIn<float> gains, In<double, 2> responses, In<std::int64_t> turns, const PsiTable* psi,
              MaybeIn<std::int64_t> partners)
        : BlockTable(std::move(blocks), length(pixels.shape(0)), responses.shape(0)),
          pixels_(std::move(pixels)),
          angles_(std::move(angles)),
          gains_(std::move(gains)),
          responses_(std::move(responses)),
          turns_(std::move(turns)),
          psi_(psi ? psi->rows() : std::span<const petamap::mapmaking::PsiRow>{}) {
        require(!psi || length(psi_.size()) == length(responses_.shape(0)), "psi: of each stream");
        require(!angles_ || angles_->shape(0) == pixels_.shape(0), "angles: one for each of the pixels");
        require(!gains_ || gains_->shape(0) == pixels_.shape(0), "gains: one for each of the pixels");
        require(responses_.shape(1) == 2, "responses: intensity and efficiency of each stream");
        require(turns_.shape(0) == this->blocks().size(), "turns: one for each block");
        for (const auto& block : this->blocks()) {
            std::int32_t lowest = 0, highest = -1;
            for (const std::int32_t pixel : std::span(pixels_.data() + block.first, block.n_in)) {
                lowest = std::min(lowest, pixel);
                highest = std::max(highest, pixel);
            }
            meet_slots(lowest);
            has_gaps_.push_back(lowest < 0);
            n_pixels_ = std::max(n_pixels_, highest + std::int64_t{1});
        }
        const auto proposed = partners_of(partners);
        if (!gains_)
            partners_ = petamap::mapmaking::agreeing_partners(this->blocks(), proposed, pixels_.data(),
                                                              psi ? nullptr : data_or_null(angles_));
    }

    petamap::mapmaking::KeptSamples view(bool polarized) const {
        require(!polarized || angles_ || !psi_.empty(), "angles: of samples that see polarization");
        return {pixels_.data(),
                data_or_null(angles_),
                polarized ? psi_ : std::span<const petamap::mapmaking::PsiRow>{},
                data_or_null(gains_),
                responses_.data(),
                has_gaps_.data(),
                turns_.data(),
                partners_};
    }
    std::int64_t n_pixels() const { return n_pixels_; }

  private:
    In<std::int32_t> pixels_;
    MaybeIn<std::uint32_t> angles_;
    MaybeIn<float> gains_;
    In<double, 2> responses_;
    In<std::int64_t> turns_;
    std::span<const petamap::mapmaking::PsiRow> psi_;
    std::vector<std::uint8_t> has_gaps_;  // one a block
    std::int64_t n_pixels_ = 0;
};

// Samples that are expanded from compressed pointing in every pass. Keeps the arrays; whoever makes it keeps
// the index and the parts.
class ExpandedTable : public BlockTable {
  public:
    using Stream = petamap::mapmaking::ExpandedSamples::Stream;

    ExpandedTable(In<std::int64_t, 2> blocks, std::vector<PointingArguments> pointings, In<double> grid,
                  const petamap::mapmaking::PixelIndex& index, In<std::int64_t, 2> streams,
                  In<double, 2> responses, MaybeIn<std::uint8_t> gap_bits, In<std::int64_t> first_slots,
                  std::int64_t gap_length, const PartTable* parts, MaybeIn<std::int64_t> partners)
        : BlockTable(std::move(blocks), gap_bits ? 8 * length(gap_bits->shape(0)) : std::int64_t{1} << 53,
                     streams.shape(0)),
          pointings_(std::move(pointings)),
          grid_(petamap::sky::Grid::from(grid.data(), grid.shape(0))),
          index_(index),
          streams_(std::move(streams)),
          responses_(std::move(responses)),
          gap_bits_(std::move(gap_bits)),
          first_slots_(std::move(first_slots)),
          gap_length_(gap_length) {
        for (const auto& pointing : pointings_) views_.push_back(compressed_pointing(pointing));
        require_streams();
        require(!parts || parts->n_segments() == length(streams_.shape(0)), "parts: of each stream");
        require(!parts || parts->n_pix() >= grid_.n_pix, "parts: of the pixels of the grid");
        require(index_.n_pix() >= (parts ? parts->n_pixels() : grid_.n_pix), "index: of all pixels");
        if (parts) parts_ = parts->view();
        require(first_slots_.shape(0) == this->blocks().size(), "first_slots: one for each block");
        require(gap_length_ == 0 || gap_length_ == 1 || gap_length_ == 64, "gap_length: 0, 1 or 64");
        require(!gap_bits_ || gap_bits_->shape(0) % 8 == 0, "gap_bits: whole words of 64 samples");
        for (std::size_t i = 0; i < this->blocks().size(); ++i) meet(this->blocks()[i], i);
        const auto proposed = partners_of(partners);
        if (!proposed.empty()) partners_ = view(true).alike(this->blocks(), proposed);
    }

    petamap::mapmaking::ExpandedSamples view(bool polarized) const {
        require(index_.is_numbered(), "index: numbered");
        return {views_,
                grid_,
                &index_,
                all_streams(),
                responses_.data(),
                data_or_null(gap_bits_),
                first_slots_.data(),
                gap_length_,
                polarized,
                parts_ ? &*parts_ : nullptr,
                partners_};
    }
    std::int64_t n_pixels() const { return index_.n_local(); }

    // Writes the inputs of a block.
    void expand(std::int64_t number, Out<std::int32_t> pixels, MaybeOut<std::uint32_t> angles) const {
        require(number >= 0 && number < length(blocks().size()), "number: of a block");
        const auto i = static_cast<std::size_t>(number);
        const std::size_t n = pixels.shape(0);
        require(length(n) == blocks()[i].n_in, "pixels: of the inputs of the block");
        require(!angles || angles->shape(0) == n, "angles: one for each of the pixels");
        const auto source = view(angles.has_value());
        nanobind::gil_scoped_release release;
        petamap::mapmaking::ExpandedSamples::Shared shared;
        petamap::mapmaking::ExpandedSamples::Scratch scratch;
        const auto samples = source.of(blocks()[i], i, shared, scratch);
        std::copy_n(samples.pixels, n, pixels.data());
        if (angles) std::copy_n(samples.angles, n, angles->data());
    }

  private:
    std::span<const Stream> all_streams() const {
        return {reinterpret_cast<const Stream*>(streams_.data()), streams_.shape(0)};
    }

    void require_streams() const {
        require(responses_.shape(0) == streams_.shape(0) && responses_.shape(1) == 2,
                "responses: intensity and efficiency of each stream");
        for (const Stream& stream : streams_of(streams_)) {
            require(stream.pointing >= 0 && stream.pointing < length(views_.size()),
                    "streams: pointings that there are");
            const auto& pointing = views_[static_cast<std::size_t>(stream.pointing)];
            require(stream.detector >= 0 && stream.detector < pointing.n_det,
                    "streams: detectors that there are");
            require(stream.recorded_start >= 0 && stream.recorded_stop <= pointing.n_samp,
                    "streams: recorded samples that there are");
        }
    }

    // What was not recorded must be a gap, as nobody writes pixels there; gaps have slots.
    void meet(const petamap::mapmaking::Block& block, std::size_t number) {
        const Stream& stream = all_streams()[static_cast<std::size_t>(block.stream)];
        const std::int64_t start = block.first + stream.shift, stop = start + block.n_in;
        const std::int64_t begin = std::clamp(stream.recorded_start, start, stop);
        const std::int64_t end = std::clamp(stream.recorded_stop, begin, stop);
        const auto are_gaps = [&](std::int64_t from, std::int64_t to) {
            return from >= to ||
                   (gap_bits_ && gaps_among(from - stream.shift, to - stream.shift) == to - from);
        };
        require(are_gaps(start, begin) && are_gaps(end, stop), "gap_bits: of what was not recorded");
        if (!gap_bits_ || gaps_among(block.first, block.first + block.n_in) == 0) return;
        const std::int64_t slot = first_slots_.data()[number];
        require(slot >= 0 && slot <= std::numeric_limits<std::int32_t>::max() - block.n_in,
                "first_slots: slots that there are");
        if (gap_length_ == 0) return meet_slots(~0);
        // where slots end depends on the stream, and where they are looked for on the words of bits
        require(gap_length_ == 1 || (start - stream.start - block.first) % 64 == 0,
                "streams: begin at whole words of the bits");
        meet_slots(static_cast<std::int32_t>(~(slot + slots_in(block) - 1)));
    }

    std::int64_t gaps_among(std::int64_t begin, std::int64_t end) const {
        return petamap::mapmaking::count_gaps(gap_bits_->data(), begin, end);
    }

    // Slots of which a block has samples.
    std::int64_t slots_in(const petamap::mapmaking::Block& block) const {
        const std::int64_t first = block.first, word = first / 64 * 64;
        const auto begun = [&](std::int64_t end) {
            return petamap::mapmaking::count_slots(gap_bits_->data(), gap_length_, word, end);
        };
        const bool goes_on = gaps_among(first, first + 1) > begun(first + 1) - begun(first);
        return begun(first + block.n_in) - begun(first) + goes_on;
    }

    std::vector<PointingArguments> pointings_;
    std::vector<petamap::pointing::CompressedPointing> views_;
    petamap::sky::Grid grid_;
    const petamap::mapmaking::PixelIndex& index_;
    In<std::int64_t, 2> streams_;
    In<double, 2> responses_;
    MaybeIn<std::uint8_t> gap_bits_;
    In<std::int64_t> first_slots_;
    std::int64_t gap_length_;
    std::optional<petamap::mapmaking::Parts> parts_;
};

}  // namespace bindings

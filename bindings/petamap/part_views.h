// Parts of the samples of detectors, as Python hands them over.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "../arrays.h"
#include "petamap/mapmaking/parts.h"

namespace bindings {

// Keeps the runs. `firsts`: (n_segments + 1,); `runs`: (n_runs, 2) first sample and part.
class PartTable {
  public:
    PartTable(In<std::int64_t> firsts, In<std::int64_t, 2> runs, std::int64_t n_parts, std::int64_t n_pix)
        : firsts_(firsts.data(), firsts.data() + firsts.size()), n_parts_(n_parts), n_pix_(n_pix) {
        static_assert(sizeof(Run) == 2 * sizeof(std::int64_t));
        require(runs.shape(1) == 2, "2 numbers a run");
        constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
        require(n_parts >= 0 && n_parts <= kMost && n_pix >= 0 && n_pix <= kMost && n_parts * n_pix <= kMost,
                "n_parts, n_pix: pixels that int32 numbers");
        const auto* first = reinterpret_cast<const Run*>(runs.data());
        runs_.assign(first, first + runs.shape(0));
        require(!firsts_.empty() && firsts_.front() == 0 && firsts_.back() == length(runs_.size()),
                "firsts: of all runs");
        require(std::is_sorted(firsts_.begin(), firsts_.end()), "firsts: in order");
        for (std::size_t i = 0; i + 1 < firsts_.size(); ++i) {
            require(firsts_[i] < firsts_[i + 1], "a run a segment");
            require(runs_[firsts_[i]].start <= 0, "runs from the first sample on");
            for (std::int64_t k = firsts_[i] + 1; k < firsts_[i + 1]; ++k)
                require(runs_[k - 1].start < runs_[k].start, "runs in order");
        }
        for (const Run& run : runs_) require(run.part >= -1 && run.part < n_parts, "parts that there are");
    }

    petamap::mapmaking::Parts view() const { return {firsts_, runs_, n_pix_}; }
    std::int64_t n_pix() const { return n_pix_; }  // of a part
    std::int64_t n_pixels() const { return n_parts_ * n_pix_; }
    std::int64_t n_segments() const { return length(firsts_.size()) - 1; }

    void number(std::int64_t segment, std::int64_t start, Out<std::int32_t> pixels) const {
        require(segment >= 0 && segment < n_segments(), "segment: that there is");
        require(start >= 0 && start <= std::int64_t{1} << 53, "start: 0 to 2^53");
        view().number(segment, start, length(pixels.size()), pixels.data());
    }

  private:
    using Run = petamap::mapmaking::Parts::Run;

    std::vector<std::int64_t> firsts_;
    std::vector<Run> runs_;
    std::int64_t n_parts_, n_pix_;
};

}  // namespace bindings

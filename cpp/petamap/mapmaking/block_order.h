// The order in which threads take blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace petamap::mapmaking {

// Runs of blocks that one thread takes one after the other: neighbours in time, so that they share the inputs
// that both need.
class BlockOrder {
  public:
    void add_run(std::span<const std::int64_t> blocks) {
        blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
        ends_.push_back(static_cast<std::int64_t>(blocks_.size()));
    }

    std::int64_t n_runs() const { return static_cast<std::int64_t>(ends_.size()); }

    std::span<const std::int64_t> run(std::int64_t k) const {
        const std::int64_t begin = k > 0 ? ends_[static_cast<std::size_t>(k - 1)] : 0;
        return {blocks_.data() + begin, blocks_.data() + ends_[static_cast<std::size_t>(k)]};
    }

    // Blocks of the next run, of those that are left: fewer and fewer, so that threads end together.
    // in_cache: whether the map stays in cache, whatever the order.
    static std::int64_t run_length(std::int64_t n_left, int n_threads, bool in_cache) {
        const std::int64_t longest = in_cache ? kLongest : kLongestInTurn;
        if (n_threads == 1) return std::min(n_left, longest);
        return std::clamp<std::int64_t>(n_left / (2 * n_threads), 1, longest);
    }

  private:
    static constexpr std::int64_t kLongest = 8;
    // Pixels that the blocks of a run see stay in cache until the run of the next detector that looks there.
    // Where maps are larger than caches, 8 blocks take 1.3 times as long as 2 (satellite, Zen 4, 32 MB).
    static constexpr std::int64_t kLongestInTurn = 2;
    std::vector<std::int64_t> blocks_, ends_;
};

}  // namespace petamap::mapmaking

// The order in which threads take blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace petamap::mapmaking {

// Runs of blocks that one thread takes one after the other: neighbours in time, so that they share the inputs
// that both need.
class BlockOrder {
  public:
    BlockOrder() = default;
    // As given, in runs of equal length.
    BlockOrder(std::vector<std::int64_t> blocks, int n_threads) : blocks_(std::move(blocks)) {
        const auto n = static_cast<std::int64_t>(blocks_.size()), length = run_length(n, n_threads);
        for (std::int64_t end = length; end < n; end += length) ends_.push_back(end);
        if (n > 0) ends_.push_back(n);
    }

    void add_run(std::span<const std::int64_t> blocks) {
        blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
        ends_.push_back(static_cast<std::int64_t>(blocks_.size()));
    }

    std::int64_t n_runs() const { return static_cast<std::int64_t>(ends_.size()); }

    std::span<const std::int64_t> run(std::int64_t k) const {
        const std::int64_t begin = k > 0 ? ends_[static_cast<std::size_t>(k - 1)] : 0;
        return {blocks_.data() + begin, blocks_.data() + ends_[static_cast<std::size_t>(k)]};
    }

    // Blocks of a run: few enough that there are many runs for each thread.
    static std::int64_t run_length(std::int64_t n_blocks, int n_threads) {
        return std::clamp<std::int64_t>(n_blocks / (8 * n_threads), 1, 8);
    }

  private:
    std::vector<std::int64_t> blocks_, ends_;
};

}  // namespace petamap::mapmaking

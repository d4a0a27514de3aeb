// Passes over the blocks of a rank by threads, each of which takes the next blocks that nobody has taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "petacomm/base/threads.h"
#include "petamap/mapmaking/block_order.h"
#include "petamap/mapmaking/blocks.h"

namespace petamap::mapmaking {

// Call work(next_turn) in each thread: next_turn() is the next number from 0 on that no thread has taken.
// A thread that throws takes no more of them.
template <class Work>
void in_turns(int n_threads, const Work& work) {
    std::atomic<std::int64_t> next = 0;
    petacomm::Thrown thrown;
#pragma omp parallel num_threads(n_threads)
    thrown.keep([&] { work([&next] { return next.fetch_add(1, std::memory_order_relaxed); }); });
    thrown.rethrow();
}

// Call visit(number, shared) for the blocks of the runs that a thread takes.
template <class Turn, class SampleSource, class Visit>
void visit_numbers(const Turn& next_turn, const BlockOrder& order, std::span<const Block> blocks,
                   const SampleSource& source, const Visit& visit) {
    typename SampleSource::Shared shared;
    for (std::int64_t k = next_turn(); k < order.n_runs(); k = next_turn()) {
        const auto run = order.run(k);
        source.begin_run(blocks[static_cast<std::size_t>(run.front())], shared);
        for (const std::int64_t number : run) visit(static_cast<std::size_t>(number), shared);
    }
}

// Call visit(block, samples) for them.
template <class Turn, class SampleSource, class Visit>
void visit_runs(const Turn& next_turn, const BlockOrder& order, std::span<const Block> blocks,
                const SampleSource& source, const Visit& visit) {
    typename SampleSource::Scratch scratch;
    visit_numbers(next_turn, order, blocks, source, [&](std::size_t i, auto& shared) {
        visit(blocks[i], source.of(blocks[i], i, shared, scratch));
    });
}

// Whether so many words, values and sums of all pixels, stay in a core's share of the caches. Detectors that
// take turns cost some 2 % of the time at this size, and save some 3 % at four times it (satellite, Zen 4,
// 32 MB).
inline bool stay_in_cache(std::int64_t n_words) {
    constexpr std::int64_t kBytes = 4 << 20;
    return n_words * std::int64_t{sizeof(double)} <= kBytes;
}

}  // namespace petamap::mapmaking

#include "petamap/mapmaking/weights.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "petacomm/base/threads.h"
#include "petamap/mapmaking/block_passes.h"
#include "petamap/mapmaking/project.h"

namespace petamap::mapmaking {
namespace {

template <int kStokes>
void add_weights_of(const Samples& samples, std::int64_t n, double weight, double scale, std::int64_t* sums) {
    constexpr int kRow = weights_row(kStokes);
    const Ahead<std::int64_t, kRow> ahead(samples.pixels, n, sums);
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + done;
        const Response<std::max(kStokes, 1)> response(samples, done, count);
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            if (pixels[i] < 0) continue;
            double each[std::max(kStokes, 1)];
            response.of(i, samples.gains ? samples.gains[done + i] : 1.0, each);
            // without signs: sums of many hits may wrap around
            auto* row = reinterpret_cast<std::uint64_t*>(sums + pixels[i] * std::int64_t{kRow});
            *row++ += 1;
            for (int j = 0; j < kStokes; ++j)
                for (int k = j; k < kStokes; ++k)
                    *row++ += static_cast<std::uint64_t>(to_fixed(weight * each[j] * each[k] * scale));
        }
    }
}

template <class SampleSource>
void add_blocks(std::span<const Block> blocks, const SampleSource& source, const double* weights,
                double scale, const WeightSums& to) {
    const std::int64_t n_words = to.n_local * weights_row(to.n_stokes);
    std::vector<std::int64_t> numbers(blocks.size());
    std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
    const BlockOrder order = source.order(blocks, std::move(numbers), to.n_threads, stay_in_cache(n_words));
    in_turns(to.n_threads, [&](const auto& next_turn) {
        std::int64_t* sums = to.sums + petacomm::thread_number() * n_words;
        visit_runs(next_turn, order, blocks, source, [&](const Block& block, const Samples& inputs) {
            const Samples outputs = inputs.from(block.n_left);
            add_weights(outputs, block.n_out, to.n_stokes, weights[block.stream], scale, sums);
        });
    });
}

}  // namespace

void add_weights(const Samples& samples, std::int64_t n, int n_stokes, double weight, double scale,
                 std::int64_t* sums) {
    const auto add = n_stokes == 0   ? add_weights_of<0>
                     : n_stokes == 1 ? add_weights_of<1>
                     : n_stokes == 2 ? add_weights_of<2>
                                     : add_weights_of<3>;
    add(samples, n, weight, scale, sums);
}

void add_weights(std::span<const Block> blocks, const KeptSamples& source, const double* weights,
                 double scale, const WeightSums& to) {
    add_blocks(blocks, source, weights, scale, to);
}

void add_weights(std::span<const Block> blocks, const ExpandedSamples& source, const double* weights,
                 double scale, const WeightSums& to) {
    add_blocks(blocks, source, weights, scale, to);
}

}  // namespace petamap::mapmaking

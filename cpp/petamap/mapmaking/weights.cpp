#include "petamap/mapmaking/weights.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "petacomm/base/threads.h"
#include "petamap/mapmaking/block_passes.h"
#include "petamap/mapmaking/project.h"
#include "petamap/mapmaking/term_rows.h"

namespace petamap::mapmaking {
namespace {

// The terms of a chunk of samples as `weights_row` has them.
template <int kStokes>
void make_terms(const Samples& samples, std::int64_t begin, std::int64_t n, double weight, double scale,
                TermRows<weights_row(kStokes)>& terms) {
    for_gains(samples.gains, [&](auto gains) __attribute__((always_inline)) {
        petacomm::for_lanes(n, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
            constexpr int kLanes = lanes();
            petacomm::Reals<kLanes> each[kStokes];
            respond<kStokes, kLanes>(samples, begin + i, each);
            const auto gain = gains.template of<kLanes>(begin + i);
            for (int k = 0; k < kStokes; ++k) each[k] = gain * each[k];
            petacomm::Wholes<kLanes> made[weights_row(kStokes)];
            int term = 0;
            made[term++] = petacomm::Wholes<kLanes>{} + 1;
            for (int j = 0; j < kStokes; ++j)
                for (int k = j; k < kStokes; ++k)
                    made[term++] = petacomm::to_fixed<kLanes>(weight * each[j] * each[k] * scale);
            terms.template keep<kLanes>(i, made);
        });
    });
}

template <int kStokes>
void add_weights_of(const Samples& samples, std::int64_t n, double weight, double scale, std::int64_t* sums) {
    constexpr int kRow = weights_row(kStokes);
    const Ahead<std::int64_t, kRow> ahead(samples.pixels, n, sums);
    TermRows<kRow> terms;
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + done;
        make_terms<kStokes>(samples, done, count, weight, scale, terms);
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            if (pixels[i] >= 0) terms.add(i, sums + pixels[i] * std::int64_t{kRow});
        }
    }
}

void add_hits(const Samples& samples, std::int64_t n, std::int64_t* sums) {
    const Ahead<std::int64_t, 1> ahead(samples.pixels, n, sums);
    for (std::int64_t i = 0; i < n; ++i) {
        ahead.of(i);
        if (samples.pixels[i] >= 0) ++sums[samples.pixels[i]];
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
    if (n_stokes == 0) return add_hits(samples, n, sums);
    const auto add = n_stokes == 1   ? add_weights_of<1>
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

// P and its transpose for a block's samples, with the templates of its stream.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "petacomm/base/threads.h"
#include "petamap/mapmaking/normal.h"
#include "petamap/mapmaking/project.h"
#include "petamap/mapmaking/project_columns.h"
#include "petamap/mapmaking/project_pair.h"
#include "petamap/mapmaking/templates.h"

namespace petamap::mapmaking {

// Blocks of two detectors over the same times.
using BlockPair = std::array<const Block*, 2>;

template <int kStokes, int kWidth>
class BlockProjection {
  public:
    // Of one thread. locks: one for each copy of the sums.
    BlockProjection(const Maps& maps, int thread, std::vector<petacomm::BriefLock>& locks)
        : maps_(maps),
          sums_(maps.sums + thread % maps.n_copies * maps.n_local * kStokes * kWidth),
          gap_sums_(maps.gap_sums + (maps.own_gap_sums ? thread % maps.n_copies * maps.n_gaps * kWidth : 0)),
          lock_(locks[static_cast<std::size_t>(thread % maps.n_copies)]) {}

    // to = P (map, gaps) for inputs [begin, begin + n).
    void fill(const Block& block, const Samples& samples, std::int64_t begin, std::int64_t n,
              const Streams<double>& to) const {
        if constexpr (kWidth == 1)
            gather<kStokes>(samples, begin, n, maps_.map, maps_.gaps, to.first);
        else
            gather<kStokes, kWidth>(samples, begin, n, maps_.map, maps_.gaps, to);
        add_templates(block, samples, begin, n, to);
    }

    // sums += P^T time for outputs [begin, begin + n).
    void use(const Block& block, const Samples& samples, std::int64_t begin, std::int64_t n,
             const Streams<double>& time) const {
        const std::int64_t first = block.n_left + begin;
        const std::lock_guard alone(lock_);
        if constexpr (kWidth == 1)
            scatter<kStokes>(samples, first, n, time.first, maps_.scales[0], sums_, gap_sums_);
        else
            scatter<kStokes, kWidth>(samples, first, n, {time.first, time.stride}, maps_.scales, sums_,
                                     gap_sums_);
        sum_templates(block, samples, first, n, time);
    }

    // Those of two detectors, each in a column of `to` and of `time`.
    void fill(const BlockPair& blocks, const SamplePair& pair, std::int64_t begin, std::int64_t n,
              const Streams<double>& to) const
        requires(kWidth == 1)
    {
        gather<kStokes>(pair, begin, n, maps_.map, maps_.gaps, to);
        for (int member = 0; member < 2; ++member)
            add_templates(*blocks[member], pair.members[member], begin, n, {to.of(member), to.stride});
    }

    void use(const BlockPair& blocks, const SamplePair& pair, std::int64_t begin, std::int64_t n,
             const Streams<double>& time) const
        requires(kWidth == 1)
    {
        const std::int64_t first = blocks[0]->n_left + begin;
        const std::lock_guard alone(lock_);
        scatter<kStokes>(pair, first, n, time, maps_.scales[0], sums_, gap_sums_);
        for (int member = 0; member < 2; ++member)
            sum_templates(*blocks[member], pair.members[member], first, n, {time.of(member), time.stride});
    }

    bool used(int column) const { return maps_.scales[column] != 0; }

  private:
    void add_templates(const Block& block, const Samples& samples, std::int64_t begin, std::int64_t n,
                       const Streams<double>& to) const {
        if (!maps_.templates) return;
        AddTemplates add{maps_.gaps, to.first, to.stride, begin, kWidth};
        TemplateRuns(*maps_.templates, block, samples, add).of(begin, n);
    }

    void sum_templates(const Block& block, const Samples& samples, std::int64_t begin, std::int64_t n,
                       const Streams<double>& time) const {
        if (!maps_.templates) return;
        const auto add = [&](std::int64_t row, int column, double value) {
            const double scale = maps_.scales[column] * maps_.templates->sum_scale;
            gap_sums_[row * kWidth + column] += to_wide(value * scale);
        };
        SumTemplates sum{time.first, time.stride, begin, kWidth, add};
        TemplateRuns(*maps_.templates, block, samples, sum).of(begin, n);
    }

    const Maps& maps_;
    std::int64_t *sums_, *gap_sums_;
    petacomm::BriefLock& lock_;
};

}  // namespace petamap::mapmaking

#include "petamap/mapmaking/normal.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include "petacomm/base/threads.h"
#include "petamap/mapmaking/block_passes.h"
#include "petamap/mapmaking/filter.h"
#include "petamap/mapmaking/joint_blocks.h"
#include "petamap/mapmaking/project_block.h"
#include "petamap/mapmaking/project_pair.h"

namespace petamap::mapmaking {
namespace {

// Whether values and sums of all pixels stay in a core's share of the caches.
bool in_cache(const Maps& maps) { return stay_in_cache(maps.n_local * maps.n_stokes * maps.width * 2); }

// Whether detectors that look at the same places are visited together.
bool in_pairs(const Maps& maps) { return maps.width == 1 && !maps.joint && maps.n_local >= kSpareRows; }

// The blocks that are in no group; of two that are visited together, the first.
template <class SampleSource>
std::vector<std::int64_t> visited_blocks(std::span<const Block> blocks, const SampleSource& source,
                                         const Maps& maps) {
    if (maps.joint) return {maps.joint->alone.begin(), maps.joint->alone.end()};
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const auto number = static_cast<std::int64_t>(i);
        const std::int64_t partner = in_pairs(maps) ? source.partner(i).block : -1;
        if (partner < 0 || number < partner) numbers.push_back(number);
    }
    return numbers;
}

// N^-1 between P and its transpose for blocks one by one, and for those of two detectors. Of one thread.
template <int kStokes, int kWidth>
class BlockFilter {
  public:
    BlockFilter(const InverseNoise& noise, const Maps& maps, std::vector<petacomm::BriefLock>& locks)
        : noise_(noise), projection_(maps, petacomm::thread_number(), locks), alone_(noise, kWidth) {}

    void apply(const Block& block, const Samples& samples) {
        apply(block, samples, {&block.kernel, 1}, alone_, kWidth);
    }

    void apply(const BlockPair& blocks, const SamplePair& samples) {
        const std::int64_t kernels[] = {blocks[0]->kernel, blocks[1]->kernel};
        if (!together_) together_.emplace(noise_, 2, true, 2);
        together_->meet_streams(blocks[1]->first - blocks[0]->first);
        apply(blocks, samples, kernels, *together_, 2);
    }

  private:
    template <class Blocks, class AnySamples>
    void apply(const Blocks& blocks, const AnySamples& samples, KernelNumbers kernels, Workspace& work,
               int width) {
        const auto fill = [&](std::int64_t begin, std::int64_t n_in, const Streams<double>& to) {
            projection_.fill(blocks, samples, begin, n_in, to);
        };
        const auto use = [&](std::int64_t begin, std::int64_t n_out, const Streams<double>& time) {
            projection_.use(blocks, samples, begin, n_out, time);
        };
        const auto used = [&](int column) { return projection_.used(kWidth == 1 ? 0 : column); };
        filter(first_of(blocks), kernels, noise_, work, width, fill, used, use);
    }

    static const Block& first_of(const Block& block) { return block; }
    static const Block& first_of(const BlockPair& blocks) { return *blocks[0]; }

    const InverseNoise& noise_;
    BlockProjection<kStokes, kWidth> projection_;
    Workspace alone_;
    std::optional<Workspace> together_;
};

template <int kStokes, int kWidth, class SampleSource>
void apply_blocks(std::span<const Block> blocks, const SampleSource& source, const InverseNoise& noise,
                  const Maps& maps) {
    const BlockOrder order =
        source.order(blocks, visited_blocks(blocks, source, maps), maps.n_threads, in_cache(maps));
    std::vector<petacomm::BriefLock> locks(static_cast<std::size_t>(maps.n_copies));
    in_turns(maps.n_threads, [&](const auto& next_turn) {
        BlockFilter<kStokes, kWidth> filter(noise, maps, locks);
        typename SampleSource::Scratch scratches[2];
        visit_numbers(next_turn, order, blocks, source, [&](std::size_t i, auto& shared) {
            const Samples samples = source.of(blocks[i], i, shared, scratches[0]);
            if constexpr (kWidth == 1) {
                const Partner partner = in_pairs(maps) ? source.partner(i) : Partner{};
                if (partner.block >= 0) {
                    const auto k = static_cast<std::size_t>(partner.block);
                    const Samples others = source.of(blocks[k], k, shared, scratches[1]);
                    return filter.apply({&blocks[i], &blocks[k]}, {{samples, others}, partner.opposite});
                }
            }
            filter.apply(blocks[i], samples);
        });
    });
}

template <int kStokes, int kWidth, class SampleSource>
void apply_groups(std::span<const Block> blocks, const SampleSource& source, const InverseNoise& noise,
                  const Maps& maps) {
    const JointBlocks& joint = *maps.joint;
    const auto n_groups = static_cast<std::int64_t>(joint.groups.size());
    std::vector<petacomm::BriefLock> locks(static_cast<std::size_t>(maps.n_copies));
    in_turns(maps.n_threads, [&](const auto& next_turn) {
        GroupStreams streams(noise, kWidth);
        typename SampleSource::Shared shared;
        std::vector<typename SampleSource::Scratch> scratches;
        std::vector<Samples> samples;
        const BlockProjection<kStokes, kWidth> projection(maps, petacomm::thread_number(), locks);
        const auto used = [&](int column) { return projection.used(column); };
        for (std::int64_t number = next_turn(); number < n_groups; number = next_turn()) {
            const JointBlocks::Group& group = joint.groups[static_cast<std::size_t>(number)];
            const auto n = static_cast<std::size_t>(group.n_members);
            const std::int64_t* members = joint.members.data() + group.first_member;
            const auto coupling = [&](const double* first, std::size_t k) {
                return first + group.first_coupling + static_cast<std::int64_t>(k) * group.n_modes;
            };
            scratches.resize(std::max(n, scratches.size()));
            samples.resize(n);
            streams.begin(blocks[static_cast<std::size_t>(members[0])], group.n_members, group.n_modes);
            source.begin_run(blocks[static_cast<std::size_t>(members[0])], shared);
            for (std::size_t k = 0; k < n; ++k) {
                const auto i = static_cast<std::size_t>(members[k]);
                samples[k] = source.of(blocks[i], i, shared, scratches[k]);
                projection.fill(blocks[i], samples[k], 0, blocks[i].n_in, streams.member(k));
                streams.add_to_modes(k, coupling(joint.forward, k), group.n_modes);
            }
            streams.filter_modes(group.n_modes, group.first_kernel, used);
            for (std::size_t k = 0; k < n; ++k)
                streams.filter_member(blocks[static_cast<std::size_t>(members[k])], k,
                                      coupling(joint.backward, k), group.n_modes, used);
            for (std::size_t k = 0; k < n; ++k) {
                const Block& block = blocks[static_cast<std::size_t>(members[k])];
                projection.use(block, samples[k], 0, block.n_out,
                               streams.finish_member(k, coupling(joint.forward, k), group.n_modes));
            }
        }
    });
}

template <class SampleSource>
void apply_any(std::span<const Block> blocks, const SampleSource& source, const InverseNoise& noise,
               const Maps& maps) {
    petacomm::for_width(maps.width, [&](auto width) {
        const auto apply = [&](auto stokes) {
            apply_blocks<stokes(), width()>(blocks, source, noise, maps);
            if (maps.joint) apply_groups<stokes(), width()>(blocks, source, noise, maps);
        };
        if (maps.n_stokes == 1) return apply(std::integral_constant<int, 1>{});
        if (maps.n_stokes == 2) return apply(std::integral_constant<int, 2>{});
        apply(std::integral_constant<int, 3>{});
    });
}

}  // namespace

void apply_normal(std::span<const Block> blocks, const KeptSamples& source, const InverseNoise& noise,
                  const Maps& maps) {
    apply_any(blocks, source, noise, maps);
}

void apply_normal(std::span<const Block> blocks, const ExpandedSamples& source, const InverseNoise& noise,
                  const Maps& maps) {
    apply_any(blocks, source, noise, maps);
}

void filter_block(const Block& block, const InverseNoise& noise, const double* input, int n_columns,
                  double* time) {
    Workspace work(noise, n_columns);
    const auto fill = [&](std::int64_t begin, std::int64_t n, const Streams<double>& to) {
        for (int column = 0; column < n_columns; ++column)
            std::copy_n(input + column * block.n_in + begin, n, to.of(column));
    };
    const auto use = [&](std::int64_t begin, std::int64_t n, const Streams<double>& from) {
        for (int column = 0; column < n_columns; ++column)
            std::copy_n(from.of(column), n, time + column * block.n_out + begin);
    };
    filter(block, noise, work, n_columns, fill, [](int) { return true; }, use);
}

}  // namespace petamap::mapmaking

#include "petamap/mapmaking/normal.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "petacomm/base/threads.h"
#include "petamap/mapmaking/block_passes.h"
#include "petamap/mapmaking/filter.h"
#include "petamap/mapmaking/joint_blocks.h"
#include "petamap/mapmaking/project_block.h"

namespace petamap::mapmaking {
namespace {

// Whether values and sums of all pixels stay in a core's share of the caches.
bool in_cache(const Maps& maps) { return stay_in_cache(maps.n_local * maps.n_stokes * maps.width * 2); }

template <int kStokes, int kWidth, class SampleSource>
void apply_blocks(std::span<const Block> blocks, const SampleSource& source, const InverseNoise& noise,
                  const Maps& maps) {
    std::vector<std::int64_t> numbers;
    if (maps.joint) numbers.assign(maps.joint->alone.begin(), maps.joint->alone.end());
    for (std::size_t i = 0; !maps.joint && i < blocks.size(); ++i)
        numbers.push_back(static_cast<std::int64_t>(i));
    const BlockOrder order = source.order(blocks, std::move(numbers), maps.n_threads, in_cache(maps));
    in_turns(maps.n_threads, [&](const auto& next_turn) {
        Workspace work(noise, kWidth);
        const BlockProjection<kStokes, kWidth> projection(maps, petacomm::thread_number());
        const auto used = [&](int column) { return projection.used(column); };
        visit_runs(next_turn, order, blocks, source, [&](const Block& block, const Samples& samples) {
            const auto fill = [&](std::int64_t begin, std::int64_t n_in, const Streams<double>& to) {
                projection.fill(block, samples, begin, n_in, to);
            };
            const auto use = [&](std::int64_t begin, std::int64_t n_out, const Streams<double>& time) {
                projection.use(block, samples, begin, n_out, time);
            };
            filter(block, noise, work, kWidth, fill, used, use);
        });
    });
}

template <int kStokes, int kWidth, class SampleSource>
void apply_groups(std::span<const Block> blocks, const SampleSource& source, const InverseNoise& noise,
                  const Maps& maps) {
    const JointBlocks& joint = *maps.joint;
    const auto n_groups = static_cast<std::int64_t>(joint.groups.size());
    in_turns(maps.n_threads, [&](const auto& next_turn) {
        GroupStreams streams(noise, kWidth);
        typename SampleSource::Shared shared;
        std::vector<typename SampleSource::Scratch> scratches;
        std::vector<Samples> samples;
        const BlockProjection<kStokes, kWidth> projection(maps, petacomm::thread_number());
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

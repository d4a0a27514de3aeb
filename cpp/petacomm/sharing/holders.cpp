#include "petacomm/sharing/holders.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "petacomm/base/mix.h"

namespace petacomm {

namespace {

// Within groups of 2^kGroupBits keys holders take their turns in order; the groups of a block of 2^kBlockBits
// keys are turned against each other by the golden ratio, and blocks by a hash, which no regular pattern of
// keys follows.
constexpr int kGroupBits = 8;
constexpr int kBlockBits = 16;

// The place of a key on the circle on which its holders have their arcs, in units of 2^-32.
std::uint64_t turn(std::int64_t key) {
    const auto within = static_cast<std::uint64_t>(key) << (64 - kGroupBits);
    const auto group = static_cast<std::uint64_t>(key >> kGroupBits);
    const auto block = static_cast<std::uint64_t>((key >> kBlockBits) + 1);
    return (mix(block) + group * golden_gamma + within) >> 32;
}

std::int64_t place_of(const std::int64_t* sorted, std::int64_t n, std::int64_t query, std::int64_t& hint) {
    // Gallop from where the last query ended.
    std::int64_t low = hint, step = 1;
    if (low >= n || sorted[low] > query) low = 0, step = n;
    std::int64_t high = low;
    while (high < n && sorted[high] < query) low = high + 1, high = std::min(n, high + step), step *= 2;
    hint = std::lower_bound(sorted + low, sorted + std::min(n, high + 1), query) - sorted;
    return hint < n && sorted[hint] == query ? hint : -1;
}

}  // namespace

bool counting_order(const std::int32_t* labels, std::int64_t n, std::int64_t n_labels, std::int32_t* order,
                    std::int64_t* offsets) {
    std::fill(offsets, offsets + n_labels + 1, 0);
    for (std::int64_t i = 0; i < n; ++i) {
        if (labels[i] < 0 || labels[i] >= n_labels) return false;
        ++offsets[labels[i] + 1];
    }
    for (std::int64_t l = 0; l < n_labels; ++l) offsets[l + 1] += offsets[l];
    std::vector<std::int64_t> next(offsets, offsets + n_labels);
    for (std::int64_t i = 0; i < n; ++i) order[next[labels[i]]++] = static_cast<std::int32_t>(i);
    return true;
}

void expand_groups(const std::int32_t* groups, std::int64_t n, const std::int64_t* offsets,
                   std::int32_t* positions) {
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = offsets[groups[i]]; j < offsets[groups[i] + 1]; ++j)
            *positions++ = static_cast<std::int32_t>(j);
}

void find_sorted(const std::int64_t* sorted, std::int64_t n_sorted, const std::int64_t* queries,
                 std::int64_t n, std::int32_t* places, int n_threads) {
#pragma omp parallel num_threads(n_threads)
    {
        std::int64_t hint = 0;
#pragma omp for schedule(static)
        for (std::int64_t i = 0; i < n; ++i)
            places[i] = static_cast<std::int32_t>(place_of(sorted, n_sorted, queries[i], hint));
    }
}

void mark_holders(const std::int32_t* places, const std::int64_t* offsets, std::int64_t n_senders,
                  std::int64_t n_words, std::uint64_t* masks) {
    for (std::int64_t s = 0; s < n_senders; ++s)
        for (std::int64_t j = offsets[s]; j < offsets[s + 1]; ++j)
            masks[places[j] * n_words + s / 64] |= std::uint64_t{1} << (s % 64);
}

void count_holders(const std::int32_t* places, const std::uint64_t* masks, std::int64_t n,
                   std::int64_t n_words, std::int64_t n_keys, std::int64_t* offsets) {
    std::fill(offsets, offsets + n_keys + 1, 0);
    for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t w = 0; w < n_words; ++w)
            offsets[places[j] + 1] += std::popcount(masks[j * n_words + w]);
    for (std::int64_t i = 0; i < n_keys; ++i) offsets[i + 1] += offsets[i];
}

bool list_holders(const std::int32_t* places, const std::uint64_t* masks, std::int64_t n_words,
                  const std::int64_t* entry_offsets, const std::int32_t* senders, std::int64_t n_senders,
                  const std::int32_t* firsts, const std::int32_t* members, std::int64_t n_members,
                  const std::int64_t* offsets, std::int64_t n_keys, std::int32_t* holders) {
    std::vector<std::int64_t> next(offsets, offsets + n_keys);
    for (const std::int32_t* sender = senders; sender != senders + n_senders; ++sender)
        for (std::int64_t j = entry_offsets[*sender]; j < entry_offsets[*sender + 1]; ++j)
            for (std::int64_t w = 0; w < n_words; ++w)
                for (std::uint64_t left = masks[j * n_words + w]; left != 0; left &= left - 1) {
                    const std::int64_t member = firsts[*sender] + 64 * w + std::countr_zero(left);
                    if (member >= n_members || next[places[j]] == offsets[places[j] + 1]) return false;
                    holders[next[places[j]]++] = members[member];
                }
    return true;
}

bool choose_owners(const std::int64_t* keys, const std::int64_t* offsets, const std::int32_t* holders,
                   std::int64_t n_holders, std::int64_t n, const std::int32_t* weights, std::int64_t n_ranks,
                   std::int32_t* owners) {
    if (offsets[0] < 0) return false;
    for (std::int64_t i = 0; i < n; ++i) {
        if (offsets[i + 1] <= offsets[i] || offsets[i + 1] > n_holders) return false;
        std::uint64_t total = 0;
        for (std::int64_t j = offsets[i]; j < offsets[i + 1]; ++j) {
            if (holders[j] < 0 || holders[j] >= n_ranks) return false;
            total += weights[holders[j]];
        }
        // turn * total / 2^32, in two parts that 64 bits hold
        const std::uint64_t high = total >> 32, low = total & 0xffffffff;
        auto left = static_cast<std::int64_t>(turn(keys[i]) * high + (turn(keys[i]) * low >> 32));
        const std::int32_t* holder = holders + offsets[i];
        for (; left >= weights[*holder]; ++holder) left -= weights[*holder];
        owners[i] = *holder;
    }
    return true;
}

void tally_owners(const std::int64_t* offsets, const std::int32_t* holders, const std::int32_t* owners,
                  std::int64_t n, Tally* tallies) {
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t m = offsets[i + 1] - offsets[i];
        for (std::int64_t j = offsets[i]; j < offsets[i + 1]; ++j) {
            Tally& tally = tallies[holders[j]];
            ++tally.held;
            tally.shared += m > 1;
        }
        ++tallies[owners[i]].owned;
        tallies[owners[i]].extra += m > 1 ? m - 2 : 0;
    }
}

}  // namespace petacomm

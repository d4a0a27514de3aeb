// Who owns a key, and linear sorts of small numbers: the local work of finding out who shares what.
#pragma once

#include <cstdint>

namespace petacomm {

// A stable sort by counting: order[offsets[l]:offsets[l + 1]] are the indices of the labels l, increasing.
// n < 2^31. Returns false where a label is not below n_labels.
bool counting_order(const std::int32_t* labels, std::int64_t n, std::int64_t n_labels, std::int32_t* order,
                    std::int64_t* offsets);

// The ranges [offsets[g], offsets[g + 1]) of the groups g, one after another.
void expand_groups(const std::int32_t* groups, std::int64_t n, const std::int64_t* offsets,
                   std::int32_t* positions);

// The place of each query among sorted numbers, -1 where it is absent. Quick where queries increase in runs.
void find_sorted(const std::int64_t* sorted, std::int64_t n_sorted, const std::int64_t* queries,
                 std::int64_t n, std::int32_t* places, int n_threads);

// Holders of keys within a node, a bit a rank in n_words words a key: senders' keys, sender after sender, are
// at `places`; sender s, whose keys end before offsets[s + 1], sets bit s. masks begin as zeros.
void mark_holders(const std::int32_t* places, const std::int64_t* offsets, std::int64_t n_senders,
                  std::int64_t n_words, std::uint64_t* masks);

// offsets[i] holders stand before key i: entry j, of n, says with n_words masks who holds key places[j].
void count_holders(const std::int32_t* places, const std::uint64_t* masks, std::int64_t n,
                   std::int64_t n_words, std::int64_t n_keys, std::int64_t* offsets);

// holders[offsets[i]:offsets[i + 1]] are the ranks that hold key i, senders in the order given: bit b of an
// entry of sender s stands for members[firsts[s] + b], of n_members. Returns false where a bit stands for no
// member, or a key has more holders than there is room for.
bool list_holders(const std::int32_t* places, const std::uint64_t* masks, std::int64_t n_words,
                  const std::int64_t* entry_offsets, const std::int32_t* senders, std::int64_t n_senders,
                  const std::int32_t* firsts, const std::int32_t* members, std::int64_t n_members,
                  const std::int64_t* offsets, std::int64_t n_keys, std::int32_t* holders);

// owners[i] is one of the holders[offsets[i]:offsets[i + 1]] of key i, each of them chosen in proportion to
// its rank's weight. Neighbours in the list own neighbouring keys: of 256 keys with the same m holders, each
// of them owns a run of 256 / m. Such groups begin at other holders by a sequence of low discrepancy, so that
// a rank's share comes out almost exactly where neighbouring keys have similar holders. Weights are positive,
// and those of a key's holders add up to less than 2^32. Returns false where a key has no holder, or one
// beyond the n_holders of all keys or the n_ranks.
bool choose_owners(const std::int64_t* keys, const std::int64_t* offsets, const std::int32_t* holders,
                   std::int64_t n_holders, std::int64_t n, const std::int32_t* weights, std::int64_t n_ranks,
                   std::int32_t* owners);

// What the choice means for each rank.
struct Tally {
    std::int64_t held;    // keys
    std::int64_t owned;   // keys
    std::int64_t shared;  // keys that others hold too
    std::int64_t
        extra;  // sum over owned keys on m > 1 ranks of m - 2: an all-reduce sends shared + extra rows
};
static_assert(sizeof(Tally) == 4 * sizeof(std::int64_t));

// Add n keys to the tallies of all ranks.
void tally_owners(const std::int64_t* offsets, const std::int32_t* holders, const std::int32_t* owners,
                  std::int64_t n, Tally* tallies);

}  // namespace petacomm

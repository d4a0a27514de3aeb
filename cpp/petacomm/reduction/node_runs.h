// The keys that the ranks of a node hold, described by intervals and runs: scans make long ones.
#pragma once

#include <cstdint>
#include <utility>

namespace petacomm {

// Consecutive keys of one list and one group.
struct Interval {
    std::int64_t key, length;
    std::int64_t row;     // of the first key, among all rows of the node
    std::int64_t before;  // keys of the list in the intervals before this one
    std::int64_t group;
};

// Lists of intervals, one a holder, each sorted by key; list l is [offsets[l], offsets[l + 1]).
struct IntervalLists {
    const Interval* intervals;
    const std::int64_t* offsets;
    std::int64_t n_lists;
};

// Consecutive keys that the same lists hold, in the same intervals.
struct Run {
    std::int64_t key, length;
    std::int64_t n_entries;  // lists that hold it
    std::int64_t group;      // the one that the first of them gives
};

// Cut sorted, distinct keys into intervals, numbering rows from `first_row`. Keys of a negative group are
// left out; without groups (null) all are of group 0. Returns how many there are; no more are written than
// `out` has room for.
std::int64_t cut_intervals(const std::int64_t* keys, const std::int32_t* groups, std::int64_t n,
                           std::int64_t first_row, Interval* out, std::int64_t room);

// The smallest key such that the lists hold at least `target` keys below it, each list counted by itself.
std::int64_t split_key(const IntervalLists& lists, std::int64_t target);

// Where the runs and the entries of `merge_runs` go, with room for so many.
struct RunOutputs {
    Run* runs;
    std::int64_t run_room;
    std::uint32_t* entries;
    std::int64_t entry_room;
};

// Merge the keys of all lists in [low, high) into runs, in the order of keys. For each run, entries are the
// rows of its first key in the lists that hold it, in their order. Returns how many runs and entries there
// are; no more are written than there is room for. Returns -1 of both where the intervals of a list that lie
// there do not increase.
std::pair<std::int64_t, std::int64_t> merge_runs(const IntervalLists& lists, std::int64_t low,
                                                 std::int64_t high, const RunOutputs& out);

}  // namespace petacomm

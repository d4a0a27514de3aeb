// Reductions of rows that lie in memory which the ranks of a node share.
#pragma once

#include <cstdint>

#include "petamap/comm/indexed.h"

namespace petamap::comm {

// Which entries of a run are read and which are written: all, or only the root.
enum class Flow { everywhere, onto_root, from_root };

// Runs of keys that the same ranks hold. Run i has lengths[i] keys and counts[i] entries: the row of its
// first key in each holder. An entry of n_rows or more is a slot, the row of a message: entry - n_rows.
// roots[i] is the entry that the root's row is.
struct RowRuns {
    const std::uint16_t *lengths, *counts, *roots;
    const std::uint32_t* entries;
    const std::int64_t* first_entries;  // of every runs_per_block-th run
    std::int64_t n_runs;
};

inline constexpr std::int64_t runs_per_block = 1024;

// Reduce each key over the entries that are read, in their order, and write the result to those that are
// written; an entry that is the only one read is not written to itself. Slots are read from `in_slots` and
// written to `out_slots`; where that is null, they are left out.
template <typename T>
void reduce_runs(const RowRuns& runs, T* rows, std::int64_t n_rows, const T* in_slots, T* out_slots,
                 std::int64_t k, Operation operation, Flow flow, int n_threads);

// Merge neighbouring runs of equal counts and roots whose entries continue each other, in place. Lengths stay
// below 2^16. Returns how many runs are left; entries are compacted as well.
std::int64_t join_runs(std::uint16_t* lengths, std::uint16_t* counts, std::uint16_t* roots,
                       std::uint32_t* entries, std::int64_t n_runs);

// to[i, :] = from[i, :] where multiplicity[i] > 1, for rows of `row_bytes`.
void copy_shared(const std::uint8_t* from, const std::int32_t* multiplicity, std::int64_t n,
                 std::int64_t row_bytes, std::uint8_t* to, int n_threads);

}  // namespace petamap::comm

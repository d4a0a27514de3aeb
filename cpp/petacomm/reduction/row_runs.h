// Reductions of rows that lie in memory which the ranks of a node share.
#pragma once

#include <cstdint>

#include "petacomm/redistribution/operations.h"

namespace petacomm {

// From which entries of a run to which values go. Entries are rows of ranks, or slots. In node order, rows
// are reduced among themselves before they meet the slots, in the order of the entries.
enum class Flow { everywhere, onto_owners, from_owners, onto_slots, from_slots, in_node_order };

constexpr bool knows_owners(Flow flow) { return flow == Flow::onto_owners || flow == Flow::from_owners; }

// Runs of keys that the same ranks hold. Run i has lengths[i] keys and counts[i] entries: the row of its
// first key in each holder. An entry of `Memory::n_rows` or more is a slot, the row of a message: entry -
// n_rows.
struct RowRuns {
    const std::uint16_t *lengths, *counts;
    const std::uint32_t* entries;
    const std::int64_t* first_entries;  // of every runs_per_block-th run
    std::int64_t n_runs;
};

inline constexpr std::int64_t runs_per_block = 1024;

// Where the values are: rows of k of them.
template <typename T>
struct Memory {
    T* rows;
    std::int64_t n_rows;
    const std::uint8_t* owned;  // whether a row is its key's owner's; read where the flow knows owners
    const T* in_slots;          // null: slots are not read
    T* out_slots;               // null: slots are not written
    std::int64_t k;
};

// Reduce each key over the entries that the flow reads, in their order, and write the result to all entries
// that it writes.
template <typename T>
void reduce_runs(const RowRuns& runs, const Memory<T>& memory, Operation operation, Flow flow, int n_threads);

// Merge neighbouring runs of equal counts whose entries continue each other, in place. Lengths stay below
// 2^16. Returns how many runs are left; entries are compacted as well.
std::int64_t join_runs(std::uint16_t* lengths, std::uint16_t* counts, std::uint32_t* entries,
                       std::int64_t n_runs);

}  // namespace petacomm

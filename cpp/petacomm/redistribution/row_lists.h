// Lists of rows of a vector, as runs: what is moved between a vector and messages, and added up from them.
#pragma once

#include <cstdint>

#include "petacomm/redistribution/operations.h"

namespace petacomm {

// Run i is the rows starts[i] to starts[i] + lengths[i]; list l is the runs [bounds[l], bounds[l + 1]).
struct RowLists {
    const std::int32_t* starts;
    const std::uint8_t* lengths;
    std::int64_t n_runs;
};

// Cut the positions [offsets[l], offsets[l + 1]) of each list into runs of neighbours. Returns how many there
// are; starts and lengths have room for `room` of them, and no more are written.
std::int64_t cut_lists(const std::int32_t* positions, const std::int64_t* offsets, std::int64_t n_lists,
                       std::int32_t* starts, std::uint8_t* lengths, std::int64_t room, std::int64_t* bounds);

// to[to_rows[i], :] = from[from_rows[i], :] for n rows of k values; null rows are 0, 1, 2 and so on.
template <typename T>
void move_rows(const T* from, const RowLists* from_rows, T* to, const RowLists* to_rows, std::int64_t n,
               std::int64_t k, int n_threads);

// Reduce rows received into values[lists[i], :], i-th for i-th: first the lists before `own_list`, then the
// row's own value, then the other lists, each value in its turn. Rows of a list increase. Where `own` is not
// null and 0 the row has no value of its own, and begins with the first that comes.
// Lists in rank order give every holder of a key the same bits, in floating point too.
template <typename T>
void combine_lists(const T* received, const RowLists& lists, const std::int64_t* bounds, std::int64_t n_lists,
                   std::int64_t own_list, const std::uint8_t* own, std::int64_t n_rows, std::int64_t k,
                   Operation operation, T* values, int n_threads);

}  // namespace petacomm

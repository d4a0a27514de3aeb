#include "petacomm/reduction/row_runs.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "petacomm/redistribution/operations.h"

namespace petacomm {

namespace {

// Values reduced at once: they stay in the nearest cache.
constexpr std::int64_t chunk = 256;
// Entries are fetched this far ahead, since short runs jump about in memory.
constexpr std::int64_t ahead = 64;
// Runs of so many keys are short.
constexpr std::int64_t few_keys = 4;

// Keys [key, key + n_keys) of a run and some of their columns: values that lie together in every row.
struct Piece {
    std::int64_t key, n_keys, begin, n_columns;
    std::int64_t n_values() const { return n_keys * n_columns; }
};

template <typename T>
const T* in_row(const Memory<T>& memory, std::uint32_t entry, const Piece& piece) {
    if (entry < memory.n_rows) return memory.rows + entry * memory.k + piece.begin;
    return memory.in_slots ? memory.in_slots + (entry - memory.n_rows) * memory.k + piece.begin : nullptr;
}

template <typename T>
T* out_row(const Memory<T>& memory, std::uint32_t entry, const Piece& piece) {
    if (entry < memory.n_rows) return memory.rows + entry * memory.k + piece.begin;
    return memory.out_slots ? memory.out_slots + (entry - memory.n_rows) * memory.k + piece.begin : nullptr;
}

struct Entries {
    const std::uint32_t* first;
    std::int64_t n;
    const std::uint32_t* begin() const { return first; }
    const std::uint32_t* end() const { return first + n; }
};

template <typename T, typename Reduce>
void collect(const Memory<T>& memory, Entries entries, const Piece& piece, Reduce reduce,
             T* __restrict__ total) {
    bool empty = true;
    for (const std::uint32_t entry : entries) {
        const T* from = in_row(memory, entry, piece);
        if (!from) continue;
        if (empty)
            std::copy_n(from, piece.n_values(), total);
        else
            for (std::int64_t c = 0; c < piece.n_values(); ++c) total[c] = reduce(total[c], from[c]);
        empty = false;
    }
}

// As `collect`, but neighbouring rows are one term: what all slots' nodes make of theirs.
template <typename T, typename Reduce>
void collect_nodes(const Memory<T>& memory, Entries entries, const Piece& piece, Reduce reduce, T* total) {
    const std::uint32_t* const end = entries.end();
    const auto is_row = [&](std::uint32_t entry) { return entry < memory.n_rows; };
    const std::uint32_t* row = std::find_if(entries.begin(), end, is_row);
    const std::uint32_t* after = std::find_if_not(row, end, is_row);
    T rows[chunk];
    collect(memory, {row, after - row}, piece, reduce, rows);
    collect(memory, {entries.begin(), row - entries.begin()}, piece, reduce, total);
    const bool first = row == entries.begin();
    for (std::int64_t c = 0; c < piece.n_values(); ++c)
        total[c] = first ? rows[c] : reduce(total[c], rows[c]);
    for (; after != end; ++after) {
        const T* from = in_row(memory, *after, piece);
        for (std::int64_t c = 0; c < piece.n_values(); ++c) total[c] = reduce(total[c], from[c]);
    }
}

template <typename T>
void give(const Memory<T>& memory, Entries entries, const Piece& piece, const T* values) {
    for (const std::uint32_t entry : entries)
        if (T* to = out_row(memory, entry, piece)) std::copy_n(values, piece.n_values(), to);
}

// Call body(value of the piece, value of the row, number of values) for keys whose owner's row is among
// entries.
template <typename T, typename Body>
void at_owners(const Memory<T>& memory, Entries entries, const Piece& piece, T* values, Body body) {
    for (const std::uint32_t entry : entries) {
        if (entry >= memory.n_rows) continue;
        const std::uint8_t* owned = memory.owned + entry + piece.key;
        T* row = memory.rows + entry * memory.k + piece.begin;
        for (std::int64_t i = 0; i < piece.n_keys; ++i)
            if (owned[i]) body(values + i * piece.n_columns, row + i * piece.n_columns, piece.n_columns);
    }
}

template <typename T>
void from_slots(const Memory<T>& memory, Entries entries, const Piece& piece, T* values) {
    for (const std::uint32_t entry : entries)
        if (entry >= memory.n_rows) std::copy_n(in_row(memory, entry, piece), piece.n_values(), values);
}

template <typename T>
void onto_slots(const Memory<T>& memory, Entries entries, const Piece& piece, const T* values) {
    for (const std::uint32_t entry : entries)
        if (entry >= memory.n_rows) std::copy_n(values, piece.n_values(), out_row(memory, entry, piece));
}

template <typename T, typename Reduce>
void reduce_piece(const Memory<T>& memory, Entries entries, const Piece& piece, Reduce reduce, Flow flow) {
    T values[chunk];
    const auto take = [](T* value, const T* row, std::int64_t n) { std::copy_n(row, n, value); };
    const auto put = [](const T* value, T* row, std::int64_t n) { std::copy_n(value, n, row); };
    if (flow == Flow::from_owners)
        at_owners(memory, entries, piece, values, take);
    else if (flow == Flow::from_slots)
        from_slots(memory, entries, piece, values);
    else if (flow == Flow::in_node_order)
        collect_nodes(memory, entries, piece, reduce, values);
    else
        collect(memory, entries, piece, reduce, values);
    if (flow == Flow::onto_owners)
        at_owners(memory, entries, piece, values, put);
    else if (flow == Flow::onto_slots)
        onto_slots(memory, entries, piece, values);
    else
        give(memory, entries, piece, values);
}

template <typename T, typename Reduce>
void reduce_pair(T* a, T* b, std::int64_t n, Reduce reduce) {
#pragma omp simd
    for (std::int64_t c = 0; c < n; ++c) a[c] = b[c] = reduce(a[c], b[c]);
}

template <std::int64_t k, typename T, typename Reduce>
bool reduce_keys(T* rows, Entries entries, std::int64_t length, Reduce reduce) {
    for (std::int64_t key = 0; key < length; ++key, rows += k) {
        T total[k];
        std::copy_n(rows + entries.first[0] * k, k, total);
        for (std::int64_t j = 1; j < entries.n; ++j)
            for (std::int64_t c = 0; c < k; ++c) total[c] = reduce(total[c], rows[entries.first[j] * k + c]);
        for (const std::uint32_t entry : entries) std::copy_n(total, k, rows + entry * k);
    }
    return true;
}

// Reduce a short run key by key, its values in registers: narrow scans have hardly any others. Returns false
// where that does not apply.
template <typename T, typename Reduce>
bool reduce_short(const Memory<T>& memory, Entries entries, std::int64_t length, Reduce reduce) {
    if (length > few_keys || memory.in_slots || memory.out_slots) return false;
    switch (memory.k) {
        case 1:
            return reduce_keys<1>(memory.rows, entries, length, reduce);
        case 2:
            return reduce_keys<2>(memory.rows, entries, length, reduce);
        case 3:
            return reduce_keys<3>(memory.rows, entries, length, reduce);
        case 6:
            return reduce_keys<6>(memory.rows, entries, length, reduce);
        default:
            return false;
    }
}

template <typename T, typename Reduce>
void reduce_run(const Memory<T>& memory, Entries entries, std::int64_t length, Reduce reduce, Flow flow) {
    const std::int64_t k = memory.k, keys_at_once = std::max<std::int64_t>(1, chunk / k);
    const std::int64_t columns_at_once = std::min(k, chunk);
    if (flow == Flow::everywhere && entries.n == 2 && entries.first[1] < memory.n_rows)
        return reduce_pair(memory.rows + entries.first[0] * k, memory.rows + entries.first[1] * k, length * k,
                           reduce);
    if (flow == Flow::everywhere && reduce_short(memory, entries, length, reduce)) return;
    for (std::int64_t key = 0; key < length; key += keys_at_once)
        for (std::int64_t column = 0; column < k; column += columns_at_once) {
            const Piece piece{key, std::min(keys_at_once, length - key), key * k + column,
                              std::min(columns_at_once, k - column)};
            reduce_piece(memory, entries, piece, reduce, flow);
        }
}

template <typename T, typename Reduce>
void reduce_block(const RowRuns& runs, const Memory<T>& memory, std::int64_t block, Reduce reduce,
                  Flow flow) {
    const std::uint32_t* entries = runs.entries + runs.first_entries[block];
    const std::int64_t begin = block * runs_per_block;
    const std::int64_t end = std::min(begin + runs_per_block, runs.n_runs);
    for (std::int64_t i = begin; i < end; ++i) {
        if (i + ahead < end)
            for (std::int64_t j = ahead; j < ahead + runs.counts[i]; ++j)
                if (entries[j] < memory.n_rows) __builtin_prefetch(memory.rows + entries[j] * memory.k, 1);
        reduce_run(memory, {entries, runs.counts[i]}, runs.lengths[i], reduce, flow);
        entries += runs.counts[i];
    }
}

}  // namespace

template <typename T>
void reduce_runs(const RowRuns& runs, const Memory<T>& memory, Operation operation, Flow flow,
                 int n_threads) {
    if (memory.k == 0) return;
    const std::int64_t n_blocks = (runs.n_runs + runs_per_block - 1) / runs_per_block;
    with_operation<T>(operation, [&](auto reduce) {
#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
        for (std::int64_t block = 0; block < n_blocks; ++block)
            reduce_block(runs, memory, block, reduce, flow);
    });
}

std::int64_t join_runs(std::uint16_t* lengths, std::uint16_t* counts, std::uint32_t* entries,
                       std::int64_t n_runs) {
    constexpr std::int64_t longest = std::numeric_limits<std::uint16_t>::max();
    std::int64_t n_kept = 0;
    std::uint32_t *kept = entries, *last = entries;
    const std::uint32_t* next = entries;
    for (std::int64_t i = 0; i < n_runs; ++i) {
        const std::uint16_t length = lengths[i], count = counts[i];
        bool joins = n_kept > 0 && counts[n_kept - 1] == count && lengths[n_kept - 1] + length <= longest;
        for (std::int64_t j = 0; joins && j < count; ++j) joins = next[j] == last[j] + lengths[n_kept - 1];
        if (joins) {
            lengths[n_kept - 1] = static_cast<std::uint16_t>(lengths[n_kept - 1] + length);
        } else {
            last = kept;
            kept = std::copy_n(next, count, kept);
            lengths[n_kept] = length;
            counts[n_kept++] = count;
        }
        next += count;
    }
    return n_kept;
}

#define PETAMAP_INSTANTIATE(T) \
    template void reduce_runs<T>(const RowRuns&, const Memory<T>&, Operation, Flow, int);
PETAMAP_INSTANTIATE(std::int64_t)
PETAMAP_INSTANTIATE(double)
PETAMAP_INSTANTIATE(float)
PETAMAP_INSTANTIATE(std::uint8_t)
#undef PETAMAP_INSTANTIATE

}  // namespace petacomm

#include "petamap/comm/row_runs.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "petamap/comm/operations.h"

namespace petamap::comm {

namespace {

// Values reduced at once: they stay in the nearest cache.
constexpr std::int64_t chunk = 256;
// Entries are fetched this far ahead, since short runs jump about in memory.
constexpr std::int64_t ahead = 16;

// What one call works on. A row is wherever its entry says, or nowhere (null).
template <typename T>
struct Memory {
    T* rows;
    std::int64_t n_rows;
    const T* in_slots;
    T* out_slots;
    std::int64_t k;

    const T* read(std::uint32_t entry) const {
        if (entry < n_rows) return rows + entry * k;
        return in_slots ? in_slots + (entry - n_rows) * k : nullptr;
    }
    T* write(std::uint32_t entry) const {
        if (entry < n_rows) return rows + entry * k;
        return out_slots ? out_slots + (entry - n_rows) * k : nullptr;
    }
    void fetch(std::uint32_t entry) const {
        if (entry < n_rows) __builtin_prefetch(rows + entry * k, 1);
    }
};

struct OneRun {
    std::int64_t n_values, n_entries, root;
    const std::uint32_t* entries;
};

template <typename T, typename Reduce>
void reduce_pair(T* a, T* b, std::int64_t n, Reduce reduce) {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < n; ++c) a[c] = b[c] = reduce(a[c], b[c]);
}

// Reduce values [at, at + n) of a run over all entries that can be read into `total`.
template <typename T, typename Reduce>
void collect(const Memory<T>& memory, const OneRun& run, std::int64_t at, std::int64_t n, Reduce reduce,
             T* __restrict__ total) {
    bool empty = true;
    for (std::int64_t j = 0; j < run.n_entries; ++j) {
        const T* from = memory.read(run.entries[j]);
        if (!from) continue;
        if (empty)
            std::copy_n(from + at, n, total);
        else
            for (std::int64_t c = 0; c < n; ++c) total[c] = reduce(total[c], from[at + c]);
        empty = false;
    }
}

template <typename T>
void give(const Memory<T>& memory, std::uint32_t entry, std::int64_t at, std::int64_t n, const T* values) {
    if (T* to = memory.write(entry)) std::copy_n(values, n, to + at);
}

template <typename T, typename Reduce>
void reduce_one(const Memory<T>& memory, const OneRun& run, Reduce reduce, Flow flow) {
    T total[chunk];
    for (std::int64_t at = 0; at < run.n_values; at += chunk) {
        const std::int64_t n = std::min(chunk, run.n_values - at);
        collect(memory, run, at, n, reduce, total);
        if (flow == Flow::onto_root)
            give(memory, run.entries[run.root], at, n, total);
        else
            for (std::int64_t j = 0; j < run.n_entries; ++j) give(memory, run.entries[j], at, n, total);
    }
}

template <typename T>
void copy_one(const Memory<T>& memory, const OneRun& run) {
    const T* from = memory.read(run.entries[run.root]);
    for (std::int64_t j = 0; j < run.n_entries; ++j)
        if (j != run.root) give(memory, run.entries[j], 0, run.n_values, from);
}

template <typename T, typename Reduce>
void reduce_block(const Memory<T>& memory, const RowRuns& runs, std::int64_t block, Reduce reduce,
                  Flow flow) {
    const std::uint32_t* entries = runs.entries + runs.first_entries[block];
    const std::int64_t begin = block * runs_per_block;
    const std::int64_t end = std::min(begin + runs_per_block, runs.n_runs);
    for (std::int64_t i = begin; i < end; ++i) {
        const OneRun run{runs.lengths[i] * memory.k, runs.counts[i], runs.roots[i], entries};
        if (i + ahead < end)
            for (std::int64_t j = 0; j < run.n_entries; ++j) memory.fetch(entries[ahead + j]);
        const bool pair = flow == Flow::everywhere && run.n_entries == 2 && entries[1] < memory.n_rows;
        if (pair)
            reduce_pair(memory.write(entries[0]), memory.write(entries[1]), run.n_values, reduce);
        else if (flow == Flow::from_root)
            copy_one(memory, run);
        else
            reduce_one(memory, run, reduce, flow);
        entries += run.n_entries;
    }
}

}  // namespace

template <typename T>
void reduce_runs(const RowRuns& runs, T* rows, std::int64_t n_rows, const T* in_slots, T* out_slots,
                 std::int64_t k, Operation operation, Flow flow, int n_threads) {
    const Memory<T> memory{rows, n_rows, in_slots, out_slots, k};
    const std::int64_t n_blocks = (runs.n_runs + runs_per_block - 1) / runs_per_block;
    with_operation<T>(operation, [=, &runs](auto reduce) {
#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
        for (std::int64_t block = 0; block < n_blocks; ++block)
            reduce_block(memory, runs, block, reduce, flow);
    });
}

std::int64_t join_runs(std::uint16_t* lengths, std::uint16_t* counts, std::uint16_t* roots,
                       std::uint32_t* entries, std::int64_t n_runs) {
    constexpr std::int64_t longest = std::numeric_limits<std::uint16_t>::max();
    std::int64_t n_kept = 0;
    std::uint32_t *kept = entries, *last = entries;
    const std::uint32_t* next = entries;
    for (std::int64_t i = 0; i < n_runs; ++i) {
        const std::uint16_t length = lengths[i], count = counts[i], root = roots[i];
        bool joins = n_kept > 0 && counts[n_kept - 1] == count && roots[n_kept - 1] == root &&
                     lengths[n_kept - 1] + length <= longest;
        for (std::int64_t j = 0; joins && j < count; ++j) joins = next[j] == last[j] + lengths[n_kept - 1];
        if (joins) {
            lengths[n_kept - 1] = static_cast<std::uint16_t>(lengths[n_kept - 1] + length);
        } else {
            last = kept;
            kept = std::copy_n(next, count, kept);
            lengths[n_kept] = length;
            counts[n_kept] = count;
            roots[n_kept++] = root;
        }
        next += count;
    }
    return n_kept;
}

void copy_shared(const std::uint8_t* from, const std::int32_t* multiplicity, std::int64_t n,
                 std::int64_t row_bytes, std::uint8_t* to, int n_threads) {
    constexpr std::int64_t rows_a_task = 1 << 14;
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (std::int64_t first = 0; first < n; first += rows_a_task) {
        const std::int64_t stop = std::min(n, first + rows_a_task);
        for (std::int64_t begin = first, end; begin < stop; begin = end) {
            for (end = begin; end < stop && multiplicity[end] > 1;) ++end;
            if (end > begin)
                std::memcpy(to + begin * row_bytes, from + begin * row_bytes,
                            static_cast<std::size_t>((end - begin) * row_bytes));
            else
                ++end;
        }
    }
}

#define PETAMAP_INSTANTIATE(T)                                                                            \
    template void reduce_runs<T>(const RowRuns&, T*, std::int64_t, const T*, T*, std::int64_t, Operation, \
                                 Flow, int);
PETAMAP_INSTANTIATE(std::int64_t)
PETAMAP_INSTANTIATE(double)
PETAMAP_INSTANTIATE(float)
PETAMAP_INSTANTIATE(std::uint8_t)
#undef PETAMAP_INSTANTIATE

}  // namespace petamap::comm

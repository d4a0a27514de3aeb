// The array types of the bindings: contiguous, on the CPU, of one dtype; nothing is converted silently.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "petacomm/base/all_within.h"
#include "petacomm/base/thread_start.h"

namespace bindings {

template <typename T, int n_dim = 1>
using In = nanobind::ndarray<const T, nanobind::ndim<n_dim>, nanobind::c_contig, nanobind::device::cpu>;

template <typename T, int n_dim = 1>
using Out = nanobind::ndarray<T, nanobind::ndim<n_dim>, nanobind::c_contig, nanobind::device::cpu>;

template <typename T, int n_dim = 1>
using MaybeIn = std::optional<In<T, n_dim>>;
template <typename T, int n_dim = 1>
using MaybeOut = std::optional<Out<T, n_dim>>;

template <typename Array>
auto data_or_null(const std::optional<Array>& array) {
    return array ? array->data() : nullptr;
}

inline std::int64_t length(std::size_t n) { return static_cast<std::int64_t>(n); }

// Raise ValueError unless `holds`; the Python side checks what users hand in, this guards memory.
inline void require(bool holds, const char* what) {
    if (!holds) throw nanobind::value_error(what);
}

// What work returns that other threads of Python need not wait for.
template <typename Work>
auto without_gil(const Work& work) {
    nanobind::gil_scoped_release release;
    return work();
}

// Raise unless so many threads can be started: the run-time system of OpenMP ends the process where one
// cannot. They are started here first, once for the most that were asked for.
inline void require_threads(int n_threads) {
    static std::atomic<int> most{1};
    require(n_threads >= 1 && n_threads <= 4096, "n_threads: 1 to 4096");
    if (n_threads <= most) return;
    const int started = petacomm::startable_threads(n_threads);
    if (started < n_threads)
        throw std::runtime_error("can't start new thread: " + std::to_string(started) + " of " +
                                 std::to_string(n_threads) + " run");
    most = n_threads;
}

using petacomm::all_within;

template <typename Array>
bool all_within(const Array& numbers, std::int64_t low, std::int64_t end) {
    return all_within(numbers.data(), numbers.size(), low, end);
}

// Whether these are the offsets of lists, the last one the end: from 0 or more, none below the one before,
// and at most `end`.
inline bool are_offsets(const std::int64_t* offsets, std::size_t n, std::int64_t end) {
    if (n == 0 || offsets[0] < 0 || offsets[n - 1] > end) return false;
    // The sign of a negative number or step stays, and a compiler makes vectors of the loop.
    std::uint64_t signs = 0;
    for (std::size_t i = 1; i < n; ++i) {
        const auto last = static_cast<std::uint64_t>(offsets[i - 1]),
                   next = static_cast<std::uint64_t>(offsets[i]);
        signs |= next | (next - last);
    }
    return signs >> 63 == 0;
}

inline bool are_offsets(const In<std::int64_t>& offsets, std::int64_t end) {
    return are_offsets(offsets.data(), offsets.shape(0), end);
}

}  // namespace bindings

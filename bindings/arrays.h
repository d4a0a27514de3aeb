// The array types of the bindings: contiguous, on the CPU, of one dtype; nothing is converted silently.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

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

// Calls work(array) for an argument that is an array or may be one; others are passed over.
template <typename Argument, typename Work>
void visit_array(const Argument&, const Work&) {}
template <typename... Traits, typename Work>
void visit_array(const nanobind::ndarray<Traits...>& array, const Work& work) {
    work(array);
}
template <typename... Traits, typename Work>
void visit_array(const std::optional<nanobind::ndarray<Traits...>>& array, const Work& work) {
    if (array) work(*array);
}

// Raise unless arrays that are written to lie apart from those of whole numbers that are read: indices are
// checked before anything is written.
template <typename... Arguments>
void require_apart(const Arguments&... arguments) {
    struct Extent {
        const char *begin, *end;
    };
    std::array<Extent, sizeof...(Arguments)> read, written;
    std::size_t n_read = 0, n_written = 0;
    const auto note = [&](const auto& array) {
        using Scalar = typename std::remove_cvref_t<decltype(array)>::Scalar;
        const auto* begin = reinterpret_cast<const char*>(array.data());
        const Extent extent{begin, begin + array.nbytes()};
        if constexpr (!std::is_const_v<Scalar>)
            written[n_written++] = extent;
        else if constexpr (std::is_integral_v<std::remove_const_t<Scalar>>)
            read[n_read++] = extent;
    };
    (visit_array(arguments, note), ...);
    for (std::size_t i = 0; i < n_written; ++i)
        for (std::size_t j = 0; j < n_read; ++j)
            require(written[i].end <= read[j].begin || read[j].end <= written[i].begin,
                    "an array that is written to shares memory with one of indices");
}

// The function, once its arrays are known to lie apart.
template <typename Result, typename... Arguments>
auto apart(Result (*function)(Arguments...)) {
    return [function](Arguments... arguments) -> Result {
        require_apart(arguments...);
        return function(std::forward<Arguments>(arguments)...);
    };
}

}  // namespace bindings

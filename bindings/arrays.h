// The array types of the bindings: contiguous, on the CPU, of one dtype; nothing is converted silently.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>

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

}  // namespace bindings

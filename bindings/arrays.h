// The array types of the bindings: contiguous, on the CPU, of one dtype; nothing is converted silently.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace petamap::bindings {

template <typename T, int n_dim = 1>
using In = nanobind::ndarray<const T, nanobind::ndim<n_dim>, nanobind::c_contig, nanobind::device::cpu>;

template <typename T, int n_dim = 1>
using Out = nanobind::ndarray<T, nanobind::ndim<n_dim>, nanobind::c_contig, nanobind::device::cpu>;

// Raise ValueError unless `holds`; the Python side checks what users hand in, this guards memory.
inline void require(bool holds, const char* what) {
    if (!holds) throw nanobind::value_error(what);
}

}  // namespace petamap::bindings

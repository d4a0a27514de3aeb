// Rows of vectors that are moved and added up, for comm.cpp.
#pragma once

#include <nanobind/stl/optional.h>

#include <optional>

#include "arrays.h"
#include "petamap/comm/row_lists.h"

namespace petamap::bindings {

template <typename T, int n_dim = 1>
using MaybeIn = std::optional<In<T, n_dim>>;
template <typename T, int n_dim = 1>
using MaybeOut = std::optional<Out<T, n_dim>>;

template <typename Array>
auto data_or_null(const std::optional<Array>& array) {
    return array ? array->data() : nullptr;
}

inline std::int64_t length(std::size_t n) { return static_cast<std::int64_t>(n); }

inline void bind_cut_lists(nanobind::module_& module) {
    namespace nb = nanobind;
    module.def(
        "cut_lists",
        [](In<std::int32_t> positions, In<std::int64_t> offsets, MaybeOut<std::int32_t> starts,
           MaybeOut<std::uint8_t> lengths, Out<std::int64_t> bounds) {
            require(offsets.shape(0) > 0 && offsets.shape(0) == bounds.shape(0), "a bound for each offset");
            const auto n_lists = length(offsets.shape(0)) - 1;
            require(offsets.data()[n_lists] <= length(positions.shape(0)), "positions for all lists");
            nb::gil_scoped_release release;
            return comm::cut_lists(positions.data(), offsets.data(), n_lists, data_or_null(starts),
                                   data_or_null(lengths), bounds.data());
        },
        nb::arg("positions").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("starts").noconvert().none(), nb::arg("lengths").noconvert().none(),
        nb::arg("bounds").noconvert());
}

template <typename T>
void bind_row_lists(nanobind::module_& module) {
    namespace nb = nanobind;
    module.def(
        "move_rows",
        [](In<T, 2> from, MaybeIn<std::int32_t> from_starts, MaybeIn<std::uint8_t> from_lengths, Out<T, 2> to,
           MaybeIn<std::int32_t> to_starts, MaybeIn<std::uint8_t> to_lengths, std::int64_t n, int n_threads) {
            require(from.shape(1) == to.shape(1), "rows of the same length");
            require(from_starts || n <= length(from.shape(0)), "so many rows to move");
            require(to_starts || n <= length(to.shape(0)), "room for so many rows");
            const auto runs = [](const auto& starts, const auto& lengths) {
                if (!starts) return comm::RowLists{};
                require(lengths && lengths->shape(0) == starts->shape(0), "start and length of each run");
                return comm::RowLists{starts->data(), lengths->data(), length(starts->shape(0))};
            };
            const comm::RowLists source = runs(from_starts, from_lengths);
            const comm::RowLists target = runs(to_starts, to_lengths);
            nb::gil_scoped_release release;
            comm::move_rows(from.data(), from_starts ? &source : nullptr, to.data(),
                            to_starts ? &target : nullptr, n, length(to.shape(1)), n_threads);
        },
        nb::arg("from").noconvert(), nb::arg("from_starts").noconvert().none(),
        nb::arg("from_lengths").noconvert().none(), nb::arg("to").noconvert(),
        nb::arg("to_starts").noconvert().none(), nb::arg("to_lengths").noconvert().none(), nb::arg("n"),
        nb::arg("n_threads"));
    module.def(
        "combine_lists",
        [](In<T, 2> received, In<std::int32_t> starts, In<std::uint8_t> lengths, In<std::int64_t> bounds,
           std::int64_t own_list, MaybeIn<std::uint8_t> own, comm::Operation operation, Out<T, 2> values,
           int n_threads) {
            require(lengths.shape(0) == starts.shape(0), "start and length of each run");
            require(received.shape(1) == values.shape(1), "rows of the same length");
            require(!own || own->shape(0) == values.shape(0), "whether each row has a value of its own");
            const auto n_lists = length(bounds.shape(0)) - 1;
            require(bounds.data()[n_lists] == length(starts.shape(0)),
                    "the last bound is the number of runs");
            require(own_list >= 0 && own_list < n_lists, "the own list is one of them");
            const comm::RowLists lists{starts.data(), lengths.data(), length(starts.shape(0))};
            nb::gil_scoped_release release;
            comm::combine_lists(received.data(), lists, bounds.data(), n_lists, own_list, data_or_null(own),
                                length(values.shape(0)), length(values.shape(1)), operation, values.data(),
                                n_threads);
        },
        nb::arg("received").noconvert(), nb::arg("starts").noconvert(), nb::arg("lengths").noconvert(),
        nb::arg("bounds").noconvert(), nb::arg("own_list"), nb::arg("own").noconvert().none(),
        nb::arg("operation"), nb::arg("values").noconvert(), nb::arg("n_threads"));
}

}  // namespace petamap::bindings

// The bindings of what ranks that share memory compute with.
#pragma once

#include <nanobind/stl/pair.h>

#include <algorithm>

#include "arrays.h"
#include "comm_rows.h"
#include "petamap/comm/barrier.h"
#include "petamap/comm/node_runs.h"
#include "petamap/comm/row_runs.h"

namespace petamap::bindings {

// Structs of 64-bit words travel as rows of int64.
template <typename Struct, typename Array>
auto structs_of(const Array& words) {
    static_assert(sizeof(Struct) % sizeof(std::int64_t) == 0);
    require(words.shape(1) * sizeof(std::int64_t) == sizeof(Struct), "as many words as the struct has");
    using Pointer = std::conditional_t<std::is_const_v<typename Array::Scalar>, const Struct*, Struct*>;
    return reinterpret_cast<Pointer>(words.data());
}

inline comm::IntervalLists lists_of(const In<std::int64_t, 2>& intervals, const In<std::int64_t>& offsets) {
    require(offsets.shape(0) > 0, "offsets end with the number of intervals");
    require(offsets.data()[offsets.shape(0) - 1] <= length(intervals.shape(0)), "intervals for all lists");
    return {structs_of<comm::Interval>(intervals), offsets.data(), length(offsets.shape(0)) - 1};
}

inline void bind_intervals(nanobind::module_& module) {
    namespace nb = nanobind;
    module.attr("INTERVAL_WORDS") = sizeof(comm::Interval) / sizeof(std::int64_t);
    module.attr("RUN_WORDS") = sizeof(comm::Run) / sizeof(std::int64_t);
    module.def(
        "cut_intervals",
        [](In<std::int64_t> keys, MaybeIn<std::int32_t> groups, std::int64_t first_row,
           MaybeOut<std::int64_t, 2> out) {
            require(!groups || groups->shape(0) == keys.shape(0), "a group a key");
            comm::Interval* to = out ? structs_of<comm::Interval>(*out) : nullptr;
            nb::gil_scoped_release release;
            return comm::cut_intervals(keys.data(), data_or_null(groups), length(keys.shape(0)), first_row,
                                       to);
        },
        nb::arg("keys").noconvert(), nb::arg("groups").noconvert().none(), nb::arg("first_row"),
        nb::arg("out").noconvert().none());
    module.def(
        "split_key",
        [](In<std::int64_t, 2> intervals, In<std::int64_t> offsets, std::int64_t target) {
            const comm::IntervalLists lists = lists_of(intervals, offsets);
            nb::gil_scoped_release release;
            return comm::split_key(lists, target);
        },
        nb::arg("intervals").noconvert(), nb::arg("offsets").noconvert(), nb::arg("target"));
    module.def(
        "merge_runs",
        [](In<std::int64_t, 2> intervals, In<std::int64_t> offsets, std::int64_t low, std::int64_t high,
           MaybeOut<std::int64_t, 2> runs, MaybeOut<std::uint32_t> entries) {
            const comm::IntervalLists lists = lists_of(intervals, offsets);
            comm::Run* to = runs ? structs_of<comm::Run>(*runs) : nullptr;
            nb::gil_scoped_release release;
            return comm::merge_runs(lists, low, high, to, data_or_null(entries));
        },
        nb::arg("intervals").noconvert(), nb::arg("offsets").noconvert(), nb::arg("low"), nb::arg("high"),
        nb::arg("runs").noconvert().none(), nb::arg("entries").noconvert().none());
    module.def(
        "spread_runs",
        [](In<std::int32_t, 2> run_values, In<std::int64_t, 2> runs, In<std::uint32_t> entries,
           Out<std::int32_t, 2> values) {
            require(run_values.shape(0) == runs.shape(0), "values for each run");
            require(run_values.shape(1) == values.shape(1), "rows of the same length");
            const auto* of = structs_of<comm::Run>(runs);
            nb::gil_scoped_release release;
            comm::spread_runs(run_values.data(), of, entries.data(), length(runs.shape(0)),
                              length(values.shape(1)), values.data());
        },
        nb::arg("run_values").noconvert(), nb::arg("runs").noconvert(), nb::arg("entries").noconvert(),
        nb::arg("values").noconvert());
}

inline void bind_barrier(nanobind::module_& module) {
    namespace nb = nanobind;
    module.def(
        "barrier_arrive",
        [](Out<std::int32_t> words, std::int32_t n) { return comm::barrier_arrive(words.data(), n); },
        nb::arg("words").noconvert(), nb::arg("n"));
    module.def(
        "barrier_wait",
        [](Out<std::int32_t> words, std::int32_t ticket, std::int64_t n_looks, double seconds) {
            nb::gil_scoped_release release;
            return comm::barrier_wait(words.data(), ticket, n_looks, seconds);
        },
        nb::arg("words").noconvert(), nb::arg("ticket"), nb::arg("n_looks"), nb::arg("seconds"));
}

inline void bind_row_runs(nanobind::module_& module) {
    namespace nb = nanobind;
    nb::enum_<comm::Flow>(module, "Flow")
        .value("everywhere", comm::Flow::everywhere)
        .value("onto_owners", comm::Flow::onto_owners)
        .value("from_owners", comm::Flow::from_owners)
        .value("onto_slots", comm::Flow::onto_slots)
        .value("from_slots", comm::Flow::from_slots)
        .value("in_node_order", comm::Flow::in_node_order);
    module.attr("RUNS_PER_BLOCK") = comm::runs_per_block;
    module.def(
        "join_runs",
        [](Out<std::uint16_t> lengths, Out<std::uint16_t> counts, Out<std::uint32_t> entries) {
            require(lengths.shape(0) == counts.shape(0), "length and count of each run");
            nb::gil_scoped_release release;
            return comm::join_runs(lengths.data(), counts.data(), entries.data(), length(lengths.shape(0)));
        },
        nb::arg("lengths").noconvert(), nb::arg("counts").noconvert(), nb::arg("entries").noconvert());
}

template <typename T>
void bind_reduce_runs(nanobind::module_& module) {
    namespace nb = nanobind;
    module.def(
        "reduce_runs",
        [](In<std::uint16_t> lengths, In<std::uint16_t> counts, In<std::uint32_t> entries,
           In<std::int64_t> first_entries, Out<T, 2> rows, MaybeIn<std::uint8_t> owned,
           MaybeIn<T, 2> in_slots, MaybeOut<T, 2> out_slots, comm::Operation operation, comm::Flow flow,
           int n_threads) {
            require(lengths.shape(0) == counts.shape(0), "length and count of each run");
            require(owned ? owned->shape(0) == rows.shape(0) : !comm::knows_owners(flow), "owners of rows");
            require(!in_slots || in_slots->shape(1) == rows.shape(1), "rows of the same length");
            require(!out_slots || out_slots->shape(1) == rows.shape(1), "rows of the same length");
            const comm::RowRuns runs{lengths.data(), counts.data(), entries.data(), first_entries.data(),
                                     length(lengths.shape(0))};
            const comm::Memory<T> memory{rows.data(),
                                         length(rows.shape(0)),
                                         data_or_null(owned),
                                         data_or_null(in_slots),
                                         data_or_null(out_slots),
                                         length(rows.shape(1))};
            nb::gil_scoped_release release;
            comm::reduce_runs(runs, memory, operation, flow, n_threads);
        },
        nb::arg("lengths").noconvert(), nb::arg("counts").noconvert(), nb::arg("entries").noconvert(),
        nb::arg("first_entries").noconvert(), nb::arg("rows").noconvert(),
        nb::arg("owned").noconvert().none(), nb::arg("in_slots").noconvert().none(),
        nb::arg("out_slots").noconvert().none(), nb::arg("operation"), nb::arg("flow"), nb::arg("n_threads"));
}

}  // namespace petamap::bindings

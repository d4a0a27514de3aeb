// petacomm.reduction._reduction: sums of rows in the memory of a node, sums in fixed point.
#include <nanobind/stl/pair.h>

#include "../arrays.h"
#include "petacomm/redistribution/operations.h"
#include "petacomm/reduction/fixed_point.h"
#include "petacomm/reduction/node_runs.h"
#include "petacomm/reduction/row_runs.h"

namespace nb = nanobind;
using namespace bindings;

namespace {

// Structs of 64-bit words travel as rows of int64.
template <typename Struct, typename Array>
auto structs_of(const Array& words) {
    static_assert(sizeof(Struct) % sizeof(std::int64_t) == 0);
    require(words.shape(1) * sizeof(std::int64_t) == sizeof(Struct), "as many words as the struct has");
    using Pointer = std::conditional_t<std::is_const_v<typename Array::Scalar>, const Struct*, Struct*>;
    return reinterpret_cast<Pointer>(words.data());
}

petacomm::IntervalLists lists_of(const In<std::int64_t, 2>& intervals, const In<std::int64_t>& offsets) {
    require(offsets.shape(0) > 0, "offsets end with the number of intervals");
    require(offsets.data()[offsets.shape(0) - 1] <= length(intervals.shape(0)), "intervals for all lists");
    return {structs_of<petacomm::Interval>(intervals), offsets.data(), length(offsets.shape(0)) - 1};
}

void bind_intervals(nb::module_& module) {
    module.attr("INTERVAL_WORDS") = sizeof(petacomm::Interval) / sizeof(std::int64_t);
    module.attr("RUN_WORDS") = sizeof(petacomm::Run) / sizeof(std::int64_t);
    module.def(
        "cut_intervals",
        [](In<std::int64_t> keys, MaybeIn<std::int32_t> groups, std::int64_t first_row,
           MaybeOut<std::int64_t, 2> out) {
            require(!groups || groups->shape(0) == keys.shape(0), "a group a key");
            petacomm::Interval* to = out ? structs_of<petacomm::Interval>(*out) : nullptr;
            nb::gil_scoped_release release;
            return petacomm::cut_intervals(keys.data(), data_or_null(groups), length(keys.shape(0)),
                                           first_row, to);
        },
        nb::arg("keys").noconvert(), nb::arg("groups").noconvert().none(), nb::arg("first_row"),
        nb::arg("out").noconvert().none());
    module.def(
        "split_key",
        [](In<std::int64_t, 2> intervals, In<std::int64_t> offsets, std::int64_t target) {
            const petacomm::IntervalLists lists = lists_of(intervals, offsets);
            nb::gil_scoped_release release;
            return petacomm::split_key(lists, target);
        },
        nb::arg("intervals").noconvert(), nb::arg("offsets").noconvert(), nb::arg("target"));
    module.def(
        "merge_runs",
        [](In<std::int64_t, 2> intervals, In<std::int64_t> offsets, std::int64_t low, std::int64_t high,
           MaybeOut<std::int64_t, 2> runs, MaybeOut<std::uint32_t> entries) {
            const petacomm::IntervalLists lists = lists_of(intervals, offsets);
            petacomm::Run* to = runs ? structs_of<petacomm::Run>(*runs) : nullptr;
            nb::gil_scoped_release release;
            return petacomm::merge_runs(lists, low, high, to, data_or_null(entries));
        },
        nb::arg("intervals").noconvert(), nb::arg("offsets").noconvert(), nb::arg("low"), nb::arg("high"),
        nb::arg("runs").noconvert().none(), nb::arg("entries").noconvert().none());
}

void bind_row_runs(nb::module_& module) {
    nb::enum_<petacomm::Flow>(module, "Flow")
        .value("everywhere", petacomm::Flow::everywhere)
        .value("onto_owners", petacomm::Flow::onto_owners)
        .value("from_owners", petacomm::Flow::from_owners)
        .value("onto_slots", petacomm::Flow::onto_slots)
        .value("from_slots", petacomm::Flow::from_slots)
        .value("in_node_order", petacomm::Flow::in_node_order);
    module.attr("RUNS_PER_BLOCK") = petacomm::runs_per_block;
    module.def(
        "join_runs",
        [](Out<std::uint16_t> lengths, Out<std::uint16_t> counts, Out<std::uint32_t> entries) {
            require(lengths.shape(0) == counts.shape(0), "length and count of each run");
            nb::gil_scoped_release release;
            return petacomm::join_runs(lengths.data(), counts.data(), entries.data(),
                                       length(lengths.shape(0)));
        },
        nb::arg("lengths").noconvert(), nb::arg("counts").noconvert(), nb::arg("entries").noconvert());
}

template <typename T>
void bind_reduce_runs(nb::module_& module) {
    module.def(
        "reduce_runs",
        [](In<std::uint16_t> lengths, In<std::uint16_t> counts, In<std::uint32_t> entries,
           In<std::int64_t> first_entries, Out<T, 2> rows, MaybeIn<std::uint8_t> owned,
           MaybeIn<T, 2> in_slots, MaybeOut<T, 2> out_slots, petacomm::Operation operation,
           petacomm::Flow flow, int n_threads) {
            require(lengths.shape(0) == counts.shape(0), "length and count of each run");
            require(owned ? owned->shape(0) == rows.shape(0) : !petacomm::knows_owners(flow),
                    "owners of rows");
            require(!in_slots || in_slots->shape(1) == rows.shape(1), "rows of the same length");
            require(!out_slots || out_slots->shape(1) == rows.shape(1), "rows of the same length");
            const petacomm::RowRuns runs{lengths.data(), counts.data(), entries.data(), first_entries.data(),
                                         length(lengths.shape(0))};
            const petacomm::Memory<T> memory{rows.data(),
                                             length(rows.shape(0)),
                                             data_or_null(owned),
                                             data_or_null(in_slots),
                                             data_or_null(out_slots),
                                             length(rows.shape(1))};
            nb::gil_scoped_release release;
            petacomm::reduce_runs(runs, memory, operation, flow, n_threads);
        },
        nb::arg("lengths").noconvert(), nb::arg("counts").noconvert(), nb::arg("entries").noconvert(),
        nb::arg("first_entries").noconvert(), nb::arg("rows").noconvert(),
        nb::arg("owned").noconvert().none(), nb::arg("in_slots").noconvert().none(),
        nb::arg("out_slots").noconvert().none(), nb::arg("operation"), nb::arg("flow"), nb::arg("n_threads"));
}

template <typename T>
void bind_fixed(nb::module_& module) {
    module.def(
        "largest",
        [](In<T, 2> values, int n_threads) {
            nb::gil_scoped_release release;
            return petacomm::largest(values.data(), static_cast<std::int64_t>(values.size()), n_threads);
        },
        nb::arg("values").noconvert(), nb::arg("n_threads"));
    module.def(
        "to_fixed",
        [](In<T, 2> values, double unit, Out<std::int64_t, 2> words, int n_threads) {
            require(words.size() == values.size(), "a word for each value");
            nb::gil_scoped_release release;
            petacomm::to_fixed(values.data(), static_cast<std::int64_t>(values.size()), unit, words.data(),
                               n_threads);
        },
        nb::arg("values").noconvert(), nb::arg("unit"), nb::arg("words").noconvert(), nb::arg("n_threads"));
    module.def(
        "from_fixed",
        [](In<std::int64_t, 2> words, double unit, Out<T, 2> values, int n_threads) {
            require(words.size() == values.size(), "a value for each word");
            nb::gil_scoped_release release;
            petacomm::from_fixed(words.data(), static_cast<std::int64_t>(words.size()), unit, values.data(),
                                 n_threads);
        },
        nb::arg("words").noconvert(), nb::arg("unit"), nb::arg("values").noconvert(), nb::arg("n_threads"));
}

}  // namespace

NB_MODULE(_reduction, module) {
    bind_intervals(module);
    bind_row_runs(module);
    bind_reduce_runs<std::int64_t>(module);
    bind_reduce_runs<double>(module);
    bind_reduce_runs<float>(module);
    bind_reduce_runs<std::uint8_t>(module);
    bind_fixed<double>(module);
    bind_fixed<float>(module);
}

// petacomm.reduction._reduction: sums of rows in the memory of a node, sums in fixed point.
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <utility>

#include "../arrays.h"
#include "operation.h"
#include "petacomm/reduction/fixed_point.h"
#include "petacomm/reduction/node_runs.h"
#include "petacomm/reduction/row_runs.h"

template <>
struct bindings::Enumerators<petacomm::Flow> {
    static constexpr Enumerator<petacomm::Flow> all[] = {
        {petacomm::Flow::everywhere, "everywhere"},   {petacomm::Flow::onto_owners, "onto_owners"},
        {petacomm::Flow::from_owners, "from_owners"}, {petacomm::Flow::onto_slots, "onto_slots"},
        {petacomm::Flow::from_slots, "from_slots"},   {petacomm::Flow::in_node_order, "in_node_order"}};
    static constexpr auto type = nanobind::detail::const_name(
        "typing.Literal['everywhere', 'onto_owners', 'from_owners', 'onto_slots', 'from_slots', "
        "'in_node_order']");
};

template <>
struct nanobind::detail::type_caster<petacomm::Flow> : EnumeratorCaster<petacomm::Flow> {};

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

template <typename Array>
std::int64_t sum_of(const Array& numbers) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < numbers.shape(0); ++i) sum += numbers.data()[i];
    return sum;
}

petacomm::IntervalLists lists_of(const In<std::int64_t, 2>& intervals, const In<std::int64_t>& offsets) {
    require(are_offsets(offsets, length(intervals.shape(0))), "offsets: of lists of intervals");
    return {structs_of<petacomm::Interval>(intervals), offsets.data(), length(offsets.shape(0)) - 1};
}

void bind_intervals(nb::module_& module) {
    module.attr("INTERVAL_WORDS") = sizeof(petacomm::Interval) / sizeof(std::int64_t);
    module.attr("RUN_WORDS") = sizeof(petacomm::Run) / sizeof(std::int64_t);
    module.def("cut_intervals",
               bindings::apart(+[](In<std::int64_t> keys, MaybeIn<std::int32_t> groups,
                                   std::int64_t first_row, MaybeOut<std::int64_t, 2> out) {
                   require(!groups || groups->shape(0) == keys.shape(0), "groups: one for each key");
                   petacomm::Interval* to = out ? structs_of<petacomm::Interval>(*out) : nullptr;
                   const std::int64_t room = out ? length(out->shape(0)) : 0;
                   std::int64_t n;
                   {
                       nb::gil_scoped_release release;
                       n = petacomm::cut_intervals(keys.data(), data_or_null(groups), length(keys.shape(0)),
                                                   first_row, to, room);
                   }
                   require(!out || n <= room, "out: room for all intervals");
                   return n;
               }),
               nb::arg("keys").noconvert(), nb::arg("groups").noconvert().none(), nb::arg("first_row"),
               nb::arg("out").noconvert().none());
    module.def(
        "split_key",
        bindings::apart(+[](In<std::int64_t, 2> intervals, In<std::int64_t> offsets, std::int64_t target) {
            const petacomm::IntervalLists lists = lists_of(intervals, offsets);
            nb::gil_scoped_release release;
            return petacomm::split_key(lists, target);
        }),
        nb::arg("intervals").noconvert(), nb::arg("offsets").noconvert(), nb::arg("target"));
    module.def("merge_runs",
               bindings::apart(+[](In<std::int64_t, 2> intervals, In<std::int64_t> offsets, std::int64_t low,
                                   std::int64_t high, MaybeOut<std::int64_t, 2> runs,
                                   MaybeOut<std::uint32_t> entries) {
                   const petacomm::IntervalLists lists = lists_of(intervals, offsets);
                   const petacomm::RunOutputs out{runs ? structs_of<petacomm::Run>(*runs) : nullptr,
                                                  runs ? length(runs->shape(0)) : 0, data_or_null(entries),
                                                  entries ? length(entries->shape(0)) : 0};
                   std::pair<std::int64_t, std::int64_t> found;
                   {
                       nb::gil_scoped_release release;
                       found = petacomm::merge_runs(lists, low, high, out);
                   }
                   require(found.first >= 0, "intervals: keys that increase in each list");
                   require(!runs || found.first <= out.run_room, "runs: room for all of them");
                   require(!entries || found.second <= out.entry_room, "entries: room for all of them");
                   return found;
               }),
               nb::arg("intervals").noconvert(), nb::arg("offsets").noconvert(), nb::arg("low"),
               nb::arg("high"), nb::arg("runs").noconvert().none(), nb::arg("entries").noconvert().none());
}

// A table of runs, checked once, and once more where it meets another number of rows: which entries are rows
// and which are slots hangs on that.
class RunTable {
  public:
    RunTable(In<std::uint16_t> lengths, In<std::uint16_t> counts, In<std::uint32_t> entries,
             In<std::int64_t> first_entries)
        : lengths_(std::move(lengths)),
          counts_(std::move(counts)),
          entries_(std::move(entries)),
          first_entries_(std::move(first_entries)) {
        const std::int64_t n_runs = length(lengths_.shape(0));
        require(length(counts_.shape(0)) == n_runs, "counts: one for each of the lengths");
        constexpr std::int64_t a_block = petacomm::runs_per_block;
        require(length(first_entries_.shape(0)) >= (n_runs + a_block - 1) / a_block,
                "first_entries: one for each 1024 runs");
        std::int64_t entry = 0;
        for (std::int64_t first = 0; first < n_runs; first += a_block) {
            require(first_entries_.data()[first / a_block] == entry, "first_entries: where the counts say");
            std::uint32_t sum = 0, without = 0;
            for (std::int64_t run = first; run < std::min(first + a_block, n_runs); ++run) {
                sum += counts_.data()[run];
                without += counts_.data()[run] == 0;
            }
            require(without == 0, "counts: at least one entry of each run");
            entry += sum;
        }
        require(entry == length(entries_.shape(0)), "entries: as many as the counts say");
    }

    petacomm::RowRuns view() const {
        return {lengths_.data(), counts_.data(), entries_.data(), first_entries_.data(),
                length(lengths_.shape(0))};
    }

    // What a reduction needs, which has slots to read and to write or not.
    void require_memory(std::int64_t n_rows, const std::int64_t* in_slots, const std::int64_t* out_slots,
                        petacomm::Flow flow) {
        using petacomm::Flow;
        if (n_rows != n_rows_) look(n_rows);
        require(!crosses_, "entries: runs of rows, or of slots");
        require(!in_slots || *in_slots >= n_slots_, "in_slots: a row for each slot");
        require(!out_slots || *out_slots >= n_slots_, "out_slots: a row for each slot");
        if (n_slots_ == 0) return;
        require(in_slots || out_slots, "entries: slots that there are");
        require(in_slots || (flow != Flow::from_slots && flow != Flow::in_node_order),
                "in_slots: rows that the flow reads");
        require(out_slots || flow != Flow::onto_slots, "out_slots: rows that the flow writes");
        require(flow != Flow::everywhere || !slot_before_row_, "entries: rows before slots");
    }

  private:
    // Without branches: rows and slots come as they like.
    void look(std::int64_t n_rows) {
        std::int64_t end = n_rows;
        bool crosses = false, slot_before_row = false;
        const std::uint32_t* entry = entries_.data();
        for (std::size_t run = 0; run < lengths_.shape(0); ++run) {
            const std::int64_t n_keys = lengths_.data()[run];
            bool after_slot = false;
            for (const std::uint32_t* last = entry + counts_.data()[run]; entry < last; ++entry) {
                const bool is_slot = *entry >= n_rows;
                crosses |= !is_slot & (*entry + n_keys > n_rows);
                slot_before_row |= !is_slot & after_slot;
                end = std::max(end, *entry + n_keys);
                after_slot = is_slot;
            }
        }
        n_rows_ = n_rows;
        n_slots_ = end - n_rows;  // no row ends there, unless it crosses
        crosses_ = crosses;
        slot_before_row_ = slot_before_row;
    }

    In<std::uint16_t> lengths_, counts_;
    In<std::uint32_t> entries_;
    In<std::int64_t> first_entries_;
    std::int64_t n_rows_ = -1, n_slots_ = 0;
    bool crosses_ = false, slot_before_row_ = false;
};

void bind_row_runs(nb::module_& module) {
    nb::class_<RunTable>(module, "RunTable")
        .def(nb::init<In<std::uint16_t>, In<std::uint16_t>, In<std::uint32_t>, In<std::int64_t>>(),
             nb::arg("lengths").noconvert(), nb::arg("counts").noconvert(), nb::arg("entries").noconvert(),
             nb::arg("first_entries").noconvert());
    module.attr("RUNS_PER_BLOCK") = petacomm::runs_per_block;
    module.def("join_runs",
               bindings::apart(+[](Out<std::uint16_t> lengths, Out<std::uint16_t> counts,
                                   Out<std::uint32_t> entries) {
                   require(lengths.shape(0) == counts.shape(0), "counts: one for each of the lengths");
                   require(sum_of(counts) == length(entries.shape(0)), "entries: as many as the counts say");
                   nb::gil_scoped_release release;
                   return petacomm::join_runs(lengths.data(), counts.data(), entries.data(),
                                              length(lengths.shape(0)));
               }),
               nb::arg("lengths").noconvert(), nb::arg("counts").noconvert(), nb::arg("entries").noconvert());
}

template <typename T>
void bind_reduce_runs(nb::module_& module) {
    module.def(
        "reduce_runs",
        bindings::apart(+[](RunTable& runs, Out<T, 2> rows, MaybeIn<std::uint8_t> owned,
                            MaybeIn<T, 2> in_slots, MaybeOut<T, 2> out_slots, petacomm::Operation operation,
                            petacomm::Flow flow, int n_threads) {
            require(owned ? owned->shape(0) == rows.shape(0) : !petacomm::knows_owners(flow),
                    "owned: one for each row");
            require(!in_slots || in_slots->shape(1) == rows.shape(1), "in_slots: rows of the same length");
            require(!out_slots || out_slots->shape(1) == rows.shape(1), "out_slots: rows of the same length");
            const std::int64_t n_in = in_slots ? length(in_slots->shape(0)) : 0;
            const std::int64_t n_out = out_slots ? length(out_slots->shape(0)) : 0;
            runs.require_memory(length(rows.shape(0)), in_slots ? &n_in : nullptr,
                                out_slots ? &n_out : nullptr, flow);
            require_threads(n_threads);
            const petacomm::Memory<T> memory{rows.data(),
                                             length(rows.shape(0)),
                                             data_or_null(owned),
                                             data_or_null(in_slots),
                                             data_or_null(out_slots),
                                             length(rows.shape(1))};
            nb::gil_scoped_release release;
            petacomm::reduce_runs(runs.view(), memory, operation, flow, n_threads);
        }),
        nb::arg("runs"), nb::arg("rows").noconvert(), nb::arg("owned").noconvert().none(),
        nb::arg("in_slots").noconvert().none(), nb::arg("out_slots").noconvert().none(), nb::arg("operation"),
        nb::arg("flow"), nb::arg("n_threads"));
}

template <typename T>
void bind_fixed(nb::module_& module) {
    module.def("largest", bindings::apart(+[](In<T, 2> values, int n_threads) {
                   require_threads(n_threads);
                   nb::gil_scoped_release release;
                   return petacomm::largest(values.data(), static_cast<std::int64_t>(values.size()),
                                            n_threads);
               }),
               nb::arg("values").noconvert(), nb::arg("n_threads"));
    module.def("to_fixed",
               bindings::apart(+[](In<T, 2> values, double unit, Out<std::int64_t, 2> words, int n_threads) {
                   require(words.size() == values.size(), "words: one for each value");
                   require_threads(n_threads);
                   nb::gil_scoped_release release;
                   petacomm::to_fixed(values.data(), static_cast<std::int64_t>(values.size()), unit,
                                      words.data(), n_threads);
               }),
               nb::arg("values").noconvert(), nb::arg("unit"), nb::arg("words").noconvert(),
               nb::arg("n_threads"));
    module.def("from_fixed",
               bindings::apart(+[](In<std::int64_t, 2> words, double unit, Out<T, 2> values, int n_threads) {
                   require(words.size() == values.size(), "values: one for each word");
                   require_threads(n_threads);
                   nb::gil_scoped_release release;
                   petacomm::from_fixed(words.data(), static_cast<std::int64_t>(words.size()), unit,
                                        values.data(), n_threads);
               }),
               nb::arg("words").noconvert(), nb::arg("unit"), nb::arg("values").noconvert(),
               nb::arg("n_threads"));
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

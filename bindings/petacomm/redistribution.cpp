// petacomm.redistribution._redistribution: rows of vectors that are moved and combined, sites of lattices.
#include <algorithm>
#include <utility>

#include "../arrays.h"
#include "operation.h"
#include "petacomm/redistribution/lattice.h"
#include "petacomm/redistribution/row_lists.h"

namespace nb = nanobind;
using namespace bindings;

namespace {

// Lists of rows, checked once: runs of which none begins before row 0 and none ends after `end`.
class RunLists {
  public:
    RunLists(In<std::int32_t> starts, In<std::uint8_t> lengths, In<std::int64_t> bounds)
        : starts_(std::move(starts)), lengths_(std::move(lengths)), bounds_(std::move(bounds)) {
        require(lengths_.shape(0) == starts_.shape(0), "lengths: one for each run");
        require(are_offsets(bounds_, length(starts_.shape(0))) && bounds_.data()[0] == 0 &&
                    bounds_.data()[n_lists()] == length(starts_.shape(0)),
                "bounds: the first run of each list, and the number of runs");
        require(all_within(starts_, 0, std::int64_t{1} << 31), "starts: rows from 0 on");
        for (std::int64_t list = 0; list < n_lists(); ++list) {
            std::int64_t after = 0;
            for (std::int64_t run = bounds_.data()[list]; run < bounds_.data()[list + 1]; ++run) {
                const std::int64_t start = starts_.data()[run], n = lengths_.data()[run];
                increase_ = increase_ && start >= after;
                after = start + n;
                end_ = std::max(end_, after);
                n_rows_ += n;
            }
        }
    }
    petacomm::RowLists view() const { return {starts_.data(), lengths_.data(), length(starts_.shape(0))}; }
    const std::int64_t* bounds() const { return bounds_.data(); }
    std::int64_t n_lists() const { return length(bounds_.shape(0)) - 1; }
    std::int64_t n_rows() const { return n_rows_; }
    std::int64_t end() const { return end_; }
    bool increase() const { return increase_; }  // the rows of each list

  private:
    In<std::int32_t> starts_;
    In<std::uint8_t> lengths_;
    In<std::int64_t> bounds_;
    std::int64_t n_rows_ = 0, end_ = 0;
    bool increase_ = true;
};

void bind_cut_lists(nb::module_& module) {
    nb::class_<RunLists>(module, "RunLists")
        .def(nb::init<In<std::int32_t>, In<std::uint8_t>, In<std::int64_t>>(), nb::arg("starts").noconvert(),
             nb::arg("lengths").noconvert(), nb::arg("bounds").noconvert());
    module.def(
        "cut_lists",
        bindings::apart(+[](In<std::int32_t> positions, In<std::int64_t> offsets,
                            MaybeOut<std::int32_t> starts, MaybeOut<std::uint8_t> lengths,
                            Out<std::int64_t> bounds) {
            require(offsets.shape(0) > 0 && offsets.shape(0) == bounds.shape(0),
                    "bounds: one for each of the offsets");
            require(are_offsets(offsets, length(positions.shape(0))), "offsets: of lists of positions");
            require(starts.has_value() == lengths.has_value() &&
                        (!starts || starts->shape(0) == lengths->shape(0)),
                    "lengths: one for each of the starts");
            const std::int64_t room = starts ? length(starts->shape(0)) : 0;
            std::int64_t n_runs;
            {
                nb::gil_scoped_release release;
                n_runs =
                    petacomm::cut_lists(positions.data(), offsets.data(), length(offsets.shape(0)) - 1,
                                        data_or_null(starts), data_or_null(lengths), room, bounds.data());
            }
            require(!starts || n_runs <= room, "starts: room for all runs");
            return n_runs;
        }),
        nb::arg("positions").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("starts").noconvert().none(), nb::arg("lengths").noconvert().none(),
        nb::arg("bounds").noconvert());
}

template <typename T>
void bind_move_rows(nb::module_& module) {
    module.def("move_rows",
               bindings::apart(+[](In<T, 2> from, const RunLists* from_rows, Out<T, 2> to,
                                   const RunLists* to_rows, std::int64_t n, int n_threads) {
                   require(from.shape(1) == to.shape(1), "target: rows as long as those of the source");
                   require(n >= 0 && n <= (from_rows ? from_rows->n_rows() : length(from.shape(0))),
                           "n: rows of the source");
                   require(n <= (to_rows ? to_rows->n_rows() : length(to.shape(0))), "n: rows of the target");
                   require(!from_rows || from_rows->end() <= length(from.shape(0)),
                           "source_rows: in the source");
                   require(!to_rows || to_rows->end() <= length(to.shape(0)), "target_rows: in the target");
                   require_threads(n_threads);
                   const petacomm::RowLists source = from_rows ? from_rows->view() : petacomm::RowLists{};
                   const petacomm::RowLists target = to_rows ? to_rows->view() : petacomm::RowLists{};
                   nb::gil_scoped_release release;
                   petacomm::move_rows(from.data(), from_rows ? &source : nullptr, to.data(),
                                       to_rows ? &target : nullptr, n, length(to.shape(1)), n_threads);
               }),
               nb::arg("source").noconvert(), nb::arg("source_rows").none(), nb::arg("target").noconvert(),
               nb::arg("target_rows").none(), nb::arg("n"), nb::arg("n_threads"));
}

template <typename T>
void bind_combine_lists(nb::module_& module) {
    module.def(
        "combine_lists",
        bindings::apart(+[](In<T, 2> received, const RunLists& lists, std::int64_t own_list,
                            MaybeIn<std::uint8_t> own, petacomm::Operation operation, Out<T, 2> values,
                            int n_threads) {
            require(received.shape(1) == values.shape(1), "received: rows as long as those of the values");
            require(length(received.shape(0)) >= lists.n_rows(), "received: a row for each of the lists");
            require(lists.end() <= length(values.shape(0)), "lists: rows of the values");
            require(lists.increase(), "lists: rows that increase");
            require(!own || own->shape(0) == values.shape(0), "own: one for each row of the values");
            require(own_list >= 0 && own_list < lists.n_lists(), "own_list: one of the lists");
            require_threads(n_threads);
            nb::gil_scoped_release release;
            petacomm::combine_lists(received.data(), lists.view(), lists.bounds(), lists.n_lists(), own_list,
                                    data_or_null(own), length(values.shape(0)), length(values.shape(1)),
                                    operation, values.data(), n_threads);
        }),
        nb::arg("received").noconvert(), nb::arg("lists"), nb::arg("own_list"),
        nb::arg("own").noconvert().none(), nb::arg("operation"), nb::arg("values").noconvert(),
        nb::arg("n_threads"));
}

template <typename T>
void bind_row_lists(nb::module_& module) {
    bind_move_rows<T>(module);
    bind_combine_lists<T>(module);
}

void bind_lattice(nb::module_& module) {
    module.def("hop_sites",
               bindings::apart(+[](In<double, 3> links, In<std::int32_t, 2> neighbours, In<double, 2> field,
                                   In<std::int32_t> sites, Out<double, 2> out, int n_threads) {
                   require(links.shape(2) == 18 && field.shape(1) == 6 && out.shape(1) == 6,
                           "3x3 complex matrices");
                   require(links.shape(0) == neighbours.shape(0) && links.shape(1) == neighbours.shape(1),
                           "a link to each neighbour");
                   const auto n_sites = static_cast<std::int64_t>(std::min(links.shape(0), out.shape(0)));
                   const auto n_rows = static_cast<std::int64_t>(field.shape(0));
                   require(all_within(sites, 0, n_sites), "sites: with links and room in out");
                   require(all_within(neighbours, 0, n_rows), "neighbours: rows of the field");
                   require_threads(n_threads);
                   nb::gil_scoped_release release;
                   petacomm::hop_sites(links.data(), neighbours.data(),
                                       static_cast<std::int64_t>(links.shape(1)), field.data(), sites.data(),
                                       static_cast<std::int64_t>(sites.shape(0)), out.data(), n_threads);
               }),
               nb::arg("links").noconvert(), nb::arg("neighbours").noconvert(), nb::arg("field").noconvert(),
               nb::arg("sites").noconvert(), nb::arg("out").noconvert(), nb::arg("n_threads"));
}

}  // namespace

NB_MODULE(_redistribution, module) {
    bind_cut_lists(module);
    bind_row_lists<std::int64_t>(module);
    bind_row_lists<double>(module);
    bind_row_lists<float>(module);
    bind_row_lists<std::uint8_t>(module);
    bind_lattice(module);
}

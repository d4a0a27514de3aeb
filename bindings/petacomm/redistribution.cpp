// petacomm.redistribution._redistribution: rows of vectors that are moved and combined, sites of lattices.
#include <algorithm>

#include "../arrays.h"
#include "petacomm/redistribution/lattice.h"
#include "petacomm/redistribution/operations.h"
#include "petacomm/redistribution/row_lists.h"

namespace nb = nanobind;
using namespace bindings;

namespace {

void bind_cut_lists(nb::module_& module) {
    module.def(
        "cut_lists",
        [](In<std::int32_t> positions, In<std::int64_t> offsets, MaybeOut<std::int32_t> starts,
           MaybeOut<std::uint8_t> lengths, Out<std::int64_t> bounds) {
            require(offsets.shape(0) > 0 && offsets.shape(0) == bounds.shape(0), "a bound for each offset");
            const auto n_lists = length(offsets.shape(0)) - 1;
            require(offsets.data()[n_lists] <= length(positions.shape(0)), "positions for all lists");
            nb::gil_scoped_release release;
            return petacomm::cut_lists(positions.data(), offsets.data(), n_lists, data_or_null(starts),
                                       data_or_null(lengths), bounds.data());
        },
        nb::arg("positions").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("starts").noconvert().none(), nb::arg("lengths").noconvert().none(),
        nb::arg("bounds").noconvert());
}

template <typename T>
void bind_row_lists(nb::module_& module) {
    module.def(
        "move_rows",
        [](In<T, 2> from, MaybeIn<std::int32_t> from_starts, MaybeIn<std::uint8_t> from_lengths, Out<T, 2> to,
           MaybeIn<std::int32_t> to_starts, MaybeIn<std::uint8_t> to_lengths, std::int64_t n, int n_threads) {
            require(from.shape(1) == to.shape(1), "rows of the same length");
            require(from_starts || n <= length(from.shape(0)), "so many rows to move");
            require(to_starts || n <= length(to.shape(0)), "room for so many rows");
            const auto runs = [](const auto& starts, const auto& lengths) {
                if (!starts) return petacomm::RowLists{};
                require(lengths && lengths->shape(0) == starts->shape(0), "start and length of each run");
                return petacomm::RowLists{starts->data(), lengths->data(), length(starts->shape(0))};
            };
            const petacomm::RowLists source = runs(from_starts, from_lengths);
            const petacomm::RowLists target = runs(to_starts, to_lengths);
            nb::gil_scoped_release release;
            petacomm::move_rows(from.data(), from_starts ? &source : nullptr, to.data(),
                                to_starts ? &target : nullptr, n, length(to.shape(1)), n_threads);
        },
        nb::arg("source").noconvert(), nb::arg("source_starts").noconvert().none(),
        nb::arg("source_lengths").noconvert().none(), nb::arg("target").noconvert(),
        nb::arg("target_starts").noconvert().none(), nb::arg("target_lengths").noconvert().none(),
        nb::arg("n"), nb::arg("n_threads"));
    module.def(
        "combine_lists",
        [](In<T, 2> received, In<std::int32_t> starts, In<std::uint8_t> lengths, In<std::int64_t> bounds,
           std::int64_t own_list, MaybeIn<std::uint8_t> own, petacomm::Operation operation, Out<T, 2> values,
           int n_threads) {
            require(lengths.shape(0) == starts.shape(0), "start and length of each run");
            require(received.shape(1) == values.shape(1), "rows of the same length");
            require(!own || own->shape(0) == values.shape(0), "whether each row has a value of its own");
            const auto n_lists = length(bounds.shape(0)) - 1;
            require(bounds.data()[n_lists] == length(starts.shape(0)),
                    "the last bound is the number of runs");
            require(own_list >= 0 && own_list < n_lists, "the own list is one of them");
            const petacomm::RowLists lists{starts.data(), lengths.data(), length(starts.shape(0))};
            nb::gil_scoped_release release;
            petacomm::combine_lists(received.data(), lists, bounds.data(), n_lists, own_list,
                                    data_or_null(own), length(values.shape(0)), length(values.shape(1)),
                                    operation, values.data(), n_threads);
        },
        nb::arg("received").noconvert(), nb::arg("starts").noconvert(), nb::arg("lengths").noconvert(),
        nb::arg("bounds").noconvert(), nb::arg("own_list"), nb::arg("own").noconvert().none(),
        nb::arg("operation"), nb::arg("values").noconvert(), nb::arg("n_threads"));
}

void bind_lattice(nb::module_& module) {
    module.def(
        "hop_sites",
        [](In<double, 3> links, In<std::int32_t, 2> neighbours, In<double, 2> field, In<std::int32_t> sites,
           Out<double, 2> out, int n_threads) {
            require(links.shape(2) == 18 && field.shape(1) == 6 && out.shape(1) == 6, "3x3 complex matrices");
            require(links.shape(0) == neighbours.shape(0) && links.shape(1) == neighbours.shape(1),
                    "a link to each neighbour");
            const auto n_sites = static_cast<std::int64_t>(std::min(links.shape(0), out.shape(0)));
            const auto n_rows = static_cast<std::int64_t>(field.shape(0));
            const auto inside = [](const std::int32_t* values, std::size_t n, std::int64_t limit) {
                return std::all_of(values, values + n, [=](auto v) { return v >= 0 && v < limit; });
            };
            require(inside(sites.data(), sites.shape(0), n_sites), "sites that are there");
            require(inside(neighbours.data(), neighbours.size(), n_rows), "neighbours that are there");
            nb::gil_scoped_release release;
            petacomm::hop_sites(links.data(), neighbours.data(), static_cast<std::int64_t>(links.shape(1)),
                                field.data(), sites.data(), static_cast<std::int64_t>(sites.shape(0)),
                                out.data(), n_threads);
        },
        nb::arg("links").noconvert(), nb::arg("neighbours").noconvert(), nb::arg("field").noconvert(),
        nb::arg("sites").noconvert(), nb::arg("out").noconvert(), nb::arg("n_threads"));
}

}  // namespace

NB_MODULE(_redistribution, module) {
    nb::enum_<petacomm::Operation>(module, "Operation")
        .value("sum", petacomm::Operation::sum)
        .value("max", petacomm::Operation::max)
        .value("min", petacomm::Operation::min)
        .value("bit_or", petacomm::Operation::bit_or);
    bind_cut_lists(module);
    bind_row_lists<std::int64_t>(module);
    bind_row_lists<double>(module);
    bind_row_lists<float>(module);
    bind_row_lists<std::uint8_t>(module);
    bind_lattice(module);
}

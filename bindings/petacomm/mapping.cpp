// petacomm.mapping._mapping: vertices of graphs placed on the nodes of a network.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <vector>

#include "../arrays.h"
#include "petacomm/mapping/strategies.h"

namespace nb = nanobind;
using namespace bindings;
using namespace petacomm;

namespace {

void require_nodes(const petacomm::Routes& routes, const In<std::int32_t>& nodes) {
    for (std::size_t i = 0; i < nodes.shape(0); ++i) {
        require(nodes.data()[i] >= 0 && nodes.data()[i] < routes.n_nodes(), "nodes of the network");
    }
}

petacomm::Exchange exchange_of(const In<std::int64_t>& offsets, const In<std::int32_t>& partners,
                               const In<double>& to, const In<double>& from) {
    require(offsets.shape(0) >= 1 && partners.shape(0) == to.shape(0) && to.shape(0) == from.shape(0),
            "bytes to and from each partner");
    return {static_cast<std::int32_t>(offsets.shape(0) - 1), offsets.data(), partners.data(), to.data(),
            from.data()};
}

void bind_mapping(nb::module_& module) {
    module.def(
        "place_greedily",
        [](const Routes& routes, In<std::int64_t> offsets, In<std::int32_t> partners, In<double> to,
           In<double> from, In<std::int32_t> order, int ranks_per_node, Out<std::int32_t> nodes) {
            const Exchange graph = exchange_of(offsets, partners, to, from);
            require(static_cast<std::int32_t>(nodes.shape(0)) == graph.n, "a node for each vertex");
            require(static_cast<std::int32_t>(order.shape(0)) == routes.n_nodes(), "each node once");
            require(graph.n <= std::int64_t{ranks_per_node} * routes.n_nodes(), "room for all");
            require_nodes(routes, order);
            nb::gil_scoped_release release;
            place_greedily(routes, graph, order.data(), ranks_per_node, nodes.data());
        },
        nb::arg("routes"), nb::arg("offsets").noconvert(), nb::arg("partners").noconvert(),
        nb::arg("to").noconvert(), nb::arg("from_").noconvert(), nb::arg("order").noconvert(),
        nb::arg("ranks_per_node"), nb::arg("nodes").noconvert());
    module.def(
        "place_by_bisection",
        [](const Routes& routes, In<std::int64_t> offsets, In<std::int32_t> partners, In<double> to,
           In<double> from, In<std::int32_t, 2> cuts, In<std::int32_t> order, int ranks_per_node, int passes,
           Out<std::int32_t> nodes) {
            const Exchange graph = exchange_of(offsets, partners, to, from);
            require(static_cast<std::int32_t>(nodes.shape(0)) == graph.n, "a node for each vertex");
            require(static_cast<std::int32_t>(order.shape(0)) == routes.n_nodes(), "each node once");
            require(graph.n <= std::int64_t{ranks_per_node} * routes.n_nodes(), "room for all");
            require(cuts.shape(0) == 5, "low, middle, high, left and right of each cut");
            require_nodes(routes, order);
            const std::int32_t* rows = cuts.data();
            const std::size_t n = cuts.shape(1);
            nb::gil_scoped_release release;
            place_by_bisection(routes, graph,
                               {static_cast<std::int64_t>(n), rows, rows + n, rows + 2 * n, rows + 3 * n,
                                rows + 4 * n, order.data()},
                               ranks_per_node, passes, nodes.data());
        },
        nb::arg("routes"), nb::arg("offsets").noconvert(), nb::arg("partners").noconvert(),
        nb::arg("to").noconvert(), nb::arg("from_").noconvert(), nb::arg("cuts").noconvert(),
        nb::arg("order").noconvert(), nb::arg("ranks_per_node"), nb::arg("passes"),
        nb::arg("nodes").noconvert());
    module.def(
        "refine",
        [](const Routes& routes, In<std::int64_t> offsets, In<std::int32_t> partners, In<double> to,
           In<double> from, In<double> capacity, int ranks_per_node,
           const std::vector<std::tuple<int, std::int64_t, double>>& stages, std::uint64_t seed,
           Out<std::int32_t> nodes) {
            const Exchange graph = exchange_of(offsets, partners, to, from);
            require(static_cast<std::int32_t>(nodes.shape(0)) == graph.n, "a node for each vertex");
            require(static_cast<std::int64_t>(capacity.shape(0)) == routes.n_links,
                    "a capacity of each link");
            std::vector<Stage> made;
            for (const auto& [squarings, moves, threshold] : stages)
                made.push_back({squarings, moves, threshold});
            nb::gil_scoped_release release;
            refine(routes, graph, capacity.data(), ranks_per_node, made, seed, nodes.data());
        },
        nb::arg("routes"), nb::arg("offsets").noconvert(), nb::arg("partners").noconvert(),
        nb::arg("to").noconvert(), nb::arg("from_").noconvert(), nb::arg("capacity").noconvert(),
        nb::arg("ranks_per_node"), nb::arg("stages"), nb::arg("seed"), nb::arg("nodes").noconvert());
}

}  // namespace

NB_MODULE(_mapping, module) { bind_mapping(module); }

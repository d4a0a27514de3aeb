// petacomm.mapping._mapping: vertices of graphs placed on the nodes of a network.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "../arrays.h"
#include "petacomm/mapping/strategies.h"

namespace nb = nanobind;
using namespace bindings;
using namespace petacomm;

namespace {

// Ranks that all nodes have room for.
void require_ranks(const Routes& routes, int ranks_per_node, std::int32_t n) {
    require(ranks_per_node >= 1 && std::int64_t{ranks_per_node} * routes.n_nodes() < std::int64_t{1} << 31,
            "ranks_per_node: 1 or more, and less than 2^31 in all");
    require(n <= std::int64_t{ranks_per_node} * routes.n_nodes(), "ranks_per_node: room for all vertices");
}

void require_order(const Routes& routes, const In<std::int32_t>& order) {
    require(length(order.shape(0)) == routes.n_nodes() && all_within(order, 0, routes.n_nodes()),
            "order: each node once");
    std::vector<bool> seen(order.shape(0), false);
    for (std::size_t i = 0; i < order.shape(0); ++i) seen[static_cast<std::size_t>(order.data()[i])] = true;
    require(std::all_of(seen.begin(), seen.end(), [](bool one) { return one; }), "order: each node once");
}

void require_bytes(const In<double>& bytes) {
    // such that no sum of them over hops is infinite
    const auto holds = [](double value) { return value >= 0 && value <= 1e100; };
    require(std::all_of(bytes.data(), bytes.data() + bytes.shape(0), holds), "to, from_: bytes, 0 or more");
}

petacomm::Exchange exchange_of(const In<std::int64_t>& offsets, const In<std::int32_t>& partners,
                               const In<double>& to, const In<double>& from, std::size_t n_nodes) {
    require(partners.shape(0) == to.shape(0) && to.shape(0) == from.shape(0),
            "to, from_: bytes to and from each partner");
    require(are_offsets(offsets, length(partners.shape(0))), "offsets: of the partners of each vertex");
    require(offsets.shape(0) < std::size_t{1} << 31 && n_nodes == offsets.shape(0) - 1,
            "nodes: one for each vertex");
    require(all_within(partners, 0, length(n_nodes)), "partners: vertices that there are");
    require_bytes(to);
    require_bytes(from);
    return {static_cast<std::int32_t>(n_nodes), offsets.data(), partners.data(), to.data(), from.data()};
}

void require_cuts(const In<std::int32_t, 2>& cuts, std::int32_t n_nodes) {
    require(cuts.shape(0) == 5, "cuts: low, middle, high, left and right of each");
    const std::size_t n = cuts.shape(1);
    const std::int32_t *low = cuts.data(), *middle = low + n, *high = middle + n;
    for (std::size_t i = 0; i < n; ++i)
        require(low[i] >= 0 && low[i] < middle[i] && middle[i] < high[i] && high[i] <= n_nodes,
                "cuts: low < middle < high of the nodes");
    require(all_within(high + n, 2 * n, 0, n_nodes), "cuts: left and right nodes that there are");
}

// Vertices on nodes that have room for them.
void require_placed(const Out<std::int32_t>& nodes, std::int32_t n_nodes, int ranks_per_node) {
    require(all_within(nodes, 0, n_nodes), "nodes: that there are");
    std::vector<int> used(static_cast<std::size_t>(n_nodes), 0);
    for (std::size_t i = 0; i < nodes.shape(0); ++i)
        require(++used[static_cast<std::size_t>(nodes.data()[i])] <= ranks_per_node,
                "nodes: with room for all their vertices");
}

std::vector<Stage> stages_of(const std::vector<std::tuple<int, std::int64_t, double>>& given) {
    std::vector<Stage> stages;
    for (const auto& [squarings, moves, threshold] : given) {
        require(squarings >= petacomm::hop_bytes && squarings <= 64, "stages: 0 to 64 squarings, or -1");
        require(moves >= 0 && moves <= std::int64_t{1} << 30, "stages: 0 to 2^30 moves");
        stages.push_back({squarings, moves, threshold});
    }
    return stages;
}

void bind_mapping(nb::module_& module) {
    module.def("place_greedily",
               bindings::apart(+[](const Routes& routes, In<std::int64_t> offsets, In<std::int32_t> partners,
                                   In<double> to, In<double> from, In<std::int32_t> order, int ranks_per_node,
                                   Out<std::int32_t> nodes) {
                   const Exchange graph = exchange_of(offsets, partners, to, from, nodes.shape(0));
                   require_ranks(routes, ranks_per_node, graph.n);
                   require_order(routes, order);
                   nb::gil_scoped_release release;
                   place_greedily(routes, graph, order.data(), ranks_per_node, nodes.data());
               }),
               nb::arg("routes"), nb::arg("offsets").noconvert(), nb::arg("partners").noconvert(),
               nb::arg("to").noconvert(), nb::arg("from_").noconvert(), nb::arg("order").noconvert(),
               nb::arg("ranks_per_node"), nb::arg("nodes").noconvert());
    module.def(
        "place_by_bisection",
        bindings::apart(+[](const Routes& routes, In<std::int64_t> offsets, In<std::int32_t> partners,
                            In<double> to, In<double> from, In<std::int32_t, 2> cuts, In<std::int32_t> order,
                            int ranks_per_node, int passes, Out<std::int32_t> nodes) {
            const Exchange graph = exchange_of(offsets, partners, to, from, nodes.shape(0));
            require_ranks(routes, ranks_per_node, graph.n);
            require_order(routes, order);
            require_cuts(cuts, routes.n_nodes());
            const std::int32_t* rows = cuts.data();
            const std::size_t n = cuts.shape(1);
            nb::gil_scoped_release release;
            place_by_bisection(routes, graph,
                               {static_cast<std::int64_t>(n), rows, rows + n, rows + 2 * n, rows + 3 * n,
                                rows + 4 * n, order.data()},
                               ranks_per_node, passes, nodes.data());
        }),
        nb::arg("routes"), nb::arg("offsets").noconvert(), nb::arg("partners").noconvert(),
        nb::arg("to").noconvert(), nb::arg("from_").noconvert(), nb::arg("cuts").noconvert(),
        nb::arg("order").noconvert(), nb::arg("ranks_per_node"), nb::arg("passes"),
        nb::arg("nodes").noconvert());
    module.def("refine",
               bindings::apart(+[](const Routes& routes, In<std::int64_t> offsets, In<std::int32_t> partners,
                                   In<double> to, In<double> from, In<double> capacity, int ranks_per_node,
                                   const std::vector<std::tuple<int, std::int64_t, double>>& stages,
                                   std::uint64_t seed, Out<std::int32_t> nodes) {
                   const Exchange graph = exchange_of(offsets, partners, to, from, nodes.shape(0));
                   require_ranks(routes, ranks_per_node, graph.n);
                   require_placed(nodes, routes.n_nodes(), ranks_per_node);
                   const std::int64_t n = length(capacity.shape(0));
                   require(n == routes.n_links || n == routes.n_links + 2 * std::int64_t{routes.n_nodes()},
                           "capacity: one for each link, and each way between nodes and switches");
                   const std::vector<double> capacities(capacity.data(), capacity.data() + n);
                   const std::vector<Stage> made = stages_of(stages);
                   nb::gil_scoped_release release;
                   refine(routes, graph, capacities, ranks_per_node, made, seed, nodes.data());
               }),
               nb::arg("routes"), nb::arg("offsets").noconvert(), nb::arg("partners").noconvert(),
               nb::arg("to").noconvert(), nb::arg("from_").noconvert(), nb::arg("capacity").noconvert(),
               nb::arg("ranks_per_node"), nb::arg("stages"), nb::arg("seed"), nb::arg("nodes").noconvert());
}

}  // namespace

NB_MODULE(_mapping, module) { bind_mapping(module); }

// Ways through networks, and placing the vertices of graphs on nodes.
#pragma once

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <vector>

#include "arrays.h"
#include "petamap/comm/mapping.h"
#include "petamap/comm/ways.h"

namespace petamap::bindings {

inline void require_nodes(const comm::Ways& ways, const In<std::int32_t>& nodes) {
    for (std::size_t i = 0; i < nodes.shape(0); ++i) {
        require(nodes.data()[i] >= 0 && nodes.data()[i] < ways.n_nodes(), "nodes of the network");
    }
}

inline comm::Exchange exchange_of(const In<std::int64_t>& offsets, const In<std::int32_t>& partners,
                                  const In<double>& to, const In<double>& from) {
    require(offsets.shape(0) >= 1 && partners.shape(0) == to.shape(0) && to.shape(0) == from.shape(0),
            "bytes to and from each partner");
    return {static_cast<std::int32_t>(offsets.shape(0) - 1), offsets.data(), partners.data(), to.data(),
            from.data()};
}

template <typename Kind, typename... Arguments>
void make_ways(comm::Ways* made, const In<std::int32_t>& vertex, std::int64_t n_links,
               const Arguments&... arguments) {
    new (made) comm::Ways{Kind(arguments...),
                          std::vector<std::int32_t>(vertex.data(), vertex.data() + vertex.shape(0)), n_links};
}

inline void bind_ways(nanobind::module_& module) {
    namespace nb = nanobind;
    using namespace petamap::comm;
    nb::class_<Ways>(module, "Ways")
        .def(
            "__init__",
            [](Ways* made, const std::vector<int>& shape, const std::vector<bool>& wrap,
               In<std::int32_t> vertex, std::int64_t n_links) {
                require(shape.size() == wrap.size() && shape.size() <= 6, "up to 6 dimensions");
                make_ways<TorusWays>(made, vertex, n_links, shape, wrap);
            },
            nb::arg("shape"), nb::arg("wrap"), nb::arg("vertex").noconvert(), nb::arg("n_links"))
        .def(
            "__init__",
            [](Ways* made, const std::vector<int>& sizes, const std::vector<bool>& every, bool cliques,
               In<std::int32_t> vertex, std::int64_t n_links) {
                require(cliques && sizes.size() == every.size(), "cliques");
                make_ways<CliqueWays>(made, vertex, n_links, sizes, every);
            },
            nb::arg("sizes"), nb::arg("every"), nb::arg("cliques"), nb::arg("vertex").noconvert(),
            nb::arg("n_links"))
        .def(
            "__init__",
            [](Ways* made, const std::vector<int>& children, const std::vector<int>& parents,
               In<std::int32_t> vertex, std::int64_t n_links) {
                require(children.size() == parents.size(), "children and parents of each level");
                make_ways<FatTreeWays>(made, vertex, n_links, children, parents);
            },
            nb::arg("children"), nb::arg("parents"), nb::arg("vertex").noconvert(), nb::arg("n_links"))
        .def(
            "add_loads",
            [](const Ways& ways, In<std::int32_t> source, In<std::int32_t> destination, In<double> bytes,
               Out<double> loads) {
                require(source.shape(0) == destination.shape(0) && source.shape(0) == bytes.shape(0),
                        "bytes of each pair");
                require(static_cast<std::int64_t>(loads.shape(0)) == ways.n_links, "a load for each link");
                require_nodes(ways, source);
                require_nodes(ways, destination);
                nb::gil_scoped_release release;
                add_loads(ways, source.data(), destination.data(), bytes.data(),
                          static_cast<std::int64_t>(source.shape(0)), loads.data());
            },
            nb::arg("source").noconvert(), nb::arg("destination").noconvert(), nb::arg("bytes").noconvert(),
            nb::arg("loads").noconvert())
        .def(
            "count_hops",
            [](const Ways& ways, In<std::int32_t> source, In<std::int32_t> destination,
               Out<std::int32_t> hops) {
                require(source.shape(0) == destination.shape(0) && source.shape(0) == hops.shape(0),
                        "hops of each pair");
                require_nodes(ways, source);
                require_nodes(ways, destination);
                nb::gil_scoped_release release;
                count_hops(ways, source.data(), destination.data(),
                           static_cast<std::int64_t>(source.shape(0)), hops.data());
            },
            nb::arg("source").noconvert(), nb::arg("destination").noconvert(), nb::arg("hops").noconvert());
}

inline void bind_mapping(nanobind::module_& module) {
    namespace nb = nanobind;
    using namespace petamap::comm;
    module.def(
        "place_greedily",
        [](const Ways& ways, In<std::int64_t> offsets, In<std::int32_t> partners, In<double> to,
           In<double> from, In<std::int32_t> order, int ranks_per_node, Out<std::int32_t> nodes) {
            const Exchange graph = exchange_of(offsets, partners, to, from);
            require(static_cast<std::int32_t>(nodes.shape(0)) == graph.n, "a node for each vertex");
            require(static_cast<std::int32_t>(order.shape(0)) == ways.n_nodes(), "each node once");
            require(graph.n <= std::int64_t{ranks_per_node} * ways.n_nodes(), "room for all");
            require_nodes(ways, order);
            nb::gil_scoped_release release;
            place_greedily(ways, graph, order.data(), ranks_per_node, nodes.data());
        },
        nb::arg("ways"), nb::arg("offsets").noconvert(), nb::arg("partners").noconvert(),
        nb::arg("to").noconvert(), nb::arg("from_").noconvert(), nb::arg("order").noconvert(),
        nb::arg("ranks_per_node"), nb::arg("nodes").noconvert());
    module.def(
        "place_by_bisection",
        [](const Ways& ways, In<std::int64_t> offsets, In<std::int32_t> partners, In<double> to,
           In<double> from, In<std::int32_t, 2> cuts, In<std::int32_t> order, int ranks_per_node, int passes,
           Out<std::int32_t> nodes) {
            const Exchange graph = exchange_of(offsets, partners, to, from);
            require(static_cast<std::int32_t>(nodes.shape(0)) == graph.n, "a node for each vertex");
            require(static_cast<std::int32_t>(order.shape(0)) == ways.n_nodes(), "each node once");
            require(graph.n <= std::int64_t{ranks_per_node} * ways.n_nodes(), "room for all");
            require(cuts.shape(0) == 5, "low, middle, high, left and right of each cut");
            require_nodes(ways, order);
            const std::int32_t* rows = cuts.data();
            const std::size_t n = cuts.shape(1);
            nb::gil_scoped_release release;
            place_by_bisection(ways, graph,
                               {static_cast<std::int64_t>(n), rows, rows + n, rows + 2 * n, rows + 3 * n,
                                rows + 4 * n, order.data()},
                               ranks_per_node, passes, nodes.data());
        },
        nb::arg("ways"), nb::arg("offsets").noconvert(), nb::arg("partners").noconvert(),
        nb::arg("to").noconvert(), nb::arg("from_").noconvert(), nb::arg("cuts").noconvert(),
        nb::arg("order").noconvert(), nb::arg("ranks_per_node"), nb::arg("passes"),
        nb::arg("nodes").noconvert());
    module.def(
        "refine",
        [](const Ways& ways, In<std::int64_t> offsets, In<std::int32_t> partners, In<double> to,
           In<double> from, In<double> capacity, int ranks_per_node,
           const std::vector<std::tuple<int, std::int64_t, double>>& stages, std::uint64_t seed,
           Out<std::int32_t> nodes) {
            const Exchange graph = exchange_of(offsets, partners, to, from);
            require(static_cast<std::int32_t>(nodes.shape(0)) == graph.n, "a node for each vertex");
            require(static_cast<std::int64_t>(capacity.shape(0)) == ways.n_links, "a capacity of each link");
            std::vector<Stage> made;
            for (const auto& [squarings, moves, threshold] : stages)
                made.push_back({squarings, moves, threshold});
            nb::gil_scoped_release release;
            refine(ways, graph, capacity.data(), ranks_per_node, made, seed, nodes.data());
        },
        nb::arg("ways"), nb::arg("offsets").noconvert(), nb::arg("partners").noconvert(),
        nb::arg("to").noconvert(), nb::arg("from_").noconvert(), nb::arg("capacity").noconvert(),
        nb::arg("ranks_per_node"), nb::arg("stages"), nb::arg("seed"), nb::arg("nodes").noconvert());
}

}  // namespace petamap::bindings

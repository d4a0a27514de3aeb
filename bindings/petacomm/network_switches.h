// The packet simulator of networks of switches.
#pragma once

#include <nanobind/stl/vector.h>

#include <cstdint>
#include <vector>

#include "../arrays.h"
#include "../enumerators.h"
#include "network_runs.h"
#include "petacomm/network/switches.h"

template <>
struct bindings::Enumerators<petacomm::Routing> {
    static constexpr Enumerator<petacomm::Routing> all[] = {
        {petacomm::Routing::minimal, "minimal"}, {petacomm::Routing::valiant, "valiant"},
        {petacomm::Routing::ugal, "ugal"},       {petacomm::Routing::ugal_g, "ugal-g"},
        {petacomm::Routing::ugal_l, "ugal-l"},   {petacomm::Routing::ugal_l_vc, "ugal-l-vc"}};
    static constexpr auto type = nanobind::detail::const_name(
        "typing.Literal['minimal', 'valiant', 'ugal', 'ugal-g', 'ugal-l', 'ugal-l-vc']");
};

template <>
struct nanobind::detail::type_caster<petacomm::Routing> : EnumeratorCaster<petacomm::Routing> {};

namespace bindings {

// A network of switches and its tables, which runs share.
struct SwitchNetwork {
    petacomm::SwitchGraph graph;
    petacomm::SwitchTables tables;
    explicit SwitchNetwork(petacomm::SwitchGraph given) : graph(std::move(given)), tables(graph) {}
};

// What runs on it has: the hardware of nodes and links.
struct SwitchedHardware : petacomm::SwitchHardware {
    const SwitchNetwork* network = nullptr;
};

template <typename T>
std::vector<T> as_vector(const In<T>& array) {
    return {array.data(), array.data() + array.size()};
}

inline void require_graph(const petacomm::SwitchGraph& graph) {
    const std::size_t n = graph.tail.size();
    require(graph.n_nodes >= 1 && graph.n_vertices > graph.n_nodes && graph.n_vertices <= 1 << 26,
            "n_nodes, n_vertices: nodes and switches, up to 2^26");
    require(n <= std::size_t{1} << 24, "tail: up to 2^24 links");
    require(graph.head.size() == n && graph.length.size() == n && graph.rises.size() == n &&
                graph.kind.size() == n && length(graph.region.size()) == graph.n_vertices,
            "tail, head, length, rises, kind: one for each link; region: one for each vertex");
    require(all_within(graph.tail.data(), n, 0, graph.n_vertices) &&
                all_within(graph.head.data(), n, 0, graph.n_vertices),
            "tail, head: vertices that there are");
    require(all_within(graph.length.data(), n, 1, 1 << 16), "length: 1 to 2^16");
    require(all_within(graph.middles.data(), graph.middles.size(), graph.n_nodes, graph.n_vertices),
            "middles: switches that there are");
    require(all_within(graph.rises.data(), n, 0, 2), "rises: 0 or 1");
    std::vector<char> sends(graph.n_nodes);
    for (std::size_t i = 0; i < n; ++i) {
        require(graph.tail[i] >= graph.n_nodes || graph.head[i] >= graph.n_nodes,
                "tail, head: no links between nodes");
        if (graph.tail[i] < graph.n_nodes) sends[graph.tail[i]] = 1;
    }
    require(all_within(reinterpret_cast<const std::uint8_t*>(sends.data()), sends.size(), 1, 2),
            "tail: a link from each node");
}

template <>
struct Runs<SwitchedHardware> {
    static std::int64_t n_nodes(const SwitchedHardware& hardware) { return hardware.network->graph.n_nodes; }
    static std::int64_t n_links(const SwitchedHardware& hardware) {
        return hardware.network->graph.n_links();
    }
    static int n_outputs(const SwitchedHardware&) { return 0; }
    static bool keeps_apart(const SwitchedHardware& hardware) { return !hardware.message_gap.empty(); }
    static void check(const SwitchedHardware& h) {
        constexpr int most = 1 << 24;
        require(between(1, most, {h.granule, h.payload, h.channel}) && between(0, most, {h.header}),
                "hardware: granule, header, payload and channel of 1 to 2^24");
        const int packet = packing_of(h).granules(h.payload, 0);
        require(packet <= 255 && packet <= h.channel,
                "hardware: packets of up to 255 granules, which fit a channel");
        require(!h.ticks.empty() && h.ticks.size() == h.hop_ticks.size(),
                "hardware: ticks and hop_ticks of each kind of link");
        require(all_within(h.hop_ticks.data(), h.hop_ticks.size(), 1, most), "hop_ticks: 1 to 2^24");
        for (const auto& ticks : h.ticks)
            require(length(ticks.size()) == packet + 1 && all_within(ticks.data(), ticks.size(), 1, most),
                    "ticks: 1 to 2^24, for each size of a packet");
        require(h.message_gap.empty() || (length(h.message_gap.size()) == packet + 1 &&
                                          all_within(h.message_gap.data(), h.message_gap.size(), 1, most)),
                "message_gap: 1 to 2^24, for each size of a packet");
        const auto& kind = h.network->graph.kind;
        require(all_within(kind.data(), kind.size(), 0, length(h.ticks.size())), "kind: of hardware given");
        require(h.message_ticks >= 0 && h.message_ticks <= std::int64_t{1} << 40, "message_ticks: 0 to 2^40");
    }
    static petacomm::SwitchSimulator make(const SwitchedHardware& hardware, std::uint64_t seed) {
        return petacomm::SwitchSimulator(hardware.network->graph, hardware.network->tables, hardware, seed);
    }
};

inline void bind_switches(nb::module_& module) {
    nb::class_<SwitchNetwork>(module, "SwitchNetwork")
        .def(
            "__init__",
            [](SwitchNetwork* made, int n_nodes, int n_vertices, In<std::int32_t> tail, In<std::int32_t> head,
               In<std::int32_t> length, In<std::uint8_t> rises, In<std::uint8_t> kind,
               In<std::int32_t> region, In<std::int32_t> middles) {
                petacomm::SwitchGraph graph{n_nodes,         n_vertices,        as_vector(tail),
                                            as_vector(head), as_vector(length), as_vector(rises),
                                            as_vector(kind), as_vector(region), as_vector(middles)};
                require_graph(graph);
                nb::gil_scoped_release release;
                new (made) SwitchNetwork(std::move(graph));
            },
            nb::arg("n_nodes"), nb::arg("n_vertices"), nb::arg("tail").noconvert(),
            nb::arg("head").noconvert(), nb::arg("length").noconvert(), nb::arg("rises").noconvert(),
            nb::arg("kind").noconvert(), nb::arg("region").noconvert(), nb::arg("middles").noconvert())
        .def(
            "n_channels",
            [](const SwitchNetwork& network, bool detours) { return network.tables.n_channels(detours); },
            nb::arg("detours"))
        .def_prop_ro("memory", [](const SwitchNetwork& network) { return network.tables.memory(); });
    nb::class_<SwitchedHardware>(module, "SwitchHardware")
        .def(
            "__init__",
            [](SwitchedHardware* made, const SwitchNetwork& network) {
                new (made) SwitchedHardware();
                made->network = &network;
            },
            nb::arg("network"), nb::keep_alive<1, 2>())
        .def_rw("granule", &SwitchedHardware::granule)
        .def_rw("header", &SwitchedHardware::header)
        .def_rw("payload", &SwitchedHardware::payload)
        .def_rw("ticks", &SwitchedHardware::ticks)
        .def_rw("hop_ticks", &SwitchedHardware::hop_ticks)
        .def_rw("channel", &SwitchedHardware::channel)
        .def_rw("message_ticks", &SwitchedHardware::message_ticks)
        .def_rw("message_gap", &SwitchedHardware::message_gap)
        .def_rw("routing", &SwitchedHardware::routing);
    bind_runs<SwitchedHardware>(module);
}

}  // namespace bindings

// petacomm.network._network: packets on tori and networks of switches, and loads of links along routes.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "../arrays.h"
#include "../enumerators.h"
#include "network_runs.h"
#include "network_switches.h"
#include "petacomm/network/detours.h"
#include "petacomm/network/packets.h"
#include "petacomm/network/routes.h"

template <>
struct bindings::Enumerators<petacomm::Arbitration> {
    static constexpr Enumerator<petacomm::Arbitration> all[] = {
        {petacomm::Arbitration::round_robin, "round-robin"},
        {petacomm::Arbitration::longest_queue, "longest-queue"},
        {petacomm::Arbitration::farthest, "farthest"}};
    static constexpr auto type =
        nanobind::detail::const_name("typing.Literal['round-robin', 'longest-queue', 'farthest']");
};

template <>
struct bindings::Enumerators<petacomm::Tie> {
    static constexpr Enumerator<petacomm::Tie> all[] = {
        {petacomm::Tie::plus, "plus"}, {petacomm::Tie::parity, "parity"}, {petacomm::Tie::random, "random"}};
    static constexpr auto type = nanobind::detail::const_name("typing.Literal['plus', 'parity', 'random']");
};

template <>
struct nanobind::detail::type_caster<petacomm::Arbitration> : EnumeratorCaster<petacomm::Arbitration> {};
template <>
struct nanobind::detail::type_caster<petacomm::Tie> : EnumeratorCaster<petacomm::Tie> {};

namespace nb = nanobind;
using namespace bindings;
using namespace petacomm;

namespace bindings {

inline void require_hardware(const TorusHardware& h) {
    constexpr int most = 1 << 24;  // bytes, granules and ticks
    require(between(1, most, {h.granule, h.payload}) && between(0, most, {h.header}),
            "hardware: granule, header and payload of 1 to 2^24 bytes");
    require(h.packet >= 1 && h.packet <= 255 && packing_of(h).granules(h.payload, 0) <= h.packet,
            "hardware: packets of up to 255 granules, as long as header and payload");
    require(between(0.0, 0x1p20, {h.granule_ticks, h.overhead_ticks}),
            "hardware: granule_ticks and overhead_ticks from 0 to 2^20");
    require(between(0.0, 0x1p40, {h.read_ticks, h.write_ticks, h.packet_ticks, h.combine_ticks}),
            "hardware: ticks of the processor from 0 to 2^40");
    require(between(1, most, {h.hop_ticks}) && h.message_ticks >= 0 && between(0, most, {h.injection_room}),
            "hardware: hop_ticks from 1 on, message_ticks and injection_room from 0 on");
    require(between(0, 32767, {h.channel, h.injection_fifo}) && between(0, most, {h.reception_fifo}),
            "hardware: channel and injection_fifo of up to 32767 granules");
    require(between(0, 64, {h.channels}) && between(1, 64, {h.injection_fifos}) &&
                2 * h.n_dimensions * (h.channels + 1) + h.injection_fifos <= 64,
            "hardware: up to 64 queues of a node");
}

// How nodes, outputs of a node and simulators come of the hardware of a torus.
template <>
struct Runs<TorusHardware> {
    static std::int64_t n_nodes(const TorusHardware& hardware) { return hardware.n_nodes(); }
    static std::int64_t n_links(const TorusHardware& hardware) {
        return hardware.n_nodes() * n_outputs(hardware);
    }
    static int n_outputs(const TorusHardware& hardware) { return 2 * hardware.n_dimensions; }
    static bool keeps_apart(const TorusHardware&) { return false; }
    static void check(const TorusHardware& hardware) {
        require_hardware(hardware);
        require(hardware.n_nodes() <= std::int64_t{1} << 22, "hardware: up to 2^22 nodes");
    }
    static TorusSimulator make(const TorusHardware& hardware, std::uint64_t seed) {
        return TorusSimulator(hardware, seed);
    }
};

}  // namespace bindings

namespace {

// Vertices of a network: the largest machines of the world have 10^5 nodes.
constexpr std::int64_t most_vertices = std::int64_t{1} << 26;

void bind_torus(nb::module_& module) {
    nb::class_<TorusHardware>(module, "TorusHardware")
        .def("__init__",
             [](TorusHardware* made, const std::vector<int>& shape, const std::vector<bool>& wrap) {
                 require(shape.size() == wrap.size() && shape.size() <= most_dimensions,
                         "up to 6 dimensions");
                 new (made) TorusHardware();
                 made->n_dimensions = static_cast<int>(shape.size());
                 for (std::size_t d = 0; d < shape.size(); ++d) {
                     require(shape[d] > 0 && shape[d] <= (wrap[d] ? 254 : 128), "dimensions within limits");
                     made->shape[d] = shape[d];
                     made->wrap[d] = wrap[d] && shape[d] > 1;
                 }
             })
        .def_rw("granule", &TorusHardware::granule)
        .def_rw("header", &TorusHardware::header)
        .def_rw("payload", &TorusHardware::payload)
        .def_rw("packet", &TorusHardware::packet)
        .def_rw("granule_ticks", &TorusHardware::granule_ticks)
        .def_rw("overhead_ticks", &TorusHardware::overhead_ticks)
        .def_rw("hop_ticks", &TorusHardware::hop_ticks)
        .def_rw("channels", &TorusHardware::channels)
        .def_rw("channel", &TorusHardware::channel)
        .def_rw("injection_fifos", &TorusHardware::injection_fifos)
        .def_rw("injection_fifo", &TorusHardware::injection_fifo)
        .def_rw("reception_fifo", &TorusHardware::reception_fifo)
        .def_rw("read_ticks", &TorusHardware::read_ticks)
        .def_rw("write_ticks", &TorusHardware::write_ticks)
        .def_rw("combine_ticks", &TorusHardware::combine_ticks)
        .def_rw("packet_ticks", &TorusHardware::packet_ticks)
        .def_rw("message_ticks", &TorusHardware::message_ticks)
        .def_rw("injection_room", &TorusHardware::injection_room)
        .def_rw("transit_first", &TorusHardware::transit_first)
        .def_rw("fifo_by_direction", &TorusHardware::fifo_by_direction)
        .def_rw("early_release", &TorusHardware::early_release)
        .def_rw("arbitration", &TorusHardware::arbitration)
        .def_rw("tie", &TorusHardware::tie);
    bind_runs<TorusHardware>(module);
}

void require_nodes(const petacomm::Routes& routes, const In<std::int32_t>& nodes) {
    require(all_within(nodes, 0, routes.n_nodes()), "source, destination: nodes of the network");
}

template <typename Kind, typename... Arguments>
void make_routes(petacomm::Routes* made, const In<std::int32_t>& vertex, std::int64_t n_links,
                 const Arguments&... arguments) {
    Kind kind(arguments...);
    require(vertex.shape(0) >= 1 && vertex.shape(0) < std::size_t{1} << 31, "vertex: of at least one node");
    require(all_within(vertex, 0, kind.n_vertices()), "vertex: of the network");
    require(n_links == kind.n_links(), "n_links: those of the network");
    new (made) petacomm::Routes{
        std::move(kind), std::vector<std::int32_t>(vertex.data(), vertex.data() + vertex.shape(0)), n_links};
}

// Numbers of levels or dimensions, all positive, of which the product is not too large.
void require_product(const std::vector<int>& sizes, std::size_t most_levels, std::int64_t most,
                     const char* what) {
    require(sizes.size() <= most_levels, what);
    std::int64_t product = 1;
    for (const int size : sizes) {
        require(size >= 1 && size <= most / product, what);
        product *= size;
    }
}

void require_tree(const std::vector<int>& children, const std::vector<int>& parents) {
    require(children.size() == parents.size(), "children, parents: one of each level");
    require_product(children, 26, most_vertices, "children: up to 2^26 vertices");
    require_product(parents, 26, std::int64_t{1} << 30, "parents: up to 2^30 copies of a switch");
}

void bind_routes(nb::module_& module) {
    nb::class_<Routes>(module, "Routes")
        .def(
            "__init__",
            [](Routes* made, const std::vector<int>& shape, const std::vector<bool>& wrap,
               In<std::int32_t> vertex, std::int64_t n_links) {
                require(shape.size() == wrap.size(), "wrap: one for each dimension");
                require_product(shape, 6, most_vertices, "shape: up to 6 dimensions and 2^26 vertices");
                make_routes<TorusRoutes>(made, vertex, n_links, shape, wrap);
            },
            nb::arg("shape"), nb::arg("wrap"), nb::arg("vertex").noconvert(), nb::arg("n_links"))
        .def(
            "__init__",
            [](Routes* made, const std::vector<int>& sizes, const std::vector<int>& cables,
               const std::vector<bool>& consecutive, In<std::int32_t> vertex, std::int64_t n_links) {
                require(sizes.size() == cables.size() && sizes.size() == consecutive.size(),
                        "cables, consecutive: one for each of the sizes");
                constexpr int kMost = 1 << 20;
                require(std::ranges::all_of(cables, [](int n) { return n >= 0 && n <= kMost; }),
                        "cables: of pairs of groups, 0 where each vertex has a link");
                require_product(sizes, 16, most_vertices, "sizes: up to 16 levels and 2^26 vertices");
                make_routes<CliqueRoutes>(made, vertex, n_links, sizes, cables, consecutive);
            },
            nb::arg("sizes"), nb::arg("cables"), nb::arg("consecutive"), nb::arg("vertex").noconvert(),
            nb::arg("n_links"))
        .def(
            "__init__",
            [](Routes* made, const std::vector<int>& children, const std::vector<int>& parents,
               In<std::int32_t> vertex, std::int64_t n_links) {
                require_tree(children, parents);
                make_routes<FatTreeRoutes>(made, vertex, n_links, children, parents);
            },
            nb::arg("children"), nb::arg("parents"), nb::arg("vertex").noconvert(), nb::arg("n_links"))
        .def(
            "__init__",
            [](Routes* made, In<std::int32_t, 2> next, In<std::int32_t> head, In<std::int32_t> vertex,
               std::int64_t n_links) {
                require(next.shape(0) == next.shape(1) && next.shape(0) >= 1 && next.shape(0) <= 1 << 14,
                        "next: a link from each vertex to each, up to 2^14 of them");
                require(all_within(head, 0, length(next.shape(0))), "head: vertices that there are");
                const std::vector<std::int32_t> table(next.data(), next.data() + next.size());
                make_routes<TableRoutes>(made, vertex, n_links, table, as_vector(head));
            },
            nb::arg("next").noconvert(), nb::arg("head").noconvert(), nb::arg("vertex").noconvert(),
            nb::arg("n_links"))
        .def(
            "add_loads",
            [](const Routes& routes, In<std::int32_t> source, In<std::int32_t> destination, In<double> bytes,
               Out<double> loads) {
                require(source.shape(0) == destination.shape(0) && source.shape(0) == bytes.shape(0),
                        "bytes of each pair");
                require(static_cast<std::int64_t>(loads.shape(0)) == routes.n_links, "a load for each link");
                require_nodes(routes, source);
                require_nodes(routes, destination);
                nb::gil_scoped_release release;
                add_loads(routes, source.data(), destination.data(), bytes.data(),
                          static_cast<std::int64_t>(source.shape(0)), loads.data());
            },
            nb::arg("source").noconvert(), nb::arg("destination").noconvert(), nb::arg("bytes").noconvert(),
            nb::arg("loads").noconvert())
        .def(
            "add_detour_loads",
            [](const Routes& routes, In<std::int32_t> head, In<std::int32_t> region, In<std::int32_t> middles,
               In<std::int32_t> source, In<std::int32_t> destination, In<double> bytes, Out<double> loads) {
                const std::int64_t n_vertices =
                    std::visit([](const auto& kind) { return kind.n_vertices(); }, routes.kind);
                require(source.shape(0) == destination.shape(0) && source.shape(0) == bytes.shape(0),
                        "bytes of each pair");
                require(length(loads.shape(0)) == routes.n_links, "a load for each link");
                require(length(head.shape(0)) == routes.n_links && all_within(head, 0, n_vertices),
                        "head: a vertex of each link");
                require(length(region.shape(0)) == n_vertices && all_within(region, 0, n_vertices),
                        "region: of each vertex");
                require(all_within(middles, 0, n_vertices), "middles: vertices");
                require_nodes(routes, source);
                require_nodes(routes, destination);
                const Detours detours{as_vector(head), as_vector(region), as_vector(middles)};
                nb::gil_scoped_release release;
                add_detour_loads(routes, detours, source.data(), destination.data(), bytes.data(),
                                 length(source.shape(0)), loads.data());
            },
            nb::arg("head").noconvert(), nb::arg("region").noconvert(), nb::arg("middles").noconvert(),
            nb::arg("source").noconvert(), nb::arg("destination").noconvert(), nb::arg("bytes").noconvert(),
            nb::arg("loads").noconvert())
        .def(
            "count_hops",
            [](const Routes& routes, In<std::int32_t> source, In<std::int32_t> destination,
               Out<std::int32_t> hops) {
                require(source.shape(0) == destination.shape(0) && source.shape(0) == hops.shape(0),
                        "hops of each pair");
                require_nodes(routes, source);
                require_nodes(routes, destination);
                nb::gil_scoped_release release;
                count_hops(routes, source.data(), destination.data(),
                           static_cast<std::int64_t>(source.shape(0)), hops.data());
            },
            nb::arg("source").noconvert(), nb::arg("destination").noconvert(), nb::arg("hops").noconvert());
}

}  // namespace

NB_MODULE(_network, module) {
    bind_torus(module);
    bind_switches(module);
    bind_routes(module);
}

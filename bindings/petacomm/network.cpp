// petacomm.network._network: packets on tori, and loads of links along routes.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "../arrays.h"
#include "../enumerators.h"
#include "petacomm/network/programs.h"
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

namespace {

petacomm::Packing packing_of(const petacomm::TorusHardware& hardware) {
    return {hardware.granule, hardware.header, hardware.payload};
}

nb::typed<nb::dict, nb::str, nb::int_> as_dict(const petacomm::TorusCounts& counts,
                                               const petacomm::TorusSimulator& simulator) {
    nb::typed<nb::dict, nb::str, nb::int_> out;
    out["ticks"] = counts.ticks;
    out["packets"] = counts.packets;
    out["copies"] = counts.copies;
    out["hops"] = counts.hops;
    out["events"] = counts.events;
    out["escapes"] = counts.escapes;
    out["most_in_flight"] = counts.most_in_flight;
    out["in_flight"] = simulator.n_in_flight();
    out["memory"] = simulator.memory();
    return out;
}

// Raise what the handlers of signals that have arrived raise: a simulation may take minutes.
void raise_of_signals() {
    nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Bytes of a message; more would be simulated for ever.
constexpr std::int64_t most_bytes = std::int64_t{1} << 40;
// Vertices of a network: the largest machines of the world have 10^5 nodes.
constexpr std::int64_t most_vertices = std::int64_t{1} << 26;

// Whether each is at least `low` and at most `high`; false of what is no number.
template <typename T>
bool between(T low, T high, std::initializer_list<T> values) {
    return std::all_of(values.begin(), values.end(), [=](T value) { return value >= low && value <= high; });
}

void require_hardware(const TorusHardware& h) {
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

void require_room(const TorusHardware& hardware, std::size_t finish, std::size_t packets, std::size_t bytes) {
    require_hardware(hardware);
    const std::int64_t n = hardware.n_nodes(), links = n * 2 * hardware.n_dimensions;
    require(length(finish) == n, "finish: a place for each node");
    require(length(packets) == links, "link_packets: a place for each link");
    require(length(bytes) == links, "link_bytes: a place for each link");
    require(n <= std::int64_t{1} << 22, "hardware: up to 2^22 nodes");
}

void require_messages(const Messages& m, std::int64_t n_nodes, int n_dimensions, std::size_t n_after) {
    const auto n = static_cast<std::size_t>(m.n);
    require(all_within(m.source, n, 0, n_nodes), "source: nodes that there are");
    require(all_within(m.destination, n, 0, n_nodes), "destination: nodes that there are");
    for (std::size_t i = 0; i < n; ++i)
        require(m.source[i] != m.destination[i], "destination: other nodes than the source");
    require(all_within(m.bytes, n, 0, most_bytes + 1), "bytes: 0 to 2^40");
    require(all_within(m.heading, n, -1, 2 * n_dimensions), "heading: outputs, or -1");
    require(are_offsets(m.after_first, n + 1, length(n_after)) && m.after_first[0] == 0 &&
                m.after_first[m.n] == length(n_after),
            "after_first: of lists of messages");
    require(all_within(m.after, n_after, 0, m.n), "after: messages that there are");
    require(m.segment >= 0 && m.segment <= most_bytes, "segment: 0 to 2^40 bytes");
}

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
    module.def(
        "simulate_all_to_all",
        [](const TorusHardware& hardware, In<std::int32_t> permutation, std::int64_t bytes,
           std::optional<In<std::int64_t, 2>> matrix, int packets_a_visit, std::uint64_t seed,
           Out<std::int64_t> finish, Out<std::int64_t> link_packets, Out<std::int64_t> link_bytes) {
            const std::int64_t n = hardware.n_nodes();
            require_room(hardware, finish.shape(0), link_packets.shape(0), link_bytes.shape(0));
            require(length(permutation.shape(0)) == n && all_within(permutation, 0, n),
                    "permutation: each node once");
            require(matrix || (bytes >= 0 && bytes <= most_bytes), "bytes: 0 to 2^40");
            require(!matrix || (length(matrix->shape(0)) == n && length(matrix->shape(1)) == n),
                    "matrix: bytes of each pair");
            require(!matrix || all_within(*matrix, 0, most_bytes + 1), "matrix: 0 to 2^40");
            require(packets_a_visit >= 1, "packets_a_visit: 1 or more");
            TorusSimulator simulator(hardware, seed);
            AllToAllProgram program(n, permutation.data(), bytes, matrix ? matrix->data() : nullptr,
                                    packets_a_visit, packing_of(hardware));
            TorusCounts counts;
            {
                nb::gil_scoped_release release;
                counts = simulator.run(program, finish.data(), link_packets.data(), link_bytes.data(),
                                       raise_of_signals);
            }
            return as_dict(counts, simulator);
        },
        nb::arg("hardware"), nb::arg("permutation").noconvert(), nb::arg("bytes"),
        nb::arg("matrix").noconvert().none(), nb::arg("packets_a_visit"), nb::arg("seed"),
        nb::arg("finish").noconvert(), nb::arg("link_packets").noconvert(),
        nb::arg("link_bytes").noconvert());
    module.def(
        "simulate_messages",
        [](const TorusHardware& hardware, In<std::int32_t> source, In<std::int32_t> destination,
           In<std::int64_t> bytes, In<std::uint8_t> flags, In<std::int8_t> heading,
           In<std::int32_t> receivers, In<std::int64_t> after_first, In<std::int32_t> after,
           std::int64_t segment, std::uint64_t seed, Out<std::int64_t> finish, Out<std::int64_t> link_packets,
           Out<std::int64_t> link_bytes) {
            const auto n = static_cast<std::int64_t>(source.shape(0));
            require_room(hardware, finish.shape(0), link_packets.shape(0), link_bytes.shape(0));
            require(destination.size() == source.size() && bytes.size() == source.size() &&
                        flags.size() == source.size() && heading.size() == source.size() &&
                        receivers.size() == source.size() && after_first.size() == source.size() + 1,
                    "source, destination, bytes, flags, heading, receivers: one for each message");
            require(all_within(receivers, 0, hardware.n_nodes() + 1), "receivers: up to all nodes");
            Messages messages{n,
                              source.data(),
                              destination.data(),
                              bytes.data(),
                              flags.data(),
                              heading.data(),
                              after_first.data(),
                              after.data(),
                              segment};
            require_messages(messages, hardware.n_nodes(), hardware.n_dimensions, after.size());
            TorusSimulator simulator(hardware, seed);
            MessageProgram program(messages, receivers.data(), hardware.n_nodes(), packing_of(hardware));
            TorusCounts counts;
            {
                nb::gil_scoped_release release;
                counts = simulator.run(program, finish.data(), link_packets.data(), link_bytes.data(),
                                       raise_of_signals);
            }
            auto out = as_dict(counts, simulator);
            out["waiting"] = program.n_waiting();
            out["first_waiting"] = program.first_waiting();
            return out;
        },
        nb::arg("hardware"), nb::arg("source").noconvert(), nb::arg("destination").noconvert(),
        nb::arg("bytes").noconvert(), nb::arg("flags").noconvert(), nb::arg("heading").noconvert(),
        nb::arg("receivers").noconvert(), nb::arg("after_first").noconvert(), nb::arg("after").noconvert(),
        nb::arg("segment"), nb::arg("seed"), nb::arg("finish").noconvert(),
        nb::arg("link_packets").noconvert(), nb::arg("link_bytes").noconvert());
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
            [](Routes* made, const std::vector<int>& sizes, const std::vector<int>& cables, bool cliques,
               In<std::int32_t> vertex, std::int64_t n_links) {
                require(cliques && sizes.size() == cables.size(), "cables: one for each of the sizes");
                constexpr int kMost = 1 << 20;
                require(std::ranges::all_of(cables, [](int n) { return n >= 0 && n <= kMost; }),
                        "cables: of pairs of groups, 0 where each vertex has a link");
                require_product(sizes, 16, most_vertices, "sizes: up to 16 levels and 2^26 vertices");
                make_routes<CliqueRoutes>(made, vertex, n_links, sizes, cables);
            },
            nb::arg("sizes"), nb::arg("cables"), nb::arg("cliques"), nb::arg("vertex").noconvert(),
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
    bind_routes(module);
}

// petacomm.network._network: packets on tori, and loads of links along routes.
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "../arrays.h"
#include "petacomm/network/programs.h"
#include "petacomm/network/routes.h"

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

void require_room(const petacomm::TorusHardware& hardware, std::size_t finish, std::size_t packets,
                  std::size_t bytes) {
    const auto n = static_cast<std::size_t>(hardware.n_nodes());
    const std::size_t links = n * 2 * hardware.n_dimensions;
    require(finish == n && packets == links && bytes == links, "a place for each node and each link");
    const int queues = 2 * hardware.n_dimensions * (hardware.channels + 1) + hardware.injection_fifos;
    require(queues <= 64 && hardware.packet < 256 && hardware.hop_ticks > 0, "hardware within limits");
}

void bind_torus(nb::module_& module) {
    nb::enum_<Arbitration>(module, "Arbitration")
        .value("round_robin", Arbitration::round_robin)
        .value("longest_queue", Arbitration::longest_queue)
        .value("farthest", Arbitration::farthest);
    nb::enum_<Tie>(module, "Tie")
        .value("plus", Tie::plus)
        .value("parity", Tie::parity)
        .value("random", Tie::random);
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
            require(static_cast<std::int64_t>(permutation.shape(0)) == n, "each node once");
            require(!matrix || static_cast<std::int64_t>(matrix->size()) == n * n, "bytes of each pair");
            require(packets_a_visit >= 1, "packets a visit");
            TorusSimulator simulator(hardware, seed);
            AllToAllProgram program(n, permutation.data(), bytes, matrix ? matrix->data() : nullptr,
                                    packets_a_visit, packing_of(hardware));
            TorusCounts counts;
            {
                nb::gil_scoped_release release;
                counts = simulator.run(program, finish.data(), link_packets.data(), link_bytes.data());
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
                    "one of each for every message");
            require(after_first.data()[n] == static_cast<std::int64_t>(after.size()), "offsets of all");
            Messages messages{n,
                              source.data(),
                              destination.data(),
                              bytes.data(),
                              flags.data(),
                              heading.data(),
                              after_first.data(),
                              after.data(),
                              segment};
            TorusSimulator simulator(hardware, seed);
            MessageProgram program(messages, receivers.data(), hardware.n_nodes(), packing_of(hardware));
            TorusCounts counts;
            {
                nb::gil_scoped_release release;
                counts = simulator.run(program, finish.data(), link_packets.data(), link_bytes.data());
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
    for (std::size_t i = 0; i < nodes.shape(0); ++i) {
        require(nodes.data()[i] >= 0 && nodes.data()[i] < routes.n_nodes(), "nodes of the network");
    }
}

template <typename Kind, typename... Arguments>
void make_routes(petacomm::Routes* made, const In<std::int32_t>& vertex, std::int64_t n_links,
                 const Arguments&... arguments) {
    new (made)
        petacomm::Routes{Kind(arguments...),
                         std::vector<std::int32_t>(vertex.data(), vertex.data() + vertex.shape(0)), n_links};
}

void bind_routes(nb::module_& module) {
    nb::class_<Routes>(module, "Routes")
        .def(
            "__init__",
            [](Routes* made, const std::vector<int>& shape, const std::vector<bool>& wrap,
               In<std::int32_t> vertex, std::int64_t n_links) {
                require(shape.size() == wrap.size() && shape.size() <= 6, "up to 6 dimensions");
                make_routes<TorusRoutes>(made, vertex, n_links, shape, wrap);
            },
            nb::arg("shape"), nb::arg("wrap"), nb::arg("vertex").noconvert(), nb::arg("n_links"))
        .def(
            "__init__",
            [](Routes* made, const std::vector<int>& sizes, const std::vector<bool>& every, bool cliques,
               In<std::int32_t> vertex, std::int64_t n_links) {
                require(cliques && sizes.size() == every.size(), "cliques");
                make_routes<CliqueRoutes>(made, vertex, n_links, sizes, every);
            },
            nb::arg("sizes"), nb::arg("every"), nb::arg("cliques"), nb::arg("vertex").noconvert(),
            nb::arg("n_links"))
        .def(
            "__init__",
            [](Routes* made, const std::vector<int>& children, const std::vector<int>& parents,
               In<std::int32_t> vertex, std::int64_t n_links) {
                require(children.size() == parents.size(), "children and parents of each level");
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

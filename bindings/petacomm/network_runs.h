// Runs of the packet simulators: the same calls for each kind of network.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "../arrays.h"
#include "petacomm/network/programs.h"

namespace bindings {

namespace nb = nanobind;

// Bytes of a message; more would be simulated for ever.
constexpr std::int64_t most_bytes = std::int64_t{1} << 40;

// Of the hardware of a kind of network: static functions n_nodes, n_links, n_outputs (of a node, by which
// messages may go straight on), keeps_apart (whether packets of a message do), check (which raises
// ValueError) and make, which makes its simulator.
template <class Hardware>
struct Runs;

template <class Hardware>
petacomm::Packing packing_of(const Hardware& hardware) {
    return {hardware.granule, hardware.header, hardware.payload};
}

// Whether each is at least `low` and at most `high`; false of what is no number.
template <typename T>
bool between(T low, T high, std::initializer_list<T> values) {
    return std::all_of(values.begin(), values.end(), [=](T value) { return value >= low && value <= high; });
}

// Raise what the handlers of signals that have arrived raise: a simulation may take minutes.
inline void raise_of_signals() {
    nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

inline void require_messages(const petacomm::Messages& m, std::int64_t n_nodes, int n_outputs,
                             std::size_t n_after) {
    const auto n = static_cast<std::size_t>(m.n);
    require(all_within(m.source, n, 0, n_nodes), "source: nodes that there are");
    require(all_within(m.destination, n, 0, n_nodes), "destination: nodes that there are");
    for (std::size_t i = 0; i < n; ++i)
        require(m.source[i] != m.destination[i], "destination: other nodes than the source");
    require(all_within(m.bytes, n, 0, most_bytes + 1), "bytes: 0 to 2^40");
    require(all_within(m.heading, n, -1, n_outputs), "heading: outputs, or -1");
    require(are_offsets(m.after_first, n + 1, length(n_after)) && m.after_first[0] == 0 &&
                m.after_first[m.n] == length(n_after),
            "after_first: of lists of messages");
    require(all_within(m.after, n_after, 0, m.n), "after: messages that there are");
    require(m.segment >= 0 && m.segment <= most_bytes, "segment: 0 to 2^40 bytes");
}

template <class Hardware>
void require_room(const Hardware& hardware, std::size_t finish, std::size_t packets, std::size_t bytes) {
    Runs<Hardware>::check(hardware);
    require(length(finish) == Runs<Hardware>::n_nodes(hardware), "finish: a place for each node");
    require(length(packets) == Runs<Hardware>::n_links(hardware), "link_packets: a place for each link");
    require(length(bytes) == Runs<Hardware>::n_links(hardware), "link_bytes: a place for each link");
}

template <class Hardware>
nb::typed<nb::dict, nb::str, nb::int_> run_program(const Hardware& hardware, petacomm::Program& program,
                                                   std::uint64_t seed, const Out<std::int64_t>& finish,
                                                   const Out<std::int64_t>& link_packets,
                                                   const Out<std::int64_t>& link_bytes) {
    auto simulator = Runs<Hardware>::make(hardware, seed);
    const petacomm::PacketCounts counts = without_gil([&] {
        return simulator.run(program, finish.data(), link_packets.data(), link_bytes.data(),
                             raise_of_signals);
    });
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

template <class Hardware>
void bind_all_to_all(nb::module_& module) {
    module.def("simulate_all_to_all",
               bindings::apart(+[](const Hardware& hardware, In<std::int32_t> permutation, std::int64_t bytes,
                                   std::optional<In<std::int64_t, 2>> matrix, int packets_a_visit,
                                   std::uint64_t seed, Out<std::int64_t> finish,
                                   Out<std::int64_t> link_packets, Out<std::int64_t> link_bytes) {
                   require_room(hardware, finish.shape(0), link_packets.shape(0), link_bytes.shape(0));
                   const std::int64_t n = Runs<Hardware>::n_nodes(hardware);
                   require(length(permutation.shape(0)) == n && all_within(permutation, 0, n),
                           "permutation: each node once");
                   require(matrix || (bytes >= 0 && bytes <= most_bytes), "bytes: 0 to 2^40");
                   require(!matrix || (length(matrix->shape(0)) == n && length(matrix->shape(1)) == n),
                           "matrix: bytes of each pair");
                   require(!matrix || all_within(*matrix, 0, most_bytes + 1), "matrix: 0 to 2^40");
                   require(packets_a_visit >= 1, "packets_a_visit: 1 or more");
                   petacomm::AllToAllProgram program(n, permutation.data(), bytes,
                                                     matrix ? matrix->data() : nullptr, packets_a_visit,
                                                     packing_of(hardware));
                   return run_program(hardware, program, seed, finish, link_packets, link_bytes);
               }),
               nb::arg("hardware"), nb::arg("permutation").noconvert(), nb::arg("bytes"),
               nb::arg("matrix").noconvert().none(), nb::arg("packets_a_visit"), nb::arg("seed"),
               nb::arg("finish").noconvert(), nb::arg("link_packets").noconvert(),
               nb::arg("link_bytes").noconvert());
}

template <class Hardware>
void bind_messages(nb::module_& module) {
    module.def(
        "simulate_messages",
        bindings::apart(+[](const Hardware& hardware, In<std::int32_t> source, In<std::int32_t> destination,
                            In<std::int64_t> bytes, In<std::uint8_t> flags, In<std::int8_t> heading,
                            In<std::int32_t> receivers, In<std::int64_t> after_first, In<std::int32_t> after,
                            std::int64_t segment, std::uint64_t seed, Out<std::int64_t> finish,
                            Out<std::int64_t> link_packets, Out<std::int64_t> link_bytes) {
            require_room(hardware, finish.shape(0), link_packets.shape(0), link_bytes.shape(0));
            const std::int64_t n_nodes = Runs<Hardware>::n_nodes(hardware);
            require(destination.size() == source.size() && bytes.size() == source.size() &&
                        flags.size() == source.size() && heading.size() == source.size() &&
                        receivers.size() == source.size() && after_first.size() == source.size() + 1,
                    "source, destination, bytes, flags, heading, receivers: one for each message");
            require(all_within(receivers, 0, n_nodes + 1), "receivers: up to all nodes");
            const petacomm::Messages messages{
                length(source.shape(0)), source.data(),      destination.data(), bytes.data(), flags.data(),
                heading.data(),          after_first.data(), after.data(),       segment};
            require_messages(messages, n_nodes, Runs<Hardware>::n_outputs(hardware), after.size());
            petacomm::MessageProgram program(messages, receivers.data(), n_nodes, packing_of(hardware),
                                             Runs<Hardware>::keeps_apart(hardware));
            auto out = run_program(hardware, program, seed, finish, link_packets, link_bytes);
            out["waiting"] = program.n_waiting();
            out["first_waiting"] = program.first_waiting();
            return out;
        }),
        nb::arg("hardware"), nb::arg("source").noconvert(), nb::arg("destination").noconvert(),
        nb::arg("bytes").noconvert(), nb::arg("flags").noconvert(), nb::arg("heading").noconvert(),
        nb::arg("receivers").noconvert(), nb::arg("after_first").noconvert(), nb::arg("after").noconvert(),
        nb::arg("segment"), nb::arg("seed"), nb::arg("finish").noconvert(),
        nb::arg("link_packets").noconvert(), nb::arg("link_bytes").noconvert());
}

template <class Hardware>
void bind_runs(nb::module_& module) {
    bind_all_to_all<Hardware>(module);
    bind_messages<Hardware>(module);
}

}  // namespace bindings

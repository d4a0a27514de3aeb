// Packets on a network of switches: virtual cut-through, credits, and virtual channels that rise along
// routes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "petacomm/network/packet_pool.h"
#include "petacomm/network/program.h"
#include "petacomm/network/switch_tables.h"
#include "petacomm/network/wheel.h"

namespace petacomm {

// Shortest routes; by way of a switch of another region, drawn at random (Valiant 1982); the one of both
// whose queue, times hops, is the shorter (UGAL, Singh 2005). Kim et al. 2008 have four kinds of queues:
// `ugal` is UGAL-L_VCH.
enum class Routing { minimal, valiant, ugal, ugal_g, ugal_l, ugal_l_vc };

// Times in ticks, sizes in granules. Of links by kind.
struct SwitchHardware {
    int granule = 32, header = 16, payload = 240;  // bytes
    std::vector<std::vector<std::int32_t>> ticks;  // for which a packet of so many granules holds a link
    std::vector<std::int32_t> hop_ticks;           // until the header is beyond the link
    int channel = 64;                              // granules of each channel of a link
    std::int64_t message_ticks = 0;                // of a node, for each message begun
    // From a packet of so many granules to the next of its message; empty if packets need not keep apart.
    std::vector<std::int32_t> message_gap;
    Routing routing = Routing::minimal;
};

class SwitchSimulator {
  public:
    SwitchSimulator(const SwitchGraph& graph, const SwitchTables& tables, const SwitchHardware& hardware,
                    std::uint64_t seed);

    // Run until nothing happens any more. `finish` (n_nodes): the tick at which each node last ended
    // something. `link_packets`, `link_bytes` (n_links). `look` is called every few milliseconds; what it
    // throws ends the run.
    PacketCounts run(
        Program& program, std::int64_t* finish, std::int64_t* link_packets, std::int64_t* link_bytes,
        const std::function<void()>& look = [] {});

    // Packets sent that no node has received; 0 after a run, unless there is a deadlock.
    std::int64_t n_in_flight() const { return packets_.n(); }

    std::int64_t memory() const;

  private:
    struct Packet {
        std::int32_t next;                  // in its queue
        std::int32_t message, destination;  // a node
        std::int32_t digits;                // of the destination, which choose links of packets in order
        std::int32_t middle;                // the stop by way of which it goes; -1 if none, or no more
        std::int32_t origin, link;          // a node; the link that it came by
        std::uint32_t number;               // among those of its origin
        std::uint8_t granules, flags;
        std::uint8_t channel, came_by;  // the one that it takes, and took
        std::uint8_t hops;
    };
    struct Queue {  // of a channel of a link: packets that wait for it, and room at its far end
        std::int32_t head = -1, tail = -1;
        std::int32_t room = 0, load = 0;  // granules; those of `load` wait, or fill the far end
    };
    struct Link {
        std::int32_t head = 0, tail = 0;  // vertices
        std::int32_t load = 0;            // granules that wait for it, or fill the buffers beyond it
        std::int32_t waiting = 0;
        std::uint8_t busy = 0, turn = 0, rises = 0, kind = 0;
    };
    struct Node {
        std::uint32_t made = 0;       // packets
        std::uint8_t has_packet = 0;  // that waits for a link, or is prepared
    };
    enum Kind : std::uint32_t { header, tail, credit, delivered, prepared, released };
    static constexpr int kind_bits = 3;  // of Event::what; the rest is the place

    void dispatch(const Event& event);
    void feed(std::int32_t node);
    void inject(std::int32_t node, std::int32_t packet);
    void arrive(std::int32_t link, std::int32_t packet);
    void deliver(std::int32_t node, std::int32_t packet);
    std::int32_t choose_link(Packet& packet, std::int32_t vertex);
    void choose_way(Packet& packet, std::int32_t vertex);
    bool is_shorter(const Packet& packet, std::int32_t vertex, std::int32_t middle) const;
    std::int32_t deciding_link(const Packet& packet, std::int32_t vertex, std::int32_t stop) const;
    std::int32_t draw_middle(const Packet& packet, std::int32_t here, std::int32_t there) const;
    std::int32_t next_link(Packet& packet, LinkSet links) const;
    std::int32_t least_loaded(const Packet& packet, LinkSet links) const;
    void append(std::int32_t link, std::int32_t packet);
    void serve(std::int32_t link);
    void start(std::int32_t link, int channel);
    std::uint32_t draw(const Packet& packet, int event, std::uint32_t n) const;
    void wake();
    bool is_node(std::int32_t vertex) const { return vertex < graph_.n_nodes; }
    void after(std::int64_t delay, Kind kind, std::int32_t place, std::int32_t packet) {
        wheel_.after(delay, {static_cast<std::uint32_t>(place) << kind_bits | kind, packet});
    }

    const SwitchGraph& graph_;
    const SwitchTables& tables_;
    const SwitchHardware hardware_;

    std::uint64_t seed_;
    int n_channels_;
    bool has_detours_;                 // there is a third region
    std::vector<std::int32_t> ticks_;  // (kinds, sizes)
    std::int32_t n_sizes_;
    std::vector<Link> links_;
    std::vector<Queue> queues_;  // (n_links, channels)
    std::vector<Node> nodes_;
    PacketPool<Packet> packets_;
    std::vector<std::int32_t> woken_;
    Wheel wheel_;
    Program* program_ = nullptr;
    PacketCounts counts_;
    std::int64_t *finish_ = nullptr, *link_packets_ = nullptr, *link_bytes_ = nullptr;
};

}  // namespace petacomm

// What the processors of a simulated network send: the interface between programs and routers.
#pragma once

#include <cstdint>
#include <vector>

namespace petacomm {

enum PacketFlag : std::uint8_t { adaptive = 1, deposit = 2, combined = 4, copied = 8 };

// What a program wants to be sent next.
struct Outgoing {
    std::int32_t destination = 0, message = 0;
    int granules = 1;
    std::uint8_t flags = adaptive;
    std::int8_t heading = -1;  // straight on by this output, even the longer way round; -1: a shortest way
    bool begins = false;       // a message: the processor pays for it
};

// What the processors do: which packets they send, and what follows from those that they have read.
class Program {
  public:
    virtual ~Program() = default;
    // The next packet of a node; false if it has none now.
    virtual bool next(std::int32_t node, Outgoing& out) = 0;
    // A node has read a packet of a message. Nodes that may go on now are added to `woken`.
    virtual void received(std::int32_t node, std::int32_t message, std::vector<std::int32_t>& woken) = 0;
    // Whether a message of which `next` gave a packet goes on when it is released, and not before.
    virtual bool waits_for_release(std::int32_t) const { return false; }
    virtual void release(std::int32_t) {}
};

// What a run of a simulator has seen.
struct PacketCounts {
    std::int64_t ticks = 0, packets = 0, copies = 0, hops = 0, events = 0, most_in_flight = 0, escapes = 0;
};

}  // namespace petacomm

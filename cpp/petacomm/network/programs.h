// What processors send: lists of messages that wait for others, and the randomized all-to-all.
#pragma once

#include <cstdint>
#include <vector>

#include "petacomm/network/program.h"

namespace petacomm {

// How bytes become packets: granules of packet `i` of a message. A message of no bytes is one small packet.
struct Packing {
    int granule, header, payload;

    std::int64_t n_packets(std::int64_t bytes) const {
        return bytes <= payload ? 1 : (bytes + payload - 1) / payload;
    }
    int granules(std::int64_t bytes, std::int64_t i) const {
        const std::int64_t rest = bytes - i * payload;
        return static_cast<int>((header + (rest < payload ? rest : payload) + granule - 1) / granule);
    }
};

enum MessageFlag : std::uint8_t { to_line = 1, combines = 2, in_order = 4, pipelined = 8 };

// Messages between nodes, one row each. Those that message i waits for are after[after_first[i]] to
// after[after_first[i + 1] - 1]: its source must have received them. Where i is pipelined its segment s waits
// for segment s of these alone.
struct Messages {
    std::int64_t n = 0;
    const std::int32_t *source = nullptr, *destination = nullptr;
    const std::int64_t* bytes = nullptr;
    const std::uint8_t* flags = nullptr;
    const std::int8_t* heading = nullptr;  // the output of those that go straight on; -1 of the others
    const std::int64_t* after_first = nullptr;
    const std::int32_t* after = nullptr;
    std::int64_t segment = 0;  // bytes
};

class MessageProgram : public Program {
  public:
    // `hops` (n): of a message to a line, nodes that receive it; 1 of the others. A run in which more nodes
    // do throws std::invalid_argument. `apart`: after each packet a message waits until it is released.
    MessageProgram(const Messages& messages, const std::int32_t* hops, std::int64_t n_nodes, Packing packing,
                   bool apart = false);

    bool next(std::int32_t node, Outgoing& out) override;
    void received(std::int32_t node, std::int32_t message, std::vector<std::int32_t>& woken) override;
    bool waits_for_release(std::int32_t message) const override {
        return apart_ && sent_[message] < packing_.n_packets(messages_.bytes[message]);
    }
    void release(std::int32_t message) override;

    // Messages that were never sent whole; 0 after a run, unless some wait for each other.
    std::int64_t n_waiting() const;
    // The first of these, -1 if there is none.
    std::int64_t first_waiting() const;

  private:
    struct Line {  // of ready messages of a node
        std::int32_t head = -1, tail = -1;
    };
    std::int64_t packets_in(std::int64_t message, std::int64_t segments) const;
    void set_ready(std::int32_t message);
    void update(std::int32_t message, std::vector<std::int32_t>& woken);
    std::int64_t segments_received(std::int32_t message, std::int32_t node) const;
    std::int64_t slot(std::int32_t message, std::int32_t node) const;

    Messages messages_;
    Packing packing_;
    bool apart_;
    std::int64_t segment_packets_;
    std::vector<Line> lines_;
    std::vector<std::int32_t> next_;            // in the line
    std::vector<std::uint8_t> in_line_;         // or held, until it is released
    std::vector<std::int64_t> sent_, allowed_;  // packets of each message
    std::vector<std::int64_t> before_first_;    // messages that wait for each message
    std::vector<std::int32_t> before_;
    std::vector<std::int64_t> slot_first_, counts_;  // packets received, by message and receiving node
    std::vector<std::int32_t> slot_node_;
};

// Every node sends to all others, k packets a visit, in the order of one permutation, from another place
// each.
class AllToAllProgram : public Program {
  public:
    // `permutation` (n_nodes). `bytes`: of each message, or null if `matrix` (n_nodes, n_nodes) has them.
    AllToAllProgram(std::int64_t n_nodes, const std::int32_t* permutation, std::int64_t bytes,
                    const std::int64_t* matrix, int packets_a_visit, Packing packing);

    bool next(std::int32_t node, Outgoing& out) override;
    void received(std::int32_t, std::int32_t, std::vector<std::int32_t>&) override {}

  private:
    struct State {
        std::int64_t round = 0;
        std::int32_t at = 0, in_visit = 0;
    };
    bool next_uneven(std::int32_t node, Outgoing& out);

    std::int64_t n_nodes_, bytes_;
    const std::int32_t* permutation_;
    const std::int64_t* matrix_;
    int packets_a_visit_;
    Packing packing_;
    std::vector<State> states_;
    std::vector<std::vector<std::int32_t>> lists_;  // destinations that are not exhausted
    std::vector<std::vector<std::int32_t>> sent_;   // packets to each of these
};

}  // namespace petacomm

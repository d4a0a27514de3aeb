// Packets on a torus or mesh: virtual cut-through, adaptive channels and a bubble escape channel.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "petacomm/network/packet_pool.h"
#include "petacomm/network/program.h"
#include "petacomm/network/wheel.h"

namespace petacomm {

constexpr int most_dimensions = 6;

// Which of the packets that could take a free link takes it.
enum class Arbitration { round_robin, longest_queue, farthest };
// Which way round a ring a packet goes whose destination is half a ring away.
enum class Tie { plus, parity, random };

// The machine. Times are in ticks, sizes of packets in granules.
struct TorusHardware {
    int n_dimensions = 0;
    std::array<int, most_dimensions> shape{};
    std::array<bool, most_dimensions> wrap{};
    int granule = 32, header = 16, payload = 240;    // bytes
    int packet = 8;                                  // granules of a full packet
    double granule_ticks = 128, overhead_ticks = 0;  // a packet of g granules holds a link for g a + b
    int hop_ticks = 49;                              // until the header is at the next node
    int channels = 2;                                // adaptive ones; the escape channel comes on top
    int channel = 32;                                // granules of each
    int injection_fifos = 6, injection_fifo = 32, reception_fifo = 32;
    double read_ticks = 204, write_ticks = 75;   // of a full packet; less for smaller ones
    double packet_ticks = 0, combine_ticks = 0;  // of each packet written or read, and combined, on top
    int message_ticks = 0;                       // of the processor, for each message begun
    int injection_room = 0;                      // granules that an injected packet must leave free
    bool transit_first = true;
    bool fifo_by_direction = true;  // a packet waits in that of its longest dimension, else in the emptiest
    bool early_release = true;      // a packet's room is free when it begins to leave, not when it has left
    Arbitration arbitration = Arbitration::round_robin;
    Tie tie = Tie::random;

    std::int64_t n_nodes() const;
};

struct Packet {
    std::int32_t next;     // in its queue
    std::int32_t message;  // as its program numbers them
    std::int32_t origin;   // node
    std::uint32_t number;  // among those of its origin
    std::uint8_t granules;
    std::uint8_t flags;
    std::uint8_t channel;                           // in which it travels
    std::array<std::int8_t, most_dimensions> left;  // hops to go, signed
};

class TorusSimulator {
  public:
    explicit TorusSimulator(const TorusHardware& hardware, std::uint64_t seed);

    // Run until nothing happens any more. `finish` (n_nodes): the tick at which each processor last ended
    // something. `link_packets`, `link_bytes` (n_nodes * 2 * n_dimensions): by node, dimension, + before -.
    // The counts say what was sent; a packet that never came is one that was sent and not received. `look` is
    // called every few milliseconds; what it throws ends the run.
    PacketCounts run(
        Program& program, std::int64_t* finish, std::int64_t* link_packets, std::int64_t* link_bytes,
        const std::function<void()>& look = [] {});

    // Packets sent that no processor has read; 0 after a run, unless there is a deadlock.
    std::int64_t n_in_flight() const { return packets_.n(); }

    // Bytes of memory for packets and queues, at the most packets in flight so far.
    std::int64_t memory() const;

  private:
    struct Queue {
        std::int32_t head = -1, tail = -1;
        std::int16_t room = 0;    // granules
        std::uint16_t wants = 0;  // outputs that the idle head could take
        std::uint8_t moving = 0;  // granules of the head that is leaving; 0 if none is
        std::uint8_t stuck = 0;   // the head waits for a reception FIFO
        std::uint16_t length = 0;
    };
    struct Link {
        std::uint64_t wanted = 0;  // queues of this node whose idle heads could take it
        std::int32_t target = -1;  // node
        std::uint8_t queue = 0;    // that sends on it
        std::uint8_t busy = 0;
        std::uint8_t turn = 0;
    };
    struct Processor {
        std::int32_t held = -1;  // packet that is being read or written
        std::uint32_t made = 0;  // packets
        std::uint32_t full = 0;  // reception FIFOs that hold packets, a bit each
        std::uint8_t busy = 0, reading = 0, turn = 0, fifo = 0, begins = 0;
    };
    struct Reception {
        std::int32_t head = -1, tail = -1;
        std::int32_t room = 0;
    };
    enum Kind : std::uint32_t { header, tail, delivered, copy, processor, credit };
    static constexpr int kind_bits = 3;  // of Event::what; the rest is the place

    void dispatch(const Event& event);
    void arrive(std::uint32_t link, std::int32_t packet);
    void leave(std::uint32_t link);
    void show_head(std::int32_t node, int queue);
    void try_head(std::int32_t node, int queue);
    void lay_links(std::int32_t node);
    void arbitrate(std::int32_t node, int output);
    int choose_queue(std::int32_t node, int output, std::uint64_t queues, int room, int& channel) const;
    int room_at(const Link& link, int output, int& channel) const;
    int channel_for(const Packet& packet, int queue, int output, const Link& link, int room, int best) const;
    void start(std::int32_t node, int output, int queue, int channel);
    void release(std::int32_t node, int queue, int granules);
    bool receive(std::int32_t node, int queue);
    void hand_over(std::int32_t node, int direction, std::int32_t packet);
    void work(std::int32_t node);
    bool begin_read(std::int32_t node);
    bool begin_write(std::int32_t node);
    void end_work(std::int32_t node, std::int32_t packet);
    void end_read(std::int32_t node, std::int32_t packet);
    bool make_packet(std::int32_t node);
    void set_way(Packet& packet, std::int32_t to, int heading);
    bool goes_back(const Packet& packet, int dimension, int steps) const;
    std::uint32_t draw(const Packet& packet, int event, std::uint32_t n) const;
    int choose_fifo(std::int32_t node, const Packet& packet) const;
    void append(Queue& queue, std::int32_t packet);
    int escape_output(const Packet& packet) const;
    static int hops_to_go(const Packet& packet);
    std::int64_t score(const Queue& queue, const Packet& packet) const;

    Queue& queue_at(std::int32_t node, int queue) { return queues_[node * n_queues_ + queue]; }
    Link& link_at(std::int32_t node, int output) { return links_[node * n_outputs_ + output]; }
    int taken(int queue, int granules) const { return is_escape(queue) ? hardware_.packet : granules; }
    bool is_injection(int queue) const { return queue >= first_injection_; }
    bool is_escape(int queue) const {
        return queue < first_injection_ && queue % n_channels_ == hardware_.channels;
    }

    TorusHardware hardware_;
    std::uint64_t seed_;
    int n_outputs_, n_channels_, first_injection_, n_queues_;
    std::int64_t n_nodes_;
    std::uint64_t transit_;
    std::vector<int> wire_ticks_;
    std::vector<std::array<std::int16_t, most_dimensions>> places_;
    std::vector<Queue> queues_;
    std::vector<Link> links_;
    std::vector<std::int32_t> before_;  // the node from which each input comes, by node and direction
    std::vector<Processor> processors_;
    std::vector<Reception> receptions_;
    PacketPool<Packet> packets_;
    std::vector<std::int32_t> woken_;
    Wheel wheel_;
    Program* program_ = nullptr;
    PacketCounts counts_;
    std::int64_t* finish_ = nullptr;
    std::int64_t *link_packets_ = nullptr, *link_bytes_ = nullptr;
};

}  // namespace petacomm

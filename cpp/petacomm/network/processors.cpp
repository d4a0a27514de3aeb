// What happens between routers and processors; packets.cpp has the routers.
#include <algorithm>
#include <cmath>

#include "petacomm/base/mix.h"
#include "petacomm/network/packets.h"

namespace petacomm {

// Bring the head, or a copy of it, to the processor; false if its FIFO is full.
bool TorusSimulator::receive(std::int32_t node, int queue) {
    Queue& from = queue_at(node, queue);
    const int direction = queue / n_channels_;
    Reception& reception = receptions_[node * n_outputs_ + direction];
    const int granules = packets_[from.head].granules;
    from.stuck = reception.room < granules;
    if (from.stuck) return false;
    reception.room -= granules;
    const int delay = wire_ticks_[granules];
    const auto& left = packets_[from.head].left;
    if (std::any_of(left.begin(), left.end(), [](auto hops) { return hops != 0; })) {
        const std::int32_t made = packets_.add(counts_.most_in_flight);
        packets_[from.head].flags |= copied;
        packets_[made] = packets_[from.head];
        ++counts_.copies;
        const std::uint32_t at = static_cast<std::uint32_t>(node) * n_outputs_ + direction;
        wheel_.after(delay, {at << kind_bits | copy, made});
        return true;
    }
    const std::int32_t packet = from.head;
    from.head = packets_[packet].next;
    --from.length;
    from.moving = static_cast<std::uint8_t>(granules);
    const std::uint32_t at = static_cast<std::uint32_t>(node) * n_queues_ + queue;
    wheel_.after(delay, {at << kind_bits | delivered, packet});
    return true;
}

// A packet is whole in a reception FIFO.
void TorusSimulator::hand_over(std::int32_t node, int direction, std::int32_t packet) {
    Reception& reception = receptions_[node * n_outputs_ + direction];
    packets_[packet].next = -1;
    packets_[packet].channel = static_cast<std::uint8_t>(direction);
    if (reception.head < 0) {
        reception.head = packet;
    } else {
        packets_[reception.tail].next = packet;
    }
    reception.tail = packet;
    processors_[node].full |= 1u << direction;
    if (!processors_[node].busy) work(node);
}

// An idle processor takes the next work: reads and writes take turns where there is something of both, so
// that neither those who send nor those who wait for what it passes on are held back.
void TorusSimulator::work(std::int32_t node) {
    const bool write_first = processors_[node].reading;
    if (write_first && begin_write(node)) return;
    if (begin_read(node)) return;
    if (!write_first) begin_write(node);
}

bool TorusSimulator::begin_read(std::int32_t node) {
    Processor& cpu = processors_[node];
    if (!cpu.full) return false;
    const std::uint32_t later = cpu.full & (~0u << cpu.turn);
    const int direction = __builtin_ctz(later ? later : cpu.full);
    cpu.turn = static_cast<std::uint8_t>(direction + 1);
    Reception& reception = receptions_[node * n_outputs_ + direction];
    const std::int32_t packet = reception.head;
    reception.head = packets_[packet].next;
    if (reception.head < 0) cpu.full &= ~(1u << direction);
    const Packet& read = packets_[packet];
    double ticks = hardware_.read_ticks * read.granules / hardware_.packet + hardware_.packet_ticks;
    if (read.flags & combined) ticks += hardware_.combine_ticks;
    cpu.busy = cpu.reading = 1;
    wheel_.after(std::max<std::int64_t>(1, std::lround(ticks)),
                 {static_cast<std::uint32_t>(node) << kind_bits | processor, packet});
    return true;
}

bool TorusSimulator::begin_write(std::int32_t node) {
    Processor& cpu = processors_[node];
    if (cpu.held < 0 && !make_packet(node)) return false;
    const Packet& packet = packets_[cpu.held];
    const int fifo = choose_fifo(node, packet);
    Queue& into = queue_at(node, first_injection_ + fifo);
    if (into.room < packet.granules) return false;
    into.room -= packet.granules;
    const double ticks = hardware_.write_ticks * packet.granules / hardware_.packet + hardware_.packet_ticks +
                         (cpu.begins ? hardware_.message_ticks : 0);
    cpu.fifo = static_cast<std::uint8_t>(fifo);
    cpu.busy = 1;
    cpu.reading = 0;
    wheel_.after(std::max<std::int64_t>(1, std::lround(ticks)),
                 {static_cast<std::uint32_t>(node) << kind_bits | processor, cpu.held});
    return true;
}

bool TorusSimulator::make_packet(std::int32_t node) {
    Outgoing out;
    if (!program_->next(node, out)) return false;
    const std::int32_t made = packets_.add(counts_.most_in_flight);
    Packet& packet = packets_[made];
    packet.message = out.message;
    packet.origin = node;
    packet.number = processors_[node].made++;
    packet.granules = static_cast<std::uint8_t>(out.granules);
    packet.flags = out.flags;
    set_way(packet, out.destination, out.heading);
    processors_[node].held = made;
    processors_[node].begins = out.begins;
    ++counts_.packets;
    return true;
}

void TorusSimulator::set_way(Packet& packet, std::int32_t to, int heading) {
    const std::int32_t from = packet.origin;
    packet.left.fill(0);
    for (int d = 0; d < hardware_.n_dimensions; ++d) {
        const int size = hardware_.shape[d];
        int steps = places_[to][d] - places_[from][d];
        if (hardware_.wrap[d]) {
            if (steps < 0) steps += size;
            const bool back = heading < 0 ? goes_back(packet, d, steps) : heading == 2 * d + 1;
            if (back && steps) steps -= size;
        }
        packet.left[d] = static_cast<std::int8_t>(steps);
    }
}

// Whether a packet with so many steps to go upwards in a ring goes downwards instead.
bool TorusSimulator::goes_back(const Packet& packet, int dimension, int steps) const {
    const int size = hardware_.shape[dimension];
    if (2 * steps != size) return 2 * steps > size;
    if (hardware_.tie == Tie::random) return draw(packet, -1 - dimension, 2);
    return hardware_.tie == Tie::parity && places_[packet.origin][dimension] % 2;
}

// A random number below n for an event of a packet: its hops to go, or less than 0 before it has a way. It
// hangs on nothing else, so no packet's choice changes with what else is drawn.
std::uint32_t TorusSimulator::draw(const Packet& packet, int event, std::uint32_t n) const {
    std::uint64_t word = mix(seed_ + golden_gamma);
    word = mix(word ^ (static_cast<std::uint64_t>(packet.origin) << 32 | packet.number));
    word = mix(word + golden_gamma * static_cast<std::uint64_t>(event + most_dimensions + 1));
    return static_cast<std::uint32_t>((word >> 32) * n >> 32);
}

int TorusSimulator::choose_fifo(std::int32_t node, const Packet& packet) const {
    if (hardware_.fifo_by_direction) {
        int most = 0;
        for (int d = 1; d < hardware_.n_dimensions; ++d) {
            if (std::abs(packet.left[d]) > std::abs(packet.left[most])) most = d;
        }
        return (2 * most + (packet.left[most] < 0)) % hardware_.injection_fifos;
    }
    const Queue* fifos = &queues_[node * n_queues_ + first_injection_];
    int best = 0;
    for (int i = 1; i < hardware_.injection_fifos; ++i) {
        if (fifos[i].room > fifos[best].room) best = i;
    }
    return best;
}

// A processor has read or written a packet.
void TorusSimulator::end_work(std::int32_t node, std::int32_t packet) {
    Processor& cpu = processors_[node];
    finish_[node] = wheel_.now();
    if (cpu.reading) {
        end_read(node, packet);
    } else {
        cpu.held = -1;
        const int queue = first_injection_ + cpu.fifo;
        Queue& into = queue_at(node, queue);
        append(into, packet);
        if (into.head == packet && !into.moving) {
            show_head(node, queue);
            try_head(node, queue);
        }
    }
    cpu.busy = 0;
    work(node);
    for (const std::int32_t other : woken_) {
        if (!processors_[other].busy) work(other);
    }
    woken_.clear();
}

void TorusSimulator::end_read(std::int32_t node, std::int32_t packet) {
    const int direction = packets_[packet].channel;
    receptions_[node * n_outputs_ + direction].room += packets_[packet].granules;
    for (int queue = direction * n_channels_; queue < (direction + 1) * n_channels_; ++queue) {
        Queue& waits = queue_at(node, queue);
        if (!waits.stuck) continue;
        waits.stuck = 0;
        show_head(node, queue);
        if (waits.wants) try_head(node, queue);
    }
    program_->received(node, packets_[packet].message, woken_);
    packets_.remove(packet);
}

}  // namespace petacomm

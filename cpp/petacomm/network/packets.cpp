#include "petacomm/network/packets.h"

#include <algorithm>
#include <cmath>

namespace petacomm {

std::int64_t TorusHardware::n_nodes() const {
    std::int64_t n = 1;
    for (int d = 0; d < n_dimensions; ++d) n *= shape[d];
    return n;
}

TorusSimulator::TorusSimulator(const TorusHardware& hardware, std::uint64_t seed)
    : hardware_(hardware),
      seed_(seed),
      n_outputs_(2 * hardware.n_dimensions),
      n_channels_(hardware.channels + 1),
      first_injection_(n_outputs_ * n_channels_),
      n_queues_(first_injection_ + hardware.injection_fifos),
      n_nodes_(hardware.n_nodes()),
      transit_((std::uint64_t{1} << first_injection_) - 1) {
    for (int g = 0; g <= hardware.packet; ++g) {
        wire_ticks_.push_back(
            std::max(1, static_cast<int>(std::lround(g * hardware.granule_ticks + hardware.overhead_ticks))));
    }
    places_.resize(n_nodes_);
    queues_.resize(n_nodes_ * n_queues_);
    links_.resize(n_nodes_ * n_outputs_);
    before_.assign(n_nodes_ * n_outputs_, -1);
    processors_.resize(n_nodes_);
    receptions_.resize(n_nodes_ * n_outputs_);
    for (auto& reception : receptions_) reception.room = hardware.reception_fifo;
    for (std::int64_t i = 0; i < n_nodes_ * n_queues_; ++i) {
        const bool injection = is_injection(static_cast<int>(i % n_queues_));
        queues_[i].room = static_cast<std::int16_t>(injection ? hardware.injection_fifo : hardware.channel);
    }
    for (std::int32_t node = 0; node < n_nodes_; ++node) lay_links(node);
}

// Find the place of a node and what its links lead to.
void TorusSimulator::lay_links(std::int32_t node) {
    std::int64_t rest = node, stride = 1;
    for (int d = hardware_.n_dimensions - 1; d >= 0; --d) {
        const int size = hardware_.shape[d], place = static_cast<int>(rest % size);
        rest /= size;
        places_[node][d] = static_cast<std::int16_t>(place);
        for (int sign = 0; sign < 2; ++sign) {
            const int there = place + (sign ? -1 : 1);
            if (size < 2 || (!hardware_.wrap[d] && (there < 0 || there >= size))) continue;
            const auto target = node + ((there + size) % size - place) * stride;
            link_at(node, 2 * d + sign).target = static_cast<std::int32_t>(target);
            before_[target * n_outputs_ + 2 * d + sign] = node;
        }
        stride *= size;
    }
}

PacketCounts TorusSimulator::run(Program& program, std::int64_t* finish, std::int64_t* link_packets,
                                 std::int64_t* link_bytes, const std::function<void()>& look) {
    program_ = &program;
    finish_ = finish;
    link_packets_ = link_packets;
    link_bytes_ = link_bytes;
    counts_ = {};
    for (std::int32_t node = 0; node < n_nodes_; ++node) work(node);
    counts_.events = run_events(wheel_, [this](const Event& event) { dispatch(event); }, look);
    counts_.ticks = wheel_.now();
    return counts_;
}

std::int64_t TorusSimulator::memory() const {
    return packets_.bytes() +
           static_cast<std::int64_t>(queues_.size() * sizeof(Queue) + links_.size() * sizeof(Link) +
                                     receptions_.size() * sizeof(Reception) +
                                     processors_.size() * sizeof(Processor));
}

void TorusSimulator::dispatch(const Event& event) {
    const std::uint32_t at = event.what >> kind_bits;
    switch (static_cast<Kind>(event.what & ((1u << kind_bits) - 1))) {
        case header:
            arrive(at, event.packet);
            break;
        case tail:
            leave(at);
            break;
        case delivered: {
            const auto node = static_cast<std::int32_t>(at / n_queues_);
            const int queue = static_cast<int>(at % n_queues_);
            Queue& from = queues_[at];
            const int granules = from.moving;
            from.moving = 0;
            if (from.head >= 0) show_head(node, queue);
            release(node, queue, granules);
            hand_over(node, queue / n_channels_, event.packet);
            if (from.wants) try_head(node, queue);
            break;
        }
        case copy:
            hand_over(static_cast<std::int32_t>(at / n_outputs_), static_cast<int>(at % n_outputs_),
                      event.packet);
            break;
        case processor:
            end_work(static_cast<std::int32_t>(at), event.packet);
            break;
        case credit: {
            const auto node = static_cast<std::int32_t>(at / n_queues_);
            release(node, static_cast<int>(at % n_queues_), event.packet);
            break;
        }
    }
}

void TorusSimulator::append(Queue& queue, std::int32_t packet) {
    packets_[packet].next = -1;
    if (queue.head < 0) {
        queue.head = packet;
    } else {
        packets_[queue.tail].next = packet;
    }
    queue.tail = packet;
    ++queue.length;
}

// The header of a packet is at the node to which the link leads.
void TorusSimulator::arrive(std::uint32_t link, std::int32_t packet) {
    const int output = static_cast<int>(link % n_outputs_);
    const std::int32_t node = links_[link].target;
    const int queue = output * n_channels_ + packets_[packet].channel;
    Queue& into = queue_at(node, queue);
    append(into, packet);
    if (into.head != packet || into.moving) return;
    show_head(node, queue);
    if (into.wants) try_head(node, queue);
}

// The tail of a packet has left over a link.
void TorusSimulator::leave(std::uint32_t link) {
    const auto node = static_cast<std::int32_t>(link / n_outputs_);
    const int output = static_cast<int>(link % n_outputs_), queue = links_[link].queue;
    Queue& from = queue_at(node, queue);
    const int granules = from.moving;
    from.moving = 0;
    links_[link].busy = 0;
    if (from.head >= 0) show_head(node, queue);
    arbitrate(node, output);
    if (from.wants) try_head(node, queue);
    if (!hardware_.early_release || is_injection(queue)) release(node, queue, granules);
}

// There is more room in a queue: whoever fills it may go on.
void TorusSimulator::release(std::int32_t node, int queue, int granules) {
    queue_at(node, queue).room += static_cast<std::int16_t>(taken(queue, granules));
    if (is_injection(queue)) {
        if (!processors_[node].busy) work(node);
        return;
    }
    const int direction = queue / n_channels_;
    arbitrate(before_[node * n_outputs_ + direction], direction);
}

int TorusSimulator::escape_output(const Packet& packet) const {
    int d = 0;
    while (packet.left[d] == 0) ++d;
    return 2 * d + (packet.left[d] < 0);
}

// A packet is the head of its queue: it asks for links, or for the processor if it is where it goes.
void TorusSimulator::show_head(std::int32_t node, int queue) {
    Queue& from = queue_at(node, queue);
    const Packet packet = packets_[from.head];  // a copy: more packets may be made below
    int wants = 0;
    for (int d = 0; d < hardware_.n_dimensions; ++d) {
        if (packet.left[d]) wants |= 1 << (2 * d + (packet.left[d] < 0));
    }
    const bool here =
        wants == 0 || ((packet.flags & deposit) && !(packet.flags & copied) && !is_injection(queue));
    if (here && !receive(node, queue)) return;
    if (wants == 0) return;
    if (!(packet.flags & adaptive)) wants &= -wants;
    from.wants = static_cast<std::uint16_t>(wants);
    for (int left = wants; left; left &= left - 1) {
        link_at(node, __builtin_ctz(left)).wanted |= std::uint64_t{1} << queue;
    }
}

// The head takes the free link whose far end has most room; of several such, a random one.
void TorusSimulator::try_head(std::int32_t node, int queue) {
    const Queue& from = queue_at(node, queue);
    const Packet& packet = packets_[from.head];
    int n_best = 0, best_room = -1;
    std::array<std::int8_t, 2 * most_dimensions> best{}, channels{};
    for (int left = from.wants; left; left &= left - 1) {
        const int output = __builtin_ctz(left);
        const Link& link = link_at(node, output);
        if (link.busy) continue;
        int channel = 0;
        const int room = room_at(link, output, channel);
        if (room < best_room) continue;
        const int found = channel_for(packet, queue, output, link, room, channel);
        if (found < 0) continue;
        if (room > best_room) n_best = 0;
        best_room = room;
        best[n_best] = static_cast<std::int8_t>(output);
        channels[n_best++] = static_cast<std::int8_t>(found);
    }
    if (n_best == 0) return;
    const int chosen = n_best > 1 ? static_cast<int>(draw(packet, hops_to_go(packet), n_best)) : 0;
    start(node, best[chosen], queue, channels[chosen]);
}

// The granules that are free in the emptiest adaptive channel at the end of a link.
int TorusSimulator::room_at(const Link& link, int output, int& channel) const {
    const Queue* inputs = &queues_[link.target * n_queues_ + output * n_channels_];
    channel = 0;
    for (int c = 1; c < hardware_.channels; ++c) {
        if (inputs[c].room > inputs[channel].room) channel = c;
    }
    return inputs[channel].room;
}

// The channel in which a packet can go over a link now, or -1. The escape channel is taken in the order of
// dimensions alone, and entered only if it keeps room for a packet more: rings then always turn (bubble).
int TorusSimulator::channel_for(const Packet& packet, int queue, int output, const Link& link, int room,
                                int best) const {
    const bool injected = is_injection(queue);
    if (packet.flags & adaptive) {
        if (packet.granules + (injected ? hardware_.injection_room : 0) <= room) return best;
        if (injected) return -1;  // it waits outside, where it blocks nobody
    }
    if (escape_output(packet) != output) return -1;
    const int escape = output * n_channels_ + hardware_.channels;
    const bool stays = queue == escape || !hardware_.wrap[output / 2];
    const int needed = (stays ? 1 : 2) * hardware_.packet;
    return queues_[link.target * n_queues_ + escape].room >= needed ? hardware_.channels : -1;
}

int TorusSimulator::hops_to_go(const Packet& packet) {
    int hops = 0;
    for (const std::int8_t left : packet.left) hops += std::abs(left);
    return hops;
}

std::int64_t TorusSimulator::score(const Queue& queue, const Packet& packet) const {
    if (hardware_.arbitration == Arbitration::longest_queue) return queue.length;
    if (hardware_.arbitration == Arbitration::farthest) {
        int hops = 0;
        for (int d = 0; d < hardware_.n_dimensions; ++d) hops = std::max(hops, std::abs(packet.left[d]));
        return hops;
    }
    return 0;
}

// Give a link that may be free to one of the heads that want it.
void TorusSimulator::arbitrate(std::int32_t node, int output) {
    Link& link = link_at(node, output);
    if (link.busy || !link.wanted) return;
    int channel = 0;
    const int room = room_at(link, output, channel);
    const int escape = output * n_channels_ + hardware_.channels;
    if (room <= 0 && queues_[link.target * n_queues_ + escape].room < hardware_.packet) return;
    const std::uint64_t first = hardware_.transit_first ? link.wanted & transit_ : link.wanted;
    for (const std::uint64_t queues : {first, link.wanted & ~first}) {
        const int best = choose_queue(node, output, queues, room, channel);
        if (best < 0) continue;
        link.turn = static_cast<std::uint8_t>((best + 1) & 63);
        start(node, output, best, channel);
        return;
    }
}

// The queue, of a set of them, whose head takes a free link, or -1; `channel`: the emptiest adaptive one
// there, then the one that this head takes.
int TorusSimulator::choose_queue(std::int32_t node, int output, std::uint64_t queues, int room,
                                 int& channel) const {
    const Link& link = links_[node * n_outputs_ + output];
    const int emptiest = channel;
    int best = -1;
    std::int64_t best_score = -1;
    // Those after the last winner come first.
    const std::uint64_t later = queues & (~std::uint64_t{0} << link.turn);
    for (std::uint64_t part : {later, queues & ~later}) {
        for (; part; part &= part - 1) {
            const int queue = __builtin_ctzll(part);
            const Queue& from = queues_[node * n_queues_ + queue];
            const Packet& packet = packets_[from.head];
            const std::int64_t points = score(from, packet);
            if (points <= best_score) continue;
            const int found = channel_for(packet, queue, output, link, room, emptiest);
            if (found < 0) continue;
            best = queue, best_score = points, channel = found;
        }
    }
    return best;
}

// The head of a queue goes out over a link.
void TorusSimulator::start(std::int32_t node, int output, int queue, int channel) {
    Queue& from = queue_at(node, queue);
    Link& link = link_at(node, output);
    const std::int32_t moved = from.head;
    Packet& packet = packets_[moved];
    for (int left = from.wants; left; left &= left - 1) {
        link_at(node, __builtin_ctz(left)).wanted &= ~(std::uint64_t{1} << queue);
    }
    from.wants = 0;
    from.head = packet.next;
    --from.length;
    from.moving = packet.granules;
    packet.left[output / 2] += output % 2 ? 1 : -1;
    packet.channel = static_cast<std::uint8_t>(channel);
    packet.flags &= static_cast<std::uint8_t>(~copied);
    link.busy = 1;
    link.queue = static_cast<std::uint8_t>(queue);
    const int input = output * n_channels_ + channel;
    queue_at(link.target, input).room -= static_cast<std::int16_t>(taken(input, packet.granules));
    const std::uint32_t at = static_cast<std::uint32_t>(node) * n_outputs_ + output;
    wheel_.after(hardware_.hop_ticks, {at << kind_bits | header, moved});
    wheel_.after(wire_ticks_[packet.granules], {at << kind_bits | tail, moved});
    if (hardware_.early_release && !is_injection(queue)) {
        const std::uint32_t place = static_cast<std::uint32_t>(node) * n_queues_ + queue;
        wheel_.after(hardware_.hop_ticks, {place << kind_bits | credit, packet.granules});
    }
    ++link_packets_[at];
    link_bytes_[at] += packet.granules * hardware_.granule;
    ++counts_.hops;
    counts_.escapes += channel == hardware_.channels;
}

}  // namespace petacomm

#include "petacomm/network/switches.h"

#include <algorithm>
#include <set>

#include "petacomm/base/mix.h"

namespace petacomm {

namespace {

// What is drawn for a packet, beside its choices between links, by its hops: the middle of a detour.
constexpr int middle_event = 256, most_draws = 8;

}  // namespace

SwitchSimulator::SwitchSimulator(const SwitchGraph& graph, const SwitchTables& tables,
                                 const SwitchHardware& hardware, std::uint64_t seed)
    : graph_(graph),
      tables_(tables),
      hardware_(hardware),
      seed_(seed),
      n_channels_(tables.n_channels(hardware.routing != Routing::minimal)),
      n_sizes_(static_cast<std::int32_t>(hardware.ticks.front().size())),
      links_(graph.n_links()),
      queues_(graph.n_links() * n_channels_),
      nodes_(graph.n_nodes) {
    std::set<std::int32_t> regions;
    for (const std::int32_t vertex : graph.middles) regions.insert(graph.region[vertex]);
    has_detours_ = regions.size() > 2;
    for (std::int64_t i = 0; i < graph.n_links(); ++i) {
        links_[i].head = graph.head[i];
        links_[i].tail = graph.tail[i];
        links_[i].rises = graph.rises[i];
        links_[i].kind = graph.kind[i];
    }
    for (const auto& kind : hardware.ticks) ticks_.insert(ticks_.end(), kind.begin(), kind.end());
    for (auto& queue : queues_) queue.room = hardware.channel;
}

PacketCounts SwitchSimulator::run(Program& program, std::int64_t* finish, std::int64_t* link_packets,
                                  std::int64_t* link_bytes, const std::function<void()>& look) {
    program_ = &program;
    finish_ = finish;
    link_packets_ = link_packets;
    link_bytes_ = link_bytes;
    counts_ = {};
    for (std::int32_t node = 0; node < graph_.n_nodes; ++node) feed(node);
    counts_.events = run_events(wheel_, [this](const Event& event) { dispatch(event); }, look);
    counts_.ticks = wheel_.now();
    return counts_;
}

std::int64_t SwitchSimulator::memory() const {
    return packets_.bytes() +
           static_cast<std::int64_t>(queues_.size() * sizeof(Queue) + links_.size() * sizeof(Link) +
                                     nodes_.size() * sizeof(Node)) +
           tables_.memory();
}

void SwitchSimulator::dispatch(const Event& event) {
    const auto at = static_cast<std::int32_t>(event.what >> kind_bits);
    switch (static_cast<Kind>(event.what & ((1u << kind_bits) - 1))) {
        case header:
            arrive(at, event.packet);
            break;
        case tail:
            links_[at].busy = 0;
            if (is_node(links_[at].tail)) finish_[links_[at].tail] = wheel_.now();
            serve(at);
            break;
        case credit: {
            queues_[at].room += event.packet;
            queues_[at].load -= event.packet;
            const std::int32_t link = at / n_channels_;
            links_[link].load -= event.packet;
            serve(link);
            break;
        }
        case delivered:
            deliver(at, event.packet);
            break;
        case prepared:
            inject(at, event.packet);
            break;
        case released:  // a message
            program_->release(event.packet);
            feed(at);
            break;
    }
}

// A node makes the packet that waits for its link, so that the link is never idle.
void SwitchSimulator::feed(std::int32_t node) {
    Outgoing out;
    if (nodes_[node].has_packet || !program_->next(node, out)) return;
    nodes_[node].has_packet = 1;
    const std::int32_t made = packets_.add(counts_.most_in_flight);
    packets_[made] = {-1,
                      out.message,
                      out.destination,
                      out.destination,
                      -1,
                      node,
                      -1,
                      nodes_[node].made++,
                      static_cast<std::uint8_t>(out.granules),
                      out.flags,
                      0,
                      0,
                      0};
    ++counts_.packets;
    if (out.begins && hardware_.message_ticks > 0) {
        after(hardware_.message_ticks, prepared, node, made);
    } else {
        inject(node, made);
    }
}

void SwitchSimulator::inject(std::int32_t node, std::int32_t packet) {
    const LinkSet links = tables_.from_node(node);
    const std::int32_t link = next_link(packets_[packet], links);
    append(link, packet);
    serve(link);
}

// The header of a packet is at the switch to which a link leads.
void SwitchSimulator::arrive(std::int32_t link, std::int32_t packet) {
    Packet& at = packets_[packet];
    at.link = link;
    at.came_by = at.channel;
    at.channel = static_cast<std::uint8_t>(at.channel + links_[link].rises);
    ++at.hops;
    const std::int32_t out = choose_link(at, links_[link].head);
    if (is_node(links_[out].head)) at.channel = 0;  // a node takes all at once
    append(out, packet);
    serve(out);
}

// A packet is whole at its node, which takes it at once.
void SwitchSimulator::deliver(std::int32_t node, std::int32_t packet) {
    finish_[node] = wheel_.now();
    const std::int32_t message = packets_[packet].message;
    packets_.remove(packet);
    program_->received(node, message, woken_);
    wake();
}

void SwitchSimulator::wake() {
    for (const std::int32_t node : woken_) feed(node);
    woken_.clear();
}

std::int32_t SwitchSimulator::choose_link(Packet& packet, std::int32_t vertex) {
    const std::int32_t stop = tables_.stop_of(packet.destination);
    if (packet.hops == 1 && hardware_.routing != Routing::minimal) choose_way(packet, vertex);
    if (packet.middle >= 0 && graph_.region[vertex] == graph_.region[tables_.vertex(packet.middle)])
        packet.middle = -1;
    if (packet.middle >= 0) return next_link(packet, tables_.next(packet.middle, vertex));
    if (tables_.vertex(stop) == vertex) return tables_.last_link(packet.destination);
    return next_link(packet, tables_.next(stop, vertex));
}

// Whether a packet makes a detour is decided at the switch of its source. Those that make none keep out of
// the channels in which detours begin: there, these are not held up (Kim et al. 2008, section 4.1). Those
// that stay in their region keep out of the channels of detours at their middle, too, as these may go down to
// a leaf and up again there, while they go up and down.
void SwitchSimulator::choose_way(Packet& packet, std::int32_t vertex) {
    const std::int32_t stop = tables_.stop_of(packet.destination);
    const std::int32_t here = graph_.region[vertex], there = graph_.region[tables_.vertex(stop)];
    if (here != there && has_detours_ && (packet.flags & adaptive)) {
        const std::int32_t middle = draw_middle(packet, here, there);
        if (hardware_.routing == Routing::valiant || is_shorter(packet, vertex, middle)) {
            packet.middle = middle;
            return;
        }
    }
    packet.channel =
        static_cast<std::uint8_t>(here == there ? tables_.inner_channel() : tables_.straight_channel());
}

// Whether the queue of a detour, times its hops, is shorter than that of the shortest route (Kim et al. 2008,
// section 4): UGAL-G's are those of cables between groups, all others' those of first links. UGAL-L_VC has
// the queues of the channels alone in which each begins; the hybrid, where both begin with one link.
bool SwitchSimulator::is_shorter(const Packet& packet, std::int32_t vertex, std::int32_t middle) const {
    const std::int32_t stop = tables_.stop_of(packet.destination);
    const std::int32_t straight = deciding_link(packet, vertex, stop);
    const std::int32_t around = deciding_link(packet, vertex, middle);
    std::int64_t straight_load = links_[straight].load, around_load = links_[around].load;
    if (hardware_.routing == Routing::ugal_l_vc ||
        (hardware_.routing == Routing::ugal && straight == around)) {
        straight_load =
            queues_[static_cast<std::int64_t>(straight) * n_channels_ + tables_.straight_channel()].load;
        around_load = queues_[static_cast<std::int64_t>(around) * n_channels_].load;
    }
    const int hops = tables_.hops(middle, vertex) + tables_.hops(stop, tables_.vertex(middle));
    return straight_load * tables_.hops(stop, vertex) > around_load * hops;
}

// The link on the way to a stop of another region whose queue UGAL looks at.
std::int32_t SwitchSimulator::deciding_link(const Packet& packet, std::int32_t vertex,
                                            std::int32_t stop) const {
    std::int32_t link = least_loaded(packet, tables_.next(stop, vertex));
    if (hardware_.routing != Routing::ugal_g) return link;
    while (graph_.region[links_[link].head] == graph_.region[links_[link].tail])
        link = least_loaded(packet, tables_.next(stop, links_[link].head));
    return link;
}

// A stop in a region that is neither `here` nor `there`.
std::int32_t SwitchSimulator::draw_middle(const Packet& packet, std::int32_t here, std::int32_t there) const {
    const auto n = static_cast<std::uint32_t>(tables_.middles().size());
    std::uint32_t i = 0;
    for (int k = 0;; ++k) {
        // Where chance fails that often, the next one that will do.
        i = k < most_draws ? draw(packet, middle_event + k, n) : (i + 1) % n;
        const std::int32_t region = graph_.region[tables_.vertex(tables_.middles()[i])];
        if (region != here && region != there) return tables_.middles()[i];
    }
}

// Packets in order take the links that the digits of their destination choose (d-mod-k, Zahavi 2010).
std::int32_t SwitchSimulator::next_link(Packet& packet, LinkSet links) const {
    if (packet.flags & adaptive) return least_loaded(packet, links);
    const std::int32_t digit = packet.digits % links.size;
    packet.digits /= links.size;
    return links.first[digit];
}

// The link on which least waits or is on the way; of several such, a random one.
std::int32_t SwitchSimulator::least_loaded(const Packet& packet, LinkSet links) const {
    if (links.size == 1) return links.first[0];
    std::int32_t least = links_[links.first[0]].load;
    std::uint32_t n_least = 1;
    for (std::int32_t i = 1; i < links.size; ++i) {
        const std::int32_t load = links_[links.first[i]].load;
        if (load > least) continue;
        n_least = load < least ? 1 : n_least + 1;
        least = load;
    }
    std::uint32_t skip = n_least > 1 ? draw(packet, packet.hops, n_least) : 0;
    for (std::int32_t i = 0;; ++i) {
        if (links_[links.first[i]].load == least && skip-- == 0) return links.first[i];
    }
}

// A random number below n for an event of a packet; it hangs on nothing else.
std::uint32_t SwitchSimulator::draw(const Packet& packet, int event, std::uint32_t n) const {
    std::uint64_t word = mix(seed_ + golden_gamma);
    word = mix(word ^ (static_cast<std::uint64_t>(packet.origin) << 32 | packet.number));
    word = mix(word + golden_gamma * static_cast<std::uint64_t>(event + 1));
    return static_cast<std::uint32_t>((word >> 32) * n >> 32);
}

void SwitchSimulator::append(std::int32_t link, std::int32_t packet) {
    Packet& added = packets_[packet];
    Queue& queue = queues_[static_cast<std::int64_t>(link) * n_channels_ + added.channel];
    added.next = -1;
    if (queue.head < 0) {
        queue.head = packet;
    } else {
        packets_[queue.tail].next = packet;
    }
    queue.tail = packet;
    queue.load += added.granules;
    links_[link].load += added.granules;
    ++links_[link].waiting;
}

// Give a free link to the first packet of a channel that has room for it; channels take turns.
void SwitchSimulator::serve(std::int32_t link) {
    Link& out = links_[link];
    if (out.busy || !out.waiting) return;
    const Queue* const queues = &queues_[static_cast<std::int64_t>(link) * n_channels_];
    for (int k = 0; k < n_channels_; ++k) {
        const int channel = (out.turn + k) % n_channels_;
        const Queue& queue = queues[channel];
        if (queue.head < 0 || packets_[queue.head].granules > queue.room) continue;
        out.turn = static_cast<std::uint8_t>((channel + 1) % n_channels_);
        start(link, channel);
        return;
    }
}

// The first packet of a channel goes out over its link.
void SwitchSimulator::start(std::int32_t link, int channel) {
    Link& out = links_[link];
    Queue& queue = queues_[static_cast<std::int64_t>(link) * n_channels_ + channel];
    const std::int32_t moved = queue.head;
    const Packet& packet = packets_[moved];
    queue.head = packet.next;
    --out.waiting;
    out.busy = 1;
    const std::int64_t wire = ticks_[out.kind * n_sizes_ + packet.granules];
    const std::int64_t hop = hardware_.hop_ticks[out.kind];
    after(wire, tail, link, moved);
    if (is_node(out.head)) {
        out.load -= packet.granules;
        queue.load -= packet.granules;
        after(hop + wire, delivered, out.head, moved);
    } else {
        queue.room -= packet.granules;
        after(hop, header, link, moved);
        ++counts_.hops;
    }
    ++link_packets_[link];
    link_bytes_[link] += packet.granules * hardware_.granule;
    const std::int32_t from = out.tail;
    if (is_node(from)) {
        nodes_[from].has_packet = 0;
        if (program_->waits_for_release(packet.message))
            after(hardware_.message_gap[packet.granules], released, from, packet.message);
        feed(from);
    } else {
        // The buffer is free when the tail has left, which the switch before learns a hop later.
        const auto place = static_cast<std::int64_t>(packet.link) * n_channels_ + packet.came_by;
        after(wire + hardware_.hop_ticks[links_[packet.link].kind], credit, static_cast<std::int32_t>(place),
              packet.granules);
    }
}

}  // namespace petacomm

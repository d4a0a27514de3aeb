#include "petacomm/network/programs.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace petacomm {

MessageProgram::MessageProgram(const Messages& messages, const std::int32_t* hops, std::int64_t n_nodes,
                               Packing packing, bool apart)
    : messages_(messages),
      packing_(packing),
      apart_(apart),
      segment_packets_(std::max<std::int64_t>(1, packing.n_packets(messages.segment))),
      lines_(n_nodes),
      next_(messages.n, -1),
      in_line_(messages.n),
      sent_(messages.n),
      allowed_(messages.n),
      before_first_(messages.n + 1),
      slot_first_(messages.n + 1) {
    const std::int64_t n = messages.n;
    for (std::int64_t i = 0; i < n; ++i) slot_first_[i + 1] = slot_first_[i] + hops[i];
    counts_.resize(slot_first_[n]);
    slot_node_.assign(slot_first_[n], -1);
    const std::int64_t n_after = n ? messages.after_first[n] : 0;
    for (std::int64_t j = 0; j < n_after; ++j) ++before_first_[messages.after[j] + 1];
    for (std::int64_t i = 0; i < n; ++i) before_first_[i + 1] += before_first_[i];
    before_.resize(n_after);
    std::vector<std::int64_t> place(before_first_.begin(), before_first_.end() - 1);
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = messages.after_first[i]; j < messages.after_first[i + 1]; ++j) {
            before_[place[messages.after[j]]++] = static_cast<std::int32_t>(i);
        }
    }
    for (std::int64_t i = 0; i < n; ++i) {
        if (messages.after_first[i] < messages.after_first[i + 1]) continue;
        allowed_[i] = packing_.n_packets(messages.bytes[i]);
        set_ready(static_cast<std::int32_t>(i));
    }
}

void MessageProgram::set_ready(std::int32_t message) {
    if (in_line_[message]) return;
    in_line_[message] = 1;
    next_[message] = -1;
    Line& line = lines_[messages_.source[message]];
    if (line.head < 0) {
        line.head = message;
    } else {
        next_[line.tail] = message;
    }
    line.tail = message;
}

bool MessageProgram::next(std::int32_t node, Outgoing& out) {
    Line& line = lines_[node];
    if (line.head < 0) return false;
    const std::int32_t message = line.head;
    const std::int64_t i = sent_[message]++;
    const std::uint8_t flags = messages_.flags[message];
    out.destination = messages_.destination[message];
    out.message = message;
    out.granules = packing_.granules(messages_.bytes[message], i);
    out.flags =
        static_cast<std::uint8_t>((flags & in_order ? 0 : adaptive) | (flags & to_line ? deposit : 0) |
                                  (flags & combines ? combined : 0));
    out.heading = messages_.heading[message];
    out.begins = i == 0;
    // Ready messages take turns, a packet each.
    line.head = next_[message];
    if (!apart_) release(message);
    return true;
}

void MessageProgram::release(std::int32_t message) {
    in_line_[message] = 0;
    if (sent_[message] < allowed_[message]) set_ready(message);
}

std::int64_t MessageProgram::slot(std::int32_t message, std::int32_t node) const {
    const auto first = slot_node_.begin() + slot_first_[message];
    const auto last = slot_node_.begin() + slot_first_[message + 1];
    return std::find(first, last, node) - slot_node_.begin();
}

// Whole segments of a message that a node has received; very many if it has received all of it.
std::int64_t MessageProgram::segments_received(std::int32_t message, std::int32_t node) const {
    const std::int64_t at = slot(message, node);
    const std::int64_t count = at < slot_first_[message + 1] ? counts_[at] : 0;
    if (count == packing_.n_packets(messages_.bytes[message]))
        return std::numeric_limits<std::int64_t>::max();
    return count / segment_packets_;
}

// See how much of a message may be sent now.
void MessageProgram::update(std::int32_t message, std::vector<std::int32_t>& woken) {
    const std::int64_t all = packing_.n_packets(messages_.bytes[message]);
    std::int64_t segments = std::numeric_limits<std::int64_t>::max();
    const std::int32_t node = messages_.source[message];
    for (std::int64_t j = messages_.after_first[message]; j < messages_.after_first[message + 1]; ++j) {
        segments = std::min(segments, segments_received(messages_.after[j], node));
    }
    const bool whole = segments > all;
    if (!whole && !(messages_.flags[message] & pipelined)) return;
    const std::int64_t allowed = whole ? all : std::min(all, segments * segment_packets_);
    if (allowed <= allowed_[message]) return;
    allowed_[message] = allowed;
    set_ready(message);
    woken.push_back(node);
}

void MessageProgram::received(std::int32_t node, std::int32_t message, std::vector<std::int32_t>& woken) {
    std::int64_t at = slot(message, node);
    if (at == slot_first_[message + 1]) {
        at = slot(message, -1);
        if (at == slot_first_[message + 1])
            throw std::invalid_argument("receivers: a message comes to more nodes");
        slot_node_[at] = node;
    }
    const std::int64_t count = ++counts_[at];
    const bool whole = count == packing_.n_packets(messages_.bytes[message]);
    if (!whole && count % segment_packets_ != 0) return;
    for (std::int64_t j = before_first_[message]; j < before_first_[message + 1]; ++j) {
        if (messages_.source[before_[j]] == node) update(before_[j], woken);
    }
}

std::int64_t MessageProgram::n_waiting() const {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < messages_.n; ++i) n += sent_[i] < packing_.n_packets(messages_.bytes[i]);
    return n;
}

std::int64_t MessageProgram::first_waiting() const {
    for (std::int64_t i = 0; i < messages_.n; ++i) {
        if (sent_[i] < packing_.n_packets(messages_.bytes[i])) return i;
    }
    return -1;
}

AllToAllProgram::AllToAllProgram(std::int64_t n_nodes, const std::int32_t* permutation, std::int64_t bytes,
                                 const std::int64_t* matrix, int packets_a_visit, Packing packing)
    : n_nodes_(n_nodes),
      bytes_(bytes),
      permutation_(permutation),
      matrix_(matrix),
      packets_a_visit_(packets_a_visit),
      packing_(packing),
      states_(n_nodes) {
    if (!matrix_) return;
    lists_.resize(n_nodes);
    sent_.resize(n_nodes);
    for (std::int64_t node = 0; node < n_nodes; ++node) {
        for (std::int64_t i = 0; i < n_nodes; ++i) {
            const std::int32_t to = permutation[(node + i) % n_nodes];
            if (to != node && matrix[node * n_nodes + to] > 0) lists_[node].push_back(to);
        }
        sent_[node].resize(lists_[node].size());
    }
}

bool AllToAllProgram::next(std::int32_t node, Outgoing& out) {
    if (matrix_) return next_uneven(node, out);
    State& state = states_[node];
    const std::int64_t n_packets = packing_.n_packets(bytes_);
    while (state.round < n_packets) {
        const std::int64_t place = node + state.at, i = state.round + state.in_visit;
        const std::int32_t to = permutation_[place < n_nodes_ ? place : place - n_nodes_];
        if (to != node && state.in_visit < packets_a_visit_ && i < n_packets) {
            out.destination = to;
            out.granules = packing_.granules(bytes_, i);
            out.begins = i == 0;
            ++state.in_visit;
            return true;
        }
        state.in_visit = 0;
        if (++state.at == n_nodes_) {
            state.at = 0;
            state.round += packets_a_visit_;
        }
    }
    return false;
}

bool AllToAllProgram::next_uneven(std::int32_t node, Outgoing& out) {
    State& state = states_[node];
    auto &list = lists_[node], &sent = sent_[node];
    if (list.empty()) return false;
    if (state.in_visit == packets_a_visit_) {
        state.in_visit = 0;
        ++state.at;
    }
    if (state.at >= static_cast<std::int32_t>(list.size())) state.at = 0;
    const std::int32_t to = list[state.at];
    const std::int64_t bytes = matrix_[node * n_nodes_ + to];
    out.destination = to;
    out.granules = packing_.granules(bytes, sent[state.at]);
    out.begins = sent[state.at] == 0;
    ++state.in_visit;
    if (++sent[state.at] == packing_.n_packets(bytes)) {
        // The last of the list takes the place of the one that is done.
        list[state.at] = list.back();
        sent[state.at] = sent.back();
        list.pop_back();
        sent.pop_back();
        state.in_visit = 0;
    }
    return true;
}

}  // namespace petacomm

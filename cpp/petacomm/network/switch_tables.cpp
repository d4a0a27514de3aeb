#include "petacomm/network/switch_tables.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <stdexcept>
#include <utility>

namespace petacomm {

namespace {

// Lists of the links that have each vertex at one end.
void list_links(const std::vector<std::int32_t>& ends, std::int32_t n_vertices,
                std::vector<std::int32_t>& first, std::vector<std::int32_t>& links) {
    first.assign(n_vertices + 1, 0);
    for (const std::int32_t end : ends) ++first[end + 1];
    for (std::int32_t v = 0; v < n_vertices; ++v) first[v + 1] += first[v];
    links.resize(ends.size());
    std::vector<std::int32_t> place(first.begin(), first.end() - 1);
    for (std::size_t i = 0; i < ends.size(); ++i) links[place[ends[i]]++] = static_cast<std::int32_t>(i);
}

}  // namespace

SwitchTables::SwitchTables(const SwitchGraph& graph)
    : n_nodes_(graph.n_nodes), n_switches_(graph.n_vertices - graph.n_nodes) {
    list_links(graph.tail, graph.n_vertices, out_first_, out_);
    list_links(graph.head, graph.n_vertices, in_first_, in_);
    find_stops(graph);
    for (std::int64_t i = 0; i < graph.n_links(); ++i)
        rises_inside_ |= graph.rises[i] && graph.region[graph.tail[i]] == graph.region[graph.head[i]];
    std::vector<Reach> reach(static_cast<std::size_t>(n_stops()) * n_switches_);
    for (std::int32_t stop = 0; stop < n_stops(); ++stop) measure(graph, stop, reach);
    collect(graph, reach);
}

void SwitchTables::find_stops(const SwitchGraph& graph) {
    std::map<std::int32_t, std::int32_t> numbers;
    const auto number = [&](std::int32_t vertex) {
        const auto found = numbers.emplace(vertex, static_cast<std::int32_t>(numbers.size()));
        if (found.second) stops_.push_back(vertex);
        return found.first->second;
    };
    stop_of_.resize(n_nodes_);
    last_link_.assign(n_nodes_, -1);
    for (std::int32_t node = 0; node < n_nodes_; ++node) {
        const std::int32_t first = in_first_[node], count = in_first_[node + 1] - first;
        if (count == 0) throw std::invalid_argument("graph: a node to which no link leads");
        if (count == 1) last_link_[node] = in_[first];
        stop_of_[node] = number(count == 1 ? graph.tail[in_[first]] : node);
    }
    for (const std::int32_t vertex : graph.middles) middles_.push_back(number(vertex));
}

// Add routes that begin with a link to those of a switch; whether they are shorter than those known.
bool SwitchTables::extend(Reach& there, const Reach& here, std::int32_t length, std::uint8_t rises) {
    const std::int32_t found = here.length + length;
    if (there.length >= 0 && there.length < found) return false;
    const bool shorter = there.length != found;
    const auto hops = static_cast<std::uint8_t>(here.hops + 1);
    const auto risen = static_cast<std::uint8_t>(here.rises + rises);
    const auto channels = static_cast<std::uint8_t>(std::max(1, here.channels + rises));
    if (shorter) {
        there = {found, hops, risen, channels};
    } else {
        there = {found, std::min(there.hops, hops), std::max(there.rises, risen),
                 std::max(there.channels, channels)};
    }
    return shorter;
}

// Find how far each switch is from a stop, by way of switches alone.
void SwitchTables::measure(const SwitchGraph& graph, std::int32_t stop, std::vector<Reach>& reach) const {
    Reach* const to = &reach[static_cast<std::size_t>(stop) * n_switches_];
    using Entry = std::pair<std::int32_t, std::int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> front;
    if (!is_node(stops_[stop])) to[stops_[stop] - n_nodes_].length = 0;
    front.emplace(0, stops_[stop]);
    while (!front.empty()) {
        const auto [length, vertex] = front.top();
        front.pop();
        const Reach here = is_node(vertex) ? Reach{0} : to[vertex - n_nodes_];
        if (length > here.length) continue;
        for (std::int32_t i = in_first_[vertex]; i < in_first_[vertex + 1]; ++i) {
            const std::int32_t tail = graph.tail[in_[i]];
            if (is_node(tail)) continue;  // nodes forward nothing
            if (extend(to[tail - n_nodes_], here, graph.length[in_[i]], graph.rises[in_[i]]))
                front.emplace(to[tail - n_nodes_].length, tail);
        }
    }
}

std::int32_t SwitchTables::add_set(const std::vector<std::int32_t>& links) {
    links_.insert(links_.end(), links.begin(), links.end());
    first_.push_back(static_cast<std::int32_t>(links_.size()));
    return static_cast<std::int32_t>(first_.size()) - 2;
}

// Collect the links of the shortest routes; switches have few different sets of them.
void SwitchTables::collect(const SwitchGraph& graph, const std::vector<Reach>& reach) {
    for (std::int32_t node = 0; node < n_nodes_; ++node) {
        node_set_.push_back(add_set({out_.begin() + out_first_[node], out_.begin() + out_first_[node + 1]}));
    }
    const std::int64_t n = static_cast<std::int64_t>(n_stops()) * n_switches_;
    set_of_.resize(n);
    hops_.resize(n);
    std::vector<std::int32_t> found;
    for (std::int32_t vertex = n_nodes_; vertex < graph.n_vertices; ++vertex) {
        std::map<std::vector<std::int32_t>, std::int32_t> sets;
        for (std::int32_t stop = 0; stop < n_stops(); ++stop) {
            const Reach* const to = &reach[static_cast<std::size_t>(stop) * n_switches_];
            const Reach here = to[vertex - n_nodes_];
            if (here.length < 0) throw std::invalid_argument("graph: a node that a switch cannot reach");
            found.clear();
            for (std::int32_t i = out_first_[vertex]; i < out_first_[vertex + 1]; ++i) {
                const std::int32_t link = out_[i], head = graph.head[link];
                if (is_node(head) && head != stops_[stop]) continue;
                const std::int32_t rest = is_node(head) ? 0 : to[head - n_nodes_].length;
                if (rest + graph.length[link] == here.length) found.push_back(link);
            }
            const auto entry = sets.find(found);
            const std::int32_t number = entry == sets.end() ? add_set(found) : entry->second;
            if (entry == sets.end()) sets.emplace(found, number);
            set_of_[place(stop, vertex)] = number;
            hops_[place(stop, vertex)] = here.hops;
            most_rises_ = std::max<int>(most_rises_, here.rises);
            most_channels_ = std::max<int>(most_channels_, here.channels);
        }
    }
}

std::int64_t SwitchTables::memory() const {
    return static_cast<std::int64_t>(
        4 * (links_.size() + first_.size() + set_of_.size() + out_.size() + in_.size()) + hops_.size());
}

}  // namespace petacomm

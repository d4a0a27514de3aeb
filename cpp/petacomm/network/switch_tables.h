// A network of switches as tables: its links, and for each switch the links that lead nearer to each other
// one.
#pragma once

#include <cstdint>
#include <vector>

namespace petacomm {

// Vertices are nodes, numbered first, and switches. A link leads from one vertex to another; a node has at
// least one that leaves it.
struct SwitchGraph {
    std::int32_t n_nodes = 0, n_vertices = 0;
    std::vector<std::int32_t> tail, head;   // vertices of each link
    std::vector<std::int32_t> length;       // routes are those of least length; 1 or more
    std::vector<std::uint8_t> rises, kind;  // whether packets take the next channel beyond it; its hardware
    std::vector<std::int32_t> region;       // of each vertex: a detour ends in the region of its middle
    std::vector<std::int32_t> middles;      // switches by way of which detours go

    std::int64_t n_links() const { return static_cast<std::int64_t>(tail.size()); }
};

// Links, a run of `SwitchTables::links`.
struct LinkSet {
    const std::int32_t* first;
    std::int32_t size;
};

// Where packets go next. Those of a node go to its stop: the switch that it is attached to, or itself where
// it has several.
class SwitchTables {
  public:
    // Throws std::invalid_argument where a node cannot be reached from a switch or node.
    explicit SwitchTables(const SwitchGraph& graph);

    std::int32_t n_stops() const { return static_cast<std::int32_t>(stops_.size()); }
    std::int32_t stop_of(std::int32_t node) const { return stop_of_[node]; }
    const std::vector<std::int32_t>& middles() const { return middles_; }  // stops
    std::int32_t vertex(std::int32_t stop) const { return stops_[stop]; }
    // From a switch to the node that is attached to it, and from a node to its first switch.
    std::int32_t last_link(std::int32_t node) const { return last_link_[node]; }
    LinkSet from_node(std::int32_t node) const { return set(node_set_[node]); }
    // The links of all shortest routes from a switch to a stop, and how many links the shortest have.
    LinkSet next(std::int32_t stop, std::int32_t vertex) const { return set(set_of_[place(stop, vertex)]); }
    int hops(std::int32_t stop, std::int32_t vertex) const { return hops_[place(stop, vertex)]; }
    // The channels of links in which no packets wait for each other, where routes are shortest, or two such.
    int n_channels(bool detours) const { return most_channels_ + (detours ? most_rises_ : 0); }
    // The first channel of packets that make no detour where others do, and of those at their middle.
    int straight_channel() const { return most_rises_; }
    // The channel of those that stay in their region: the last, from which none goes on to another region.
    // Where channels rise within regions, too, they keep packets apart by themselves.
    int inner_channel() const { return rises_inside_ ? most_rises_ : 2 * most_rises_; }
    std::int64_t memory() const;

  private:
    struct Reach {  // the shortest routes from a switch to a stop: the fewest links, the most rises and
                    // channels
        std::int32_t length = -1;
        std::uint8_t hops = 0, rises = 0, channels = 0;
    };
    bool is_node(std::int32_t vertex) const { return vertex < n_nodes_; }
    void find_stops(const SwitchGraph& graph);
    static bool extend(Reach& there, const Reach& here, std::int32_t length, std::uint8_t rises);
    void measure(const SwitchGraph& graph, std::int32_t stop, std::vector<Reach>& reach) const;
    void collect(const SwitchGraph& graph, const std::vector<Reach>& reach);
    std::int32_t add_set(const std::vector<std::int32_t>& links);
    std::int64_t place(std::int32_t stop, std::int32_t vertex) const {
        return static_cast<std::int64_t>(stop) * n_switches_ + vertex - n_nodes_;
    }
    LinkSet set(std::int32_t i) const { return {&links_[first_[i]], first_[i + 1] - first_[i]}; }

    std::int32_t n_nodes_, n_switches_;
    std::vector<std::int32_t> stops_, middles_, stop_of_, last_link_, node_set_;
    std::vector<std::int32_t> out_first_, out_;  // links that leave each vertex
    std::vector<std::int32_t> in_first_, in_;    // and that come to it
    std::vector<std::int32_t> first_{0}, links_;
    std::vector<std::int32_t> set_of_;  // (n_stops, n_switches)
    std::vector<std::uint8_t> hops_;
    int most_rises_ = 0, most_channels_ = 1;
    bool rises_inside_ = false;  // regions
};

}  // namespace petacomm

#include <algorithm>
#include <array>
#include <cmath>
#include <queue>

#include "petacomm/mapping/strategies.h"

namespace petacomm {
namespace {

// A part of the vertices with the edges among them, and what draws each to one side.
struct Part {
    std::vector<std::int32_t> vertices;
    std::vector<std::int64_t> offsets;
    std::vector<std::int32_t> partners;  // positions in `vertices`
    std::vector<double> bytes;
    std::vector<double> pull;  // cost of the right side less that of the left, from vertices outside
    double apart = 1;          // hops between the sides
};

using Sides = std::vector<std::uint8_t>;

double cost_of(const Part& part, const Sides& side) {
    double cut = 0, pulled = 0;
    for (std::size_t v = 0; v < part.vertices.size(); ++v) {
        if (side[v]) pulled += part.pull[v];
        for (std::int64_t k = part.offsets[v]; k < part.offsets[v + 1]; ++k) {
            if (side[v] != side[part.partners[k]]) cut += part.bytes[k];
        }
    }
    return part.apart * cut / 2 + pulled;
}

// The vertices in the order in which they are reached from `start`, those with most bytes to reached ones
// first.
std::vector<std::int32_t> grown_from(const Part& part, std::int32_t start) {
    const auto n = static_cast<std::int32_t>(part.vertices.size());
    std::vector<std::int32_t> order;
    std::vector<double> tied(n, 0.0);
    std::vector<bool> reached(n, false);
    std::priority_queue<std::pair<double, std::int32_t>> queue;
    queue.emplace(0.0, -start);
    for (std::int32_t next = 0; static_cast<std::int32_t>(order.size()) < n;) {
        std::int32_t v;
        if (queue.empty()) {
            while (reached[next]) ++next;
            v = next;
        } else {
            v = -queue.top().second;
            queue.pop();
            if (reached[v]) continue;
        }
        reached[v] = true;
        order.push_back(v);
        for (std::int64_t k = part.offsets[v]; k < part.offsets[v + 1]; ++k) {
            const std::int32_t u = part.partners[k];
            if (reached[u]) continue;
            tied[u] += part.bytes[k];
            queue.emplace(tied[u], -u);
        }
    }
    return order;
}

// Moves of single vertices, best first, from the side that has too many; then back to the best balanced state
// (Fiduccia and Mattheyses 1982).
class Improver {
  public:
    Improver(const Part& part, Sides& side, std::int32_t n_left)
        : part_(part), side_(side), n_left_(n_left) {}

    bool pass() {
        const auto n = static_cast<std::int32_t>(side_.size());
        gain_.assign(n, 0.0);
        locked_.assign(n, false);
        for (auto& queue : queues_) queue = {};
        std::int32_t left = 0;
        for (std::int32_t v = 0; v < n; ++v) {
            left += !side_[v];
            gain_[v] = (side_[v] ? 1 : -1) * part_.pull[v];
            for (std::int64_t k = part_.offsets[v]; k < part_.offsets[v + 1]; ++k) {
                gain_[v] += part_.apart * part_.bytes[k] * (side_[v] == side_[part_.partners[k]] ? -1 : 1);
            }
            queues_[side_[v]].emplace(gain_[v], -v);
        }
        const std::int32_t patience = std::max(64, n / 16);
        std::vector<std::int32_t> moved;
        std::size_t kept = 0;
        double sum = 0, best = 0, size = 0;
        bool from_right = false;
        for (std::int32_t since = 0; since < patience; ++since) {
            if (left != n_left_) from_right = left < n_left_;
            const std::int32_t v = pop(from_right);
            if (v < 0) break;
            sum += gain_[v];
            size += std::abs(gain_[v]);
            move(v);
            moved.push_back(v);
            left += side_[v] ? -1 : 1;
            from_right = !from_right;
            if (left == n_left_ && sum > best + 1e-12 * size) {
                best = sum;
                kept = moved.size();
                since = 0;
            }
        }
        for (std::size_t i = kept; i < moved.size(); ++i) side_[moved[i]] ^= 1;
        return kept > 0;
    }

  private:
    std::int32_t pop(bool from_right) {
        auto& queue = queues_[from_right];
        while (!queue.empty()) {
            const auto [gain, v] = queue.top();
            queue.pop();
            if (!locked_[-v] && gain == gain_[-v]) return -v;
        }
        return -1;
    }

    void move(std::int32_t v) {
        locked_[v] = true;
        side_[v] ^= 1;
        for (std::int64_t k = part_.offsets[v]; k < part_.offsets[v + 1]; ++k) {
            const std::int32_t u = part_.partners[k];
            if (locked_[u]) continue;
            gain_[u] += 2 * part_.apart * part_.bytes[k] * (side_[u] == side_[v] ? -1 : 1);
            queues_[side_[u]].emplace(gain_[u], -u);
        }
    }

    const Part& part_;
    Sides& side_;
    std::int32_t n_left_;
    std::vector<double> gain_;
    std::vector<bool> locked_;
    std::array<std::priority_queue<std::pair<double, std::int32_t>>, 2> queues_;
};

Sides first_of(const std::vector<std::int32_t>& order, std::int32_t n_left) {
    Sides side(order.size(), 1);
    for (std::int32_t i = 0; i < n_left; ++i) side[order[i]] = 0;
    return side;
}

// The best of several first cuts, each improved: in the order of the vertices, as they pull, and grown.
Sides bisect(const Part& part, std::int32_t n_left, int passes) {
    const auto n = static_cast<std::int32_t>(part.vertices.size());
    std::vector<std::int32_t> order(n);
    for (std::int32_t v = 0; v < n; ++v) order[v] = v;
    std::vector<std::vector<std::int32_t>> orders{order};
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return part.pull[a] > part.pull[b]; });
    if (part.pull[order.front()] != part.pull[order.back()]) {
        orders.push_back(order);
        orders.push_back(grown_from(part, order.front()));
    } else {
        orders.push_back(grown_from(part, grown_from(part, 0).back()));
    }
    Sides best;
    double least = 0;
    for (const auto& first : orders) {
        Sides side = first_of(first, n_left);
        Improver improver(part, side, n_left);
        for (int pass = 0; pass < passes && improver.pass();) ++pass;
        const double cost = cost_of(part, side);
        if (best.empty() || cost < least) {
            least = cost;
            best = std::move(side);
        }
    }
    return best;
}

class Bisection {
  public:
    Bisection(const Routes& routes, const Exchange& graph, const Cuts& cuts, std::int32_t ranks_per_node,
              int passes, std::int32_t* nodes)
        : routes_(routes),
          graph_(graph),
          cuts_(cuts),
          ranks_per_node_(ranks_per_node),
          passes_(passes),
          nodes_(nodes),
          position_(graph.n, -1),
          members_(routes.n_nodes()) {}

    // A node stands for the vertices of its part until they are known better: `nodes_` holds these.
    void run() {
        std::fill(nodes_, nodes_ + graph_.n, cuts_.order[0]);
        for (std::int32_t v = 0; v < graph_.n; ++v) members_[0].push_back(v);
        for (std::int64_t i = 0; i < cuts_.n; ++i) split(i);
        for (std::int32_t low = 0; low < routes_.n_nodes(); ++low) {
            for (const std::int32_t v : members_[low]) nodes_[v] = cuts_.order[low];
        }
    }

  private:
    void split(std::int64_t cut) {
        const std::int32_t low = cuts_.low[cut], middle = cuts_.middle[cut], high = cuts_.high[cut];
        Part part = part_of(std::move(members_[low]), cuts_.left[cut], cuts_.right[cut]);
        members_[low].clear();
        const auto n = static_cast<std::int64_t>(part.vertices.size());
        if (n == 0) return;
        // As many on a side as its share of the nodes, and no more than it has room for.
        const std::int64_t left_room = std::int64_t{middle - low} * ranks_per_node_;
        const std::int64_t right_room = std::int64_t{high - middle} * ranks_per_node_;
        const std::int64_t share = (n * (middle - low) + (high - low) / 2) / (high - low);
        const auto n_left = static_cast<std::int32_t>(std::clamp(share, n - right_room, left_room));
        const Sides side = bisect(part, n_left, passes_);
        for (std::int64_t v = 0; v < n; ++v) {
            const std::int32_t vertex = part.vertices[v];
            position_[vertex] = -1;
            members_[side[v] ? middle : low].push_back(vertex);
            nodes_[vertex] = side[v] ? cuts_.right[cut] : cuts_.left[cut];
        }
    }

    Part part_of(std::vector<std::int32_t> vertices, std::int32_t left, std::int32_t right) {
        Part part;
        for (std::size_t v = 0; v < vertices.size(); ++v) {
            position_[vertices[v]] = static_cast<std::int32_t>(v);
        }
        part.apart = std::max(1, hops(left, right));
        part.offsets.push_back(0);
        for (const std::int32_t vertex : vertices) {
            double pull = 0;
            for (std::int64_t k = graph_.offsets[vertex]; k < graph_.offsets[vertex + 1]; ++k) {
                const std::int32_t u = graph_.partners[k];
                const double bytes = graph_.both(k);
                if (position_[u] >= 0) {
                    part.partners.push_back(position_[u]);
                    part.bytes.push_back(bytes);
                } else {
                    pull += bytes * (hops(right, nodes_[u]) - hops(left, nodes_[u]));
                }
            }
            part.pull.push_back(pull);
            part.offsets.push_back(static_cast<std::int64_t>(part.partners.size()));
        }
        part.vertices = std::move(vertices);
        return part;
    }

    int hops(std::int32_t a, std::int32_t b) const {
        return std::visit([&](const auto& kind) { return kind.hops(routes_.vertex[a], routes_.vertex[b]); },
                          routes_.kind);
    }

    const Routes& routes_;
    const Exchange& graph_;
    const Cuts& cuts_;
    std::int32_t ranks_per_node_;
    int passes_;
    std::int32_t* nodes_;
    std::vector<std::int32_t> position_;              // of each vertex in the part that is cut; -1: elsewhere
    std::vector<std::vector<std::int32_t>> members_;  // of the part that begins at each place of the order
};

}  // namespace

void place_by_bisection(const Routes& routes, const Exchange& graph, const Cuts& cuts,
                        std::int32_t ranks_per_node, int passes, std::int32_t* nodes) {
    Bisection(routes, graph, cuts, ranks_per_node, passes, nodes).run();
}

}  // namespace petacomm

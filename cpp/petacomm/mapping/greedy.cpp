#include <algorithm>
#include <limits>
#include <queue>

#include "petacomm/mapping/strategies.h"

namespace petacomm {
namespace {

constexpr std::int32_t most_tabled = 4096;  // nodes whose hops to each other are kept as a table
constexpr int candidates = 64;  // free nodes that a vertex chooses among, where there are more nodes

using Hops = std::vector<std::uint16_t>;

Hops hop_table(const Routes& routes) {
    const std::int32_t n = routes.n_nodes();
    if (n > most_tabled) return {};
    Hops table(static_cast<std::size_t>(n) * n);
    std::visit(
        [&](const auto& kind) {
            for (std::int32_t a = 0; a < n; ++a) {
                for (std::int32_t b = 0; b < n; ++b) {
                    table[static_cast<std::size_t>(a) * n + b] =
                        static_cast<std::uint16_t>(kind.hops(routes.vertex[b], routes.vertex[a]));
                }
            }
        },
        routes.kind);
    return table;
}

// The next place with room, upwards or downwards, with paths shortened on the way.
class Free {
  public:
    explicit Free(std::int32_t n) : up_(n + 2), down_(n + 2) {
        for (std::int32_t i = 0; i < n + 2; ++i) up_[i] = down_[i] = i;
    }
    void take(std::int32_t place) {
        up_[place + 1] = place + 2;
        down_[place + 1] = place;
    }
    std::int32_t above(std::int32_t place) { return find(up_, place + 1) - 1; }    // n where there is none
    std::int32_t below(std::int32_t place) { return find(down_, place + 1) - 1; }  // -1 where there is none

  private:
    static std::int32_t find(std::vector<std::int32_t>& next, std::int32_t i) {
        while (next[i] != i) i = next[i] = next[next[i]];
        return i;
    }
    std::vector<std::int32_t> up_, down_;
};

class Greedy {
  public:
    Greedy(const Routes& routes, const Exchange& graph, const std::int32_t* order,
           std::int32_t ranks_per_node, std::int32_t* nodes)
        : routes_(routes),
          graph_(graph),
          order_(order),
          nodes_(nodes),
          table_(hop_table(routes)),
          room_(routes.n_nodes(), ranks_per_node),
          free_(routes.n_nodes()),
          position_(routes.n_nodes()) {
        for (std::int32_t i = 0; i < routes.n_nodes(); ++i) position_[order[i]] = i;
    }

    void run() {
        const std::int32_t n = graph_.n;
        std::fill(nodes_, nodes_ + n, -1);
        std::vector<double> tied(n, 0.0);  // bytes to and from placed vertices
        std::vector<std::int32_t> heaviest(n);
        std::vector<double> weight(n, 0.0);
        for (std::int32_t v = 0; v < n; ++v) {
            heaviest[v] = v;
            for (std::int64_t k = graph_.offsets[v]; k < graph_.offsets[v + 1]; ++k)
                weight[v] += graph_.both(k);
        }
        std::stable_sort(heaviest.begin(), heaviest.end(),
                         [&](std::int32_t a, std::int32_t b) { return weight[a] > weight[b]; });
        std::priority_queue<std::pair<double, std::int32_t>> queue;
        auto begin = heaviest.begin();
        for (std::int32_t placed = 0; placed < n; ++placed) {
            std::int32_t next = -1;
            while (next < 0 && !queue.empty()) {
                const auto [bytes, v] = queue.top();
                queue.pop();
                if (nodes_[-v] < 0 && bytes == tied[-v]) next = -v;
            }
            while (next < 0) {
                if (nodes_[*begin] < 0) next = *begin;
                ++begin;
            }
            put(next, best_node(next));
            for (std::int64_t k = graph_.offsets[next]; k < graph_.offsets[next + 1]; ++k) {
                const std::int32_t v = graph_.partners[k];
                if (nodes_[v] >= 0) continue;
                tied[v] += graph_.both(k);
                queue.emplace(tied[v], -v);  // of equal ones the lowest first
            }
        }
    }

  private:
    void put(std::int32_t v, std::int32_t node) {
        nodes_[v] = node;
        if (--room_[node] == 0) free_.take(position_[node]);
    }

    std::int32_t best_node(std::int32_t v) { return table_.empty() ? best_nearby(v) : best_of_all(v); }

    std::int32_t best_of_all(std::int32_t v) {
        const std::int32_t n = routes_.n_nodes();
        cost_.assign(n, 0.0);
        for (std::int64_t k = graph_.offsets[v]; k < graph_.offsets[v + 1]; ++k) {
            const std::int32_t there = nodes_[graph_.partners[k]];
            if (there < 0) continue;
            const double bytes = graph_.both(k);
            const std::uint16_t* row = table_.data() + static_cast<std::size_t>(there) * n;
            for (std::int32_t node = 0; node < n; ++node) cost_[node] += bytes * row[node];
        }
        double best = std::numeric_limits<double>::infinity();
        std::int32_t found = -1;
        for (std::int32_t i = 0; i < n; ++i) {
            const std::int32_t node = order_[i];
            if (room_[node] > 0 && cost_[node] < best) best = cost_[found = node];
        }
        return found;
    }

    std::int32_t best_nearby(std::int32_t v) {
        double most = -1.0;
        std::int32_t near = 0;
        for (std::int64_t k = graph_.offsets[v]; k < graph_.offsets[v + 1]; ++k) {
            const std::int32_t there = nodes_[graph_.partners[k]];
            if (there >= 0 && graph_.both(k) > most) {
                most = graph_.both(k);
                near = position_[there];
            }
        }
        double best = std::numeric_limits<double>::infinity();
        std::int32_t found = -1, up = near - 1, down = near;
        for (int i = 0; i < candidates; ++i) {
            const bool upwards = i % 2 == 0;
            if (upwards && up < routes_.n_nodes()) up = free_.above(up + 1);
            if (!upwards && down >= 0) down = free_.below(down - 1);
            const std::int32_t at = upwards ? up : down;
            if (at < 0 || at >= routes_.n_nodes()) continue;
            const double cost = hop_bytes(v, order_[at]);
            if (cost < best) {
                best = cost;
                found = order_[at];
            }
        }
        return found;
    }

    double hop_bytes(std::int32_t v, std::int32_t node) const {
        return std::visit(
            [&](const auto& kind) {
                double sum = 0;
                for (std::int64_t k = graph_.offsets[v]; k < graph_.offsets[v + 1]; ++k) {
                    const std::int32_t there = nodes_[graph_.partners[k]];
                    if (there >= 0)
                        sum += graph_.both(k) * kind.hops(routes_.vertex[node], routes_.vertex[there]);
                }
                return sum;
            },
            routes_.kind);
    }

    const Routes& routes_;
    const Exchange& graph_;
    const std::int32_t* order_;
    std::int32_t* nodes_;
    Hops table_;
    std::vector<std::int32_t> room_;
    Free free_;
    std::vector<std::int32_t> position_;  // of each node in the order
    std::vector<double> cost_;
};

}  // namespace

void place_greedily(const Routes& routes, const Exchange& graph, const std::int32_t* order,
                    std::int32_t ranks_per_node, std::int32_t* nodes) {
    Greedy(routes, graph, order, ranks_per_node, nodes).run();
}

}  // namespace petacomm

#include <algorithm>
#include <cmath>

#include "petacomm/base/mix.h"
#include "petacomm/mapping/strategies.h"

namespace petacomm {
namespace {

// splitmix64 (Steele et al. 2014): the same numbers on every machine.
class Dice {
  public:
    explicit Dice(std::uint64_t seed) : state_(seed) {}
    std::uint32_t below(std::uint32_t n) {
        return static_cast<std::uint32_t>((static_cast<std::uint64_t>(word() >> 32) * n) >> 32);
    }

  private:
    std::uint64_t word() { return mix(state_ += golden_gamma); }
    std::uint64_t state_;
};

// What tells which of two placements is better: the largest load of all links, that of links between switches
// where what nodes send cannot be less, and the sum of loads, hop-bytes.
struct Objectives {
    double largest = 0, between = 0, sum = 0;

    bool is_below(const Objectives& other) const {
        constexpr double rounding = 1e-9;
        const double here[] = {largest, between, sum}, there[] = {other.largest, other.between, other.sum};
        for (int i = 0; i < 3; ++i) {
            if (here[i] < there[i] * (1 - rounding)) return true;
            if (here[i] > there[i] * (1 + rounding)) return false;
        }
        return false;
    }
};

template <class Kind>
class Refinement {
  public:
    Refinement(const Routes& routes, const Kind& kind, const Exchange& graph,
               const std::vector<double>& capacity, std::int32_t ranks_per_node, std::uint64_t seed,
               std::int32_t* nodes)
        : routes_(routes),
          kind_(kind),
          graph_(graph),
          nodes_(nodes),
          ranks_per_node_(ranks_per_node),
          dice_(seed),
          places_(static_cast<std::size_t>(routes.n_nodes()) * ranks_per_node, -1),
          place_of_(graph.n),
          loads_(capacity.size(), 0.0),
          before_(capacity.size(), 0.0),
          touched_at_(capacity.size(), 0),
          inverse_(capacity.size()),
          attached_(static_cast<std::int64_t>(capacity.size()) > routes.n_links) {
        for (std::size_t link = 0; link < capacity.size(); ++link) inverse_[link] = 1.0 / capacity[link];
        place_all();
        double sum = 0;
        for (std::size_t link = 0; link < loads_.size(); ++link) sum += loads_[link] * inverse_[link];
        unit_ = loads_.empty() ? 0.0 : sum / static_cast<double>(loads_.size());
    }

    void run(const std::vector<Stage>& stages) {
        best_.assign(nodes_, nodes_ + graph_.n);
        if (unit_ <= 0 || graph_.n < 1 || routes_.n_nodes() < 2) return;
        // All loads in units of the first mean.
        for (double& inverse : inverse_) inverse /= unit_;
        best_objectives_ = objectives();
        for (const Stage& stage : stages) run(stage);
        std::copy(best_.begin(), best_.end(), nodes_);
    }

  private:
    // Takes the places and the loads of `nodes_`.
    void place_all() {
        std::fill(places_.begin(), places_.end(), -1);
        std::fill(loads_.begin(), loads_.end(), 0.0);
        std::vector<std::int32_t> used(routes_.n_nodes(), 0);
        for (std::int32_t v = 0; v < graph_.n; ++v) {
            place_of_[v] = nodes_[v] * ranks_per_node_ + used[nodes_[v]]++;
            places_[place_of_[v]] = v;
        }
        for (std::int32_t v = 0; v < graph_.n; ++v) add_edges(v, 1.0, true);
    }

    void run(const Stage& stage) {
        squarings_ = stage.squarings;
        if (squarings_ == hop_bytes) {
            std::copy(best_.begin(), best_.end(), nodes_);
            place_all();
        }
        const double scale = stage.threshold * typical_change();
        const std::int64_t period =
            std::max<std::int64_t>(1, std::max<std::int64_t>(graph_.n, stage.moves / 64));
        for (std::int64_t move = 0; move < stage.moves; ++move) {
            const double left = 1.0 - static_cast<double>(move) / static_cast<double>(stage.moves);
            try_move(scale * left);
            if (move % period == period - 1) keep_best();
        }
        keep_best();
    }

    void keep_best() {
        const Objectives now = objectives();
        if (now.is_below(best_objectives_)) {
            best_objectives_ = now;
            std::copy(nodes_, nodes_ + graph_.n, best_.begin());
        }
    }

    Objectives objectives() const {
        Objectives now;
        const auto n_links = static_cast<std::size_t>(routes_.n_links);
        for (std::size_t link = 0; link < n_links; ++link) {
            now.between = std::max(now.between, loads_[link] * inverse_[link]);
            now.sum += loads_[link];
        }
        now.largest = now.between;
        for (std::size_t link = n_links; link < loads_.size(); ++link)
            now.largest = std::max(now.largest, loads_[link] * inverse_[link]);
        return now;
    }

    // The mean size of the change of the cost over some moves, none of which is made.
    double typical_change() {
        constexpr int samples = 64;
        double sum = 0;
        for (int i = 0; i < samples; ++i) {
            const auto [a, b] = draw();
            if (a == b) continue;
            swap_places(a, b);
            sum += std::abs(change());
            undo(a, b);
        }
        return sum / samples;
    }

    void try_move(double threshold) {
        const auto [a, b] = draw();
        if (a == b) return;
        swap_places(a, b);
        if (change() > threshold || is_too_busy()) undo(a, b);
    }

    // Two places on different nodes, the first with a vertex; equal ones where none were found.
    std::pair<std::int32_t, std::int32_t> draw() {
        const std::int32_t v = static_cast<std::int32_t>(dice_.below(graph_.n));
        std::int32_t other =
            static_cast<std::int32_t>(dice_.below(static_cast<std::uint32_t>(places_.size())));
        if (dice_.below(4) != 0) {
            // A place near a partner: that of a partner of the partner.
            const std::int32_t u = partner(partner(v));
            other = place_of_[u] / ranks_per_node_ * ranks_per_node_ +
                    static_cast<std::int32_t>(dice_.below(ranks_per_node_));
        }
        const bool same = other / ranks_per_node_ == nodes_[v];
        return {place_of_[v], same ? place_of_[v] : other};
    }

    std::int32_t partner(std::int32_t v) {
        const auto count = static_cast<std::uint32_t>(graph_.offsets[v + 1] - graph_.offsets[v]);
        return count == 0 ? v : graph_.partners[graph_.offsets[v] + dice_.below(count)];
    }

    void swap_places(std::int32_t a, std::int32_t b) {
        ++stamp_;
        touched_.clear();
        const std::int32_t v = places_[a], w = places_[b];
        // What goes between the two is taken away and added with the first alone.
        add_edges(v, -1.0, false);
        if (w >= 0) add_edges(w, -1.0, false, v);
        exchange(a, b);
        add_edges(v, 1.0, false);
        if (w >= 0) add_edges(w, 1.0, false, v);
    }

    void undo(std::int32_t a, std::int32_t b) {
        exchange(a, b);
        for (const std::int64_t link : touched_) loads_[link] = before_[link];
    }

    void exchange(std::int32_t a, std::int32_t b) {
        std::swap(places_[a], places_[b]);
        for (const std::int32_t place : {a, b}) {
            const std::int32_t v = places_[place];
            if (v < 0) continue;
            place_of_[v] = place;
            nodes_[v] = place / ranks_per_node_;
        }
    }

    // Adds what v sends, and unless `sent_only`, what it receives, but with one partner.
    void add_edges(std::int32_t v, double sign, bool sent_only, std::int32_t without = -1) {
        const std::int32_t here = nodes_[v];
        for (std::int64_t k = graph_.offsets[v]; k < graph_.offsets[v + 1]; ++k) {
            const std::int32_t u = graph_.partners[k];
            if (u == without || nodes_[u] == nodes_[v]) continue;
            const std::int32_t there = nodes_[u];
            if (graph_.to[k] > 0) add_way(here, there, sign * graph_.to[k]);
            if (!sent_only && graph_.from[k] > 0) add_way(there, here, sign * graph_.from[k]);
        }
    }

    // Adds bytes from node a to node b, also on the links between these and their switches if these count.
    void add_way(std::int32_t a, std::int32_t b, double bytes) {
        kind_.walk(routes_.vertex[a], routes_.vertex[b],
                   [&](std::int64_t link, double share) { add(link, share * bytes); });
        if (!attached_) return;
        add(routes_.n_links + a, bytes);
        add(routes_.n_links + routes_.n_nodes() + b, bytes);
    }

    void add(std::int64_t link, double bytes) {
        if (touched_at_[link] != stamp_) {
            touched_at_[link] = stamp_;
            before_[link] = loads_[link];
            touched_.push_back(link);
        }
        loads_[link] += bytes;
    }

    // Whether a link is busier than the busiest of the best placement, where the cost does not see that.
    bool is_too_busy() const {
        if (squarings_ != hop_bytes) return false;
        constexpr double rounding = 1 + 1e-10;
        for (const std::int64_t link : touched_) {
            const double most = link < routes_.n_links ? best_objectives_.between : best_objectives_.largest;
            if (loads_[link] * inverse_[link] > most * rounding) return true;
        }
        return false;
    }

    double change() const {
        double sum = 0;
        for (const std::int64_t link : touched_) {
            if (squarings_ == hop_bytes) {
                sum += link < routes_.n_links ? loads_[link] - before_[link] : 0.0;
                continue;
            }
            sum += cost(loads_[link] * inverse_[link]) - cost(before_[link] * inverse_[link]);
        }
        return sum;
    }

    double cost(double load) const {
        for (int i = 0; i < squarings_; ++i) load *= load;
        return load;
    }

    const Routes& routes_;
    const Kind& kind_;
    const Exchange& graph_;
    std::int32_t* nodes_;
    std::int32_t ranks_per_node_;
    Dice dice_;
    std::vector<std::int32_t> places_,
        place_of_;  // the vertex of each place, -1: none; the place of each vertex
    std::vector<double> loads_, before_;
    std::vector<std::uint64_t> touched_at_;
    std::vector<double> inverse_;  // of the capacities
    bool attached_;
    std::vector<std::int64_t> touched_;
    std::vector<std::int32_t> best_;
    Objectives best_objectives_;
    double unit_ = 0;
    std::uint64_t stamp_ = 1;
    int squarings_ = 0;
};

}  // namespace

void refine(const Routes& routes, const Exchange& graph, const std::vector<double>& capacity,
            std::int32_t ranks_per_node, const std::vector<Stage>& stages, std::uint64_t seed,
            std::int32_t* nodes) {
    std::visit(
        [&](const auto& kind) {
            Refinement(routes, kind, graph, capacity, ranks_per_node, seed, nodes).run(stages);
        },
        routes.kind);
}

}  // namespace petacomm

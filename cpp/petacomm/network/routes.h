// The routes of messages through networks, link by link, as the networks of petacomm.topology take them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <variant>
#include <vector>

namespace petacomm {

// A torus or mesh: one dimension after the other; half a ring is gone both ways with half of the bytes
// each.
class TorusRoutes {
  public:
    TorusRoutes(const std::vector<int>& shape, const std::vector<bool>& wrap);

    std::int64_t n_vertices() const {
        return n_dimensions_ ? static_cast<std::int64_t>(places_.size()) / n_dimensions_ : 1;
    }
    std::int64_t n_links() const { return n_links_; }

    int hops(int a, int b) const {
        int sum = 0;
        for (int d = 0; d < n_dimensions_; ++d) {
            const int away = std::abs(place(a, d) - place(b, d));
            sum += wrap_[d] ? std::min(away, shape_[d] - away) : away;
        }
        return sum;
    }

    // Calls each(link, share) for all links from vertex a to vertex b; share is 1 or 1/2.
    template <class Each>
    void walk(int a, int b, Each&& each) const {
        std::array<int, 6> at;
        for (int d = 0; d < n_dimensions_; ++d) at[d] = place(a, d);
        for (int d = 0; d < n_dimensions_; ++d) {
            const int from = at[d], to = place(b, d), size = shape_[d];
            if (from == to) continue;
            std::int64_t line = 0;  // the line's link that leaves coordinate 0
            for (int k = 0; k < n_dimensions_; ++k) line += k == d ? 0 : at[k] * link_stride_[d][k];
            const int up = to > from ? to - from : size - from + to;
            const bool ring = wrap_[d];
            const double share = ring && 2 * up == size ? 0.5 : 1.0;
            if (ring ? 2 * up <= size : to > from) {
                along(first_[2 * d] + line, link_stride_[d][d], from, up, size, share, each);
            }
            if (ring ? 2 * up >= size : to < from) {
                // A mesh numbers links downwards by their lower end, a ring by the node they leave.
                const int steps = ring ? size - up : from - to;
                const int begin = ring ? (from - steps + 1 + size) % size : to;
                along(first_[2 * d + 1] + line, link_stride_[d][d], begin, steps, size, share, each);
            }
            at[d] = to;
        }
    }

  private:
    int place(int vertex, int d) const {
        return places_[static_cast<std::size_t>(vertex) * n_dimensions_ + d];
    }

    template <class Each>
    static void along(std::int64_t first, std::int64_t stride, int begin, int steps, int size, double share,
                      Each&& each) {
        for (int step = 0, k = begin; step < steps; ++step) {
            each(first + k * stride, share);
            if (++k == size) k = 0;
        }
    }

    int n_dimensions_;
    std::int64_t n_links_ = 0;
    std::array<int, 6> shape_{};
    std::array<bool, 6> wrap_{};
    std::array<std::array<std::int64_t, 6>, 6> link_stride_{};
    std::array<std::int64_t, 13> first_{};
    std::vector<std::int32_t> places_;  // (n_vertices, n_dimensions)
};

// Cliques of cliques: at levels without cables, each vertex has a link to each of the other groups; else each
// pair of groups has so many cables, which lead to the vertices in turn, or consecutive ones to each.
class CliqueRoutes {
  public:
    CliqueRoutes(const std::vector<int>& sizes, const std::vector<int>& cables,
                 const std::vector<bool>& consecutive);

    std::int64_t n_vertices() const { return inner_.back(); }
    std::int64_t n_links() const { return first_.back(); }

    int hops(int a, int b) const {
        int sum = 0;
        walk(a, b, [&sum](std::int64_t, double) { ++sum; });
        return sum;
    }

    template <class Each>
    void walk(int a, int b, Each&& each) const {
        if (a == b) return;
        std::size_t index = sizes_.size() - 1;
        while (a / inner_[index] == b / inner_[index]) --index;
        const int inner = inner_[index], size = sizes_[index];
        const int here = a / inner, there = b / inner;
        const int near = here % size, far = there % size;
        const int peer = far - (far > near), cables = cables_[index];
        if (cables == 0) {
            each(first_[index] + (static_cast<std::int64_t>(a) * (size - 1) + peer) * inner + b % inner, 1.0);
            return;
        }
        const auto cable = static_cast<int>((std::int64_t{a} + b) % cables);
        const std::int64_t port = std::int64_t{peer} * cables + cable;
        const std::int64_t other = std::int64_t{near - (near > far)} * cables + cable;
        const int out = here * inner + vertex_of_port(port, index);
        const int arrival = there * inner + vertex_of_port(other, index);
        walk(a, out, each);
        each(first_[index] + std::int64_t{here} * (size - 1) * cables + port, 1.0);
        walk(arrival, b, each);
    }

  private:
    int vertex_of_port(std::int64_t port, std::size_t index) const {
        const int width = widths_[index];
        return static_cast<int>(width ? port / width : port % inner_[index]);
    }

    std::vector<int> sizes_, inner_, cables_;
    std::vector<int> widths_;  // cables of a vertex where they are consecutive; 0 where vertices take turns
    std::vector<std::int64_t> first_;
};

// A fat tree of switches: up by the parents that the destination chooses, and down.
class FatTreeRoutes {
  public:
    FatTreeRoutes(const std::vector<int>& children, const std::vector<int>& parents);

    std::int64_t n_vertices() const { return below_.back(); }
    std::int64_t n_links() const { return 2 * first_.back(); }

    int hops(int a, int b) const {
        int level = 0;
        while (a / below_[level] != b / below_[level]) ++level;
        return 2 * level;
    }

    template <class Each>
    void walk(int a, int b, Each&& each) const {
        std::int64_t copy = 0;
        for (std::size_t level = 0; a / below_[level] != b / below_[level]; ++level) {
            const std::int64_t width = parents_[level], copies = copies_[level];
            const std::int64_t port = b / copies % width;
            each(first_[level] + (a / below_[level] * copies + copy) * width + port, 1.0);
            each(first_.back() + first_[level] + (b / below_[level] * copies + copy) * width + port, 1.0);
            copy += port * copies;
        }
    }

  private:
    std::vector<std::int64_t> parents_, below_, copies_, first_;
};

// Routes as a table: the first link of the route from each vertex (row) to each other one.
class TableRoutes {
  public:
    // `next` (n_vertices, n_vertices), `head` (n_links): the vertex at the end of each link. Throws
    // std::invalid_argument where following them does not lead from one vertex to another.
    TableRoutes(const std::vector<std::int32_t>& next, const std::vector<std::int32_t>& head);

    std::int64_t n_vertices() const { return n_vertices_; }
    std::int64_t n_links() const { return static_cast<std::int64_t>(head_.size()); }

    int hops(int a, int b) const {
        int sum = 0;
        walk(a, b, [&sum](std::int64_t, double) { ++sum; });
        return sum;
    }

    template <class Each>
    void walk(int a, int b, Each&& each) const {
        for (int at = a; at != b;) {
            const std::int32_t link = next_[static_cast<std::size_t>(at) * n_vertices_ + b];
            each(std::int64_t{link}, 1.0);
            at = head_[link];
        }
    }

  private:
    void check() const;

    std::int64_t n_vertices_;
    std::vector<std::int32_t> next_, head_;
};

// A network and the vertex at which each node is attached.
struct Routes {
    std::variant<TorusRoutes, CliqueRoutes, FatTreeRoutes, TableRoutes> kind;
    std::vector<std::int32_t> vertex;  // (n_nodes,)
    std::int64_t n_links;

    std::int32_t n_nodes() const { return static_cast<std::int32_t>(vertex.size()); }
};

// Adds the bytes of messages to the loads of the links that they cross.
void add_loads(const Routes& routes, const std::int32_t* source, const std::int32_t* destination,
               const double* bytes, std::int64_t n, double* loads);

// Counts the links that messages cross.
void count_hops(const Routes& routes, const std::int32_t* source, const std::int32_t* destination,
                std::int64_t n, std::int32_t* hops);

}  // namespace petacomm

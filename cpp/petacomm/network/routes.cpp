#include "petacomm/network/routes.h"

#include <cmath>
#include <stdexcept>

namespace petacomm {

TorusRoutes::TorusRoutes(const std::vector<int>& shape, const std::vector<bool>& wrap)
    : n_dimensions_(static_cast<int>(shape.size())) {
    std::int64_t n_vertices = 1, links = 0;
    for (int d = 0; d < n_dimensions_; ++d) {
        shape_[d] = shape[d];
        wrap_[d] = wrap[d];
        n_vertices *= shape[d];
    }
    for (int d = 0; d < n_dimensions_; ++d) {
        std::int64_t count = 1;
        for (int k = n_dimensions_ - 1; k >= 0; --k) {
            link_stride_[d][k] = count;
            count *= shape_[k] - (k == d && !wrap_[d]);
        }
        first_[2 * d] = links;
        first_[2 * d + 1] = links + count;
        links += 2 * count;
    }
    n_links_ = links;
    places_.resize(static_cast<std::size_t>(n_vertices) * n_dimensions_);
    for (std::int64_t vertex = 0; vertex < n_vertices; ++vertex) {
        std::int64_t rest = vertex;
        for (int d = n_dimensions_ - 1; d >= 0; --d) {
            places_[static_cast<std::size_t>(vertex) * n_dimensions_ + d] =
                static_cast<std::int32_t>(rest % shape_[d]);
            rest /= shape_[d];
        }
    }
}

CliqueRoutes::CliqueRoutes(const std::vector<int>& sizes, const std::vector<int>& cables,
                           const std::vector<bool>& consecutive)
    : sizes_(sizes), inner_{1}, cables_(cables), first_{0} {
    for (const int size : sizes) inner_.push_back(inner_.back() * size);
    const std::int64_t n_vertices = inner_.back();
    for (std::size_t index = 0; index < sizes.size(); ++index) {
        const bool every = cables[index] == 0;
        const std::int64_t groups = n_vertices / (every ? 1 : inner_[index]);
        const std::int64_t peers = std::int64_t{sizes[index] - 1} * (every ? inner_[index] : cables[index]);
        first_.push_back(first_.back() + groups * peers);
        const std::int64_t ports = every ? 0 : peers;
        const std::int64_t width = (ports + inner_[index] - 1) / inner_[index];
        widths_.push_back(consecutive[index] ? static_cast<int>(width) : 0);
    }
}

FatTreeRoutes::FatTreeRoutes(const std::vector<int>& children, const std::vector<int>& parents)
    : parents_(parents.begin(), parents.end()), below_{1}, copies_{1}, first_{0} {
    for (std::size_t level = 0; level < children.size(); ++level) {
        below_.push_back(below_.back() * children[level]);
        copies_.push_back(copies_.back() * parents[level]);
    }
    for (std::size_t level = 0; level < children.size(); ++level) {
        first_.push_back(first_.back() + below_.back() / below_[level] * copies_[level] * parents_[level]);
    }
}

TableRoutes::TableRoutes(const std::vector<std::int32_t>& next, const std::vector<std::int32_t>& head)
    : n_vertices_(std::lround(std::sqrt(static_cast<double>(next.size())))), next_(next), head_(head) {
    check();
}

// Hold that all routes end.
void TableRoutes::check() const {
    for (std::int64_t b = 0; b < n_vertices_; ++b) {
        for (std::int64_t a = 0; a < n_vertices_; ++a) {
            std::int64_t at = a, hops = 0;
            while (at != b && ++hops < n_vertices_) {
                const std::int32_t link = next_[at * n_vertices_ + b];
                if (link < 0 || link >= n_links()) throw std::invalid_argument("next: links that there are");
                at = head_[link];
            }
            if (at != b) throw std::invalid_argument("next: routes that end");
        }
    }
}

void add_loads(const Routes& routes, const std::int32_t* source, const std::int32_t* destination,
               const double* bytes, std::int64_t n, double* loads) {
    std::visit(
        [&](const auto& kind) {
            for (std::int64_t i = 0; i < n; ++i) {
                kind.walk(routes.vertex[source[i]], routes.vertex[destination[i]],
                          [&](std::int64_t link, double share) { loads[link] += share * bytes[i]; });
            }
        },
        routes.kind);
}

void count_hops(const Routes& routes, const std::int32_t* source, const std::int32_t* destination,
                std::int64_t n, std::int32_t* hops) {
    std::visit(
        [&](const auto& kind) {
            for (std::int64_t i = 0; i < n; ++i) {
                hops[i] = kind.hops(routes.vertex[source[i]], routes.vertex[destination[i]]);
            }
        },
        routes.kind);
}

}  // namespace petacomm

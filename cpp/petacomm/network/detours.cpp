#include "petacomm/network/detours.h"

#include <algorithm>

namespace petacomm {

namespace {

struct Share {  // of what a vertex sends to another, by way of each middle
    std::int32_t destination;
    double bytes;
};

// Sums the loads of all detours, the middles of one region after the other: from a vertex to where its routes
// enter the region, and from there to all destinations.
template <class Kind>
class DetourLoads {
  public:
    DetourLoads(const Kind& kind, const Detours& detours, double* loads)
        : kind_(kind),
          detours_(detours),
          loads_(loads),
          shares_(detours.region.size()),
          row_(detours.region.size(), -1) {
        const std::int32_t last = *std::max_element(detours.region.begin(), detours.region.end());
        members_.resize(last + 1);
        for (const std::int32_t middle : detours.middles) members_[detours.region[middle]].push_back(middle);
    }

    void add_message(std::int32_t from, std::int32_t to, double bytes) {
        const std::int32_t here = detours_.region[from], there = detours_.region[to];
        const auto n_middles = static_cast<std::int64_t>(detours_.middles.size()) - n_members(here) -
                               (here == there ? 0 : n_members(there));
        if (here == there || n_middles == 0) {
            walk(from, to, bytes);
        } else {
            shares_[from].push_back({to, bytes / static_cast<double>(n_middles)});
        }
    }

    void add_detours() {
        for (std::size_t region = 0; region < members_.size(); ++region) {
            if (members_[region].empty()) continue;
            for (std::size_t from = 0; from < shares_.size(); ++from) {
                if (shares_[from].empty() || detours_.region[from] == static_cast<std::int32_t>(region))
                    continue;
                enter(static_cast<std::int32_t>(from), static_cast<std::int32_t>(region));
            }
            leave();
        }
    }

  private:
    std::int64_t n_members(std::int32_t region) const {
        return static_cast<std::int64_t>(members_[region].size());
    }

    void walk(std::int32_t from, std::int32_t to, double bytes) {
        kind_.walk(from, to, [&](std::int64_t link, double share) { loads_[link] += share * bytes; });
    }

    // Bring what a vertex sends by way of a region to where it enters.
    void enter(std::int32_t from, std::int32_t region) {
        double bytes = 0;  // by way of each middle
        for (const Share& share : shares_[from])
            bytes += detours_.region[share.destination] == region ? 0 : share.bytes;
        for (const std::int32_t middle : members_[region]) {
            std::int32_t at = from;
            kind_.walk(from, middle, [&](std::int64_t link, double) {
                if (detours_.region[at] == region) return;
                loads_[link] += bytes;
                at = detours_.head[link];
            });
            double* const row = row_of(at);
            for (const Share& share : shares_[from]) {
                if (detours_.region[share.destination] != region) row[share.destination] += share.bytes;
            }
        }
    }

    double* row_of(std::int32_t vertex) {
        if (row_[vertex] < 0) {
            row_[vertex] = static_cast<std::int32_t>(entered_.size());
            entered_.push_back(vertex);
            rows_.resize(entered_.size() * shares_.size());
        }
        return &rows_[static_cast<std::size_t>(row_[vertex]) * shares_.size()];
    }

    // Send what has entered a region on to its destinations.
    void leave() {
        for (const std::int32_t vertex : entered_) {
            const double* const row = row_of(vertex);
            for (std::size_t to = 0; to < shares_.size(); ++to) {
                if (row[to] > 0) walk(vertex, static_cast<std::int32_t>(to), row[to]);
            }
        }
        for (const std::int32_t vertex : entered_) row_[vertex] = -1;
        entered_.clear();
        rows_.clear();
    }

    const Kind& kind_;
    const Detours& detours_;
    double* loads_;
    std::vector<std::vector<Share>> shares_;  // of each source
    std::vector<std::vector<std::int32_t>> members_;
    std::vector<std::int32_t> row_, entered_;  // rows of vertices where messages enter the present region
    std::vector<double> rows_;                 // bytes to each destination
};

}  // namespace

void add_detour_loads(const Routes& routes, const Detours& detours, const std::int32_t* source,
                      const std::int32_t* destination, const double* bytes, std::int64_t n, double* loads) {
    std::visit(
        [&](const auto& kind) {
            DetourLoads sums(kind, detours, loads);
            for (std::int64_t i = 0; i < n; ++i)
                sums.add_message(routes.vertex[source[i]], routes.vertex[destination[i]], bytes[i]);
            sums.add_detours();
        },
        routes.kind);
}

}  // namespace petacomm

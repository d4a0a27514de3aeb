// Placing the vertices of a communication graph on the nodes of a network.
#pragma once

#include <cstdint>
#include <vector>

#include "petacomm/network/routes.h"

namespace petacomm {

// Who exchanges how much with whom: for each vertex its partners, with the bytes to and from each.
struct Exchange {
    std::int32_t n;                // vertices
    const std::int64_t* offsets;   // (n + 1,)
    const std::int32_t* partners;  // (offsets[n],), none is the vertex itself
    const double* to;              // bytes from the vertex to the partner
    const double* from;            // and back

    double both(std::int64_t k) const { return to[k] + from[k]; }
};

// Cuts of the nodes into halves, and halves of halves: nodes order[low] to order[high - 1] are cut at middle.
// A part follows the part that it comes from; parts of one node are left out.
struct Cuts {
    std::int64_t n;
    const std::int32_t* low;
    const std::int32_t* middle;
    const std::int32_t* high;
    const std::int32_t* left;  // a node in the middle of each half
    const std::int32_t* right;
    const std::int32_t* order;  // (n_nodes,)
};

// One vertex after the other, that with most bytes to placed ones first, on the free node where its bytes
// cross the fewest links; of many nodes, those that stand near its partners in `order`.
void place_greedily(const Routes& routes, const Exchange& graph, const std::int32_t* order,
                    std::int32_t ranks_per_node, std::int32_t* nodes);

// Bisection of the vertices along with the nodes, both halves and halves of halves.
void place_by_bisection(const Routes& routes, const Exchange& graph, const Cuts& cuts,
                        std::int32_t ranks_per_node, int passes, std::int32_t* nodes);

// A stage of threshold accepting: the cost is the sum over links of (load / capacity)^(2^squarings); or it is
// hop-bytes, from the best placement on, and no link becomes busier than the busiest is there.
constexpr int hop_bytes = -1;  // in the place of squarings
struct Stage {
    int squarings;
    std::int64_t moves;
    double threshold;  // at its begin, in units of the typical change of a move; it falls to 0
};

// Threshold accepting (Dueck and Scheuer 1990): swaps two vertices, or moves one to a free place, and accepts
// what makes the cost no worse than by a threshold. Keeps the placement with the smallest largest load, of
// several the one with the least hop-bytes.
// `capacity`: of each link; then, if these count, of the links from each node to its switch, and back.
void refine(const Routes& routes, const Exchange& graph, const std::vector<double>& capacity,
            std::int32_t ranks_per_node, const std::vector<Stage>& stages, std::uint64_t seed,
            std::int32_t* nodes);

}  // namespace petacomm

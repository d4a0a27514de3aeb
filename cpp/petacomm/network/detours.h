// Expected loads of links where messages make detours by way of vertices drawn at random (Valiant 1982).
#pragma once

#include <cstdint>
#include <vector>

#include "petacomm/network/routes.h"

namespace petacomm {

// A detour goes from a vertex to one of the middles, drawn evenly from those outside of the regions of source
// and destination, and on as soon as it is in the region of the middle.
struct Detours {
    std::vector<std::int32_t> head;    // of each link, a vertex
    std::vector<std::int32_t> region;  // of each vertex, from 0 on
    std::vector<std::int32_t> middles;
};

// Adds the bytes of messages, each spread over all its detours, to the loads of links. Messages within a
// region, and those for which there is no middle, take their routes.
void add_detour_loads(const Routes& routes, const Detours& detours, const std::int32_t* source,
                      const std::int32_t* destination, const double* bytes, std::int64_t n, double* loads);

}  // namespace petacomm

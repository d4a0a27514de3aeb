// A barrier between processes that share memory: two words, zero at first. The ranks that wait sleep, so that
// those that still work have the cores, also where there are more ranks than cores.
#pragma once

#include <cstdint>

namespace petacomm {

// Count this process in; the last of n opens the barrier. Returns the ticket to wait with.
std::int32_t barrier_arrive(std::int32_t* words, std::int32_t n);

// Wait until the barrier of this ticket is open, at most so many seconds; poll so often before sleeping.
bool barrier_wait(std::int32_t* words, std::int32_t ticket, std::int64_t n_polls, double seconds);

}  // namespace petacomm

// Whether threads can be started, tried before others start them who could not tell.
#pragma once

#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace petacomm {

// Return how many of n threads, the calling one among them, run at once: fewer where a limit of the user, of
// the group of processes or of memory stops the system from starting more. They all end before this returns.
inline int startable_threads(int n) {
    std::vector<std::thread> threads;
    std::mutex gate;
    threads.reserve(n);
    {
        const std::lock_guard<std::mutex> shut(gate);
        try {
            while (static_cast<int>(threads.size()) + 1 < n)
                threads.emplace_back([&gate] { const std::lock_guard<std::mutex> passed(gate); });
        } catch (const std::system_error&) {
        }
    }
    for (auto& thread : threads) thread.join();
    return static_cast<int>(threads.size()) + 1;
}

}  // namespace petacomm

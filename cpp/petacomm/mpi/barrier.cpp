#include "petacomm/mpi/barrier.h"

#include <atomic>
#include <chrono>
#include <climits>
#include <thread>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#endif

namespace petacomm {

namespace {

using Word = std::atomic_ref<std::int32_t>;

// std::atomic::wait knows only the threads of one process.
#ifdef __linux__
void sleep_while(std::int32_t* word, std::int32_t value, double seconds) {
    const auto whole = static_cast<std::time_t>(seconds);
    const timespec limit{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void wake_all(std::int32_t* word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }
#else
void sleep_while(std::int32_t*, std::int32_t, double) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void wake_all(std::int32_t*) {}
#endif

}  // namespace

std::int32_t barrier_arrive(std::int32_t* words, std::int32_t n) {
    Word arrived(words[0]), opened(words[1]);
    const std::int32_t ticket = opened.load(std::memory_order_acquire);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == n) {
        arrived.store(0, std::memory_order_relaxed);
        opened.store(ticket + 1, std::memory_order_release);
        wake_all(&words[1]);
    }
    return ticket;
}

bool barrier_wait(std::int32_t* words, std::int32_t ticket, std::int64_t n_polls, double seconds) {
    Word opened(words[1]);
    for (std::int64_t i = 0; i < n_polls; ++i)
        if (opened.load(std::memory_order_acquire) != ticket) return true;
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (opened.load(std::memory_order_acquire) == ticket) {
        const auto now = std::chrono::steady_clock::now();
        if (now >= end) return false;
        sleep_while(&words[1], ticket, std::chrono::duration<double>(end - now).count());
    }
    return true;
}

}  // namespace petacomm

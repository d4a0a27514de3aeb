// The number of the calling thread, with or without OpenMP; the end of threads, and what they throw.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <thread>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace petacomm {

inline int thread_number() {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

// The number of threads for so many multiplications: one, where others would be awake too late.
inline int threads_for(std::int64_t n_products, int n_threads) {
    constexpr std::int64_t kFew = std::int64_t{1} << 17;  // some 50 microseconds
    return n_products < kFew ? 1 : n_threads;
}

// End the threads that OpenMP keeps for the calling thread; the next parallel region starts others. GCC's
// does not see that a forked process has none of them, and waits for ever.
inline void end_threads() {
#ifdef _OPENMP
    omp_pause_resource_all(omp_pause_hard);
#endif
}

// What the threads of a parallel region throw, most often that there is no memory: an exception that leaves a
// region ends the process. Threads go on to the end of the region, after which the first one is thrown.
class Thrown {
  public:
    template <class Work>
    void keep(const Work& work) noexcept {
        try {
            work();
        } catch (...) {
#pragma omp critical(petacomm_thrown)
            if (!first_) first_ = std::current_exception();
        }
    }

    void rethrow() const {
        if (first_) std::rethrow_exception(first_);
    }

  private:
    std::exception_ptr first_;
};

// A lock for what is held for a fraction of a millisecond. Who waits does not sleep: a system wakes threads
// late, and on the core of the thread that wakes them. Where threads outnumber cores, others go on meanwhile.
class BriefLock {
  public:
    void lock() {
        for (int n = 0; held_.exchange(true, std::memory_order_acquire);)
            while (held_.load(std::memory_order_relaxed))
                if (++n % kLooks == 0) std::this_thread::yield();
    }
    void unlock() { held_.store(false, std::memory_order_release); }

  private:
    static constexpr int kLooks = 1 << 10;
    alignas(64) std::atomic<bool> held_ = false;
};

// Call work(part) for each of n parts, a thread each.
template <class Work>
void in_parts(int n, const Work& work) {
    Thrown thrown;
#pragma omp parallel for schedule(static) num_threads(n)
    for (int part = 0; part < n; ++part) thrown.keep([&] { work(part); });
    thrown.rethrow();
}

// Call work(begin, end) for n ranges of what lies between offsets, a thread each: each range is about as long
// as others, and always of the same thread, which has it in its cache.
template <class Work>
void in_ranges(std::span<const std::int64_t> offsets, int n, const Work& work) {
    const auto begin_of = [&](int part) {
        if (part == n) return offsets.size() - 1;
        const std::int64_t before = (offsets.back() - offsets.front()) * part / n;
        const auto found = std::lower_bound(offsets.begin(), offsets.end() - 1, offsets.front() + before);
        return static_cast<std::size_t>(found - offsets.begin());
    };
    in_parts(n, [&](int part) { work(begin_of(part), begin_of(part + 1)); });
}

}  // namespace petacomm

// The number of the calling thread, with or without OpenMP; and what threads throw.
#pragma once

#include <exception>

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

// Call work(part) for each of n parts, a thread each.
template <class Work>
void in_parts(int n, const Work& work) {
    Thrown thrown;
#pragma omp parallel for schedule(static) num_threads(n)
    for (int part = 0; part < n; ++part) thrown.keep([&] { work(part); });
    thrown.rethrow();
}

}  // namespace petacomm

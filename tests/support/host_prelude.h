// What the kernels of petamap.cuda use of a device, on the processor: one block and one thread after the
// other.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <utility>

#define __global__

namespace {

constexpr int kThreads = 128;
struct {
    unsigned x, y;
} blockIdx;

#define SHARED(type, name) static type name

template <class Work>
void in_threads(const Work& work) {
    for (int thread = 0; thread < kThreads; ++thread)
        work(thread, static_cast<std::int64_t>(blockIdx.x) * kThreads + thread);
}

void sincospi(double x, double* sine, double* cosine) {
    *sine = std::sin(std::numbers::pi * x);
    *cosine = std::cos(std::numbers::pi * x);
}

std::int64_t nearest_integer(double value) { return std::llrint(value); }

void add_to(std::int64_t* sum, std::int64_t value) { *sum += value; }

template <class... Arguments, std::size_t... number>
void run(void (*kernel)(Arguments...), void** arguments, std::index_sequence<number...>) {
    kernel(*static_cast<Arguments*>(arguments[number])...);
}

template <class... Arguments>
void launch(void (*kernel)(Arguments...), unsigned n_blocks, unsigned n_rows, void** arguments) {
    for (blockIdx.y = 0; blockIdx.y < n_rows; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < n_blocks; ++blockIdx.x)
            run(kernel, arguments, std::index_sequence_for<Arguments...>{});
}

}  // namespace

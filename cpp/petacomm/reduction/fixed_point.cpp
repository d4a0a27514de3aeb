#include "petacomm/reduction/fixed_point.h"

#include <cmath>
#include <limits>

namespace petacomm {

template <typename T>
double largest(const T* values, std::int64_t n, int n_threads) {
    double size = 0;
    bool finite = true;
#pragma omp parallel for schedule(static) num_threads(n_threads) reduction(max : size) reduction(&& : finite)
    for (std::int64_t i = 0; i < n; ++i) {
        const double value = std::fabs(static_cast<double>(values[i]));
        finite = finite && value <= std::numeric_limits<double>::max();
        size = size > value ? size : value;
    }
    return finite ? size : std::numeric_limits<double>::infinity();
}

template <typename T>
void to_fixed(const T* values, std::int64_t n, double unit, std::int64_t* words, int n_threads) {
    const double scale = 1 / unit;
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (std::int64_t i = 0; i < n; ++i) words[i] = std::llrint(static_cast<double>(values[i]) * scale);
}

template <typename T>
void from_fixed(const std::int64_t* words, std::int64_t n, double unit, T* values, int n_threads) {
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<T>(static_cast<double>(words[i]) * unit);
}

#define PETAMAP_INSTANTIATE(T)                                                     \
    template double largest<T>(const T*, std::int64_t, int);                       \
    template void to_fixed<T>(const T*, std::int64_t, double, std::int64_t*, int); \
    template void from_fixed<T>(const std::int64_t*, std::int64_t, double, T*, int);
PETAMAP_INSTANTIATE(double)
PETAMAP_INSTANTIATE(float)
#undef PETAMAP_INSTANTIATE

}  // namespace petacomm

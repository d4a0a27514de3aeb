#include "petacomm/sharing/pack.h"

#include "petacomm/base/row_widths.h"

namespace petacomm {

template <typename T>
void pack(const T* values, const std::int32_t* positions, std::int64_t n, std::int64_t k, T* out,
          int n_threads) {
    with_constant(k, [=](auto width) {
#pragma omp parallel for schedule(static) num_threads(n_threads)
        for (std::int64_t i = 0; i < n; ++i)
            for (std::int64_t c = 0; c < width; ++c) out[i * width + c] = values[positions[i] * width + c];
    });
}

template <typename T>
void unpack(const T* buffer, const std::int32_t* positions, std::int64_t n, std::int64_t k, T* values,
            int n_threads) {
    with_constant(k, [=](auto width) {
#pragma omp parallel for schedule(static) num_threads(n_threads)
        for (std::int64_t i = 0; i < n; ++i)
            for (std::int64_t c = 0; c < width; ++c) values[positions[i] * width + c] = buffer[i * width + c];
    });
}

#define PETAMAP_INSTANTIATE(T)                                                                 \
    template void pack<T>(const T*, const std::int32_t*, std::int64_t, std::int64_t, T*, int); \
    template void unpack<T>(const T*, const std::int32_t*, std::int64_t, std::int64_t, T*, int);
PETAMAP_INSTANTIATE(std::int64_t)
PETAMAP_INSTANTIATE(double)
PETAMAP_INSTANTIATE(float)
PETAMAP_INSTANTIATE(std::uint8_t)
#undef PETAMAP_INSTANTIATE

}  // namespace petacomm

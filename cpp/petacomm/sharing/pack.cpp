#include "petacomm/sharing/pack.h"

#include "petacomm/base/row_widths.h"

namespace petacomm {

namespace {

// Call move(i, position) for all n positions that are rows; return whether all are.
template <typename Move>
bool at_rows(const std::int32_t* positions, std::int64_t n, std::int64_t n_rows, int n_threads, Move move) {
    bool fits = true;
#pragma omp parallel for schedule(static) num_threads(n_threads) reduction(&& : fits)
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t position = positions[i];
        if (position >= 0 && position < n_rows)
            move(i, position);
        else
            fits = false;
    }
    return fits;
}

}  // namespace

template <typename T>
bool pack(const T* values, std::int64_t n_rows, const std::int32_t* positions, std::int64_t n, std::int64_t k,
          T* out, int n_threads) {
    return with_constant(k, [=](auto width) {
        return at_rows(positions, n, n_rows, n_threads, [=](std::int64_t i, std::int64_t position) {
            for (std::int64_t c = 0; c < width; ++c) out[i * width + c] = values[position * width + c];
        });
    });
}

template <typename T>
bool unpack(const T* buffer, const std::int32_t* positions, std::int64_t n, std::int64_t k, T* values,
            std::int64_t n_rows, int n_threads) {
    return with_constant(k, [=](auto width) {
        return at_rows(positions, n, n_rows, n_threads, [=](std::int64_t i, std::int64_t position) {
            for (std::int64_t c = 0; c < width; ++c) values[position * width + c] = buffer[i * width + c];
        });
    });
}

#define PETAMAP_INSTANTIATE(T)                                                                               \
    template bool pack<T>(const T*, std::int64_t, const std::int32_t*, std::int64_t, std::int64_t, T*, int); \
    template bool unpack<T>(const T*, const std::int32_t*, std::int64_t, std::int64_t, T*, std::int64_t, int);
PETAMAP_INSTANTIATE(std::int64_t)
PETAMAP_INSTANTIATE(double)
PETAMAP_INSTANTIATE(float)
PETAMAP_INSTANTIATE(std::uint8_t)
#undef PETAMAP_INSTANTIATE

}  // namespace petacomm

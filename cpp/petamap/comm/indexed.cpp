#include "petamap/comm/indexed.h"

#include <type_traits>

#include "petamap/comm/operations.h"

namespace petamap::comm {

namespace {

// The number of values a row as a constant where it is a common one: Stokes I, QU, IQU, and their covariance.
template <typename Body>
void with_constant(std::int64_t k, Body body) {
    switch (k) {
        case 1:
            return body(std::integral_constant<std::int64_t, 1>{});
        case 2:
            return body(std::integral_constant<std::int64_t, 2>{});
        case 3:
            return body(std::integral_constant<std::int64_t, 3>{});
        case 6:
            return body(std::integral_constant<std::int64_t, 6>{});
        default:
            return body(k);
    }
}

// A row as received, or this rank's own where the source is negative.
template <typename T>
const T* row_from(std::int64_t source, const T* own, const T* received, std::int64_t width) {
    return source < 0 ? own : received + source * width;
}

template <typename T, typename Reduce>
void combine_rows(const T* received, const std::int32_t* positions, const std::int64_t* offsets,
                  const std::int32_t* sources, std::int64_t n, std::int64_t k, Reduce reduce, T* values,
                  int n_threads) {
    with_constant(k, [=](auto width) {
#pragma omp parallel for schedule(static) num_threads(n_threads)
        for (std::int64_t i = 0; i < n; ++i) {
            T* row = values + positions[i] * width;
            for (std::int64_t c = 0; c < width; ++c) {
                T total = row_from(sources[offsets[i]], row, received, width)[c];
                for (std::int64_t j = offsets[i] + 1; j < offsets[i + 1]; ++j)
                    total = reduce(total, row_from(sources[j], row, received, width)[c]);
                row[c] = total;
            }
        }
    });
}

}  // namespace

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

template <typename T>
void combine(const T* received, const std::int32_t* positions, const std::int64_t* offsets,
             const std::int32_t* sources, std::int64_t n, std::int64_t k, Operation operation, T* values,
             int n_threads) {
    with_operation<T>(operation, [=](auto reduce) {
        combine_rows(received, positions, offsets, sources, n, k, reduce, values, n_threads);
    });
}

#define PETAMAP_INSTANTIATE(T)                                                                        \
    template void pack<T>(const T*, const std::int32_t*, std::int64_t, std::int64_t, T*, int);        \
    template void unpack<T>(const T*, const std::int32_t*, std::int64_t, std::int64_t, T*, int);      \
    template void combine<T>(const T*, const std::int32_t*, const std::int64_t*, const std::int32_t*, \
                             std::int64_t, std::int64_t, Operation, T*, int);
PETAMAP_INSTANTIATE(std::int64_t)
PETAMAP_INSTANTIATE(double)
PETAMAP_INSTANTIATE(float)
PETAMAP_INSTANTIATE(std::uint8_t)
#undef PETAMAP_INSTANTIATE

}  // namespace petamap::comm

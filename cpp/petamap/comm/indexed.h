// Moving rows of values between a vector and message buffers, and reducing what several ranks sent.
#pragma once

#include <cstdint>

namespace petamap::comm {

enum class Operation { sum, max, min, bit_or };

// out[i, :] = values[positions[i], :] for rows of k values.
template <typename T>
void pack(const T* values, const std::int32_t* positions, std::int64_t n, std::int64_t k, T* out,
          int n_threads);

// values[positions[i], :] = buffer[i, :]; positions are distinct.
template <typename T>
void unpack(const T* buffer, const std::int32_t* positions, std::int64_t n, std::int64_t k, T* values,
            int n_threads);

// values[positions[i], :] = the reduction, in this order, of received[sources[j], :] for
// offsets[i] <= j < offsets[i + 1], where a negative source stands for values[positions[i], :] itself.
// Sources in rank order give every holder of a key the same bits, in floating point too.
// Integer sums wrap around.
template <typename T>
void combine(const T* received, const std::int32_t* positions, const std::int64_t* offsets,
             const std::int32_t* sources, std::int64_t n, std::int64_t k, Operation operation, T* values,
             int n_threads);

}  // namespace petamap::comm

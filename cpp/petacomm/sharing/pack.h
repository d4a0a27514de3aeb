// Moving rows of values between a vector and message buffers.
#pragma once

#include <cstdint>

namespace petacomm {

// out[i, :] = values[positions[i], :] for rows of k values.
template <typename T>
void pack(const T* values, const std::int32_t* positions, std::int64_t n, std::int64_t k, T* out,
          int n_threads);

// values[positions[i], :] = buffer[i, :]; positions are distinct.
template <typename T>
void unpack(const T* buffer, const std::int32_t* positions, std::int64_t n, std::int64_t k, T* values,
            int n_threads);

}  // namespace petacomm

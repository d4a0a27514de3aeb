// Moving rows of values between a vector and message buffers.
#pragma once

#include <cstdint>

namespace petacomm {

// out[i, :] = values[positions[i], :] for rows of k values. Returns false where a position is none of n_rows;
// its row is left out.
template <typename T>
bool pack(const T* values, std::int64_t n_rows, const std::int32_t* positions, std::int64_t n, std::int64_t k,
          T* out, int n_threads);

// values[positions[i], :] = buffer[i, :]; positions are distinct. Returns as `pack`.
template <typename T>
bool unpack(const T* buffer, const std::int32_t* positions, std::int64_t n, std::int64_t k, T* values,
            std::int64_t n_rows, int n_threads);

}  // namespace petacomm

// The number of values of a row as a constant.
#pragma once

#include <cstdint>
#include <type_traits>

namespace petacomm {

// Call body(k), with a constant where k is a common one: Stokes I, QU, IQU, and their covariance.
template <typename Body>
auto with_constant(std::int64_t k, Body body) {
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

}  // namespace petacomm

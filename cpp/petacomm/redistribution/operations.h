// The operations of reductions on two values.
#pragma once

#include <type_traits>

namespace petacomm {

enum class Operation { sum, max, min, bit_or };

template <typename T>
T add(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        using Word = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<Word>(static_cast<Word>(a) + static_cast<Word>(b)));
    } else {
        return a + b;
    }
}

template <typename T>
T bit_or(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(a | b);
    } else {
        return a;  // the caller refuses it
    }
}

// Call body with the function of two values that `operation` names.
template <typename T, typename Body>
void with_operation(Operation operation, Body body) {
    switch (operation) {
        case Operation::sum:
            return body([](T a, T b) { return add(a, b); });
        case Operation::max:
            return body([](T a, T b) { return a < b ? b : a; });
        case Operation::min:
            return body([](T a, T b) { return b < a ? b : a; });
        case Operation::bit_or:
            return body([](T a, T b) { return bit_or(a, b); });
    }
}

}  // namespace petacomm

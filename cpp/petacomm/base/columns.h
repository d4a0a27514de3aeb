// Several columns of numbers side by side: one vector register holds the value of each, so that every column
// gets the operations that it would get alone, and the same bits.
#pragma once

#include <type_traits>

#include "petacomm/base/simd.h"

namespace petacomm {

// The widths that kernels are made for; what has fewer columns has some of zeros.
constexpr int kWidths[] = {1, 2, 4, 8};

template <int kWidth>
using RealColumns = Reals<kWidth>;
template <int kWidth>
using WholeColumns = Wholes<kWidth>;

// Call work(std::integral_constant<int, w>) for the width w.
template <class Work>
auto for_width(int width, const Work& work) {
    switch (width) {
        case 1:
            return work(std::integral_constant<int, 1>{});
        case 2:
            return work(std::integral_constant<int, 2>{});
        case 4:
            return work(std::integral_constant<int, 4>{});
        default:
            return work(std::integral_constant<int, 8>{});
    }
}

}  // namespace petacomm

// The largest size of many numbers, seen some at a time. Compilers make no vectors of a maximum of doubles.
#pragma once

#include <algorithm>

#include "petacomm/base/simd.h"

namespace petamap::mapmaking {

class LargestSize {
  public:
    template <int kLanes>
    [[gnu::always_inline]] void see(petacomm::Reals<kLanes> number) {
        const auto size = petacomm::size_of(number);
        if constexpr (kLanes == 1) {
            one_ = petacomm::larger(size, one_);
            rest_of_one_ += number - number;
        } else {
            many_ = petacomm::larger(size, many_);
            rest_ += number - number;
        }
    }

    double ignoring_nan() const {
        double most = one_;
        for (int lane = 0; lane < petacomm::kNativeLanes; ++lane) most = std::max(most, many_[lane]);
        return most;
    }

    // NaN where a number was infinite, too.
    double propagating_nan() const {
        double rest = rest_of_one_;
        for (int lane = 0; lane < petacomm::kNativeLanes; ++lane) rest += rest_[lane];
        return ignoring_nan() + rest;
    }

  private:
    petacomm::Reals<petacomm::kNativeLanes> many_{}, rest_{};
    double one_ = 0, rest_of_one_ = 0;
};

}  // namespace petamap::mapmaking

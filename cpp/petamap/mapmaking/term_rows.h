// Terms of samples on their way to the sums of their pixels: made some samples at a time, added row by row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "petacomm/base/simd.h"
#include "petamap/mapmaking/project.h"

namespace petamap::mapmaking {

// kTerms integers of each sample of a chunk, side by side, as they lie in the row of its pixel: a row is
// added in a few vectors, and its terms are not read from as many places of memory.
template <int kTerms>
class TermRows {
  public:
    static constexpr int kGroup = 4;

    // Keep the terms of samples [i, i + kLanes).
    template <int kLanes>
    [[gnu::always_inline]] void keep(std::int64_t i, const petacomm::Wholes<kLanes> (&terms)[kTerms]) {
        for (int first = 0; first < kTerms; first += kGroup) {
            petacomm::Wholes<kLanes> group[kGroup]{};
            for (int k = 0; k < std::min(kGroup, kTerms - first); ++k) group[k] = terms[first + k];
            keep<kLanes>(i, first, group);
        }
    }

    // Keep terms [first, first + kGroup) of them.
    template <int kLanes>
    [[gnu::always_inline]] void keep(std::int64_t i, int first,
                                     const petacomm::Wholes<kLanes> (&group)[kGroup]) {
        petacomm::store_rows<kLanes>(rows_[i] + first, kRow, group);
    }

    // Add those of sample i. Without signs, as sums of many samples may wrap around.
    [[gnu::always_inline]] void add(std::int64_t i, std::int64_t* row) const {
        constexpr int kWide = std::min(kGroup, petacomm::kNativeLanes);
        int k = 0;
        for (; k + kWide <= kTerms; k += kWide) add_some<kWide>(rows_[i] + k, row + k);
        for (; k + 2 <= kTerms; k += 2) add_some<2>(rows_[i] + k, row + k);
        if constexpr (kTerms % 2 == 1) add_some<1>(rows_[i] + k, row + k);
    }

  private:
    static constexpr int kRow = (kTerms + kGroup - 1) / kGroup * kGroup;

    template <int kSome>
    [[gnu::always_inline]] static void add_some(const std::int64_t* terms, std::int64_t* to) {
        using Some = petacomm::Bits<kSome>;
        petacomm::store(to, petacomm::load<Some>(to) + petacomm::load<Some>(terms));
    }

    alignas(64) std::int64_t rows_[kChunk][kRow];
};

}  // namespace petamap::mapmaking
